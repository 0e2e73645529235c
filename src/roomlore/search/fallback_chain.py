"""Asking: one tier after another, until one has good enough evidence or none has.

First the room in which the question is asked, then memories, then all history, then raw logs where there are
any. Each leaves a trace: what it saw, how good the best was, the bar it had to clear. No answer is an answer.
What was said goes before what was made of it: a memory answers only where nothing said fits better and answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ids import MemoryId
from roomlore.domain.records import Viewer
from roomlore.search import memory_search
from roomlore.search.confidence import relevance
from roomlore.search.log_search import LogFindings
from roomlore.search.message_search import SearchQuery, search_messages
from roomlore.search.quotes import Quote, quoted_text, select_quotes
from roomlore.search.records import Answer, LogMatch, MatchedMemory, StageName, StageTrace

#: Of a memory by words and meaning, and by words alone; where messages are concerned, the search tells.
MEMORY_THRESHOLD = 0.42
MEMORY_WORD_THRESHOLD = 0.19
#: Of a line of a raw log, which is found by its words alone: the half of what it has of the question, by rarity. More
#: is asked than of a memory, because nothing tells what people say in a log from what programs write there.
LOG_THRESHOLD = 0.3
MAX_CITATIONS = 3
#: What is cited fits at least so well, measured by the best that was found.
CITATION_RATIO = 0.6
#: How many exchanges a tier looks at.
THREADS_READ = 10
UNKNOWN_ANSWER = "I don't have this information."
FILTERED_NOTE = "not looked at: asked is what some said, or said at some time"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackResult:
    """Which tier answers and from what, before it is put into words."""

    question: str
    stage: StageName = "none"
    quotes: Sequence[Quote] = ()
    memories: Sequence[MatchedMemory] = ()
    lines: Sequence[LogMatch] = ()
    trace: Sequence[StageTrace] = ()

    @property
    def is_known(self) -> bool:
        """Whether a tier answers."""
        return self.stage != "none"

    def answer(self) -> Answer:
        """Return the answer in the words of what it rests on, or that nothing is known and why."""
        known = quoted_text(self.quotes, memories=self.memories, lines=self.lines)
        return Answer(
            question=self.question,
            tier=self.stage,
            text=known if self.is_known else f"{UNKNOWN_ANSWER} {_refusal_reason(self.trace)}",
            hits=[quote.hit for quote in self.quotes],
            memories=self.memories,
            lines=self.lines,
            trace=self.trace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageStage:
    """What a tier of messages found."""

    candidates: int
    #: What the answer would rest on, best first.
    cited: Sequence[Quote]
    confidence: float | None
    threshold: float

    @property
    def is_answered(self) -> bool:
        """Whether it is sure enough, and has something to quote."""
        return bool(self.cited) and self.confidence is not None and self.confidence >= self.threshold

    def trace(self, tier: StageName) -> StageTrace:
        """Return what the tier saw and whether it answers."""
        # Where what fits tells nothing (questions that nobody answered), the best evidence is none.
        best = None if not self.candidates else self.confidence if self.cited else 0.0
        outcome = "answered" if self.is_answered else "below_bar" if self.candidates else "empty"
        return StageTrace(
            tier=tier, candidates=self.candidates, best=best, bar=self.threshold, outcome=outcome
        )


async def ask(
    conn: Connection,
    viewer: Viewer,
    question: SearchQuery,
    *,
    scope: SearchFilter,
    similarities: Mapping[MemoryId, float] | None = None,
) -> Answer:
    """Return what the viewer's messages and memories say about a question, or that they do not."""
    return (await run_fallbacks(conn, viewer, question, scope=scope, similarities=similarities)).answer()


async def run_fallbacks(
    conn: Connection,
    viewer: Viewer,
    question: SearchQuery,
    *,
    scope: SearchFilter,
    similarities: Mapping[MemoryId, float] | None = None,
) -> FallbackResult:
    """Return which of the tiers in the database answers a question, and from what.

    Args:
        conn: Reads for the viewer.
        viewer: Who asks.
        question: What is asked.
        scope: Where to look first; its rooms are those of the first tier, and what else it says holds for all.
        similarities: Cosines between the question and memories that have no vector yet, as far as they are known.
    """
    settled = FallbackResult(question=question.text)
    if scope.room_ids is not None:
        seen = await _search_stage(conn, viewer, question, scope)
        settled = replace(settled, trace=[seen.trace("room")])
        if seen.is_answered:
            return replace(settled, stage="room", quotes=seen.cited)
    seen = await _search_stage(conn, viewer, question, replace(scope, room_ids=None))
    if not memory_search.is_applicable(scope):
        bar = MEMORY_WORD_THRESHOLD if question.vector is None else MEMORY_THRESHOLD
        step = StageTrace(
            tier="memories", candidates=0, best=None, bar=bar, outcome="empty", note=FILTERED_NOTE
        )
        return _history_stage(replace(settled, trace=[*settled.trace, step]), seen)
    found = await memory_search.search_memories(
        conn, viewer.org_id, question, similarities=similarities or {}
    )
    bar = MEMORY_THRESHOLD if found.has_vectors else MEMORY_WORD_THRESHOLD
    return _memory_or_history(settled, found.matches, seen, threshold=bar)


def _memory_or_history(
    settled: FallbackResult, found: Sequence[MatchedMemory], seen: _MessageStage, *, threshold: float
) -> FallbackResult:
    """Return whether memories or all history answer: what was said, where it fits better and answers."""
    cited = [one for one in found if one.strength >= threshold][:MAX_CITATIONS]
    said = max((quote.relevance for quote in seen.cited), default=0.0)
    outweighed = bool(cited) and seen.is_answered and said > cited[0].strength
    step = StageTrace(
        tier="memories",
        candidates=len(found),
        best=found[0].strength if found else None,
        bar=threshold,
        outcome="outweighed" if outweighed else "answered" if cited else "below_bar" if found else "empty",
    )
    settled = replace(settled, memories=cited, trace=[*settled.trace, step])
    if cited and not outweighed:
        return replace(settled, stage="memories")
    return _history_stage(settled, seen)


def _history_stage(settled: FallbackResult, seen: _MessageStage) -> FallbackResult:
    settled = replace(settled, trace=[*settled.trace, seen.trace("history")])
    return replace(settled, stage="history", quotes=seen.cited) if seen.is_answered else settled


def add_log_stage(settled: FallbackResult, read: LogFindings) -> FallbackResult:
    """Return whether lines of raw logs answer where nothing else did."""
    cited = [line for line in read.lines if line.strength >= LOG_THRESHOLD][:MAX_CITATIONS]
    step = StageTrace(
        tier="raw logs",
        candidates=read.matched,
        best=read.lines[0].strength if read.lines else 0.0 if read.matched else None,
        bar=LOG_THRESHOLD,
        outcome="answered" if cited else "below_bar" if read.matched else "empty",
        note=read.note,
    )
    settled = replace(settled, trace=[*settled.trace, step])
    return replace(settled, stage="raw logs", lines=cited) if cited else settled


async def _search_stage(
    conn: Connection, viewer: Viewer, question: SearchQuery, scope: SearchFilter
) -> _MessageStage:
    searched = await search_messages(conn, viewer, question, scope=scope, limit=THREADS_READ)
    best = max((relevance(why) for hit in searched.hits for why in hit.why.values()), default=0.0)
    return _MessageStage(
        candidates=len(searched.hits),
        cited=[quote for quote in select_quotes(searched.hits) if quote.relevance >= CITATION_RATIO * best][
            :MAX_CITATIONS
        ],
        confidence=searched.confidence,
        threshold=searched.threshold,
    )


def _refusal_reason(trace: Sequence[StageTrace]) -> str:
    if all(step.outcome == "empty" for step in trace):
        return "Nothing is stored that you may read and that touches this."
    return "What is stored does not fit the question well enough."
