"""Brings a database to the schema this code was written for.

An empty database gets `schema.sql`. Any other gets the numbered files of `migrations/` that it lacks, forward
only. Either happens in one transaction under an advisory lock, by a login that may create roles. The tables then
belong to `roomlore_owner`, as which nobody logs in, and Roomlore runs as `roomlore_app`, which owns nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString, cast

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from roomlore.db.connections import connect, first_line, translate_errors
from roomlore.db.queries import Queries
from roomlore.domain.errors import DatabaseUnavailable, SchemaMismatch
from roomlore.domain.patterns import lazy_pattern

#: Any constant will do, as long as every Roomlore takes the same.
MIGRATION_LOCK = 7_266_356_119
#: The oldest server that is tested; older ones refuse steps of the schema.
OLDEST_POSTGRES = 160_000
#: Where the schema and its migrations are.
HERE = Path(__file__).parent
#: The version of the schema that migrations count on from. Older databases are from before the first release.
BASE = 36
MIGRATION_FILE = lazy_pattern(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: the whole of it, or one numbered file."""

    version: int
    name: str
    text: sql.SQL


def schema() -> Migration:
    """Return the step from an empty database to the schema of this code."""
    text = (HERE / "schema.sql").read_text("utf-8")
    return Migration(version=wanted_version(), name="schema", text=_literal(text))


def migrations() -> list[Migration]:
    """Return every migration since `BASE`, oldest first."""
    return [
        Migration(version=int(match[1]), name=match[2], text=_literal(file.read_text("utf-8")))
        for match, file in _files()
    ]


def wanted_version() -> int:
    """Return the schema version this code was written for."""
    return max([BASE, *(int(match[1]) for match, _ in _files())])


def _files() -> list[tuple[re.Match[str], Path]]:
    found = [
        (match, file)
        for file in (HERE / "migrations").iterdir()
        if (match := MIGRATION_FILE.fullmatch(file.name))
    ]
    return sorted(found, key=lambda pair: pair[1].name)


async def found_version(conn: AsyncConnection[TupleRow]) -> int:
    """Return the schema version of the database; 0 where there is none."""
    present = await (await conn.execute("select to_regclass('roomlore.migrations')")).fetchone()
    if present is None or present[0] is None:
        return 0
    row = await (await conn.execute("select coalesce(max(version), 0) from roomlore.migrations")).fetchone()
    return int(row[0]) if row else 0


def check_server(conn: AsyncConnection[TupleRow]) -> None:
    """Refuse a server that is too old.

    Raises:
        DatabaseUnavailable: with what to do about it.
    """
    found = conn.info.server_version
    if found < OLDEST_POSTGRES:
        raise DatabaseUnavailable(
            f"the server is PostgreSQL {found // 10_000}, which is too old",
            cure=f"use PostgreSQL {OLDEST_POSTGRES // 10_000} or newer with pgvector 0.8 or newer",
        )


async def check_version(conn: AsyncConnection[TupleRow]) -> None:
    """Refuse a database whose schema is older or newer than this code.

    Raises:
        SchemaMismatch: with what to do about it.
    """
    found, wanted = await found_version(conn), wanted_version()
    if found != wanted:
        raise SchemaMismatch(found=found, wanted=wanted, oldest=BASE)


async def migrate(dsn: str) -> list[Migration]:
    """Apply what is missing and return it; several processes may call this at once.

    Raises:
        BadInput: the URL is not one.
        DatabaseUnavailable: the server is too old, the login may not create roles or the extension, or pgvector is
            not installed.
        SchemaMismatch: the database is newer than this code, or from before the first release.
    """
    async with await connect(dsn) as conn:
        check_server(conn)
        try:
            async with conn.transaction():
                await conn.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
                return await _apply_missing(conn)
        except psycopg.errors.InsufficientPrivilege as error:
            raise DatabaseUnavailable(
                f"cannot prepare the database: {first_line(error)}", cure=_remedy(error)
            ) from error
        except (
            psycopg.errors.FeatureNotSupported,
            psycopg.errors.UndefinedFile,
            psycopg.errors.UndefinedObject,
            psycopg.errors.InvalidParameterValue,
        ) as error:
            raise DatabaseUnavailable(
                f"cannot prepare the database: {first_line(error)}",
                cure=_missing(error),
            ) from error


def _remedy(error: psycopg.Error) -> str:
    if "extension" in str(error):
        return "let an administrator run `create extension vector` in it, then run `roomlore migrate` again"
    return "run `roomlore migrate` once with a login that owns the database and may create roles"


def _missing(error: psycopg.Error) -> str:
    if "vector" in str(error):
        return "install pgvector 0.8 or newer on the server"
    return "run `roomlore doctor`, which says what the server lacks"


async def _apply_missing(conn: AsyncConnection[TupleRow]) -> list[Migration]:
    found, wanted = await found_version(conn), wanted_version()
    if found > wanted or 0 < found < BASE:
        raise SchemaMismatch(found=found, wanted=wanted, oldest=BASE)
    if found == wanted:
        return []
    steps = [migration for migration in migrations() if migration.version > found] if found else [schema()]
    if found:
        # `schema.sql` does this by itself, once it has made the roles.
        await conn.execute("set local role roomlore_owner")
        await conn.execute("set local search_path = roomlore, public")
    for step in steps:
        await conn.execute(step.text)
        await conn.execute(
            "insert into migrations (version, name) values (%s, %s)", [step.version, step.name]
        )
    await conn.execute("reset role")
    return steps


def _literal(text: str) -> sql.SQL:
    # The files are part of the program, as literal as a string in the source.
    return sql.SQL(cast(LiteralString, text))


QUERIES = Queries("schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Versions and rights, as they concern Roomlore."""

    version: str
    version_number: int
    #: Version of the installed extension; None when it is not.
    pgvector: str | None
    #: Version that could be installed; None when the server has none.
    pgvector_available: str | None
    login: str
    #: Whether the login is one that row-level security does not bind.
    is_above_policies: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInspection:
    """What was found on a server."""

    server: ServerFacts
    #: 0 when the schema is not there.
    schema_version: int


async def inspect_server(dsn: str) -> ServerInspection:
    """Return what a server is and what the login may do there.

    Raises:
        BadInput: the URL is not one.
        DatabaseUnavailable: nobody answers, or the login is refused.
    """
    async with await connect(dsn) as conn:
        with translate_errors():
            facts = await QUERIES.first(conn, "server_facts", ServerFacts, {})
            assert facts is not None
            return ServerInspection(server=facts, schema_version=await found_version(conn))
