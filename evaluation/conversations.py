"""The tasks `links`, `conversations` and `context`: who answers whom, in which conversation, and what belongs to it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from evaluation.benchmark import BenchmarkRun, Outcome, Progress
from evaluation.clustering import Assignment, score_conversations, score_links
from evaluation.datasets import ContextItem, Link
from evaluation.metrics import MOST_SELECTED, Selection, score_context
from roomlore.context.records import ContextLine
from roomlore.domain.errors import BadInput
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import AssignedMessage
from roomlore.operations import App

#: Messages per read.
PAGE = 1_000
#: So large that the budget cuts no context.
UNLIMITED_BUDGET = 1_000_000


async def links(run: BenchmarkRun) -> Outcome:
    """Return how well Roomlore finds which message answers which."""
    found = reply_links(await disentangled_messages(run))
    report = score_links(run.gold.links, run.gold.conversations, predicted=found)
    return Outcome(report=report, predictions=[asdict(link) for link in found])


async def conversations(run: BenchmarkRun) -> Outcome:
    """Return how well Roomlore tells conversations apart."""
    found = assignments(await disentangled_messages(run))
    report = score_conversations(run.gold.conversations, predicted=found)
    return Outcome(report=report, predictions=[asdict(assignment) for assignment in found])


async def context(run: BenchmarkRun) -> Outcome:
    """Return how well the context of each trigger matches what belongs to it.

    The main figures judge the lines of the conversation that the trigger goes on with; `all lines` judges those
    and what was last said around it.
    """
    await disentangle(run)
    conversation: list[Selection] = []
    whole: list[Selection] = []
    with run.progress("building contexts", len(run.gold.context)) as progress:
        for item in run.gold.context:
            lines = await _context_lines(run.app, item)
            own = [line for line in lines if line.part == "conversation"]
            conversation.append(_selection(item.trigger_message_id, own))
            whole.append(_selection(item.trigger_message_id, lines))
            progress(1)
    report = score_context(run.gold.context, run.messages, predicted=conversation)
    report["all lines"] = score_context(run.gold.context, run.messages, predicted=whole)
    return Outcome(report=report, predictions=[asdict(selection) for selection in conversation])


async def disentangle(run: BenchmarkRun) -> None:
    """Have Roomlore disentangle all rooms.

    Raises:
        BadInput: Part of it failed; what is half done is not measured.
    """
    with run.progress("disentangling", None) as progress:
        done = await run.app.disentangle(progress)
    if done.dead_lettered:
        raise BadInput(
            "data set",
            f"{count_phrase(done.dead_lettered, 'piece')} of it could not be disentangled; nothing was measured",
        )


async def disentangled_messages(run: BenchmarkRun) -> list[AssignedMessage]:
    """Return every message after disentanglement, in the order of each room."""
    await disentangle(run)
    messages: list[AssignedMessage] = []
    with run.progress("reading", None) as progress:
        for room in run.rooms:
            messages += await _timeline(run.app, room, progress)
    return messages


async def _timeline(app: App, room: str, progress: Progress) -> list[AssignedMessage]:
    pages: list[list[AssignedMessage]] = []
    before: str | None = None
    while page := await app.conversations.timeline(app.operator, room, limit=PAGE, before=before):
        progress(len(page))
        pages.append(page)
        before = str(page[0].message.id)
    return [message for page in reversed(pages) for message in page]


def reply_links(messages: Sequence[AssignedMessage]) -> list[Link]:
    """Return which message answers which, by external ids; notices of the platform answer nothing."""
    external = {one.message.id: one.message.external_id for one in messages}
    return [
        Link(child=one.message.external_id, parent=external[one.answers.parent_id])
        for one in messages
        if one.answers is not None and one.message.kind != "system"
    ]


def assignments(messages: Iterable[AssignedMessage]) -> list[Assignment]:
    """Return the conversation of each message that is in one, by external ids."""
    return [
        Assignment(message_id=one.message.external_id, conversation=str(one.conversation_id))
        for one in messages
        if one.conversation_id is not None
    ]


async def _context_lines(app: App, item: ContextItem) -> list[ContextLine]:
    built = await app.context(
        app.operator, item.room, item.trigger_message_id, budget=UNLIMITED_BUDGET, private=True
    )
    return [line for line in built.lines if line.message.id != built.trigger_id]


def _selection(trigger: str, lines: Iterable[ContextLine]) -> Selection:
    """Return the newest lines, as many as may be selected; notices of the platform do not count."""
    selected = [line.message.external_id for line in lines if line.message.kind != "system"]
    return Selection(trigger_message_id=trigger, selected=selected[-MOST_SELECTED:])
