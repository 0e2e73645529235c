"""Search: candidates by meaning and by words, returned as whole exchanges.

Visibility is decided where candidates are made, in the database; what follows only narrows and orders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.retrieval.exchanges import Exchange, exchanges, shown
from roomlore.retrieval.records import Hit, Why
from roomlore.store import directory, messages
from roomlore.store import search as candidates_in
from roomlore.store.directory import RoomName
from roomlore.store.queries import Connection
from roomlore.store.search import Candidate, Scope

#: How many candidates each side proposes.
PROPOSED = 100

#: A question's vector, after the name of the vector space it lies in; None searches by words alone.
QuestionVector = tuple[str, NDArray[np.float32]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Find:
    """An exchange, why it was found, and which of its members are shown."""

    exchange: Exchange
    why: dict[MessageId, Why]
    shown: set[MessageId]


async def search(
    conn: Connection,
    viewer: Viewer,
    question: str,
    vector: QuestionVector,
    *,
    scope: Scope,
    limit: int,
) -> list[Hit]:
    """Return up to `limit` exchanges that the viewer may see, best first."""
    found = await candidates_in.candidates(
        conn, question, vector, org_id=viewer.org_id, scope=scope, wanted=max(PROPOSED, limit)
    )
    members = await candidates_in.exchange_members(
        conn, viewer.org_id, [candidate.message_id for candidate in found]
    )
    finds = _finds(found, exchanges(members, last=scope.last), limit=limit)
    wanted = [member_id for find in finds for member_id in find.shown]
    told = await messages.messages_by_id(conn, viewer.org_id, wanted)
    rooms = await directory.room_names(conn, viewer.org_id, {message.room_id for message in told})
    by_id = {message.id: message for message in told}
    return [_hit(find, by_id, rooms) for find in finds]


def _finds(found: Sequence[Candidate], among: Iterable[Exchange], *, limit: int) -> list[_Find]:
    """Return the first exchanges that the candidates lie in, in the order of their best candidate."""
    exchange_of = {member_id: exchange for exchange in among for member_id in exchange.member_ids}
    why: dict[MessageId, dict[MessageId, Why]] = {}
    for candidate in found:
        opening = exchange_of[candidate.message_id].opening_id
        if opening in why or len(why) < limit:
            why.setdefault(opening, {})[candidate.message_id] = _why(candidate)
    return [_find(exchange_of[opening], reasons) for opening, reasons in why.items()]


def _find(exchange: Exchange, why: dict[MessageId, Why]) -> _Find:
    kept = shown(exchange, list(why))
    return _Find(exchange=exchange, why={key: why[key] for key in why if key in kept}, shown=kept)


def _why(candidate: Candidate) -> Why:
    return Why(
        score=candidate.score,
        similarity=candidate.similarity,
        coverage=candidate.coverage,
        terms=tuple(candidate.terms or ()),
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
