"""A copy that knows everything, tells it to everybody, and makes up some more."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from roomlore.db.graph import DatabaseGraph
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import uuid7
from roomlore.domain.projections import VisibilityFilter
from roomlore.operations import App
from roomlore.operations.candidates import ProjectionClients
from roomlore.settings import Settings


class Liar:
    """A server that holds one copy, of one org."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.is_down = False
        self.asked = 0

    def view_for(self, copy: str, sight: VisibilityFilter) -> "Liar":
        assert copy == "lies"
        assert isinstance(sight, VisibilityFilter)
        return self

    async def close(self) -> None:
        """Have nothing to close."""

    async def _all(self, ask: Callable[[DatabaseGraph], Awaitable[Sequence[Any]]]) -> list[Any]:
        self.asked += 1
        if self.is_down:
            raise BackendUnavailable("the liar is silent", cure="be nice to it")
        async with self._app.db.read_transaction(self._app.operator) as conn:
            return list(await ask(DatabaseGraph(conn=conn, org_id=self._app.org_id)))

    async def messages_by_agents(self, *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.messages_by_agents(limit=limit))][:limit]

    async def messages_by(self, ids: Sequence[Any], *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.messages_by(ids, limit=limit))][:limit]

    async def memories_by_agents(self, *, limit: int) -> list[UUID]:
        return [uuid7(), *await self._all(lambda graph: graph.memories_by_agents(limit=limit))][:limit]


class LyingServers(ProjectionClients):
    """Servers of which one is a liar."""

    liar: Liar

    def neo4j(self, settings: Settings) -> Any:
        assert settings.neo4j is not None
        return self.liar
