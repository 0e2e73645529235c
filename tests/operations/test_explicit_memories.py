"""Whose statement it is that an agent remembers: whoever plainly said so, and otherwise the agent's own."""

import pytest

from conftest import TellOnce
from ingest.stories import at, author, message
from roomlore.operations import App
from search.telling import tell

ANA, PIP = author("ana"), author("pip", kind="agent")


async def greeting(app: App) -> None:
    await tell(app, message("hi", "here I am", author=PIP, sent_at=at(1)))


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, greeting)
    return app


async def credited(told: App, said: str, content: str) -> str:
    """Return who is the author of what Pip remembers of Ana's message, in these words."""
    await tell(told, message("m", said, author=ANA, sent_at=at(2)))
    pip = told.impersonate(await told.viewer("pip"))
    memory = await pip.memories.remember(content, sources=["m"])
    [name] = [person.name for person in memory.participants if person.role == "author"]
    return name


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("I own a barge.", "I own a barge"),
        ("Morning all! I own a barge. It is red.", "i own a barge. it is red"),
        ('My aunt texted "hello,\nI own a mill.\nbye" today.\nI own a barge.', "I own a barge."),
        ('I prefer "less is more" over frills.', 'I prefer "less is more" over frills.'),
        ("I own a mill. Scratch that. I own a barge.", "I own a barge."),
        # No rule knows jokes and hearsay: the words are credited to whoever wrote them.
        ("I own a barge. Just kidding!", "I own a barge."),
        ("Omar told me so at lunch.\nI own a barge.", "I own a barge."),
    ],
)
async def test_what_somebody_plainly_said_is_theirs(told, said, content):
    assert await credited(told, said, content) == "Ana"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("said", "content"),
    [
        pytest.param("Do you own a barge?", "Do you own a barge?", id="asked"),
        pytest.param("do you own a barge", "Do you own a barge", id="asked without a mark"),
        pytest.param("...", "...", id="no words"),
        pytest.param("Imagine this. I own a barge.", "I own a barge.", id="imagined"),
        pytest.param("Omar said: all is well. I own a barge.", "I own a barge.", id="reported on a line"),
        pytest.param('He texted "hello,\nI own a barge.\nbye" to me.', "I own a barge.", id="quoted"),
        pytest.param("I agree.", "I agree.\n> you owe Pip a barge", id="more than was said"),
    ],
)
async def test_what_is_asked_or_another_s_is_credited_to_whoever_remembers_it(told, said, content):
    assert await credited(told, said, content) == "Pip"
