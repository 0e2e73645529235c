"""Exports read into the store: the one place that knows which formats there are."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from roomlore.domain.incoming import IncomingMessage, Skipped
from roomlore.ingest.clean import Rooms, clean, clean_room
from roomlore.ingest.importing import ImportReport, ImportWish, Progress, Store, import_export
from roomlore.platforms import discord, irc, jsonl, qdrantpoints, slack, telegram

READERS = (
    jsonl.READER,
    discord.READER,
    slack.READER,
    telegram.READER,
    irc.READER,
    qdrantpoints.READER,
)


async def preview(
    path: Path, *, wish: ImportWish | None = None, progress: Progress | None = None
) -> ImportReport:
    """Report what an export holds; touches no database.

    Raises:
        BadInput: the path cannot be read.
        UnknownFormat: no reader recognises it.
    """
    return await read_export(path, wish, store=None, progress=progress)


async def read_export(
    path: Path, wish: ImportWish | None, *, store: Store, progress: Progress | None
) -> ImportReport:
    """Read an export into the store, or only look at it where there is none, and report what it held."""
    return await import_export(
        path,
        READERS,
        wish=wish or ImportWish(),
        store=store,
        now=datetime.now(UTC),
        progress=progress or _silent,
    )


def sort_out(
    batch: Iterable[IncomingMessage], *, now: datetime
) -> tuple[list[IncomingMessage], list[Skipped]]:
    """Return the messages of a batch that can be stored, cleaned, and what is wrong with the others."""
    rooms = Rooms(clean_room)
    fit: list[IncomingMessage] = []
    unfit: list[Skipped] = []
    for message in batch:
        cleaned = clean(message, now=now, rooms=rooms)
        if isinstance(cleaned, Skipped):
            unfit.append(cleaned)
        else:
            fit.append(cleaned.message)
    return fit, unfit


def _silent(read: int, total: int, records: int) -> None:
    """Show no progress."""
