"""The page of rooms."""

import pytest
from playwright.async_api import Browser

from operations.village import village
from roomlore.operations import App
from surfaces.web.conftest import Visitor, window


async def test_rooms_are_listed_and_their_twin_says_the_same(local: Visitor) -> None:
    page, twin = await local.page("/"), await local.twin("/index.json")
    assert [room["name"] for room in twin["rooms"]] == ["cellar", "attic", "square"]
    assert all(f">{room['name']}</a>" in page for room in twin["rooms"])


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page_of_rooms(app: App, browser: Browser, theme: str) -> None:
    async with window(browser, await village(app), theme=theme) as seen:
        await seen.open("/")
        assert await seen.violations() == []
        assert seen.faults == []
