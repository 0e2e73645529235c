import numpy as np
import pytest

from conversations.telling import told
from roomlore.conversations.features import FeatureExtractor
from roomlore.conversations.reply_model import WEIGHTS, load, load_from
from roomlore.conversations.window import WINDOW, Window


def scores_of(*lines: tuple[str, str]):
    model = load()
    window = Window(model.lexicon)
    *before, last = told(*lines)
    for line in before:
        window.add(window.parse(line), None)
    seen = FeatureExtractor(window).extract(window.parse(last))
    return model, model.scores(seen), seen.conversations


def test_the_weights_are_small_and_hold_numbers_only():
    assert WEIGHTS.stat().st_size < 1_000_000
    with np.load(WEIGHTS, allow_pickle=False) as stored:
        assert all(np.issubdtype(stored[name].dtype, np.floating) for name in stored.files)
        assert all(np.isfinite(stored[name]).all() for name in stored.files)


def test_loading_again_reads_nothing():
    assert load() is load()


def test_probabilities_sum_to_one():
    model, scores, conversations = scores_of(
        ("anna", "how do i mount a drive?"), ("dd", "hello"), ("carla", "anna: with mount")
    )
    shares = model.probabilities(scores)
    assert float(shares.sum()) == pytest.approx(1.0, abs=1e-5)
    assert not shares[: WINDOW - 2].any()
    assert model.choose(scores, conversations) == WINDOW - 2


def test_the_first_message_of_a_room_starts_a_conversation():
    model, scores, conversations = scores_of(("anna", "thanks, that worked"))
    assert model.choose(scores, conversations) == WINDOW
    assert float(model.probabilities(scores)[WINDOW]) == pytest.approx(1.0)


def test_messages_of_one_conversation_speak_for_each_other():
    model, scores, _ = scores_of(("anna", "hello"), ("dd", "hello"), ("carla", "hello"), ("zoë", "yes"))
    shares = np.zeros_like(scores)
    shares[-4:] = 0.3, 0.35, 0.3, 0.05
    conversations = np.arange(WINDOW)
    assert model.choose(np.log(shares + 1e-30), conversations) == WINDOW - 2
    conversations[WINDOW - 1] = WINDOW - 3
    assert model.choose(np.log(shares + 1e-30), conversations) == WINDOW - 3


def test_weights_made_for_other_features_are_refused_with_advice(tmp_path):
    with np.load(WEIGHTS, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays["pair_weights"] = arrays["pair_weights"][:, 1:]
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ValueError, match="train it again"):
        load_from(tmp_path / "other.npz")


def test_a_missing_file_says_which(tmp_path):
    with pytest.raises(OSError, match=r"nowhere\.npz"):
        load_from(tmp_path / "nowhere.npz")
