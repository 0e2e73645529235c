"""Candidates for a question, and the exchanges they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("search")

#: Up to this many messages an exact scan is as fast as the index, and misses nothing.
EXACT_UP_TO = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look; None in any field means everywhere."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeMeasure:
    """What chooses the faster way to search."""

    #: Visible or not; never shown.
    message_count: int
    has_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message that may answer, and why; scores are comparable within one search only."""

    message_id: MessageId
    #: 0..1, the mean of both sides scaled within this search.
    score: float
    #: Cosine between question and message; None if it was not among the nearest.
    similarity: float | None
    #: Weight of the shared words; None if it was not among the best worded.
    weight: float | None
    #: Share of the question's words, by rarity, that the message has; 0..1.
    coverage: float | None
    #: The shared words, rarest first, as stems.
    terms: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeMember:
    """One message of the exchange that a hit belongs to."""

    hit_id: MessageId
    opening_id: MessageId
    member_id: MessageId


async def candidates(
    conn: Connection,
    question: str,
    vector: NDArray[np.float32] | None,
    *,
    model: str,
    scope: Scope,
    wanted: int,
) -> list[Candidate]:
    """Return the best visible messages by meaning and by words, best first; by words alone without a vector."""
    params = {
        "question": question,
        "vector": None if vector is None else HalfVector(vector),
        "model": model,
        "exact": await _scan_exactly(conn, scope),
        "wanted": wanted,
        "room_ids": _list(scope.room_ids),
        "author_ids": _list(scope.author_ids),
        "author_kinds": _list(scope.author_kinds),
        "since": scope.since,
        "until": scope.until,
    }
    return await QUERIES.all(conn, "candidates", Candidate, params)


async def exchange_members(
    conn: Connection, org_id: OrgId, hits: Sequence[MessageId]
) -> list[ExchangeMember]:
    """Return the members of each hit's exchange, as far as they are visible."""
    params = {"org_id": org_id, "message_ids": list(hits)}
    return await QUERIES.all(conn, "exchange_members", ExchangeMember, params)


async def _scan_exactly(conn: Connection, scope: Scope) -> bool:
    measure = await QUERIES.first(conn, "measure_scope", ScopeMeasure, {"room_ids": _list(scope.room_ids)})
    return measure is None or not measure.has_index or measure.message_count <= EXACT_UP_TO


def _list(values: Sequence[object] | None) -> list[object] | None:
    return None if values is None else list(values)
