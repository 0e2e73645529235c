"""Access control: every call checks its caller, opens a transaction and writes a line to the audit log."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NoReturn, TypeVar
from uuid import UUID

from roomlore.db import audit_log, directory, keys
from roomlore.db.database import Database
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed, QueryTimeout, RoomloreError
from roomlore.domain.ids import OrgId, ParticipantId, uuid7
from roomlore.domain.records import RIGHTS, AuditOutcome, Right, Viewer

Result = TypeVar("Result")

#: The maximum number of items that one call lists.
MAX_LISTED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRead:
    """A read in progress, and the ids that its audit line will name."""

    conn: Connection
    subject_ids: list[UUID] = field(default_factory=list[UUID])

    def record_shown(self, ids: Iterable[UUID]) -> None:
        """Add ids to the audit line."""
        self.subject_ids.extend(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Reads and changes of one org by one caller.

    Every method raises KeyRefused if the caller's key has expired or was revoked.
    """

    db: Database
    org_id: OrgId
    principal: Viewer

    @asynccontextmanager
    async def reading(
        self,
        viewer: Viewer,
        action: str,
        *,
        generic_plan: bool = False,
        apply_restrictions: bool = False,
        started_at: float | None = None,
    ) -> AsyncGenerator[AuditedRead]:
        """Open a read as a viewer. The audit line is written before the caller gets the result.

        If `started_at` is given, a value of `time.perf_counter`, the line also says how long the read took.

        Raises:
            NotAllowed: the caller may not read as this viewer.
        """
        await self.check_viewer(viewer, action)
        try:
            async with self.db.read_transaction(
                viewer, generic_plan=generic_plan, apply_restrictions=apply_restrictions
            ) as conn:
                reading = AuditedRead(conn=conn)
                yield reading
        except QueryTimeout:
            raise
        except RoomloreError:
            await self._audit(viewer, action, "refused")
            raise
        took_ms = None if started_at is None else (perf_counter() - started_at) * 1000
        await self._audit(viewer, action, "done", reading.subject_ids, took_ms=took_ms)

    @asynccontextmanager
    async def resolving(self, action: str) -> AsyncGenerator[Connection]:
        """Open a read as the caller, to resolve the arguments of a change.

        The change has its own audit line. So this read writes an audit line only if a lookup fails.
        """
        await self._check_key(action)
        try:
            async with self.db.read_transaction(self.principal) as conn:
                yield conn
        except RoomloreError:
            await self._audit(self.principal, action, "refused")
            raise

    async def change(
        self,
        right: Right,
        action: str,
        work: Callable[[Connection], Awaitable[tuple[Result, Sequence[UUID]]]],
    ) -> Result:
        """Run `work` in one transaction. `work` returns the result of the change and the ids for the audit line.

        Raises:
            NotAllowed: the caller's role does not have the right.
        """
        await self.check(right, action)

        async def audited(conn: Connection) -> Result:
            result, subject_ids = await work(conn)
            await audit_log.append(
                conn, self.principal, action, line_id=uuid7(), outcome="done", subject_ids=subject_ids
            )
            return result

        try:
            return await self.db.change(self.org_id, audited)
        except RoomloreError:
            await self._audit(self.principal, action, "refused")
            raise

    async def own_accounts(self, conn: Connection) -> frozenset[ParticipantId]:
        """Return the caller's current accounts. They may differ from the accounts at sign-in."""
        if self.principal.participant_id is None:
            return frozenset()
        accounts = await directory.accounts(conn, self.org_id, self.principal.participant_id)
        return frozenset(account.id for account in accounts)

    async def is_own(self, conn: Connection, participant_id: ParticipantId | None) -> bool:
        """Return whether a participant is a current account of the caller. For operators, this is always true."""
        return self.principal.is_operator or participant_id in await self.own_accounts(conn)

    async def audit_work(self, action: str, *, every_org: bool = False) -> None:
        """Write an audit line for work that neither shows nor changes messages.

        Raises:
            NotAllowed: the caller is not an operator, or came with a key and wants every org.
        """
        await self.check("administer", action)
        if every_org and self.principal.key_id is not None:
            await self._refuse(action, "a key is for its own org only")
        await self._audit(self.principal, action, "done")

    async def check(self, right: Right, action: str) -> None:
        """Raise NotAllowed unless the caller has the right."""
        await self._check_key(action)
        if not self.principal.is_operator and right not in RIGHTS[self.principal.role]:
            role = self.principal.role
            article = "an" if role.startswith(("a", "o")) else "a"
            await self._refuse(action, f"{action} needs another key than that of {article} {role}")

    async def check_viewer(self, viewer: Viewer, action: str) -> None:
        """Raise NotAllowed unless the caller may read as the viewer."""
        await self._check_key(action)
        if viewer.org_id != self.org_id:
            await self._refuse(action, "this viewer is of another org")
        # The participant itself is compared, not its accounts, because the accounts may have changed since sign-in.
        if not (self.principal.is_operator or viewer.participant_id == self.principal.participant_id):
            await self._refuse(action, "this key reads as its own participant only")

    async def _check_key(self, action: str) -> None:
        if self.principal.key_id is None:
            return
        async with self.db.read_transaction(Viewer.operator(self.org_id)) as conn:
            key = await keys.valid_key(conn, self.org_id, self.principal.key_id)
        if key is None:
            await self._audit(self.principal, action, "refused")
            raise KeyRefused

    async def _refuse(self, action: str, why: str) -> NoReturn:
        await self._audit(self.principal, action, "refused")
        raise NotAllowed(why)

    async def _audit(
        self,
        viewer: Viewer,
        action: str,
        outcome: AuditOutcome,
        subject_ids: Sequence[UUID] = (),
        *,
        took_ms: float | None = None,
    ) -> None:
        # The line names the caller's key, whoever the viewer is.
        reader, line_id = replace(viewer, key_id=self.principal.key_id), uuid7()

        async def write(conn: Connection) -> None:
            await audit_log.append(
                conn,
                reader,
                action,
                outcome=outcome,
                subject_ids=subject_ids,
                took_ms=took_ms,
                line_id=line_id,
            )

        await self.db.write_audit_line(reader, write)


async def viewer_of(db: Database, org_id: OrgId, participant_id: ParticipantId) -> Viewer:
    """Return a participant as a viewer, with the person's other accounts."""
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        accounts = await directory.accounts(conn, org_id, participant_id)
    is_agent = bool(accounts) and all(account.kind == "agent" for account in accounts)
    return Viewer(
        org_id=org_id,
        participant_id=participant_id,
        accounts=frozenset(account.id for account in accounts) - {participant_id},
        role="agent" if is_agent else "member",
    )


def check_limit(limit: int) -> None:
    """Raise BadInput unless the limit is at least 1 and at most `MAX_LISTED`."""
    if not 1 <= limit <= MAX_LISTED:
        raise BadInput("limit", f"must be at least 1 and at most {MAX_LISTED:,}")
