"""Search: candidates by meaning and by words, returned as whole exchanges.

Visibility is decided where candidates are made, in the database; what follows only narrows and orders.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.retrieval.records import Hit, Why
from roomlore.store import directory, messages
from roomlore.store import search as candidates_in
from roomlore.store.directory import RoomName
from roomlore.store.queries import Connection
from roomlore.store.search import Candidate, Scope

#: How many candidates each side proposes.
PROPOSED = 100

#: A question's vector and the vector space it lies in; None searches by words alone.
QuestionVector = tuple[str, NDArray[np.float32]] | None


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
    model, values = vector or ("", None)
    found = await candidates_in.candidates(
        conn, question, values, model=model, scope=scope, wanted=max(PROPOSED, limit)
    )
    return await _exchanges(conn, viewer, found, limit=limit)


async def _exchanges(
    conn: Connection, viewer: Viewer, found: Sequence[Candidate], *, limit: int
) -> list[Hit]:
    """Return the exchanges of the candidates, in the order of their best candidate."""
    members = await candidates_in.exchange_members(
        conn, viewer.org_id, [candidate.message_id for candidate in found]
    )
    opening_of = {member.hit_id: member.opening_id for member in members}
    members_of: dict[MessageId, set[MessageId]] = defaultdict(set)
    for member in members:
        members_of[member.opening_id].add(member.member_id)
    why: dict[MessageId, dict[MessageId, Why]] = {}
    for candidate in found:
        opening = opening_of.get(candidate.message_id)
        if opening is None or (opening not in why and len(why) == limit):
            continue
        why.setdefault(opening, {})[candidate.message_id] = _why(candidate)
    wanted = {member_id for opening in why for member_id in members_of[opening]}
    by_id = {
        message.id: message for message in await messages.messages_by_id(conn, viewer.org_id, list(wanted))
    }
    rooms = await directory.room_names(conn, viewer.org_id, {message.room_id for message in by_id.values()})
    return [
        _hit([by_id[member_id] for member_id in members_of[opening]], reasons, rooms)
        for opening, reasons in why.items()
    ]


def _why(candidate: Candidate) -> Why:
    return Why(
        score=candidate.score,
        similarity=candidate.similarity,
        coverage=candidate.coverage,
        terms=tuple(candidate.terms or ()),
    )


def _hit(exchange: list[Message], why: dict[MessageId, Why], rooms: dict[RoomId, RoomName]) -> Hit:
    exchange.sort(key=lambda message: message.position)
    # A whisper may be addressed to somebody who cannot see its room.
    room = rooms.get(exchange[0].room_id)
    return Hit(
        messages=exchange,
        why=why,
        room_name=room.name if room else "",
        platform=room.platform if room else "",
    )
