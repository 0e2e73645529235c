"""Reads the pages that a context's messages link to, and formats the pages as blocks that follow the bodies.

Only links of selected messages are read. If a link cannot be read, it still uses up one attempt, and the reason is
kept.

A page is not a statement of anybody in the room. It is sanitised like a body and escaped like an attribute value, so a
page can neither end its block nor begin a line of its own. `escape_embeddings` makes sure that no message can contain
such a block.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from xml.sax.saxutils import escape, quoteattr

from roomlore.context.tokens import TokenCounter, estimate_tokens, largest_fitting
from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import Article, ArticleReader, FetchFailure
from roomlore.domain.rendering import as_one_line, safe_text

#: The number of links read per message. A message with more links counts as a list of links.
LINKS_PER_MESSAGE = 10
#: If fewer characters of an article than this fit, the article is left out.
_FEWEST_CHARACTERS = 200
_LONGEST_TITLE = 200
#: A line end in a rendered body; see `domain/rendering.py`.
_SHOWN_LINE_END = "\n  | "

#: A link. It ends before characters that no link contains: brackets, quotation marks, bars, and Chinese and Japanese
#: punctuation, which follows a link without a space. The host may be an address in brackets.
_LINK = lazy_pattern(
    r"(?<![A-Za-z0-9+.-])https?://(?:\[[0-9A-Fa-f:.]+\])?"
    r"[^\s<>\"`{|}\\^\[\]\x00-\x1f\x7f-\x9f\u200b\u2028\u2029"
    r"\u3001\u3002\uff0c\uff01\uff1f\uff1a\uff1b\u300c\u300d\u300e\u300f\uff08\uff09\u3010\u3011\u300a\u300b\u201c\u201d\u00ab\u00bb\u2026]*",
    re.IGNORECASE,
)
_TRAILING = ".,:;!?'*_~"
_BACKTICKS = lazy_pattern(r"`+")
_FENCE = lazy_pattern(r"^[ ]{0,3}(`{3,}|~{3,})", re.MULTILINE)
_LONGEST_LINK = 2048

#: Ends of links to files without an article. These files are not fetched.
_FILE = lazy_pattern(
    r"\.(?:avi|bmp|csv|docx?|exe|gif|gz|heic|ico|jpe?g|kml|m4a|mkv|mov|mp[34]|ogg|pdf|png|pptx?|rar|svg|tar|tiff?"
    r"|wav|webm|webp|xlsx?|zip)(?:\?|$)",
    re.IGNORECASE,
)

#: Characters that XML does not allow.
_NOT_MARKUP = lazy_pattern("[\ufffe\uffff]")
_TYPED = lazy_pattern(r"<(?=[\s/\u00ad\u200b-\u200f\u2060\ufe0f\ufeff]*embedding)", re.IGNORECASE)
_WIDE_ANGLE = "\uff1c"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Limits for the links of one context."""

    articles: int = 3
    #: The maximum number of links that are read, including links that cannot be read.
    attempts: int = 6
    #: The time limit of all links together. Articles that were read by then are used.
    seconds: float = 10.0


DEFAULT_LIMITS = LinkLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResult:
    """A link with its page, or the reason why it was not read, and the newest message with the link."""

    message_id: MessageId
    outcome: Article | FetchFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleBlocks:
    """The block that follows each body, and the links without a block."""

    #: The block after each body. Its lines end with a plain line feed; the renderer adds the bars.
    blocks: Mapping[MessageId, str]
    #: Links without a block, each with a `FetchFailure` as its outcome. This includes pages that did not fit the
    #: budget.
    unread_links: tuple[LinkResult, ...]


async def read_links(
    lines: Sequence[tuple[MessageId, str]], reader: ArticleReader, *, limits: LinkLimits = DEFAULT_LIMITS
) -> list[LinkResult]:
    """Return the results for the links of messages, the links of the newest message first.

    Only a cancellation is raised.

    Args:
        lines: The messages of the context in the order of the room, each with its whole body.
        reader: Reads one link. Any exception of the reader counts as a failure of the link.
        limits: Limits of articles, attempts and seconds.
    """
    wanted = _links_to_read(lines)
    outcomes: dict[str, Article | FetchFailure] = {
        url: FetchFailure(url=url, reason="a file, not a page") for url in wanted if _FILE.search(url)
    }
    waiting = [url for url in wanted if url not in outcomes][: limits.attempts]
    try:
        async with asyncio.timeout(limits.seconds):
            while waiting and (places := limits.articles - _count(outcomes)) > 0:
                now, waiting = waiting[:places], waiting[places:]
                await _read_all(now, reader, outcomes)
        rest = f"beyond {limits.articles} articles or {limits.attempts} attempts"
    except TimeoutError:
        rest = f"not read within {limits.seconds:g} seconds"
    found = {url: outcomes.get(url) or FetchFailure(url=url, reason=rest) for url in wanted}
    return [LinkResult(message_id=wanted[url], outcome=outcome) for url, outcome in found.items()]


def attach(
    links: Sequence[LinkResult],
    *,
    tokens: int,
    characters: int = 4000,
    counter: TokenCounter = estimate_tokens,
) -> ArticleBlocks:
    """Return the articles as blocks, the articles of newer messages first, as many as the tokens allow.

    Args:
        links: The links, each with its page or the reason why it was not read.
        tokens: Budget of all blocks together, as they are rendered.
        characters: The maximum number of characters of an article. A note states what is cut.
        counter: Counts tokens.
    """
    shown: dict[MessageId, list[str]] = {}
    unread: list[LinkResult] = []
    for link in links:
        if isinstance(link.outcome, FetchFailure):
            unread.append(link)
            continue
        others = shown.get(link.message_id, [])
        left = tokens - sum(_cost(block, counter) for key, block in shown.items() if key != link.message_id)
        embedding = _longest(link.outcome, characters, partial(_fits, others, left, counter))
        if embedding:
            shown[link.message_id] = [*others, embedding]
        else:
            failure = FetchFailure(url=link.outcome.url, reason="the budget went to messages and newer links")
            unread.append(LinkResult(message_id=link.message_id, outcome=failure))
    return ArticleBlocks(
        blocks={key: _block(block) for key, block in shown.items()}, unread_links=tuple(unread)
    )


def escape_embeddings(text: str) -> str:
    """Return the text with the `<` of each `<embedding` tag replaced by a full-width bracket.

    So a message cannot imitate such a tag.
    """
    return _TYPED.sub(_WIDE_ANGLE, text)


def find_links(body: str) -> tuple[str, ...]:
    """Return the first links of a body that are outside of code, each link once, without its fragment."""
    found: dict[str, None] = {}
    for prose in _outside_code(body):
        for match in _LINK.finditer(prose):
            if len(match[0]) > _LONGEST_LINK or prose.startswith("](", match.end()):
                continue  # too long, or the label of a Markdown link, whose target follows
            url = _without_punctuation(match[0]).partition("#")[0]
            if url.partition("://")[2].strip("/?"):
                found[url] = None
            if len(found) == LINKS_PER_MESSAGE:
                return tuple(found)
    return tuple(found)


def _links_to_read(lines: Sequence[tuple[MessageId, str]]) -> dict[str, MessageId]:
    """Return each link with the newest message that has it, newest first."""
    wanted: dict[str, MessageId] = {}
    for message_id, body in reversed(lines):
        for url in find_links(body):
            wanted.setdefault(url, message_id)
    return wanted


def _count(outcomes: Mapping[str, Article | FetchFailure]) -> int:
    return sum(isinstance(outcome, Article) for outcome in outcomes.values())


async def _read_all(
    urls: Sequence[str], reader: ArticleReader, outcomes: dict[str, Article | FetchFailure]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for url in urls:
            tasks.create_task(_read(url, reader, outcomes))


async def _read(url: str, reader: ArticleReader, outcomes: dict[str, Article | FetchFailure]) -> None:
    try:
        outcomes[url] = await reader.read(url)
    except Exception as error:  # noqa: BLE001  an article never fails the context
        outcomes[url] = FetchFailure(url=url, reason=f"the reader failed ({type(error).__name__})")


def _without_punctuation(link: str) -> str:
    """Return a link without the punctuation of the sentence around it."""
    while link and (link[-1] in _TRAILING or (link[-1] == ")" and link.count(")") > link.count("("))):
        link = link[:-1]
    return link


def _outside_code(body: str) -> Iterator[str]:
    """Yield the text outside of code blocks and code spans, in linear time."""
    for text in _outside_fences(body):
        yield from _outside_spans(text)


def _outside_fences(body: str) -> Iterator[str]:
    opened, start = "", 0
    for fence in _FENCE.finditer(body):
        if not opened:
            yield body[start : fence.start()]
            opened = fence[1]
        elif fence[1].startswith(opened):
            opened, start = "", fence.end()
    if not opened:
        yield body[start:]


def _outside_spans(text: str) -> Iterator[str]:
    """Yield the text between code spans. A span closes with as many backticks as it opens with."""
    runs = list(_BACKTICKS.finditer(text))
    last = {len(run[0]): place for place, run in enumerate(runs)}
    start, opened = 0, 0
    for place, run in enumerate(runs):
        if opened:
            if len(run[0]) == opened:
                opened, start = 0, run.end()
        elif last[len(run[0])] > place:
            yield text[start : run.start()]
            opened = len(run[0])
    yield text[start:]


def _longest(article: Article, characters: int, fits: Callable[[str], bool]) -> str:
    """Return as much of an article as fits; empty if too little fits."""
    text = safe_text(article.text)
    low, high = min(_FEWEST_CHARACTERS, len(text)), min(characters, len(text))
    if high < low or not fits(_embedding(article, text, low)):
        return ""
    length = largest_fitting(low, high, lambda length: fits(_embedding(article, text, length)))
    return _embedding(article, text, length)


def _fits(others: Sequence[str], tokens: int, counter: TokenCounter, embedding: str) -> bool:
    return _cost([*others, embedding], counter) <= tokens


def _embedding(article: Article, text: str, characters: int) -> str:
    missing = len(text) - characters
    title = as_one_line(article.title)[:_LONGEST_TITLE]
    shown = text[:characters].rstrip() + (f" [… {missing} characters cut]" if missing else "")
    if title and not text.startswith(title):
        shown = f"{title}\n\n{shown}"
    return f'<embedding type="article" url={_attribute(article.url)}>\n{_content(shown)}\n</embedding>'


def _block(embeddings: Sequence[str]) -> str:
    return "\n".join(["<embeddings>", *embeddings, "</embeddings>"])


def _cost(embeddings: Sequence[str], counter: TokenCounter) -> int:
    return counter(("\n" + _block(embeddings)).replace("\n", _SHOWN_LINE_END))


def _content(text: str) -> str:
    return escape(_NOT_MARKUP.sub("\ufffd", text))


def _attribute(value: str) -> str:
    """Return a value as an attribute: in double quotes, on one line and well-formed."""
    return quoteattr(_NOT_MARKUP.sub("\ufffd", safe_text(value)), {'"': "&quot;"})
