"""What a copy that is walked as a graph holds: people, rooms, conversations, messages and memories, by ids alone."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.projections import Edge, EdgeKind, Node, PropertyValue, tag_id
from roomlore.domain.records import MemoryKind, MemoryRole

QUERIES = Queries("graph_nodes")

#: How a memory leads to whom it names: the kind of edge, and whether it runs to the memory.
ROLE_EDGES: Mapping[MemoryRole, tuple[EdgeKind, bool]] = {
    "author": ("HAS_MEMORY", True),
    "perspective": ("HAS_MEMORY", True),
    "subject": ("ABOUT", False),
    "involved": ("INVOLVES", False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A participant."""

    id: ParticipantId
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipRow:
    """From when to when a participant was in a room, all in all; None: not known, or still."""

    participant_id: ParticipantId
    room_id: RoomId
    joined_at: datetime | None
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCount:
    """How often a participant has answered another, and when last."""

    participant_id: ParticipantId
    other_id: ParticipantId
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRow:
    """A room."""

    id: RoomId
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation."""

    id: ConversationId
    room_id: RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message or notice, what it answers, and whom a whisper is for."""

    id: MessageId
    room_id: RoomId
    sent_at: datetime
    native_order: int
    author_id: ParticipantId
    kind: MessageKind
    conversation_id: ConversationId | None
    reply_to: MessageId | None
    audience: Sequence[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory, with what it names and rests on."""

    id: MemoryId
    kind: MemoryKind
    is_active: bool
    valid_from: datetime
    #: Rests on nothing, and is for every participant of the org.
    is_for_org: bool
    superseded_by: MemoryId | None
    #: The one in which all that it rests on was said, or where it was asserted.
    room_id: RoomId | None
    roles: Sequence[MemoryRole]
    participant_ids: Sequence[ParticipantId]
    tags: Sequence[str]
    source_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRef:
    """What is to have a node."""

    id: UUID


async def nodes(conn: Connection, org_id: OrgId, ids: Sequence[UUID], *, version: int) -> list[Node]:
    """Return the nodes of those of these subjects, of any kind, that are to have one."""
    params = {"org_id": org_id, "ids": list(ids)}
    found = await _users(conn, params, version)
    for room in await QUERIES.all(conn, "rooms", RoomRow, params):
        properties: dict[str, PropertyValue] = {"is_open": room.is_open}
        found.append(Node(id=room.id, version=version, label="Room", properties=properties))
    for held in await QUERIES.all(conn, "conversations", ConversationRow, params):
        properties = {"room_id": str(held.room_id)}
        found.append(Node(id=held.id, version=version, label="Conversation", properties=properties))
    for message in await QUERIES.all(conn, "messages", MessageRow, params):
        found.append(_message(message, version))
    for memory in await QUERIES.all(conn, "memories", MemoryRow, params):
        found.append(_memory(org_id, memory, version))
    return found


async def ids_after(conn: Connection, org_id: OrgId, after: UUID | None, *, limit: int) -> list[UUID]:
    """Return which subjects are to have a node, in the order of their ids."""
    params = {"org_id": org_id, "after": after, "limit": limit}
    return [row.id for row in await QUERIES.all(conn, "ids_after", SubjectRef, params)]


async def _users(conn: Connection, params: Mapping[str, object], version: int) -> list[Node]:
    users = await QUERIES.all(conn, "users", UserRow, params)
    if not users:
        return []
    params = {**params, "ids": [user.id for user in users]}
    edges: dict[ParticipantId, list[Edge]] = defaultdict(list)
    for stay in await QUERIES.all(conn, "stays", MembershipRow, params):
        times = {"joined_at": stay.joined_at, "left_at": stay.left_at}
        known: dict[str, PropertyValue] = {
            name: _iso(time) for name, time in times.items() if time is not None
        }
        edges[stay.participant_id].append(
            Edge(kind="MEMBER_OF", label="Room", target_id=stay.room_id, properties=known)
        )
    for talk in await QUERIES.all(conn, "talks", ReplyCount, params):
        counted: dict[str, PropertyValue] = {"count": talk.count, "last": _iso(talk.last_at)}
        edges[talk.participant_id].append(
            Edge(kind="TALKED_TO", label="User", target_id=talk.other_id, properties=counted)
        )
    return [
        Node(
            id=user.id,
            version=version,
            label="User",
            properties={"is_bot": user.kind == "agent", "kind": user.kind},
            edges=edges[user.id],
        )
        for user in users
    ]


def _message(message: MessageRow, version: int) -> Node:
    properties: dict[str, PropertyValue] = {
        "room_id": str(message.room_id),
        "sent_at": _iso(message.sent_at),
        "native_order": message.native_order,
        "author_id": str(message.author_id),
        "kind": message.kind,
    }
    if message.audience is not None:
        properties["audience"] = tuple(str(one) for one in message.audience)
    edges: list[Edge] = []
    # Nobody said a notice, whoever it names as its author.
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
    # Who is both author and perspective has it once.
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
