"""Saltmere as an App: what happens in each chapter, and who reads."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roomlore.domain.errors import NotFound
from roomlore.domain.ids import ParticipantId, uuid7
from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.domain.ports import ReadOptions
from roomlore.domain.records import Viewer
from roomlore.importers.jsonl import IMPORTER
from roomlore.importers.reading.export import open_export
from roomlore.ingest.accept import IngestResult
from roomlore.operations import App
from roomlore.settings import Settings
from scenarios.truth import HERE, OPERATOR, STRANGER, Truth

#: When the rooms' old words expire.
EXPIRY = datetime(2025, 4, 21, 12, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Town:
    """The story as far as it was lived through."""

    truth: Truth
    app: App
    #: The same org where the embedding model is missing: search goes by words alone.
    wordwise: App
    chapter: int = 0
    viewers: dict[str, Viewer] = field(default_factory=dict)
    #: Our id of every message and memory, by its name in the story.
    ids: dict[str, str] = field(default_factory=dict)


async def settle(app: App, folder: Path) -> Town:
    """Return the town before anything was said."""
    settings = Settings(org=app.settings.org, model=folder)
    town = Town(truth=Truth(), app=app, wordwise=App(db=app.db, org_id=app.org_id, settings=settings))
    town.viewers[OPERATOR] = app.operator
    town.viewers[STRANGER] = Viewer(org_id=app.org_id, participant_id=ParticipantId(uuid7()))
    return town


async def live_through(town: Town, chapter: int) -> None:
    """Let everything happen that happens in the next chapter."""
    assert chapter == town.chapter + 1
    town.chapter = chapter
    if chapter in BEFORE:
        await BEFORE[chapter](town)
    records = [record for record in written() if record.raw["chapter"] == chapter]
    accepted = await tell(town, records)
    town.ids |= {
        record.external_id: str(id_) for record, id_ in zip(records, accepted.message_ids, strict=True)
    }
    await town.app.drain()
    if chapter in AFTER:
        await AFTER[chapter](town)
    for one in town.truth.cast.values():
        if one.is_there(chapter):
            town.viewers[one.name] = await town.app.viewer(one.word)
        else:
            with pytest.raises(NotFound):
                await town.app.viewer(one.word)


def written() -> list[IncomingMessage]:
    """Return the whole story as records, in the order in which it is told."""
    read = list(IMPORTER.read(open_export(HERE / "story.jsonl"), ReadOptions()))
    left_out = [one.reason for one in read if isinstance(one, SkippedRecord)]
    # The chapter is ours, and no field of the format.
    assert left_out == ["unknown field"]
    return [one for one in read if isinstance(one, IncomingMessage)]


async def tell(town: Town, records: Sequence[IncomingMessage]) -> IngestResult:
    """Ingest records of which nothing may be left out."""
    accepted = await town.app.ingest_batch(records)
    assert accepted.skipped == []
    return accepted


async def _merge(town: Town) -> None:
    await town.app.people.merge("jonas", "jonas.w")


async def _split(town: Town) -> None:
    await town.app.people.split("jonas.w")


async def _remember(town: Town) -> None:
    for memory in town.truth.memories.values():
        who = town.app.operator if memory.asserted_by is None else await town.app.viewer(memory.asserted_by)
        kept = await town.app.impersonate(who).memories.remember(
            memory.content,
            sources=memory.sources,
            sensitive=memory.sensitive,
            audience=None if memory.sources else "self",
        )
        town.ids[memory.id] = str(kept.id)


async def _erase(town: Town) -> None:
    erasure = town.app.erasure
    await erasure.redact("council-24", room="council")
    await erasure.redact("loft-04", room="loft")
    receipts = [
        await erasure.message("square-43", room="square"),
        await erasure.message("square-36", room="square"),
        await erasure.range("ferry", since=_day("2025-03-10"), until=_day("2025-03-12")),
        await erasure.person("sam.k"),
    ]
    assert all(receipt.is_clean for receipt in receipts)
    await town.app.drain()
    await _tell_again(town)


async def _expire(town: Town) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roomlore.domain.retention.GRACE", timedelta(0))
        await town.app.erasure.set_retention("auction", timedelta(days=21))
        await town.app.erasure.set_retention("tea", timedelta(days=10))
    receipts = await town.app.erasure.erase_expired(now=EXPIRY)
    assert len(receipts) == 2
    assert all(receipt.is_clean for receipt in receipts)
    await _tell_again(town)


async def _tell_again(town: Town) -> None:
    """Import everything once more: nothing of what is gone comes back."""
    records = [record for record in written() if record.raw["chapter"] <= town.chapter]
    again = await town.app.ingest_batch(records)
    assert again.added == {}


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


Happening = Callable[[Town], Awaitable[None]]
BEFORE: dict[int, Happening] = {3: _merge, 4: _split}
AFTER: dict[int, Happening] = {5: _remember, 6: _erase, 7: _expire}
