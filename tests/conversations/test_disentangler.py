"""Conversations of ordinary rooms are told apart; what a platform or a person states decides; whispers stay apart."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

import pytest

from roomlore.conversations.conversation_model import LOOKAHEAD
from roomlore.conversations.disentangler import (
    LONGEST_SILENCE,
    SHORTEST_SILENCE,
    AssignedParent,
    Assignment,
    NewMessage,
    PastMessage,
    WhisperAudience,
    conversation_id_for,
    disentangle,
)
from roomlore.conversations.window import WINDOW, ConversationMessage
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
SPACE = UUID(int=7)

LUNCH_AND_BUILD = (
    (0, "Ann", "who wants to go for lunch at the new ramen place?"),
    (1, "Raj", "Lena: the build on main is red again, the migration test fails"),
    (2, "Tom", "Ann: count me in, ramen sounds great"),
    (3, "Lena", "Raj: looking, I think the fixture misses the new column"),
    (4, "Ann", "Tom: cool, leaving at 12:15 then, I'll reserve a table"),
    (5, "Raj", "Lena: yes, the column tenant_id. can you push a fix?"),
    (6, "Tom", "Ann: perfect, see you at the door"),
    (7, "Lena", "Raj: pushed, the migration test is green now"),
)
ONE_TALK = (
    (0, "Mia", "hi, did the new printer arrive?"),
    (2, "Jo", "yes, it is in the box next to the copier"),
    (3, "Mia", "great, is it already connected to the network?"),
    (5, "Jo", "not yet, IT comes this afternoon to set it up"),
    (6, "Mia", "ok, then I print my slides tomorrow"),
    (7, "Jo", "sounds good, I'll tell you when the printer works"),
)
NEW_SUBJECT = (
    (500, "Jo", "different topic: who brings the cake for the farewell party on friday?"),
    (502, "Mia", "I can bake an apple cake for the party"),
    (503, "Jo", "lovely, then I buy the drinks for the party"),
)


def message_id(name: str) -> MessageId:
    return MessageId(uuid5(SPACE, name))


def person(name: str) -> ParticipantId:
    return ParticipantId(uuid5(SPACE, f"person {name}"))


def said(
    name: str, minutes: float = 0, *, by: str = "ana", body: str | None = None, answers: str | None = None
) -> ConversationMessage:
    return ConversationMessage(
        id=message_id(name),
        author_id=person(by),
        author_name=by,
        sent_at=START + timedelta(minutes=minutes),
        body=name if body is None else body,
        reply_to=message_id(answers) if answers else None,
    )


def told(*lines: tuple[float, str, str]) -> list[ConversationMessage]:
    return [said(f"{number}", at, by=by, body=body) for number, (at, by, body) in enumerate(lines)]


def aloud(messages: Sequence[ConversationMessage]) -> list[NewMessage]:
    return [NewMessage(message=one) for one in messages]


def grouped(found: Sequence[Assignment]) -> list[int]:
    """Return the number of the conversation of each message, in order of appearance."""
    ids = list(dict.fromkeys(one.conversation_id for one in found))
    return [ids.index(one.conversation_id) for one in found]


def past_of(found: Sequence[Assignment], messages: Sequence[ConversationMessage]) -> list[PastMessage]:
    """Return messages with their results, as they are read from the store."""
    return [
        PastMessage(
            message=message,
            linked_parent_id=message.reply_to
            or (None if one.linked_offset is None else messages[place - one.linked_offset].id),
            conversation_id=one.conversation_id,
        )
        for place, (message, one) in enumerate(zip(messages, found, strict=False))
    ]


def test_two_talks_at_the_same_time_are_two_conversations():
    found = disentangle([], aloud(told(*LUNCH_AND_BUILD)))
    assert grouped(found) == [0, 1, 0, 1, 0, 1, 0, 1]
    parents = {one.message_id: one.parent_id for one in found}
    assert all(
        parent is None or grouped(found)[int(place)] == grouped(found)[int(child)]
        for child in "01234567"
        for place in "01234567"
        if (parent := parents[message_id(child)]) == message_id(place)
    )
    assert [one.split_reason for one in found[:2]] == ["first", "topic"]


def test_one_talk_is_one_conversation():
    assert grouped(disentangle([], aloud(told(*ONE_TALK)))) == [0] * 6


def test_a_new_subject_after_a_long_silence_is_a_new_conversation():
    found = disentangle([], aloud(told(*ONE_TALK, *NEW_SUBJECT)))
    assert grouped(found) == [0] * 6 + [1] * 3
    assert found[6].split_reason == "idle"
    assert found[6].parent_id is None


def test_an_inferred_parent_is_in_the_same_conversation_and_has_a_probability():
    found = disentangle([], aloud(told(*LUNCH_AND_BUILD, *NEW_SUBJECT)))
    conversation_of = {one.message_id: one.conversation_id for one in found}
    linked = [one for one in found if one.parent_id is not None]
    assert len(linked) >= 6
    for one in linked:
        assert one.parent_id is not None
        assert conversation_of[one.parent_id] == one.conversation_id
        assert one.method in {"mention", "inferred"}
        assert 0 < one.confidence <= 1


@pytest.mark.parametrize("cut", range(1, 11))
def test_a_restart_changes_nothing(cut: int):
    messages = told(*LUNCH_AND_BUILD, *NEW_SUBJECT)
    whole = disentangle([], aloud(messages))
    before = past_of(whole[:cut], messages[:cut])
    assert disentangle(before, aloud(messages[cut:])) == whole[cut:]


@pytest.mark.parametrize("count", range(1, 8))
def test_the_messages_that_follow_are_only_looked_at(count: int):
    messages = told(*LUNCH_AND_BUILD, *NEW_SUBJECT)
    whole = disentangle([], aloud(messages))
    following = aloud(messages[count : count + LOOKAHEAD - 1])
    assert disentangle([], aloud(messages[:count]), following) == whole[:count]


def test_a_stated_parent_crosses_any_silence():
    lines = [said("a", body="lunch?"), said("b", 5_000, by="bo", body="the tax form is due", answers="a")]
    found = disentangle([], aloud(lines))
    assert grouped(found) == [0, 0]
    assert (found[1].method, found[1].confidence, found[1].linked_offset) == ("explicit", 1.0, None)


def test_a_stated_parent_before_the_window_decides():
    old = said("old", body="the office key is with the porter")
    between = [said(f"{n}", n / 10, by="cy", body=f"build {n} passed") for n in range(1, WINDOW + 20)]
    late = said("late", 20, by="bo", body="which porter?", answers="old")
    found = disentangle([], aloud([old, *between, late]))
    assert found[-1].conversation_id == found[0].conversation_id
    elsewhere = ConversationId(UUID(int=5))
    distant = {message_id("old"): AssignedParent(conversation_id=elsewhere, sent_at=old.sent_at)}
    [alone] = disentangle([], aloud([late]), distant=distant)
    assert (alone.conversation_id, alone.split_reason) == (elsewhere, None)


@pytest.mark.parametrize("place", range(len(ONE_TALK) + 1))
def test_a_conversation_ends_at_a_border(place: int):
    messages = told(*ONE_TALK)
    before, after = messages[:place], messages[place:]
    border = after[0].sent_at if after else before[-1].sent_at + timedelta(seconds=1)
    found = disentangle([], aloud(messages), borders=[border])
    assert found[:place] == disentangle([], aloud(before))
    ids = [one.conversation_id for one in found]
    assert not set(ids[:place]) & set(ids[place:])
    assert disentangle(past_of(found[:place], before), aloud(after), borders=[border]) == found[place:]


def test_a_restart_behind_a_border_changes_nothing():
    messages = told(*LUNCH_AND_BUILD, *NEW_SUBJECT)
    borders = [messages[3].sent_at, messages[5].sent_at]
    whole = disentangle([], aloud(messages), borders=borders)
    for cut in range(1, len(messages)):
        before = past_of(whole[:cut], messages[:cut])
        assert disentangle(before, aloud(messages[cut:]), borders=borders) == whole[cut:]


def test_replies_across_a_border_to_the_same_message_are_a_conversation_of_their_own():
    lines = [
        said("a", body="lunch?"),
        said("b", 1, by="bo", body="yes, at noon", answers="a"),
        said("c", 3, by="cy", body="for lunch I bring soup", answers="a"),
        said("d", 4, by="dee", body="the build is red again"),
        said("e", 5, by="bo", body="soup, thank you", answers="a"),
        said("f", 6, by="cy", body="you are welcome", answers="e"),
    ]
    border = START + timedelta(minutes=2)
    found = disentangle([], aloud(lines), borders=[border])
    assert [grouped(found)[place] for place in (0, 1, 2, 4, 5)] == [0, 0, 1, 1, 1]
    assert [one.split_reason for one in found[:3]] == ["first", None, "topic"]
    assert [(one.parent_id, one.method) for one in found[2:5:2]] == [(message_id("a"), "explicit")] * 2
    whole = AssignedParent(conversation_id=found[0].conversation_id, sent_at=START)
    for cut in (2, 3, 4):
        before = past_of(found[2:cut], lines[2:cut])
        distant = {message_id("a"): whole}
        again = disentangle(before, aloud(lines[cut:]), distant=distant, borders=[border])
        assert [one.conversation_id for one in again] == [one.conversation_id for one in found[cut:]]


def test_a_whisper_goes_on_across_a_border():
    mine = whispered("ana bo")
    pair = [NewMessage(message=said(f"{n}", n), audience=mine) for n in range(2)]
    assert grouped(disentangle([], pair, borders=[START + timedelta(seconds=1)])) == [0, 0]


def test_a_manual_assignment_stays_and_its_replies_follow():
    messages = told(*LUNCH_AND_BUILD)
    elsewhere = ConversationId(UUID(int=6))
    new = aloud(messages)
    new[0] = replace(new[0], pinned_id=elsewhere)
    found = disentangle([], new)
    assert found[0].conversation_id == elsewhere
    assert found[0].split_reason is None
    assert found[2].conversation_id == elsewhere
    assert found[1].conversation_id != elsewhere


def whispered(names: str) -> WhisperAudience:
    return frozenset(person(name) for name in names.split())


def test_whispers_are_grouped_by_audience_without_prediction():
    aside = whispered("ana bo")
    found = disentangle(
        [],
        [
            NewMessage(message=said("a")),
            NewMessage(message=said("b", 1), audience=aside),
            NewMessage(message=said("c", 2), audience=whispered("ana cy")),
            NewMessage(message=said("d", 3, by="bo"), audience=aside),
            NewMessage(message=said("e", 500, by="bo"), audience=aside),
        ],
    )
    assert grouped(found) == [0, 1, 2, 1, 3]
    assert [one.split_reason for one in found] == ["first", "idle", "idle", None, "idle"]
    assert {one.parent_id for one in found} == {None}


def test_other_peoples_whispers_change_nothing():
    mine, theirs = whispered("ana bo"), whispered("cy dee")
    between = [NewMessage(message=said(f"x{n}", 1, by="cy"), audience=theirs) for n in range(3 * WINDOW)]
    first = NewMessage(message=said("a"), audience=mine)
    answer = NewMessage(message=said("b", 5, by="bo"), audience=mine)
    found = disentangle([], [first, *between, answer])
    assert found[-1].conversation_id == found[0].conversation_id
    lines = told(*LUNCH_AND_BUILD)
    interrupted = [*aloud(lines[:4]), *between, *aloud(lines[4:])]
    open_ids = {one.id for one in lines}
    found = disentangle([], interrupted)
    assert [one for one in found if one.message_id in open_ids] == disentangle([], aloud(lines))


@pytest.mark.parametrize(
    ("pause", "silence"),
    [(0.1, SHORTEST_SILENCE), (5, timedelta(minutes=150)), (600, LONGEST_SILENCE)],
)
def test_the_long_silence_depends_on_the_pace_of_the_room(pause: float, silence: timedelta):
    found = disentangle([], aloud([said(f"{number}", pause * number) for number in range(20)]))
    assert found[-1].idle_timeout == silence


def test_a_conversation_has_a_stable_id_that_does_not_reveal_its_first_message():
    [found] = disentangle([], aloud([said("a")]))
    assert found.conversation_id == conversation_id_for(message_id("a")) != message_id("a")
