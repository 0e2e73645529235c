"""While a language model reads, it is told what stands already, for exactly the same people, and may say what it repeats."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ingest.stories import APART, at, author, message
from jobs.test_extract import draw, everything, hear, known, message_id, scripted
from jobs.test_llm_extraction import LATER, Scripted, reader, statement, talk
from roomlore.memories.llm_extractor import memory_label
from roomlore.operations import App
from search.telling import closed

MONTH = 30 * 24 * 60.0
#: What is remembered of each of these.
TEA_SAID = "I prefer tea to coffee in the mornings."
SAME_SAID = "tea to coffee in the mornings is what I prefer."
INSTEAD_SAID = "I drink coffee in the mornings, no more tea."
TEA, SAME, INSTEAD = (f"Ana: \u201c{words}\u201d" for words in (TEA_SAID, SAME_SAID, INSTEAD_SAID))
SAME_STATED, INSTEAD_STATED = (statement(words[:-1], "m1") for words in (SAME_SAID, INSTEAD_SAID))


def answering(*statements: Any) -> str:
    return json.dumps({"requests": [], "statements": statements})


def later(where="general", *, said=(INSTEAD_SAID,), start=MONTH, **fields: Any):
    return [
        replace(one, external_id=f"later-{one.external_id}", reply_to=None)
        for one in talk(where, start=start, said=said, **fields)
    ]


async def read(app: App, answer: str, *, now=LATER + timedelta(days=60)) -> Scripted:
    language_model = Scripted(lambda _: answer)
    worker = reader(app, language_model)
    while await worker.next(app.org_id, now=now) == "read":
        pass
    return language_model


async def labels(app: App) -> dict[str, str]:
    return {one.content: memory_label(one) for one in await app.memories.all(app.operator)}  # pyright: ignore[reportArgumentType]


# The same, and instead of it


async def told_of_tea(app: App) -> str:
    """Have a language model remember what Ana prefers, and return by what label that goes."""
    await hear(app, talk(said=(TEA_SAID,)))
    await read(app, answering(statement(TEA_SAID[:-1], "m1")))
    return (await labels(app))[TEA]


@pytest.mark.slow
async def test_what_stands_is_shown_and_what_repeats_it_takes_its_place_undoably(app: App, admin):
    label = await told_of_tea(app)
    await hear(app, later(said=(SAME_SAID,)))
    asked = await read(app, answering(SAME_STATED | {"same_as": label}))
    assert f"{label}: {TEA}" in asked.shown[-1]
    assert await known(admin, app) == [SAME]
    [old] = await app.memories.all(app.operator, statuses=["deprecated"])
    [new] = await app.memories.all(app.operator)
    assert old.superseded_by == new.id
    why = await app.memories.provenance(app.operator, str(new.id))
    assert [one.id for one in why.predecessors] == [old.id]
    await app.memories.restore(str(old.id))
    before = await everything(admin, app)
    await app.extraction.extract()
    await read(app, answering(SAME_STATED | {"same_as": label}))
    assert len(await known(admin, app)) == 2
    assert await known(admin, app) == [old.content, new.content]
    assert (await everything(admin, app))["memories"] == before["memories"]


@pytest.mark.slow
async def test_what_replaces_it_does_and_when_that_goes_the_older_stands_again(app: App, admin):
    label = await told_of_tea(app)
    await hear(app, later(said=(INSTEAD_SAID,)))
    await read(app, answering(INSTEAD_STATED | {"replaces": label}))
    assert await known(admin, app) == [INSTEAD]
    await app.erasure.redact(await message_id(app, "later-general-1"))
    assert await known(admin, app) == [TEA]


@pytest.mark.slow
async def test_nothing_newer_is_replaced(app: App, admin):
    await hear(app, later(said=(TEA_SAID,)))
    await read(app, answering(statement(TEA_SAID[:-1], "m1")))
    label = (await labels(app))[TEA]
    await hear(app, talk(said=(INSTEAD_SAID,)))
    await read(app, answering(INSTEAD_STATED | {"replaces": label}))
    assert len(await known(admin, app)) == 2


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("label", ["k00000000", "k1", "", "m1", "*"])
async def test_what_was_not_shown_is_neither(app: App, admin, label):
    await told_of_tea(app)
    await hear(app, later(said=(INSTEAD_SAID,)))
    await read(app, answering(INSTEAD_STATED | {"replaces": label, "same_as": label}))
    assert len(await known(admin, app)) == 2


@pytest.mark.slow
async def test_the_same_answer_is_taken_again_and_changes_nothing(app: App, admin):
    label = await told_of_tea(app)
    await hear(app, later(said=(INSTEAD_SAID,)))
    await read(app, answering(INSTEAD_STATED | {"replaces": label}))
    before = await everything(admin, app)
    asked = Scripted(lambda _: answering())
    worker = reader(app, asked)
    ids = [one.id for one in await app.conversations.all(app.operator)]
    assert {one.outcome for one in await worker.extract(app.org_id, ids, now=LATER)} == {"read"}
    assert asked.shown == []
    assert (await everything(admin, app))["memories"] == before["memories"]
    assert (await everything(admin, app))["memory_sources"] == before["memory_sources"]


# For the same people only


async def shown_to(app: App, said) -> str:
    await hear(app, said)
    return (await read(app, answering())).shown[0]


@pytest.mark.slow
async def test_nothing_of_a_closed_room_is_shown_with_another_nor_of_a_whisper(app: App, admin):
    ana, bo = author("ana"), author("bo")
    secret = "note: I prefer the smoky tea of the attic in the mornings."
    attic = closed("attic", ana, bo)
    await hear(app, [replace(one, room=attic) for one in talk("attic", said=(secret,))])
    whisper = message(
        "w",
        "note: I prefer the whispered tea in the mornings.",
        author=ana,
        sent_at=at(5),
        kind="whisper",
        audience=(bo,),
    )
    await hear(app, [whisper])
    await draw(app, scripted(name="notes"))
    assert len(await known(admin, app)) == 2
    for said in (
        later(said=(INSTEAD_SAID,)),
        [replace(one, room=closed("red", ana, bo)) for one in later("red")],
    ):
        text = await shown_to(app, said)
        assert "remembered" not in text
    inside = [
        replace(one, room=attic) for one in later("attic", start=1.5 * MONTH, said=(f"{INSTEAD_SAID} Ever.",))
    ]
    text = await shown_to(app, inside)
    assert "smoky tea" in text
    assert "whispered tea" not in text


@pytest.mark.slow
async def test_what_a_wish_covers_is_asserted_sensitive_or_put_aside_is_not_shown(app: App, admin):
    lines = ("note: green tea", "note: black coffee", "note: raw milk", "note: still water")
    for number, line in enumerate(lines):
        one = replace(talk(said=(line,))[0], external_id=f"d{number}", sent_at=at((number - 3) * APART))
        await hear(app, [one])
        await draw(app, scripted(name="notes"), now=LATER + timedelta(days=20))
    assert len(await known(admin, app)) == 4
    await app.memories.remember("Ana prefers warm cocoa.", sources=["d3"], about=["ana"])
    by = {one.content: one for one in await app.memories.all(app.operator)}
    await app.ingest_batch(
        [message("f", "please forget what I said about green tea", author=author("ana"), sent_at=at(20_000))]
    )
    await app.memories.archive(str(by["Ana notes: black coffee."].id))
    await app.conversations.set_sensitivity("message:d2", "sensitive")
    text = await shown_to(
        app, later(said=("I prefer everything: tea, coffee, cocoa, milk and water, I drink.",))
    )
    assert "still water" in text
    assert not any(word in text for word in ("green tea", "black coffee", "raw milk", "warm cocoa"))


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["redact", "erase", "edit", "person"])
async def test_a_trace_goes_with_the_words_that_a_memory_in_it_rests_on(app: App, how):
    await told_of_tea(app)
    await hear(app, later("hall", said=(INSTEAD_SAID,)))
    await read(app, answering())
    assert sum("<remembered>" in one.prompt for one in await app.extraction.llm_calls()) == 1
    match how:
        case "redact":
            await app.erasure.redact(await message_id(app, "general-1"))
        case "erase":
            await app.erasure.message(await message_id(app, "general-1"))
        case "edit":
            await app.ingest_batch([replace(talk(said=("I drink.",))[0], edited_at=at(2))])
        case _:
            await app.erasure.person("ana")
    assert not any("tea to coffee" in one.prompt for one in await app.extraction.llm_calls())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["redact", "wish"])
async def test_what_goes_during_the_call_takes_the_answer_along(app: App, admin, how):
    label = await told_of_tea(app)
    await hear(app, later("hall", said=(INSTEAD_SAID,)))

    async def change() -> str:
        if how == "redact":
            await app.erasure.redact(await message_id(app, "general-1"))
        else:
            await app.ingest_batch(
                [message("f", "please forget what I said about tea", author=author("ana"), sent_at=at(1))]
            )
        return answering(INSTEAD_STATED | {"replaces": label})

    worker = reader(app, Scripted(lambda _: change()))
    assert await worker.next(app.org_id, now=LATER + timedelta(days=60)) == "changed"
    assert INSTEAD not in await known(admin, app)
    assert not any(label in one.prompt for one in await app.extraction.llm_calls())


# An answer that is taken again


ECHO = statement(TEA_SAID[:-1], "m1")
MORNING = "Good morning everybody, the kettle is on again in the kitchen."


@pytest.mark.slow
async def test_an_answer_that_knew_of_what_is_not_shown_here_is_not_taken(app: App, admin):
    """It may hold the words of what it was told: elsewhere nothing would remove them with the messages they are from."""
    await told_of_tea(app)
    [tea] = await app.memories.all(app.operator)
    await hear(app, later("hall", said=(f"{MORNING} Tea to coffee in the mornings?",)))
    assert len((await read(app, answering(ECHO))).shown) == 1
    await app.memories.archive(str(tea.id))
    await hear(app, later("yard", start=1.5 * MONTH, said=(f"{MORNING} Tea to coffee in the mornings?",)))
    assert len((await read(app, answering())).shown) == 1
    await app.erasure.redact(await message_id(app, "general-1"))
    rows = await admin.execute(
        "select concat_ws(' ', prompt, answer, results) from llm_calls where org_id = %s", [app.org_id]
    )
    assert not any("I prefer tea" in row[0] for row in await rows.fetchall())


@pytest.mark.slow
async def test_an_answer_that_knew_of_the_same_is_taken_and_goes_with_it(app: App):
    await told_of_tea(app)
    lines = (f"{MORNING} Tea to coffee in the mornings?",)
    await hear(app, [*later("hall", said=lines), *later("yard", start=1.5 * MONTH, said=lines)])
    assert len((await read(app, answering(ECHO))).shown) == 1
    assert sum(one.is_repeated for one in await app.extraction.llm_calls()) == 1
    await app.erasure.redact(await message_id(app, "general-1"))
    assert await app.extraction.llm_calls() == []


@pytest.mark.slow
async def test_an_answer_that_knew_of_what_a_wish_covers_by_now_is_not_taken(app: App):
    await told_of_tea(app)
    await hear(app, later("hall", said=(f"{MORNING} Tea to coffee in the mornings?",)))
    await read(app, answering(ECHO))
    await app.ingest_batch(
        [message("f", "please forget what I said about tea", author=author("ana"), sent_at=at(1))]
    )
    asked = Scripted(lambda _: answering())
    [hall] = await app.conversations.all(app.operator, room="hall")
    await reader(app, asked).extract(app.org_id, [hall.id], now=LATER + timedelta(days=60))
    assert len(asked.shown) == 1
    assert [one.answer for one in await app.extraction.llm_calls(str(hall.id))] == [answering()]
