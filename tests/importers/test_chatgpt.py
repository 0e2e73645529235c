"""ChatGPT's data export: trees of messages, what they hide, and whose they are."""

import json
import zipfile
from datetime import UTC, datetime

import pytest

from roomlore.importers.assistants.chatgpt import IMPORTER


def node(id_, parent, role="user", text="hello", *, content=None, at=1_700_000_000, **more):
    message = {
        "id": id_,
        "author": {"role": role, "name": more.pop("tool", None)},
        "create_time": at,
        "content": content or {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "weight": more.pop("weight", 1.0),
        "metadata": more.pop("metadata", {}),
        "recipient": more.pop("recipient", "all"),
    }
    return {"id": id_, "message": message | more, "parent": parent, "children": []}


def conversation(*nodes, **more):
    root = {"id": "root", "message": None, "parent": None, "children": []}
    return {
        "title": "Tides",
        "conversation_id": "c1",
        "current_node": nodes[-1]["id"] if nodes else "root",
        "mapping": {one["id"]: one for one in (root, *nodes)},
    } | more


@pytest.fixture
def one(read, write):
    return lambda *nodes, **more: read(
        IMPORTER, write({"conversations.json": [conversation(*nodes, **more)]})
    )


def test_a_question_and_its_answer_are_a_direct_conversation_of_two(one):
    result = one(
        node("a", "root", text="When is high tide?", at=1_700_000_000.25),
        node("b", "a", "assistant", "At three.", metadata={"model_slug": "gpt-4o"}),
    )
    question, answer = result.messages
    assert (question.author.account_id, question.author.kind) == ("user", "human")
    assert (answer.author.account_id, answer.author.name, answer.author.kind) == (
        "assistant",
        "ChatGPT",
        "agent",
    )
    assert (question.body, question.reply_to, answer.reply_to) == ("When is high tide?", None, "a")
    assert question.sent_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    assert (question.precision, answer.precision) == ("us", "s")
    assert answer.metadata["platform"] == {"model": "gpt-4o"}
    room = question.room
    assert (room.external_id, room.name, room.kind, room.visibility) == ("c1", "Tides", "dm", "members")
    assert [member.author.account_id for member in room.members] == ["user", "assistant"]
    assert result.skipped == []


def test_the_person_is_who_the_export_names(read, write):
    path = write(
        {
            "conversations.json": [conversation(node("a", "root"))],
            "user.json": {"id": "user-7", "email": "ana@example.org"},
        }
    )
    author = read(IMPORTER, path).only.author
    assert (author.account_id, author.name) == ("user-7", "ana@example.org")


@pytest.mark.parametrize("user", [[], {"id": 7}, {"id": "x" * 300}, "{", {}])
def test_without_a_usable_name_the_person_is_the_user(read, write, user):
    path = write({"conversations.json": [conversation(node("a", "root"))], "user.json": user})
    assert read(IMPORTER, path).only.author.account_id == "user"


def test_every_branch_is_kept_and_the_others_are_marked(one):
    result = one(
        node("q", "root", text="Tell me"),
        node("old", "q", "assistant", "One answer"),
        node("more", "old", text="And?"),
        node("new", "q", "assistant", "Another answer"),
    )
    found = {
        m.external_id: (m.reply_to, m.metadata.get("platform", {}).get("branch")) for m in result.messages
    }
    assert found == {
        "q": (None, None),
        "old": ("q", "other"),
        "more": ("old", "other"),
        "new": ("q", None),
    }
    assert [m.order for m in result.messages] == [1, 2, 3, 2]


def test_without_a_known_leaf_no_branch_is_called_another(one):
    result = one(node("q", "root"), node("a", "q", "assistant"), current_node="gone")
    assert [message.metadata for message in result.messages] == [{}, {}]


def test_what_chatgpt_hides_is_left_out_and_replies_pass_it(one):
    hidden = {"is_visually_hidden_from_conversation": True}
    result = one(
        node("s", "root", "system", "", weight=0, metadata=hidden, at=None),
        node("w", "s", "system", "", weight=0, at=None),
        node("u", "w", content={"content_type": "user_editable_context", "user_profile": "I sail"}, at=None),
        node("q", "u"),
        node("t", "q", "assistant", content={"content_type": "thoughts", "thoughts": [{"content": "hm"}]}),
        node(
            "r", "t", "assistant", content={"content_type": "reasoning_recap", "content": "Thought for 2 s"}
        ),
        node("n", "r", "assistant", "I should look", channel="analysis"),
        node("h", "n", "assistant", "secret", metadata=hidden),
        node("a", "h", "assistant", "At three."),
    )
    assert [(m.external_id, m.reply_to) for m in result.messages] == [("q", None), ("a", "q")]
    assert result.reasons == ["hidden in the conversation"] * 3 + ["reasoning of the model"] * 3 + [
        "hidden in the conversation"
    ]


def test_calls_are_apart_from_words_and_results_are_the_tools(one):
    result = one(
        node("q", "root"),
        node(
            "c",
            "q",
            "assistant",
            content={"content_type": "code", "language": "python", "text": "1 + 1"},
            recipient="python",
        ),
        node("r", "c", "tool", content={"content_type": "execution_output", "text": "2"}, tool="python"),
    )
    call, output = result.messages[1:]
    assert (call.body, call.attachments) == ("", [{"type": "tool call", "name": "python", "text": "1 + 1"}])
    assert (output.author.account_id, output.author.name, output.author.kind) == (
        "tool-python",
        "python",
        "agent",
    )
    assert (output.body, output.reply_to) == ("2", "c")
    # A tool reads nothing, so it is no member.
    assert len(output.room.members) == 2


@pytest.mark.parametrize(
    ("content", "body"),
    [
        ({"content_type": "tether_browsing_display", "result": "L0: tides", "summary": None}, "L0: tides"),
        (
            {"content_type": "tether_quote", "title": "Tides", "url": "example.org", "text": "High at 3"},
            "Tides\nexample.org\nHigh at 3",
        ),
        ({"content_type": "system_error", "name": "timeout", "text": "Too slow"}, "Too slow"),
        ({"content_type": "text", "parts": ["a", "", "b"]}, "a\nb"),
        (
            {
                "content_type": "multimodal_text",
                "parts": [{"content_type": "audio_transcription", "text": "Hola", "direction": "in"}],
            },
            "Hola",
        ),
    ],
)
def test_each_kind_of_content_gives_its_words(one, content, body):
    assert one(node("a", "root", "tool", content=content)).only.body == body


def test_pictures_and_uploads_are_named_once(one):
    message = one(
        node(
            "a",
            "root",
            content={
                "content_type": "multimodal_text",
                "parts": [
                    {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"},
                    {
                        "content_type": "real_time_user_audio_video_asset_pointer",
                        "audio_asset_pointer": {"asset_pointer": "sediment://file_2"},
                    },
                    "What is this?",
                ],
            },
            metadata={
                "attachments": [{"id": "file-1", "name": "boat.png"}, {"id": "file-3", "name": "t.pdf"}]
            },
        )
    ).only
    assert message.body == "What is this?"
    assert message.attachments == [
        {"type": "photo", "name": "boat.png", "id": "file-1"},
        {"type": "recording", "name": "file_2", "id": "file_2"},
        {"type": "file", "name": "t.pdf", "id": "file-3"},
    ]


@pytest.mark.parametrize(
    ("gizmo", "account", "category"),
    [
        ("g-abc", "g-abc", ""),
        ("g-p-xyz", "assistant", "g-p-xyz"),
        (None, "assistant", ""),
    ],
)
def test_a_custom_gpt_is_an_agent_and_a_project_is_a_heading(one, gizmo, account, category):
    result = one(node("a", "root", "assistant"), gizmo_id=gizmo)
    assert (result.only.author.account_id, result.only.room.category) == (account, category)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (node("b", "a", at=None), "no time"),
        (node("b", "a", at=True), "no time"),
        (node("b", "a", at=1e40), "no time"),
        (node("b", "a", role="oracle"), "no author"),
        (node("b", "a", text=" "), "no text"),
        (node("b" * 300, "a"), "id too long"),
        ({"id": "b", "message": [], "parent": "a"}, "not an object"),
        (5, "not an object"),
    ],
)
def test_a_broken_message_is_skipped_and_the_rest_stays(read, write, broken, reason):
    whole = conversation(node("a", "root"), node("c", "b"))
    whole["mapping"]["b"] = broken
    result = read(IMPORTER, write({"conversations.json": [whole]}))
    assert {message.external_id: message.reply_to for message in result.messages} == {
        "a": None,
        "c": "a" if isinstance(broken, dict) else None,
    }
    assert result.reasons == [reason]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (conversation(node("a", "root"), mapping=[]), "not a conversation"),
        (conversation(node("a", "root"), conversation_id=None), "no room"),
        ("nonsense", "not an object"),
    ],
)
def test_a_broken_conversation_is_skipped_and_the_others_stay(read, write, broken, reason):
    good = conversation(node("a", "root"))
    result = read(IMPORTER, write({"conversations.json": [good, broken, good | {"conversation_id": "c2"}]}))
    assert [message.room.external_id for message in result.messages] == ["c1", "c2"]
    assert result.reasons == [reason]


def test_a_message_in_two_places_is_read_once(one):
    again = node("a", "root") | {"id": "b"}
    result = one(node("a", "root"), again)
    assert (result.only.external_id, result.reasons) == ("a", ["message twice"])


def test_a_circle_of_parents_ends(one):
    result = one(node("a", "b"), node("b", "a", "assistant"))
    assert {message.external_id: message.reply_to for message in result.messages} == {"a": "b", "b": "a"}


def test_a_cut_file_gives_the_conversations_before_the_cut(read, write):
    text = json.dumps(
        [conversation(node("a", "root")), conversation(node("b", "root"), conversation_id="c2")]
    )
    result = read(IMPORTER, write({"conversations.json": text[:-40]}))
    assert [message.external_id for message in result.messages] == ["a"]
    assert result.reasons == ["truncated JSON"]


def test_a_zip_with_numbered_parts_and_an_upload_that_imitates_one(read, tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("chat.html", "<html>")
        archive.writestr("conversations-000.json", json.dumps([conversation(node("a", "root"))]))
        second = conversation(node("b", "root"), conversation_id="c2")
        archive.writestr("conversations-001.json", json.dumps([second]))
        stranger = conversation(node("x", "root"), conversation_id="c3")
        archive.writestr("file-9-conversations.json", json.dumps([stranger]))
        archive.writestr("user.json", json.dumps({"id": "user-7"}))
    result = read(IMPORTER, path)
    assert [(m.room.external_id, m.author.account_id) for m in result.messages] == [
        ("c1", "user-7"),
        ("c2", "user-7"),
    ]
    assert result.skipped == []


def test_two_archives_in_one_folder_keep_their_persons(read, write):
    files = {}
    for name in ("ana", "ben"):
        files[f"{name}/conversations.json"] = [conversation(node("a", "root"), conversation_id=f"of {name}")]
        files[f"{name}/user.json"] = {"id": name}
    result = read(IMPORTER, write(files))
    assert [(m.room.external_id, m.author.account_id) for m in result.messages] == [
        ("of ana", "ana"),
        ("of ben", "ben"),
    ]


def test_a_longer_export_has_the_same_ids(one):
    first = one(node("a", "root"), node("b", "a", "assistant"))
    later = one(node("a", "root"), node("b", "a", "assistant"), node("c", "b"))
    assert [m.external_id for m in later.messages][:2] == [m.external_id for m in first.messages]
