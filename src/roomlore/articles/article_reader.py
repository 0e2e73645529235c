"""Reads what links point to: fetches the page within bounds and finds the article in it.

An extra, `roomlore[articles]`: nothing is installed, opened or asked for it unless somebody wants it. Whatever
goes wrong with a link is a reason in the answer, never an error of the caller's.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from roomlore.articles.links import FetchLimits, NetworkPolicy, Page, Resolver, UnreadableLink
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Article, FetchFailure

#: Run, not imported, so that the parser never is part of this process.
_EXTRACTION = Path(__file__).with_name("extraction.py")
#: What the system's loader may need; the rest of the environment is none of a page's business.
_PASSED_ON = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
_EXTRA = ("anyio", "httpcore2", "idna", "trafilatura")
#: Returns the page behind a link, or raises Unreadable.
Fetch = Callable[[str], Awaitable[Page]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """What reading may take."""

    fetch: FetchLimits = field(default_factory=FetchLimits)
    #: For finding the article in a page.
    parse_seconds: float = 5.0
    #: Of an article; what is beyond is dropped.
    characters: int = 50_000
    #: Pages that one reader works on at the same time.
    concurrency: int = 4


def open_reader(
    *, reach: NetworkPolicy | None = None, limits: ReadLimits | None = None, resolve: Resolver | None = None
) -> "WebArticleReader":
    """Return a reader of what links point to; it holds no connection and needs no closing.

    Args:
        reach: Where links may lead; the open web by default.
        limits: What one link may take.
        resolve: Names to addresses; the system's resolver by default.

    Raises:
        BadInput: the extra is not installed.
    """
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        cure = "run: pip install 'roomlore[articles]'"
        raise BadInput("articles", f"reading them needs {', '.join(missing)}; {cure}")
    from roomlore.articles.fetching import Fetcher, system_resolver  # noqa: PLC0415  needs the extra

    limits = limits or ReadLimits()
    fetcher = Fetcher(reach=reach or NetworkPolicy(), limits=limits.fetch, resolve=resolve or system_resolver)
    return WebArticleReader(fetcher.fetch, limits=limits)


class WebArticleReader:
    """An `ArticleReader` over the open web, and over whatever networks were allowed besides."""

    def __init__(self, fetch: Fetch, *, limits: ReadLimits) -> None:
        self._fetch = fetch
        self._limits = limits
        self._places = asyncio.Semaphore(limits.concurrency)

    async def read(self, url: str) -> Article | FetchFailure:
        """Return the article behind an address, or why it was not read; only a cancellation is raised."""
        try:
            async with self._places:
                return await self._article(url, await self._fetch(url))
        except UnreadableLink as refusal:
            return FetchFailure(url=url, reason=refusal.reason)

    async def _article(self, url: str, page: Page) -> Article:
        found = await self._extract(page)
        if not found["text"].strip():
            raise UnreadableLink("no article is on the page")
        return Article(url=url, title=found["title"], text=found["text"])

    async def _extract(self, page: Page) -> dict[str, str]:
        request = {
            "media_type": page.media_type,
            "charset": page.charset,
            "characters": self._limits.characters,
        }
        answer = await _run_extraction(
            json.dumps(request).encode("ascii") + b"\n" + page.body, self._limits.parse_seconds
        )
        try:
            return cast("dict[str, str]", json.loads(answer))
        except ValueError:
            raise UnreadableLink("the page cannot be parsed") from None


async def _run_extraction(request: bytes, seconds: float) -> bytes:
    """Return what the extraction answers; it is gone when this returns or is cancelled."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-s", str(_EXTRACTION)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
        )
    except OSError:
        raise UnreadableLink("the parser does not start") from None
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(request)
    except TimeoutError:
        raise UnreadableLink(f"parsing it took longer than {seconds:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answer


def _environment() -> dict[str, str]:
    """Return what the extraction needs of the environment; no key or password is in it."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
