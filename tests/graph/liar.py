"""A copy that knows everything, tells it to everybody, and makes up some more."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from roomlore.app import App
from roomlore.app.proposing import Servers
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.graph import Present, Tagged, Talk, Weighed
from roomlore.domain.ids import uuid7
from roomlore.domain.projected import Sight
from roomlore.store.graph import DatabaseGraph

LAST = datetime(2999, 1, 1, tzinfo=UTC)


class Liar:
    """A server that holds one copy, of one org."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.is_down = False
        self.asked = 0

    def seen(self, copy: str, sight: Sight) -> "Liar":
        assert copy == "lies"
        assert isinstance(sight, Sight)
        return self

    async def close(self) -> None:
        """Have nothing to close."""

    async def _all(self, ask: Callable[[DatabaseGraph], Awaitable[Sequence[Any]]]) -> list[Any]:
        self.asked += 1
        if self.is_down:
            raise BackendUnavailable("the liar is silent", cure="be nice to it")
        async with self._app.db.reading(self._app.operator) as conn:
            return list(await ask(DatabaseGraph(conn=conn, org_id=self._app.org_id)))

    async def said_by_bots(self, *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.said_by_bots(limit=limit))][:limit]

    async def said_by(self, ids: Sequence[Any], *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.said_by(ids, limit=limit))][:limit]

    async def known_by_bots(self, *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.known_by_bots(limit=limit))][:limit]

    async def known_by(self, ids: Sequence[Any], *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.known_by(ids, limit=limit))][:limit]

    async def known_about(self, ids: Sequence[Any], *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.known_about(ids, limit=limit))][:limit]

    async def talked_to(self, ids: Sequence[Any], *, limit: int) -> list[Talk]:
        lie = Talk(participant_id=uuid7(), count=999, last=LAST)  # pyright: ignore[reportArgumentType]
        return [lie, *await self._all(lambda graph: graph.talked_to(ids, limit=limit))][:limit]

    async def memories_near(self, ids: Sequence[Any], *, limit: int) -> list[Weighed]:
        lie = Weighed(memory_id=uuid7(), kind="fact", count=999)  # pyright: ignore[reportArgumentType]
        return [lie, *await self._all(lambda graph: graph.memories_near(ids, limit=limit))][:limit]

    async def tags_near(self, ids: Sequence[Any], *, limit: int) -> list[Tagged]:
        lie = Tagged(tag_id=uuid7(), count=999)
        return [lie, *await self._all(lambda graph: graph.tags_near(ids, limit=limit))][:limit]

    async def present_in(self, conversation: Any, *, limit: int) -> list[Present]:
        lie = Present(participant_id=uuid7(), count=999, last=LAST)  # pyright: ignore[reportArgumentType]
        return [lie, *await self._all(lambda graph: graph.present_in(conversation, limit=limit))][:limit]

    async def memories_for(self, conversation: Any, ids: Sequence[Any], *, limit: int) -> list[Weighed]:
        lie = Weighed(memory_id=uuid7(), kind="fact", count=999)  # pyright: ignore[reportArgumentType]
        found = await self._all(lambda graph: graph.memories_for(conversation, ids, limit=limit))
        return [lie, *found][:limit]


class LyingServers(Servers):
    """Servers of which one is a liar."""

    liar: Liar

    def neo4j(self, settings: Settings) -> Any:
        assert settings.neo4j is not None
        return self.liar
