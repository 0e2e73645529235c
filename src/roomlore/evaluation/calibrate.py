"""Measures where the bar of `ask` belongs: evidence for questions about a room, and for those about another.

The bar is where the two kinds of error cost the same: refusing a question the room answers, and answering
one that belongs to another room.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from roomlore.app import App
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.metrics import Report, auroc
from roomlore.retrieval.cascade import evidence

CANDIDATES = 10
SEED = 20_260_101


async def calibrate(app: App, questions: Sequence[Question], progress: Callable[[int], None]) -> Report:
    """Return how evidence separates own from foreign questions, and the bar at which errors balance."""
    chance = random.Random(SEED)  # noqa: S311  a repeatable draw, not a secret
    answerable = [question for question in questions if question.answerable]
    rooms = sorted({question.room for question in questions})
    own: list[float] = []
    foreign: list[float] = []
    for question in answerable:
        own.append(await _best(app, question.question, question.room))
        others = [room for room in rooms if room != question.room]
        if others:
            foreign.append(await _best(app, question.question, chance.choice(others)))
        progress(1)
    bar = _balanced(own, foreign)
    return {
        "questions": len(own),
        "auroc": auroc(own, foreign),
        "bar": bar,
        "own refused": _share(value < bar for value in own),
        "foreign answered": _share(value >= bar for value in foreign),
        "own, tenths": _tenths(own),
        "foreign, tenths": _tenths(foreign),
    }


async def _best(app: App, question: str, room: str) -> float:
    found = await app.search(app.operator, question, room=room, limit=CANDIDATES)
    return max((evidence(why) for hit in found.hits for why in hit.why.values()), default=0.0)


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
