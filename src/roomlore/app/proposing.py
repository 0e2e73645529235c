"""Asks a copy in another server what may fit a question; whether it does, and may be seen, the database says."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from roomlore.app.desk import Desk
from roomlore.backends.neo4j import Neo4jGraph, open_neo4j
from roomlore.backends.qdrant import QdrantPoints, open_qdrant
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput, CopyUnavailable
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.projected import Narrowing, Sight
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import Degradation
from roomlore.retrieval.search import MOST_PROPOSED, NEAR, WORDED, Question
from roomlore.store import projections
from roomlore.store import search as proposals_in
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: A copy that takes longer is no help: the database answers in less.
LONGEST_SECONDS = 2.0
#: A copy knows no places in the order of a room: some of what it proposes may stand behind the last message.
SPARE = 2
#: What failed is left alone for so long: each question that asks it waits for nothing.
REST_SECONDS = 30.0
#: So many changes that a copy may lack are looked through in the database; with more it is not asked.
FRESH = 1_000
QDRANT: str = "qdrant"
NEO4J: str = "neo4j"
UNAVAILABLE: Degradation = "qdrant is unavailable"


@dataclass(slots=True)
class Breaker:
    """Keeps questions from a server that has just failed, and an org's from its copy where that alone did."""

    #: Seconds that never run backwards.
    clock: Callable[[], float] = time.monotonic
    #: Until when which org's copy rests; of None, the server.
    _rests_until: dict[OrgId | None, float] = field(default_factory=dict[OrgId | None, float])

    def lets_pass(self, org_id: OrgId) -> bool:
        """Return whether a copy may be asked; after a rest one question may, and the others wait for how that ends."""
        now, resting = self.clock(), [one for one in (None, org_id) if one in self._rests_until]
        if any(now < self._rests_until[one] for one in resting):
            return False
        for one in resting:
            self._rest(one)
        return True

    def failed(self, org_id: OrgId, error: BackendUnavailable | BadInput | TimeoutError) -> None:
        """Let the copy rest that was lost or slow; whatever else fails is the server's, and that rests for every org."""
        is_of_copy = isinstance(error, CopyUnavailable | TimeoutError)
        self._rest(org_id if is_of_copy else None)

    def answered(self, org_id: OrgId) -> None:
        """Let everybody ask the server again, and this org its copy."""
        for one in (None, org_id):
            self._rests_until.pop(one, None)

    def _rest(self, which: OrgId | None) -> None:
        self._rests_until[which] = self.clock() + REST_SECONDS


@dataclass(slots=True)
class Servers:
    """Connections to servers that hold copies, shared by all on whose behalf an App acts."""

    #: Of questions to Qdrant; the worker has its own way to bear with outages.
    breaker: Breaker = field(default_factory=Breaker)
    #: Of questions to Neo4j.
    graph_breaker: Breaker = field(default_factory=Breaker)
    _qdrant: QdrantPoints | None = None
    _neo4j: Neo4jGraph | None = None

    def qdrant(self, settings: Settings) -> QdrantPoints | None:
        """Return the server that the settings name; None where they name none."""
        if self._qdrant is None and settings.qdrant is not None:
            self._qdrant = open_qdrant(settings.qdrant.url, key=settings.qdrant.key)
        return self._qdrant

    def neo4j(self, settings: Settings) -> Neo4jGraph | None:
        """Return the graph server that the settings name; None where they name none."""
        if self._neo4j is None and settings.neo4j is not None:
            named = settings.neo4j
            self._neo4j = open_neo4j(
                named.url,
                user=named.user,
                password=named.password,
                database=named.database,
                seconds=LONGEST_SECONDS,
            )
        return self._neo4j

    async def close(self) -> None:
        """Give up the connections."""
        for server in (self._qdrant, self._neo4j):
            if server is not None:
                await server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy that is read, and what has changed that may not be in it yet."""

    held: projections.Projection
    fresh: Sequence[MessageId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a copy is asked by, for a viewer."""

    sight: Sight
    #: The words of the question as stems.
    lexemes: Sequence[str]
    #: What shares some of them and may not be in the copy yet.
    fresh: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """Proposals from a copy, for questions of one org."""

    desk: Desk
    settings: Settings
    servers: Servers

    async def copy(self) -> tuple[Copied | None, Sequence[Degradation]]:
        """Return the copy that is read, and what could not be used; None where there is none, or it lags."""
        if self.settings.qdrant is None:
            return None, ()
        org_id = self.desk.org_id
        async with self.desk.db.reading(Viewer.operator(org_id)) as conn:
            projected = await projections.all_of(conn, org_id)
            held = next((one for one in projected if one.target == QDRANT and one.copy is not None), None)
            if held is None:
                return None, ()
            # What a copy lacks would not be found by meaning, and nobody would know.
            if not await projections.is_behind(conn, org_id, held.target):
                fresh = await proposals_in.not_copied(conn, org_id, held.target, limit=FRESH + 1)
                if len(fresh) <= FRESH:
                    return Copied(held=held, fresh=fresh), ()
        # A server that fails is not asked, and whoever asks is told as if it had been.
        return None, (() if held.failing_since is None else (UNAVAILABLE,))

    async def seen(self, conn: Connection, question: Question, copied: Copied) -> Seen:
        """Return what a copy is asked by, for the viewer of the connection."""
        lexemes, fresh = await proposals_in.words(conn, question.text, among=copied.fresh, wanted=WORDED)
        return Seen(sight=await projections.sight(conn), lexemes=lexemes, fresh=fresh)

    async def propose(
        self, question: Question, copied: Copied, *, seen: Seen, scopes: Sequence[Scope], limit: int
    ) -> tuple[Question, Sequence[Degradation]]:
        """Return a question with what the copy proposes for it in these scopes, and what could not be used.

        By words alone, where the copy holds other vectors; as it was, where it knows too little to look where it is asked.
        """
        try:
            server = self.servers.qdrant(self.settings)
        except BadInput:
            return question, (UNAVAILABLE,)
        if server is None or any(scope.answered is not None for scope in scopes):
            return question, ()
        breaker, org_id = self.servers.breaker, self.desk.org_id
        if not breaker.lets_pass(org_id):
            return question, (UNAVAILABLE,)
        asked = _Asked(server=server, held=copied.held, question=question, seen=seen, limit=limit)
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                near = [(scope, found) for scope in scopes if (found := await asked.near(scope)) is not None]
                worded = [(scope, await asked.worded(scope)) for scope in scopes]
        except (BackendUnavailable, TimeoutError) as error:
            breaker.failed(org_id, error)
            return question, (UNAVAILABLE,)
        breaker.answered(org_id)
        return replace(question, near=near, worded=worded), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question to a copy."""

    server: QdrantPoints
    held: projections.Projection
    question: Question
    seen: Seen
    limit: int

    async def near(self, scope: Scope) -> list[MessageId] | None:
        """Return the messages of a scope whose vectors are nearest; None where the copy holds other vectors."""
        vector, copy = self.question.vector, self.held.copy
        if copy is None or vector is None or vector[0] != self.held.model:
            return None
        narrowing, wanted = _narrowing(scope), _wanted(scope, usual=NEAR, limit=self.limit)
        found = await self.server.near(
            copy, vector[1], sight=self.seen.sight, narrowing=narrowing, wanted=wanted
        )
        return [one.message_id for one in found]

    async def worded(self, scope: Scope) -> list[MessageId]:
        """Return the messages of a scope that share most with the question, those first that the copy may lack."""
        assert self.held.copy is not None
        narrowing, wanted = _narrowing(scope), _wanted(scope, usual=WORDED, limit=self.limit)
        found = await self.server.worded(
            self.held.copy, self.seen.lexemes, sight=self.seen.sight, narrowing=narrowing, wanted=wanted
        )
        return [*self.seen.fresh, *(one.message_id for one in found)]


def _wanted(scope: Scope, *, usual: int, limit: int) -> int:
    return min(max(limit, usual), MOST_PROPOSED) * (SPARE if scope.last is not None else 1)


def _narrowing(scope: Scope) -> Narrowing:
    return Narrowing(
        room_ids=scope.room_ids,
        author_ids=scope.author_ids,
        author_kinds=scope.author_kinds,
        conversation_ids=scope.conversation_ids,
        since=scope.since,
        until=scope.until,
    )
