"""Classifies messages: their acts, how much they are worth remembering, privacy requests, and how two texts relate.

The lower layers of the default embedding model give the states of the tokens. The top layers and the heads are trained
for these tasks; their weights are beside this file (`training/README.md`). Several texts are combined only in the top
layers, so states are computed once per text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import (
    STATE_TOKENS,
    LocalEmbedder,
    Session,
    bundled_embedder,
    token_batches,
)
from roomlore.models.recent_results import RecentResults
from roomlore.models.shipped_weights import load_weights

Array = np.ndarray[Any, np.dtype[Any]]

ACTS = (
    "question",
    "answer",
    "thanks",
    "announcement",
    "decision",
    "promise",
    "preference",
    "person_fact",
    "how_to",
    "correction",
    "resource",
    "request_private",
    "chatter",
)
KEEP = 4
INTENTS = ("forget", "confidential", "deny", "allow", "take_back", "none")
SCOPES = ("this", "previous", "topic", "value", "person")
RELATIONS = ("replaces", "contradicts", "repeats", "separate")
#: The outputs of the network in order.
OUTPUTS = len(ACTS) + KEEP + len(INTENTS) + len(SCOPES) + len(RELATIONS) + 1

#: Segments: the role of each text in relation to the text that is read. Every token has the segment of its text.
MESSAGE, BOT_MESSAGE, OWN_BEFORE, OTHER_BEFORE, OWN_EARLIER, OTHER_EARLIER = range(6)
LATER, EARLIER_OWN, EARLIER_OTHER, ANSWER, QUESTION = range(6, 11)
SEGMENTS = 11
_MESSAGES = (MESSAGE, BOT_MESSAGE)

_NO_REQUEST = INTENTS.index("none")
_FILE = Path(__file__).parent / "message_model.onnx"
_VERSION = "1"
#: The maximum number of tokens, with padding, in one run.
_BATCH_TOKENS = 512
#: The number of texts and pairs whose outputs are kept, because several workers read the same texts: 2 MB.
_KEPT = 16_384

#: The maximum number of earlier messages that are read together with a message.
CONTEXT = 2
#: The maximum number of tokens of the text that is read, and of each message before this text.
TEXT_TOKENS, CONTEXT_TOKENS = STATE_TOKENS, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageInContext:
    """A message with the messages before it."""

    text: str
    is_bot: bool = False
    #: Texts before the message, nearest first. The flag states whether the author of the message also wrote the text.
    before: tuple[tuple[str, bool], ...] = ()


def segments_of(message: MessageInContext) -> tuple[int, ...]:
    """Return the segment of a message, followed by the segments of the earlier messages that are read with it."""
    near, far = (OTHER_BEFORE, OWN_BEFORE), (OTHER_EARLIER, OWN_EARLIER)
    before = message.before[:CONTEXT]
    return (
        BOT_MESSAGE if message.is_bot else MESSAGE,
        *((far if place else near)[own] for place, (_, own) in enumerate(before)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReading:
    """The model's predictions for a message. All numbers except `keep` are probabilities."""

    #: The probability of each of `ACTS`. A message can have several acts.
    acts: dict[str, float]
    #: The acts whose probability reaches their threshold, most probable first; may be empty.
    does: tuple[str, ...]
    #: The expected value of how much the message is worth remembering, 0 to 3.
    keep: float
    #: The probability of each of `INTENTS`. The probabilities sum to 1.
    intents: dict[str, float]
    #: The probability of each of `SCOPES`, provided that the message is a privacy request. The probabilities sum to 1.
    scopes: dict[str, float]
    #: The intent; None if the message is not likely enough to be a privacy request.
    request: str | None
    #: Whether the message is almost certainly a request. Hardly one in 20,000 ordinary messages passes this threshold.
    is_certain_request: bool

    @property
    def asks(self) -> bool:
        """Whether the message asks something."""
        return "question" in self.does

    @property
    def request_probability(self) -> float:
        """The probability that the message is a privacy request."""
        return 1 - self.intents["none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPair:
    """An earlier and a later text."""

    earlier: str
    later: str
    #: Whether one author wrote both.
    same_author: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsTogether:
    """Texts that are read together, each with its segment. The first text is the one to classify."""

    texts: tuple[str, ...]
    segments: tuple[int, ...]

    def limit(self, place: int) -> int:
        """Return the maximum number of tokens that are read of the text at a place."""
        return CONTEXT_TOKENS if place and self.segments[0] in _MESSAGES else TEXT_TOKENS


class MessageModel:
    """Reads messages and pairs of texts on the CPU, safe for threads.

    A result depends only on its own texts, not on the other texts of the same call.
    """

    def __init__(self, session: Session, metadata: Mapping[str, str], embedder: LocalEmbedder) -> None:
        self._session = session
        self._embedder = embedder
        self._recent = RecentResults[TextsTogether, Array](
            self._outputs, texts=lambda item: (*item.texts, str(item.segments)), kept=_KEPT
        )
        self._threshold = float(metadata["request_threshold"])
        self._certain_threshold = float(metadata["certain_request_threshold"])
        self._act_thresholds: dict[str, float] = {
            act: float(metadata.get(f"act_threshold/{act}", 0.5)) for act in ACTS
        }
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
        return f"messages/{self._digest}"

    @property
    def request_threshold(self) -> float:
        """The lowest probability at which a message counts as a privacy request."""
        return self._threshold

    @property
    def act_thresholds(self) -> Mapping[str, float]:
        """The lowest probability at which a message counts as having an act, for each of `ACTS`."""
        return self._act_thresholds

    def read(self, messages: Sequence[MessageInContext]) -> list[MessageReading]:
        """Return one reading per message, in order."""
        items = [
            TextsTogether(
                texts=(message.text, *(text for text, _ in message.before[:CONTEXT])),
                segments=segments_of(message),
            )
            for message in messages
        ]
        acts, keep, intents, scopes, *_ = _parts(self.outputs(items))
        acts, keep, intents, scopes = _sigmoid(acts), _softmax(keep), _softmax(intents), _softmax(scopes)
        expected = keep @ np.arange(KEEP)
        return [
            MessageReading(
                acts=_named(ACTS, acts[row]),
                does=self._does(_named(ACTS, acts[row])),
                keep=float(expected[row]),
                intents=_named(INTENTS, intents[row]),
                scopes=_named(SCOPES, scopes[row]),
                request=self._request(intents[row]),
                is_certain_request=bool(1 - intents[row, _NO_REQUEST] >= self._certain_threshold),
            )
            for row in range(len(messages))
        ]

    def answers(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return for each pair of a question and a text the probability that the text answers it."""
        items = [
            TextsTogether(texts=(text, question), segments=(ANSWER, QUESTION)) for question, text in pairs
        ]
        return _sigmoid(_parts(self.outputs(items))[5][:, 0])

    def relations(self, pairs: Sequence[StatementPair]) -> Array:
        """Return for each pair the probabilities of `RELATIONS`: how the later text relates to the earlier text."""
        items = [
            TextsTogether(
                texts=(pair.later, pair.earlier),
                segments=(LATER, EARLIER_OWN if pair.same_author else EARLIER_OTHER),
            )
            for pair in pairs
        ]
        return _softmax(_parts(self.outputs(items))[4])

    def _does(self, acts: Mapping[str, float]) -> tuple[str, ...]:
        likely = [act for act in ACTS if acts[act] >= self._act_thresholds[act]]
        return tuple(sorted(likely, key=acts.__getitem__, reverse=True))

    def _request(self, intents: Array) -> str | None:
        if 1 - intents[_NO_REQUEST] < self._threshold:
            return None
        return INTENTS[int(np.delete(intents, _NO_REQUEST).argmax())]

    def outputs(self, items: Sequence[TextsTogether]) -> Array:
        """Return the raw outputs of the network, one row per item."""
        return np.array(self._recent.of(items), np.float32).reshape(len(items), OUTPUTS)

    def _outputs(self, items: Sequence[TextsTogether]) -> Array:
        texts = list(dict.fromkeys(text for item in items for text in item.texts))
        found = dict(zip(texts, self._embedder.token_states(texts), strict=True))
        outputs = np.empty((len(items), OUTPUTS), np.float32)
        parts = [
            [found[text][: item.limit(place)] for place, text in enumerate(item.texts)] for item in items
        ]
        for rows in token_batches([sum(map(len, each)) for each in parts], most=_BATCH_TOKENS):
            outputs[rows] = self._run([items[row].segments for row in rows], [parts[row] for row in rows])
        return outputs

    def _run(self, segments: Sequence[Sequence[int]], parts: Sequence[Sequence[Vectors]]) -> Array:
        length = max(sum(map(len, each)) for each in parts)
        states = np.zeros((len(parts), length, parts[0][0].shape[1]), np.float32)
        of_tokens = np.zeros((len(parts), length), np.int64)
        mask = np.zeros((len(parts), length), np.float32)
        for row, (own, kinds) in enumerate(zip(parts, segments, strict=True)):
            count = sum(map(len, own))
            states[row, :count] = np.concatenate(own)
            of_tokens[row, :count] = np.repeat(kinds, [len(part) for part in own])
            mask[row, :count] = 1
        feeds = {"states": states, "segments": of_tokens, "mask": mask}
        return cast("Array", self._session.run(["outputs"], feeds)[0])


@lru_cache(maxsize=1)
def bundled_model() -> MessageModel:
    """Return the bundled model, loaded once per process.

    Raises:
        ModelUnavailable: The weights are missing, damaged or of another version.
    """
    return MessageModel.load()


def _parts(outputs: Array) -> list[Array]:
    """Return the six outputs: acts, worth of keeping, intents, scopes, relations and answers."""
    ends = np.cumsum([len(ACTS), KEEP, len(INTENTS), len(SCOPES), len(RELATIONS)])
    return np.split(outputs, ends, axis=1)


def _named(names: Sequence[str], values: Array) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _sigmoid(outputs: Array) -> Array:
    return 1 / (1 + np.exp(-outputs))


def _softmax(outputs: Array) -> Array:
    rows = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)
