from datetime import UTC, datetime

import pytest

from roomlore.importers.telegram import IMPORTER


def said(id_=1, text="hello", **more):
    return {
        "id": id_,
        "type": "message",
        "date": "2023-11-14T23:13:20",
        "date_unixtime": "1700000000",
        "from": "Ana",
        "from_id": "user1",
        "text": text,
        "text_entities": [],
    } | more


def chat(*messages, **more):
    return {"name": "Plans", "type": "public_supergroup", "id": 50, "messages": list(messages)} | more


@pytest.fixture
def one(read, write):
    def run(*messages, **more):
        return read(IMPORTER, write({"result.json": chat(*messages, **more)}))

    return run


def test_a_message_keeps_what_the_export_says(one):
    message = one(
        said(
            edited_unixtime="1700000060",
            edited="2023-11-14T23:14:20",
            reply_to_message_id=7,
            via_bot="@gif",
            photo="photos/a.jpg",
            photo_file_size=9,
            reactions=[
                {"type": "emoji", "count": 2, "emoji": "👍", "recent": [{"from": "Ben", "from_id": "user2"}]}
            ],
        )
    ).only
    assert (message.platform, message.external_id, message.order, message.precision) == (
        "telegram",
        "1",
        1,
        "s",
    )
    assert (message.room.external_id, message.room.name, message.room.visibility) == (
        "channel50",
        "Plans",
        "open",
    )
    assert (message.author.account_id, message.author.name, message.author.kind) == ("user1", "Ana", "human")
    assert message.sent_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert message.edited_at == datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)
    assert message.reply_to == "7"
    assert message.metadata == {"platform": {"history_lost": True, "via_bot": "@gif"}}
    assert message.attachments == [{"type": "photo", "name": "a.jpg", "url": "photos/a.jpg", "size": 9}]
    assert message.reactions == [{"emoji": "👍", "count": 2, "by": ["user2"]}]
    assert not message.synthetic_id


def test_text_in_pieces_is_one_text_and_mentions_come_from_ids(one):
    pieces = [
        "see ",
        {"type": "text_link", "text": "this", "href": "https://x.org"},
        " ",
        {"type": "mention_name", "text": "Ben", "user_id": 2},
        {"type": "mention", "text": " @cleo"},
    ]
    message = one(said(text=pieces, text_entities=[])).only
    assert message.body == "see this Ben @cleo"
    assert message.mentions == ["user2"]
    assert message.metadata["platform"]["links"] == ["https://x.org"]


def test_local_time_without_a_zone_is_taken_as_utc_and_says_so(one):
    old = said()
    del old["date_unixtime"], old["text_entities"]
    message = one(old | {"edited": "2023-11-14T23:20:00"}).only
    assert message.sent_at == datetime(2023, 11, 14, 23, 13, 20, tzinfo=UTC)
    assert message.metadata["platform"]["time_zone"] == "assumed UTC"
    assert message.edited_at == datetime(2023, 11, 14, 23, 20, tzinfo=UTC)


def test_forwarded_words_are_marked_as_not_the_forwarders(one):
    result = one(said(1, forwarded_from="Ben"), said(2, forwarded_from=None), said(3))
    assert [message.metadata.get("platform", {}).get("forwarded_from") for message in result.messages] == [
        "Ben",
        "unknown",
        None,
    ]
    assert [message.body for message in result.messages] == ["", "", "hello"]
    assert [message.attachments for message in result.messages] == [
        [{"type": "forward", "text": "hello", "author": "Ben"}],
        [{"type": "forward", "text": "hello"}],
        [],
    ]


def test_what_a_forward_holds_is_marked_and_names_nobody_anew(one):
    pieces = ["ask ", {"type": "mention_name", "text": "Cleo", "user_id": 3}]
    result = one(
        said(1, text=pieces, forwarded_from="Ben", photo="a.jpg"),
        said(2, text="", forwarded_from="Ben", poll={"question": "When?", "answers": []}),
    )
    first, second = result.messages
    assert (first.body, first.mentions) == ("", [])
    assert first.attachments == [
        {"type": "forward", "text": "ask Cleo", "author": "Ben"},
        {"type": "photo", "name": "a.jpg", "url": "a.jpg", "forwarded": True},
    ]
    assert (second.body, second.attachments[0]["text"]) == ("", "When?")


def test_forwards_without_ids_are_told_apart_by_what_they_hold(one):
    forwards = [
        {
            "type": "message",
            "date_unixtime": "1544006350",
            "from": "Ana",
            "text": text,
            "forwarded_from": "Ben",
        }
        for text in ("a", "b")
    ]
    first, second = one(*forwards).messages
    alone = one(forwards[1]).only
    assert first.external_id != second.external_id == alone.external_id


@pytest.mark.parametrize(
    ("peer", "target"), [("channel51", None), ("user50", None), ("channel50", "7"), (50, "7")]
)
def test_a_reply_into_another_chat_is_no_edge_here(one, peer, target):
    message = one(said(reply_to_message_id=7, reply_to_peer_id=peer)).only
    assert message.reply_to == target
    assert ("reply_elsewhere" in message.metadata.get("platform", {})) == (target is None)


def test_a_service_message_is_a_system_line_by_its_actor(one):
    message = one(
        {
            "id": 3,
            "type": "service",
            "date_unixtime": "1700000000",
            "actor": "Ana",
            "actor_id": "user1",
            "action": "invite_members",
            "members": ["Ben", None],
            "text": "",
        }
    ).only
    assert (message.kind, message.author.account_id, message.body) == (
        "system",
        "user1",
        "invite members: Ben",
    )
    assert message.metadata["platform"]["action"] == "invite_members"


def test_accounts_are_ids_and_only_without_one_a_marked_name(one):
    result = one(
        said(1, **{"from": None, "from_id": "user9"}),
        said(2, **{"from": "user9", "from_id": None}),
        said(3, **{"from": "helperbot", "from_id": "user8"}),
        said(4, **{"from": "Plans", "from_id": "channel50", "author": "Ana"}),
        said(5, from_id=4294967296 + 9),
        said(6, from_id=9),
    )
    assert [message.author.account_id for message in result.messages] == [
        "user9",
        "name:user9",
        "user8",
        "channel50",
        "user9",
        "user9",
    ]
    assert result.messages[0].author.name == "Deleted Account"
    assert {message.author.kind for message in result.messages} == {"human"}
    assert result.messages[3].metadata["platform"]["signature"] == "Ana"


@pytest.mark.parametrize(
    ("type_", "room"),
    [
        ("personal_chat", ("user50", "dm", "members")),
        ("bot_chat", ("user50", "dm", "members")),
        ("saved_messages", ("user50", "dm", "members")),
        ("private_group", ("chat50", "group_dm", "members")),
        ("private_supergroup", ("channel50", "channel", "members")),
        ("private_channel", ("channel50", "channel", "members")),
        ("public_channel", ("channel50", "channel", "open")),
        ("something_new", ("50", None, None)),
    ],
)
def test_who_may_read_follows_the_type_of_chat(one, type_, room):
    result = one(said(1), said(2, **{"from": "Ben", "from_id": "user2"}), type=type_)
    for message in result.messages:
        assert (message.room.external_id, message.room.kind, message.room.visibility) == room
        members = [(member.author.account_id, member.joined_at) for member in message.room.members]
        # Only of two sides it is certain that neither joined late.
        assert members == ([("user1", None), ("user2", None)] if room[1] == "dm" else [])


def test_a_full_export_keeps_chats_apart_even_with_one_number(read, write):
    export = {
        "about": "x",
        "personal_information": {"phone_number": "0"},
        "chats": {
            "about": "y",
            "list": [
                chat(said(1, "to all"), said(2)),
                chat(said(1, "to you"), type="personal_chat", name="Ana"),
                {"id": 1},
                5,
            ],
        },
        "left_chats": {"list": [chat(said(1, "gone"), type="private_group")]},
    }
    result = read(IMPORTER, write({"result.json": export}))
    assert [(m.room.external_id, m.body) for m in result.messages] == [
        ("channel50", "to all"),
        ("channel50", "hello"),
        ("user50", "to you"),
        ("chat50", "gone"),
    ]
    assert [m.room.visibility for m in result.messages] == ["open", "open", "members", "members"]
    assert result.reasons == ["not an object"]
    assert [message.where for message in result.messages] == [
        "result.json chat 1 record 1",
        "result.json chat 1 record 2",
        "result.json chat 2 record 1",
        "result.json left chat 1 record 1",
    ]


def test_messages_without_ids_get_stable_ones_from_what_they_say(one):
    minimal = [
        {"type": "message", "date_unixtime": "1544006350", "from": "Ana", "text": text}
        for text in ("a", "b", "a")
    ]
    first = one(*minimal)
    again = one(*minimal, {"type": "message", "date_unixtime": "1544006351", "from": "Ana", "text": "c"})
    ids = [message.external_id for message in first.messages]
    assert len(set(ids)) == 3
    assert [message.external_id for message in again.messages][:3] == ids
    assert all(message.synthetic_id for message in first.messages)


@pytest.mark.parametrize(
    ("more", "attachments"),
    [
        (
            {"file": "stickers/s.webp", "media_type": "sticker", "sticker_emoji": "👋"},
            [{"type": "sticker", "emoji": "👋", "name": "s.webp", "url": "stickers/s.webp"}],
        ),
        (
            {
                "file": "(File not included. Change data exporting settings to download.)",
                "file_name": "a.pdf",
                "mime_type": "application/pdf",
            },
            [{"type": "application/pdf", "name": "a.pdf", "missing": True}],
        ),
        ({"file": None, "photo": None}, []),
    ],
)
def test_files_left_out_are_said_to_be_missing(one, more, attachments):
    assert one(said(**more)).only.attachments == attachments


def test_a_poll_says_its_question(one):
    message = one(
        said(text="", poll={"question": "When?", "answers": [{"text": "now"}, {"text": "later"}]})
    ).only
    assert message.body == "When?"
    assert message.metadata["platform"]["poll"]["answers"] == ["now", "later"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (said(2, **{"from": None, "from_id": None}), "no author"),
        (said(2, **{"from": ["Ana"]}), "wrong type"),
        (said(2, from_id=True), "wrong type"),
        (said("2"), "wrong type"),
        (said(2**70 // 3), "damaged JSON"),
        (said(2, text=[5]), "wrong type"),
        (said(2, text={"a": 1}), "wrong type"),
        (said(2, date_unixtime=None, date=None), "no time"),
        (said(2, date_unixtime="9" * 30, date="soon"), "no time"),
        (said(2, reply_to_message_id="7"), "wrong type"),
        (said(2, type="unsupported"), "unsupported in the export"),
        (said(2, type="other"), "not a message"),
        ([], "not an object"),
    ],
)
def test_a_broken_record_is_skipped_with_its_reason(one, broken, reason):
    result = one(said(1), broken, said(3))
    after = [] if reason == "damaged JSON" else ["3"]
    assert [message.external_id for message in result.messages] == ["1", *after]
    assert result.reasons == [reason]


@pytest.mark.parametrize(
    ("export", "reason"),
    [
        (chat(messages={"0": said()}), "not a list of messages"),
        ({"chats": {"list": "none"}}, "not a list of chats"),
        ({"chats": []}, "not a list of chats"),
    ],
)
def test_containers_of_another_shape_are_reported(read, write, export, reason):
    assert read(IMPORTER, write({"result.json": export})).reasons == [reason]
