"""Candidates for a question, and the exchanges they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import ReplyMethod
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("search")

#: Up to this many messages an exact scan is as fast as the index, and misses nothing.
EXACT_UP_TO = 20_000

#: A message's place: (sent_at, native_order, id), comparable.
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look; None in any field means everywhere."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Nothing that stands after this place in its room's order.
    last: Position | None = None


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
    """One message of an exchange, its place, and the one message it stands under."""

    member_id: MessageId
    #: None for a message that answers nothing the viewer may see.
    parent_id: MessageId | None
    method: ReplyMethod | None
    sent_at: datetime
    native_order: int

    @property
    def position(self) -> Position:
        """The place in the room, comparable."""
        return (self.sent_at, self.native_order, self.member_id)


async def candidates(
    conn: Connection,
    question: str,
    vector: tuple[str, NDArray[np.float32]] | None,
    *,
    org_id: OrgId,
    scope: Scope,
    wanted: int,
) -> list[Candidate]:
    """Return the best visible messages by meaning and by words, best first; by words alone without a vector.

    Args:
        conn: Reads for the viewer.
        question: In plain words.
        vector: The question's vector, after the name of the vector space it lies in.
        org_id: The viewer's org.
        scope: Where to look.
        wanted: How many messages at most.
    """
    model, values = vector or ("", None)
    last_at, last_order, last_id = scope.last or (None, None, None)
    params = {
        "org_id": org_id,
        "last_at": last_at,
        "last_order": last_order,
        "last_id": last_id,
        # A terminal hands over anything; PostgreSQL takes neither NUL nor half a surrogate pair.
        "question": question.encode("utf-8", "replace").decode().replace("\0", " "),
        "vector": None if values is None else HalfVector(values),
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
    """Return every visible member of the exchanges of these messages, each once, in no order."""
    params = {"org_id": org_id, "message_ids": list(hits)}
    return await QUERIES.all(conn, "exchange_members", ExchangeMember, params)


async def _scan_exactly(conn: Connection, scope: Scope) -> bool:
    measure = await QUERIES.first(conn, "measure_scope", ScopeMeasure, {"room_ids": _list(scope.room_ids)})
    return measure is None or not measure.has_index or measure.message_count <= EXACT_UP_TO


def _list(values: Sequence[object] | None) -> list[object] | None:
    return None if values is None else list(values)
