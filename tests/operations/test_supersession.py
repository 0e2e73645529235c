"""Memories that take the place of others: what is shown as standing, what beside it, and what comes back."""

import asyncio

import pytest

from ingest.stories import at, message, room
from roomlore.db import memory_writes
from roomlore.domain.errors import BadInput, NotFound
from roomlore.operations import App
from roomlore.operations.memories import STATUSES
from search.telling import ANA, BO, CY, PIP, closed, tell

QUESTION = "which drink does the quincunx skipper prefer"
OLD, NEW = "The quincunx skipper prefers coffee.", "The quincunx skipper prefers tea."


@pytest.fixture
async def told(app: App) -> App:
    red = closed("red", ANA, PIP)
    return await tell(
        app,
        message("a", "good morning", author=ANA, sent_at=at(1)),
        message("b", "good evening", author=BO, sent_at=at(2)),
        message("c", "hello", author=CY, sent_at=at(3)),
        message("r", "in red", room=red, author=ANA, sent_at=at(4)),
        message("p", "here I am", room=red, author=PIP, sent_at=at(5)),
    )


async def asked(app: App, name: str | None = None, question: str = QUESTION):
    viewer = app.operator if name is None else await app.viewer(name)
    return await app.ask(viewer, question)


async def until_wait(admin, many: int) -> None:
    """Wait until so many wait for a lock."""
    waiting = "select count(*) from pg_locks where not granted"
    async with asyncio.timeout(120):
        while (await (await admin.execute(waiting)).fetchone()) != (many,):
            pass  # each question gives way to who is to wait


def successors_of(told_of):
    return {memory.id: memory.superseded_by for memory in told_of}


async def chained(admin, *links) -> None:
    """Put memories in each other's place as nobody can by remembering."""
    for old, new in links:
        await admin.execute("update memories set superseded_by = %s where id = %s", [new.id, old.id])


def tiers(answer):
    return [(step.stage, step.outcome) for step in answer.trace]


# As a tier


async def test_a_memory_answers_where_nothing_said_does_and_leads_to_its_sources(told):
    memory = await told.memories.remember(OLD, sources=["a"])

    answer = await asked(told, "cy")

    assert tiers(answer) == [("memories", "answered")]
    assert answer.text == f"(memory: fact, 2024-03-01) {OLD}"
    assert [one.memory.id for one in answer.memories] == [memory.id]
    assert answer.memories[0].memory.source_ids == memory.source_ids
    line = (await told.log(told.operator))[0]
    assert (line.action, list(line.subject_ids)) == ("ask", [memory.id])


async def test_a_memory_never_hides_what_was_said_and_fits_better(told):
    memory = await told.memories.remember("The quincunx skipper prefers some drink.", sources=["a"])
    said = "the drink that the quincunx skipper does prefer: the quincunx skipper prefers tea"
    await tell(told, message("x", said, author=BO, sent_at=at(9)))

    answer = await asked(told)

    assert tiers(answer) == [("memories", "outweighed"), ("history", "answered")]
    assert "[Bo]" in answer.text.splitlines()[-1]
    assert [one.memory.id for one in answer.memories] == [memory.id]


async def test_a_memory_that_fits_too_little_passes_on(told):
    await told.memories.remember("The harbour is closed on a drink day.", sources=["a"])

    answer = await asked(told)

    assert not answer.is_answered
    assert tiers(answer)[0] == ("memories", "below_threshold")


async def test_what_the_viewer_may_not_see_is_as_if_it_were_not_there(told):
    before = await asked(told, "cy")
    await told.memories.remember(OLD, sources=["r"])

    assert (await asked(told, "ana")).is_answered
    assert await asked(told, "cy") == before
    assert not before.is_answered


async def test_memories_are_found_by_words_alone_without_a_model(told, tmp_path):
    await told.memories.remember(OLD, sources=["a"])
    settings = told.settings.__class__(org=told.settings.org, model=tmp_path)
    app = App(db=told.db, org_id=told.org_id, settings=settings)

    assert (await asked(app)).stage == "memories"


# What took its place


async def test_what_was_superseded_comes_marked_and_under_what_took_its_place(told):
    old = await told.memories.remember(OLD, sources=["a"])
    new = await told.memories.remember(NEW, sources=["b"], supersedes=str(old.id))

    answer = await asked(told, "cy", "the quincunx skipper prefers coffee")

    assert answer.text.splitlines() == [
        f"(memory: fact, 2024-03-01) {NEW}",
        f"  (memory: fact, 2024-03-01, superseded) {OLD}",
    ]
    [recalled] = answer.memories
    assert (recalled.memory.id, [one.id for one in recalled.superseded]) == (new.id, [old.id])
    assert recalled.superseded[0].superseded_by == new.id


async def test_a_chain_is_told_from_any_of_its_links(told):
    one = await told.memories.remember("First.", sources=["a"])
    two = await told.memories.remember("Second.", sources=["b"], supersedes=str(one.id))
    three = await told.memories.remember("Third.", sources=["c"], supersedes=str(two.id))

    async def chain(memory):
        told_of = await told.memories.provenance(await told.viewer("cy"), str(memory.id))
        return [[x.id for x in part] for part in (told_of.predecessors, told_of.successors)]

    assert await chain(one) == [[], [two.id, three.id]]
    assert await chain(two) == [[one.id], [three.id]]
    assert await chain(three) == [[two.id, one.id], []]
    listed = await told.memories.all(told.operator, statuses=STATUSES)
    assert [memory.superseded_by for memory in listed] == [None, three.id, two.id]


async def test_only_what_stands_and_is_for_the_same_people_is_superseded(told):
    old = await told.memories.remember(OLD, sources=["r"])
    mine = await told.memories.remember("Mine.", audience="self")
    refused = [
        ({"sources": ["a"]}, "is for others"),
        ({"sources": []}, "is for others"),
        ({"sources": ["r"], "sensitive": True}, "is for others"),
        ({"content": OLD, "sources": ["r"]}, "says the same"),
    ]
    for given, why in refused:
        with pytest.raises(BadInput, match=why):
            await told.memories.remember(**({"content": NEW} | given), supersedes=str(old.id))
    with pytest.raises(BadInput, match="is for others"):
        await told.memories.remember(NEW, sources=["a"], supersedes=str(mine.id))
    assert {memory.id for memory in await told.memories.all(told.operator, statuses=STATUSES)} == {
        old.id,
        mine.id,
    }

    new = await told.memories.remember(NEW, sources=["r", "a"], supersedes=str(old.id))
    with pytest.raises(BadInput, match="does not stand any more"):
        await told.memories.remember("Neither.", sources=["r"], supersedes=str(old.id))
    with pytest.raises(BadInput, match="was superseded"):
        await told.memories.remember(OLD, sources=["r"], supersedes=str(new.id))
    again = await told.memories.remember(NEW, sources=["r", "a"], supersedes=str(old.id))
    assert again.id == new.id


async def test_what_the_caller_may_not_see_is_not_there_to_be_superseded(told):
    pip = told.impersonate(await told.viewer("pip"))
    await tell(told, message("s", "secret", room=closed("blue", ANA), author=ANA, sent_at=at(6)))
    hidden = await told.memories.remember("Hidden.", sources=["s"])

    with pytest.raises(NotFound) as existing:
        await pip.memories.remember(NEW, sources=["r"], supersedes=str(hidden.id))
    with pytest.raises(NotFound) as missing:
        await pip.memories.remember(NEW, sources=["r"], supersedes=str(told.org_id))

    assert str(existing.value).replace(str(hidden.id), "…") == str(missing.value).replace(
        str(told.org_id), "…"
    )
    assert not (await told.memories.provenance(told.operator, str(hidden.id))).successors


async def test_of_several_that_supersede_one_at_once_one_does(told):
    old = await told.memories.remember(OLD, sources=["a"])

    done = await asyncio.gather(
        *(told.memories.remember(f"{n}.", sources=["b"], supersedes=str(old.id)) for n in range(4)),
        return_exceptions=True,
    )

    kept = [one for one in done if not isinstance(one, BadInput)]
    assert len(kept) == 1
    assert len(await told.memories.all(told.operator, statuses=STATUSES)) == 2


async def test_whoever_may_not_see_what_took_its_place_does_not_see_the_old_one(told, admin):
    """Not by our own doing: what takes a place is for the same people. But people come and go."""
    old = await told.memories.remember(OLD, sources=["a"])
    new = await told.memories.remember(NEW, sources=["b"], supersedes=str(old.id))
    await admin.execute(
        "update memory_sources set message_id = (select id from messages where org_id = %(org)s and external_id = 'r')"
        " where org_id = %(org)s and memory_id = %(new)s",
        {"org": told.org_id, "new": new.id},
    )

    assert len(await told.memories.all(await told.viewer("ana"), statuses=STATUSES)) == 2
    assert await told.memories.all(await told.viewer("cy"), statuses=STATUSES) == []
    assert not (await asked(told, "cy")).is_answered
    with pytest.raises(NotFound):
        await told.memories.provenance(await told.viewer("cy"), str(old.id))


# At once, and in a circle


async def test_of_two_that_would_supersede_each_other_at_once_one_does(told, admin):
    await tell(told, message("m", "in the mill", room=room("mill"), author=ANA, sent_at=at(6)))
    one = await told.memories.remember("One.", sources=["a"])
    other = await told.memories.remember("Other.", sources=["m"])

    async with admin.transaction():
        # Neither gets further than to the row that it changes.
        await admin.execute("select from memories where org_id = %s for update", [told.org_id])
        both = asyncio.gather(
            told.memories.remember("One.", sources=["a"], supersedes=str(other.id)),
            told.memories.remember("Other.", sources=["m"], supersedes=str(one.id)),
            return_exceptions=True,
        )
        await until_wait(admin, 2)
    done = await asyncio.wait_for(both, 60)

    [refusal] = [result for result in done if isinstance(result, BaseException)]
    assert isinstance(refusal, BadInput)
    assert "was superseded; rest this on newer messages" in str(refusal)
    listed = successors_of(await told.memories.all(told.operator, statuses=STATUSES))
    assert sorted(listed.values(), key=str) in ([one.id, None], [other.id, None])


async def test_what_goes_while_something_takes_its_place_hands_over_to_that(told, admin, monkeypatch):
    await tell(told, message("m", "in the mill", room=room("mill"), author=ANA, sent_at=at(6)))
    first = await told.memories.remember("First.", sources=["a"])
    second = await told.memories.remember("Second.", sources=["m"], supersedes=str(first.id))
    supersede, going = memory_writes.supersede, []

    async def supersede_and_wait(*args, **given):
        done = await supersede(*args, **given)
        going.append(asyncio.ensure_future(told.ingest(gone)))
        await until_wait(admin, 1)
        return done

    gone = message("m", "", room=room("mill"), author=ANA, sent_at=at(6), deleted=True)
    monkeypatch.setattr(memory_writes, "supersede", supersede_and_wait)
    third = await told.memories.remember("Third.", sources=["a"], supersedes=str(second.id))
    await asyncio.wait_for(going[0], 60)

    assert successors_of(await told.memories.all(told.operator, statuses=STATUSES)) == {
        first.id: third.id,
        third.id: None,
    }


async def test_a_circle_made_by_hand_hangs_no_read(told, admin):
    made = [await told.memories.remember(f"{n} quincunx.", sources=["a"]) for n in ("Two", "Three", "Four")]
    before = await told.memories.remember("One quincunx.", sources=["b"])
    two, three, four = made
    await chained(admin, (two, three), (three, four), (four, two), (before, two))

    async with asyncio.timeout(60):
        for viewer in (told.operator, await told.viewer("cy")):
            assert {one.id for one in await told.memories.all(viewer, statuses=STATUSES)} == {
                before.id,
                *(x.id for x in made),
            }
            why = await told.memories.provenance(viewer, str(three.id))
            assert [one.id for one in why.successors] == [four.id, two.id]
            assert {one.id for one in why.predecessors} == {before.id, two.id, four.id}
            why = await told.memories.provenance(viewer, str(before.id))
            assert [one.id for one in why.successors] == [two.id, three.id, four.id]
            await told.ask(viewer, "quincunx")


@pytest.mark.parametrize("gone", ["b", "c"])
async def test_of_a_circle_made_by_hand_what_stays_is_left_whole(told, admin, gone):
    """What goes is the link between two that stay, or all of the circle but what led into it."""
    sources = {"b": ("a", "b", "a"), "c": ("c", "c", "a")}[gone]
    first, second, third = [
        await told.memories.remember(f"{n}.", sources=[source])
        for n, source in zip(("First", "Second", "Third"), sources, strict=True)
    ]
    links = {
        "b": [(first, second), (second, first), (third, first)],
        "c": [(first, second), (second, first), (third, first)],
    }
    await chained(admin, *links[gone])

    async with asyncio.timeout(60):
        await told.erasure.message(gone)
        left = successors_of(await told.memories.all(told.operator, statuses=STATUSES))

    assert left == ({first.id: None, third.id: first.id} if gone == "b" else {third.id: None})


# What comes back, and what goes


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["erasure", "redaction", "person"])
async def test_the_old_one_stands_again_when_what_took_its_place_goes(told, how):
    old = await told.memories.remember(OLD, sources=["a"])
    await told.memories.remember(NEW, sources=["b"], supersedes=str(old.id))

    match how:
        case "erasure":
            receipt = await told.erasure.message("b")
        case "redaction":
            await told.erasure.redact("b")
            receipt = None
        case _:
            receipt = await told.erasure.person("bo")

    assert await told.memories.all(told.operator, statuses=STATUSES) == [old]
    assert (await asked(told, "cy")).text == f"(memory: fact, 2024-03-01) {OLD}"
    if receipt is not None:
        assert {one.what: one.count for one in receipt.removed}["memories"] == 1


async def test_a_chain_closes_around_what_goes(told):
    one = await told.memories.remember("First.", sources=["a"])
    two = await told.memories.remember("Second.", sources=["b"], supersedes=str(one.id))
    three = await told.memories.remember("Third.", sources=["b", "c"], supersedes=str(two.id))
    four = await told.memories.remember("Fourth.", sources=["c"], supersedes=str(three.id))

    await told.erasure.message("b")

    assert {
        memory.id: memory.superseded_by
        for memory in await told.memories.all(told.operator, statuses=STATUSES)
    } == {
        one.id: four.id,
        four.id: None,
    }
    await told.erasure.message("c")
    assert {
        memory.id: memory.superseded_by
        for memory in await told.memories.all(told.operator, statuses=STATUSES)
    } == {one.id: None}


async def test_erasing_what_was_superseded_leaves_what_took_its_place(told):
    old = await told.memories.remember(OLD, sources=["a"])
    new = await told.memories.remember(NEW, sources=["b"], supersedes=str(old.id))

    await told.erasure.message("a")

    assert await told.memories.all(told.operator, statuses=STATUSES) == [new]
    assert (await asked(told)).memories[0].superseded == []


async def test_no_chain_bites_its_tail_even_by_plain_sql(told, admin):
    one = await told.memories.remember("First.", sources=["a"])
    with pytest.raises(Exception, match="check constraint"):
        await admin.execute("update memories set superseded_by = id where id = %s", [one.id])


async def test_participants_cannot_supersede_by_plain_sql(told):
    old = await told.memories.remember(OLD, sources=["a"])
    new = await told.memories.remember(NEW, sources=["b"])
    async with told.db.audit_transaction(await told.viewer("cy")) as conn:
        cursor = await conn.execute("update memories set superseded_by = %s where id = %s", [new.id, old.id])
        assert cursor.rowcount == 0
