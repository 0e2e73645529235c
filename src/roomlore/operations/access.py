"""The desk that every call passes: who calls, whether they may, and the line in the activity log.

The viewer of a read comes from the caller: an operator may read as anybody, everybody else as themselves.
A key that has expired or was revoked ends with the next call of whoever still uses it.
"""

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

#: The most of anything that one call lists.
MAX_LISTED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRead:
    """A read under way: its connection, and what the log will say was shown."""

    conn: Connection
    subject_ids: list[UUID] = field(default_factory=list[UUID])

    def record_shown(self, ids: Iterable[UUID]) -> None:
        """Note what is shown."""
        self.subject_ids.extend(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Reads and changes of one org on behalf of one caller."""

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
        """Give a connection that sees what the viewer may see; the log has the line before anybody the answer.

        Args:
            viewer: For whom.
            action: What the log calls it.
            generic_plan: As in `Database.reading`.
            apply_restrictions: As in `Database.reading`.
            started_at: When it began, by `time.perf_counter`; then the log also says how long it took.

        Raises:
            NotAllowed: the caller may not read as this viewer.
            KeyRefused: the caller's key has expired or was revoked.
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
        """Give a connection that sees what the caller may see, to find what a change is about.

        The change leaves the line in the log; this leaves one only where nothing may be found.

        Raises:
            KeyRefused: the caller's key has expired or was revoked.
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
        """Run `work` in one transaction and return the first of what it returns; the second goes to the log.

        Raises:
            NotAllowed: the caller's role does not give the right.
            KeyRefused: the caller's key has expired or was revoked.
        """
        await self.check(right, action)

        async def logged(conn: Connection) -> Result:
            result, subject_ids = await work(conn)
            await audit_log.append(conn, self.principal, action, outcome="done", subject_ids=subject_ids)
            return result

        try:
            return await self.db.change(self.org_id, logged)
        except RoomloreError:
            await self._audit(self.principal, action, "refused")
            raise

    async def own_accounts(self, conn: Connection) -> frozenset[ParticipantId]:
        """Return the caller's accounts as of now; what was theirs when they came in may be so no more."""
        if self.principal.participant_id is None:
            return frozenset()
        found = await directory.accounts(conn, self.org_id, self.principal.participant_id)
        return frozenset(account.id for account in found)

    async def is_own(self, conn: Connection, participant_id: ParticipantId | None) -> bool:
        """Return whether a participant is the caller by the accounts of now; everybody is an operator's."""
        return self.principal.is_operator or participant_id in await self.own_accounts(conn)

    async def audit_work(self, action: str, *, every_org: bool = False) -> None:
        """Note that the caller has work done that shows and changes nothing said.

        Raises:
            NotAllowed: the caller is no operator, or is one by a key and wants every org.
            KeyRefused: the caller's key has expired or was revoked.
        """
        await self.check("administer", action)
        if every_org and self.principal.key_id is not None:
            await self._refuse(action, "a key is for its own org only")
        await self._audit(self.principal, action, "done")

    async def check(self, right: Right, action: str) -> None:
        """Do nothing if the caller has the right.

        Raises:
            NotAllowed: the caller's role does not give it.
            KeyRefused: the caller's key has expired or was revoked.
        """
        await self._check_key(action)
        if not self.principal.is_operator and right not in RIGHTS[self.principal.role]:
            await self._refuse(
                action, f"{action} needs another key than that of {_article(self.principal.role)}"
            )

    async def check_viewer(self, viewer: Viewer, action: str) -> None:
        """Do nothing if the caller may read as the viewer.

        Raises:
            NotAllowed: the caller may not.
            KeyRefused: the caller's key has expired or was revoked.
        """
        await self._check_key(action)
        if viewer.org_id != self.org_id:
            await self._refuse(action, "this viewer is of another org")
        # Only as the very participant: what other accounts were theirs when they came in may be so no more.
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
        # The key is the one the caller came with, whatever the viewer says of itself.
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


def check_limit(limit: int) -> None:
    """Do nothing if so many of anything may be listed by one call.

    Raises:
        BadInput: it is less than one, or more than anybody reads.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise BadInput("limit", f"must be at least 1 and at most {MAX_LISTED:,}")


def _article(role: str) -> str:
    return f"an {role}" if role.startswith(("a", "o")) else f"a {role}"
