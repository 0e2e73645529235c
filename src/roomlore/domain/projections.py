"""The contents of projections: indexes that can be rebuilt from the database.

The database names the indexes. A rebuild fills a new index beside the old one, and the database decides which one
is read.
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
from roomlore.domain.records import MembershipPeriod
from roomlore.domain.vectors import Vector

NodeLabel = Literal["User", "Room", "Conversation", "Message", "Memory", "Entity", "Tag"]
EdgeKind = Literal[
    "AUTHORED",
    "REPLIED_TO",
    "MEMBER_OF",
    "IN_CONVERSATION",
    "HAS_MEMORY",
    "FACT",
    "INVOLVES",
    "TAGGED",
    "TALKED_TO",
    "SUPERSEDED_BY",
    "RESTS_ON",
]
#: The texts in a graph: none, those of memories and their tags, or also those of messages.
GraphTexts = Literal["none", "memories", "all"]
#: The type of a property of a node or an edge.
PropertyValue = str | int | float | bool | tuple[str, ...]


def tag_id(org_id: OrgId, tag: str) -> UUID:
    """Return the id of a tag in indexes."""
    return uuid5(org_id, tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDigest:
    """The id of a stored subject and the digest of its content.

    The digest is empty if a part of the content was lost.
    """

    id: UUID
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A message in an index for dense and lexical search, without its text."""

    id: MessageId
    #: Grows with each read from the database. An older version never replaces a newer one.
    version: int
    room_id: RoomId
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    sequence: int
    conversation_id: ConversationId | None = None
    #: The parent message.
    reply_to: MessageId | None = None
    #: The root of the message's thread. If the message is the root, this is the message itself.
    thread_id: MessageId
    #: Additional readers if the room alone does not decide: the audience of a whisper. None means that the room
    #: decides.
    audience: Sequence[ParticipantId] | None = None
    #: A vector of length one; None if the message has no vector.
    vector: Vector | None = None
    #: Lexemes with their frequencies.
    lexemes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def digest(self) -> str:
        """A digest of everything but the version."""
        vector = b"" if self.vector is None else self.vector.astype("<f2").tobytes()
        content = [
            str(self.id),
            str(self.room_id),
            self.kind,
            str(self.author_id),
            self.author_name,
            self.author_kind,
            self.sent_at.isoformat(),
            self.sequence,
            str(self.conversation_id),
            str(self.reply_to),
            str(self.thread_id),
            None if self.audience is None else sorted(str(one) for one in self.audience),
            len(vector),
            sorted(self.lexemes.items()),
        ]
        return _digest(content, vector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge between its owner and another node. The other node may not be written yet."""

    kind: EdgeKind
    label: NodeLabel
    target_id: UUID
    properties: Mapping[str, PropertyValue] = field(default_factory=dict[str, PropertyValue])
    #: Whether the edge leads from the other node to its owner. The message owns the edge from its author, because an
    #: author may have a million messages.
    incoming: bool = False
    #: The name of a target that has no subject of its own, such as a tag.
    target_name: str | None = None

    @property
    def content(self) -> list[object]:
        """Everything but kind and direction, for digests."""
        name = [] if self.target_name is None else [self.target_name]
        return [str(self.target_id), self.label, sorted(self.properties.items()), *name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A subject in a graph index, with the edges that it owns."""

    id: UUID
    version: int
    label: NodeLabel
    properties: Mapping[str, PropertyValue] = field(default_factory=dict[str, PropertyValue])
    #: At most one per kind, target and direction.
    edges: Sequence[Edge] = ()
    #: Whether this memory states a fact about somebody, who has a `FACT` edge to it.
    is_entity: bool = False

    @property
    def labels(self) -> tuple[NodeLabel, ...]:
        """The labels of the node."""
        return (self.label, "Entity") if self.is_entity else (self.label,)

    @property
    def digest(self) -> str:
        """A digest of everything but the version."""
        edges = sorted([one.kind, one.incoming, *one.content] for one in self.edges)
        return _digest([str(self.id), *self.labels, sorted(self.properties.items()), edges])


def _digest(content: Sequence[object], numbers: bytes = b"") -> str:
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text + numbers).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityFilter:
    """The filter of an index for what a viewer may read. The database checks again before anything is shown."""

    is_operator: bool = False
    #: Whether injected context is visible.
    is_agent: bool = False
    open_room_ids: Sequence[RoomId] = ()
    stays: Sequence[MembershipPeriod] = ()
    #: All accounts of the viewer.
    own_ids: Sequence[ParticipantId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFilter:
    """The search range in an index. None means no limit; an empty list matches nothing."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    conversation_ids: Sequence[ConversationId] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message that an index proposes."""

    message_id: MessageId
    #: Cosine similarity, or the lexical score.
    score: float
