"""Asking: one tier after another, until one has good enough evidence or none has.

Tiers so far: the room in which the question is asked, then all history. Each leaves a trace: what it saw,
how good the best was, the bar it had to clear. No answer is an answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from roomlore.domain.incoming import MessageKind
from roomlore.domain.records import Message, Viewer
from roomlore.domain.speech import spoken
from roomlore.retrieval.exchanges import answers_in
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
#: What somebody said; a system line and what was injected for agents is nobody's answer.
QUOTED = frozenset[MessageKind]({"message", "whisper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """The message of an exchange that speaks best to the question, and what is quoted with it."""

    hit: Hit
    message: Message
    answers: Sequence[Message]
    #: How well it fits, 0..1.
    strength: float


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
            sources = [item.hit for item in cited]
            return Answer(question=question, tier=tier, text=_quote(cited), hits=sources, trace=trace)
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


def _judge(tier: Tier, hits: Sequence[Hit], *, bar: float) -> tuple[TierTrace, list[_Evidence]]:
    """Return what the tier saw, and the messages that cleared the bar, best first, one for each exchange."""
    best_of = [item for hit in hits if (item := _best(hit)) is not None]
    cited = sorted((item for item in best_of if item.strength >= bar), key=lambda item: -item.strength)
    # Where candidates tell nothing (questions that nobody answered), the best evidence is none.
    best = max((item.strength for item in best_of), default=0.0 if hits else None)
    outcome: Outcome = "answered" if cited else "below_bar" if hits else "empty"
    step = TierTrace(tier=tier, candidates=len(hits), best=best, bar=bar, outcome=outcome)
    return step, cited[:CITED]


def _best(hit: Hit) -> _Evidence | None:
    """Return the best evidence of an exchange, if any of its finds tells something."""
    found = (message for message in hit.messages if message.id in hit.why and _tells(message))
    told = (_evidence_of(hit, message) for message in found)
    return max(
        (item for item in told if item.answers or not _asks(item.message)),
        key=lambda item: item.strength,
        default=None,
    )


def _evidence_of(hit: Hit, message: Message) -> _Evidence:
    """Return a find with what answers it, where it asks or opens."""
    answers: Iterable[Message] = ()
    if _asks(message) or message.id == hit.opening.id:
        by_id = {other.id: other for other in hit.messages}
        answers = (by_id[key] for key in answers_in(hit.replies)(message.id) if _tells(by_id[key]))
    return _Evidence(
        hit=hit,
        message=message,
        answers=list(answers)[:ANSWERS],
        strength=evidence(hit.why[message.id]),
    )


def _tells(message: Message) -> bool:
    return message.kind in QUOTED and bool(message.body.strip())


def _asks(message: Message) -> bool:
    return message.body.rstrip().endswith("?")


def _quote(cited: Iterable[_Evidence]) -> str:
    """Return what the cited messages say, each with its answers, one line for each."""
    return "\n".join(spoken(message) for item in cited for message in [item.message, *item.answers])


def _reason(trace: Sequence[TierTrace]) -> str:
    if all(step.outcome == "empty" for step in trace):
        return "Nothing is stored that you may read and that touches this."
    return "What is stored does not fit the question well enough."
