"""Asks a copy in another server what may fit a question; whether it does, and may be seen, the database says."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roomlore.app.desk import Desk
from roomlore.backends.qdrant import QdrantPoints, open_qdrant
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.projected import Narrowing, Sight
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import Degradation
from roomlore.retrieval.search import NEAR, Question
from roomlore.store import projections
from roomlore.store.search import Scope

#: A copy that takes longer is no help: the database answers in less.
LONGEST_SECONDS = 2.0
#: A copy knows no places in the order of a room: some of what it proposes may stand behind the last message.
SPARE = 2
UNAVAILABLE: Degradation = "qdrant is unavailable"


@dataclass(slots=True)
class Servers:
    """Connections to servers that hold copies, shared by all on whose behalf an App acts."""

    _qdrant: QdrantPoints | None = None

    def qdrant(self, settings: Settings) -> QdrantPoints | None:
        """Return the server that the settings name; None where they name none."""
        if self._qdrant is None and settings.qdrant is not None:
            self._qdrant = open_qdrant(settings.qdrant.url, key=settings.qdrant.key)
        return self._qdrant

    async def close(self) -> None:
        """Give up the connections."""
        if self._qdrant is not None:
            await self._qdrant.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """Proposals from a copy, for questions of one org."""

    desk: Desk
    settings: Settings
    servers: Servers

    async def copy(self) -> projections.Projection | None:
        """Return the copy that is read; None where there is none, or it lags."""
        if self.settings.qdrant is None:
            return None
        async with self.desk.db.reading(Viewer.operator(self.desk.org_id)) as conn:
            held = await projections.all_of(conn, self.desk.org_id)
            read = next((one for one in held if one.copy is not None), None)
            # What a copy lacks would not be found by meaning, and nobody would know.
            is_behind = read is None or await projections.is_behind(conn, self.desk.org_id, read.target)
        return None if is_behind else read

    async def propose(
        self,
        question: Question,
        held: projections.Projection,
        *,
        sight: Sight,
        scopes: Sequence[Scope],
        limit: int,
    ) -> tuple[Question, Sequence[Degradation]]:
        """Return a question with what the copy proposes for it in these scopes, and what could not be used.

        As it was, where the copy holds other vectors, or knows too little to look where it is asked.
        """
        try:
            server = self.servers.qdrant(self.settings)
        except BadInput:
            return question, (UNAVAILABLE,)
        vector = question.vector
        if server is None or held.copy is None or vector is None or vector[0] != held.model:
            return question, ()
        if any(scope.answered is not None for scope in scopes):
            return question, ()
        near: list[tuple[Scope, list[MessageId]]] = []
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                for scope in scopes:
                    found = await server.near(
                        held.copy,
                        vector[1],
                        sight=sight,
                        narrowing=_narrowing(scope),
                        wanted=max(limit, NEAR) * (SPARE if scope.last is not None else 1),
                    )
                    near.append((scope, [one.message_id for one in found]))
        except (BackendUnavailable, TimeoutError):
            return question, (UNAVAILABLE,)
        return replace(question, near=near), ()


def _narrowing(scope: Scope) -> Narrowing:
    return Narrowing(
        room_ids=scope.room_ids,
        author_ids=scope.author_ids,
        author_kinds=scope.author_kinds,
        conversation_ids=scope.conversation_ids,
        since=scope.since,
        until=scope.until,
    )
