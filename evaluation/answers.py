"""Asks for answers, and scores what they cite."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.benchmark import Progress
from evaluation.datasets import Question
from evaluation.metrics import Report, mean
from evaluation.search import Viewers, concurrently
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.search.quotes import select_quotes
from roomlore.search.records import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The outcome of asking one question."""

    question_id: str
    answered: bool
    #: The stage that answered.
    stage: str
    #: External ids of the messages that the answer cites.
    cited: Sequence[str]


async def ask_all(
    app: App, questions: Sequence[Question], progress: Progress, *, viewers: Viewers
) -> list[Answered]:
    """Return the outcome of each question, asked in its room, at its time, and answered by quotation."""

    async def answered(question: Question) -> Answered:
        viewer = viewers.of(question)
        answer = await app.ask(
            viewer,
            question.question,
            room=question.room,
            as_of=question.as_of_message_id,
            quote=True,
            private=True,
        )
        return Answered(
            question_id=question.id,
            answered=answer.is_answered,
            stage=answer.stage,
            cited=await cited(app, viewer, answer),
        )

    return await concurrently(questions, answered, progress)


async def cited(app: App, viewer: Viewer, answer: Answer) -> list[str]:
    """Return the external ids of the messages that an answer quotes, or that are sources of its memories, each once."""
    said = [message for quote in select_quotes(answer.hits) for message in (quote.message, *quote.answers)]
    if answer.stage == "memories":
        for one in answer.memories:
            why = await app.memories.provenance(viewer, str(one.memory.id))
            said += [source.message for source in why.sources]
    return list(dict.fromkeys(message.external_id for message in said))


def score_answers(questions: Sequence[Question], answers: Sequence[Answered]) -> Report:
    """Return how often questions are answered, by which stage, and how often the answer cites evidence."""
    pairs = list(zip(questions, answers, strict=True))
    answered = [(question, one) for question, one in pairs if one.answered]
    cites_evidence = [
        float(not gold.isdisjoint(one.cited))
        for question, one in answered
        if question.answerable and (gold := set(question.evidence_message_ids))
    ]
    return {
        "answered": {
            "when answerable": mean([float(one.answered) for question, one in pairs if question.answerable]),
            "when not": mean([float(one.answered) for question, one in pairs if not question.answerable]),
        },
        "cites evidence": {
            # An answer to an unanswerable question cites no evidence.
            "of answers to answerable questions": mean(cites_evidence),
            "of all answers": mean(
                cites_evidence + [0.0 for question, _ in answered if not question.answerable]
            ),
            "messages cited": mean([float(len(one.cited)) for _, one in answered]),
        },
        "stages": {
            "when answerable": _stages(one for question, one in pairs if question.answerable),
            "when not": _stages(one for question, one in pairs if not question.answerable),
        },
    }


def _stages(answers: Iterable[Answered]) -> dict[str, int]:
    return dict(Counter(one.stage for one in answers).most_common())
