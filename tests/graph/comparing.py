"""Every question, asked of an App on behalf of everybody, held against the plain answers."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from graph.telling import STATED, Facts, Seen
from roomlore.domain.errors import NotFound
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.operations.graph import GraphAnswer, GraphQueries

MANY, FEW = 100, 1
#: How many viewers also ask with the small limit.
TRIED_WITH_FEW = 1


def viewers(app: App, told: Facts) -> list[Viewer]:
    """Everybody of a story, and the operator."""
    ids = told.truth.kinds.keys() - {app.org_id}
    return [app.operator, *(Viewer(org_id=app.org_id, participant_id=key) for key in sorted(ids))]


async def compare(app: App, told: Facts, *, by: str = "postgresql", restrictions: Sequence[UUID] = ()) -> int:
    """Do nothing if every answer is the plain one; return how many of them were not empty."""
    answered = 0
    for number, viewer in enumerate(viewers(app, told)):
        seen = told.seen(viewer, restrictions=restrictions)
        for limit in (MANY, FEW) if number < TRIED_WITH_FEW else (MANY,):
            asking = Asking(graph=app.graph, seen=seen, limit=limit, by=by)
            await asking.of_bots()
            for one in sorted(told.truth.kinds):
                await asking.of_somebody(one)
            for one in told.truth.conversations:
                await asking.of_conversation(one)
            answered += asking.answered
    return answered


class Asking:
    """Asks for one viewer."""

    def __init__(self, *, graph: GraphQueries, seen: Seen, limit: int, by: str) -> None:
        self.graph, self.seen, self.limit, self.by = graph, seen, limit, by
        self.answered = 0

    async def of_bots(self) -> None:
        seen, viewer, most = self.seen, self.seen.viewer, self.limit
        said = self._found(await self.graph.messages_by_agents(viewer, limit=most))
        assert [one.id for one in said] == seen.said_by(seen.bots())[:most]
        known = self._found(await self.graph.memories_of_agents(viewer, limit=most))
        assert [one.id for one in known] == seen.known_by(seen.bots(), STATED)[:most]

    async def of_somebody(self, one: UUID) -> None:
        seen, viewer, most, graph = self.seen, self.seen.viewer, self.limit, self.graph
        if one not in seen.known:
            for call in (
                graph.said_by,
                graph.known_by,
                graph.memories_about,
                graph.conversation_partners,
                graph.near,
            ):
                with pytest.raises(NotFound):
                    await call(viewer, str(one))
            return
        people = seen.accounts(one)
        said = self._found(await graph.said_by(viewer, str(one), limit=most))
        assert [one.id for one in said] == seen.said_by(people)[:most]
        known = self._found(await graph.known_by(viewer, str(one), limit=most))
        assert [one.id for one in known] == seen.known_by(people, STATED)[:most]
        about = self._found(await graph.memories_about(viewer, str(one), limit=most))
        assert [one.id for one in about] == seen.known_by(people, {"subject"})[:most]
        talks = self._found(await graph.conversation_partners(viewer, str(one), limit=most))
        assert _counted(talks) == _counted(seen.conversation_partners(people)[:most])
        near = self._found(await graph.near(viewer, str(one), limit=most))
        assert [(one.id, one.label, one.score) for one in near] == seen.near(people, most)

    async def of_conversation(self, one: UUID) -> None:
        seen, viewer, most, graph = self.seen, self.seen.viewer, self.limit, self.graph
        if not seen.is_followed(one):
            for call in (graph.participants_of, graph.memories_for):
                with pytest.raises(NotFound):
                    await call(viewer, str(one))
            return
        present = self._found(await graph.participants_of(viewer, str(one), limit=most))
        assert _counted(present) == _counted(seen.participants_of(one)[:most])
        weighed = seen.memories_for(one)[:most]
        kinds: dict[str, list[UUID]] = {}
        for memory in weighed:
            kinds.setdefault(memory.kind, []).append(memory.memory_id)
        for_it = self._found(await graph.memories_for(viewer, str(one), limit=most))
        assert [(of.kind, [memory.id for memory in of.memories]) for of in for_it] == list(kinds.items())

    def _found(self, told: GraphAnswer[Any]) -> Sequence[Any]:
        assert told.degraded == ()
        if self.by == "postgresql":
            # Nobody but the operator is told who found it.
            assert told.answered_by in {"postgresql", None}
        self.answered += told.answered_by in {self.by, None} and bool(told.items)
        return told.items


def _counted(found: Sequence[Any]) -> list[tuple[UUID, int, Any]]:
    return [(one.participant_id, one.count, one.last) for one in found]
