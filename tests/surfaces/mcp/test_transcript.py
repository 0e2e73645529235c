"""Exchanges in a transcript are whole, or say how much of them is left out and how that is read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.records import Message, Reply
from roomlore.mcp.transcript import Transcript
from roomlore.search.records import Thread

START = datetime(2026, 1, 1, tzinfo=UTC)
REST = "room_read reads the room there"


def mid(number: int) -> MessageId:
    return MessageId(UUID(int=number + 1))


def said(number: int, body: str = "some words that take their place") -> Message:
    return Message(
        id=mid(number),
        room_id=RoomId(UUID(int=7)),
        external_id=str(number),
        kind="message",
        author_id=ParticipantId(UUID(int=8)),
        author_name="Ana",
        author_kind="human",
        body=body,
        sent_at=START + timedelta(minutes=number),
        precision="us",
        edited_at=None,
        redacted_at=None,
        reply_to=None,
    )


def exchange(*numbers: int, omitted: int = 0) -> Thread:
    """Return an exchange in which each answers the one before it."""
    edges = [
        Reply(child_id=mid(child), parent_id=mid(parent), method="explicit", confidence=1.0)
        for parent, child in pairwise(numbers)
    ]
    return Thread(messages=[said(number) for number in numbers], replies=edges, omitted=omitted)


def shown(told: Transcript) -> list[int]:
    return [one.message_id.int - 1 for one in told.cited]


def cost(*numbers: int) -> int:
    told = Transcript(budget=100_000)
    told.add_thread(exchange(*numbers), first=[mid(numbers[0])], rest=REST)
    return told.tokens


def test_an_exchange_that_fits_is_whole_and_nothing_is_said_to_be_left_out():
    told = Transcript(budget=cost(*range(10)))
    told.add_thread(exchange(*range(10)), first=[mid(5)], rest=REST)
    assert (shown(told), told.left_out, REST in told.text) == (list(range(10)), 0, False)


@pytest.mark.parametrize("best", [3, 9, 19])
def test_of_one_that_does_not_fit_no_answer_stands_without_its_question_and_the_rest_is_counted(best: int):
    told = Transcript(budget=cost(*range(12)))
    told.add_thread(exchange(*range(20)), first=[mid(best)], rest=REST)
    kept = shown(told)
    assert best in kept
    # In a chain what is shown is one stretch: from its beginning, or the end of a way that is too long.
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert kept[0] == 0 or kept[-1] == best
    assert f"{20 - len(kept)} more messages of this exchange left out; {REST}" in told.text
    assert told.tokens <= told.budget


def test_what_was_left_out_before_is_counted_too():
    told = Transcript(budget=10_000)
    told.add_thread(exchange(0, 1, omitted=40), first=[mid(0)], rest=REST)
    assert f"40 more messages of this exchange left out; {REST}" in told.text


def test_a_listing_ends_where_the_next_does_not_fit_and_tells_where_it_begins():
    lines = [said(0), replace(said(1), body="word " * 250), said(2), said(3)]
    told = Transcript(budget=cost(2, 3) + 20)
    assert told.messages(lines) == mid(2)
    assert (shown(told), told.left_out) == ([2, 3], 2)
