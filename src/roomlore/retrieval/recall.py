"""Memories that fit a question, each as it stands now.

Found by their words among those that the viewer may see; how near their meaning is can be told by whoever has an
embedding model. What was superseded is never shown as if it still stood: what took its place is.
"""

from collections.abc import Mapping, Sequence

from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.records import Memory
from roomlore.retrieval.evidence import strength
from roomlore.retrieval.records import Recalled, Why
from roomlore.store import memories
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: How many memories are looked at more closely.
CLOSEST = 10


def applies(scope: Scope) -> bool:
    """Return whether memories may answer: not where what some said, or said at some time, is asked for."""
    narrowed = (
        *(scope.author_ids, scope.author_kinds, scope.conversation_ids, scope.answered),
        *(scope.since, scope.until, scope.last),
    )
    return all(field is None for field in narrowed)


async def candidates(conn: Connection, org_id: OrgId, question: str) -> list[Memory]:
    """Return the visible memories that share the rarest words with a question, in no order."""
    found = await memories.worded(conn, question, wanted=CLOSEST)
    return await memories.memories_by_id(conn, org_id, [one.memory_id for one in found])


async def recalled(
    conn: Connection, org_id: OrgId, question: str, *, near: Mapping[MemoryId, float]
) -> list[Recalled]:
    """Return the visible memories that fit a question, as they stand now, best first.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        question: In plain words.
        near: Cosines between the question and memories, as far as they are known.
    """
    found = await memories.worded(conn, question, wanted=CLOSEST)
    ids = [one.memory_id for one in found]
    later = await memories.successors(conn, org_id, ids)
    standing = {key: later[key][-1] if key in later else key for key in ids}
    by_id = {
        memory.id: memory
        for memory in await memories.memories_by_id(conn, org_id, {*ids, *standing.values()})
    }
    fits = {one.memory_id: _strength(one, near.get(one.memory_id)) for one in found}
    grouped: dict[MemoryId, list[MemoryId]] = {}
    for key in ids:
        # What a person put aside answers nothing, nor does what it had taken the place of.
        if key in by_id and standing[key] in by_id and by_id[standing[key]].status == "active":
            grouped.setdefault(standing[key], []).append(key)
    return sorted(
        (_recalled(by_id, current, matched, fits) for current, matched in grouped.items()),
        key=lambda one: (-one.strength, one.memory.id),
    )


def _strength(found: memories.Worded, similarity: float | None) -> float:
    return strength(
        Why(score=found.coverage, similarity=similarity, coverage=found.coverage, terms=found.terms)
    )


def _recalled(
    by_id: Mapping[MemoryId, Memory],
    current: MemoryId,
    matched: Sequence[MemoryId],
    fits: Mapping[MemoryId, float],
) -> Recalled:
    return Recalled(
        memory=by_id[current],
        superseded=[by_id[key] for key in sorted(matched, reverse=True) if key != current],
        strength=max(fits[key] for key in matched),
    )
