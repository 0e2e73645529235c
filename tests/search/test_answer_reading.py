"""Search reads its best messages with the question: order, confidence, quotes, and what happens without the model."""

import pytest

from roomlore.domain.errors import ModelUnavailable
from roomlore.search import answer_reading
from search.telling import ANA, BO, CY, all_ids, message, room, tell, words


async def test_what_the_person_said_who_is_asked_about_comes_first(app):
    await tell(
        app,
        message("1", "I vote for the blue paint", author=ANA),
        message("2", "I vote for the green paint", author=BO, room=room("garden")),
        message("3", "paint smells", author=CY, room=room("kitchen")),
    )
    for name, key in (("Ana", "1"), ("Bo", "2")):
        found = await app.search(app.operator, f"which paint does {name} vote for?")
        assert all_ids(found.hits)[0] == [key]


async def test_each_message_that_was_read_has_the_probability_that_it_answers(app):
    await tell(app, message("1", "the ferry leaves at noon"), message("2", "the ferry is rusty", author=BO))
    found = await app.search(app.operator, "when does the ferry leave?")
    likely = {hit.best.external_id: hit.why[hit.best.id].answer_probability for hit in found.hits}
    assert likely["1"] > 0.5 > likely["2"]


async def test_the_same_subject_without_what_was_asked_is_no_answer(app):
    await tell(app, message("1", "the cook is Rick"), message("2", "the captain is on holiday", author=BO))
    assert not (await app.ask(app.operator, "what is the name of the captain?")).is_answered
    await tell(app, message("3", "the captain is called Lara Brown", author=CY))
    answer = await app.ask(app.operator, "what is the name of the captain?")
    assert words(answer)[0] == "[Cy]: the captain is called Lara Brown"


async def test_a_question_ranks_with_the_answer_that_is_quoted_with_it(app):
    await tell(
        app,
        message("1", "what is the code of the gate?", author=ANA),
        message("2", "4417", author=BO, reply_to="1"),
        message("3", "the gate squeaks", author=CY),
    )
    answer = await app.ask(app.operator, "code of the gate")
    assert words(answer)[:2] == ["[Ana]: what is the code of the gate?", "[Bo]: 4417"]


async def test_without_the_model_the_search_decides(app, monkeypatch: pytest.MonkeyPatch):
    def missing():
        raise ModelUnavailable("no weights", cure="reinstall roomlore")

    monkeypatch.setattr(answer_reading, "bundled_answer_model", missing)
    await tell(app, message("1", "the lantern hangs in the attic"))
    answer = await app.ask(app.operator, "where hangs the lantern")
    assert words(answer) == ["[Ana]: the lantern hangs in the attic"]
    [hit] = answer.hits
    assert hit.why[hit.best.id].answer_probability is None
