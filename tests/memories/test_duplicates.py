"""What is said to repeat or replace a memory takes its place, or leaves its own to it, and nothing else comes of it."""

import pytest

from ingest.stories import at, author, message, room
from memories.drafts import kept, kept_home
from memories.test_upsert import ANA, BO, HOMES, now, standing
from roomlore.domain.ids import MemoryId, uuid7
from roomlore.domain.incoming import IncomingMembership
from roomlore.operations.memories import STATUSES
from search.telling import CY, closed, tell

TEA, FOND, COFFEE = "Ana prefers tea.", "Ana is fond of tea.", "Ana prefers coffee."
BY = {"extractor": "some language model"}


async def small_talk(app):
    said = [(1, ANA), (2, ANA), (3, ANA), (4, BO)]
    await tell(app, *(message(str(n), f"what {who.name} said", author=who, sent_at=at(n)) for n, who in said))


@pytest.fixture
async def told(app, tell_once):
    await tell_once(app, small_talk)
    return app


@pytest.mark.parametrize("order", [("1", "2"), ("2", "1")])
async def test_the_later_of_two_equal_memories_is_active(told, order):
    contents = {"1": TEA, "2": FOND}
    first = await kept(told, contents[order[0]], order[0], **BY)
    second = await kept(told, contents[order[1]], order[1], repeats=first.memory_id, **BY)
    assert second.outcome == "added"
    assert await standing(told) == {FOND}
    [old] = await now(told, statuses=["deprecated"])
    # Each rests on its own words alone.
    assert len(old.sources) == 1
    await told.memories.restore(str(old.id))
    for said, other in (order, order[::-1]):
        again = await kept(told, contents[said], said, repeats=first.memory_id, **BY)
        assert (again.outcome, other != said) == ("same", True)
    assert await standing(told) == {TEA, FOND}


async def test_the_subjects_own_statement_is_not_superseded_by_a_repetition(told):
    own = await kept(told, TEA, "1", **BY)
    await kept(told, FOND, "4", by="bo", repeats=own.memory_id, **BY)
    assert await standing(told) == {TEA}


async def test_what_was_replaced_does_not_come_back(told):
    await kept_home(told, HOMES["1"], "1")
    second = await kept_home(told, HOMES["2"], "2")
    await kept(told, "Ana has settled in Faro.", "3", replaces=second.memory_id, **BY)
    assert await standing(told) == {"Ana has settled in Faro."}
    await kept_home(told, "Ana lives in Evora.", "3")
    assert HOMES["1"] not in await standing(told)
    assert HOMES["2"] not in await standing(told)


async def test_only_older_known_memories_are_replaced(told):
    late = await kept(told, TEA, "3", **BY)
    await kept(told, COFFEE, "1", replaces=late.memory_id, **BY)
    await kept(told, "Ana prefers cocoa.", "3", replaces=late.memory_id, **BY)
    await kept(told, "Ana prefers water.", "3", replaces=MemoryId(uuid7()), **BY)
    assert len(await now(told)) == 4


async def test_links_to_another_scope_are_ignored(told):
    await tell(told, message("r", "in red", room=closed("red", ANA, BO), author=ANA, sent_at=at(1)))
    red = await kept(told, TEA, "r", **BY)
    of_bo = await kept(told, "Bo prefers tea.", "4", by="bo", about=("bo",), **BY)
    for content, claim in (
        (COFFEE, {"replaces": red.memory_id}),
        (FOND, {"repeats": red.memory_id}),
        ("Ana prefers cocoa.", {"replaces": of_bo.memory_id}),
    ):
        await kept(told, content, "3", **claim, **BY)
    assert len(await now(told)) == 5
    assert await now(told, statuses=["deprecated"]) == []


async def test_later_members_keep_what_they_saw(app):
    """Ana said it before Cy was there, and Bo says so again with Cy there."""
    members = [
        IncomingMembership(author=who, joined_at=at(since)) for who, since in ((ANA, 0), (BO, 0), (CY, 5))
    ]
    red = room("red", visibility="members", members=tuple(members))
    lines = [message("1", "tea, please", room=red, author=ANA, sent_at=at(1))]
    lines.append(message("2", "tea for Ana", room=red, author=BO, sent_at=at(10)))
    await tell(app, *lines)
    first = await kept(app, TEA, "1", **BY)
    cy = await app.viewer("cy")
    for content, claim in ((FOND, "repeats"), (COFFEE, "replaces")):
        await kept(app, content, "2", by="bo", **{claim: first.memory_id}, **BY)
        assert content in {one.content for one in await now(app, cy)}
    assert await standing(app) == {FOND, COFFEE}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["a person's", "restricted_messages", "sensitive"])
async def test_a_link_that_became_invalid_is_ignored(told, admin, how):
    first = await kept(told, TEA, "1", **BY)
    if how == "a person's":
        await told.memories.remember(TEA, sources=["2"], about=["ana"])
    elif how == "restricted_messages":
        await tell(told, message("f", "please forget that", author=ANA, sent_at=at(9), reply_to="1"))
    else:
        await told.conversations.set_sensitivity("message:1", "sensitive")
    later = [message(key, "later on", author=ANA, sent_at=at(9_000)) for key in ("5", "6")]
    await tell(told, *later)
    await kept(told, FOND, "5", repeats=first.memory_id, **BY)
    await kept(told, COFFEE, "6", replaces=first.memory_id, **BY)
    rows = await admin.execute(
        "select distinct status, superseded_by from memories where org_id = %s", [told.org_id]
    )
    assert await rows.fetchall() == [("active", None)]


async def test_an_archived_memory_is_not_replaced(told):
    first = await kept(told, TEA, "1", **BY)
    await told.memories.archive(str(first.memory_id))
    await kept(told, COFFEE, "2", replaces=first.memory_id, **BY)
    [held] = await now(told, statuses=["archived"])
    assert (held.id, held.superseded_by) == (first.memory_id, None)


async def test_split_accounts_get_their_own_memories_back(told):
    await tell(told, message("h", "from home", author=author("ana_home"), sent_at=at(9)))
    await told.people.merge("ana", "ana_home")
    first = await kept(told, TEA, "1", **BY)
    await kept(told, COFFEE, "h", by="ana_home", about=("ana_home",), replaces=first.memory_id, **BY)
    assert await standing(told) == {COFFEE}
    await told.people.split("ana_home")
    assert await standing(told) == {TEA, COFFEE}


async def test_a_manual_replacement_survives_a_split(told):
    await tell(told, message("h", "from home", author=author("ana_home"), sent_at=at(9)))
    await told.people.merge("ana", "ana_home")
    first = await kept(told, TEA, "1", **BY)
    await told.memories.remember(COFFEE, sources=["h"], about=["ana_home"], supersedes=str(first.memory_id))
    await told.people.split("ana_home")
    assert TEA not in await standing(told)


async def test_as_of_shows_the_superseded_memory(told):
    first = await kept(told, TEA, "1", **BY)
    await kept(told, COFFEE, "3", replaces=first.memory_id, **BY)
    assert await standing(told, as_of=at(2)) == {TEA}
    assert await standing(told, as_of=at(4)) == {COFFEE}
    assert len(await now(told, statuses=STATUSES)) == 2


async def test_circular_links_end_at_the_latest_memory(told):
    """Whatever a language model claims: links lead to what stood, and what does not stand gets none."""
    first = await kept(told, TEA, "1", **BY)
    second = await kept(told, COFFEE, "2", replaces=first.memory_id, **BY)
    third = await kept(told, FOND, "3", repeats=first.memory_id, replaces=second.memory_id, **BY)
    again = await kept(told, TEA, "3", replaces=third.memory_id, **BY)
    for one in await now(told, statuses=STATUSES):
        seen = {one.id}
        at_ = one
        by_id = {each.id: each for each in await now(told, statuses=STATUSES)}
        while at_.superseded_by is not None:
            at_ = by_id[at_.superseded_by]
            assert at_.id not in seen
            seen.add(at_.id)
        assert at_.status == "active"
    assert again is not None
