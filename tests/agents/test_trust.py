"""How far somebody is trusted: bounded, explained, and not to be talked up by agents."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.agents.trust import OF_AGENTS, OF_HUMANS, StatedTrust, reasons, relationship, trust
from roomlore.db.agents import InteractionStats

NOW = datetime(2025, 6, 1, tzinfo=UTC)
FEW = st.integers(0, 50).map(float)


def met(
    kind="human", *, conversations=0.0, exchanges=0.0, confirmed=0.0, corrected=0.0, stated=None
) -> InteractionStats:
    return InteractionStats(
        id=UUID(int=1),
        name="Ana",
        kind=kind,
        conversations=round(conversations),
        messages=9,
        answered=round(exchanges),
        answers=0,
        confirmed=round(confirmed),
        corrected=round(corrected),
        last_met_at=NOW,
        conversations_now=conversations,
        exchanges_now=exchanges,
        confirmed_now=confirmed,
        corrected_now=corrected,
        stated_trust=stated,
        stated_at=None if stated is None else NOW,
    )


everybody = st.builds(
    met, st.sampled_from(["human", "agent"]), conversations=FEW, exchanges=FEW, confirmed=FEW, corrected=FEW
)


@given(everybody)
def test_trust_is_between_0_and_1(one):
    assert 0 < trust(one) < 1


def test_a_stranger_is_trusted_half_and_an_agent_less():
    assert trust(met()) == OF_HUMANS
    assert trust(met("agent")) == OF_AGENTS < OF_HUMANS


@given(conversations=FEW, exchanges=FEW)
def test_familiarity_alone_is_limited(conversations, exchanges):
    assert OF_HUMANS <= trust(met(conversations=conversations, exchanges=exchanges)) <= 0.75


@given(conversations=FEW, exchanges=FEW)
def test_agents_cannot_talk_each_other_up(conversations, exchanges):
    assert trust(met("agent", conversations=conversations, exchanges=exchanges)) == OF_AGENTS


def test_agreement_of_people_raises_trust_and_being_set_right_lowers_it():
    usual = trust(met(conversations=4))
    assert trust(met(conversations=4, corrected=2)) < usual < trust(met(conversations=4, confirmed=2))
    assert trust(met("agent", confirmed=3)) > OF_AGENTS


def test_reasons_name_what_changed_trust():
    told = reasons(met(conversations=3, exchanges=5, confirmed=2, corrected=1))
    assert [reason.what for reason in told] == [
        "3 conversations, 5 answers between them",
        "people agreed 2 times",
        "was set right 1 time",
    ]
    assert [reason.by > 0 for reason in told] == [True, True, False]


def test_trust_starts_at_a_stated_value_and_experience_moves_it():
    assert trust(met(stated=0.9)) == 0.9
    assert trust(met("agent", stated=0.9)) == 0.9
    assert trust(met(stated=0.9, corrected=2)) < 0.9 < trust(met(stated=0.9, confirmed=2))
    assert trust(met(stated=0.1, conversations=4)) > 0.1


def test_a_stated_value_is_shown_and_is_a_reason():
    told = relationship(met(stated=0.9))
    assert told.stated == StatedTrust(trust=0.9, stated_at=NOW, stated_by=None)
    [reason] = told.reasons
    assert reason.what == "0.90 was stated by an operator"
    assert reason.by == pytest.approx(0.4)
    assert relationship(met()).stated is None


@given(everybody)
def test_every_reason_changes_trust(one):
    told = relationship(one)
    assert all(reason.by != 0 for reason in told.reasons)
    if not told.reasons:
        assert told.trust == (OF_HUMANS if one.kind == "human" else OF_AGENTS)
