"""Texts that are made to keep the server busy: others are answered all the same, and what is said is stored."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from ingest.stories import at, message
from roomlore.conversations import message_text
from roomlore.domain.claims import SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.ingest.clean import MAX_BODY, clean
from roomlore.memories import model_extractor
from roomlore.models.message_model import bundled_model
from roomlore.operations import App
from roomlore.operations.search import LONGEST_QUESTION
from roomlore.privacy import identifiers, recogniser, screening
from roomlore.privacy.topics import topics_of
from roomlore.text.mentions import mention_words
from roomlore.text.recognisers import asks_for_confidentiality

#: Seconds in which nobody else was answered: a busy machine needs some, and what was mended took a minute.
LONGEST_PAUSE = 3.0
#: Seconds of work on one text of the largest size: much more than any takes.
MOST_WORK = 10.0
REVOKING = "Linda no longer has access to any of this."
DOTS, DASHES = "." * 20_000, "-" * 300_000
#: What hostile texts repeat.
REPEATED = (
    *(
        "a",
        "-",
        ".",
        "!",
        "?",
        " ",
        "\n",
        " \n",
        ">",
        "> a\n",
        "(",
        "[",
        "<",
        "`",
        "*",
        "_",
        "'",
        '"',
        "\u201c",
    ),
    *(",", ":", "@a ", "<@U1> ", "http://a.b/ ", "\U0001f602", "\u00e4", "1 ", "a1", "a. ", "Ana B ", "hehe"),
    *("no longer ", "access ", "only ", "forget that ", "don't tell ", "between us ", "I am ", "sk-", "a@b."),
)


class Watch:
    """How long the event loop was kept from everything else."""

    longest = 0.0


@asynccontextmanager
async def watched() -> AsyncGenerator[Watch]:
    """Measure how long the event loop answers nobody."""
    watch, loop = Watch(), asyncio.get_running_loop()
    last = loop.time()
    handle: asyncio.TimerHandle | None = None

    def tick() -> None:
        nonlocal last, handle
        now = loop.time()
        watch.longest, last = max(watch.longest, now - last), now
        handle = loop.call_later(0.01, tick)

    tick()
    yield watch
    tick()
    assert handle is not None
    handle.cancel()


async def reads_while(app: App, work) -> int:
    """Read again and again until some work is done, and return how often that was."""
    task = asyncio.ensure_future(work)
    count = 0
    while not task.done():
        await app.messages(app.operator, "general")
        count += 1
    await task
    return count


def record(key: str, body: str, *, by: str = "ana") -> dict[str, object]:
    return {
        "schema": "roomlore.message/1",
        "platform": "test",
        "room": {"id": "general"},
        "id": key,
        "author": {"id": by},
        "text": body,
        "sent_at": at(int(key)).isoformat(),
    }


@pytest.mark.slow
async def test_others_are_answered_while_dashes_and_a_restriction_come_in(app: App):
    await app.ingest(message("0", "hello"))
    async with watched() as watch:
        for key, body in (("1", DASHES), ("2", REVOKING), ("3", DASHES), ("4", REVOKING)):
            reads = await reads_while(app, app.intake.add_messages([record(key, body, by=f"p{key}")]))
            assert reads > 0
    assert watch.longest < LONGEST_PAUSE
    stored = await app.messages(app.operator, "general")
    assert [len(one.body) for one in stored] == [5, len(DASHES), len(REVOKING), len(DASHES), len(REVOKING)]


@pytest.mark.slow
async def test_others_are_answered_while_dots_come_in_and_are_worked_on(app: App):
    async with watched() as watch:
        await app.intake.add_messages([record(str(place), DOTS) for place in range(1, 11)])
        await reads_while(app, app.drain())
        await reads_while(app, app.extraction.extract())
    assert watch.longest < LONGEST_PAUSE


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "repeated", ["a", ".", "are ", "(", '"', "what did ana say about ", "since ", "\u00e4 "]
)
async def test_hostile_questions_keep_nobody_waiting(app: App, repeated):
    await app.ingest(message("1", "the ferry leaves at noon"))
    async with watched() as watch:
        for size in (490, LONGEST_QUESTION):
            question = (repeated * size)[:size]
            await app.search(app.operator, question)
            await app.ask(app.operator, question)
    assert watch.longest < LONGEST_PAUSE


@pytest.mark.slow
@pytest.mark.parametrize("repeated", REPEATED)
def test_no_work_on_a_text_grows_beyond_bounds(repeated):
    text = (repeated * MAX_BODY)[:MAX_BODY]
    said = [spoken(text[:20_000]), spoken(text), spoken("ok, agreed")]
    wishing = f"{text[:1_900]} forget that I said, only between us"
    for work in (
        lambda: clean(message("1", text), now=at(100)),
        lambda: recogniser.may_hold_request(text),
        lambda: recogniser.may_hold_request(wishing),
        lambda: recogniser.states_restriction(f"{text} access only"),
        lambda: recogniser.is_confidential(text),
        lambda: topics_of(text),
        lambda: identifiers.distinctive_values(text),
        lambda: list(identifiers.matching_digests(text, identifiers.digests_of(["Ana B", "a a a", "1 1"]))),
        lambda: identifiers.proper_names(text),
        lambda: model_extractor.extract(said, [], bundled_model()),
        lambda: (message_text.tokens(text), mention_words(text), asks_for_confidentiality([text])),
    ):
        began = time.thread_time()
        work()
        assert time.thread_time() - began < MOST_WORK


def spoken(body: str) -> SourceText:
    return SourceText(
        message_id=MessageId(uuid4()),
        author_id=ParticipantId(uuid4()),
        author_name="Ana",
        author_kind="human",
        kind="message",
        body=body,
        sent_at=at(0),
    )


async def test_what_takes_too_long_is_left_and_told_without_its_words_and_the_others_are_listened_to(
    monkeypatch, caplog
):
    stuck, voices = threading.Event(), recogniser.may_hold_request

    def slowly(text: str) -> bool:
        if text == "a long secret":
            stuck.wait(60)
        return voices(text)

    monkeypatch.setattr(screening, "may_hold_request", slowly)
    # A busy machine needs a moment even for a short text.
    monkeypatch.setattr(screening, "TEXT_TIMEOUT", 1.0)
    texts = ["please forget what I said", "a long secret", "please forget what I told you"]
    assert voices(texts[0])  # its patterns are compiled on first use
    told = await screening.screen(texts)
    stuck.set()

    assert told == dict(zip(texts, (True, None, True), strict=True))
    assert "13 characters took too long" in caplog.text
    assert "secret" not in caplog.text


async def test_nothing_is_listened_to_within_the_transaction(app: App, monkeypatch):
    heard: list[str] = []
    before = recogniser.may_hold_request
    monkeypatch.setattr(screening, "may_hold_request", lambda text: heard.append(text) or before(text))
    taken, listened_before = app.db.change, []

    async def change(*args, **kwargs):
        listened_before.append(list(heard))
        return await taken(*args, **kwargs)

    monkeypatch.setattr(type(app.db), "change", lambda _, *args, **kwargs: change(*args, **kwargs))
    await app.ingest(message("1", "hello"))
    assert listened_before[0] == heard == ["hello"]
