"""An import says what it found, stores whole batches, and adds only what is missing when it is run again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ingest.stories import at, message, state
from roomlore.domain.errors import BadInput, UnknownFormat
from roomlore.ingest import accept, imports
from roomlore.ingest.imports import BATCH, ImportOptions
from roomlore.operations import App, preview

SCHEMA = "roomlore.message/1"


def line(number: int, **fields: Any) -> str:
    record = {
        "schema": SCHEMA,
        "id": str(number),
        "room": "general",
        "author": "ana",
        "text": f"text {number}",
        "sent_at": 1_700_000_000_000 + number * 1000,
    }
    return json.dumps(record | fields)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def repair(path: Path, number: int, text: str) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = text
    write(path, lines)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write(
        tmp_path / "chat.jsonl",
        [
            line(1),
            line(2, author={"id": "helper", "name": "Helper"}, reply_to="1"),
            "{ broken",
            line(3, kind="system", author={"id": "sys", "kind": "system"}),
            line(4, reply_to="nowhere", text="my key is xoxb-" + "1234567890-abcdef"),
            line(5, sent_at="3999-01-01T00:00:00Z"),
            line(6, room="other", edited_at=1_700_000_100_000),
            line(7, author=None),
        ],
    )


FOUND = {
    "format": "jsonl",
    "rooms": 2,
    "messages": 5,
    "system": 1,
    "authors": {"human": 2, "system": 1},
    "replies": {"resolved": 1, "dangling": 1},
    "edits": 1,
    "zone_assumed": 0,
    "unreadable": 0,
    "skipped": {"dated more than a year after the server's clock": 1, "no author": 1, "not JSON": 1},
}


async def test_the_report_counts_what_was_found_and_stored(app: App, export: Path):
    report = await app.import_path(export)
    # The key stands in the text and in the record as it came, and is one secret.
    stored = {"added": 5, "unchanged": 0, "revised": 0, "redacted": 0}
    told = report.as_json()
    assert [(room["name"], room["messages"]) for room in told.pop("audiences")] == [
        ("general", 4),
        ("other", 1),
    ]
    assert told == FOUND | {
        "secrets_stripped": 1,
        "stored": stored,
        "privacy_requests": {"carried_out": 0, "proposed": 0},
    }
    assert {skipped.where for skipped in report.skipped} == {
        f"chat.jsonl line {place}" for place in (3, 6, 8)
    }
    assert sum(room.message_count for room in await app.rooms(app.operator)) == 5


async def test_a_dry_run_writes_nothing_and_reports_the_same(app: App, export: Path, admin):
    nothing = await state(admin, app)
    dry = (await preview(export)).as_json()
    assert await state(admin, app) == nothing
    wet = (await app.import_path(export)).as_json()
    assert dry.pop("stored") is None
    assert wet.pop("stored") is not None
    assert (dry.pop("privacy_requests"), wet.pop("privacy_requests")) == (
        None,
        {"carried_out": 0, "proposed": 0},
    )
    assert dry == wet


async def test_running_again_adds_nothing(app: App, export: Path, admin):
    await app.import_path(export)
    before = await state(admin, app)
    again = await app.import_path(export)
    assert again.stored == {"added": 0, "unchanged": 5, "revised": 0, "redacted": 0}
    assert await state(admin, app) == before


async def test_running_again_after_a_repair_adds_only_what_was_repaired(app: App, export: Path):
    await app.import_path(export)
    repair(export, 3, line(8))
    again = await app.import_path(export)
    assert again.stored == {"added": 1, "unchanged": 5, "revised": 0, "redacted": 0}
    assert again.as_json()["skipped"] == {
        "dated more than a year after the server's clock": 1,
        "no author": 1,
    }


async def test_an_edit_and_a_removal_in_a_later_export_are_taken_over(app: App, tmp_path: Path):
    await app.import_path(write(tmp_path / "a.jsonl", [line(1), line(2), line(3)]))
    later = [line(1, text="better", edited_at=1_700_000_100_000), line(2, deleted=True), line(3)]
    report = await app.import_path(write(tmp_path / "b.jsonl", later))
    assert report.stored == {"added": 0, "unchanged": 1, "revised": 1, "redacted": 1}
    bodies = [one.body for one in await app.messages(app.operator, "general")]
    assert bodies == ["better", "", "text 3"]


async def test_two_texts_under_one_id_are_reported_and_the_first_stays(app: App, tmp_path: Path):
    report = await app.import_path(
        write(tmp_path / "a.jsonl", [line(1), line(1, text="other", sent_at=1_700_000_001_000)])
    )
    assert [(skipped.where, skipped.reason) for skipped in report.skipped] == [
        ("a.jsonl line 2", "same id, other text")
    ]
    assert [one.body for one in await app.messages(app.operator, "general")] == ["text 1"]


async def test_a_person_may_say_who_is_an_agent(app: App, export: Path):
    report = await app.import_path(export, options=ImportOptions(agents=frozenset({"Helper"})))
    assert report.authors == {"agent": 1, "human": 1, "system": 1}
    assert [one.name for one in await app.participants(app.operator) if one.is_bot] == ["Helper"]


async def test_a_person_may_say_so_later(app: App, export: Path):
    await app.import_path(export)
    await app.import_path(export, options=ImportOptions(agents=frozenset({"ana"})))
    assert [one.name for one in await app.participants(app.operator) if one.is_bot] == ["ana"]


@pytest.mark.slow
async def test_progress_only_grows_and_ends_with_everything(tmp_path: Path):
    path = write(tmp_path / "long.jsonl", [line(number) for number in range(BATCH * 2 + 10)])
    seen: list[tuple[int, int, int]] = []
    await preview(path, progress=lambda *now: seen.append(now))
    assert len(seen) == 4
    assert seen == sorted(seen)
    assert seen[-1] == (path.stat().st_size, path.stat().st_size, BATCH * 2 + 10)
    assert all(read <= total for read, total, _ in seen)


@pytest.mark.slow
async def test_cancelling_leaves_whole_batches_and_running_again_completes(app: App, tmp_path: Path, admin):
    count = BATCH * 2 + 10
    path = write(tmp_path / "long.jsonl", [line(number) for number in range(count)])
    task: asyncio.Task[Any]

    def cancel_in_the_second_batch(_read: int, _total: int, records: int) -> None:
        if records == 2 * BATCH:
            task.cancel()

    task = asyncio.create_task(app.import_path(path, progress=cancel_in_the_second_batch))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [room.message_count for room in await app.rooms(app.operator)] == [BATCH]
    again = await app.import_path(path)
    assert again.stored == {"added": count - BATCH, "unchanged": BATCH, "revised": 0, "redacted": 0}
    row = await (
        await admin.execute(
            "select count(*) from work_queue where org_id = %s and queue = 'embed'", [app.org_id]
        )
    ).fetchone()
    assert row == (count,)


async def test_giant_records_come_in_smaller_batches(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(imports, "LARGEST_BATCH", 25_000)
    path = write(tmp_path / "giant.jsonl", [line(number, text="x" * 5_000) for number in range(10)])
    seen: list[int] = []
    report = await app.import_path(path, progress=lambda _read, _total, records: seen.append(records))
    assert report.stored is not None
    assert report.stored["added"] == 10
    # Body and foreign record hold the text once each: three messages a batch.
    assert seen == [3, 6, 9, 10, 10]


async def test_a_batch_too_large_for_one_transaction_is_refused_readably(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(accept, "MAX_CHANGE_BYTES", 10_000)
    giants = [message(str(number), "x" * 4_000) for number in range(3)]
    with pytest.raises(BadInput, match="send it in parts"):
        await app.ingest_batch(giants)
    assert await app.rooms(app.operator) == []
    assert len((await app.ingest_batch(giants[:2])).added) == 2
    with pytest.raises(BadInput, match="send it in parts"):
        await app.ingest_batch([message(str(n), "y" * 6_000, edited_at=at(60)) for n in range(2)])


async def test_a_record_that_reads_otherwise_after_a_renaming_is_unchanged(app: App):
    renamed = [message("1", body, raw={"text": "hello <@U1>"}) for body in ("hello @Ana", "hello @Anna")]
    await app.ingest(renamed[0])
    again = await app.ingest_batch(renamed[1:])
    assert (again.unchanged, again.skipped) == (1, [])


async def test_a_secret_in_the_name_of_a_file_is_not_reported(tmp_path: Path):
    secret = "xoxb-" + "1234567890-abcdef"
    report = await preview(write(tmp_path / f"{secret}.jsonl", [line(1), "{ broken"]))
    (skipped,) = report.skipped
    assert secret not in repr(skipped)
    assert "line 2" in skipped.where


async def test_an_unreadable_path_is_the_callers_mistake(app: App, tmp_path: Path):
    with pytest.raises(BadInput):
        await app.import_path(tmp_path / "missing")
    with pytest.raises(UnknownFormat):
        await app.import_path(write(tmp_path / "novel.txt", ["It was a dark and stormy night."]))
