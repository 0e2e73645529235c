import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.context.tokens import MESSAGE_OVERHEAD, estimate_tokens, message_cost


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("привет", 3),
        ("会議は九時", 8),
        ("🎉", 2),
        ("\ud800", 2),
    ],
)
def test_the_estimate_counts_ascii_lightly_and_wide_letters_heavily(text, tokens):
    assert estimate_tokens(text) == tokens


@given(st.text(), st.text())
def test_a_longer_text_never_costs_less(one, other):
    assert estimate_tokens(one) <= estimate_tokens(one + other)


def test_a_message_costs_its_text_and_the_frame_around_it():
    assert message_cost("abc", len) == 3 + MESSAGE_OVERHEAD
