"""Conversations: reading them, and correcting which messages belong to which.

A caller may change a conversation only if they see every message that the change involves, and if the change would show
them no further message.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, get_args
from uuid import UUID

from msgspec import Meta

from roomlore.conversations.erased_names import without_erased_names
from roomlore.db import conversations, disentanglement, erasure_guard, work_queue
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import ConversationId, MessageId, RoomId, uuid7
from roomlore.domain.records import AssignedMessage, Conversation, Message, Sensitivity, Viewer, field_values
from roomlore.domain.rendering import as_one_line
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.jobs.disentanglement import LABELLED, describe
from roomlore.operations.access import Access, check_limit
from roomlore.operations.history import History
from roomlore.operations.registry import NO_NUL, Limit, operation
from roomlore.search import lookup

#: In characters.
LONGEST_LABEL = 100
#: The maximum number of messages that one call splits off.
MOST_NAMED = 200
SENSITIVITIES = get_args(Sensitivity)
CHANGED = "was changed meanwhile; look at it and try again"
ENDED = "ended when somebody left the room; what was said before and after that stays apart"
SPOKEN = frozenset({"message", "whisper"})

#: The maximum length of a label before it is cleaned. Cleaning makes it shorter.
SentLabel = Annotated[str, Meta(max_length=10 * LONGEST_LABEL, pattern=NO_NUL)]
NamedMessages = Annotated[Sequence[str], Meta(min_length=1, max_length=MOST_NAMED)]

#: Makes a change. Returns the resulting conversation, and every conversation that lost or got messages.
MakeChange = Callable[[Connection], Awaitable[tuple[ConversationId, set[ConversationId]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScope:
    """The conversations and messages that a change involves, as the caller sees them."""

    room_id: RoomId
    conversation_ids: frozenset[ConversationId]
    messages: Sequence[Message]
    #: The time range that changes.
    since: datetime
    until: datetime
    #: Every message of these conversations.
    visible_ids: frozenset[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFound(Conversation):
    """A conversation, and whether new messages can still join it."""

    is_open: bool


def shown_conversation(conversation: Conversation) -> ConversationFound:
    """Return a conversation with its current state."""
    return ConversationFound(**field_values(conversation), is_open=conversation.is_open_at(datetime.now(UTC)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """The conversations of an org. You see a conversation if you may read every message in it.

    A conversation is named by its id, by the beginning of its id, or by `message:` and a message of the conversation. A
    message is named by its id or external id. Every method raises NotFound if the caller sees nothing by that name. It
    raises BadInput if the name is ambiguous or an argument is invalid, and NotAllowed if the caller may not change
    conversations. Only operators move messages into or out of a sensitive conversation.
    """

    access: Access

    @operation("GET", "/conversations", name="list_conversations")
    async def all(self, viewer: Viewer, room: str | None = None, *, limit: Limit = 50) -> list[Conversation]:
        """Return the conversations that the viewer may see, in one room or everywhere, newest first."""
        check_limit(limit)
        async with self.access.reading(viewer, "list conversations") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            found = await conversations.newest(conn, org_id, room_id, limit=limit)
            reading.record_shown([] if room_id is None else [room_id])
            reading.record_shown(conversation.id for conversation in found)
        return found

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: lookup.PositionLike = None
    ) -> tuple[Conversation, list[AssignedMessage]]:
        """Return a conversation and its newest messages, or the messages before a given message, oldest first.

        The result holds fewer messages than `limit` if they are very long.
        """
        history = History(access=self.access)
        conversation, page = await history.conversation(viewer, word, limit=limit, before=before)
        return conversation, list(page.items[::-1])

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: lookup.PositionLike = None
    ) -> list[AssignedMessage]:
        """Return the newest messages of a room, or the messages before a given message, oldest first.

        Each message comes with its parent and its conversation, if the viewer may see them. The result holds fewer
        messages than `limit` if they are very long.
        """
        page = await History(access=self.access).timeline(viewer, room, limit=limit, before=before)
        return list(page.items[::-1])

    @operation("POST", "/conversations/move", name="move_message", replay="conversation")
    async def move(self, message: str, to: str) -> Conversation:
        """Move a message and its replies into another conversation of the room, and return that conversation.

        The message and its replies then stay there. Replies that are in another conversation stay where they are.

        Raises:
            BadInput: the conversation is in another room or has another audience, or the message cannot be in a
                conversation (a notice, injected, erased or not assigned yet), or somebody left the room in between.
        """
        async with self._resolving("move message") as conn:
            target = await self._resolve(conn, to)
            moved = await self._message(conn, message, near=target.room_id)
            scope = await self._scope_of(conn, [target], [moved])

        async def change(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            org_id = self.access.org_id
            sources = await self._source_conversations(conn, scope, beside=target.id)
            await conversations.pin(conn, org_id, [moved.id], to=target.id)
            return target.id, sources | await disentanglement.assign_replies(
                conn, org_id, [moved.id], out_of=sources
            )

        return await self._change("move message", scope, change)

    @operation(
        "POST",
        "/conversations/split",
        name="split_conversation",
        replay="conversation",
    )
    async def split(
        self, messages: NamedMessages, label: SentLabel = "", *, room: str | None = None
    ) -> Conversation:
        """Make a new conversation of messages of one room and their replies, and return it.

        Args:
            messages: The messages.
            label: The label. Without a label, one is chosen as for other conversations.
            room: Search the messages in this room first.

        Raises:
            BadInput: the messages are in several rooms or have several audiences, one cannot be in a conversation (a
                notice, injected, erased or not assigned yet), somebody left the room in between, or the label is too
                long.
        """
        name, new_id = _clean_label(label), ConversationId(uuid7())
        if not 1 <= len(messages) <= MOST_NAMED:
            raise BadInput("messages", f"name at least one and at most {MOST_NAMED:,}")
        async with self._resolving("split conversation") as conn:
            room_id = None if room is None else await lookup.room(conn, self.access.org_id, room)
            found = [await self._message(conn, word, near=room_id) for word in messages]
            scope = await self._scope_of(conn, [], found)

        async def change(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            org_id, ids = self.access.org_id, [message.id for message in scope.messages]
            sources = await self._source_conversations(conn, scope)
            await conversations.open_manually(conn, org_id, new_id, scope.room_id, label=name, out_of=sources)
            await conversations.pin(conn, org_id, ids, to=new_id)
            return new_id, sources | await disentanglement.assign_replies(conn, org_id, ids, out_of=sources)

        return await self._change("split conversation", scope, change)

    @operation(
        "POST",
        "/conversations/{conversation}/merge",
        name="merge_conversations",
        replay="conversation",
    )
    async def merge(self, conversation: str, other: str) -> Conversation:
        """Move all messages of the other conversation into this one, and return it.

        The other conversation is then gone.

        Raises:
            BadInput: both are the same, they differ in room or audience, or somebody left the room in between.
        """
        async with self._resolving("merge conversations") as conn:
            target, source = await self._resolve(conn, conversation), await self._resolve(conn, other)
            if target.id == source.id:
                raise BadInput(f"conversation {other!r}", "is the one it is to be merged with")
            scope = await self._scope_of(conn, [source, target], [])

        async def change(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            org_id = self.access.org_id
            await self._check_same_audience(conn, [], [target.id, source.id])
            # All messages are pinned, so that later assignments keep the conversation together.
            await conversations.pin_all(conn, org_id, [source.id, target.id], to=target.id)
            return target.id, {source.id}

        return await self._change("merge conversations", scope, change)

    @operation(
        "PUT",
        "/conversations/{conversation}/label",
        name="rename_conversation",
        replay="conversation",
        is_repeatable=True,
    )
    async def rename(self, conversation: str, label: SentLabel) -> Conversation:
        """Set the label of a conversation and return the conversation. An empty label restores the automatic label."""
        name = _clean_label(label)

        async def write(conn: Connection, conversation_id: ConversationId) -> None:
            await conversations.rename(conn, self.access.org_id, conversation_id, label=name)

        return await self._change_one("rename conversation", conversation, write)

    @operation(
        "PUT",
        "/conversations/{conversation}/sensitivity",
        name="mark_conversation",
        replay="conversation",
        is_repeatable=True,
    )
    async def set_sensitivity(self, conversation: str, sensitivity: Sensitivity) -> Conversation:
        """Set the sensitivity of a conversation and return the conversation.

        Operators and everybody who wrote in the conversation may do this. If an operator set the sensitivity, only an
        operator may change it. Everybody who wrote in the conversation before still sees it.
        """
        if sensitivity not in SENSITIVITIES:
            raise BadInput(f"sensitivity {sensitivity!r}", f"must be one of {', '.join(SENSITIVITIES)}")
        org_id, caller = self.access.org_id, self.access.principal

        async def write(conn: Connection, conversation_id: ConversationId) -> None:
            if not caller.is_operator:
                await self._check_may_mark(conn, conversation_id)
            await conversations.set_sensitivity(
                conn, org_id, conversation_id, sensitivity=sensitivity, by_operator=caller.is_operator
            )

        return await self._change_one("mark conversation", conversation, write)

    @operation(
        "POST",
        "/conversations/{conversation}/close",
        name="close_conversation",
        replay="conversation",
    )
    async def close(self, conversation: str) -> Conversation:
        """Close a conversation and return it. A later message in the conversation opens it again."""

        async def write(conn: Connection, conversation_id: ConversationId) -> None:
            await conversations.close(conn, self.access.org_id, conversation_id)

        return await self._change_one("close conversation", conversation, write)

    @asynccontextmanager
    async def _resolving(self, action: str) -> AsyncGenerator[Connection]:
        await self.access.check("arrange", action)
        async with self.access.resolving(action) as conn:
            yield conn

    async def _resolve(self, conn: Connection, word: str) -> Conversation:
        conversation_id = await lookup.conversation(conn, self.access.org_id, word)
        found = await conversations.by_id(conn, self.access.org_id, [conversation_id])
        if not found:
            raise NotFound("conversation", word)
        return found[conversation_id]

    async def _message(self, conn: Connection, word: str, *, near: RoomId | None) -> Message:
        """Return a message that can be in a conversation. Search the room `near` before all other rooms."""
        org_id = self.access.org_id
        try:
            message = await lookup.message(conn, org_id, word, room_id=near)
        except NotFound:
            message = await lookup.message(conn, org_id, word, room_id=None)
        if message.kind not in SPOKEN:
            raise BadInput(f"message {word!r}", "notices and injected context are in no conversation")
        if message.erased_at is not None:
            raise BadInput(f"message {word!r}", "was erased")
        return message

    async def _scope_of(
        self, conn: Connection, named: Sequence[Conversation], messages: Sequence[Message]
    ) -> ChangeScope:
        """Return the scope of a change.

        The change involves the `named` conversations and the conversations of `messages`.
        """
        org_id, room_id = self.access.org_id, (*named, *messages)[0].room_id
        if any(item.room_id != room_id for item in (*named, *messages)):
            raise BadInput("conversation", "is of one room, and these are of several")
        assigned = await conversations.room_assignments(conn, org_id, room_id, messages)
        for message in messages:
            if message.id not in assigned:
                raise BadInput(
                    f"message {message.external_id!r}",
                    "not disentangled yet, or not all of its conversation is yours to see; try again in a moment",
                )
        ids = {conversation.id for conversation in named} | set(assigned.values())
        times = [message.sent_at for message in messages] or [named[0].opened_at, named[0].last_at]
        return ChangeScope(
            room_id=room_id,
            conversation_ids=frozenset(ids),
            messages=messages,
            since=min(times),
            until=max(times),
            visible_ids=frozenset(await conversations.message_ids(conn, org_id, ids)),
        )

    async def _source_conversations(
        self, conn: Connection, scope: ChangeScope, *, beside: ConversationId | None = None
    ) -> set[ConversationId]:
        """Return the conversations from which a change takes messages.

        Raise BadInput unless these messages and the conversation `beside` have the same audience.
        """
        ids = [message.id for message in scope.messages]
        states = await conversations.message_states(conn, self.access.org_id, ids)
        sources = {state.conversation_id for state in states.values() if not state.is_erased}
        if len(states) < len(set(ids)) or not sources <= scope.conversation_ids:
            raise BadInput("message", CHANGED)
        await self._check_same_audience(conn, ids, [] if beside is None else [beside])
        return {source for source in sources if source is not None}

    async def _check_same_audience(
        self, conn: Connection, ids: Sequence[MessageId], named: Sequence[ConversationId]
    ) -> None:
        org_id = self.access.org_id
        inside = [await conversations.message_ids(conn, org_id, [key]) for key in named]
        if not all(inside):
            raise BadInput("conversation", CHANGED)
        # One message stands for its conversation, because all messages of a conversation have the same audience.
        sample = [*ids, *(min(held) for held in inside)]
        states = (await conversations.message_states(conn, org_id, sample)).values()
        audiences = {
            (state.kind, None if state.recipients is None else tuple(state.recipients)) for state in states
        }
        if len(audiences) > 1:
            raise BadInput("conversation", "is of one audience, and these are heard by different people")

    async def _check_may_mark(self, conn: Connection, conversation_id: ConversationId) -> None:
        own = await self.access.own_accounts(conn)
        rights = await conversations.sensitivity_rights(conn, self.access.org_id, conversation_id, set(own))
        if rights is None or not rights.has_spoken:
            raise NotAllowed("only operators and those who spoke in a conversation say how sensitive it is")
        if rights.is_operators:
            raise NotAllowed("an operator said how sensitive it is, and only an operator changes that")

    async def _check_sensitive(self, conn: Connection, ids: Collection[ConversationId]) -> None:
        """Refuse to move messages into or out of a sensitive conversation, unless the caller is an operator.

        Otherwise somebody could hide a message from people who can see it.
        """
        if self.access.principal.is_operator or len(ids) == 1:
            return
        found = await conversations.by_id(conn, self.access.org_id, ids)
        if any(conversation.sensitivity != "normal" for conversation in found.values()):
            raise NotAllowed(
                "only operators take messages into or out of a sensitive conversation; ask one to"
            )

    async def _change_one(
        self, action: str, word: str, write: Callable[[Connection, ConversationId], Awaitable[None]]
    ) -> Conversation:
        """Change one conversation without moving messages."""
        async with self._resolving(action) as conn:
            conversation = await self._resolve(conn, word)
            scope = await self._scope_of(conn, [conversation], [])

        async def change(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            await write(conn, conversation.id)
            return conversation.id, set()

        return await self._change(action, scope, change)

    async def _change(self, action: str, scope: ChangeScope, make: MakeChange) -> Conversation:
        """Make a change, update labels and sensitivity, and return the resulting conversation."""
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[Conversation, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            await disentanglement.mark_dirty(
                conn, org_id, scope.room_id, since=scope.since, until=scope.until
            )
            result, touched = await make(conn)
            await self._check_sensitive(conn, scope.conversation_ids | {result})
            touched |= {result}
            others = touched - {result}
            await conversations.inherit_sensitivity(conn, org_id, result, others=others)
            await conversations.clear_labels(conn, org_id, others)
            await disentanglement.refresh(conn, org_id, touched, changed=touched)
            if others and await disentanglement.cross_ends(conn, org_id, [result]):
                raise BadInput("conversation", ENDED)
            await self._update_labels(conn, touched)
            conversation = await self._visible_result(conn, result, scope)
            await work_queue.wake(conn, "disentangle")
            return conversation, [result, *sorted(others), *(message.id for message in scope.messages)]

        return await self.access.change("arrange", action, change)

    async def _update_labels(self, conn: Connection, ids: Collection[ConversationId]) -> None:
        """Make new labels, so that no label describes messages that were moved away."""
        texts = await disentanglement.conversation_texts(conn, self.access.org_id, ids, limit=LABELLED)
        texts = await without_erased_names(conn, self.access.org_id, texts)
        described = await asyncio.to_thread(describe, texts, [])
        await disentanglement.describe(conn, self.access.org_id, described)

    async def _visible_result(
        self, conn: Connection, result: ConversationId, scope: ChangeScope
    ) -> Conversation:
        """Return the resulting conversation. Raise BadInput if it is gone or would show the caller further messages."""
        conversation = (await conversations.by_id(conn, self.access.org_id, [result])).get(result)
        held = await conversations.message_ids(conn, self.access.org_id, [result])
        if conversation is None or not (self.access.principal.is_operator or held <= scope.visible_ids):
            raise BadInput("conversation", CHANGED)
        return conversation


def _clean_label(label: str) -> str:
    """Return a label as one printable line without secrets."""
    # Remove secrets last: hidden characters inside a secret are gone by then.
    text, _ = remove_secrets(as_one_line(storable(label)))
    if len(text) > LONGEST_LABEL:
        raise BadInput("label", f"longer than {LONGEST_LABEL} characters")
    if bool(text) != bool(label.strip()) or not text.isprintable():
        raise BadInput("label", "must be printable")
    return text
