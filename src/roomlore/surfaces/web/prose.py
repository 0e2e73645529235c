"""What people said, as it may stand on a page: plain text, in which the addresses of other sites are links."""

import re
from collections.abc import Iterator

from markupsafe import Markup

from roomlore.domain.patterns import lazy_pattern

#: An address as people write it; what ends a sentence is not of it.
URL_PATTERN = lazy_pattern(r"https?://[^\s<>\"'\x00-\x1f]+[^\s<>\"'\x00-\x1f.,;:!?)\]}]", re.IGNORECASE)
LINK = Markup('<a href="{0}" rel="noopener noreferrer nofollow" target="_blank">{0}</a>')
BEGINNING = 90


def prose(text: str) -> Markup:
    """Return a text escaped, with links to what it names by http or https."""
    return Markup().join(_pieces(text))


def _pieces(text: str) -> Iterator[Markup]:
    end = 0
    for found in URL_PATTERN.finditer(text):
        yield Markup.escape(text[end : found.start()])
        yield LINK.format(found[0])
        end = found.end()
    yield Markup.escape(text[end:])


def beginning(text: str, most: int = BEGINNING) -> str:
    """Return the beginning of a text on one line, cut between words where it is long."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most and len(text) <= 4 * most:
        return line
    kept = line[:most].rsplit(" ", 1)[0] if " " in line[:most] else line[:most]
    return f"{kept} …"
