import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.remembering.gist import digest_of, gist

SAME = [
    ("Ana prefers dark mode.", "ana  really prefers the dark mode"),
    ("We don't deploy on Fridays!", "We do not deploy on Fridays"),
    ("Cy\u2019s laptop can\u2019t sleep", "Cy's laptop cannot sleep"),
    ("**Bo** uses `vim`", "Bo uses vim"),
    ("Dee's birthday is May 4", "Dee's birthday is May 4."),
]
DIFFERENT = [
    ("Ana prefers tabs over spaces.", "Ana prefers spaces over tabs."),
    ("Ana is vegan.", "Ana is not vegan."),
    ("The port is 5432.", "The port is 5433."),
    ("Version 3.11 is needed.", "Version 3.1.1 is needed."),
    ("Deploy before the standup.", "Deploy after the standup."),
    ("Only Bo has the key.", "Bo has the key."),
    ("It is -5 outside.", "It is 5 outside."),
    ("Cy lives in Porto.", "Cy lived in Porto."),
    ("We use C", "We use C++"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_says_the_same_has_one_digest(one, other):
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_says_something_else_has_another_digest(one, other):
    assert digest_of(one) != digest_of(other)


@given(st.text(min_size=1))
def test_a_gist_is_its_own_gist_and_is_never_empty_of_words(content):
    assert gist(gist(content)) == gist(content)
    assert gist(content) or not content.split()
