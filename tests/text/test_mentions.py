import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.text.mentions import LONGEST_NAME, aliases, mention_words


def rare(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    "body", ["anna: yes", "anna, yes", "@anna yes", "well yes @anna", "bob, anna: yes", "ANNA: yes"]
)
def test_a_name_is_loud_at_the_beginning_and_after_an_at_sign(body):
    assert "anna" in mention_words(body).loud


@pytest.mark.parametrize(
    "body", ["thanks anna", "anna yes", "yes (anna)", "is that so, anna?", "did anna: no"]
)
def test_a_name_elsewhere_is_plain(body):
    called = mention_words(body)
    assert "anna" in called.plain
    assert "anna" not in called.loud


def test_words_that_only_call_are_counted():
    assert mention_words("bob, anna: look here").opening == 2
    assert mention_words("look here, anna").opening == 0


def test_a_name_of_marks_is_found_with_its_marks_and_without():
    assert {"|trey|:"[:-1], "|trey|"} <= set(mention_words("|trey|: hi").loud)
    loud, plain = aliases("|trey|", rare)
    assert {"|trey|", "trey"} <= loud & plain


@pytest.mark.parametrize("name", ["mike_", "mike__", "mike|away", "mike-2", "mike[m]", "Mike", "mike`"])
def test_suffixes_of_a_name_can_be_left_out(name):
    assert "mike" in aliases(name, rare)[1]


def test_the_first_of_several_names_calls_as_does_the_whole_without_spaces():
    loud, plain = aliases("Anna Lee", rare)
    assert {"anna", "annalee"} <= plain
    assert "lee" not in loud


def test_a_common_word_or_a_very_short_one_is_a_name_only_when_loud():
    loud, plain = aliases("usual", lambda word: word == "usual")
    assert "usual" in loud
    assert "usual" not in plain
    loud, plain = aliases("al", rare)
    assert "al" in loud
    assert "al" not in plain


def test_an_abbreviation_calls_only_when_loud():
    loud, plain = aliases("thoreauputic", rare)
    assert "thor" in loud
    assert "thor" not in plain
    assert "tho" not in loud


def test_a_beginning_that_is_a_common_word_is_no_abbreviation():
    assert "this" not in aliases("thisbe", lambda word: word == "this")[0]


def test_a_very_long_word_is_not_a_name():
    called = mention_words("x" * (LONGEST_NAME + 1) + ": look")
    assert called.loud == ()
    assert called.plain == ("look",)


@given(st.text(max_size=300))
def test_any_text_has_distinct_mention_words(body):
    called = mention_words(body)
    every = (*called.loud, *called.plain)
    assert len(set(every)) == len(every)
    assert all(word == word.lower() and word for word in every)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_plain_aliases_are_also_loud(name):
    loud, plain = aliases(name, rare)
    assert plain <= loud
    assert all(" " not in word for word in loud)
