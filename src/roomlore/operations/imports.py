"""Imports chat exports into the database. Only this module knows every format."""

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
from roomlore.importers import irc, jsonl, mattermost, qdrant, slack, telegram
from roomlore.importers.assistants import agent_log, chatgpt, claude, langchain, letta, openai_messages, zep
from roomlore.importers.discord import csv_export, html_export, json_export
from roomlore.importers.mail import mbox
from roomlore.importers.matrix import room_export
from roomlore.importers.whatsapp import chat_export
from roomlore.importers.zulip import data_export
from roomlore.ingest.clean import RoomCleaner, clean, clean_room
from roomlore.ingest.imports import ImportOptions, ImportReport, Progress, StoreBatch, import_export, rooms_in
from roomlore.ingest.visibility import ExistingRooms, RoomName, check_room_names
from roomlore.operations.access import Access

READERS = (
    jsonl.IMPORTER,
    json_export.IMPORTER,
    html_export.IMPORTER,
    csv_export.IMPORTER,
    slack.IMPORTER,
    telegram.IMPORTER,
    chat_export.IMPORTER,
    room_export.IMPORTER,
    mattermost.IMPORTER,
    data_export.IMPORTER,
    irc.IMPORTER,
    mbox.IMPORTER,
    chatgpt.IMPORTER,
    claude.IMPORTER,
    agent_log.IMPORTER,
    openai_messages.IMPORTER,
    zep.IMPORTER,
    letta.IMPORTER,
    langchain.IMPORTER,
    qdrant.IMPORTER,
)


async def preview(
    path: Path, *, options: ImportOptions | None = None, progress: Progress | None = None
) -> ImportReport:
    """Report what an export holds, without a database.

    Raises:
        BadInput: the path cannot be read.
        UnknownFormat: no reader knows the format.
    """
    return await read_export(path, options, store=None, stored_rooms=None, progress=progress)


async def read_export(
    path: Path,
    options: ImportOptions | None,
    *,
    store: StoreBatch,
    stored_rooms: ExistingRooms | None,
    progress: Progress | None,
) -> ImportReport:
    """Read an export into the store, or only report what it holds if `store` is None."""
    return await import_export(
        path,
        READERS,
        options=options or ImportOptions(),
        store=store,
        there=stored_rooms,
        now=datetime.now(UTC),
        progress=progress or _no_progress,
    )


def check_rooms(paths: Sequence[Path], options: ImportOptions) -> ImportOptions:
    """Check that each room that the options name is in one of the exports.

    Raises:
        BadInput: a room is in none of them.
    """
    if not options.audience.names:
        return options
    found: list[IncomingRoom] = []
    for path in paths:
        # The import itself reports a path that cannot be read.
        with suppress(RoomloreError):
            found += rooms_in(path, READERS, options)
    check_room_names(options.audience, found)
    return replace(options, is_checked=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRooms:
    """The rooms that an org already has."""

    access: Access

    async def visibilities(self, names: Sequence[RoomName]) -> Mapping[RoomName, Visibility]:
        """Return the visibility of the given rooms that exist."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await rooms.visibilities(conn, self.access.org_id, names)

    async def close(self, names: Sequence[RoomName]) -> None:
        """Make rooms visible to their members only."""
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            found = await directory.rooms_by_external_id(conn, org_id, names)
            await rooms.set_visibility(conn, org_id, found.values(), "members")
            return None, sorted(found.values())

        await self.access.change("administer", "close room", work)


def partition_storable(
    batch: Iterable[IncomingMessage], *, now: datetime
) -> tuple[list[IncomingMessage], list[SkippedRecord]]:
    """Return the cleaned messages of a batch that can be stored, and the reasons why the others cannot."""
    cleaner = RoomCleaner(clean_room)
    cleaned = [clean(message, now=now, rooms=cleaner) for message in batch]
    skipped = [result for result in cleaned if isinstance(result, SkippedRecord)]
    return [result.message for result in cleaned if not isinstance(result, SkippedRecord)], skipped


def _no_progress(_read: int, _total: int, _records: int) -> None:
    pass
