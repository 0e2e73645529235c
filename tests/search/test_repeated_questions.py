"""A message that only repeats the question ranks below possible answers. A question is quoted with its known answer."""

from search.telling import BO, CY, all_ids, find, message, room, tell, words

ASKED = "how do I download a video from youtube?"
AGAIN = "Anyone know how to download a video from youtube"
TOOL = "you can download videos from youtube with yt-dlp"


async def test_a_hit_that_only_repeats_the_question_ranks_below_what_may_answer_it(app):
    await tell(app, message("1", AGAIN), message("2", TOOL, author=BO, room=room("tools")))
    assert all_ids((await app.search(app.operator, ASKED)).hits) == [["2"], ["1"]]
    # Words that ask nothing have no repetitions.
    assert all_ids((await app.search(app.operator, AGAIN.removeprefix("Anyone know how to "))).hits)[0] == [
        "1"
    ]


async def test_an_earlier_question_is_quoted_with_what_answered_it(app, admin):
    await tell(
        app, message("1", AGAIN), message("2", "sunny today", author=CY), message("3", "yt-dlp", author=BO)
    )
    await find(admin, app, "2", "1", confidence=0.1, answers=None)
    await find(admin, app, "3", "1", method="inferred", confidence=0.97, answers=0.5)
    assert all_ids((await app.search(app.operator, ASKED)).hits)[0] == ["1", "3"]
    assert words(await app.ask(app.operator, ASKED)) == [f"[Ana]: {AGAIN}", "[Bo]: yt-dlp"]


async def test_a_question_nobody_answered_is_no_answer(app):
    await tell(app, message("1", AGAIN))
    answer = await app.ask(app.operator, ASKED)
    assert not answer.is_answered
    assert answer.hits == []
    assert answer.trace[-1].outcome == "below_threshold"


async def test_a_memory_answers_if_only_a_repeated_question_outweighed_it(app):
    await tell(app, message("1", AGAIN))
    await app.memories.remember("Bo downloads a video from youtube with a tool.")
    answer = await app.ask(app.operator, ASKED)
    assert (answer.stage, answer.hits) == ("memories", [])
    assert {step.stage: step.outcome for step in answer.trace} == {
        "memories": "answered",
        "history": "below_threshold",
    }
