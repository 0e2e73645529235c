"""Messages of Zep, Letta and LangChain."""

import json
from datetime import UTC, date, datetime

import pytest

from roomlore.importers.assistants import langchain, letta, zep
from roomlore.importers.reading.export import open_export

AT = "2025-03-01T10:00:00Z"


def zep_message(id_, role="Ana", kind="user", text="hello", **more):
    return {"uuid": id_, "role": role, "role_type": kind, "content": text, "created_at": AT} | more


def test_zep_messages_have_names_and_roles(read, write):
    listed = {
        "session_id": "s1",
        "user_id": "ana-1",
        "messages": [
            zep_message("1"),
            zep_message("2", "Pip", "assistant", "hi"),
            zep_message("3", "user", "user"),
            zep_message("4", "tide", "tool", "High at 3"),
            zep_message("5", "system", "system", "Be kind"),
        ],
    }
    result = read(zep.IMPORTER, write({"a.json": listed}))
    assert [(m.author.account_id, m.author.name, m.author.kind, m.kind) for m in result.messages] == [
        ("ana-1", "Ana", "human", "message"),
        ("Pip", "Pip", "agent", "message"),
        ("ana-1", "ana-1", "human", "message"),
        ("tool-tide", "tide", "agent", "message"),
        ("", "System", "system", "system"),
    ]
    room = result.messages[0].room
    assert (room.external_id, room.kind, room.visibility) == ("s1", "dm", "members")


def test_zep_threads_name_the_author_beside_the_role(read, write):
    message = {"uuid": "1", "name": "Ana", "role": "user", "content": "hi", "created_at": AT}
    found = read(zep.IMPORTER, write({"thread-7.json": {"messages": [message], "row_count": 1}})).only
    assert (found.author.account_id, found.room.external_id, found.external_id) == ("Ana", "thread-7", "1")


def test_zep_lists_may_hold_several_sessions(read, write):
    listed = [zep_message("1", session_id="s1"), zep_message("1", session_id="s2")]
    result = read(zep.IMPORTER, write({"a.json": listed}))
    assert [message.room.external_id for message in result.messages] == ["s1", "s2"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (zep_message("2", created_at="soon"), "no time"),
        (zep_message("2", created_at=None), "no time"),
        (zep_message("2", kind="norole"), "no author"),
        (zep_message("2", text=""), "no text"),
        (zep_message("1"), "message twice"),
        (3, "not an object"),
    ],
)
def test_a_broken_zep_message_is_skipped_and_the_rest_stays(read, write, broken, reason):
    listed = {"messages": [zep_message("1"), broken, zep_message("3")]}
    result = read(zep.IMPORTER, write({"a.json": listed}))
    assert [message.external_id for message in result.messages] == ["1", "3"]
    assert result.reasons == [reason]


def letta_message(role, content, **more):
    return {"role": role, "content": content, "created_at": "2025-03-01T10:00:00+00:00"} | more


def send(text):
    return [{"id": "c1", "function": {"name": "send_message", "arguments": json.dumps({"message": text})}}]


@pytest.fixture
def agent(read, write):
    return lambda *messages: read(
        letta.IMPORTER, write({"pip.af": {"agents": [{"name": "pip", "messages": list(messages)}]}})
    )


def test_a_letta_agent_speaks_by_a_tool_and_thinks_beside_it(agent):
    text = [{"type": "text", "text": "I should greet"}]
    result = agent(
        letta_message("system", [{"type": "text", "text": "You are pip"}]),
        letta_message("user", [{"type": "text", "text": '{"type": "user_message", "message": "hi"}'}]),
        letta_message("assistant", text, tool_calls=send("Hello!"), model="some-model"),
        letta_message("tool", '{"status": "OK", "message": "None"}', name="send_message"),
        letta_message("user", '{"type": "heartbeat", "reason": "go on", "time": "10:00"}'),
        letta_message(
            "assistant", "", tool_calls=[{"id": "c2", "function": {"name": "tide", "arguments": "{}"}}]
        ),
        letta_message("tool", '{"status": "OK", "message": "High at 3"}', name="tide", tool_call_id="c2"),
    )
    assert [(m.kind, m.author.account_id, m.body) for m in result.messages] == [
        ("system", "", "You are pip"),
        ("message", "user", "hi"),
        ("message", "pip", "Hello!"),
        ("system", "", "go on"),
        ("message", "pip", ""),
        ("message", "tool-tide", "High at 3"),
    ]
    assert result.messages[5].reply_to == result.messages[4].external_id
    assert result.reasons == ["no text"]
    assert {message.room.external_id for message in result.messages} == {"pip/pip"}


def test_newer_letta_agents_write_plainly(agent):
    result = agent(letta_message("user", '{"not": "wrapped"}'), letta_message("assistant", "Hello!"))
    assert [message.body for message in result.messages] == ['{"not": "wrapped"}', "Hello!"]


def test_what_a_program_tells_a_letta_agent_is_nobodys_word(agent):
    reminder = "<system-reminder>You are connected</system-reminder>"
    result = agent(letta_message("user", reminder), letta_message("user", f"{reminder}\nhi"))
    assert [(m.kind, m.author.account_id, m.body) for m in result.messages] == [
        ("system", "", reminder),
        ("message", "user", "hi"),
    ]


def test_nobody_but_the_program_talks_to_a_letta_agent_in_the_background(read, write):
    file = {
        "agents": [{"agent_type": "sleeptime_agent", "messages": [letta_message("user", "What was said")]}]
    }
    message = read(letta.IMPORTER, write({"pip.af": file})).only
    assert (message.kind, message.author.account_id) == ("system", "")


def test_a_letta_file_may_be_a_text_in_a_text(read, write):
    file = {"agents": [{"name": "pip", "messages": [letta_message("user", "ho \u00e9 \\")]}]}
    path = write({"pip.af": json.dumps(json.dumps(file))})
    with open_export(path) as source:
        assert letta.IMPORTER.recognises(source)
    assert read(letta.IMPORTER, path).only.body == "ho \u00e9 \\"


def test_older_letta_files_hold_one_agent(read, write):
    file = {
        "agent_type": "memgpt_agent",
        "core_memory": [{"label": "human", "value": "likes boats"}],
        "name": "pip",
        "messages": [{"role": "user", "text": "hi", "created_at": "2025-03-01T10:00:00.5"}],
    }
    message = read(letta.IMPORTER, write({"pip.af": file})).only
    assert (message.body, message.sent_at) == ("hi", datetime(2025, 3, 1, 10, 0, 0, 500_000, tzinfo=UTC))
    assert message.metadata["platform"]["time_zone"] == "assumed UTC"


def test_messages_of_the_letta_server(read, write):
    def stated(id_, kind, **more):
        return {"id": id_, "message_type": kind, "date": AT} | more

    listed = [
        stated("1", "user_message", content="hi"),
        stated("2", "reasoning_message", reasoning="hm"),
        stated(
            "2",
            "tool_call_message",
            tool_call={"name": "tide", "arguments": "{}", "tool_call_id": "c1"},
        ),
        stated("3", "tool_return_message", tool_return="High at 3", tool_call_id="c1", name="tide"),
        stated("4", "assistant_message", content="At three."),
        stated("5", "stop_reason"),
    ]
    result = read(letta.IMPORTER, write({"pip.json": listed}))
    assert [(m.author.account_id, m.body) for m in result.messages] == [
        ("user", "hi"),
        ("assistant", ""),
        ("tool-tide", "High at 3"),
        ("assistant", "At three."),
    ]
    assert result.messages[2].reply_to == "2:tool_call_message"
    assert result.reasons == ["reasoning of the model", "not a message"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (letta_message("oracle", "x"), "no author"),
        (letta_message("user", "x", created_at=None), "no time"),
        (letta_message("user", ""), "no text"),
        (letta_message("user", 7), "wrong type"),
        (None, "not an object"),
    ],
)
def test_a_broken_letta_message_is_skipped_and_the_rest_stays(agent, broken, reason):
    result = agent(letta_message("user", "a"), broken, letta_message("user", "b"))
    assert [message.body for message in result.messages] == ["a", "b"]
    assert result.reasons == [reason]


def human(id_, text="hello"):
    return {"type": "human", "id": id_, "content": text, "additional_kwargs": {}}


def constructed(kind, **kwargs):
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}


def state(at, *messages, thread="t1"):
    return {
        "values": {"messages": list(messages)},
        "created_at": at,
        "config": {"configurable": {"thread_id": thread}},
    }


def test_a_message_of_langgraph_is_as_old_as_its_first_checkpoint(read, write):
    answer = {"type": "ai", "id": "2", "content": "ho", "response_metadata": {"model_name": "some-model"}}
    history = [
        state("2025-03-01T10:00:05+00:00", human("1"), answer),
        state("2025-03-01T10:00:01+00:00", human("1")),
    ]
    for content in (history, history[::-1]):
        result = read(langchain.IMPORTER, write({"a.json": content}))
        assert [(m.external_id, m.author.account_id, m.sent_at.second) for m in result.messages] == [
            ("1", "user", 1),
            ("2", "assistant", 5),
        ]
        assert result.messages[1].metadata["platform"] == {"time": "checkpoint", "model": "some-model"}
        assert {message.room.external_id for message in result.messages} == {"t1"}


def test_threads_of_one_file_stay_apart(read, write):
    listed = [state(AT, human("1")), state(AT, human("1"), thread="t2")]
    result = read(langchain.IMPORTER, write({"a.json": listed}))
    assert [message.room.external_id for message in result.messages] == ["t1", "t2"]


def test_rows_of_a_table_of_chat_histories(read, write):
    rows = [
        {"id": 1, "session_id": "s1", "message": human("", "hi"), "created_at": AT},
        {"id": 2, "session_id": "s2", "message": {"type": "ai", "data": {"content": "ho"}}, "created_at": AT},
        {"id": 3, "session_id": "s1", "message": human("", "hi")},
    ]
    result = read(langchain.IMPORTER, write({"a.json": rows}))
    assert [(m.room.external_id, m.author.account_id, m.body, m.metadata) for m in result.messages] == [
        ("s1", "user", "hi", {}),
        ("s2", "assistant", "ho", {}),
    ]
    assert result.reasons == ["no time"]


def test_each_way_to_write_a_langchain_message(read, write):
    call = {"name": "tide", "args": {}, "id": "c1", "type": "tool_call"}
    listed = [
        constructed("SystemMessage", content="Be kind"),
        {"type": "human", "data": {"content": "Tides?", "type": "human"}},
        constructed(
            "AIMessage",
            content=[{"type": "tool_use", "id": "c1", "name": "tide", "input": {}}],
            tool_calls=[call],
            id="m3",
        ),
        constructed("ToolMessage", content="High at 3", tool_call_id="c1"),
        {"type": "AIMessageChunk", "content": "At three.", "response_metadata": {}},
    ]
    result = read(langchain.IMPORTER, write({"a.json": listed}), day=date(2026, 1, 5))
    assert [(m.kind, m.author.account_id, m.body) for m in result.messages] == [
        ("system", "", "Be kind"),
        ("message", "user", "Tides?"),
        ("message", "assistant", ""),
        ("message", "tool-tide", "High at 3"),
        ("message", "assistant", "At three."),
    ]
    # The call is stated twice and told once.
    assert result.messages[2].attachments == [{"type": "tool call", "name": "tide"}]
    assert result.messages[3].reply_to == "m3"
    assert read(langchain.IMPORTER, write({"a.json": listed})).reasons == ["no time"] * 5


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (constructed("RemoveMessage", id="9"), "not a message"),
        (human("2", ""), "no text"),
        (human("2" * 300), "id too long"),
        ({"type": "human", "content": False}, "wrong type"),
        (None, "not an object"),
    ],
)
def test_a_broken_langchain_message_is_skipped_and_the_rest_stays(read, write, broken, reason):
    result = read(langchain.IMPORTER, write({"a.json": state(AT, human("1"), broken, human("3"))}))
    assert [message.external_id for message in result.messages] == ["1", "3"]
    assert result.reasons == [reason]


def test_a_state_without_messages_is_skipped(read, write):
    listed = [state(AT, human("1")), {"values": {}}, {"values": {"messages": "x"}}]
    result = read(langchain.IMPORTER, write({"a.json": listed}))
    assert (result.only.external_id, result.reasons) == ("1", ["no messages", "not a conversation"])
