"""Memories that say the like of what is stated, or the contrary, in other words.

All of it runs for the operator, who sees every memory; whoever calls decides for whom it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MemoryId, MessageId, OrgId
from roomlore.domain.records import MemoryKind
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("kinship")
#: Of the newest memories that might be offered, so many are compared.
MAX_SCANNED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCount:
    """How many memories are there."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTarget:
    """A memory that stands and says the like, or the contrary, in other words."""

    id: MemoryId
    slot: str | None
    #: Last.
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCandidate:
    """A memory of which a language model may be told."""

    id: MemoryId
    kind: MemoryKind
    content: str
    slot: str | None
    circle: str
    source_ids: Sequence[MessageId]


async def find_link_target(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, circle: str) -> LinkTarget | None:
    """Return a memory that may be offered still, if it is of the same for the same."""
    return await QUERIES.first(conn, "kin", LinkTarget, {"org_id": org_id, "id": memory_id, "circle": circle})


async def prompt_candidates(
    conn: Connection,
    org_id: OrgId,
    circles: Collection[str],
    *,
    of_nobody: str,
    besides: Collection[MessageId],
    text: str,
    limit: int,
) -> list[PromptCandidate]:
    """Return what was drawn and stands of these circles, what shares most words with a text first.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        circles: Of whom and for whom.
        of_nobody: The circle of what is about no person, which has to share a word.
        besides: Nothing that rests on these messages.
        text: Its words count.
        limit: How many.
    """
    params = {"org_id": org_id, "circles": list(circles), "of_nobody": of_nobody, "text": text}
    params |= {"message_ids": list(besides), "limit": limit, "looked_at": MAX_SCANNED}
    return await QUERIES.all(conn, "offered", PromptCandidate, params)


async def all_exist(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> bool:
    """Return whether all of these memories are there, standing or not: what one says never changes."""
    row = await QUERIES.first(conn, "there", MemoryCount, {"org_id": org_id, "memory_ids": list(ids)})
    return row is not None and row.count == len(ids)
