"""What operators say of a room stays: who may read it, what it is called, who its members are, and that it is gone."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ingest.stories import at, author, message, room
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership, IncomingRoom
from roomlore.operations import App

STAFF = room("staff", visibility="members", topic="who earns what")
PLAN = "We decided to close the Leipzig office in May."


async def told(app: App) -> None:
    """Ana and Bo speak in a closed room, Cy somewhere else."""
    await app.ingest_batch(
        [
            message("1", PLAN, room=STAFF, author=author("ana")),
            message("2", "Agreed, Leipzig closes.", room=STAFF, author=author("bo"), reply_to="1"),
            message("3", "psst", room=STAFF, author=author("bo"), kind="whisper", audience=(author("ana"),)),
            message("4", "hello all", author=author("cy")),
        ]
    )


async def heard(app: App, name: str, where: str = "staff") -> list[str]:
    try:
        return [one.external_id for one in await app.messages(await app.viewer(name), where)]
    except NotFound:
        return []


async def test_an_opened_room_is_read_by_all_and_a_closed_one_by_its_members(app: App):
    await told(app)
    dry = await app.room_admin.open("staff", dry_run=True)
    assert (dry.messages, dry.is_dry_run, await heard(app, "cy")) == (2, True, [])
    opened = await app.room_admin.open("staff")
    assert opened == replace(dry, is_dry_run=False)
    # A whisper stays one.
    assert await heard(app, "cy") == ["1", "2"]
    assert (await app.room_admin.open("staff")).messages == 0
    # Nothing that was known already closes it again.
    await app.ingest(message("5", room=STAFF, author=author("bo")))
    assert await heard(app, "cy") == ["1", "2", "5"]
    await app.room_admin.close("staff")
    assert await heard(app, "cy") == []
    assert await heard(app, "bo") == ["2", "3", "5"]


async def test_an_opened_room_of_which_nothing_was_known_closes_when_it_is_said_to_be_private(app: App):
    await app.ingest(message("1", room=room("staff"), author=author("ana")))
    await app.ingest(message("9", author=author("cy")))
    assert await heard(app, "cy") == []
    await app.room_admin.open("staff")
    await app.ingest(message("2", room=room("staff"), author=author("ana")))
    assert await heard(app, "cy") == ["1", "2"]
    await app.ingest(message("3", room=STAFF, author=author("ana")))
    assert await heard(app, "cy") == []


async def test_a_direct_room_is_never_opened(app: App, admin: psycopg.AsyncConnection):
    await app.ingest(message(room=room("d", kind="dm")))
    with pytest.raises(BadInput, match="never open"):
        await app.room_admin.open("d")
    with pytest.raises(psycopg.errors.CheckViolation):
        await admin.execute("update rooms set visibility = 'open' where org_id = %s", [app.org_id])


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("later", [room("d"), room("d", kind=None), room("d", kind="group_dm", name="Pair")])
async def test_a_direct_room_stays_one_and_its_name_whatever_later_records_leave_out(
    app: App, later: IncomingRoom, *, together: bool
):
    lines = [
        message("1", room=room("d", kind="dm", name="Ana and Bo")),
        message("2", room=replace(later, visibility="open")),
        message("9", author=author("cy")),
    ]
    for batch in [lines] if together else [[one] for one in lines]:
        await app.ingest_batch(batch)
    [found] = [one for one in await app.rooms(app.operator) if one.external_id == "d"]
    assert (found.name in {"Ana and Bo", later.name}, found.name == "d") == (True, False)
    assert found.kind in {"dm", "group_dm"} if together else found.kind == "dm"
    with pytest.raises(BadInput, match="never open"):
        await app.room_admin.open("d")
    assert await heard(app, "cy", "d") == []


async def test_a_room_that_turns_out_to_be_direct_is_closed_and_direct_from_then_on(app: App):
    await app.ingest(message("2", room=room("d", visibility="open")))
    await app.ingest(message("9", author=author("cy")))
    assert await heard(app, "cy", "d") == ["2"]
    await app.ingest(message("1", room=room("d", kind="dm")))
    assert await heard(app, "cy", "d") == []
    with pytest.raises(BadInput, match="never open"):
        await app.room_admin.open("d")


async def test_a_room_of_a_kind_that_nobody_knows_keeps_the_kind_it_had(app: App):
    await app.ingest(message("1", room=room("p", kind="project", name="Pier")))
    await app.ingest(message("2", room=room("p", kind=None)))
    [found] = await app.rooms(app.operator)
    assert (found.kind, found.name) == ("project", "Pier")


@pytest.mark.parametrize("together", [True, False])
async def test_each_time_that_a_room_becomes_private_is_believed(app: App, *, together: bool):
    await told(app)
    await app.room_admin.open("staff")
    lines = [
        message("5", room=replace(STAFF, visibility="open"), author=author("bo")),
        message("6", room=STAFF, author=author("bo")),
    ]
    for batch in [lines] if together else [[one] for one in lines]:
        await app.ingest_batch(batch)
    assert await heard(app, "cy") == []
    # And what an operator opens after that stays open, until it is news again.
    await app.room_admin.open("staff")
    await app.ingest(message("7", room=STAFF, author=author("bo")))
    assert await heard(app, "cy") == ["1", "2", "5", "6", "7"]


async def test_that_a_room_is_public_by_its_platform_opens_nothing(app: App):
    await told(app)
    await app.ingest(message("5", room=replace(STAFF, visibility="open"), author=author("bo")))
    assert await heard(app, "cy") == []


async def test_a_name_that_was_given_stays(app: App):
    await told(app)
    await app.room_admin.rename("staff", "  The   bridge ")
    await app.ingest(message("8", room=replace(STAFF, name="crew", topic="new"), author=author("ana")))
    [found] = [one for one in await app.rooms(app.operator) if one.external_id == "staff"]
    assert (found.name, found.topic) == ("The bridge", "new")
    assert await heard(app, "ana", "the bridge") == ["1", "2", "3", "8"]
    for name in ("", "x" * 501):
        with pytest.raises(BadInput, match="name"):
            await app.room_admin.rename("staff", name)


async def test_a_member_reads_from_when_on_an_operator_says(app: App):
    await told(app)
    manage = app.room_admin
    await manage.add_member("staff", "cy", since=at(1.5))
    assert await heard(app, "cy") == ["2"]
    await manage.add_member("staff", "cy", always=True)
    assert await heard(app, "cy") == ["1", "2"]
    assert next((one.name, one.known_by) for one in await manage.members("staff") if one.name == "Cy") == (
        "Cy",
        "operator",
    )
    with pytest.raises(BadInput, match="time"):
        await manage.add_member("staff", "cy", since=at(1), always=True)


async def test_whoever_was_removed_stays_removed_whatever_lists_say(app: App):
    await told(app)
    manage = app.room_admin
    await app.people.merge("bo", "cy")
    [bo, ana] = [one for one in await manage.remove_member("staff", "cy") if one.name in {"Ana", "Bo"}][::-1]
    assert (ana.left_at, bo.left_at is None) == (None, False)
    later = at(0) + timedelta(days=300)
    listed = replace(
        STAFF, members=(IncomingMembership(author=author("bo")), IncomingMembership(author=author("ana")))
    )
    await app.ingest(message("99", "after", room=listed, author=author("ana"), sent_at=later))
    # What was said while they were there they may still read; and they were there until now.
    assert bo.left_at is not None
    assert bo.left_at > later or "99" not in await heard(app, "bo")
    ended = {one.participant_id: one.left_at for one in await manage.members("staff")}
    assert ended[bo.participant_id] == bo.left_at
    with pytest.raises(NotFound):
        await manage.remove_member("staff", "bo")


async def test_whoever_was_removed_does_not_come_back_by_another_account(app: App):
    await told(app)
    await app.ingest(message("9", author=author("bo2")))
    await app.people.merge("bo", "bo2")
    await app.room_admin.remove_member("staff", "bo")
    later = datetime.now(UTC) + timedelta(days=1)
    members = tuple(IncomingMembership(author=author(one)) for one in ("ana", "bo", "bo2"))
    listed = replace(STAFF, members=members)
    await app.ingest(message("98", "listed", room=listed, author=author("ana"), sent_at=later))
    # Nor by writing there.
    await app.ingest(message("99", "wrote", room=STAFF, author=author("bo2"), sent_at=later))
    await app.ingest(
        message("100", "after", room=STAFF, author=author("ana"), sent_at=later + timedelta(hours=1))
    )
    assert await heard(app, "bo") == ["2", "3", "99"]


async def test_a_list_ends_presences_in_a_room_that_an_operator_closed(app: App):
    crew = room("crew")
    both, one = (
        replace(crew, members=tuple(IncomingMembership(author=author(who)) for who in listed))
        for listed in (("ana", "eve"), ("ana",))
    )
    await app.ingest_batch([message("1", room=both), message("2", author=author("eve"))])
    await app.room_admin.close("crew")
    await app.ingest(message("3", "eve has left", room=one))
    await app.ingest(message("4", room=crew))
    assert await heard(app, "eve", "crew") == ["1"]
    assert await heard(app, "ana", "crew") == ["1", "3", "4"]


async def test_whoever_was_added_stays_when_a_list_leaves_them_out(app: App):
    await told(app)
    await app.room_admin.add_member("staff", "cy", always=True)
    listed = replace(STAFF, members=(IncomingMembership(author=author("ana")),))
    await app.ingest(message("5", "after", room=listed, author=author("ana")))
    assert await heard(app, "cy") == ["1", "2", "5"]


@pytest.mark.parametrize("who", ["ana", "cy"])
async def test_nobody_but_operators_arranges_rooms(app: App, who: str):
    await told(app)
    manage = app.impersonate(await app.viewer(who)).room_admin
    calls: list[Any] = [
        lambda: manage.open("staff"),
        lambda: manage.open("staff", dry_run=True),
        lambda: manage.close("general"),
        lambda: manage.rename("general", "mine"),
        lambda: manage.members("staff"),
        lambda: manage.add_member("staff", "cy", always=True),
        lambda: manage.remove_member("staff", "bo"),
        lambda: app.impersonate(manage.access.principal).erasure.room("general"),
        lambda: app.impersonate(manage.access.principal).erasure.room("general", dry_run=True),
    ]
    for call in calls:
        with pytest.raises(NotAllowed):
            await call()
    assert await heard(app, "cy") == []
    assert await heard(app, "cy", "general") == ["4"]


async def test_an_erased_room_is_gone_with_all_that_was_made_of_it_and_does_not_come_back(
    app: App, admin: psycopg.AsyncConnection, tmp_path: Path
):
    await told(app)
    await app.drain()
    assert (await app.search(app.operator, "Leipzig")).hits
    dry = await app.erasure.room("staff", dry_run=True)
    assert await heard(app, "ana") == ["1", "2", "3"]
    receipt = await app.erasure.room("staff")
    assert receipt.is_clean, receipt.checks
    removed = {one.what: one.count for one in receipt.removed}
    assert removed == {one.what: one.count for one in dry.removed}
    assert removed["messages"] == 3
    assert removed["rooms"] == 1
    await app.drain()
    assert [one.external_id for one in await app.rooms(app.operator)] == ["general"]
    found = await app.search(app.operator, "Leipzig")
    assert {message.body for hit in found.hits for message in hit.messages} <= {"hello all"}
    assert not await app.memories.all(app.operator)
    again = await app.ingest_batch([message("1", PLAN, room=STAFF), message("7", "new", room=STAFF)])
    assert [one.reason for one in again.skipped] == ["its room was erased"] * 2
    export = tmp_path / "staff.jsonl"
    line = {"schema": "roomlore.message/1", "platform": "test", "id": "9", "room": "staff", "author": "ana"}
    export.write_text(json.dumps(line | {"text": "hi", "sent_at": 1_700_000_000_000}))
    [told_of] = (await app.import_path(export)).audiences
    assert told_of.why == "it was erased, and stays out"
    assert [one.external_id for one in await app.rooms(app.operator)] == ["general"]
    words = await whole_database(admin, app)
    assert "Leipzig" not in words
    assert "who earns what" not in words


async def whole_database(admin: psycopg.AsyncConnection, app: App) -> str:
    """Return every row of the org, of every table, as text."""
    tables = await (
        await admin.execute(
            "select table_name from information_schema.columns"
            " where table_schema = 'roomlore' and column_name = 'org_id'"
            " and table_name in (select relname from pg_class where relkind in ('r', 'p'))"
        )
    ).fetchall()
    parts: list[str] = []
    for (table,) in tables:
        rows = await admin.execute(f"select t::text from {table} as t where org_id = %s", [app.org_id])  # type: ignore[arg-type]
        parts += [row[0] for row in await rows.fetchall()]
    return "\n".join(parts)


async def test_the_rooms_of_a_project_are_found_with_what_they_remember(app: App) -> None:
    rooms = [room("plan", context_id="project-7"), room("build", context_id="project-7"), room("lunch")]
    await app.ingest_batch([message(str(number), room=where) for number, where in enumerate(rooms)])
    for number, where in enumerate(rooms):
        await app.memories.remember(f"The {where.name} is settled.", sources=[str(number)])
    await app.memories.remember("The budget is 40.", room="plan")

    assert {one.name: one.context_id for one in await app.rooms(app.operator)} == {
        "plan": "project-7",
        "build": "project-7",
        "lunch": None,
    }
    found = await app.memories.all(app.operator, context="project-7")
    assert {memory.content for memory in found} == {
        "The plan is settled.",
        "The build is settled.",
        "The budget is 40.",
    }
    found = await app.memories.all(app.operator, context="project-7", room="build")
    assert [memory.content for memory in found] == ["The build is settled."]


async def test_an_operator_moves_a_room_to_a_project_and_away_again(app: App) -> None:
    await app.ingest(message("1", room=room("plan")))
    await app.room_admin.set_context("plan", "issue-4")
    await app.ingest(message("2", room=room("plan")))
    assert [one.context_id for one in await app.rooms(app.operator)] == ["issue-4"]

    await app.room_admin.set_context("plan")
    assert [one.context_id for one in await app.rooms(app.operator)] == [None]
    await app.ingest(message("3", room=room("plan", context_id="issue-5")))
    assert [one.context_id for one in await app.rooms(app.operator)] == ["issue-5"]
