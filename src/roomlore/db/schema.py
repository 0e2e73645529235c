"""Migrates a database to the schema of this code.

An empty database gets `schema.sql`. Any other database gets the numbered files of `migrations/` that it lacks. All of
this runs in one transaction under an advisory lock. The login needs the right to create roles. The tables belong to
`roomlore_owner`, which cannot log in. Roomlore runs as `roomlore_app`, which owns nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from roomlore.db.connections import connect, first_line, translate_errors
from roomlore.db.queries import Queries
from roomlore.domain.errors import DatabaseUnavailable, SchemaMismatch
from roomlore.domain.patterns import lazy_pattern

MIGRATION_LOCK = 7_266_356_119
#: The oldest server that is tested. Older servers refuse steps of the schema.
OLDEST_POSTGRES = 160_000
HERE = Path(__file__).parent
#: The version of `schema.sql`. Older databases are from before the first release.
BASE = 39
MIGRATION_FILE = lazy_pattern(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The whole schema, or one numbered file."""

    version: int
    name: str
    text: sql.SQL


def schema() -> Migration:
    """Return the migration of an empty database."""
    text = (HERE / "schema.sql").read_text("utf-8")
    return Migration(version=wanted_version(), name="schema", text=_literal(text))


def migrations() -> list[Migration]:
    """Return every migration since `BASE`, oldest first."""
    return [
        Migration(version=int(match[1]), name=match[2], text=_literal(file.read_text("utf-8")))
        for match, file in _files()
    ]


def wanted_version() -> int:
    """Return the schema version of this code."""
    return max([BASE, *(int(match[1]) for match, _ in _files())])


def _files() -> list[tuple[re.Match[str], Path]]:
    found = [
        (match, file)
        for file in (HERE / "migrations").iterdir()
        if (match := MIGRATION_FILE.fullmatch(file.name))
    ]
    return sorted(found, key=lambda pair: pair[1].name)


async def found_version(conn: AsyncConnection[TupleRow]) -> int:
    """Return the schema version of the database; 0 if it has no schema."""
    present = await (await conn.execute("select to_regclass('roomlore.migrations')")).fetchone()
    if present is None or present[0] is None:
        return 0
    row = await (await conn.execute("select coalesce(max(version), 0) from roomlore.migrations")).fetchone()
    return int(row[0]) if row else 0


def check_server(conn: AsyncConnection[TupleRow]) -> None:
    """Raise DatabaseUnavailable if the server is too old."""
    found = conn.info.server_version
    if found < OLDEST_POSTGRES:
        raise DatabaseUnavailable(
            f"the server is PostgreSQL {found // 10_000}, which is too old",
            cure=f"use PostgreSQL {OLDEST_POSTGRES // 10_000} or newer with pgvector 0.8 or newer",
        )


async def check_version(conn: AsyncConnection[TupleRow]) -> None:
    """Raise SchemaMismatch if the schema is older or newer than this code."""
    found, wanted = await found_version(conn), wanted_version()
    if found != wanted:
        raise SchemaMismatch(found=found, wanted=wanted, oldest=BASE)


async def migrate(dsn: str) -> list[Migration]:
    """Apply the missing migrations and return them. Several processes may call this at the same time.

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
        # `schema.sql` does this itself when it has created the roles.
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
    # The files are part of the program, so they are as trusted as a literal string in the source.
    return sql.SQL(cast(LiteralString, text))


QUERIES = Queries("schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Versions and rights of a login, as far as they concern Roomlore."""

    version: str
    version_number: int
    #: The version of the installed extension; None if it is not installed.
    pgvector: str | None
    #: The version that can be installed; None if the server has none.
    pgvector_available: str | None
    login: str
    #: Whether the login bypasses row-level security.
    is_above_policies: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInspection:
    """A server and the version of its schema."""

    server: ServerFacts
    #: 0 if there is no schema.
    schema_version: int


async def inspect_server(dsn: str) -> ServerInspection:
    """Return the versions of a server and the rights of the login.

    Raises:
        BadInput: the URL is not one.
        DatabaseUnavailable: the server does not answer or refuses the login.
    """
    async with await connect(dsn) as conn:
        with translate_errors():
            return ServerInspection(server=await server_facts(conn), schema_version=await found_version(conn))


@QUERIES.query
async def server_facts(conn: AsyncConnection[Any]) -> ServerFacts:
    """Return the versions of a server and the rights of the login."""
    ...
