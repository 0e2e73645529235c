"""Measures where the bar of `ask` belongs: certainty about questions of a room, and about those of another.

The bar is where the two kinds of error cost the same: refusing a question the room answers, and answering
one that belongs to another room.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from roomlore.app import App
from roomlore.evaluation.asking import rankings, search_room
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.elsewhere import elsewhere
from roomlore.evaluation.metrics import Report, auroc

#: As many exchanges as `ask` looks at.
CANDIDATES = 10


async def calibrate(app: App, questions: Sequence[Question], progress: Callable[[int], None]) -> Report:
    """Return how certainty separates own from foreign questions, and the bar at which errors balance.

    Questions that their own room does not answer choose nothing; how many of them pass the bar is told.
    """
    answerable = [question for question in questions if question.answerable]
    own = await _certainties(app, answerable, progress)
    foreign = await _certainties(app, elsewhere(questions), progress)
    unanswerable = [question for question in questions if not question.answerable]
    trapped = await _certainties(app, unanswerable, progress)
    bar = _balanced(own, foreign)
    return {
        "questions": len(own),
        "auroc": auroc(own, foreign),
        "bar": bar,
        "own refused": _share(value < bar for value in own),
        "foreign answered": _share(value >= bar for value in foreign),
        "unanswerable": len(trapped),
        "unanswerable answered": _share(value >= bar for value in trapped),
        "own, tenths": _tenths(own),
        "foreign, tenths": _tenths(foreign),
        "unanswerable, tenths": _tenths(trapped),
    }


async def _certainties(
    app: App, questions: Sequence[Question], progress: Callable[[int], None]
) -> list[float]:
    search = partial(search_room, limit=CANDIDATES)
    return [one.score or 0.0 for one in await rankings(app, questions, progress, search=search)]


def _balanced(own: Sequence[float], foreign: Sequence[float]) -> float:
    """Return the bar with the least sum of both error shares."""

    def errors(bar: float) -> float:
        return _share(value < bar for value in own) + _share(value >= bar for value in foreign)

    return min((round(step / 100, 2) for step in range(101)), key=errors)


def _share(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 0.0


def _tenths(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [round(ordered[int(tenth * (len(ordered) - 1) / 10)], 3) for tenth in range(11)] if ordered else []
