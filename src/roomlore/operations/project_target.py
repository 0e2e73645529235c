"""Stores what a project store holds: its messages, its memories, and which memory replaced which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db import directory, erasure_guard, memory_writes, migrated_memories
from roomlore.db.directory import NewAccount
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.migrated_memories import MigratedMemory
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, ParticipantId, random_id, uuid7
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import Viewer
from roomlore.ingest.accept import IngestResult
from roomlore.ingest.clean import ValueCleaner
from roomlore.legacy.project_migration import KEY_PREFIX, Outcome, Replacement, legacy_key
from roomlore.legacy.projects import PLATFORM, ProjectMemory
from roomlore.memories.consolidation import upsert
from roomlore.operations.access import Access
from roomlore.operations.intake import store_records

_ACTION = "migrate"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProjects:
    """The org into which a project store is migrated."""

    access: Access

    async def store_messages(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store clean messages in one transaction."""
        return await store_records(self.access, batch, action=_ACTION)

    async def known(self) -> Sequence[MigratedMemory]:
        """Return all migrated memories."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await migrated_memories.by_legacy_key(conn, self.access.org_id, prefix=KEY_PREFIX)

    async def store_memories(self, batch: Sequence[ProjectMemory]) -> Sequence[Outcome | None]:
        """Store memories in one transaction, and return what became of each; None if its agent was erased."""

        async def work(conn: Connection) -> tuple[Sequence[Outcome | None], Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, self.access.org_id)
            agents = await self._agents(conn, {memory.agent: memory.agent_name for memory in batch})
            stored = [await self._store(conn, memory, agents[memory.agent]) for memory in batch]
            ids = [memory_id for memory_id, _ in stored if memory_id is not None]
            return [outcome for _, outcome in stored], sorted(set(ids))

        return await self.access.change("administer", _ACTION, work)

    async def replace(self, batch: Sequence[Replacement]) -> None:
        """Supersede or archive memories in one transaction."""

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, self.access.org_id)
            await memory_writes.lock(conn, self.access.org_id)
            for one in batch:
                if one.by is None:
                    await memory_writes.archive(conn, self.access.org_id, one.old_id, at=datetime.now(UTC))
                else:
                    await memory_writes.supersede(conn, self.access.org_id, one.old_id, by=one.by)
            return None, [one.old_id for one in batch]

        await self.access.change("administer", _ACTION, work)

    async def _agents(self, conn: Connection, names: Mapping[str, str]) -> Mapping[str, ParticipantId]:
        """Return the participants of agents. Add those that wrote no message."""
        org_id = self.access.org_id
        await directory.lock_directory(conn, org_id)
        keys = [(PLATFORM, account, "") for account in sorted(names)]
        known = await directory.accounts_by_key(conn, org_id, keys)
        new = [
            NewAccount(
                platform=PLATFORM,
                account_id=account,
                persona="",
                participant_id=ParticipantId(random_id()),
                kind="agent",
                name=names[account],
                bridged=False,
            )
            for _, account, _ in keys
            if (PLATFORM, account, "") not in known
        ]
        if new:
            await directory.add_participants_with_accounts(conn, org_id, new)
        return {key[1]: one.participant_id for key, one in known.items()} | {
            one.account_id: one.participant_id for one in new
        }

    async def _store(
        self, conn: Connection, memory: ProjectMemory, agent: ParticipantId
    ) -> tuple[MemoryId | None, Outcome | None]:
        result = await upsert(conn, self.access.org_id, _draft(memory, agent))
        if result is None:
            return None, None
        # An equal memory that is active stays so.
        if memory.status == "archived" and result.outcome == "added":
            await memory_writes.archive(conn, self.access.org_id, result.memory_id, at=datetime.now(UTC))
        return result.memory_id, result.outcome


def _draft(memory: ProjectMemory, agent: ParticipantId) -> MemoryDraft:
    cleaner = ValueCleaner()
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=memory.kind,
        title=cleaner.text(memory.title)[:200],
        content=cleaner.text(memory.content),
        importance=memory.importance,
        confidence=memory.confidence,
        audience=memory.audience,
        asserted_by=agent if memory.audience == "self" else None,
        recorded_at=max(datetime.now(UTC), memory.occurred_at),
        valid_from=memory.occurred_at,
        # Whose memory it was says neither who stated it nor whom it is about.
        roles=frozenset({("involved", agent)}),
        metadata={legacy_key(memory): cleaner.value(memory.metadata)},
        task_id=memory.task[:200] if memory.task else None,
    )
