"""The questions that an index in Neo4j answers. Answers are ids, without text.

Each query contains the viewer's visibility filter. If data about a message, a memory or one of its sources is missing,
only operators get the message or memory.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.projections import VisibilityFilter
from roomlore.projections.server import IndexMissing

if TYPE_CHECKING:
    from roomlore.projections.neo4j_connection import Neo4jConnection, Row, Transaction

#: The conditions that queries share, each with the variable to which it applies.
_PARTS = (("recalled", "m"), ("heard", "m"), ("heard", "source"))


class Neo4jQueries:
    """The read side of the indexes in a Neo4j server."""

    def __init__(self, wire: "Neo4jConnection") -> None:
        self._wire = wire

    def view_for(self, index_name: str, sight: VisibilityFilter) -> "Neo4jGraphView":
        """Return an index as one viewer sees it."""
        return Neo4jGraphView(wire=self._wire, index_name=index_name, sight=sight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jGraphView:
    """A `Graph` in an index, for one viewer. Its methods raise `BackendUnavailable`."""

    wire: "Neo4jConnection"
    index_name: str
    sight: VisibilityFilter

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return the messages of agents, newest first."""
        return [MessageId(key) for key in await self._query("messages_by_agents", limit=limit)]

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return the messages of these accounts, newest first."""
        return [MessageId(key) for key in await self._query("said_by", participant_ids, limit=limit)]

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or observed, newest first."""
        return [MemoryId(key) for key in await self._query("memories_of_agents", limit=limit)]

    async def _query(
        self, name: str, participant_ids: Sequence[ParticipantId] = (), *, limit: int
    ) -> list[UUID]:
        if limit < 1 or not _sees_anything(self.sight):
            return []
        parameters: dict[str, Any] = {
            "copy": self.index_name,
            "participants": [str(key) for key in participant_ids],
            "limit": limit,
            **_visibility_parameters(self.sight),
        }

        async def ask(work: "Transaction") -> "list[Row] | None":
            rows = await work.rows(name, parameters, words=_query_parts())
            return rows if rows or await work.rows("find_copy", {"copy": self.index_name}) else None

        rows = await self.wire.read_transaction(ask)
        if rows is None:
            raise IndexMissing("Neo4j")
        return [UUID(row["id"]) for row in rows]


@cache
def _query_parts() -> Mapping[str, str]:
    from roomlore.projections.neo4j_connection import load_queries  # noqa: PLC0415  needs the extra

    texts = load_queries()
    return {f"{part} {name}": f"({texts[part].replace('<it>', name)})" for part, name in _PARTS}


def _sees_anything(sight: VisibilityFilter) -> bool:
    return sight.is_operator or bool(sight.open_room_ids or sight.stays or sight.own_ids)


def _visibility_parameters(sight: VisibilityFilter) -> dict[str, Any]:
    stays: dict[str, list[dict[str, str | None]]] = defaultdict(list)
    for stay in sight.stays:
        stays[str(stay.room_id)].append(
            {"joined": _to_timestamp(stay.joined_at), "left": _to_timestamp(stay.left_at)}
        )
    return {
        "operator": sight.is_operator,
        "own": [str(key) for key in sight.own_ids],
        "open": [str(key) for key in sight.open_room_ids],
        "stays": stays,
    }


def _to_timestamp(moment: datetime | None) -> str | None:
    """Return a time in the format in which indexes store times. Texts in this format sort by time."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")
