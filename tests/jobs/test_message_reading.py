"""The worker reads messages: questions are marked, requests are found, and what takes too long is tried again and seen."""

import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ingest.stories import message
from roomlore.db.privacy_requests import texts_before
from roomlore.db.work_queue import RetrySchedule
from roomlore.jobs import message_reading, runner
from roomlore.jobs.message_reading import MessageReader
from roomlore.operations import App
from roomlore.operations.monitoring import Coverage
from roomlore.privacy import recogniser, screening
from search.telling import ANA, BO
from surfaces.web.conftest import visiting

REQUEST = "please forget that"
TOLD = (message("1", "my wolfram account is 4412-9981", author=ANA), message("2", "I see", author=BO))
ASKED = message("3", REQUEST, author=ANA)
#: Two attempts, at once.
EAGER = replace(runner.DRAIN_POLICY, retries=RetrySchedule(first_after=timedelta(0), last_attempt=2))

SlowFor = Callable[[int], None]


@pytest.fixture
def slow_for(monkeypatch: pytest.MonkeyPatch) -> Generator[SlowFor]:
    """Let the request take too long so many times, and then no more."""
    let_go = threading.Event()

    def set_slow(times: int) -> None:
        left = iter(range(times))

        def voices(text: str) -> bool:
            if text == REQUEST and next(left, None) is not None:
                let_go.wait(60)
            return recogniser.may_hold_request(text)

        monkeypatch.setattr(screening, "may_hold_request", voices)
        monkeypatch.setattr(screening, "TEXT_TIMEOUT", 0.5)

    yield set_slow
    let_go.set()


async def listened(app: App) -> Coverage:
    return (await app.monitoring.statistics()).counts.privacy_checked


async def recalled(app: App) -> set[str]:
    hits = (await app.search(app.operator, "wolfram account", limit=50)).hits
    return {one.external_id for hit in hits for one in hit.messages if "wolfram" in one.body}


async def asked(app: App) -> None:
    await app.ingest_batch(TOLD)
    await app.drain()
    await app.ingest(ASKED)


async def again(app: App) -> runner.DrainResult:
    return await runner.drain(MessageReader(db=app.db), only_org=app.org_id, policy=EAGER)


@pytest.mark.slow
async def test_what_is_slow_once_is_stored_at_once_waits_in_sight_and_is_heard_by_the_worker(
    app: App, slow_for
):
    slow_for(1)
    await asked(app)
    assert [one.body for one in await app.messages(app.operator, "general")][-1] == REQUEST
    assert await recalled(app) == {"1"}
    assert await app.privacy_requests.all(app.operator) == []
    waits = await listened(app)
    assert (waits.done, waits.waiting, waits.dead_lettered) == (2, 1, 0)
    assert waits.oldest_at is not None

    await app.drain()
    assert await recalled(app) == set()
    [wish] = await app.privacy_requests.all(app.operator)
    assert (wish.status, wish.body) == ("active", REQUEST)
    assert {one.external_id for one in wish.covered_messages} == {"1", "3"}
    assert await listened(app) == Coverage(done=3, waiting=0, dead_lettered=0, oldest_at=None)


@pytest.mark.slow
async def test_what_is_always_slow_is_given_up_with_a_reason_and_tried_again_when_asked(app: App, slow_for):
    slow_for(3)
    await asked(app)
    drained = await again(app)
    assert (drained.done, drained.dead_lettered) == (0, 1)
    assert (await listened(app)).dead_lettered == 1
    assert [(one.queue, one.error) for one in (await app.monitoring.job_state()).failures] == [
        ("read", message_reading.DetectionTookTooLong.__name__)
    ]
    # Nothing is hidden meanwhile, and nothing else waits for it.
    assert await recalled(app) == {"1"}
    assert (await app.drain()).dead_lettered == 1
    assert await app.privacy_requests.all(app.operator) == []

    assert await app.retry() == 1
    await again(app)
    assert await recalled(app) == set()
    assert (await listened(app)).dead_lettered == 0


@pytest.mark.slow
async def test_a_running_worker_listens_again(app: App, slow_for):
    slow_for(1)
    await asked(app)
    assert (await runner.step(MessageReader(db=app.db), only_org=app.org_id)).done == 1
    assert await recalled(app) == set()


@pytest.mark.slow
async def test_an_edit_is_listened_to_in_place_of_what_was_said_before(app: App, slow_for):
    slow_for(3)
    await asked(app)
    await again(app)
    await app.intake.edit("3", "the weather is fine")
    assert (await listened(app)).dead_lettered == 0
    await app.drain()
    assert await listened(app) == Coverage(done=3, waiting=0, dead_lettered=0, oldest_at=None)
    assert await recalled(app) == {"1"}


@pytest.mark.slow
async def test_what_is_edited_while_it_is_listened_to_is_heard_as_it_stands(app: App, slow_for, monkeypatch):
    slow_for(1)
    await asked(app)
    listen_to = screening.screen

    async def meanwhile(texts):
        told = await listen_to(texts)
        await app.intake.edit("3", "never mind")
        return told

    monkeypatch.setattr(message_reading, "screen", meanwhile)
    await again(app)
    assert await app.privacy_requests.all(app.operator) == []
    assert await recalled(app) == {"1"}


@pytest.mark.slow
async def test_what_was_erased_is_listened_to_no_more(app: App, slow_for):
    slow_for(9)
    await asked(app)
    await app.erasure.message("3")
    assert (await listened(app)).waiting == 0
    assert (await again(app)).dead_lettered == 0


@pytest.mark.slow
async def test_where_none_is_heard_nothing_waits(app: App, slow_for):
    slow_for(9)
    await app.privacy_requests.set_mode("off")
    await asked(app)
    await app.drain()
    assert (await listened(app)).waiting == 0


@pytest.mark.slow
async def test_several_texts_wait_each_for_itself_and_the_others_are_heard_when_they_come(app: App, slow_for):
    slow_for(1)
    await app.ingest_batch([*TOLD, ASKED, message("4", "please forget what I said", author=BO)])
    assert {one.body for one in await app.privacy_requests.all(app.operator)} == {"please forget what I said"}
    await app.drain()
    assert len(await app.privacy_requests.all(app.operator)) == 2


@pytest.mark.slow
async def test_the_page_of_operations_tells_of_what_could_not_be_listened_to(app: App, slow_for):
    slow_for(9)
    await asked(app)
    key = (await app.keys.create("operator", name="a key")).key
    async with visiting(app, key) as visitor:
        assert "1 message could not be checked for requests in time" in " ".join(
            (await visitor.page("/ops")).split()
        )
        await again(app)
        page = " ".join((await visitor.page("/ops")).split())
    assert "1 failed" in page
    assert "DetectionTookTooLong" in page


async def requests(app: App) -> dict[str, tuple[str, str]]:
    """Return kind and status of each request, by the words of its message."""
    return {one.body: (one.kind, one.status) for one in await app.privacy_requests.all(app.operator)}


async def test_a_request_that_no_rule_knows_is_read_by_the_model(app: App):
    said = [
        message("1", "my wolfram account is 4412-9981", author=ANA),
        message("2", "oh, could you please wipe that from your notes", author=ANA),
        message("3", "mein Gehalt ist jetzt 4.100 brutto", author=BO),
        message("4", "bitte sofort wieder löschen, das war privat", author=BO),
        message("5", "the nightly build is green again", author=ANA),
    ]
    await app.ingest_batch(said)
    assert await requests(app) == {}
    await app.drain()
    found = await requests(app)
    assert found.keys() == {said[1].body, said[3].body}
    assert found[said[1].body] == ("forget", "active")
    assert await recalled(app) == set()


async def test_a_request_that_is_edited_away_is_lifted(app: App):
    await app.ingest_batch(
        [TOLD[0], message("2", "oh, could you please wipe that from your notes", author=ANA)]
    )
    await app.drain()
    assert await recalled(app) == set()
    await app.intake.edit("2", "the weather is fine")
    await app.drain()
    assert await recalled(app) == {"1"}
    assert await requests(app) == {}


async def test_no_request_is_found_while_requests_are_off(app: App):
    await app.privacy_requests.set_mode("off")
    await app.ingest_batch(
        [TOLD[0], message("2", "oh, could you please wipe that from your notes", author=ANA)]
    )
    await app.drain()
    assert await requests(app) == {}
    assert (await listened(app)).waiting == 0


async def unanswered(app: App) -> set[str]:
    """Return the questions without a reply."""
    found = await app.memories.digest(app.operator, "general", since=datetime(2000, 1, 1, tzinfo=UTC))
    return {one.external_id for one in found.open_questions}


async def test_questions_without_a_reply_are_unanswered_and_nothing_else_is(app: App):
    said = [
        message("1", "where do we keep the spare keys?", author=ANA),
        message("2", "kann mir jemand sagen, wann der Zug fährt?", author=ANA),
        message("3", "thanks, that helped a lot", author=BO),
        message("4", "the nightly build is green again", author=BO),
        message("5", "who has the projector?", author=ANA),
        message("6", "it is in my drawer", author=BO, reply_to="5"),
    ]
    await app.ingest_batch(said)
    assert await unanswered(app) == set()
    await app.drain()
    assert await unanswered(app) == {"1", "2"}


@pytest.mark.parametrize("change", ["edit", "redact", "erase"])
async def test_a_question_whose_text_is_gone_is_none(app: App, change: str):
    await app.ingest(message("1", "where do we keep the spare keys?", author=ANA))
    await app.drain()
    assert await unanswered(app) == {"1"}
    if change == "edit":
        await app.intake.edit("1", "the keys are in the drawer")
        assert await unanswered(app) == set()
        await app.drain()
    elif change == "redact":
        await app.erasure.redact("1")
    else:
        await app.erasure.message("1")
    assert await unanswered(app) == set()


async def test_questions_are_marked_while_requests_are_off(app: App):
    await app.privacy_requests.set_mode("off")
    await app.ingest(message("1", "where do we keep the spare keys?", author=ANA))
    await app.drain()
    assert await unanswered(app) == {"1"}


async def test_a_whisper_is_no_context_of_what_others_read(app: App, admin):
    whisper = message("1", "my wolfram account is 4412-9981", author=ANA, kind="whisper", audience=[BO])
    await app.ingest_batch(
        [message("0", "hello", author=BO), whisper, message("2", "so that goes, right", author=ANA)]
    )
    async with app.db.read_transaction(app.operator) as conn:
        found = await texts_before(conn, app.org_id, await ids(admin, app, "2"), most=2)
    assert [(one.body, one.is_own) for one in found] == [("hello", False)]


async def test_the_text_that_a_reply_answers_is_read_first(app: App, admin):
    said = [message(str(number), f"line {number}", author=BO) for number in range(5)]
    await app.ingest_batch([*said, message("9", "not that one", author=ANA, reply_to="1")])
    async with app.db.read_transaction(app.operator) as conn:
        found = await texts_before(conn, app.org_id, await ids(admin, app, "9"), most=2)
    assert [one.body for one in found] == ["line 1", "line 4", "line 3"]


async def ids(admin, app: App, external_id: str):
    rows = await admin.execute(
        "select id from messages where org_id = %s and external_id = %s", [app.org_id, external_id]
    )
    return [key for (key,) in await rows.fetchall()]
