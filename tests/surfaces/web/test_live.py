"""The page of a room as it goes on, in a real browser: a tab that nobody looks at, and a key that counts no more."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Page, Route, expect

from operations.village import BO
from roomlore.operations import App
from roomlore.web.authentication import SIGN_IN
from surfaces.web.conftest import listening, site, window
from surfaces.web.stories import in_square, square

pytestmark = pytest.mark.slow
OPEN = "#lines[data-live=open]"


async def look(page: Page, *, away: bool) -> None:
    """Make a page believe that nobody looks at its tab, or that somebody does again; a browser without a screen shows all."""
    await page.evaluate(
        "(away) => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => away});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        away,
    )


async def test_a_tab_that_nobody_looks_at_listens_to_nothing_and_is_told_afterwards(
    app: App, browser: Browser
) -> None:
    told = await square(app)
    async with window(browser, app) as seen:
        page = await seen.open(f"/r/{told.room}")
        await expect(page.locator(OPEN)).to_be_attached()
        await app.ingest_batch([in_square(1700, "heard at once", author=BO)])
        await expect(page.get_by_text("heard at once")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await look(page, away=True)
        await expect(page.locator("#lines[data-live]")).to_have_count(0)
        await app.ingest_batch([in_square(1701, "said meanwhile", author=BO)])
        await app.erasure.redact("s1500")
        assert asked == []
        await look(page, away=False)
        await expect(page.locator(OPEN)).to_be_attached()
        await expect(page.get_by_text("said meanwhile")).to_be_visible()
        await expect(page.locator(f"#m-{told.ids['s1500']} .gone")).to_be_visible()
        # Once only, and from where it had stopped.
        streams = [url for url in asked if "/events?" in url]
        assert len(streams) == 1
        assert "after=" in streams[0]
        assert await page.get_by_text("said meanwhile").count() == 1
        assert seen.faults == []


async def test_a_tab_that_is_looked_away_from_again_and_again_listens_once(
    app: App, browser: Browser
) -> None:
    told = await square(app)
    async with window(browser, app) as seen:
        page = await seen.open(f"/r/{told.room}")
        await expect(page.locator(OPEN)).to_be_attached()
        for _ in range(5):
            await look(page, away=True)
            await look(page, away=False)
        await expect(page.locator(OPEN)).to_be_attached()
        await app.ingest_batch([in_square(1700, "said once", author=BO)])
        await expect(page.get_by_role("status")).to_have_text("1 new message since you opened this page.")
        assert await page.get_by_text("said once").count() == 1
        assert seen.faults == []


async def test_who_is_signed_out_is_told_so_and_keeps_what_stands_there(app: App, browser: Browser) -> None:
    told = await square(app)
    made = await app.keys.create("member", name="soon gone", participant="bo")
    is_fetching, is_revoked = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        # The key is revoked between the event and the fetch. The first fetch may be one of events before the page.
        is_fetching.set()
        await is_revoked.wait()
        await route.continue_()

    async with listening(site(app, local=False)) as url:
        context = await browser.new_context()
        await context.add_cookies([{"name": "roomlore_key", "value": made.key, "url": url}])
        page = await context.new_page()
        await page.route("**/lines?*", hold)
        await page.goto(f"{url}/r/{told.room}")
        await expect(page.locator(OPEN)).to_be_attached()
        before = await page.locator("#lines > li.line").count()
        await app.ingest_batch([in_square(1700, "too late for bo", author=BO)])
        await is_fetching.wait()
        await app.keys.revoke(str(made.id))
        is_revoked.set()
        await expect(page.get_by_role("status")).to_have_text(
            "You are signed out. Load the page again to sign in."
        )
        await expect(page.locator("#lines[data-live]")).to_have_count(0)
        assert await page.locator("#lines > li.line").count() == before
        assert await page.get_by_text("too late for bo").count() == 0
        # Nor does it listen when it is looked at again.
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await look(page, away=True)
        await look(page, away=False)
        assert asked == []
        assert page.url == f"{url}/r/{told.room}"
        await page.reload()
        assert SIGN_IN in page.url
        await context.close()


async def test_a_stream_that_nobody_is_let_into_any_more_says_so(app: App, browser: Browser) -> None:
    told = await square(app)
    made = await app.keys.create("member", name="soon gone", participant="bo")
    async with listening(site(app, local=False)) as url:
        context = await browser.new_context()
        await context.add_cookies([{"name": "roomlore_key", "value": made.key, "url": url}])
        page = await context.new_page()
        await page.goto(f"{url}/r/{told.room}")
        await expect(page.locator(OPEN)).to_be_attached()
        await look(page, away=True)
        await app.keys.revoke(str(made.id))
        await look(page, away=False)
        # Whichever was refused first, the stream or what it had told of before.
        await expect(page.get_by_role("status")).to_have_text(
            re.compile("^(What is said from now on is not shown|You are signed out). Load the page again")
        )
        await expect(page.locator("#lines[data-live]")).to_have_count(0)
        await context.close()
