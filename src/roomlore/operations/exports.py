"""Exports an org, a room or a person's own data as JSON lines, and imports such an export elsewhere.

The first line is the header. Every further line is a record of `db.exports.RECORD_KINDS`. An import is one transaction:
either all of it is there, or nothing.
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from uuid import UUID

from roomlore.db import (
    directory,
    disentanglement,
    erasure_guard,
    exports,
    outbox,
    privacy_requests,
    rooms,
    work_queue,
)
from roomlore.db.exports import RECORD_KINDS, ExportScope, RecordKind, RecordRefused
from roomlore.db.queries import Connection
from roomlore.db.schema import wanted_version
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MemoryId, MessageId, OrgId
from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.ports import ExportFiles
from roomlore.domain.records import Viewer
from roomlore.ingest.clean import ValueCleaner
from roomlore.ingest.secrets import is_harmless
from roomlore.operations.access import Access
from roomlore.search import lookup

SCHEMA = "roomlore.export/1"
ExportKind = Literal["org", "room", "person"]
#: Called with the number of records so far.
Progress = Callable[[int], None]
#: How many records one statement stores, and at most how many characters.
_BATCH, _BATCH_CHARACTERS = 1_000, 8_000_000
_LONGEST_HEADER = 10_000
_KINDS: Mapping[str, RecordKind] = {kind.name: kind for kind in RECORD_KINDS}
#: Records that belong to a room.
_OF_ROOM = frozenset({"message", "reply", "conversation", "injection", "privacy_request"})
_OTHER_ORG = "is an export of another org: import it into a new one with --org NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHeader:
    """The first line of an export."""

    scope: ExportKind
    org_id: OrgId
    #: The version of the database schema. Only a database of the same version takes the rows.
    database: int
    privacy_mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What an import of an export found and stored, by kind of record."""

    scope: ExportKind
    records: Mapping[str, int]
    #: None for a dry run.
    added: Mapping[str, int] | None
    skipped: Sequence[SkippedRecord]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "format": SCHEMA,
            "scope": self.scope,
            "records": dict(self.records),
            "added": None if self.added is None else dict(self.added),
            "skipped": dict(sorted(Counter(one.reason for one in self.skipped).items())),
        }


def read_header(line: str, *, name: str) -> ExportHeader:
    """Return the header of an export. Raises BadInput if it is damaged or of another version."""
    try:
        value = json.loads(line)
        header = ExportHeader(
            scope=value["scope"],
            org_id=OrgId(UUID(value["org"])),
            database=int(value["database"]),
            privacy_mode=str(value["privacy_mode"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(name, "has a damaged first line; export it again") from error
    if value.get("schema") != SCHEMA:
        raise BadInput(name, f"is not an export of Roomlore ({SCHEMA})")
    if header.database != wanted_version():
        raise BadInput(
            name,
            f"was exported by a Roomlore with database version {header.database}, this one has {wanted_version()};"
            " import it with that Roomlore, update the database there, and export again",
        )
    return header


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedExport:
    """An export of Roomlore in a file: its header, and how to read the lines after it."""

    name: str
    header: ExportHeader
    open_lines: Callable[[], Iterator[str]]


def find_export(source: ExportFiles) -> OpenedExport | None:
    """Return the export if the files are one file of Roomlore's own; None otherwise.

    Raises:
        BadInput: the header is damaged, or of another version.
    """
    if len(source.files) != 1:
        return None
    [file] = source.files
    with source.open(file) as stream:
        first = stream.readline(_LONGEST_HEADER).decode("utf-8", "replace")
    if f'"{SCHEMA.partition("/")[0]}/' not in first:
        return None

    def open_lines() -> Iterator[str]:
        with source.open(file) as stream:
            next(stream, None)
            for line in stream:
                yield line.decode("utf-8", "replace")

    return OpenedExport(name=source.name, header=read_header(first, name=source.name), open_lines=open_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Exports, and imports of exports. Operators export everything; members export their own data."""

    access: Access

    async def lines(
        self, *, room: str | None = None, person: Viewer | None = None
    ) -> AsyncGenerator[tuple[str, str]]:
        """Yield the kind and text of each line of an export of the org, of a room, or of a person.

        The header has the kind `header`. A person's export holds what they wrote, and what is remembered of them, as
        far as they may read it.

        Raises:
            NotFound: there is no such room.
            NotAllowed: only operators export a room or the org.
        """
        if person is None:
            await self.access.check("administer", "export")
        viewer = person or Viewer.operator(self.access.org_id)
        async with self.access.reading(viewer, "export") as reading:
            conn, org_id = reading.conn, self.access.org_id
            scope = await self._scope(conn, room, person)
            kind: ExportKind = "person" if person else "room" if room else "org"
            mode = await privacy_requests.mode(conn, org_id)
            yield "header", _header_line(kind, org_id, mode)
            async for line in exports.lines(conn, org_id, scope):
                yield line

    async def _scope(self, conn: Connection, room: str | None, person: Viewer | None) -> ExportScope:
        org_id = self.access.org_id
        if room is not None:
            return await exports.scope_of_room(conn, org_id, await lookup.room(conn, org_id, room))
        if person is not None and person.participant_id is not None:
            accounts = await directory.accounts(conn, org_id, person.participant_id)
            return await exports.scope_of_person(conn, org_id, {account.id for account in accounts})
        return ExportScope()

    async def restore(self, export: OpenedExport, *, progress: Progress | None = None) -> RestoreReport:
        """Store the records of an export. Rooms that are already here stay as they are, with all that belongs to them.

        Raises:
            BadInput: the export is of another org, or holds data of somebody or of a room that was erased here.
        """
        header = export.header
        if header.scope == "org" and header.org_id != self.access.org_id:
            raise BadInput(export.name, _OTHER_ORG)

        async def work(conn: Connection) -> tuple[RestoreReport, Sequence[UUID]]:
            await erasure_guard.lock_exclusive(conn, self.access.org_id)
            await directory.lock_directory(conn, self.access.org_id)
            restoring = _Restoring(
                conn=conn,
                org_id=self.access.org_id,
                header=header,
                name=export.name,
                columns=await exports.table_columns(conn),
            )
            for kind, batch in _batches(export.open_lines(), restoring.skipped):
                await restoring.store(kind, batch)
                if progress is not None:
                    progress(sum(restoring.records.values()))
            await restoring.finish()
            return restoring.report(), ()

        return await self.access.change("administer", "import", work)


def preview(export: OpenedExport) -> RestoreReport:
    """Report what an export holds, without a database."""
    skipped: list[SkippedRecord] = []
    records = Counter[str]()
    for kind, batch in _batches(export.open_lines(), skipped):
        records[kind.name] += len(batch)
    return RestoreReport(scope=export.header.scope, records=records, added=None, skipped=skipped)


def _header_line(kind: ExportKind, org_id: OrgId, mode: str) -> str:
    return json.dumps(
        {
            "schema": SCHEMA,
            "scope": kind,
            "org": str(org_id),
            "database": wanted_version(),
            "privacy_mode": mode,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A record and its line, of which the first record has number 2."""

    number: int
    record: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"line {self.number}"


def _batches(
    lines: Iterable[str], skipped: list[SkippedRecord]
) -> Iterator[tuple[RecordKind, Sequence[_Line]]]:
    """Yield consecutive records of one kind together; add lines that are no records to `skipped`."""
    batch: list[_Line] = []
    size = 0
    for number, text in enumerate(lines, 2):
        line = _record(number, text)
        if isinstance(line, SkippedRecord):
            skipped.append(line)
            continue
        is_same = not batch or batch[0].record["record"] == line.record["record"]
        if not is_same or len(batch) == _BATCH or size > _BATCH_CHARACTERS:
            yield _KINDS[batch[0].record["record"]], batch
            batch, size = [], 0
        batch.append(line)
        size += len(text)
    if batch:
        yield _KINDS[batch[0].record["record"]], batch


def _record(number: int, text: str) -> _Line | SkippedRecord:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return SkippedRecord(where=f"line {number}", reason="not JSON")
    if not isinstance(value, dict):
        return SkippedRecord(where=f"line {number}", reason="not an object")
    record = cast("Mapping[str, Any]", value)
    if record.get("record") not in _KINDS:
        return SkippedRecord(where=f"line {number}", reason="unknown kind of record")
    return _Line(number=number, record=record if is_harmless(text) else ValueCleaner().value(record))


@dataclass(slots=True, kw_only=True)
class _Restoring:
    """One import of an export, in one transaction."""

    conn: Connection
    org_id: OrgId
    header: ExportHeader
    name: str
    columns: Mapping[str, Sequence[str]]
    records: Counter[str] = field(default_factory=Counter[str])
    added: dict[str, list[UUID]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    #: Participants who are here under another id.
    other_ids: dict[str, str] = field(default_factory=dict[str, str])
    #: The rooms of the export that were not here before.
    new_rooms: set[str] = field(default_factory=set[str])
    successors: list[tuple[MemoryId, MemoryId]] = field(default_factory=list[tuple[MemoryId, MemoryId]])
    unread: list[MessageId] = field(default_factory=list[MessageId])

    async def store(self, kind: RecordKind, lines: Sequence[_Line]) -> None:
        """Store records of one kind."""
        self.records[kind.name] += len(lines)
        try:
            lines = await self._storable(kind, lines)
        except (KeyError, TypeError, AttributeError, ValueError):
            # A damaged record: look at each alone.
            lines = [line for one in lines for line in await self._alone(kind, one)]
        if lines:
            await self._store(kind, lines)

    async def _alone(self, kind: RecordKind, line: _Line) -> Sequence[_Line]:
        try:
            return await self._storable(kind, [line])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self._skip(line, "damaged record", f"{type(error).__name__}: {error}")
            return []

    async def _storable(self, kind: RecordKind, lines: Sequence[_Line]) -> Sequence[_Line]:
        """Return the records to store, as they are stored here."""
        if kind.name == "participant":
            return await self._new_participants(lines)
        if kind.name == "room":
            return await self._new_rooms(lines)
        lines = [_with_ids(line, self.other_ids) for line in lines]
        if kind.name in _OF_ROOM:
            return [line for line in lines if _room_of(line.record) in self.new_rooms]
        if kind.name == "memory":
            # What rests on messages that were here before may have been erased with them.
            new = frozenset(map(str, self.added["message"]))
            return [line for line in lines if all(one["message_id"] in new for one in line.record["sources"])]
        return lines

    async def _new_participants(self, lines: Sequence[_Line]) -> Sequence[_Line]:
        accounts = [
            (account["platform"], account["account_id"], account["persona"], UUID(line.record["id"]))
            for line in lines
            for account in line.record["accounts"]
        ]
        erased = await erasure_guard.erased_accounts(self.conn, self.org_id, [one[:3] for one in accounts])
        if erased:
            raise BadInput(
                self.name,
                "holds data of somebody who was erased here; import it elsewhere, erase them there, and export again",
            )
        known = await exports.participants_with_other_ids(self.conn, self.org_id, accounts)
        new = [line for line in lines if UUID(line.record["id"]) not in known]
        self.other_ids |= {str(key): str(value) for key, value in known.items()}
        # The author of tombstones has the id of the org.
        self.other_ids[str(self.header.org_id)] = str(self.org_id)
        return [_with_ids(line, self.other_ids) for line in new]

    async def _new_rooms(self, lines: Sequence[_Line]) -> Sequence[_Line]:
        names = [(line.record["platform"], line.record["external_id"]) for line in lines]
        if await rooms.erased_rooms(self.conn, self.org_id, names):
            raise BadInput(self.name, "holds a room that was erased here; import it elsewhere")
        known = await directory.rooms_by_external_id(self.conn, self.org_id, names)
        here = [line for line, name in zip(lines, names, strict=True) if name in known]
        for line in here:
            self._skip(line, "room is already here", str(line.record["name"]))
        new = [
            _with_ids(line, self.other_ids)
            for line, name in zip(lines, names, strict=True)
            if name not in known
        ]
        self.new_rooms |= {line.record["id"] for line in new}
        return new

    async def _store(self, kind: RecordKind, lines: Sequence[_Line]) -> None:
        """Store records together, or one by one if the database refuses one of them."""
        records = [line.record for line in lines]
        try:
            added = await exports.store(self.conn, self.org_id, kind, records, columns=self.columns)
        except RecordRefused as error:
            if len(lines) == 1:
                self._skip(lines[0], "refused by the database", error.rule)
                return
            middle = len(lines) // 2
            await self._store(kind, lines[:middle])
            await self._store(kind, lines[middle:])
            return
        self.added[kind.name] += added
        self._note(kind, lines, frozenset(map(str, added)))

    def _note(self, kind: RecordKind, lines: Sequence[_Line], added: frozenset[str]) -> None:
        """Remember what has to be done after all records are stored."""
        if kind.name == "memory":
            self.successors += [
                (MemoryId(UUID(line.record["id"])), MemoryId(UUID(line.record["superseded_by"])))
                for line in lines
                if line.record["superseded_by"] is not None
            ]
        if kind.name == "message":
            self.unread += [
                MessageId(UUID(line.record["row"]["id"]))
                for line in lines
                if line.record["row"]["id"] in added and not line.record["is_read"]
            ]

    async def finish(self) -> None:
        """Link what refers to later records, and enqueue the work that derives vectors and projections."""
        if self.successors:
            await exports.set_successors(self.conn, self.org_id, self.successors)
        for kind, change in (("message", "message.added"), ("memory", "memory.added")):
            ids = [cast("MessageId", one) for one in self.added[kind]]
            await outbox.append(self.conn, self.org_id, cast("outbox.ChangeKind", change), ids)
            wanting = await exports.needing_vectors(self.conn, self.org_id, ids)
            await work_queue.enqueue(self.conn, self.org_id, "embed", sorted(wanting))
        await work_queue.enqueue(self.conn, self.org_id, "read", self.unread)
        if await disentanglement.mark_unassigned_dirty(self.conn, self.org_id):
            await work_queue.wake(self.conn, "disentangle")
        if self.header.scope == "org":
            await privacy_requests.set_mode(self.conn, self.org_id, cast("Any", self.header.privacy_mode))

    def report(self) -> RestoreReport:
        """Return what was found and stored."""
        return RestoreReport(
            scope=self.header.scope,
            records=dict(self.records),
            added={kind: len(ids) for kind, ids in self.added.items() if ids},
            skipped=tuple(self.skipped),
        )

    def _skip(self, line: _Line, reason: str, detail: str = "") -> None:
        self.skipped.append(SkippedRecord(where=line.where, reason=reason, detail=detail[:200]))


def _room_of(record: Mapping[str, Any]) -> str:
    return record["row"]["room_id"] if record["record"] == "message" else record["room_id"]


def _with_ids(line: _Line, ids: Mapping[str, str]) -> _Line:
    """Return a record with the ids of participants as they are here."""
    return _Line(number=line.number, record=_renamed(line.record, ids)) if ids else line


def _renamed(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, ids) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_renamed(item, ids) for item in cast("list[Any]", value)]
    return value
