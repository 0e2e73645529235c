"""What a graph of people, messages and memories can be asked: ids, and numbers of them, and no text.

Every question takes the rooms whose messages may count; None means all, for an operator, and an empty list none. A
memory counts by its room, and one without a room for an operator only. Whatever is shown is read from the database,
which decides again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from roomlore.domain.ids import MemoryId, MessageId, ParticipantId, RoomId
from roomlore.domain.projected import Label

if TYPE_CHECKING:
    from roomlore.backends.neo4jwire import Row, Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Whom a participant talked to: answered, or was answered by."""

    participant_id: ParticipantId
    #: How many replies lie between the two.
    count: int
    #: When the last of them was sent.
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """What is near a participant: a User, a Memory or a Tag."""

    id: UUID
    label: Label
    #: From 0 to 1, which the nearest one of its label has.
    score: float


class Questions:
    """What may be asked of copies; raises `BackendUnavailable` as a projection does."""

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire

    async def said_by_bots(self, copy: str, *, rooms: Sequence[RoomId] | None, limit: int) -> list[MessageId]:
        """Return what bots said, newest first."""
        rows = await self._ask("said_by_bots", copy, rooms=rooms, limit=limit)
        return [MessageId(UUID(row["id"])) for row in rows]

    async def said_by(
        self, copy: str, participant_id: ParticipantId, *, rooms: Sequence[RoomId] | None, limit: int
    ) -> list[MessageId]:
        """Return what a participant said, newest first."""
        rows = await self._ask("said_by", copy, participant_id, rooms=rooms, limit=limit)
        return [MessageId(UUID(row["id"])) for row in rows]

    async def known_by_bots(self, copy: str, *, rooms: Sequence[RoomId] | None, limit: int) -> list[MemoryId]:
        """Return what bots remember, newest first."""
        rows = await self._ask("known_by_bots", copy, rooms=rooms, limit=limit)
        return [MemoryId(UUID(row["id"])) for row in rows]

    async def talked_to(
        self, copy: str, participant_id: ParticipantId, *, rooms: Sequence[RoomId] | None, limit: int
    ) -> list[Talk]:
        """Return whom a participant talked to, the most frequent first."""
        rows = await self._ask("talked_to", copy, participant_id, rooms=rooms, limit=limit)
        return [
            Talk(
                participant_id=ParticipantId(UUID(row["id"])),
                count=row["count"],
                last=datetime.fromisoformat(row["last"]),
            )
            for row in rows
        ]

    async def near(
        self, copy: str, participant_id: ParticipantId, *, rooms: Sequence[RoomId] | None, limit: int
    ) -> list[Near]:
        """Return the people and topics near a participant, nearest first.

        People by how often they talked, memories by whether they are about them or only involve them, tags by how many
        of these memories have them; each label gives as many as the limit allows, and the best of all are returned.
        """
        found: list[Near] = []
        asked: tuple[tuple[str, Label], ...] = (
            ("talked_to", "User"),
            ("memories_of", "Memory"),
            ("tags_of", "Tag"),
        )
        for name, label in asked:
            found += _scored(await self._ask(name, copy, participant_id, rooms=rooms, limit=limit), label)
        return sorted(found, key=lambda one: (-one.score, one.label, one.id))[: max(limit, 0)]

    async def _ask(
        self,
        name: str,
        copy: str,
        participant_id: ParticipantId | None = None,
        *,
        rooms: Sequence[RoomId] | None,
        limit: int,
    ) -> "list[Row]":
        from roomlore.backends.neo4jwire import gone  # noqa: PLC0415  needs the extra

        if limit < 1 or (rooms is not None and not rooms):
            return []
        parameters: dict[str, Any] = {
            "copy": copy,
            "rooms": None if rooms is None else [str(one) for one in rooms],
            "limit": limit,
        }
        if participant_id is not None:
            parameters["participant"] = str(participant_id)
        rows = await self._wire.read(name, parameters)
        if not rows and not await self._wire.read("find_copy", {"copy": copy}):
            raise gone()
        return rows


def _scored(rows: "list[Row]", label: Label) -> list[Near]:
    most = max((row["count"] for row in rows), default=1)
    return [Near(id=UUID(row["id"]), label=label, score=row["count"] / most) for row in rows]
