"""A label tells what a conversation is about, by its own words."""

import pytest

from roomlore.conversations.message_text import BUCKETS, bucket, label_of, stem
from roomlore.text.recognisers import asks_for_confidentiality

COMMON = "the a i you is it to and of in for we do not does any have what on with that this"


def rarity(**known: float) -> list[float]:
    table = [6.0] * BUCKETS
    for word in COMMON.split():
        table[bucket(stem(word))] = 1.0
    for word, weight in known.items():
        table[bucket(stem(word))] = weight
    return table


def test_repeated_words_come_first():
    said = ["the printer is broken", "which printer do you have?", "a printer with toner", "the toner is in"]
    assert label_of(said, rarity=rarity()).split(", ")[:2] == ["printer", "toner"]


def test_words_of_every_conversation_tell_nothing():
    assert label_of(["what do you have", "i have it"], rarity=rarity()) == ""


def test_names_of_participants_are_no_topic():
    assert "marguerite" not in label_of(
        ["marguerite: the printer", "marguerite, marguerite!"], rarity=rarity(), names=["Marguerite"]
    )


def test_links_numbers_and_endless_words_are_no_topic():
    said = ["see https://example.org/secret/path 12345", f"{'x' * 90} 99 is", "ok"]
    assert label_of(said, rarity=rarity(see=1.0)) == ""


def test_the_same_messages_always_give_the_same_label():
    said = ["alpha beta gamma delta", "delta gamma beta alpha"]
    assert label_of(said, rarity=rarity()) == label_of(list(said), rarity=rarity()) == "alpha, beta, gamma"


def test_one_word_is_one_word_in_any_number():
    assert label_of(["printers and printer", "the printers"], rarity=rarity()) == "printers"


@pytest.mark.parametrize(
    "text",
    [
        *("this is confidential, please", "off the record: the ferry is late"),
        *("just between us, I am leaving", "Don't tell anyone yet", "please keep this to yourself"),
        "I say it in confidence",
    ],
)
def test_requests_for_confidentiality_are_recognised(text: str):
    assert asks_for_confidentiality(["hello", text])


@pytest.mark.parametrize(
    "text",
    [
        *("the 95 % confidence interval", "the difference between us and them"),
        *("I have confidence in that release", "it does not tell me anything", "keep it running"),
    ],
)
def test_ordinary_talk_asks_for_no_discretion(text: str):
    assert not asks_for_confidentiality([text])
