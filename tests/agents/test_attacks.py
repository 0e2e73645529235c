"""What the functions for agents tell those who ask about others."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from ingest.stories import author, message, room
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import Viewer
from roomlore.operations import App

ANA, PIP, POP = author("ana"), author("pip", kind="agent"), author("pop", kind="agent")
START = datetime.now(UTC) - timedelta(days=1)
ATTIC = room(
    "attic", visibility="members", members=tuple(IncomingMembership(author=who) for who in (ANA, PIP))
)
EXPERIENCES = "select memory_id from experiences(%s, row(null, null, null, null, null, null, true, null, now())::experience_filter, 99)"


@pytest.fixture
async def told(app: App) -> App:
    said = [
        message("m1", "the lantern is in the attic", author=ANA, room=ATTIC, sent_at=START),
        message("m2", "hello", author=PIP, sent_at=START),
        message("m3", "hello", author=POP, sent_at=START),
        message("m4", "hello", author=ANA, sent_at=START),
    ]
    assert (await app.ingest_batch(said)).skipped == []
    pip = app.impersonate(await app.viewer("pip"))
    await pip.memories.remember("The lantern is in the attic", kind="insight", sources=["m1"])
    await pip.memories.remember("I am cold", kind="observation")
    return app


async def asked(app: App, viewer: Viewer, query: str, params) -> list[tuple]:
    async with app.db.read_transaction(viewer) as conn:
        return await (await conn.execute(query, params)).fetchall()


async def test_experiences_are_told_as_far_as_the_memories_are(told):
    pip = await told.viewer("pip")
    ids = [[pip.participant_id]]
    counts = {
        name: len(await asked(told, await told.viewer(name), EXPERIENCES, ids))
        for name in ("pip", "ana", "pop")
    }
    assert counts == {"pip": 2, "ana": 1, "pop": 0}
    assert len(await asked(told, told.operator, EXPERIENCES, ids)) == 2


async def test_nobody_is_told_anything_of_another_org(told, open_app):
    pip = await told.viewer("pip")
    other = await open_app("other")
    for viewer in (other.operator, Viewer(org_id=other.org_id, participant_id=pip.participant_id)):
        assert await asked(told, viewer, EXPERIENCES, [[pip.participant_id]]) == []
        [(mark,)] = await asked(told, viewer, "select experience_state(%s)", [[pip.participant_id]])
        assert mark == 0


async def test_the_mark_of_others_never_changes(told):
    ids = [[(await told.viewer("pip")).participant_id]]
    nobody = Viewer(org_id=told.org_id, participant_id=uuid4())
    for viewer in (await told.viewer("ana"), await told.viewer("pop"), nobody):
        assert await asked(told, viewer, "select experience_state(%s)", ids) == [(0,)]
    assert await asked(told, told.operator, "select experience_state(%s)", ids) != [(0,)]


async def test_whether_something_is_still_given_is_told_to_nobody_who_may_not_see_the_memory(told, admin):
    await add_nobody(told, admin)
    await admin.execute(
        "with said as (insert into messages (org_id, id, room_id, external_id, kind, author_id, author_name, author_kind,"
        " body, sent_at, precision, received_at, is_directed) select org_id, gen_random_uuid(), room_id, 'given',"
        " 'context_injection', org_id, '', 'system', 'gift', sent_at, 'us', now(), true from messages"
        " where org_id = %(org)s and external_id = 'm2' returning *), heard as (insert into message_audience select"
        " said.org_id, said.id, participants.id from said join participants using (org_id)"
        " where participants.kind = 'agent')"
        " insert into injections select said.org_id, said.id, said.room_id, participants.id, memory_id, message_id, now()"
        " from said join memory_sources using (org_id) join participants using (org_id) where participants.name = 'Pip'",
        {"org": told.org_id},
    )
    [[key]] = await (
        await admin.execute("select message_id from injections where org_id = %s", [told.org_id])
    ).fetchall()
    # Both agents are addressed; Pop was never in the attic, which the memory rests on.
    for name, expected in (("pip", True), ("ana", True), ("pop", False)):
        viewer = await told.viewer(name)
        assert await asked(told, viewer, "select is_delivered(%s)", [key]) == [(expected,)]
        rows = await asked(told, viewer, "select 1 from messages where id = %s", [key])
        assert len(rows) == (name == "pip")
        ledger = await asked(told, viewer, "select 1 from injections where message_id = %s", [key])
        assert len(ledger) == (name == "pip")


async def add_nobody(told: App, admin) -> None:
    """Make the author of holes, who stands for somebody that no viewer is."""
    await admin.execute(
        "insert into participants (org_id, id, kind, name, named_at, first_name, first_named_at)"
        " values (%s, %s, 'system', 'x', now(), 'x', now())",
        [told.org_id, told.org_id],
    )
