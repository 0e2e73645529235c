"""Agents: what they remember, what they make of whom they met, and what is noted when they answer."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypedDict, Unpack
from uuid import UUID

from roomlore.agents.recall import for_conversation, recall
from roomlore.agents.reply_policy import DEFAULT_POLICY, Decision, ReplyPolicy, decide, load_situation
from roomlore.agents.section_cache import SectionCache, SectionKey, section_key_of
from roomlore.agents.trust import HALF_LIFE, Relationship, relationship
from roomlore.context import memory_section
from roomlore.context.builder import with_memory_section
from roomlore.context.memory_section import MemorySection, without_injected
from roomlore.context.records import Context
from roomlore.db import agents, directory, erased, injections, memories, work_queue
from roomlore.db.agents import ExperienceFilter
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import ParticipantId
from roomlore.domain.phrases import reject_unknown_keywords
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.domain.rendering import safe_name
from roomlore.domain.words import LAST
from roomlore.operations.access import Access, AuditedRead, check_limit
from roomlore.operations.destination import ReplyTarget, audit_action_for, reply_target
from roomlore.operations.registry import Budget, Limit, Text, operation
from roomlore.operations.viewers import viewer_of
from roomlore.search import lookup

#: What agents record of what they live through.
EXPERIENCE_KINDS: tuple[MemoryKind, ...] = ("insight", "learning", "interaction", "observation")
#: A block takes no more than this part of a context.
CONTEXT_SHARE = 4

LOG = logging.getLogger(__name__)


class AgentMemoryOptions(TypedDict, total=False):
    """Which memories of an agent are meant; what is left out narrows nothing."""

    kinds: Sequence[MemoryKind]
    #: With one of these at least.
    tags: Sequence[str]
    #: The work they belong to.
    task: str | None
    #: Sharing a word with it, or weightier than a learning usually is; those that share one come first.
    topic: Text | None
    #: Naming one of these, by name, account or id.
    present: Sequence[str]
    #: The newest first; otherwise what weighs most: importance, less the older it is.
    newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents of an org, as far as a viewer may see what they remember."""

    access: Access
    section_cache: SectionCache
    #: Whether blocks are made and logged beside contexts, and not put into them.
    is_shadow: bool = False

    @operation("GET", "/agents/{agent}/reader", name="find_reader")
    async def reader(self, agent: str) -> Viewer:
        """Return an agent as the viewer that it is: operators may read as any, everybody else as themselves.

        Args:
            agent: Name, account or id.

        Raises:
            NotFound: nobody is meant, or the caller may not know of them.
            BadInput: several are meant.
            NotAllowed: it is somebody else than the caller, who is no operator.
        """
        caller = self.access.principal
        async with self.access.resolving("read as another") as conn:
            participant_id = await lookup.participant(conn, self.access.org_id, agent)
        if caller.is_own(participant_id):
            return caller
        await self.access.check("administer", "read as another")
        return await viewer_of(self.access.db, self.access.org_id, participant_id)

    @operation("POST", "/agents/{agent}/memories", name="find_agent_memories", replay="read")
    async def memories(
        self, viewer: Viewer, agent: str, *, limit: Limit = 50, **looked: Unpack[AgentMemoryOptions]
    ) -> list[Memory]:
        """Return the memories that stand of what an agent saw, as far as the viewer may see them.

        Args:
            viewer: For whom.
            agent: Name, account or id.
            limit: How many.
            looked: Which of them, and in which order.

        Raises:
            NotFound: there is no such agent or person, or the viewer may not know of them.
            BadInput: several are meant, or nothing is wanted.
        """
        reject_unknown_keywords("agents.memories", looked, AgentMemoryOptions)
        check_limit(limit)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            agent_ids = await self._agent(reading.conn, agent)
            wanted = await self._resolve_filter(reading.conn, looked)
            return await self._recall(reading, agent_ids, wanted, limit=limit)

    @operation("POST", "/agents/{agent}/experiences", name="list_experiences", replay="read")
    async def experiences(
        self,
        viewer: Viewer,
        agent: str,
        *,
        topic: Text | None = None,
        present: Sequence[str] = (),
        limit: Limit = 10,
    ) -> Mapping[MemoryKind, Sequence[Memory]]:
        """Return what an agent remembers for a conversation, by kind: about its topic, and of those present.

        Args:
            viewer: For whom.
            agent: Name, account or id.
            topic: What is talked about, in plain words.
            present: Those with whom interactions matter; all where nobody is named.
            limit: How many of each kind.
        """
        check_limit(limit)
        now, found = datetime.now(UTC), dict[MemoryKind, Sequence[Memory]]()
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            agent_ids = await self._agent(reading.conn, agent)
            people = await self._accounts(reading.conn, present) if present else None
            for kind in EXPERIENCE_KINDS:
                wanted = for_conversation(kind, topic=topic, people=people, at=now)
                found[kind] = await self._recall(reading, agent_ids, wanted, limit=limit)
        return found

    @operation("GET", "/agents/{agent}/relationships", name="list_relationships")
    async def relationships(
        self, viewer: Viewer, agent: str, *, present: Sequence[str] = ()
    ) -> list[Relationship]:
        """Return what an agent makes of whom it met, with the reasons, most trusted first.

        What an agent makes of others is its own: everybody else but operators sees nothing of it.

        Args:
            viewer: For whom.
            agent: Name, account or id.
            present: Only these.
        """
        now = datetime.now(UTC)
        async with self.access.reading(viewer, "list relationships") as reading:
            conn, org_id = reading.conn, self.access.org_id
            agent_ids = await self._agent(conn, agent)
            if not viewer.is_operator and not any(map(viewer.is_own, agent_ids)):
                raise NotAllowed("what an agent makes of others is its own and operators' to see")
            people = await self._accounts(conn, present) if present else None
            met = await agents.interactions(
                conn, org_id, agent_ids, people=people, at=now, half_life=HALF_LIFE
            )
            reading.record_shown(one.id for one in met)
        found = [relationship(one) for one in met if one.id not in agent_ids]
        return sorted(found, key=lambda one: (-one.trust, one.name, one.participant_id))

    @operation("POST", "/rooms/{room}/block", name="build_block", replay="read")
    async def block(
        self,
        viewer: Viewer,
        room: str,
        trigger: str = LAST,
        *,
        topic: Text | None = None,
        present: Sequence[str] | None = None,
        budget: Budget = memory_section.DEFAULT_SECTION_BUDGET,
        private: bool = False,
    ) -> MemorySection:
        """Return what an agent remembers that may matter in a room, for it to read before it answers.

        Nothing that not everybody in the room may be told; where a whisper is answered, nothing that not all who hear it
        may be told.

        Args:
            viewer: The agent.
            room: Name, id or external id.
            trigger: The message to answer; the room's last by default.
            topic: What it is about; what its conversation is called by default.
            present: Who is there; those who take part in its conversation by default.
            budget: Tokens.
            private: All that the agent remembers: then nothing of it may be posted.

        Raises:
            BadInput: the viewer is no agent, or the budget is none; nothing can be posted in the room, or not everybody
                there may read the trigger.
            NotFound: there is no such room, message or person, or the agent may not see it.
        """
        if budget < 1:
            raise BadInput("budget", "must be at least 1 token")
        action = audit_action_for("memory block", private=private)
        async with self.access.reading(viewer, action, apply_restrictions=True) as reading:
            conn = reading.conn
            read = await reply_target(conn, viewer, room, trigger, private=private)
            occasion = await section_key_of(conn, read.viewer, read.trigger.room_id, read.trigger.id)
            if occasion is None:
                who = await self._display_name(conn, viewer)
                raise BadInput(who, "is no agent: only agents have memories of their own")
            occasion = replace(occasion, topic=occasion.topic if topic is None else topic)
            if present is not None:
                named = await self._accounts(conn, present)
                occasion = replace(occasion, present=frozenset(named) - occasion.agent_ids)
            block = await self._memory_section(reading, occasion, budget=budget)
        return replace(block, postable=read.postable)

    async def section_for_context(
        self, reading: AuditedRead, target: ReplyTarget, *, budget: int
    ) -> MemorySection | None:
        """Return what an agent remembers for its part of a context; None for those who are no agents, and in shadow.

        In shadow the log of the program tells which memories would have stood in it, by their ids.

        Args:
            reading: For the viewer, and bound to where the answer is posted.
            target: Who answers what.
            budget: Tokens of the whole context.
        """
        trigger = target.trigger
        occasion = await section_key_of(reading.conn, target.viewer, trigger.room_id, trigger.id)
        if occasion is None:
            return None
        share = min(budget // CONTEXT_SHARE, memory_section.DEFAULT_SECTION_BUDGET)
        if not self.is_shadow:
            block = await self._memory_section(reading, occasion, budget=share)
            return replace(block, postable=target.postable)
        block = await self.section_cache.section(reading.conn, occasion, budget=share, now=datetime.now(UTC))
        ids = " ".join(map(str, block.citations.values()))
        LOG.info("agent %s, message %s: %d tokens of %s", block.agent_id, trigger.id, block.tokens, ids)
        return None

    async def with_memory_section(
        self, reading: AuditedRead, context: Context, section: MemorySection
    ) -> Context:
        """Return a context with the block before it, less what was injected among its messages already."""
        injected = [line.message.id for line in context.lines if line.message.kind == "context_injection"]
        given = await injections.delivered_by_messages(reading.conn, self.access.org_id, injected)
        return with_memory_section(context, without_injected(section, given))

    async def _memory_section(self, reading: AuditedRead, key: SectionKey, *, budget: int) -> MemorySection:
        block = await self.section_cache.section(reading.conn, key, budget=budget, now=datetime.now(UTC))
        reading.record_shown(block.citations.values())
        return block

    @operation("POST", "/rooms/{room}/decision", name="decide", replay="read")
    async def should_answer(
        self, viewer: Viewer, room: str, trigger: str = LAST, *, limits: ReplyPolicy = DEFAULT_POLICY
    ) -> Decision:
        """Return whether an agent should answer a message of a room, and why; nothing is written and no model asked.

        What the agent may not see has no part in it, nor what not everybody may read who would read its answer. Without a worker it is the same as with one.

        Args:
            viewer: The agent.
            room: Name, id or external id.
            trigger: The message in question; by default the room's last.
            limits: Where the agent holds its tongue.

        Raises:
            BadInput: the viewer is no agent, or several are meant.
            NotFound: there is no such room or message, or the agent may not see it.
        """
        async with self.access.reading(viewer, "should answer", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            message = (await reply_target(conn, viewer, room, trigger, includes_whispers=True)).trigger
            if not (await agents.reader_accounts(conn)).is_agent:
                who = await self._display_name(conn, viewer)
                raise BadInput(who, "is no agent: whether to answer is a question for agents")
            decision = decide(await load_situation(conn, org_id, message), policy=limits)
            reading.record_shown([*decision.why.message_ids, *decision.why.memory_ids])
        return decision

    @operation("POST", "/rooms/{room}/replies", replay="whole")
    async def note_reply(self, room: str, *, trigger: str, reply: str) -> None:
        """Have an answer of the caller's remembered, if it is worth it; a worker sees to that later.

        Once it is asked for, no crash loses it, and asking again changes nothing.

        Args:
            room: Name, id or external id.
            trigger: The message that was answered: external id or id.
            reply: The caller's answer, stored already: external id or id.

        Raises:
            BadInput: the answer is not the caller's, or the trigger is, or one of them was not said or was removed.
            NotFound: there is no such room or message, or the caller may not see it.
            NotAllowed: the caller is no agent.
        """
        org_id, caller = self.access.org_id, self.access.principal
        await self.access.check("remember" if caller.role == "agent" else "administer", "note reply")
        if caller.role != "agent":
            raise NotAllowed("only an agent has its answers remembered")
        async with self.access.resolving("note reply") as conn:
            room_id = await lookup.room(conn, org_id, room)
            said = [await lookup.message(conn, org_id, word, room_id=room_id) for word in (trigger, reply)]
        asked, answer = said
        _check_reply(caller, asked, answer)

        async def note(conn: Connection) -> tuple[None, Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            if await agents.enqueue_reply(conn, org_id, reply_id=answer.id, trigger_id=asked.id):
                await work_queue.wake(conn, "interact")
            return None, [asked.id, answer.id]

        await self.access.change("remember", "note reply", note)

    @operation(
        "POST", "/rooms/{room}/compact", name="compact_room", replay="whole", result_key="compacted_at"
    )
    async def compact(self, room: str) -> datetime:
        """Say that the agents of a room begin anew there: what they were given may be given again; return from when.

        Raises:
            NotFound: there is no such room, or the caller may not see it.
            BadInput: several are meant.
            NotAllowed: the caller is neither an agent nor an operator.
        """
        await self.access.check("remember", "compact")
        org_id, now = self.access.org_id, datetime.now(UTC)
        async with self.access.resolving("compact") as conn:
            room_id = await lookup.room(conn, org_id, room)

        async def mark(conn: Connection) -> tuple[datetime, Sequence[UUID]]:
            await injections.reset_context(conn, org_id, room_id, at=now)
            return now, [room_id]

        return await self.access.change("remember", "compact", mark)

    @operation("PUT", "/rooms/{room}/injecting", name="set_injecting", replay="whole", is_repeatable=True)
    async def inject(self, room: str, *, on: bool) -> None:
        """Say whether the agents of a room are given unasked what they may know; they are, unless it was said otherwise.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant.
            NotAllowed: the caller is no operator.
        """
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[None, Sequence[UUID]]:
            room_id = await lookup.room(conn, org_id, room)
            await injections.set_enabled(conn, org_id, room_id, is_enabled=on)
            return None, [room_id]

        await self.access.change("administer", "set injecting", change)

    async def _agent(self, conn: Connection, word: str) -> list[ParticipantId]:
        """Return every account of an agent that the viewer may know of."""
        org_id = self.access.org_id
        found = await directory.accounts(conn, org_id, await lookup.participant(conn, org_id, word))
        if not all(account.kind == "agent" for account in found):
            raise BadInput(f"participant {word!r}", "is no agent: only agents have memories of their own")
        return [account.id for account in found]

    async def _accounts(self, conn: Connection, words: Sequence[str]) -> list[ParticipantId]:
        """Return every account of these people that the viewer may know of."""
        found: list[ParticipantId] = []
        for word in words:
            one = await lookup.participant(conn, self.access.org_id, word)
            found += [account.id for account in await directory.accounts(conn, self.access.org_id, one)]
        return found

    async def _resolve_filter(self, conn: Connection, options: AgentMemoryOptions) -> ExperienceFilter:
        present = options.get("present", ())
        return ExperienceFilter(
            kinds=options.get("kinds") or None,
            tags=options.get("tags") or None,
            task_id=options.get("task"),
            topic=options.get("topic"),
            people=await self._accounts(conn, present) if present else None,
            is_newest_first=options.get("newest", False),
        )

    async def _recall(
        self,
        reading: AuditedRead,
        agent_ids: Collection[ParticipantId],
        wanted: ExperienceFilter,
        *,
        limit: int,
    ) -> list[Memory]:
        """Return the memories that are wanted, in their order."""
        org_id, now = self.access.org_id, datetime.now(UTC)
        found = await recall(reading.conn, org_id, agent_ids, wanted, at=now, limit=limit)
        reading.record_shown(one.memory.id for one in found)
        return [one.memory for one in found]

    async def _display_name(self, conn: Connection, viewer: Viewer) -> str:
        """Return what a viewer is called where it is spoken of."""
        if viewer.participant_id is None:
            return "an operator"
        names = await memories.known_names(conn, self.access.org_id, [viewer.participant_id])
        return safe_name(names.get(viewer.participant_id, "")) or "the viewer"


def _check_reply(agent: Viewer, trigger: Message, reply: Message) -> None:
    if not agent.is_own(reply.author_id):
        raise BadInput("reply", "is not the agent's own")
    if agent.is_own(trigger.author_id):
        raise BadInput("trigger", "is the agent's own")
    for what, message in (("trigger", trigger), ("reply", reply)):
        if message.kind not in {"message", "whisper"}:
            raise BadInput(what, "is nothing that anybody said")
        if message.redacted_at is not None:
            raise BadInput(what, "was removed")
