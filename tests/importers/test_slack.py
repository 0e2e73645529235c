import json
import zipfile
from datetime import UTC, datetime

import pytest

from roomlore.domain.room_visibility import visibility_of
from roomlore.importers.slack import IMPORTER, NameResolver, mentions, render

CHANNELS = [
    {"id": "C1", "name": "general", "members": ["U1", "U2"], "topic": {"value": "all"}, "created": "1"}
]
USERS = [
    {"id": "U1", "name": "ana", "real_name": "Ana A", "profile": {"display_name": "ana.a"}, "is_bot": False},
    {"id": "U2", "name": "ben", "real_name": "", "profile": {"display_name": ""}},
    {"id": "U9", "name": "helper", "is_bot": True, "profile": {"real_name": "Helper"}},
]
LISTS = {"channels.json": CHANNELS, "users.json": USERS}


def said(text="hello", ts="1700000000.000100", **more):
    return {"type": "message", "user": "U1", "text": text, "ts": ts} | more


@pytest.fixture
def day(read, write):
    """Read messages of one day in #general."""

    def run(*messages, **lists):
        files = LISTS | {f"{name}.json": content for name, content in lists.items()}
        return read(IMPORTER, write(files | {"general/2023-11-14.json": list(messages)}))

    return run


def test_a_message_keeps_what_the_export_says(day):
    message = day(
        said(
            "hi <@U2>, see <#C1|general>",
            reactions=[{"name": "tada", "users": ["U2"], "count": 1}],
            edited={"user": "U1", "ts": "1700000009.000000"},
            files=[
                {
                    "id": "F1",
                    "name": "a.png",
                    "title": "A",
                    "mimetype": "image/png",
                    "size": 5,
                    "url_private": "https://files.example/a",
                }
            ],
        )
    ).only
    assert message.platform == "slack"
    assert (message.room.external_id, message.room.name, message.room.visibility, message.room.topic) == (
        "C1",
        "general",
        "open",
        "all",
    )
    assert [member.author.account_id for member in message.room.members] == ["U1", "U2"]
    assert (message.author.account_id, message.author.name, message.author.kind) == ("U1", "ana.a", "human")
    assert message.body == "hi @ben, see #general"
    assert message.mentions == ["U2"]
    assert message.external_id == "1700000000.000100"
    assert message.sent_at == datetime(2023, 11, 14, 22, 13, 20, 100, UTC)
    assert message.precision == "us"
    assert message.edited_at == datetime(2023, 11, 14, 22, 13, 29, tzinfo=UTC)
    assert message.metadata == {"platform": {"history_lost": True}}
    assert message.reactions == [{"emoji": "tada", "count": 1, "by": ["U2"]}]
    assert message.attachments == [
        {
            "id": "F1",
            "name": "a.png",
            "title": "A",
            "url": "https://files.example/a",
            "size": 5,
            "type": "image/png",
        }
    ]
    assert message.where == "general/2023-11-14.json record 1"


def test_times_are_exact_to_the_microsecond(day):
    stamps = ["1452913187.000001", "1452913187.999999", "0.1", "5"]
    result = day(*[said(ts=ts) for ts in stamps])
    assert [message.sent_at.microsecond for message in result.messages] == [1, 999999, 100000, 0]


def test_a_thread_root_is_not_a_reply_to_a_person(day):
    result = day(
        said(ts="1.000001", thread_ts="1.000001", reply_count=1),
        said(ts="2.000001", thread_ts="1.000001", parent_user_id="U1"),
    )
    assert [(message.thread_root, message.reply_to) for message in result.messages] == [
        (None, None),
        ("1.000001", None),
    ]


def test_a_reply_also_sent_to_the_channel_is_one_message_without_its_parents_copy(day):
    broadcast = said(
        "reply",
        ts="2.000001",
        thread_ts="1.000001",
        subtype="thread_broadcast",
        root=said("parent", ts="1.000001"),
    )
    result = day(said("parent", ts="1.000001"), broadcast, broadcast)
    assert [message.body for message in result.messages] == ["parent", "reply"]
    assert result.messages[1].kind == "message"
    assert result.messages[1].thread_root == "1.000001"


def test_a_tombstone_keeps_the_place_of_a_deleted_parent(day):
    result = day(
        said("This message was deleted.", ts="1.000001", user="USLACKBOT", subtype="tombstone"),
        said("still here", ts="2.000001", thread_ts="1.000001"),
    )
    gone = result.messages[0]
    assert (gone.deleted, gone.body, gone.author.kind) == (True, "", "system")
    assert result.messages[1].thread_root == gone.external_id


@pytest.mark.parametrize(
    "subtype",
    ["channel_join", "channel_leave", "channel_topic", "channel_archive", "pinned_item", "something_new"],
)
def test_what_the_workspace_reports_is_a_system_line_by_the_account_it_names(day, subtype):
    message = day(said("<@U1|ana> did", subtype=subtype, user="U2")).only
    assert (message.kind, message.author.account_id, message.metadata["platform"]["subtype"]) == (
        "system",
        "U2",
        subtype,
    )
    assert message.mentions == []


@pytest.mark.parametrize("subtype", ["file_share", "me_message", "file_mention"])
def test_what_people_say_stays_a_message(day, subtype):
    assert day(said(subtype=subtype)).only.kind == "message"


def test_a_file_comment_belongs_to_who_commented(day):
    message = day(
        {
            "type": "message",
            "subtype": "file_comment",
            "text": "nice",
            "ts": "1.1",
            "comment": {"user": "U2"},
            "file": {"name": "a"},
        }
    ).only
    assert (message.author.account_id, message.kind) == ("U2", "message")
    assert message.attachments == [{"name": "a"}]


def through(name, ts, bot="B1", picture="", **more):
    icons = {"icons": {"image_48": picture}} if picture else {}
    return (
        {"type": "message", "subtype": "bot_message", "text": "hi", "ts": ts, "bot_id": bot, "username": name}
        | icons
        | more
    )


def test_a_bridge_speaks_for_many_people_each_their_own_author(day):
    names = [f"person{number}" for number in range(8)]
    profile = {"bot_profile": {"name": "Matrix Bridge"}}
    result = day(*[through(name, f"{number}.1", **profile) for number, name in enumerate(names)])
    assert [message.author.persona for message in result.messages] == names
    assert {(m.author.account_id, m.author.kind, m.author.bridged) for m in result.messages} == {
        ("B1", "human", True)
    }


def test_an_unnamed_relay_is_known_by_the_faces_it_shows(day):
    result = day(
        *[through(name, f"{number}.1", picture=f"https://x/{name}.png") for number, name in enumerate("abc")]
    )
    assert all(message.author.bridged for message in result.messages)


def test_an_app_with_two_personas_or_one_face_is_an_agent(day):
    result = day(
        through("standup", "1.1", picture="https://x/1.png"),
        through("retro", "2.1", picture="https://x/2.png"),
        *[through(f"build {n}", f"{n}.2", bot="B2", picture="https://x/same.png") for n in range(4)],
        through("Matrix", "9.1", bot="B3", bot_profile={"name": "Matrix"}),
    )
    assert {(message.author.kind, message.author.bridged) for message in result.messages} == {
        ("agent", False)
    }
    assert len({(message.author.account_id, message.author.persona) for message in result.messages}) == 7


def test_apps_are_named_by_profile_or_the_integration_log(day):
    result = day(
        {
            "type": "message",
            "subtype": "bot_message",
            "text": "",
            "ts": "1.1",
            "bot_id": "B7",
            "attachments": [{"title": "c", "text": "1 &lt; 2", "title_link": "https://x"}],
        },
        {"type": "message", "text": "x", "ts": "2.1", "bot_id": "B8", "bot_profile": {"name": "Deploys"}},
        said("added: <https://x.org/services/B7|github>", ts="3.1", subtype="bot_add", bot_id="B7"),
        {"type": "message", "text": "x", "ts": "4.1", "bot_id": "B9", "app_id": "A9"},
        integration_logs=[{"app_id": "A9", "app_type": "Standup"}],
    )
    first, second, _, third = result.messages
    assert third.author.name == "Standup"
    assert (first.author.name, first.author.kind, first.author.persona, first.body) == (
        "github",
        "agent",
        "",
        "",
    )
    assert first.attachments == [{"type": "card", "name": "c", "url": "https://x", "text": "1 < 2"}]
    assert second.author.name == "Deploys"


def test_a_person_who_posts_through_an_app_stays_a_person(day):
    result = day(
        said(ts="1.1", bot_id="B1", app_id="A1"),
        said(ts="2.1", user="U9", bot_id="B1"),
        said(ts="3.1", user="U404", bot_id="B1"),
        said(ts="4.1", bot_id=None, username="<@U1|ana>", display_as_bot=False),
    )
    assert [(m.author.account_id, m.author.kind) for m in result.messages] == [
        ("U1", "human"),
        ("U9", "agent"),
        ("U404", "agent"),
        ("U1", "human"),
    ]


def test_an_old_webhook_without_bot_id_is_an_agent_per_name(day):
    message = day(
        {"type": "message", "subtype": "bot_message", "username": "alerts", "text": "x", "ts": "1.1"}
    ).only
    assert (message.author.account_id, message.author.persona, message.author.kind) == (
        "webhook",
        "alerts",
        "agent",
    )


def test_lists_help_but_are_never_required(read, write):
    root = write(
        {
            "general/2023-11-14.json": [said(user="U77")],
            "mystery/2023-11-14.json": [said(user="USLACKBOT"), said(ts="2.1")],
        }
    )
    result = read(IMPORTER, root)
    assert [message.author.name for message in result.messages] == ["U77", "slackbot", "U1"]
    # Nothing says that these are public, nor who was there when: whoever wrote may read from then on.
    assert {
        (message.room.kind, visibility_of(message.room).visibility, message.room.members)
        for message in result.messages
    } == {(None, "members", ())}
    assert result.skipped == []


def test_the_name_at_the_time_of_the_message_wins(day):
    assert day(said(user_profile={"display_name": "Ana (away)"})).only.author.name == "Ana (away)"


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        ("groups", {"id": "G1", "name": "secret", "members": ["U1"]}, ("G1", "channel", "members")),
        (
            "mpims",
            {"id": "G2", "name": "mpdm-a--b-1", "members": ["U1", "U2"]},
            ("G2", "group_dm", "members"),
        ),
        ("dms", {"id": "D1", "members": ["U1", "U2"]}, ("D1", "dm", "members")),
        (
            "channels",
            {"id": "C5", "name": "x", "is_private": True, "members": ["U1"]},
            ("C5", "channel", "members"),
        ),
    ],
)
def test_private_rooms_are_for_their_members(day, write, *, name, entry, expected):
    write({f"{entry.get('name', entry['id'])}/2023-11-14.json": [said("in private", ts="5.1")]})
    room = day(said(), **{name: [*CHANNELS, entry]}).by_id("5.1").room
    assert (room.external_id, room.kind, room.visibility) == expected
    listed = [(member.author.account_id, member.joined_at, member.left_at) for member in room.members]
    assert listed == [(who, None, None) for who in entry["members"]]


def test_a_listed_private_room_keeps_to_its_list_whoever_wrote_in_it(day, write):
    entry = {"id": "G1", "name": "secret", "members": ["U1"]}
    write({"secret/2023-11-14.json": [said("gone since", ts="5.1", user="U2")]})
    room = day(said(), groups=[entry]).by_id("5.1").room
    assert [(member.author.account_id, member.joined_at) for member in room.members] == [("U1", None)]


def test_a_private_room_whose_list_is_missing_states_nobody(day, write):
    write({"secret/2023-11-14.json": [said("in private", ts="5.1")]})
    room = day(said(), groups=[{"id": "G1", "name": "secret"}]).by_id("5.1").room
    assert (room.visibility, room.members) == ("members", ())


@pytest.mark.parametrize(
    ("folder", "entry", "kind", "members"),
    [
        ("mpdm-ana--ben-1", None, "group_dm", []),
        ("D0ABCDEFGH", None, "dm", ["U1", "U2"]),
        ("renamed", None, None, []),
        ("D5", {"id": "D5", "is_im": True, "members": ["U1", "U2"]}, "dm", ["U1", "U2"]),
        ("G5", {"id": "G5", "is_mpim": True, "members": ["U1", "U2"]}, "group_dm", ["U1", "U2"]),
    ],
)
def test_direct_rooms_are_known_by_mark_or_folder_name(day, write, *, folder, entry, kind, members):
    private = [said("in private", ts="5.1"), said("so it is", ts="6.1", user="U2")]
    write({f"{folder}/2023-11-14.json": private})
    room = day(said(), channels=[*CHANNELS, *([entry] if entry else [])]).by_id("5.1").room
    assert (room.external_id, room.kind, visibility_of(room).visibility) == (folder, kind, "members")
    assert [(member.author.account_id, member.joined_at) for member in room.members] == [
        (who, None) for who in members
    ]


def test_a_folder_that_two_lists_claim_is_as_narrow_as_the_narrower(read, write):
    root = write(
        {
            "groups.json": [{"id": "G1", "name": "general", "members": []}],
            "channels.json": CHANNELS,
            "general/2023-11-14.json": [said()],
        }
    )
    assert read(IMPORTER, root).only.room.visibility == "members"


def test_other_files_in_a_room_are_not_messages(read, write):
    root = write(
        LISTS
        | {
            "general/2023-11-14.json": [said()],
            "general/canvas_in_the_conversation.json": [said()],
            "canvases.json": [1],
        }
    )
    assert len(read(IMPORTER, root).items) == 1


def test_a_day_file_that_someone_uploaded_is_not_read(read, write):
    root = write(
        LISTS
        | {
            "general/2023-11-14.json": [said()],
            "general/attachments/2023-11-15.json": [said("forged", ts="2.1")],
        }
    )
    assert [message.body for message in read(IMPORTER, root).messages] == ["hello"]


def test_a_zip_reads_like_its_folder_even_inside_one_more_folder(read, write, tmp_path):
    root = write(LISTS | {"general/2023-11-14.json": [said()]})
    expected = read(IMPORTER, root).items
    for prefix in ("", "My export/"):
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(root.rglob("*.json")):
                archive.write(file, prefix + str(file.relative_to(root)))
        assert read(IMPORTER, path).items == expected


def test_a_damaged_member_of_a_zip_costs_only_itself(read, tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in (1, 2, 3):
            archive.writestr(
                f"general/2023-11-1{number}.json", json.dumps([said(f"words {number}", ts=f"{number}.1")])
            )
    path.write_bytes(path.read_bytes().replace(b"words 2", b"WORDS 2", 1))
    result = read(IMPORTER, path)
    assert {message.body for message in result.messages} >= {"words 1", "words 3"}
    assert [(item.where, item.reason) for item in result.skipped] == [
        ("general/2023-11-12.json", "unreadable file")
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"type": "message", "user": "U1", "text": "x"}, "no time"),
        (said(ts=1700000000.0001), "wrong type"),
        (said(ts="later"), "no time"),
        (said(ts="999999999999.0"), "no time"),
        (said(user=None), "no author"),
        (said(user=7), "wrong type"),
        (said(text=["x"]), "wrong type"),
        (said(subtype=[]), "wrong type"),
        (said(type="presence"), "not a message"),
        (said(thread_ts=4.5), "wrong type"),
        ([said()], "not an object"),
        (None, "not an object"),
    ],
)
def test_a_broken_record_is_skipped_with_its_reason_and_the_rest_goes_in(day, broken, reason):
    result = day(said(ts="1.1"), broken, said(ts="3.1"))
    assert [message.external_id for message in result.messages] == ["1.1", "3.1"]
    assert result.reasons == [reason]
    assert result.skipped[0].where == "general/2023-11-14.json record 2"


def test_broken_files_cost_only_themselves(read, write):
    root = write(
        {
            "channels.json": json.dumps(CHANNELS)[:-5],
            "users.json": {"not": "a list"},
            "general/2023-11-13.json": json.dumps([said(ts="1.1"), said(ts="2.1")])[:-9],
            "general/2023-11-14.json": [said(ts="3.1")],
            "general/2023-11-15.json": {"ok": False},
            "general/2023-11-16.json": b"",
        }
    )
    result = read(IMPORTER, root)
    assert [message.external_id for message in result.messages] == ["1.1", "3.1"]
    assert sorted(result.reasons) == [
        "not a list entry",
        "not a list of messages",
        "truncated JSON",
        "truncated JSON",
        "truncated JSON",
    ]


NAMES = NameResolver(user_name={"U1": "Ana"}.get, room_name={"C1": "general"}.get)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U1>", "@Ana"),
        ("<@U1|old>", "@Ana"),
        ("<@U2|ben>", "@ben"),
        ("<@U2>", "@U2"),
        ("<#C1>", "#general"),
        ("<#C2|plans>", "#plans"),
        ("<!here> <!channel> <!everyone|@everyone>", "@here @channel @everyone"),
        ("<!subteam^S1|@ops> <!subteam^S1>", "@ops @S1"),
        ("<!date^1392734382^{date}|18 February>", "18 February"),
        ("<https://x.org/a|the page>", "the page (https://x.org/a)"),
        ("<https://x.org|x.org> <https://x.org>", "https://x.org https://x.org"),
        ("<mailto:a@x.org|a@x.org>", "a@x.org"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&lt;@U1&gt;", "<@U1>"),
        ("<unfinished", "<unfinished"),
        ("<>", ""),
    ],
)
def test_tokens_are_shown_as_people_saw_them(text, shown):
    assert render(text, NAMES) == shown


def test_mentions_are_the_platforms_tokens_and_never_typed_text():
    assert mentions("<@U1> <@W2|x> <@U1> &lt;@U3&gt; @U4 <#C1>") == ["U1", "W2"]


def test_the_workspace_is_told_by_the_name_that_slack_gives_an_export(read, write, tmp_path):
    root = write({"channels.json": CHANNELS, "general/2023-11-14.json": [said()]})
    assert read(IMPORTER, root).only.room.workspace == ""
    named = root.rename(tmp_path / "Harbour Works Slack export Jan 1 2024 - Feb 2 2024")
    assert read(IMPORTER, named).only.room.workspace == "Harbour Works"
