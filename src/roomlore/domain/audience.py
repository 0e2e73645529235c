"""Who may see what: the rule stated once, for people to read.

The database decides (`store/migrations/0001_rooms.sql` says the same in SQL); this module is what the
decision is held against. It gets every fact it needs and looks nothing up.

In short. The operator sees everything in the org. A participant sees what they wrote; a whisper addressed
to them, wherever it was said; anything else in an open room of the org, and in a closed room what was
said while they were a member. What was injected for agents is for agents. Whatever is not known, such as
the audience of a whisper that names none, is nobody's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ALWAYS, MessageKind, Visibility
from roomlore.domain.records import Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A membership's time: from joining, inclusive, to leaving, exclusive."""

    #: None where the platform says "member" but not since when.
    joined_at: datetime | None = ALWAYS
    #: None while the membership lasts.
    left_at: datetime | None = None

    def covers(self, moment: datetime) -> bool:
        """Whether the moment lies in the period."""
        return _not_after(self.joined_at, moment) and (self.left_at is None or moment < self.left_at)

    def meets(self, other: "Period") -> bool:
        """Whether each began before the other ended."""
        return _starts_before_end(self, other) and _starts_before_end(other, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerFacts:
    """Everything about a viewer that visibility depends on."""

    viewer: Viewer
    #: False for an id that is no participant of the viewer's org.
    is_participant: bool = True
    is_agent: bool = False
    #: The viewer's own memberships.
    periods: Mapping[RoomId, Sequence[Period]] = field(default_factory=dict[RoomId, Sequence[Period]])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """Everything about a room that visibility depends on."""

    org_id: OrgId
    id: RoomId
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """Everything about a message that visibility depends on; whether it was redacted does not matter."""

    room: RoomFacts
    kind: MessageKind
    author_id: ParticipantId
    sent_at: datetime
    #: Whom it is addressed to. Only whispers and injections heed it; empty means nobody.
    audience: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Somebody's membership."""

    room: RoomFacts
    participant_id: ParticipantId
    period: Period


def can_see(message: MessageFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a message."""
    who = viewer.viewer
    if message.room.org_id != who.org_id:
        return False
    if who.is_operator or message.author_id == who.participant_id:
        return True
    match message.kind:
        case "whisper":
            return who.participant_id in message.audience
        case "context_injection":
            return who.participant_id in message.audience or (viewer.is_agent and _was_there(message, viewer))
        case "message" | "system":
            return _was_there(message, viewer)


def can_see_reply(child: MessageFacts, parent: MessageFacts | None, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see that one message answers another; None has not arrived yet."""
    if parent is None:
        return viewer.viewer.is_operator and can_see(child, viewer)
    return can_see(child, viewer) and can_see(parent, viewer)


def can_see_room(room: RoomFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see that a room exists: open, or ever a member."""
    if room.org_id != viewer.viewer.org_id:
        return False
    return viewer.viewer.is_operator or _is_open_to(room, viewer) or bool(viewer.periods.get(room.id))


def can_see_presence(presence: Presence, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a membership: their own, in an open room, or one they witnessed."""
    room, who = presence.room, viewer.viewer
    if room.org_id != who.org_id:
        return False
    if who.is_operator or presence.participant_id == who.participant_id:
        return True
    return _is_open_to(room, viewer) or any(
        period.meets(presence.period) for period in viewer.periods.get(room.id, ())
    )


def can_see_participant(
    participant_id: ParticipantId,
    viewer: ViewerFacts,
    *,
    org_id: OrgId,
    presences: Iterable[Presence],
    said: Iterable[MessageFacts],
) -> bool:
    """Return whether the viewer may know of somebody: themselves, a presence, or words they may see.

    Args:
        participant_id: Whom it is about.
        viewer: Who asks.
        org_id: The org of the participant.
        presences: All memberships of the participant.
        said: All messages the participant wrote. A whisper is enough: whoever may read it may know its
            author. Being addressed by the same whisper is not.
    """
    if org_id != viewer.viewer.org_id:
        return False
    return (
        viewer.viewer.is_operator
        or participant_id == viewer.viewer.participant_id
        or any(can_see_presence(presence, viewer) for presence in presences)
        or any(can_see(message, viewer) for message in said)
    )


def _was_there(message: MessageFacts, viewer: ViewerFacts) -> bool:
    periods = viewer.periods.get(message.room.id, ())
    return _is_open_to(message.room, viewer) or any(period.covers(message.sent_at) for period in periods)


def _is_open_to(room: RoomFacts, viewer: ViewerFacts) -> bool:
    return room.visibility == "open" and viewer.is_participant


def _not_after(joined_at: datetime | None, moment: datetime) -> bool:
    return joined_at is None or joined_at <= moment


def _starts_before_end(one: Period, other: Period) -> bool:
    return one.joined_at is None or other.left_at is None or one.joined_at < other.left_at
