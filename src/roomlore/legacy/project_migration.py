"""Migrates a project store in batches: the chat, then the memories, then which memory replaced which."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from roomlore.db.migrated_memories import MigratedMemory
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MemoryId
from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.importers.reading.fields import MalformedRecord
from roomlore.ingest.accept import IngestResult
from roomlore.ingest.clean import CleanRecord, RoomCleaner, clean, clean_room
from roomlore.legacy.projects import (
    AGENTS,
    CHAT,
    MEMORY_TABLES,
    PROJECTS,
    TABLES,
    ProjectMemory,
    ProjectReader,
    agents_by_name,
)
from roomlore.legacy.source import Source

#: The number of rows in one transaction.
MESSAGE_BATCH, MEMORY_BATCH = 2_000, 200
#: The start of the keys in the metadata of migrated memories.
KEY_PREFIX = "legacy "
CIRCLE = "replaced in a circle"
OTHER_AUDIENCE = "replaced by a memory for others"
NO_SUCCESSOR = "replaced by a memory that was left out"
NO_AGENT = "its agent was erased"

#: What became of a memory. `known`: an earlier migration stored it. `same`: a memory that is no longer active says it.
Outcome = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A memory that another replaced, or that is to be archived if `by` is None."""

    old_id: MemoryId
    by: MemoryId | None


class ProjectTarget(Protocol):
    """Stores messages and memories in Roomlore."""

    async def store_messages(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store clean messages in one transaction."""
        ...

    async def store_memories(self, batch: Sequence[ProjectMemory]) -> Sequence[Outcome | None]:
        """Store memories in one transaction, and return what became of each; None if its agent was erased."""
        ...

    async def known(self) -> Sequence[MigratedMemory]:
        """Return all migrated memories."""
        ...

    async def replace(self, batch: Sequence[Replacement]) -> None:
        """Supersede or archive memories in one transaction."""
        ...


@dataclass(slots=True, kw_only=True)
class ProjectsReport:
    """The content of a project store, and what was stored."""

    source: str
    rooms: int = 0
    messages: int = 0
    #: Counts of added, unchanged, revised and redacted messages; None for a dry run.
    stored: dict[str, int] | None = None
    #: For each table, the number of its rows and memories, and what became of them.
    memories: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    #: Memories that stay with their agent.
    private: int = 0
    #: Memories that others replaced.
    replaced: int = 0
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    #: Keys of memories that are neither stored nor explained.
    missing: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "source": self.source,
            "rooms": self.rooms,
            "messages": self.messages,
            "stored": self.stored,
            "memories": {table: dict(counts) for table, counts in self.memories.items()},
            "private": self.private,
            "replaced": self.replaced,
            "skipped": dict(sorted(Counter(one.reason for one in self.skipped).items())),
            "missing": self.missing,
        }


async def migrate_projects(
    source: Source,
    target: ProjectTarget | None,
    *,
    org: str | None,
    now: datetime,
    progress: Callable[[int], None],
) -> ProjectsReport:
    """Migrate everything and return the report. Without a target, only report the content."""
    await _check_org(source, org)
    projects = await source.fetch(PROJECTS.name) if PROJECTS.name in source.parts else []
    agents = await source.fetch(AGENTS.name) if AGENTS.name in source.parts else []
    migration = _Migration(
        source=source,
        target=target,
        org=org,
        now=now,
        progress=progress,
        reader=ProjectReader(
            projects={row["id"]: row["name"] or "" for row in projects},
            agents=agents_by_name(agents),
            agent_names={
                row["id"]: row["display_name"] or row["name"] or row["slug"] or row["id"] for row in agents
            },
            now=now,
        ),
        report=ProjectsReport(source=source.name),
    )
    await migration.run()
    return migration.report


async def _check_org(source: Source, org: str | None) -> None:
    found: set[str] = set()
    for table in (CHAT, *MEMORY_TABLES):
        if table.name in source.parts:
            found |= {row["org_id"] for row in await source.fetch(f"orgs_of_{table.name}")}
    if org is not None and org not in found:
        raise BadInput(f"org {org!r}", "is not in the source database")
    if org is None and len(found) > 1:
        raise BadInput("the source database", f"has several orgs; name one of {', '.join(sorted(found))}")


@dataclass(slots=True, kw_only=True)
class _Migration:
    source: Source
    target: ProjectTarget | None
    org: str | None
    now: datetime
    progress: Callable[[int], None]
    reader: ProjectReader
    report: ProjectsReport
    #: Keys of the memories of this run that are active in the store.
    _active: set[str] = field(default_factory=set[str])
    #: The successor of each memory that was replaced.
    _successors: dict[str, str] = field(default_factory=dict[str, str])
    #: Keys that must be in Roomlore in the end.
    _expected: set[str] = field(default_factory=set[str])

    async def run(self) -> None:
        """Migrate the chat, the memories and the replacements."""
        await self._migrate_chat()
        known = {one.key for one in await self.target.known()} if self.target else set[str]()
        for table in MEMORY_TABLES:
            if table.name in self.source.parts:
                await self._migrate_memories(table.name, known)
        if self.target is not None:
            await self._replace(self.target)

    async def _migrate_chat(self) -> None:
        cleaner, place, rooms = RoomCleaner(clean_room), 0, set[str]()
        stored = Counter[str]()
        async for rows in self.source.stream(CHAT.name, {"org": self.org}, size=MESSAGE_BATCH):
            batch: list[IncomingMessage] = []
            for number, row in enumerate(rows, place):
                cleaned = self._message(row, number, cleaner)
                if isinstance(cleaned, SkippedRecord):
                    self.report.skipped.append(cleaned)
                else:
                    batch.append(cleaned.message)
                    rooms.add(cleaned.message.room.external_id)
            place += len(rows)
            self.report.messages += len(batch)
            if self.target is not None and batch:
                accepted = await self.target.store_messages(batch)
                stored.update(
                    added=len(accepted.added),
                    unchanged=accepted.unchanged,
                    revised=accepted.revised,
                    redacted=accepted.redacted,
                )
                self.report.skipped.extend(accepted.skipped)
            self.progress(len(rows))
        self.report.rooms = len(rooms)
        if self.target is not None:
            self.report.stored = {
                name: stored[name] for name in ("added", "unchanged", "revised", "redacted")
            }

    def _message(
        self, row: Mapping[str, Any], place: int, cleaner: RoomCleaner
    ) -> CleanRecord | SkippedRecord:
        try:
            return clean(self.reader.message(row, place), now=self.now, rooms=cleaner)
        except MalformedRecord as error:
            return SkippedRecord(
                where=f"{CHAT.name} id {row['id']}", reason=error.reason, detail=error.detail
            )

    async def _migrate_memories(self, table: str, known: set[str]) -> None:
        counts = self.report.memories[table]
        async for rows in self.source.stream(table, {"org": self.org}, size=MEMORY_BATCH):
            counts["rows"] += len(rows)
            memories = [memory for row in rows for memory in self._memories(table, row)]
            counts["memories"] += len(memories)
            new = [memory for memory in memories if legacy_key(memory) not in known]
            counts["known"] += len(memories) - len(new)
            if self.target is not None and new:
                self._note(table, new, await self.target.store_memories(new))
            self.progress(len(rows))

    def _memories(self, table: str, row: Mapping[str, Any]) -> list[ProjectMemory]:
        where = f"{table} id {row['id']}"
        [described] = [one for one in TABLES if one.name == table]
        try:
            memories = list(self.reader.memories(described, row))
        except MalformedRecord as error:
            self.report.skipped.append(SkippedRecord(where=where, reason=error.reason, detail=error.detail))
            return []
        for memory in memories:
            key = legacy_key(memory)
            self._expected.add(key)
            self.report.private += memory.audience == "self"
            if memory.status == "active":
                self._active.add(key)
            if memory.successor is not None:
                self._successors[key] = KEY_PREFIX + memory.successor
        return memories

    def _note(
        self, table: str, memories: Sequence[ProjectMemory], outcomes: Sequence[Outcome | None]
    ) -> None:
        for memory, outcome in zip(memories, outcomes, strict=True):
            if outcome is None:
                self.report.skipped.append(SkippedRecord(where=memory.key, reason=NO_AGENT))
            else:
                self.report.memories[table][outcome] += 1
            if outcome is None or outcome == "same":
                self._expected.discard(legacy_key(memory))

    async def _replace(self, target: ProjectTarget) -> None:
        stored = {one.key: one for one in await target.known()}
        self.report.missing = sorted(self._expected - stored.keys())
        # A memory that an active row states as well stays.
        held = {stored[key].id for key in self._active if key in stored}
        replacements = [
            one
            for key in self._successors
            if key in stored and stored[key].status == "active" and stored[key].id not in held
            if (one := self._replacement(key, stored)) is not None
        ]
        for start in range(0, len(replacements), MEMORY_BATCH):
            await target.replace(replacements[start : start + MEMORY_BATCH])
        self.report.replaced = sum(one.by is not None for one in replacements)

    def _replacement(self, key: str, stored: Mapping[str, MigratedMemory]) -> Replacement | None:
        old, new = stored[key], stored.get(self._successors[key])
        if new is not None and new.id == old.id:
            return None
        reason = None
        if new is None:
            reason = NO_SUCCESSOR
        elif self._is_in_circle(key):
            reason = CIRCLE
        elif new.audience != old.audience:
            reason = OTHER_AUDIENCE
        if reason is not None:
            where = key.removeprefix(KEY_PREFIX)
            self.report.skipped.append(
                SkippedRecord(where=where, reason=reason, detail="it is archived instead")
            )
        return Replacement(old_id=old.id, by=new.id if new is not None and reason is None else None)

    def _is_in_circle(self, key: str) -> bool:
        seen, at = {key}, self._successors.get(key)
        while at is not None and at not in seen:
            seen.add(at)
            at = self._successors.get(at)
        return at is not None


def legacy_key(memory: ProjectMemory) -> str:
    """Return the key that names the row of a memory in its metadata."""
    return KEY_PREFIX + memory.key
