"""Writes all tables to a file, and fills the tables from one.

Row-level security is forced on every table, so all of this runs as `roomlore_owner`, whose policy is true. A login that
has migrated the database may do so; a superuser is not needed. The same file fits the embedded database and any server
with the same schema version.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from graphlib import TopologicalSorter
from importlib.metadata import version

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from roomlore.db import connections, kept_erasures
from roomlore.db.backup_file import (
    BackupContents,
    BackupHeader,
    BackupKind,
    BackupReader,
    BackupTable,
    BackupWriter,
)
from roomlore.db.connections import connect, translate_connection_errors, translate_errors
from roomlore.db.database import READ_ONLY, configure, set_viewer
from roomlore.db.queries import Connection, Queries
from roomlore.db.schema import check_server, check_version, found_version, server_facts, wanted_version
from roomlore.domain.errors import BadInput, Conflict, DatabaseUnavailable
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer

QUERIES = Queries("backup")

#: Not in a file: what `schema.sql` fills; rows about other servers and running processes; and changes, whose order is
#: that of the transactions of one server.
EXCLUDED = frozenset({"migrations", "outbox", "projections", "heartbeats"})
#: A database with rows only in these tables counts as empty: opening it makes such rows.
MADE_BY_OPENING = frozenset({"migrations", "orgs", "audit_log", "heartbeats"})
#: Conditions on the rows of a file.
CONDITIONS: Mapping[str, sql.SQL] = {
    # Work for indexes in other servers, which a restored database does not have.
    "work_queue": sql.SQL("where queue not in ('qdrant', 'neo4j')")
}
#: How long closed connections of this process may take to disappear.
_GONE_SECONDS, _POLL_SECONDS = 5.0, 0.05

#: Called with a phase, how much of it is done, and its total.
OnProgress = Callable[[str, int, int], None]


@QUERIES.query
async def tables(conn: Connection) -> dict[str, list[str]]:
    """Map each table to the columns that are written."""
    ...


@QUERIES.query
async def references(conn: Connection) -> list[tuple[str, str]]:
    """Return which table references which other table."""
    ...


@QUERIES.query
async def vector_indexes(conn: Connection) -> list[str]:
    """Return the approximate indexes of vectors, which the worker builds."""
    ...


@QUERIES.query
async def snapshot_time(conn: Connection) -> datetime:
    """Return when the transaction began."""
    ...


@QUERIES.query
async def rows_by_model(conn: Connection) -> dict[str, int]:
    """Return the number of vectors by embedding model."""
    ...


@QUERIES.query
async def other_logins(conn: Connection) -> set[str]:
    """Return the logins of Roomlore that have other connections to the database."""
    ...


@QUERIES.query
async def org_ids(conn: Connection) -> list[OrgId]:
    """Return all orgs. For the owner."""
    ...


def place_of(dsn: str) -> str:
    """Return the name of a database and its server, without the password."""
    with translate_errors():
        parts = conninfo_to_dict(dsn)
    return f"the database {parts.get('dbname', '')!r} on {parts.get('host') or 'this machine'}"


@asynccontextmanager
async def owner_connection(dsn: str) -> AsyncGenerator[Connection]:
    """Give a connection in a transaction that runs as the owner of the tables.

    Raises:
        DatabaseUnavailable: the login may not become the owner, or the connection is lost.
        SchemaMismatch: the database has another schema version.
    """
    with translate_connection_errors():
        async with await connect(dsn, options=connections.SESSION_OPTIONS) as conn:
            check_server(conn)
            with translate_errors():
                await check_version(conn)
                await conn.execute("set role roomlore_app")
            await configure(conn)
            await conn.execute("reset role")
            async with conn.transaction():
                yield conn


async def become_owner(conn: Connection) -> None:
    """Run the rest of the transaction as the owner of the tables."""
    try:
        await conn.execute("set local role roomlore_owner")
    except psycopg.errors.InsufficientPrivilege:
        raise DatabaseUnavailable(
            "the login may not read and write all tables",
            cure="use the login that ran `roomlore migrate`, or let an administrator run: grant roomlore_owner to it",
        ) from None


@asynccontextmanager
async def acting_as_operator(conn: Connection, org_id: OrgId) -> AsyncGenerator[None]:
    """Run the block with the rights of the application, for the operator of an org."""
    await conn.execute("set local role roomlore_app")
    await set_viewer(conn, Viewer.operator(org_id))
    yield
    await become_owner(conn)


# Write


@asynccontextmanager
async def snapshot(dsn: str) -> AsyncGenerator[Connection]:
    """Give a connection that reads all rows of one moment, as the owner, while others write."""
    async with owner_connection(dsn) as conn:
        await conn.execute(READ_ONLY)
        await become_owner(conn)
        yield conn


async def header(conn: Connection, kind: BackupKind) -> BackupHeader:
    """Return the header of a file that is written now."""
    facts = await server_facts(conn)
    return BackupHeader(
        kind=kind,
        schema_version=wanted_version(),
        created_at=await snapshot_time(conn),
        roomlore=version("roomlore"),
        postgresql=facts.version,
        pgvector=facts.pgvector or "",
    )


async def write_tables(conn: Connection, writer: BackupWriter, on_progress: OnProgress) -> None:
    """Write the rows of a snapshot, each table after those that it references."""
    columns = await tables(conn)
    queries = {name: _select(name, columns[name]) for name in await _in_order(conn) if name not in EXCLUDED}
    counts = {name: await _count(conn, query) for name, query in queries.items()}
    total, done = sum(counts.values()), 0
    on_progress("backing up", 0, total)
    for name, query in queries.items():
        writer.begin_table(name, columns[name])
        async for rows in _copied(conn, sql.SQL("copy ({}) to stdout").format(query)):
            await asyncio.to_thread(writer.add, rows)
            on_progress("backing up", done := done + rows.count(b"\n"), total)
        if writer.end_table() != counts[name]:
            raise AssertionError(f"the snapshot has other rows of {name} than before")
    writer.finish(await rows_by_model(conn))


async def write_erasures(conn: Connection, writer: BackupWriter) -> None:
    """Write only the record of what was erased."""
    for name, query in kept_erasures.READS.items():
        writer.begin_table(name, ())
        async for rows in _copied(conn, kept_erasures.QUERIES.by_name[query]):
            await asyncio.to_thread(writer.add, rows)
        writer.end_table()
    writer.finish({})


async def _in_order(conn: Connection) -> list[str]:
    sorter = TopologicalSorter[str](dict.fromkeys(await tables(conn), ()))
    for referencing, referenced in await references(conn):
        sorter.add(referencing, referenced)
    return list(sorter.static_order())


def _select(name: str, columns: Sequence[str]) -> sql.Composed:
    return sql.SQL("select {} from roomlore.{} {}").format(
        _identifiers(columns), sql.Identifier(name), CONDITIONS.get(name, sql.SQL(""))
    )


async def _count(conn: Connection, query: sql.Composed) -> int:
    row = await (await conn.execute(sql.SQL("select count(*) from ({}) as counted").format(query))).fetchone()
    assert row is not None
    return row[0]


async def _copied(conn: Connection, statement: sql.SQL | sql.Composed) -> AsyncGenerator[bytes]:
    """Yield whole rows, many at a time."""
    pending = bytearray()
    async with conn.cursor() as cursor, cursor.copy(statement) as copy:
        async for row in copy:
            pending += row
            if len(pending) >= _BLOCK_BYTES:
                yield bytes(pending)
                pending.clear()
    if pending:
        yield bytes(pending)


_BLOCK_BYTES = 2**20


def _identifiers(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


# Fill


def check_restorable(contents: BackupContents, *, kind: BackupKind) -> None:
    """Raise BadInput unless a file is of this kind and has the schema version of this code."""
    found = contents.header
    if found.kind != kind:
        holds = {"database": "a whole database", "erasures": "only the record of what was erased"}
        raise BadInput("backup", f"holds {holds[found.kind]}, not {holds[kind]}")
    if found.schema_version != wanted_version():
        raise BadInput(
            "backup",
            f"has schema version {found.schema_version}, and this Roomlore ({version('roomlore')}) has version "
            f"{wanted_version()}; restore it with Roomlore {found.roomlore}, which wrote it, then update Roomlore and "
            "run: roomlore migrate",
        )


async def is_empty(dsn: str) -> bool:
    """Return whether a database has no schema, or no rows but those that opening it makes."""
    async with await connect(dsn, options=connections.SESSION_OPTIONS) as conn:
        check_server(conn)
        with translate_errors():
            version_found = await found_version(conn)
        if not version_found:
            return True
    async with snapshot(dsn) as conn:
        return await _is_empty(conn)


async def _is_empty(conn: Connection) -> bool:
    for name in sorted((await tables(conn)).keys() - MADE_BY_OPENING):
        query = sql.SQL("select from roomlore.{} limit 1").format(sql.Identifier(name))
        if await (await conn.execute(query)).fetchone() is not None:
            return False
    return True


@asynccontextmanager
async def filling(dsn: str, *, replace: bool) -> AsyncGenerator[Connection]:
    """Give a connection, as the owner, in the transaction that fills the database. Nobody else may be connected.

    Raises:
        Conflict: somebody else is connected, or the database is not empty and `replace` is not set.
    """
    async with owner_connection(dsn) as conn:
        await become_owner(conn)
        await _check_alone(conn)
        with _translate_lock_errors():
            await conn.execute("set local lock_timeout = '10s'")
            names = _identifiers(sorted(await tables(conn)))
            # Others may still read, so that a second connection can read what was erased.
            await conn.execute(sql.SQL("lock table {} in exclusive mode").format(names))
            if not replace and not await _is_empty(conn):
                raise Conflict("restore", "the database is not empty")
            yield conn


@contextmanager
def _translate_lock_errors() -> Generator[None]:
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise _in_use("somebody else") from None


def _in_use(login: str) -> Conflict:
    return Conflict(
        "restore",
        f"{login} is connected to the database; stop `roomlore serve`, workers and other programs that use it",
    )


async def _check_alone(conn: Connection) -> None:
    for _ in range(int(_GONE_SECONDS / _POLL_SECONDS)):
        if not await other_logins(conn):
            return
        await asyncio.sleep(_POLL_SECONDS)
        # The list of connections is kept until the end of the transaction, unless it is cleared.
        await conn.execute("select pg_stat_clear_snapshot()")
    if others := await other_logins(conn):
        raise _in_use(", ".join(sorted(others)))


async def clear(conn: Connection) -> None:
    """Remove all rows, and the approximate indexes of vectors, which the worker builds again."""
    if indexes := await vector_indexes(conn):
        await conn.execute(sql.SQL("drop index {}").format(_identifiers(indexes)))
    names = sorted((await tables(conn)).keys() - {"migrations"})
    await conn.execute(sql.SQL("truncate {}").format(_identifiers(names)))


async def fill(
    conn: Connection, reader: BackupReader, contents: BackupContents, on_progress: OnProgress
) -> None:
    """Fill empty tables with the rows of a file, and collect statistics."""
    known, done = await tables(conn), 0
    on_progress("restoring", 0, contents.total_rows)
    for table, text in reader.tables(contents):
        if table.name in EXCLUDED or known.get(table.name) != list(table.columns):
            raise BadInput("backup", f"its table {table.name} is not one of this schema version")
        async with _copying_in(conn, table) as copy:
            for piece in text:
                await copy.write(piece)
                on_progress("restoring", done := done + piece.count(b"\n"), contents.total_rows)
    await conn.execute(sql.SQL("analyze {}").format(_identifiers(sorted(known))))


@asynccontextmanager
async def _copying_in(conn: Connection, table: BackupTable) -> AsyncGenerator[psycopg.AsyncCopy]:
    """Give a COPY to a table, and check how many rows came.

    PostgreSQL allows no COPY to a table with forced row-level security. It is forced again in the same transaction, so
    nobody ever sees the table without it.
    """
    name = sql.Identifier("roomlore", table.name)
    await conn.execute(sql.SQL("alter table {} no force row level security").format(name))
    statement = sql.SQL("copy {} ({}) from stdin").format(name, _identifiers(table.columns))
    async with conn.cursor() as cursor:
        async with cursor.copy(statement) as copy:
            yield copy
        if cursor.rowcount != table.rows:
            raise BadInput("backup", f"the database took other rows of {table.name} than the file has")
    await conn.execute(sql.SQL("alter table {} force row level security").format(name))


# Keep what was erased


async def keep_erasures(conn: Connection, source: Connection, *, is_same: bool) -> None:
    """Copy the record of what was erased from a source to temporary tables.

    If the source is the database itself, its audit log and its indexes in other servers are kept too.
    """
    reads = {**kept_erasures.READS, **(kept_erasures.OWN_READS if is_same else {})}
    for name, query in reads.items():
        rows = _copied(source, kept_erasures.QUERIES.by_name[query])
        async with conn.cursor() as cursor, cursor.copy(_into(name)) as copy:
            async for block in rows:
                await copy.write(block)


async def keep_erasures_of(conn: Connection, reader: BackupReader, contents: BackupContents) -> None:
    """Copy the record of what was erased from a file to temporary tables."""
    for table, text in reader.tables(contents):
        if table.name not in kept_erasures.READS:
            raise BadInput("backup", f"its table {table.name} is not one of this schema version")
        async with conn.cursor() as cursor, cursor.copy(_into(table.name)) as copy:
            for piece in text:
                await copy.write(piece)


def _into(name: str) -> sql.Composed:
    return sql.SQL("copy pg_temp.{} from stdin").format(sql.Identifier(name))
