"""Agents behind a server: what they remember, and make of whom they met."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from roomlore.agents.deciding import USUAL, Decision, Limits
from roomlore.agents.trust import Relationship
from roomlore.app.agents import Looked
from roomlore.client import written
from roomlore.client.line import Line, check_page
from roomlore.client.written import segment
from roomlore.context.memoryblock import DEFAULT_BUDGET, MemoryBlock
from roomlore.domain.keywords import refuse_unknown
from roomlore.domain.names import LAST
from roomlore.domain.records import Memory, MemoryKind, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compacted:
    """From when on agents begin anew."""

    compacted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAgents:
    """What agents remember, and make of whom they met; the calls are those of `app.agents.Agents`."""

    line: Line

    async def reader(self, agent: str) -> Viewer:
        """Return an agent as the viewer that it is: operators may read as any, everybody else as themselves."""
        return await self.line.read(Viewer, f"{_agent(agent)}/reader")

    async def memories(
        self, viewer: Viewer, agent: str, *, limit: int = 50, **looked: Unpack[Looked]
    ) -> list[Memory]:
        """Return the memories that stand of what an agent saw, as far as the viewer may see them."""
        refuse_unknown("agents.memories", looked, Looked)
        check_page(limit)
        path, asked = f"{_agent(agent)}/memories", {"limit": limit, **looked}
        return await self.line.read(list[Memory], path, viewer=viewer, body=asked)

    async def experiences(
        self,
        viewer: Viewer,
        agent: str,
        *,
        topic: str | None = None,
        present: Sequence[str] = (),
        limit: int = 10,
    ) -> Mapping[MemoryKind, Sequence[Memory]]:
        """Return what an agent remembers for a conversation, by kind: about its topic, and of those present."""
        check_page(limit)
        path, asked = f"{_agent(agent)}/experiences", {"topic": topic, "present": present, "limit": limit}
        return await self.line.read(dict[MemoryKind, list[Memory]], path, viewer=viewer, body=asked)

    async def relationships(
        self, viewer: Viewer, agent: str, *, present: Sequence[str] = ()
    ) -> list[Relationship]:
        """Return what an agent makes of whom it met, with the reasons, most trusted first."""
        asked = written.query(present=list(present))
        path = f"{_agent(agent)}/relationships"
        return await self.line.read(list[Relationship], path, viewer=viewer, query=asked)

    async def block(
        self,
        viewer: Viewer,
        room: str,
        trigger: str = LAST,
        *,
        topic: str | None = None,
        present: Sequence[str] | None = None,
        budget: int = DEFAULT_BUDGET,
        private: bool = False,
    ) -> MemoryBlock:
        """Return what an agent remembers that may matter in a room, for it to read before it answers."""
        named = None if present is None else list(present)
        asked = {
            "trigger": trigger,
            "topic": topic,
            "present": named,
            "budget": budget,
            "private": private,
        }
        return await self.line.read(MemoryBlock, f"{_room(room)}/block", viewer=viewer, body=asked)

    async def should_answer(
        self, viewer: Viewer, room: str, trigger: str = LAST, *, limits: Limits = USUAL
    ) -> Decision:
        """Return whether an agent should answer a message of a room, and why."""
        asked = {"trigger": trigger, "limits": limits}
        return await self.line.read(Decision, f"{_room(room)}/decision", viewer=viewer, body=asked)

    async def note_reply(self, room: str, *, trigger: str, reply: str) -> None:
        """Have an answer of the caller's remembered, if it is worth it; a worker sees to that later."""
        await self.line.settle("POST", f"{_room(room)}/replies", {"trigger": trigger, "reply": reply})

    async def compact(self, room: str) -> datetime:
        """Say that the agents of a room begin anew there; return from when."""
        return (await self.line.change(_Compacted, "POST", f"{_room(room)}/compact")).compacted_at

    async def inject(self, room: str, *, is_on: bool) -> None:
        """Say whether the agents of a room are given unasked what they may know."""
        await self.line.settle("PUT", f"{_room(room)}/injecting", {"on": is_on})


def _agent(word: str) -> str:
    return f"agents/{segment('participant', word)}"


def _room(word: str) -> str:
    return f"rooms/{segment('room', word)}"
