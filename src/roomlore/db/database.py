"""Transactions and their viewers.

Every transaction sets an org and a viewer before its first statement. Without them, row-level security shows nothing. A
read for an answer also sets where the answer will be posted. Reads are read-only transactions.
"""

import logging
import select
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import LiteralString, TypeVar
from uuid import UUID

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool

from roomlore.db import connections
from roomlore.db.connections import connect, translate_errors
from roomlore.db.messages import make_staging
from roomlore.db.queries import Connection
from roomlore.db.schema import check_server, check_version
from roomlore.domain.errors import BadInput, DatabaseFull, QueryTimeout
from roomlore.domain.ids import MessageId, OrgId, RoomId, uuid7
from roomlore.domain.records import Viewer

Result = TypeVar("Result")

CHANGE_ATTEMPTS = 5
READ_ONLY = "set transaction isolation level repeatable read, read only"
GENERIC_PLAN = "set local plan_cache_mode = force_generic_plan"
APPLY_RESTRICTIONS = "set local roomlore.apply_restrictions = 'on'"
SKIP_RESTRICTIONS = "set local roomlore.apply_restrictions = 'off'"
#: How many lines of the activity log wait in memory while the disk is full. If there are more, the oldest are dropped.
MAX_WAITING_LINES = 10_000
#: More than the number of statements, so that a connection never drops one.
PREPARED = 2_000
#: Writes several new pages, to see whether the disk has room again.
PROBE = "create temporary table roomlore_probe on commit drop as select repeat(md5(n::text), 200) from generate_series(1, 200) n"

LOG = logging.getLogger(__name__)

#: Writes one line of the activity log.
WriteAuditLine = Callable[[Connection], Awaitable[None]]


@dataclass(slots=True)
class CommitTracker:
    """Whether a change was committed."""

    has_committed: bool = False


_COMMIT_TRACKER: ContextVar[CommitTracker | None] = ContextVar("_COMMIT_TRACKER", default=None)
#: The maximum number of seconds for each statement of a read.
_STATEMENT_TIMEOUT: ContextVar[float | None] = ContextVar("_STATEMENT_TIMEOUT", default=None)


class Pool(AsyncConnectionPool[Connection]):
    """Connections as the application role.

    The last returned connection is used first, because it has the most prepared statements.
    """

    def __init__(self, dsn: str, *, size: int) -> None:
        super().__init__(
            dsn,
            kwargs={"autocommit": True, "options": connections.SESSION_OPTIONS},
            min_size=1,
            max_size=size,
            configure=configure,
            # After a restart of the server, no caller gets a connection to the old server.
            check=_check_if_readable,
            open=False,
        )

    async def _get_ready_connection(self, timeout: float | None) -> Connection | None:  # noqa: ASYNC109  overrides the pool's
        # The pool takes from the left and returns to the right.
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)


async def _check_if_readable(conn: Connection) -> None:
    """Check a connection if its socket has something to read.

    The socket has something to read if the server ended the connection. So an intact connection is usually checked
    without a round trip.

    Raises:
        psycopg.OperationalError: the server ended the connection.
    """
    waiting = select.poll()
    waiting.register(conn.fileno(), select.POLLIN)
    if waiting.poll(0):
        await AsyncConnectionPool.check_connection(conn)


class Database:
    """A pool of connections as the application role. `connect` creates it."""

    def __init__(self, pool: Pool, dsn: str) -> None:
        self._pool = pool
        self._dsn = dsn
        self._is_full = False
        #: Lines of the activity log for which the disk had no room.
        self._waiting = deque[tuple[Viewer, WriteAuditLine]](maxlen=MAX_WAITING_LINES)

    @property
    def is_full(self) -> bool:
        """Whether the disk was full at the last write."""
        return self._is_full

    @classmethod
    async def connect(cls, dsn: str, *, size: int = 8) -> "Database":
        """Check the server, its schema and the login, and open the pool."""
        async with await connect(dsn, options=connections.SESSION_OPTIONS) as conn:
            check_server(conn)
            with translate_errors():
                await check_version(conn)
                await conn.execute("set role roomlore_app")
                await connections.reset_session(conn)
        pool = Pool(dsn, size=size)
        await pool.open(wait=True)
        return cls(pool, dsn)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def read_transaction(
        self, viewer: Viewer, *, generic_plan: bool = False, apply_restrictions: bool = False
    ) -> AsyncGenerator[Connection]:
        """Give a connection inside a read-only transaction that sees what the viewer may see.

        Args:
            viewer: For whom it reads.
            generic_plan: Plan each statement once, without its parameters. Use it for short, frequent statements that
                take less time than their planning under the policies, but not for those with optional parameters.
            apply_restrictions: Hide what privacy requests hide from the viewer.

        Raises:
            QueryTimeout: a statement exceeded the `statement_timeout`.
        """
        seconds = _STATEMENT_TIMEOUT.get()
        # One snapshot for all statements: who may see what does not change between them.
        settings: list[LiteralString] = [
            READ_ONLY,
            *([GENERIC_PLAN] if generic_plan else ()),
            *([APPLY_RESTRICTIONS] if apply_restrictions else ()),
        ]
        timeout = [] if seconds is None else [_set_local("statement_timeout", int(seconds * 1000))]
        statements = sql.SQL("; ").join([_viewer(viewer), *map(sql.SQL, settings), *timeout])
        try:
            async with self._pool.connection() as conn, _without_rollback(conn):
                await conn.execute(statements)
                if viewer.destination is not None:
                    await bind_destination(conn, viewer.destination)
                yield conn
        except psycopg.errors.QueryCanceled:
            if seconds is None:
                raise
            raise QueryTimeout from None

    @asynccontextmanager
    async def audit_transaction(self, viewer: Viewer) -> AsyncGenerator[Connection]:
        """Give a connection for a viewer's line of the activity log; its commit does not wait for the disk."""
        async with self._write_transaction() as conn:
            await set_viewer(conn, replace(viewer, destination=None))
            await conn.execute("set local synchronous_commit = off")
            yield conn

    async def write_audit_line(self, viewer: Viewer, write: WriteAuditLine) -> None:
        """Add a viewer's line to the activity log.

        While the disk is full, the line waits in memory, so reads continue.
        """
        try:
            async with self.audit_transaction(viewer) as conn:
                await write(conn)
        except DatabaseFull:
            self._waiting.append((viewer, write))
            LOG.warning("the disk is full; %s lines of the activity log wait for room", len(self._waiting))
            return
        with suppress(DatabaseFull, psycopg.OperationalError):
            # Only one writer takes each line, so no line is written twice.
            while self._waiting:
                await self._write_line(*self._waiting.popleft())

    async def _write_line(self, viewer: Viewer, write: WriteAuditLine) -> None:
        try:
            async with self.audit_transaction(viewer) as conn:
                await write(conn)
        except BaseException:
            self._waiting.appendleft((viewer, write))
            raise

    async def probe(self) -> None:
        """Check that the database can be read, and written if the disk was full before."""
        async with self.system_connection() as conn:
            await conn.execute("select 1")
        if self._is_full:
            async with self._write_transaction() as conn:
                await conn.execute(PROBE)
            # Only now: a single line may still fit on an existing page.
            self._is_full = False

    @asynccontextmanager
    async def _write_transaction(self) -> AsyncGenerator[Connection]:
        """Give a connection in a transaction that writes, and record whether the disk was full."""
        try:
            async with self._pool.connection() as conn, conn.transaction():
                yield conn
        except psycopg.errors.DiskFull as error:
            self._is_full = True
            raise DatabaseFull from error

    async def change(self, org_id: OrgId, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `work` in one transaction for the operator. After a deadlock, run it again."""
        operator = Viewer.operator(org_id)
        for attempt in range(1, CHANGE_ATTEMPTS + 1):
            try:
                async with self._write_transaction() as conn:
                    await set_viewer(conn, operator)
                    result = await work(conn)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                if attempt == CHANGE_ATTEMPTS:
                    raise
            else:
                if (tracker := _COMMIT_TRACKER.get()) is not None:
                    tracker.has_committed = True
                return result
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def system_connection(self) -> AsyncGenerator[Connection]:
        """Give a connection without an org. It sees no rows, but may call the functions that cover several orgs."""
        async with self._pool.connection() as conn, conn.transaction():
            yield conn

    async def find_org(self, name: str) -> OrgId | None:
        """Return the id of the org of that name, or None."""
        async with self.system_connection() as conn:
            row = await (await conn.execute("select find_org(%s)", [name])).fetchone()
            return None if row is None else row[0]

    async def ensure_org(self, name: str, org_id: OrgId | None = None) -> OrgId:
        """Return the id of the org of this name; create the org if it is missing, with the given id.

        Raises:
            BadInput: another org has this id.
        """
        async with self.system_connection() as conn:
            try:
                row = await (
                    await conn.execute("select ensure_org(%s, %s)", [name, org_id or uuid7()])
                ).fetchone()
            except psycopg.errors.UniqueViolation:
                raise BadInput("org", "is in this database under another name; use that name") from None
            assert row is not None
            return OrgId(row[0])

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncGenerator[Callable[[float], Awaitable[list[str]]]]:
        """Give a function that waits for notifications on a channel and returns their payloads.

        The argument of the function is the maximum number of seconds to wait.
        """
        async with await connect(self._dsn, options=connections.SESSION_OPTIONS) as conn:
            await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

            async def wait(seconds: float) -> list[str]:
                return [notice.payload async for notice in conn.notifies(timeout=seconds, stop_after=1)]

            yield wait


@contextmanager
def track_commits() -> Generator[CommitTracker]:
    """Track whether a change is committed inside the block. Lines of the activity log do not count as changes."""
    tracker = CommitTracker()
    token = _COMMIT_TRACKER.set(tracker)
    try:
        yield tracker
    finally:
        _COMMIT_TRACKER.reset(token)


@contextmanager
def statement_timeout(seconds: float) -> Generator[None]:
    """Limit each statement of a read inside the block; changes have no limit."""
    token = _STATEMENT_TIMEOUT.set(seconds)
    try:
        yield
    finally:
        _STATEMENT_TIMEOUT.reset(token)


@asynccontextmanager
async def without_restrictions(conn: Connection) -> AsyncGenerator[None]:
    """Ignore privacy requests inside the block, to resolve a word or a reply.

    The transaction applies them otherwise.
    """
    await conn.execute(SKIP_RESTRICTIONS)
    yield
    await conn.execute(APPLY_RESTRICTIONS)


@asynccontextmanager
async def with_restrictions(conn: Connection) -> AsyncGenerator[None]:
    """Apply privacy requests inside the block, to read what may be recalled. The transaction ignores them otherwise."""
    await conn.execute(APPLY_RESTRICTIONS)
    yield
    await conn.execute(SKIP_RESTRICTIONS)


async def bind_destination(conn: Connection, destination: RoomId | MessageId) -> bool:
    """Restrict the rest of a read to what everybody at a destination may read; return whether anybody reads there.

    The destination is a room, or a whisper. An answer to a whisper goes to the whisper's audience.
    """
    await conn.execute(_set_local("roomlore.destination", str(UUID(str(destination)))))
    row = await (await conn.execute("select store_destination()")).fetchone()
    assert row is not None
    return bool(row[0])


async def configure(conn: Connection) -> None:
    """Give a connection the application role, and what its statements need: types and a temporary table."""
    # A session of another login takes on this role and its fewer rights; the embedded server logs in as this role.
    await conn.execute("set role roomlore_app")
    if await connections.reset_session(conn):
        raise connections.StaleSession("the settings of roomlore_app were reset; connecting again")
    conn.prepared_max = PREPARED
    # Only this type of pgvector is used. Registering each type costs three queries.
    halfvec = await TypeInfo.fetch(conn, "halfvec")
    if halfvec is None:
        raise psycopg.ProgrammingError("there is no type halfvec: pgvector is missing, or too old")
    register_halfvec_info(conn, halfvec)
    await make_staging(conn)


@asynccontextmanager
async def _without_rollback(conn: Connection) -> AsyncGenerator[None]:
    """Commit a read-only transaction even if the block raises, unless a statement failed.

    The driver drops all prepared statements when it rolls back.
    """
    raised: Exception | None = None
    async with conn.transaction():
        try:
            yield
        except Exception as error:
            if conn.info.transaction_status is not TransactionStatus.INTRANS:
                raise
            raised = error
    if raised is not None:
        raise raised


def _viewer(viewer: Viewer) -> sql.Composed:
    settings: dict[LiteralString, str] = {
        "roomlore.org": str(UUID(str(viewer.org_id))),
        "roomlore.viewer": "operator"
        if viewer.participant_id is None
        else str(UUID(str(viewer.participant_id))),
        "roomlore.destination": "" if viewer.destination is None else str(UUID(str(viewer.destination))),
    }
    return sql.SQL("; ").join(_set_local(name, value) for name, value in settings.items())


def _set_local(name: LiteralString, value: str | int) -> sql.Composed:
    # A literal, not set_config: only a plain SET LOCAL reaches the shards of a distributed database.
    return sql.SQL("set local {} = {}").format(sql.SQL(name), sql.Literal(value))


async def set_viewer(conn: Connection, viewer: Viewer) -> None:
    """State who reads, until the transaction ends."""
    await conn.execute(_viewer(viewer))
