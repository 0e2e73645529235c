"""Candidate messages for a question, and the threads that they belong to.

The database functions behind these queries check visibility.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roomlore.db.messages import Position, query_text
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import ReplyMethod
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vector

QUERIES = Queries("search")

#: If the rooms of a filter have at most this many messages, an exact scan is as fast as the index and finds every
#: match.
MAX_EXACT_SCAN = 20_000

#: If the rooms of a filter have at most this many messages, all matches of each word are counted.
MAX_COUNTED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """The filter of a search; None in a field means no limit. The type `search_filter` in the database."""

    room_ids: Sequence[RoomId] | None = None
    author_ids: Sequence[ParticipantId] | None = None
    author_kinds: Sequence[ParticipantKind] | None = None
    conversation_ids: Sequence[ConversationId] | None = None
    #: True: only messages with a visible reply. False: only questions without a visible reply.
    answered: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Only messages up to this position of its room.
    last: Position | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether the filter selects only some of the messages in its rooms."""
        # No message up to the position `last` was sent after its time. So a later `until` excludes no more messages.
        until = None if self.last is not None and self.until and self.until > self.last[0] else self.until
        chosen = (self.author_ids, self.author_kinds, self.conversation_ids, self.answered, self.since, until)
        return any(value is not None for value in chosen)

    def composite(self) -> tuple[Any, ...]:
        """Return the fields in the order of `search_filter`."""
        lists = (self.room_ids, self.author_ids, self.author_kinds, self.conversation_ids)
        return (
            *(None if values is None else list(values) for values in lists),
            *(self.answered, self.since, self.until),
            *(self.last or (None, None, None)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSize:
    """The facts about the rooms of a filter that decide how to search."""

    #: The number of messages in the rooms of the filter, visible or not. Never show it.
    message_count: int
    #: The lengths of vectors that have an approximate index.
    indexed_lengths: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMatch:
    """A message whose vector is near the question's."""

    message_id: MessageId
    #: Cosine.
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalMatches:
    """The words of a question, and the messages of the viewer that share most of them."""

    #: Stems, without stop words.
    lexemes: Sequence[str]
    #: How rare each is, ln(1 + n / df).
    rarities: Sequence[float]
    #: Best first.
    message_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A candidate message, or a message near a candidate in its room."""

    message_id: MessageId
    #: The name when it was sent.
    author_name: str
    #: Whether the row before is the message directly before it in the room.
    follows: bool
    #: The number of different words.
    size: int
    #: How often the message has each lexeme of the question; None if it has none of them.
    counts: Sequence[int] | None
    #: The cosine between question and message; None if the message has no vector.
    similarity: float | None
    #: Whether the filter matches the message. Other messages are returned only as context.
    matches_filter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """A message of a thread with its position and its parent."""

    member_id: MessageId
    #: None if the message has no visible parent.
    parent_id: MessageId | None
    method: ReplyMethod | None
    #: The confidence of the reply: 1.0 if the platform states it; None if there is no parent.
    confidence: float | None
    #: `Reply.answer_probability`.
    answer_probability: float | None = None
    sent_at: datetime
    sequence: int

    @property
    def position(self) -> Position:
        """The position in the room, comparable."""
        return (self.sent_at, self.sequence, self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootMessage:
    """A message that may be the root of a thread, and its position."""

    message_id: MessageId
    sent_at: datetime
    sequence: int

    @property
    def position(self) -> Position:
        """The position in the room, comparable."""
        return (self.sent_at, self.sequence, self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """The concatenated token vectors of a message, padded with zeros."""

    message_id: MessageId
    tokens: bytes


async def dense_candidates(
    conn: Connection,
    vector: tuple[str, Vector],
    *,
    search_filter: SearchFilter,
    measure: FilterSize,
    wanted: int,
) -> list[DenseMatch]:
    """Return the visible messages nearest to a vector of a model.

    If the rooms of the filter have few messages, the result is exact. Otherwise the approximate index is used.
    """
    is_exact = measure.message_count <= MAX_EXACT_SCAN or len(vector[1]) not in measure.indexed_lengths
    return await (dense_candidates_exact if is_exact else dense_candidates_indexed)(
        conn, vector, search_filter=search_filter, wanted=wanted
    )


@QUERIES.query
async def dense_candidates_exact(
    conn: Connection, vector: tuple[str, Vector], *, search_filter: SearchFilter, wanted: int
) -> list[DenseMatch]:
    """Return the nearest of all messages that the filter matches."""
    ...


@QUERIES.query
async def dense_candidates_indexed(
    conn: Connection, vector: tuple[str, Vector], *, search_filter: SearchFilter, wanted: int
) -> list[DenseMatch]:
    """Return the nearest messages that the approximate index finds."""
    ...


async def lexical_candidates(
    conn: Connection, question: str, *, search_filter: SearchFilter, measure: FilterSize, wanted: int
) -> LexicalMatches:
    """Return the words of a question, and the visible messages that share most of them."""
    is_large = measure.message_count > MAX_COUNTED and not search_filter.is_filtered
    matches = await best_matching(
        conn, query_text(question), search_filter=search_filter, is_large=is_large, wanted=wanted
    )
    return matches or LexicalMatches(lexemes=(), rarities=(), message_ids=())


@QUERIES.query
async def best_matching(
    conn: Connection, question: str, *, search_filter: SearchFilter, is_large: bool, wanted: int
) -> LexicalMatches | None:
    """Return the words of a storable text, and the visible messages that share most of them."""
    ...


async def matching_lexemes(
    conn: Connection, question: str, *, among: Sequence[MessageId], wanted: int
) -> tuple[list[str], list[MessageId]]:
    """Return the words of a question as stems, and the messages of `among` that share a word with it, newest first.

    Only visible messages are returned. Messages outside `among` are not read.
    """
    lexemes = await query_lexemes(conn, query_text(question))
    if not lexemes or not among:
        return lexemes, []
    return lexemes, await lexical_among(conn, among, lexemes=lexemes, wanted=wanted)


@QUERIES.query
async def query_lexemes(conn: Connection, question: str) -> list[str]:
    """Return the words of a storable text as stems."""
    ...


@QUERIES.query
async def lexical_among(
    conn: Connection, message_ids: Sequence[MessageId], *, lexemes: Sequence[str], wanted: int
) -> list[MessageId]:
    """Return the given messages that are visible and share a word with the question, newest first."""
    ...


@QUERIES.query
async def pending_in_projection(
    conn: Connection, org_id: OrgId, target: str, *, limit: int
) -> list[MessageId]:
    """Return the messages that are still to be written to a projection, latest first. For the operator."""
    ...


async def context_window(
    conn: Connection,
    seeds: Collection[MessageId],
    *,
    lexemes: Sequence[str],
    vector: tuple[str, Vector] | None,
    search_filter: SearchFilter,
    reach: int,
) -> list[ContextMessage]:
    """Return the seed messages and the visible messages up to `reach` positions around each, in room order."""
    return await messages_around(
        conn, seeds, lexemes=lexemes, vector=vector or ("", None), search_filter=search_filter, reach=reach
    )


@QUERIES.query
async def messages_around(
    conn: Connection,
    seeds: Collection[MessageId],
    *,
    lexemes: Sequence[str],
    vector: tuple[str, Vector | None],
    search_filter: SearchFilter,
    reach: int,
) -> list[ContextMessage]:
    """Return the seed messages and the messages around them, with their similarity to a question."""
    ...


@QUERIES.query
async def filter_size(conn: Connection, room_ids: Sequence[RoomId] | None) -> FilterSize:
    """Return how many messages are in rooms, and the lengths of the vectors that have an index."""
    ...


@QUERIES.query
async def thread_messages(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[ThreadMessage]:
    """Return all visible messages of the threads of these messages. Each message comes once, in no particular order."""
    ...


@QUERIES.query
async def root_messages(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, before: Position, limit: int
) -> list[RootMessage]:
    """Return the newest messages of a room before a position that may be the root of a thread, newest first."""
    ...


async def token_vectors(
    conn: Connection, model: str, ids: Sequence[MessageId]
) -> dict[MessageId, TokenVectors]:
    """Return the token vectors of the given messages. Omit messages that are not visible or have no token vectors."""
    return {row.message_id: _tokens(row.tokens) for row in await token_rows(conn, model, ids)}


@QUERIES.query
async def token_rows(conn: Connection, model: str, ids: Sequence[MessageId]) -> list[TokenRow]:
    """Return the stored token vectors of visible messages."""
    ...


def _tokens(stored: bytes) -> TokenVectors:
    import numpy as np  # noqa: PLC0415  only searches with token vectors need it

    tokens = np.frombuffer(stored, np.int8).reshape(-1, TOKEN_BYTES)
    return tokens[tokens.any(axis=1)]


async def newest_messages(
    conn: Connection, org_id: OrgId, search_filter: SearchFilter, *, limit: int
) -> list[MessageId]:
    """Return the newest visible messages that a filter matches, newest first.

    Without a filter by author, only messages in rooms that the viewer may see are returned.
    """
    by_author = search_filter.author_ids is not None or search_filter.author_kinds is not None
    return await (newest_by_authors if by_author else newest_in_rooms)(
        conn, org_id, search_filter, limit=limit
    )


@QUERIES.query
async def newest_by_authors(
    conn: Connection, org_id: OrgId, search_filter: SearchFilter, *, limit: int
) -> list[MessageId]:
    """Return the newest messages of authors, or of all authors of a kind."""
    ...


@QUERIES.query
async def newest_in_rooms(
    conn: Connection, org_id: OrgId, search_filter: SearchFilter, *, limit: int
) -> list[MessageId]:
    """Return the newest messages of rooms, or of all rooms that the viewer may see."""
    ...
