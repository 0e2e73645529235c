"""Agents: their memories, their relationships, and what is recorded when they answer."""

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
from roomlore.db import agents, erasure_guard, injections, memories, work_queue
from roomlore.db.agents import ExperienceFilter
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import ParticipantId
from roomlore.domain.phrases import reject_unknown_keywords
from roomlore.domain.records import Memory, MemoryKind, Message, Right, Viewer
from roomlore.domain.rendering import safe_name
from roomlore.domain.words import LAST
from roomlore.operations.access import Access, AuditedRead, check_limit, viewer_of
from roomlore.operations.destination import ReplyTarget, audit_action_for, reply_target
from roomlore.operations.registry import Budget, Limit, Share, Text, operation
from roomlore.search import lookup

#: The kinds of memories that agents make of their own experience.
EXPERIENCE_KINDS: tuple[MemoryKind, ...] = ("insight", "learning", "interaction", "observation")
#: The memory section of a context uses at most this fraction (1/4) of the context's budget.
CONTEXT_SHARE = 4

LOG = logging.getLogger(__name__)


class AgentMemoryOptions(TypedDict, total=False):
    """Filters for the memories of an agent.

    Attributes:
        kinds: Only memories of this kind.
        tags: Only memories with one of these tags.
        task: Only memories of this task.
        topic: Only memories that share a word with this text, or are important; those that share a word come first.
        present: Only memories that involve this person: a name, account or id.
        newest: Newest first. By default the most important and most recent come first.
    """

    kinds: Sequence[MemoryKind]
    tags: Sequence[str]
    task: str | None
    topic: Text | None
    present: Sequence[str]
    newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents of an org.

    A room, a participant or a message is named by name, account, external id or id. Every method raises NotFound if the
    caller sees nothing by that name. It raises BadInput if the name is ambiguous or an argument is invalid, and
    NotAllowed if the caller's role does not allow the call.
    """

    access: Access
    section_cache: SectionCache
    #: Memory sections are built and logged, but not added to contexts.
    is_shadow: bool = False

    @operation("GET", "/agents/{agent}/reader", name="find_reader")
    async def reader(self, agent: str) -> Viewer:
        """Return an agent as a viewer. Only operators may name another agent."""
        caller = self.access.principal
        async with self.access.resolving("read as another") as conn:
            participant_id = await lookup.participant(conn, self.access.org_id, agent)
        if caller.is_own(participant_id):
            return caller
        await self.access.check("administer", "read as another")
        return await viewer_of(self.access.db, self.access.org_id, participant_id)

    @operation("POST", "/agents/{agent}/memories", name="find_agent_memories", replay="read")
    async def memories(
        self, viewer: Viewer, agent: str, *, limit: Limit = 50, **options: Unpack[AgentMemoryOptions]
    ) -> list[Memory]:
        """Return the active memories of an agent's own experience that the viewer may see."""
        reject_unknown_keywords("agents.memories", options, AgentMemoryOptions)
        check_limit(limit)
        present = options.get("present", ())
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            agent_ids = await self._agent(reading.conn, agent)
            filters = ExperienceFilter(
                kinds=options.get("kinds") or None,
                tags=options.get("tags") or None,
                task_id=options.get("task"),
                topic=options.get("topic"),
                people=await self._accounts(reading.conn, present) if present else None,
                is_newest_first=options.get("newest", False),
            )
            return await self._recall(reading, agent_ids, filters, limit=limit)

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
        """Return an agent's experience for a conversation, by kind.

        Args:
            viewer: The viewer. The result holds only what this viewer may see.
            agent: Name, account or id.
            topic: The topic of the conversation, in plain words.
            present: Only interactions with these participants. Default: with all participants.
            limit: The maximum number of memories of each kind.
        """
        check_limit(limit)
        now = datetime.now(UTC)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            agent_ids = await self._agent(reading.conn, agent)
            people = await self._accounts(reading.conn, present) if present else None
            return {
                kind: await self._recall(
                    reading,
                    agent_ids,
                    for_conversation(kind, topic=topic, people=people, at=now),
                    limit=limit,
                )
                for kind in EXPERIENCE_KINDS
            }

    @operation("GET", "/agents/{agent}/relationships", name="list_relationships")
    async def relationships(
        self, viewer: Viewer, agent: str, *, present: Sequence[str] = ()
    ) -> list[Relationship]:
        """Return an agent's relationships with the reasons, most trusted first.

        If `present` is given, only the relationships with these participants are returned. Only the agent itself and
        operators see an agent's relationships.
        """
        now = datetime.now(UTC)
        async with self.access.reading(viewer, "list relationships") as reading:
            conn, org_id = reading.conn, self.access.org_id
            agent_ids = await self._agent(conn, agent)
            if not viewer.is_operator and not any(map(viewer.is_own, agent_ids)):
                raise NotAllowed("an agent's relationships are for itself and operators")
            people = await self._accounts(conn, present) if present else None
            interactions = await agents.interactions(
                conn, org_id, agent_ids, people=people, at=now, half_life=HALF_LIFE
            )
            reading.record_shown(row.id for row in interactions)
        found = [relationship(row) for row in interactions if row.id not in agent_ids]
        return sorted(found, key=lambda row: (-row.trust, row.name, row.participant_id))

    @operation(
        "PUT",
        "/agents/{agent}/relationships/{participant}",
        replay="whole",
        is_repeatable=True,
        result_key="stated_at",
    )
    async def set_trust(self, agent: str, participant: str, trust: Share) -> datetime:
        """State how far an agent trusts somebody, and return the time. The computed trust then starts from this value.

        Only the agent itself and operators may do this. The statement holds for all accounts of the person, and replaces
        an earlier one.

        Args:
            agent: Name, account or id.
            participant: Name, account or id of the person or agent that is trusted.
            trust: From 0 for no trust to 1 for full trust.
        """
        if not 0 <= trust <= 1:
            raise BadInput("trust", "must be from 0 to 1")
        agent_ids, people = await self._pair("set trust", agent, participant)
        org_id, caller, now = self.access.org_id, self.access.principal, datetime.now(UTC)

        async def store(conn: Connection) -> tuple[datetime, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            is_stored = await agents.state_trust(
                conn,
                org_id,
                agent_id=agent_ids[0],
                participant_id=people[0],
                agent_ids=agent_ids,
                participant_ids=people,
                trust=trust,
                at=now,
                by=caller.participant_id,
            )
            if not is_stored:
                raise NotFound("participant", participant)
            return now, [agent_ids[0], people[0]]

        return await self.access.change(self._right_of_trust, "set trust", store)

    @operation(
        "DELETE",
        "/agents/{agent}/relationships/{participant}",
        replay="whole",
        is_repeatable=True,
        result_key="withdrawn",
    )
    async def withdraw_trust(self, agent: str, participant: str) -> int:
        """Remove the stated trust of an agent in somebody, and return how many statements were removed.

        The trust is then computed as if none had been stated. Only the agent itself and operators may do this.
        """
        agent_ids, people = await self._pair("withdraw trust", agent, participant)

        async def remove(conn: Connection) -> tuple[int, Sequence[UUID]]:
            withdrawn = await agents.withdraw_trust(conn, self.access.org_id, agent_ids, people)
            return withdrawn, [agent_ids[0], people[0]]

        return await self.access.change(self._right_of_trust, "withdraw trust", remove)

    @operation("POST", "/rooms/{room}/memory-section", name="build_memory_section", replay="read")
    async def memory_section(
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
        """Return the memories that an agent should read before it answers a message.

        Unless `private` is set, the section holds only what everybody in the room may read. If the trigger is a
        whisper, it holds only what all readers of the whisper may read.

        Args:
            viewer: The agent.
            room: The room to answer in.
            trigger: The message to answer. Default: the newest message that everybody in the room may read.
            topic: The topic. Default: the label of the conversation.
            present: The participants. Default: the participants of the conversation.
            budget: The maximum number of tokens.
            private: Include everything that the agent may see. The section must then not be posted.

        Raises:
            BadInput: the viewer is not an agent, the budget is below 1, or some readers of the answer may not read the
                trigger.
        """
        if budget < 1:
            raise BadInput("budget", "must be at least 1 token")
        action = audit_action_for("memory block", private=private)
        async with self.access.reading(viewer, action, apply_restrictions=True) as reading:
            conn = reading.conn
            target = await reply_target(conn, viewer, room, trigger, private=private)
            key = await section_key_of(conn, target.viewer, target.trigger.room_id, target.trigger.id)
            if key is None:
                who = await self._display_name(conn, viewer)
                raise BadInput(who, "is no agent: only agents have memories of their own")
            key = replace(key, topic=key.topic if topic is None else topic)
            if present is not None:
                accounts = await self._accounts(conn, present)
                key = replace(key, present=frozenset(accounts) - key.agent_ids)
            section = await self._memory_section(reading, key, budget=budget)
        return replace(section, postable=target.postable)

    async def section_for_context(
        self, reading: AuditedRead, target: ReplyTarget, *, budget: int
    ) -> MemorySection | None:
        """Return the memory section of a context with this budget; None for non-agents and in shadow mode.

        In shadow mode, the ids of the memories that the section would hold are logged.
        """
        trigger = target.trigger
        key = await section_key_of(reading.conn, target.viewer, trigger.room_id, trigger.id)
        if key is None:
            return None
        share = min(budget // CONTEXT_SHARE, memory_section.DEFAULT_SECTION_BUDGET)
        if not self.is_shadow:
            section = await self._memory_section(reading, key, budget=share)
            return replace(section, postable=target.postable)
        section = await self.section_cache.section(reading.conn, key, budget=share, now=datetime.now(UTC))
        ids = " ".join(map(str, section.citations.values()))
        LOG.info("agent %s, message %s: %d tokens of %s", section.agent_id, trigger.id, section.tokens, ids)
        return None

    async def with_memory_section(
        self, reading: AuditedRead, context: Context, section: MemorySection
    ) -> Context:
        """Return a context with a memory section.

        The section omits memories that the context's messages already injected.
        """
        injected = [line.message.id for line in context.lines if line.message.kind == "context_injection"]
        delivered = await injections.delivered_by_messages(reading.conn, self.access.org_id, injected)
        return with_memory_section(context, without_injected(section, delivered))

    async def _memory_section(self, reading: AuditedRead, key: SectionKey, *, budget: int) -> MemorySection:
        section = await self.section_cache.section(reading.conn, key, budget=budget, now=datetime.now(UTC))
        reading.record_shown(section.citations.values())
        return section

    @operation("POST", "/rooms/{room}/decision", name="decide", replay="read")
    async def should_answer(
        self, viewer: Viewer, room: str, trigger: str = LAST, *, limits: ReplyPolicy = DEFAULT_POLICY
    ) -> Decision:
        """Return whether an agent should answer a message, and why. No language model is asked.

        The decision uses only messages that the agent and all readers of its answer may see.

        Args:
            viewer: The agent.
            room: The room of the message.
            trigger: The message. Default: the newest message that everybody in the room may read, or a newer whisper
                that the agent may read.
            limits: The reply policy.
        """
        async with self.access.reading(viewer, "should answer", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            message = (await reply_target(conn, viewer, room, trigger, includes_whispers=True)).trigger
            if not (await agents.reader_accounts(conn)).is_agent:
                who = await self._display_name(conn, viewer)
                raise BadInput(who, "is no agent: whether to answer is a question for agents")
            decision = decide(await load_situation(conn, org_id, message), policy=limits)
            reading.record_shown([*decision.reason.message_ids, *decision.reason.memory_ids])
        return decision

    @operation("POST", "/rooms/{room}/replies", replay="whole")
    async def record_reply(self, room: str, *, trigger: str, reply: str) -> None:
        """Record that the calling agent answered a message. A worker may later make a memory of the exchange.

        The record is durable, and recording it twice changes nothing.

        Args:
            room: The room of both messages.
            trigger: The message that was answered.
            reply: The answer. It must be stored already, and it must be the caller's own message.
        """
        org_id, caller = self.access.org_id, self.access.principal
        await self.access.check("remember" if caller.role == "agent" else "administer", "note reply")
        if caller.role != "agent":
            raise NotAllowed("only an agent has its answers remembered")
        async with self.access.resolving("note reply") as conn:
            room_id = await lookup.room(conn, org_id, room)
            question = await lookup.message(conn, org_id, trigger, room_id=room_id)
            answer = await lookup.message(conn, org_id, reply, room_id=room_id)
        _check_reply(caller, question, answer)

        async def note(conn: Connection) -> tuple[None, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            if await agents.enqueue_reply(conn, org_id, reply_id=answer.id, trigger_id=question.id):
                await work_queue.wake(conn, "interactions")
            return None, [question.id, answer.id]

        await self.access.change("remember", "note reply", note)

    @operation(
        "POST",
        "/rooms/{room}/reset-context",
        name="reset_room_context",
        replay="whole",
        result_key="compacted_at",
    )
    async def reset_context(self, room: str) -> datetime:
        """Allow memories that were injected before to be injected again for the agents of a room.

        Return the time of the reset.
        """
        await self.access.check("remember", "compact")
        org_id, now = self.access.org_id, datetime.now(UTC)
        async with self.access.resolving("compact") as conn:
            room_id = await lookup.room(conn, org_id, room)

        async def reset(conn: Connection) -> tuple[datetime, Sequence[UUID]]:
            await injections.reset_context(conn, org_id, room_id, at=now)
            return now, [room_id]

        return await self.access.change("remember", "compact", reset)

    @operation("PUT", "/rooms/{room}/injection", name="set_injection", replay="whole", is_repeatable=True)
    async def set_injection(self, room: str, *, on: bool) -> None:
        """Turn injected memories on or off for the agents of a room. For operators. They are on by default."""
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[None, Sequence[UUID]]:
            room_id = await lookup.room(conn, org_id, room)
            await injections.set_enabled(conn, org_id, room_id, is_enabled=on)
            return None, [room_id]

        await self.access.change("administer", "set injecting", change)

    @property
    def _right_of_trust(self) -> Right:
        return "administer" if self.access.principal.is_operator else "remember"

    async def _pair(
        self, action: str, agent: str, participant: str
    ) -> tuple[list[ParticipantId], list[ParticipantId]]:
        """Return the accounts of an agent and of somebody else.

        Raises:
            NotAllowed: the caller is neither the agent nor an operator.
        """
        await self.access.check(self._right_of_trust, action)
        async with self.access.resolving(action) as conn:
            agent_ids = await self._agent(conn, agent)
            if not any([await self.access.is_own(conn, one) for one in agent_ids]):
                raise NotAllowed("whom an agent trusts is for itself and operators to state")
            people = await self._accounts(conn, [participant])
            if set(people) & set(agent_ids):
                raise BadInput(f"participant {participant!r}", "is the agent itself")
        return agent_ids, people

    async def _agent(self, conn: Connection, word: str) -> list[ParticipantId]:
        accounts = await lookup.accounts(conn, self.access.org_id, word)
        if not all(account.kind == "agent" for account in accounts):
            raise BadInput(f"participant {word!r}", "is no agent: only agents have memories of their own")
        return [account.id for account in accounts]

    async def _accounts(self, conn: Connection, words: Sequence[str]) -> list[ParticipantId]:
        return [
            account.id for word in words for account in await lookup.accounts(conn, self.access.org_id, word)
        ]

    async def _recall(
        self,
        reading: AuditedRead,
        agent_ids: Collection[ParticipantId],
        filters: ExperienceFilter,
        *,
        limit: int,
    ) -> list[Memory]:
        found = await recall(
            reading.conn, self.access.org_id, agent_ids, filters, at=datetime.now(UTC), limit=limit
        )
        reading.record_shown(match.memory.id for match in found)
        return [match.memory for match in found]

    async def _display_name(self, conn: Connection, viewer: Viewer) -> str:
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
            raise BadInput(what, "is not a message or a whisper")
        if message.redacted_at is not None:
            raise BadInput(what, "was removed")
