"""Turns the platform's names for rooms and authors into ours, adding those that are new."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roomlore.domain.ids import OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.store import directory
from roomlore.store.directory import NewIdentity, NewRoom
from roomlore.store.queries import Connection

RoomName = tuple[str, str]
AuthorName = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Our ids for the rooms and authors of one batch."""

    rooms: dict[RoomName, RoomId]
    authors: dict[AuthorName, ParticipantId]

    def room(self, message: IncomingMessage) -> RoomId:
        """Return the id of the message's room."""
        return self.rooms[message.platform, message.room.external_id]

    def author(self, platform: str, author: IncomingAuthor) -> ParticipantId:
        """Return the participant behind an author."""
        return self.authors[author_name(platform, author)]


def author_name(platform: str, author: IncomingAuthor) -> AuthorName:
    """Return what names an author on a platform."""
    return (platform, author.account_id, author.persona)


async def resolve(conn: Connection, org_id: OrgId, batch: Sequence[IncomingMessage]) -> Names:
    """Return our ids for every room and author that the batch names; new ones are added first."""
    rooms = {(message.platform, message.room.external_id): message.room for message in batch}
    authors = {author_name(platform, author): author for platform, author in _authors(batch)}
    names = await _known(conn, org_id, rooms, authors)
    if len(names.rooms) == len(rooms) and len(names.authors) == len(authors):
        return names
    await directory.lock_directory(conn, org_id)
    names = await _known(conn, org_id, rooms, authors)
    await _add_rooms(conn, org_id, rooms, names)
    await _add_authors(conn, org_id, authors, names)
    return await _known(conn, org_id, rooms, authors)


def _authors(batch: Sequence[IncomingMessage]) -> Iterable[tuple[str, IncomingAuthor]]:
    for message in batch:
        for member in message.room.members:
            yield message.platform, member.author
        for author in message.audience:
            yield message.platform, author
        yield message.platform, message.author


async def _known(
    conn: Connection,
    org_id: OrgId,
    rooms: dict[RoomName, IncomingRoom],
    authors: dict[AuthorName, IncomingAuthor],
) -> Names:
    return Names(
        rooms=await directory.rooms_by_external_id(conn, org_id, list(rooms)),
        authors=await directory.identities_by_account(conn, org_id, list(authors)),
    )


async def _add_rooms(
    conn: Connection, org_id: OrgId, rooms: dict[RoomName, IncomingRoom], names: Names
) -> None:
    new = [
        NewRoom(
            id=RoomId(uuid7()),
            platform=name[0],
            external_id=room.external_id,
            name=room.name,
            kind=room.kind,
            visibility=room.visibility,
            topic=room.topic,
        )
        for name, room in rooms.items()
        if name not in names.rooms
    ]
    await directory.add_rooms(conn, org_id, new)


async def _add_authors(
    conn: Connection, org_id: OrgId, authors: dict[AuthorName, IncomingAuthor], names: Names
) -> None:
    new = [
        NewIdentity(
            platform=name[0],
            account_id=author.account_id,
            persona=author.persona,
            participant_id=ParticipantId(uuid7()),
            kind=author.kind,
            name=author.name,
            bridged=author.bridged,
        )
        for name, author in authors.items()
        if name not in names.authors
    ]
    await directory.add_identities(conn, org_id, new)
