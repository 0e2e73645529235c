"""How a question to the graph is answered: a copy in Neo4j proposes, where one is read, and the database decides.

Of what a copy proposes the database says what is there and the viewer's to see, and counts anew. Where too little is left
the database answers by itself, so that an answer is the one that it would give alone, but for what nodes do not hold:
injections, upon which a memory may rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from roomlore.app.desk import MOST, Desk
from roomlore.app.proposing import LONGEST_SECONDS, NEO4J, Servers
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput, RoomloreError
from roomlore.domain.graph import Present, Tagged, Talk, Weighed, rank
from roomlore.domain.ids import ConversationId, ParticipantId
from roomlore.domain.ports import Graph
from roomlore.domain.records import Viewer
from roomlore.retrieval import meant
from roomlore.store import projections
from roomlore.store.graph import DatabaseGraph, persons
from roomlore.store.queries import Connection

#: A copy is asked for more than is wanted: the database may not agree with some of it.
SPARE, MORE = 2, 10
#: What cannot be asked, and the database answers for.
GraphDegradation = Literal["neo4j is unavailable"]
UNAVAILABLE: GraphDegradation = "neo4j is unavailable"
#: What the log calls every question.
ACTION = "ask graph"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a question names."""

    participant_ids: Sequence[ParticipantId] = ()
    conversation_id: ConversationId | None = None

    @property
    def ids(self) -> list[UUID]:
        """Of all that is named."""
        return [*self.participant_ids, *([] if self.conversation_id is None else [self.conversation_id])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[Item]):
    """What the database answers."""

    named: Named
    found: Sequence[Item]
    #: Whether a copy knew where that is.
    is_copied: bool
    degraded: Sequence[GraphDegradation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What a copy proposes for each part of a question; None where none was asked."""

    parts: Sequence[Sequence[Any]] | None = None
    degraded: Sequence[GraphDegradation] = ()


Find = Callable[[Connection], Awaitable[Named]]
Ask = Callable[[Graph, Named, int], Awaitable[Sequence[Item]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Asks the graph of one org."""

    desk: Desk
    settings: Settings
    servers: Servers

    # What a copy proposes: no connection is held while it is asked

    async def _copy(self) -> tuple[str | None, Sequence[GraphDegradation]]:
        """Return the copy that is read, and what cannot be; None where there is none, or something waits for it."""
        if self.settings.neo4j is None:
            return None, ()
        org_id = self.desk.org_id
        async with self.desk.db.reading(Viewer.operator(org_id)) as conn:
            projected = await projections.all_of(conn, org_id)
            held = next((one for one in projected if one.target == NEO4J and one.copy is not None), None)
            if held is None:
                return None, ()
            # What a copy lacks would be no part of an answer, and nobody would know.
            if await projections.lacks_something(conn, org_id, held.target):
                return None, (() if held.failing_since is None else (UNAVAILABLE,))
        return held.copy, ()

    async def proposed(self, viewer: Viewer, find: Find, asks: Sequence[Ask[Any]], limit: int) -> Proposed:
        """Return what a copy proposes, or why it does not."""
        copy, degraded = await self._copy()
        if copy is None:
            return Proposed(degraded=degraded)
        await self.desk.check_viewer(viewer, ACTION)
        try:
            async with self.desk.db.reading(viewer, recalls=True) as conn:
                named = await find(conn)
                sight = await projections.sight(conn)
        except RoomloreError:
            # Whoever asks is told when the question is answered, and the log has a line.
            return Proposed()
        breaker, org_id = self.servers.graph_breaker, self.desk.org_id
        if not breaker.lets_pass(org_id):
            return Proposed(degraded=(UNAVAILABLE,))
        try:
            server = self.servers.neo4j(self.settings)
            assert server is not None
            async with asyncio.timeout(LONGEST_SECONDS):
                graph = server.seen(copy, sight)
                parts = [await ask(graph, named, _reach(limit)) for ask in asks]
        except (BackendUnavailable, BadInput, TimeoutError) as error:
            breaker.failed(org_id, error)
            return Proposed(degraded=(UNAVAILABLE,))
        breaker.answered(org_id)
        return Proposed(parts=parts)

    # Through the eyes of the viewer: what may not be seen is not there

    async def answered(
        self, conn: Connection, find: Find, ask: Ask[Item], *, proposed: Proposed, limit: int
    ) -> Answered[Item]:
        """Return the answer to a question of one part."""
        named = await find(conn)
        part = None if proposed.parts is None else proposed.parts[0]
        found, is_copied = await self.decided(conn, ask, named, proposed=part, limit=limit)
        return Answered(named=named, found=found, is_copied=is_copied, degraded=proposed.degraded)

    async def decided(
        self,
        conn: Connection,
        ask: Ask[Item],
        named: Named,
        *,
        proposed: Sequence[Any] | None,
        limit: int,
    ) -> tuple[Sequence[Item], bool]:
        """Return what the database answers, and whether a copy knew where that is."""
        org_id = self.desk.org_id
        if proposed is not None:
            among = [_key(one) for one in proposed]
            found = await ask(DatabaseGraph(conn=conn, org_id=org_id, among=among), named, limit)
            if len(proposed) < _reach(limit) or _suffices(found, proposed, limit):
                return found, True
        return await ask(DatabaseGraph(conn=conn, org_id=org_id), named, limit), False

    # What a question names

    def person(self, viewer: Viewer, who: str) -> Find:
        """Return what finds somebody by all accounts that the viewer may know of."""

        async def find(conn: Connection) -> Named:
            accounts = await meant.person(conn, viewer, who)
            return Named(participant_ids=[one.id for one in accounts])

        return find

    def conversation(self, word: str) -> Find:
        """Return what finds a conversation."""

        async def find(conn: Connection) -> Named:
            return Named(conversation_id=await meant.conversation(conn, self.desk.org_id, word))

        return find

    def present(self, word: str) -> Find:
        """Return what finds a conversation, and whoever is present in it by all their accounts."""

        async def find(conn: Connection) -> Named:
            org_id = self.desk.org_id
            conversation_id = await meant.conversation(conn, org_id, word)
            graph = DatabaseGraph(conn=conn, org_id=org_id)
            present = await graph.present_in(conversation_id, limit=MOST)
            accounts = await persons(conn, org_id, [one.participant_id for one in present])
            return Named(participant_ids=accounts, conversation_id=conversation_id)

        return find


def _reach(limit: int) -> int:
    return limit * SPARE + MORE


def _suffices(found: Sequence[Any], proposed: Sequence[Any], limit: int) -> bool:
    """Return whether nothing that was not proposed can come before the last that is wanted.

    Of what it holds a copy counts nothing too little that the viewer may see: what it did not propose comes behind.
    """
    if len(found) < limit:
        return False
    return isinstance(found[-1], UUID) or rank(found[-1]) <= rank(proposed[-1])


def _key(one: UUID | Talk | Present | Weighed | Tagged) -> UUID:
    match one:
        case Talk() | Present():
            return one.participant_id
        case Weighed():
            return one.memory_id
        case Tagged():
            return one.tag_id
        case UUID():
            return one
