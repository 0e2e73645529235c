"""Search: proposals by meaning and by words, scored with what stands around them, returned as whole exchanges.

Visibility is decided where proposals are made, in the database; what follows only narrows and orders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from roomlore.db import directory, messages
from roomlore.db import search as proposals_in
from roomlore.db.directory import RoomName
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.search.confidence import confidence
from roomlore.search.late_interaction import max_similarity
from roomlore.search.ranking import (
    ALL_FEATURES,
    CONTEXT_REACH,
    ProximityBoost,
    QueryTerms,
    ScoredMessage,
    ScoringFeatures,
    boost_near,
    fill_similarities,
    score_messages,
    unit_range,
)
from roomlore.search.records import Hit, MatchReason
from roomlore.search.threads import ThreadOutline, build_threads, max_shown, visible_members

#: How many messages each side proposes; what stands around them comes along.
LEXICAL_CANDIDATES, DENSE_CANDIDATES = 40, 20
#: However many are wanted, no more are proposed.
MOST_PROPOSED = 1_000
#: So many of the best are compared word by word.
RERANKED = 50
#: Of so many messages for each exchange that is wanted the exchanges are looked up: several lie in one.
MESSAGES_PER_THREAD = 3

#: A question's vector, after the name of the vector space it lies in; None searches by words alone.
QueryVector = tuple[str, NDArray[np.float32]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What is asked."""

    text: str
    vector: QueryVector
    #: A row for each of its tokens, where the embedding model gives them.
    tokens: NDArray[np.int8] | None = None
    #: Messages whose vectors a copy found to be nearest, in some scopes; in others the database looks for them.
    dense: Sequence[tuple[SearchFilter, Sequence[MessageId]]] = ()
    #: Messages that a copy found to share most of its words, in some scopes; in others the database looks for them.
    lexical: Sequence[tuple[SearchFilter, Sequence[MessageId]]] = ()
    #: Its vector by a second model, while the messages are being embedded by that: it proposes, too.
    second_vector: QueryVector = None
    #: Who and what is near whoever asks, and goes first; None: that does not count.
    proximity: ProximityBoost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearchResult:
    """What a search found."""

    #: Exchanges, best first.
    hits: Sequence[Hit]
    #: How sure it is that the answer is among them, 0..1; None where nothing was found.
    confidence: float | None
    #: How sure it must be to answer, for the evidence it had.
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _ThreadHit:
    """An exchange, why it was found, and which of its members are shown."""

    outline: ThreadOutline
    why: dict[MessageId, MatchReason]
    shown: set[MessageId]


async def search_messages(
    conn: Connection,
    viewer: Viewer,
    question: SearchQuery,
    *,
    scope: SearchFilter,
    limit: int,
    stages: ScoringFeatures = ALL_FEATURES,
) -> MessageSearchResult:
    """Return up to `limit` exchanges that the viewer may see, best first, and how sure that is."""
    scored = await _score_candidates(conn, question, scope, limit=limit, stages=stages)
    reasons = await _rerank(conn, question, scored, weight=stages.late_interaction)
    # Whether the answer is there has nothing to do with who asks.
    sure = confidence(question.text, scored, reasons)
    if question.proximity is not None:
        first = list(reasons)[:RERANKED]
        authors = await proposals_in.authors(conn, viewer.org_id, first)
        reasons = boost_near(reasons, authors, question.proximity)
    wanted = dict(list(reasons.items())[: MESSAGES_PER_THREAD * limit])
    members = await proposals_in.thread_messages(conn, viewer.org_id, list(wanted))
    finds = _thread_hits(wanted, build_threads(members, last=scope.last), limit=limit)
    told = await messages.messages_truncated(
        conn, viewer.org_id, [member_id for find in finds for member_id in find.shown]
    )
    rooms = await directory.room_names(conn, viewer.org_id, {message.room_id for message in told})
    by_id = {message.id: message for message in told}
    hits = [_build_hit(find, by_id, rooms) for find in finds]
    return MessageSearchResult(hits=hits, confidence=sure.value, threshold=sure.threshold)


async def _score_candidates(
    conn: Connection, question: SearchQuery, scope: SearchFilter, *, limit: int, stages: ScoringFeatures
) -> list[ScoredMessage]:
    """Return what may fit, best first, before texts are compared token by token."""
    measure = await proposals_in.filter_size(conn, scope)
    sharing = next((ids for where, ids in question.lexical if where == scope), None)
    # How rare each word is the database says in any case: a copy counts what not everybody may read, too.
    wanted = _candidate_count(LEXICAL_CANDIDATES, limit) if sharing is None else 0
    worded = await proposals_in.lexical_candidates(
        conn, question.text, scope=scope, measure=measure, wanted=wanted
    )
    seeds = dict.fromkeys(worded.message_ids if sharing is None else sharing)
    vector = question.vector if stages.dense else None
    proposed = next((ids for where, ids in question.dense if where == scope), None)
    if vector is not None and proposed is not None:
        # Whether they lie in the scope and may be seen is asked with what stands around them.
        seeds |= dict.fromkeys(proposed)
    elif vector is not None:
        near = await proposals_in.dense_candidates(
            conn, vector, scope=scope, measure=measure, wanted=_candidate_count(DENSE_CANDIDATES, limit)
        )
        seeds |= dict.fromkeys(one.message_id for one in near)
    around = partial(
        proposals_in.context_window, conn, lexemes=worded.lexemes, scope=scope, reach=CONTEXT_REACH
    )
    also = question.second_vector if stages.dense else None
    if also is None:
        rows = await around(list(seeds), vector=vector)
    else:
        near = await proposals_in.dense_candidates(
            conn, also, scope=scope, measure=measure, wanted=_candidate_count(DENSE_CANDIDATES, limit)
        )
        seeds |= dict.fromkeys(one.message_id for one in near)
        rows = await around(list(seeds), vector=vector)
        known = {row.message_id for row in rows if row.similarity is not None}
        if any(one.message_id not in known for one in near):
            beside = await around(list(seeds), vector=also)
            rows = fill_similarities(
                rows, {row.message_id: row.similarity for row in beside if row.similarity is not None}
            )
    return score_messages(
        rows,
        QueryTerms(stems=worded.lexemes, rarities=worded.rarities),
        most=max(RERANKED, MESSAGES_PER_THREAD * limit),
        stages=stages,
    )


def _candidate_count(usual: int, limit: int) -> int:
    return min(max(usual, limit), MOST_PROPOSED)


async def _rerank(
    conn: Connection, question: SearchQuery, scored: Sequence[ScoredMessage], *, weight: float
) -> dict[MessageId, MatchReason]:
    """Return why each message was found, best first; the best are compared with the question token by token."""
    reasons = [_reason_of(one) for one in scored]
    if weight and question.tokens is not None and question.vector is not None and len(question.tokens):
        first = [one.message_id for one in scored[:RERANKED]]
        known = await proposals_in.token_vectors(conn, question.vector[0], first)
        if known:
            reasons[:RERANKED] = _blend(
                reasons[:RERANKED], question.tokens, [known.get(key) for key in first], weight=weight
            )
    found = zip((one.message_id for one in scored), reasons, strict=True)
    return dict(sorted(found, key=lambda item: (-item[1].score, item[0])))


def _blend(
    reasons: Sequence[MatchReason],
    question: NDArray[np.int8],
    tokens: Sequence[NDArray[np.int8] | None],
    *,
    weight: float,
) -> list[MatchReason]:
    """Return the reasons with closeness in their scores; a text without token vectors keeps its place among them."""
    rows = [place for place, one in enumerate(tokens) if one is not None]
    closeness = max_similarity(question, [one for one in tokens if one is not None])
    scores = unit_range(np.array([why.score for why in reasons]))
    part = scores.copy()
    part[rows] = unit_range(closeness)
    total = (1 - weight) * scores + weight * part
    # What was not compared stays behind what was: the scores keep to the range that these had.
    least, greatest = min(why.score for why in reasons), max(why.score for why in reasons)
    close = dict(zip(rows, closeness.tolist(), strict=True))
    return [
        replace(why, score=float(least + (greatest - least) * total[place]), closeness=close.get(place))
        for place, why in enumerate(reasons)
    ]


def _thread_hits(
    reasons: dict[MessageId, MatchReason], among: Iterable[ThreadOutline], *, limit: int
) -> list[_ThreadHit]:
    """Return the first exchanges that the finds lie in, in the order of their best find."""
    exchange_of = {member_id: exchange for exchange in among for member_id in exchange.member_ids}
    why: dict[MessageId, dict[MessageId, MatchReason]] = {}
    for message_id, reason in reasons.items():
        opening = exchange_of[message_id].root_id
        if opening in why or len(why) < limit:
            why.setdefault(opening, {})[message_id] = reason
    bound = max_shown(limit)
    return [_thread_hit(exchange_of[opening], found, bound) for opening, found in why.items()]


def _thread_hit(exchange: ThreadOutline, why: dict[MessageId, MatchReason], bound: int) -> _ThreadHit:
    kept = visible_members(exchange, list(why), bound=bound)
    return _ThreadHit(outline=exchange, why={key: why[key] for key in why if key in kept}, shown=kept)


def _reason_of(scored: ScoredMessage) -> MatchReason:
    return MatchReason(
        score=scored.score,
        similarity=scored.similarity,
        coverage=scored.coverage,
        terms=tuple(scored.terms),
    )


def _build_hit(find: _ThreadHit, by_id: dict[MessageId, Message], rooms: dict[RoomId, RoomName]) -> Hit:
    members = find.outline.member_ids
    told = [by_id[member_id] for member_id in members if member_id in find.shown]
    # A whisper may be addressed to somebody who cannot see its room.
    room = rooms.get(told[0].room_id)
    return Hit(
        messages=told,
        why=find.why,
        room_name=room.name if room else "",
        platform=room.platform if room else "",
        replies=[edge for edge in find.outline.replies if edge.child_id in find.shown],
        omitted=len(members) - len(told),
    )
