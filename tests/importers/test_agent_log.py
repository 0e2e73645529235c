"""Session logs of coding agents: who wrote a line, what it answers, and what is no message."""

import json

import pytest

from roomlore.importers.assistants.agent_log import IMPORTER


def line(id_, parent=None, content="hello", role="user", **more):
    message = {"role": role, "content": content}
    if role == "assistant":
        message["model"] = "some-model"
    return {
        "type": role,
        "uuid": id_,
        "parentUuid": parent,
        "sessionId": "abcdef12-0000",
        "cwd": "/srv/harbour",
        "timestamp": "2026-01-05T10:00:00.000Z",
        "isSidechain": False,
        "message": message,
    } | more


def item(payload, at="2026-01-05T10:00:01.000Z"):
    return {"timestamp": at, "type": "response_item", "payload": payload}


def spoken(role, text, kind="input_text"):
    return item({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


META = {
    "timestamp": "2026-01-05T10:00:00.000Z",
    "type": "session_meta",
    "payload": {"id": "r1", "cwd": "/x/quay", "originator": "some_cli"},
}


@pytest.fixture
def log(read, write):
    def run(*lines):
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
        return read(IMPORTER, write({"session.jsonl": text + "\n"}))

    return run


def test_a_session_is_a_direct_conversation_of_a_person_and_an_agent(log):
    result = log(line("1", content="Fix the tide table"), line("2", "1", "Done.", "assistant"))
    question, answer = result.messages
    assert (question.author.account_id, question.author.kind) == ("user", "human")
    assert (answer.author.account_id, answer.author.kind) == ("assistant", "agent")
    assert (answer.reply_to, answer.metadata["platform"]) == ("1", {"model": "some-model"})
    room = question.room
    assert (room.external_id, room.name, room.kind, room.visibility) == (
        "abcdef12-0000",
        "harbour abcdef12",
        "dm",
        "members",
    )
    assert [member.author.account_id for member in room.members] == ["user", "assistant"]


def test_results_are_the_tools_and_not_the_persons(log):
    result = log(
        line("1"),
        line(
            "2",
            "1",
            [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file": "tide.py"}},
            ],
            "assistant",
        ),
        line(
            "3",
            "2",
            [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "high = 3"}]}],
            toolUseResult={"file": "high = 3"},
        ),
        line("4", "3", "Thanks"),
    )
    assert [(m.external_id, m.author.account_id, m.body, m.reply_to) for m in result.messages] == [
        ("1", "user", "hello", None),
        ("2", "assistant", "I look.", "1"),
        ("3:result-1", "tool-Read", "high = 3", "2"),
        ("4", "user", "Thanks", "3:result-1"),
    ]
    assert result.by_id("2").attachments == [
        {"type": "tool call", "name": "Read", "text": '{"file": "tide.py"}'}
    ]


def test_a_word_of_the_person_beside_a_result_stays_without_the_result(log):
    result = log(
        line(
            "1",
            content=[
                {"type": "tool_result", "tool_use_id": "t9", "content": "refused"},
                {"type": "text", "text": "Do not do this"},
            ],
            toolUseResult="refused",
        )
    )
    own, output = result.messages
    assert (own.author.account_id, own.body) == ("user", "Do not do this")
    assert (output.author.account_id, output.body) == ("tool", "refused")
    assert "refused" not in json.dumps(own.raw)


def test_reasoning_and_other_lines_are_left_out_and_replies_pass_them(log):
    result = log(
        {"type": "summary", "summary": "Tides", "leafUuid": "5"},
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}},
        line("1"),
        line("2", "1", [{"type": "thinking", "thinking": "hm"}], "assistant"),
        line("3", "2", type="attachment"),
        line("4", "3", "Caveat", isMeta=True),
        line("5", "4", "Done.", "assistant"),
    )
    assert [(m.external_id, m.reply_to) for m in result.messages] == [("1", None), ("5", "1")]
    assert result.reasons == [
        "not a message",
        "not a message",
        "reasoning of the model",
        "not a message",
        "written by the program",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>be brief</system-reminder>",
        "<local-command-stdout>ok</local-command-stdout>",
        "<command-name>/clear</command-name>",
    ],
)
def test_what_the_program_wrote_is_nobodys_word(log, text):
    alone = log(line("1", content=text)).only
    assert (alone.kind, alone.author.account_id, alone.author.kind, alone.body) == (
        "system",
        "",
        "system",
        text,
    )
    beside = log(line("1", content=[{"type": "text", "text": text}, {"type": "text", "text": "Go on"}])).only
    assert (beside.kind, beside.author.account_id, beside.body) == ("message", "user", "Go on")


def test_words_of_the_person_after_those_of_the_program_are_kept(log):
    text = "<system-reminder>be brief</system-reminder>\n<command-name>/x</command-name>\n Fix it"
    message = log(line("1", content=text)).only
    assert (message.kind, message.author.account_id, message.body) == ("message", "user", "Fix it")


def test_a_log_may_be_one_object(read, write):
    lines = [line(None), line(None, content="Done.", role="assistant"), {"type": "progress"}]
    for one in lines:
        one.pop("uuid", None)
        one.pop("sessionId", None)
    result = read(IMPORTER, write({"web.json": {"loglines": lines}}))
    assert [(m.room.external_id, m.author.account_id) for m in result.messages] == [
        ("web", "user"),
        ("web", "assistant"),
    ]
    assert [record.where for record in result.skipped] == ["web.json line 1 line 3"]


def test_a_person_may_write_about_tags(log):
    message = log(line("1", content="What is <system-reminder>?")).only
    assert (message.kind, message.author.account_id) == ("message", "user")


def test_in_the_work_of_a_subagent_the_agent_asks(log):
    result = log(
        line("1"),
        line("2", "1", "Search tides", isSidechain=True, agentId="a1"),
        line("3", "2", "Found them", "assistant", isSidechain=True, agentId="a1"),
    )
    assert [(m.author.account_id, m.author.kind) for m in result.messages] == [
        ("user", "human"),
        ("assistant", "agent"),
        ("a1", "agent"),
    ]


def test_a_rollout_log(log):
    result = log(
        META,
        spoken("user", "<environment_context>x</environment_context>"),
        spoken("user", "List the boats"),
        item({"type": "reasoning", "summary": [], "content": None}),
        item({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"}),
        item({"type": "function_call_output", "call_id": "c1", "output": "tern"}),
        {"timestamp": "2026-01-05T10:00:01.000Z", "type": "event_msg", "payload": {"type": "agent_message"}},
        spoken("assistant", "One boat: tern", "output_text"),
    )
    assert [(m.kind, m.author.account_id, m.body) for m in result.messages] == [
        ("system", "", "<environment_context>x</environment_context>"),
        ("message", "user", "List the boats"),
        ("message", "some_cli", ""),
        ("message", "tool-shell", "tern"),
        ("message", "some_cli", "One boat: tern"),
    ]
    call, output = result.messages[2:4]
    assert call.attachments == [{"type": "tool call", "name": "shell", "text": '{"command":["ls"]}'}]
    assert output.reply_to == call.external_id
    assert {(m.room.external_id, m.room.name) for m in result.messages} == {("r1", "quay r1")}
    assert all(m.synthetic_id for m in result.messages)
    assert result.reasons == ["not a message", "reasoning of the model", "not a message"]


def test_a_longer_log_has_the_same_ids_and_equal_lines_are_told_apart(log):
    lines = [META, spoken("user", "again"), spoken("user", "again")]
    first, later = log(*lines), log(*lines, spoken("user", "again"))
    ids = [message.external_id for message in later.messages]
    assert len(set(ids)) == 3
    assert ids[:2] == [message.external_id for message in first.messages]


def test_a_copy_of_a_log_beside_it_adds_nothing(read, write):
    text = "\n".join(json.dumps(one) for one in [META, spoken("user", "hi"), line("1")])
    result = read(IMPORTER, write({"a.jsonl": text, "old/a.jsonl": text}))
    assert [message.body for message in result.messages] == ["hi", "hello"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (line("2", timestamp=None), "no time"),
        (line("2", content=5), "wrong type"),
        (line("2", content=""), "no text"),
        (line("2", message={"role": "oracle", "content": "x"}), "no author"),
        (line("2" * 300), "id too long"),
        (item({"type": "message", "role": "user", "content": "x"}, at=None), "no time"),
        (item({"type": "compaction"}), "not a message"),
        ('{"type": "user", "uuid": "2', "truncated JSON"),
        ("{] }", "damaged JSON"),
        ("[]", "not an object"),
        ("[" * 100 + "]" * 100, "nested too deeply"),
    ],
)
def test_a_broken_line_is_skipped_and_the_rest_stays(log, broken, reason):
    result = log(line("1"), broken, line("3"))
    assert [message.external_id for message in result.messages] == ["1", "3"]
    assert result.reasons == [reason]
    assert result.skipped[0].where == "session.jsonl line 2"
