"""Answers a question from the first stage that has good enough evidence.

The stages are, in this order: the room in which the question is asked, memories, the whole history, and log files if
log files are configured. Each stage records a trace with its candidates, its best evidence and its threshold. "Not
known" is a possible answer. A memory answers only if no message that could answer fits better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ids import MemoryId
from roomlore.domain.records import Viewer
from roomlore.search import memory_search
from roomlore.search.log_search import LogFindings
from roomlore.search.message_search import SearchQuery, search_messages
from roomlore.search.quotes import Quote, quoted_text, select_quotes
from roomlore.search.records import Answer, LogMatch, MatchedMemory, StageName, StageOutcome, StageTrace

#: The lowest relevance of a memory, by words and similarity, and by words alone. For messages, the search states the
#: threshold.
MEMORY_THRESHOLD = 0.42
MEMORY_WORD_THRESHOLD = 0.19
#: The lowest relevance of a log line, which is half of its coverage. It is higher than for memories, because nothing
#: distinguishes what people say in a log from what programs write.
LOG_THRESHOLD = 0.3
MAX_CITATIONS = 3
#: A citation has at least this share of the best citation's relevance.
CITATION_RATIO = 0.6
#: Where the messages were read with the question, it has at least this share of the best relevance, and of the odds that
#: the first citation answers.
READ_RATIO, ODDS_RATIO = 0.3, 0.05
#: The number of threads that are read for each stage.
THREADS_READ = 10
UNKNOWN_ANSWER = "I don't have this information."
FILTERED_NOTE = "not searched: the question is about an author, a conversation or a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackResult:
    """The stage that answers, with its evidence, before the answer is written."""

    question: str
    stage: StageName = "none"
    quotes: Sequence[Quote] = ()
    memories: Sequence[MatchedMemory] = ()
    lines: Sequence[LogMatch] = ()
    trace: Sequence[StageTrace] = ()

    @property
    def is_answered(self) -> bool:
        """Whether a stage answers."""
        return self.stage != "none"

    def with_quotes(self, quotes: Sequence[Quote]) -> "FallbackResult":
        """Return the result with these quotes instead of its own.

        If `quotes` is empty, the answer comes from memories that the quotes had outweighed. If there are no such
        memories, no stage answers.
        """
        if quotes:
            return replace(self, quotes=quotes)
        *before, last = self.trace
        if self.memories:
            before = [
                replace(step, outcome="answered") if step.stage == "memories" else step for step in before
            ]
        trace = [*before, replace(last, outcome="below_threshold")]
        return replace(self, stage="memories" if self.memories else "none", quotes=(), trace=trace)

    def answer(self) -> Answer:
        """Return the answer as quotations, or the reason why it is not known."""
        text = quoted_text(self.quotes, memories=self.memories, lines=self.lines)
        if not self.is_answered:
            is_empty = all(step.outcome == "empty" for step in self.trace)
            reason = (
                "Nothing is stored that you may read and that touches this."
                if is_empty
                else "What is stored does not fit the question well enough."
            )
            text = f"{UNKNOWN_ANSWER} {reason}"
        return Answer(
            question=self.question,
            stage=self.stage,
            text=text,
            hits=[quote.hit for quote in self.quotes],
            memories=self.memories,
            lines=self.lines,
            trace=self.trace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageStage:
    """The result of a stage that searches messages."""

    candidates: int
    #: The quotes that the answer would cite, best first.
    cited: Sequence[Quote]
    confidence: float | None
    threshold: float

    @property
    def is_answered(self) -> bool:
        return bool(self.cited) and self.confidence is not None and self.confidence >= self.threshold

    def added_to(self, result: FallbackResult, stage: StageName) -> FallbackResult:
        """Return the result with the trace of this stage added, and with its quotes if the stage answers."""
        # If the results of a search have nothing to quote (for example, only questions without answers), they are no
        # evidence.
        best = None if not self.candidates else self.confidence if self.cited else 0.0
        outcome = "answered" if self.is_answered else "below_threshold" if self.candidates else "empty"
        step = StageTrace(
            stage=stage, candidates=self.candidates, best=best, threshold=self.threshold, outcome=outcome
        )
        result = replace(result, trace=[*result.trace, step])
        return replace(result, stage=stage, quotes=self.cited) if self.is_answered else result


async def run_fallbacks(
    conn: Connection,
    viewer: Viewer,
    question: SearchQuery,
    *,
    search_filter: SearchFilter,
    similarities: Mapping[MemoryId, float] | None = None,
) -> FallbackResult:
    """Run the stages in the database until one answers.

    Args:
        conn: Reads for the viewer.
        viewer: Who asks.
        question: The embedded question.
        search_filter: Its rooms limit the first stage only; its other filters apply to all stages.
        similarities: The cosines between the question and memories that have no vector yet.
    """
    result = FallbackResult(question=question.text)
    if search_filter.room_ids is not None:
        result = (await _search_stage(conn, viewer, question, search_filter)).added_to(result, "room")
        if result.is_answered:
            return result
    history = await _search_stage(conn, viewer, question, replace(search_filter, room_ids=None))
    if not memory_search.is_applicable(search_filter):
        bar = MEMORY_WORD_THRESHOLD if question.vector is None else MEMORY_THRESHOLD
        step = StageTrace(
            stage="memories", candidates=0, best=None, threshold=bar, outcome="empty", note=FILTERED_NOTE
        )
        return history.added_to(replace(result, trace=[*result.trace, step]), "history")
    found = await memory_search.search_memories(
        conn, viewer.org_id, question, similarities=similarities or {}
    )
    bar = MEMORY_THRESHOLD if found.has_vectors else MEMORY_WORD_THRESHOLD
    return _add_memories(result, found.matches, history, threshold=bar)


def _add_memories(
    result: FallbackResult, found: Sequence[MatchedMemory], history: _MessageStage, *, threshold: float
) -> FallbackResult:
    """Return the result with its answer from the memories or from the history.

    The history answers if it has quotes, and either no memory answers or its quotes fit better.
    """
    cited = [match for match in found if match.strength >= threshold][:MAX_CITATIONS]
    by_messages = max((quote.relevance for quote in history.cited), default=0.0)
    outcome: StageOutcome = "answered" if cited else "below_threshold" if found else "empty"
    if cited and history.is_answered and by_messages > cited[0].strength:
        outcome = "outweighed"
    best = found[0].strength if found else None
    step = StageTrace(
        stage="memories", candidates=len(found), best=best, threshold=threshold, outcome=outcome
    )
    result = replace(result, memories=cited, trace=[*result.trace, step])
    return replace(result, stage="memories") if outcome == "answered" else history.added_to(result, "history")


def add_log_stage(result: FallbackResult, found: LogFindings) -> FallbackResult:
    """Return the result with the stage of log files added. Call this only if no earlier stage answers."""
    cited = [line for line in found.lines if line.strength >= LOG_THRESHOLD][:MAX_CITATIONS]
    step = StageTrace(
        stage="logs",
        candidates=found.matched,
        best=found.lines[0].strength if found.lines else 0.0 if found.matched else None,
        threshold=LOG_THRESHOLD,
        outcome="answered" if cited else "below_threshold" if found.matched else "empty",
        note=found.note,
    )
    result = replace(result, trace=[*result.trace, step])
    return replace(result, stage="logs", lines=cited) if cited else result


async def _search_stage(
    conn: Connection, viewer: Viewer, question: SearchQuery, search_filter: SearchFilter
) -> _MessageStage:
    found = await search_messages(conn, viewer, question, search_filter=search_filter, limit=THREADS_READ)
    quotes = _good_quotes(select_quotes(found.hits))
    return _MessageStage(
        candidates=len(found.hits),
        cited=quotes[:MAX_CITATIONS],
        confidence=found.confidence,
        threshold=found.threshold,
    )


def _good_quotes(quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes that are about as good as the best one."""
    first = next((quote.odds for quote in quotes if quote.odds is not None), None)
    ratio = CITATION_RATIO if first is None else READ_RATIO
    least = ratio * max((quote.relevance for quote in quotes), default=0.0)
    return [
        quote
        for quote in quotes
        if quote.relevance >= least
        and (first is None or (quote.odds is not None and quote.odds >= ODDS_RATIO * first))
    ]
