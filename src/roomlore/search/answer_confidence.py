"""How likely it is that the best messages answer a question: four signs, each with a learned probability.

A close text is no answer if somebody else said it, if it is about another name or another year, or if one word of the
question occurs nowhere in it. So each sign has its own probability, and the confidence is their product: one bad sign is
enough. `training/train_confidence.py` learns the numbers, `docs/decisions/confidence-of-a-search.md` has the figures.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.patterns import lazy_pattern
from roomlore.search.confidence import NAME, NOT_NAMES, WORD, Confidence

#: The lowest confidence of an answer.
LEARNED_THRESHOLD = 0.33
#: The number of best messages that are read for the signs, and for names and numbers.
MESSAGES_READ, MESSAGES_WITH_NAMES = 10, 5
#: How fast the weight of a message falls with its distance from the closest message.
SPEAKER_SCALE = 0.08
#: Only prevents a division by zero.
MIN_WEIGHT = 1e-6
#: The sign `speaker` of a question that names nobody who wrote.
NOBODY_NAMED = 0.6
#: The maximum number of characters that are read of a message.
CHARACTERS_READ = 2_000

#: Words of a sentence that say nothing about its topic, beside `NOT_NAMES`.
_COMMON_WORDS = NOT_NAMES | frozenset(
    """
    a am an as at be by d do he i if in is it ll m may me might must my no of on or re s shall so t to up us ve we will
    hers ours theirs yours
    """.split()
)
#: Before a name that is called, not spoken of.
_GREETINGS = frozenset({"hey", "hi", "thanks"})
#: A word that may be a name: it begins with a capital letter, and is not the first word.
_CAPITALISED = lazy_pattern(r"[^\W\d_][\w-]*")
_NUMBER = lazy_pattern(r"\d+")
#: The beginning of a word piece that continues the word before it.
_CONTINUED = "##"

Cosines = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundText:
    """One of the best messages of a search."""

    author_name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a search found, as the signs need it."""

    question: str
    #: The word pieces of the question.
    pieces: Sequence[str]
    #: The weight of each word piece, as in late interaction.
    weights: Cosines
    #: Shape (pieces, best messages): how close each word piece is to the closest token of each message.
    cosines: Cosines
    #: The best messages, best first; at least one.
    best: Sequence[FoundText]
    #: The authors of all messages that were compared.
    author_names: Sequence[str]
    #: The confidence by rule (`confidence.confidence`).
    fit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The signs that a question is answered, each 0..1."""

    #: The confidence by rule: how well the best messages fit the question.
    fit: float
    #: How much of the closest texts the people named in the question wrote, or how much of them is about these people.
    speaker: float
    #: The share of the question's names and numbers that a message of the best ones has, on average.
    names: float
    #: How close the message that has every word is to the word that fits it worst.
    words: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sigmoid:
    """A logistic function of a sign."""

    slope: float
    offset: float

    def probability(self, sign: float) -> float:
        """Return the probability for a value of the sign."""
        return 1 / (1 + math.exp(-(self.slope * sign + self.offset)))


#: Written by `training/train_confidence.py`.
FIT = Sigmoid(slope=10.64, offset=-4.07)
SPEAKER = Sigmoid(slope=5.64, offset=-0.22)
NAMES = Sigmoid(slope=4.05, offset=-0.58)
WORDS = Sigmoid(slope=8.31, offset=-0.81)


def learned_confidence(evidence: Evidence) -> Confidence:
    """Return the probability that the best messages answer the question, and the threshold for it."""
    signs = read_signs(evidence)
    value = (
        FIT.probability(signs.fit)
        * SPEAKER.probability(signs.speaker)
        * NAMES.probability(signs.names)
        * WORDS.probability(signs.words)
    )
    return Confidence(value=value, threshold=LEARNED_THRESHOLD)


def read_signs(evidence: Evidence) -> Signs:
    """Return the signs of what a search found."""
    people = _People.named_in(evidence.question, evidence.author_names)
    content = _content(evidence.pieces, people.words)
    cosines, weights = evidence.cosines[content], evidence.weights[content]
    closeness = weights @ cosines / max(float(weights.sum()), MIN_WEIGHT)
    return Signs(
        fit=evidence.fit,
        speaker=_speaker(people, evidence.best, closeness),
        names=_names(evidence.question, evidence.best[:MESSAGES_WITH_NAMES]),
        words=max(float(cosines.min(axis=0).max()), 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _People:
    """The authors that a question names."""

    #: The words of the question that occur in the name of an author.
    words: AbstractSet[str]
    #: The authors whose names the question states most completely.
    author_names: AbstractSet[str]

    @classmethod
    def named_in(cls, question: str, author_names: Sequence[str]) -> "_People":
        asked = frozenset(WORD.findall(question.casefold()))
        shares: dict[str, float] = {}
        named: set[str] = set()
        for author in dict.fromkeys(author_names):
            words = (asked - NOT_NAMES).intersection(NAME.findall(author.casefold()))
            if words:
                parts = set(WORD.findall(author.casefold()))
                shares[author] = len(parts & asked) / len(parts)
                named |= words
        most = max(shares.values(), default=0.0)
        return cls(words=named, author_names={author for author, share in shares.items() if share == most})

    def are_in(self, message: FoundText) -> bool:
        """Return whether one of the people wrote a message, or whether the message is about them."""
        return message.author_name in self.author_names or self._are_spoken_of(message.text)

    def _are_spoken_of(self, text: str) -> bool:
        """Return whether a text says something about one of the people.

        A greeting, or a name at the end of a sentence, rather speaks to them.
        """
        before = ""
        folded = text[:CHARACTERS_READ].casefold()
        for word in WORD.finditer(folded):
            if word[0] in self.words and before not in _GREETINGS:
                following = folded[word.end() : word.end() + 2]
                if following == "'s" or (following[:1].isspace() and following[1:].isalnum()):
                    return True
            before = word[0]
        return False


def _speaker(people: _People, best: Sequence[FoundText], closeness: Cosines) -> float:
    if not people.words:
        return NOBODY_NAMED
    weights = np.exp((closeness - closeness.max()) / SPEAKER_SCALE)
    are_in = np.array([people.are_in(message) for message in best])
    return float(weights[are_in].sum() / weights.sum())


def _names(question: str, best: Sequence[FoundText]) -> float:
    """Return 1 for a question without names and numbers."""
    _, *words = _CAPITALISED.findall(question) or [""]
    wanted = {word.casefold() for word in words if word[0].isupper() and NAME.fullmatch(word)}
    wanted.update(_NUMBER.findall(question))
    if not wanted:
        return 1.0
    shares = [
        len(
            wanted.intersection(
                WORD.findall(f"{found.author_name} {found.text[:CHARACTERS_READ]}".casefold())
            )
        )
        / len(wanted)
        for found in best
    ]
    return sum(shares) / len(shares)


def _content(pieces: Sequence[str], names: AbstractSet[str]) -> list[int]:
    """Return the places of the word pieces that state the topic: neither names of authors nor common words."""
    words: list[tuple[str, list[int]]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith(_CONTINUED) and words:
            word, places = words[-1]
            words[-1] = (word + piece.removeprefix(_CONTINUED), [*places, place])
        else:
            words.append((piece, [place]))
    others = [(word, places) for word, places in words if word not in names]
    topic = [places for word, places in others if word[0].isalnum() and word not in _COMMON_WORDS]
    return [place for places in topic or [places for _, places in others or words] for place in places]
