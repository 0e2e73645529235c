"""Looks at a server before anything is asked of it: for `doctor`."""

from dataclasses import dataclass

from roomlore.store.connect import connect, translate_errors
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
