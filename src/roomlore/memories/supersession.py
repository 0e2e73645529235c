"""Finds memories that supersede others: the message model compares new memories with similar ones of the same scope.

Memories of the same scope have the same subjects and the same audience (see `consolidation`). The later statement
supersedes the earlier one, whichever of the two memories was stored first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roomlore.db import memory_writes
from roomlore.db.memory_writes import MemoryStatement
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import bundled_embedder
from roomlore.models.message_model import RELATIONS, StatementPair, bundled_model

#: The maximum number of memories that are read for a new memory, and the maximum number of these that the message model
#: compares with it: those with the nearest vectors.
_MOST_READ, _MOST_COMPARED = 24, 8
#: The lowest similarity of two statements that are compared.
_LEAST_SIMILARITY = 0.3
#: The lowest probability that a later statement replaces an earlier one, and that it repeats the earlier one. A
#: repetition also supersedes: the later words then stand for both.
_LEAST_REPLACES, _LEAST_REPEATS = 0.6, 0.8
_REPLACES, _CONTRADICTS, _REPEATS = (RELATIONS.index(name) for name in ("replaces", "contradicts", "repeats"))


class RelationModel(Protocol):
    """Predicts the relation between two statements; see `MessageModel`."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        ...

    def relations(self, pairs: Sequence[StatementPair]) -> Any:
        """Return for each pair the probabilities of `RELATIONS`."""
        ...


class BundledRelations:
    """The bundled models, loaded when they are first used."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        return bundled_embedder().embed(texts)

    def relations(self, pairs: Sequence[StatementPair]) -> Any:
        """Return for each pair the probabilities of `RELATIONS`."""
        return bundled_model().relations(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two memories of the same scope."""

    earlier: MemoryStatement
    later: MemoryStatement


async def comparisons(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]
) -> Sequence[Sequence[Comparison]]:
    """Return for each memory its pairs with other memories, of which one may supersede the other."""
    near = await memory_writes.near_memories(conn, org_id, memory_ids, most=_MOST_READ)
    told = await memory_writes.statements(conn, org_id, {one for pair in near for one in pair})
    found: dict[MemoryId, list[Comparison]] = {}
    for memory_id, other_id in near:
        pair = sorted((told[memory_id], told[other_id]), key=lambda one: one.position)
        found.setdefault(memory_id, []).append(Comparison(earlier=pair[0], later=pair[1]))
    return list(found.values())


def superseding(
    compared: Sequence[Sequence[Comparison]], model: RelationModel
) -> list[tuple[MemoryId, MemoryId]]:
    """Return pairs of ids: a superseded memory and the memory that supersedes it. The latter gives the order."""
    found: dict[tuple[MemoryId, MemoryId], Comparison] = {}
    for each in compared:
        texts = list(dict.fromkeys(one.words for pair in each for one in (pair.earlier, pair.later)))
        nearest = _nearest(each, dict(zip(texts, model.embed(texts), strict=True)))
        pairs = [_statements(pair) for pair in nearest]
        shares = model.relations(pairs) if pairs else ()
        for pair, share in zip(nearest, shares, strict=True):
            if _supersedes(pair, share):
                found[pair.earlier.id, pair.later.id] = pair
    ordered = sorted(found.values(), key=lambda pair: (pair.later.position, pair.earlier.position))
    return [(pair.earlier.id, pair.later.id) for pair in ordered]


def _nearest(pairs: Sequence[Comparison], vectors: Mapping[str, Any]) -> list[Comparison]:
    def similarity(pair: Comparison) -> float:
        return float(np.dot(vectors[pair.earlier.words], vectors[pair.later.words]))

    ranked = sorted(((similarity(pair), pair) for pair in pairs), key=lambda each: -each[0])
    return [pair for share, pair in ranked[:_MOST_COMPARED] if share >= _LEAST_SIMILARITY]


def _statements(pair: Comparison) -> StatementPair:
    return StatementPair(
        earlier=pair.earlier.words, later=pair.later.words, same_author=_have_same_author(pair)
    )


def _have_same_author(pair: Comparison) -> bool:
    return not set(pair.earlier.author_ids).isdisjoint(pair.later.author_ids)


def _supersedes(pair: Comparison, share: Any) -> bool:
    """Return whether the later statement supersedes the earlier one.

    The later statement must have at least the same standing. A statement that only contradicts the earlier one
    supersedes it only if it is by the same author or has a higher standing.
    """
    if pair.later.standing < pair.earlier.standing:
        return False
    knows_better = _have_same_author(pair) or pair.later.standing > pair.earlier.standing
    changed = share[_REPLACES] + (share[_CONTRADICTS] if knows_better else 0)
    return bool(changed >= _LEAST_REPLACES or share[_REPEATS] >= _LEAST_REPEATS)


async def supersede(conn: Connection, org_id: OrgId, pairs: Sequence[tuple[MemoryId, MemoryId]]) -> None:
    """Supersede the first memory of each pair by the second, if both still have the same scope.

    If a person archived one of the memories, keeps both, or chose another successor, the pair is not changed.
    """
    if pairs:
        await memory_writes.lock(conn, org_id)
    for old_id, new_id in pairs:
        await memory_writes.supersede_in_scope(conn, org_id, old_id, by=new_id)
