"""How questions are asked; baselines use the stems and vectors of search."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from evaluation import baselines
from evaluation.baselines import BM25, DENSE, Baselines, message_vectors, stems_of
from evaluation.datasets import DatasetMessage, Question
from evaluation.loading import incoming
from evaluation.search import ASKER, NO_ASKER, UNKNOWN_ASKER, lexical_rankings, rankings, viewers_of
from roomlore.domain.errors import BadInput
from roomlore.models.fake import FakeEmbedder

NOW = datetime(2026, 1, 20, tzinfo=UTC)
SAID = [
    ("m1", "camp", "ana", "The keys of the boat shed hang behind the door"),
    ("m2", "camp", "bo", "thanks, the door was locked"),
    ("m3", "lake", "cy", "Who has the boat?"),
    ("m4", "camp", "bo", "I lost the key of the boat again"),
]
MESSAGES = [
    DatasetMessage(
        id=external_id,
        room=room,
        author_id=author,
        author_name=author.title(),
        is_bot=False,
        timestamp=None,
        text=text,
        reply_to=None,
        system=False,
    )
    for external_id, room, author, text in SAID
]
QUESTION = Question(
    id="q1",
    room="camp",
    question="Where is the boat's key?",
    evidence_message_ids=("m1",),
    category="where",
    answerable=True,
    as_of_message_id=None,
    asker_id=None,
    include=(),
    leak_targets=(),
)


def passed(_: int) -> None:
    pass


async def camped(app):
    await app.ingest_batch(list(incoming(MESSAGES, now=NOW)))
    await app.drain()


@pytest.fixture
async def camp(app, tell_once):
    await tell_once(app, camped)
    return app


async def test_stems_are_those_of_search_and_stop_words_are_out(camp):
    found = await stems_of(camp, [("Ana", "the keys, the key"), ("", "of the"), ("Bo", "\0\ud800 x")])
    assert found == [{"ana": 1, "key": 2}, {}, {"bo": 1, "x": 1}]


async def test_texts_of_many_statements_stay_in_order(camp, monkeypatch):
    monkeypatch.setattr(baselines, "BATCH", 2)
    found = await stems_of(camp, [("", f"word{number}") for number in range(5)])
    assert found == [{f"word{number}": 1} for number in range(5)]


async def test_vectors_are_those_that_are_stored(camp):
    embedder = FakeEmbedder()
    stored = await message_vectors(camp, embedder.model_id)
    other = await message_vectors(camp, "another model")
    assert set(stored) == {"m1", "m2", "m3", "m4"}
    (again,) = embedder.embed([f"Ana: {SAID[0][3]}"])
    assert np.allclose(stored["m1"], again, atol=1e-3)
    assert other == {}


async def test_baselines_find_what_was_said_in_the_room_until_then(camp):
    made = await Baselines.read(camp, MESSAGES, FakeEmbedder())
    then = replace(QUESTION, id="q2", as_of_message_id="m2")
    found = await made.rankings([QUESTION, then], passed)
    assert set(found[BM25][0].ranked) == {"m1", "m4"}
    assert found[BM25][1].ranked == ["m1"]
    assert "m4" in found[DENSE][0].ranked
    assert "m4" not in found[DENSE][1].ranked
    assert [ranking.question_id for ranking in found[DENSE]] == ["q1", "q2"]


async def test_without_an_embedding_model_there_is_only_bm25(camp):
    made = await Baselines.read(camp, MESSAGES, None)
    found = await made.rankings([QUESTION], passed)
    assert DENSE not in found
    assert found[BM25][0].ranked


@pytest.mark.parametrize("wrong", [{"room": "nowhere"}, {"as_of_message_id": "m3"}])
async def test_a_question_about_what_is_not_there_is_refused_by_name(camp, wrong):
    made = await Baselines.read(camp, MESSAGES, None)
    with pytest.raises(BadInput, match="question q1"):
        await made.rankings([replace(QUESTION, **wrong)], passed)


async def test_the_lexical_half_of_search_finds_what_bm25_finds(camp):
    viewers = await viewers_of(camp, [], MESSAGES)
    questions = [
        QUESTION,
        replace(QUESTION, id="q2", as_of_message_id="m2"),
        replace(QUESTION, id="q3", question="Was the door locked?"),
        replace(QUESTION, id="q4", question="Where is the boat?", room="lake"),
        replace(QUESTION, id="q5", question="Who likes strawberries?"),
    ]
    ours = await lexical_rankings(camp, questions, passed, viewers=viewers)
    made = await Baselines.read(camp, MESSAGES, None)
    theirs = (await made.rankings(questions, passed))[BM25]
    assert [ranking.ranked for ranking in ours] == [ranking.ranked for ranking in theirs]
    assert ours[1].ranked == ["m1"]
    assert ours[4].ranked == []


# For whom is asked


async def test_a_question_is_asked_for_its_asker_where_the_room_knows_them(camp):
    questions = [
        replace(QUESTION, id="own", asker_id="ana"),
        replace(QUESTION, id="nobody"),
        replace(QUESTION, id="unknown", asker_id="eve"),
        # Cy speaks elsewhere only.
        replace(QUESTION, id="absent", asker_id="cy"),
    ]
    viewers = await viewers_of(camp, questions, MESSAGES)
    ana = await camp.viewer("ana")
    assert [viewers.of(question) for question in questions] == [ana, *[camp.operator] * 3]
    assert viewers.counts == {ASKER: 1, NO_ASKER: 1, UNKNOWN_ASKER: 2}


async def test_the_way_to_search_can_be_another_and_gets_the_asker(camp):
    questions = [replace(QUESTION, asker_id="ana"), replace(QUESTION, id="q2")]
    viewers = await viewers_of(camp, questions, MESSAGES)
    seen = []

    async def search(app, viewer, question):
        seen.append((question.id, viewer))
        return await app.search(viewer, "thanks", room=question.room)

    run = await rankings(camp, questions, passed, search=search, viewers=viewers)
    assert sorted(seen, key=lambda call: call[0]) == [("q1", await camp.viewer("ana")), ("q2", camp.operator)]
    assert [ranking.question_id for ranking in run] == ["q1", "q2"]
    assert all(ranking.ranked[0] == "m2" for ranking in run)


async def test_the_first_failure_ends_the_asking_as_it_is(camp):
    with pytest.raises(BadInput, match="question"):
        await rankings(camp, [replace(QUESTION, question=" "), QUESTION], passed)
