"""Every named query is prepared on the migrated schema and compared with the record it fills."""

import dataclasses
import importlib
import pkgutil
import re
from importlib import resources

import psycopg
import pytest
from psycopg import pq
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

import roomlore.db
import roomlore.domain.records
from roomlore.db import messages
from roomlore.db.cluster import Cluster
from roomlore.db.queries import DeclaredQuery, Queries, Query

VOID = 2278


def modules():
    names = [module.name for module in pkgutil.iter_modules(roomlore.db.__path__, "roomlore.db.")]
    return [module for module in map(importlib.import_module, names) if hasattr(module, "QUERIES")]


CASES = [
    pytest.param(module, query, id=f"{module.QUERIES.module}.{query.name}")
    for module in modules()
    for query in module.QUERIES.by_name.values()
]


def record_of(module, name: str) -> type:
    return getattr(module, name, None) or getattr(roomlore.domain.records, name)


def described(conn: psycopg.Connection, query: Query) -> list[tuple[str, int]]:
    """Return name and type of each column, without running the query."""
    statement = query.text.as_string(conn)
    converted = PostgresQuery(Transformer(conn))
    names = set(re.findall(r"%\((\w+)\)s", statement))
    converted.convert(statement, dict.fromkeys(names))
    prepared = conn.pgconn.prepare(b"", converted.query)
    assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message.decode()
    result = conn.pgconn.describe_prepared(b"")
    return [(result.fname(i).decode(), result.ftype(i)) for i in range(result.nfields)]


def check_declared(declared: DeclaredQuery, query: Query, columns: list[tuple[str, int]]) -> None:
    """Compare a statement's parameters and columns with those of its function."""
    text = query.text.as_string(None)
    kind, item = declared.shape
    extra = {"most_bytes"} if kind == "page" else set()
    assert set(re.findall(r"%\((\w+)\)s", text)) == declared.placeholders | extra
    names = [name for name, _ in columns]
    if kind in {"none", "count"}:
        assert all(of_type == VOID for _, of_type in columns)
    elif dataclasses.is_dataclass(item):
        extra = ["reach"] if kind == "page" else []
        assert sorted(names) == sorted([*(field.name for field in dataclasses.fields(item)), *extra])
    else:
        assert len(names) == (2 if kind == "dict" else 1)


@pytest.mark.parametrize(("module", "query"), CASES)
def test_a_query_prepares_and_fills_its_record(module, query: Query, cluster: Cluster):
    with psycopg.connect(cluster.app_dsn, options="-c search_path=roomlore,public") as conn:
        if query.name != "make_staging":
            conn.execute(messages.QUERIES.by_name["make_staging"].text)
        columns = described(conn, query)
    declared = module.QUERIES.declared.get(query.name)
    if declared is not None:
        check_declared(declared, query, columns)
    elif query.record is None:
        assert all(kind == VOID for _, kind in columns)
    else:
        fields = {field.name for field in dataclasses.fields(record_of(module, query.record))}
        # Where the database stops at a number of bytes, it says how many they are so far.
        fields |= {"reach"} if "most_bytes" in query.text.as_string(None) else set()
        assert {name for name, _ in columns} == fields
        assert len(columns) == len(fields)


def test_every_file_of_queries_has_its_module():
    used = {module.QUERIES.module for module in modules()}
    files = {
        file.name.removesuffix(".sql") for file in resources.files("roomlore.db").joinpath("sql").iterdir()
    }
    assert files == used


def test_a_query_with_a_misspelt_column_is_noticed(cluster: Cluster):
    broken = Query(name="broken", record="Room", text=psycopg.sql.SQL("select nmae from rooms"))
    with (
        psycopg.connect(cluster.app_dsn, options="-c search_path=roomlore,public") as conn,
        pytest.raises(AssertionError, match="nmae"),
    ):
        described(conn, broken)


def test_every_query_says_what_it_does():
    for module in modules():
        queries: Queries = module.QUERIES
        for query in queries.by_name.values():
            if query.name in queries.declared:
                continue
            first = query.text.as_string(None).strip().splitlines()[0]
            assert first.startswith("-- "), f"{queries.module}.{query.name} has no description"


def test_every_function_of_a_query_has_its_statement():
    for module in modules():
        assert set(module.QUERIES.declared) <= set(module.QUERIES.by_name), module.__name__
        for declared in module.QUERIES.declared.values():
            assert declared.function.__doc__, f"{module.__name__}.{declared.name} has no description"
