"""Stories for F6 and F8: the newest stands and the rest is history, and nothing is learnt from one's own whispers.

F1, F4, F5 and F7 are told in `test_story.py`, `tests/privacy` and `tests/search`, F10 in `tests/operations/test_monitoring.py`;
F3 is what every other story shows, for none has a key. F2 is measured and not told.
"""

from datetime import timedelta

import pytest

from roomlore.domain.errors import BadInput
from scenarios.kilnhouse import HOME, INES, NOON, PIP, QUILL, TEO, contents, known, remember, said, tell

MOVES = [("Braga", "Porto", 6), ("Faro", "Braga", 30)]


AT_HOME = f"Teo: \u201c{HOME}\u201d"


def moved_to(place: str, gone: str) -> str:
    return f"Teo: \u201cI moved to {place} today, I don't live in {gone} any more.\u201d"


@pytest.fixture
async def moved(house):
    """Teo moves twice, and says so."""
    for place, gone, hours in MOVES:
        at = NOON + timedelta(hours=hours)
        await tell(
            house,
            said(
                f"to-{place}", TEO, f"I moved to {place} today, I don't live in {gone} any more.", sent_at=at
            ),
            said(f"to-{place}-ok", INES, "nice", reply_to=f"to-{place}", sent_at=at + timedelta(minutes=1)),
        )
    return house


async def test_f6_supersession_is_on_without_being_asked_for_and_read_now_then_and_whole(moved):
    assert await contents(moved, about="teo") == {moved_to("Faro", "Braga")}
    then = {
        hours: await contents(moved, about="teo", as_of=NOON + timedelta(hours=hours))
        for hours in (-1, 1, 7, 31)
    }
    assert then == {
        -1: set(),
        1: {AT_HOME},
        7: {moved_to("Braga", "Porto")},
        31: {moved_to("Faro", "Braga")},
    }
    whole = await known(moved, about="teo", statuses=["active", "deprecated"])
    assert {one.content: one.status for one in whole} == {
        AT_HOME: "deprecated",
        moved_to("Braga", "Porto"): "deprecated",
        moved_to("Faro", "Braga"): "active",
    }
    first = next(one for one in whole if one.content == AT_HOME)
    why = await moved.memories.provenance(moved.operator, str(first.id))
    assert [one.content for one in why.successors] == [moved_to("Braga", "Porto"), moved_to("Faro", "Braga")]


async def test_f6_it_is_the_order_in_which_it_was_said_and_not_in_which_it_came(moved):
    at = NOON + timedelta(hours=12)
    await tell(
        moved,
        said("late", TEO, "I moved to Evora today, I don't live in Braga any more.", sent_at=at),
        said("late-ok", INES, "oh", reply_to="late", sent_at=at + timedelta(minutes=1)),
    )
    assert await contents(moved, about="teo") == {moved_to("Faro", "Braga")}
    assert await contents(moved, about="teo", as_of=NOON + timedelta(hours=13)) == {
        moved_to("Evora", "Braga")
    }


async def test_f6_a_person_can_undo_it(moved):
    [first] = [one for one in await known(moved, statuses=["deprecated"]) if one.content == AT_HOME]
    await moved.memories.restore(str(first.id))
    await moved.extraction.extract("studio")
    assert AT_HOME in await contents(moved, about="teo")


ECHOES = [
    ("> I live in Rome.", "a quotation"),
    ("Teo said: I live in Rome.", "somebody's words"),
    ('Earlier Teo wrote "I live in Rome."', "words in quotes"),
    ("Known since 2025-01-01: Teo lives in Rome.", "what it was given"),
    ("[What Pip remembers]\nInsights:\n- #k1 2025-01-01: I live in Rome.", "its block"),
]


@pytest.mark.parametrize("body", [body for body, _ in ECHOES], ids=[what for _, what in ECHOES])
async def test_f8_what_an_agent_quotes_is_nobodys_statement_again(house, body):
    before = await contents(house)
    await tell(
        house,
        said("echo", QUILL, body, sent_at=NOON + timedelta(hours=3)),
        said("echo-ok", INES, "right", reply_to="echo", sent_at=NOON + timedelta(hours=3, minutes=1)),
    )
    await house.extraction.extract("studio")
    assert await contents(house) == before


async def test_f8_what_was_injected_is_never_drawn_from_nor_rests_a_memory_on_it(house, admin):
    await remember(house, None, "I live in the loft above the kiln.", sources=["clay"])
    await tell(house, said("n1", INES, "who lives in the loft above the kiln?"))
    read = await house.messages(await house.viewer("pip"), "studio", limit=100)
    [injected] = [one for one in read if one.kind == "context_injection"]
    before = await contents(house)
    await house.extraction.extract("studio")
    assert await contents(house) == before
    assert await house.memories.derived_from(house.operator, str(injected.id)) == []
    with pytest.raises(BadInput):
        await house.memories.remember("Ines lives above the kiln.", sources=[str(injected.id)])
    for table in ("conversation_messages", "message_embeddings", "memory_sources"):
        rows = await admin.execute(f"select count(*) from {table} where message_id = %s", [injected.id])
        assert await rows.fetchone() == (0,), table


async def test_f8_an_agent_that_repeats_what_it_recalled_confirms_nobody(house):
    before = {one.name: one for one in await house.agents.relationships(house.operator, "pip")}
    await tell(
        house,
        said("e1", QUILL, "agreed, that's right: Teo lives in Porto", reply_to="home"),
        said("e2", PIP, "exactly", reply_to="e1"),
    )
    after = {one.name: one for one in await house.agents.relationships(house.operator, "pip")}
    assert after["Teo"].confirmed == before["Teo"].confirmed
    assert after["Quill"].confirmed == before["Quill"].confirmed == 0
    [home] = await known(house, about="teo")
    assert [source.message_id for source in home.sources] == [
        one.id
        for one in await house.messages(house.operator, "studio", limit=100)
        if one.external_id == "home"
    ]
