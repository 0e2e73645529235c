"""What an agent says as itself: one message, by its own account on the platform of the room."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from roomlore.app.desk import Access
from roomlore.app.importing import partition_storable
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.domain.records import Message
from roomlore.ingest import accept
from roomlore.ingest.resolve import author_name
from roomlore.retrieval import meant
from roomlore.store import directory, erased, stated, timeline, untangling, work
from roomlore.store.directory import NewAccount, RoomForPosting
from roomlore.store.erased import AccountName
from roomlore.store.queries import Connection
from roomlore.store.stated import EarlierMessage
from roomlore.wishes.listening import Screened, screen


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
        room_id = await meant.room(conn, org_id, room)
        answers = None if reply_to is None else await meant.message(conn, org_id, reply_to, room_id=room_id)
        named = {await meant.participant(conn, org_id, word) for word in to}
    return OutgoingMessage(
        room_id=room_id,
        text=text,
        reply_to=answers,
        recipient_ids=frozenset(named),
        external_id=external_id,
        metadata=metadata,
        listened=await screen([text]),
    )


async def store_message(conn: Connection, access: Access, outgoing: OutgoingMessage) -> tuple[MessageId, bool]:
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
    fit, unfit = await asyncio.to_thread(partition_storable, [_to_incoming(outgoing, room, speakers, now=now)], now=now)
    for skipped in unfit:
        raise BadInput("message", skipped.reason)
    [message] = fit
    if outgoing.external_id is not None:
        accounts = await _accounts_on(conn, org_id, room.platform, own)
        before = await stated.earlier_messages(
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
        await stated.add(conn, org_id, message_id, message.external_id, account=account)
        if await untangling.mark_messages_dirty(conn, org_id, await stated.link_waiting_replies(conn, org_id, message_id)):
            await work.wake(conn, "untangle")
    return message_id


def _check_idempotent(stored: EarlierMessage, message: IncomingMessage, audience: frozenset[ParticipantId]) -> None:
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
