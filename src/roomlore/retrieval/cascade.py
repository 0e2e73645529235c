"""Asking: one tier after another, until one has good enough evidence or none has.

Tiers so far: the room in which the question is asked, then all history. Each leaves a trace: what it saw,
how good the best was, the bar it had to clear. No answer is an answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from roomlore.domain.records import Message, Viewer
from roomlore.retrieval.records import Answer, Hit, Outcome, Tier, TierTrace, Why
from roomlore.retrieval.search import QuestionVector, search
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: How good the evidence must be, by embedding model; without one only words count. Where they come from is
#: in docs/why.md; a model that was not measured gets the first.
BARS = {"all-MiniLM-L6-v2/int8-w": 0.42}
BAR_WITHOUT_MODEL = 0.19
CITED = 3
#: How many answers to a cited message are quoted with it.
ANSWERS = 3
UNKNOWN = "I don't have this information."


async def ask(
    conn: Connection, viewer: Viewer, question: str, vector: QuestionVector, *, scope: Scope
) -> Answer:
    """Return what the viewer's messages say about a question, or that they do not."""
    trace: list[TierTrace] = []
    for tier, where in _tiers(scope):
        hits = await search(conn, viewer, question, vector, scope=where, limit=10)
        step, cited = _judge(tier, hits, bar=bar_for(vector))
        trace.append(step)
        if step.outcome == "answered":
            return Answer(question=question, tier=tier, text=_quote(cited), hits=cited, trace=trace)
    return Answer(question=question, tier="none", text=f"{UNKNOWN} {_reason(trace)}", hits=(), trace=trace)


def evidence(why: Why) -> float:
    """Return how well a message fits a question, 0..1: the mean of meaning and words.

    Unlike the score it does not depend on the other candidates, so that it can be held against a bar.
    """
    similarity = max(why.similarity or 0.0, 0.0)
    return (similarity + (why.coverage or 0.0)) / 2


def bar_for(vector: QuestionVector) -> float:
    """Return how good the evidence must be, which depends on the embedding model."""
    if vector is None:
        return BAR_WITHOUT_MODEL
    return BARS.get(vector[0], next(iter(BARS.values())))


def _tiers(scope: Scope) -> Sequence[tuple[Tier, Scope]]:
    everywhere = replace(scope, room_ids=None)
    if scope.room_ids is None:
        return [("history", everywhere)]
    return [("room", scope), ("history", everywhere)]


def _judge(tier: Tier, hits: Sequence[Hit], *, bar: float) -> tuple[TierTrace, list[Hit]]:
    strength = {index: _strength(hit) for index, hit in enumerate(hits)}
    cited = sorted(
        (index for index in strength if strength[index] >= bar), key=lambda index: -strength[index]
    )
    best = max(strength.values(), default=None)
    outcome: Outcome = "answered" if cited else "below_bar" if hits else "empty"
    step = TierTrace(tier=tier, candidates=len(hits), best=best, bar=bar, outcome=outcome)
    return step, [hits[index] for index in cited[:CITED]]


def _strength(hit: Hit) -> float:
    """Return the best evidence of an exchange; a question that nobody answered is none."""
    told = [
        message for message in hit.messages if message.id in hit.why and not _is_open_question(message, hit)
    ]
    return max((evidence(hit.why[message.id]) for message in told), default=0.0)


def _is_open_question(message: Message, hit: Hit) -> bool:
    is_last = message.id == hit.messages[-1].id
    return is_last and message.body.rstrip().endswith("?")


def _quote(hits: Sequence[Hit]) -> str:
    """Return what the cited exchanges say: the message that fits best and what was answered to it."""
    lines: list[str] = []
    for hit in hits:
        answers = [message for message in hit.messages if message.reply_to == hit.best.id]
        said = [hit.best, *answers[:ANSWERS]]
        lines += [f"[{message.author_name}]: {message.body}" for message in said if message.body]
    return "\n".join(lines)


def _reason(trace: Sequence[TierTrace]) -> str:
    if all(step.outcome == "empty" for step in trace):
        return "Nothing is stored that you may read and that touches this."
    return "What is stored does not fit the question well enough."
