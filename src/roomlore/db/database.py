"""Connections, and for whom they read.

Every transaction states an org and a viewer before its first statement; without them row-level security
shows nothing. One that reads for an answer states where that is to be posted, too. Reads are read-only transactions.
"""

import logging
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
from roomlore.domain.errors import DatabaseFull, QueryTimeout
from roomlore.domain.ids import MessageId, OrgId, RoomId, uuid7
from roomlore.domain.records import Viewer

Result = TypeVar("Result")

CHANGE_ATTEMPTS = 5
READ_ONLY = "set transaction isolation level repeatable read, read only"
GENERIC_PLAN = "set local plan_cache_mode = force_generic_plan"
APPLY_RESTRICTIONS = "set local roomlore.recall = 'on'"
#: So many lines of the log wait in memory for room on a full disk; what is older goes.
MAX_WAITING_LINES = 10_000
#: More statements than there are: none is forgotten while its connection lives.
PREPARED = 2_000
#: So much is written to see whether there is room again: several pages, which have to be allocated.
PROBE = "create temporary table roomlore_probe on commit drop as select repeat(md5(n::text), 200) from generate_series(1, 200) n"

LOG = logging.getLogger(__name__)

#: Writes one line of the log.
WriteAuditLine = Callable[[Connection], Awaitable[None]]


@dataclass(slots=True)
class CommitTracker:
    """Whether a change was committed."""

    has_committed: bool = False


_COMMIT_TRACKER: ContextVar[CommitTracker | None] = ContextVar("_NOTICED", default=None)
#: Seconds within which each question of a read is answered.
_STATEMENT_TIMEOUT: ContextVar[float | None] = ContextVar("_WITHIN", default=None)


class Pool(AsyncConnectionPool[Connection]):
    """Connections as the application role; the one given back last is taken first, for it has prepared the most."""

    def __init__(self, dsn: str, *, size: int) -> None:
        super().__init__(
            dsn,
            kwargs={"autocommit": True, "options": connections.SESSION_OPTIONS},
            min_size=1,
            max_size=size,
            configure=_configure,
            # After a restart of the server nobody is handed a connection to the old one.
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def _get_ready_connection(self, timeout: float | None) -> Connection | None:  # noqa: ASYNC109  overrides the pool's
        # It takes from the left, and what is given back comes on the right.
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)


class Database:
    """A pool of connections as the application role; make one with `connect`."""

    def __init__(self, pool: Pool, dsn: str) -> None:
        self._pool = pool
        self._dsn = dsn
        self._is_full = False
        #: Lines of the log for which there was no room.
        self._waiting = deque[tuple[Viewer, WriteAuditLine]](maxlen=MAX_WAITING_LINES)

    @property
    def is_full(self) -> bool:
        """Whether the disk was full when something was last written."""
        return self._is_full

    @classmethod
    async def connect(cls, dsn: str, *, size: int = 8) -> "Database":
        """Open the pool.

        Raises:
            BadInput: the URL is not one.
            DatabaseUnavailable: nobody answers, the login is refused, or the server is too old.
            SchemaMismatch: the schema is not the one this code was written for.
        """
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

        One that recalls sees nothing that a spoken wish keeps from the viewer; without, what was said is read as it
        was said.

        With `keeps_plans` each statement keeps the plan it got first: for short ones that are asked again and
        again, whose planning under the policies takes longer than they do. Not for those in which a parameter
        may be left out.

        Raises:
            QueryTimeout: it asks within bounds, see `answered_within`, and was not answered in time.
        """
        within = _STATEMENT_TIMEOUT.get()
        # One snapshot for all statements: who may see what does not change between them.
        settings: list[LiteralString] = [
            READ_ONLY,
            *([GENERIC_PLAN] if generic_plan else ()),
            *([APPLY_RESTRICTIONS] if apply_restrictions else ()),
        ]
        stated = sql.SQL("; ").join([_viewer(viewer), *map(sql.SQL, settings), *_with_timeout(within)])
        try:
            async with self._pool.connection() as conn, _undoing_nothing(conn):
                await conn.execute(stated)
                if viewer.place is not None:
                    await bind_destination(conn, viewer.place)
                yield conn
        except psycopg.errors.QueryCanceled:
            if within is None:
                raise
            raise QueryTimeout from None

    @asynccontextmanager
    async def audit_transaction(self, viewer: Viewer) -> AsyncGenerator[Connection]:
        """Give a connection for adding a viewer's own line to the log, which no answer waits for on disk.

        Raises:
            DatabaseFull: there is no room for it.
        """
        async with self._write_transaction() as conn:
            await _set_viewer(conn, replace(viewer, place=None))
            await conn.execute("set local synchronous_commit = off")
            yield conn

    async def write_audit_line(self, viewer: Viewer, write: WriteAuditLine) -> None:
        """Add a viewer's own line to the log; while the disk is full it waits in memory, so that reads go on."""
        try:
            async with self.audit_transaction(viewer) as conn:
                await write(conn)
        except DatabaseFull:
            self._waiting.append((viewer, write))
            LOG.warning("the disk is full; %s lines of the activity log wait for room", len(self._waiting))
            return
        with suppress(DatabaseFull, psycopg.OperationalError):
            # Each is taken by one writer alone, so that none is written twice.
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
        """Do nothing if something can be read, and written if the disk was full before.

        Raises:
            DatabaseFull: the disk still is.
        """
        async with self.system_connection() as conn:
            await conn.execute("select 1")
        if self._is_full:
            async with self._write_transaction() as conn:
                await conn.execute(PROBE)
            # Not before: a single line may still find a place on a page that is there.
            self._is_full = False

    @asynccontextmanager
    async def _write_transaction(self) -> AsyncGenerator[Connection]:
        """Give a connection in a transaction that writes, and note whether there was room for it."""
        try:
            async with self._pool.connection() as conn, conn.transaction():
                yield conn
        except psycopg.errors.DiskFull as error:
            self._is_full = True
            raise DatabaseFull from error

    async def change(self, org_id: OrgId, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `work` in one transaction on the operator's behalf, again if it met a deadlock.

        Raises:
            DatabaseFull: there is no room for it; nothing of it was written.
        """
        operator = Viewer.operator(org_id)
        for attempt in range(1, CHANGE_ATTEMPTS + 1):
            try:
                async with self._write_transaction() as conn:
                    await _set_viewer(conn, operator)
                    result = await work(conn)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                if attempt == CHANGE_ATTEMPTS:
                    raise
            else:
                if (noticed := _COMMIT_TRACKER.get()) is not None:
                    noticed.has_committed = True
                return result
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def system_connection(self) -> AsyncGenerator[Connection]:
        """Give a connection that has no org: it sees no rows, and may call the functions that span orgs."""
        async with self._pool.connection() as conn, conn.transaction():
            yield conn

    async def find_org(self, name: str) -> OrgId | None:
        """Return the id of the org of that name, or None."""
        async with self.system_connection() as conn:
            row = await (await conn.execute("select find_org(%s)", [name])).fetchone()
            return None if row is None else row[0]

    async def ensure_org(self, name: str) -> OrgId:
        """Return the id of the org of that name, making it when there is none."""
        async with self.system_connection() as conn:
            row = await (await conn.execute("select ensure_org(%s, %s)", [name, uuid7()])).fetchone()
            assert row is not None
            return OrgId(row[0])

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncGenerator[Callable[[float], Awaitable[list[str]]]]:
        """Give a function that waits for the next notification on a channel, or for so many seconds.

        It returns what came with the notifications, none of which is lost.
        """
        async with await connect(self._dsn, options=connections.SESSION_OPTIONS) as conn:
            await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

            async def wait(seconds: float) -> list[str]:
                return [notice.payload async for notice in conn.notifies(timeout=seconds, stop_after=1)]

            yield wait


@contextmanager
def track_commits() -> Generator[CommitTracker]:
    """Give what tells whether anything done within was a change that is committed; lines in the log are none."""
    noticed = CommitTracker()
    token = _COMMIT_TRACKER.set(noticed)
    try:
        yield noticed
    finally:
        _COMMIT_TRACKER.reset(token)


@contextmanager
def statement_timeout(seconds: float) -> Generator[None]:
    """Let no question of a read, inside the block, take longer; changes are made however long they take."""
    token = _STATEMENT_TIMEOUT.set(seconds)
    try:
        yield
    finally:
        _STATEMENT_TIMEOUT.reset(token)


@asynccontextmanager
async def without_restrictions(conn: Connection) -> AsyncGenerator[None]:
    """Read what was said as it was said, inside a transaction that recalls: to find what somebody names or answers."""
    await conn.execute("set local roomlore.recall = 'off'")
    yield
    await conn.execute(APPLY_RESTRICTIONS)


@asynccontextmanager
async def with_restrictions(conn: Connection) -> AsyncGenerator[None]:
    """Recall, inside a transaction that reads what was said as it was said: to tell what is remembered of it."""
    await conn.execute(APPLY_RESTRICTIONS)
    yield
    await conn.execute("set local roomlore.recall = 'off'")


async def bind_destination(conn: Connection, place: RoomId | MessageId) -> bool:
    """Bind the rest of a read to the place where it is to be posted, and return whether anybody reads there.

    From then on it sees nothing that not everybody there could read. Where nobody does, it sees nothing.

    Args:
        conn: Reads for a viewer.
        place: A room; or a whisper, which is answered to those who hear it.
    """
    await conn.execute(sql.SQL("set local roomlore.place = {}").format(sql.Literal(str(UUID(str(place))))))
    row = await (await conn.execute("select keep_place()")).fetchone()
    assert row is not None
    return bool(row[0])


async def _configure(conn: Connection) -> None:
    # A login that is more than the application role steps down; the embedded server logs in as it directly.
    await conn.execute("set role roomlore_app")
    if await connections.reset_session(conn):
        raise connections.StaleSession("the settings of roomlore_app were taken back; connecting anew")
    conn.prepared_max = PREPARED
    # Of pgvector's types only this one travels; each is three questions more.
    halfvec = await TypeInfo.fetch(conn, "halfvec")
    if halfvec is None:
        raise psycopg.ProgrammingError("there is no type halfvec: pgvector is missing, or too old")
    register_halfvec_info(conn, halfvec)
    await make_staging(conn)


def _with_timeout(within: float | None) -> list[sql.Composable]:
    if within is None:
        return []
    return [sql.SQL("set local statement_timeout = {}").format(sql.Literal(int(within * 1000)))]


@asynccontextmanager
async def _undoing_nothing(conn: Connection) -> AsyncGenerator[None]:
    """Begin a read-only transaction, and commit it whatever the block raises, unless a statement failed.

    The driver forgets all prepared statements when it rolls back, for what they are about may have been made since.
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
    # Literals, not set_config: only a plain SET LOCAL travels to the shards of a distributed database.
    viewer_id = "operator" if viewer.participant_id is None else str(UUID(str(viewer.participant_id)))
    place = "" if viewer.place is None else str(UUID(str(viewer.place)))
    return sql.SQL(
        "set local roomlore.org = {}; set local roomlore.viewer = {}; set local roomlore.place = {}"
    ).format(sql.Literal(str(UUID(str(viewer.org_id)))), sql.Literal(viewer_id), sql.Literal(place))


async def _set_viewer(conn: Connection, viewer: Viewer) -> None:
    await conn.execute(_viewer(viewer))
