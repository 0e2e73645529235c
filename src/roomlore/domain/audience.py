"""Who may see what: the rule stated once, for people to read.

The database decides; `db/schema.sql` says the same in SQL. This module is what the decision is held
against. It gets every fact it needs and looks nothing up.

In short. The operator sees everything in the org. A participant sees what they wrote; a whisper addressed
to them, wherever it was said; anything else in an open room of the org, and in a closed room what was
said while they were a member. What was injected for agents is for agents. Participants who are accounts of
one person see what any of them may. What is derived is seen by those who may see all it was made from.
Whatever is not known, such as the audience of a whisper that names none, is nobody's.

Where an answer is to be posted, its reader sees besides no more than everybody who reads there. In an open room that is
what was said in open rooms; in a closed one also what was said while all its members were there, and what was whispered to
each of them; to a whisper the same, of those who hear it. A closed room whose members were never listed whole, where others
may read along, is told only what was said there and in open rooms.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        return _joined_by(self.joined_at, moment) and (self.left_at is None or moment < self.left_at)

    def overlaps(self, other: "Period") -> bool:
        """Whether each began before the other ended."""
        return _starts_before_end(self, other) and _starts_before_end(other, self)

    def __and__(self, other: "Period") -> "Period | None":
        """Return the time that is in both; None where there is none."""
        joined = max((at for at in (self.joined_at, other.joined_at) if at is not None), default=None)
        left = min((at for at in (self.left_at, other.left_at) if at is not None), default=None)
        is_empty = joined is not None and left is not None and joined >= left
        return None if is_empty else Period(joined_at=joined, left_at=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFacts:
    """Everything about the place where an answer is posted that visibility depends on."""

    #: The room in which it is.
    room_id: RoomId | None
    #: Each person who reads there; None: more than can be named, the whole org or those of a closed room whose members were
    #: never listed whole. Nobody, where no member is known or the viewer, who is no operator, is none: then nothing is posted.
    readers: "Sequence[ViewerFacts] | None"
    #: When all who are known were in the room, where not all can be named.
    member_periods: Sequence[Period] = ()

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads there."""
        return self.readers is None or bool(self.readers)

    def shared_periods(self, room: "RoomFacts") -> list[Period]:
        """Return when all who read there were members of a room."""
        if self.readers is None:
            return list(self.member_periods) if room.id == self.room_id else []
        shared: list[Period] | None = None
        for reader in self.readers:
            own = reader.periods.get(room.id, ())
            shared = list(own) if shared is None else [both for a in shared for b in own if (both := a & b)]
        return shared or []


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerFacts:
    """Everything about a viewer that visibility depends on."""

    viewer: Viewer
    #: False for an id that is no participant of the viewer's org.
    is_participant: bool = True
    #: Whether every account of the viewer is an agent's.
    is_agent: bool = False
    #: The memberships of every account of the viewer.
    periods: Mapping[RoomId, Sequence[Period]] = field(default_factory=dict[RoomId, Sequence[Period]])
    #: Participants who are other accounts of the same person.
    accounts: frozenset[ParticipantId] = frozenset()
    #: Where the answer is posted; None: it is for the viewer's own eyes.
    place: PlaceFacts | None = None

    @property
    def reads_as_operator(self) -> bool:
        """Whether the operator reads, wherever the answer is posted."""
        return self.viewer.participant_id is None

    def is_own(self, participant_id: ParticipantId | None) -> bool:
        """Whether a participant is the viewer, by whatever account; the author of holes, the org, is nobody."""
        if participant_id is None or participant_id == self.viewer.org_id:
            return False
        return participant_id == self.viewer.participant_id or participant_id in self.accounts

    def is_one_of(self, participants: Iterable[ParticipantId]) -> bool:
        """Whether the viewer, by whatever account, is among some participants."""
        return any(self.is_own(participant_id) for participant_id in participants)


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
    #: What Roomlore itself gives by it: then it is for those it is addressed to alone, as long as that stands and they
    #: may recall it. None for what a platform injected, which is for every agent in the room besides.
    injected_memory: "MemoryFacts | None" = None
    #: Who had spoken in its conversation when that became sensitive; nobody where it is not.
    prior_speakers: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Everything about a memory that visibility depends on."""

    org_id: OrgId
    #: The messages it rests on.
    sources: Sequence[MessageFacts]
    #: Sensitive ones are for those who were there, however open the room is.
    is_sensitive: bool = False
    asserted_by: ParticipantId | None = None
    #: Whether it is for the whole org, where it rests on no message; then it is fit for every place as well.
    is_for_org: bool = False
    #: What took its place, if anything did.
    superseded_by: "MemoryFacts | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFacts:
    """Everything about a conversation that visibility of its label depends on."""

    org_id: OrgId
    messages: Sequence[MessageFacts]
    is_sensitive: bool = False
    #: Who had spoken in it when it became sensitive.
    prior_speakers: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Somebody's membership."""

    room: RoomFacts
    participant_id: ParticipantId
    period: Period


def can_see_message(message: MessageFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a message."""
    is_postable = viewer.place is None or can_post(message, viewer.place)
    if message.room.org_id != viewer.viewer.org_id or not is_postable:
        return False
    if viewer.reads_as_operator or viewer.is_own(message.author_id):
        return True
    match message.kind:
        case "whisper":
            return viewer.is_one_of(message.audience)
        case "context_injection" if message.injected_memory is not None:
            stands = message.injected_memory.superseded_by is None
            return (
                viewer.is_one_of(message.audience)
                and stands
                and can_see_memory(message.injected_memory, viewer)
            )
        case "context_injection":
            return viewer.is_one_of(message.audience) or (viewer.is_agent and _can_access(message, viewer))
        case "message" | "system":
            return _can_access(message, viewer)


def can_post(message: MessageFacts, place: PlaceFacts) -> bool:
    """Return whether everybody who reads at a place could read a message."""
    if not place.has_readers:
        return False
    readers = place.readers
    if message.injected_memory is not None:
        return message.injected_memory.superseded_by is None and _can_post_memory(
            message.injected_memory, place
        )
    if message.kind in {"whisper", "context_injection"}:
        return readers is not None and all(
            reader.is_own(message.author_id) or reader.is_one_of(message.audience) for reader in readers
        )
    return message.room.visibility == "open" or _all_were_members(message, place)


def can_see_reply(child: MessageFacts, parent: MessageFacts | None, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see that one message answers another; None has not arrived yet."""
    if parent is None:
        return viewer.viewer.is_operator and can_see_message(child, viewer)
    return can_see_message(child, viewer) and can_see_message(parent, viewer)


def can_see_room(room: RoomFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see that a room exists: open, or ever a member."""
    if room.org_id != viewer.viewer.org_id:
        return False
    if (place := viewer.place) is not None:
        is_there = room.id == place.room_id or bool(place.shared_periods(room))
        if not (place.has_readers and (room.visibility == "open" or is_there)):
            return False
    return viewer.reads_as_operator or _is_open_to(room, viewer) or bool(viewer.periods.get(room.id))


def can_see_membership(presence: Membership, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a membership: their own, in an open room, or one they witnessed."""
    room, who = presence.room, viewer.viewer
    if room.org_id != who.org_id:
        return False
    if (place := viewer.place) is not None:
        was_seen = any(period & presence.period for period in place.shared_periods(room))
        if not (place.has_readers and (room.visibility == "open" or was_seen)):
            return False
    if viewer.reads_as_operator or viewer.is_own(presence.participant_id):
        return True
    met = any(period.overlaps(presence.period) for period in viewer.periods.get(room.id, ()))
    return met or _is_open_to(room, viewer)


def can_see_participant(
    participant_id: ParticipantId,
    viewer: ViewerFacts,
    *,
    org_id: OrgId,
    memberships: Iterable[Membership],
    messages: Iterable[MessageFacts],
) -> bool:
    """Return whether the viewer may know of somebody: themselves, a presence, or words they may see.

    Args:
        participant_id: Whom it is about.
        viewer: Who asks.
        org_id: The org of the participant.
        memberships: All memberships of the participant.
        messages: All messages the participant wrote. A whisper is enough: whoever may read it may know its
            author. Being addressed by the same whisper is not.
    """
    if org_id != viewer.viewer.org_id:
        return False
    return (
        viewer.viewer.is_operator
        or viewer.is_own(participant_id)
        or any(can_see_membership(presence, viewer) for presence in memberships)
        or any(can_see_message(message, viewer) for message in messages)
    )


def can_see_merge(viewer: ViewerFacts, *, org_id: OrgId, knows: bool, knows_another: bool) -> bool:
    """Return whether the viewer may see that somebody is an account of a person.

    Args:
        viewer: Who asks.
        org_id: The org of the accounts.
        knows: Whether the viewer may know of this account.
        knows_another: Whether the viewer may know of another account of the same person.
    """
    if org_id != viewer.viewer.org_id:
        return False
    return viewer.viewer.is_operator or (knows and knows_another)


def can_see_memory(memory: MemoryFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a memory: all its sources, or without any their own or the org's.

    One that was superseded is there for those only who may see what took its place: to others it would still stand.
    """
    if memory.org_id != viewer.viewer.org_id:
        return False
    if viewer.viewer.is_operator:
        return True
    if memory.superseded_by is not None and not can_see_memory(memory.superseded_by, viewer):
        return False
    if not memory.sources:
        return _can_post_assertion(memory, viewer.place) and (
            viewer.is_own(memory.asserted_by)
            or (memory.is_for_org and (viewer.is_participant or viewer.reads_as_operator))
        )
    return _can_see_all(memory.sources, viewer, is_sensitive=memory.is_sensitive)


def can_see_conversation(conversation: ConversationFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see what a conversation is called: everything said in it."""
    if conversation.org_id != viewer.viewer.org_id:
        return False
    if viewer.viewer.is_operator:
        return True
    spoke = conversation.prior_speakers
    told = [replace(one, prior_speakers=one.prior_speakers | spoke) for one in conversation.messages]
    return bool(told) and _can_see_all(told, viewer, is_sensitive=conversation.is_sensitive)


def can_see_interaction(
    agent_id: ParticipantId, viewer: ViewerFacts, *, conversation: ConversationFacts, knows: bool
) -> bool:
    """Return whether the viewer may see what passed between an agent and somebody whom the viewer knows or not.

    Args:
        agent_id: The agent.
        viewer: Who asks.
        conversation: From which it was counted.
        knows: Whether the viewer may know of the other.
    """
    if conversation.org_id != viewer.viewer.org_id:
        return False
    own = viewer.is_own(agent_id) and knows and can_see_conversation(conversation, viewer)
    return viewer.viewer.is_operator or own


def can_see_audit_line(reader_id: ParticipantId | None, viewer: ViewerFacts, *, org_id: OrgId) -> bool:
    """Return whether the viewer may see a line of the activity log or a receipt: their own.

    Args:
        reader_id: Who read, changed or asked for it; None is the operator.
        viewer: Who asks.
        org_id: The org of the line.
    """
    if org_id != viewer.viewer.org_id:
        return False
    return viewer.viewer.is_operator or viewer.is_own(reader_id)


def _can_see_all(messages: Iterable[MessageFacts], viewer: ViewerFacts, *, is_sensitive: bool) -> bool:
    return all(
        can_see_message(message, viewer) and (not is_sensitive or _was_present(message, viewer))
        for message in messages
    )


def _can_post_assertion(memory: MemoryFacts, place: PlaceFacts | None) -> bool:
    """Return whether what somebody asserted may be told at a place: what is for the org, and what is the only reader's."""
    if place is None:
        return True
    return (memory.is_for_org and place.has_readers) or _is_sole_reader(memory.asserted_by, place)


def _can_post_memory(memory: MemoryFacts, place: PlaceFacts) -> bool:
    """Return whether everybody who reads at a place could see a memory."""
    if not memory.sources:
        return _can_post_assertion(memory, place)
    return all(
        can_post(message, place) and (not memory.is_sensitive or _all_were_members(message, place))
        for message in memory.sources
    )


def _is_sole_reader(participant_id: ParticipantId | None, place: PlaceFacts) -> bool:
    """Return whether one person alone reads at a place, by whatever account."""
    readers = place.readers
    return readers is not None and len(readers) == 1 and readers[0].is_own(participant_id)


def _all_were_members(message: MessageFacts, place: PlaceFacts) -> bool:
    """Return whether everybody who reads at a place was a member of the room when a message was said there."""
    return any(period.covers(message.sent_at) for period in place.shared_periods(message.room))


def _can_access(message: MessageFacts, viewer: ViewerFacts) -> bool:
    return _is_open_to(message.room, viewer) or _was_member(message, viewer)


def _was_present(message: MessageFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer was there when a message was said, and so was everybody who reads at the place."""
    if viewer.place is not None and not _all_were_members(message, viewer.place):
        return False
    return (
        viewer.reads_as_operator or _was_member(message, viewer) or viewer.is_one_of(message.prior_speakers)
    )


def _was_member(message: MessageFacts, viewer: ViewerFacts) -> bool:
    return any(period.covers(message.sent_at) for period in viewer.periods.get(message.room.id, ()))


def _is_open_to(room: RoomFacts, viewer: ViewerFacts) -> bool:
    return room.visibility == "open" and (viewer.is_participant or viewer.reads_as_operator)


def _joined_by(joined_at: datetime | None, moment: datetime) -> bool:
    return joined_at is None or joined_at <= moment


def _starts_before_end(one: Period, other: Period) -> bool:
    return one.joined_at is None or other.left_at is None or one.joined_at < other.left_at
