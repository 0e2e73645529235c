"""What of a message counts as its author's own words, and where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.text.sentences import MASK, own_sentences_of

PIECES = "\"|“|”|„|«|»|'|\n| |. |I live here|27|Bo said: |imagine|...".split("|")


def own(body: str) -> str:
    """The words that are left to the author."""
    texts = (one.text for one in own_sentences_of(body))
    return " ".join(" ".join(text.replace(MASK, " ") for text in texts).split())


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_sentences_are_ordered_and_have_words(body):
    found = own_sentences_of(body)
    reached = 0
    for one in found:
        assert reached <= one.start < one.end <= len(body)
        assert any(letter.isalnum() for letter in one.text)
        # What is not covered stands there as said; every apostrophe is one kind.
        assert all(mine in {MASK, theirs} for mine, theirs in zip(one.text, body[one.start :], strict=False))
        reached = one.end


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ('He texted "hi,\nI live in Kiel.\nbye" and left.', "He texted and left."),
        ("She wrote “hi,\nI live in Kiel.\nbye” once.", "She wrote once."),
        ("«hi,\nI live in Kiel.» Indeed.", "Indeed."),
        ('"\nI live in Kiel\n"\nIndeed.', "Indeed."),
        ('It says "hi\nI live in Kiel.', "It says"),
        ('" I live in Kiel.\nMe too.', ""),
        ('Read this: "One.\n\n"Two." It is hers.', "Read this: It is hers."),
        ('27" wide\nand 5\'10" tall\nis fine', '27" wide and 5\'10" tall is fine'),
        ("'I don't know. I live in Kiel', he sang", ", he sang"),
    ],
)
def test_quotations_are_masked_over_several_lines(body, left):
    assert own(body) == left


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("Bo said: hello. I live in Kiel.\nMe too.", "Bo said:"),
        ("Bo said: hello. I live in Kiel.\n\nMe too.", "Bo said: Me too."),
        ("My aunt writes (to all): hello. I live in Kiel.", "My aunt writes (to all):"),
        ("Here's my answer: hello. I live in Kiel.", "Here's my answer: hello. I live in Kiel."),
        ("As I said: hello. I live in Kiel.", "As I said: hello. I live in Kiel."),
        ("According to Bo:\nI live in Kiel.", ""),
        ("So be it. Imagine this. I live in Kiel.\nMe too.", "So be it. Imagine this."),
        ("I can imagine. I live in Kiel.", "I can imagine. I live in Kiel."),
        ("...", ""),
    ],
)
def test_reported_words_are_left_out(body, left):
    assert own(body) == left
