"""Searches the memories that the viewer may see, by words and by vectors.

A memory without a vector is found by its words, and the caller may supply its similarity. A superseded memory is
returned only together with the memory that replaced it.
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

#: The maximum number of candidates by words, and by each vector.
MAX_CANDIDATES = 10
#: If a memory is found by similarity alone, its relevance is this share of the cosine. So a cosine of 0.7 reaches the
#: threshold for words and similarity. docs/decisions/memories-are-embedded-like-messages.md says how it was measured.
DENSE_ONLY_FACTOR = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearchResult:
    """Current memories that match, best first, and whether vectors were compared."""

    matches: Sequence[MatchedMemory]
    has_vectors: bool


def is_applicable(search_filter: SearchFilter) -> bool:
    """Return whether memories may answer. They may not if the question is about one author, conversation or time."""
    filters = (
        *(
            search_filter.author_ids,
            search_filter.author_kinds,
            search_filter.conversation_ids,
            search_filter.answered,
        ),
        *(search_filter.since, search_filter.until, search_filter.last),
    )
    return all(value is None for value in filters)


async def without_vectors(conn: Connection, org_id: OrgId, question: SearchQuery) -> list[Memory]:
    """Return the candidate memories that have no vector by the question's embedding model, in no particular order."""
    # The question's own vector is not searched, because it finds only memories that have a vector by the same model.
    found = await _candidates(conn, org_id, question, vectors=[question.second_vector])
    lacking = [key for key, why in found.items() if why.similarity is None]
    return await memories.memories_by_id(conn, org_id, lacking) if lacking else []


async def search_memories(
    conn: Connection, org_id: OrgId, question: SearchQuery, *, similarities: Mapping[MemoryId, float]
) -> MemorySearchResult:
    """Return the visible memories that match a question, best first.

    `similarities` contains the similarities of memories that have no stored vector.
    """
    candidates = await _candidates(conn, org_id, question, vectors=[question.vector, question.second_vector])
    found = {
        key: why if why.similarity is not None else replace(why, similarity=similarities.get(key))
        for key, why in candidates.items()
    }
    successors = await memories.successors(conn, org_id, found)
    current = {key: successors[key][-1] if key in successors else key for key in found}
    by_id = {
        memory.id: memory
        for memory in await memories.memories_by_id(conn, org_id, {*found, *current.values()})
    }
    grouped: dict[MemoryId, list[MemoryId]] = {}
    for key in found:
        # An archived memory does not answer. The memories that it replaced do not answer either.
        if key in by_id and current[key] in by_id and by_id[current[key]].status == "active":
            grouped.setdefault(current[key], []).append(key)
    matches = [
        MatchedMemory(
            memory=by_id[latest],
            superseded=sorted(
                (by_id[key] for key in matched if key != latest),
                key=lambda memory: (memory.valid_from, memory.id),
                reverse=True,
            ),
            strength=max(_relevance(found[key]) for key in matched),
        )
        for latest, matched in grouped.items()
    ]
    return MemorySearchResult(
        matches=sorted(matches, key=lambda match: (-match.strength, match.memory.id)),
        has_vectors=any(why.similarity is not None for why in found.values()),
    )


async def _candidates(
    conn: Connection, org_id: OrgId, question: SearchQuery, *, vectors: Sequence[QueryVector]
) -> dict[MemoryId, MatchReason]:
    """Return the memories that words or one of the vectors find, each with the reason why it matches.

    Each similarity is the cosine to `question.vector`, whichever vector found the memory.
    """
    found = {
        match.memory_id: MatchReason(
            score=match.coverage, similarity=None, coverage=match.coverage, terms=match.terms
        )
        for match in await memories.lexical_matches(conn, question.text, wanted=MAX_CANDIDATES)
    }
    for vector in vectors:
        if vector is not None:
            for key in await memory_vectors.dense_matches(conn, vector, wanted=MAX_CANDIDATES):
                found.setdefault(key, MatchReason(score=0.0, similarity=None, coverage=None, terms=()))
    if question.vector is None or not found:
        return found
    known = await memory_vectors.similarities(conn, org_id, question.vector, found)
    return {key: replace(why, similarity=known.get(key)) for key, why in found.items()}


def _relevance(why: MatchReason) -> float:
    return max(relevance(why), DENSE_ONLY_FACTOR * (why.similarity or 0.0))
