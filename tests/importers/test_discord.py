import json
from datetime import UTC, datetime

import pytest

from roomlore.domain.room_visibility import visibility_of
from roomlore.importers.discord.json_export import IMPORTER

CHANNEL = {
    "id": "900",
    "type": "GuildTextChat",
    "categoryId": "1",
    "category": "Text",
    "name": "plans",
    "topic": "what next",
}


def user(id_="1", name="ana", **more):
    return {
        "id": id_,
        "name": name,
        "discriminator": "0000",
        "nickname": name.title(),
        "isBot": False,
        "roles": [],
    } | more


def said(id_="1000", content="hello", **more):
    return {
        "id": id_,
        "type": "Default",
        "timestamp": "2024-05-01T10:00:00.123+02:00",
        "timestampEdited": None,
        "isPinned": False,
        "content": content,
        "author": user(),
        "attachments": [],
        "embeds": [],
        "stickers": [],
        "reactions": [],
        "mentions": [],
    } | more


def export(*messages, channel=CHANNEL, **more):
    return {
        "guild": {"id": "1", "name": "g"},
        "channel": channel,
        "messages": list(messages),
        "messageCount": 77,
    } | more


@pytest.fixture
def one(read, write):
    def run(*messages, channel=CHANNEL, **more):
        return read(IMPORTER, write({"plans.json": export(*messages, channel=channel) | more}))

    return run


def test_a_message_keeps_what_the_export_says(one):
    message = one(
        said(
            isPinned=True,
            timestampEdited="2024-05-01T10:05:00+02:00",
            mentions=[user("2", "ben"), user("2", "ben")],
            attachments=[{"id": "5", "url": "media\\a.png", "fileName": "a.png", "fileSizeBytes": 12}],
            stickers=[{"id": "6", "name": "wave", "format": "Png", "sourceUrl": "s.png"}],
            embeds=[{"title": "T", "url": "https://example.org", "description": "D"}],
            reactions=[
                {
                    "emoji": {"id": "", "name": "👍", "code": "thumbsup"},
                    "count": 2,
                    "users": [user("2", "ben")],
                }
            ],
        )
    ).only
    assert message.platform == "discord"
    assert (message.room.external_id, message.room.name, message.room.topic) == ("900", "plans", "what next")
    assert (message.room.kind, message.room.visibility, message.room.members) == ("channel", None, ())
    assert (message.author.account_id, message.author.name, message.author.kind) == ("1", "Ana", "human")
    assert message.sent_at == datetime(2024, 5, 1, 8, 0, 0, 123000, UTC)
    assert message.edited_at == datetime(2024, 5, 1, 8, 5, tzinfo=UTC)
    assert message.metadata == {"platform": {"history_lost": True, "pinned": True}}
    assert message.mentions == ["2"]
    assert message.order == 1000
    assert message.attachments[0] == {"id": "5", "name": "a.png", "url": "media\\a.png", "size": 12}
    assert [item.get("type") for item in message.attachments] == [None, "embed", "sticker"]
    assert message.reactions == [{"emoji": "👍", "count": 2, "by": ["2"]}]
    assert message.raw["content"] == "hello"
    assert message.where == "plans.json record 1"


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({"type": "Reply", "reference": {"messageId": "5", "channelId": "900", "guildId": "1"}}, "5"),
        ({"type": "Reply", "reference": {"type": "Default", "messageId": "5", "channelId": "900"}}, "5"),
        ({"type": "Default", "reference": {"messageId": "5"}}, "5"),
        ({"type": "Reply", "reference": {"messageId": None, "channelId": "900"}}, None),
        ({"type": "Reply"}, None),
        (
            {"type": "ThreadCreated", "reference": {"type": "Default", "messageId": None, "channelId": "9"}},
            None,
        ),
        ({"type": "ChannelPinnedMessage", "reference": {"messageId": "5", "channelId": "900"}}, None),
        ({"type": "Default", "reference": {"type": "Forward", "messageId": "5", "channelId": "900"}}, None),
        (
            {
                "type": "20",
                "interaction": {"id": "3", "name": "roll", "user": user()},
                "reference": {"messageId": "5"},
            },
            None,
        ),
        ({"type": "Default", "reference": {"messageId": "5", "channelId": "another"}}, None),
    ],
)
def test_only_some_references_are_replies(one, more, target):
    assert one(said(**more)).only.reply_to == target


def test_a_forwarded_message_is_not_its_posters_own_words(one):
    message = one(
        said(
            content="",
            reference={"type": "Forward", "messageId": "5", "channelId": "8"},
            forwardedMessage={
                "timestamp": "2024-01-01T00:00:00+00:00",
                "content": "theirs",
                "attachments": [{"id": "7", "fileName": "their.png", "url": "u"}],
                "embeds": [],
            },
            mentions=[user("2", "ben")],
        )
    ).only
    assert message.body == ""
    assert message.mentions == []
    assert message.attachments == [
        {"type": "forward", "text": "theirs", "sent_at": "2024-01-01T00:00:00+00:00"},
        {"id": "7", "name": "their.png", "url": "u", "forwarded": True},
    ]
    assert message.metadata["platform"]["forwarded_from"] == "unknown"
    assert message.metadata["platform"]["forwarded"]["message_id"] == "5"


FORWARD = {"type": "Forward", "messageId": "5", "channelId": "8"}


@pytest.mark.parametrize(
    ("more", "body", "forwarded"),
    [
        ({"content": "look", "forwardedMessage": {"content": "theirs"}}, "look", "theirs"),
        ({"content": "theirs", "forwardedMessage": {"content": "theirs"}}, "", "theirs"),
        ({"content": "theirs", "reference": FORWARD}, "", "theirs"),
        ({"content": "look", "forwardedMessage": {"attachments": []}}, "look", None),
    ],
)
def test_a_posters_own_words_beside_a_forward_are_kept_where_they_are_told_apart(one, more, body, forwarded):
    message = one(said(**more)).only
    assert message.body == body
    assert [item.get("text") for item in message.attachments if item["type"] == "forward"] == [forwarded]


def test_what_is_forwarded_is_nowhere_credited_to_the_poster(one):
    words = "nobody here said this"
    message = one(said(content="", reference=FORWARD, forwardedMessage={"content": words})).only
    assert words not in message.body + message.author.name + str(message.metadata)


def test_a_slash_command_result_is_a_message_that_names_who_asked(one):
    message = one(
        said(
            type="20",
            author=user("7", "dice", isBot=True, discriminator="1234"),
            interaction={"id": "3", "name": "roll", "user": user()},
        )
    ).only
    assert message.kind == "message"
    assert message.author.kind == "agent"
    assert message.author.persona == ""
    assert message.metadata["platform"]["interaction"] == {"name": "roll", "account_id": "1", "user": "Ana"}


@pytest.mark.parametrize("kind", ["RecipientAdd", "Call", "GuildMemberJoin", "ThreadCreated", "21", "46"])
def test_other_types_are_system_lines(one, kind):
    message = one(said(type=kind)).only
    assert message.kind == "system"
    assert message.author.account_id == "1"
    assert message.metadata["platform"]["type"] == kind


def test_a_webhook_is_one_author_per_name(one):
    webhook = {"isBot": True, "discriminator": "0000"}
    result = one(
        said("1", author=user("50", "Luna", **webhook)), said("2", author=user("50", "Sol", **webhook))
    )
    assert [(m.author.account_id, m.author.persona, m.author.kind) for m in result.messages] == [
        ("50", "Luna", "agent"),
        ("50", "Sol", "agent"),
    ]


def test_a_message_of_embeds_only_has_no_body(one):
    message = one(said(content="", embeds=[{"title": "T", "description": "someone else said"}])).only
    assert message.body == ""
    assert message.attachments == [{"type": "embed", "name": "T", "text": "someone else said"}]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("DirectGroupTextChat", "group_dm"),
        ("GuildPrivateThread", "channel"),
        ("99", None),
        (None, None),
    ],
)
def test_nobody_is_stated_to_have_always_been_in_a_private_room_of_many(one, type_, kind):
    result = one(said("1"), said("2", author=user("2", "ben")), said("3"), channel=CHANNEL | {"type": type_})
    assert len(result.messages) == 3
    for message in result.messages:
        read_by = visibility_of(message.room).visibility
        assert (message.room.kind, read_by, message.room.members) == (kind, "members", ())


def test_both_sides_of_a_direct_room_were_always_there(one):
    channel = CHANNEL | {"type": "DirectTextChat"}
    result = one(said("1"), said("2", author=user("2", "ben")), said("3"), channel=channel)
    for message in result.messages:
        assert (message.room.kind, message.room.visibility) == ("dm", "members")
        assert [(m.author.account_id, m.joined_at, m.left_at) for m in message.room.members] == [
            ("1", None, None),
            ("2", None, None),
        ]


def test_a_direct_room_in_which_three_write_was_always_open_to_nobody(one):
    others = [said(n, author=user(n, f"u{n}")) for n in ("2", "3")]
    result = one(said("1"), *others, channel=CHANNEL | {"type": "DirectTextChat"})
    assert {(message.room.visibility, message.room.members) for message in result.messages} == {
        ("members", ())
    }


def test_partitions_of_a_direct_room_know_the_same_members(read, write):
    channel = CHANNEL | {"type": "DirectTextChat"}
    root = write(
        {
            "dm [part 1].json": export(said("1"), channel=channel),
            "dm [part 2].json": export(said("2", author=user("2", "ben")), channel=channel),
        }
    )
    result = read(IMPORTER, root)
    for message in result.messages:
        assert [(m.author.account_id, m.joined_at) for m in message.room.members] == [
            ("1", None),
            ("2", None),
        ]


def test_the_channel_may_come_after_the_messages(read, write):
    root = write({"a.json": json.dumps({"messages": [said()], "channel": CHANNEL, "guild": {}})})
    assert read(IMPORTER, root).only.room.external_id == "900"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (said(id=7), "wrong type"),
        (said(id=None), "no id"),
        (said(id="x" * 300), "id too long"),
        (said(author=None), "no author"),
        (said(author=[]), "no author"),
        (said(author=user(id_=5)), "wrong type"),
        (said(content=["a"]), "wrong type"),
        (said(timestamp=None), "no time"),
        (said(timestamp="yesterday"), "no time"),
        (said(timestamp="2024-05-01T10:00:00"), "no time zone"),
        (said(timestamp="0001-01-01T00:00:00+14:00"), "no time"),
        (said(reference={"messageId": 5}), "wrong type"),
        ([], "not an object"),
        (None, "not an object"),
        ("text", "not an object"),
    ],
)
def test_a_broken_record_is_skipped_with_its_reason_and_the_rest_goes_in(one, broken, reason):
    result = one(said("1"), broken, said("3"))
    assert [message.external_id for message in result.messages] == ["1", "3"]
    assert result.reasons == [reason]
    assert result.skipped[0].where == "plans.json record 2"


def test_odd_decorations_do_not_cost_the_message(one):
    message = one(
        said(embeds="x", reactions=[1, None], mentions={"a": 1}, attachments=[[]], stickers=None, reference=3)
    ).only
    assert message.attachments == []
    assert message.reactions == []
    assert message.mentions == []


def test_an_older_export_without_newer_fields_is_read(one):
    assert (
        one(
            {
                "id": "1",
                "type": "Default",
                "timestamp": "2019-01-01T00:00:00+00:00",
                "content": "old",
                "author": {"id": "1", "name": "ana"},
            }
        ).only.body
        == "old"
    )


def test_a_truncated_file_yields_all_before_the_fault(read, write):
    text = json.dumps(export(said("1"), said("2"), said("3")))
    result = read(IMPORTER, write({"a.json": text[: text.index('"3"') + 20], "b.json": export(said("9"))}))
    assert [message.external_id for message in result.messages] == ["1", "2", "9"]
    assert result.reasons == ["truncated JSON"]


def test_without_a_channel_id_nothing_is_guessed(read, write):
    result = read(IMPORTER, write({"a.json": export(said(), channel={"name": "x"})}))
    assert result.messages == []
    assert result.reasons == ["no room"]


def test_messages_that_are_no_list_are_reported(read, write):
    result = read(IMPORTER, write({"a.json": {"guild": {}, "channel": CHANNEL, "messages": {"0": said()}}}))
    assert result.reasons == ["not a list of messages"]


def test_a_file_someone_sent_is_not_taken_for_an_export(read, write):
    forged = export(said("66", content="forged"))
    result = read(
        IMPORTER,
        write({"plans.json": export(said()), "plans.json_Files/forged.json": forged, "notes.json": [1]}),
    )
    assert [message.external_id for message in result.messages] == ["1000"]
    assert sorted(result.reasons) == ["export among attachments", "not an export of this format"]


def test_a_channel_of_a_server_bears_its_name_and_category_and_a_direct_message_does_not(one):
    channel = CHANNEL | {"category": "Staff area"}
    room = one(said(), channel=channel, guild={"id": "7", "name": "Harbour"}).only.room
    assert (room.workspace, room.category, visibility_of(room).visibility) == (
        "Harbour",
        "Staff area",
        "members",
    )
    direct = CHANNEL | {"type": "DirectTextChat"}
    assert one(said(), channel=direct, guild={"id": "0", "name": "Direct Messages"}).only.room.workspace == ""
