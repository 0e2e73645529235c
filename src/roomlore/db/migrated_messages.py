"""Reads messages by their ids on the platform, to compare them with the store from which they came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId
from roomlore.domain.incoming import ParticipantKind, RoomKind

QUERIES = Queries("migrated_messages")
#: Platform, external id of the room, and external id of the message.
MessageKey = tuple[str, str, str]
#: Platform and external id of a room.
RoomKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMessage:
    """The facts of a message that are counted."""

    platform: str
    room: str
    external_id: str
    #: The account of the author; None if the author was erased.
    author: str | None
    author_kind: ParticipantKind
    sent_at: datetime
    #: Whether the text was removed.
    is_removed: bool
    #: The id of the row from which it was migrated; None if another import stored it.
    legacy_id: str | None
    #: The MD5 digest of the text, in hex digits.
    body_digest: str

    @property
    def key(self) -> MessageKey:
        """The ids of the message."""
        return (self.platform, self.room, self.external_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The fields of a message that are compared one by one."""

    platform: str
    room: str
    external_id: str
    room_kind: RoomKind
    author_name: str
    body: str
    is_edited: bool
    metadata: Mapping[str, Any] | None
    #: The parent that the platform stated.
    stated_parent: str | None
    #: The parent, if it is stored.
    parent: str | None

    @property
    def key(self) -> MessageKey:
        """The ids of the message."""
        return (self.platform, self.room, self.external_id)


@QUERIES.query
async def find(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[str, str, str]]
) -> list[MigratedMessage]:
    """Return the messages with these ids."""
    ...


@QUERIES.query
async def contents(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[str, str, str]]
) -> list[MessageContent]:
    """Return the fields of the messages with these ids."""
    ...


@QUERIES.query
async def counts(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the number of all messages of each of these rooms."""
    ...
