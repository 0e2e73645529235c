"""Whether an agent answers at all: told from what it hears alone, with a reason, and never in a loop."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.test_memory_section import remembered
from roomlore.agents.recall import MemoryMatch
from roomlore.agents.reply_policy import (
    DEFAULT_POLICY,
    ReplyPolicy,
    SaidMessage,
    Situation,
    decide,
)
from roomlore.text.mentions import addressed_by_name

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
PIP, POP, QUIP, ANA, BO = (UUID(int=number) for number in range(1, 6))
KINDS = {PIP: "agent", POP: "agent", QUIP: "agent", ANA: "human", BO: "human"}
STATEMENT = "the kiln has reached nine hundred degrees"
ASKS = "who has the key of the kiln?"


def said(by, body=STATEMENT, *, to=(), answers=None, second=0) -> SaidMessage:
    return SaidMessage(
        id=uuid4(),
        author_id=by,
        author_kind=KINDS[by],
        sent_at=START + timedelta(seconds=second),
        body=body,
        addressee_ids=frozenset(to),
        reply_to=answers,
    )


def match(relevance: float) -> MemoryMatch:
    return MemoryMatch(memory=remembered(1, "observations").memory, relevance=relevance)


def heard(*lines: SaidMessage, after=(), known=()) -> Situation:
    """Return what Pip hears when the last of these is in question."""
    *before, trigger = lines
    return Situation(
        own_ids=frozenset({PIP}), trigger=trigger, before=before[::-1], after=after, matches=known
    )


def test_an_agent_rests_after_its_own_message_except_for_a_human_who_addresses_it():
    own = said(PIP, second=0)
    policy = ReplyPolicy(pause=30)
    for trigger in (said(POP, to=[PIP], second=29), said(ANA, ASKS, second=29)):
        decision = decide(heard(own, trigger, known=[match(0.9)]), policy=policy)
        assert not decision.answer
        assert decision.reason.what == "the agent wrote a moment ago"
        assert decision.reason.message_ids == [own.id]
        assert decide(heard(own, trigger, known=[match(0.9)])).answer
    assert decide(heard(own, said(ANA, to=[PIP], second=1)), policy=policy).answer
    assert decide(heard(own, said(ANA, ASKS, second=30), known=[match(0.9)]), policy=policy).answer


def test_a_decision_says_what_sets_the_answer_off():
    assert decide(heard(said(ANA, to=[PIP]))).cause == "addressed"
    assert decide(heard(said(ANA, ASKS), known=[match(0.9)])).cause == "asked"
    assert decide(heard(said(ANA, ASKS))).cause is None
    assert decide(heard(said(ANA))).cause is None


def test_a_message_to_the_agent_is_answered():
    decision = decide(heard(said(ANA, to=[PIP])))
    assert (decision.answer, decision.score, decision.reason.what) == (True, 1.0, "it is said to the agent")


def test_a_message_to_several_is_answered():
    assert decide(heard(said(ANA, to=[PIP, BO]))).answer


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (said(PIP, to=[ANA]), "the agent said it itself"),
        (said(ANA, ASKS, to=[BO]), "it is said to somebody else"),
        (said(ANA, "thanks!"), "it is small talk"),
        (said(ANA, STATEMENT), "it asks for nothing"),
        (said(ANA, ASKS), "no memory bears on the question well enough"),
        (said(POP, "thank you!", to=[PIP]), "it is small talk of an agent"),
    ],
)
def test_other_messages_are_left_alone_with_a_reason(line, why):
    decision = decide(heard(line))
    assert (decision.answer, decision.score, decision.reason.what) == (False, 0.0, why)
    assert decision.reason.message_ids == [line.id]


@pytest.mark.parametrize(("fit", "answers"), [(0.39, False), (0.4, True)])
def test_a_memory_at_the_threshold_is_relevant(fit, answers):
    known = [MemoryMatch(memory=remembered(1, "observations").memory, relevance=fit)]
    assert decide(heard(said(ANA, ASKS), known=known), policy=ReplyPolicy(threshold=0.4)).answer == answers


def test_an_unreadable_message_is_left_alone():
    assert not decide(Situation(own_ids=frozenset({PIP}), trigger=None)).answer


@pytest.mark.parametrize("how", ["reply", "name"])
def test_a_question_that_somebody_answered_is_left_alone(how):
    question = said(ANA, ASKS)
    answer = said(BO, answers=question.id) if how == "reply" else said(BO, to=[ANA])
    decision = decide(heard(question, after=[answer]))
    assert (decision.reason.what, decision.reason.message_ids) == ("somebody answered it", [answer.id])
    # Whoever asks again answers nothing.
    again = said(ANA, answers=question.id)
    assert decide(heard(question, after=[again])).reason.what.startswith("no memory")


# The guard between agents


def to_and_fro(rounds: int) -> list[SaidMessage]:
    """Return what Pop and Pip say to each other, Pop last."""
    lines = [said(POP, to=[PIP])]
    for _ in range(rounds):
        lines += [said(PIP, to=[POP]), said(POP, to=[PIP])]
    return lines


def test_two_agents_go_to_and_fro_so_often_and_no_more():
    answers = [decide(heard(*to_and_fro(rounds))).answer for rounds in range(5)]
    assert answers == [True, True, True, False, False]
    assert "to and fro 3 times" in decide(heard(*to_and_fro(3))).reason.what


@pytest.mark.parametrize("to", [(), (PIP,), (POP,)])
def test_a_human_resets_the_loop_guard(to):
    lines = to_and_fro(3)
    assert decide(heard(*lines, said(ANA, to=to), said(POP, to=[PIP]))).answer


def test_humans_among_themselves_do_not():
    lines = [*to_and_fro(3), said(ANA, to=[BO]), said(BO, to=[ANA])]
    assert not decide(heard(*lines, said(POP, to=[PIP]))).answer


def test_a_human_is_answered_however_long_agents_went_on():
    assert decide(heard(*to_and_fro(9), said(ANA, to=[PIP]))).answer


def test_a_row_of_agents_comes_to_an_end_though_it_had_little_part_in_it():
    row = [said(who) for who in (POP, QUIP) * 4]
    assert decide(heard(*row[1:], said(POP, to=[PIP]))).answer
    decision = decide(heard(*row, said(POP, to=[PIP])))
    assert not decision.answer
    assert decision.reason.what == "the last 9 messages by agents alone"
    assert len(decision.reason.message_ids) == 9


def test_an_agent_with_most_messages_is_silent():
    own = [line for _ in range(6) for line in (said(PIP), said(ANA))]
    assert decide(heard(*own[-8:], said(POP, to=[PIP]))).answer
    monologue = [*(said(PIP) for _ in range(6)), said(ANA)]
    assert "6 of the last 10" in decide(heard(*monologue, said(POP, to=[PIP]))).reason.what


def test_limits_can_be_set():
    assert not decide(heard(*to_and_fro(1)), policy=ReplyPolicy(max_agent_rounds=0)).answer
    assert decide(heard(*to_and_fro(4)), policy=ReplyPolicy(max_agent_rounds=9, max_agent_run=99)).answer


speakers = st.sampled_from(list(KINDS))
lines = st.builds(said, speakers, st.sampled_from([STATEMENT, ASKS, "hi"]), to=st.sets(speakers, max_size=2))


@settings(max_examples=40)
@given(st.lists(lines, min_size=1, max_size=30))
def test_a_decision_has_a_bounded_score_and_known_evidence(told):
    decision = decide(heard(*told))
    assert 0 <= decision.score <= 1
    assert decision.reason.what
    assert set(decision.reason.message_ids) <= {one.id for one in told}
    assert decision.answer <= (decision.score > 0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([PIP, POP, QUIP]), min_size=0, max_size=6), st.lists(lines, max_size=12))
def test_agents_among_themselves_always_stop(order, past):
    """However agents take turns, each calling all others: within as many messages as the longest run, Pip is silent."""
    told = [one for one in past if one.author_id != PIP]
    answered = 0
    for by in [POP, QUIP, *order] * 40:
        if by == PIP:
            continue
        told.append(said(by, to=set(KINDS) - {by}))
        if not decide(heard(*told)).answer:
            break
        told.append(said(PIP, to=set(KINDS) - {PIP}))
        answered += 1
    else:
        pytest.fail("it never ends")
    assert answered <= DEFAULT_POLICY.max_agent_rounds + 1


# By name


@pytest.mark.parametrize(
    ("bodies", "called"),
    [
        ("pip: look|Pip, can you look?|@pip look|thanks pip!|what now, Pip?|hey pip", True),
        ("pip can you look?|ana, pip: look|It leaks. Pip!", True),
        ("I told pip about it|pip's answer was wrong|a pipette is missing, is it not?", False),
        ("> pip: look\nthat is what she wrote|was it pip who said so?|pip told me so", False),
    ],
)
def test_a_called_name_is_an_addressee_and_a_mentioned_one_is_not(bodies, called):
    for body in bodies.split("|"):
        assert (PIP in addressed_by_name(body, {"Pip": [PIP], "Ana": [ANA]})) == called, body


def test_two_of_one_name_are_both_called():
    assert addressed_by_name("sam: look", {"Sam": [ANA, PIP]}) == {ANA, PIP}
    assert addressed_by_name("thanks Sam Reed!", {"Sam Reed": [ANA]}) == {ANA}
    assert addressed_by_name("@", {"": [ANA], " ": [BO]}) == frozenset()
