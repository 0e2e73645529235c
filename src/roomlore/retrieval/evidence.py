"""How well a message speaks to a question, and how sure a search is that it found the answer."""

import re
from collections.abc import Mapping, Sequence
from statistics import median

from roomlore.domain.ids import MessageId
from roomlore.retrieval.records import Why
from roomlore.retrieval.scoring import Scored

#: How sure a search must be to answer, by embedding model; without one only words count. Where they come from is
#: in docs/why.md; a model that was not measured gets the first.
BARS = {"all-MiniLM-L6-v2/int8-w": 0.42}
BAR_WITHOUT_MODEL = 0.19
#: Among so many of the best it is looked for how sure a search is, however many are wanted.
LOOKED_AT = 50
#: How much it counts whether those speak to the question whom it names.
NAMED = 2.0
#: What the signs of certainty add up to at most.
MOST = 5.0
#: A search is no surer than this many times what its best message carries by itself.
CARRIED = 1.2
#: What is shorter is rarely a name and often a word.
NAME = re.compile(r"\w{3,}")
WORD = re.compile(r"\w+")


def strength(why: Why) -> float:
    """Return how well a message fits a question, 0..1: the mean of meaning and words.

    Unlike the score it does not depend on the other candidates, so that it can be held against a bar.
    """
    similarity = max(why.similarity or 0.0, 0.0)
    return (similarity + (why.coverage or 0.0)) / 2


def certainty(question: str, scored: Sequence[Scored], reasons: Mapping[MessageId, Why]) -> float | None:
    """Return how sure it is that the answer is among what was found, 0..1; None where nothing was.

    Where texts were compared token by token, four signs: the best fit in meaning, words and tokens together; the
    closest text; by how much it stands out; and whether the closest text of somebody whom the question names is closer
    than those of others, for the right words of somebody else are no answer. But no surer than what the best message carries by itself.
    Otherwise meaning and words alone.

    Args:
        question: As it was asked.
        scored: What was found.
        reasons: Why, for each message that was found.
    """
    looked_at = scored[:LOOKED_AT]
    if not looked_at:
        return None
    fit = max(max(one.similarity or 0.0, 0.0) + one.covered_around for one in looked_at)
    close = {one.message_id: reasons[one.message_id].closeness for one in looked_at}
    known = [value for value in close.values() if value is not None]
    if not known:
        has_vectors = any(one.similarity is not None for one in looked_at)
        return fit / 2 if has_vectors else fit
    together = max(
        max(one.similarity or 0.0, 0.0) + one.covered_around + (close[one.message_id] or 0.0)
        for one in looked_at
    )
    stands_out = max(known) - median(known)
    signs = together + max(known) + stands_out + NAMED * _named_difference(question, looked_at, close)
    carried = CARRIED * max(strength(reasons[one.message_id]) for one in looked_at)
    return min(max(signs / MOST, 0.0), carried, 1.0)


def bar_for(model_id: str | None) -> float:
    """Return how sure a search must be to answer, which depends on the embedding model."""
    if model_id is None:
        return BAR_WITHOUT_MODEL
    return BARS.get(model_id, next(iter(BARS.values())))


def _named_difference(
    question: str, scored: Sequence[Scored], close: Mapping[MessageId, float | None]
) -> float:
    """Return by how much texts of those whom the question names are closer than texts of others."""
    words = set(WORD.findall(question.casefold()))
    named: list[float] = []
    others: list[float] = []
    for one in scored:
        value = close[one.message_id]
        if value is not None:
            is_named = not words.isdisjoint(NAME.findall(one.author_name.casefold()))
            (named if is_named else others).append(value)
    return max(named) - max(others) if named and others else 0.0
