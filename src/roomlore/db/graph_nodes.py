"""The nodes and edges of graph projections: people, rooms, conversations, messages and memories."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.projections import Edge, EdgeKind, GraphTexts, Node, PropertyValue, tag_id
from roomlore.domain.records import MemoryKind, MemoryRole

QUERIES = Queries("graph_nodes")

#: The kind of edge between a memory and a participant by role, and whether the edge leads to the memory.
ROLE_EDGES: Mapping[MemoryRole, tuple[EdgeKind, bool]] = {
    "author": ("HAS_MEMORY", True),
    "perspective": ("HAS_MEMORY", True),
    "subject": ("FACT", True),
    "involved": ("INVOLVES", False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A participant with their accounts."""

    id: ParticipantId
    kind: ParticipantKind
    #: The newest name.
    name: str
    #: The platform of the first account.
    platform: str | None
    #: The ids of the accounts on their platforms.
    account_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRow:
    """A room as its platform names it."""

    id: RoomId
    is_open: bool
    name: str
    platform: str
    external_id: str


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
    platform: str
    external_id: str
    sent_at: datetime
    sequence: int
    author_id: ParticipantId
    kind: MessageKind
    conversation_id: ConversationId | None
    reply_to: MessageId | None
    #: None if the graph must not have the text.
    body: str | None
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
    #: The title or the text; None if the graph must not have the text.
    name: str | None
    content: str | None


async def nodes(
    conn: Connection, org_id: OrgId, ids: Sequence[UUID], *, version: int, texts: GraphTexts = "none"
) -> list[Node]:
    """Return the nodes of the given subjects that need a node, with the given texts.

    Texts of whispers, of restricted messages and of sensitive memories are always left out.
    """
    found = await _user_nodes(conn, org_id, ids, version)
    found += [_room(room, version) for room in await _rooms(conn, org_id, ids)]
    for key, room_id in (await _conversations(conn, org_id, ids)).items():
        properties: dict[str, PropertyValue] = {"room_uuid": str(room_id)}
        found.append(Node(id=key, version=version, label="Conversation", properties=properties))
    messages = await _messages(conn, org_id, ids, with_texts=texts == "all")
    found += [_message(message, version) for message in messages]
    memories = await _memories(conn, org_id, ids, with_texts=texts != "none")
    found += [_memory(org_id, memory, version) for memory in memories]
    return found


@QUERIES.query
async def ids_after(conn: Connection, org_id: OrgId, after: UUID | None, *, limit: int) -> list[UUID]:
    """Return the subjects that need a node, in the order of their ids."""
    ...


@QUERIES.query
async def _users(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> list[UserRow]: ...


@QUERIES.query
async def _memberships(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> list[MembershipRow]: ...


@QUERIES.query
async def _talks(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> list[ReplyCount]: ...


@QUERIES.query
async def _rooms(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> list[RoomRow]: ...


@QUERIES.query
async def _conversations(
    conn: Connection, org_id: OrgId, ids: Collection[UUID]
) -> dict[ConversationId, RoomId]: ...


@QUERIES.query
async def _messages(
    conn: Connection, org_id: OrgId, ids: Collection[UUID], *, with_texts: bool
) -> list[MessageRow]: ...


@QUERIES.query
async def _memories(
    conn: Connection, org_id: OrgId, ids: Collection[UUID], *, with_texts: bool
) -> list[MemoryRow]: ...


async def _user_nodes(conn: Connection, org_id: OrgId, ids: Sequence[UUID], version: int) -> list[Node]:
    users = await _users(conn, org_id, ids)
    if not users:
        return []
    keys = [user.id for user in users]
    edges = defaultdict[ParticipantId, list[Edge]](list)
    for stay in await _memberships(conn, org_id, keys):
        times = {"joined_at": stay.joined_at, "left_at": stay.left_at}
        known: dict[str, PropertyValue] = {
            name: _iso(time) for name, time in times.items() if time is not None
        }
        edges[stay.participant_id].append(
            Edge(kind="MEMBER_OF", label="Room", target_id=stay.room_id, properties=known)
        )
    for talk in await _talks(conn, org_id, keys):
        counted: dict[str, PropertyValue] = {"count": talk.count, "last": _iso(talk.last_at)}
        edges[talk.participant_id].append(
            Edge(kind="TALKED_TO", label="User", target_id=talk.other_id, properties=counted)
        )
    return [
        Node(
            id=user.id, version=version, label="User", properties=_user_properties(user), edges=edges[user.id]
        )
        for user in users
    ]


def _user_properties(user: UserRow) -> dict[str, PropertyValue]:
    properties: dict[str, PropertyValue] = {
        "name": user.name,
        "is_bot": user.kind == "agent",
        "kind": user.kind,
    }
    if user.platform is not None:
        properties |= {"id": user.account_ids[0], "platform": user.platform}
    # One person may have written with several accounts before the accounts became one participant.
    if others := tuple(dict.fromkeys(user.account_ids[1:])):
        properties["other_ids"] = others
    return properties


def _room(room: RoomRow, version: int) -> Node:
    properties: dict[str, PropertyValue] = {
        "id": room.external_id,
        "platform": room.platform,
        "name": room.name,
        "is_open": room.is_open,
    }
    return Node(id=room.id, version=version, label="Room", properties=properties)


def _message(message: MessageRow, version: int) -> Node:
    properties: dict[str, PropertyValue] = {
        "id": message.external_id,
        "platform": message.platform,
        "room_uuid": str(message.room_id),
        "sent_at": _iso(message.sent_at),
        "sequence": message.sequence,
        "author_uuid": str(message.author_id),
        "kind": message.kind,
    }
    if message.body is not None:
        properties["content"] = message.body
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
        properties["room_uuid"] = str(memory.room_id)
    if memory.name is not None and memory.content is not None:
        properties |= {"name": memory.name, "content": memory.content}
    named = zip(memory.roles, memory.participant_ids, strict=True)
    # A participant who is both author and observer has one edge.
    edges = [
        Edge(kind=kind, label="User", target_id=who, incoming=incoming)
        for (kind, incoming), who in dict.fromkeys((ROLE_EDGES[role], who) for role, who in named)
    ]
    edges += [
        Edge(
            kind="TAGGED",
            label="Tag",
            target_id=tag_id(org_id, tag),
            target_name=None if memory.content is None else tag,
        )
        for tag in memory.tags
    ]
    edges += [Edge(kind="RESTS_ON", label="Message", target_id=one) for one in memory.source_ids]
    if memory.superseded_by is not None:
        edges.append(Edge(kind="SUPERSEDED_BY", label="Memory", target_id=memory.superseded_by))
    return Node(
        id=memory.id,
        version=version,
        label="Memory",
        properties=properties,
        edges=edges,
        is_entity="subject" in memory.roles,
    )


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")
