"""The calls of a bot's memory manager, on top of Roomlore.

A bot that stored its messages in `v2_chat_history` can store them in Roomlore without other changes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NotRequired, Protocol, TypedDict, Unpack

from roomlore.context.memory_section import MemorySection
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.domain.words import LAST
from roomlore.importers.bot_messages import channel_in_user, room_of
from roomlore.ingest.accept import IngestResult
from roomlore.legacy.chat_history import ChatHistoryReader

#: The answer of a bot is this much later than the message of the person.
_PAUSE = timedelta(milliseconds=1)
#: The kinds of messages that are said.
_SPOKEN = frozenset({"message", "whisper"})


class HistoryEntry(TypedDict):
    """A message of a conversation with a bot."""

    #: `bot`: the bot whose history it is. `user`: everybody else, also other bots.
    role: Literal["user", "bot"]
    content: str
    #: In ISO 8601.
    timestamp: str
    #: The id on the platform.
    message_id: str
    author_name: str
    author_is_bot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What an agent remembers for a task."""

    #: The memories of the task.
    memories: Sequence[Memory]
    #: The most important insights and learnings of the agent, of any task.
    insights: Sequence[Memory]
    learnings: Sequence[Memory]
    #: The memories for the conversation in the given channel; None without a channel.
    section: MemorySection | None


class _MessageCall(TypedDict):
    """The arguments of a call that stores a message."""

    user_id: str
    character_name: str
    role: str
    content: str
    user_name: NotRequired[str | None]
    channel_id: NotRequired[str | None]
    message_id: NotRequired[str | None]
    metadata: NotRequired[Mapping[str, Any] | None]
    author_id: NotRequired[str | None]
    author_is_bot: NotRequired[bool | None]
    reply_to_msg_id: NotRequired[str | None]
    timestamp: NotRequired[datetime | None]


class RelationshipLike(Protocol):
    """An agent's relationship with somebody."""

    @property
    def participant_id(self) -> ParticipantId:
        """The other participant."""
        ...

    @property
    def trust(self) -> float:
        """The computed trust."""
        ...


class AgentStore(Protocol):
    """The agents of an `App` or a `Client`."""

    async def memories(
        self,
        viewer: Viewer,
        agent: str,
        *,
        limit: int = 50,
        kinds: Sequence[MemoryKind] = (),
        tags: Sequence[str] = (),
        task: str | None = None,
        topic: str | None = None,
    ) -> list[Memory]:
        """Return the memories of an agent."""
        ...

    async def memory_section(self, viewer: Viewer, room: str, trigger: str = LAST) -> MemorySection:
        """Return the memories that an agent should read before it answers in a room."""
        ...

    async def relationships(
        self, viewer: Viewer, agent: str, *, present: Sequence[str] = ()
    ) -> Sequence[RelationshipLike]:
        """Return the relationships of an agent."""
        ...

    async def set_trust(self, agent: str, participant: str, trust: float) -> datetime:
        """State how far an agent trusts somebody, and return the time."""
        ...


class FactStore(Protocol):
    """The memories of an `App` or a `Client`."""

    async def remember(
        self,
        content: str,
        *,
        kind: MemoryKind = "fact",
        confidence: float = 1.0,
        sources: Sequence[str] = (),
        room: str | None = None,
        about: Sequence[str] = (),
    ) -> Memory:
        """Store a memory and return it."""
        ...


class RoomStore(Protocol):
    """An `App` or a `Client`."""

    @property
    def principal(self) -> Viewer:
        """The caller."""
        ...

    @property
    def agents(self) -> AgentStore:
        """The agents."""
        ...

    @property
    def memories(self) -> FactStore:
        """The memories."""
        ...

    def impersonate(self, viewer: Viewer) -> "RoomStore":
        """Return the same rooms on behalf of another viewer."""
        ...

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer for an account."""
        ...

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id."""
        ...

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store messages in one transaction."""
        ...

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int = 50, apply_restrictions: bool = False
    ) -> list[Message]:
        """Return the newest messages of a room, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryManager:
    """Stores and reads the messages, facts and trust of bots in Roomlore.

    It derives the author of a message if the caller does not state it. With the rights of an operator, each call acts as
    the bot that it names. With the key of a bot, all calls act as this bot, which cannot store messages of others.
    """

    rooms: RoomStore
    #: The account of each character on the platform. A character without an account has its name as the account.
    characters: Mapping[str, str] = field(default_factory=dict[str, str])
    #: The bot of a call that names none.
    character: str = ""

    async def add_message(  # noqa: PLR0913, PLR0917  the arguments of the call that this one replaces
        self,
        user_id: str,
        character_name: str,
        role: str,
        content: str,
        user_name: str | None = None,
        channel_id: str | None = None,
        message_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        author_id: str | None = None,
        author_is_bot: bool | None = None,  # noqa: FBT001  as above
        reply_to_msg_id: str | None = None,
        *,
        timestamp: datetime | None = None,
    ) -> MessageId:
        """Store a message and return its id. Storing the same message of the platform again changes nothing.

        Args:
            user_id: The person that the bot talks with, who need not be the author.
            character_name: The name of the bot.
            role: Who speaks: "human" or "ai".
            content: The text.
            user_name: The name of the person.
            channel_id: The channel. Without a channel, the message is in the direct conversation of both.
            message_id: The platform's id of the message.
            metadata: More facts about the message. Only operators see them.
            author_id: The account that wrote the message. Default: the person or the bot, depending on the role.
            author_is_bot: Whether this account is a bot. Default: depending on the role.
            reply_to_msg_id: The platform's id of the message that this one answers.
            timestamp: The time of the message. Default: now.

        Raises:
            BadInput: the message has no text or an unknown role, or its author or room cannot be known.
        """
        return await self.rooms.ingest(
            self._message(
                user_id=user_id,
                character_name=character_name,
                role=role,
                content=content,
                user_name=user_name,
                channel_id=channel_id,
                message_id=message_id,
                metadata=metadata,
                author_id=author_id,
                author_is_bot=author_is_bot,
                reply_to_msg_id=reply_to_msg_id,
                timestamp=timestamp,
            )
        )

    async def store_conversation(  # noqa: PLR0913, PLR0917  as above
        self,
        user_id: str,
        user_message: str,
        bot_response: str,
        channel_id: str | None = None,
        pre_analyzed_emotion_data: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        character_name: str | None = None,
        user_name: str | None = None,
        message_id: str | None = None,
        response_id: str | None = None,
        timestamp: datetime | None = None,
    ) -> tuple[MessageId, MessageId]:
        """Store a message of a person and the bot's answer, both or none, and return their ids.

        They are two messages, each with its own author, and the second one is a reply to the first one.

        Args:
            user_id: The person.
            user_message: What the person wrote.
            bot_response: What the bot answered.
            channel_id: The channel. Without a channel, the messages are in the direct conversation of both.
            pre_analyzed_emotion_data: Facts about the emotion of the person. They are stored with the metadata.
            metadata: More facts about the message of the person. Only operators see them.
            character_name: The name of the bot. Default: `character`.
            user_name: The name of the person.
            message_id: The platform's id of the message.
            response_id: The platform's id of the answer.
            timestamp: The time of the message. Default: now. The answer is a millisecond later.

        Raises:
            BadInput: a message has no text, or its author or room cannot be known.
        """
        moment = timestamp or utc_now()
        emotion = {"emotion_data": pre_analyzed_emotion_data} if pre_analyzed_emotion_data else {}
        call: _MessageCall = {
            "user_id": user_id,
            "character_name": self._named(character_name),
            "role": "human",
            "content": user_message,
            "channel_id": channel_id,
            "user_name": user_name,
            "message_id": message_id,
            "metadata": {**emotion, **(metadata or {})},
            "timestamp": moment,
        }
        asked = self._message(**call)
        said: _MessageCall = {
            **call,
            "role": "ai",
            "content": bot_response,
            "message_id": response_id,
            "metadata": None,
            "timestamp": moment + _PAUSE,
        }
        answer = self._message(**said)
        stored = await self.rooms.ingest_batch([asked, replace(answer, reply_to=asked.external_id)])
        if stored.skipped:
            raise BadInput("message", stored.skipped[0].reason)
        first, second = stored.message_ids
        return first, second

    async def get_conversation_history(
        self,
        user_id: str,
        limit: int = 50,
        character_name: str | None = None,
        channel_id: str | None = None,
    ) -> list[HistoryEntry]:
        """Return the newest messages of a channel, or of a direct conversation with a bot, oldest first.

        The list holds only what the bot may read and may use. An answer of the bot never comes first without its
        question: the list is then one longer than the limit. The list is empty if the bot has no such conversation.

        In a closed channel, the bot reads from its own first message on, or from when an operator made it a member.
        """
        character = self._named(character_name)
        room = room_of(channel=_text(channel_id) or "", bot=character, partner=str(user_id))
        try:
            rooms, viewer = await self._acting_as(character)
            found = await rooms.messages(viewer, room, limit=limit + 1, apply_restrictions=True)
        except NotFound:
            return []
        said = [one for one in found if one.kind in _SPOKEN and one.body]
        is_split = len(said) > limit and viewer.is_own(said[1].author_id) and said[1].reply_to == said[0].id
        shown = said if is_split else said[-limit:]
        return [_entry(message, viewer) for message in shown]

    async def save_facts(
        self,
        user_id: str,
        facts: Sequence[str | Mapping[str, Any]],
        character_name: str | None = None,
        is_bot: bool = False,  # noqa: FBT001, FBT002  as above
        *,
        channel_id: str | None = None,
        message_id: str | None = None,
    ) -> list[MemoryId]:
        """Store what a bot learned about a person, and return the ids of the memories. An equal fact is stored once.

        Args:
            user_id: The person whom the facts are about: who said them, and not always whom the bot talks with.
            facts: Each fact as a text; or as a mapping with `content`, or with `subject`, `predicate` and `object`; a
                mapping may have a `confidence` from 0 to 1.
            character_name: The bot that learned them. Default: `character`.
            is_bot: Whether the person is a bot. The bot may then be named as in `characters`.
            channel_id: The channel of the message.
            message_id: The message that states the facts, by the platform's id. Everybody who may read the message may
                then read the facts. Without a message, only the bot may.

        What a bot says about others counts half: the confidence of such a memory is half the confidence of the fact.

        Raises:
            BadInput: a fact has no text, or the user is a channel.
            NotFound: the bot does not know the person, the channel or the message.
        """
        person = self._person(user_id, is_bot=is_bot)
        stated = [_fact(one) for one in facts]
        rooms, _ = await self._acting_as(self._named(character_name))
        found = [
            await rooms.memories.remember(
                content,
                kind="fact",
                confidence=confidence,
                about=[person],
                sources=[str(message_id)] if message_id else [],
                room=_text(channel_id) if message_id else None,
            )
            for content, confidence in stated
        ]
        return [memory.id for memory in found]

    async def update_trust(
        self,
        user_id: str,
        character_name: str,
        trust: float,
        is_bot: bool = False,  # noqa: FBT001, FBT002  as above
    ) -> float:
        """State how far a bot trusts a person, and return the trust that is computed from it.

        Args:
            user_id: The person: the author of the message, and not always whom the bot talks with.
            character_name: The name of the bot.
            trust: From 0 for no trust to 1 for full trust.
            is_bot: Whether the person is a bot. The bot may then be named as in `characters`.

        Raises:
            BadInput: the trust is not from 0 to 1, or the user is a channel or the bot itself.
            NotFound: the bot does not know the person.
        """
        agent, person = self._account(character_name), self._person(user_id, is_bot=is_bot)
        rooms, viewer = await self._acting_as(character_name)
        await rooms.agents.set_trust(agent, person, trust)
        known = await rooms.agents.relationships(viewer, agent, present=[person])
        return known[0].trust if known else trust

    async def get_relevant_memories_for_task(
        self,
        agent_name: str,
        task_description: str,
        task_tags: Sequence[str] = (),
        limit: int = 10,
    ) -> list[Memory]:
        """Return the memories of an agent that may help with a task: first those with one of the tags.

        Then follow memories that share a word with the description, and important ones.
        """
        rooms, viewer = await self._acting_as(agent_name)
        agent = self._account(agent_name)
        tagged: list[Memory] = []
        if task_tags:
            tagged = await rooms.agents.memories(viewer, agent, tags=task_tags, limit=limit)
        on_topic = await rooms.agents.memories(viewer, agent, topic=task_description, limit=limit)
        by_id = {memory.id: memory for memory in (*tagged, *on_topic)}
        return list(by_id.values())[:limit]

    async def get_agent_context_for_task(
        self, agent_name: str, task_id: str, limit: int = 10, *, channel_id: str | None = None
    ) -> TaskContext:
        """Return what an agent remembers for a task.

        Args:
            agent_name: The name of the agent.
            task_id: The task.
            limit: The maximum number of memories, of insights and of learnings.
            channel_id: The channel in which the agent is about to answer.
        """
        rooms, viewer = await self._acting_as(agent_name)
        agent = self._account(agent_name)
        recall = rooms.agents.memories
        return TaskContext(
            memories=await recall(viewer, agent, task=task_id, limit=limit),
            insights=await recall(viewer, agent, kinds=["insight"], limit=limit),
            learnings=await recall(viewer, agent, kinds=["learning"], limit=limit),
            section=await rooms.agents.memory_section(viewer, str(channel_id)) if channel_id else None,
        )

    async def _acting_as(self, character: str) -> tuple[RoomStore, Viewer]:
        if not self.rooms.principal.is_operator:
            return self.rooms, self.rooms.principal
        viewer = await self.rooms.viewer(self._account(character))
        return self.rooms.impersonate(viewer), viewer

    def _named(self, character: str | None) -> str:
        name = character or self.character
        if not name:
            raise BadInput("character", "must be named")
        return name

    def _account(self, character: str) -> str:
        return self.characters.get(character, character)

    def _person(self, user_id: str, *, is_bot: bool) -> str:
        person = str(user_id)
        if channel_in_user(person):
            raise BadInput("user", "is a channel, and no person")
        return self._account(person) if is_bot else person

    def _message(self, **call: Unpack[_MessageCall]) -> IncomingMessage:
        texts = ("user_id", "character_name", "channel_id", "message_id", "user_name", "author_id")
        metadata = call.get("metadata")
        row = {
            **{name: _text(call.get(name)) for name in texts},
            "id": None,
            "role": call["role"],
            "content": call["content"],
            "timestamp": (call.get("timestamp") or utc_now()).isoformat(),
            "metadata": json.dumps(metadata, default=str) if metadata else None,
            "author_is_bot": "true" if call.get("author_is_bot") else None,
            "author_name": None,
            "reply_to_msg_id": _text(call.get("reply_to_msg_id")),
        }
        item = next(ChatHistoryReader(characters=self.characters).read(row))
        if not isinstance(item, IncomingMessage):
            raise BadInput("message", item.reason)
        return item


def _text(value: object) -> str | None:
    """Return an id as text, because callers also pass numbers."""
    return None if value is None or value == "" else str(value)


def _entry(message: Message, viewer: Viewer) -> HistoryEntry:
    return {
        "role": "bot" if viewer.is_own(message.author_id) else "user",
        "content": message.body,
        "timestamp": message.sent_at.isoformat(),
        "message_id": message.external_id,
        "author_name": message.author_name,
        "author_is_bot": message.author_kind == "agent",
    }


def _fact(fact: str | Mapping[str, Any]) -> tuple[str, float]:
    """Return the text and the confidence of a fact."""
    if isinstance(fact, str):
        return fact, 1.0
    text = fact.get("content")
    if text is None:
        parts = [fact.get(name) for name in ("subject", "predicate", "object")]
        if any(part is None for part in parts):
            raise BadInput("fact", "has neither a content nor a subject, a predicate and an object")
        subject, predicate, thing = map(str, parts)
        text = f"{subject} {predicate.replace('_', ' ').lower()} {thing}"
    confidence = fact.get("confidence")
    return str(text), 1.0 if confidence is None else float(confidence)
