"""Asking: one tier after another, until one has good enough evidence or none has.

First the room in which the question is asked, then memories, then all history, then raw logs where there are
any. Each leaves a trace: what it saw, how good the best was, the bar it had to clear. No answer is an answer.
What was said goes before what was made of it: a memory answers only where nothing said fits better and answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.domain.ids import MemoryId
from roomlore.domain.records import Viewer
from roomlore.retrieval import recall
from roomlore.retrieval.evidence import strength
from roomlore.retrieval.quotes import Quote, quoted, quotes
from roomlore.retrieval.rawlogs import RawFinds
from roomlore.retrieval.records import Answer, RawLine, Recalled, Tier, TierTrace
from roomlore.retrieval.search import Question, search
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: Of a memory by words and meaning, and by words alone; where messages are concerned, the search tells.
MEMORY_BAR = 0.42
MEMORY_BAR_BY_WORDS = 0.19
#: Of a line of a raw log, which is found by its words alone: the half of what it has of the question, by rarity. More
#: is asked than of a memory, because nothing tells what people say in a log from what programs write there.
RAW_BAR = 0.3
CITED = 3
#: What is cited fits at least so well, measured by the best that was found.
NEARLY = 0.6
#: How many exchanges a tier looks at.
LOOKED_AT = 10
UNKNOWN = "I don't have this information."
FILTERED = "not looked at: asked is what some said, or said at some time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which tier answers and from what, before it is put into words."""

    question: str
    tier: Tier = "none"
    quotes: Sequence[Quote] = ()
    memories: Sequence[Recalled] = ()
    lines: Sequence[RawLine] = ()
    trace: Sequence[TierTrace] = ()

    @property
    def is_known(self) -> bool:
        """Whether a tier answers."""
        return self.tier != "none"

    def answer(self) -> Answer:
        """Return the answer in the words of what it rests on, or that nothing is known and why."""
        known = quoted(self.quotes, memories=self.memories, lines=self.lines)
        return Answer(
            question=self.question,
            tier=self.tier,
            text=known if self.is_known else f"{UNKNOWN} {_reason(self.trace)}",
            hits=[quote.hit for quote in self.quotes],
            memories=self.memories,
            lines=self.lines,
            trace=self.trace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a tier of messages found."""

    candidates: int
    #: What the answer would rest on, best first.
    cited: Sequence[Quote]
    certainty: float | None
    bar: float

    @property
    def answers(self) -> bool:
        """Whether it is sure enough, and has something to quote."""
        return bool(self.cited) and self.certainty is not None and self.certainty >= self.bar

    def traced(self, tier: Tier) -> TierTrace:
        """Return what the tier saw and whether it answers."""
        # Where what fits tells nothing (questions that nobody answered), the best evidence is none.
        best = None if not self.candidates else self.certainty if self.cited else 0.0
        outcome = "answered" if self.answers else "below_bar" if self.candidates else "empty"
        return TierTrace(tier=tier, candidates=self.candidates, best=best, bar=self.bar, outcome=outcome)


async def ask(
    conn: Connection,
    viewer: Viewer,
    question: Question,
    *,
    scope: Scope,
    near: Mapping[MemoryId, float] | None = None,
) -> Answer:
    """Return what the viewer's messages and memories say about a question, or that they do not."""
    return (await settle(conn, viewer, question, scope=scope, near=near)).answer()


async def settle(
    conn: Connection,
    viewer: Viewer,
    question: Question,
    *,
    scope: Scope,
    near: Mapping[MemoryId, float] | None = None,
) -> Settled:
    """Return which of the tiers in the database answers a question, and from what.

    Args:
        conn: Reads for the viewer.
        viewer: Who asks.
        question: What is asked.
        scope: Where to look first; its rooms are those of the first tier, and what else it says holds for all.
        near: Cosines between the question and memories that have no vector yet, as far as they are known.
    """
    settled = Settled(question=question.text)
    if scope.room_ids is not None:
        seen = await _look(conn, viewer, question, scope)
        settled = replace(settled, trace=[seen.traced("room")])
        if seen.answers:
            return replace(settled, tier="room", quotes=seen.cited)
    seen = await _look(conn, viewer, question, replace(scope, room_ids=None))
    if not recall.applies(scope):
        bar = MEMORY_BAR_BY_WORDS if question.vector is None else MEMORY_BAR
        step = TierTrace(tier="memories", candidates=0, best=None, bar=bar, outcome="empty", note=FILTERED)
        return _by_history(replace(settled, trace=[*settled.trace, step]), seen)
    found = await recall.recalled(conn, viewer.org_id, question, near=near or {})
    bar = MEMORY_BAR if found.has_vectors else MEMORY_BAR_BY_WORDS
    return _weigh(settled, found.recalled, seen, bar=bar)


def _weigh(settled: Settled, found: Sequence[Recalled], seen: _Seen, *, bar: float) -> Settled:
    """Return whether memories or all history answer: what was said, where it fits better and answers."""
    cited = [one for one in found if one.strength >= bar][:CITED]
    said = max((quote.strength for quote in seen.cited), default=0.0)
    outweighed = bool(cited) and seen.answers and said > cited[0].strength
    step = TierTrace(
        tier="memories",
        candidates=len(found),
        best=found[0].strength if found else None,
        bar=bar,
        outcome="outweighed" if outweighed else "answered" if cited else "below_bar" if found else "empty",
    )
    settled = replace(settled, memories=cited, trace=[*settled.trace, step])
    if cited and not outweighed:
        return replace(settled, tier="memories")
    return _by_history(settled, seen)


def _by_history(settled: Settled, seen: _Seen) -> Settled:
    settled = replace(settled, trace=[*settled.trace, seen.traced("history")])
    return replace(settled, tier="history", quotes=seen.cited) if seen.answers else settled


def with_raw_logs(settled: Settled, read: RawFinds) -> Settled:
    """Return whether lines of raw logs answer where nothing else did."""
    cited = [line for line in read.lines if line.strength >= RAW_BAR][:CITED]
    step = TierTrace(
        tier="raw logs",
        candidates=read.matched,
        best=read.lines[0].strength if read.lines else 0.0 if read.matched else None,
        bar=RAW_BAR,
        outcome="answered" if cited else "below_bar" if read.matched else "empty",
        note=read.note,
    )
    settled = replace(settled, trace=[*settled.trace, step])
    return replace(settled, tier="raw logs", lines=cited) if cited else settled


async def _look(conn: Connection, viewer: Viewer, question: Question, scope: Scope) -> _Seen:
    searched = await search(conn, viewer, question, scope=scope, limit=LOOKED_AT)
    best = max((strength(why) for hit in searched.hits for why in hit.why.values()), default=0.0)
    return _Seen(
        candidates=len(searched.hits),
        cited=[quote for quote in quotes(searched.hits) if quote.strength >= NEARLY * best][:CITED],
        certainty=searched.certainty,
        bar=searched.bar,
    )


def _reason(trace: Sequence[TierTrace]) -> str:
    if all(step.outcome == "empty" for step in trace):
        return "Nothing is stored that you may read and that touches this."
    return "What is stored does not fit the question well enough."
