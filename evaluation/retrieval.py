"""The task `retrieval`: search, baselines and ablations on the same questions about the same messages."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from evaluation.answers import ask_all, score_answers
from evaluation.baselines import Baselines
from evaluation.benchmark import BenchmarkRun, Outcome
from evaluation.comparison import LEXICAL_INDEX, LEXICAL_ONLY, OURS, SWITCHED, compare
from evaluation.datasets import Question, negatives
from evaluation.loading import do_all_work, prepare_search
from evaluation.metrics import Ranking, Report, score_retrieval
from evaluation.search import (
    Viewers,
    ablated_rankings,
    lexical_rankings,
    rankings,
    search_room,
    viewers_of,
)
from roomlore.domain.errors import BadInput
from roomlore.search.ranking import ScoringFeatures

#: By system.
Rankings = dict[str, list[Ranking]]

#: How many exchanges are found where only the first ten messages count.
SHALLOW = 10
#: How many negatives are asked: enough for an interval of some 3 points, and no more time.
NEGATIVES = 400
ABLATIONS = {
    "no neighbours": ScoringFeatures(neighbours=False),
    "no dense": ScoringFeatures(dense=0.0),
    "no late interaction": ScoringFeatures(late_interaction=0.0),
    "no reading": ScoringFeatures(answers=False),
}


async def retrieval(run: BenchmarkRun) -> Outcome:
    """Return how well search finds what answers the questions, beside baselines in the same run."""
    await (do_all_work if run.options.answers else prepare_search)(run)
    questions = run.gold.questions
    viewers = await viewers_of(run.app, questions, run.messages)
    with run.progress("asking", len(questions)) as progress:
        found = await rankings(run.app, questions, progress, viewers=viewers)
    report: Report = {"viewers": dict(viewers.counts)}
    if run.options.answers:
        found, report["answers"] = await _answered(run, found, viewers=viewers)
    report = score_retrieval(questions, run.messages, predicted=found) | report
    report["comparison"] = await _comparison(run, found, viewers=viewers)
    return Outcome(report=report, predictions=[asdict(ranking) for ranking in found])


async def _answered(
    run: BenchmarkRun, found: Sequence[Ranking], *, viewers: Viewers
) -> tuple[list[Ranking], Report]:
    """Return the rankings with whether each question was answered, and how well they were."""
    questions = run.gold.questions
    with run.progress("answering", len(questions)) as progress:
        answers = await ask_all(run.app, questions, progress, viewers=viewers)
    marked = [replace(ranking, answered=one.answered) for ranking, one in zip(found, answers, strict=True)]
    return marked, score_answers(questions, answers)


async def _comparison(run: BenchmarkRun, found: Sequence[Ranking], *, viewers: Viewers) -> list[Report]:
    questions = run.gold.questions
    moved = negatives(questions, most=NEGATIVES)
    systems: Rankings = {OURS: list(found)}
    refusals: Rankings = {}
    with run.progress("asking negatives", len(moved)) as progress:
        # Confidence depends on what is found, so search is as deep as for the questions.
        refusals[OURS] = await rankings(run.app, moved, progress, viewers=viewers)
    if run.options.baselines:
        others, others_refusals = await _baselines(run, moved, viewers=viewers)
        systems |= others
        refusals |= others_refusals
    if run.options.ablations and run.embedder is not None:
        for name, features in ABLATIONS.items():
            with run.progress(f"asking with {name}", len(questions)) as progress:
                systems[name] = await ablated_rankings(
                    run.app, run.embedder, questions, progress, viewers=viewers, features=features
                )
    if run.options.switch is not None:
        systems[f"{SWITCHED}{run.options.switch}"] = await _switched(run, run.options.switch, viewers=viewers)
    texts = {message.id: message.text for message in run.messages}
    return [asdict(row) for row in compare(questions, texts, systems, negatives=refusals)]


async def _baselines(
    run: BenchmarkRun, moved: Sequence[Question], *, viewers: Viewers
) -> tuple[Rankings, Rankings]:
    """Return what lexical search and the baselines find, and what the baselines find for the negatives."""
    questions = run.gold.questions
    systems: Rankings = {}
    if run.lexical_app is not None:
        shallow = partial(search_room, limit=SHALLOW)
        with run.progress("asking without a model", len(questions)) as progress:
            systems[LEXICAL_ONLY] = await rankings(
                run.lexical_app, questions, progress, viewers=viewers, search=shallow
            )
    with run.progress("asking the lexical index", len(questions)) as progress:
        systems[LEXICAL_INDEX] = await lexical_rankings(run.app, questions, progress, viewers=viewers)
    baselines = await Baselines.read(run.app, run.messages, run.embedder)
    with run.progress("asking the baselines", len(questions) + len(moved)) as progress:
        found = await baselines.rankings([*questions, *moved], progress)
    systems |= {name: ranked[: len(questions)] for name, ranked in found.items()}
    return systems, {name: ranked[len(questions) :] for name, ranked in found.items()}


async def _switched(run: BenchmarkRun, name: str, *, viewers: Viewers) -> list[Ranking]:
    """Return what search finds after a switch to another embedding model, which stays."""
    switched = await run.app.embedding_versions.switch(name)
    with run.progress(f"embedding by {name}", switched.waiting) as progress:
        if not (await run.app.embedding_versions.finish(progress)).is_done:
            raise BadInput(f"--switch {name}", "the model gives no vectors")
    with run.progress(f"asking by {name}", len(run.gold.questions)) as progress:
        return await rankings(run.app, run.gold.questions, progress, viewers=viewers)
