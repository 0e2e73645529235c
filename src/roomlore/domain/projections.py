"""What projections hold: rebuildable copies of what the database knows, by the ids it knows them by.

A copy is named by the database. A rebuild fills a new copy beside the old one, and the database says which one is read.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid5

from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.vectors import Vector

NodeLabel = Literal["User", "Room", "Conversation", "Message", "Memory", "Tag"]
EdgeKind = Literal[
    "AUTHORED",
    "REPLIED_TO",
    "MEMBER_OF",
    "IN_CONVERSATION",
    "HAS_MEMORY",
    "ABOUT",
    "INVOLVES",
    "TAGGED",
    "TALKED_TO",
    "SUPERSEDED_BY",
    "RESTS_ON",
]
#: What a property of a node or an edge may be.
PropertyValue = str | int | float | bool | tuple[str, ...]


def tag_id(org_id: OrgId, tag: str) -> UUID:
    """Return the id that a tag of an org has in copies, which never hold its text."""
    return uuid5(org_id, tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDigest:
    """What a copy holds of a subject: its id, and the digest of what was last written; none where some of it was lost."""

    id: UUID
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A message in a copy that is searched by meaning and by words; without its text."""

    id: MessageId
    #: Grows with every reading: an older one never replaces a newer one.
    version: int
    room_id: RoomId
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    native_order: int
    conversation_id: ConversationId | None = None
    #: What it answers.
    reply_to: MessageId | None = None
    #: What opens the exchange it is part of; itself, where nothing else does.
    exchange_id: MessageId
    #: Who may read it beside its author, where that is not up to its room: the addressees of a whisper; None: the room's.
    audience: Sequence[ParticipantId] | None = None
    #: Of length one; None where the message has no vector.
    vector: Vector | None = None
    #: How often it has each lexeme.
    lexemes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def digest(self) -> str:
        """Of all but the version: equal for equal content."""
        vector = b"" if self.vector is None else self.vector.astype("<f2").tobytes()
        content = [
            str(self.id),
            str(self.room_id),
            self.kind,
            str(self.author_id),
            self.author_name,
            self.author_kind,
            self.sent_at.isoformat(),
            self.native_order,
            str(self.conversation_id),
            str(self.reply_to),
            str(self.exchange_id),
            None if self.audience is None else sorted(str(one) for one in self.audience),
            len(vector),
            sorted(self.lexemes.items()),
        ]
        return _digest(content, vector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Between the node that owns it and another, which may not have been written yet."""

    kind: EdgeKind
    label: NodeLabel
    target_id: UUID
    properties: Mapping[str, PropertyValue] = field(default_factory=dict[str, PropertyValue])
    #: Whether it runs from the other to its owner: so a message owns that it was authored, and not whoever wrote a million.
    incoming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A subject in a copy that is walked as a graph, with the edges that it owns."""

    id: UUID
    #: Grows with every reading: an older one never replaces a newer one.
    version: int
    label: NodeLabel
    properties: Mapping[str, PropertyValue] = field(default_factory=dict[str, PropertyValue])
    #: At most one of a kind to a target, and one from it.
    edges: Sequence[Edge] = ()

    @property
    def digest(self) -> str:
        """Of all but the version: equal for equal content."""
        edges = [
            [one.kind, one.label, str(one.target_id), one.incoming, sorted(one.properties.items())]
            for one in self.edges
        ]
        return _digest([str(self.id), self.label, sorted(self.properties.items()), sorted(edges)])


def _digest(content: Sequence[object], numbers: bytes = b"") -> str:
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text + numbers).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipPeriod:
    """When a viewer was a member of a closed room."""

    room_id: RoomId
    #: Inclusive; None: from its beginning.
    joined_at: datetime | None
    #: Exclusive; None: still.
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityFilter:
    """What a viewer may read, as the filter of a copy; the database decides again before anything is shown."""

    is_operator: bool = False
    #: Whether what was injected for agents is for them.
    is_agent: bool = False
    open_room_ids: Sequence[RoomId] = ()
    stays: Sequence[MembershipPeriod] = ()
    #: Every account of the viewer.
    own_ids: Sequence[ParticipantId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFilter:
    """Where to look in a copy; None in any field means everywhere, and an empty list nowhere."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    conversation_ids: Sequence[ConversationId] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message that a copy proposes."""

    message_id: MessageId
    #: Cosine for a vector, weight of shared words for words.
    score: float
