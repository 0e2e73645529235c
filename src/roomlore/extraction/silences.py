"""Tells which messages nothing is to be read from: confided, taken back, meant as a joke, or holding a key.

What people ask to be forgotten or kept between them is decided elsewhere; here it is only not made into anything.
"""

from collections.abc import Iterator, Sequence

from roomlore.domain.ids import MessageId
from roomlore.domain.statements import Spoken
from roomlore.extraction.cues import CONFIDED, LAUGHING, RETRACTED, SECRET

#: How many messages before or after may be meant.
_REACH = 8
#: How much of what the same person says next is confided too.
_CONFIDED_NEXT = 3


def unread(said: Sequence[Spoken]) -> set[MessageId]:
    """Return the messages of a conversation from which nothing is to be read."""
    return {message.message_id for place in range(len(said)) for message in _silenced(said, place)}


def _silenced(said: Sequence[Spoken], place: int) -> Iterator[Spoken]:
    """Yield what a message bids to leave alone, itself among it."""
    message = said[place]
    if SECRET.search(message.body):
        yield message
    if CONFIDED.search(message.body):
        yield message
        yield from _previous(said, place)
        yield from _next(said, place)
    elif RETRACTED.match(message.body.lstrip()):
        yield from _previous(said, place)
    elif LAUGHING.fullmatch(message.body.strip()):
        yield from _laughed_at(said, place)


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
