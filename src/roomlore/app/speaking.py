"""What an agent says as itself: one message, by its own account on the platform of the room."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from roomlore.retrieval import meant
from roomlore.store import directory, erased, messages
from roomlore.store.directory import NewIdentity, RoomToSpeakIn
from roomlore.store.queries import Connection
from roomlore.wishes.listening import Listened, listen


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A message that is about to be said: where, what, in answer to what, and to whom alone."""

    room_id: RoomId
    text: str
    answers: Message | None
    #: Whom a whisper is addressed to; empty for a message to the whole room.
    audience: frozenset[ParticipantId]
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
        audience = {await meant.participant(conn, org_id, word) for word in to}
    if answers is not None and answers.kind == "whisper" and not audience:
        # An answer in the open would tell the room what was whispered.
        audience = {answers.author_id}
    return Utterance(
        room_id=room_id,
        text=text,
        answers=answers,
        audience=frozenset(audience) - {caller.participant_id},
        external_id=external_id,
        metadata=metadata,
        listened=await listen([text]),
    )


async def say(conn: Connection, desk: Desk, said: Utterance) -> tuple[MessageId, bool]:
    """Store a message of the caller's and return its id, and whether it was not there before.

    Raises:
        BadInput: it cannot be stored, or its external id is that of another message.
        NotAllowed: the room is closed and the caller is no member now.
        NotFound: the room or the caller was erased meanwhile.
    """
    caller, org_id, now = desk.caller, desk.org_id, datetime.now(UTC)
    assert caller.participant_id is not None
    await erased.keep_erasures_out(conn, org_id)
    await directory.lock_directory(conn, org_id)
    await directory.lock_rooms(conn, [said.room_id])
    own = {account.id for account in await directory.accounts(conn, org_id, caller.participant_id)}
    room = await directory.room_to_speak_in(conn, org_id, said.room_id, participants=sorted(own), at=now)
    if room is None:
        raise NotFound("room", str(said.room_id))
    if not room.is_present:
        raise NotAllowed("only present members say something in a closed room")
    speakers = await _on_platform(
        conn, org_id, room.platform, [caller.participant_id, *sorted(said.audience)]
    )
    if caller.participant_id not in speakers or len(speakers) <= len(said.audience):
        raise NotFound("participant", str(caller.participant_id))
    external_id = await _free_id(conn, org_id, said, own=own)
    message = _message(said, room, speakers, external_id=external_id, now=now)
    fit, unfit = await asyncio.to_thread(sort_out, [message], now=now)
    accepted = await accept.accept(conn, org_id, fit, received_at=now, listened=said.listened)
    for skipped in (*unfit, *accepted.skipped):
        raise BadInput("message", skipped.reason)
    [message_id] = accepted.message_ids
    return message_id, bool(accepted.added)


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


async def _free_id(
    conn: Connection, org_id: OrgId, said: Utterance, *, own: Collection[ParticipantId]
) -> str:
    """Return the external id of a message: the stated one, unless somebody else's message has it.

    Refusing it would tell the caller of a message that it may not see.
    """
    if said.external_id is None:
        return str(uuid4())
    found = await messages.find_messages(conn, org_id, said.external_id, room_id=said.room_id)
    others = [
        one
        for one in found
        if one.external_id == said.external_id and one.author_id not in own and one.erased_at is None
    ]
    return str(uuid4()) if others else said.external_id


def _message(
    said: Utterance,
    room: RoomToSpeakIn,
    speakers: Mapping[ParticipantId, IncomingAuthor],
    *,
    external_id: str,
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
        external_id=external_id,
        author=speaker,
        body=said.text,
        sent_at=now,
        kind="whisper" if audience else "message",
        precision="us",
        reply_to=None if said.answers is None else said.answers.external_id,
        audience=audience,
        metadata=said.metadata,
    )
