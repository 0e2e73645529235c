"""Search: proposals by meaning and by words, scored with what stands around them, returned as whole exchanges.

Visibility is decided where proposals are made, in the database; what follows only narrows and orders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.retrieval.alongside import completed
from roomlore.retrieval.evidence import certainty
from roomlore.retrieval.exchanges import Outline, bound_for, exchanges, shown
from roomlore.retrieval.maxsim import maxsim
from roomlore.retrieval.nearby import Nearness, nearer_first
from roomlore.retrieval.records import Hit, Why
from roomlore.retrieval.scoring import ALL_STAGES, REACH, Asked, Scored, Stages, score, unit_range
from roomlore.store import directory, messages
from roomlore.store import search as proposals_in
from roomlore.store.directory import RoomName
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: How many messages each side proposes; what stands around them comes along.
WORDED, NEAR = 40, 20
#: However many are wanted, no more are proposed.
MOST_PROPOSED = 1_000
#: So many of the best are compared word by word.
COMPARED = 50
#: Of so many messages for each exchange that is wanted the exchanges are looked up: several lie in one.
FOR_EACH = 3

#: A question's vector, after the name of the vector space it lies in; None searches by words alone.
QuestionVector = tuple[str, NDArray[np.float32]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    text: str
    vector: QuestionVector
    #: A row for each of its tokens, where the embedding model gives them.
    tokens: NDArray[np.int8] | None = None
    #: Messages whose vectors a copy found to be nearest, in some scopes; in others the database looks for them.
    near: Sequence[tuple[Scope, Sequence[MessageId]]] = ()
    #: Messages that a copy found to share most of its words, in some scopes; in others the database looks for them.
    worded: Sequence[tuple[Scope, Sequence[MessageId]]] = ()
    #: Its vector by a second model, while the messages are being embedded by that: it proposes, too.
    also: QuestionVector = None
    #: Who and what is near whoever asks, and goes first; None: that does not count.
    nearness: Nearness | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found."""

    #: Exchanges, best first.
    hits: Sequence[Hit]
    #: How sure it is that the answer is among them, 0..1; None where nothing was found.
    certainty: float | None
    #: How sure it must be to answer, for the evidence it had.
    bar: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Find:
    """An exchange, why it was found, and which of its members are shown."""

    exchange: Outline
    why: dict[MessageId, Why]
    shown: set[MessageId]


async def search(
    conn: Connection,
    viewer: Viewer,
    question: Question,
    *,
    scope: Scope,
    limit: int,
    stages: Stages = ALL_STAGES,
) -> Searched:
    """Return up to `limit` exchanges that the viewer may see, best first, and how sure that is."""
    scored = await _scored(conn, question, scope, limit=limit, stages=stages)
    reasons = await _compared(conn, question, scored, weight=stages.comparison)
    # Whether the answer is there has nothing to do with who asks.
    sure = certainty(question.text, scored, reasons)
    if question.nearness is not None:
        first = list(reasons)[:COMPARED]
        authors = await proposals_in.authors(conn, viewer.org_id, first)
        reasons = nearer_first(reasons, authors, question.nearness)
    wanted = dict(list(reasons.items())[: FOR_EACH * limit])
    members = await proposals_in.exchange_members(conn, viewer.org_id, list(wanted))
    finds = _finds(wanted, exchanges(members, last=scope.last), limit=limit)
    told = await messages.messages_told(
        conn, viewer.org_id, [member_id for find in finds for member_id in find.shown]
    )
    rooms = await directory.room_names(conn, viewer.org_id, {message.room_id for message in told})
    by_id = {message.id: message for message in told}
    hits = [_hit(find, by_id, rooms) for find in finds]
    return Searched(hits=hits, certainty=sure.value, bar=sure.bar)


async def _scored(
    conn: Connection, question: Question, scope: Scope, *, limit: int, stages: Stages
) -> list[Scored]:
    """Return what may fit, best first, before texts are compared token by token."""
    measure = await proposals_in.measure(conn, scope)
    sharing = next((ids for where, ids in question.worded if where == scope), None)
    # How rare each word is the database says in any case: a copy counts what not everybody may read, too.
    wanted = _proposed(WORDED, limit) if sharing is None else 0
    worded = await proposals_in.worded(conn, question.text, scope=scope, measure=measure, wanted=wanted)
    seeds = dict.fromkeys(worded.message_ids if sharing is None else sharing)
    vector = question.vector if stages.dense else None
    proposed = next((ids for where, ids in question.near if where == scope), None)
    if vector is not None and proposed is not None:
        # Whether they lie in the scope and may be seen is asked with what stands around them.
        seeds |= dict.fromkeys(proposed)
    elif vector is not None:
        near = await proposals_in.nearest(
            conn, vector, scope=scope, measure=measure, wanted=_proposed(NEAR, limit)
        )
        seeds |= dict.fromkeys(one.message_id for one in near)
    around = partial(proposals_in.surroundings, conn, lexemes=worded.lexemes, scope=scope, reach=REACH)
    also = question.also if stages.dense else None
    if also is None:
        rows = await around(list(seeds), vector=vector)
    else:
        near = await proposals_in.nearest(
            conn, also, scope=scope, measure=measure, wanted=_proposed(NEAR, limit)
        )
        seeds |= dict.fromkeys(one.message_id for one in near)
        rows = await around(list(seeds), vector=vector)
        known = {row.message_id for row in rows if row.similarity is not None}
        if any(one.message_id not in known for one in near):
            beside = await around(list(seeds), vector=also)
            rows = completed(
                rows, {row.message_id: row.similarity for row in beside if row.similarity is not None}
            )
    return score(
        rows,
        Asked(lexemes=worded.lexemes, rarities=worded.rarities),
        most=max(COMPARED, FOR_EACH * limit),
        stages=stages,
    )


def _proposed(usual: int, limit: int) -> int:
    return min(max(usual, limit), MOST_PROPOSED)


async def _compared(
    conn: Connection, question: Question, scored: Sequence[Scored], *, weight: float
) -> dict[MessageId, Why]:
    """Return why each message was found, best first; the best are compared with the question token by token."""
    reasons = [_why(one) for one in scored]
    if weight and question.tokens is not None and question.vector is not None and len(question.tokens):
        first = [one.message_id for one in scored[:COMPARED]]
        known = await proposals_in.token_vectors(conn, question.vector[0], first)
        if known:
            reasons[:COMPARED] = _blended(
                reasons[:COMPARED], question.tokens, [known.get(key) for key in first], weight=weight
            )
    found = zip((one.message_id for one in scored), reasons, strict=True)
    return dict(sorted(found, key=lambda item: (-item[1].score, item[0])))


def _blended(
    reasons: Sequence[Why],
    question: NDArray[np.int8],
    tokens: Sequence[NDArray[np.int8] | None],
    *,
    weight: float,
) -> list[Why]:
    """Return the reasons with closeness in their scores; a text without token vectors keeps its place among them."""
    rows = [place for place, one in enumerate(tokens) if one is not None]
    closeness = maxsim(question, [one for one in tokens if one is not None])
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


def _finds(reasons: dict[MessageId, Why], among: Iterable[Outline], *, limit: int) -> list[_Find]:
    """Return the first exchanges that the finds lie in, in the order of their best find."""
    exchange_of = {member_id: exchange for exchange in among for member_id in exchange.member_ids}
    why: dict[MessageId, dict[MessageId, Why]] = {}
    for message_id, reason in reasons.items():
        opening = exchange_of[message_id].opening_id
        if opening in why or len(why) < limit:
            why.setdefault(opening, {})[message_id] = reason
    bound = bound_for(limit)
    return [_find(exchange_of[opening], found, bound) for opening, found in why.items()]


def _find(exchange: Outline, why: dict[MessageId, Why], bound: int) -> _Find:
    kept = shown(exchange, list(why), bound=bound)
    return _Find(exchange=exchange, why={key: why[key] for key in why if key in kept}, shown=kept)


def _why(scored: Scored) -> Why:
    return Why(
        score=scored.score,
        similarity=scored.similarity,
        coverage=scored.coverage,
        terms=tuple(scored.terms),
    )


def _hit(find: _Find, by_id: dict[MessageId, Message], rooms: dict[RoomId, RoomName]) -> Hit:
    members = find.exchange.member_ids
    told = [by_id[member_id] for member_id in members if member_id in find.shown]
    # A whisper may be addressed to somebody who cannot see its room.
    room = rooms.get(told[0].room_id)
    return Hit(
        messages=told,
        why=find.why,
        room_name=room.name if room else "",
        platform=room.platform if room else "",
        replies=[edge for edge in find.exchange.replies if edge.child_id in find.shown],
        omitted=len(members) - len(told),
    )
