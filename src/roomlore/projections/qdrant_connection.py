"""Speaks to a Qdrant server by its own client, in terms of points; whatever goes wrong there has one of our names here.

No text of an answer is passed on, for it may quote a key, an address or a point. Needs the extra: only what has made
sure of it imports this.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.models import (
    AcornSearchParams,
    Condition,
    DatetimeRange,
    FieldCondition,
    Filter,
    MatchAny,
    MatchValue,
    SearchParams,
)

from roomlore.domain.errors import BackendUnavailable, IndexUnavailable
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.projections import Candidate, Point, QueryFilter, StoredDigest, VisibilityFilter
from roomlore.projections.qdrant_positions import QdrantPosition, ThreadMember

#: For whom a point is: whoever may read its room, or the addressees it names.
ROOM, NAMED = "room", "named"
_IMPOSSIBLE = FieldCondition(key="audience_kind", match=MatchValue(value="nobody"))
#: Contradicts itself, so whatever may be stored, it is not matched.
MATCH_NOTHING = Filter(must=[_IMPOSSIBLE], must_not=[_IMPOSSIBLE])
#: Points that a filter hides are stepped over on the way to the nearest ones, however few or many they are: otherwise
#: less is found for whoever looks through a filter.
SEARCH_PARAMS = SearchParams(acorn=AcornSearchParams(enable=True, max_selectivity=1.0))


def visible_filter(
    sight: VisibilityFilter,
    narrowing: QueryFilter,
    *,
    at: datetime | None = None,
    behind: datetime | None = None,
    exchange_ids: Sequence[MessageId] | None = None,
) -> Filter:
    """Return a filter that matches what a viewer may read where they look.

    Args:
        sight: What the viewer may read.
        narrowing: Where they look.
        at: Only what was sent just then.
        behind: Only what was sent later.
        exchange_ids: Only what is part of these exchanges.
    """
    must = _query_conditions(narrowing)
    if not sight.is_operator:
        must.append(_visibility(sight))
    if at is not None:
        must.append(_sent_between(gte=at, lte=at))
    if behind is not None:
        must.append(_sent_between(gt=behind))
    if exchange_ids is not None:
        must.append(_one_of("exchange_id", exchange_ids))
    return Filter(must=must or None)


def _query_conditions(narrowing: QueryFilter) -> list[Condition]:
    chosen: dict[str, Sequence[UUID | str] | None] = {
        "room_id": narrowing.room_ids,
        "author_id": narrowing.author_ids,
        "author_kind": narrowing.author_kinds,
        "conversation_id": narrowing.conversation_ids,
    }
    must: list[Condition] = [_one_of(key, some) for key, some in chosen.items() if some is not None]
    if narrowing.since is not None or narrowing.until is not None:
        must.append(_sent_between(gte=narrowing.since, lt=narrowing.until))
    return must


def _visibility(sight: VisibilityFilter) -> Filter:
    """Return what is visible: to the room and heard there, to the viewer by name, or their own."""
    ways: list[Condition] = []
    if sight.open_room_ids or sight.stays:
        kinds = ["message", "system", *(["context_injection"] if sight.is_agent else [])]
        ways.append(
            Filter(
                must=[
                    _one_of("kind", kinds),
                    _audience_condition(ROOM),
                    Filter(should=_membership_conditions(sight)),
                ]
            )
        )
    if sight.own_ids:
        kinds = ["whisper", "context_injection"]
        ways.append(
            Filter(
                must=[_one_of("kind", kinds), _audience_condition(NAMED), _one_of("audience", sight.own_ids)]
            )
        )
        ways.append(_one_of("author_id", sight.own_ids))
    return Filter(should=ways) if ways else MATCH_NOTHING


def _membership_conditions(sight: VisibilityFilter) -> list[Condition]:
    """Return where and when the viewer could hear. Most stays begin with the room and last: they are told together."""
    ways: list[Condition] = [_one_of("room_id", sight.open_room_ids)] if sight.open_room_ids else []
    rooms: dict[tuple[datetime | None, datetime | None], list[RoomId]] = defaultdict(list)
    for stay in sight.stays:
        rooms[stay.joined_at, stay.left_at].append(stay.room_id)
    for (joined_at, left_at), room_ids in rooms.items():
        there: list[Condition] = [_one_of("room_id", room_ids)]
        if joined_at is not None or left_at is not None:
            there.append(_sent_between(gte=joined_at, lt=left_at))
        ways.append(Filter(must=there))
    return ways


def _one_of(key: str, values: Iterable[UUID | str]) -> Condition:
    """Return that a field has one of these values: a filter that matches nothing, if there are none."""
    wanted = [str(value) for value in dict.fromkeys(values)]
    return FieldCondition(key=key, match=MatchAny(any=wanted)) if wanted else MATCH_NOTHING


def _audience_condition(audience_kind: str) -> FieldCondition:
    return FieldCondition(key="audience_kind", match=MatchValue(value=audience_kind))


def _sent_between(
    *,
    gte: datetime | None = None,
    gt: datetime | None = None,
    lte: datetime | None = None,
    lt: datetime | None = None,
) -> FieldCondition:
    bounds = (None if one is None else one.astimezone(UTC) for one in (gte, gt, lte, lt))
    at_least, beyond, at_most, below = bounds
    return FieldCondition(key="sent_at", range=DatetimeRange(gte=at_least, gt=beyond, lte=at_most, lt=below))


Response = TypeVar("Response")

DENSE, LEXICAL = "dense", "words"
#: Every field that a filter names: without an index, a server may refuse to filter by it, or reads every point.
INDEXES: Mapping[str, models.PayloadSchemaType] = {
    "room_id": models.PayloadSchemaType.KEYWORD,
    "kind": models.PayloadSchemaType.KEYWORD,
    "author_id": models.PayloadSchemaType.KEYWORD,
    "author_is_bot": models.PayloadSchemaType.BOOL,
    "author_kind": models.PayloadSchemaType.KEYWORD,
    "conversation_id": models.PayloadSchemaType.KEYWORD,
    "exchange_id": models.PayloadSchemaType.KEYWORD,
    "sent_at": models.PayloadSchemaType.DATETIME,
    "audience": models.PayloadSchemaType.KEYWORD,
    "audience_kind": models.PayloadSchemaType.KEYWORD,
    "version": models.PayloadSchemaType.INTEGER,
}
#: An older server passes over the condition of a write in silence, and lets old messages take the place of newer ones.
MIN_VERSION = (1, 16)
#: How soon repeating a lexeme adds nothing more, and how much a long message is held against it: as is usual for BM25.
K1, B = 1.2, 0.75
#: How many lexemes a message is taken to have on average. It is fixed, for otherwise every point would have to be written
#: anew as the mean moves. A dozen is what a chat line of two or three sentences has once stop words are gone; that it
#: is off for a copy weighs all its messages alike but the very long and the very short.
AVERAGE_LEXEMES = 12.0

_REFUSING = frozenset({401, 403})
_NOT_FOUND = 404
_BUSY = 429
_INVALID_REQUEST = frozenset({400, 409, 413, 422})
_SEE = "see whether it is running, and whether ROOMLORE_QDRANT_URL is right"
_REBUILD = "run: roomlore project rebuild qdrant"


class RequestRefused(IndexUnavailable):
    """The server does not take what it was asked."""


class CollectionMissing(IndexUnavailable):
    """The server has no such copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """What a collection is made for."""

    dimensions: int | None
    has_lexical_index: bool
    indexes: frozenset[str]


def wrong_collection(why: str) -> IndexUnavailable:
    """Return the error that the copy is not ours as it should be."""
    return IndexUnavailable(f"the copy in Qdrant {why}", cure=_REBUILD)


class QdrantConnection:
    """A connection to one server."""

    def __init__(self, url: str, *, key: str | None, seconds: float) -> None:
        self._seconds = seconds
        self._client = AsyncQdrantClient(
            url=url,
            # Not as `api_key`: that warns of plain HTTP, which was decided before we come here.
            headers=None if key is None else {"api-key": key},
            # Whole seconds only; it is we who give up first.
            timeout=math.ceil(seconds) + 1,
            check_compatibility=False,
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.close()

    async def check_version(self) -> None:
        """Make sure that the server looks at the condition of a write.

        Raises:
            BackendUnavailable: it is too old for that, or does not say how old it is.
        """
        try:
            told = (await self._answer(self._client.info())).version
        except CollectionMissing:
            raise BackendUnavailable("what answers is not Qdrant", cure=_SEE) from None
        numbers = re.match(r"([0-9]{1,6})\.([0-9]{1,6})(?![0-9])", told)
        if numbers is None:
            raise BackendUnavailable("what answers is not Qdrant", cure=_SEE)
        major, minor = int(numbers[1]), int(numbers[2])
        if (major, minor) < MIN_VERSION:
            needed = ".".join(map(str, MIN_VERSION))
            why = f"Qdrant {major}.{minor} is too old: copies need {needed} or newer"
            raise BackendUnavailable(why, cure=f"put a newer Qdrant in its place, then {_REBUILD}")

    async def collections(self) -> list[str]:
        """Return the names of all collections, whosesoever they are."""
        try:
            answered = await self._answer(self._client.get_collections())
        except CollectionMissing:
            raise BackendUnavailable("what answers is not Qdrant", cure=_SEE) from None
        return [one.name for one in answered.collections]

    async def shape(self, name: str) -> CollectionInfo:
        """Return what a collection is made for."""
        info = await self._answer(self._client.get_collection(name))
        dense, sparse = info.config.params.vectors, info.config.params.sparse_vectors
        meant = dense.get(DENSE) if isinstance(dense, dict) else None
        words = sparse.get(LEXICAL) if sparse else None
        return CollectionInfo(
            dimensions=None if meant is None else meant.size,
            has_lexical_index=words is not None and words.modifier is models.Modifier.IDF,
            indexes=frozenset(info.payload_schema),
        )

    async def create(self, name: str, *, dimensions: int) -> None:
        """Let there be an empty collection."""
        dense = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        creating = self._client.create_collection(
            name, vectors_config={DENSE: dense}, sparse_vectors_config={LEXICAL: words}
        )
        await self._answer(creating)

    async def index(self, name: str, field: str) -> None:
        """Let a field be filtered by."""
        await self._answer(
            self._client.create_payload_index(name, field, field_schema=INDEXES[field], wait=True)
        )

    async def remove(self, name: str) -> None:
        """Remove a collection, if it is there."""
        await self._answer(self._client.delete_collection(name))

    async def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points, each unless one is there that is as new."""
        writing = self._client.batch_update_points(
            name, update_operations=_write_operations(points), wait=True
        )
        _check_completed(await self._answer(writing))

    async def delete(self, name: str, ids: Sequence[UUID]) -> None:
        """Remove points."""
        selector = models.PointIdsList(points=[str(one) for one in ids])
        _check_completed([await self._answer(self._client.delete(name, points_selector=selector, wait=True))])

    async def invalidate(self, name: str, ids: Sequence[UUID]) -> None:
        """Let any version take the place of points; by a filter, for to name one that is not there is an error."""
        named = models.Filter(must=[models.HasIdCondition(has_id=[str(one) for one in ids])])
        setting = self._client.set_payload(name, {"version": -1}, points=named, wait=True)
        _check_completed([await self._answer(setting)])

    async def stored_digests(self, name: str, *, since: UUID | None, limit: int) -> list[StoredDigest]:
        """Return the points from an id on, in the order of ids."""
        rows = await self._scroll(name, fields=["digest"], since=since, limit=limit)
        return [
            StoredDigest(id=_message_id_of(row.id), digest=str((row.payload or {}).get("digest", "")))
            for row in rows
        ]

    async def members(
        self,
        name: str,
        within: models.Filter,
        *,
        limit: int,
        since: UUID | None = None,
        by_time: bool = False,
    ) -> list[ThreadMember]:
        """Return points in the order of ids, from an id on, or the earliest ones in the order of time."""
        fields = ["sent_at", "native_order", "exchange_id"]
        rows = await self._scroll(
            name, fields=fields, since=since, limit=limit, within=within, by_time=by_time
        )
        try:
            return [_to_member(row) for row in rows]
        except (LookupError, ValueError, TypeError):
            raise wrong_collection("holds what was not written by Roomlore") from None

    async def search_dense(
        self, name: str, vector: NDArray[np.float32], *, within: models.Filter, limit: int
    ) -> list[Candidate]:
        """Return the points with the nearest vectors."""
        meant = vector.astype(np.float64).tolist()
        return await self._query(name, meant, using=DENSE, within=within, limit=limit, how=SEARCH_PARAMS)

    async def search_lexical(
        self, name: str, lexemes: Iterable[str], *, within: models.Filter, limit: int
    ) -> list[Candidate]:
        """Return the points that share most with the lexemes; how rare each one is, the server knows."""
        indices = sorted({lexeme_dimension(lexeme) for lexeme in lexemes})
        words = models.SparseVector(indices=indices, values=[1.0] * len(indices))
        return await self._query(name, words, using=LEXICAL, within=within, limit=limit)

    async def _query(
        self,
        name: str,
        wanted: list[float] | models.SparseVector,
        *,
        using: str,
        within: models.Filter,
        limit: int,
        how: models.SearchParams | None = None,
    ) -> list[Candidate]:
        asking = self._client.query_points(
            name,
            wanted,
            using=using,
            query_filter=within,
            search_params=how,
            limit=limit,
            with_payload=False,
        )
        answered = await self._answer(asking)
        found = [Candidate(message_id=_message_id_of(one.id), score=one.score) for one in answered.points]
        return sorted(found, key=lambda proposal: (-proposal.score, proposal.message_id))

    async def _scroll(
        self,
        name: str,
        *,
        fields: list[str],
        limit: int,
        since: UUID | None = None,
        within: models.Filter | None = None,
        by_time: bool = False,
    ) -> list[models.Record]:
        asking = self._client.scroll(
            name,
            scroll_filter=within,
            limit=limit,
            offset=None if since is None else str(since),
            order_by=models.OrderBy(key="sent_at", direction=models.Direction.ASC) if by_time else None,
            with_payload=fields,
        )
        rows, _ = await self._answer(asking)
        return rows

    async def _answer(self, answering: Awaitable[Response]) -> Response:
        """Return an answer, or raise why there is none.

        Raises:
            Refused: the server does not take what it was asked.
            Gone: it has no such copy.
            BackendUnavailable: anything else that a server or the way to it can do.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await answering
        except TimeoutError:
            why = f"Qdrant gave no answer within {self._seconds:g} seconds"
            raise BackendUnavailable(why, cure=_SEE) from None
        except UnexpectedResponse as error:
            raise _refusal(error.status_code or 0) from None
        except ResponseHandlingException as error:
            raise _failure(error.source) from None
        except QdrantException:
            raise _refusal(_BUSY) from None
        except (ValueError, AssertionError):
            # The client takes it for granted that there is a result.
            raise BackendUnavailable("what answers is not Qdrant", cure=_SEE) from None


def _check_completed(results: Sequence[models.UpdateResult]) -> None:
    """Make sure that a change can be seen by whoever asks from now on.

    Raises:
        BackendUnavailable: the server has only made a note of it.
    """
    if any(one.status is not models.UpdateStatus.COMPLETED for one in results):
        raise BackendUnavailable("Qdrant is behind with its work", cure="try again later")


def _failure(error: Exception) -> BackendUnavailable:
    if isinstance(error, ValueError):
        return BackendUnavailable("what answers is not Qdrant", cure=_SEE)
    return BackendUnavailable("Qdrant cannot be reached", cure=_SEE)


def _refusal(status: int) -> BackendUnavailable:
    if status in _REFUSING:
        return BackendUnavailable("Qdrant refuses us", cure="see whether ROOMLORE_QDRANT_KEY is right")
    if status == _NOT_FOUND:
        return CollectionMissing("the copy in Qdrant is gone", cure=_REBUILD)
    if status in _INVALID_REQUEST:
        return RequestRefused(f"Qdrant does not take this ({status})", cure=_REBUILD)
    if status == _BUSY:
        return BackendUnavailable("Qdrant is asked too much", cure="try again later")
    return BackendUnavailable(f"Qdrant answered {status}", cure=_SEE)


def _write_operations(points: Sequence[Point]) -> list[models.UpsertOperation]:
    """Return the writing of points: a condition holds for a whole operation, so there is one for each version."""
    of_version: dict[int, list[models.PointStruct]] = defaultdict(list)
    for point in points:
        of_version[point.version].append(_to_point_struct(point))
    return [
        models.UpsertOperation(upsert=models.PointsList(points=structs, update_filter=_older_than(version)))
        for version, structs in sorted(of_version.items())
    ]


def _older_than(version: int) -> models.Filter:
    """Return what may be replaced; a point without a version is not one that we wrote."""
    older = models.FieldCondition(key="version", range=models.Range(lt=version))
    strange = models.IsEmptyCondition(is_empty=models.PayloadField(key="version"))
    return models.Filter(should=[older, strange])


def _to_point_struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.vector is not None:
        vectors[DENSE] = point.vector.astype(np.float64).tolist()
    weights = lexeme_weights(point.lexemes)
    if weights:
        vectors[LEXICAL] = models.SparseVector(indices=list(weights), values=list(weights.values()))
    return models.PointStruct(id=str(point.id), vector=vectors, payload=payload_of(point))


def payload_of(point: Point) -> dict[str, Any]:
    """Return all that is stored with a point but its vectors; none of what was said."""
    payload: dict[str, Any] = {
        "room_id": str(point.room_id),
        "kind": point.kind,
        "author_id": str(point.author_id),
        "author_is_bot": point.author_kind == "agent",
        "author_kind": point.author_kind,
        "author_name": point.author_name,
        "exchange_id": str(point.exchange_id),
        "sent_at": point.sent_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "native_order": point.native_order,
        "audience_kind": ROOM if point.audience is None else NAMED,
        "version": point.version,
        "digest": point.digest,
    }
    if point.audience is not None:
        payload["audience"] = sorted(str(one) for one in point.audience)
    if point.conversation_id is not None:
        payload["conversation_id"] = str(point.conversation_id)
    if point.reply_to is not None:
        payload["reply_to"] = str(point.reply_to)
    return payload


def lexeme_weights(lexemes: Mapping[str, int]) -> dict[int, float]:
    """Return by its place what each lexeme weighs in a message by BM25, but for how rare it is elsewhere."""
    length = sum(lexemes.values())
    drag = K1 * (1 - B + B * length / AVERAGE_LEXEMES)
    weights: dict[int, float] = defaultdict(float)
    for lexeme, count in sorted(lexemes.items()):
        if count > 0:
            weights[lexeme_dimension(lexeme)] += count * (K1 + 1) / (count + drag)
    return dict(weights)


@lru_cache(maxsize=50_000)
def lexeme_dimension(lexeme: str) -> int:
    """Return the dimension of a lexeme, the same on every machine: two share one once in four thousand million."""
    return int.from_bytes(blake2b(lexeme.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


def _message_id_of(of_point: object) -> MessageId:
    try:
        return MessageId(UUID(str(of_point)))
    except ValueError:
        raise wrong_collection("holds what was not written by Roomlore") from None


def _to_member(row: models.Record) -> ThreadMember:
    payload = row.payload or {}
    place = QdrantPosition(
        sent_at=datetime.fromisoformat(payload["sent_at"]), message_id=_message_id_of(row.id)
    )
    exchange_id = MessageId(UUID(payload["exchange_id"]))
    return ThreadMember(position=place, native_order=int(payload["native_order"]), exchange_id=exchange_id)
