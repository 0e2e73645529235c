"""Takes in messages: records of our own format, messages that agents write as themselves, and edits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta

from roomlore.app import speaking
from roomlore.app.desk import Desk
from roomlore.app.importing import sort_out
from roomlore.app.operation import Text, operation
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, Skipped
from roomlore.ingest import accept
from roomlore.ingest.accept import Accepted
from roomlore.ingest.clean import TICK
from roomlore.ingest.versions import OTHER_TEXT
from roomlore.platforms.jsonl import read_record
from roomlore.platforms.unknown import named
from roomlore.retrieval import meant
from roomlore.store import directory, erased, messages
from roomlore.store.messages import ToldHearer, ToldMessage
from roomlore.store.queries import Connection
from roomlore.wishes.listening import listen

#: Of records in one call: what is larger is a file, and imported.
MOST_RECORDS = 1_000
#: As objects of `roomlore.message/1`, the format of imported JSON lines. Each needs `id`, `room`, `author` and `sent_at`.
Records = Annotated[
    Sequence[Any],
    Meta(
        min_length=1,
        max_length=MOST_RECORDS,
        description="Each needs `id`, `room`, `author` and `sent_at`; most have `platform` and `text`.",
    ),
]
UNKNOWN_ROOM = "the kind of its room is not known: it is for its members"
#: `known`: it was there before; a newer text of it is its text now.
Outcome = Literal["added", "known", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of one record."""

    outcome: Outcome
    #: The message; None where there is none.
    id: MessageId | None
    #: Why it, its text or a field of it is left out; a short stable phrase. Empty otherwise.
    reason: str = ""
    #: More of it; of a message that was added, what was assumed.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTaken:
    """What became of records, which is on disk."""

    #: One of each, in their order.
    items: Sequence[Taken]
    added: int
    #: Messages that have a newer text now.
    revised: int
    redacted: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Takes in single messages: records from operators, and what agents write as themselves."""

    desk: Desk
    #: Stores a batch of messages in one transaction.
    take: Callable[[Sequence[IncomingMessage]], Awaitable[Accepted]]
    #: Counts messages that were added.
    count: Callable[[int], Awaitable[None]]

    @operation("POST", "/messages", name="add_messages", replay="whole", is_repeatable=True)
    async def records(self, messages: Records) -> BatchTaken:
        """Store messages given as objects of `roomlore.message/1`, and return what became of each.

        One transaction stores all that can be stored; the same records again change nothing. Each stands alone: nothing
        that another says of its room is taken for its own.

        Raises:
            BadInput: there are none, or too many.
            NotAllowed: the caller is no operator.
        """
        await self.desk.check("administer", "ingest")
        if not 1 <= len(messages) <= MOST_RECORDS:
            raise BadInput("messages", f"must be at least 1 and at most {MOST_RECORDS:,}; send them in parts")
        each = await asyncio.to_thread(_read, messages)
        read = [one for one, _ in each]
        accepted = await self.take([one for one in read if not isinstance(one, Skipped)])
        told = _told(read, accepted)
        items = [_noted(item, unknown) for item, (_, unknown) in zip(told.items, each, strict=True)]
        return replace(told, items=items)

    @operation("POST", "/rooms/{room}/messages", replay="whole", status=201, result_key="said")
    async def say(
        self,
        room: str,
        text: Text,
        *,
        reply_to: str | None = None,
        to: Sequence[str] = (),
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Store a message of the calling agent's and return its id; it is on disk when this returns.

        An answer to a whisper that names nobody is a whisper to all others who heard that. What was said with the same
        id before, in the same words to the same people, is not said again.

        Args:
            room: Name, external id or id. A closed one takes messages of its present members only.
            text: What it says.
            reply_to: The message it answers: external id or id.
            to: Whom a whisper is addressed to; the whole room by default.
            external_id: The platform's id of the message, so that neither a retry nor an import doubles it. It is the
                caller's own word: a record with that id is the same message if it has this author, kind and audience.
            metadata: What else belongs to it.

        Raises:
            NotFound: there is no such room, message or participant, or the caller may not see it.
            BadInput: the message cannot be stored, several are meant, nobody else would hear the whisper, or the id is
                that of another message of the caller's, or of one that was removed.
            NotAllowed: the caller is no agent, or no member of the closed room now.
        """
        await self.desk.check("speak", "say")
        said = await speaking.look_up(
            self.desk, room, text, reply_to=reply_to, to=to, external_id=external_id, metadata=metadata or {}
        )

        async def change(conn: Connection) -> tuple[tuple[MessageId, bool], Sequence[UUID]]:
            stored = await speaking.say(conn, self.desk, said)
            return stored, [stored[0], said.room_id]

        message_id, is_new = await self.desk.change("speak", "say", change)
        await self.count(int(is_new))
        return message_id

    @operation("PATCH", "/messages/{message}", name="edit_message", replay="whole", result_key="edited")
    async def edit(self, message: str, text: Text, *, room: str | None = None) -> MessageId:
        """Put another text in the place of a message's and return its id; the earlier one stays as a revision.

        Args:
            message: Its id or external id.
            text: What it says from now on.
            room: Where the message is; everywhere by default.

        Raises:
            NotFound: there is no such message or room.
            BadInput: several are meant, the message was removed, or the text cannot be stored.
            NotAllowed: the caller is no operator, and it is somebody else's, or the caller is a member by role or is not
                in the closed room now.
        """
        await self.desk.check("speak", "edit")
        async with self.desk.looking("edit") as conn:
            room_id = None if room is None else await meant.room(conn, self.desk.org_id, room)
            found = await meant.message(conn, self.desk.org_id, message, room_id=room_id)
        listened = await listen([text])

        async def change(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            # Whoever removes it holds one or the other until it is removed.
            await erased.keep_erasures_out(conn, self.desk.org_id)
            await directory.lock_rooms(conn, [found.room_id])
            now = datetime.now(UTC)
            if not await self.desk.is_own(conn, found.author_id):
                raise NotAllowed("this is somebody else's, and only an operator edits that")
            if not self.desk.caller.is_operator:
                await speaking.room_to_speak_in(conn, self.desk, found.room_id, at=now)
            told = await messages.as_told(conn, self.desk.org_id, found.id)
            if told is None or told.redacted_at is not None:
                raise BadInput(f"message {message!r}", "was removed")
            audience = await messages.audience_as_told(conn, self.desk.org_id, found.id)
            edited = _edited(told, text, audience=audience, now=now)
            fit, unfit = await asyncio.to_thread(sort_out, [edited], now=now)
            if fit and fit[0].body != told.body:
                accepted = await accept.accept(
                    conn, self.desk.org_id, fit, received_at=now, listened=listened
                )
                unfit = list(accepted.skipped)
            if unfit:
                raise BadInput("text", unfit[0].reason)
            return found.id, [found.id]

        return await self.desk.change("speak", "edit", change)


async def take_in(desk: Desk, batch: Sequence[IncomingMessage], *, action: str) -> Accepted:
    """Store a batch of clean records in one transaction, and return what became of it."""
    now = datetime.now(UTC)
    # First: what is listened to within the transaction keeps others waiting.
    listened = await listen(message.body for message in batch)

    async def change(conn: Connection) -> tuple[Accepted, list[RoomId]]:
        accepted = await accept.accept(conn, desk.org_id, batch, received_at=now, listened=listened)
        return accepted, sorted(accepted.room_ids)

    return await desk.change("administer", action, change)


def _read(records: Sequence[Any]) -> list[tuple[IncomingMessage | Skipped, list[str]]]:
    return [read_record(one, where=str(place), order=place) for place, one in enumerate(records)]


def _told(read: Sequence[IncomingMessage | Skipped], accepted: Accepted) -> BatchTaken:
    said = {one.where: one for one in (*read, *accepted.skipped) if isinstance(one, Skipped)}
    # A version that contradicts another is left out, while the message that it is of is there.
    gone = {where for where, one in said.items() if one.reason != OTHER_TEXT}
    ids, fresh = iter(accepted.message_ids), set(accepted.added.values())
    items: list[Taken] = []
    for place, one in enumerate(read):
        where = str(place)
        skipped = said.get(where)
        message_id = None if where in gone else next(ids)
        taken = _taken(skipped, message_id, is_new=message_id in fresh)
        is_odd = isinstance(one, IncomingMessage) and one.room.kind is None and taken.outcome == "added"
        items.append(replace(taken, detail=UNKNOWN_ROOM) if is_odd else taken)
        fresh.discard(message_id or MessageId(UUID(int=0)))
    return BatchTaken(
        items=items,
        added=len(accepted.added),
        revised=accepted.revised,
        redacted=accepted.redacted,
        skipped=sum(one.outcome == "skipped" for one in items),
    )


def _taken(skipped: Skipped | None, message_id: MessageId | None, *, is_new: bool) -> Taken:
    if skipped is not None:
        return Taken(outcome="skipped", id=message_id, reason=skipped.reason, detail=skipped.detail)
    return Taken(outcome="added" if is_new else "known", id=message_id)


def _noted(item: Taken, unknown: list[str]) -> Taken:
    """Return what became of a record, with the keys of it that were left aside."""
    return (
        item if item.reason or not unknown else replace(item, reason="unknown field", detail=named(unknown))
    )


def _edited(
    told: ToldMessage, text: str, *, audience: Sequence[ToldHearer], now: datetime
) -> IncomingMessage:
    """Return a message as its platform told it, with another text."""
    room = IncomingRoom(
        external_id=told.room_external_id,
        name=told.room_name,
        kind=told.room_kind,
        topic=told.topic,
    )
    author = IncomingAuthor(
        account_id=told.account_id,
        name=told.author_name,
        kind=told.author_kind,
        persona=told.persona,
        bridged=told.bridged,
    )
    written = told.edited_at or told.sent_at
    return IncomingMessage(
        platform=told.platform,
        room=room,
        external_id=told.external_id,
        author=author,
        body=text,
        sent_at=told.sent_at,
        kind=told.kind,
        audience=[
            IncomingAuthor(
                account_id=one.account_id,
                name=one.name,
                kind=one.kind,
                persona=one.persona,
                bridged=one.bridged,
            )
            for one in audience
        ],
        precision=told.precision,
        order=told.native_order,
        mentions=told.mentions or (),
        attachments=told.attachments or (),
        reactions=told.reactions or (),
        # A platform's clock may be ahead of ours.
        edited_at=max(now, written + TICK),
        synthetic_id=told.synthetic_id,
        metadata=told.metadata or {},
    )
