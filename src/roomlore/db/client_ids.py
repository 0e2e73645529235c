"""Ids that speakers state for what they say: a space of their own beside the platform's.

A stated id is its speaker's: it is looked up with the digest of the account that spoke, which also a hole keeps, so that
what was erased is not said again by a late retry, nor taken in when its platform tells of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from roomlore.db import projections
from roomlore.db.erased import AccountName, MessageName, account_digest
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind

QUERIES = Queries("client_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMessage:
    """A message that its speaker said before with an id."""

    id: MessageId
    kind: MessageKind
    body: str
    is_gone: bool
    audience: Sequence[ParticipantId]
    earlier: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedMessage:
    """A message whose speaker stated an id that is not known to be its platform's."""

    id: MessageId
    room_id: RoomId
    stated_id: str
    author_id: ParticipantId
    kind: MessageKind
    audience: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPerson:
    """Whose account a participant is."""

    participant_id: ParticipantId
    person_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdTombstone:
    """A place that was erased, by the id that was stated for it and the account that spoke."""

    platform: str
    room: str
    stated_id: str
    stated_by: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedReply:
    """A message that answers another than before."""

    message_id: MessageId


async def earlier_messages(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    stated_id: str,
    *,
    accounts: Iterable[AccountName],
    own: Collection[ParticipantId],
) -> EarlierMessage | None:
    """Return what these accounts said before with an id, or what their platform knows as theirs by it."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "stated_id": stated_id,
        "stated_by": [account_digest(org_id, name) for name in accounts],
        "own": list(own),
    }
    return await QUERIES.first(conn, "said_before", EarlierMessage, params)


async def add(
    conn: Connection, org_id: OrgId, message_id: MessageId, stated_id: str, *, account: AccountName
) -> None:
    """Keep the id that an account stated for a message that it said."""
    digest = account_digest(org_id, account)
    params = {"org_id": org_id, "message_id": message_id, "stated_id": stated_id, "stated_by": digest}
    await QUERIES.run(conn, "state", params)


async def unmatched(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[RoomId, str]]
) -> list[UnmatchedMessage]:
    """Return what was said with these ids in these rooms, where the platform has no message by the id."""
    params = {"org_id": org_id, "room_id": [key[0] for key in keys], "stated_id": [key[1] for key in keys]}
    return await QUERIES.all(conn, "waiting", UnmatchedMessage, params)


async def adopt_platform_ids(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> None:
    """Make the ids that were stated for these messages those of their platform."""
    await QUERIES.run(conn, "take_platforms_ids", {"org_id": org_id, "message_ids": list(ids)})


async def link_waiting_replies(conn: Connection, org_id: OrgId, message_id: MessageId) -> set[MessageId]:
    """Join waiting replies to what was just said with the id that they answer; return which."""
    return await _link(conn, org_id, "answer_stated", {"message_id": message_id})


async def link_replies(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[MessageId]:
    """Join those of these replies that wait to what was said with the ids that they answer; return which.

    They answer that until the platform's own message of the id comes, if it is another.
    """
    return await _link(conn, org_id, "join_stated", {"message_ids": list(ids)})


async def relink_replies(conn: Connection, org_id: OrgId) -> set[MessageId]:
    """Join replies to the messages just added that answered what was said with the same ids; return which."""
    return await _link(conn, org_id, "part_from_stated", {})


async def _link(conn: Connection, org_id: OrgId, name: str, params: dict[str, object]) -> set[MessageId]:
    rows = await QUERIES.all(conn, name, LinkedReply, params | {"org_id": org_id})
    moved = {row.message_id for row in rows}
    await projections.enqueue_replies(conn, org_id, moved)
    return moved


async def persons_of_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[ParticipantId, UUID]:
    """Return whose accounts those of these participants are that share a person with others."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    rows = await QUERIES.all(conn, "persons", AccountPerson, params)
    return {row.participant_id: row.person_id for row in rows}


async def tombstones(
    conn: Connection, org_id: OrgId, places: Sequence[MessageName]
) -> dict[MessageName, set[bytes]]:
    """Return which of these places were stated for messages that were erased, with the digests of who spoke."""
    params = {
        "org_id": org_id,
        "platform": [place[0] for place in places],
        "room": [place[1] for place in places],
        "stated_id": [place[2] for place in places],
    }
    found: dict[MessageName, set[bytes]] = {}
    for row in await QUERIES.all(conn, "stated_holes", ClientIdTombstone, params):
        found.setdefault((row.platform, row.room, row.stated_id), set()).add(row.stated_by)
    return found
