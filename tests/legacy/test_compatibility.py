"""A bot's own call stores its messages in Roomlore, with the author that the call states or means."""

from datetime import timedelta

import pytest

from legacy.conftest import Legacy
from legacy.test_chat_history import (
    ANA,
    BEN,
    ELENA,
    HARBOUR,
    IDS,
    MARCUS,
    NOON,
    authors,
    message_id,
    migrated,
    row,
    said,
)
from roomlore.domain.errors import BadInput
from roomlore.legacy.compatibility import MemoryManager
from roomlore.operations import App


async def test_the_role_tells_the_author_if_the_call_does_not(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.add_message(ANA, "elena", "human", "hello", "Ana", HARBOUR, message_id(1))
    await memory.add_message(
        ANA, "elena", "ai", "good day", "Ana", HARBOUR, message_id(2), reply_to_msg_id=message_id(1)
    )
    await memory.add_message(ANA, "dotty", "ai", "me too", channel_id=HARBOUR)
    assert await authors(app, HARBOUR) == {
        "hello": (ANA, "human"),
        "good day": (ELENA, "agent"),
        "me too": ("dotty", "agent"),
    }
    found = await said(app, HARBOUR)
    threads = await app.threads(app.operator, HARBOUR)
    edges = [(edge.child_id, edge.parent_id) for thread in threads for edge in thread.replies]
    assert (found["good day"].id, found["hello"].id) in edges


async def test_a_stated_author_is_not_the_person_that_the_bot_talks_with(app: App):
    memory = MemoryManager(rooms=app)
    await memory.add_message(
        MARCUS, "elena", "human", "hi", channel_id=HARBOUR, author_id=MARCUS, author_is_bot=True
    )
    await memory.add_message(ANA, "elena", "human", "look", channel_id=HARBOUR, author_id=BEN)
    await memory.add_message(
        f"channel_{HARBOUR}", "elena", "ai", "good morning", author_id=ELENA, author_is_bot=True
    )
    assert await authors(app, HARBOUR) == {
        "hi": (MARCUS, "agent"),
        "look": (BEN, "human"),
        "good morning": (ELENA, "agent"),
    }


async def test_the_same_message_is_stored_once_and_is_that_of_the_table(app: App, legacy: Legacy):
    memory = MemoryManager(rooms=app, characters=IDS)
    told = (ANA, "elena", "human", "message 1", "Ana", HARBOUR, message_id(1), {"mood": "calm"})
    first = await memory.add_message(*told)
    assert await memory.add_message(*told) == first
    legacy.tell(row(1), row(2, channel_id=None, message_id=None))
    await memory.add_message(ANA, "elena", "human", "message 2", timestamp=NOON + timedelta(minutes=2))
    report = await migrated(app, legacy)
    assert report.stored == {"added": 0, "unchanged": 2, "revised": 0, "redacted": 0}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((ANA, "elena", "narrator", "once"), "unknown role"),
        ((ANA, "elena", "human", ""), "no text"),
        ((f"channel_{HARBOUR}", "elena", "human", "hi"), "no author"),
    ],
)
async def test_a_call_that_names_no_author_or_text_is_refused(app: App, told, why):
    with pytest.raises(BadInput, match=why):
        await MemoryManager(rooms=app).add_message(*told)
    assert await app.rooms(app.operator) == []
