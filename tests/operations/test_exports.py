"""What is exported comes back elsewhere as it was; what was erased does not."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from conformance.story import everything
from conftest import OpenApp, TellOnce
from ingest.stories import at
from operations.village import ANA, BO, CY, SQUARE, say
from roomlore.db.exports import RECORD_KINDS
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import OrgId
from roomlore.importers.reading.export import open_export
from roomlore.operations import App
from roomlore.operations.exports import RestoreReport, find_export

#: Tables of an org that an export leaves out: secrets, logs, waiting work, and what is derived again.
LEFT_OUT = {
    "api_keys", "audit_log", "embedding_versions", "heartbeats", "idempotency", "llm_call_messages", "llm_calls",
    "llm_quota", "llm_room_quota", "memory_embeddings", "message_embeddings", "orgs", "outbox", "projections",
    "work_queue",
}  # fmt: skip
TABLES = """
select relname from pg_class
where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p') and not relispartition
  and exists (select 1 from pg_attribute where attrelid = pg_class.oid and attname = 'org_id')
"""
Wipe = Callable[[OrgId], Awaitable[None]]


@pytest.fixture
async def wipe(admin: psycopg.AsyncConnection) -> Wipe:
    """Remove everything of an org but the org itself, as if it had never been in this database."""

    async def run(org_id: OrgId) -> None:
        tables = [name for (name,) in await (await admin.execute(TABLES)).fetchall() if name != "orgs"]
        async with admin.transaction():
            await admin.execute("set local session_replication_role = replica")
            for table in tables:
                statement = sql.SQL("delete from {} where org_id = %s").format(sql.Identifier(table))
                await admin.execute(statement, [org_id])

    return run


@pytest.fixture
async def town(open_app: OpenApp, tell_once: TellOnce) -> App:
    """An org with something of everything, somebody erased, and a memory that was superseded."""
    app = await open_app("town")
    await tell_once(app, everything)
    old = await app.memories.remember("The stairs are red.", sources=["m4"])
    await app.memories.remember("The stairs are blue.", sources=["m4"], supersedes=str(old.id))
    await app.memories.remember("The office closes at six.", tags=["house"], metadata={"page": 3})
    await app.agents.set_trust("pip", "bo", 0.7)
    await app.ingest_batch(
        [
            say(26, BO, SQUARE, body="first words"),
            say(27, CY, SQUARE, body="I agree", reply_to="m26"),
            say(26, BO, SQUARE, body="better words", edited_at=at(29)),
            say(28, BO, SQUARE, body="", deleted=True),
        ]
    )
    await app.drain()
    await app.erasure.person("eve")
    return app


async def lines_of(app: App, **scope: Any) -> list[str]:
    return [text async for _, text in app.exports.lines(**scope)]


async def restored(app: App, path: Path, lines: list[str]) -> RestoreReport:
    await asyncio.to_thread(path.write_text, "\n".join(lines) + "\n", encoding="utf-8")
    with open_export(path) as source:
        found = find_export(source)
        assert found is not None
        return await app.exports.restore(found)


def kinds(lines: list[str]) -> Counter[str]:
    return Counter(json.loads(line)["record"] for line in lines[1:])


async def test_every_table_is_exported_or_left_out_on_purpose(admin: psycopg.AsyncConnection) -> None:
    there = {name for (name,) in await (await admin.execute(TABLES)).fetchall()}
    exported = {
        table for kind in RECORD_KINDS for table in (kind.table, *(child.table for child in kind.children))
    }

    assert exported | LEFT_OUT == there
    assert not exported & LEFT_OUT


async def test_an_org_comes_back_byte_for_byte(town: App, wipe: Wipe, tmp_path: Path) -> None:
    before = await lines_of(town)
    await wipe(town.org_id)
    report = await restored(town, tmp_path / "town.jsonl", before)

    assert report.skipped == ()
    assert report.added == kinds(before) == report.records
    assert await lines_of(town) == before
    # The story has each kind that an export can have, except injections and rooms that were erased.
    assert {kind.name for kind in RECORD_KINDS} - kinds(before).keys() == {"injection", "erased_room"}


async def test_what_a_reader_sees_is_the_same_after_an_import(town: App, wipe: Wipe, tmp_path: Path) -> None:
    async def shown() -> list[object]:
        people = [await town.viewer(name) for name in ("ana", "bo", "cy", "pip")]
        return [
            [
                await town.rooms(viewer),
                [await town.messages(viewer, room.name) for room in await town.rooms(viewer)],
            ]
            for viewer in people
        ]

    before, export = await shown(), await lines_of(town)
    await wipe(town.org_id)
    await restored(town, tmp_path / "town.jsonl", export)

    assert await shown() == before


async def test_an_import_is_searched_once_its_work_is_done(
    town: App, wipe: Wipe, admin: psycopg.AsyncConnection, tmp_path: Path
) -> None:
    export = await lines_of(town)
    await wipe(town.org_id)
    await restored(town, tmp_path / "town.jsonl", export)
    await town.drain()

    found = await town.search(town.operator, "better words")
    assert found.hits[0].messages[0].body == "better words"
    wanting = "select count(*) from embeddable where org_id = %s and id not in (select id from embedded where org_id = %s)"
    assert await (await admin.execute(wanting, [town.org_id] * 2)).fetchone() == (0,)


async def test_importing_again_adds_nothing(town: App, tmp_path: Path) -> None:
    before = await lines_of(town)
    report = await restored(town, tmp_path / "town.jsonl", [line for line in before if '"eve"' not in line])

    assert not report.added
    assert {one.reason for one in report.skipped} == {"room is already here"}
    assert await lines_of(town) == before


async def test_a_room_comes_back_in_another_org(town: App, open_app: OpenApp, tmp_path: Path) -> None:
    other = await open_app("other")
    room = await lines_of(town, room="attic")
    report = await restored(other, tmp_path / "attic.jsonl", room)

    assert report.skipped == ()
    assert [room.name for room in await other.rooms(other.operator)] == ["attic"]
    assert (await lines_of(other, room="attic"))[1:] == room[1:]
    assert kinds(room)["memory"] >= 2


async def test_a_room_finds_the_people_who_are_there_already(
    town: App, open_app: OpenApp, tmp_path: Path
) -> None:
    other = await open_app("other")
    await other.ingest_batch([say(1, ANA, SQUARE)])
    await restored(other, tmp_path / "attic.jsonl", await lines_of(town, room="attic"))

    ana = await other.viewer("ana")
    assert {room.name for room in await other.rooms(ana)} == {"attic", "square"}
    assert len([one for one in await other.participants(other.operator) if one.name == "Ana"]) == 1


async def test_a_person_gets_what_they_wrote_and_nothing_that_they_may_not_read(town: App) -> None:
    export = await lines_of(town, person=await town.viewer("bo"))
    messages = [json.loads(line) for line in export if '"record": "message"' in line]

    assert {message["author"]["id"] for message in messages} == {"bo"}
    assert len(messages) == len({message["id"] for message in messages}) > 3
    assert not any("platform" in (message["metadata"] or {}) for message in messages)
    whole = "\n".join(export)
    assert "4711" not in whole
    assert "cellar" not in whole
    assert "Bo likes ladders" in whole


async def test_a_persons_export_can_be_imported(town: App, open_app: OpenApp, tmp_path: Path) -> None:
    other = await open_app("other")
    export = await lines_of(town, person=await town.viewer("bo"))
    report = await restored(other, tmp_path / "bo.jsonl", export)

    assert report.skipped == ()
    assert report.added == kinds(export)


async def test_only_operators_export_a_room_or_the_org(town: App) -> None:
    bo = town.impersonate(await town.viewer("bo"))
    with pytest.raises(NotAllowed):
        await lines_of(bo)
    with pytest.raises(NotAllowed):
        await lines_of(bo, room="square")
    with pytest.raises(NotAllowed):
        await lines_of(bo, person=await town.viewer("ana"))
    assert await lines_of(bo, person=await town.viewer("bo"))


async def test_an_export_from_before_an_erasure_does_not_bring_the_person_back(
    town: App, tmp_path: Path
) -> None:
    before = await lines_of(town)
    await town.erasure.person("cy")
    after = await lines_of(town)

    with pytest.raises(BadInput, match="somebody who was erased here"):
        await restored(town, tmp_path / "town.jsonl", before)
    assert await lines_of(town) == after


async def test_an_erased_range_does_not_come_back(town: App, tmp_path: Path) -> None:
    before = await lines_of(town)
    await town.erasure.range("square", since=at(26))
    after = await lines_of(town)
    await restored(town, tmp_path / "town.jsonl", before)

    assert "better words" not in "\n".join(after)
    assert await lines_of(town) == after


async def test_an_export_of_another_org_is_refused(town: App, open_app: OpenApp, tmp_path: Path) -> None:
    other = await open_app("other")
    with pytest.raises(BadInput, match="another org: import it into a new one with --org"):
        await restored(other, tmp_path / "town.jsonl", await lines_of(town))


def spoilt(line: str, damage: str) -> str:
    """Return a line with some damage."""
    return {
        "cut": line[: len(line) // 2],
        "list": "[1, 2]",
        "other kind": '{"record": "spell"}',
        "no fields": '{"record": "message", "row": 3}',
        "unknown message kind": line.replace('"kind": "message"', '"kind": "song"', 1),
        "zero byte": line.replace("word1", "word\\u0000"),
        "half a character": line.replace("word1", "word\\ud800"),
    }[damage]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("cut", "not JSON"),
        ("list", "not an object"),
        ("other kind", "unknown kind of record"),
        ("no fields", "damaged record"),
        ("unknown message kind", "refused by the database"),
        ("zero byte", "refused by the database"),
        ("half a character", "refused by the database"),
    ],
)
async def test_a_broken_line_costs_only_itself(
    town: App, open_app: OpenApp, tmp_path: Path, *, damage: str, reason: str
) -> None:
    other = await open_app("other")
    lines = await lines_of(town, room="square")
    place = next(place for place, line in enumerate(lines) if "village word1" in line)
    lines[place] = spoilt(lines[place], damage)
    report = await restored(other, tmp_path / "square.jsonl", lines)

    there = [message.external_id for message in await other.messages(other.operator, "square", limit=100)]
    assert "m1" not in there
    assert {"m3", "m20", "m21"} <= set(there)
    assert f"line {place + 1}" in {one.where for one in report.skipped if one.reason == reason}
    assert not any("word" in one.detail for one in report.skipped)


async def test_a_secret_in_an_export_is_not_stored(town: App, open_app: OpenApp, tmp_path: Path) -> None:
    other = await open_app("other")
    token = "ghp_" + "a1B2" * 9
    lines = [
        line.replace("village word1", f"village {token}") for line in await lines_of(town, room="square")
    ]
    await restored(other, tmp_path / "square.jsonl", lines)

    assert token not in "\n".join(await lines_of(other))


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ('{"schema": "roomlore.export/1"}', "damaged first line"),
        ('{"schema": "roomlore.export/9", "scope": "org", "org": "%s", "database": 1, "privacy_mode": "on"}', "not an export"),
        ('{"schema": "roomlore.export/1", "scope": "org", "org": "%s", "database": 1, "privacy_mode": "on"}', "version 1"),
    ],
)  # fmt: skip
async def test_a_header_that_does_not_fit_is_refused(app: App, tmp_path: Path, header: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        await restored(app, tmp_path / "a.jsonl", [header.replace("%s", str(app.org_id))])
