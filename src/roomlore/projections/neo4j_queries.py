"""What a copy in Neo4j answers of people, messages and memories: ids, and numbers of them, and no text.

What the viewer may see is part of each question. It fails closed: what is not known of a message, of a memory or of what
that rests on makes it nobody's but the operator's, and whoever may see nothing is told nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from roomlore.domain.graph import (
    ABOUT_WEIGHT,
    INVOLVES_WEIGHT,
    SOURCE_WEIGHT,
    TAG_WEIGHT,
    ConversationAuthor,
    ConversationPartner,
    RelatedMemory,
    RelatedTag,
)
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, ParticipantId
from roomlore.domain.projections import VisibilityFilter

if TYPE_CHECKING:
    from roomlore.projections.neo4j_connection import Neo4jConnection, Row, Transaction

_WEIGHTS = {
    "about": ABOUT_WEIGHT,
    "involves": INVOLVES_WEIGHT,
    "rests_on": SOURCE_WEIGHT,
    "tagged": TAG_WEIGHT,
}
#: What questions are made of, and what they call the subject; what has others within comes before them.
_PARTS = (
    ("followed", "c"),
    ("recalled", "m"),
    *(("heard", name) for name in ("m", "o", "said", "source")),
)


class Neo4jQueries:
    """What may be asked of copies."""

    def __init__(self, wire: "Neo4jConnection") -> None:
        self._wire = wire

    def view_for(self, copy: str, sight: VisibilityFilter) -> "Neo4jGraphView":
        """Return a copy as a graph for one viewer."""
        return Neo4jGraphView(wire=self._wire, copy=copy, sight=sight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jGraphView:
    """A `Graph` in a copy, for one viewer; raises `BackendUnavailable` as a projection does."""

    wire: "Neo4jConnection"
    copy: str
    sight: VisibilityFilter

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return what agents said, newest first."""
        return [MessageId(UUID(row["id"])) for row in await self._query("said_by_bots", limit=limit)]

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return what somebody said, newest first."""
        rows = await self._query("said_by", participant_ids, limit=limit)
        return [MessageId(UUID(row["id"])) for row in rows]

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return [MemoryId(UUID(row["id"])) for row in await self._query("known_by_bots", limit=limit)]

    async def memories_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first."""
        rows = await self._query("known_by", participant_ids, limit=limit)
        return [MemoryId(UUID(row["id"])) for row in rows]

    async def memories_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about somebody, newest first."""
        rows = await self._query("known_about", participant_ids, limit=limit)
        return [MemoryId(UUID(row["id"])) for row in rows]

    async def conversation_partners(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[ConversationPartner]:
        """Return whom somebody answered or was answered by, the most frequent first."""
        rows = await self._query("talked_to", participant_ids, limit=limit)
        return [
            ConversationPartner(
                participant_id=ParticipantId(UUID(row["id"])),
                count=row["count"],
                last=_from_timestamp(row["last"]),
            )
            for row in rows
        ]

    async def related_memories(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that are about somebody or involve them, the weightiest first."""
        return [_weighed(row) for row in await self._query("memories_near", participant_ids, limit=limit)]

    async def related_tags(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[RelatedTag]:
        """Return the tags of memories that are about somebody or involve them, the most frequent first."""
        rows = await self._query("tags_near", participant_ids, limit=limit)
        return [RelatedTag(tag_id=UUID(row["id"]), count=row["count"]) for row in rows]

    async def conversation_authors(
        self, conversation_id: ConversationId, *, limit: int
    ) -> list[ConversationAuthor]:
        """Return who wrote in a conversation of which the viewer may see all, the most talkative first."""
        rows = await self._query("present_in", conversation_id=conversation_id, limit=limit)
        return [
            ConversationAuthor(
                participant_id=ParticipantId(UUID(row["id"])),
                count=row["count"],
                last=_from_timestamp(row["last"]),
            )
            for row in rows
        ]

    async def conversation_memories(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that rest on a conversation, or name some of those present, the weightiest first."""
        rows = await self._query(
            "memories_for", participant_ids, conversation_id=conversation_id, limit=limit
        )
        return [_weighed(row) for row in rows]

    async def _query(
        self,
        name: str,
        participant_ids: Sequence[ParticipantId] = (),
        *,
        conversation_id: ConversationId | None = None,
        limit: int,
    ) -> "list[Row]":
        from roomlore.projections.neo4j_connection import missing_copy  # noqa: PLC0415  needs the extra

        if limit < 1 or not _sees_anything(self.sight):
            return []
        parameters: dict[str, Any] = {
            "copy": self.copy,
            "participants": [str(one) for one in participant_ids],
            "conversation": str(conversation_id),
            "limit": limit,
            **_WEIGHTS,
            **_visibility_parameters(self.sight),
        }
        words = _query_parts()

        async def ask(work: "Transaction") -> "list[Row] | None":
            rows = await work.rows(name, parameters, words=words)
            return rows if rows or await work.rows("find_copy", {"copy": self.copy}) else None

        rows = await self.wire.read_transaction(ask)
        if rows is None:
            raise missing_copy()
        return rows


@cache
def _query_parts() -> Mapping[str, str]:
    """Return what is filled in for the parts of questions."""
    from roomlore.projections.neo4j_connection import load_queries  # noqa: PLC0415  needs the extra

    texts = load_queries()
    return {f"{part} {name}": f"({texts[part].replace('<it>', name)})" for part, name in _PARTS}


def _sees_anything(sight: VisibilityFilter) -> bool:
    return sight.is_operator or bool(sight.open_room_ids or sight.stays or sight.own_ids)


def _visibility_parameters(sight: VisibilityFilter) -> dict[str, Any]:
    """Return what the viewer may see, as questions take it."""
    stays: dict[str, list[dict[str, str | None]]] = defaultdict(list)
    for stay in sight.stays:
        stays[str(stay.room_id)].append(
            {"joined": _to_timestamp(stay.joined_at), "left": _to_timestamp(stay.left_at)}
        )
    return {
        "operator": sight.is_operator,
        "own": [str(one) for one in sight.own_ids],
        "open": [str(one) for one in sight.open_room_ids],
        "stays": stays,
    }


def _to_timestamp(moment: datetime | None) -> str | None:
    """Return a time as copies have it: in the order of time, too."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")


def _from_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _weighed(row: "Row") -> RelatedMemory:
    return RelatedMemory(memory_id=MemoryId(UUID(row["id"])), kind=row["kind"], count=row["count"])
