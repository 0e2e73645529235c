"""Asks for answers, and judges what they rest on."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from roomlore.app import App
from roomlore.domain.records import Viewer
from roomlore.evaluation.askers import Askers
from roomlore.evaluation.asking import Progress, each
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.metrics import Report, mean
from roomlore.retrieval.quotes import quotes
from roomlore.retrieval.records import Answer

#: How a question is asked, for a viewer.
Ask = Callable[[App, Viewer, Question], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came of asking one question."""

    question_id: str
    answered: bool
    #: Which rung of the cascade answered.
    tier: str
    #: The messages that the answer rests on.
    cited: Sequence[str]


async def ask_in_room(app: App, viewer: Viewer, question: Question) -> Answer:
    """Return the answer that quotes what a viewer may read to a question, asked in its room, as it was then."""
    return await app.ask(
        viewer,
        question.question,
        room=question.room,
        as_of=question.as_of_message_id,
        quote=True,
        private=True,
    )


async def answers(
    app: App, questions: Sequence[Question], progress: Progress, *, askers: Askers, ask: Ask = ask_in_room
) -> list[Answered]:
    """Return what came of asking each question, in their order.

    Args:
        app: Holds the messages.
        questions: What is asked.
        progress: Told of each question that was asked.
        askers: For whom each is asked.
        ask: Another way to ask than the usual one.
    """

    async def answered(question: Question) -> Answered:
        viewer = askers.viewer(question)
        answer = await ask(app, viewer, question)
        return Answered(
            question_id=question.id,
            answered=answer.is_known,
            tier=answer.tier,
            cited=await cited(app, viewer, answer),
        )

    return await each(questions, answered, progress)


async def cited(app: App, viewer: Viewer, answer: Answer) -> list[str]:
    """Return the external ids of the messages that an answer quotes, or that memories it gives rest on, each once."""
    said = [message for quote in quotes(answer.hits) for message in (quote.message, *quote.answers)]
    if answer.tier == "memories":
        for one in answer.memories:
            why = await app.memories.why(viewer, str(one.memory.id))
            said += [source.message for source in why.sources]
    return list(dict.fromkeys(message.external_id for message in said))


def score_answers(questions: Sequence[Question], run: Sequence[Answered]) -> Report:
    """Return how often questions are answered, on which tier, and how often on messages that hold the answer.

    Args:
        questions: What was asked.
        run: What came of each, in their order.
    """
    pairs = list(zip(questions, run, strict=True))
    told = [(question, one) for question, one in pairs if one.answered]
    judged = [
        float(not gold.isdisjoint(one.cited))
        for question, one in told
        if question.answerable and (gold := set(question.evidence_message_ids))
    ]
    return {
        "answered": {
            "when answerable": mean([float(one.answered) for question, one in pairs if question.answerable]),
            "when not": mean([float(one.answered) for question, one in pairs if not question.answerable]),
        },
        "cites evidence": {
            # Whoever answers what has no answer cites what is no evidence.
            "of answers to answerable questions": mean(judged),
            "of all answers": mean(judged + [0.0 for question, _ in told if not question.answerable]),
            "messages cited": mean([float(len(one.cited)) for _, one in told]),
        },
        "tiers": {
            "when answerable": _tiers(one for question, one in pairs if question.answerable),
            "when not": _tiers(one for question, one in pairs if not question.answerable),
        },
    }


def _tiers(run: Iterable[Answered]) -> dict[str, int]:
    return dict(Counter(one.tier for one in run).most_common())
