"""Pages of the village and of the demo, asked for over HTTP and in a browser."""

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python
import httpx2
import pytest
import uvicorn
from playwright.async_api import Browser, Page, async_playwright, expect
from starlette.types import ASGIApp

from conftest import TellOnce
from operations.village import whole_village
from roomlore.domain.ids import uuid7
from roomlore.http.headers import SecurityHeadersMiddleware
from roomlore.http.runtime import listen
from roomlore.operations import App
from roomlore.web.site import build

HERE = ("127.0.0.1", 4711)
LOCAL = "http://localhost:7171"
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
CHROMIUM = shutil.which("chromium")
# A browser beside a second test process on two cores takes its time; what is expected comes sooner as a rule.
expect.set_options(timeout=30_000)


def site(app: App, *, local: bool) -> ASGIApp:
    return SecurityHeadersMiddleware(build(app, local=local), new_id=uuid7)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a browser that keeps cookies and runs nothing."""

    client: httpx2.AsyncClient

    async def get(self, path: str, **rest: Any) -> httpx2.Response:
        return await self.client.get(path, **rest)

    async def page(self, path: str) -> str:
        """Return a page, which is there."""
        response = await self.client.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text[:500])
        return response.text

    async def twin(self, path: str) -> Any:
        """Return the twin of a page."""
        response = await self.client.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text[:500])
        return response.json()

    async def send(self, path: str, *, on: str = "/", **said: Any) -> httpx2.Response:
        """Send a form as if it stood on a page."""
        token = re.search(r'name="token" value="([^"]+)"', await self.page(on))
        assert token
        return await self.client.post(path, data={"token": token[1], **said})


Visit = Callable[..., Awaitable[Visitor]]


@asynccontextmanager
async def visiting(app: App, key: str | None = None, *, base: str = LOCAL) -> AsyncGenerator[Visitor]:
    """A visitor with a key, or this machine's own."""
    transport = httpx2.ASGITransport(app=site(app, local=key is None), client=HERE)
    cookies = {} if key is None else {"roomlore_key": key}
    async with httpx2.AsyncClient(transport=transport, base_url=base, cookies=cookies) as client:
        yield Visitor(client)


@pytest.fixture
async def local(app: App, tell_once: TellOnce) -> AsyncGenerator[Visitor]:
    """Who sits at the machine of the village."""
    await tell_once(app, whole_village)
    async with visiting(app) as visitor:
        yield visitor


@dataclass(slots=True)
class Window:
    """A page in a real browser, and what its console said."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)

    async def open(self, path: str) -> Page:
        """Go to a path; it must be there."""
        response = await self.page.goto(self.url + path)
        assert response is not None
        assert response.status == 200, path
        return self.page

    async def violations(self) -> list[str]:
        """Return what keeps some people from using the page, by axe."""
        await self.page.evaluate(AXE)
        found = await self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [f"{one['id']}: {node['html'][:150]}" for one in found["violations"] for node in one["nodes"]]


@asynccontextmanager
async def listening(asgi: ASGIApp) -> AsyncGenerator[str]:
    """A real socket in front of an application."""
    config = uvicorn.Config(
        asgi, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    with listen("127.0.0.1", 0) as place:
        serving = asyncio.create_task(server.serve([place]))
        try:
            yield f"http://localhost:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Browser]:
    """Debian's own browser, without its sandbox: tests run as whoever runs them."""
    if CHROMIUM is None:
        pytest.fail("no chromium: install your system's package of that name")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        await started.close()


@asynccontextmanager
async def window(browser: Browser, app: App, *, theme: str = "light") -> AsyncGenerator[Window]:
    """A window on this machine's own pages, in light or dark."""
    async with listening(site(app, local=True)) as url:
        context = await browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900})  # type: ignore[arg-type]
        seen = Window(await context.new_page(), url)
        seen.page.on("console", lambda said: seen.faults.append(said.text) if said.type == "error" else None)
        seen.page.on("pageerror", lambda error: seen.faults.append(str(error)))
        yield seen
        await context.close()
