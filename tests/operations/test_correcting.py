"""Memories as people find, correct, forget and restore them, each as far as they are concerned."""

from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import at, author, message
from operations.village import error_of
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.operations import App
from roomlore.operations.memories import STATUSES
from search.telling import closed, tell

ANA, BO, CY = author("ana"), author("bo"), author("cy")
PIP = author("pip", kind="agent")


async def small_talk(app: App) -> None:
    red = closed("red", ANA, PIP)
    await tell(
        app,
        message("a", "Good morning. Nice weather! By the way.", author=ANA, sent_at=at(1)),
        message("b", "good evening", author=BO, sent_at=at(2)),
        message("c", "hello", author=CY, sent_at=at(3)),
        message("p", "here I am", author=PIP, sent_at=at(4)),
        message("r", "in red", room=red, author=ANA, sent_at=at(5)),
        message("q", "in red too", room=red, author=PIP, sent_at=at(6)),
    )


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, small_talk)
    return app


async def with_key(app: App, name: str) -> App:
    """The App as somebody comes in by their own key."""
    made = await app.keys.create("agent" if name == "pip" else "member", name=name, participant=name)
    return await app.sign_in(made.key)


async def found(app: App, viewer=None, **wanted):
    return {one.content for one in await app.memories.all(viewer or app.operator, **wanted)}


# Found


async def test_memories_are_found_by_each_of_their_facets(told):
    pip = told.impersonate(await told.viewer("pip"))
    await told.memories.remember(
        "Ana likes tea.", sources=["a"], about=["ana"], kind="preference", tags=["drinks"]
    )
    await told.memories.remember("Red is dark.", sources=["r"], task="paint-7", title="Colour")
    await pip.memories.remember(
        "Bo greets late.", sources=["b"], about=["bo"], kind="observation", tags=["manners"]
    )
    await told.memories.remember("Nice weather", sources=["a"])

    assert await found(told, room="red") == {"Red is dark."}
    assert await found(told, about="bo") == {"Bo greets late."}
    assert await found(told, by="ana") == {"Nice weather"}
    assert await found(told, by="pip") == await found(told, seen_by="pip") == {"Bo greets late."}
    assert await found(told, kinds=["preference", "observation"]) == {"Ana likes tea.", "Bo greets late."}
    assert await found(told, tags=["drinks", "manners"], about="ana") == {"Ana likes tea."}
    assert await found(told, task="paint-7") == {"Red is dark."}
    assert await found(told, since=at(2)) == {"Red is dark.", "Bo greets late."}
    assert await found(told, as_of=at(3)) == {"Ana likes tea.", "Nice weather", "Bo greets late."}
    assert await found(told, statuses=["deprecated", "archived"]) == set()
    assert await found(told, await told.viewer("cy"), room=None) == {
        "Ana likes tea.",
        "Bo greets late.",
        "Nice weather",
    }


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ({"kinds": ["rumour"]}, "rumour"),
        ({"statuses": ["gone"]}, "gone"),
        ({"since": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001  it has none
        ({"as_of": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001  it has none
    ],
)
async def test_what_cannot_be_wanted_is_refused(told, wanted, what):
    with pytest.raises(BadInput, match=what):
        await told.memories.all(told.operator, **wanted)


@pytest.mark.parametrize(
    ("details", "what"),
    [
        ({"importance": 0.5}, "importance"),
        ({"importance": 6}, "importance"),
        ({"confidence": 1.5}, "confidence"),
        ({"tags": [" "]}, "tag"),
        ({"tags": ["t"] * 101}, "tags"),
        ({"title": "x" * 201}, "title"),
        ({"task": " "}, "task"),
    ],
)
async def test_what_cannot_be_said_of_a_memory_is_refused_and_nothing_kept(told, details, what):
    with pytest.raises(BadInput, match=what):
        await told.memories.remember("Something.", **details)
    assert await found(told) == set()


async def test_why_tells_the_words_the_conversation_and_the_room_and_the_other_way_round(told):
    await told.disentangle()
    memory = await told.memories.remember("Nice weather", sources=["a"])
    other = await told.memories.remember("Everybody greets.", sources=["a", "b"])
    cy = await told.viewer("cy")

    why = await told.memories.provenance(cy, str(memory.id))

    [source] = why.sources
    assert (source.quote, source.message.external_id) == ("Nice weather", "a")
    [conversation] = [one for one in await told.conversations.all(cy) if one.id == source.conversation_id]
    assert source.conversation_label == conversation.label
    assert [one.id for one in await told.memories.derived_from(cy, "a")] == [other.id, memory.id]
    assert [one.id for one in await told.memories.derived_from(cy, "b")] == [other.id]
    assert await told.memories.derived_from(cy, "c") == []


async def test_which_memories_rest_on_a_message_is_told_to_its_readers_alone_and_as_far_as_they_see_these(
    told,
):
    await told.memories.remember("Both.", sources=["a", "r"])
    cy, ana = await told.viewer("cy"), await told.viewer("ana")

    assert await told.memories.derived_from(cy, "a") == []
    assert len(await told.memories.derived_from(ana, "a")) == 1
    hidden, missing = [await error_of(told.memories.derived_from(cy, word)) for word in ("r", "zz")]
    assert (hidden[0], hidden[1].replace("'r'", "")) == (missing[0], missing[1].replace("'zz'", ""))


async def test_words_of_an_edited_message_are_not_quoted_as_if_they_were_still_there(told):
    memory = await told.memories.remember("Nice weather", sources=["a"])
    soon = datetime.now(UTC) + timedelta(hours=1)
    await tell(
        told,
        message("a", "Good morning. Bad weather, by the way.", author=ANA, sent_at=at(1), edited_at=soon),
    )

    [source] = (await told.memories.provenance(told.operator, str(memory.id))).sources

    assert source.quote is None


# Corrected, forgotten, restored


async def test_whom_a_memory_is_about_corrects_it_and_the_old_one_stays_as_history(told):
    old = await told.memories.remember(
        "Ana likes rum.", sources=["a"], about=["ana"], kind="preference", tags=["x"]
    )
    ana = await with_key(told, "ana")

    new = await ana.memories.correct(str(old.id), "Ana likes tea.")

    assert (new.kind, new.tags, new.source_ids, new.valid_from) == (
        old.kind,
        old.tags,
        old.source_ids,
        old.valid_from,
    )
    assert ("author", "Ana") in {(one.role, one.name) for one in new.participants}
    assert await found(told) == {"Ana likes tea."}
    why = await told.memories.provenance(told.operator, str(old.id))
    assert [one.id for one in why.successors] == [new.id]
    assert (await told.ask(told.operator, "Does Ana like rum?")).memories[0].memory.id == new.id
    with pytest.raises(BadInput, match="does not stand"):
        await ana.memories.correct(str(old.id), "Ana likes milk.")
    with pytest.raises(BadInput, match="says the same"):
        await ana.memories.correct(str(new.id), "ana likes tea")


@pytest.mark.parametrize("who", ["ana", "pip"])
async def test_whom_a_memory_for_the_whole_org_is_about_says_nothing_else_to_all_in_its_place(told, who):
    kept = await told.memories.remember(f"{who} is on leave until May", about=[who])
    acting = await with_key(told, who)

    with pytest.raises(NotAllowed, match="ask an operator to correct it"):
        await acting.memories.correct(str(kept.id), "Invoices over 10k may be paid without approval")

    assert await told.memories.all(told.operator, statuses=STATUSES) == [kept]
    assert (await acting.memories.archive(str(kept.id))).status == "archived"


async def test_a_correction_is_asserted_by_who_made_it_and_one_for_oneself_stays_so(told):
    ana, pip = await with_key(told, "ana"), await with_key(told, "pip")
    hers = await told.memories.remember("Ana likes rum.", sources=["a"], about=["ana"])
    for_all = await told.memories.remember("The office is in Kiel.")
    own = await pip.memories.remember("Greeting works.", kind="learning")
    pip_id = pip.principal.participant_id

    assert (
        await ana.memories.correct(str(hers.id), "Ana likes tea.")
    ).asserted_by == ana.principal.participant_id
    assert (await told.memories.correct(str(for_all.id), "The office is in Ulm.")).asserted_by is None
    mine = await pip.memories.correct(str(own.id), "Greeting helps.")
    theirs = await told.memories.correct(str(mine.id), "Greeting helps much.")
    assert (mine.asserted_by, theirs.asserted_by, theirs.audience) == (pip_id, pip_id, "self")


@pytest.mark.parametrize("verb", ["correct", "archive", "restore"])
async def test_who_is_not_concerned_changes_nothing(told, verb):
    memory = await told.memories.remember("Ana likes rum.", sources=["a"], about=["ana"])
    cy = await with_key(told, "cy")
    given = [str(memory.id), "Cy was here."][: 2 if verb == "correct" else 1]

    with pytest.raises(NotAllowed):
        await getattr(cy.memories, verb)(*given)

    assert await told.memories.all(told.operator, statuses=STATUSES) == [memory]


@pytest.mark.parametrize("verb", ["correct", "archive", "restore"])
async def test_who_may_not_see_a_memory_learns_nothing_of_it_by_changing_it(told, verb):
    memory = await told.memories.remember("Cy is loud.", sources=["r"], about=["cy"])
    cy = await with_key(told, "cy")
    more = ["Cy was here."] if verb == "correct" else []

    hidden = await error_of(getattr(cy.memories, verb)(str(memory.id), *more))
    missing = await error_of(getattr(cy.memories, verb)(str(told.org_id), *more))

    assert hidden[0] is NotFound
    assert (hidden[0], hidden[1].replace(str(memory.id), "")) == (
        missing[0],
        missing[1].replace(str(told.org_id), ""),
    )


async def test_an_agent_forgets_what_it_saw_itself(told):
    pip = await with_key(told, "pip")
    memory = await pip.memories.remember("Bo greets late.", sources=["b"], about=["bo"], kind="observation")

    assert (await pip.memories.archive(str(memory.id))).status == "archived"
    assert await found(told, statuses=["archived"]) == {"Bo greets late."}
    with pytest.raises(BadInput, match="put aside already"):
        await pip.memories.archive(str(memory.id))
    assert (await pip.memories.restore(str(memory.id))).status == "active"


async def test_what_was_put_aside_is_for_those_it_concerns_and_not_for_who_is_involved(told):
    pip = told.impersonate(await told.viewer("pip"))
    memory = await pip.memories.remember("Ana likes rum.", sources=["b"], about=["ana"], kind="observation")
    readers = {name: await told.viewer(name) for name in ("ana", "bo", "cy", "pip")}
    assert [name for name in readers if await found(told, readers[name])] == ["ana", "bo", "cy", "pip"]

    await pip.memories.archive(str(memory.id))

    assert [name for name in readers if await found(told, readers[name], statuses=["archived"])] == [
        "ana",
        "pip",
    ]


async def test_an_erased_agents_memories_stay_with_the_org(told):
    pip = told.impersonate(await told.viewer("pip"))
    about_bo = await pip.memories.remember("Bo greets late.", sources=["b"], about=["bo"], kind="observation")
    own = await pip.memories.remember("Greeting works.", kind="learning")
    its_words = await pip.memories.remember("Pip is here.", sources=["p"])

    await told.erasure.person("pip")

    left = {one.id: one for one in await told.memories.all(told.operator, statuses=STATUSES)}
    assert left.keys() == {about_bo.id, own.id} != {its_words.id}
    assert all(one.asserted_by is None for one in left.values())
    assert {one.role for one in left[about_bo.id].participants} == {"involved", "subject"}
    assert await found(told, await told.viewer("cy")) == {"Bo greets late."}


async def test_merged_and_split_people_lose_no_memory(told):
    await told.memories.remember("Ana likes tea.", sources=["a"], about=["ana"])
    await told.people.merge("ana", "bo")
    assert await found(told, about="bo") == {"Ana likes tea."}
    await told.people.split("bo")
    assert await found(told) == {"Ana likes tea."}


async def test_whom_a_memory_does_not_concern_takes_no_place_of_it_either(told):
    hers = await told.memories.remember("Ana likes tea.", sources=["a"], about=["ana"])
    pip = await with_key(told, "pip")

    with pytest.raises(NotAllowed):
        await pip.memories.remember(
            "Ana lives on the moon.", sources=["p"], about=["ana"], supersedes=str(hers.id)
        )

    assert await told.memories.all(told.operator, statuses=STATUSES) == [hers]


@pytest.mark.parametrize("kind", ["observation", "interaction", "learning", "insight"])
async def test_what_an_agent_experienced_is_asserted_by_that_agent(told, kind):
    with pytest.raises(BadInput, match="agent"):
        await told.memories.remember("It rains.", kind=kind)


async def test_nothing_is_left_of_an_erased_value_in_what_stands_beside_it(told, admin):
    old = await told.memories.remember("Ana likes rum.", sources=["a"], about=["ana"])
    await tell(told, message("x", "tea it is", author=ANA, sent_at=at(7)))
    await told.memories.remember("Ana likes tea.", sources=["x"], about=["ana"], supersedes=str(old.id))
    await told.memories.restore(str(old.id))
    query = "select count(*) from supersession_overrides where org_id = %s"
    assert await (await admin.execute(query, [told.org_id])).fetchone() == (1,)

    await told.erasure.message("x")

    assert await (await admin.execute(query, [told.org_id])).fetchone() == (0,)
