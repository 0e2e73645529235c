r"""Named queries: a function with a typed signature and the statement of its name in `sql/*.sql`.

    QUERIES = Queries("keys")

    @QUERIES.query
    async def revoke(conn: Connection, org_id: OrgId, key_id: KeyId, *, at: datetime) -> RowCount:
        '''Revoke a key that is still valid.'''
        ...

The statement begins with `-- name: revoke`. The argument types say what it takes:

| argument | in the statement |
|---|---|
| `key_id: KeyId` | `%(key_id)s` |
| `ids: Collection[KeyId]` | `%(ids)s`, an array |
| `key: Record`, `key: Record \| None` | the fields of the record: `%(name)s`, `%(role)s`; nulls for None |
| `keys: Collection[Record]` | one array for each field of the record |
| `pair: tuple[A, B]` | `%(pair_1)s` and `%(pair_2)s` |
| `pairs: Collection[tuple[A, B]]` | two arrays, `%(pairs_1)s` and `%(pairs_2)s` |
| `search_filter: Composite` | `%(search_filter)s`, one value of a composite type |
| `facts: Mapping[str, Any]` | `%(facts)s`, as jsonb |

The result type says how rows are read:

| result | what the statement returns |
|---|---|
| `None`, `RowCount` | no rows; `RowCount` is how many it changed |
| `Record`, `tuple[A, B]`, `int`, `UUID`, … | one row: a record by its column names, anything else by their order |
| `X | None` | one row or none |
| `list[X]`, `set[X]`, `frozenset[X]` | rows |
| `dict[K, V]` | rows by their first column, or by several if K is a tuple; V is a record or the last column |
| `BoundedPage[Record]` | rows until their texts reach `MAX_PAGE_BYTES`, then the database stops |
"""

import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cached_property, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    LiteralString,
    NewType,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pgvector import HalfVector
from psycopg import AsyncConnection, sql
from psycopg.rows import class_row, dict_row, tuple_row
from psycopg.types.json import Jsonb

from roomlore.domain import paging
from roomlore.domain.paging import BoundedPage
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import field_values

Connection = AsyncConnection[Any]
Record = TypeVar("Record")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
#: Collection types that the driver accepts as an array only after conversion to a list.
LISTED = (AbstractSet, ValuesView, tuple)


class Composite(Protocol):
    """A record that a statement takes as one value."""

    def composite(self) -> tuple[Any, ...]:
        """Return the fields of the value, in the order of its type in the database."""
        ...


#: Functions that build the result from rows, by the name of the result type.
COLLECTIONS: Mapping[str, Callable[[list[Any]], Any]] = {"list": list, "set": set, "frozenset": frozenset}
#: How many rows of a stream the database sends at once.
STREAMED_ROWS = 500
#: How many rows a statement changed.
RowCount = NewType("RowCount", int)

#: The folder of the `.sql` files.
FOLDER = Path(__file__).parent / "sql"
HEADER = lazy_pattern(r"^-- name: (\w+)$", re.MULTILINE)


#: Functions that build a record from a row, for records that are not filled column by column.
ROW_FACTORIES: dict[type[Any], Callable[..., Any]] = {}


class Queries:
    """The named queries of one file in `sql/`, which is read at the first use of one of them."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.declared = dict[str, DeclaredQuery]()

    @cached_property
    def by_name(self) -> Mapping[str, sql.SQL]:
        """The statements by their names."""
        _, *parts = HEADER.split((FOLDER / f"{self.module}.sql").read_text("utf-8"))
        # These files are part of the program, as literal as a string in the source.
        return {
            name: sql.SQL(cast(LiteralString, text.strip().rstrip(";")))
            for name, text in zip(parts[::2], parts[1::2], strict=True)
        }

    def query(
        self, function: Callable[Parameters, Awaitable[Result]]
    ) -> Callable[Parameters, Awaitable[Result]]:
        """Make a function run the statement of its name."""
        declared = DeclaredQuery(queries=self, function=function)
        self.declared[declared.name] = declared

        @wraps(function)
        async def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            return await declared.run(*args, **kwargs)

        return run

    async def run(self, conn: Connection, name: str, params: Mapping[str, Any]) -> int:
        """Execute a statement that returns no rows; return how many rows it changed."""
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(self.by_name[name], params, prepare=True)
            return cursor.rowcount

    async def stream(self, conn: Connection, name: str, params: Mapping[str, Any]) -> AsyncGenerator[str]:
        """Yield the rows of a statement that returns one text each, without holding all of them."""
        async with conn.cursor(name, row_factory=tuple_row) as cursor:
            cursor.itersize = STREAMED_ROWS
            await cursor.execute(self.by_name[name], params)
            async for (text,) in cursor:
                yield text

    async def copy(self, conn: Connection, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Send rows to a table. This is by far the fastest way to add rows."""
        async with conn.cursor() as cursor, cursor.copy(self.by_name[name]) as copy:
            for row in rows:
                await copy.write_row(row)


class DeclaredQuery:
    """The typed function of one statement."""

    def __init__(self, *, queries: Queries, function: Callable[..., Any]) -> None:
        self.queries, self.function, self.name = queries, function, function.__name__.lstrip("_")

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Execute the statement with the function's arguments; return its rows as the function's result type."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        conn, *values = bound.arguments.values()
        params = dict[str, Any]()
        for name, value in zip(self.parameters, values, strict=True):
            values_of = self._parameter(name, value)
            # An argument takes precedence over a field of a record with the same name.
            params = {**params, **values_of} if name in values_of else {**values_of, **params}
        return await self.fetch(conn, self.queries.by_name[self.name], params)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the declared function."""
        return inspect.signature(self.function)

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the arguments and of the result, as `return`."""
        return get_type_hints(self.function)

    @cached_property
    def parameters(self) -> Sequence[str]:
        """The arguments after the connection."""
        return list(self.signature.parameters)[1:]

    @cached_property
    def placeholders(self) -> set[str]:
        """The parameters of the statement."""
        names = set[str]()
        for name in self.parameters:
            item = self._item_of(name)
            if is_dataclass(item):
                names |= {field.name for field in fields(item)}
            else:
                names |= {f"{name}_{place}" for place in range(1, _width(item) + 1)} or {name}
        return names

    @cached_property
    def shape(self) -> tuple[str, Any]:
        """How many rows the result holds (none, count, one, optional, list, set, dict or page), and their type."""
        result = self.types["return"]
        origin, parts = get_origin(result), get_args(result)
        if result in {NoneType, RowCount}:
            return ("none" if result is NoneType else "count"), None
        if origin in {list, set, frozenset, dict, BoundedPage}:
            return ("page" if origin is BoundedPage else origin.__name__), parts[-1]
        if origin in {Union, UnionType} and NoneType in parts:
            [item] = (one for one in parts if one is not NoneType)
            return "optional", item
        return "one", result

    async def fetch(self, conn: Connection, text: sql.SQL, params: Mapping[str, Any]) -> Any:
        """Execute a statement; return its rows as the result type says."""
        kind, item = self.shape
        if kind == "page":
            return await _fetch_page(conn, text, item, params)
        factory = cast(Any, class_row(row_factory(item)) if is_dataclass(item) else tuple_row)
        async with conn.cursor(row_factory=factory) as cursor:
            # The statement is prepared at its first use: rewriting it under the policies takes longer than running it.
            await cursor.execute(text, params, prepare=True)
            if kind in {"none", "count"}:
                return cursor.rowcount if kind == "count" else None
            rows = await cursor.fetchall()
        if kind == "dict":
            return dict(map(self._entry, rows))
        items = rows if is_dataclass(item) or _width(item) else [value for (value,) in rows]
        if kind in COLLECTIONS:
            return COLLECTIONS[kind](items)
        assert items or kind == "optional", f"{self.name} returned no row"
        return items[0] if items else None

    def _entry(self, row: Any) -> tuple[Any, Any]:
        """Return a row of a dict result as its key and value."""
        key, item = get_args(self.types["return"])
        values = list(field_values(row).values()) if is_dataclass(item) else row
        width = _width(key)
        return tuple(values[:width]) if width else values[0], row if is_dataclass(item) else row[-1]

    def _parameter(self, name: str, value: Any) -> Mapping[str, Any]:
        item = self._item_of(name)
        is_one = item in {self.types[name], *get_args(self.types[name])} and not _is_collection(
            self.types[name]
        )
        if is_dataclass(item) and value is None:
            return dict.fromkeys(field.name for field in fields(item))
        if is_dataclass(item):
            values = field_values(value) if is_one else columns(cast(Any, item), value)
            return {field: _plain(part) for field, part in values.items()}
        if width := _width(item):
            rows = list(value)
            parts = rows if is_one else [[row[place] for row in rows] for place in range(width)]
            return {f"{name}_{place}": _plain(part) for place, part in enumerate(parts, 1)}
        if hasattr(value, "composite"):
            return {name: value.composite()}
        if isinstance(value, Mapping) and not any(
            get_origin(part) is Mapping for part in (item, *get_args(item))
        ):
            value = list(cast(Mapping[Any, Any], value))
        return {name: _plain(value)}

    def _item_of(self, name: str) -> Any:
        """Return the type of the records or tuples that an argument holds.

        If an argument is a list, this is the type of its items; otherwise it is the argument's own type.
        """
        kind = self.types[name]
        parts = [part for part in get_args(kind) if part is not NoneType]
        item = parts[0] if len(parts) == 1 else kind
        return None if hasattr(item, "composite") else item


def _is_collection(kind: Any) -> bool:
    origin = get_origin(kind)
    return origin not in {None, tuple, Union, UnionType}


def _width(kind: Any) -> int:
    """Return the number of items of a tuple type; 0 for other types and for tuples of any length."""
    parts = get_args(kind)
    return len(parts) if get_origin(kind) is tuple and Ellipsis not in parts else 0


def _plain(value: Any) -> Any:
    if hasattr(value, "__array__"):
        return HalfVector(value)
    if isinstance(value, Mapping):
        return Jsonb(dict(cast(Mapping[str, Any], value)))
    if isinstance(value, set | frozenset):
        return sorted(cast(Iterable[Any], value), key=str)
    return list(cast(Iterable[Any], value)) if isinstance(value, LISTED) else value


async def _fetch_page(
    conn: Connection, text: sql.SQL, record: Any, params: Mapping[str, Any]
) -> BoundedPage[Any]:
    """Return rows until they reach `MAX_PAGE_BYTES`; the row that reaches it is the last.

    The statement takes the limit as `most_bytes`; its column `reach` counts the bytes up to and including each row.
    """
    shape = row_factory(record)
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(text, {**params, "most_bytes": paging.MAX_PAGE_BYTES}, prepare=True)
        rows = await cursor.fetchall()
    reached = [row.pop("reach") for row in rows]
    return BoundedPage(
        items=[shape(**row) for row in rows],
        is_truncated=bool(reached) and reached[-1] >= paging.MAX_PAGE_BYTES,
    )


def row_factory(record: Any) -> Any:
    """Return a row factory that builds a record from the columns of a row."""
    return ROW_FACTORIES.get(record, record)


def columns(record: type[Any], rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Return records as one list of values per field, as batch statements take them."""
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(record)}
