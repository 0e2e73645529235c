"""The pages of memories: what they have in common, what one rests on, for whom it is, and who may put it right."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from playwright.async_api import Browser

from conftest import TellOnce
from ingest.stories import at, author, message, room
from roomlore.domain.errors import NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import Memory
from roomlore.operations import App
from roomlore.operations.memories import MemoryBrowser
from roomlore.web.routes.memories import SHOWN
from search.telling import closed, tell
from surfaces.web.conftest import Visitor, visiting, window

ANA, ANA_HOME, BO, CY, DEE, EVE = map(author, ("ana", "ana_home", "bo", "cy", "dee", "eve"))
PIP = author("pip", kind="agent")
PEOPLE = ("ana", "ana_home", "bo", "cy", "dee", "eve", "pip")
#: Everybody may read it; Ana, Bo and Dee work there.
YARD = room("yard", members=tuple(IncomingMembership(author=who, joined_at=at(0)) for who in (ANA, BO, DEE)))
LOFT = closed("loft", ANA, BO)
CELLAR = closed("cellar", ANA_HOME, CY)


def said(key: str, minute: int, who: Any, body: str, **fields: Any) -> Any:
    return message(key, body, author=who, sent_at=at(minute), **({"room": YARD} | fields))


STORY = [
    said("y1", 1, BO, "Flour comes on Mondays, and never on Sundays."),
    said("y2", 2, BO, "Flour comes on Fridays."),
    said("y3", 3, ANA, "The miller is ill."),
    said("l1", 4, ANA, "The code of the loft is 4471.", room=LOFT),
    said("c1", 5, CY, "The cellar floods in spring.", room=CELLAR),
    said("w1", 6, ANA, "I am leaving in autumn.", kind="whisper", audience=(BO,)),
    *(said(f"hi-{who.account_id}", 7, who, "hello") for who in (ANA, ANA_HOME, BO, CY, DEE, EVE, PIP)),
]


async def milled(app: App) -> None:
    """An org with memories for everybody, for members, for two, for one, and for those who were there."""
    await tell(app, *STORY)
    await app.people.merge("ana", "ana_home")


@pytest.fixture
async def mill(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, milled)
    return app


async def remembered(mill: App) -> dict[str, Memory]:
    """Have the mill's memories kept, by what they are called here."""
    remember = mill.memories.remember
    monday = await remember("Flour comes on Mondays", sources=["y1"], about=["Bo"], tags=["flour"])
    pip = mill.impersonate(await mill.viewer("pip"))
    return {
        "monday": monday,
        "friday": await remember(
            "Flour comes on Fridays", sources=["y2"], supersedes=str(monday.id), tags=["flour"]
        ),
        "ill": await remember("The miller is ill", sources=["y3"], sensitive=True),
        "loft": await remember(
            "The code of the loft is 4471", sources=["l1"], kind="preference", tags=["codes"]
        ),
        "cellar": await remember("The cellar floods in spring", sources=["c1"], about=["Cy"]),
        "autumn": await remember("I am leaving in autumn", sources=["w1"], tags=["plans"]),
        "alone": await pip.memories.remember("Bo snores like a saw", about=["Bo"]),
    }


@asynccontextmanager
async def seen_by(mill: App, name: str) -> AsyncGenerator[Visitor]:
    """A visitor with a participant's key."""
    made = await mill.keys.create("agent" if name == "pip" else "member", name=f"of {name}", participant=name)
    async with visiting(mill, made.key) as visitor:
        yield visitor


async def recalled_by(mill: App, kept: dict[str, Memory], name: str) -> set[str]:
    viewer = await mill.viewer(name)
    found: set[str] = set()
    for word, memory in kept.items():
        try:
            await mill.memories.provenance(viewer, str(memory.id))
        except NotFound:
            continue
        found.add(word)
    return found


@pytest.mark.slow
async def test_each_viewer_is_shown_their_memories_and_of_others_neither_words_nor_ids(mill: App) -> None:
    kept = await remembered(mill)
    for name in PEOPLE:
        seen = await recalled_by(mill, kept, name)
        async with seen_by(mill, name) as visitor:
            for path in ("/m?status=any", "/m.json?status=any"):
                text = await visitor.page(path)
                shown = {word for word, memory in kept.items() if str(memory.id) in text}
                assert shown == seen, (name, path)
                assert all(
                    word in seen or memory.content not in text.replace("\n", " ")
                    for word, memory in kept.items()
                )
    assert await recalled_by(mill, kept, "eve") == {"monday", "friday"}
    assert await recalled_by(mill, kept, "bo") == {"monday", "friday", "ill", "loft", "autumn"}


async def test_what_may_not_be_seen_is_not_found_like_what_is_not_there(mill: App) -> None:
    kept = await remembered(mill)
    async with seen_by(mill, "eve") as visitor:
        for word in ("ill", "loft", "cellar", "autumn", "alone"):
            for end in ("", ".json"):
                hidden = await visitor.get(f"/m/{kept[word].id}{end}")
                absent_id = uuid4()
                absent = await visitor.get(f"/m/{absent_id}{end}")
                assert hidden.status_code == absent.status_code == 404
                same = hidden.text.replace(str(kept[word].id), str(absent_id))
                request_ids = (hidden.headers["x-request-id"], absent.headers["x-request-id"])
                assert same.replace(request_ids[0], request_ids[1]) == absent.text


@pytest.mark.slow
async def test_following_a_facet_shows_exactly_as_many_as_it_counts(mill: App) -> None:
    await remembered(mill)
    for name in PEOPLE:
        async with seen_by(mill, name) as visitor:
            facets = (await visitor.twin("/m.json?status=any"))["facets"]
            assert facets.keys() >= {"kind", "room", "by"}
            for facet, tallies in facets.items():
                for one in tallies:
                    status = "" if facet == "status" else "&status=any"
                    narrowed = await visitor.twin(f"/m.json?{facet}={one['value']}{status}")
                    assert len(narrowed["shelf"]["memories"]) == one["count"], (name, facet, one)


async def test_facets_name_no_room_person_or_tag_of_what_is_not_seen(mill: App) -> None:
    await remembered(mill)
    async with seen_by(mill, "eve") as visitor:
        twin = await visitor.twin("/m.json?status=any")
    told = {(one["facet"], one["name"]) for one in twin["shelf"]["facets"]}
    assert {name for facet, name in told if facet == "room"} == {"yard"}
    assert {name for facet, name in told if facet == "tag"} == {"flour"}
    assert {name for facet, name in told if facet in {"about", "by"}} <= {"Bo", "Ana"}
    assert twin["shelf"]["facet_sample"] == 2


async def test_narrowing_to_what_may_not_be_known_says_that_it_is_not_there(mill: App) -> None:
    await remembered(mill)
    async with seen_by(mill, "eve") as visitor:
        for path in ("/m?room=loft", "/m?room=nowhere", "/m.json?room=loft"):
            assert (await visitor.get(path)).status_code == 404
        tagged = await visitor.twin("/m.json?tag=codes")
    assert tagged["shelf"]["memories"] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "query",
    [
        "kind=gossip",
        "status=gone",
        "before=1",
        "before=x%00",
        "since=whenever",
        "room=%00",
        "about=%00",
        "tag=%00",
        "&".join(f"tag=t{number}" for number in range(21)),
    ],
)
async def test_a_bad_address_is_told_and_no_fault(mill: App, query: str) -> None:
    await remembered(mill)
    async with visiting(mill) as visitor:
        page, twin = await visitor.get(f"/m?{query}"), await visitor.get(f"/m.json?{query}")
    assert page.status_code == twin.status_code
    assert page.status_code in {400, 404}


@pytest.mark.slow
async def test_older_memories_are_on_further_pages_each_once(mill: App) -> None:
    contents = [f"Sack number {number} is full" for number in range(SHOWN + 5)]
    for content in contents:
        await mill.memories.remember(content, sources=["y1"])
    seen: list[str] = []
    async with visiting(mill) as visitor:
        path = "/m.json?room=yard"
        while True:
            shelf = (await visitor.twin(path))["shelf"]
            seen += [one["memory"]["content"] for one in shelf["memories"]]
            assert shelf["facet_sample"] == (0 if "before" in path else len(contents))
            if shelf["next"] is None:
                break
            path = f"/m.json?room=yard&before={shelf['next']}"
        first = await visitor.page("/m?room=yard")
    assert seen == contents[::-1]
    assert 'rel="next"' in first


# One memory


async def test_a_memory_shows_its_words_within_the_message_and_leads_to_where_they_were_said(
    mill: App,
) -> None:
    kept = await remembered(mill)
    async with visiting(mill) as visitor:
        page = await visitor.page(f"/m/{kept['monday'].id}")
        twin = await visitor.twin(f"/m/{kept['monday'].id}.json")
    source = twin["provenance"]["sources"][0]["message"]
    assert "<mark>Flour comes on Mondays</mark>, and never on Sundays." in page
    assert f"/r/{source['room_id']}?at={source['id']}#m-{source['id']}" in page
    assert twin["evidence"][0]["quoted"] == "Flour comes on Mondays"


async def test_what_was_superseded_is_struck_through_below_what_stands(mill: App) -> None:
    kept = await remembered(mill)
    async with visiting(mill) as visitor:
        for word in ("monday", "friday"):
            page = await visitor.page(f"/m/{kept[word].id}")
            history = page[page.index('<ol class="history">') :]
            assert history.index("Flour comes on Fridays") < history.index("Flour comes on Mondays")
            assert f'<del><a href="/m/{kept["monday"].id}">' in history
            assert f'<del><a href="/m/{kept["friday"].id}">' not in history


@pytest.mark.slow
async def test_what_people_said_is_text_on_the_page_and_nothing_else(mill: App) -> None:
    await tell(mill, said("x1", 9, BO, '<script>alert(1)</script> <img src=x onerror="alert(1)">'))
    memory = await mill.memories.remember("<script>alert(1)</script>", sources=["x1"], tags=['"><b>'])
    async with visiting(mill) as visitor:
        pages = [await visitor.page(path) for path in (f"/m/{memory.id}", "/m", "/search?q=script alert")]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "<b>" not in page


@pytest.mark.slow
async def test_an_operator_is_told_exactly_who_may_read_what_a_memory_rests_on(mill: App) -> None:
    kept = await remembered(mill)
    recalls = {name: await recalled_by(mill, kept, name) for name in PEOPLE}
    for word, memory in kept.items():
        if word == "monday":
            continue
        audience = await MemoryBrowser(access=mill.access).audience(mill.operator, str(memory.id))
        may = {name for name in PEOPLE if word in recalls[name]}
        # Two accounts of one person are one.
        persons = {"ana" if name == "ana_home" else name for name in may}
        if audience.is_open:
            assert may == set(PEOPLE), word
            continue
        named = {one.name.lower() for one in audience.readers}
        assert {"ana" if name.startswith("ana") else name for name in named} == persons, word


@pytest.mark.slow
async def test_nobody_learns_of_others_from_who_may_see_a_memory(mill: App) -> None:
    kept = await remembered(mill)
    for name in PEOPLE:
        viewer = await mill.viewer(name)
        known = {account for one in await mill.participants(viewer) for account in one.accounts}
        for word in await recalled_by(mill, kept, name):
            audience = await MemoryBrowser(access=mill.access).audience(viewer, str(kept[word].id))
            assert {one.id for one in audience.readers} <= known
            rooms = {room.name for room in await mill.rooms(viewer)}
            assert {one.room_name for one in audience.origins} <= rooms | {None}


async def test_a_whispers_memory_says_for_whom_it_is(mill: App) -> None:
    kept = await remembered(mill)
    async with seen_by(mill, "bo") as visitor:
        page = await visitor.page(f"/m/{kept['autumn'].id}")
    assert "for its author and its recipients" in page
    readers = page[page.index("Of those you know of") :]
    assert ">Bo</a>" in readers[:400]
    assert ">Cy</a>" not in readers


@pytest.mark.slow
async def test_wishes_that_cover_a_memory_are_the_operators_and_their_authors_to_see(app: App) -> None:
    await tell(
        app,
        said("1", 1, ANA, "I collect thimbles."),
        said("2", 2, BO, "good for you"),
        said("3", 3, ANA, "please don't tell Eve that I collect thimbles"),
        said("4", 4, EVE, "hello"),
    )
    memory = await app.memories.remember("I collect thimbles", sources=["1"])
    wishes = await app.privacy_requests.all(app.operator)
    for wish in wishes:
        await app.privacy_requests.apply(str(wish.id))
    assert any(said.id in memory.source_ids for wish in wishes for said in wish.covered_messages)
    async with visiting(app) as visitor:
        assert "Privacy requests that cover it" in await visitor.page(f"/m/{memory.id}")
    async with seen_by(app, "bo") as visitor:
        assert "Privacy requests that cover it" not in await visitor.page(f"/m/{memory.id}")
    async with seen_by(app, "eve") as visitor:
        assert (await visitor.get(f"/m/{memory.id}")).status_code == 404


# Putting it right


async def test_a_correction_takes_the_place_and_says_so(mill: App) -> None:
    kept = await remembered(mill)
    async with visiting(mill) as visitor:
        path = f"/m/{kept['friday'].id}"
        done = await visitor.send(f"{path}/correct", on=path, content="Flour comes on Thursdays")
        assert done.status_code == 303
        page = await visitor.page(done.headers["location"])
        assert "Corrected. The old memory" in page
        assert "Flour comes on Thursdays" in page
    assert (
        await mill.memories.provenance(mill.operator, str(kept["friday"].id))
    ).memory.status == "deprecated"


async def test_a_memory_is_put_aside_and_stands_again(mill: App) -> None:
    kept = await remembered(mill)
    path = f"/m/{kept['friday'].id}"
    async with visiting(mill) as visitor:
        unsure = await visitor.send(f"{path}/archive", on=path)
        assert unsure.status_code == 400
        done = await visitor.send(f"{path}/archive", on=path, sure="on")
        assert "Archived" in await visitor.page(done.headers["location"])
        assert "Flour comes on Fridays" not in await visitor.page("/m")
        await visitor.send(f"{path}/restore", on=path)
        assert "Flour comes on Fridays" in await visitor.page("/m")


async def test_whom_a_memory_does_not_concern_is_offered_no_form_and_refused_one(mill: App) -> None:
    kept = await remembered(mill)
    path = f"/m/{kept['friday'].id}"
    async with seen_by(mill, "eve") as visitor:
        page = await visitor.page(path)
        assert "Change it" not in page
        for deed, form in (("correct", {"content": "Never"}), ("archive", {"sure": "on"}), ("restore", {})):
            assert (await visitor.send(f"{path}/{deed}", on="/m", **form)).status_code == 403
        hidden = f"/m/{kept['loft'].id}"
        assert (await visitor.send(f"{hidden}/archive", on="/m", sure="on")).status_code == 404
    async with seen_by(mill, "bo") as visitor:
        assert "Change it" in await visitor.page(path)
    assert (await mill.memories.provenance(mill.operator, str(kept["friday"].id))).memory.status == "active"


async def test_a_form_of_another_site_or_without_its_token_changes_nothing(mill: App) -> None:
    kept = await remembered(mill)
    path = f"/m/{kept['friday'].id}/archive"
    async with visiting(mill) as visitor:
        form = {"sure": "on", "token": "forged"}
        assert (await visitor.client.post(path, data=form)).status_code == 403
        assert (await visitor.client.post(path, data={"sure": "on"})).status_code == 403
        foreign = {"origin": "http://elsewhere.example"}
        assert (await visitor.client.post(path, data=form, headers=foreign)).status_code == 403
    assert (await mill.memories.provenance(mill.operator, str(kept["friday"].id))).memory.status == "active"


async def test_an_operator_who_looks_as_another_sees_and_changes_as_they_do(mill: App) -> None:
    kept = await remembered(mill)
    async with visiting(mill) as visitor:
        assert (await visitor.get(f"/m/{kept['loft'].id}?as=eve")).status_code == 404
        page = await visitor.page(f"/m/{kept['friday'].id}?as=eve")
        assert "Change it" not in page
        assert "/m?kind=fact&amp;as=eve" in page
        refused = await visitor.send(f"/m/{kept['friday'].id}/archive?as=eve", on="/m?as=eve", sure="on")
        assert refused.status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_pages_of_memories(mill: App, browser: Browser, theme: str) -> None:
    kept = await remembered(mill)
    async with window(browser, mill, theme=theme) as seen:
        for path in (
            "/m",
            "/m?status=any&tag=flour",
            *(f"/m/{kept[word].id}" for word in ("monday", "ill", "alone")),
        ):
            await seen.open(path)
            assert await seen.violations() == [], path
        page = await seen.open("/m")
        statement = page.get_by_role("link", name="Flour comes on Fridays")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await statement.evaluate("link => link === document.activeElement"):
                break
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/m/*")
        assert await page.get_by_role("heading", level=1).inner_text() == "Flour comes on Fridays"
        assert seen.faults == []
