"""Searching and asking on a page: whole threads, sources, and plainly what is not known."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser

from ingest.stories import at, author, message, room
from operations.village import EVERYWHERE, PEOPLE, village
from roomlore.operations import App
from roomlore.web.routes.search import pieces
from search.telling import tell
from surfaces.http.calling import mostly_slow
from surfaces.mcp.speaking import beside, text_of
from surfaces.web.conftest import Visitor, visiting, window

ANA, BO = author("ana"), author("bo")
TALK = [
    message("1", "which paint is on the lighthouse door?", author=ANA, room=room("harbour"), sent_at=at(1)),
    message(
        "2",
        "the lighthouse door has oxide red paint",
        author=BO,
        room=room("harbour"),
        sent_at=at(2),
        reply_to="1",
    ),
    message("3", "I lost my hat", author=ANA, room=room("harbour"), sent_at=at(3)),
]


async def reads(app: App, name: str) -> set[str]:
    """What somebody may read at all, by external id."""
    viewer = await app.viewer(name)
    found = (await app.search(viewer, EVERYWHERE, limit=50)).hits
    return {said.external_id for hit in found for said in hit.messages}


def texts(twin: Any) -> set[str]:
    hits = twin["found"]["hits"] if twin["found"] else twin["answer"]["sources"]
    return {said["external_id"] for hit in hits for said in hit["messages"]}


async def test_nothing_is_asked_yet_and_nothing_found(local: Visitor) -> None:
    twin = await local.twin("/search.json")
    assert twin["found"] is None
    assert twin["answer"] is None
    assert 'type="search"' in await local.page("/search")


async def test_what_is_found_is_marked_with_its_reasons_and_leads_to_the_room(app: App) -> None:
    await tell(app, *TALK)
    async with visiting(app) as visitor:
        twin = await visitor.twin("/search.json?q=lighthouse paint")
        page = await visitor.page("/search?q=lighthouse paint")
    best = twin["found"]["hits"][0]
    assert [said["external_id"] for said in best["messages"]] == ["1", "2"]
    assert "<mark>the lighthouse door has oxide red paint</mark>" in page
    assert "matched by the words" in page
    for said in best["messages"]:
        assert f"/r/{said['room_id']}?at={said['id']}#m-{said['id']}" in page


async def test_a_page_shows_the_filters_of_a_question_and_the_names_that_nobody_has(app: App) -> None:
    await tell(app, *TALK)
    async with visiting(app) as visitor:
        known = await visitor.page("/search?q=what did ana say about the paint?")
        unknown = await visitor.page("/search?q=what did quentin say about the paint?")
    assert "Read as: by Ana." in known
    assert "Nobody called “quentin” is known here" in unknown


async def test_an_answer_stands_with_its_sources_and_where_it_was_looked(app: App) -> None:
    await tell(app, *TALK)
    await app.drain()
    async with visiting(app) as visitor:
        page = await visitor.page("/search?do=ask&q=which paint is on the lighthouse door?")
        twin = await visitor.twin("/search.json?do=ask&q=which paint is on the lighthouse door?")
    assert twin["answer"]["is_answered"]
    assert "oxide red" in page
    assert "Stages" in page
    assert "2" in texts(twin)


@pytest.mark.slow
async def test_what_is_not_known_is_said_plainly(app: App) -> None:
    await tell(app, *TALK)
    async with visiting(app) as visitor:
        page = await visitor.page("/search?do=ask&q=who won the chess cup in Reykjavik?")
    assert "Not known" in page
    assert "I don&#39;t have this information." in page


@pytest.mark.parametrize("name", mostly_slow(PEOPLE, "eve"))
@pytest.mark.parametrize("deed", mostly_slow(["search", "ask"], "ask"))
async def test_nobody_finds_what_they_may_not_read(app: App, name: str, deed: str) -> None:
    await village(app)
    readable = await reads(app, name)
    everything = {
        said.external_id: said
        for where in await app.rooms(app.operator)
        for said in await app.messages(app.operator, str(where.id), limit=100)
    }
    role = "agent" if name == "pip" else "member"
    key = (await app.keys.create(role, name=name, participant=name)).key
    rooms = {where.name for where in await app.rooms(await app.viewer(name))}
    async with visiting(app, key) as visitor:
        for question in (EVERYWHERE, *(f"word{number}" for number in range(1, 13))):
            path = f"do={deed}&q={question}&limit=50"
            twin, page = await visitor.twin(f"/search.json?{path}"), await visitor.page(f"/search?{path}")
            assert texts(twin) <= readable
            assert {one["name"] for one in twin["rooms"]} == rooms
            for external_id in everything.keys() - readable:
                assert str(everything[external_id].id) not in page
                if everything[external_id].body.split()[1] != question:
                    assert everything[external_id].body not in page


async def test_narrowing_by_what_is_hidden_is_not_found(app: App) -> None:
    await village(app)
    key = (await app.keys.create("member", name="eve", participant="eve")).key
    async with visiting(app, key) as visitor:
        for narrowing in ("room=attic", "room=nowhere", "as_of=m4", "as_of=nothing"):
            for path in ("/search", "/search.json"):
                assert (await visitor.get(f"{path}?q=village&{narrowing}")).status_code == 404


async def test_filters_narrow_what_is_found(app: App) -> None:
    await village(app)
    async with visiting(app) as visitor:
        by_bo = await visitor.twin("/search.json?q=village&by=bo&limit=50")
        agents = await visitor.twin("/search.json?q=village&kind=agent&limit=50")
        early = await visitor.twin("/search.json?q=village&as_of=m3&limit=50")
    marked = {
        said["author_name"] for hit in by_bo["found"]["hits"] for said in hit["messages"] if said["why"]
    }
    assert marked == {"Bo"}
    assert texts(agents) == {"m3"}
    assert texts(early) <= {"m1", "m2", "m3"}


async def test_a_bad_address_is_told(local: Visitor) -> None:
    for query in [
        "q=a&do=shout",
        "q=a&kind=ghost",
        "q=a&since=whenever",
        "q=a&answered=maybe",
        "q=a&limit=0",
        "q=a&limit=51",
    ]:
        for path in ("/search", "/search.json"):
            assert (await local.get(f"{path}?{query}")).status_code == 400


async def test_what_no_database_takes_is_no_fault(local: Visitor) -> None:
    for query in ["q=%00", "q=a%00b", "q=a&room=%00", "q=a&by=%00", "q=a&as_of=%00", "q=a&since=%00"]:
        for path in ("/search", "/search.json"):
            assert (await local.get(f"{path}?{query}")).status_code < 500


async def test_a_question_longer_than_any_is_refused(local: Visitor) -> None:
    assert (await local.get("/search", params={"q": "a" * 10_001})).status_code == 400


@pytest.mark.slow
async def test_two_rooms_of_one_name_are_told_apart_wherever_they_are_named(app: App) -> None:
    for place in ("acme", "umbrella"):
        where = room(f"g-{place}", name="general", workspace=place)
        await tell(app, message(f"t-{place}", "the lighthouse door is red", author=ANA, room=where))
    names = {"acme/general", "umbrella/general"}
    await app.memories.remember("The door is red", sources=["t-acme"])
    assert {hit.room_name for hit in (await app.search(app.operator, "lighthouse door")).hits} == names
    answer = await app.ask(app.operator, "what colour is the lighthouse door?", room="acme/general")
    assert answer.hits or answer.memories
    async with visiting(app) as visitor:
        pages = [
            await visitor.page("/"),
            await visitor.page("/search?q=lighthouse+door"),
            await visitor.page("/ops"),
        ]
        [told] = (await visitor.twin("/m.json"))["shelf"]["memories"]
        assert told["origins"][0]["room_name"] == "acme/general"
    for page in pages:
        assert all(name in page for name in names)
    async with beside(app) as client:
        for tool, asked in (("room_list", {}), ("room_search", {"question": "lighthouse door"})):
            text = text_of(await client.call_tool(tool, asked))
            assert all(name in text for name in names), tool


async def test_a_line_of_another_day_than_the_one_before_it_says_which(app: App) -> None:
    where = room("pier")
    for number, day in (("1", 0), ("2", 0), ("3", 2)):
        await tell(
            app,
            message(
                number,
                f"line {number}",
                room=where,
                sent_at=at(int(number) + day * 1440),
                reply_to=None if number == "1" else "1",
            ),
        )
    [pier] = await app.rooms(app.operator)
    async with visiting(app) as visitor:
        page = await visitor.page(f"/r/{pier.id}?view=threads")
    assert ">12:02</time>" in page
    assert ">2024-03-03 12:03</time>" in page


async def test_what_a_page_does_not_know_of_its_address_changes_nothing(local: Visitor) -> None:
    """Links come from mails and chats, which add parameters of their own to them."""
    for path, added in (("/search?q=village", "&utm_source=mail&fbclid=1"), ("/m", "?utm_source=mail")):
        assert (await local.twin(path.replace("?", ".json?") if "?" in path else f"{path}.json")) == (
            await local.twin((path.replace("?", ".json?") if "?" in path else f"{path}.json") + added)
        )
        assert (await local.get(path + added)).status_code == 200


MARKS = st.sampled_from(["#m1", "#m2", "#m10", "[1]", "#k1"])


@given(st.lists(st.one_of(MARKS, st.text()), max_size=12), st.sets(MARKS))
def test_an_answer_in_pieces_is_the_same_text(parts: list[str], known: set[str]) -> None:
    citations: dict[str, UUID | str] = {mark: uuid4() for mark in known}
    found = pieces("".join(parts), citations)
    assert "".join(piece.text for piece in found) == "".join(parts)
    for piece in found:
        assert piece.cites == citations.get(piece.text)


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_search_and_ask(app: App, browser: Browser, theme: str) -> None:
    await tell(app, *TALK)
    async with window(browser, app, theme=theme) as seen:
        page = await seen.open("/search")
        await page.get_by_role("searchbox").fill("lighthouse paint")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**do=search*")
        assert await page.locator("li.found").count() > 0
        assert await seen.violations() == []
        await page.get_by_role("button", name="Ask").click()
        await page.wait_for_url("**do=ask*")
        assert await seen.violations() == []
        assert seen.faults == []
