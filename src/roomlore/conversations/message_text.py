"""Text features of one message (asks, answers, greets, thanks, shows a command), and labels of conversations.

The word lists are English. For messages in other languages, only features that use no word list have an effect.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from roomlore.domain.patterns import lazy_pattern

_Word = TypeVar("_Word")

#: Rows of the table of word rarity; words are hashed to rows.
BUCKETS = 1 << 14
_MASK = BUCKETS - 1
#: A word with a higher rarity (log of one over the share of messages with it) may show the topic.
RARE_WORD_RARITY = 4.2
#: The maximum number of rare words of a message that are compared; a pasted log has more.
MAX_RARE_WORDS = 24
CHARACTERS_READ = 2000
#: The weight of a URL that two messages share, in place of the rarity of a word.
_LINK_WEIGHT = 12.0
_LINKS_READ = 4

_TOKEN = lazy_pattern(r"[^\W_](?:[\w.+/'-]*[\w+])?")
#: Patterns of commands and files. Each is tried only if its sign is in the text, which is faster.
_CODE = (
    ("`", lazy_pattern("`")),
    ("/", lazy_pattern(r"(?<!\w)[~/][\w.-]+/")),
    ("()", lazy_pattern(r"\w\(\)")),
    ("=", lazy_pattern(r"(?<!\w)--?\w+=")),
    (".", lazy_pattern(r"\.(?<=\w\.)(?:conf|list|py|sh|deb|log|tar|gz|iso|so|js|md)\b")),
)

#: For each feature, words that show it anywhere in a message.
_ANYWHERE = {
    "asks": "how what whats what's why where when who which can could does do is are should would any",
    "asks all": "anyone anybody someone somebody everyone everybody guys folks people all anyone's",
    "thanks": "thanks thank thx ty tnx cheers appreciated appreciate thankyou",
    "welcome": "np welcome yw problem worries",
    "negative": "not no nothing fail failed fails error errors broken wrong cannot cant can't dont don't doesnt doesn't "
    "didnt didn't wont won't isnt isn't never without",
    "speaks of self": "i i'm im i've ive i'll i'd my me mine we our",
    "speaks to one": "you your you're youre u ur yours yourself you'll you've",
    "points back": "it it's its that that's thats this those these they them there one same instead too either",
    "tries": "tried trying did worked works got get says said still now already",
    "supposes": "maybe perhaps probably think guess might should because if",
    "laughs": "lol haha hahaha heh hehe lmao rofl",
    "advises": "try use install run type check need want sudo apt apt-get click",
}
#: For each feature, words that show it as the first word of a message.
_FIRST = {
    "greets": "hi hello hey hiya yo re greetings howdy morning evening",
    "affirms": "yes yeah yep yup ya sure ok okay k right correct exactly indeed true agreed ah oh cool great nice fine "
    "done hm hmm lol haha heh aha good",
    "denies": "no nope nah not never nothing none",
    "goes on": "and but or so because cause also then plus well anyway btw though which with",
    "orders": "try use install run type check look read go open edit remove add just sudo apt see do apt-get",
    "wonders": "how what whats what's why where when who which can could does do is are should would anyone any",
}
#: Dialogue acts, whose probabilities are predicted from words.
ACT_NAMES = ("may start", "may go on", "may answer", "may be answered", "may be gone on with")
ACT_COUNT = len(ACT_NAMES)
#: The number of words of a message from which the acts are predicted.
ACT_WORDS = 40
_SMILES = frozenset((":)", ":(", ":-)", ";)", ":d", ":p", ":/", "=)", ";-)", ":-/", ":-(", "xd", ":o", "^^"))


def _bits(kinds: dict[str, str], first: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, listed in enumerate(kinds.values(), start=first):
        for word in listed.split():
            found[word] = found.get(word, 0) | 1 << place
    return found


_ANYWHERE_BITS = _bits(_ANYWHERE, 0)
_FIRST_BITS = _bits(_FIRST, len(_ANYWHERE))
_BIT_COUNT = len(_ANYWHERE) + len(_FIRST)
#: The order of `ParsedText.features`.
TEXT_FEATURE_NAMES = (
    *chain(_ANYWHERE, _FIRST),
    *("words", "question mark", "ends in a question mark", "link", "breaks off", "exclaims", "command"),
    "begins large",
    *("rare words", "code", "smiles"),
    *ACT_NAMES,
)
TEXT_FEATURES = len(TEXT_FEATURE_NAMES)


@lru_cache(maxsize=1 << 16)
def bucket(word: str) -> int:
    """Return the row of a word in the tables of the lexicon, by its hash."""
    return crc32(word.encode("utf-8", "surrogatepass")) & _MASK


def stem(word: str) -> str:
    """Return a word without the s of a plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word  # noqa: PLR2004


@lru_cache(maxsize=1 << 16)
def _stem_and_bucket(word: str) -> tuple[str, int]:
    stemmed = stem(word)
    return stemmed, bucket(stemmed)


def tokens(body: str) -> list[str]:
    """Return the words of a body in lower case, in order."""
    return _TOKEN.findall(body[:CHARACTERS_READ].lower())


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The learnt tables: rarity of words, and weights of words for dialogue acts."""

    #: (BUCKETS,): for each row, log of one over the share of messages with a word of that row.
    rarity: list[float]
    #: (BUCKETS, ACTS): for each row, the weight of its words and word pairs for each act.
    acts: npt.NDArray[np.float32]
    #: (ACTS,): the value of each act for an empty message.
    bias: npt.NDArray[np.float32]


class ParsedText:
    """The words of one body, its features, and its rare words with their weights."""

    __slots__ = ("features", "rare", "rare_weight", "tokens")

    def __init__(self, body: str, lexicon: Lexicon, *, skip: int = 0) -> None:
        """Parse a body; its first `skip` words are names of addressees."""
        rarity = lexicon.rarity
        lower = body[:CHARACTERS_READ].lower()
        self.tokens: list[str] = _TOKEN.findall(lower)
        self.rare: dict[str, float] = {}
        for stemmed, row in map(_stem_and_bucket, self.tokens):
            weight = rarity[row]
            if weight > RARE_WORD_RARITY and len(self.rare) < MAX_RARE_WORDS:
                self.rare[stemmed] = weight
        links: list[str] = _LINK.findall(lower)[:_LINKS_READ] if "http" in lower or "www." in lower else []
        for link in links:
            self.rare[" " + link.rstrip(".,)>")] = _LINK_WEIGHT
        #: The Euclidean norm of the weights of the rare words.
        self.rare_weight = math.sqrt(sum(weight * weight for weight in self.rare.values()))
        said = self.tokens[skip:]
        self.features = np.empty(TEXT_FEATURES, dtype=np.float32)
        self.features[:_BIT_COUNT] = _word_features(said)
        self.features[_BIT_COUNT:-ACT_COUNT] = _surface_features(
            body, lower, words=len(said), has_link=bool(links), mass=self.rare_weight
        )
        self.features[-ACT_COUNT:] = act_probabilities(said, lower, lexicon)


class RareWordIndex:
    """Finds the numbered messages that share rare words."""

    def __init__(self) -> None:
        self._numbers: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, rare: dict[str, float], number: int) -> None:
        """Add a message under a number that is higher than all before."""
        for word in rare:
            self._numbers.setdefault(word, []).append(number)

    def drop(self, rare: dict[str, float]) -> None:
        """Remove the oldest message, which has these rare words."""
        remove_oldest(self._numbers, rare)

    def shared_weights(
        self, rare: dict[str, float], *, start: int, places: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None:
        """Return the sum of squares and the maximum of the shared weights, for each message from number `start` on.

        Return None if no message shares a word with `rare`.
        """
        numbers: list[int] = []
        weights: list[float] = []
        for word, weight in rare.items():
            if word in self._numbers:
                holding = self._numbers[word]
                numbers += holding
                weights += [weight] * len(holding)
        if not numbers:
            return None
        at = np.array(numbers, dtype=np.intp)
        at -= start
        weighs = np.array(weights, dtype=np.float32)
        total, most = np.zeros((2, places), dtype=np.float32)
        np.add.at(total, at, weighs * weighs)
        np.maximum.at(most, at, weighs)
        return total, most


def remove_oldest(postings: dict[_Word, list[int]], words: Iterable[_Word]) -> None:
    """Remove the oldest number from the list of each word, and remove lists that become empty."""
    for word in words:
        numbers = postings[word]
        if len(numbers) == 1:
            del postings[word]
        else:
            del numbers[0]


def act_features(said: list[str], lower: str) -> list[int]:
    """Return the rows of a text's words, word pairs and last character in the table of acts."""
    words = " ".join(("^", *said[:ACT_WORDS], "$")).encode("utf-8", "surrogatepass").split(b" ")
    sums = list(map(crc32, words))
    # The checksum of a pair continues that of its first word.
    pairs = map(crc32, [b" " + word for word in words[1:]], sums)
    found = {each & _MASK for each in chain(sums[1:-1], pairs)}
    found.add(bucket("\0" + lower.rstrip()[-1:]))
    return list(found)


def act_probabilities(said: list[str], lower: str, lexicon: Lexicon) -> npt.NDArray[np.float32]:
    """Return the probability of each act."""
    # The rows are sorted, because the order of a set may differ between runs and would change the sum of floats.
    rows = sorted(act_features(said, lower))
    speaks: npt.NDArray[np.float32] = np.add.reduce(lexicon.acts.take(rows, axis=0))
    speaks += lexicon.bias
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-speaks))


def _word_features(said: list[str]) -> npt.NDArray[np.float32]:
    """Return the features that single words show."""
    bits = _FIRST_BITS.get(said[0], 0) if said else 0
    for kind in map(_ANYWHERE_BITS.get, said):
        if kind:
            bits |= kind
    return _unpacked(bits)


@lru_cache(maxsize=1 << 12)
def _unpacked(bits: int) -> npt.NDArray[np.float32]:
    return np.array([bits >> place & 1 for place in range(_BIT_COUNT)], dtype=np.float32)


def _surface_features(body: str, lower: str, *, words: int, has_link: bool, mass: float) -> tuple[float, ...]:
    """Return the features that do not depend on single words."""
    end = lower.rstrip()
    last = end[-1:]
    return (
        math.log1p(words),
        "?" in lower,
        last == "?",
        has_link,
        last in (",", "-", ":") or end.endswith(".."),
        last == "!",
        lower[:1] in ("!", "/", ">"),
        not body[:1].islower(),
        mass / 10.0,
        _shows_code(body),
        not _SMILES.isdisjoint(end.rsplit(None, 3)[-3:]),
    )


def _shows_code(body: str) -> bool:
    return any(sign in body and pattern.search(body) for sign, pattern in _CODE)


# Labels: class-based TF-IDF (Grootendorst, "BERTopic", 2022) with one class, the conversation.

#: Words of a label.
LABEL_WORDS = 3
#: The rarity of an unknown word; no rarity is higher.
MAX_RARITY = 8.0
#: More frequent words than this show no topic.
MIN_RARITY = 3.6
SHORTEST_WORD = 3
LONGEST_WORD = 30

_WORDY = lazy_pattern(r"[^\W\d_]{2}")
_LINK = lazy_pattern(r"(?:https?://|www\.)\S+", re.IGNORECASE)


def label_of(bodies: Sequence[str], *, rarity: Sequence[float], names: Collection[str] = ()) -> str:
    """Return up to three topic words of a conversation, best first. The words in `names` are left out."""
    called = {word for name in names for word in tokens(name)}
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for body in bodies:
        said: dict[str, str] = {}
        for word in tokens(_LINK.sub(" ", body)):
            if _is_label_word(word, called):
                said.setdefault(stem(word), word)
        counts.update(said.keys())
        for stemmed, word in said.items():
            spelled.setdefault(stemmed, word)
    weights = {
        word: (1 + math.log(count)) * weight * (1.0 if count > 1 or len(bodies) == 1 else 0.5)
        for word, count in counts.items()
        if (weight := min(rarity[bucket(word)], MAX_RARITY)) > MIN_RARITY
    }
    best = sorted(weights, key=lambda word: -weights[word])[:LABEL_WORDS]
    return ", ".join(spelled[word] for word in best)


def _is_label_word(word: str, called: Collection[str]) -> bool:
    fits = SHORTEST_WORD <= len(word) <= LONGEST_WORD
    return fits and word not in called and _WORDY.search(word) is not None
