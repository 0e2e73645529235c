"""What the exports of Matrix, Mattermost and Zulip leave in the database, also when they are imported again."""

import json
from datetime import UTC, datetime

import pytest

START = 1_700_000_000


def at(second):
    return datetime.fromtimestamp(START + second, UTC)


def event(kind, content, second, *, sender="@ana:x.org", **more):
    return {
        "type": kind,
        "event_id": f"${kind}{second}",
        "room_id": "!pier:x.org",
        "sender": sender,
        "origin_server_ts": (START + second) * 1000,
        "content": content,
    } | more


def member(who, membership, second):
    return event(
        "m.room.member", {"membership": membership}, second, sender=f"@{who}:x.org", state_key=f"@{who}:x.org"
    )


MATRIX = {
    "export.json": {
        "room_name": "Pier",
        "messages": [
            event("m.room.create", {}, 0, state_key=""),
            event("m.room.join_rules", {"join_rule": "invite"}, 1, state_key=""),
            member("ana", "join", 2),
            event("m.room.message", {"msgtype": "m.text", "body": "early"}, 3),
            member("ben", "join", 4),
            event("m.room.message", {"msgtype": "m.text", "body": "late"}, 5),
            member("ben", "leave", 6),
        ],
    }
}
MATTERMOST = {
    "import.jsonl": "\n".join(
        json.dumps(line)
        for line in (
            {"type": "version", "version": 1},
            {"type": "channel", "channel": {"team": "t", "name": "pier", "type": "P"}},
            *(
                {
                    "type": "user",
                    "user": {
                        "username": who,
                        "delete_at": gone,
                        "teams": [{"name": "t", "channels": [{"name": "pier"}]}],
                    },
                }
                for who, gone in (("ana", 0), ("ben", (START + 6) * 1000))
            ),
            {
                "type": "post",
                "post": {
                    "team": "t",
                    "channel": "pier",
                    "user": "ana",
                    "message": "early",
                    "create_at": (START + 3) * 1000,
                    "replies": [{"user": "ben", "message": "late", "create_at": (START + 5) * 1000}],
                },
            },
        )
    )
}
ZULIP = {
    "realm.json": {
        "zerver_userprofile": [{"id": 1, "full_name": "Ana"}, {"id": 2, "full_name": "Ben"}],
        "zerver_stream": [
            {"id": 5, "name": "pier", "invite_only": True, "history_public_to_subscribers": False}
        ],
        "zerver_recipient": [{"id": 9, "type": 2, "type_id": 5}],
        "zerver_subscription": [
            {"user_profile": 1, "recipient": 9, "active": True},
            {"user_profile": 2, "recipient": 9, "active": False},
        ],
        "zerver_realmauditlog": [
            {"event_type": kind, "modified_stream": 5, "modified_user": user, "event_time": START + second}
            for kind, user, second in ((301, 1, 2), (301, 2, 4), (303, 2, 6))
        ],
    },
    "messages-000001.json": {
        "zerver_message": [
            {
                "id": 1,
                "sender": 1,
                "recipient": 9,
                "subject": "a",
                "content": "early",
                "date_sent": START + 3,
            },
            {"id": 2, "sender": 1, "recipient": 9, "subject": "a", "content": "late", "date_sent": START + 5},
        ]
    },
}


@pytest.fixture
def members(app, admin):
    """Return the periods of all members of the only room."""

    async def run():
        found = await admin.execute(
            "select nullif(joined_at, '-infinity'), left_at from memberships where org_id = %s"
            " order by memberships.joined_at, left_at",
            [app.org_id],
        )
        return [tuple(row) for row in await found.fetchall()]

    return run


@pytest.mark.parametrize(
    ("files", "periods"),
    [
        (MATRIX, [(at(2), None), (at(4), at(6))]),
        (MATTERMOST, [(None, at(6)), (None, None)]),
        (ZULIP, [(at(2), None), (at(4), at(6))]),
    ],
    ids=["matrix", "mattermost", "zulip"],
)
async def test_a_private_room_is_stored_with_its_members_and_importing_again_changes_nothing(
    app, write, *, members, files, periods
):
    path = write(files)
    first = await app.import_path(path)
    assert [room.audience for room in first.audiences] == ["members"]
    assert [room.rests_on for room in first.audiences] == ["export"]
    assert first.skipped == ()
    assert await members() == periods
    again = await app.import_path(path)
    assert again.stored == {"added": 0, "unchanged": first.messages, "revised": 0, "redacted": 0}
    assert await members() == periods


async def test_a_later_export_brings_edits_and_removals(app, write):
    def said(second, body, **more):
        return event("m.room.message", {"msgtype": "m.text", "body": body}, second, **more)

    first = await app.import_path(write({"a.json": {"chunk": [said(1, "helo"), said(2, "secret")]}}))
    assert first.stored == {"added": 2, "unchanged": 0, "revised": 0, "redacted": 0}
    relation = {"rel_type": "m.replace", "event_id": "$m.room.message1"}
    edit = {"body": "* hello", "m.new_content": {"body": "hello"}, "m.relates_to": relation}
    changes = [event("m.room.message", edit, 3), event("m.room.redaction", {}, 4, redacts="$m.room.message2")]
    second = await app.import_path(write({"b.json": {"chunk": changes}}))
    assert second.stored == {"added": 0, "unchanged": 0, "revised": 1, "redacted": 1}
