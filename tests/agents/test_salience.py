"""Which exchanges are worth remembering, told from their words alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.agents.interactions import SALIENCE_THRESHOLD, salience, salience_parts
from roomlore.db.agents import AgentReply


def exchange(trigger: str, reply: str, **fields) -> AgentReply:
    known = {"other_kind": "human", "is_addressed": True, "has_met": True, **fields}
    unread = set(AgentReply.__slots__) - {"trigger", "reply", *known}
    return AgentReply(trigger=trigger, reply=reply, **known, **dict.fromkeys(unread, None))


KEPT = [
    (
        "Pip, how do I restart the billing export when it hangs?",
        "Stop the worker, clear the lock file under var, then start it with --resume.",
    ),
    (
        "Which driver does the attic printer need?",
        "It needs toner-blue 4.2; the installer is on the shelf drive.",
    ),
    (
        "Let's go with PostgreSQL 16 for the archive.",
        "Noted: the archive runs on PostgreSQL 16, migration starts Monday.",
    ),
    (
        "Actually the invoice deadline moved to Friday, the ledger team needs two more days.",
        "I'll move the reminder to Friday and tell the ledger team.",
    ),
    (
        "We tried caching thumbnails in memory and the server ran out of it within an hour.",
        "Turns out each thumbnail keeps its original alive; a disk cache with a size limit avoids that.",
    ),
]
PASSED_OVER = [
    ("hi pip", "Hello!"),
    ("thanks!", "You're welcome"),
    ("lol", "haha"),
    ("good morning everyone", "Good morning!"),
    ("what?", "Could you say that again?"),
    ("ok cool", "Great."),
    ("are you there?", "Yes."),
    ("nice weather", "Indeed it is."),
]


@pytest.mark.parametrize(("trigger", "reply"), KEPT)
def test_questions_decisions_corrections_and_lessons_are_salient(trigger, reply):
    assert salience(exchange(trigger, reply)) >= SALIENCE_THRESHOLD


@pytest.mark.parametrize(("trigger", "reply"), PASSED_OVER)
def test_small_talk_becomes_no_memory(trigger, reply):
    assert salience(exchange(trigger, reply, has_met=False)) < SALIENCE_THRESHOLD


def test_many_words_alone_are_no_reason():
    words = " ".join(f"kiln{chr(97 + number)}" for number in range(26))
    assert salience(exchange(words, words, is_addressed=False)) < SALIENCE_THRESHOLD


def test_agents_among_themselves_are_worth_less():
    trigger, reply = KEPT[1]
    assert salience(exchange(trigger, reply, other_kind="agent")) < salience(exchange(trigger, reply))


def test_somebody_new_and_words_meant_for_the_agent_are_worth_more():
    plain = exchange("The kiln is hot", "Noted", is_addressed=False)
    assert salience_parts(plain).keys() == {"substance"}
    met = exchange("The kiln is hot", "Noted", has_met=False)
    assert salience_parts(met).keys() == {"substance", "somebody new", "said to the agent"}
    assert salience(met) > salience(plain)


def test_a_question_that_is_answered_with_a_question_is_not_answered():
    assert "question answered" not in salience_parts(exchange("Which driver?", "Which printer do you mean?"))
    assert "question answered" in salience_parts(exchange("Which driver?", "Toner-blue. Anything else?"))


@given(trigger=st.text(max_size=3000), reply=st.text(max_size=3000))
def test_salience_is_between_0_and_1(trigger, reply):
    assert 0 <= salience(exchange(trigger, reply)) <= 1


def test_a_giant_message_takes_no_time():
    assert salience(exchange("ha " * 200_000, "ok " * 200_000)) < SALIENCE_THRESHOLD
