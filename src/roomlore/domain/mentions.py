"""Whom and what a message names, and how people reacted to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.domain.ids import ParticipantId, RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Somebody, or a room, that a message names, as the viewer may call them."""

    #: The account or room as its platform knows it.
    external_id: str
    name: str
    #: One of the two.
    participant_id: ParticipantId | None = None
    room_id: RoomId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A reaction to a message."""

    emoji: str
    #: How many reacted so.
    count: int
    #: Those of them whom the viewer may know, where the platform says who they are.
    by: Sequence[Mention] = ()
