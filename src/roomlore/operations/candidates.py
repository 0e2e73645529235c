"""Asks a copy in another server what may fit a question; whether it does, and may be seen, the database says."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from roomlore.db import projections
from roomlore.db import search as proposals_in
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BackendUnavailable, BadInput, IndexUnavailable
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.projections import QueryFilter, VisibilityFilter
from roomlore.domain.records import Viewer
from roomlore.operations.access import Access
from roomlore.projections.neo4j import Neo4jProjection, open_neo4j
from roomlore.projections.qdrant import QdrantProjection, open_qdrant
from roomlore.search.message_search import DENSE_CANDIDATES, LEXICAL_CANDIDATES, MOST_PROPOSED, SearchQuery
from roomlore.search.records import SearchDegradation
from roomlore.settings import Settings

#: A copy that takes longer is no help: the database answers in less.
TIMEOUT_SECONDS = 2.0
#: A copy knows no places in the order of a room: some of what it proposes may stand behind the last message.
OVERFETCH = 2
#: What failed is left alone for so long: each question that asks it waits for nothing.
BREAKER_SECONDS = 30.0
#: So many changes that a copy may lack are looked through in the database; with more it is not asked.
MAX_UNINDEXED = 1_000
QDRANT: str = "qdrant"
NEO4J: str = "neo4j"
UNAVAILABLE: SearchDegradation = "qdrant is unavailable"


@dataclass(slots=True)
class CircuitBreaker:
    """Keeps questions from a server that has just failed, and an org's from its copy where that alone did."""

    #: Seconds that never run backwards.
    clock: Callable[[], float] = time.monotonic
    #: Until when which org's copy rests; of None, the server.
    _open_until: dict[OrgId | None, float] = field(default_factory=dict[OrgId | None, float])

    def allow(self, org_id: OrgId) -> bool:
        """Return whether a copy may be asked; after a rest one question may, and the others wait for how that ends."""
        now, resting = self.clock(), [one for one in (None, org_id) if one in self._open_until]
        if any(now < self._open_until[one] for one in resting):
            return False
        for one in resting:
            self._open(one)
        return True

    def record_failure(self, org_id: OrgId, error: BackendUnavailable | BadInput | TimeoutError) -> None:
        """Let the copy rest that was lost or slow; whatever else fails is the server's, and that rests for every org."""
        is_of_copy = isinstance(error, IndexUnavailable | TimeoutError)
        self._open(org_id if is_of_copy else None)

    def record_success(self, org_id: OrgId) -> None:
        """Let everybody ask the server again, and this org its copy."""
        for one in (None, org_id):
            self._open_until.pop(one, None)

    def _open(self, which: OrgId | None) -> None:
        self._open_until[which] = self.clock() + BREAKER_SECONDS


@dataclass(slots=True)
class ProjectionClients:
    """Connections to servers that hold copies, shared by all on whose behalf an App acts."""

    #: Of questions to Qdrant; the worker has its own way to bear with outages.
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    #: Of questions to Neo4j.
    graph_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    _qdrant: QdrantProjection | None = None
    _neo4j: Neo4jProjection | None = None

    def qdrant(self, settings: Settings) -> QdrantProjection | None:
        """Return the server that the settings name; None where they name none."""
        if self._qdrant is None and settings.qdrant is not None:
            self._qdrant = open_qdrant(settings.qdrant.url, key=settings.qdrant.key)
        return self._qdrant

    def neo4j(self, settings: Settings) -> Neo4jProjection | None:
        """Return the graph server that the settings name; None where they name none."""
        if self._neo4j is None and settings.neo4j is not None:
            named = settings.neo4j
            self._neo4j = open_neo4j(
                named.url,
                user=named.user,
                password=named.password,
                database=named.database,
                seconds=TIMEOUT_SECONDS,
            )
        return self._neo4j

    async def close(self) -> None:
        """Give up the connections."""
        for server in (self._qdrant, self._neo4j):
            if server is not None:
                await server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableIndex:
    """A copy that is read, and what has changed that may not be in it yet."""

    projection: projections.Projection
    unindexed_ids: Sequence[MessageId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexQuery:
    """What a copy is asked by, for a viewer."""

    visibility_filter: VisibilityFilter
    #: The words of the question as stems.
    lexemes: Sequence[str]
    #: What shares some of them and may not be in the copy yet.
    unindexed_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSource:
    """Proposals from a copy, for questions of one org."""

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    async def readable_index(self) -> tuple[ReadableIndex | None, Sequence[SearchDegradation]]:
        """Return the copy that is read, and what could not be used; None where there is none, or it lags."""
        if self.settings.qdrant is None:
            return None, ()
        org_id = self.access.org_id
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            projected = await projections.all_projections(conn, org_id)
            held = next((one for one in projected if one.target == QDRANT and one.copy is not None), None)
            if held is None:
                return None, ()
            # What a copy lacks would not be found by meaning, and nobody would know.
            if not await projections.is_behind(conn, org_id, held.target):
                fresh = await proposals_in.pending_in_projection(
                    conn, org_id, held.target, limit=MAX_UNINDEXED + 1
                )
                if len(fresh) <= MAX_UNINDEXED:
                    return ReadableIndex(projection=held, unindexed_ids=fresh), ()
        # A server that fails is not asked, and whoever asks is told as if it had been.
        return None, (() if held.failing_since is None else (UNAVAILABLE,))

    async def build_query(self, conn: Connection, question: SearchQuery, index: ReadableIndex) -> IndexQuery:
        """Return what a copy is asked by, for the viewer of the connection."""
        lexemes, fresh = await proposals_in.matching_lexemes(
            conn, question.text, among=index.unindexed_ids, wanted=LEXICAL_CANDIDATES
        )
        return IndexQuery(
            visibility_filter=await projections.visibility_filter(conn), lexemes=lexemes, unindexed_ids=fresh
        )

    async def add_candidates(
        self,
        question: SearchQuery,
        index: ReadableIndex,
        *,
        query: IndexQuery,
        scopes: Sequence[SearchFilter],
        limit: int,
    ) -> tuple[SearchQuery, Sequence[SearchDegradation]]:
        """Return a question with what the copy proposes for it in these scopes, and what could not be used.

        By words alone, where the copy holds other vectors; as it was, where it knows too little to look where it is asked.
        """
        try:
            server = self.projection_clients.qdrant(self.settings)
        except BadInput:
            return question, (UNAVAILABLE,)
        if server is None or any(scope.answered is not None for scope in scopes):
            return question, ()
        breaker, org_id = self.projection_clients.breaker, self.access.org_id
        if not breaker.allow(org_id):
            return question, (UNAVAILABLE,)
        asked = _IndexSearch(
            server=server, projection=index.projection, question=question, query=query, limit=limit
        )
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                near = [(scope, found) for scope in scopes if (found := await asked.dense(scope)) is not None]
                worded = [(scope, await asked.lexical(scope)) for scope in scopes]
        except (BackendUnavailable, TimeoutError) as error:
            breaker.record_failure(org_id, error)
            return question, (UNAVAILABLE,)
        breaker.record_success(org_id)
        return replace(question, dense=near, lexical=worded), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _IndexSearch:
    """A question to a copy."""

    server: QdrantProjection
    projection: projections.Projection
    question: SearchQuery
    query: IndexQuery
    limit: int

    async def dense(self, scope: SearchFilter) -> list[MessageId] | None:
        """Return the messages of a scope whose vectors are nearest; None where the copy holds other vectors."""
        vector, copy = self.question.vector, self.projection.copy
        if copy is None or vector is None or vector[0] != self.projection.model:
            return None
        narrowing, wanted = (
            _query_filter(scope),
            _candidate_limit(scope, usual=DENSE_CANDIDATES, limit=self.limit),
        )
        found = await self.server.search_dense(
            copy, vector[1], sight=self.query.visibility_filter, narrowing=narrowing, wanted=wanted
        )
        return [one.message_id for one in found]

    async def lexical(self, scope: SearchFilter) -> list[MessageId]:
        """Return the messages of a scope that share most with the question, those first that the copy may lack."""
        assert self.projection.copy is not None
        narrowing, wanted = (
            _query_filter(scope),
            _candidate_limit(scope, usual=LEXICAL_CANDIDATES, limit=self.limit),
        )
        found = await self.server.search_lexical(
            self.projection.copy,
            self.query.lexemes,
            sight=self.query.visibility_filter,
            narrowing=narrowing,
            wanted=wanted,
        )
        return [*self.query.unindexed_ids, *(one.message_id for one in found)]


def _candidate_limit(scope: SearchFilter, *, usual: int, limit: int) -> int:
    return min(max(limit, usual), MOST_PROPOSED) * (OVERFETCH if scope.last is not None else 1)


def _query_filter(scope: SearchFilter) -> QueryFilter:
    return QueryFilter(
        room_ids=scope.room_ids,
        author_ids=scope.author_ids,
        author_kinds=scope.author_kinds,
        conversation_ids=scope.conversation_ids,
        since=scope.since,
        until=scope.until,
    )
