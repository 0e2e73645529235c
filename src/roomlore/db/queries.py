"""Named queries: SQL lives in `sql/*.sql`, one file per module, and is loaded by name.

A query begins with `-- name: recent_messages -> Message`, where the record is left out when no rows come
back, and a line that says what it does. Parameters are named: `%(room_id)s`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString, TypeVar, cast

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row, dict_row, tuple_row

from roomlore.domain import paging
from roomlore.domain.paging import BoundedPage
from roomlore.domain.patterns import lazy_pattern

Connection = AsyncConnection[Any]
Record = TypeVar("Record")

#: Where the files are.
FOLDER = Path(__file__).parent / "sql"
HEADER = lazy_pattern(r"^-- name: (?P<name>\w+)(?: -> (?P<record>\w+))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One named statement and the record that its rows fill; None where no rows come back."""

    name: str
    record: str | None
    text: sql.SQL


#: How the rows of a record become one, where that is not column by column.
ROW_FACTORIES: dict[type[Any], Callable[..., Any]] = {}


class Queries:
    """The named queries of one file in `sql/`, which is read when the first of them is asked."""

    def __init__(self, module: str) -> None:
        self.module = module

    @cached_property
    def by_name(self) -> Mapping[str, Query]:
        """The queries by their names."""
        text = (FOLDER / f"{self.module}.sql").read_text("utf-8")
        return {query.name: query for query in _split(text)}

    # Each is prepared when a connection first executes it: rewriting it under the policies takes longer than it does.
    async def all(
        self, conn: Connection, name: str, record: type[Record], params: Mapping[str, Any]
    ) -> list[Record]:
        """Return every row as a record."""
        query, shape = self._row_type(name, record)
        async with conn.cursor(row_factory=class_row(shape)) as cursor:
            await cursor.execute(query.text, params, prepare=True)
            return await cursor.fetchall()

    async def page(
        self, conn: Connection, name: str, record: type[Record], params: Mapping[str, Any]
    ) -> BoundedPage[Record]:
        """Return rows as records up to the one that brings them to `MOST_BYTES`, where the database stops.

        The query takes that number as `most_bytes`; its column `reach` counts the bytes up to each row and with it.
        """
        query, shape = self._row_type(name, record)
        async with conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query.text, {**params, "most_bytes": paging.MAX_PAGE_BYTES}, prepare=True)
            rows = await cursor.fetchall()
        reached = [row.pop("reach") for row in rows]
        return BoundedPage(
            items=[shape(**row) for row in rows],
            is_cut=bool(reached) and reached[-1] >= paging.MAX_PAGE_BYTES,
        )

    async def first(
        self, conn: Connection, name: str, record: type[Record], params: Mapping[str, Any]
    ) -> Record | None:
        """Return the first row as a record, or None."""
        rows = await self.all(conn, name, record, params)
        return rows[0] if rows else None

    def _row_type(self, name: str, record: type[Record]) -> tuple[Query, type[Record]]:
        query = self.by_name[name]
        assert query.record == record.__name__, f"{name} fills {query.record}, not {record.__name__}"
        return query, cast("type[Record]", ROW_FACTORIES.get(record, record))

    async def run(self, conn: Connection, name: str, params: Mapping[str, Any]) -> int:
        """Execute a statement that returns no rows; return how many rows it changed."""
        query = self.by_name[name]
        assert query.record is None, f"{name} returns rows"
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(query.text, params, prepare=True)
            return cursor.rowcount

    async def copy(self, conn: Connection, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Send rows to a table, by far the fastest way in."""
        async with conn.cursor() as cursor, cursor.copy(self.by_name[name].text) as copy:
            for row in rows:
                await copy.write_row(row)


def columns(record: type[Any], rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the rows of a dataclass turned into one list per field, as batch statements take them."""
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(record)}


def _split(text: str) -> list[Query]:
    heads = list(HEADER.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        Query(
            name=head["name"],
            record=head["record"],
            # These files are part of the program, as literal as a string in the source.
            text=sql.SQL(cast(LiteralString, text[head.end() : end].strip().rstrip(";"))),
        )
        for head, end in zip(heads, ends, strict=True)
    ]
