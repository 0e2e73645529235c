"""Answers a question for everything that somebody said, with the newest of it."""

from dataclasses import replace

from roomlore.domain.records import Viewer
from roomlore.retrieval import cascade
from roomlore.retrieval.listed import list_recent
from roomlore.retrieval.quotes import message_line
from roomlore.retrieval.records import Answer, StageName, StageTrace
from roomlore.store.queries import Connection
from roomlore.store.search import SearchFilter

#: So many of the newest exchanges answer.
MAX_LISTED_MESSAGES = 10


async def newest_in_scope(conn: Connection, viewer: Viewer, question: str, scope: SearchFilter) -> Answer:
    """Return the newest that was said in a scope: it is all that was asked for, so nothing has to fit better."""
    tiers: list[tuple[StageName, SearchFilter]] = [("history", replace(scope, room_ids=None))]
    if scope.room_ids is not None:
        tiers.insert(0, ("room", scope))
    trace: list[StageTrace] = []
    for tier, where in tiers:
        hits = await list_recent(conn, viewer, scope=where, limit=MAX_LISTED_MESSAGES)
        best, outcome = (1.0, "answered") if hits else (None, "empty")
        trace.append(StageTrace(tier=tier, candidates=len(hits), best=best, bar=0.0, outcome=outcome))
        if hits:
            lines = (
                message_line(message, hit) for hit in hits for message in hit.messages if message.id in hit.why
            )
            return Answer(question=question, tier=tier, text="\n".join(lines), hits=hits, trace=trace)
    text = f"{cascade.UNKNOWN_ANSWER} Nobody said anything then that you may read."
    return Answer(question=question, tier="none", text=text, hits=(), trace=trace)
