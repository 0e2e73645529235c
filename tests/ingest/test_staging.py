"""New messages come in through a session's own table, which nothing may outlive."""

import pytest

from ingest.stories import message
from roomlore.db.database import Database
from roomlore.ingest.clean import MANY_DIGITS, clean
from roomlore.operations import App


async def staged(db: Database) -> list[int]:
    async with db.system_connection() as conn:
        return [
            row[0] for row in await (await conn.execute("select count(*) from pg_temp.incoming")).fetchall()
        ]


async def test_nothing_stays_in_the_staging_table(app: App, db: Database):
    one = await Database.connect(db._dsn, size=1)
    app.db = one
    try:
        await app.ingest_batch([message(str(number)) for number in range(5)])
        assert await staged(one) == [0]
        await app.ingest_batch([message(str(number)) for number in range(8)])
        assert await staged(one) == [0]
    finally:
        await one.close()


async def test_a_failed_batch_leaves_nothing_in_the_staging_table(app: App, db: Database):
    one = await Database.connect(db._dsn, size=1)

    async def work(conn) -> None:
        await conn.execute("insert into pg_temp.incoming (external_id) values ('1')")
        raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            await one.change(app.org_id, work)
        assert await staged(one) == [0]
    finally:
        await one.close()


async def test_of_a_batch_half_known_only_the_new_half_makes_work_and_edges(app: App, admin):
    known = [message(str(number)) for number in range(3)]
    await app.ingest_batch(known)
    await admin.execute("delete from work_queue where org_id = %s", [app.org_id])
    new = [message(str(number), reply_to=str(number - 1)) for number in range(3, 6)]

    accepted = await app.ingest_batch(known + new)

    assert {key[1] for key in accepted.added} == {"3", "4", "5"}
    queued = await (
        await admin.execute(
            "select subject_id from work_queue where org_id = %s and queue = 'embed'", [app.org_id]
        )
    ).fetchall()
    assert {row[0] for row in queued} == set(accepted.added.values())
    edges = await (
        await admin.execute(
            "select child_id, parent_id from replies where org_id = %s and parent_id is not null",
            [app.org_id],
        )
    ).fetchall()
    ids = list(accepted.message_ids)
    assert set(edges) == {(ids[3], ids[2]), (ids[4], ids[3]), (ids[5], ids[4])}


@pytest.mark.parametrize("lead", range(20))
def test_an_integer_too_wide_is_found_wherever_it_begins(lead: int):
    raw = {"a" * lead: 10**76 * 8, "b": 2**257}
    assert MANY_DIGITS.search(str(raw))
    cleaned = clean(message(raw=raw), now=message().sent_at)
    assert cleaned.message.raw == {"a" * lead: 10**76 * 8, "b": None}


def test_a_record_that_is_clean_is_not_copied():
    record = message(raw={"text": "hello", "n": 1})
    assert clean(record, now=record.sent_at).message is record
