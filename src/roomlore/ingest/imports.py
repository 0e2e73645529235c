"""Imports an export in batches, and reports its content."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from roomlore.domain.errors import UnknownFormat
from roomlore.domain.incoming import (
    ASSUMED_UTC,
    PLATFORM_METADATA,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.ports import Importer, ReadOptions
from roomlore.importers.reading.export import Export, open_export
from roomlore.importers.reading.recognition import choose_importer
from roomlore.ingest.accept import IngestResult
from roomlore.ingest.clean import REPLACEMENT, CleanRecord, RoomCleaner, clean, clean_room
from roomlore.ingest.secrets import remove_secrets
from roomlore.ingest.visibility import (
    ExistingRooms,
    ImportedRoom,
    VisibilityOptions,
    VisibilityResolver,
    check_room_names,
)

Result = TypeVar("Result")
BATCH = 2_000
#: The maximum number of characters per batch, so that huge messages make smaller batches.
LARGEST_BATCH = 16_000_000

#: Called with the bytes read, the total bytes and the records read.
Progress = Callable[[int, int, int], None]
#: Stores a batch. None means a dry run.
StoreBatch = Callable[[Sequence[IncomingMessage]], Awaitable[IngestResult]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import."""

    #: The format. None means that the format is detected.
    format: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    #: Account ids or names of agents, for platforms that do not mark them.
    agents: frozenset[str] = frozenset()
    #: Who may read the rooms.
    audience: VisibilityOptions = field(default_factory=VisibilityOptions)
    #: Whether the rooms named in `audience` were already checked. With several exports, a named room may be in another
    #: export, so the check of one export alone would fail.
    is_checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The content of an export, and what was stored."""

    format: str
    rooms: int
    #: All messages, including system messages.
    messages: int
    system: int
    #: The number of distinct authors by kind; the platform itself is not counted.
    authors: dict[str, int]
    #: Replies whose parent is in this export.
    resolved: int
    #: Replies whose parent is not in this export.
    dangling: int
    edits: int
    skipped: Sequence[SkippedRecord]
    secrets_stripped: int
    #: Messages without a time zone. Their times are taken as UTC.
    zone_assumed: int
    #: Messages with unreadable characters, replaced by U+FFFD.
    unreadable: int
    #: Counts of added, unchanged, revised and redacted messages; None for a dry run.
    stored: dict[str, int] | None
    #: The rooms, with their visibility and its basis.
    audiences: Sequence[ImportedRoom] = ()
    #: Privacy requests that took effect or were proposed; None for a dry run.
    privacy_requests: dict[str, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "format": self.format,
            "rooms": self.rooms,
            "messages": self.messages,
            "system": self.system,
            "authors": self.authors,
            "replies": {"resolved": self.resolved, "dangling": self.dangling},
            "edits": self.edits,
            "skipped": dict(sorted(Counter(skipped.reason for skipped in self.skipped).items())),
            "secrets_stripped": self.secrets_stripped,
            "zone_assumed": self.zone_assumed,
            "unreadable": self.unreadable,
            "stored": self.stored,
            "privacy_requests": self.privacy_requests,
            "audiences": [asdict(room) for room in self.audiences],
        }


async def import_export(
    path: Path,
    readers: Sequence[Importer],
    *,
    options: ImportOptions,
    store: StoreBatch,
    there: ExistingRooms | None,
    now: datetime,
    progress: Progress,
) -> ImportReport:
    """Import an export and return the report. Without a store, this is a dry run.

    Raises BadInput if the path cannot be read or a named room is missing. Raises UnknownFormat if no importer
    recognises the format.
    """
    # A tar is unpacked when it is opened.
    with await _in_thread(partial(open_export, path)) as source:
        reader = choose_importer(source, readers, options.format)
        tally = _Tally(format=reader.name)
        tally.skipped.extend(_without_secrets(refused) for refused in source.refused)
        check = _RecordFilter(
            options=options,
            tally=tally,
            now=now,
            rooms=RoomCleaner(clean_room),
            agent_rooms=RoomCleaner(partial(_room_with_agents, agents=options.agents)),
        )
        if options.audience.names and not options.is_checked:
            check_room_names(options.audience, await _in_thread(partial(_rooms, source, reader, options)))
        deciding = VisibilityResolver(options=options.audience, stored=there)
        async with aclosing(_read_ahead(_batches(source, reader, check))) as batches:
            async for batch in batches:
                progress(source.bytes_read, source.bytes_total, tally.messages)
                decided = await deciding.resolve(batch)
                if store is not None:
                    tally.note_stored(await store(decided))
        progress(source.bytes_total, source.bytes_total, tally.messages)
        if not tally.messages and not reader.recognises(source):
            raise UnknownFormat(source.name, f"holds nothing of the format {reader.name!r}")
        return replace(tally.report(dry_run=store is None), audiences=await deciding.report())


def rooms_in(path: Path, readers: Sequence[Importer], options: ImportOptions) -> list[IncomingRoom]:
    """Return the rooms of an export.

    Raises BadInput for an unreadable path, and UnknownFormat for an unknown format.
    """
    with open_export(path) as source:
        return _rooms(source, choose_importer(source, readers, options.format), options)


def _rooms(source: Export, reader: Importer, options: ImportOptions) -> list[IncomingRoom]:
    messages = (item for item in reader.read(source, options.options) if isinstance(item, IncomingMessage))
    rooms = {(message.platform, message.room.external_id): message.room for message in messages}
    return [clean_room(room) for room in rooms.values()]


async def _in_thread(work: Callable[[], Result]) -> Result:
    """Run work off the event loop, and return its result.

    If the caller is cancelled, the call still waits for the work to end, because the work uses the export.
    """
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _read_ahead(batches: Iterator[list[IncomingMessage]]) -> AsyncGenerator[list[IncomingMessage]]:
    """Yield batches. The next one is read in a thread while the caller stores this one."""
    reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
    try:
        while batch := await asyncio.shield(reading):
            reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
            yield batch
    finally:
        # The thread uses the export, which the caller closes.
        await asyncio.wait({reading})


def _batches(source: Export, reader: Importer, check: "_RecordFilter") -> Iterator[list[IncomingMessage]]:
    batch: list[IncomingMessage] = []
    size = 0
    for item in reader.read(source, check.options.options):
        cleaned = check.accept(item)
        if cleaned is not None:
            batch.append(cleaned.message)
            size += cleaned.size
        if len(batch) == BATCH or size >= LARGEST_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordFilter:
    """Cleans and counts records."""

    options: ImportOptions
    tally: "_Tally"
    now: datetime
    rooms: RoomCleaner
    agent_rooms: RoomCleaner

    def accept(self, item: ParsedItem) -> CleanRecord | None:
        """Return the cleaned record, or None if it is skipped."""
        if isinstance(item, SkippedRecord):
            self.tally.skipped.append(_without_secrets(item))
            return None
        cleaned = clean(self._with_agents(item), now=self.now, rooms=self.rooms)
        if isinstance(cleaned, SkippedRecord):
            self.tally.skipped.append(cleaned)
            return None
        self.tally.note(cleaned.message, cleaned.secrets_stripped)
        return cleaned

    def _with_agents(self, message: IncomingMessage) -> IncomingMessage:
        if not self.options.agents:
            return message
        agents = self.options.agents
        return replace(
            message,
            author=_as_agent(message.author, agents),
            audience=tuple(_as_agent(author, agents) for author in message.audience),
            room=self.agent_rooms.cleaned(message.room),
        )


def _without_secrets(skipped: SkippedRecord) -> SkippedRecord:
    return replace(skipped, where=remove_secrets(skipped.where)[0], detail=remove_secrets(skipped.detail)[0])


def _as_agent(author: IncomingAuthor, agents: frozenset[str]) -> IncomingAuthor:
    named = not agents.isdisjoint({author.account_id, author.name})
    return replace(author, kind="agent") if named and author.kind == "human" else author


def _room_with_agents(room: IncomingRoom, agents: frozenset[str]) -> IncomingRoom:
    members = [replace(member, author=_as_agent(member.author, agents)) for member in room.members]
    return replace(room, members=tuple(members))


#: Platform and external id.
_Room = tuple[str, str]


@dataclass(slots=True)
class _Tally:
    """Counts of an import."""

    format: str
    messages: int = 0
    system: int = 0
    edits: int = 0
    secrets: int = 0
    zone_assumed: int = 0
    unreadable: int = 0
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    ids: dict[_Room, set[str]] = field(default_factory=lambda: defaultdict(set))
    parents: list[tuple[_Room, str]] = field(default_factory=list[tuple[_Room, str]])
    authors: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    stored: Counter[str] = field(default_factory=Counter[str])

    def note(self, message: IncomingMessage, secrets: int) -> None:
        """Count a record."""
        self.messages += 1
        self.system += message.kind == "system"
        self.edits += message.edited_at is not None
        self.secrets += secrets
        facts = message.metadata.get(PLATFORM_METADATA)
        if isinstance(facts, Mapping):
            self.zone_assumed += cast("Mapping[str, Any]", facts).get("time_zone") == ASSUMED_UTC
        self.unreadable += REPLACEMENT in message.body or REPLACEMENT in message.author.name
        room = (message.platform, message.room.external_id)
        self.ids[room].add(message.external_id)
        parent = message.reply_to or message.thread_root
        if parent is not None:
            self.parents.append((room, parent))
        author = message.author
        if author.account_id or author.persona:
            self.authors[message.platform, author.account_id, author.persona] = author.kind

    def note_stored(self, accepted: IngestResult) -> None:
        """Count the result of a batch."""
        self.stored["added"] += len(accepted.added)
        self.stored["unchanged"] += accepted.unchanged
        self.stored["revised"] += accepted.revised
        self.stored["redacted"] += accepted.redacted
        self.skipped.extend(accepted.skipped)

    def report(self, *, dry_run: bool) -> ImportReport:
        """Return the counts as a report."""
        resolved = sum(parent in self.ids[room] for room, parent in self.parents)
        return ImportReport(
            format=self.format,
            rooms=len(self.ids),
            messages=self.messages,
            system=self.system,
            authors=dict(sorted(Counter(self.authors.values()).items())),
            resolved=resolved,
            dangling=len(self.parents) - resolved,
            edits=self.edits,
            skipped=tuple(self.skipped),
            secrets_stripped=self.secrets,
            zone_assumed=self.zone_assumed,
            unreadable=self.unreadable,
            stored=None if dry_run else {name: self.stored[name] for name in STORED_OUTCOMES},
        )


STORED_OUTCOMES = ("added", "unchanged", "revised", "redacted")
