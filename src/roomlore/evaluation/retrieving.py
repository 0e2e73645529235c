"""The task `retrieval`: search beside plain methods, on the same questions about the same messages."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from roomlore.domain.errors import BadInput
from roomlore.evaluation.answering import answers, score_answers
from roomlore.evaluation.askers import Askers, askers_of
from roomlore.evaluation.asking import rankings, search_room
from roomlore.evaluation.comparison import OURS, OURS_LEXICAL, OURS_WORDED, SWITCHED, compare
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.elsewhere import elsewhere
from roomlore.evaluation.metrics import Ranking, Report, score_retrieval
from roomlore.evaluation.reference import Reference
from roomlore.evaluation.stages import WITHOUT, lexical_rankings, rankings_without
from roomlore.evaluation.trial import Outcome, Trial

#: So many exchanges are looked at where only the first ten messages count.
FEW = 10
#: By method.
Runs = dict[str, list[Ranking]]
#: So many questions are also asked in another room: enough for an interval of some 3 points, and no more time.
ELSEWHERE = 400


async def retrieval(trial: Trial) -> Outcome:
    """Return how well search finds what answers the questions, beside plain methods in the same run."""
    questions = trial.gold.questions
    askers = await askers_of(trial.app, questions, trial.messages)
    with trial.bar("asking", len(questions)) as progress:
        run = await rankings(trial.app, questions, progress, askers=askers)
    report: Report = {"asked for": dict(askers.counts)}
    if trial.answers:
        run, report["answers"] = await _answered(trial, run, askers=askers)
    report = score_retrieval(questions, trial.messages, run=run) | report
    report["comparison"] = await _comparison(trial, run, askers=askers)
    return Outcome(report=report, run=[asdict(ranking) for ranking in run])


async def _answered(trial: Trial, run: Sequence[Ranking], *, askers: Askers) -> tuple[list[Ranking], Report]:
    """Return the run with what was answered, and how well."""
    questions = trial.gold.questions
    with trial.bar("answering", len(questions)) as progress:
        told = await answers(trial.app, questions, progress, askers=askers)
    marked = [replace(ranking, answered=one.answered) for ranking, one in zip(run, told, strict=True)]
    return marked, score_answers(questions, told)


async def _comparison(trial: Trial, run: Sequence[Ranking], *, askers: Askers) -> list[Report]:
    questions = trial.gold.questions
    moved = elsewhere(questions, most=ELSEWHERE)
    runs: Runs = {OURS: list(run)}
    away: Runs = {}
    with trial.bar("asking elsewhere", len(moved)) as progress:
        # as deep as at home, for what is proposed says how sure it is
        away[OURS] = await rankings(trial.app, moved, progress, askers=askers)
    if trial.plain:
        beside, beside_away = await _plain(trial, moved, askers=askers)
        runs |= beside
        away |= beside_away
    runs |= await _without(trial, askers=askers)
    if trial.switch is not None:
        runs[f"{SWITCHED}{trial.switch}"] = await _switched(trial, trial.switch, askers=askers)
    texts = {message.id: message.text for message in trial.messages}
    return [asdict(row) for row in compare(questions, texts, runs, elsewhere=away)]


async def _plain(trial: Trial, moved: Sequence[Question], *, askers: Askers) -> tuple[Runs, Runs]:
    """Return what plain methods find, ours by words alone among them, and those of others in other rooms."""
    questions = trial.gold.questions
    few = partial(search_room, limit=FEW)
    runs: Runs = {}
    if trial.worded is not None:
        with trial.bar("asking without a model", len(questions)) as progress:
            runs[OURS_WORDED] = await rankings(trial.worded, questions, progress, askers=askers, search=few)
    with trial.bar("asking for words", len(questions)) as progress:
        runs[OURS_LEXICAL] = await lexical_rankings(trial.app, questions, progress, askers=askers)
    reference = await Reference.read(trial.app, trial.messages, trial.embedder)
    with trial.bar("comparing", len(questions) + len(moved)) as progress:
        plain = await reference.runs([*questions, *moved], progress)
    here = {name: found[: len(questions)] for name, found in plain.items()}
    return runs | here, {name: found[len(questions) :] for name, found in plain.items()}


async def _switched(trial: Trial, name: str, *, askers: Askers) -> list[Ranking]:
    """Return what search finds once the rooms are switched to another embedding model; they stay so."""
    asked = await trial.app.generations.switch(name)
    with trial.bar(f"embedding by {name}", asked.waiting) as progress:
        if not (await trial.app.generations.finish(progress)).is_done:
            raise BadInput(f"--switch {name}", "the model gives no vectors")
    with trial.bar(f"asking by {name}", len(trial.gold.questions)) as progress:
        return await rankings(trial.app, trial.gold.questions, progress, askers=askers)


async def _without(trial: Trial, *, askers: Askers) -> dict[str, list[Ranking]]:
    """Return what search finds with one of its stages left out at a time, if that is wanted."""
    questions = trial.gold.questions
    if not trial.stages or trial.embedder is None:
        return {}
    runs: dict[str, list[Ranking]] = {}
    for name, stages in WITHOUT.items():
        with trial.bar(f"asking with {name}", len(questions)) as progress:
            runs[name] = await rankings_without(
                trial.app, trial.embedder, questions, progress, askers=askers, stages=stages
            )
    return runs
