"""Measures who finds the line that answers: `python -m training.measure_answer_model FILE...`.

A file has chats with questions, like `sets/questions/AUTHOR/questions.jsonl`. The shipped answer model is compared with the
cosine of the embedding model and with the message model, which reads each line alone.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.metrics import auroc
from roomlore.models.answer_model import CONTEXT, CandidateAnswer, author_and_text, bundled_answer_model
from roomlore.models.local_embedding import bundled_embedder
from roomlore.models.message_model import bundled_model
from training.message_sets import lines

#: Scores the lines of a chat for a question. A line has an author and a text.
Scorer = Callable[[str, Sequence[tuple[str, str]]], Sequence[float]]


def by_answer_model(question: str, said: Sequence[tuple[str, str]]) -> Sequence[float]:
    """Return the log-odds that each line answers, read with the lines before it."""
    texts = [author_and_text(author, text) for author, text in said]
    candidates = [
        CandidateAnswer(text=text, before=tuple(reversed(texts[max(0, place - CONTEXT) : place])))
        for place, text in enumerate(texts)
    ]
    return bundled_answer_model().scores(question, candidates).tolist()


def by_cosine(question: str, said: Sequence[tuple[str, str]]) -> Sequence[float]:
    """Return the cosine of the question and each line with its author."""
    asked, *texts = bundled_embedder().embed([question, *(author_and_text(*one) for one in said)])
    return (np.array(texts) @ asked).tolist()


def by_message_model(question: str, said: Sequence[tuple[str, str]]) -> Sequence[float]:
    """Return the probability that each line answers, read alone."""
    return bundled_model().answers([(question, text) for _, text in said]).tolist()


SCORERS: dict[str, Scorer] = {
    "answer model": by_answer_model,
    "cosine": by_cosine,
    "message model": by_message_model,
}


def report(chats: Sequence[dict[str, Any]], score: Scorer) -> str:
    """Return how often a right line is first, and how well right lines and questions with an answer are told apart."""
    first: list[bool] = []
    right: list[float] = []
    wrong: list[float] = []
    best: dict[str, list[float]] = defaultdict(list)
    for chat in chats:
        said = [(one["author"], one["text"]) for one in chat["messages"]]
        for asked in chat["questions"]:
            scores = score(asked["question"], said)
            answers = set(asked["answers"])
            best["answered" if answers else asked["kind"]].append(max(scores))
            if answers:
                first.append(int(np.argmax(scores)) in answers)
                right += [value for place, value in enumerate(scores) if place in answers]
                wrong += [value for place, value in enumerate(scores) if place not in answers]
    answered = best.pop("answered")
    others = [value for values in best.values() for value in values]
    kinds = ", ".join(
        f"{kind} ({len(values)}) {auroc(answered, values):.2f}" for kind, values in best.items()
    )
    return (
        f"right line first {np.mean(first):.3f}, right above wrong {auroc(right, wrong):.3f}, "
        f"answered above others {auroc(answered, others):.3f}: {kinds}"
    )


def main() -> None:
    """Print the figures of each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    for path in parser.parse_args().files:
        for name, score in SCORERS.items():
            print(f"{path.parent.name}, {name}: {report(lines(path), score)}")  # noqa: T201  the figures


if __name__ == "__main__":
    main()
