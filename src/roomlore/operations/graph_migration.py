"""Takes over the memories of a Neo4j graph of another system, and compares the result with the graph."""

import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from roomlore.conversations.erased_names import reject_erased_names
from roomlore.db import agents, directory, erasure_guard, memories, work_queue
from roomlore.db.directory import NewAccount
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, DatabaseUnavailable
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, random_id
from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.records import AssertionAudience, Memory, MemoryRole, Viewer
from roomlore.ingest.clean import ValueCleaner
from roomlore.ingest.erasure_filter import ERASED_REASON
from roomlore.legacy.agent_graph import SECTIONS, GraphAccount, GraphMemory, Section, records_of
from roomlore.memories.consolidation import add_separately
from roomlore.memories.kinds import DEFAULT_IMPORTANCE
from roomlore.operations.access import Access
from roomlore.projections.neo4j import check_server
from roomlore.search import lookup

#: The platform of accounts that the graph names.
PLATFORM = "graph"
#: The number of records compared field by field.
SAMPLE = 200
#: The number of skipped records that a report names.
MAX_NAMED = 100
#: Imported importances and confidences are stored as single-precision numbers.
_PRECISION = 1e-4

#: Yields the rows of a section, in pages.
Pages = Callable[[Section], AsyncIterator[Sequence[Mapping[str, Any]]]]
#: Whose, of which kind, and of which day. The day is empty if the graph has no time.
_Group = tuple[ParticipantId, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDifference:
    """A group of records of which the graph and the database have different numbers."""

    holder: str
    kind: str
    day: str
    in_graph: int
    in_database: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A record that differs between the graph and the database, and the names of its differing fields."""

    section: Section
    memory_id: MemoryId
    fields: Sequence[str]


@dataclass(slots=True, kw_only=True)
class GraphReport:
    """What was read, stored and skipped, and how the database compares with the graph."""

    #: Records by section.
    read: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    added: int = 0
    #: Records that an earlier run stored.
    existing: int = 0
    #: Relationships whose trust was stored as stated trust.
    trusts: int = 0
    skipped_by_reason: Counter[str] = field(default_factory=Counter[str])
    #: The first skipped records.
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    #: None in a dry run.
    groups: int | None = None
    count_differences: Sequence[CountDifference] = ()
    compared: int = 0
    field_differences: Sequence[FieldDifference] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return not self.count_differences and not self.field_differences

    def skip(self, record: SkippedRecord) -> None:
        """Count a skipped record."""
        self.skipped_by_reason[record.reason] += 1
        if len(self.skipped) < MAX_NAMED:
            self.skipped.append(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A record with its draft and the participant under whom it is counted."""

    record: GraphMemory
    draft: MemoryDraft
    holder_id: ParticipantId


@asynccontextmanager
async def open_graph(
    url: str, *, user: str, password: str, database: str | None = None
) -> AsyncGenerator[Pages]:
    """Open a graph for reading, and close it afterwards.

    Raises:
        BadInput: the address cannot be used, or the extra is not installed.
    """
    check_server(url, user=user, password=password)
    from roomlore.legacy.graph_reader import GraphReader  # noqa: PLC0415  needs the extra

    reader = GraphReader(url, user=user, password=password, database=database)
    try:
        yield reader.pages
    finally:
        await reader.close()


async def preview(pages: Pages, *, now: datetime | None = None) -> GraphReport:
    """Report what a graph holds, without a database."""
    report = GraphReport()
    async for _ in _read(pages, report, now=now or utc_now()):
        pass
    return report


async def _read(
    pages: Pages, report: GraphReport, *, now: datetime
) -> AsyncIterator[tuple[Section, list[GraphMemory]]]:
    for section in SECTIONS:
        async for rows in pages(section):
            found: list[GraphMemory] = []
            for item in records_of(section, rows, now=now):
                if isinstance(item, SkippedRecord):
                    report.skip(item)
                else:
                    found.append(item)
                    report.read[section] += 1
                    report.kinds[item.kind] += 1
            yield section, found


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMigration:
    """Stores the records of a graph in an org. A record that is stored already is left as it is. For operators."""

    access: Access
    platform: str = PLATFORM
    #: Who may read the memories, besides operators: only their author, or the whole org.
    audience: AssertionAudience = "self"
    #: Participants of the org, each by the id or name that an account has in the graph.
    people: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Chooses the records that are compared field by field.
    rng: random.Random = field(default_factory=random.Random)

    async def run(self, pages: Pages, *, now: datetime | None = None) -> GraphReport:
        """Store what a graph holds, compare the database with it, and return the report.

        Raises:
            BackendUnavailable: the graph does not answer. What was stored until then stays.
            BadInput: a name in `people` is ambiguous.
            NotAllowed: the caller is not an operator.
            NotFound: there is no such participant as `people` names.
        """
        if not self.platform.strip():
            raise BadInput("platform", "must not be empty")
        await self.access.audit_work("migrate graph")
        now = now or utc_now()
        report, parity = GraphReport(), _Parity(rng=self.rng)
        people = await self._people()
        async for _, records in _read(pages, report, now=now):
            work = partial(self._store, records=records, people=people, report=report, now=now)
            prepared = await self.access.db.change(self.access.org_id, work)
            parity.add_expected(prepared)
            parity.add_stored(prepared, await self._stored(prepared))
        if report.added:
            await self._refresh_statistics()
        report.groups = len(parity.expected)
        report.count_differences = parity.count_differences()
        sample = parity.sample
        report.compared = len(sample)
        report.field_differences = _field_differences(sample, await self._stored(sample))
        return report

    async def _store(
        self,
        conn: Connection,
        *,
        records: Sequence[GraphMemory],
        people: Mapping[str, ParticipantId],
        report: GraphReport,
        now: datetime,
    ) -> list[_Prepared]:
        """Store the records that are not stored yet; return all that belong into the org."""
        org_id = self.access.org_id
        await erasure_guard.lock_shared(conn, org_id)
        accounts = {account for record in records for _, account in record.roles if account.id not in people}
        known = {**people, **await self._participants(conn, accounts)}
        prepared: list[_Prepared] = []
        for record in records:
            # A draft would name somebody who was erased.
            if any(account.id not in known for _, account in record.roles):
                report.skip(SkippedRecord(where=_where(record), reason=ERASED_REASON))
            else:
                draft = self._draft(record, known, now=now)
                prepared.append(_Prepared(record=record, draft=draft, holder_id=known[record.holder.id]))
        drafts = await reject_erased_names(conn, org_id, [one.draft for one in prepared])
        staying = {draft.id for draft in drafts}
        for one in prepared:
            if one.draft.id not in staying:
                report.skip(SkippedRecord(where=_where(one.record), reason=ERASED_REASON))
        unique: dict[MemoryId, _Prepared] = {}
        for one in prepared:
            if one.draft.id in unique:
                report.skip(SkippedRecord(where=_where(one.record), reason="the id repeats"))
            elif one.draft.id in staying:
                unique[one.draft.id] = one
        existing = await memories.existing_ids(conn, org_id, unique.keys())
        new_ones = [one for key, one in unique.items() if key not in existing]
        new = [one.draft for one in new_ones]
        if new:
            await add_separately(conn, org_id, new)
        report.trusts += await agents.import_trust(conn, org_id, _stated_trust(new_ones, known, now=now))
        report.added += len(new)
        report.existing += len(existing)
        return list(unique.values())

    async def _refresh_statistics(self) -> None:
        """Let the database plan its queries for the memories that it has now."""
        # The memories are stored even if this fails.
        with suppress(DatabaseUnavailable), work_queue.translate_connection_errors():
            async with self.access.db.system_connection() as conn:
                await work_queue.refresh_statistics(conn)

    async def _people(self) -> dict[str, ParticipantId]:
        async with self.access.resolving("migrate graph") as conn:
            return {
                name: await lookup.participant(conn, self.access.org_id, who)
                for name, who in self.people.items()
            }

    async def _participants(self, conn: Connection, accounts: set[GraphAccount]) -> dict[str, ParticipantId]:
        """Return the participants of accounts by the id of the account. Erased accounts are missing."""
        org_id = self.access.org_id
        by_key = {(self.platform, account.id, ""): account for account in sorted(accounts, key=_account_key)}
        erased = await erasure_guard.erased_accounts(conn, org_id, by_key)
        wanted = {key: account for key, account in by_key.items() if key not in erased}
        known = await directory.accounts_by_key(conn, org_id, list(wanted))
        if len(known) < len(wanted):
            await directory.lock_directory(conn, org_id)
            known = await directory.accounts_by_key(conn, org_id, list(wanted))
            new = [
                NewAccount(
                    platform=key[0],
                    account_id=key[1],
                    persona="",
                    participant_id=ParticipantId(random_id()),
                    kind=account.kind,
                    name=account.name,
                    bridged=False,
                )
                for key, account in wanted.items()
                if key not in known
            ]
            await directory.add_participants_with_accounts(conn, org_id, new)
            known = await directory.accounts_by_key(conn, org_id, list(wanted))
        return {key[1]: account.participant_id for key, account in known.items()}

    def _draft(
        self, record: GraphMemory, known: Mapping[str, ParticipantId], *, now: datetime
    ) -> MemoryDraft:
        cleaner = ValueCleaner()
        roles: set[tuple[MemoryRole, ParticipantId]] = {
            (role, known[account.id]) for role, account in record.roles
        }
        asserter = next(
            (known[account.id] for role, account in record.roles if role in {"author", "perspective"}), None
        )
        stated = {"section": record.section, "key": record.key.replace("\0", " "), "type": record.type}
        if record.created_at is not None:
            stated["created_at"] = record.created_at.isoformat()
        return MemoryDraft(
            id=memory_id(self.access.org_id, self.platform, record),
            kind=record.kind,
            # A mark stands for each secret, so something is left.
            content=cleaner.text(record.content).strip(),
            importance=DEFAULT_IMPORTANCE[record.kind] if record.importance is None else record.importance,
            confidence=1.0 if record.confidence is None else record.confidence,
            audience=self.audience,
            asserted_by=asserter,
            recorded_at=now,
            valid_from=record.created_at or now,
            roles=frozenset(roles),
            tags=frozenset(tag for one in record.tags if (tag := cleaner.text(one).strip())),
            metadata={"graph": cleaner.value({**record.fields, **stated})},
            task_id=record.task_id,
        )

    async def _stored(self, prepared: Sequence[_Prepared]) -> dict[MemoryId, Memory]:
        ids = [one.draft.id for one in prepared]
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            found = await memories.memories_by_id(conn, self.access.org_id, ids)
        return {memory.id: memory for memory in found}


def memory_id(org_id: OrgId, platform: str, record: GraphMemory) -> MemoryId:
    """Return the id of the memory of a record. The same record always has the same id."""
    return MemoryId(uuid5(UUID(str(org_id)), f"graph\0{platform}\0{record.section}\0{record.key}"))


def _stated_trust(
    prepared: Sequence[_Prepared], known: Mapping[str, ParticipantId], *, now: datetime
) -> list[tuple[ParticipantId, ParticipantId, float, datetime]]:
    """Return who trusts whom, how far, and since when, for the records that state it."""
    return [
        (one.holder_id, known[one.record.roles[1][1].id], one.record.trust, one.record.created_at or now)
        for one in prepared
        if one.record.trust is not None
    ]


def _where(record: GraphMemory) -> str:
    return f"{record.section} {record.key.replace(chr(0), ' ')[:60]}"


def _account_key(account: GraphAccount) -> tuple[str, bool, str]:
    # If the graph describes an account in several ways, an agent comes last and so is kept.
    return account.id, account.kind == "agent", account.name


# Parity


@dataclass(slots=True, kw_only=True)
class _Parity:
    """Counts and a random sample of the records of a graph, and the counts of what the database has of them."""

    rng: random.Random
    expected: Counter[_Group] = field(default_factory=Counter[_Group])
    stored: Counter[_Group] = field(default_factory=Counter[_Group])
    names: dict[ParticipantId, str] = field(default_factory=dict[ParticipantId, str])
    sample: list[_Prepared] = field(default_factory=list[_Prepared])
    _seen: set[MemoryId] = field(default_factory=set[MemoryId])
    _fresh: set[MemoryId] = field(default_factory=set[MemoryId])

    def add_expected(self, prepared: Sequence[_Prepared]) -> None:
        """Count the records of a page, and keep some of them. A record that was counted before does not count."""
        self._fresh = set()
        for one in prepared:
            if one.draft.id in self._seen:
                continue
            self._seen.add(one.draft.id)
            self._fresh.add(one.draft.id)
            self.names[one.holder_id] = one.record.holder.name
            self.expected[one.holder_id, one.record.kind, _day(one.record.created_at)] += 1
            # Each record stays in the sample with the same probability.
            if len(self.sample) < SAMPLE:
                self.sample.append(one)
            elif (place := self.rng.randrange(len(self._seen))) < SAMPLE:
                self.sample[place] = one

    def add_stored(self, prepared: Sequence[_Prepared], stored: Mapping[MemoryId, Memory]) -> None:
        """Count what the database has of the records of a page."""
        for one in prepared:
            memory = stored.get(one.draft.id)
            if memory is None or one.draft.id not in self._fresh:
                continue
            holders = {person.id for person in memory.participants if person.role == one.record.roles[0][0]}
            holder = one.holder_id if one.holder_id in holders else min(holders, default=one.holder_id)
            is_timed = "created_at" in memory.metadata.get("graph", {})
            self.stored[holder, memory.kind, _day(memory.valid_from if is_timed else None)] += 1

    def count_differences(self) -> list[CountDifference]:
        """Return the groups with different numbers."""
        groups = sorted(self.expected.keys() | self.stored.keys())
        return [
            CountDifference(
                holder=self.names.get(key[0], str(key[0])),
                kind=key[1],
                day=key[2],
                in_graph=self.expected[key],
                in_database=self.stored[key],
            )
            for key in groups
            if self.expected[key] != self.stored[key]
        ]


def _day(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).date().isoformat()


def _field_differences(
    sample: Sequence[_Prepared], stored: Mapping[MemoryId, Memory]
) -> list[FieldDifference]:
    found: list[FieldDifference] = []
    for one in sample:
        memory = stored.get(one.draft.id)
        fields = ["missing"] if memory is None else _differing(one, memory)
        if fields:
            found.append(FieldDifference(section=one.record.section, memory_id=one.draft.id, fields=fields))
    return found


def _differing(one: _Prepared, memory: Memory) -> list[str]:
    draft = one.draft
    roles: set[tuple[MemoryRole, ParticipantId]] = {
        (person.role, person.id) for person in memory.participants
    }
    checks = {
        "kind": draft.kind == memory.kind,
        "content": draft.content == memory.content,
        "importance": abs(draft.importance - memory.importance) < _PRECISION,
        "created_at": one.record.created_at in (None, memory.valid_from),
        "tags": sorted(draft.tags) == sorted(memory.tags),
        "participants": sorted(draft.roles) == sorted(roles),
        "task": draft.task_id == memory.task_id,
        "other properties": draft.metadata["graph"] == memory.metadata.get("graph"),
    }
    return [name for name, is_same in checks.items() if not is_same]
