"""The page of a conversation: what was said in it, what answers what, and putting it right by those who may."""

import re
from collections.abc import AsyncGenerator
from html import unescape
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser, expect

from conftest import TellOnce
from ingest.stories import at, message
from operations.village import ANA, EVE
from roomlore.domain.ids import MessageId, ParticipantId, RoomId, uuid7
from roomlore.domain.records import AssignedMessage, Message, Reply
from roomlore.operations import App
from roomlore.operations.timeline import TimelineLine
from roomlore.web.reply_graph import LANES, MAX_NODES, reply_graph
from roomlore.web.rows import Row
from surfaces.web.conftest import Visitor, visiting, window
from surfaces.web.stories import ATTIC, Told, ids_in, in_square, key_of, square, timeless


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> Told:
    return await tell_once(app, square)


@pytest.fixture
async def operator(app: App, told: Told) -> AsyncGenerator[Visitor]:
    del told
    async with visiting(app) as visitor:
        yield visitor


def said_in(twin: dict) -> list[str]:
    return [row["line"]["placed"]["message"]["external_id"] for row in twin["rows"]]


# What it shows


async def test_a_conversation_is_shown_whole_and_its_twin_says_the_same(operator: Visitor, told: Told):
    page, twin = await operator.page(f"/c/{told.ferry}"), await operator.twin(f"/c/{told.ferry}.json")
    assert said_in(twin) == ["s1", "s2", "s3"]
    assert re.findall(r'<li id="m-([0-9a-f-]+)"', page) == [told.ids[one] for one in ("s1", "s2", "s3")]
    assert "<h1>ferry</h1>" in page
    assert [(one["talker"]["name"], one["talker"]["message_count"]) for one in twin["takers"]] == [
        ("Ana", 1),
        ("Bo", 1),
        ("Pip", 1),
    ]
    assert twin["reason"] in page
    assert f'href="/r/{told.room}?at={told.ids["s1"]}"' in page
    assert twin["room"]["name"] == "square"


async def test_the_picture_has_every_message_as_a_link_and_every_answer_as_a_line(
    operator: Visitor, told: Told
):
    page, twin = await operator.page(f"/c/{told.ferry}"), await operator.twin(f"/c/{told.ferry}.json")
    picture = re.search(r'<svg class="graph".*?</svg>', page, re.DOTALL)
    assert picture
    links = re.findall(r'<a href="#m-([0-9a-f-]+)"[^>]*><title>([^<]+)', picture[0])
    assert [one for one, _ in links] == [told.ids[one] for one in ("s1", "s2", "s3")]
    assert unescape(links[1][1]) == "Bo, 12:02: at nine"
    assert picture[0].count("<path") == len(twin["graph"]["edges"]) >= 1
    assert "style=" not in page


async def test_what_rests_on_it_and_what_stands_beside_it_is_linked(app: App, operator: Visitor, told: Told):
    kept = await app.memories.remember("The ferry leaves at nine", sources=["s2"])
    page, twin = await operator.page(f"/c/{told.ferry}"), await operator.twin(f"/c/{told.ferry}.json")
    assert [one["id"] for one in twin["memories"]] == [str(kept.id)]
    assert f'href="/m/{kept.id}"' in page
    after = await operator.twin(f"/c/{told.apples}.json")
    assert told.ferry in [one["id"] for one in after["earlier"]]
    assert f'rel="prev" href="/c/{after["earlier"][0]["id"]}"' in await operator.page(f"/c/{told.apples}")


@pytest.mark.slow
async def test_of_a_long_conversation_the_newest_is_shown_and_the_rest_page_by_page(app: App):
    told = await square(app)
    more = [in_square(100 + number, f"on and on {number}", reply_to="s9") for number in range(130)]
    await app.ingest_batch(more)
    await app.disentangle()
    async with visiting(app) as visitor:
        twin = await visitor.twin(f"/c/message:{told.ids['s9']}.json")
        here, count = f"/c/{twin['conversation']['id']}", twin["conversation"]["message_count"]
        assert count > 130
        assert [len(twin["rows"]), len(twin["graph"]["nodes"]), twin["graph"]["omitted"]] == [
            100,
            MAX_NODES,
            40,
        ]
        page = await visitor.page(here)
        assert f"The newest 100 of {count}" in page
        assert "40 older ones not drawn" in page
        assert f'href="{here}?before={twin["next"]}"' in page
        assert len((await visitor.twin(f"{here}.json?shown=200"))["rows"]) == count
        for wrong in ("0", "201", "-1", "x"):
            assert (await visitor.get(f"{here}?shown={wrong}")).status_code == 400


async def test_a_conversation_is_found_by_a_message_in_it(operator: Visitor, told: Told):
    assert said_in(await operator.twin(f"/c/message:{told.ids['s2']}.json")) == ["s1", "s2", "s3"]
    for word in ("nothing", str(uuid4()), f"message:{told.ids['s4']}", "%00"):
        assert (await operator.get(f"/c/{word}")).status_code == 404
        assert (await operator.get(f"/c/{word}.json")).status_code == 404


# The picture


def _row(place: int, parent: int | None, ids: list[MessageId]) -> Row:
    said = Message(
        id=ids[place],
        room_id=RoomId(uuid7()),
        external_id=str(place),
        kind="message",
        author_id=ParticipantId(uuid7()),
        author_name="Ana",
        author_kind="human",
        body="words",
        sent_at=at(place),
        precision="ms",
        sequence=0,
        edited_at=None,
        redacted_at=None,
        reply_to=None,
    )
    edge = None
    if parent is not None:
        edge = Reply(child_id=ids[place], parent_id=ids[parent], method="explicit", confidence=1.0)
    line = TimelineLine(
        placed=AssignedMessage(message=said, answers=edge, conversation_id=None),
        is_truncated=False,
        attached=(),
        answered=None,
        conversation=None,
        versions=(),
        recipients=(),
        memories=(),
        is_bridged=False,
    )
    return Row(
        line=line, colour=0, answered_colour=None, band=None, entrance="none", is_new_day=False, is_more=False
    )


@st.composite
def _told(draw: st.DrawFn) -> list[int | None]:
    count = draw(st.integers(1, 80))
    return [draw(st.none() | st.integers(0, place - 1)) if place else None for place in range(count)]


@pytest.mark.slow
@given(_told())
def test_no_two_messages_stand_on_each_other_and_lines_meet_no_others(parents: list[int | None]) -> None:
    ids = [MessageId(uuid7()) for _ in parents]
    made = reply_graph([_row(place, parent, ids) for place, parent in enumerate(parents)])
    assert len(made.nodes) + made.omitted == len(parents)
    assert len({node.y for node in made.nodes}) == len(made.nodes)
    assert all(0 < node.x < made.words_x < made.width and 0 < node.y < made.height for node in made.nodes)
    points = {node.id: (node.x, node.y) for node in made.nodes}
    lanes = {node.x for node in made.nodes}
    drawn = [(ids[parent], ids[place]) for place, parent in enumerate(parents) if parent is not None]
    drawn = [(above, below) for above, below in drawn if above in points and below in points]
    assert len(made.edges) == len(drawn)
    if len(lanes) < LANES:
        for above, below in drawn:
            start, (x, end) = points[above][1], points[below]
            between = [one for one in made.nodes if one.x == x and start < one.y < end]
            assert not between


# Who may see it


@pytest.mark.slow
async def test_a_conversation_is_for_those_who_may_read_all_of_it(app: App, told: Told):
    may = {
        "ana": {told.ferry, told.apples, told.hush, told.salary},
        "bo": {told.ferry, told.apples, told.hush, told.salary},
        "cy": {told.ferry, told.apples, told.hush},
        "eve": {told.ferry, told.apples},
    }
    every = {told.ferry, told.apples, told.hush, told.salary}
    for who, theirs in may.items():
        async with visiting(app, await key_of(app, who)) as visitor:
            for one in every:
                for way in (f"/c/{one}", f"/c/{one}.json"):
                    assert (await visitor.get(way)).status_code == (200 if one in theirs else 404), (who, way)
                if one in theirs:
                    page = await visitor.page(f"/c/{one}")
                    twin = (await visitor.get(f"/c/{one}.json")).text
                    hidden = every - theirs
                    assert not hidden & {str(found) for found in ids_in(page) | ids_in(twin)}
                    assert "hush" not in page + twin or who != "eve"


async def test_whispers_from_elsewhere_are_shown_without_the_room(app: App, told: Told):
    hushed = message("a9", "psst", author=ANA, room=ATTIC, sent_at=at(40), kind="whisper", audience=(EVE,))
    await app.ingest_batch([hushed])
    await app.disentangle()
    async with visiting(app, await key_of(app, "eve")) as visitor:
        twin = await visitor.twin("/c/message:a9.json")
        assert (said_in(twin), twin["room"], twin["earlier"], twin["later"]) == (["a9"], None, [], [])
        page = await visitor.page("/c/message:a9")
        assert "psst" in page
        assert "attic" not in page
        assert f"/r/{told.attic}" not in page
    async with visiting(app, await key_of(app, "cy")) as visitor:
        assert (await visitor.get("/c/message:a9")).status_code == 404


async def test_what_is_not_for_somebody_is_refused_as_if_it_were_not_there(app: App, told: Told):
    async with visiting(app, await key_of(app, "eve")) as visitor:
        for twin in ("", ".json"):
            secret = await visitor.get(f"/c/{told.hush}{twin}")
            nothing = await visitor.get(f"/c/{uuid4()}{twin}")
            blank = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
            assert blank.sub("", timeless(secret.text)) == blank.sub("", timeless(nothing.text))


async def test_a_memory_of_more_than_the_conversation_is_only_for_those_who_heard_it_all(
    app: App, told: Told
):
    kept = await app.memories.remember("Bo knows of the list and the ferry", sources=["s2", "a2"])
    for who, sees in (("eve", False), ("ana", True)):
        async with visiting(app, await key_of(app, who)) as visitor:
            assert (str(kept.id) in await visitor.page(f"/c/{told.ferry}")) == sees


# Putting it right


async def test_a_conversation_is_named_and_named_as_found_again(operator: Visitor, told: Told):
    here = f"/c/{told.ferry}"
    answer = await operator.send(f"{here}/rename", on=here, label="<Boats>")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{here}?done=renamed")
    page = await operator.page(answer.headers["location"])
    assert "<h1>&lt;Boats&gt;</h1>" in page
    assert "The conversation has a new name." in page
    answer = await operator.send(f"{here}/rename", on=here, label="")
    assert answer.headers["location"].endswith("done=unnamed")
    assert not (await operator.twin(f"{here}.json"))["conversation"]["is_named"]


async def test_what_was_done_is_said_in_words_of_ours_alone(operator: Visitor, told: Told):
    page = await operator.page(f"/c/{told.ferry}?done=you+have+won")
    assert "won" not in page.split("<footer>")[0]


async def test_a_conversation_is_closed_and_marked(operator: Visitor, told: Told):
    here = f"/c/{told.ferry}"
    await operator.send(f"{here}/close", on=here)
    assert not (await operator.twin(f"{here}.json"))["is_open"]
    answer = await operator.send(f"{here}/mark", on=here, sensitivity="sensitive")
    assert answer.headers["location"] == f"{here}?done=marked"
    assert (await operator.twin(f"{here}.json"))["conversation"]["sensitivity"] == "sensitive"
    assert ">sensitive</span>" in await operator.page(here)


async def test_only_who_spoke_in_a_conversation_marks_it_and_goes_on_seeing_it(app: App, told: Told):
    here = f"/c/{told.ferry}"
    async with visiting(app, await key_of(app, "eve")) as visitor:
        assert (await visitor.send(f"{here}/mark", on=here, sensitivity="sensitive")).status_code == 403
    async with visiting(app, await key_of(app, "bo")) as visitor:
        answer = await visitor.send(f"{here}/mark", on=here, sensitivity="sensitive")
        assert answer.headers["location"] == f"{here}?done=marked"
        assert ">sensitive</span>" in await visitor.page(here)


async def test_messages_are_moved_split_off_and_put_together(operator: Visitor, told: Told):
    here = f"/c/{told.ferry}"
    where = f"http://localhost:7171/r/{told.room}?at={told.ids['s7']}#m-{told.ids['s7']}"
    moved = await operator.send(f"{here}/move", on=here, message=where)
    assert moved.headers["location"] == f"{here}?done=moved"
    assert "s7" in said_in(await operator.twin(f"{here}.json"))
    split = await operator.send(
        f"{here}/split", on=here, message=[told.ids["s7"], told.ids["s3"]], label="Across"
    )
    apart = split.headers["location"].partition("?")[0]
    assert said_in(await operator.twin(f"{apart}.json")) == ["s3", "s7"]
    assert "<h1>Across</h1>" in await operator.page(apart)
    merged = await operator.send(f"{here}/merge", on=here, other=apart.removeprefix("/c/"))
    assert merged.headers["location"] == f"{here}?done=merged"
    assert said_in(await operator.twin(f"{here}.json")) == ["s1", "s2", "s3", "s7"]
    assert (await operator.get(apart)).status_code == 404


async def test_what_cannot_be_done_is_refused_in_words(operator: Visitor, told: Told):
    here = f"/c/{told.ferry}"
    for action, said, status, words in (
        ("merge", {"other": told.ferry}, 400, "is the one it is to be merged with"),
        ("merge", {"other": told.hush}, 400, "heard by different people"),
        ("merge", {"other": str(uuid4())}, 404, ""),
        ("move", {"message": told.ids["s4"]}, 400, "are in no conversation"),
        ("move", {"message": told.ids["s20"]}, 400, "heard by different people"),
        ("move", {}, 400, "must not be empty"),
        ("split", {}, 400, "name at least one"),
        ("rename", {"label": "x" * 101}, 400, "longer than 100"),
    ):
        answer = await operator.send(f"{here}/{action}", on=here, **said)
        assert answer.status_code == status, (action, said)
        assert words in unescape(answer.text), action
    assert said_in(await operator.twin(f"{here}.json")) == ["s1", "s2", "s3"]


@pytest.mark.parametrize("action", ["rename", "close", "mark", "move", "split", "merge"])
async def test_nothing_is_changed_by_another_site_or_without_the_form(app: App, told: Told, action: str):
    here = f"/c/{told.ferry}"
    said = {"label": "x", "sensitivity": "sensitive", "message": told.ids["s8"], "other": told.apples}
    async with visiting(app) as visitor:
        before = await visitor.twin(f"{here}.json")
        token = re.search(r'name="token" value="([^"]+)"', await visitor.page(here))
        assert token
        for forged in ("", "x", token[1] + "x"):
            answer = await visitor.client.post(f"{here}/{action}", data=said | {"token": forged})
            assert answer.status_code == 403
        for foreign in ({"origin": "https://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
            answer = await visitor.client.post(
                f"{here}/{action}", data=said | {"token": token[1]}, headers=foreign
            )
            assert answer.status_code == 403
        assert (await visitor.get(f"{here}/{action}")).status_code == 405
        assert await visitor.twin(f"{here}.json") == before


async def test_an_agent_is_offered_nothing_to_put_right_and_refused_it(app: App, told: Told):
    here = f"/c/{told.ferry}"
    async with visiting(app, await key_of(app, "pip")) as visitor:
        page = await visitor.page(here)
        assert "Put it right" not in page
        assert 'type="checkbox"' not in page
        assert (await visitor.send(f"{here}/rename", on=here, label="mine")).status_code == 403


async def test_nobody_puts_right_what_they_may_not_see(app: App, told: Told):
    async with visiting(app, await key_of(app, "eve")) as visitor:
        ferry = f"/c/{told.ferry}"
        for path, said in (
            (f"/c/{told.hush}/rename", {"label": "mine"}),
            (f"/c/{told.hush}/close", {}),
            (f"/c/{told.hush}/mark", {"sensitivity": "normal"}),
            (f"{ferry}/move", {"message": told.ids["s20"]}),
            (f"{ferry}/move", {"message": "a1"}),
            (f"{ferry}/merge", {"other": told.hush}),
            (f"{ferry}/split", {"message": [told.ids["s1"], told.ids["s20"]]}),
        ):
            assert (await visitor.send(path, on=ferry, **said)).status_code == 404, path
    held, _ = await app.conversations.read(app.operator, told.hush)
    assert (held.label, held.closed_at) == ("hush", None)


# In a browser


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page_of_a_conversation(app: App, browser: Browser, theme: str):
    told = await square(app)
    await app.memories.remember("The ferry leaves at nine", sources=["s2"])
    async with window(browser, app, theme=theme) as seen:
        for path in (f"/c/{told.ferry}", f"/c/{told.apples}?done=moved", f"/c/{told.hush}"):
            await seen.open(path)
            assert await seen.violations() == []
        assert seen.faults == []


@pytest.mark.slow
async def test_messages_are_ticked_and_split_off_by_keyboard(app: App, browser: Browser):
    told = await square(app)
    async with window(browser, app) as seen:
        page = await seen.open(f"/c/{told.ferry}")
        await page.locator(f"#m-{told.ids['s3']} input").focus()
        await page.keyboard.press("Space")
        await page.get_by_label("Split off what is ticked, as").focus()
        await page.keyboard.type("Links")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Links")
        await expect(page.get_by_role("status")).to_contain_text("split off")
        assert seen.faults == []
