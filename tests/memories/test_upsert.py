"""What is stated twice is remembered once, and of two values the newer stands."""

import asyncio
from functools import partial
from itertools import permutations

import pytest

from ingest.stories import at, author, message, room
from memories.drafts import compare, kept, kept_home
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMembership
from roomlore.memories.consolidation import detach_messages
from roomlore.operations.memories import STATUSES
from search.telling import closed, tell

ANA, BO, CY = author("ana"), author("bo"), author("cy")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
HOMES = {"1": "Ana lives in Lisbon.", "2": "Ana lives in Porto.", "3": "Ana lives in Faro."}


async def small_talk(app):
    said = [(1, ANA), (2, ANA), (3, ANA), (4, BO), (5, PIP), (6, POP), (7, CY)]
    await tell(app, *(message(str(n), f"what {who.name} said", author=who, sent_at=at(n)) for n, who in said))


@pytest.fixture
async def told(app, tell_once):
    await tell_once(app, small_talk)
    return app


async def now(app, viewer=None, **wanted):
    return await app.memories.all(viewer or app.operator, **wanted)


async def standing(app, **wanted):
    return {one.content for one in await now(app, **wanted)}


# The same


async def test_concurrent_writers_store_one_memory_with_all_sources(told):
    said = ["1", "2", "3"]
    done = await asyncio.gather(
        *(kept(told, f"Ana{really} lives in Lisbon.", said[n % 3]) for n, really in enumerate(["", " "] * 4))
    )
    assert len({one.memory_id for one in done}) == 1
    assert sorted(one.outcome for one in done) == ["added", *["merged"] * 2, *["same"] * 5]
    [memory] = await now(told)
    assert len(memory.source_ids) == 3


async def test_an_equal_claim_adds_sources_tags_and_confidence(told):
    first = await kept(told, HOMES["1"], "1", confidence=0.6, tags=frozenset({"home"}))
    again = await kept(
        told, "ana lives in lisbon", "4", by="bo", confidence=0.5, importance=4, tags=frozenset({"town"})
    )
    assert (again.memory_id, again.outcome) == (first.memory_id, "merged")
    [memory] = await now(told)
    assert memory.content == HOMES["1"]
    assert memory.confidence == pytest.approx(0.8)
    assert (memory.importance, memory.tags, memory.extractor) == (4, ["home", "town"], "rules")
    assert {(one.role, one.name) for one in memory.participants} == {
        ("author", "Ana"),
        ("subject", "Ana"),
        ("involved", "Bo"),
    }


async def test_the_subject_becomes_the_author_of_their_own_statement(told):
    await kept(told, HOMES["1"], "4", by="bo")
    await kept(told, HOMES["1"], "1")
    [memory] = await now(told)
    named = {(one.role, one.name) for one in memory.participants}
    assert named == {("author", "Ana"), ("subject", "Ana"), ("involved", "Bo")}


async def test_agents_claims_weigh_half_and_confirm_nobody(told):
    await kept(told, HOMES["1"], "5", by="pip", confidence=0.8)
    await kept(told, HOMES["1"], "6", by="pop", confidence=0.8)
    [claimed] = await now(told)
    assert claimed.confidence == pytest.approx(0.4)
    await kept(told, HOMES["1"], "4", by="bo", confidence=0.5)
    [confirmed] = await now(told)
    assert confirmed.confidence == pytest.approx(0.7)


async def test_extracting_again_changes_nothing(told):
    await kept(told, HOMES["1"], "1")
    before = await now(told)
    again = await kept(told, HOMES["1"], "1")
    assert again.outcome == "same"
    assert await now(told) == before


async def test_two_extractors_store_one_memory_of_the_same_words(told):
    first = await kept(told, HOMES["1"], "1")
    other = await kept(told, "Ana's home is Lisbon.", "1", extractor="some language model")
    assert (other.memory_id, other.outcome) == (first.memory_id, "same")
    assert await standing(told) == {HOMES["1"]}


async def test_later_members_see_an_equal_memory_once(app):
    members = [
        IncomingMembership(author=who, joined_at=at(since)) for who, since in ((ANA, 0), (BO, 0), (CY, 5))
    ]
    attic = room("attic", visibility="members", members=tuple(members))
    await tell(
        app, *(message(id_, id_, room=attic, author=ANA, sent_at=at(n)) for id_, n in (("e", 1), ("l", 9)))
    )
    for order in (("e", "l"), ("l", "e")):
        content = f"Ana keeps bees, says {order[0]}."
        for said in order:
            await kept(app, content, said)
        for name in ("bo", "cy"):
            seen = [one for one in await now(app, await app.viewer(name)) if one.content == content]
            assert len(seen) == 1, (order, name)


async def test_another_audience_has_another_memory(told):
    red = closed("red", ANA, BO)
    await tell(told, message("r", "in red", room=red, author=ANA, sent_at=at(8)))
    await kept(told, HOMES["1"], "1")
    await kept(told, HOMES["1"], "r")
    assert len(await now(told)) == 2
    assert len(await now(told, await told.viewer("cy"))) == 1


# Values


@pytest.mark.parametrize("order", list(permutations("123")))
async def test_the_newest_value_is_active_in_any_order(told, order):
    for said in order:
        await kept_home(told, HOMES[said], said)
    assert await standing(told) == {HOMES["3"]}
    history = {one.content: one for one in await now(told, statuses=STATUSES)}
    assert history[HOMES["1"]].superseded_by == history[HOMES["2"]].id
    assert history[HOMES["2"]].superseded_by == history[HOMES["3"]].id
    for minute, home in ((1, "1"), (2, "2"), (59, "3")):
        assert await standing(told, as_of=at(minute)) == {HOMES[home]}
    assert await standing(told, as_of=at(0)) == set()


async def test_an_agents_claim_never_supersedes_an_own_statement(told):
    await kept_home(told, HOMES["1"], "1")
    await kept_home(told, HOMES["2"], "5", by="pip")
    assert await standing(told) == {HOMES["1"], HOMES["2"]}
    await kept_home(told, HOMES["3"], "3")
    await kept_home(told, HOMES["2"], "6", by="pop")
    assert await standing(told) == {HOMES["3"], HOMES["2"]}


async def test_another_subject_person_or_audience_does_not_supersede(told):
    await kept_home(told, HOMES["1"], "1")
    await kept_home(told, "Ana works in Porto.", "2")
    await kept_home(told, "Bo lives in Porto.", "4", by="bo", about=("bo",))
    await tell(told, message("r", "in red", room=closed("red", ANA, BO), author=ANA, sent_at=at(8)))
    await kept_home(told, HOMES["2"], "r")
    assert len(await now(told)) == 4


async def test_a_restored_value_is_not_superseded_again(told):
    await kept_home(told, HOMES["1"], "1")
    await kept_home(told, HOMES["2"], "2")
    [old] = await now(told, statuses=["deprecated"])
    await told.memories.restore(str(old.id))
    for said in "12":
        assert (await kept_home(told, HOMES[said], said)).outcome == "same"
    assert await standing(told) == {HOMES["1"], HOMES["2"]}
    await kept_home(told, HOMES["3"], "3")
    assert await standing(told) == {HOMES["3"]}
    [newest] = await now(told)
    with pytest.raises(BadInput, match="stands as it is"):
        await told.memories.restore(str(newest.id))


async def test_an_archived_memory_is_not_extracted_again(told):
    await kept_home(told, HOMES["1"], "1")
    await kept_home(told, HOMES["2"], "2")
    [memory] = await now(told)
    gone = await told.memories.archive(str(memory.id))
    assert gone.status == "archived"
    assert await standing(told) == set()
    for question in ("Where does Ana live in Porto?", "Where does Ana live in Lisbon?"):
        assert (await told.ask(told.operator, question)).memories == []
    assert (await kept_home(told, HOMES["2"], "2")).outcome == "same"
    assert await standing(told) == set()
    await told.memories.restore(str(memory.id))
    assert await standing(told) == {HOMES["2"]}


# What is drawn no longer


async def test_a_memory_that_is_no_longer_extracted_is_dropped_unless_it_has_other_sources(told):
    only = await kept_home(told, HOMES["1"], "1")
    both = await kept_home(told, HOMES["2"], "2")
    await kept_home(told, HOMES["2"], "3")
    messages = {one.source_ids[0] for one in await now(told, statuses=STATUSES)}
    gone = await told.db.change(
        told.org_id,
        partial(
            detach_messages, org_id=told.org_id, message_ids=messages, extractor="rules", still_extracted=[]
        ),
    )
    assert gone == 1
    [left] = await now(told, statuses=STATUSES)
    assert left.id == both.memory_id != only.memory_id
    assert len(left.source_ids) == 1


async def test_an_asserted_memory_is_never_dropped(told):
    memory = await told.memories.remember("Ana collects maps.", sources=["1"])
    await told.db.change(
        told.org_id,
        partial(
            detach_messages,
            org_id=told.org_id,
            message_ids=memory.source_ids,
            extractor="rules",
            still_extracted=[],
        ),
    )
    assert await now(told) == [memory]


# Of one person, and of those who were there


async def test_merged_accounts_share_values_until_they_are_split(told):
    await tell(told, message("h", "from home", author=author("ana_home"), sent_at=at(9)))
    await kept_home(told, HOMES["1"], "1")
    await kept(told, "Ana keeps bees.", "2")
    await kept_home(told, HOMES["2"], "h", by="ana_home", about=("ana_home",))
    await kept(told, "Ana keeps bees.", "h", by="ana_home", about=("ana_home",))
    await told.people.merge("ana", "ana_home")
    await compare(told, *(one.id for one in await now(told)))
    assert sorted(one.content for one in await now(told)) == ["Ana keeps bees.", HOMES["2"]]
    await told.people.split("ana_home")
    contents = sorted(one.content for one in await now(told))
    assert contents == ["Ana keeps bees.", "Ana keeps bees.", HOMES["1"], HOMES["2"]]


async def test_archived_memories_are_visible_only_to_the_people_concerned(told):
    await kept_home(told, HOMES["1"], "1")
    await kept_home(told, HOMES["2"], "2")
    [memory] = await now(told)
    await told.memories.archive(str(memory.id))
    for name, seen in (("ana", 2), ("bo", 0), ("pip", 0)):
        viewer = await told.viewer(name)
        assert len(await now(told, viewer, statuses=STATUSES)) == seen
        assert len(await told.memories.derived_from(viewer, "2")) == seen // 2
        assert await now(told, viewer, as_of=at(30)) == []


async def test_an_assertion_about_a_sensitive_conversation_is_sensitive(told):
    await told.disentangle()
    [conversation] = {one.id for one in await told.conversations.all(told.operator)}
    early = await told.memories.remember("They talk.", sources=["1"])
    await told.conversations.set_sensitivity(str(conversation), sensitivity="sensitive")
    late = await told.memories.remember("They talk a lot.", sources=["1"])
    seen = {one.id: one.sensitivity for one in await now(told)}
    assert seen == {early.id: "sensitive", late.id: "sensitive"}
