"""The task `threshold`: where the threshold of `ask` belongs, by confidence about questions of a room and of another.

At the chosen threshold both errors cost the same: refusing a question that the room answers, and answering one
that belongs to another room.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from evaluation.benchmark import BenchmarkRun, Outcome, Progress
from evaluation.datasets import Question, negatives
from evaluation.loading import prepare_search
from evaluation.metrics import auroc
from evaluation.retrieval import rankings, search_room
from roomlore.operations import App

#: As many exchanges as `ask` looks at.
CANDIDATES = 10


async def threshold(run: BenchmarkRun) -> Outcome:
    """Return how well confidence separates questions from negatives, and the threshold with the fewest errors.

    Unanswerable questions do not choose it; the report tells how many pass.
    """
    await prepare_search(run)
    questions = run.gold.questions
    answerable = [question for question in questions if question.answerable]
    unanswerable = [question for question in questions if not question.answerable]
    moved = negatives(questions)
    with run.progress("asking", len(questions) + len(moved)) as progress:
        own = await _confidences(run.app, answerable, progress)
        other = await _confidences(run.app, moved, progress)
        trapped = await _confidences(run.app, unanswerable, progress)
    chosen = _fewest_errors(own, other)
    report = {
        "questions": len(own),
        "auroc": auroc(own, other),
        "threshold": chosen,
        "own refused": _share(value < chosen for value in own),
        "negatives answered": _share(value >= chosen for value in other),
        "unanswerable": len(trapped),
        "unanswerable answered": _share(value >= chosen for value in trapped),
        "own, deciles": _deciles(own),
        "negatives, deciles": _deciles(other),
        "unanswerable, deciles": _deciles(trapped),
    }
    return Outcome(report=report, predictions=None)


async def _confidences(app: App, questions: Sequence[Question], progress: Progress) -> list[float]:
    search = partial(search_room, limit=CANDIDATES)
    return [one.score or 0.0 for one in await rankings(app, questions, progress, search=search)]


def _fewest_errors(own: Sequence[float], other: Sequence[float]) -> float:
    """Return the threshold with the least sum of both error rates."""

    def errors(value: float) -> float:
        return _share(one < value for one in own) + _share(one >= value for one in other)

    return min((round(step / 100, 2) for step in range(101)), key=errors)


def _share(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 0.0


def _deciles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [round(ordered[int(tenth * (len(ordered) - 1) / 10)], 3) for tenth in range(11)] if ordered else []
