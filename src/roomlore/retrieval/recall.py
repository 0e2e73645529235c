"""Memories that fit a question, each as it stands now.

Found among those that the viewer may see, by their words and by their vectors. A memory that has no vector yet is found
by its words; how near its meaning is can be told by whoever has the embedding model. What was superseded is never shown as
if it still stood: what took its place is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.records import Memory
from roomlore.retrieval.evidence import strength
from roomlore.retrieval.records import Recalled, Why
from roomlore.retrieval.search import Question, QuestionVector
from roomlore.store import memories, memoryvectors
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: How many memories are looked at more closely: of those with the rarest words, and of the nearest.
CLOSEST = 10
#: How well a memory fits by its meaning alone, as a part of its cosine: one of 0.7 clears the bar that words and meaning
#: have to clear together. Where it comes from is in docs/why.md.
BY_MEANING = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """The memories that fit a question, and whether their meaning was compared."""

    #: As they stand now, best first.
    recalled: Sequence[Recalled]
    has_vectors: bool


def applies(scope: Scope) -> bool:
    """Return whether memories may answer: not where what some said, or said at some time, is asked for."""
    narrowed = (
        *(scope.author_ids, scope.author_kinds, scope.conversation_ids, scope.answered),
        *(scope.since, scope.until, scope.last),
    )
    return all(field is None for field in narrowed)


async def unembedded(conn: Connection, org_id: OrgId, question: Question) -> list[Memory]:
    """Return those of the visible memories which may fit a question that have no vector of its model, in no order."""
    # Of what is nearest to the question's own vector each has one.
    found = await _candidates(conn, org_id, question, proposing=[question.also])
    lacking = [key for key, why in found.items() if why.similarity is None]
    return await memories.memories_by_id(conn, org_id, lacking) if lacking else []


async def recalled(
    conn: Connection, org_id: OrgId, question: Question, *, near: Mapping[MemoryId, float]
) -> Recollection:
    """Return the visible memories that fit a question, as they stand now, best first.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        question: What is asked.
        near: Cosines between the question and memories that have no vector yet, as far as they are known.
    """
    found = {
        key: why if why.similarity is not None else replace(why, similarity=near.get(key))
        for key, why in (
            await _candidates(conn, org_id, question, proposing=[question.vector, question.also])
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
    return Recollection(
        recalled=sorted(
            (_recalled(by_id, current, matched, found) for current, matched in grouped.items()),
            key=lambda one: (-one.strength, one.memory.id),
        ),
        has_vectors=any(why.similarity is not None for why in found.values()),
    )


async def _candidates(
    conn: Connection, org_id: OrgId, question: Question, *, proposing: Sequence[QuestionVector]
) -> dict[MemoryId, Why]:
    """Return the visible memories that share the rarest words with a question, or are nearest to it, and why.

    While a second model is filled it proposes, too; how near a memory is the first one tells.
    """
    worded = await memories.worded(conn, question.text, wanted=CLOSEST)
    found = {one.memory_id: _why(one) for one in worded}
    for vector in proposing:
        if vector is not None:
            for key in await memoryvectors.nearest(conn, vector, wanted=CLOSEST):
                found.setdefault(key, Why(score=0.0, similarity=None, coverage=None, terms=()))
    if question.vector is None or not found:
        return found
    near = await memoryvectors.similarities(conn, org_id, question.vector, found)
    return {key: replace(why, similarity=near.get(key)) for key, why in found.items()}


def _why(found: memories.Worded) -> Why:
    return Why(score=found.coverage, similarity=None, coverage=found.coverage, terms=found.terms)


def _recalled(
    by_id: Mapping[MemoryId, Memory],
    current: MemoryId,
    matched: Sequence[MemoryId],
    found: Mapping[MemoryId, Why],
) -> Recalled:
    return Recalled(
        memory=by_id[current],
        superseded=sorted(
            (by_id[key] for key in matched if key != current),
            key=lambda one: (one.valid_from, one.id),
            reverse=True,
        ),
        strength=max(_strength(found[key]) for key in matched),
    )


def _strength(why: Why) -> float:
    return max(strength(why), BY_MEANING * (why.similarity or 0.0))
