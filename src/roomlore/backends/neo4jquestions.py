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

from roomlore.domain.graph import ABOUT, INVOLVES, RESTS_ON, TAGGED, Present, Tagged, Talk, Weighed
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, ParticipantId
from roomlore.domain.projected import Sight

if TYPE_CHECKING:
    from roomlore.backends.neo4jwire import Row, Wire, Work

_WEIGHTS = {"about": ABOUT, "involves": INVOLVES, "rests_on": RESTS_ON, "tagged": TAGGED}
#: What questions are made of, and what they call the subject; what has others within comes before them.
_PARTS = (
    ("followed", "c"),
    ("recalled", "m"),
    *(("heard", name) for name in ("m", "o", "said", "source")),
)


class Questions:
    """What may be asked of copies."""

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire

    def seen(self, copy: str, sight: Sight) -> "CopiedGraph":
        """Return a copy as a graph for one viewer."""
        return CopiedGraph(wire=self._wire, copy=copy, sight=sight)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedGraph:
    """A `Graph` in a copy, for one viewer; raises `BackendUnavailable` as a projection does."""

    wire: "Wire"
    copy: str
    sight: Sight

    async def said_by_bots(self, *, limit: int) -> list[MessageId]:
        """Return what agents said, newest first."""
        return [MessageId(UUID(row["id"])) for row in await self._ask("said_by_bots", limit=limit)]

    async def said_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return what somebody said, newest first."""
        rows = await self._ask("said_by", participant_ids, limit=limit)
        return [MessageId(UUID(row["id"])) for row in rows]

    async def known_by_bots(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return [MemoryId(UUID(row["id"])) for row in await self._ask("known_by_bots", limit=limit)]

    async def known_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first."""
        rows = await self._ask("known_by", participant_ids, limit=limit)
        return [MemoryId(UUID(row["id"])) for row in rows]

    async def known_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about somebody, newest first."""
        rows = await self._ask("known_about", participant_ids, limit=limit)
        return [MemoryId(UUID(row["id"])) for row in rows]

    async def talked_to(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Talk]:
        """Return whom somebody answered or was answered by, the most frequent first."""
        rows = await self._ask("talked_to", participant_ids, limit=limit)
        return [
            Talk(participant_id=ParticipantId(UUID(row["id"])), count=row["count"], last=_time(row["last"]))
            for row in rows
        ]

    async def memories_near(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Weighed]:
        """Return the memories that are about somebody or involve them, the weightiest first."""
        return [_weighed(row) for row in await self._ask("memories_near", participant_ids, limit=limit)]

    async def tags_near(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Tagged]:
        """Return the tags of memories that are about somebody or involve them, the most frequent first."""
        rows = await self._ask("tags_near", participant_ids, limit=limit)
        return [Tagged(tag_id=UUID(row["id"]), count=row["count"]) for row in rows]

    async def present_in(self, conversation_id: ConversationId, *, limit: int) -> list[Present]:
        """Return who wrote in a conversation of which the viewer may see all, the most talkative first."""
        rows = await self._ask("present_in", conversation_id=conversation_id, limit=limit)
        return [
            Present(
                participant_id=ParticipantId(UUID(row["id"])), count=row["count"], last=_time(row["last"])
            )
            for row in rows
        ]

    async def memories_for(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[Weighed]:
        """Return the memories that rest on a conversation, or name some of those present, the weightiest first."""
        rows = await self._ask("memories_for", participant_ids, conversation_id=conversation_id, limit=limit)
        return [_weighed(row) for row in rows]

    async def _ask(
        self,
        name: str,
        participant_ids: Sequence[ParticipantId] = (),
        *,
        conversation_id: ConversationId | None = None,
        limit: int,
    ) -> "list[Row]":
        from roomlore.backends.neo4jwire import gone  # noqa: PLC0415  needs the extra

        if limit < 1 or not _sees_anything(self.sight):
            return []
        parameters: dict[str, Any] = {
            "copy": self.copy,
            "participants": [str(one) for one in participant_ids],
            "conversation": str(conversation_id),
            "limit": limit,
            **_WEIGHTS,
            **_seen(self.sight),
        }
        words = _words()

        async def ask(work: "Work") -> "list[Row] | None":
            rows = await work.rows(name, parameters, words=words)
            return rows if rows or await work.rows("find_copy", {"copy": self.copy}) else None

        rows = await self.wire.reading(ask)
        if rows is None:
            raise gone()
        return rows


@cache
def _words() -> Mapping[str, str]:
    """Return what is filled in for the parts of questions."""
    from roomlore.backends.neo4jwire import queries  # noqa: PLC0415  needs the extra

    texts = queries()
    return {f"{part} {name}": f"({texts[part].replace('<it>', name)})" for part, name in _PARTS}


def _sees_anything(sight: Sight) -> bool:
    return sight.is_operator or bool(sight.open_room_ids or sight.stays or sight.own_ids)


def _seen(sight: Sight) -> dict[str, Any]:
    """Return what the viewer may see, as questions take it."""
    stays: dict[str, list[dict[str, str | None]]] = defaultdict(list)
    for stay in sight.stays:
        stays[str(stay.room_id)].append({"joined": _text(stay.joined_at), "left": _text(stay.left_at)})
    return {
        "operator": sight.is_operator,
        "own": [str(one) for one in sight.own_ids],
        "open": [str(one) for one in sight.open_room_ids],
        "stays": stays,
    }


def _text(moment: datetime | None) -> str | None:
    """Return a time as copies have it: in the order of time, too."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _weighed(row: "Row") -> Weighed:
    return Weighed(memory_id=MemoryId(UUID(row["id"])), kind=row["kind"], count=row["count"])
