"""The message model: what it reads, and that texts do not touch each other."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roomlore.domain.errors import ModelUnavailable
from roomlore.models.local_embedding import LocalEmbedder
from roomlore.models.message_model import (
    ACTS,
    INTENTS,
    RELATIONS,
    MessageInContext,
    MessageModel,
    StatementPair,
)

#: The shipped weights were made without the texts of this author.
HELD = Path(__file__).parents[2] / "training" / "sets" / "messages" / "author-8"
MESSAGES = [
    MessageInContext(text="ok"),
    MessageInContext(text="please don't tell Anna about the party", before=(("she comes at eight", False),)),
    MessageInContext(text="where do we keep the spare keys? " * 9, is_bot=True),
    MessageInContext(text="", before=(("", True), ("so", False), ("never read", False))),
]


@pytest.fixture(scope="module")
def model(local: LocalEmbedder) -> MessageModel:
    return MessageModel.load(local)


def held(kind: str, most: int) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in (HELD / f"{kind}.jsonl").read_text().split("\n") if line]
    return told[:: max(1, len(told) // most)]


def in_context(one: dict[str, Any]) -> MessageInContext:
    before = tuple((text, name == one["author"]) for name, text in reversed(one["before"]))
    return MessageInContext(text=one["text"], before=before)


def area(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """How often a right one scores above a wrong one."""
    right = np.array([score for score, label in zip(scores, labels, strict=True) if label])
    wrong = np.array([score for score, label in zip(scores, labels, strict=True) if not label])
    return float((right[:, None] > wrong).mean())


def test_a_reading_depends_on_its_own_texts_alone(model: MessageModel, monkeypatch):
    together = model.read(MESSAGES)
    monkeypatch.setattr(model, "_recent", SimpleNamespace(of=model._outputs))
    for message, reading in zip(MESSAGES, together, strict=True):
        alone = model.read([message])[0]
        assert alone.acts == pytest.approx(reading.acts, abs=1e-4)
        assert alone.intents == pytest.approx(reading.intents, abs=1e-4)
        assert alone.keep == pytest.approx(reading.keep, abs=1e-4)


def test_texts_and_messages_are_not_read_twice(monkeypatch):
    local = LocalEmbedder.load()
    model = MessageModel.load(local)
    expected = model.read(MESSAGES)
    monkeypatch.setattr(local, "_run", None)
    model.answers([(MESSAGES[0].text, MESSAGES[1].text)])
    monkeypatch.setattr(model, "_run", None)
    assert model.read(MESSAGES) == expected


def test_reading_the_states_of_texts_embeds_them(local: LocalEmbedder, monkeypatch):
    texts = [f"the ferry {number} leaves at noon" for number in range(20)]
    local.token_states(texts)
    expected = LocalEmbedder.load().embed(texts)

    monkeypatch.setattr(local, "_run", None)
    assert np.array_equal(local.embed(texts), expected)


def test_only_the_nearest_messages_before_are_read(model: MessageModel):
    near = (("delete that", True), ("my code is 4711", False))
    first, second, other = model.read(
        [
            MessageInContext(text="and this one", before=near),
            MessageInContext(text="and this one", before=(*near, ("something else", False))),
            MessageInContext(text="and this one", before=near[::-1]),
        ]
    )
    assert first == second
    assert first.intents != other.intents


def test_probabilities_sum_to_one(model: MessageModel):
    for reading in model.read(MESSAGES):
        assert set(reading.acts) == set(ACTS)
        assert sum(reading.intents.values()) == pytest.approx(1, abs=1e-5)
        assert sum(reading.scopes.values()) == pytest.approx(1, abs=1e-5)
        assert 0 <= reading.keep <= 3


def test_nothing_is_read_of_nothing(model: MessageModel):
    assert model.read([]) == []
    assert model.answers([]).shape == (0,)
    assert model.relations([]).shape == (0, len(RELATIONS))


def test_plain_requests_are_found_and_plain_talk_is_not(model: MessageModel):
    requests = [
        ("please forget what I just said", "forget"),
        ("keep this between us please", "confidential"),
        ("don't tell Marco about the surprise party", "deny"),
    ]
    talk = [
        "the train is late again",
        "who wants pizza?",
        "I forgot my keys",
        "tell Marco that lunch is ready",
    ]
    before = (("My sister lost her job last week.", True),)
    told = [MessageInContext(text=text, before=before) for text, _ in requests]
    assert [one.request for one in model.read(told)] == [intent for _, intent in requests]
    assert not any(one.request for one in model.read([MessageInContext(text=text) for text in talk]))


@pytest.mark.slow
def test_requests_of_an_author_who_is_new_are_found(model: MessageModel):
    told = held("requests", 400)
    readings = model.read([in_context(one) for one in told])
    real = [one["intent"] != "none" for one in told]
    assert area([one.request_probability for one in readings], real) > 0.9
    found = [one.request is not None for one in readings]
    assert sum(np.array(real)[found]) >= 0.9 * sum(found) > 0
    certain = [one.is_certain_request for one in readings]
    assert all(is_found for is_found, is_certain in zip(found, certain, strict=True) if is_certain)
    assert 0 < sum(np.array(real)[certain]) >= 0.9 * sum(certain)


@pytest.mark.slow
def test_acts_of_an_author_who_is_new_are_found(model: MessageModel):
    told = held("acts", 80)
    readings = model.read([in_context(one) for one in told])
    right = [
        max(one.acts, key=one.acts.__getitem__) in gold["acts"]
        for one, gold in zip(readings, told, strict=True)
    ]
    assert np.mean(right) > 0.6
    assert np.corrcoef([one.keep for one in readings], [one["keep"] for one in told])[0, 1] > 0.6


@pytest.mark.slow
def test_what_answers_and_what_replaces_is_found(model: MessageModel):
    answers = held("answers", 80)
    scores = model.answers([(one["question"], one["text"]) for one in answers])
    assert area(scores.tolist(), [one["label"] == 1 for one in answers]) > 0.8
    pairs = held("pairs", 80)
    relations = model.relations(
        [
            StatementPair(
                earlier=one["earlier"][2],
                later=one["later"][2],
                same_author=one["earlier"][0] == one["later"][0],
            )
            for one in pairs
        ]
    )
    assert area(relations[:, 0].tolist(), [one["label"] == "replaces" for one in pairs]) > 0.8


def test_the_order_of_a_pair_matters(model: MessageModel):
    there, back = model.answers(
        [("when is the party?", "it is on friday"), ("it is on friday", "when is the party?")]
    )
    assert there > back


def test_another_embedding_model_is_refused(local: LocalEmbedder, monkeypatch):
    monkeypatch.setattr(local, "_has_states", False)
    with pytest.raises(ModelUnavailable, match="cannot read the states"):
        MessageModel.load(local).read([MessageInContext(text="ok")])


def test_intents_end_with_none():
    assert INTENTS[-1] == "none"
