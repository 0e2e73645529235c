"""A project store becomes rooms and memories: once, with kinds, status, audience and what replaced what."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from legacy.stores import ADA, BOB, FERRY, NOON, ORG, PIER, Store
from roomlore.domain.errors import BadInput
from roomlore.legacy.projects import MAX_CONTENT, split_text
from roomlore.operations import App
from roomlore.operations.migrations import migrate_project_store


async def memories(app: App, *, history: bool = False) -> dict[str, Any]:
    found = await app.memories.all(
        app.operator, statuses=["active", "deprecated", "archived"] if history else ["active"]
    )
    return {one.content: one for one in found}


async def test_each_project_becomes_a_room_and_agents_are_known_by_their_names(app: App, store: Store):
    store.say("Sam", "Who checks the ramp?")
    store.say("ada", "I do.", created_at=NOON + timedelta(minutes=1))
    store.say("Sam", "Good.", project_id=PIER)
    store.say("__otter_session__", "new session", created_at=NOON + timedelta(minutes=2))
    lost = store.say("Sam", None)
    report = await migrate_project_store(app, store.dsn)
    rooms = {room.external_id: room for room in await app.rooms(app.operator)}
    assert {(room.name, room.kind, room.visibility) for room in rooms.values()} == {
        ("Ferry", "project", "members"),
        (str(PIER), "project", "members"),
    }
    found = await app.messages(app.operator, str(FERRY))
    assert [(one.body, one.author_name, one.author_kind, one.kind) for one in found] == [
        ("Who checks the ramp?", "Sam", "human", "message"),
        ("I do.", "ada", "agent", "message"),
        ("new session", "unknown", "system", "system"),
    ]
    assert report.stored["added"] == 4
    assert [(one.where, one.reason) for one in report.skipped] == [
        (f"project_chat_messages id {lost}", "no text")
    ]
    assert (await migrate_project_store(app, store.dsn)).stored["unchanged"] == 4


async def test_kinds_status_and_numbers_of_memories_are_mapped(app: App, store: Store):
    store.note(
        "We use Postgres", kind="decision", title="Database", importance=5, confidence=0.9, source_issue="821"
    )
    store.note("Old news", status="warm")
    store.note("No longer true", expires_at=NOON)
    store.share("Check the tide first", kind="pattern", quality_score=0.8)
    store.share("Stale", status="stale")
    store.add("agent_memories", agent_id=BOB, kind="daily", content="Painted the pier", date="2026-01-04")
    report = await migrate_project_store(app, store.dsn)
    active = await memories(app)
    assert {one.content: (one.kind, one.title) for one in active.values()} == {
        "We use Postgres": ("decision", "Database"),
        "Check the tide first": ("pattern", ""),
        "Painted the pier": ("context", "Daily notes"),
    }
    decision = active["We use Postgres"]
    assert (decision.importance, decision.confidence, decision.task_id) == (5, pytest.approx(0.9), "821")
    assert decision.valid_from == NOON
    assert active["Painted the pier"].valid_from == datetime(2026, 1, 4, tzinfo=UTC)
    assert [(one.name, one.role) for one in decision.participants] == [("Ada", "involved")]
    assert report.memories["memory_entries"] == {"rows": 3, "memories": 3, "known": 0, "added": 3}
    assert report.missing == []


async def test_what_several_rows_say_is_one_memory(app: App, store: Store):
    entry = store.note("The ramp opens at nine")
    store.share("The ramp opens at nine.", source_memory_id=entry)
    store.note("the ramp opens at nine", agent_id=BOB, status="archived")
    report = await migrate_project_store(app, store.dsn)
    [one] = (await memories(app)).values()
    assert one.status == "active"
    assert {person.name for person in one.participants} == {"Ada", "Bob"}
    assert report.memories["shared_knowledge"]["added"] == 1
    assert report.memories["memory_entries"]["merged"] == 2
    assert report.missing == []


async def test_what_replaced_what_is_linked_after_all_rows_are_in(app: App, store: Store):
    with store.conn.transaction():
        third = store.share("Boats leave at eight")
        second = store.share("Boats leave at seven", status="superseded", superseded_by=third)
        store.share("Boats leave at six", status="superseded", superseded_by=second)
        store.share("Nobody knows when", status="superseded")
    report = await migrate_project_store(app, store.dsn)
    assert (await memories(app)).keys() == {"Boats leave at eight"}
    every = await memories(app, history=True)
    by_id = {one.id: content for content, one in every.items()}
    assert {content: by_id[one.superseded_by] for content, one in every.items() if one.superseded_by} == {
        "Boats leave at seven": "Boats leave at eight",
        "Boats leave at six": "Boats leave at seven",
    }
    assert report.replaced == 2
    again = await migrate_project_store(app, store.dsn)
    assert again.replaced == 0
    assert again.memories["shared_knowledge"] == {"rows": 4, "memories": 4, "known": 4}


async def test_rows_that_replace_each_other_are_archived_and_named(app: App, store: Store):
    one, other = uuid4(), uuid4()
    with store.conn.transaction():
        store.share("hen", id=one, status="superseded", superseded_by=other)
        store.share("egg", id=other, status="superseded", superseded_by=one)
    report = await migrate_project_store(app, store.dsn)
    assert {skipped.reason for skipped in report.skipped} == {"replaced in a circle"}
    assert await memories(app) == {}


async def test_a_memory_of_a_team_or_a_restricted_one_stays_with_its_agent(app: App, store: Store):
    store.say("ada", "I am here")
    store.say("bob", "I too")
    store.note("The key is under the mat", sensitivity="restricted")
    store.share("Only for the crew", scope="team", scope_teams=["crew"])
    store.share("For everybody")
    report = await migrate_project_store(app, store.dsn)
    assert report.private == 2
    seen = {}
    for name in ("ada", "bob"):
        found = await app.memories.all(await app.viewer(name))
        seen[name] = {one.content for one in found}
    assert seen == {
        "ada": {"The key is under the mat", "Only for the crew", "For everybody"},
        "bob": {"For everybody"},
    }


async def test_a_long_file_becomes_several_memories_and_loses_nothing(app: App, store: Store):
    text = "\n\n".join(f"Day {number}: " + "wind " * 300 for number in range(20))
    store.add("agent_memories", agent_id=ADA, kind="long_term", content=text)
    report = await migrate_project_store(app, store.dsn)
    found = await memories(app)
    assert report.memories["agent_memories"]["memories"] == len(found) > 2
    assert sorted(" ".join(found).split()) == sorted(text.split())
    assert all(len(part) <= MAX_CONTENT for part in split_text("x" * 25_000))


async def test_one_of_several_orgs_must_be_named(app: App, store: Store):
    store.note("ours")
    store.note("theirs", org_id=PIER)
    with pytest.raises(BadInput, match="has several orgs"):
        await migrate_project_store(app, store.dsn)
    with pytest.raises(BadInput, match="is not in the source database"):
        await migrate_project_store(app, store.dsn, org=str(FERRY))
    await migrate_project_store(app, store.dsn, org=str(ORG))
    assert (await memories(app)).keys() == {"ours"}


async def test_a_dry_run_stores_nothing_and_tables_may_be_missing(app: App, store: Store):
    store.note("a fact")
    broken = store.note(None)
    store.conn.execute("drop table shared_knowledge cascade; drop table agent_memories; drop table projects")
    report = await migrate_project_store(None, store.dsn)
    assert report.memories == {"memory_entries": {"rows": 2, "memories": 1, "known": 0}}
    assert [one.where for one in report.skipped] == [f"memory_entries id {broken}"]
    assert await memories(app) == {}
    assert (await migrate_project_store(app, store.dsn)).memories["memory_entries"]["added"] == 1
