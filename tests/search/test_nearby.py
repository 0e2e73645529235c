"""What is near whoever asks goes first, and nothing else changes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.search.ranking import PERSON_BOOST, ProximityBoost, boost_near
from roomlore.search.records import MatchReason

ANA, BO, CY = (ParticipantId(UUID(int=number)) for number in (1, 2, 3))


def said(number: int) -> MessageId:
    return MessageId(UUID(int=100 + number))


def why(score: float) -> MatchReason:
    return MatchReason(score=score, similarity=None, coverage=None, terms=())


def ordered(scores: list[float]) -> dict[MessageId, MatchReason]:
    return {said(place): why(score) for place, score in enumerate(sorted(scores, reverse=True))}


def test_of_two_that_fit_alike_the_one_by_whom_the_asker_talks_to_goes_first():
    reasons = ordered([0.9, 0.5, 0.49, 0.1])
    authors = dict(zip(reasons, [CY, CY, BO, CY], strict=True))
    near = ProximityBoost(own_account_ids=frozenset({ANA}), person_weights={BO: 1.0})

    assert list(boost_near(reasons, authors, near)) == [said(0), said(2), said(1), said(3)]


def test_own_words_go_before_those_of_others_and_grounds_of_memories_before_other_words():
    near = ProximityBoost(
        own_account_ids=frozenset({ANA}), person_weights={BO: 0.5}, message_weights={said(1): 1.0}
    )

    assert (
        near.boost_for(said(0), ANA)
        > near.boost_for(said(0), BO)
        == PERSON_BOOST / 2
        > near.boost_for(said(0), CY)
        == 0
    )
    assert near.boost_for(said(1), CY) > 0
    assert near.boost_for(said(0), None) == 0


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
    st.lists(st.sampled_from([ANA, BO, CY]), min_size=12, max_size=12),
    st.integers(0, 12),
)
def test_nothing_is_found_or_lost_and_the_scores_keep_their_range(
    scores: list[float], writers: list[ParticipantId], known: int
):
    reasons = ordered(scores)
    authors = dict(zip(list(reasons)[:known], writers, strict=False))
    near = ProximityBoost(
        own_account_ids=frozenset({ANA}), person_weights={BO: 0.7}, message_weights={said(3): 0.4}
    )

    found = boost_near(reasons, authors, near)

    assert set(found) == set(reasons)
    values = [one.score for one in found.values()]
    assert values == sorted(values, reverse=True)
    if known:
        assert max(values) == pytest.approx(max(scores))
        assert min(values) >= min(scores) - 1e-9
    assert {key: one.score for key, one in found.items() if key not in authors} == {
        key: one.score for key, one in reasons.items() if key not in authors
    }


def test_with_nobody_near_the_order_stays():
    reasons = ordered([0.9, 0.5, 0.2])
    authors = dict.fromkeys(reasons, CY)

    found = boost_near(reasons, authors, ProximityBoost(own_account_ids=frozenset()))

    assert list(found) == list(reasons)
    assert [one.score for one in found.values()] == pytest.approx([one.score for one in reasons.values()])
