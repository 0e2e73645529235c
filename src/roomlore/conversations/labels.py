"""What a conversation is about, from its words alone: a few that are said in it often and elsewhere seldom.

Class-based TF-IDF (Grootendorst, "BERTopic", 2022) with one class, the conversation, against the rarity of words
that ships with the reply model. The same messages always give the same label.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence

from roomlore.conversations.message_text import bucket, stem, tokens
from roomlore.domain.patterns import lazy_pattern

#: So many words make a label.
LABEL_WORDS = 3
#: A word said in fewer of all messages than this (as log of one over their share) is as rare as one never met.
MAX_RARITY = 8.0
#: A more frequent one says nothing about a topic.
MIN_RARITY = 3.6
SHORTEST_WORD = 3
LONGEST_WORD = 30

_WORDY = lazy_pattern(r"[^\W\d_]{2}")
_LINK = lazy_pattern(r"(?:https?://|www\.)\S+", re.IGNORECASE)
#: Whoever says this asks for discretion.
_DISCREET = lazy_pattern(
    r"\b(?:strictly )?confidential(?:ly)?\b|\bin (?:strict(?:est)? )?confidence\b(?! (?:that|in)\b)"
    r"|\boff the record\b|\b(?:just|strictly|only) between (?:you and me|us|ourselves)\b"
    r"|\b(?:do not|don'?t) (?:tell|share|repeat|forward) (?:this|that|it|anyone|anybody)\b"
    r"|\bkeep (?:this|that|it) (?:quiet|private|secret|confidential|(?:to|between|among) (?:yourself|yourselves|us))\b"
    r"|\bnot for (?:sharing|the public)\b|\bthis stays between\b",
    re.IGNORECASE,
)


def label_of(bodies: Sequence[str], *, rarity: Sequence[float], names: Collection[str] = ()) -> str:
    """Return up to three words that tell what a conversation is about, the most telling first; or nothing.

    Args:
        bodies: What was said, in order.
        rarity: How rare the words of each bucket are, as log of one over the share of messages that have one.
        names: Of those who take part: calling somebody is no topic.
    """
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
    told = sorted(weights, key=lambda word: -weights[word])[:LABEL_WORDS]
    return ", ".join(spelled[word] for word in told)


def asks_for_confidentiality(bodies: Sequence[str]) -> bool:
    """Return whether somebody in a conversation asks to keep it among those present."""
    return any(_DISCREET.search(body) for body in bodies)


def _is_label_word(word: str, called: Collection[str]) -> bool:
    fits = SHORTEST_WORD <= len(word) <= LONGEST_WORD
    return fits and word not in called and _WORDY.search(word) is not None
