"""What an agent says as itself: one message, by its own account on the platform of the room."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from roomlore.app.desk import Desk
from roomlore.app.importing import sort_out
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.domain.records import Message
from roomlore.ingest import accept
from roomlore.ingest.resolve import author_name
from roomlore.retrieval import meant
from roomlore.store import directory, erased, stated, timeline, untangling, work
from roomlore.store.directory import NewIdentity, RoomToSpeakIn
from roomlore.store.erased import AccountName
from roomlore.store.queries import Connection
from roomlore.store.stated import SaidBefore
from roomlore.wishes.listening import Listened, listen


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A message that is about to be said: where, what, in answer to what, and to whom alone."""

    room_id: RoomId
    text: str
    answers: Message | None
    #: Whom a whisper names; empty for a message to the whole room, and for an answer to whoever heard a whisper.
    to: frozenset[ParticipantId]
    #: The id that the speaker states for it.
    external_id: str | None
    metadata: Mapping[str, Any]
    #: Whether the text is put like a request of privacy.
    listened: Listened


async def look_up(
    desk: Desk,
    room: str,
    text: str,
    *,
    reply_to: str | None,
    to: Sequence[str],
    external_id: str | None,
    metadata: Mapping[str, Any],
) -> Utterance:
    """Return what the caller means to say, as far as the caller may see what it names.

    Raises:
        BadInput: nobody speaks, or several rooms, messages or people are meant.
        NotFound: there is no such room, message or participant, or the caller may not see it.
    """
    caller, org_id = desk.caller, desk.org_id
    if caller.participant_id is None:
        raise BadInput("speaker", "an operator has no voice; come with an agent's key, or act for somebody")
    async with desk.looking("say") as conn:
        room_id = await meant.room(conn, org_id, room)
        answers = None if reply_to is None else await meant.message(conn, org_id, reply_to, room_id=room_id)
        named = {await meant.participant(conn, org_id, word) for word in to}
    return Utterance(
        room_id=room_id,
        text=text,
        answers=answers,
        to=frozenset(named),
        external_id=external_id,
        metadata=metadata,
        listened=await listen([text]),
    )


async def say(conn: Connection, desk: Desk, said: Utterance) -> tuple[MessageId, bool]:
    """Store a message of the caller's and return its id, and whether it was not there before.

    What was said before with the same id is not said again.

    Raises:
        BadInput: it cannot be stored, its id is that of another message of the speaker's or of one that was removed, or
            nobody else would hear a whisper.
        NotAllowed: the room is closed and the caller is no member now.
        NotFound: the room or the caller was erased meanwhile.
    """
    caller, org_id, now = desk.caller, desk.org_id, datetime.now(UTC)
    assert caller.participant_id is not None
    await erased.keep_erasures_out(conn, org_id)
    await directory.lock_directory(conn, org_id)
    await directory.lock_rooms(conn, [said.room_id])
    own = await desk.own(conn)
    room = await room_to_speak_in(conn, desk, said.room_id, at=now)
    audience = await _hearers(conn, org_id, said, own=own)
    speakers = await _on_platform(conn, org_id, room.platform, [caller.participant_id, *sorted(audience)])
    if caller.participant_id not in speakers or len(speakers) <= len(audience):
        raise NotFound("participant", str(caller.participant_id))
    fit, unfit = await asyncio.to_thread(sort_out, [_message(said, room, speakers, now=now)], now=now)
    for skipped in unfit:
        raise BadInput("message", skipped.reason)
    [message] = fit
    if said.external_id is not None:
        accounts = await _accounts_on(conn, org_id, room.platform, own)
        before = await stated.said_before(
            conn, org_id, said.room_id, message.external_id, accounts=accounts, own=own
        )
        if before is not None:
            _check_same(before, message, audience)
            return before.id, False
    return await _store(conn, org_id, said, message, now=now), True


async def room_to_speak_in(conn: Connection, desk: Desk, room_id: RoomId, *, at: datetime) -> RoomToSpeakIn:
    """Return the room in which the caller may say something at a time.

    Raises:
        NotAllowed: it is closed and the caller is no member then.
        NotFound: it is not there any more.
    """
    own = await desk.own(conn)
    room = await directory.room_to_speak_in(conn, desk.org_id, room_id, participants=sorted(own), at=at)
    if room is None:
        raise NotFound("room", str(room_id))
    if not room.is_present:
        raise NotAllowed("only present members say something in a closed room")
    return room


async def _hearers(
    conn: Connection, org_id: OrgId, said: Utterance, *, own: Collection[ParticipantId]
) -> frozenset[ParticipantId]:
    """Return whom a whisper is addressed to; nobody where it is no whisper.

    What was meant for some never goes to the room because none of them is left.
    """
    named = said.to
    if not named and (said.answers is None or said.answers.kind != "whisper"):
        return frozenset()
    if not named and said.answers is not None:
        # An answer in the open would tell the room what was whispered.
        heard = await timeline.hearers(conn, org_id, [said.answers.id])
        named = {said.answers.author_id, *(one.id for one in heard)}
        # The author of what was erased is nobody, with the org's id.
        named.discard(ParticipantId(org_id))
    others = frozenset(named) - set(own)
    if not others:
        raise BadInput("to", "names nobody but yourself; name whoever is to hear it")
    return others


async def _store(
    conn: Connection, org_id: OrgId, said: Utterance, message: IncomingMessage, *, now: datetime
) -> MessageId:
    """Store a message under an id of our own, and keep the one that its speaker states beside it."""
    stored = replace(message, external_id=str(uuid4()))
    accepted = await accept.accept(conn, org_id, [stored], received_at=now, listened=said.listened)
    for skipped in accepted.skipped:
        raise BadInput("message", skipped.reason)
    [message_id] = accepted.message_ids
    if said.external_id is not None:
        account = author_name(message.platform, message.author)
        await stated.state(conn, org_id, message_id, message.external_id, account=account)
        if await untangling.touch_rooms_of(conn, org_id, await stated.answer(conn, org_id, message_id)):
            await work.wake(conn, "untangle")
    return message_id


def _check_same(before: SaidBefore, message: IncomingMessage, audience: frozenset[ParticipantId]) -> None:
    """Do nothing if a message is what was said before with the same id."""
    if before.is_gone:
        raise BadInput("external_id", "is that of a message that was removed; say it with another, or none")
    is_same = before.kind == message.kind and frozenset(before.audience) == audience
    if not is_same or message.body not in (before.body, *before.earlier):
        raise BadInput(
            "external_id", "is that of another message of yours; edit that one, or say this with another id"
        )


async def _accounts_on(
    conn: Connection, org_id: OrgId, platform: str, participants: Collection[ParticipantId]
) -> list[AccountName]:
    found = await directory.identities(conn, org_id, participants)
    return [(platform, one.account_id, one.persona) for one in found if one.platform == platform]


async def _on_platform(
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
        for one in await directory.identities(conn, org_id, people)
        if one.platform == platform and not one.bridged
    }
    new = [
        NewIdentity(
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


def _message(
    said: Utterance,
    room: RoomToSpeakIn,
    speakers: Mapping[ParticipantId, IncomingAuthor],
    *,
    now: datetime,
) -> IncomingMessage:
    speaker, *audience = speakers.values()
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
        reply_to=None if said.answers is None else said.answers.external_id,
        audience=audience,
        metadata=said.metadata,
    )
