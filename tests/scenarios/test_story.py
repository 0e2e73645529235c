"""A story of rooms, two hundred questions, and for each the exact messages that each viewer may be shown."""

import asyncio
import logging
from pathlib import Path

import pytest

from roomlore.operations import App
from scenarios.asking import Asking, Tally
from scenarios.town import Town, live_through, settle
from scenarios.truth import CHAPTERS, Question, Truth

LOG = logging.getLogger(__name__)
TRUTH = Truth()
#: How many viewers, in turn, ask each question where not everybody does, and which part of all else each asks for.
IN_TURN, PART = 2, 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_viewers_in_turn_are_shown_all_they_heard_and_nothing_else(app: App, tmp_path: Path):
    tally = await tell_and_ask(app, tmp_path)
    assert (tally.violations, tally.withheld) == ([], [])
    assert (tally.pairs, tally.shown) == expected()


async def tell_and_ask(app: App, folder: Path) -> Tally:
    """Live through the story, let its viewers ask in every chapter what is asked there, and report."""
    town, tally = await settle(app, folder), Tally()
    for chapter in CHAPTERS:
        await live_through(town, chapter)
        names = TRUTH.viewers(chapter)
        await asyncio.gather(*(ask(town, name, tally) for name in names))
    LOG.info("%s", tally)
    return tally


async def ask(town: Town, name: str, tally: Tally) -> None:
    """Let one viewer ask in a chapter what it is their turn to ask."""
    asking = Asking(town=town, name=name, tally=tally)
    place = TRUTH.viewers(town.chapter).index(name)
    start = (place + town.chapter) % PART
    await asking.everything_else(
        rooms=list(TRUTH.rooms)[start::PART], memories=list(TRUTH.memories)[start::PART]
    )
    for question in TRUTH.questions:
        if question.chapter == town.chapter and turn(question, place) < IN_TURN:
            await asking.by_words(question)
            if turn(question, place) == 0:
                await ask_further(asking, question)


async def ask_further(asking: Asking, question: Question) -> None:
    """Ask some questions everywhere, and some around a message of theirs."""
    about, number = sorted(question.about), question.number
    if number % 3 == 0:
        await asking.everywhere(question)
    if number % 3 == 1:
        await asking.around(question, [about[number % len(about)]])


def turn(question: Question, place: int) -> int:
    """Return how many viewers ask a question before the one of some place, so that everybody is first at times."""
    return (place - question.number) % len(TRUTH.viewers(question.chapter))


def expected() -> tuple[int, int]:
    """Return how many pairs of question and viewer there are, and how many messages they are shown in all."""
    pairs = [
        (question, name)
        for question in TRUTH.questions
        for place, name in enumerate(TRUTH.viewers(question.chapter))
        if turn(question, place) < IN_TURN
    ]
    shown = sum(len(question.about & TRUTH.heard_of(name, question.chapter)) for question, name in pairs)
    return len(pairs), shown
