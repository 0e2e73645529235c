"""The nodes and edges of graph projections: people, rooms, conversations, messages and memories, without text."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.projections import Edge, EdgeKind, Node, PropertyValue, tag_id
from roomlore.domain.records import MemoryKind, MemoryRole

QUERIES = Queries("graph_nodes")

#: The kind of edge between a memory and a participant by role, and whether the edge leads to the memory.
ROLE_EDGES: Mapping[MemoryRole, tuple[EdgeKind, bool]] = {
    "author": ("HAS_MEMORY", True),
    "perspective": ("HAS_MEMORY", True),
    "subject": ("ABOUT", False),
    "involved": ("INVOLVES", False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipRow:
    """The time of a participant in a room. None means an unknown beginning, or no end."""

    participant_id: ParticipantId
    room_id: RoomId
    joined_at: datetime | None
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCount:
    """How often a participant answered another, and when last."""

    participant_id: ParticipantId
    other_id: ParticipantId
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message or notice, what it answers, and the audience of a whisper."""

    id: MessageId
    room_id: RoomId
    sent_at: datetime
    sequence: int
    author_id: ParticipantId
    kind: MessageKind
    conversation_id: ConversationId | None
    reply_to: MessageId | None
    audience: Sequence[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory with its participants, tags and sources."""

    id: MemoryId
    kind: MemoryKind
    is_active: bool
    valid_from: datetime
    #: Whether the memory has no source and is for every participant of the org.
    is_for_org: bool
    superseded_by: MemoryId | None
    #: The room of all sources of the memory, or the room where it was asserted.
    room_id: RoomId | None
    roles: Sequence[MemoryRole]
    participant_ids: Sequence[ParticipantId]
    tags: Sequence[str]
    source_ids: Sequence[MessageId]


async def nodes(conn: Connection, org_id: OrgId, ids: Sequence[UUID], *, version: int) -> list[Node]:
    """Return the nodes of the given subjects that need a node."""
    found = await _user_nodes(conn, org_id, ids, version)
    for room_id, is_open in (await _rooms(conn, org_id, ids)).items():
        found.append(Node(id=room_id, version=version, label="Room", properties={"is_open": is_open}))
    for key, room_id in (await _conversations(conn, org_id, ids)).items():
        properties: dict[str, PropertyValue] = {"room_id": str(room_id)}
        found.append(Node(id=key, version=version, label="Conversation", properties=properties))
    found += [_message(message, version) for message in await _messages(conn, org_id, ids)]
    found += [_memory(org_id, memory, version) for memory in await _memories(conn, org_id, ids)]
    return found


@QUERIES.query
async def ids_after(conn: Connection, org_id: OrgId, after: UUID | None, *, limit: int) -> list[UUID]:
    """Return the subjects that need a node, in the order of their ids."""
    ...


@QUERIES.query
async def _users(
    conn: Connection, org_id: OrgId, ids: Collection[UUID]
) -> dict[ParticipantId, ParticipantKind]: ...


@QUERIES.query
async def _memberships(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> list[MembershipRow]: ...


@QUERIES.query
async def _talks(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> list[ReplyCount]: ...


@QUERIES.query
async def _rooms(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> dict[RoomId, bool]: ...


@QUERIES.query
async def _conversations(
    conn: Connection, org_id: OrgId, ids: Collection[UUID]
) -> dict[ConversationId, RoomId]: ...


@QUERIES.query
async def _messages(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> list[MessageRow]: ...


@QUERIES.query
async def _memories(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> list[MemoryRow]: ...


async def _user_nodes(conn: Connection, org_id: OrgId, ids: Sequence[UUID], version: int) -> list[Node]:
    kinds = await _users(conn, org_id, ids)
    if not kinds:
        return []
    edges = defaultdict[ParticipantId, list[Edge]](list)
    for stay in await _memberships(conn, org_id, kinds):
        times = {"joined_at": stay.joined_at, "left_at": stay.left_at}
        known: dict[str, PropertyValue] = {
            name: _iso(time) for name, time in times.items() if time is not None
        }
        edges[stay.participant_id].append(
            Edge(kind="MEMBER_OF", label="Room", target_id=stay.room_id, properties=known)
        )
    for talk in await _talks(conn, org_id, kinds):
        counted: dict[str, PropertyValue] = {"count": talk.count, "last": _iso(talk.last_at)}
        edges[talk.participant_id].append(
            Edge(kind="TALKED_TO", label="User", target_id=talk.other_id, properties=counted)
        )
    return [
        Node(
            id=key,
            version=version,
            label="User",
            properties={"is_bot": kind == "agent", "kind": kind},
            edges=edges[key],
        )
        for key, kind in kinds.items()
    ]


def _message(message: MessageRow, version: int) -> Node:
    properties: dict[str, PropertyValue] = {
        "room_id": str(message.room_id),
        "sent_at": _iso(message.sent_at),
        "sequence": message.sequence,
        "author_id": str(message.author_id),
        "kind": message.kind,
    }
    if message.audience is not None:
        properties["audience"] = tuple(str(one) for one in message.audience)
    edges: list[Edge] = []
    # A notice has no author in the graph, even if it states a name.
    if message.kind != "system":
        edges.append(Edge(kind="AUTHORED", label="User", target_id=message.author_id, incoming=True))
    if message.reply_to is not None:
        edges.append(Edge(kind="REPLIED_TO", label="Message", target_id=message.reply_to))
    if message.conversation_id is not None:
        edges.append(Edge(kind="IN_CONVERSATION", label="Conversation", target_id=message.conversation_id))
    return Node(id=message.id, version=version, label="Message", properties=properties, edges=edges)


def _memory(org_id: OrgId, memory: MemoryRow, version: int) -> Node:
    properties: dict[str, PropertyValue] = {
        "kind": memory.kind,
        "is_active": memory.is_active,
        "valid_from": _iso(memory.valid_from),
        "is_for_org": memory.is_for_org,
    }
    if memory.room_id is not None:
        properties["room_id"] = str(memory.room_id)
    named = zip(memory.roles, memory.participant_ids, strict=True)
    # A participant who is both author and observer has one edge.
    edges = [
        Edge(kind=kind, label="User", target_id=who, incoming=incoming)
        for (kind, incoming), who in dict.fromkeys((ROLE_EDGES[role], who) for role, who in named)
    ]
    edges += [Edge(kind="TAGGED", label="Tag", target_id=tag_id(org_id, tag)) for tag in memory.tags]
    edges += [Edge(kind="RESTS_ON", label="Message", target_id=one) for one in memory.source_ids]
    if memory.superseded_by is not None:
        edges.append(Edge(kind="SUPERSEDED_BY", label="Memory", target_id=memory.superseded_by))
    return Node(id=memory.id, version=version, label="Memory", properties=properties, edges=edges)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")
