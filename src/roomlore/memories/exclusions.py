"""Tells from what nothing is to be read: messages confided, taken back, meant as a joke, or holding a key.

What people ask to be forgotten or kept between them is decided elsewhere; here it is only not made into anything.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from roomlore.domain.claims import SourceText
from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, sentence_pattern
from roomlore.memories.patterns import (
    CONFIDENTIAL,
    DENIES_AUTHORSHIP,
    LAUGH,
    RETRACTION,
    SECRET_WORD,
    is_question,
)
from roomlore.memories.sentences import Sentence, own_sentences_of

#: Leads to what is told next, and tells nothing itself.
_ANNOUNCES = sentence_pattern(
    r"(?i)\b(?:something|a secret|some (?:news|things?)|this next|the next|what i (?:say|tell|am about))\b|:\s*$"
)
#: How many messages before or after may be meant.
_MAX_DISTANCE = 8
#: How much of what the same person says next is confided too.
_CONFIDED_NEXT = 3
#: Of a sentence that tells something.
_FEWEST_WORDS = 3


def excluded_messages(said: Sequence[SourceText]) -> set[MessageId]:
    """Return the messages of a conversation from which nothing is to be read."""
    return {message.message_id for place in range(len(said)) for message in _excluded_by(said, place)}


def eligible_sentences(body: str) -> Sequence[Sentence]:
    """Return the sentences of a body from the last on that takes back what is before it."""
    parts = own_sentences_of(body)
    taken_back = [
        number
        for number, part in enumerate(parts)
        if number and (RETRACTION.match(part.text) or DENIES_AUTHORSHIP.match(part.text))
    ]
    return parts[taken_back[-1] :] if taken_back else parts


def _excluded_by(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield what a message bids to leave alone, itself among it."""
    message = said[place]
    if SECRET_WORD.search(message.body):
        yield message
    if CONFIDENTIAL.search(message.body):
        yield message
        # Who says in the same breath what is to be kept means that. Who announces it means what comes.
        if not _states_something(message.body):
            yield from _previous(said, place)
            yield from _next(said, place)
    elif RETRACTION.match(message.body.lstrip()[:MAX_SENTENCE_LENGTH]):
        yield from _previous(said, place)
    elif LAUGH.fullmatch(message.body.strip()):
        yield from _answered_by_laugh(said, place)


def _states_something(body: str) -> bool:
    """Return whether a message states something before it says that it is confided."""
    before = takewhile(lambda part: not CONFIDENTIAL.search(part.text), own_sentences_of(body))
    return any(
        len(part.text.split()) >= _FEWEST_WORDS
        and not (is_question(part.text) or _ANNOUNCES.search(part.text))
        for part in before
    )


def _previous(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield the message of the same person that is meant: the one answered, or else their last."""
    message = said[place]
    own = [one for one in said[max(0, place - _MAX_DISTANCE) : place] if one.author_id == message.author_id]
    answered = [one for one in said[:place] if one.message_id == message.answers] if message.answers else []
    if answered and answered[0].author_id == message.author_id:
        yield answered[0]
    elif own:
        yield own[-1]


def _answered_by_laugh(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield what a laugh answers: what it is a reply to, else what another said just before."""
    message = said[place]
    before = [one for one in said[:place] if one.message_id == message.answers] or said[
        max(0, place - 1) : place
    ]
    yield from (one for one in before if one.author_id != message.author_id)


def _next(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    following = said[place + 1 : place + 1 + _MAX_DISTANCE]
    own = [one for one in following if one.author_id == said[place].author_id]
    yield from own[:_CONFIDED_NEXT]
