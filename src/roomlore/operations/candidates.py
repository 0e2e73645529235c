"""Search candidates from an index in Qdrant. PostgreSQL decides which candidates match and are visible."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from roomlore.db import projections
from roomlore.db import search as database
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BackendUnavailable, BadInput, IndexUnavailable
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.projections import QueryFilter, VisibilityFilter
from roomlore.domain.records import (
    Viewer,
    convert,
)
from roomlore.operations.access import Access
from roomlore.projections.neo4j import Neo4jProjection, open_neo4j
from roomlore.projections.qdrant import QdrantProjection, open_qdrant
from roomlore.search.message_search import DENSE_CANDIDATES, LEXICAL_CANDIDATES, MOST_PROPOSED, SearchQuery
from roomlore.search.records import SearchDegradation
from roomlore.settings import Settings

#: If an index takes longer than this, PostgreSQL alone answers faster.
TIMEOUT_SECONDS = 2.0
#: With `as_of`, more candidates are requested: an index does not know the order of a room, so some candidates are too
#: late.
OVERFETCH = 2
#: The time for which a server is not asked after a failure.
BREAKER_SECONDS = 30.0
#: If the index lacks more changes than this, it is not used, because PostgreSQL searches each of these changes itself.
MAX_UNINDEXED = 1_000
QDRANT: projections.Target = "qdrant"
NEO4J: projections.Target = "neo4j"
UNAVAILABLE: SearchDegradation = "qdrant is unavailable"


@dataclass(slots=True)
class CircuitBreaker:
    """Stops requests to a server that failed. If only the index of one org failed, it stops requests to that index."""

    clock: Callable[[], float] = time.monotonic
    #: The time until which an org's index is not asked. The key None is the whole server.
    _open_until: dict[OrgId | None, float] = field(default_factory=dict[OrgId | None, float])

    def allow(self, org_id: OrgId) -> bool:
        """Return whether to ask an org's index.

        After a pause, one request is allowed. All other requests wait for the result of that request.
        """
        now = self.clock()
        pauses = [key for key in (None, org_id) if key in self._open_until]
        if any(now < self._open_until[key] for key in pauses):
            return False
        for key in pauses:
            self._open_until[key] = now + BREAKER_SECONDS
        return True

    def record_failure(self, org_id: OrgId, error: BackendUnavailable | BadInput | TimeoutError) -> None:
        """Pause an org's index if the index is missing or slow. After any other error, pause the whole server."""
        key = org_id if isinstance(error, IndexUnavailable | TimeoutError) else None
        self._open_until[key] = self.clock() + BREAKER_SECONDS

    def record_success(self, org_id: OrgId) -> None:
        """End the pauses of the server and of this org's index."""
        for key in (None, org_id):
            self._open_until.pop(key, None)


@dataclass(slots=True)
class ProjectionClients:
    """The connections to Qdrant and Neo4j, shared by all callers of an App."""

    #: For searches. The worker handles outages itself.
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    graph_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    _qdrant: QdrantProjection | None = None
    _neo4j: Neo4jProjection | None = None

    def qdrant(self, settings: Settings) -> QdrantProjection | None:
        """Return the configured Qdrant server; None if no Qdrant server is configured."""
        if self._qdrant is None and settings.qdrant is not None:
            self._qdrant = open_qdrant(settings.qdrant.url, key=settings.qdrant.key)
        return self._qdrant

    def neo4j(self, settings: Settings) -> Neo4jProjection | None:
        """Return the configured Neo4j server; None if no Neo4j server is configured."""
        if self._neo4j is None and (named := settings.neo4j) is not None:
            self._neo4j = open_neo4j(
                named.url,
                user=named.user,
                password=named.password,
                database=named.database,
                seconds=TIMEOUT_SECONDS,
            )
        return self._neo4j

    async def close(self) -> None:
        """Close the connections."""
        for server in (self._qdrant, self._neo4j):
            if server is not None:
                await server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableIndex:
    """The current index, and the changed messages that it may lack."""

    projection: projections.Projection
    unindexed_ids: Sequence[MessageId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexQuery:
    """A question to an index, for one viewer."""

    visibility_filter: VisibilityFilter
    #: The stems of the question.
    lexemes: Sequence[str]
    #: Messages that the index may lack and that contain some of the stems.
    unindexed_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSource:
    """Candidates from the index of one org."""

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    async def readable_index(self) -> tuple[ReadableIndex | None, Sequence[SearchDegradation]]:
        """Return the current index, and what is unavailable. The index is None if there is no index, or if it lags."""
        if self.settings.qdrant is None:
            return None, ()
        org_id = self.access.org_id
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            projection = await projections.current_projection(conn, org_id, QDRANT)
            if projection is None:
                return None, ()
            # An index that lags would leave results out, and nobody would notice.
            if not await projections.is_behind(conn, org_id, QDRANT):
                pending = await database.pending_in_projection(conn, org_id, QDRANT, limit=MAX_UNINDEXED + 1)
                if len(pending) <= MAX_UNINDEXED:
                    return ReadableIndex(projection=projection, unindexed_ids=pending), ()
        # A failing server may lack changes, so it is not asked. The result still says that the server is unavailable.
        return None, (() if projection.failing_since is None else (UNAVAILABLE,))

    async def build_query(self, conn: Connection, question: SearchQuery, index: ReadableIndex) -> IndexQuery:
        """Return the query that an index gets for a question of the connection's viewer."""
        lexemes, unindexed = await database.matching_lexemes(
            conn, question.text, among=index.unindexed_ids, wanted=LEXICAL_CANDIDATES
        )
        visibility_filter = await projections.visibility_filter(conn)
        return IndexQuery(visibility_filter=visibility_filter, lexemes=lexemes, unindexed_ids=unindexed)

    async def add_candidates(
        self,
        question: SearchQuery,
        index: ReadableIndex,
        *,
        query: IndexQuery,
        search_filters: Sequence[SearchFilter],
        limit: int,
    ) -> tuple[SearchQuery, Sequence[SearchDegradation]]:
        """Return the question with candidates of an index added for each filter, and what was unavailable.

        If the index holds vectors of another model, no dense candidates are added. If the index fails or cannot apply
        a filter, no candidates are added.
        """
        try:
            server = self.projection_clients.qdrant(self.settings)
        except BadInput:
            return question, (UNAVAILABLE,)
        if server is None or any(search_filter.answered is not None for search_filter in search_filters):
            return question, ()
        breaker, org_id = self.projection_clients.breaker, self.access.org_id
        if not breaker.allow(org_id):
            return question, (UNAVAILABLE,)
        copy, vector = index.projection.index_name, question.vector
        assert copy is not None
        if vector is not None and vector[0] != index.projection.model:
            vector = None
        dense: list[tuple[SearchFilter, list[MessageId]]] = []
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                if vector is not None:
                    dense = [
                        (
                            search_filter,
                            await _dense(
                                server, vector[1], query, search_filter, index_name=copy, limit=limit
                            ),
                        )
                        for search_filter in search_filters
                    ]
                lexical = [
                    (
                        search_filter,
                        await _lexical(server, query, search_filter, index_name=copy, limit=limit),
                    )
                    for search_filter in search_filters
                ]
        except (BackendUnavailable, TimeoutError) as error:
            breaker.record_failure(org_id, error)
            return question, (UNAVAILABLE,)
        breaker.record_success(org_id)
        return replace(question, dense=dense, lexical=lexical), ()


async def _dense(
    server: QdrantProjection,
    vector: NDArray[np.float32],
    query: IndexQuery,
    search_filter: SearchFilter,
    *,
    index_name: str,
    limit: int,
) -> list[MessageId]:
    found = await server.search_dense(
        index_name,
        vector,
        sight=query.visibility_filter,
        query_filter=convert(QueryFilter, search_filter),
        wanted=_candidate_limit(search_filter, least=DENSE_CANDIDATES, limit=limit),
    )
    return [candidate.message_id for candidate in found]


async def _lexical(
    server: QdrantProjection, query: IndexQuery, search_filter: SearchFilter, *, index_name: str, limit: int
) -> list[MessageId]:
    """Return the lexical candidates of a query.

    Messages that match the query but may be missing from the index come first.
    """
    found = await server.search_lexical(
        index_name,
        query.lexemes,
        sight=query.visibility_filter,
        query_filter=convert(QueryFilter, search_filter),
        wanted=_candidate_limit(search_filter, least=LEXICAL_CANDIDATES, limit=limit),
    )
    return [*query.unindexed_ids, *(candidate.message_id for candidate in found)]


def _candidate_limit(search_filter: SearchFilter, *, least: int, limit: int) -> int:
    return min(max(limit, least), MOST_PROPOSED) * (OVERFETCH if search_filter.last is not None else 1)
