"""Who is and was a member of a room, as operators see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMember:
    """A presence of somebody in a room."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: None: since before the records begin.
    joined_at: datetime | None
    #: None: still there.
    left_at: datetime | None
    #: The platform lists it, they wrote there, or an operator said so.
    known_by: Literal["platform", "wrote", "operator"]
