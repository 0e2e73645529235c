from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.telling import START, message, person, rooms, said, told
from roomlore.conversations import reply_model
from roomlore.conversations.features import (
    MESSAGE_FEATURE_NAMES,
    MESSAGE_FEATURES,
    PAIR_FEATURE_NAMES,
    PAIR_FEATURES,
    FeatureExtractor,
    Features,
)
from roomlore.conversations.window import WINDOW, ConversationMessage, Window


def opened() -> Window:
    return Window(reply_model.load().lexicon)


def seen_last(lines: list[ConversationMessage], parents: dict[int, int] | None = None) -> Features:
    """What the last of some lines looks like when the others stand before it with those parents."""
    window = opened()
    for number, line in enumerate(lines[:-1]):
        back = (parents or {}).get(number)
        window.add(window.parse(line), None if back is None else lines[back].id)
    return FeatureExtractor(window).extract(window.parse(lines[-1]))


def pair(seen: Features, name: str) -> list[float]:
    """One feature of the candidates there are, oldest first."""
    return [float(value) for value in seen.pairs[PAIR_FEATURE_NAMES.index(name)][WINDOW - seen.count :]]


def own(seen: Features, name: str) -> float:
    return float(seen.own[MESSAGE_FEATURE_NAMES.index(name)])


def test_every_feature_has_a_name_of_its_own():
    assert len(set(PAIR_FEATURE_NAMES)) == PAIR_FEATURES
    assert len(set(MESSAGE_FEATURE_NAMES)) == MESSAGE_FEATURES
    seen = seen_last(told(("anna", "hello"), ("dd", "hi")))
    assert seen.pairs.shape == (PAIR_FEATURES, WINDOW)
    assert seen.own.shape == (MESSAGE_FEATURES,)


def test_mentions_count_both_ways():
    seen = seen_last(told(("anna", "carla: hello"), ("dd", "hello all"), ("Carla Weiss", "dd: hi")))
    assert pair(seen, "is called") == [0.0, 1.0]
    assert pair(seen, "is called loud") == [0.0, 1.0]
    assert pair(seen, "calls author") == [1.0, 0.0]


def test_a_platform_mention_calls_as_a_name_does():
    lines = told(("anna", "hello"), ("dd", "hello"))
    lines.append(replace(said(2, "zoë|away", "look"), mentions=frozenset({person("anna")})))
    assert pair(seen_last(lines), "is called") == [1.0, 0.0]


def test_a_name_is_known_also_when_its_bearer_speaks_later():
    seen = seen_last(told(("anna", "dd: are you there?"), ("dd", "yes"), ("dd", "now")))
    assert pair(seen, "calls author") == [1.0, 0.0]


def test_a_common_word_is_no_plain_mention():
    seen = seen_last(told(("the", "hello"), ("anna", "the kernel does not boot")))
    assert pair(seen, "is called") == [0.0]
    seen = seen_last(told(("the", "hello"), ("anna", "the: hello")))
    assert pair(seen, "is called") == [1.0]


def test_rare_words_and_addresses_in_both_make_alike():
    seen = seen_last(
        told(
            ("anna", "where is squirrelmail?"),
            ("dd", "see https://example.org/x"),
            ("carla", "squirrelmail is gone"),
        )
    )
    first, second = pair(seen, "likeness")
    assert first > 0.1
    assert second == 0.0


def test_answers_and_conversations_are_seen():
    lines = told(("anna", "q"), ("dd", "w"), ("carla", "a"), ("anna", "thanks"), ("dd", "so"))
    seen = seen_last(lines, {2: 0, 3: 2})
    assert pair(seen, "starts") == [1.0, 1.0, 0.0, 0.0]
    assert pair(seen, "its last") == [0.0, 1.0, 0.0, 1.0]
    assert pair(seen, "author in it") == [0.0, 1.0, 0.0, 0.0]
    assert pair(seen, "conversation size") == pytest.approx(np.log1p([3, 1, 3, 3]))


def test_two_answers_to_a_dropped_message_are_one_conversation():
    window = opened()
    for number in range(WINDOW):
        window.add(window.parse(said(number, "anna", "q")), None)
    window.add(window.parse(said(500, "dd", "a")), message(3))
    window.add(window.parse(said(501, "carla", "b")), message(3))
    for number in range(600, 620):
        window.add(window.parse(said(number, "bob_", "c", seconds=9000)), None)
    seen = FeatureExtractor(window).extract(window.parse(said(700, "dd", "d", seconds=9000)))
    here = pair(seen, "author in it")
    assert [place for place, there in enumerate(here) if there] == [WINDOW - 22, WINDOW - 21]


def test_a_conversation_splits_when_its_parent_is_dropped():
    window = opened()
    window.add(window.parse(said(500, "dd", "a")), message(3))
    window.add(window.parse(said(501, "carla", "b")), message(3))
    window.add(window.parse(said(502, "anna", "c")), message(500))
    window.add(window.parse(said(503, "dd", "d")), message(502))
    for number in range(600, 596 + WINDOW):
        window.add(window.parse(said(number, "bob_", "e", seconds=9000)), None)
    next_one = window.parse(said(900, "carla", "f", seconds=9000))
    seen = FeatureExtractor(window).extract(next_one)
    assert len(set(seen.conversations[:4].tolist())) == 1
    assert pair(seen, "conversation size")[:4] == pytest.approx(np.log1p([4] * 4))
    assert pair(seen, "author in it")[:4] == [1.0] * 4
    window.add(window.parse(said(800, "bob_", "g", seconds=9000)), None)
    seen = FeatureExtractor(window).extract(next_one)
    first, second, third, *_ = seen.conversations.tolist()
    assert first != second == third
    assert pair(seen, "conversation size")[:3] == pytest.approx(np.log1p([1, 2, 2]))
    assert pair(seen, "author in it")[:3] == [1.0, 0.0, 0.0]
    assert pair(seen, "its last")[:3] == [1.0, 0.0, 1.0]


def test_the_pace_of_a_room_measures_its_times():
    """A room told fifty times slower looks the same in paces, though not by the clock."""
    lines = told(*((name, "hello there") for _ in range(15) for name in ("anna", "dd", "carla")))
    slow = [replace(line, sent_at=START + (line.sent_at - START) * 50) for line in lines]
    quick, slowed = seen_last(lines), seen_last(slow)
    assert pair(quick, "time in paces") == pytest.approx(pair(slowed, "time in paces"), abs=1e-5)
    assert pair(quick, "time")[0] < pair(slowed, "time")[0]


def test_times_that_go_backwards_are_no_time():
    lines = told(("anna", "hello"), ("dd", "hi"))
    seen = seen_last([lines[0], replace(lines[1], sent_at=START - timedelta(days=9))])
    assert pair(seen, "time") == [0.0]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rooms(), st.data())
def test_features_depend_only_on_the_window(room: list[ConversationMessage], data: st.DataObject):
    """A window filled with the last messages only sees the next one bit for bit as one that was there all along."""
    window = opened()
    chance = data.draw(st.randoms(use_true_random=False))
    parents = []
    for number, line in enumerate(room[:-1]):
        back = chance.randint(1, 130)
        parents.append(room[number - back].id if back <= number and chance.random() < 0.7 else None)
        window.add(window.parse(line), parents[-1])
    fresh = opened()
    for line, parent in list(zip(room[:-1], parents, strict=True))[-WINDOW:]:
        fresh.add(fresh.parse(line), parent)
    one = FeatureExtractor(window).extract(window.parse(room[-1]))
    other = FeatureExtractor(fresh).extract(fresh.parse(room[-1]))
    rows = WINDOW - one.count
    assert one.count == other.count
    assert one.addressed_ids == other.addressed_ids
    assert one.pairs[:, rows:].tobytes() == other.pairs[:, rows:].tobytes()
    assert one.own.tobytes() == other.own.tobytes()
    assert np.isfinite(one.pairs).all()
    assert np.isfinite(one.own).all()
