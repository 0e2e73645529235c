"""Reads and extends the database of another program.

The statements are in the `.sql` files of this folder. The reads of one migration see one snapshot of the database, so
its owner may go on writing.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import AsyncConnection, IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from roomlore.db.connections import CONNECT_TIMEOUT, first_line
from roomlore.db.queries import HEADER
from roomlore.domain.errors import BadInput, DatabaseUnavailable

#: Our session settings. The owner's timeouts would end a long migration.
_SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO,MDY -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
    " -c standard_conforming_strings=on"
)
Row = Mapping[str, Any]


@cache
def statements(module: str) -> Mapping[str, LiteralString]:
    """Return the statements of a file by name."""
    _, *parts = HEADER.split((Path(__file__).parent / f"{module}.sql").read_text("utf-8"))
    # These files are part of the program, as literal as a string in the source.
    return {
        name: cast(LiteralString, text.strip().rstrip(";"))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that a migration reads as text."""

    name: str
    is_required: bool = False
    #: A time is read in the form of ISO 8601.
    is_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that a migration reads."""

    name: str
    columns: Sequence[Column]
    #: Whether the database may lack the table.
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An open database of another program."""

    conn: AsyncConnection[dict[str, Any]]
    module: str
    #: The columns of each table, which statements name in braces by the name of the table.
    parts: Mapping[str, sql.Composable] = field(default_factory=dict[str, sql.Composable])

    @property
    def name(self) -> str:
        """The name of the database."""
        return self.conn.info.dbname

    def _composed(self, name: str) -> sql.Composed:
        return sql.SQL(statements(self.module)[name]).format(**self.parts)

    async def stream(
        self, name: str, params: Mapping[str, Any] | None = None, *, size: int
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the rows of a statement in lists of `size`, through a cursor on the server."""
        async with self.conn.cursor(name=f"roomlore_{name}") as cursor:
            await cursor.execute(self._composed(name), params)
            while rows := await cursor.fetchmany(size):
                yield rows

    async def fetch(self, name: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        cursor = await self.conn.execute(self._composed(name), params)
        return await cursor.fetchall()

    async def execute(self, name: str, params: Mapping[str, Any] | None = None) -> int:
        """Execute a statement, commit it, and return how many rows it changed."""
        async with self.conn.transaction():
            cursor = await self.conn.execute(self._composed(name), params)
        return cursor.rowcount


@asynccontextmanager
async def open_source(
    dsn: str, module: str, *, tables: Sequence[Table], writes: bool = False
) -> AsyncGenerator[Source]:
    """Open a database with these tables. Without `writes`, all reads see one snapshot.

    Raises:
        BadInput: the address is not valid, or a table or a required column is missing.
        DatabaseUnavailable: the database cannot be reached, or the connection to it is lost.
    """
    with _translated():
        async with await _connect(dsn) as conn:
            if not writes:
                await conn.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            await conn.set_read_only(not writes)
            await conn.set_autocommit(writes)
            parts: dict[str, sql.Composable] = {}
            for table in tables:
                present = await present_columns(conn, table.name)
                if present or not table.is_optional:
                    _check_columns(table, present)
                    selected = [_selected(table.name, column, present) for column in table.columns]
                    parts[table.name] = sql.SQL(", ").join(selected)
            yield Source(conn=conn, module=module, parts=parts)


async def present_columns(conn: AsyncConnection[dict[str, Any]], table: str) -> set[str]:
    """Return the names of the columns of a table; nothing if there is no table."""
    cursor = await conn.execute(statements("source")["columns"], {"table": table})
    return {row["attname"] for row in await cursor.fetchall()}


async def _connect(dsn: str) -> AsyncConnection[dict[str, Any]]:
    try:
        given = str(conninfo_to_dict(dsn).get("options") or "")
    except psycopg.ProgrammingError:
        # The driver's message quotes the address, password included.
        raise BadInput("the address of the source", "is not valid") from None
    return await AsyncConnection[dict[str, Any]].connect(
        dsn, options=f"{given} {_SETTINGS}".strip(), connect_timeout=CONNECT_TIMEOUT, row_factory=dict_row
    )


def _check_columns(table: Table, present: set[str]) -> None:
    if not present:
        raise BadInput(f"table {table.name}", "is not in the source database")
    missing = [column.name for column in table.columns if column.is_required and column.name not in present]
    if missing:
        raise BadInput(f"table {table.name}", f"has no column {', '.join(missing)}")


def _selected(table: str, column: Column, present: set[str]) -> sql.Composable:
    """Return the expression that reads a column as text; null if the table does not have the column."""
    name = sql.Identifier(column.name)
    if column.name not in present:
        return sql.SQL("null::text as {}").format(name)
    place = sql.Identifier(table, column.name)
    if column.is_time:
        return sql.SQL("to_json({}) #>> '{{}}' as {}").format(place, name)
    return sql.SQL("nullif({}::text, '') as {}").format(place, name)


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise BadInput("the login of the source database", first_line(error)) from error
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"the source database: {first_line(error)}",
            cure="what was migrated stays; correct this and run it again",
        ) from error
