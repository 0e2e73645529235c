"""Reads a Neo4j graph of another system, page by page. It only reads. The `neo4j` extra must be installed."""

from collections.abc import AsyncIterator
from typing import Any

from roomlore.domain.errors import BackendUnavailable
from roomlore.legacy.agent_graph import Section
from roomlore.projections.neo4j_connection import Neo4jConnection, load_queries

#: Nodes or relationships per page.
PAGE = 500
#: The timeout of one page.
PAGE_SECONDS = 120.0


class GraphReader:
    """A connection to the graph."""

    def __init__(self, url: str, *, user: str, password: str, database: str | None) -> None:
        self._wire = Neo4jConnection(
            url,
            user=user,
            password=password,
            database=database,
            seconds=PAGE_SECONDS,
            queries=load_queries("roomlore.legacy", "cypher/agent_graph.cypher"),
        )

    async def pages(self, section: Section) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the rows of a section, in pages.

        Raises:
            BackendUnavailable: the server does not answer, or refuses.
        """
        after = -1
        while True:
            try:
                rows = await self._wire.read(section, {"after": after, "limit": PAGE})
            except BackendUnavailable as error:
                cure = "check the address, the user and the password that you gave"
                raise BackendUnavailable(error.why, cure=cure) from None
            if not rows:
                return
            yield rows
            after = rows[-1]["place"]

    async def close(self) -> None:
        """Close the connection."""
        await self._wire.close()
