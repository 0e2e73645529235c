"""A room that is to keep less than before begins after a day, and until then this can be taken back."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ingest.stories import message
from roomlore.domain.errors import NotAllowed
from roomlore.domain.retention import RetentionPolicy, change_policy
from roomlore.ingest.erasure_filter import TOO_OLD_REASON
from roomlore.jobs import expiry
from roomlore.operations import App

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MONTH = timedelta(days=30)
YEAR = timedelta(days=365)
WAITING = RetentionPolicy(retention_period=MONTH, before=YEAR, starts_at=NOW + DAY / 2)


@pytest.mark.parametrize(
    ("held", "retention_period", "expected"),
    [
        (
            RetentionPolicy(retention_period=None),
            MONTH,
            RetentionPolicy(retention_period=MONTH, starts_at=NOW + DAY),
        ),
        (
            RetentionPolicy(retention_period=YEAR),
            MONTH,
            RetentionPolicy(retention_period=MONTH, before=YEAR, starts_at=NOW + DAY),
        ),
        (RetentionPolicy(retention_period=MONTH), MONTH, RetentionPolicy(retention_period=MONTH)),
        (RetentionPolicy(retention_period=MONTH), YEAR, RetentionPolicy(retention_period=YEAR)),
        (RetentionPolicy(retention_period=MONTH), None, RetentionPolicy(retention_period=None)),
        # Said again while it waits, it waits no longer than before; made shorter, it waits anew.
        (WAITING, MONTH, WAITING),
        (
            WAITING,
            2 * MONTH,
            RetentionPolicy(retention_period=2 * MONTH, before=YEAR, starts_at=NOW + DAY / 2),
        ),
        (WAITING, DAY, RetentionPolicy(retention_period=DAY, before=YEAR, starts_at=NOW + DAY)),
        (WAITING, YEAR, RetentionPolicy(retention_period=YEAR)),
        (WAITING, None, RetentionPolicy(retention_period=None)),
    ],
)
def test_only_a_shorter_time_waits(
    held: RetentionPolicy, retention_period: timedelta | None, expected: RetentionPolicy
):
    assert change_policy(held, retention_period, now=NOW, grace=DAY) == expected


async def left(app: App) -> list[str]:
    return [one.external_id for one in await app.messages(app.operator, "general")]


async def let_grace_end(app: App, admin: psycopg.AsyncConnection) -> None:
    past = "update rooms set retention_starts_at = now() - interval '1 s' where org_id = %s"
    await admin.execute(past, [app.org_id])


async def test_nothing_goes_within_the_day_and_what_was_announced_goes_after_it(
    app: App, admin: psycopg.AsyncConnection
):
    now = datetime.now(UTC)
    ages = {"old": 40 * DAY, "soon": MONTH - DAY / 2, "new": DAY}
    said = {name: now - age for name, age in ages.items()}
    await app.ingest_batch([message(name, sent_at=at) for name, at in said.items()])
    seen = await app.erasure.set_retention("general", MONTH, dry_run=True)
    [room] = await app.rooms(app.operator)
    assert (room.retention_period, room.retention_starts_at) == (None, None)
    told = await app.erasure.set_retention("general", MONTH)
    # What grows too old during the day counts, too.
    assert (told.messages, told.oldest_at, told.newest_at) == (2, said["old"], said["soon"])
    assert (seen.messages, seen.is_dry_run, told.is_dry_run) == (2, True, False)
    assert told.starts_at is not None
    assert abs(told.starts_at - now - DAY) < timedelta(minutes=10)
    assert [(one.retention_period, one.retention_starts_at) for one in await app.rooms(app.operator)] == [
        (MONTH, told.starts_at)
    ]

    assert await expiry.expire_everywhere(app.access.db, now=datetime.now(UTC), only_org=app.org_id) == []
    assert await left(app) == ["old", "soon", "new"]
    # Nor is anything kept out that the room would have taken in.
    assert (await app.ingest_batch([message("older", sent_at=now - 50 * DAY)])).skipped == []

    await let_grace_end(app, admin)
    [receipt] = await app.erasure.erase_expired()
    assert [(one.what, one.count) for one in receipt.removed if one.what == "messages"] == [("messages", 2)]
    assert await left(app) == ["soon", "new"]
    late = await app.ingest_batch([message("older", sent_at=now - 50 * DAY)])
    assert [one.reason for one in late.skipped] == [TOO_OLD_REASON]


async def test_what_a_room_kept_before_holds_until_the_shorter_time_begins(app: App, monkeypatch):
    now = datetime.now(UTC)
    await app.ingest_batch([message("a", sent_at=now - 2 * YEAR), message("b", sent_at=now - 2 * MONTH)])
    with monkeypatch.context() as patch:
        patch.setattr("roomlore.domain.retention.GRACE", timedelta(0))
        await app.erasure.set_retention("general", YEAR)
    await app.erasure.set_retention("general", MONTH)
    await app.erasure.erase_expired()
    assert await left(app) == ["b"]


async def test_it_can_be_taken_back_for_good(app: App, admin: psycopg.AsyncConnection):
    await app.ingest(message("1"))
    await app.erasure.set_retention("general", DAY)
    assert (await app.erasure.set_retention("general", None)).starts_at is None
    await check_nothing_waits(app, admin)
    assert await app.erasure.erase_expired() == []
    assert await left(app) == ["1"]


async def check_nothing_waits(app: App, admin: psycopg.AsyncConnection) -> None:
    rows = await admin.execute(
        "select retention_period, previous_retention_period, retention_starts_at from rooms where org_id = %s",
        [app.org_id],
    )
    assert await rows.fetchall() == [(None, None, None)]


async def test_nobody_but_an_operator_learns_what_would_go(app: App):
    await app.ingest(message("1"))
    member = app.impersonate(await app.viewer("ana"))
    for dry_run in (True, False):
        with pytest.raises(NotAllowed):
            await member.erasure.set_retention("general", DAY, dry_run=dry_run)
