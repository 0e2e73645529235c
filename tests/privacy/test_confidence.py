"""What says of itself that it is not for everybody, and what only has a word of that."""

import pytest

from roomlore.privacy.recogniser import is_confidential

TOLD = "the kiln phone is 415-555-0142"


@pytest.mark.parametrize(
    "said",
    [
        "confidential: {}",
        "Strictly confidential. {}",
        "this is strictly confidential, {}",
        "it's confidential: {}",
        "{}; it stays confidential",
        "a temporary confidential callback number: {}",
        "sensitive: {}",
        "this is very sensitive: {}",
        "treat this as highly sensitive: {}",
        "Treat that exact number as sensitive. {}",
        "{}, not for the record",
        "{}. Don't share it.",
        "{}; never reveal this to anyone",
        "{}. Do not share it with my mother.",
        "{}. Do not expose this to Mira.",
        "do not share any of this with the vendor: {}",
    ],
)
def test_what_is_told_in_confidence_says_so(said):
    assert is_confidential(said.format(TOLD))


@pytest.mark.parametrize(
    "said",
    [
        "treat names as case sensitive, {}",
        "treat it as case sensitive, {}",
        "this is no longer confidential: {}",
        "no longer confidential: {}",
        "this is non confidential: {}",
        "Non-confidential. {}",
        "it isn't confidential, {}",
        "the confidential shredding firm is at 12 Mill Lane, {}",
        "confidential shredding is on Monday, {}",
        "don't share it with water, {}",
        "never expose it to frost, {}",
        "do not share this taxi, {}",
        "is it confidential that {}?",
        "no confidential details here: {}",
    ],
)
def test_what_has_a_word_of_confidence_tells_nothing_in_confidence(said):
    assert not is_confidential(said.format(TOLD))
