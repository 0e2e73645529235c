"""The page of a room: what it shows, where it leads, and that nothing of what is not for a viewer is in it."""

import asyncio
import re
from collections.abc import AsyncGenerator
from html import unescape
from uuid import uuid4

import httpx2
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser, expect

from conftest import TellOnce
from ingest.stories import at, message
from operations.village import ANA, BO, EVE, PEOPLE, SQUARE, village
from roomlore.domain.errors import BadInput
from roomlore.operations import App
from roomlore.operations.timeline import MAX_LINES, Timeline, WindowRequest
from roomlore.web.rendering import beginning, prose
from surfaces.http.calling import mostly_slow
from surfaces.web.conftest import Visitor, listening, site, visiting, window
from surfaces.web.stories import (
    ATTIC,
    DEE,
    HIDDEN,
    OPEN,
    Told,
    ids_by_mark,
    in_square,
    key_of,
    room_id,
    square,
    timeless,
)


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> Told:
    return await tell_once(app, square)


@pytest.fixture
async def operator(app: App, told: Told) -> AsyncGenerator[Visitor]:
    del told
    async with visiting(app) as visitor:
        yield visitor


def line_of(page: str, message_id: str) -> str:
    """The row of a message on a page."""
    found = re.search(rf'<li id="m-{message_id}".*?</li>\s*(?=<li|</ol>)', page, re.DOTALL)
    assert found, message_id
    return found[0]


def bodies(twin: dict) -> list[str]:
    return [row["line"]["placed"]["message"]["body"] for row in twin["rows"]]


# What it shows


async def test_a_room_shows_its_newest_messages_oldest_first_and_its_twin_the_same(
    operator: Visitor, told: Told
):
    page, twin = await operator.page(f"/r/{told.room}"), await operator.twin(f"/r/{told.room}.json")
    shown = re.findall(r'<li id="m-([0-9a-f-]+)"', page)
    assert shown == [row["line"]["placed"]["message"]["id"] for row in twin["rows"]]
    assert [told.ids[f"s{number}"] for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 1500)] == shown
    assert (twin["earlier"], twin["later"], twin["is_newest"]) == (None, None, True)
    for word in (body for body in bodies(twin) if body):
        assert word.split("<")[0] in unescape(re.sub(r"<[^>]+>", "", page))
    by_name = await operator.twin("/r/square.json")
    assert by_name["rows"] == twin["rows"]


async def test_a_message_stands_with_its_author_what_it_answers_and_its_conversation(
    operator: Visitor, told: Told
):
    page = await operator.page(f"/r/{told.room}")
    answer = line_of(page, told.ids["s2"])
    assert f'href="#m-{told.ids["s1"]}"' in answer
    assert "when does the ferry leave?" in answer
    assert '<bdi class="author author-1">Bo</bdi>' in answer
    assert line_of(page, told.ids["s1"]).count(f'href="/c/{told.ferry}"') == 1
    assert f'href="/c/{told.ferry}"' not in answer
    assert f'href="/x/{told.ids["s2"]}"' in answer
    assert '<span class="badge">agent</span>' in line_of(page, told.ids["s3"])
    assert '<span class="badge">bridged</span>' in line_of(page, told.ids["s7"])
    assert 'class="line more' in line_of(page, told.ids["s9"])


async def test_a_find_is_told_apart_from_what_the_platform_says(
    app: App, operator: Visitor, told: Told, admin: psycopg.AsyncConnection
):
    await admin.execute(
        "insert into replies (org_id, room_id, child_id, parent_id, method, confidence)"
        " values (%s, %s, %s, %s, 'inferred', 0.83)",
        [app.org_id, told.room, told.ids["s3"], told.ids["s1"]],
    )
    page = await operator.page(f"/r/{told.room}")
    assert "inferred, 83 % sure" in line_of(page, told.ids["s3"])
    assert "sure" not in line_of(page, told.ids["s2"])


async def test_whoever_goes_on_is_not_said_to_answer_themselves(
    app: App, operator: Visitor, told: Told, admin: psycopg.AsyncConnection
):
    await admin.execute(
        "insert into replies (org_id, room_id, child_id, parent_id, method, confidence)"
        " values (%s, %s, %s, %s, 'inferred', 0.9)",
        [app.org_id, told.room, told.ids["s9"], told.ids["s8"]],
    )
    line = line_of(await operator.page(f"/r/{told.room}"), told.ids["s9"])
    assert 'class="line more' in line
    assert "sure" not in line


async def test_edited_and_removed_words_are_said_to_be_so(operator: Visitor, told: Told):
    page = await operator.page(f"/r/{told.room}")
    edited, removed = line_of(page, told.ids["s5"]), line_of(page, told.ids["s6"])
    assert "<details" in edited
    assert edited.index("apples are cheap") < edited.index("edited") < edited.index("apples are cheep")
    assert "A tombstone is left" in removed
    assert "slip" not in page


async def test_words_are_text_and_addresses_in_them_are_links_that_tell_nothing(
    operator: Visitor, told: Told
):
    line = line_of(await operator.page(f"/r/{told.room}"), told.ids["s3"])
    assert (
        '<a href="https://ferry.example/times?a=1&amp;b=2" rel="noopener noreferrer nofollow" target="_blank">'
        "https://ferry.example/times?a=1&amp;b=2</a>, &lt;b&gt;now&lt;/b&gt;" in line
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('"><img src=x onerror=alert(1)>', "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("http://x'onclick='y", None),
        ("data:text/html,hi", "data:text/html,hi"),
    ],
)
def test_nothing_that_is_said_becomes_more_than_text(said: str, shown: str | None):
    made = str(prose(said))
    assert shown is None or made == shown
    assert "<img" not in made
    assert not re.search(r"<a [^>]*on\w+=", made)
    assert all(link.startswith("http") for link in re.findall(r'href="([^"]+)"', made))


@pytest.mark.slow
@given(st.text() | st.from_regex(r"(x|https?://[a-z.&'<>\"]*)+", fullmatch=True))
def test_a_text_reads_as_it_was_said_whatever_is_linked_in_it(said: str) -> None:
    made = str(prose(said))
    assert unescape(re.sub(r"</?a[^>]*>", "", made)) == said
    assert made.count("<") == 2 * made.count("<a ")


def test_the_beginning_of_a_text_is_one_line_cut_between_words():
    assert beginning("one\n two", 20) == "one two"
    assert beginning("one two three", 9) == "one two …"
    assert beginning("x" * 1_000, 10) == "x" * 10 + " …"


async def test_a_memory_is_linked_from_what_it_rests_on(app: App, operator: Visitor, told: Told):
    kept = await app.memories.remember("The ferry leaves at nine", sources=["s2"])
    line = line_of(await operator.page(f"/r/{told.room}"), told.ids["s2"])
    assert f'href="/m/{kept.id}"' in line
    await app.memories.archive(str(kept.id))
    assert str(kept.id) not in await operator.page(f"/r/{told.room}")


# Where it leads


async def test_a_message_of_a_large_room_is_found_wherever_it_is(app: App):
    said = [
        message(f"n{number}", f"line {number}", room=SQUARE, author=BO, sent_at=at(number))
        for number in range(300)
    ]
    await app.ingest_batch(said)
    where = await room_id(app, "square")
    async with visiting(app) as visitor:
        newest = await visitor.twin(f"/r/{where}.json")
        assert bodies(newest) == [f"line {number}" for number in range(250, 300)]
        around = await visitor.twin(f"/r/{where}.json?at=n100")
        assert bodies(around) == [f"line {number}" for number in range(75, 126)]
        assert around["target"] == around["rows"][25]["line"]["placed"]["message"]["id"]
        assert not around["is_newest"]
        page = await visitor.page(f"/r/{where}?at=n100")
        assert 'sought"' in line_of(page, around["target"])
        seen = bodies(newest)
        while newest["earlier"]:
            newest = await visitor.twin(f"/r/{where}.json?before={newest['earlier']}")
            seen = bodies(newest) + seen
        assert seen == [f"line {number}" for number in range(300)]
        onward, forth = await visitor.twin(f"/r/{where}.json?at=n0"), []
        forth = bodies(onward)
        while onward["later"]:
            onward = await visitor.twin(f"/r/{where}.json?after={onward['later']}")
            forth += bodies(onward)
        assert forth == seen
        assert onward["is_newest"]


async def test_a_day_leads_to_what_was_said_from_then_on(operator: Visitor, told: Told):
    next_day = await operator.twin(f"/r/{told.room}.json?day=2024-03-02")
    assert bodies(next_day) == ["the next day"]
    assert next_day["earlier"] is not None
    first = await operator.twin(f"/r/{told.room}.json?day=2024-01-01")
    assert (len(first["rows"]), first["earlier"]) == (12, None)
    after_all = await operator.twin(f"/r/{told.room}.json?day=2031-01-01")
    assert len(after_all["rows"]) == 12


async def test_messages_are_narrowed_by_author_by_kind_and_by_memory(app: App, operator: Visitor, told: Told):
    async def found(asked: str) -> list[str]:
        return bodies(await operator.twin(f"/r/{told.room}.json?{asked}"))

    assert await found("author=eve") == ["", "red ones", "and pears"]
    assert await found("kind=agents") == ["see https://ferry.example/times?a=1&b=2, <b>now</b>"]
    assert "Eve joined" not in await found("kind=humans")
    assert await found("memory=1") == []
    await app.memories.remember("Apples are cheap", sources=["s5"])
    assert await found("memory=1") == ["apples are cheap"]
    assert await found("memory=1&author=eve") == []
    narrowed = await operator.page(f"/r/{told.room}?memory=1&author=eve")
    assert "No message matches" in narrowed


async def test_exchanges_are_shown_whole_and_lead_to_the_room(operator: Visitor, told: Told):
    page = await operator.page(f"/r/{told.room}?view=threads")
    twin = await operator.twin(f"/r/{told.room}.json?view=threads")
    told_of = [[one["message"]["body"] for one in thread["said"]] for thread in twin["threads"]]
    assert ["when does the ferry leave?", "at nine"] in told_of
    assert f'href="/r/{told.room}?at={told.ids["s2"]}#m-{told.ids["s2"]}"' in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("at=nowhere", (404, "")),
        ("at=6f1d2c3e-5a4b-4c6d-8e9f-0a1b2c3d4e5f", (404, "")),
        ("day=tomorrow", (400, "must be a date")),
        ("kind=cats", (400, "must be one of everybody, humans, agents")),
        ("view=upside", (400, "must be one of messages, threads")),
        ("at=s1&before=s2", (400, "name one place")),
        ("author=nobody", (404, "")),
        ("view=threads&before=nowhere", (404, "")),
        ("at=%00", (400, "")),
    ],
)
async def test_an_address_that_means_nothing_says_so(
    operator: Visitor, told: Told, asked: str, said: tuple[int, str]
):
    status, words = said
    page = await operator.get(f"/r/{told.room}?{asked}")
    twin = await operator.get(f"/r/{told.room}.json?{asked}")
    assert (page.status_code, twin.status_code) == (status, status)
    assert words in unescape(page.text)
    assert "<h1>" in page.text


async def test_a_room_that_is_not_there_is_not_found(operator: Visitor):
    for path in (
        "/r/nowhere",
        f"/r/{uuid4()}",
        f"/r/{uuid4()}.json",
        f"/r/{uuid4()}/lines",
        f"/r/{uuid4()}/events",
    ):
        assert (await operator.get(path)).status_code == 404


async def test_lines_are_asked_for_by_ids_and_not_by_too_many(operator: Visitor, told: Told):
    ids = ",".join([told.ids["s2"], told.ids["s1"], told.ids["a1"], str(uuid4())])
    part = await operator.page(f"/r/{told.room}/lines?ids={ids}")
    assert re.findall(r'<li id="m-([0-9a-f-]+)"', part) == [told.ids["s1"], told.ids["s2"]]
    assert "<html" not in part
    assert (await operator.get(f"/r/{told.room}/lines?ids=x")).status_code == 400
    many = ",".join(str(uuid4()) for _ in range(MAX_LINES + 1))
    assert (await operator.get(f"/r/{told.room}/lines?ids={many}")).status_code == 400


async def test_a_window_has_its_limits(app: App):
    timeline = Timeline(access=app.access)
    for limit in (0, MAX_LINES + 1):
        with pytest.raises(BadInput):
            await timeline.window(app.operator, "square", WindowRequest(), limit=limit)


# Who may see it


@pytest.mark.parametrize("who", mostly_slow(PEOPLE, "eve"))
async def test_nobody_is_shown_anything_that_is_not_theirs(app: App, who: str):
    await village(app)
    await app.drain()
    everything = {
        one.external_id: str(one.id)
        for room in await app.rooms(app.operator)
        for one in await app.messages(app.operator, str(room.id))
    }
    viewer, rooms = await app.viewer(who), {str(room.id) for room in await app.rooms(app.operator)}
    theirs = {str(room.id) for room in await app.rooms(viewer)}
    async with visiting(app, await key_of(app, who)) as visitor:
        for room in rooms:
            may = (
                {one.external_id for one in await app.messages(viewer, room)}
                if room in theirs
                else set[str]()
            )
            for path in _ways(room, list(everything.values())):
                answer = await visitor.get(path)
                assert answer.status_code == (200 if room in theirs else 404), path
                for mark in everything.keys() - may:
                    assert f"word{mark[1:]}<" not in answer.text, (path, mark)
                    assert f'word{mark[1:]}"' not in answer.text, (path, mark)
                    assert everything[mark] not in _answered(answer.text, path), (path, mark)


def _ways(room: str, ids: list[str]) -> list[str]:
    asked = ("", "view=threads", "day=2024-01-01", "kind=humans", "kind=agents", "memory=1")
    return [
        *(f"/r/{room}{kind}?{one}" for kind in ("", ".json") for one in asked),
        f"/r/{room}/lines?ids={','.join(ids)}",
    ]


def _answered(text: str, path: str) -> str:
    """What a page says by itself, without the address that was asked, which it repeats in its links to itself."""
    asked = path.partition("?")[2]
    return text.replace(asked.replace("&", "&amp;"), "").replace(asked.replace(",", "%2C"), "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("who", ["eve", "cy", "dee"])
async def test_what_is_hidden_leaves_no_trace_at_all(app: App, who: str):
    """The very pages that were there before anything was whispered, or said elsewhere."""
    mine = [one for one in HIDDEN if who != "cy" or one.kind != "whisper"]
    theirs = [one for one in HIDDEN if one not in mine]
    await app.ingest_batch([*OPEN, *theirs])
    await app.drain()
    where = await room_id(app, "square")
    if who == "dee":
        await app.ingest_batch(
            [
                in_square(1600, "hello", author=EVE),
                message("d", "hm", room=SQUARE, author=ANA, sent_at=at(1601)),
            ]
        )
        await app.ingest_batch([in_square(1602, "here I am", author=DEE)])
        await app.drain()
    ways = [
        f"/r/{where}{kind}?{one}"
        for kind in ("", ".json")
        for one in ("", "view=threads", "author=ana", "day=2024-03-01")
    ]
    async with visiting(app, await key_of(app, who)) as visitor:
        before = [timeless(await visitor.page(way)) for way in ways]
        assert all("hush" not in page for page in before) or who == "cy"
        await app.ingest_batch(mine)
        await app.drain()
        after = [timeless(await visitor.page(way)) for way in ways]
    assert after == before


async def test_those_who_hear_a_whisper_are_told_who_else_does(app: App, told: Told):
    for who in ("ana", "bo", "cy"):
        async with visiting(app, await key_of(app, who)) as visitor:
            line = line_of(await visitor.page(f"/r/{told.room}"), told.ids["s20"])
            assert "visible to Ana, Bo, Cy" in line
            assert "whisper" in line
            assert f'href="/c/{told.hush}"' in line
    async with visiting(app, await key_of(app, "eve")) as visitor:
        page = await visitor.page(f"/r/{told.room}")
        assert not {"hush", told.hush, told.ids["s20"], told.ids["s21"]} & set(re.findall(r"[\w-]+", page))


async def test_what_is_hidden_is_looked_for_as_if_it_never_was(app: App, told: Told):
    async with visiting(app, await key_of(app, "eve")) as visitor:
        for place in ("at", "before", "after"):
            for twin in ("", ".json"):
                secret = await visitor.get(f"/r/{told.room}{twin}?{place}={told.ids['s20']}")
                nothing = await visitor.get(f"/r/{told.room}{twin}?{place}={uuid4()}")
                assert secret.status_code == nothing.status_code == 404
                blank = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
                assert blank.sub("", timeless(secret.text)) == blank.sub("", timeless(nothing.text))


async def test_a_memory_that_is_not_for_somebody_is_no_glyph_and_no_find(app: App, told: Told):
    kept = await app.memories.remember("Ana hushes Bo", sources=["s1", "s20"])
    async with visiting(app, await key_of(app, "eve")) as visitor:
        assert str(kept.id) not in await visitor.page(f"/r/{told.room}")
        assert bodies(await visitor.twin(f"/r/{told.room}.json?memory=1")) == []
    async with visiting(app, await key_of(app, "cy")) as visitor:
        assert str(kept.id) in await visitor.page(f"/r/{told.room}")


async def test_an_operator_looks_as_somebody_and_sees_what_they_see(app: App, told: Told):
    async with visiting(app) as local, visiting(app, await key_of(app, "eve")) as eve:
        as_eve, own = await local.twin(f"/r/{told.room}.json?as=eve"), await eve.twin(f"/r/{told.room}.json")
        assert as_eve | {"as_of": ""} == own | {"as_of": ""}
        page = await local.page(f"/r/{told.room}?as=eve")
        assert "hush" not in page
        ours = set(re.findall(r'href="(/[rcmx]/[^"]+)"', page))
        # The way back to oneself.
        assert {link for link in ours if "as=eve" not in link} == {f"/r/{told.room}"}
        assert len(ours) > 10


async def test_only_the_operator_looks_as_somebody_else(app: App, told: Told):
    async with visiting(app, await key_of(app, "eve")) as visitor:
        for path in ("", ".json", "/lines", "/events"):
            assert (await visitor.get(f"/r/{told.room}{path}?as=ana")).status_code == 403


# As it is being said


@pytest.mark.slow
async def test_what_happens_is_told_to_those_alone_who_may_see_it(app: App, told: Told):
    keys = {who: await app.keys.create("member", name=who, participant=who) for who in ("eve", "cy")}
    heard = dict.fromkeys(keys, "")
    begun, told_of = ({who: asyncio.Event() for who in keys} for _ in range(2))

    async def listen(url: str, who: str) -> None:
        """Listen until the stream ends."""
        async with (
            httpx2.AsyncClient(base_url=url, cookies={"roomlore_key": keys[who].key}, timeout=30) as client,
            client.stream("GET", f"/r/{told.room}/events") as stream,
        ):
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                heard[who] += f"{line}\n"
                begun[who].set()
                if line.startswith("data:"):
                    told_of[who].set()

    async with asyncio.timeout(60), listening(site(app, local=False)) as url, asyncio.TaskGroup() as group:
        for who in keys:
            group.create_task(listen(url, who))
        await asyncio.gather(*(one.wait() for one in begun.values()))
        await app.ingest_batch(
            [
                in_square(1700, "hush", author=ANA, kind="whisper", audience=(BO,)),
                in_square(1701, "hush hush", author=ANA, kind="whisper", audience=(EVE,)),
                in_square(1702, "aloud", author=ANA),
                message("a3", "hush again", author=ANA, room=ATTIC, sent_at=at(1703)),
            ]
        )
        ids = await ids_by_mark(app)
        await asyncio.gather(*(one.wait() for one in told_of.values()))
        for made in keys.values():
            await app.keys.revoke(str(made.id))
    assert {who: (ids["s1702"] in one, ids["s1701"] in one) for who, one in heard.items()} == {
        "eve": (True, True),
        "cy": (True, False),
    }
    for one in heard.values():
        assert not {ids["s1700"], ids["a3"], told.attic} & set(re.findall(r"[0-9a-f-]{36}", one))


@pytest.mark.slow
async def test_what_is_said_and_unsaid_shows_on_an_open_page(app: App, browser: Browser):
    told = await square(app)
    async with window(browser, app) as seen:
        page = await seen.open(f"/r/{told.room}")
        await expect(page.locator("#lines[data-live=open]")).to_be_attached()
        await app.ingest_batch([in_square(1700, "fresh as bread", author=BO, reply_to="s1500")])
        await expect(page.get_by_text("fresh as bread")).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("1 new message since you opened this page.")
        await app.ingest_batch(
            [in_square(1700, "fresh as butter", author=BO, reply_to="s1500", edited_at=at(1702))]
        )
        await expect(page.locator("#lines > li").last.locator(".said").first).to_have_text("fresh as butter")
        await app.erasure.redact("s1500")
        await expect(page.locator(f"#m-{told.ids['s1500']} .gone")).to_be_visible()
        await app.memories.remember("Bread is fresh", sources=["s1700"])
        await expect(page.get_by_role("link", name="Bread is fresh")).to_be_visible()
        await app.ingest_batch(
            [in_square(1701, "two days later", author=BO), in_square(4_500, "a word", author=ANA)]
        )
        await expect(page.locator("#lines > li.day")).to_have_count(3)
        assert await page.locator("#lines > li.line").count() == 15
        assert seen.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page_of_a_room(app: App, browser: Browser, theme: str):
    told = await square(app)
    await app.memories.remember("The ferry leaves at nine", sources=["s2"])
    async with window(browser, app, theme=theme) as seen:
        for path in (
            f"/r/{told.room}",
            f"/r/{told.room}?view=threads",
            f"/r/{told.room}?author=eve",
            f"/r/{told.room}?at=s1",
        ):
            await seen.open(path)
            assert await seen.violations() == []
        assert seen.faults == []


@pytest.mark.slow
async def test_a_room_is_walked_by_keyboard_alone(app: App, browser: Browser):
    told = await square(app)
    async with window(browser, app) as seen:
        page = await seen.open(f"/r/{told.room}")
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        reached = set[str]()
        for _ in range(90):
            await page.keyboard.press("Tab")
            reached.add(
                await page.evaluate(
                    "document.activeElement.getAttribute('href') || document.activeElement.id"
                )
            )
        assert {
            "author",
            "kind",
            "day",
            f"/c/{told.ferry}",
            f"/x/{told.ids['s2']}",
            f"#m-{told.ids['s1']}",
        } <= reached
        await page.locator(f"a[href='/c/{told.ferry}']").first.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/c/{told.ferry}")


@pytest.mark.slow
async def test_a_room_reads_without_scripts(app: App, browser: Browser):
    told = await square(app)
    async with window(browser, app) as seen:
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await page.goto(f"{seen.url}/r/{told.room}?at=s1")
        await page.get_by_text("edited", exact=False).first.click()
        await expect(page.get_by_text("apples are cheep")).to_be_visible()
        await context.close()
