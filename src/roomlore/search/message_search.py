"""Message search: candidates by words and by vectors, scored with their neighbours, returned as whole threads.

PostgreSQL decides what the viewer may see when it returns candidates; later steps only narrow and order them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from roomlore.db import directory
from roomlore.db import search as candidates
from roomlore.db.queries import Connection
from roomlore.db.search import ContextMessage, SearchFilter
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.records import Viewer
from roomlore.search.answer_reading import read_answers
from roomlore.search.confidence import confidence
from roomlore.search.ranking import (
    ALL_FEATURES,
    CONTEXT_REACH,
    QueryTerms,
    ScoredMessage,
    ScoringFeatures,
    fill_similarities,
    max_similarity,
    score_messages,
    unit_range,
)
from roomlore.search.records import Hit, MatchReason
from roomlore.search.threads import build_threads, load_threads, max_shown, visible_members

#: The number of candidates by words and by vectors. Their neighbours are added to these candidates.
LEXICAL_CANDIDATES, DENSE_CANDIDATES = 40, 20
#: The maximum number of candidates by words, and by vectors, however many threads are wanted.
MOST_PROPOSED = 1_000
#: The number of best messages that are compared with the question token by token.
RERANKED = 50
#: The number of messages that are looked up for each wanted thread, because several may be in one thread.
MESSAGES_PER_THREAD, RECENT_PER_THREAD = 3, 5

#: The id of an embedding model, and the question's vector by this model. None means that only words are searched.
QueryVector = tuple[str, NDArray[np.float32]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A question with its vectors, and with candidates that an index has proposed."""

    text: str
    vector: QueryVector
    #: The token vectors of the question, shape (tokens, bytes); None if the embedding model has no token vectors.
    tokens: NDArray[np.int8] | None = None
    #: For some filters, the nearest messages according to an index. For all other filters, the database finds them.
    dense: Sequence[tuple[SearchFilter, Sequence[MessageId]]] = ()
    #: For some filters, the best lexical matches according to an index. For all other filters, the database finds them.
    lexical: Sequence[tuple[SearchFilter, Sequence[MessageId]]] = ()
    #: The question's vector by the next embedding model, while the org is switching to that model.
    second_vector: QueryVector = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearchResult:
    """Threads, best first, and the confidence that the answer is among them."""

    hits: Sequence[Hit]
    #: The confidence, 0..1; None without hits.
    confidence: float | None
    #: The confidence that an answer needs. It depends on the evidence that was compared.
    threshold: float


async def search_messages(
    conn: Connection,
    viewer: Viewer,
    question: SearchQuery,
    *,
    search_filter: SearchFilter,
    limit: int,
    features: ScoringFeatures = ALL_FEATURES,
) -> MessageSearchResult:
    """Return up to `limit` threads that the viewer may see, best first, and the confidence in them."""
    rows, terms = await _find_candidates(
        conn, question, search_filter, limit=limit, dense=bool(features.dense)
    )
    scored = score_messages(rows, terms, limit=max(RERANKED, MESSAGES_PER_THREAD * limit), features=features)
    reasons = await _rerank(conn, question, scored, weight=features.late_interaction)
    sure = confidence(question.text, scored, reasons)
    best = dict(list(reasons.items())[: MESSAGES_PER_THREAD * limit])
    hits = await _load_hits(conn, viewer.org_id, best, search_filter, limit=limit)
    if features.answers and question.vector is not None:
        hits, sure = await asyncio.to_thread(read_answers, question.text, hits, sure)
    return MessageSearchResult(hits=hits, confidence=sure.value, threshold=sure.threshold)


async def list_recent(
    conn: Connection, viewer: Viewer, *, search_filter: SearchFilter, limit: int
) -> list[Hit]:
    """Return up to `limit` threads with the newest messages, for a question that consists of filters only."""
    newest = await candidates.newest_messages(
        conn, viewer.org_id, search_filter, limit=RECENT_PER_THREAD * limit
    )
    reasons = {
        message_id: MatchReason(score=1 - place / len(newest), similarity=None, coverage=None, terms=())
        for place, message_id in enumerate(newest)
    }
    return await _load_hits(conn, viewer.org_id, reasons, search_filter, limit=limit)


async def _find_candidates(
    conn: Connection, question: SearchQuery, search_filter: SearchFilter, *, limit: int, dense: bool
) -> tuple[list[ContextMessage], QueryTerms]:
    """Return the candidates by words and by vectors, with their neighbours, and the words of the question."""
    size = await candidates.filter_size(conn, search_filter.room_ids)
    by_index = next((ids for where, ids in question.lexical if where == search_filter), None)
    # The database states the rarity of words in any case, because an index also counts messages that the viewer may not
    # see.
    wanted = _candidate_count(LEXICAL_CANDIDATES, limit) if by_index is None else 0
    lexical = await candidates.lexical_candidates(
        conn, question.text, search_filter=search_filter, measure=size, wanted=wanted
    )
    seeds = dict.fromkeys(lexical.message_ids if by_index is None else by_index)

    async def nearest(vector: tuple[str, NDArray[np.float32]]) -> list[MessageId]:
        wanted = _candidate_count(DENSE_CANDIDATES, limit)
        found = await candidates.dense_candidates(
            conn, vector, search_filter=search_filter, measure=size, wanted=wanted
        )
        return [match.message_id for match in found]

    vector, second = (question.vector, question.second_vector) if dense else (None, None)
    if vector is not None:
        by_index = next((ids for where, ids in question.dense if where == search_filter), None)
        # The index only proposes messages. `context_window` checks that the viewer may see them and that they pass the
        # filter.
        seeds |= dict.fromkeys(await nearest(vector) if by_index is None else by_index)
    by_second = [] if second is None else await nearest(second)
    seeds |= dict.fromkeys(by_second)
    with_neighbours = partial(
        candidates.context_window,
        conn,
        lexemes=lexical.lexemes,
        search_filter=search_filter,
        reach=CONTEXT_REACH,
    )
    rows = await with_neighbours(list(seeds), vector=vector)
    compared = {row.message_id for row in rows if row.similarity is not None}
    if not compared.issuperset(by_second):
        others = await with_neighbours(list(seeds), vector=second)
        rows = fill_similarities(
            rows, {row.message_id: row.similarity for row in others if row.similarity is not None}
        )
    return rows, QueryTerms(stems=lexical.lexemes, rarities=lexical.rarities)


def _candidate_count(usual: int, limit: int) -> int:
    return min(max(usual, limit), MOST_PROPOSED)


async def _rerank(
    conn: Connection, question: SearchQuery, scored: Sequence[ScoredMessage], *, weight: float
) -> dict[MessageId, MatchReason]:
    """Return the reason for each message, best first.

    The best messages are compared with the question token by token.
    """
    reasons = [
        MatchReason(
            score=message.score,
            similarity=message.similarity,
            coverage=message.coverage,
            terms=tuple(message.terms),
        )
        for message in scored
    ]
    if weight and question.tokens is not None and question.vector is not None and len(question.tokens):
        first = [message.message_id for message in scored[:RERANKED]]
        vectors = await candidates.token_vectors(conn, question.vector[0], first)
        if vectors:
            reasons[:RERANKED] = _blend(
                reasons[:RERANKED], question.tokens, [vectors.get(key) for key in first], weight=weight
            )
    found = zip((message.message_id for message in scored), reasons, strict=True)
    return dict(sorted(found, key=lambda item: (-item[1].score, item[0])))


def _blend(
    reasons: Sequence[MatchReason],
    question: NDArray[np.int8],
    tokens: Sequence[NDArray[np.int8] | None],
    *,
    weight: float,
) -> list[MatchReason]:
    """Return the reasons with late interaction added to their scores.

    A message without token vectors keeps its score.
    """
    compared = [place for place, vectors in enumerate(tokens) if vectors is not None]
    rerank_score = max_similarity(question, [vectors for vectors in tokens if vectors is not None])
    scores = unit_range(np.array([why.score for why in reasons]))
    by_tokens = scores.copy()
    by_tokens[compared] = unit_range(rerank_score)
    total = (1 - weight) * scores + weight * by_tokens
    # The new scores keep the range of the old scores, so that messages that were not compared stay behind.
    least, greatest = min(why.score for why in reasons), max(why.score for why in reasons)
    close = dict(zip(compared, rerank_score.tolist(), strict=True))
    return [
        replace(why, score=float(least + (greatest - least) * total[place]), rerank_score=close.get(place))
        for place, why in enumerate(reasons)
    ]


async def _load_hits(
    conn: Connection,
    org_id: OrgId,
    reasons: dict[MessageId, MatchReason],
    search_filter: SearchFilter,
    *,
    limit: int,
) -> list[Hit]:
    """Return the first `limit` threads with these messages. Threads are in the order of their best messages."""
    members = await candidates.thread_messages(conn, org_id, list(reasons))
    outline_of = {
        key: outline
        for outline in build_threads(members, last=search_filter.last)
        for key in outline.member_ids
    }
    why: dict[MessageId, dict[MessageId, MatchReason]] = {}
    for message_id, reason in reasons.items():
        root_id = outline_of[message_id].root_id
        if root_id in why or len(why) < limit:
            why.setdefault(root_id, {})[message_id] = reason
    outlines = [outline_of[root_id] for root_id in why]
    bound = max_shown(limit)
    shown = [visible_members(outline, list(why[outline.root_id]), bound=bound) for outline in outlines]
    threads = await load_threads(conn, org_id, outlines, shown)
    rooms = await directory.room_names(conn, org_id, {thread.messages[0].room_id for thread in threads})
    hits: list[Hit] = []
    for thread, found, kept in zip(threads, why.values(), shown, strict=True):
        # The addressee of a whisper may not see its room.
        room = rooms.get(thread.messages[0].room_id)
        hits.append(
            Hit(
                messages=thread.messages,
                replies=thread.replies,
                omitted=thread.omitted,
                why={key: reason for key, reason in found.items() if key in kept},
                room_name=room.name if room else "",
                platform=room.platform if room else "",
            )
        )
    return hits
