"""Chats in the forms of OpenAI's interfaces, most of which state no times."""

import json
from datetime import UTC, date, datetime

import pytest

from roomlore.importers.assistants.openai_messages import IMPORTER

DAY = date(2026, 1, 5)


def chat(*messages, **more):
    return {"messages": [{"role": role, "content": text} for role, text in messages]} | more


def lines(*values):
    return "\n".join(json.dumps(value) for value in values)


def test_each_line_is_a_conversation(read, write):
    path = write(
        {
            "tuning.jsonl": lines(
                chat(("system", "Be kind"), ("user", "I fell"), ("assistant", "Oh no")),
                chat(("system", "Be kind"), ("user", "I lost"), ("assistant", "It happens")),
            )
        }
    )
    result = read(IMPORTER, path, day=DAY)
    assert [(m.kind, m.author.account_id, m.author.kind, m.body) for m in result.messages][:3] == [
        ("system", "", "system", "Be kind"),
        ("message", "user", "human", "I fell"),
        ("message", "assistant", "agent", "Oh no"),
    ]
    rooms = {message.room.external_id for message in result.messages}
    assert len(rooms) == 2
    assert all(room.startswith("tuning:") for room in rooms)
    assert {(m.room.kind, m.room.visibility) for m in result.messages} == {("dm", "members")}


def test_without_a_time_and_a_day_nothing_is_stored(read, write):
    result = read(IMPORTER, write({"a.jsonl": lines(chat(("user", "hi"), ("assistant", "ho")))}))
    assert result.messages == []
    assert result.reasons == ["no time", "no time"]
    assert "--day" in result.skipped[0].detail


def test_the_day_gives_times_that_are_marked_as_assumed(read, write):
    path = write({"a.jsonl": lines(chat(("user", "hi"), ("assistant", "ho")))})
    result = read(IMPORTER, path, day=DAY)
    assert [message.sent_at for message in result.messages] == [
        datetime(2026, 1, 5, 0, 0, 0, tzinfo=UTC),
        datetime(2026, 1, 5, 0, 0, 1, tzinfo=UTC),
    ]
    assert {message.precision for message in result.messages} == {"min"}
    assert {message.metadata["platform"]["time"] for message in result.messages} == {"assumed"}
    berlin = read(IMPORTER, path, day=DAY, zone="Europe/Berlin")
    assert berlin.messages[0].sent_at == datetime(2026, 1, 4, 23, 0, tzinfo=UTC)


def test_stated_times_count_more_than_the_day(read, write):
    whole = read(IMPORTER, write({"a.json": chat(("user", "hi"), created_at=1_700_000_000)}), day=DAY)
    assert whole.only.sent_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert whole.only.metadata["platform"]["time"] == "assumed"
    single = {"messages": [{"role": "user", "content": "hi", "created_at": 1_700_000_000}]}
    message = read(IMPORTER, write({"a.json": single}), day=DAY).only
    assert (message.sent_at, message.precision, message.metadata) == (whole.only.sent_at, "s", {})


def test_a_message_without_a_time_among_others_with_times_is_skipped(read, write):
    mixed = {
        "messages": [{"role": "user", "content": "a", "created_at": 1}, {"role": "user", "content": "b"}]
    }
    result = read(IMPORTER, write({"a.json": mixed}), day=DAY)
    assert (result.only.body, result.reasons) == ("a", ["no time"])


def test_tools_are_apart(read, write):
    messages = [
        {"role": "user", "content": "Tides?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "High at 3"},
    ]
    question, call, output = read(IMPORTER, write({"a.json": {"messages": messages}}), day=DAY).messages
    assert (call.body, call.attachments) == ("", [{"type": "tool call", "name": "tide", "text": "{}"}])
    assert (output.author.account_id, output.body, output.reply_to) == (
        "tool-tide",
        "High at 3",
        call.external_id,
    )
    assert question.reply_to is call.reply_to is None


def test_the_items_of_a_session_are_one_conversation(read, write):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Tides?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "High at 3"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "At three."}],
        },
    ]
    for content in (items, lines(*items), {"items": items}):
        result = read(IMPORTER, write({"session.json": content}), day=DAY)
        assert [(m.author.account_id, m.body) for m in result.messages] == [
            ("user", "Tides?"),
            ("assistant", ""),
            ("tool-tide", "High at 3"),
            ("assistant", "At three."),
        ]
        assert result.reasons == ["reasoning of the model"]
        assert result.messages[2].reply_to == "fc_1"
        assert len({message.room.external_id for message in result.messages}) == 1


def test_an_old_log_of_an_agent_states_when_it_began(read, write):
    text = lines(
        {"id": "s1", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": "Be kind"},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List"}]},
    )
    result = read(IMPORTER, write({"rollout.jsonl": text}))
    assert result.only.room.external_id == "s1"
    assert result.only.sent_at == datetime(2025, 8, 1, 10, tzinfo=UTC)
    assert result.only.metadata["platform"] == {"time": "assumed"}
    assert result.reasons == ["not a message"]


def test_a_thread_of_the_server_states_its_times(read, write):
    listed = [
        {
            "id": "msg_1",
            "object": "thread.message",
            "thread_id": "thread_1",
            "created_at": 1_700_000_000,
            "role": "user",
            "content": [{"type": "text", "text": {"value": "hi", "annotations": []}}],
        }
    ]
    message = read(IMPORTER, write({"a.json": {"object": "list", "data": listed}})).only
    assert (message.external_id, message.room.external_id, message.body) == ("msg_1", "thread_1", "hi")
    assert message.metadata == {}


def test_named_speakers_keep_their_names(read, write):
    messages = [
        {"role": "user", "name": "Ana", "content": "hi"},
        {"role": "user", "name": "Ben", "content": "ho"},
        {"role": "assistant", "name": "pip", "content": "hello"},
    ]
    result = read(IMPORTER, write({"a.json": {"messages": messages}}), day=DAY)
    assert [(m.author.account_id, m.author.kind) for m in result.messages] == [
        ("Ana", "human"),
        ("Ben", "human"),
        ("pip", "agent"),
    ]
    room = result.messages[0].room
    assert room.kind == "group_dm"
    assert [member.author.account_id for member in room.members] == ["Ana", "Ben", "pip"]


def test_a_conversation_that_goes_on_adds_only_what_is_new(read, write):
    begun = chat(("system", "Be kind"), ("user", "hi"), ("assistant", "ho"))
    longer = chat(("system", "Be kind"), ("user", "hi"), ("assistant", "ho"), ("user", "hi"))
    first = read(IMPORTER, write({"a.jsonl": lines(begun)}), day=DAY)
    later = read(IMPORTER, write({"a.jsonl": lines(chat(("user", "new")), longer)}), day=DAY)
    known = {(m.room.external_id, m.external_id) for m in first.messages}
    found = [(m.room.external_id, m.external_id) for m in later.messages]
    assert known <= set(found)
    assert len(set(found)) == 5


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"role": "oracle", "content": "x"}, "no author"),
        ({"content": "x"}, "no author"),
        ({"role": "user", "content": ""}, "no text"),
        ({"role": "user", "content": True}, "wrong type"),
        ("hello", "not an object"),
        ({"role": "user", "name": "x" * 300, "content": "x"}, "id too long"),
    ],
)
def test_a_broken_message_is_skipped_and_the_rest_stays(read, write, broken, reason):
    messages = [{"role": "user", "content": "a"}, broken, {"role": "user", "content": "b"}]
    result = read(IMPORTER, write({"a.json": {"messages": messages}}), day=DAY)
    assert [message.body for message in result.messages] == ["a", "b"]
    assert result.reasons == [reason]


def test_a_broken_conversation_is_skipped_and_the_others_stay(read, write):
    text = "\n".join(
        [
            json.dumps(chat(("user", "a"))),
            '{"messages": 5}',
            '{"messages": [',
            json.dumps(chat(("user", "b"))),
        ]
    )
    result = read(IMPORTER, write({"a.jsonl": text}), day=DAY)
    assert [message.body for message in result.messages] == ["a", "b"]
    assert sorted(result.reasons) == ["not a conversation", "truncated JSON"]
