"""Conversations: what was said in rooms by topic, as found, and as people put it right.

A change is made by somebody who sees all that it is about, and of what comes of it shows nothing that they did
not see before.
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
from roomlore.db import conversations, directory, disentanglement, erased, work_queue
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.fields import field_values
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId, uuid7
from roomlore.domain.records import AssignedMessage, Conversation, Message, Sensitivity, Viewer
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


async def set_sensitivity(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    sensitivity: Sensitivity,
    by: Viewer,
) -> None:
    """Say how sensitive a conversation is, on behalf of an operator or of somebody who has spoken in it.

    Raises:
        NotAllowed: the caller has not spoken in it, or an operator said otherwise.
    """
    if not by.is_operator:
        accounts = await directory.accounts(conn, org_id, by.participant_id)
        found = await conversations.sensitivity_rights(
            conn, org_id, conversation_id, {one.id for one in accounts}
        )
        if found is None or not found.has_spoken:
            raise NotAllowed("only operators and those who spoke in a conversation say how sensitive it is")
        if found.is_operators:
            raise NotAllowed("an operator said how sensitive it is, and only an operator changes that")
    await conversations.set_sensitivity(
        conn, org_id, conversation_id, sensitivity=sensitivity, by_operator=by.is_operator
    )


async def check_rearranging(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, by: Viewer
) -> None:
    """Refuse to take messages into or out of a sensitive conversation, unless an operator does.

    Whoever spoke with a message keeps seeing it: nobody else can hide it from them by putting it elsewhere.

    Raises:
        NotAllowed: the caller is no operator, and one of several conversations is sensitive.
    """
    if by.is_operator or len(ids) == 1:
        return
    found = await conversations.by_id(conn, org_id, ids)
    if any(one.sensitivity != "normal" for one in found.values()):
        raise NotAllowed("only operators take messages into or out of a sensitive conversation; ask one to")


def clean_label(label: str) -> str:
    """Return a label as it may be stored and shown: one line without secrets and without marks of ours.

    Raises:
        BadInput: it is too long, or cannot be printed.
    """
    # Secrets last: what is invisible in the midst of one is gone by then.
    text, _ = remove_secrets(as_one_line(storable(label)))
    if len(text) > LONGEST_LABEL:
        raise BadInput("label", f"longer than {LONGEST_LABEL} characters")
    if bool(text) != bool(label.strip()) or not text.isprintable():
        raise BadInput("label", "must be printable")
    return text


#: A label is a few words.
#: Of messages that one call makes a conversation of.
MOST_NAMED = 200
#: So begins a word that means the conversation of a message.
MESSAGE_PREFIX = "message:"
SENSITIVITIES = get_args(Sensitivity)
CHANGED = "was changed meanwhile; look at it and try again"
SPOKEN = frozenset({"message", "whisper"})

#: As sent; without spaces around it a label is shorter.
SentLabel = Annotated[str, Meta(max_length=10 * LONGEST_LABEL, pattern=NO_NUL)]
NamedMessages = Annotated[Sequence[str], Meta(min_length=1, max_length=MOST_NAMED)]

#: Makes a change and returns the conversation that comes of it, and every one that lost messages or got some.
MakeChange = Callable[[Connection], Awaitable[tuple[ConversationId, set[ConversationId]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScope:
    """What a change is about, as its caller sees it."""

    room_id: RoomId
    conversation_ids: frozenset[ConversationId]
    messages: Sequence[Message]
    #: From when to when something changes.
    since: datetime
    until: datetime
    #: Everything in these conversations.
    visible_ids: frozenset[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFound(Conversation):
    """A conversation, and whether somebody may still go on with it."""

    is_open: bool


def shown_conversation(one: Conversation) -> ConversationFound:
    """Return a conversation that says whether it is open now."""
    return ConversationFound(**field_values(one), is_open=one.is_open_at(datetime.now(UTC)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """The conversations of an org, each seen by those who may read everything said in it."""

    access: Access

    @operation("GET", "/conversations", name="list_conversations", shows=shown_conversation)
    async def all(self, viewer: Viewer, room: str | None = None, *, limit: Limit = 50) -> list[Conversation]:
        """Return the conversations the viewer may see, in one room or everywhere, newest first.

        Raises:
            BadInput: nothing is wanted, or several rooms are meant.
            NotFound: there is no such room, or the viewer may not see it.
        """
        check_limit(limit)
        async with self.access.reading(viewer, "list conversations") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            found = await conversations.newest(conn, org_id, room_id, limit=limit)
            reading.record_shown([] if room_id is None else [room_id])
            reading.record_shown(one.id for one in found)
        return found

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: lookup.PositionLike = None
    ) -> tuple[Conversation, list[AssignedMessage]]:
        """Return a conversation and the newest of what was said in it, or what was before a message, oldest first.

        Args:
            viewer: For whom.
            word: Its id or the beginning of one, or `message:` and an id or external id of a message in it.
            limit: How many messages; fewer come where they are very long.
            before: Only what was said before this message.

        Raises:
            BadInput: nothing is wanted, or several are meant.
            NotFound: there is no such conversation or message, or the viewer may not see all of it.
        """
        found, said = await History(access=self.access).conversation(viewer, word, limit=limit, before=before)
        return found, list(said.items[::-1])

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: lookup.PositionLike = None
    ) -> list[AssignedMessage]:
        """Return the newest messages of a room, or those before one of them, oldest first; fewer where they are very long.

        Each comes with the message it answers and the conversation it is in, as far as the viewer may see
        these.

        Raises:
            BadInput: nothing is wanted, or several are meant.
            NotFound: there is no such room or message, or the viewer may not see it.
        """
        found = await History(access=self.access).timeline(viewer, room, limit=limit, before=before)
        return list(found.items[::-1])

    # Changes

    @operation(
        "POST", "/conversations/move", name="move_message", replay="conversation", shows=shown_conversation
    )
    async def move(self, message: str, to: str) -> Conversation:
        """Put a message, and with it what answers it, into another conversation of its room; return that.

        What answers it goes along as far as no person placed it; what a person placed stays there from then on.

        Args:
            message: Its id or external id.
            to: A conversation's id or the beginning of one, or `message:` and a message in it.

        Raises:
            BadInput: several are meant; the conversation is of another room or audience; the message is a
                notice, injected, erased, or not untangled yet.
            NotFound: there is no such message or conversation, or the caller may not see it.
            NotAllowed: the caller may not arrange conversations, or is no operator and one of them is sensitive.
        """
        async with self._resolving("move message") as conn:
            target = await self._resolve(conn, to)
            said = await self._message(conn, message, near=target.room_id)
            looked = await self._scope_of(conn, [target], [said])

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            sources = await self._source_conversations(conn, looked, beside=target.id)
            await conversations.pin(conn, self.access.org_id, [said.id], to=target.id)
            return target.id, sources | await disentanglement.assign_replies(
                conn, self.access.org_id, [said.id]
            )

        return await self._change("move message", looked, carry)

    @operation(
        "POST",
        "/conversations/split",
        name="split_conversation",
        replay="conversation",
        shows=shown_conversation,
    )
    async def split(
        self, messages: NamedMessages, label: SentLabel = "", *, room: str | None = None
    ) -> Conversation:
        """Make a conversation of messages of one room, each with what answers it, and return it.

        Args:
            messages: Their ids or external ids.
            label: What it is called; found like others by default.
            room: Where the messages are looked for; everywhere by default.

        Raises:
            BadInput: several are meant, or none; the messages are of several rooms or audiences; one is a
                notice, injected, erased, or not untangled yet; the label is too long.
            NotFound: there is no such message or room, or the caller may not see it or its conversation.
            NotAllowed: the caller may not arrange conversations, or is no operator and one of them is sensitive.
        """
        name, opened = clean_label(label), ConversationId(uuid7())
        if not 1 <= len(messages) <= MOST_NAMED:
            raise BadInput("messages", f"name at least one and at most {MOST_NAMED:,}")
        async with self._resolving("split conversation") as conn:
            room_id = None if room is None else await lookup.room(conn, self.access.org_id, room)
            said = [await self._message(conn, word, near=room_id) for word in messages]
            looked = await self._scope_of(conn, [], said)

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            org_id, ids = self.access.org_id, [one.id for one in looked.messages]
            sources = await self._source_conversations(conn, looked)
            await conversations.open_manually(
                conn, org_id, opened, looked.room_id, label=name, out_of=sources
            )
            await conversations.pin(conn, org_id, ids, to=opened)
            return opened, sources | await disentanglement.assign_replies(conn, org_id, ids)

        return await self._change("split conversation", looked, carry)

    @operation(
        "POST",
        "/conversations/{conversation}/merge",
        name="merge_conversations",
        replay="conversation",
        shows=shown_conversation,
    )
    async def merge(self, conversation: str, other: str) -> Conversation:
        """Put everything of the other conversation into the one, and return that; the other is gone.

        Raises:
            BadInput: several are meant, they are the same, or they are of different rooms or audiences.
            NotFound: there is no such conversation, or the caller may not see it.
            NotAllowed: the caller may not arrange conversations, or is no operator and one of them is sensitive.
        """
        async with self._resolving("merge conversations") as conn:
            kept, gone = await self._resolve(conn, conversation), await self._resolve(conn, other)
            if kept.id == gone.id:
                raise BadInput(f"conversation {other!r}", "is the one it is to be merged with")
            looked = await self._scope_of(conn, [gone, kept], [])

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            org_id = self.access.org_id
            await self._check_same_audience(conn, [], [kept.id, gone.id])
            openers = await conversations.roots(conn, org_id, gone.id)
            # Those of both: what is found later must not take either part elsewhere.
            held = await conversations.roots(conn, org_id, kept.id)
            await conversations.move_all(conn, org_id, gone.id, to=kept.id)
            await conversations.pin(conn, org_id, [*openers, *held], to=kept.id)
            return kept.id, {gone.id} | await disentanglement.assign_replies(conn, org_id, openers)

        return await self._change("merge conversations", looked, carry)

    @operation(
        "PUT",
        "/conversations/{conversation}/label",
        name="rename_conversation",
        replay="conversation",
        is_repeatable=True,
        shows=shown_conversation,
    )
    async def rename(self, conversation: str, label: SentLabel) -> Conversation:
        """Say what a conversation is called and return it; with an empty label it is called as found again.

        Raises:
            BadInput: several are meant, or the label is too long.
            NotFound: there is no such conversation, or the caller may not see it.
            NotAllowed: the caller's role does not let it arrange conversations.
        """
        name = clean_label(label)
        looked, found = await self._resolve_scope(conversation, "rename conversation")

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            await conversations.rename(conn, self.access.org_id, found, label=name)
            return found, set()

        return await self._change("rename conversation", looked, carry)

    @operation(
        "PUT",
        "/conversations/{conversation}/sensitivity",
        name="mark_conversation",
        replay="conversation",
        is_repeatable=True,
        shows=shown_conversation,
    )
    async def mark(self, conversation: str, sensitivity: Sensitivity) -> Conversation:
        """Say how sensitive a conversation is and return it.

        An operator may, and whoever has spoken in it. What an operator said, only an operator changes. Whoever has spoken
        in it goes on seeing it.

        Raises:
            BadInput: several are meant, or there is no such sensitivity.
            NotFound: there is no such conversation, or the caller may not see it.
            NotAllowed: the caller may not say so.
        """
        if sensitivity not in SENSITIVITIES:
            raise BadInput(f"sensitivity {sensitivity!r}", f"must be one of {', '.join(SENSITIVITIES)}")
        looked, found = await self._resolve_scope(conversation, "mark conversation")

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            await set_sensitivity(
                conn, self.access.org_id, found, sensitivity=sensitivity, by=self.access.principal
            )
            return found, set()

        return await self._change("mark conversation", looked, carry)

    @operation(
        "POST",
        "/conversations/{conversation}/close",
        name="close_conversation",
        replay="conversation",
        shows=shown_conversation,
    )
    async def close(self, conversation: str) -> Conversation:
        """Say that a conversation is over and return it; what is said in it later opens it again.

        Raises what `rename` raises.
        """
        looked, found = await self._resolve_scope(conversation, "close conversation")

        async def carry(conn: Connection) -> tuple[ConversationId, set[ConversationId]]:
            await conversations.close(conn, self.access.org_id, found)
            return found, set()

        return await self._change("close conversation", looked, carry)

    # How a change is made

    @asynccontextmanager
    async def _resolving(self, action: str) -> AsyncGenerator[Connection]:
        """Give a connection that sees what the caller sees, if they may arrange conversations at all."""
        await self.access.check("arrange", action)
        async with self.access.resolving(action) as conn:
            yield conn

    async def _resolve(self, conn: Connection, reference: str) -> Conversation:
        """Return the conversation that a word means, as far as the connection's viewer sees it."""
        org_id = self.access.org_id
        if reference.startswith(MESSAGE_PREFIX):
            said = await lookup.message(conn, org_id, reference.removeprefix(MESSAGE_PREFIX), room_id=None)
            ids = list((await conversations.assignments_of(conn, org_id, [said.id])).values())
        else:
            ids = await conversations.find(conn, org_id, reference)
        if len(ids) > 1:
            choices = ", ".join(map(str, ids))
            raise BadInput(f"conversation {reference!r}", f"several are meant, name one by id: {choices}")
        found = await conversations.by_id(conn, org_id, ids)
        if not found:
            raise NotFound("conversation", reference)
        return found[ids[0]]

    async def _message(self, conn: Connection, word: str, *, near: RoomId | None) -> Message:
        """Return a message that can be in a conversation, looked for in a room before everywhere else."""
        org_id = self.access.org_id
        try:
            said = await lookup.message(conn, org_id, word, room_id=near)
        except NotFound:
            said = await lookup.message(conn, org_id, word, room_id=None)
        if said.kind not in SPOKEN:
            raise BadInput(f"message {word!r}", "notices and injected context are in no conversation")
        if said.erased_at is not None:
            raise BadInput(f"message {word!r}", "was erased")
        return said

    async def _resolve_scope(self, word: str, action: str) -> tuple[ChangeScope, ConversationId]:
        async with self._resolving(action) as conn:
            found = await self._resolve(conn, word)
            return await self._scope_of(conn, [found], []), found.id

    async def _scope_of(
        self, conn: Connection, named: Sequence[Conversation], said: Sequence[Message]
    ) -> ChangeScope:
        """Return what a change is about: these conversations, and those that the messages are in."""
        org_id, room_id = self.access.org_id, (*named, *said)[0].room_id
        if any(one.room_id != room_id for one in (*named, *said)):
            raise BadInput("conversation", "is of one room, and these are of several")
        standing = await conversations.room_assignments(conn, org_id, room_id, said)
        for one in said:
            if one.id not in standing:
                why = (
                    "not untangled yet, or not all of its conversation is yours to see; try again in a moment"
                )
                raise BadInput(f"message {one.external_id!r}", why)
        ids = {one.id for one in named} | set(standing.values())
        times = [one.sent_at for one in said] or [time for one in named[:1] for time in _span(one)]
        return ChangeScope(
            room_id=room_id,
            conversation_ids=frozenset(ids),
            messages=said,
            since=min(times),
            until=max(times),
            visible_ids=frozenset(await conversations.message_ids(conn, org_id, ids)),
        )

    async def _source_conversations(
        self, conn: Connection, looked: ChangeScope, *, beside: ConversationId | None = None
    ) -> set[ConversationId]:
        """Return the conversations out of which messages are taken; all and `beside` have the same audience."""
        ids = [one.id for one in looked.messages]
        standing = await conversations.message_states(conn, self.access.org_id, ids)
        sources = {one.conversation_id for one in standing.values() if not one.is_erased}
        if len(standing) < len(set(ids)) or not sources <= looked.conversation_ids:
            raise BadInput("message", CHANGED)
        await self._check_same_audience(conn, ids, [] if beside is None else [beside])
        return {one for one in sources if one is not None}

    async def _check_same_audience(
        self, conn: Connection, ids: Sequence[MessageId], named: Sequence[ConversationId]
    ) -> None:
        """Refuse to put together what is heard by different people."""
        org_id = self.access.org_id
        inside = [await conversations.message_ids(conn, org_id, [one]) for one in named]
        if not all(inside):
            raise BadInput("conversation", CHANGED)
        asked = [*ids, *(min(held) for held in inside)]
        standing = (await conversations.message_states(conn, org_id, asked)).values()
        if len({(one.kind, None if one.hearers is None else tuple(one.hearers)) for one in standing}) > 1:
            raise BadInput("conversation", "is of one audience, and these are heard by different people")

    async def _change(self, action: str, looked: ChangeScope, carry: MakeChange) -> Conversation:
        """Make a change and bring what hangs on it up to date; return the conversation that comes of it."""
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[Conversation, Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            await disentanglement.mark_dirty(conn, org_id, {looked.room_id: (looked.since, looked.until)})
            result, touched = await carry(conn)
            arranged = looked.conversation_ids | {result}
            await check_rearranging(conn, org_id, arranged, by=self.access.principal)
            touched |= {result}
            others = touched - {result}
            await conversations.inherit_sensitivity(conn, org_id, result, others=others)
            await conversations.clear_labels(conn, org_id, others)
            await disentanglement.refresh(conn, org_id, touched, changed=touched)
            await self._update_labels(conn, touched)
            kept = await self._visible_result(conn, result, looked)
            await work_queue.wake(conn, "untangle")
            return kept, [result, *sorted(others), *(one.id for one in looked.messages)]

        return await self.access.change("arrange", action, change)

    async def _update_labels(self, conn: Connection, ids: Collection[ConversationId]) -> None:
        """Say anew what conversations are about: a label tells of nothing that is elsewhere now."""
        words = await disentanglement.conversation_texts(conn, self.access.org_id, ids, limit=LABELLED)
        words = await without_erased_names(conn, self.access.org_id, words)
        described = await asyncio.to_thread(describe, words, [])
        await disentanglement.describe(conn, self.access.org_id, described)

    async def _visible_result(
        self, conn: Connection, result: ConversationId, looked: ChangeScope
    ) -> Conversation:
        """Return what comes of a change, if that is no more than its caller has seen before."""
        kept = (await conversations.by_id(conn, self.access.org_id, [result])).get(result)
        held = await conversations.message_ids(conn, self.access.org_id, [result])
        if kept is None or not (self.access.principal.is_operator or held <= looked.visible_ids):
            raise BadInput("conversation", CHANGED)
        return kept


def _span(conversation: Conversation) -> tuple[datetime, datetime]:
    return conversation.opened_at, conversation.last_at
