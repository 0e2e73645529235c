"""Hypotheses that are compared at once have the features that each has alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from roomlore.conversations.open_conversations import (
    CANDIDATES,
    NO_LABEL,
    TextProjections,
    candidates_of,
    features_of,
)
from roomlore.conversations.window import WINDOW
from training.mixing import Line
from training.train_conversation_model import see

PEOPLE = ("Ana", "Bo", "Cy")
TEXTS = ("shall we eat?", "Bo: yes, at noon", "the build is red", "ok", "thanks Ana!")
PROJECTIONS = TextProjections(
    np.eye(4, 2, dtype=np.float32), np.eye(4, 2, dtype=np.float32), np.ones(4, np.float32)
)


@st.composite
def rooms(draw: st.DrawFn) -> list[Line]:
    said = draw(st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(TEXTS)), min_size=2, max_size=14))
    return [Line(60.0 * place, who, 0, text) for place, (who, text) in enumerate(said)]


@given(rooms(), st.data())
@settings(max_examples=20, deadline=None)
def test_many_hypotheses_at_once_are_each_as_alone(room: list[Line], data: st.DataObject):
    chance = np.random.default_rng(0)
    vectors = chance.standard_normal((len(room), 4)).astype(np.float32)
    last = see(room, vectors, PROJECTIONS).arrivals[-1]
    before = len(room) - 1
    labels = np.full((3, WINDOW), NO_LABEL)
    for row in labels:
        row[-before:] = data.draw(st.lists(st.integers(0, 3), min_size=before, max_size=before))
    candidates = candidates_of(labels)
    pairs, own = features_of(last, labels, candidates)
    for row in range(len(labels)):
        alone = features_of(last, labels[row : row + 1], candidates_of(labels[row : row + 1]))
        np.testing.assert_allclose(pairs[row], alone[0][0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(own[row], alone[1][0], rtol=1e-5, atol=1e-6)


def test_the_latest_conversations_are_candidates_first():
    labels = np.full((1, WINDOW), NO_LABEL)
    labels[0, -4:] = [5, 7, 5, 9]
    assert candidates_of(labels)[0, :4].tolist() == [9, 5, 7, NO_LABEL]
    labels[0, -20:] = range(20)
    assert candidates_of(labels)[0].tolist() == list(range(19, 19 - CANDIDATES, -1))
