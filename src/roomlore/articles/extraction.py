"""Extracts the article of a page: a program that runs once per page and is never imported.

Pages come from strangers, and large libraries parse them. So this program is a process of its own: a page that loops,
exhausts memory or crashes the parser ends only this process.

Input: a line of JSON (`media_type`, `charset`, `characters`), then the page. Output: JSON with `title` and `text`,
empty if there is no article.
"""

import codecs
import contextlib
import json
import logging
import re
import sys
from typing import IO, Any

_MEMORY = 1024**3
_CPU_SECONDS = 20
#: The charset is searched for in this number of bytes at the beginning of a page.
_CHARSET_BYTES = 4096
_META = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
#: Codecs of Python that no page uses. Some of them take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "utf-7"})
#: Charsets that pages mean when they state these names.
_CHARSET_ALIASES = {"iso8859-1": "cp1252", "ascii": "cp1252"}
_LONGEST_TITLE = 300


def main() -> None:
    """Read a page from standard input, and write its article to standard output."""
    _limit_resources()
    request = json.loads(sys.stdin.buffer.readline())
    article = article_of(
        sys.stdin.buffer, request["media_type"], charset=request["charset"], characters=request["characters"]
    )
    sys.stdout.buffer.write(json.dumps(article).encode("ascii"))


def article_of(page: IO[bytes], media_type: str, *, charset: str, characters: int) -> dict[str, str]:
    """Return title and text of a page, cut to the limits."""
    written = decode_page(page.read(), charset)
    if media_type == "text/plain":
        return {"title": "", "text": written[:characters]}
    found = _extracted(written)
    title, text = (found.title, found.text) if found else ("", "")
    return {"title": (title or "")[:_LONGEST_TITLE], "text": (text or "")[:characters]}


def decode_page(body: bytes, charset: str) -> str:
    """Return the text of a page.

    The charset comes from the byte order mark, the server or the page, in this order. If none of them states a usable
    charset, UTF-8 is tried, then Windows-1252.
    """
    stated = _META.search(body[:_CHARSET_BYTES])
    marked = next((name for mark, name in _MARKS if body.startswith(mark)), "")
    for name in (marked, charset, stated[1].decode("ascii") if stated else ""):
        if usable := _charset(name):
            return body.decode(usable, "replace").removeprefix("\ufeff")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _charset(name: str) -> str:
    """Return Python's name of a charset; empty for a name that pages do not use."""
    try:
        known = codecs.lookup(name).name if name else ""
        b"a".decode(known or "utf-8", "replace")  # Refuses codecs that are no charset, such as zip.
    except (LookupError, ValueError):
        return ""
    return "" if known.replace("_", "-") in _NO_CHARSETS else _CHARSET_ALIASES.get(known, known)


def _extracted(written: str) -> Any:
    import trafilatura  # noqa: PLC0415  only once memory is bounded, and not for plain text

    logging.getLogger("trafilatura").disabled = True
    # The page is passed as text, because bytes that look compressed would be unpacked without a limit.
    return trafilatura.bare_extraction(written, include_comments=False, with_metadata=True)


def _limit_resources() -> None:
    """Limit memory and processor time, if the system supports it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415  Windows has none

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
