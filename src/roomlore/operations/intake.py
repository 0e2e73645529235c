"""Takes in messages: records of our own format, messages that agents write as themselves, and edits."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from msgspec import Meta

from roomlore.db import client_ids, directory, disentanglement, erased, messages, timeline, work_queue
from roomlore.db.client_ids import EarlierMessage
from roomlore.db.database import Database
from roomlore.db.directory import NewAccount, RoomForPosting
from roomlore.db.erased import AccountName
from roomlore.db.messages import PlatformMessage, PlatformRecipient
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, DatabaseUnavailable, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, SkippedRecord
from roomlore.domain.records import Message
from roomlore.importers.jsonl import key_list, read_record
from roomlore.ingest import accept
from roomlore.ingest.accept import IngestResult
from roomlore.ingest.clean import TICK
from roomlore.ingest.resolve import author_name
from roomlore.ingest.versions import OTHER_TEXT
from roomlore.operations.access import Access
from roomlore.operations.imports import partition_storable
from roomlore.operations.registry import Text, operation
from roomlore.privacy.screening import Screened, screen
from roomlore.search import lookup

#: After so many messages for the first time, and then whenever there are so many times as many.
FIRST, GROWTH_FACTOR = 1_000, 4


@dataclass(slots=True)
class AnalyzeTrigger:
    """Counts what this process has stored.

    A database that was empty a minute ago plans as if it were: what is sent again right after an import would be looked up
    by going through its room, message by message.
    """

    stored: int = 0
    _next_analyze: int = FIRST

    async def record_stored(self, db: Database, count: int) -> None:
        """Take note of messages just stored, and let the planner look where they have become many."""
        self.stored += count
        if self.stored < self._next_analyze:
            return
        self._next_analyze = self.stored * GROWTH_FACTOR
        # They are stored, whatever becomes of this.
        with suppress(DatabaseUnavailable), work_queue.translate_connection_errors():
            async with db.system_connection() as conn:
                await work_queue.refresh_statistics(conn)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message that is about to be said: where, what, in answer to what, and to whom alone."""

    room_id: RoomId
    text: str
    reply_to: Message | None
    #: Whom a whisper names; empty for a message to the whole room, and for an answer to whoever heard a whisper.
    recipient_ids: frozenset[ParticipantId]
    #: The id that the speaker states for it.
    external_id: str | None
    metadata: Mapping[str, Any]
    #: Whether the text is put like a request of privacy.
    listened: Screened


async def resolve_message(
    access: Access,
    room: str,
    text: str,
    *,
    reply_to: str | None,
    to: Sequence[str],
    external_id: str | None,
    metadata: Mapping[str, Any],
) -> OutgoingMessage:
    """Return what the caller means to say, as far as the caller may see what it names.

    Raises:
        BadInput: nobody speaks, or several rooms, messages or people are meant.
        NotFound: there is no such room, message or participant, or the caller may not see it.
    """
    caller, org_id = access.principal, access.org_id
    if caller.participant_id is None:
        raise BadInput("speaker", "an operator has no voice; come with an agent's key, or act for somebody")
    async with access.resolving("say") as conn:
        room_id = await lookup.room(conn, org_id, room)
        answers = None if reply_to is None else await lookup.message(conn, org_id, reply_to, room_id=room_id)
        named = {await lookup.participant(conn, org_id, word) for word in to}
    return OutgoingMessage(
        room_id=room_id,
        text=text,
        reply_to=answers,
        recipient_ids=frozenset(named),
        external_id=external_id,
        metadata=metadata,
        listened=await screen([text]),
    )


async def store_message(
    conn: Connection, access: Access, outgoing: OutgoingMessage
) -> tuple[MessageId, bool]:
    """Store a message of the caller's and return its id, and whether it was not there before.

    What was said before with the same id is not said again.

    Raises:
        BadInput: it cannot be stored, its id is that of another message of the speaker's or of one that was removed, or
            nobody else would hear a whisper.
        NotAllowed: the room is closed and the caller is no member now.
        NotFound: the room or the caller was erased meanwhile.
    """
    caller, org_id, now = access.principal, access.org_id, datetime.now(UTC)
    assert caller.participant_id is not None
    await erased.lock_shared(conn, org_id)
    await directory.lock_directory(conn, org_id)
    await directory.lock_rooms(conn, [outgoing.room_id])
    own = await access.own_accounts(conn)
    room = await writable_room(conn, access, outgoing.room_id, at=now)
    audience = await _whisper_recipients(conn, org_id, outgoing, own=own)
    speakers = await _authors_on(conn, org_id, room.platform, [caller.participant_id, *sorted(audience)])
    if caller.participant_id not in speakers or len(speakers) <= len(audience):
        raise NotFound("participant", str(caller.participant_id))
    fit, unfit = await asyncio.to_thread(
        partition_storable, [_to_incoming(outgoing, room, speakers, now=now)], now=now
    )
    for skipped in unfit:
        raise BadInput("message", skipped.reason)
    [message] = fit
    if outgoing.external_id is not None:
        accounts = await _accounts_on(conn, org_id, room.platform, own)
        before = await client_ids.earlier_messages(
            conn, org_id, outgoing.room_id, message.external_id, accounts=accounts, own=own
        )
        if before is not None:
            _check_idempotent(before, message, audience)
            return before.id, False
    return await _store(conn, org_id, outgoing, message, now=now), True


async def writable_room(conn: Connection, access: Access, room_id: RoomId, *, at: datetime) -> RoomForPosting:
    """Return the room in which the caller may say something at a time.

    Raises:
        NotAllowed: it is closed and the caller is no member then.
        NotFound: it is not there any more.
    """
    own = await access.own_accounts(conn)
    room = await directory.room_for_posting(conn, access.org_id, room_id, participants=sorted(own), at=at)
    if room is None:
        raise NotFound("room", str(room_id))
    if not room.is_present:
        raise NotAllowed("only present members say something in a closed room")
    return room


async def _whisper_recipients(
    conn: Connection, org_id: OrgId, said: OutgoingMessage, *, own: Collection[ParticipantId]
) -> frozenset[ParticipantId]:
    """Return whom a whisper is addressed to; nobody where it is no whisper.

    What was meant for some never goes to the room because none of them is left.
    """
    named = said.recipient_ids
    if not named and (said.reply_to is None or said.reply_to.kind != "whisper"):
        return frozenset()
    if not named and said.reply_to is not None:
        # An answer in the open would tell the room what was whispered.
        heard = await timeline.whisper_recipients(conn, org_id, [said.reply_to.id])
        named = {said.reply_to.author_id, *(one.id for one in heard)}
        # The author of what was erased is nobody, with the org's id.
        named.discard(ParticipantId(org_id))
    others = frozenset(named) - set(own)
    if not others:
        raise BadInput("to", "names nobody but yourself; name whoever is to hear it")
    return others


async def _store(
    conn: Connection, org_id: OrgId, said: OutgoingMessage, message: IncomingMessage, *, now: datetime
) -> MessageId:
    """Store a message under an id of our own, and keep the one that its speaker states beside it."""
    stored = replace(message, external_id=str(uuid4()))
    accepted = await accept.accept(conn, org_id, [stored], received_at=now, listened=said.listened)
    for skipped in accepted.skipped:
        raise BadInput("message", skipped.reason)
    [message_id] = accepted.message_ids
    if said.external_id is not None:
        account = author_name(message.platform, message.author)
        await client_ids.add(conn, org_id, message_id, message.external_id, account=account)
        if await disentanglement.mark_messages_dirty(
            conn, org_id, await client_ids.link_waiting_replies(conn, org_id, message_id)
        ):
            await work_queue.wake(conn, "untangle")
    return message_id


def _check_idempotent(
    stored: EarlierMessage, message: IncomingMessage, audience: frozenset[ParticipantId]
) -> None:
    """Do nothing if a message is what was said before with the same id."""
    if stored.is_gone:
        raise BadInput("external_id", "is that of a message that was removed; say it with another, or none")
    is_same = stored.kind == message.kind and frozenset(stored.audience) == audience
    if not is_same or message.body not in (stored.body, *stored.earlier):
        raise BadInput(
            "external_id", "is that of another message of yours; edit that one, or say this with another id"
        )


async def _accounts_on(
    conn: Connection, org_id: OrgId, platform: str, participants: Collection[ParticipantId]
) -> list[AccountName]:
    found = await directory.external_accounts(conn, org_id, participants)
    return [(platform, one.account_id, one.persona) for one in found if one.platform == platform]


async def _authors_on(
    conn: Connection, org_id: OrgId, platform: str, participants: Sequence[ParticipantId]
) -> dict[ParticipantId, IncomingAuthor]:
    """Return the account that each participant has on a platform; whoever has none there gets one."""
    people = {
        account.id: account
        for one in participants
        for account in await directory.accounts(conn, org_id, one)
        if account.id == one
    }
    held = {
        one.participant_id: (one.account_id, one.persona)
        for one in await directory.external_accounts(conn, org_id, people)
        if one.platform == platform and not one.bridged
    }
    new = [
        NewAccount(
            platform=platform,
            account_id=str(one.id),
            persona="",
            participant_id=one.id,
            kind=one.kind,
            name=one.name,
            bridged=False,
        )
        for one in people.values()
        if one.id not in held
    ]
    if new:
        await directory.add_accounts(conn, org_id, new)
    named = held | {one.participant_id: (one.account_id, one.persona) for one in new}
    return {
        key: IncomingAuthor(
            account_id=named[key][0], persona=named[key][1], name=person.name, kind=person.kind
        )
        for key, person in people.items()
    }


def _to_incoming(
    said: OutgoingMessage,
    room: RoomForPosting,
    authors: Mapping[ParticipantId, IncomingAuthor],
    *,
    now: datetime,
) -> IncomingMessage:
    speaker, *audience = authors.values()
    return IncomingMessage(
        platform=room.platform,
        room=IncomingRoom(
            external_id=room.external_id,
            name=room.name,
            kind=room.kind,
            topic=room.topic,
        ),
        # Cleaned like the platform's own, so that it can be told when that comes.
        external_id=str(uuid4()) if said.external_id is None else said.external_id,
        author=speaker,
        body=said.text,
        sent_at=now,
        kind="whisper" if audience else "message",
        precision="us",
        reply_to=None if said.reply_to is None else said.reply_to.external_id,
        audience=audience,
        metadata=said.metadata,
    )


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
RecordOutcome = Literal["added", "known", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult:
    """What became of one record."""

    outcome: RecordOutcome
    #: The message; None where there is none.
    id: MessageId | None
    #: Why it, its text or a field of it is left out; a short stable phrase. Empty otherwise.
    reason: str = ""
    #: More of it; of a message that was added, what was assumed.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of records, which is on disk."""

    #: One of each, in their order.
    items: Sequence[RecordResult]
    added: int
    #: Messages that have a newer text now.
    revised: int
    redacted: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Takes in single messages: records from operators, and what agents write as themselves."""

    access: Access
    #: Stores a batch of messages in one transaction.
    store_batch: Callable[[Sequence[IncomingMessage]], Awaitable[IngestResult]]
    #: Counts messages that were added.
    on_stored: Callable[[int], Awaitable[None]]

    @operation("POST", "/messages", name="add_messages", replay="whole", is_repeatable=True)
    async def records(self, messages: Records) -> BatchResult:
        """Store messages given as objects of `roomlore.message/1`, and return what became of each.

        One transaction stores all that can be stored; the same records again change nothing. Each stands alone: nothing
        that another says of its room is taken for its own.

        Raises:
            BadInput: there are none, or too many.
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", "ingest")
        if not 1 <= len(messages) <= MOST_RECORDS:
            raise BadInput("messages", f"must be at least 1 and at most {MOST_RECORDS:,}; send them in parts")
        each = await asyncio.to_thread(_parse_records, messages)
        read = [one for one, _ in each]
        accepted = await self.store_batch([one for one in read if not isinstance(one, SkippedRecord)])
        told = _to_batch_result(read, accepted)
        items = [
            _with_unknown_keys(item, unknown) for item, (_, unknown) in zip(told.items, each, strict=True)
        ]
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
        await self.access.check("speak", "say")
        said = await resolve_message(
            self.access,
            room,
            text,
            reply_to=reply_to,
            to=to,
            external_id=external_id,
            metadata=metadata or {},
        )

        async def change(conn: Connection) -> tuple[tuple[MessageId, bool], Sequence[UUID]]:
            stored = await store_message(conn, self.access, said)
            return stored, [stored[0], said.room_id]

        message_id, is_new = await self.access.change("speak", "say", change)
        await self.on_stored(int(is_new))
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
        await self.access.check("speak", "edit")
        async with self.access.resolving("edit") as conn:
            room_id = None if room is None else await lookup.room(conn, self.access.org_id, room)
            found = await lookup.message(conn, self.access.org_id, message, room_id=room_id)
        listened = await screen([text])

        async def change(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            # Whoever removes it holds one or the other until it is removed.
            await erased.lock_shared(conn, self.access.org_id)
            await directory.lock_rooms(conn, [found.room_id])
            now = datetime.now(UTC)
            if not await self.access.is_own(conn, found.author_id):
                raise NotAllowed("this is somebody else's, and only an operator edits that")
            if not self.access.principal.is_operator:
                await writable_room(conn, self.access, found.room_id, at=now)
            told = await messages.platform_message(conn, self.access.org_id, found.id)
            if told is None or told.redacted_at is not None:
                raise BadInput(f"message {message!r}", "was removed")
            audience = await messages.platform_recipients(conn, self.access.org_id, found.id)
            edited = _edited(told, text, audience=audience, now=now)
            fit, unfit = await asyncio.to_thread(partition_storable, [edited], now=now)
            if fit and fit[0].body != told.body:
                accepted = await accept.accept(
                    conn, self.access.org_id, fit, received_at=now, listened=listened
                )
                unfit = list(accepted.skipped)
            if unfit:
                raise BadInput("text", unfit[0].reason)
            return found.id, [found.id]

        return await self.access.change("speak", "edit", change)


async def store_records(access: Access, batch: Sequence[IncomingMessage], *, action: str) -> IngestResult:
    """Store a batch of clean records in one transaction, and return what became of it."""
    now = datetime.now(UTC)
    # First: what is listened to within the transaction keeps others waiting.
    listened = await screen(message.body for message in batch)

    async def change(conn: Connection) -> tuple[IngestResult, list[RoomId]]:
        accepted = await accept.accept(conn, access.org_id, batch, received_at=now, listened=listened)
        return accepted, sorted(accepted.room_ids)

    return await access.change("administer", action, change)


def _parse_records(records: Sequence[Any]) -> list[tuple[IncomingMessage | SkippedRecord, list[str]]]:
    return [read_record(one, where=str(place), order=place) for place, one in enumerate(records)]


def _to_batch_result(read: Sequence[IncomingMessage | SkippedRecord], accepted: IngestResult) -> BatchResult:
    said = {one.where: one for one in (*read, *accepted.skipped) if isinstance(one, SkippedRecord)}
    # A version that contradicts another is left out, while the message that it is of is there.
    gone = {where for where, one in said.items() if one.reason != OTHER_TEXT}
    ids, fresh = iter(accepted.message_ids), set(accepted.added.values())
    items: list[RecordResult] = []
    for place, one in enumerate(read):
        where = str(place)
        skipped = said.get(where)
        message_id = None if where in gone else next(ids)
        taken = _to_record_result(skipped, message_id, is_new=message_id in fresh)
        is_odd = isinstance(one, IncomingMessage) and one.room.kind is None and taken.outcome == "added"
        items.append(replace(taken, detail=UNKNOWN_ROOM) if is_odd else taken)
        fresh.discard(message_id or MessageId(UUID(int=0)))
    return BatchResult(
        items=items,
        added=len(accepted.added),
        revised=accepted.revised,
        redacted=accepted.redacted,
        skipped=sum(one.outcome == "skipped" for one in items),
    )


def _to_record_result(
    skipped: SkippedRecord | None, message_id: MessageId | None, *, is_new: bool
) -> RecordResult:
    if skipped is not None:
        return RecordResult(outcome="skipped", id=message_id, reason=skipped.reason, detail=skipped.detail)
    return RecordResult(outcome="added" if is_new else "known", id=message_id)


def _with_unknown_keys(item: RecordResult, unknown: list[str]) -> RecordResult:
    """Return what became of a record, with the keys of it that were left aside."""
    return (
        item
        if item.reason or not unknown
        else replace(item, reason="unknown field", detail=key_list(unknown))
    )


def _edited(
    told: PlatformMessage, text: str, *, audience: Sequence[PlatformRecipient], now: datetime
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
