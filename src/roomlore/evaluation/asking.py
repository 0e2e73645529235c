"""Asks Roomlore what the questions and triggers of a data set ask, and keeps what came as a run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from roomlore.app import App
from roomlore.context.records import ContextLine
from roomlore.domain.records import Viewer
from roomlore.evaluation.askers import Askers
from roomlore.evaluation.datasets import ContextItem, Question
from roomlore.evaluation.metrics import MOST_SELECTED, Ranking, Selection
from roomlore.retrieval.records import Found, Hit

Progress = Callable[[int], None]
#: How a question is searched for, for a viewer.
Search = Callable[[App, Viewer, Question], Awaitable[Found]]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Deep enough for the largest cut-off of the scores.
EXCHANGES = 50
#: Room enough that the walk alone decides what is in a context.
WHOLE_WALK = 1_000_000
#: So many questions are under way at once: the database works on one while another is embedded.
AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was put into one context."""

    #: Only what belongs to the conversation that the trigger goes on with.
    conversation: Selection
    #: That, and what was last said around it.
    whole: Selection


async def search_room(app: App, viewer: Viewer, question: Question, *, limit: int = EXCHANGES) -> Found:
    """Return what a viewer finds for a question in its room, as it was when it was asked."""
    return await app.search(
        viewer,
        question.question,
        room=question.room,
        limit=limit,
        as_of=question.as_of_message_id,
        private=True,
    )


async def rankings(
    app: App,
    questions: Sequence[Question],
    progress: Progress,
    *,
    search: Search = search_room,
    askers: Askers | None = None,
) -> list[Ranking]:
    """Return what search finds for each question, in its room, at its time.

    Args:
        app: Holds the messages.
        questions: What is asked.
        progress: Told of each question that was asked.
        search: Another way to search than the usual one.
        askers: For whom each question is asked; the operator by default.
    """

    async def ranking(question: Question) -> Ranking:
        found = await search(app, askers.viewer(question) if askers else app.operator, question)
        return Ranking(question_id=question.id, ranked=ranked(found.hits), score=certainty(found))

    return await each(questions, ranking, progress)


async def each(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], progress: Progress
) -> list[Result]:
    """Return what the work makes of each item, in their order, a few at a time; the first failure ends it."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> Result:
        async with gate:
            result = await work(item)
        progress(1)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def certainty(found: Found) -> float:
    """Return how sure a search is that the answer is among what it found, 0..1."""
    return found.certainty or 0.0


def ranked(hits: Iterable[Hit]) -> list[str]:
    """Return the external ids of what was found, best first, each once."""
    return list(dict.fromkeys(external_id for hit in hits for external_id in _in_order(hit)))


def _in_order(hit: Hit) -> Iterator[str]:
    """Yield the external ids of an exchange: what matched first, best first, then what came with it."""
    matched = sorted(
        (message for message in hit.messages if message.id in hit.why),
        key=lambda message: (-hit.why[message.id].score, message.position),
    )
    yield from (message.external_id for message in matched)
    yield from (message.external_id for message in hit.messages if message.id not in hit.why)


async def selections(app: App, items: Iterable[ContextItem], progress: Progress) -> list[Chosen]:
    """Return what is put into the context of each trigger."""
    run: list[Chosen] = []
    for item in items:
        run.append(await _chosen(app, item))
        progress(1)
    return run


async def _chosen(app: App, item: ContextItem) -> Chosen:
    trigger = item.trigger_message_id
    built = await app.context(app.operator, item.room, trigger, budget=WHOLE_WALK, private=True)
    lines = [line for line in built.lines if line.message.id != built.trigger_id]
    return Chosen(
        conversation=_selection(trigger, [line for line in lines if _belongs(line)]),
        whole=_selection(trigger, lines),
    )


def _belongs(line: ContextLine) -> bool:
    return line.part == "conversation"


def _selection(trigger: str, lines: Iterable[ContextLine]) -> Selection:
    """Return the newest of the lines, as many as may be selected; notices of the platform never count."""
    selected = [line.message.external_id for line in lines if line.message.kind != "system"]
    return Selection(trigger_message_id=trigger, selected=selected[-MOST_SELECTED:])
