"""Reads the articles behind links: fetches a page within limits and extracts its text.

Needs the extra `roomlore[articles]`. If a link cannot be read, the reason is returned; no error is raised.
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

#: The extraction program. It runs in a separate process and is never imported here, so pages are parsed only there.
_EXTRACTION = Path(__file__).with_name("extraction.py")
#: Variables for the system's loader. The extraction does not get any other variables.
_PASSED_ON = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
_EXTRA = ("anyio", "httpcore2", "idna", "trafilatura")
#: Returns the page behind a link, or raises UnreadableLink.
Fetch = Callable[[str], Awaitable[Page]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The limits of reading an article."""

    fetch: FetchLimits = field(default_factory=FetchLimits)
    #: The time limit of the extraction.
    parse_seconds: float = 5.0
    #: The maximum number of characters of an article. Further characters are dropped.
    characters: int = 50_000
    #: The maximum number of pages that are read at the same time.
    concurrency: int = 4


def open_reader(
    *, reach: NetworkPolicy | None = None, limits: ReadLimits | None = None, resolve: Resolver | None = None
) -> "WebArticleReader":
    """Return a reader of articles. The reader holds no connection.

    By default, it reaches the open web through the system's resolver.

    Raises:
        BadInput: The extra is not installed.
    """
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        cure = "run: pip install 'roomlore[articles]'"
        raise BadInput("articles", f"reading them needs {', '.join(missing)}; {cure}")
    from roomlore.articles.fetching import Fetcher, system_resolver  # noqa: PLC0415  needs the extra

    limits = limits or ReadLimits()
    fetcher = Fetcher(reach=reach or NetworkPolicy(), limits=limits.fetch, resolve=resolve or system_resolver)
    return WebArticleReader(fetcher.fetch, limits=limits)


class WebArticleReader:
    """An `ArticleReader` for the open web and the allowed networks."""

    def __init__(self, fetch: Fetch, *, limits: ReadLimits) -> None:
        self._fetch = fetch
        self._limits = limits
        self._places = asyncio.Semaphore(limits.concurrency)

    async def read(self, url: str) -> Article | FetchFailure:
        """Return the article behind a URL, or a failure. Only a cancellation is raised."""
        try:
            async with self._places:
                return await self._article(url, await self._fetch(url))
        except UnreadableLink as refusal:
            return FetchFailure(url=url, reason=refusal.reason)

    async def _article(self, url: str, page: Page) -> Article:
        found = await self._extract(page)
        if not found["text"].strip():
            raise UnreadableLink("the page has no article")
        return Article(url=url, title=found["title"], text=found["text"])

    async def _extract(self, page: Page) -> dict[str, str]:
        fields = {
            "media_type": page.media_type,
            "charset": page.charset,
            "characters": self._limits.characters,
        }
        request = json.dumps(fields).encode("ascii") + b"\n" + page.body
        answer = await _run_extraction(request, self._limits.parse_seconds)
        try:
            return cast("dict[str, str]", json.loads(answer))
        except ValueError:
            raise UnreadableLink("the page cannot be parsed") from None


async def _run_extraction(request: bytes, seconds: float) -> bytes:
    """Return the answer of the extraction process. The process never outlives this call."""
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
    """Return the environment of the extraction, without keys and passwords."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
