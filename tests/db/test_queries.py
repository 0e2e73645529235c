"""Every named query is prepared on the migrated schema and compared with the record it fills."""

import dataclasses
import importlib
import pkgutil
import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import resources
from typing import get_args, get_origin

import psycopg
import pytest
from psycopg import pq
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

import roomlore.db
from roomlore.db import kept_erasures, messages
from roomlore.db.cluster import Cluster
from roomlore.db.queries import Connection, DeclaredQuery, Queries

VOID = 2278
TEXT = 25


def modules():
    names = [module.name for module in pkgutil.iter_modules(roomlore.db.__path__, "roomlore.db.")]
    return [module for module in map(importlib.import_module, names) if hasattr(module, "QUERIES")]


CASES = [
    pytest.param(module, name, id=f"{module.QUERIES.module}.{name}")
    for module in modules()
    for name in module.QUERIES.by_name
]


def described(conn: psycopg.Connection, text: psycopg.sql.SQL) -> list[tuple[str, int]]:
    """Return name and type of each column, without running the query."""
    statement = text.as_string(conn)
    converted = PostgresQuery(Transformer(conn))
    names = set(re.findall(r"%\((\w+)\)s", statement))
    converted.convert(statement, dict.fromkeys(names))
    prepared = conn.pgconn.prepare(b"", converted.query)
    assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message.decode()
    result = conn.pgconn.describe_prepared(b"")
    return [(result.fname(i).decode(), result.ftype(i)) for i in range(result.nfields)]


def is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def check_declared(
    declared: DeclaredQuery, statement: psycopg.sql.SQL, columns: list[tuple[str, int]]
) -> None:
    """Compare a statement's parameters and columns with those of its function."""
    text = statement.as_string(None)
    kind, item = declared.shape
    extra = {"most_bytes"} if kind == "page" else set()
    used = set(re.findall(r"%\((\w+)\)s", text))
    assert used <= declared.placeholders | extra
    # A statement may leave out fields of a record and the org, which policies know, but no other argument.
    assert not (declared.placeholders - used) & set(declared.parameters) - {"org_id"}
    names = [name for name, _ in columns]
    if kind in {"none", "count"}:
        assert all(of_type == VOID for _, of_type in columns)
    elif typing.get_origin(item) is tuple:
        assert len(names) == len(typing.get_args(item))
    elif dataclasses.is_dataclass(item):
        fields = {field.name: field for field in dataclasses.fields(item)}
        needed = {name for name, field in fields.items() if is_required(field)}
        extra = {"reach"} if kind == "page" else set()
        assert len(names) == len(set(names))
        assert needed | extra <= set(names) <= fields.keys() | extra
    else:
        parts = [get_args(declared.types["return"])[0], item] if kind == "dict" else [item]
        assert len(names) == sum(len(get_args(part)) if get_origin(part) is tuple else 1 for part in parts)


@pytest.fixture(scope="module")
def conn(cluster: Cluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(cluster.app_dsn, options="-c search_path=roomlore,public") as conn:
        conn.execute(messages.QUERIES.by_name["make_staging"])
        for name in kept_erasures.MAKES:
            conn.execute(kept_erasures.QUERIES.by_name[name])
        yield conn


@pytest.mark.parametrize(("module", "name"), CASES)
def test_a_query_prepares_and_fills_its_record(module, name: str, conn: psycopg.Connection):
    query = module.QUERIES.by_name[name]
    with conn.transaction(force_rollback=True):
        columns = described(conn, query)
    declared = module.QUERIES.declared.get(name)
    if declared is None:
        # A statement without a function either returns nothing, or is streamed as texts.
        assert all(kind == VOID for _, kind in columns) or [kind for _, kind in columns] == [TEXT]
    else:
        check_declared(declared, query, columns)


def test_every_file_of_queries_has_its_module():
    used = {module.QUERIES.module for module in modules()}
    files = {
        file.name.removesuffix(".sql") for file in resources.files("roomlore.db").joinpath("sql").iterdir()
    }
    assert files == used


def test_a_query_with_a_misspelt_column_is_noticed(conn: psycopg.Connection):
    broken = psycopg.sql.SQL("select nmae from rooms")
    with conn.transaction(force_rollback=True), pytest.raises(AssertionError, match="nmae"):
        described(conn, broken)


def test_every_query_says_what_it_does():
    for module in modules():
        queries: Queries = module.QUERIES
        for name, text in queries.by_name.items():
            if name in queries.declared:
                continue
            first = text.as_string(None).strip().splitlines()[0]
            assert first.startswith("-- "), f"{queries.module}.{name} has no description"


def test_every_function_of_a_query_has_its_statement():
    for module in modules():
        assert set(module.QUERIES.declared) <= set(module.QUERIES.by_name), module.__name__
        for declared in module.QUERIES.declared.values():
            is_described = declared.function.__doc__ or declared.function.__name__.startswith("_")
            assert is_described, f"{module.__name__}.{declared.name} has no description"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    text: str
    size: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    low: int
    high: int

    def composite(self) -> tuple[int, int]:
        return self.low, self.high


async def test_arguments_and_rows_follow_the_signature(admin):
    queries = Queries("none")
    texts = {
        "words": "select %(text)s::text as text, %(number_1)s::integer + length(%(number_2)s::text) as size"
        " union all select * from unnest(%(words_1)s::text[], %(words_2)s::integer[])",
        "facts": "select %(facts)s ->> 'a', %(scope)s::text, %(ids)s::integer[]",
        "by_text": "select unnest(%(text)s::text[]) as text, unnest(%(size)s::integer[]) as size",
    }
    queries.by_name = {name: psycopg.sql.SQL(text) for name, text in texts.items()}

    @queries.query
    async def words(
        conn: Connection, word: Word, number: tuple[int, str], words: Collection[tuple[str, int]]
    ) -> list[Word]:
        """Return words."""

    @queries.query
    async def facts(
        conn: Connection, facts: Mapping[str, str], scope: Range, ids: Collection[int]
    ) -> tuple[str, str, list[int]] | None:
        """Return facts."""

    @queries.query
    async def by_text(conn: Connection, words: Sequence[Word]) -> dict[str, Word]:
        """Return words by their texts."""

    a, b = Word(text="a", size=4), Word(text="b", size=2)
    assert await words(admin, a, (1, "xyz"), {"b": 2}.items()) == [a, b]
    assert await by_text(admin, (a, b)) == {"a": a, "b": b}
    assert await facts(admin, {"a": "b"}, Range(low=1, high=2), {3, 1}) == (
        "b",
        "(1,2)",
        [1, 3],
    )
