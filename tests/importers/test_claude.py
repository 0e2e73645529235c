"""Claude's data export: conversations, their blocks, uploads and accounts."""

import pytest

from roomlore.importers.assistants.claude import IMPORTER

ROOT = "00000000-0000-4000-8000-000000000000"


def said(id_, sender="human", text="hello", **more):
    return {
        "uuid": id_,
        "sender": sender,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "created_at": "2025-03-01T10:00:00.123456Z",
        "attachments": [],
        "files": [],
    } | more


def conversation(*messages, **more):
    return {
        "uuid": "c1",
        "name": "Tides",
        "created_at": "2025-03-01T10:00:00Z",
        "account": {"uuid": "u1"},
        "chat_messages": list(messages),
    } | more


@pytest.fixture
def one(read, write):
    return lambda *messages, **more: read(
        IMPORTER, write({"conversations.json": [conversation(*messages, **more)]})
    )


def test_the_two_sides_of_a_conversation(read, write):
    path = write(
        {
            "conversations.json": [conversation(said("1"), said("2", "assistant", "At three."))],
            "users.json": [{"uuid": "u1", "full_name": "Ana Quay"}, {"uuid": "u2", "full_name": "Ben"}],
            "projects.json": [{"uuid": "p1", "name": "Harbour", "docs": []}],
        }
    )
    result = read(IMPORTER, path)
    first, second = result.messages
    assert (first.author.account_id, first.author.name, first.author.kind) == ("u1", "Ana Quay", "human")
    assert (second.author.account_id, second.author.name, second.author.kind) == (
        "assistant",
        "Claude",
        "agent",
    )
    assert (first.precision, first.order, second.order) == ("us", 1, 2)
    room = first.room
    assert (room.external_id, room.name, room.kind, room.visibility) == ("c1", "Tides", "dm", "members")
    assert [member.author.account_id for member in room.members] == ["u1", "assistant"]
    assert result.skipped == []


def test_without_stated_parents_nothing_is_a_reply(one):
    assert [message.reply_to for message in one(said("1"), said("2", "assistant")).messages] == [None, None]


def test_stated_parents_are_replies_and_other_branches_are_marked(one):
    result = one(
        said("1", parent_message_uuid=ROOT),
        said("2", "assistant", parent_message_uuid="1"),
        said("3", "assistant", parent_message_uuid="1"),
        current_leaf_message_uuid="3",
    )
    found = [
        (m.external_id, m.reply_to, m.metadata.get("platform", {}).get("branch")) for m in result.messages
    ]
    assert found == [("1", None, None), ("2", "1", "other"), ("3", "1", None)]


def test_reasoning_is_left_out_and_tools_speak_for_themselves(one):
    result = one(
        said("1"),
        said(
            "2",
            "assistant",
            "",
            parent_message_uuid="1",
            content=[
                {"type": "thinking", "thinking": "secret plan"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "tides"}},
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "High at 3"}],
                },
                {"type": "text", "text": "At three."},
            ],
        ),
        said("3", parent_message_uuid="2"),
    )
    answer, output = result.by_id("2"), result.by_id("2:result-1")
    assert answer.body == "I look.\nAt three."
    assert answer.attachments == [{"type": "tool call", "name": "web_search", "text": '{"query": "tides"}'}]
    assert (output.author.account_id, output.author.kind) == ("tool-web_search", "agent")
    assert (output.body, output.reply_to, output.synthetic_id) == ("High at 3", "2", True)
    # If the result is erased, its text must not stay with the answer.
    assert "High at 3" not in str(answer.raw)
    assert result.by_id("3").reply_to == "2"


def test_a_result_may_be_in_a_later_message(one):
    call = {"type": "tool_use", "id": "t1", "name": "tide", "input": {}}
    picture = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": {}}]}
    result = one(
        said("1", "assistant", "", content=[call]),
        said("2", text="", content=[{"type": "tool_result", "tool_use_id": "t1", "content": "High at 3"}]),
        said("3", text="", content=[picture]),
        said("4", "assistant", "", content=[{"type": "token_budget", "remaining": 5}]),
    )
    assert [(m.external_id, m.author.account_id, m.body, m.reply_to) for m in result.messages] == [
        ("1", "assistant", "", None),
        ("2:result-1", "tool-tide", "High at 3", "1"),
    ]
    assert result.reasons == ["no text", "no text"]


def test_a_message_of_reasoning_alone_is_left_out_and_replies_pass_it(one):
    thinking = [{"type": "thinking", "thinking": "hm"}]
    result = one(
        said("1", parent_message_uuid=ROOT),
        said("2", "assistant", "", content=thinking, parent_message_uuid="1"),
        said("3", "assistant", parent_message_uuid="2"),
    )
    assert [(m.external_id, m.reply_to) for m in result.messages] == [("1", None), ("3", "1")]
    assert result.reasons == ["reasoning of the model"]


def test_an_uploaded_document_is_not_the_persons_words(one):
    message = one(
        said(
            "1",
            text="Read this",
            attachments=[
                {"file_name": "t.txt", "file_type": "txt", "extracted_content": "High at 3"},
            ],
            files=[{"file_name": "t.txt"}, {"file_name": "boat.png", "file_uuid": "f1"}],
            files_v2=[{"file_name": "boat.png", "file_uuid": "f1"}],
        )
    ).only
    assert message.body == "Read this"
    assert message.attachments == [
        {"type": "document", "name": "t.txt", "text": "High at 3", "mime": "txt"},
        {"type": "file", "name": "boat.png", "id": "f1"},
    ]


def test_older_exports_have_only_a_text(one):
    message = said("1", text="hello")
    del message["content"]
    assert one(message).only.body == "hello"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (said("2", created_at=None), "no time"),
        (said("2", created_at="2025-03-01T10:00:00"), "no time zone"),
        (said("2", sender="oracle"), "no author"),
        (said("2", sender=None), "no author"),
        (said("2", text="", content=[]), "no text"),
        (said("2", content=5), "wrong type"),
        (said(""), "no id"),
        (said("1"), "message twice"),
        (None, "not an object"),
    ],
)
def test_a_broken_message_is_skipped_and_the_rest_stays(one, broken, reason):
    result = one(said("1"), broken, said("3"))
    assert [message.external_id for message in result.messages] == ["1", "3"]
    assert result.reasons == [reason]


def test_a_broken_conversation_is_skipped_and_the_others_stay(read, write):
    listed = [
        conversation(said("1")),
        conversation(said("1"), uuid=None),
        conversation(chat_messages="none"),
        7,
        conversation(said("1"), uuid="c2", account=None, name=""),
    ]
    result = read(IMPORTER, write({"conversations.json": listed}))
    assert [(m.room.name, m.author.account_id) for m in result.messages] == [("Tides", "u1"), ("c2", "user")]
    assert result.reasons == ["no room", "not a conversation", "not an object"]
