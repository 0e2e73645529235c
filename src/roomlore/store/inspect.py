"""Looks at a server before anything is asked of it: for `doctor`."""

from dataclasses import dataclass

import psycopg
from psycopg import AsyncConnection

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.store.migrate import found_version
from roomlore.store.queries import Queries

QUERIES = Queries("inspect")


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
class Inspection:
    """What was found on a server."""

    server: ServerFacts
    #: 0 when the schema is not there.
    schema_version: int


async def inspect(dsn: str) -> Inspection:
    """Return what a server is and what the login may do there.

    Raises:
        DatabaseUnavailable: nobody answers, or the login is refused.
    """
    try:
        async with await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=10) as conn:
            facts = await QUERIES.first(conn, "server_facts", ServerFacts, {})
            assert facts is not None
            return Inspection(server=facts, schema_version=await found_version(conn))
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"cannot connect to the database: {str(error).strip()}", cure="start it, or correct its URL"
        ) from error
