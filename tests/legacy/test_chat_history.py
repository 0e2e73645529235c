"""A bot's table of messages becomes rooms with authors, once, and both stores can be compared."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from legacy.conftest import Legacy
from roomlore.domain.errors import BadInput, DatabaseUnavailable
from roomlore.operations import App
from roomlore.operations.migrations import migrate_chat_history

NOON = datetime(2025, 12, 13, 12, 0, 0, 123456, tzinfo=UTC)
ANA, BEN, ELENA, MARCUS = (
    "100000000000000001",
    "100000000000000002",
    "200000000000000001",
    "200000000000000002",
)
HARBOUR, PIER = "300000000000000001", "300000000000000002"
IDS = {"elena": ELENA, "marcus": MARCUS}


def message_id(number: int) -> str:
    return str(400000000000000000 + number)


def row(number: int, **more: Any) -> dict[str, Any]:
    """A message of Ana in the harbour, one minute after the other."""
    known = {
        "user_id": ANA,
        "character_name": "elena",
        "role": "human",
        "content": f"message {number}",
        "timestamp": NOON + timedelta(minutes=number),
        "channel_id": HARBOUR,
        "message_id": message_id(number),
        "user_name": "Ana",
    }
    return known | more


async def migrated(app: App | None, legacy: Legacy, characters=IDS):
    return await migrate_chat_history(app, legacy.dsn, characters=characters)


async def said(app: App, room: str) -> dict[str, Any]:
    """The messages of a room by their text."""
    page = await app.messages(app.operator, room)
    return {one.body: one for one in page}


async def account(app: App, message: Any) -> str:
    [one] = await app.people.accounts(app.operator, str(message.author_id))
    return one.account_id


async def authors(app: App, room: str) -> dict[str, tuple[str, str]]:
    found = await said(app, room)
    return {body: (await account(app, one), one.author_kind) for body, one in found.items()}


async def test_the_role_tells_who_wrote_a_message_that_states_no_author(app: App, old: Legacy):
    old.tell(
        row(1, content="Is the ferry late?"),
        row(2, content="By ten minutes.", role="ai"),
        row(3, content="Thanks.", user_id=BEN, user_name="Ben"),
    )
    report = await migrated(app, old)
    assert await authors(app, HARBOUR) == {
        "Is the ferry late?": (ANA, "human"),
        "By ten minutes.": (ELENA, "agent"),
        "Thanks.": (BEN, "human"),
    }
    assert report.stored == {"added": 3, "unchanged": 0, "revised": 0, "redacted": 0}
    assert report.parity is not None
    assert report.parity.is_equal
    assert report.parity.compared == report.parity.sampled == 3


async def test_a_stated_author_is_believed_and_the_partner_is_not_the_author(app: App, legacy: Legacy):
    legacy.tell(
        row(
            1, content="from a bot", user_id=MARCUS, author_id=MARCUS, author_is_bot=True, user_name="marcus"
        ),
        row(2, content="to a bot", user_id=MARCUS, role="ai", author_id=ELENA, author_is_bot=True),
        row(3, content="by somebody else", author_id=BEN),
    )
    assert (await migrated(app, legacy)).parity.is_equal
    assert await authors(app, HARBOUR) == {
        "from a bot": (MARCUS, "agent"),
        "to a bot": (ELENA, "agent"),
        "by somebody else": (BEN, "human"),
    }
    assert (await said(app, HARBOUR))["by somebody else"].author_name == BEN


async def test_a_channel_in_place_of_a_user_is_never_an_author(app: App, legacy: Legacy):
    fake = {"user_id": f"channel_{HARBOUR}", "user_name": None, "channel_id": None}
    [unknown] = legacy.tell(row(1, **fake, author_id=f"channel_{HARBOUR}"))
    legacy.tell(
        row(2, content="Good morning!", role="ai", **fake),
        row(3, content="hello back", **fake, author_id=ANA),
    )
    report = await migrated(app, legacy)
    assert await authors(app, HARBOUR) == {"Good morning!": (ELENA, "agent"), "hello back": (ANA, "human")}
    assert [(one.where, one.reason) for one in report.skipped] == [
        (f"v2_chat_history id {unknown}", "no author")
    ]
    assert report.channels_as_users == 2
    assert report.rooms == {"channel": 1}
    assert report.parity.is_equal
    people = {one.account_id for one in await app.people.accounts(app.operator, None)}
    assert people == {ANA, ELENA}


async def test_a_name_that_was_filled_in_for_an_id_becomes_the_id(app: App, legacy: Legacy):
    legacy.tell(row(1, role="ai", content="filled", author_id="elena", author_is_bot=True))
    report = await migrated(app, legacy)
    assert await authors(app, HARBOUR) == {"filled": (ELENA, "agent")}
    assert report.characters_without_id == {}
    assert report.parity.is_equal


async def test_characters_without_an_id_keep_their_names_and_are_reported(app: App, legacy: Legacy):
    legacy.tell(
        row(1, role="ai", content="old"),
        row(2, role="ai", content="new", author_id=ELENA, author_is_bot=True),
        row(3, role="ai", content="of another", character_name="marcus"),
    )
    report = await migrated(app, legacy, {})
    assert report.characters_without_id == {
        "elena": {"rows": 1, "stated": [ELENA]},
        "marcus": {"rows": 1, "stated": []},
    }
    assert await authors(app, HARBOUR) == {
        "old": ("elena", "agent"),
        "new": (ELENA, "agent"),
        "of another": ("marcus", "agent"),
    }
    assert report.parity.is_equal


async def test_a_direct_conversation_is_for_both_and_for_nobody_else(app: App, legacy: Legacy):
    alone = {"channel_id": None, "message_id": None}
    legacy.tell(
        row(1, content="a secret plan", **alone),
        row(2, content="it stays here", role="ai", **alone),
        row(3, content="other talk", user_id=BEN, user_name="Ben", **alone),
        row(4, content="in the channel", user_id=BEN, user_name="Ben"),
    )
    report = await migrated(app, legacy)
    assert report.rooms == {"channel": 1, "dm": 2}
    assert report.parity.is_equal
    room = f"elena with {ANA}"
    for reader in (ANA, ELENA):
        seen = await app.messages(await app.viewer(reader), room)
        assert {one.body for one in seen} == {"a secret plan", "it stays here"}
    ben = await app.viewer(BEN)
    assert {one.external_id for one in await app.rooms(ben)} == {HARBOUR, f"elena with {BEN}"}


async def test_replies_times_and_metadata_stay(app: App, legacy: Legacy, admin):
    legacy.tell(
        row(1, content="question"),
        row(2, content="answer", role="ai", reply_to_msg_id=message_id(1), metadata={"action_type": "reply"}),
    )
    assert (await migrated(app, legacy)).parity.is_equal
    answer = (await said(app, HARBOUR))["answer"]
    assert answer.sent_at == NOON + timedelta(minutes=2)
    [thread] = await app.threads(app.operator, HARBOUR)
    assert [(one.method, one.child_id) for one in thread.replies] == [("explicit", answer.id)]
    rows = await admin.execute("select metadata from messages where id = %s", [answer.id])
    [(metadata,)] = await rows.fetchall()
    assert metadata["platform"] == {
        "legacy_id": "2",
        "character": "elena",
        "legacy": {"action_type": "reply"},
    }


BROKEN = {
    "unknown role": {"role": "narrator"},
    "no text": {"content": None},
    "no time": {"timestamp": None},
    "id too long": {"channel_id": "x" * 300},
    "no author": {"user_id": f"channel_{PIER}"},
    "role and author contradict each other": {"role": "ai", "author_id": ANA},
    "same id, other author, kind or audience": {"message_id": message_id(1), "user_id": BEN},
    "same id, other text": {
        "message_id": message_id(1),
        "content": "other",
        "timestamp": NOON + timedelta(minutes=1),
    },
    "absurd date": {"timestamp": datetime(1950, 1, 1, tzinfo=UTC)},
}


async def test_broken_rows_are_named_and_the_rest_goes_in(app: App, legacy: Legacy):
    legacy.tell(row(1))
    broken = {
        f"v2_chat_history id {legacy.tell(row(number, **fields))[0]}": reason
        for number, (reason, fields) in enumerate(BROKEN.items(), 2)
    }
    legacy.conn.execute(
        "insert into v2_chat_history (user_id, character_name, role, content, timestamp)"
        " values ('1', 'elena', 'human', 'hi', 'infinity')"
    )
    legacy.tell(row(90))
    report = await migrated(app, legacy)
    named = {one.where: one.reason for one in report.skipped}
    assert named.pop(f"v2_chat_history id {len(BROKEN) + 2}") == "no time"
    assert named == broken
    assert report.stored["added"] == 2
    assert (await said(app, HARBOUR)).keys() == {"message 1", "message 90"}
    assert report.parity.is_equal
    assert sum(report.parity.explained.values()) == len(BROKEN) + 1


@pytest.mark.parametrize("parent", ["the last one", message_id(1), "x" * 300])
async def test_a_reply_that_cannot_be_is_left_out_and_its_message_stays(app: App, legacy: Legacy, parent):
    [number] = legacy.tell(row(1, reply_to_msg_id=parent))
    report = await migrated(app, legacy)
    assert [(one.where, one.reason) for one in report.skipped] == [
        (f"v2_chat_history id {number}", "invalid reply")
    ]
    assert report.stored["added"] == 1
    assert report.parity.is_equal
    assert [one.field for one in report.parity.fields] == ["reply"]


async def test_what_two_bots_noted_of_one_message_is_one_message(app: App, legacy: Legacy):
    # Each bot has its own clock.
    legacy.tell(row(1), row(1, character_name="marcus", timestamp=NOON + timedelta(minutes=1, seconds=1)))
    report = await migrated(app, legacy)
    assert report.stored == {"added": 1, "unchanged": 1, "revised": 0, "redacted": 0}
    assert report.skipped == []
    assert report.parity.is_equal
    assert report.parity.explained == {"the same message as another row": 1}


async def test_again_and_after_a_stop_nothing_comes_twice(app: App, legacy: Legacy, monkeypatch):
    monkeypatch.setattr("roomlore.legacy.migration.BATCH", 10)
    alone = {"channel_id": None, "message_id": None}
    legacy.tell(*(row(number, **(alone if number % 3 == 0 else {})) for number in range(1, 41)))

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await migrate_chat_history(app, legacy.dsn, characters=IDS, progress=stop)
    report = await migrated(app, legacy)
    assert report.stored == {"added": 30, "unchanged": 10, "revised": 0, "redacted": 0}
    again = await migrated(app, legacy)
    assert again.stored == {"added": 0, "unchanged": 40, "revised": 0, "redacted": 0}
    assert again.parity.is_equal
    assert again.parity.compared == 40


async def test_what_a_row_states_only_later_is_stored_by_the_next_migration(app: App, legacy: Legacy):
    legacy.tell(row(1, content="question"), row(2, content="answer", role="ai"))
    await migrated(app, legacy)
    legacy.conn.execute("update v2_chat_history set reply_to_msg_id = %s where id = 2", [message_id(1)])
    legacy.conn.execute("update v2_chat_history set content = 'another question' where id = 1")
    report = await migrated(app, legacy)
    [thread] = await app.threads(app.operator, HARBOUR)
    assert [one.body for one in thread.messages] == ["question", "answer"]
    assert [one.method for one in thread.replies] == ["explicit"]
    assert [(one.where, one.reason) for one in report.skipped] == [
        ("v2_chat_history id 1", "same id, other text")
    ]
    assert [(one.row, one.field) for one in report.parity.fields] == [("1", "text")]
    assert not report.parity.is_equal


async def test_a_dry_run_reports_and_stores_nothing(app: App, legacy: Legacy):
    legacy.tell(row(1), row(2, role="ai"), row(3, content=None))
    report = await migrated(None, legacy)
    assert (report.rows, report.messages, report.stored, report.parity) == (3, 2, None, None)
    assert report.authors == {"agent": 1, "human": 1}
    assert await app.rooms(app.operator) == []


async def test_points_in_qdrant_and_an_export_of_discord_add_nothing_twice(
    app: App, open_app, legacy: Legacy, tmp_path: Path
):
    legacy.tell(
        row(1, author_id=ANA),
        row(2, role="ai", author_id=ELENA, author_is_bot=True, reply_to_msg_id=message_id(1)),
        row(3, channel_id=None, author_id=ANA),
        row(4, channel_id=None, message_id=None, role="ai", author_id=ELENA, author_is_bot=True),
    )
    payloads = [
        {
            "type": "conversation",
            **{key: told[key] for key in ("user_id", "role", "content", "user_name")},
            "timestamp": told["timestamp"].isoformat(),
            **{key: told[key] for key in ("channel_id", "message_id") if told[key]},
            "author_id": ELENA if told["role"] == "ai" else ANA,
            "author_is_bot": told["role"] == "ai",
            "author_name": "elena" if told["role"] == "ai" else "Ana",
        }
        for told in (
            row(1),
            row(2, role="ai"),
            row(3, channel_id=None),
            row(4, channel_id=None, message_id=None, role="ai"),
        )
    ]
    points = tmp_path / "elena.json"
    points.write_text(json.dumps([{"id": n, "payload": payload} for n, payload in enumerate(payloads)]))
    discord = tmp_path / "discord.json"
    export = {
        "guild": {"id": "1", "name": "Coast"},
        "channel": {"id": HARBOUR, "type": "GuildTextChat", "name": "harbour"},
        "messages": [
            {
                "id": message_id(number),
                "type": "Default",
                # The platform's clock is a little ahead of the bot's.
                "timestamp": (NOON + timedelta(minutes=number, seconds=-1)).isoformat(),
                "content": f"message {number}",
                "author": {"id": ELENA if number == 2 else ANA, "name": "x", "isBot": number == 2},
            }
            for number in (1, 2)
        ],
    }
    discord.write_text(json.dumps(export))
    other = await open_app("other")
    nothing = {"added": 0, "revised": 0, "redacted": 0}
    assert (await migrated(app, legacy)).stored["added"] == 4
    assert (await app.import_path(points)).stored == nothing | {"unchanged": 4}
    assert (await app.import_path(discord)).stored == nothing | {"unchanged": 2}
    assert (await other.import_path(discord)).stored["added"] == 2
    assert (await other.import_path(points)).stored["added"] == 2
    last = await migrated(other, legacy)
    assert last.stored == nothing | {"unchanged": 4}
    assert last.parity.is_equal
    assert last.parity.explained == {"another import stored it before": 4}
    for one in (app, other):
        assert {(room.platform, room.external_id) for room in await one.rooms(one.operator)} == {
            ("discord", HARBOUR),
            ("discord", f"elena with {ANA}"),
        }
        assert await authors(one, HARBOUR) == {"message 1": (ANA, "human"), "message 2": (ELENA, "agent")}


async def test_a_comparison_finds_what_went_wrong(app: App, legacy: Legacy, admin):
    legacy.tell(*(row(number) for number in range(1, 6)), row(6, role="ai"))
    await migrated(app, legacy)
    found = await said(app, HARBOUR)
    other = found["message 6"].author_id
    ids = [found[f"message {number}"].id for number in (1, 2, 3)]
    await admin.execute("update messages set author_id = %s where id = %s", [other, ids[0]])
    await admin.execute("update messages set body = 'tampered' where id = %s", [ids[1]])
    await admin.execute("update messages set sent_at = sent_at + interval '3 days' where id = %s", [ids[2]])
    legacy.conn.execute("update v2_chat_history set channel_id = %s where id = 4", [PIER])
    report = (await migrated(None, legacy), await migrated(app, legacy))[1].parity
    assert not report.is_equal
    assert {(one.dimension, one.value, one.source, one.roomlore) for one in report.counts} == {
        ("author", ANA, 5, 4),
        ("author", ELENA, 1, 2),
        ("day", "2025-12-13", 6, 5),
        ("day", "2025-12-16", 0, 1),
    }
    assert {(one.row, one.field) for one in report.fields if not one.is_expected} == {
        ("1", "author"),
        ("2", "text"),
        ("3", "time"),
    }
    assert report.other_messages == 1


async def test_erased_messages_stay_erased_and_are_explained(app: App, legacy: Legacy):
    legacy.tell(row(1), row(2))
    await migrated(app, legacy)
    await app.erasure.redact(str((await said(app, HARBOUR))["message 1"].id))
    report = await migrated(app, legacy)
    assert report.stored["added"] == 0
    assert report.parity.is_equal
    assert report.parity.compared == 1


async def test_a_secret_in_a_text_is_removed_and_explained(app: App, legacy: Legacy):
    legacy.tell(row(1, content="the key is ghp_0123456789abcdefghijABCDEFGHIJ012345"))
    report = (await migrated(app, legacy)).parity
    assert report.is_equal
    assert [one.why for one in report.fields] == ["secrets or unreadable characters were replaced"]


async def test_a_time_without_a_zone_is_utc(app: App, old: Legacy):
    old.conn.execute("alter table v2_chat_history alter timestamp type timestamp")
    old.tell(row(1, timestamp=NOON.replace(tzinfo=None)))
    assert (await migrated(app, old)).parity.is_equal
    assert (await said(app, HARBOUR))["message 1"].sent_at == NOON


async def test_a_source_that_is_not_there_is_named_without_its_password(app: App, old: Legacy):
    old.conn.execute("alter table v2_chat_history drop column role")
    with pytest.raises(BadInput, match="table v2_chat_history: has no column role"):
        await migrated(app, old)
    old.conn.execute("drop table v2_chat_history")
    with pytest.raises(BadInput, match="table v2_chat_history: is not in the source database"):
        await migrated(app, old)
    for dsn, error in (
        ("postgresql://ana:hush@127.0.0.1:1/none", DatabaseUnavailable),
        ("postgresql://ana:hush@[", BadInput),
    ):
        with pytest.raises(error) as raised:
            await migrate_chat_history(app, dsn, characters={})
        assert "hush" not in str(raised.value)
