"""Intake of single messages: records from operators, messages that agents write, and edits."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from msgspec import Meta

from roomlore.db import client_ids, directory, disentanglement, erasure_guard, messages, timeline, work_queue
from roomlore.db.client_ids import EarlierMessage
from roomlore.db.database import Database
from roomlore.db.directory import NewAccount, RoomForPosting
from roomlore.db.messages import PlatformMessage
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

#: The number of messages before the first ANALYZE, and the growth before each further ANALYZE.
FIRST, GROWTH_FACTOR = 1_000, 4
#: The maximum number of records in one call. Import larger files.
MOST_RECORDS = 1_000
#: Objects of `roomlore.message/1`, the format of imported JSON lines.
Records = Annotated[
    Sequence[Any],
    Meta(
        min_length=1,
        max_length=MOST_RECORDS,
        description="Each needs `id`, `room`, `author` and `sent_at`; most have `platform` and `text`.",
    ),
]
UNKNOWN_ROOM = "the kind of its room is not known: it is for its members"
#: `known`: the message existed before. If the record has a newer text, it replaced the stored text.
RecordOutcome = Literal["added", "known", "skipped"]


@dataclass(slots=True)
class AnalyzeTrigger:
    """Counts the messages that this process stored, and runs ANALYZE as tables grow.

    Without ANALYZE, a database that was empty a minute ago still has the query plans for empty tables.
    """

    stored: int = 0
    _next_analyze: int = FIRST

    async def record_stored(self, db: Database, count: int) -> None:
        """Count new messages."""
        self.stored += count
        if self.stored < self._next_analyze:
            return
        self._next_analyze = self.stored * GROWTH_FACTOR
        # The messages are stored even if this fails.
        with suppress(DatabaseUnavailable), work_queue.translate_connection_errors():
            async with db.system_connection() as conn:
                await work_queue.refresh_statistics(conn)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult:
    """The result of one record."""

    outcome: RecordOutcome
    #: The message; None if there is none.
    id: MessageId | None
    #: A short, stable phrase that says why the record, its text or a field was left out; otherwise empty.
    reason: str = ""
    #: Details of the reason. For an added message, what was assumed.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The results of records, which are durable."""

    #: One for each record, in their order.
    items: Sequence[RecordResult]
    added: int
    #: Messages with a newer text.
    revised: int
    redacted: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message that an agent is about to write, with its names resolved."""

    room_id: RoomId
    text: str
    reply_to: Message | None
    #: Empty for a message to the room. Also empty for a reply to a whisper that names no recipients.
    recipient_ids: frozenset[ParticipantId]
    #: The id that the author chose.
    external_id: str | None
    metadata: Mapping[str, Any]
    #: The screening result of the text: whether it may state a privacy request.
    screened: Screened


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Stores single messages. When a call returns, its result is on disk.

    Names are resolved as the caller sees them. Every method raises NotFound if there is no such room, message or
    participant, and BadInput if a name is ambiguous or the message cannot be stored.
    """

    access: Access
    #: Stores a batch of messages in one transaction.
    store_batch: Callable[[Sequence[IncomingMessage]], Awaitable[IngestResult]]
    #: Counts new messages.
    on_stored: Callable[[int], Awaitable[None]]

    @operation("POST", "/messages", name="add_messages", replay="whole", is_repeatable=True)
    async def add_messages(self, messages: Records) -> BatchResult:
        """Store records of the format `roomlore.message/1` and return one result for each. For operators.

        Valid records are stored in one transaction, and storing them again changes nothing. Each record is read alone:
        what another record says about its room does not apply to it.
        """
        await self.access.check("administer", "ingest")
        if not 1 <= len(messages) <= MOST_RECORDS:
            raise BadInput("messages", f"must be at least 1 and at most {MOST_RECORDS:,}; send them in parts")
        parsed = await asyncio.to_thread(_parse_records, messages)
        records = [record for record, _ in parsed]
        stored = await self.store_batch(
            [record for record in records if not isinstance(record, SkippedRecord)]
        )
        result = _to_batch_result(records, stored)
        items = [
            item
            if item.reason or not unknown
            else replace(item, reason="unknown field", detail=key_list(unknown))
            for item, (_, unknown) in zip(result.items, parsed, strict=True)
        ]
        return replace(result, items=items)

    @operation("POST", "/rooms/{room}/messages", replay="whole", status=201, result_key="said")
    async def send(
        self,
        room: str,
        text: Text,
        *,
        reply_to: str | None = None,
        to: Sequence[str] = (),
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Write a message as the calling agent and return its id.

        A reply to a whisper, without `to`, is a whisper to everybody else who could read that whisper. A message with
        the same `external_id`, text and recipients as an earlier message is not stored again.

        Args:
            room: Name, external id or id. In a closed room, only current members may write.
            text: The text.
            reply_to: The message that this message answers.
            to: The recipients of a whisper. Default: the whole room.
            external_id: The platform's id of the message, so that a retry or an import does not duplicate it. If a
                later import has this id with the same author, kind and recipients, it is the same message.
            metadata: Any JSON object to keep with the message.

        Raises:
            BadInput: a whisper has no recipient, or the id belongs to another or a removed message of the caller.
            NotAllowed: the caller is not an agent, or not a current member of the closed room.
        """
        caller, org_id = self.access.principal, self.access.org_id
        await self.access.check("speak", "say")
        if caller.participant_id is None:
            raise BadInput(
                "speaker", "an operator has no voice; come with an agent's key, or act for somebody"
            )
        async with self.access.resolving("say") as conn:
            room_id = await lookup.room(conn, org_id, room)
            parent = (
                None if reply_to is None else await lookup.message(conn, org_id, reply_to, room_id=room_id)
            )
            recipients = frozenset([await lookup.participant(conn, org_id, word) for word in to])
        message = OutgoingMessage(
            room_id=room_id,
            text=text,
            reply_to=parent,
            recipient_ids=recipients,
            external_id=external_id,
            metadata=metadata or {},
            screened=await screen([text]),
        )

        async def change(conn: Connection) -> tuple[tuple[MessageId, bool], Sequence[UUID]]:
            stored = await _store_message(conn, self.access, message)
            return stored, [stored[0], room_id]

        message_id, is_new = await self.access.change("speak", "say", change)
        await self.on_stored(int(is_new))
        return message_id

    @operation("PATCH", "/messages/{message}", name="edit_message", replay="whole", result_key="edited")
    async def edit(self, message: str, text: Text, *, room: str | None = None) -> MessageId:
        """Replace the text of a message and return the id of the message. The earlier text stays as a revision.

        Args:
            message: Its id or external id.
            text: The new text.
            room: The room of the message. Default: any room.

        Raises:
            BadInput: the message was removed.
            NotAllowed: the caller is not an operator, and the message is not their own or its room is closed to them.
        """
        await self.access.check("speak", "edit")
        async with self.access.resolving("edit") as conn:
            room_id = None if room is None else await lookup.room(conn, self.access.org_id, room)
            found = await lookup.message(conn, self.access.org_id, message, room_id=room_id)
        screened = await screen([text])

        async def change(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            org_id, now = self.access.org_id, datetime.now(UTC)
            # A removal holds one of these locks until it has finished.
            await erasure_guard.lock_shared(conn, org_id)
            await directory.lock_rooms(conn, [found.room_id])
            if not await self.access.is_own(conn, found.author_id):
                raise NotAllowed("this is somebody else's, and only an operator edits that")
            if not self.access.principal.is_operator:
                await _writable_room(conn, self.access, found.room_id, at=now)
            original = await messages.platform_message(conn, org_id, found.id)
            if original is None or original.redacted_at is not None:
                raise BadInput(f"message {message!r}", "was removed")
            recipients = await messages.platform_recipients(conn, org_id, found.id)
            edited = _edited(original, text, recipients=recipients, now=now)
            valid, skipped = await asyncio.to_thread(partition_storable, [edited], now=now)
            if valid and valid[0].body != original.body:
                accepted = await accept.accept(conn, org_id, valid, received_at=now, listened=screened)
                skipped = list(accepted.skipped)
            if skipped:
                raise BadInput("text", skipped[0].reason)
            return found.id, [found.id]

        return await self.access.change("speak", "edit", change)


async def store_records(access: Access, batch: Sequence[IncomingMessage], *, action: str) -> IngestResult:
    """Store a batch of clean messages in one transaction."""
    now = datetime.now(UTC)
    # Screen the texts before the transaction, because other writers wait for the transaction.
    screened = await screen(message.body for message in batch)

    async def change(conn: Connection) -> tuple[IngestResult, list[RoomId]]:
        accepted = await accept.accept(conn, access.org_id, batch, received_at=now, listened=screened)
        return accepted, sorted(accepted.room_ids)

    return await access.change("administer", action, change)


async def _store_message(
    conn: Connection, access: Access, outgoing: OutgoingMessage
) -> tuple[MessageId, bool]:
    """Store a message of the caller; return its id, and whether it is new."""
    caller, org_id, now = access.principal, access.org_id, datetime.now(UTC)
    assert caller.participant_id is not None
    await erasure_guard.lock_shared(conn, org_id)
    await directory.lock_directory(conn, org_id)
    await directory.lock_rooms(conn, [outgoing.room_id])
    own = await access.own_accounts(conn)
    room = await _writable_room(conn, access, outgoing.room_id, at=now)
    recipients = await _whisper_recipients(conn, org_id, outgoing, own=own)
    authors = await _authors_on(conn, org_id, room.platform, [caller.participant_id, *sorted(recipients)])
    if caller.participant_id not in authors or len(authors) <= len(recipients):
        raise NotFound("participant", str(caller.participant_id))
    valid, skipped = await asyncio.to_thread(
        partition_storable, [_to_incoming(outgoing, room, authors, now=now)], now=now
    )
    if skipped:
        raise BadInput("message", skipped[0].reason)
    [message] = valid
    if outgoing.external_id is not None:
        accounts = [
            (room.platform, account.account_id, account.persona)
            for account in await directory.external_accounts(conn, org_id, own)
            if account.platform == room.platform
        ]
        digests = [erasure_guard.account_digest(org_id, name) for name in accounts]
        earlier = await client_ids.earlier_messages(
            conn, org_id, outgoing.room_id, message.external_id, stated_by=digests, own=own
        )
        if earlier is not None:
            _check_idempotent(earlier, message, recipients)
            return earlier.id, False
    return await _store(conn, org_id, outgoing, message, now=now), True


async def _writable_room(
    conn: Connection, access: Access, room_id: RoomId, *, at: datetime
) -> RoomForPosting:
    own = await access.own_accounts(conn)
    room = await directory.room_for_posting(conn, access.org_id, room_id, participants=sorted(own), at=at)
    if room is None:
        raise NotFound("room", str(room_id))
    if not room.is_present:
        raise NotAllowed("only present members say something in a closed room")
    return room


async def _whisper_recipients(
    conn: Connection, org_id: OrgId, outgoing: OutgoingMessage, *, own: Collection[ParticipantId]
) -> frozenset[ParticipantId]:
    """Return the recipients of a whisper, or nobody for a message to the room.

    If a whisper has no recipient except its author, BadInput is raised. The whisper is never sent to the whole room
    instead.
    """
    recipients = set(outgoing.recipient_ids)
    parent = outgoing.reply_to
    if not recipients and (parent is None or parent.kind != "whisper"):
        return frozenset()
    if not recipients and parent is not None:
        # A public answer would reveal the whisper.
        heard = await timeline.whisper_recipients(conn, org_id, [parent.id])
        recipients = {parent.author_id, *(recipient.id for recipient in heard)}
        # The tombstone author has the id of the org.
        recipients.discard(ParticipantId(org_id))
    others = frozenset(recipients) - set(own)
    if not others:
        raise BadInput("to", "names nobody but yourself; name somebody else")
    return others


async def _store(
    conn: Connection, org_id: OrgId, outgoing: OutgoingMessage, message: IncomingMessage, *, now: datetime
) -> MessageId:
    """Store a message under an id of our own. Store the id that its author chose beside it."""
    stored = replace(message, external_id=str(uuid4()))
    accepted = await accept.accept(conn, org_id, [stored], received_at=now, listened=outgoing.screened)
    if accepted.skipped:
        raise BadInput("message", accepted.skipped[0].reason)
    [message_id] = accepted.message_ids
    if outgoing.external_id is not None:
        digest = erasure_guard.account_digest(org_id, author_name(message.platform, message.author))
        await client_ids.add(conn, org_id, message_id, message.external_id, stated_by=digest)
        if await disentanglement.mark_messages_dirty(
            conn, org_id, await client_ids.link_waiting_replies(conn, org_id, message_id)
        ):
            await work_queue.wake(conn, "disentangle")
    return message_id


def _check_idempotent(
    earlier: EarlierMessage, message: IncomingMessage, recipients: frozenset[ParticipantId]
) -> None:
    """Raise BadInput unless a message repeats the earlier message with the same id."""
    if earlier.is_gone:
        raise BadInput("external_id", "is that of a message that was removed; say it with another, or none")
    is_same = earlier.kind == message.kind and frozenset(earlier.audience) == recipients
    if not is_same or message.body not in (earlier.body, *earlier.earlier):
        raise BadInput(
            "external_id", "is that of another message of yours; edit that one, or say this with another id"
        )


async def _authors_on(
    conn: Connection, org_id: OrgId, platform: str, participants: Sequence[ParticipantId]
) -> dict[ParticipantId, IncomingAuthor]:
    """Return each participant's account on a platform. If an account is missing, make one."""
    people = {
        account.id: account
        for participant in participants
        for account in await directory.accounts(conn, org_id, participant)
        if account.id == participant
    }
    accounts = {
        row.participant_id: (row.account_id, row.persona)
        for row in await directory.external_accounts(conn, org_id, people)
        if row.platform == platform and not row.bridged
    }
    new = [
        NewAccount(
            platform=platform,
            account_id=str(person.id),
            persona="",
            participant_id=person.id,
            kind=person.kind,
            name=person.name,
            bridged=False,
        )
        for person in people.values()
        if person.id not in accounts
    ]
    if new:
        await directory.add_accounts(conn, org_id, new)
    accounts |= {account.participant_id: (account.account_id, account.persona) for account in new}
    return {
        key: IncomingAuthor(
            account_id=accounts[key][0], persona=accounts[key][1], name=person.name, kind=person.kind
        )
        for key, person in people.items()
    }


def _to_incoming(
    outgoing: OutgoingMessage,
    room: RoomForPosting,
    authors: Mapping[ParticipantId, IncomingAuthor],
    *,
    now: datetime,
) -> IncomingMessage:
    author, *recipients = authors.values()
    return IncomingMessage(
        platform=room.platform,
        room=IncomingRoom(external_id=room.external_id, name=room.name, kind=room.kind, topic=room.topic),
        # The id is cleaned like the platform's own id, so that both match.
        external_id=str(uuid4()) if outgoing.external_id is None else outgoing.external_id,
        author=author,
        body=outgoing.text,
        sent_at=now,
        kind="whisper" if recipients else "message",
        precision="us",
        reply_to=None if outgoing.reply_to is None else outgoing.reply_to.external_id,
        audience=recipients,
        metadata=outgoing.metadata,
    )


def _parse_records(records: Sequence[Any]) -> list[tuple[IncomingMessage | SkippedRecord, list[str]]]:
    return [read_record(record, where=str(index), order=index) for index, record in enumerate(records)]


def _to_batch_result(records: Sequence[IncomingMessage | SkippedRecord], stored: IngestResult) -> BatchResult:
    skipped = {item.where: item for item in (*records, *stored.skipped) if isinstance(item, SkippedRecord)}
    ids, new = iter(stored.message_ids), set(stored.added.values())
    items: list[RecordResult] = []
    for index, record in enumerate(records):
        reason = skipped.get(str(index))
        # A version that contradicts another version is left out, but its message is stored.
        is_stored = reason is None or reason.reason == OTHER_TEXT
        message_id = next(ids) if is_stored else None
        if reason is not None:
            items.append(
                RecordResult(outcome="skipped", id=message_id, reason=reason.reason, detail=reason.detail)
            )
        else:
            is_new = message_id in new
            assumed = is_new and isinstance(record, IncomingMessage) and record.room.kind is None
            items.append(
                RecordResult(
                    outcome="added" if is_new else "known",
                    id=message_id,
                    detail=UNKNOWN_ROOM if assumed else "",
                )
            )
        if message_id is not None:
            new.discard(message_id)
    return BatchResult(
        items=items,
        added=len(stored.added),
        revised=stored.revised,
        redacted=stored.redacted,
        skipped=sum(item.outcome == "skipped" for item in items),
    )


def _edited(
    original: PlatformMessage, text: str, *, recipients: Sequence[IncomingAuthor], now: datetime
) -> IncomingMessage:
    """Return a message as its platform sent it, with another text."""
    return IncomingMessage(
        platform=original.platform,
        room=IncomingRoom(
            external_id=original.room_external_id,
            name=original.room_name,
            kind=original.room_kind,
            topic=original.topic,
        ),
        external_id=original.external_id,
        author=IncomingAuthor(
            account_id=original.account_id,
            name=original.author_name,
            kind=original.author_kind,
            persona=original.persona,
            bridged=original.bridged,
        ),
        body=text,
        sent_at=original.sent_at,
        kind=original.kind,
        audience=recipients,
        precision=original.precision,
        order=original.sequence,
        mentions=original.mentions or (),
        attachments=original.attachments or (),
        reactions=original.reactions or (),
        # The platform's clock may be ahead of ours.
        edited_at=max(now, (original.edited_at or original.sent_at) + TICK),
        synthetic_id=original.synthetic_id,
        metadata=original.metadata or {},
    )
