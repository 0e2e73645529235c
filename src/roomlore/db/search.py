"""Candidates for a question, and the exchanges they belong to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from pgvector import HalfVector

from roomlore.db.positions import Position
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import ReplyMethod
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vector

QUERIES = Queries("search")

#: Up to this many messages an exact scan is as fast as the index, and misses nothing.
MAX_EXACT_SCAN = 20_000

#: Up to this many messages every match of every word is counted.
MAX_COUNTED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Where to look; None in any field means everywhere."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    conversation_ids: Sequence[ConversationId] | None = None
    #: Only what is answered by something the viewer may see, or only what is not.
    answered: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Nothing that stands after this place in its room's order.
    last: Position | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether only some of what was said in its rooms lies in it."""
        # Whatever was said by the last message is everything, as it was then.
        until = None if self.last is not None and self.until and self.until > self.last[0] else self.until
        chosen = (self.author_ids, self.author_kinds, self.conversation_ids, self.answered, self.since, until)
        return any(one is not None for one in chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSize:
    """What chooses the faster way to search."""

    #: Visible or not; never shown.
    message_count: int
    #: How long the vectors are that have an approximate index.
    indexed_lengths: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMatch:
    """A message whose vector is near to the question's."""

    message_id: MessageId
    #: Cosine.
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalMatches:
    """The words of a question as the viewer's messages have them."""

    #: As stems, without those that everybody uses.
    lexemes: Sequence[str]
    #: How rare each is, ln(1 + n / df).
    rarities: Sequence[float]
    #: The messages that share most with the question, best first.
    message_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLexemes:
    """The words of a question as stems."""

    lexemes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message, by its id alone."""

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A message that was found, or stands near one in its room."""

    message_id: MessageId
    #: As they were called then.
    author_name: str
    #: Whether the one before it in the answer stands directly before it in the room.
    follows: bool
    #: How many different words it has.
    size: int
    #: How often it has each lexeme of the question; None if it has none.
    counts: Sequence[int] | None
    #: Cosine between question and message; None without a vector.
    similarity: float | None
    #: Whether it lies in the scope; one that does not only tells about its neighbours.
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """One message of an exchange, its place, and the one message it stands under."""

    member_id: MessageId
    #: None for a message that answers nothing the viewer may see.
    parent_id: MessageId | None
    method: ReplyMethod | None
    #: How sure it is that it stands there; 1.0 for what the platform says, None where it stands under nothing.
    confidence: float | None
    sent_at: datetime
    native_order: int

    @property
    def position(self) -> Position:
        """The place in the room, comparable."""
        return (self.sent_at, self.native_order, self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootMessage:
    """A message that may open an exchange, and its place."""

    message_id: MessageId
    sent_at: datetime
    native_order: int

    @property
    def position(self) -> Position:
        """The place in the room, comparable."""
        return (self.sent_at, self.native_order, self.message_id)


async def dense_candidates(
    conn: Connection,
    vector: tuple[str, Vector],
    *,
    scope: SearchFilter,
    measure: FilterSize,
    wanted: int,
) -> list[DenseMatch]:
    """Return the visible messages whose vectors are nearest, nearest first or nearly so.

    Args:
        conn: Reads for the viewer.
        vector: The question's, after the name of the vector space it lies in.
        scope: Where to look.
        measure: Of this scope; in a small one every vector is looked at, in a large one the index is asked.
        wanted: How many messages at most.
    """
    model, values = vector
    scan_exactly = measure.message_count <= MAX_EXACT_SCAN or len(values) not in measure.indexed_lengths
    params = {"vector": HalfVector(values), "model": model, "wanted": wanted, **_params(scope)}
    return await QUERIES.all(conn, "nearest_exact" if scan_exactly else "nearest_indexed", DenseMatch, params)


async def lexical_candidates(
    conn: Connection, question: str, *, scope: SearchFilter, measure: FilterSize, wanted: int
) -> LexicalMatches:
    """Return the words of a question, and the visible messages that share most of them."""
    params = {
        "question": _query_text(question),
        "is_large": measure.message_count > MAX_COUNTED and not scope.is_filtered,
        "wanted": wanted,
        **_params(scope),
    }
    found = await QUERIES.first(conn, "best_worded", LexicalMatches, params)
    return found or LexicalMatches(lexemes=(), rarities=(), message_ids=())


async def matching_lexemes(
    conn: Connection, question: str, *, among: Sequence[MessageId], wanted: int
) -> tuple[Sequence[str], list[MessageId]]:
    """Return the words of a question as stems, and which of these messages share any of them, newest first.

    Only what the viewer may read comes back. This looks up no other message, whatever the question asks for.
    """
    found = await QUERIES.first(conn, "lexemes", QueryLexemes, {"question": _query_text(question)})
    lexemes = () if found is None else found.lexemes
    if not lexemes or not among:
        return lexemes, []
    params = {"message_ids": list(among), "lexemes": list(lexemes), "wanted": wanted}
    rows = await QUERIES.all(conn, "worded_among", MessageRef, params)
    return lexemes, [row.message_id for row in rows]


async def pending_in_projection(
    conn: Connection, org_id: OrgId, target: str, *, limit: int
) -> list[MessageId]:
    """Return the messages that a copy may still lack, or have as they were, latest first; to the operator."""
    params = {"org_id": org_id, "target": target, "limit": limit}
    return [row.message_id for row in await QUERIES.all(conn, "not_copied", MessageRef, params)]


async def context_window(
    conn: Connection,
    seeds: Collection[MessageId],
    *,
    lexemes: Sequence[str],
    vector: tuple[str, Vector] | None,
    scope: SearchFilter,
    reach: int,
) -> list[ContextMessage]:
    """Return these messages and what the viewer may read up to `reach` places around each, in the order of the rooms."""
    model, values = vector or ("", None)
    params = {
        "seeds": list(seeds),
        "lexemes": list(lexemes),
        "vector": None if values is None else HalfVector(values),
        "model": model,
        "reach": reach,
        **_params(scope),
    }
    return await QUERIES.all(conn, "surroundings", ContextMessage, params)


async def filter_size(conn: Connection, scope: SearchFilter) -> FilterSize:
    """Return how large a scope is, by which the faster way to search is chosen."""
    found = await QUERIES.first(conn, "measure_scope", FilterSize, {"room_ids": _list(scope.room_ids)})
    return found or FilterSize(message_count=0, indexed_lengths=())


async def thread_messages(conn: Connection, org_id: OrgId, hits: Sequence[MessageId]) -> list[ThreadMessage]:
    """Return every visible member of the exchanges of these messages, each once, in no order."""
    params = {"org_id": org_id, "message_ids": list(hits)}
    return await QUERIES.all(conn, "exchange_members", ThreadMessage, params)


async def root_messages(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, before: Position, limit: int
) -> list[RootMessage]:
    """Return the newest messages of a room, before a place, that may open an exchange, newest first.

    Of messages that stand under each other in a round each that stands under a later one may.
    """
    at, order, message_id = before
    params = {"org_id": org_id, "room_id": room_id, "limit": limit}
    params |= {"before_at": at, "before_order": order, "before_id": message_id}
    return await QUERIES.all(conn, "openings", RootMessage, params)


def _params(scope: SearchFilter) -> dict[str, object]:
    last_at, last_order, last_id = scope.last or (None, None, None)
    return {
        "room_ids": _list(scope.room_ids),
        "author_ids": _list(scope.author_ids),
        "author_kinds": _list(scope.author_kinds),
        "conversation_ids": _list(scope.conversation_ids),
        "answered": scope.answered,
        "since": scope.since,
        "until": scope.until,
        "last_at": last_at,
        "last_order": last_order,
        "last_id": last_id,
    }


def _query_text(question: str) -> str:
    # A terminal hands over anything; PostgreSQL takes neither NUL nor half a surrogate pair.
    return question.encode("utf-8", "replace").decode().replace("\0", " ")


def _list(values: Sequence[object] | None) -> list[object] | None:
    return None if values is None else list(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """The token vectors of a message as they are stored: one after the other, filled up with zeros."""

    message_id: MessageId
    tokens: bytes


async def token_vectors(
    conn: Connection, model: str, ids: Sequence[MessageId]
) -> dict[MessageId, TokenVectors]:
    """Return the token vectors of these messages, of those that have some and may be read by the viewer."""
    rows = await QUERIES.all(conn, "token_vectors", TokenRow, {"model": model, "message_ids": list(ids)})
    return {row.message_id: _tokens(row.tokens) for row in rows}


def _tokens(stored: bytes) -> TokenVectors:
    tokens = np.frombuffer(stored, np.int8).reshape(-1, TOKEN_BYTES)
    return tokens[tokens.any(axis=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAuthor:
    """Who wrote a message."""

    message_id: MessageId
    author_id: ParticipantId


async def authors(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> dict[MessageId, ParticipantId]:
    """Return who wrote those of these messages that the viewer may read."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return {
        row.message_id: row.author_id for row in await QUERIES.all(conn, "authors", MessageAuthor, params)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A message that was said in a scope."""

    message_id: MessageId


async def newest_messages(
    conn: Connection, org_id: OrgId, scope: SearchFilter, *, limit: int
) -> list[MessageId]:
    """Return the newest messages of a scope that the viewer may read, newest first.

    Where nobody is named as their author, only those in rooms that the viewer may see.
    """
    last_at, last_order, last_id = scope.last or (None, None, None)
    params = {
        "org_id": org_id,
        "room_ids": scope.room_ids and list(scope.room_ids),
        "author_ids": scope.author_ids and list(scope.author_ids),
        "author_kinds": scope.author_kinds and list(scope.author_kinds),
        "conversation_ids": scope.conversation_ids and list(scope.conversation_ids),
        "answered": scope.answered,
        "since": scope.since,
        "until": scope.until,
        "last_at": last_at,
        "last_order": last_order,
        "last_id": last_id,
        "limit": limit,
    }
    by_author = scope.author_ids is not None or scope.author_kinds is not None
    name = "newest_by_authors" if by_author else "newest_in_rooms"
    return [row.message_id for row in await QUERIES.all(conn, name, ListedMessage, params)]
