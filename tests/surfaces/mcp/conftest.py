"""The village, with memories of all that was said in it."""

from collections.abc import Awaitable, Callable

import pytest

from conftest import TellOnce
from operations.village import STORY, village
from roomlore.operations import App

#: A memory of what was said in the attic, and one of what was said in the square, where nobody was a member.
SENSITIVE = {"m4": "only attic wordsens4", "m1": "only bo wordsens1"}


async def disentangled(app: App) -> None:
    """Tell the village to an org as its operator has it, disentangled and embedded."""
    await village(app)
    await app.drain()


async def remembered(app: App) -> None:
    """Tell the village to an org, with memories."""
    await disentangled(app)
    for one in STORY:
        await app.memories.remember(f"known of {one.body}", sources=[one.external_id])
    for source, words in SENSITIVE.items():
        await app.memories.remember(words, sources=[source], sensitive=True)


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    """The village with memories."""
    await tell_once(app, remembered)
    return app


@pytest.fixture
async def people(app: App, tell_once: TellOnce) -> App:
    """The village; memories are others' matter."""
    await tell_once(app, disentangled)
    return app


KeyOf = Callable[[str], Awaitable[str]]


@pytest.fixture
def key_of(app: App) -> KeyOf:
    """Make a key for somebody."""

    async def make(name: str) -> str:
        if name == "operator":
            return (await app.keys.create("operator", name="operator's")).key
        role = "agent" if name == "pip" else "member"
        return (await app.keys.create(role, name=f"key of {name}", participant=name)).key

    return make
