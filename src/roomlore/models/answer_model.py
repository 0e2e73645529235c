"""Says how probable it is that a message answers a question. The author's name and the messages before are read, too.

The model is the default embedding model, trained further to read a question and a message together (`training/README.md`). It
uses the word vectors of the embedding model; its own weights are beside this file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import LocalEmbedder, Session, bundled_embedder, token_batches
from roomlore.models.recent_results import RecentResults
from roomlore.models.shipped_weights import load_weights

Array = np.ndarray[Any, np.dtype[Any]]

#: The maximum number of earlier messages that are read together with a message.
CONTEXT = 2
#: The maximum number of tokens of the message, of the question, and of each earlier message.
MESSAGE_TOKENS, QUESTION_TOKENS, CONTEXT_TOKENS = 80, 40, 24
#: The maximum number of tokens, with padding, in one run. Half of the messages of a search fit, so that two processors
#: share the work.
_BATCH_TOKENS = 384
_FILE = Path(__file__).parent / "answer_model.onnx"
_VERSION = "1"
#: The number of pairs whose scores are kept, because one question is often searched for several times.
_KEPT = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateAnswer:
    """A message that may answer a question. Each text is rendered with its author, as `author_and_text` does."""

    text: str
    #: The messages before it, nearest first.
    before: tuple[str, ...] = ()


#: A question and a message that may answer it.
_Pair = tuple[str, CandidateAnswer]


def author_and_text(author: str, text: str) -> str:
    """Return a message as the model reads it."""
    return f"{author}: {text}"


class AnswerModel:
    """Reads questions with messages on the CPU, safe for threads.

    A result depends only on the question and its own message, not on the other messages of the same call.
    """

    def __init__(self, session: Session, metadata: Mapping[str, str], embedder: LocalEmbedder) -> None:
        self._session = session
        self._embedder = embedder
        self._recent = RecentResults[_Pair, float](
            self._scores, texts=lambda pair: (pair[0], pair[1].text, *pair[1].before), kept=_KEPT
        )
        self._digest = metadata["digest"]

    @classmethod
    def load(cls, embedder: LocalEmbedder | None = None, *, file: Path | None = None) -> Self:
        """Return the model with the bundled weights, or with other weights.

        Args:
            embedder: The bundled embedding model, if it is already loaded.
            file: A file with other weights in the same format.

        Raises:
            ModelUnavailable: The weights are missing, damaged or of another version.
        """
        return load_weights(
            file or _FILE,
            version=_VERSION,
            build=lambda session, metadata: cls(session, metadata, embedder or bundled_embedder()),
        )

    @property
    def model_id(self) -> str:
        """Name of the weights. Different weights have different names."""
        return f"answers/{self._digest}"

    def scores(self, question: str, candidates: Sequence[CandidateAnswer]) -> Array:
        """Return for each candidate the logarithm of the odds that it answers the question."""
        return np.array(self._recent.of([(question, one) for one in candidates]), np.float32)

    def _scores(self, pairs: Sequence[_Pair]) -> list[float]:
        texts = {text for question, one in pairs for text in (question, one.text, *one.before[:CONTEXT])}
        tokens = dict(zip(texts, self._embedder.tokenize(list(texts)), strict=True))
        parts = [
            [
                tokens[one.text][:MESSAGE_TOKENS],
                tokens[question][:QUESTION_TOKENS],
                *(tokens[text][:CONTEXT_TOKENS] for text in one.before[:CONTEXT]),
            ]
            for question, one in pairs
        ]
        batches = list(token_batches([sum(map(len, each)) for each in parts], most=_BATCH_TOKENS))
        found = self._embedder.in_parallel(lambda rows: self._run([parts[row] for row in rows]), batches)
        scores = np.empty(len(pairs), np.float32)
        for rows, part in zip(batches, found, strict=True):
            scores[rows] = part
        return scores.tolist()

    def _run(self, parts: Sequence[Sequence[Sequence[int]]]) -> Array:
        length = max(sum(map(len, each)) for each in parts)
        shape = (len(parts), length)
        tokens, places, segments = (np.zeros(shape, np.int64) for _ in range(3))
        mask = np.zeros(shape, np.float32)
        for row, own in enumerate(parts):
            lengths = list(map(len, own))
            end = sum(lengths)
            tokens[row, :end] = np.concatenate(own)
            places[row, :end] = np.concatenate([np.arange(count) for count in lengths])
            segments[row, :end] = np.repeat(np.arange(len(own)), lengths)
            mask[row, :end] = 1
        words: Vectors = self._embedder.word_vectors(tokens)
        feeds = {"words": words, "places": places, "segments": segments, "mask": mask}
        return cast("Array", self._session.run(["scores"], feeds)[0])


@lru_cache(maxsize=1)
def bundled_answer_model() -> AnswerModel:
    """Return the bundled model, loaded once per process.

    Raises:
        ModelUnavailable: The weights are missing, damaged or of another version.
    """
    return AnswerModel.load()
