"""Exports read into the store: the one place that knows which formats there are."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from roomlore.db import directory, rooms
from roomlore.db.queries import Connection
from roomlore.domain.errors import RoomloreError
from roomlore.domain.incoming import IncomingMessage, IncomingRoom, SkippedRecord, Visibility
from roomlore.domain.records import Viewer
from roomlore.importers import discord, irc, jsonl, qdrant, slack, telegram
from roomlore.ingest.clean import RoomCleaner, clean, clean_room
from roomlore.ingest.imports import ImportOptions, ImportReport, Progress, StoreBatch, import_export, rooms_in
from roomlore.ingest.visibility import ExistingRooms, RoomName, check_room_names
from roomlore.operations.access import Access

READERS = (
    jsonl.IMPORTER,
    discord.IMPORTER,
    slack.IMPORTER,
    telegram.IMPORTER,
    irc.IMPORTER,
    qdrant.IMPORTER,
)


async def preview(
    path: Path, *, wish: ImportOptions | None = None, progress: Progress | None = None
) -> ImportReport:
    """Report what an export holds; touches no database.

    Raises:
        BadInput: the path cannot be read.
        UnknownFormat: no reader recognises it.
    """
    return await read_export(path, wish, store=None, stored_rooms=None, progress=progress)


async def read_export(
    path: Path,
    wish: ImportOptions | None,
    *,
    store: StoreBatch,
    stored_rooms: ExistingRooms | None,
    progress: Progress | None,
) -> ImportReport:
    """Read an export into the store, or only look at it where there is none, and report what it held."""
    return await import_export(
        path,
        READERS,
        wish=wish or ImportOptions(),
        store=store,
        there=stored_rooms,
        now=datetime.now(UTC),
        progress=progress or _no_progress,
    )


def check_rooms(paths: Sequence[Path], wish: ImportOptions) -> ImportOptions:
    """Return a wish whose rooms are known to be in one of the exports, or a wish that names none as it is.

    Raises:
        BadInput: a room is named that is in none of them.
    """
    if not wish.audience.names:
        return wish
    found: list[IncomingRoom] = []
    for path in paths:
        # The import itself reports a path that cannot be read.
        with suppress(RoomloreError):
            found += rooms_in(path, READERS, wish)
    check_room_names(wish.audience, found)
    return replace(wish, is_checked=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRooms:
    """The rooms of an org that are there already."""

    access: Access

    async def visibilities(self, names: Sequence[RoomName]) -> Mapping[RoomName, Visibility]:
        """Return who may read those of these rooms that are there."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await rooms.visibilities(conn, self.access.org_id, names)

    async def close(self, names: Sequence[RoomName]) -> None:
        """Make rooms rooms for their members."""
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            found = await directory.rooms_by_external_id(conn, org_id, names)
            await rooms.set_visibility(conn, org_id, found.values(), "members")
            return None, sorted(found.values())

        await self.access.change("administer", "close room", work)


def partition_storable(
    batch: Iterable[IncomingMessage], *, now: datetime
) -> tuple[list[IncomingMessage], list[SkippedRecord]]:
    """Return the messages of a batch that can be stored, cleaned, and what is wrong with the others."""
    rooms = RoomCleaner(clean_room)
    fit: list[IncomingMessage] = []
    unfit: list[SkippedRecord] = []
    for message in batch:
        cleaned = clean(message, now=now, rooms=rooms)
        if isinstance(cleaned, SkippedRecord):
            unfit.append(cleaned)
        else:
            fit.append(cleaned.message)
    return fit, unfit


def _no_progress(read: int, total: int, records: int) -> None:
    """Show no progress."""
