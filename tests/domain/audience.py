"""The visibility rules, written as an executable specification.

The database decides: `db/schema.sql` states the same rules in SQL, and tests compare the two. This module gets every
fact as an argument and looks nothing up.

The operator sees everything in the org. A participant sees what they wrote, whispers addressed to them, every
other message of an open room, and the messages of a closed room sent while they were a member. Injected context is
for agents. Accounts of one person share what any of them may see. Derived records (memories, labels) are visible
to those who may see all their sources. What is unknown, such as the audience of a whisper that names none, is
visible to nobody.

If an answer will be posted, the reader sees only what every reader of that destination may see. In an open room these
are the messages of open rooms. In a closed room they are also messages sent while all its current members were
members, and whispers addressed to each of them. For a whisper the same holds with its audience. In a closed room
with an incomplete member list only its own messages and those of open rooms are visible.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ALWAYS, MessageKind, Visibility
from roomlore.domain.records import Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The time of a membership: `joined_at` is inclusive, `left_at` exclusive."""

    #: None if the platform lists the member without a date.
    joined_at: datetime | None = ALWAYS
    #: None while the membership lasts.
    left_at: datetime | None = None

    def covers(self, moment: datetime) -> bool:
        """Return whether the moment lies in the period."""
        has_joined = self.joined_at is None or self.joined_at <= moment
        return has_joined and (self.left_at is None or moment < self.left_at)

    def overlaps(self, other: "Period") -> bool:
        """Return whether the periods share a moment."""
        return _starts_before_end(self, other) and _starts_before_end(other, self)

    def __and__(self, other: "Period") -> "Period | None":
        """Return the intersection, or None if it is empty."""
        joined = max((at for at in (self.joined_at, other.joined_at) if at is not None), default=None)
        left = min((at for at in (self.left_at, other.left_at) if at is not None), default=None)
        is_empty = joined is not None and left is not None and joined >= left
        return None if is_empty else Period(joined_at=joined, left_at=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationFacts:
    """The facts about the destination of an answer that visibility depends on."""

    room_id: RoomId | None
    #: Every reader; None if they cannot all be named: the whole org, or a closed room with an incomplete
    #: member list. Empty if no member is known or the viewer is neither operator nor member: then nothing is
    #: posted.
    readers: "Sequence[ViewerFacts] | None"
    #: If not all readers can be named: the periods in which all known members were in the room.
    member_periods: Sequence[Period] = ()

    @property
    def has_readers(self) -> bool:
        """Whether the destination has any reader."""
        return self.readers is None or bool(self.readers)

    def shared_periods(self, room: "RoomFacts") -> list[Period]:
        """Return the periods in which all readers were members of a room."""
        if self.readers is None:
            return list(self.member_periods) if room.id == self.room_id else []
        shared: list[Period] | None = None
        for reader in self.readers:
            own = reader.periods.get(room.id, ())
            shared = list(own) if shared is None else [both for a in shared for b in own if (both := a & b)]
        return shared or []


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerFacts:
    """The facts about a viewer that visibility depends on."""

    viewer: Viewer
    #: False if the id is no participant of the viewer's org.
    is_participant: bool = True
    #: True if every account of the viewer is an agent.
    is_agent: bool = False
    #: The memberships of all accounts of the viewer.
    periods: Mapping[RoomId, Sequence[Period]] = field(default_factory=dict[RoomId, Sequence[Period]])
    #: The other accounts of the same person.
    accounts: frozenset[ParticipantId] = frozenset()
    #: Where the answer is posted; None: nowhere, only the viewer reads it.
    destination: DestinationFacts | None = None

    @property
    def reads_as_operator(self) -> bool:
        """Whether the viewer is the operator, wherever the answer is posted."""
        return self.viewer.participant_id is None

    def is_own(self, participant_id: ParticipantId | None) -> bool:
        """Return whether a participant is an account of the viewer.

        The author of tombstones (the org) is nobody's account.
        """
        if participant_id is None or participant_id == self.viewer.org_id:
            return False
        return participant_id == self.viewer.participant_id or participant_id in self.accounts

    def is_one_of(self, participants: Iterable[ParticipantId]) -> bool:
        """Return whether an account of the viewer is among the participants."""
        return any(self.is_own(participant_id) for participant_id in participants)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """The facts about a room that visibility depends on."""

    org_id: OrgId
    id: RoomId
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The facts about a message that visibility depends on. Redaction changes nothing."""

    room: RoomFacts
    kind: MessageKind
    author_id: ParticipantId
    sent_at: datetime
    #: The addressees of a whisper or an injection; empty means nobody.
    audience: frozenset[ParticipantId] = frozenset()
    #: The memory that Roomlore injected with this message. The message is visible to its addressees while the
    #: memory is active and they may see it. None if the platform injected it: then every agent in the room
    #: sees it too.
    injected_memory: "MemoryFacts | None" = None
    #: Who had spoken in its conversation before the conversation became sensitive; empty if it is not sensitive.
    prior_speakers: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """The facts about a memory that visibility depends on."""

    org_id: OrgId
    sources: Sequence[MessageFacts]
    #: A sensitive memory is visible only to those who were present, even in an open room.
    is_sensitive: bool = False
    asserted_by: ParticipantId | None = None
    #: Without sources: whether the whole org may see it. It may then be posted anywhere.
    is_for_org: bool = False
    superseded_by: "MemoryFacts | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFacts:
    """The facts about a conversation that the visibility of its label depends on."""

    org_id: OrgId
    messages: Sequence[MessageFacts]
    is_sensitive: bool = False
    #: The speakers before it became sensitive.
    prior_speakers: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One period of a participant in a room."""

    room: RoomFacts
    participant_id: ParticipantId
    period: Period


def can_see_message(message: MessageFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a message."""
    is_postable = viewer.destination is None or can_post(message, viewer.destination)
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


def can_post(message: MessageFacts, destination: DestinationFacts) -> bool:
    """Return whether all readers of a destination may see a message."""
    if not destination.has_readers:
        return False
    readers = destination.readers
    if message.injected_memory is not None:
        return message.injected_memory.superseded_by is None and _can_post_memory(
            message.injected_memory, destination
        )
    if message.kind in {"whisper", "context_injection"}:
        return readers is not None and all(
            reader.is_own(message.author_id) or reader.is_one_of(message.audience) for reader in readers
        )
    return message.room.visibility == "open" or _all_were_members(message, destination)


def can_see_reply(child: MessageFacts, parent: MessageFacts | None, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a reply edge; `parent` is None until it arrives."""
    if parent is None:
        return viewer.viewer.is_operator and can_see_message(child, viewer)
    return can_see_message(child, viewer) and can_see_message(parent, viewer)


def can_see_room(room: RoomFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see that a room exists: it is open, or they were ever a member."""
    if room.org_id != viewer.viewer.org_id:
        return False
    if (destination := viewer.destination) is not None:
        is_there = room.id == destination.room_id or bool(destination.shared_periods(room))
        if not (destination.has_readers and (room.visibility == "open" or is_there)):
            return False
    return viewer.reads_as_operator or _is_open_to(room, viewer) or bool(viewer.periods.get(room.id))


def can_see_membership(presence: Membership, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a membership: their own, in an open room, or overlapping with their own."""
    room, reader = presence.room, viewer.viewer
    if room.org_id != reader.org_id:
        return False
    if (destination := viewer.destination) is not None:
        was_seen = any(period & presence.period for period in destination.shared_periods(room))
        if not (destination.has_readers and (room.visibility == "open" or was_seen)):
            return False
    if viewer.reads_as_operator or viewer.is_own(presence.participant_id):
        return True
    overlaps = any(period.overlaps(presence.period) for period in viewer.periods.get(room.id, ()))
    return overlaps or _is_open_to(room, viewer)


def can_see_participant(
    participant_id: ParticipantId,
    viewer: ViewerFacts,
    *,
    org_id: OrgId,
    memberships: Iterable[Membership],
    messages: Iterable[MessageFacts],
) -> bool:
    """Return whether the viewer may know a participant: it is the viewer, or has a visible membership or message.

    A visible whisper reveals its author, but not its other addressees.
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
    """Return whether the viewer may see a merge of accounts: they know this account and another one of the person."""
    if org_id != viewer.viewer.org_id:
        return False
    return viewer.viewer.is_operator or (knows and knows_another)


def can_see_memory(memory: MemoryFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see a memory: they may see all its sources.

    A memory without sources is visible to its asserter, or to the whole org. A superseded memory is visible only to
    those who may see its successor: to others it would seem active.
    """
    if memory.org_id != viewer.viewer.org_id:
        return False
    if viewer.viewer.is_operator:
        return True
    if memory.superseded_by is not None and not can_see_memory(memory.superseded_by, viewer):
        return False
    if not memory.sources:
        return _can_post_assertion(memory, viewer.destination) and (
            viewer.is_own(memory.asserted_by)
            or (memory.is_for_org and (viewer.is_participant or viewer.reads_as_operator))
        )
    return _can_see_all(memory.sources, viewer, is_sensitive=memory.is_sensitive)


def can_see_conversation(conversation: ConversationFacts, viewer: ViewerFacts) -> bool:
    """Return whether the viewer may see the label of a conversation: they may see every message in it."""
    if conversation.org_id != viewer.viewer.org_id:
        return False
    if viewer.viewer.is_operator:
        return True
    speakers = conversation.prior_speakers
    messages = [
        replace(message, prior_speakers=message.prior_speakers | speakers)
        for message in conversation.messages
    ]
    return bool(messages) and _can_see_all(messages, viewer, is_sensitive=conversation.is_sensitive)


def can_see_interaction(
    agent_id: ParticipantId, viewer: ViewerFacts, *, conversation: ConversationFacts, knows: bool
) -> bool:
    """Return whether the viewer may see an agent's interaction with a participant; `knows`: they may know them."""
    if conversation.org_id != viewer.viewer.org_id:
        return False
    own = viewer.is_own(agent_id) and knows and can_see_conversation(conversation, viewer)
    return viewer.viewer.is_operator or own


def can_see_stated_trust(agent_id: ParticipantId, viewer: ViewerFacts, *, knows: bool) -> bool:
    """Return whether the viewer may see an agent's stated trust in a participant; `knows`: they may know them."""
    return knows and (viewer.viewer.is_operator or viewer.is_own(agent_id))


def can_see_audit_line(reader_id: ParticipantId | None, viewer: ViewerFacts, *, org_id: OrgId) -> bool:
    """Return whether the viewer may see an audit line or a receipt: their own.

    `reader_id` None is the operator.
    """
    if org_id != viewer.viewer.org_id:
        return False
    return viewer.viewer.is_operator or viewer.is_own(reader_id)


def _can_see_all(messages: Iterable[MessageFacts], viewer: ViewerFacts, *, is_sensitive: bool) -> bool:
    return all(
        can_see_message(message, viewer) and (not is_sensitive or _was_present(message, viewer))
        for message in messages
    )


def _can_post_assertion(memory: MemoryFacts, destination: DestinationFacts | None) -> bool:
    if destination is None:
        return True
    return (memory.is_for_org and destination.has_readers) or _is_sole_reader(memory.asserted_by, destination)


def _can_post_memory(memory: MemoryFacts, destination: DestinationFacts) -> bool:
    if not memory.sources:
        return _can_post_assertion(memory, destination)
    return all(
        can_post(message, destination)
        and (not memory.is_sensitive or _all_were_members(message, destination))
        for message in memory.sources
    )


def _is_sole_reader(participant_id: ParticipantId | None, destination: DestinationFacts) -> bool:
    readers = destination.readers
    return readers is not None and len(readers) == 1 and readers[0].is_own(participant_id)


def _all_were_members(message: MessageFacts, destination: DestinationFacts) -> bool:
    return any(period.covers(message.sent_at) for period in destination.shared_periods(message.room))


def _can_access(message: MessageFacts, viewer: ViewerFacts) -> bool:
    return _is_open_to(message.room, viewer) or _was_member(message, viewer)


def _was_present(message: MessageFacts, viewer: ViewerFacts) -> bool:
    if viewer.destination is not None and not _all_were_members(message, viewer.destination):
        return False
    return (
        viewer.reads_as_operator or _was_member(message, viewer) or viewer.is_one_of(message.prior_speakers)
    )


def _was_member(message: MessageFacts, viewer: ViewerFacts) -> bool:
    return any(period.covers(message.sent_at) for period in viewer.periods.get(message.room.id, ()))


def _is_open_to(room: RoomFacts, viewer: ViewerFacts) -> bool:
    return room.visibility == "open" and (viewer.is_participant or viewer.reads_as_operator)


def _starts_before_end(one: Period, other: Period) -> bool:
    return one.joined_at is None or other.left_at is None or one.joined_at < other.left_at
