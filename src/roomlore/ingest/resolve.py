"""Resolves platform names of rooms and authors to ids. Adds new rooms and authors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.db import directory
from roomlore.db.directory import AccountKey, KindUpdate, NewAccount, NewRoom
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId, ParticipantId, RoomId, random_id
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, ParticipantKind
from roomlore.domain.room_visibility import UNKNOWN_KIND, is_stated_closed, visibility_of
from roomlore.ingest.versions import AttributedMessage

RoomName = tuple[str, str]
AuthorName = tuple[str, str, str]
#: The kind of a participant changes only to a kind with a higher rank.
KIND_RANK: Mapping[ParticipantKind, int] = {"human": 0, "system": 1, "agent": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedNames:
    """The ids of the rooms and authors of a batch."""

    rooms: Mapping[RoomName, RoomId]
    authors: Mapping[AuthorName, AccountKey]
    #: Stored humans that turned out to be of another kind.
    changed_kinds: Sequence[KindUpdate]

    def room(self, message: IncomingMessage) -> RoomId:
        """Return the room id of a message."""
        return self.rooms[message.platform, message.room.external_id]

    def author(self, platform: str, author: IncomingAuthor) -> ParticipantId:
        """Return the participant id of an author."""
        return self.authors[author_name(platform, author)].participant_id

    def attributed(self, message: IncomingMessage) -> AttributedMessage:
        """Return a message with the ids of author and audience."""
        return AttributedMessage(
            message=message,
            author_id=self.author(message.platform, message.author),
            audience={self.author(message.platform, one) for one in message.audience},
        )

    def kind(self, platform: str, author: IncomingAuthor) -> ParticipantKind:
        """Return the known kind of an author's participant."""
        return self.authors[author_name(platform, author)].kind


def author_name(platform: str, author: IncomingAuthor) -> AuthorName:
    """Return the key of an author on a platform."""
    return (platform, author.account_id, author.persona)


def distinct_rooms(batch: Sequence[IncomingMessage]) -> list[tuple[RoomName, IncomingRoom]]:
    """Return the rooms of a batch without duplicates."""
    rooms = {(message.platform, id(message.room)): message.room for message in batch}
    return [((platform, room.external_id), room) for (platform, _), room in rooms.items()]


async def resolve(conn: Connection, org_id: OrgId, batch: Sequence[IncomingMessage]) -> ResolvedNames:
    """Return the ids of all rooms and authors of the batch. Add new rooms and authors first."""
    described = distinct_rooms(batch)
    named = {name: room.name for name, room in described if room.name != room.external_id}
    rooms = {name: replace(room, name=named.get(name, room.name)) for name, room in described}
    authors: dict[AuthorName, IncomingAuthor] = {}
    for platform, author in authors_named(batch):
        name = author_name(platform, author)
        # The kind with the highest rank wins, because some records may not mark an agent.
        authors[name] = max(authors.get(name, author), author, key=lambda named: KIND_RANK[named.kind])
    known_rooms, known = await _known(conn, org_id, rooms, authors)
    if len(known_rooms) < len(rooms) or len(known) < len(authors):
        await directory.lock_directory(conn, org_id)
        known_rooms, known = await _known(conn, org_id, rooms, authors)
        await _add_rooms(conn, org_id, rooms, known_rooms)
        await _add_authors(conn, org_id, authors, known)
        known_rooms, known = await _known(conn, org_id, rooms, authors)
    return _names(known_rooms, known, authors)


def _names(
    rooms: Mapping[RoomName, RoomId],
    known: Mapping[AuthorName, AccountKey],
    authors: Mapping[AuthorName, IncomingAuthor],
) -> ResolvedNames:
    turned_out: dict[ParticipantId, ParticipantKind] = {}
    for name, identity in known.items():
        kind = authors[name].kind
        if KIND_RANK[kind] > KIND_RANK[turned_out.get(identity.participant_id, identity.kind)]:
            turned_out[identity.participant_id] = kind
    noted = [KindUpdate(participant_id=id_, kind=kind) for id_, kind in sorted(turned_out.items())]
    now = {
        name: replace(identity, kind=turned_out.get(identity.participant_id, identity.kind))
        for name, identity in known.items()
    }
    return ResolvedNames(rooms=rooms, authors=now, changed_kinds=noted)


def authors_named(batch: Sequence[IncomingMessage]) -> Iterable[tuple[str, IncomingAuthor]]:
    """Yield all members, audiences and authors of a batch with their platform."""
    for (platform, _), room in distinct_rooms(batch):
        for member in room.members:
            yield platform, member.author
    for message in batch:
        for author in message.audience:
            yield message.platform, author
        yield message.platform, message.author


async def _known(
    conn: Connection,
    org_id: OrgId,
    rooms: Mapping[RoomName, IncomingRoom],
    authors: Mapping[AuthorName, IncomingAuthor],
) -> tuple[dict[RoomName, RoomId], dict[AuthorName, AccountKey]]:
    return (
        await directory.rooms_by_external_id(conn, org_id, list(rooms)),
        await directory.accounts_by_key(conn, org_id, list(authors)),
    )


async def _add_rooms(
    conn: Connection,
    org_id: OrgId,
    rooms: Mapping[RoomName, IncomingRoom],
    known: Mapping[RoomName, RoomId],
) -> None:
    new = [
        NewRoom(
            id=RoomId(random_id()),
            platform=name[0],
            external_id=room.external_id,
            name=room.name,
            kind=room.kind or UNKNOWN_KIND,
            visibility=visibility_of(room).visibility,
            is_stated_closed=is_stated_closed(room),
            topic=room.topic,
            workspace=room.workspace,
            context_id=room.context_id,
        )
        for name, room in rooms.items()
        if name not in known
    ]
    await directory.add_rooms(conn, org_id, new)


async def _add_authors(
    conn: Connection,
    org_id: OrgId,
    authors: Mapping[AuthorName, IncomingAuthor],
    known: Mapping[AuthorName, AccountKey],
) -> None:
    new = [
        NewAccount(
            platform=name[0],
            account_id=author.account_id,
            persona=author.persona,
            participant_id=ParticipantId(random_id()),
            kind=author.kind,
            name=author.name,
            bridged=author.bridged,
        )
        for name, author in authors.items()
        if name not in known
    ]
    await directory.add_participants_with_accounts(conn, org_id, new)
