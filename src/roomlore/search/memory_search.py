"""Memories that fit a question, each as it stands now.

Found among those that the viewer may see, by their words and by their vectors. A memory that has no vector yet is found
by its words; how near its meaning is can be told by whoever has the embedding model. What was superseded is never shown as
if it still stood: what took its place is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.db import memories, memory_vectors
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.records import Memory
from roomlore.search.confidence import relevance
from roomlore.search.message_search import QueryVector, SearchQuery
from roomlore.search.records import MatchedMemory, MatchReason

#: How many memories are looked at more closely: of those with the rarest words, and of the nearest.
MAX_CANDIDATES = 10
#: How well a memory fits by its meaning alone, as a part of its cosine: one of 0.7 clears the bar that words and meaning
#: have to clear together. Where it comes from is in docs/why.md.
DENSE_ONLY_FACTOR = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearchResult:
    """The memories that fit a question, and whether their meaning was compared."""

    #: As they stand now, best first.
    matches: Sequence[MatchedMemory]
    has_vectors: bool


def is_applicable(scope: SearchFilter) -> bool:
    """Return whether memories may answer: not where what some said, or said at some time, is asked for."""
    narrowed = (
        *(scope.author_ids, scope.author_kinds, scope.conversation_ids, scope.answered),
        *(scope.since, scope.until, scope.last),
    )
    return all(field is None for field in narrowed)


async def without_vectors(conn: Connection, org_id: OrgId, question: SearchQuery) -> list[Memory]:
    """Return those of the visible memories which may fit a question that have no vector of its model, in no order."""
    # Of what is nearest to the question's own vector each has one.
    found = await _candidates(conn, org_id, question, proposing=[question.second_vector])
    lacking = [key for key, why in found.items() if why.similarity is None]
    return await memories.memories_by_id(conn, org_id, lacking) if lacking else []


async def search_memories(
    conn: Connection, org_id: OrgId, question: SearchQuery, *, similarities: Mapping[MemoryId, float]
) -> MemorySearchResult:
    """Return the visible memories that fit a question, as they stand now, best first.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        question: What is asked.
        similarities: Cosines between the question and memories that have no vector yet, as far as they are known.
    """
    found = {
        key: why if why.similarity is not None else replace(why, similarity=similarities.get(key))
        for key, why in (
            await _candidates(conn, org_id, question, proposing=[question.vector, question.second_vector])
        ).items()
    }
    later = await memories.successors(conn, org_id, found)
    standing = {key: later[key][-1] if key in later else key for key in found}
    by_id = {
        memory.id: memory
        for memory in await memories.memories_by_id(conn, org_id, {*found, *standing.values()})
    }
    grouped: dict[MemoryId, list[MemoryId]] = {}
    for key in found:
        # What a person put aside answers nothing, nor does what it had taken the place of.
        if key in by_id and standing[key] in by_id and by_id[standing[key]].status == "active":
            grouped.setdefault(standing[key], []).append(key)
    return MemorySearchResult(
        matches=sorted(
            (_matched_memory(by_id, current, matched, found) for current, matched in grouped.items()),
            key=lambda one: (-one.strength, one.memory.id),
        ),
        has_vectors=any(why.similarity is not None for why in found.values()),
    )


async def _candidates(
    conn: Connection, org_id: OrgId, question: SearchQuery, *, proposing: Sequence[QueryVector]
) -> dict[MemoryId, MatchReason]:
    """Return the visible memories that share the rarest words with a question, or are nearest to it, and why.

    While a second model is filled it proposes, too; how near a memory is the first one tells.
    """
    worded = await memories.lexical_matches(conn, question.text, wanted=MAX_CANDIDATES)
    found = {one.memory_id: _reason_of(one) for one in worded}
    for vector in proposing:
        if vector is not None:
            for key in await memory_vectors.dense_matches(conn, vector, wanted=MAX_CANDIDATES):
                found.setdefault(key, MatchReason(score=0.0, similarity=None, coverage=None, terms=()))
    if question.vector is None or not found:
        return found
    near = await memory_vectors.similarities(conn, org_id, question.vector, found)
    return {key: replace(why, similarity=near.get(key)) for key, why in found.items()}


def _reason_of(found: memories.LexicalMatch) -> MatchReason:
    return MatchReason(score=found.coverage, similarity=None, coverage=found.coverage, terms=found.terms)


def _matched_memory(
    by_id: Mapping[MemoryId, Memory],
    current: MemoryId,
    matched: Sequence[MemoryId],
    found: Mapping[MemoryId, MatchReason],
) -> MatchedMemory:
    return MatchedMemory(
        memory=by_id[current],
        superseded=sorted(
            (by_id[key] for key in matched if key != current),
            key=lambda one: (one.valid_from, one.id),
            reverse=True,
        ),
        strength=max(_relevance(found[key]) for key in matched),
    )


def _relevance(why: MatchReason) -> float:
    return max(relevance(why), DENSE_ONLY_FACTOR * (why.similarity or 0.0))
