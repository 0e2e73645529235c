"""Wraps the Qdrant client. It takes points, returns candidates, and translates every error of the client.

Error messages quote no text of the server, which may contain a key, an address or a point. The extra must be installed.
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
from qdrant_client.models import Condition, DatetimeRange, FieldCondition, Filter, MatchAny, MatchValue

from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.projections import Candidate, Point, QueryFilter, StoredDigest, VisibilityFilter
from roomlore.projections.server import IndexMissing, RequestRefused, rebuild_hint, wrong_index

#: Values of `audience_kind` of a point. `room`: everybody who may read its room. `named`: the addressees in `audience`.
ROOM, NAMED = "room", "named"
_IMPOSSIBLE = FieldCondition(key="audience_kind", match=MatchValue(value="nobody"))
#: A contradiction, which matches no point.
MATCH_NOTHING = Filter(must=[_IMPOSSIBLE], must_not=[_IMPOSSIBLE])
#: With this setting, the graph search continues through points that the filter hides. Otherwise it finds too little
#: with a narrow filter.
SEARCH_PARAMS = models.SearchParams(acorn=models.AcornSearchParams(enable=True, max_selectivity=1.0))


def visible_filter(sight: VisibilityFilter, query_filter: QueryFilter) -> Filter:
    """Return a filter for the points that the viewer may see and that match `query_filter`."""
    chosen: dict[str, Sequence[UUID | str] | None] = {
        "room_id": query_filter.room_ids,
        "author_id": query_filter.author_ids,
        "author_kind": query_filter.author_kinds,
        "conversation_id": query_filter.conversation_ids,
    }
    must: list[Condition] = [_one_of(key, values) for key, values in chosen.items() if values is not None]
    if query_filter.since is not None or query_filter.until is not None:
        must.append(_sent_between(query_filter.since, query_filter.until))
    if not sight.is_operator:
        must.append(_visibility(sight))
    return Filter(must=must or None)


def _visibility(sight: VisibilityFilter) -> Filter:
    """Return a filter for the visible points.

    A point is visible if its message was sent to a room while the viewer was in it, if it was sent to the viewer, or if
    the viewer wrote it.
    """
    ways: list[Condition] = []
    if sight.open_room_ids or sight.stays:
        kinds = ["message", "system", *(["context_injection"] if sight.is_agent else [])]
        there = Filter(should=_membership_conditions(sight))
        ways.append(Filter(must=[_one_of("kind", kinds), _audience_condition(ROOM), there]))
    if sight.own_ids:
        kinds = ["whisper", "context_injection"]
        to_viewer = _one_of("audience", sight.own_ids)
        ways.append(Filter(must=[_one_of("kind", kinds), _audience_condition(NAMED), to_viewer]))
        ways.append(_one_of("author_id", sight.own_ids))
    return Filter(should=ways) if ways else MATCH_NOTHING


def _membership_conditions(sight: VisibilityFilter) -> list[Condition]:
    """Return conditions for the viewer's rooms and periods. Rooms with the same period share a condition."""
    ways: list[Condition] = [_one_of("room_id", sight.open_room_ids)] if sight.open_room_ids else []
    rooms: dict[tuple[datetime | None, datetime | None], list[RoomId]] = defaultdict(list)
    for stay in sight.stays:
        rooms[stay.joined_at, stay.left_at].append(stay.room_id)
    for (joined_at, left_at), room_ids in rooms.items():
        there: list[Condition] = [_one_of("room_id", room_ids)]
        if joined_at is not None or left_at is not None:
            there.append(_sent_between(joined_at, left_at))
        ways.append(Filter(must=there))
    return ways


def _one_of(key: str, values: Iterable[UUID | str]) -> Condition:
    """Return the condition that a field has one of these values. Without values, the condition matches nothing."""
    wanted = [str(value) for value in dict.fromkeys(values)]
    return FieldCondition(key=key, match=MatchAny(any=wanted)) if wanted else MATCH_NOTHING


def _audience_condition(audience_kind: str) -> FieldCondition:
    return FieldCondition(key="audience_kind", match=MatchValue(value=audience_kind))


def _sent_between(since: datetime | None, until: datetime | None) -> FieldCondition:
    first, end = (None if bound is None else bound.astimezone(UTC) for bound in (since, until))
    return FieldCondition(key="sent_at", range=DatetimeRange(gte=first, lt=end))


Response = TypeVar("Response")

DENSE, LEXICAL = "dense", "words"
#: Every field that a filter names. Without an index for the field, a server may refuse the filter or read every point.
INDEXES: Mapping[str, models.PayloadSchemaType] = {
    "room_id": models.PayloadSchemaType.KEYWORD,
    "kind": models.PayloadSchemaType.KEYWORD,
    "author_id": models.PayloadSchemaType.KEYWORD,
    "author_is_bot": models.PayloadSchemaType.BOOL,
    "author_kind": models.PayloadSchemaType.KEYWORD,
    "conversation_id": models.PayloadSchemaType.KEYWORD,
    "thread_id": models.PayloadSchemaType.KEYWORD,
    "sent_at": models.PayloadSchemaType.DATETIME,
    "audience": models.PayloadSchemaType.KEYWORD,
    "audience_kind": models.PayloadSchemaType.KEYWORD,
    "version": models.PayloadSchemaType.INTEGER,
}
#: Versions before this one silently ignore the condition of a write. With them, older subjects could replace newer
#: ones.
MIN_VERSION = (1, 16)
#: Usual BM25 parameters: saturation of a term's count, and weight of the message length.
K1, B = 1.2, 0.75
#: Assumed mean number of lexemes in a message. It is fixed, because with a changing mean every point would have to be
#: rewritten. Twelve is typical of two or three chat sentences without stop words. An error changes all scores alike,
#: except those of very long and very short messages.
AVERAGE_LEXEMES = 12.0

_SEE = "see whether it is running, and whether ROOMLORE_QDRANT_URL is right"
_REBUILD = rebuild_hint("Qdrant")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """The configuration of a collection."""

    dimensions: int | None
    has_lexical_index: bool
    indexes: frozenset[str]

    @property
    def missing_indexes(self) -> list[str]:
        """Fields that need an index and have none."""
        return [field for field in INDEXES if field not in self.indexes]


class QdrantConnection:
    """A connection to one server."""

    def __init__(self, url: str, *, key: str | None, seconds: float) -> None:
        self._seconds = seconds
        self._client = AsyncQdrantClient(
            url=url,
            # The client would warn about plain HTTP because of `api_key`. `open_qdrant` has already checked this.
            headers=None if key is None else {"api-key": key},
            # The client takes only whole seconds. Our own timeout is reached first.
            timeout=math.ceil(seconds) + 1,
            check_compatibility=False,
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def check_version(self) -> None:
        """Check that the server supports conditional writes.

        Raises:
            BackendUnavailable: the server is too old, or does not state its version.
        """
        try:
            version = (await self._answer(self._client.info())).version
        except IndexMissing:
            raise _not_qdrant() from None
        numbers = re.match(r"([0-9]{1,6})\.([0-9]{1,6})(?![0-9])", version)
        if numbers is None:
            raise _not_qdrant()
        major, minor = int(numbers[1]), int(numbers[2])
        if (major, minor) < MIN_VERSION:
            needed = ".".join(map(str, MIN_VERSION))
            why = f"Qdrant {major}.{minor} is too old: an index needs {needed} or newer"
            raise BackendUnavailable(why, cure=f"install a newer Qdrant, then {_REBUILD}")

    async def collections(self) -> list[str]:
        """Return the names of all collections, including those of other programs."""
        try:
            response = await self._answer(self._client.get_collections())
        except IndexMissing:
            raise _not_qdrant() from None
        return [collection.name for collection in response.collections]

    async def shape(self, name: str) -> CollectionInfo:
        """Return the configuration of a collection."""
        info = await self._answer(self._client.get_collection(name))
        dense, sparse = info.config.params.vectors, info.config.params.sparse_vectors
        vectors = dense.get(DENSE) if isinstance(dense, dict) else None
        words = sparse.get(LEXICAL) if sparse else None
        return CollectionInfo(
            dimensions=None if vectors is None else vectors.size,
            has_lexical_index=words is not None and words.modifier is models.Modifier.IDF,
            indexes=frozenset(info.payload_schema),
        )

    async def create(self, name: str, *, dimensions: int) -> None:
        """Create an empty collection."""
        dense = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        creating = self._client.create_collection(
            name, vectors_config={DENSE: dense}, sparse_vectors_config={LEXICAL: words}
        )
        await self._answer(creating)

    async def index(self, name: str, field: str) -> None:
        """Create the index of a field."""
        await self._answer(
            self._client.create_payload_index(name, field, field_schema=INDEXES[field], wait=True)
        )

    async def remove(self, name: str) -> None:
        """Remove a collection."""
        await self._answer(self._client.delete_collection(name))

    async def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points. If the version on the server is as new or newer, it is not replaced."""
        writing = self._client.batch_update_points(
            name, update_operations=_write_operations(points), wait=True
        )
        _check_completed(await self._answer(writing))

    async def delete(self, name: str, ids: Sequence[UUID]) -> None:
        """Remove points."""
        selector = models.PointIdsList(points=[str(key) for key in ids])
        _check_completed([await self._answer(self._client.delete(name, points_selector=selector, wait=True))])

    async def invalidate(self, name: str, ids: Sequence[UUID]) -> None:
        """Mark points as invalid, so that any version may replace them.

        The points are selected by a filter, because a request by id fails for unknown ids.
        """
        named = models.Filter(must=[models.HasIdCondition(has_id=[str(key) for key in ids])])
        setting = self._client.set_payload(name, {"version": -1}, points=named, wait=True)
        _check_completed([await self._answer(setting)])

    async def stored_digests(self, name: str, *, since: UUID | None, limit: int) -> list[StoredDigest]:
        """Return ids and digests of points, ordered by id, starting at an id."""
        scrolling = self._client.scroll(
            name, limit=limit, offset=None if since is None else str(since), with_payload=["digest"]
        )
        rows, _ = await self._answer(scrolling)
        return [
            StoredDigest(id=_to_message_id(row.id), digest=str((row.payload or {}).get("digest", "")))
            for row in rows
        ]

    async def search_dense(
        self,
        name: str,
        vector: NDArray[np.float32],
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        limit: int,
    ) -> list[Candidate]:
        """Return the points with the nearest vectors."""
        query = vector.astype(np.float64).tolist()
        within = visible_filter(sight, query_filter)
        return await self._query(name, query, using=DENSE, within=within, limit=limit, params=SEARCH_PARAMS)

    async def search_lexical(
        self,
        name: str,
        lexemes: Iterable[str],
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        limit: int,
    ) -> list[Candidate]:
        """Return the points that match the lexemes best. The server weighs the lexemes by rarity."""
        indices = sorted({lexeme_dimension(lexeme) for lexeme in lexemes})
        query = models.SparseVector(indices=indices, values=[1.0] * len(indices))
        within = visible_filter(sight, query_filter)
        return await self._query(name, query, using=LEXICAL, within=within, limit=limit)

    async def _query(
        self,
        name: str,
        query: list[float] | models.SparseVector,
        *,
        using: str,
        within: Filter,
        limit: int,
        params: models.SearchParams | None = None,
    ) -> list[Candidate]:
        querying = self._client.query_points(
            name,
            query,
            using=using,
            query_filter=within,
            search_params=params,
            limit=limit,
            with_payload=False,
        )
        points = (await self._answer(querying)).points
        found = [Candidate(message_id=_to_message_id(point.id), score=point.score) for point in points]
        return sorted(found, key=lambda candidate: (-candidate.score, candidate.message_id))

    async def _answer(self, answering: Awaitable[Response]) -> Response:
        """Wait for the response to a request and return it.

        Raises:
            RequestRefused: the server rejects the request.
            IndexMissing: the server does not have the collection.
            BackendUnavailable: any other failure of the server or the network.
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
            raise _refusal(429) from None
        except (ValueError, AssertionError):
            # The client assumes that there is a result.
            raise _not_qdrant() from None


def _check_completed(results: Sequence[models.UpdateResult]) -> None:
    """Check that the changes are visible to later reads.

    Raises:
        BackendUnavailable: the server has only acknowledged the changes.
    """
    if any(result.status is not models.UpdateStatus.COMPLETED for result in results):
        raise BackendUnavailable("Qdrant is behind with its work", cure="try again later")


def _failure(error: Exception) -> BackendUnavailable:
    if isinstance(error, ValueError):
        return _not_qdrant()
    return BackendUnavailable("Qdrant cannot be reached", cure=_SEE)


def _not_qdrant() -> BackendUnavailable:
    return BackendUnavailable("the server is not Qdrant", cure=_SEE)


def _refusal(status: int) -> BackendUnavailable:
    match status:
        case 401 | 403:
            return BackendUnavailable("Qdrant denies access", cure="see whether ROOMLORE_QDRANT_KEY is right")
        case 404:
            return IndexMissing("Qdrant")
        case 400 | 409 | 413 | 422:
            return RequestRefused(f"Qdrant does not take this ({status})", cure=_REBUILD)
        case 429:
            return BackendUnavailable("Qdrant is overloaded", cure="try again later")
        case _:
            return BackendUnavailable(f"Qdrant answered {status}", cure=_SEE)


def _write_operations(points: Sequence[Point]) -> list[models.UpsertOperation]:
    """Return one operation for each version, because the condition of a write holds for a whole operation."""
    of_version: dict[int, list[models.PointStruct]] = defaultdict(list)
    for point in points:
        of_version[point.version].append(_to_point_struct(point))
    return [
        models.UpsertOperation(upsert=models.PointsList(points=structs, update_filter=_older_than(version)))
        for version, structs in sorted(of_version.items())
    ]


def _older_than(version: int) -> models.Filter:
    older = models.FieldCondition(key="version", range=models.Range(lt=version))
    foreign = models.IsEmptyCondition(is_empty=models.PayloadField(key="version"))
    return models.Filter(should=[older, foreign])


def _to_point_struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.vector is not None:
        vectors[DENSE] = point.vector.astype(np.float64).tolist()
    weights = lexeme_weights(point.lexemes)
    if weights:
        vectors[LEXICAL] = models.SparseVector(indices=list(weights), values=list(weights.values()))
    return models.PointStruct(id=str(point.id), vector=vectors, payload=payload_of(point))


def payload_of(point: Point) -> dict[str, Any]:
    """Return the data that is stored with a point besides its vectors. The data contains no text of the message."""
    payload: dict[str, Any] = {
        "room_id": str(point.room_id),
        "kind": point.kind,
        "author_id": str(point.author_id),
        "author_is_bot": point.author_kind == "agent",
        "author_kind": point.author_kind,
        "author_name": point.author_name,
        "thread_id": str(point.thread_id),
        "sent_at": point.sent_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "sequence": point.sequence,
        "audience_kind": ROOM if point.audience is None else NAMED,
        "version": point.version,
        "digest": point.digest,
    }
    if point.audience is not None:
        payload["audience"] = sorted(map(str, point.audience))
    if point.conversation_id is not None:
        payload["conversation_id"] = str(point.conversation_id)
    if point.reply_to is not None:
        payload["reply_to"] = str(point.reply_to)
    return payload


def lexeme_weights(lexemes: Mapping[str, int]) -> dict[int, float]:
    """Return the BM25 weight of each lexeme by its dimension. The weight does not include the rarity."""
    length = sum(lexemes.values())
    penalty = K1 * (1 - B + B * length / AVERAGE_LEXEMES)
    weights: dict[int, float] = defaultdict(float)
    for lexeme, count in sorted(lexemes.items()):
        if count > 0:
            weights[lexeme_dimension(lexeme)] += count * (K1 + 1) / (count + penalty)
    return dict(weights)


@lru_cache(maxsize=50_000)
def lexeme_dimension(lexeme: str) -> int:
    """Return the dimension of a lexeme.

    The dimension is the same on every machine. Two lexemes share a dimension with a chance of 1 in 4 billion.
    """
    return int.from_bytes(blake2b(lexeme.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


def _to_message_id(point_id: object) -> MessageId:
    try:
        return MessageId(UUID(str(point_id)))
    except ValueError:
        raise wrong_index("Qdrant", "holds what was not written by Roomlore") from None
