"""Tells from what nothing is to be read: messages confided, taken back, meant as a joke, or holding a key.

What people ask to be forgotten or kept between them is decided elsewhere; here it is only not made into anything.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import LONGEST_SENTENCE, in_sentence
from roomlore.domain.statements import Spoken
from roomlore.extraction.cues import CONFIDED, DISOWNED, LAUGHING, RETRACTED, SECRET, is_asked
from roomlore.extraction.sentences import Sentence, sentences

#: Leads to what is told next, and tells nothing itself.
_ANNOUNCES = in_sentence(
    r"(?i)\b(?:something|a secret|some (?:news|things?)|this next|the next|what i (?:say|tell|am about))\b|:\s*$"
)
#: How many messages before or after may be meant.
_REACH = 8
#: How much of what the same person says next is confided too.
_CONFIDED_NEXT = 3
#: Of a sentence that tells something.
_FEWEST_WORDS = 3


def unread(said: Sequence[Spoken]) -> set[MessageId]:
    """Return the messages of a conversation from which nothing is to be read."""
    return {message.message_id for place in range(len(said)) for message in _silenced(said, place)}


def left_standing(body: str) -> Sequence[Sentence]:
    """Return the sentences of a body from the last on that takes back what is before it."""
    parts = sentences(body)
    taken_back = [
        number
        for number, part in enumerate(parts)
        if number and (RETRACTED.match(part.text) or DISOWNED.match(part.text))
    ]
    return parts[taken_back[-1] :] if taken_back else parts


def _silenced(said: Sequence[Spoken], place: int) -> Iterator[Spoken]:
    """Yield what a message bids to leave alone, itself among it."""
    message = said[place]
    if SECRET.search(message.body):
        yield message
    if CONFIDED.search(message.body):
        yield message
        # Who says in the same breath what is to be kept means that. Who announces it means what comes.
        if not _tells(message.body):
            yield from _previous(said, place)
            yield from _next(said, place)
    elif RETRACTED.match(message.body.lstrip()[:LONGEST_SENTENCE]):
        yield from _previous(said, place)
    elif LAUGHING.fullmatch(message.body.strip()):
        yield from _laughed_at(said, place)


def _tells(body: str) -> bool:
    """Return whether a message states something before it says that it is confided."""
    before = takewhile(lambda part: not CONFIDED.search(part.text), sentences(body))
    return any(
        len(part.text.split()) >= _FEWEST_WORDS and not (is_asked(part.text) or _ANNOUNCES.search(part.text))
        for part in before
    )


def _previous(said: Sequence[Spoken], place: int) -> Iterator[Spoken]:
    """Yield the message of the same person that is meant: the one answered, or else their last."""
    message = said[place]
    own = [one for one in said[max(0, place - _REACH) : place] if one.author_id == message.author_id]
    answered = [one for one in said[:place] if one.message_id == message.answers] if message.answers else []
    if answered and answered[0].author_id == message.author_id:
        yield answered[0]
    elif own:
        yield own[-1]


def _laughed_at(said: Sequence[Spoken], place: int) -> Iterator[Spoken]:
    """Yield what a laugh answers: what it is a reply to, else what another said just before."""
    message = said[place]
    before = [one for one in said[:place] if one.message_id == message.answers] or said[
        max(0, place - 1) : place
    ]
    yield from (one for one in before if one.author_id != message.author_id)


def _next(said: Sequence[Spoken], place: int) -> Iterator[Spoken]:
    following = said[place + 1 : place + 1 + _REACH]
    own = [one for one in following if one.author_id == said[place].author_id]
    yield from own[:_CONFIDED_NEXT]
