import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.memories.normalisation import digest_of, normalised

SAME = [
    ("Ana prefers dark mode.", "ana  prefers DARK mode"),
    ("**Bo** uses `vim`", "Bo uses vim"),
    ("Cy\u2019s laptop can\u2019t sleep", "Cy's laptop can't sleep"),
    ("Ana: \u201cI prefer dark mode\u201d", 'Ana: "I prefer dark mode."'),
    ("The deploy is at 10:30.", "the deploy is at 10:30"),
]
#: Near, and something else.
DIFFERENT = [
    ("Ana is vegan.", "Ana is not vegan."),
    ("The port is 5432.", "The port is 5433."),
    ("Version 3.11 is needed.", "Version 3.1.1 is needed."),
    ("It is -5 outside.", "It is 5 outside."),
    ("We use C", "We use C++"),
    ("Ana prefers tabs over spaces.", "Ana prefers spaces over tabs."),
    ("Ana: \u201cI live in Porto\u201d", "Bo: \u201cI live in Porto\u201d"),
    ("The call is at 10:30.", "The call is at 10.30."),
    ("ok \U0001f44d", "ok \U0001f44e"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_case_spacing_and_punctuation_do_not_matter(one, other):
    assert normalised(one) == normalised(other)
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_words_are_another_statement(one, other):
    assert digest_of(one) != digest_of(other)


@given(st.text(min_size=1).filter(str.strip))
def test_every_text_has_a_normal_form(text):
    assert normalised(normalised(text)) == normalised(text)
