"""Reads texts of Zulip: mentions and quotations in Markdown, and the words and mentions in rendered HTML."""

from collections.abc import Iterator
from html.parser import HTMLParser

from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.fields import MalformedRecord

#: "@**Ana Reyes**" or "@**Ana Reyes|11**". A silent mention begins with "@_" and notifies nobody.
_MENTION = lazy_pattern(r"@\*\*(?P<name>[^*|\n]{0,200})(?:\|(?P<number>\d{1,18}))?\*\*")
_FENCE = lazy_pattern(r"[ ]{0,3}(?P<marks>`{3,100}|~{3,100})[ \t]*(?P<kind>[^`\n]*)")
#: What the client writes to quote a message and reply to it, with the address of the message.
_QUOTATION = lazy_pattern(
    r"@_\*\*[^*\n]{1,200}\*\* \[[^\]\n]{1,100}\]"
    r"\([^()\s]{0,500}#narrow/(?P<where>[^()\s]{1,500})/near/(?P<number>\d{1,18})\):?[ \t]*\n`{3,100}quote"
)
_QUOTED_STREAM = lazy_pattern(r"(?:stream|channel)/(?P<number>\d{1,18})(?:-|/)")
_BLOCKS = frozenset(
    {"p", "blockquote", "ul", "ol", "pre", "div", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_QUOTE_MARK = "> "


def mentions(text: str) -> list[tuple[str, int | None]]:
    """Return the name and the id of each mention, outside of quotes and code."""
    return [
        (match["name"], int(match["number"]) if match["number"] else None)
        for line in _lines_outside_fences(text)
        for match in _MENTION.finditer(line)
    ]


def _lines_outside_fences(text: str) -> Iterator[str]:
    open_fences: list[str] = []
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line.rstrip())
        if fence is None:
            if not open_fences:
                yield line
        elif open_fences and open_fences[-1] == fence["marks"] and not fence["kind"]:
            open_fences.pop()
        else:
            open_fences.append(fence["marks"])


def quoted_message(text: str, room: str) -> str | None:
    """Return the id of the message of the same room that a text begins to quote; None if there is none."""
    match = _QUOTATION.match(text)
    if match is None:
        return None
    stream = _QUOTED_STREAM.match(match["where"])
    return match["number"] if stream is None or stream["number"] == room else None


def _parsed(html: str) -> "_TextParser":
    parser = _TextParser()
    try:
        parser.feed(html)
        parser.close()
    except AssertionError as error:
        # The parser refuses some declarations in this way.
        raise MalformedRecord("damaged HTML") from error
    return parser


def plain_text(html: str) -> str:
    """Return the words of rendered HTML: one line for each paragraph or item, quotes with a mark before them."""
    return _parsed(html).text()


def mentioned_ids(html: str) -> list[str]:
    """Return the accounts that rendered HTML mentions, in order, without duplicates."""
    return list(dict.fromkeys(_parsed(html).mentioned))


class _TextParser(HTMLParser):
    """Collects lines and mentions."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.mentioned: list[str] = []
        self._lines: list[str] = []
        self._line = ""
        self._quotes = 0
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag in _BLOCKS or tag in {"li", "br"}:
            self._end_line()
        if tag == "li":
            self._line = "- "
        self._quotes += tag == "blockquote"
        self._preformatted += tag == "pre"
        classes = found.get("class", "").split()
        number = found.get("data-user-id", "")
        if tag == "span" and "user-mention" in classes and "silent" not in classes and not self._quotes:
            self.mentioned += (
                [number] if number.isascii() and number.isdigit() and len(number) < len("1" * 19) else []
            )
        if tag == "img" and "emoji" in classes:
            self._line += found.get("alt", "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS or tag == "li":
            self._end_line()
        self._quotes = max(self._quotes - (tag == "blockquote"), 0)
        self._preformatted = max(self._preformatted - (tag == "pre"), 0)

    def handle_data(self, data: str) -> None:
        if not self._preformatted:
            self._line += data.replace("\n", "")
            return
        *whole, rest = data.split("\n")
        for line in whole:
            self._line += line
            self._end_line()
        self._line += rest

    def _end_line(self) -> None:
        if self._line.strip():
            self._lines.append(_QUOTE_MARK * min(self._quotes, 1) + self._line.rstrip())
        self._line = ""

    def text(self) -> str:
        """Return the collected lines."""
        self._end_line()
        return "\n".join(self._lines)
