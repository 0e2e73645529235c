"""Every page in a real browser, of the demo's story and of a room of 3,000 messages, to whom it may show itself."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser

import roomlore.cli
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.operations import App
from roomlore.web.authentication import SIGN_IN
from surfaces.web.conftest import Window, listening, site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
DEMO = Path(roomlore.cli.__file__).with_name("demo.jsonl")
MANY = 3_000
START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [
    "tide",
    "gate",
    "boat",
    "rope",
    "lamp",
    "crew",
    "fish",
    "wind",
    "salt",
    "pier",
    "mast",
    "net",
    "buoy",
]
#: Of operators alone.
OPERATORS = ("/ops", "/receipts")


async def demo(app: App) -> str:
    """Tell the demo's story; return who looks at it beside the operator."""
    await app.import_path(DEMO)
    await app.drain()
    await app.extraction.extract()
    return "teo"


async def many(app: App) -> str:
    """Fill a room; return who looks at it beside the operator."""
    source, room = random.Random(1), IncomingRoom(external_id="busy", name="busy")
    for part in range(0, MANY, 1_000):
        accepted = await app.ingest_batch(
            [_said(number, source, room) for number in range(part, part + 1_000)]
        )
        assert not accepted.skipped
    await app.drain()
    return "Person 1"


def _said(number: int, source: random.Random, room: IncomingRoom) -> IncomingMessage:
    return IncomingMessage(
        platform="made",
        room=room,
        external_id=f"m{number}",
        author=IncomingAuthor(
            account_id=f"p{number % 40}",
            name=f"Person {number % 40}",
            kind="agent" if number % 40 == 7 else "human",
        ),
        body=" ".join(source.choices(WORDS, k=12)),
        sent_at=START + timedelta(seconds=40 * number),
        reply_to=f"m{number - source.randrange(1, 9)}" if number > 9 and source.random() < 0.4 else None,
    )


async def pages(app: App, *, by_operator: bool) -> list[str]:
    """Return the addresses of every kind of page that there is something on."""
    viewer = app.access.principal
    room = (await app.rooms(viewer))[0].id
    said = await app.messages(viewer, str(room), limit=30)
    conversation = (await app.conversations.all(viewer, str(room)))[0].id
    memories = await app.memories.all(viewer, limit=1)
    person = said[-1].author_id
    found = [
        "/", "/?named=nowhere", f"/r/{room}", f"/r/{room}?at={said[0].id}", f"/r/{room}?view=threads",
        f"/r/{room}/digest",
        f"/r/{room}?author={person}", f"/c/{conversation}", f"/x/{said[-1].id}", "/search",
        "/search?q=boat", "/search?q=boat&do=ask", "/m", "/people", f"/people/{person}",
    ]  # fmt: skip
    found += [f"/m/{one.id}" for one in memories]
    return found + list(OPERATORS if by_operator else ())


@asynccontextmanager
async def looking(browser: Browser, app: App, name: str | None, theme: str) -> AsyncGenerator[Window]:
    """A window of somebody who signed in by the page for it; or of this machine's own operator."""
    async with listening(site(app, local=name is None)) as url:
        context = await browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900})  # type: ignore[arg-type]
        seen = Window(await context.new_page(), url)
        seen.page.on("console", lambda said: seen.faults.append(said.text) if said.type == "error" else None)
        seen.page.on("pageerror", lambda error: seen.faults.append(str(error)))
        if name is not None:
            made = await app.keys.create("member", name=f"key of {name}", participant=name)
            await seen.open(SIGN_IN)
            assert await seen.violations() == []
            await seen.page.fill("#key", made.key)
            await seen.page.press("#key", "Enter")
            await seen.page.wait_for_selector("h1:has-text('Rooms')")
        yield seen
        await context.close()


async def walked(seen: Window) -> list[str]:
    """Return what the keyboard comes by first on a page, where each is seen to have the focus."""
    # Some pages put the focus where one writes; whoever walks may begin at the top all the same.
    await seen.page.evaluate("() => document.activeElement.blur()")
    names: list[str] = []
    for _ in range(8):
        await seen.page.keyboard.press("Tab")
        tag, name, is_shown = await seen.page.evaluate(
            "() => { const one = document.activeElement, style = getComputedStyle(one);"
            " return [one.tagName, one.textContent.trim().slice(0, 40) || one.id,"
            " style.outlineStyle !== 'none' || style.boxShadow !== 'none']; }"
        )
        if tag == "BODY":
            break
        assert is_shown, f"nobody sees that {tag} {name!r} has the focus"
        names.append(name)
    return names


@pytest.mark.parametrize("story", [demo, many])
async def test_every_page_can_be_used_by_everybody(app: App, browser: Browser, story) -> None:
    member = await story(app)
    for name in (None, member):
        acting = app if name is None else app.impersonate(await app.viewer(name))
        addresses = await pages(acting, by_operator=name is None)
        for theme in ("light", "dark"):
            async with looking(browser, app, name, theme) as seen:
                for address in addresses:
                    await seen.open(address)
                    assert await seen.violations() == [], (address, name, theme)
                    assert seen.faults == [], (address, name, theme)
                    if theme == "light":
                        # Where writing begins elsewhere, walking goes on from there.
                        is_begun = await seen.page.evaluate("() => !!document.querySelector('[autofocus]')")
                        names = await walked(seen)
                        assert is_begun or names[0] == "Skip to the content", address
                        assert len(names) > 3, address


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_what_is_not_there_is_told_to_everybody(app: App, browser: Browser, theme: str) -> None:
    async with looking(browser, app, None, theme) as seen:
        response = await seen.page.goto(f"{seen.url}/r/nowhere")
        assert response is not None
        assert response.status == 404
        assert await seen.violations() == []
