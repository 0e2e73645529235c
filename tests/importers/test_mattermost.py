import json
from datetime import UTC, datetime

import pytest

from roomlore.importers.mattermost import IMPORTER

START = 1_700_000_000_000


def line(kind, fields):
    return {"type": kind, kind: fields}


VERSION = {"type": "version", "version": 1}
TEAM = line("team", {"name": "harbour", "display_name": "Harbour", "type": "O", "allow_open_invite": False})
TOWN = line(
    "channel", {"team": "harbour", "name": "town", "display_name": "Town", "type": "O", "header": "Tides"}
)
PIER = line(
    "channel", {"team": "harbour", "name": "pier", "display_name": "Pier", "type": "P", "purpose": "Boats"}
)


def user(name, *channels, team="harbour", **more):
    teams = [{"name": team, "roles": "team_user", "channels": [{"name": channel} for channel in channels]}]
    return line("user", {"username": name, "nickname": "", "teams": teams} | more)


def post(text="hello", *, author="ana", second=0, channel="town", **more):
    fields = {"team": "harbour", "channel": channel, "user": author, "message": text}
    return line(
        "post", fields | {"create_at": START + second * 1000, "reactions": None, "replies": None} | more
    )


def reply(text, *, author="ben", second=1, **more):
    return {"user": author, "message": text, "create_at": START + second * 1000} | more


def direct(members, text="hello", *, author="ana", **more):
    fields = {"channel_members": members, "user": author, "message": text, "create_at": START}
    return line("direct_post", fields | more)


@pytest.fixture
def export(read, write):
    def run(*lines):
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in (VERSION, *lines))
        return read(IMPORTER, write({"import.jsonl": text}))

    return run


def test_a_post_keeps_what_its_line_says(export):
    ana = user("ana", "town", first_name="Ana", last_name="Reyes")
    reactions = [{"user": "ben", "emoji_name": "wave", "create_at": 1}, {"user": "ana", "emoji_name": "wave"}]
    message = export(
        TEAM,
        TOWN,
        ana,
        post(
            "the **tide** is late",
            edit_at=START + 60_000,
            is_pinned=True,
            reactions=reactions,
            attachments=[{"path": "20240101/teams/x/report.pdf"}],
        ),
    ).only
    assert (message.platform, message.body, message.precision) == ("mattermost", "the **tide** is late", "ms")
    assert (message.room.external_id, message.room.name, message.room.topic) == (
        "harbour/town",
        "Town",
        "Tides",
    )
    assert (message.room.workspace, message.room.kind, message.room.visibility) == (
        "Harbour",
        "channel",
        "open",
    )
    assert (message.author.account_id, message.author.name, message.author.kind) == (
        "ana",
        "Ana Reyes",
        "human",
    )
    assert message.sent_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert message.edited_at == datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)
    assert message.reactions == [{"emoji": "wave", "count": 2, "by": ["ben", "ana"]}]
    assert message.attachments == [{"name": "report.pdf", "url": "20240101/teams/x/report.pdf"}]
    assert message.metadata == {"platform": {"history_lost": True, "pinned": True}}
    assert message.synthetic_id


def test_replies_belong_to_the_thread_of_their_post(export):
    thread = post("first", replies=[reply("later", second=9), reply("sooner", second=5)])
    result = export(TOWN, thread, post("other", second=20))
    first, later, sooner, other = result.messages
    assert [message.body for message in result.messages] == ["first", "later", "sooner", "other"]
    assert later.thread_root == sooner.thread_root == first.external_id
    assert (first.thread_root, other.thread_root, later.reply_to) == (None, None, None)
    assert later.where == "import.jsonl line 3 reply 1"
    assert "replies" not in first.raw


def test_the_id_of_a_post_survives_an_edit_and_a_longer_export(export):
    before = export(TOWN, post("one"), post("two"), post("three", second=5)).messages
    after = export(
        TOWN, post("zero", second=-9), post("one!", edit_at=START + 1), post("two"), post("three", second=5)
    ).messages
    assert [message.external_id for message in before] == [message.external_id for message in after[1:]]
    assert len({message.external_id for message in after}) == 4


def test_a_private_channel_is_for_its_members(export):
    gone = user("cleo", "town", "pier", delete_at=START)
    room = export(
        TEAM, TOWN, PIER, user("ana", "town", "pier"), user("ben", "town"), gone, post(channel="pier")
    ).only.room
    assert (room.visibility, room.topic) == ("members", "Boats")
    assert [(one.author.account_id, one.joined_at, one.left_at) for one in room.members] == [
        ("ana", None, None),
        ("cleo", None, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
    ]


def test_a_public_channel_is_for_its_team_if_not_everybody_is_in_it(export):
    stranger = user("eve", "lobby", team="offshore")
    room = export(TEAM, TOWN, user("ana", "town"), user("ben"), stranger, post()).only.room
    assert room.visibility == "members"
    assert [one.author.account_id for one in room.members] == ["ana", "ben"]
    open_team = line("team", TEAM["team"] | {"allow_open_invite": True})
    assert export(open_team, TOWN, user("ana", "town"), stranger, post()).only.room.visibility == "open"


def test_a_channel_that_no_line_describes_may_be_private(export):
    room = export(TEAM, post(channel="lost")).only.room
    assert (room.kind, room.visibility, room.name) == (None, None, "lost")


def test_direct_posts_are_in_the_room_of_their_people(export):
    result = export(
        user("ana", first_name="Ana"),
        line("direct_channel", {"members": ["ana", "ben"]}),
        direct(["ben", "ana"]),
        direct(["ana", "ben"], author="ben"),
        direct(["ana", "ben", "cleo"]),
        direct(["ana", "ana"]),
        direct(["town", "harbour"]),
        post(),
    )
    rooms = [message.room for message in result.messages]
    assert rooms[0] == rooms[1]
    assert (rooms[0].external_id, rooms[0].name, rooms[0].kind) == ("direct:ana,ben", "Ana and ben", "dm")
    assert {one.author.account_id for one in rooms[0].members} == {"ana", "ben"}
    assert (rooms[2].kind, len(rooms[2].members)) == ("group_dm", 3)
    assert (rooms[3].external_id, rooms[3].kind) == ("direct:ana", "dm")
    assert {room.visibility for room in rooms[:5]} == {"members"}
    assert (rooms[4].external_id, rooms[5].external_id) == ("direct:harbour,town", "harbour/town")


def test_a_large_group_has_a_short_id(export):
    names = [f"somebody.with.a.long.name.{number}" for number in range(40)]
    one, other = (export(direct(members)).only.room for members in (names, names[::-1]))
    assert one.external_id == other.external_id
    assert len(one.external_id) <= 255


def test_bots_and_webhooks_are_agents_and_a_webhook_is_not_the_person_who_made_it(export):
    hook = {"from_webhook": "true", "override_username": "Tide clock"}
    result = export(
        line("bot", {"username": "octobot", "display_name": "Octobot", "owner": "ana"}),
        post(author="octobot"),
        post(author="ben", props={"from_bot": "true"}),
        post(author="ana", props=hook, second=1),
        post(author="ana", props={"from_webhook": "true"}, second=2),
        post(author="ana", props={"from_webhook": "false"}, second=3),
    )
    assert [
        (message.author.account_id, message.author.name, message.author.kind, message.author.persona)
        for message in result.messages
    ] == [
        ("octobot", "Octobot", "agent", ""),
        ("ben", "ben", "agent", ""),
        ("ana", "Tide clock", "agent", "Tide clock"),
        ("ana", "webhook", "agent", "webhook"),
        ("ana", "ana", "human", ""),
    ]
    assert result.messages[2].metadata["platform"]["posted_by"] == "ana"


def test_events_are_from_the_system_and_actions_are_marked(export):
    joined, waved = export(
        post("ana joined", type="system_join_channel"), post("*waves*", type="me", second=1)
    ).messages
    assert (joined.kind, joined.metadata) == ("system", {"platform": {"type": "system_join_channel"}})
    assert (waved.kind, waved.metadata) == ("message", {"platform": {"action": True}})


def test_cards_of_apps_are_attachments(export):
    card = {
        "author_name": "octobot",
        "title": "Pull request",
        "title_link": "https://x.org/415",
        "text": "Tide tables",
        "fallback": "Pull request: Tide tables",
        "fields": [{"title": "State", "value": "open"}, {"title": "", "value": 3}],
    }
    message = export(post("", props={"attachments": [card, {"fallback": "only this"}]})).only
    assert message.attachments == [
        {
            "type": "card",
            "author": "octobot",
            "name": "Pull request",
            "url": "https://x.org/415",
            "text": "Tide tables",
            "fields": [{"name": "State", "value": "open"}],
        },
        {"type": "card", "text": "only this"},
    ]


def test_a_broken_line_or_reply_costs_only_itself(export):
    headless = post("x", replies=[reply("fine"), 7, reply("no time", create_at=None)])
    del headless["post"]["user"]
    result = export(
        "{broken",
        {"type": "weather"},
        line("post", 5),
        headless,
        post("no channel", channel=""),
        direct([]),
        post("good", replies={"user": "ana"}),
    )
    assert [message.body for message in result.messages] == ["fine", "good"]
    assert result.messages[0].thread_root is None
    assert [(skipped.where.removeprefix("import.jsonl "), skipped.reason) for skipped in result.skipped] == [
        ("line 2", "damaged JSON"),
        ("line 3", "not a line of a Mattermost export"),
        ("line 4", "not an object"),
        ("line 5", "no author"),
        ("line 5 reply 2", "not an object"),
        ("line 5 reply 3", "no time"),
        ("line 6", "no room"),
        ("line 7", "no room"),
        ("line 8 reply 1", "no time"),
    ]


def test_an_attached_file_that_looks_like_an_export_is_not_read(read, write):
    text = "\n".join(json.dumps(one) for one in (VERSION, post()))
    result = read(IMPORTER, write({"import.jsonl": text, "data/forged.jsonl": text}))
    assert len(result.messages) == 1
    assert result.reasons == ["export among attachments"]
