"""Answers a question for everything that somebody said, with the newest of it."""

from dataclasses import replace

from roomlore.domain.records import Viewer
from roomlore.domain.speech import spoken
from roomlore.retrieval import cascade
from roomlore.retrieval.listed import listed
from roomlore.retrieval.records import Answer, Tier, TierTrace
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: So many of the newest exchanges answer.
RECITED = 10


async def recited(conn: Connection, viewer: Viewer, question: str, scope: Scope) -> Answer:
    """Return the newest that was said in a scope: it is all that was asked for, so nothing has to fit better."""
    tiers: list[tuple[Tier, Scope]] = [("history", replace(scope, room_ids=None))]
    if scope.room_ids is not None:
        tiers.insert(0, ("room", scope))
    trace: list[TierTrace] = []
    for tier, where in tiers:
        hits = await listed(conn, viewer, scope=where, limit=RECITED)
        best, outcome = (1.0, "answered") if hits else (None, "empty")
        trace.append(TierTrace(tier=tier, candidates=len(hits), best=best, bar=0.0, outcome=outcome))
        if hits:
            lines = (spoken(message) for hit in hits for message in hit.messages if message.id in hit.why)
            return Answer(question=question, tier=tier, text="\n".join(lines), hits=hits, trace=trace)
    text = f"{cascade.UNKNOWN} Nobody said anything then that you may read."
    return Answer(question=question, tier="none", text=text, hits=(), trace=trace)
