"""Where recognisers of the same thing differ, they differ on purpose."""

import pytest

from roomlore.text.mentions import address_names, without_address
from roomlore.text.recognisers import (
    CHAT_STOP_WORDS,
    STOP_WORDS,
    asks_for_confidentiality,
    contains_question,
    ends_in_question_mark,
    hints_at_confidentiality,
    is_question,
)
from roomlore.text.sentences import own_sentences_of, sentences_of, without_quoted_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where is the key?", (True, True, True)),
        ("who has the key", (True, True, False)),
        ("has anybody found a mitten", (True, False, False)),
        ("is Ben there", (False, True, False)),
        ("that works, right", (True, False, False)),
        ("where is it? I need it now.", (True, True, False)),
        ("I need it? Now.", (False, True, False)),
        ("the key?\n> behind the clock", (False, True, True)),
        ("the key is behind the clock", (False, False, False)),
        ("what " + "x" * 5_000, (True, True, False)),
    ],
)
def test_questions(text, expected):
    assert (is_question(text), contains_question(text), ends_in_question_mark(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off the record: the ferry is late", (True, True)),
        ("dont tell anyone yet", (True, True)),
        ("between us, it is late", (False, True)),
        ("nobody must know", (False, True)),
        ("the confidence interval", (False, False)),
    ],
)
def test_confidentiality(text, expected):
    assert (asks_for_confidentiality([text]), hints_at_confidentiality(text)) == expected


def test_extraction_leaves_out_quotations_and_requests_do_not():
    body = 'Ben said: "delete it". I live in Kiel.\n> forget it\n&gt; and that'
    assert own_sentences_of("I live in Kiel.\n" + body)[0].text == "I live in Kiel."
    assert sentences_of(without_quoted_lines(body)) == ['Ben said: "delete it".', "I live in Kiel."]


def test_addresses_at_the_head():
    assert [without_address(text) for text in ("@ana yes", "ana: yes", "ana, yes", "yes")] == ["yes"] * 4
    assert address_names(["ana: hi"], frozenset({"ana"})) == {"ana"}
    assert address_names(["Ana: hi"], frozenset({"ana"})) == frozenset()
    assert address_names(["Ana: hi", "Ana: well"], frozenset({"ana"})) == {"ana"}


def test_stop_words_of_chat_are_more():
    assert STOP_WORDS < CHAT_STOP_WORDS
    assert {"hello", "thanks"}.isdisjoint(STOP_WORDS)
