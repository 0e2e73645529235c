"""Reads one mail: its headers, its text and its attachments.

Python's `email` reads headers and encodings. The parts of a mail are divided here, because its parser needs minutes for
deeply nested parts.
"""

import binascii
import codecs
import html
import string
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.rendering import QUOTE_PREFIX
from roomlore.importers.reading.fields import non_empty

#: Longer headers are cut. A long list of references has some thousand characters.
MAX_HEADER = 20_000
#: The maximum length of all headers of a mail.
_MAX_HEADERS = 2**18
_MAX_DEPTH = 10
_MAX_PARTS = 200
_MAX_HTML = 1_000_000
_MAX_NAME = 300

_SPACE = lazy_pattern(r"\s+")
#: Codecs that are no character sets, or slow.
_UNSAFE_CODECS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"})
#: Names that many programs use for a larger character set.
_LARGER_CODECS = {"iso8859-1": "cp1252", "ascii": "utf-8", "gb2312": "gb18030", "ks_c_5601-1987": "cp949"}


def decoded(data: bytes, charset: str = "") -> str:
    """Return bytes as text in the named character set. If it is wrong or unknown, the bytes decide."""
    name = _codec(charset)
    for codec, errors in ((name, "strict"), ("utf-8", "strict"), (name, "replace"), ("cp1252", "strict")):
        is_usable = codec and (errors == "strict" or codec != "utf-8")
        with suppress(UnicodeError, LookupError, ValueError):
            if is_usable:
                return data.decode(codec, errors)
    return data.decode("latin-1")


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset[:40]).name
    except (LookupError, ValueError):
        return ""
    return "" if name.replace("_", "-") in _UNSAFE_CODECS else _LARGER_CODECS.get(name, name)


def header(mail: "Message[str, str]", name: str) -> str:
    """Return the first header of that name as one line, still encoded; empty if there is none."""
    for key, value in mail.raw_items():
        if key.casefold() == name:
            text = str(value)[:MAX_HEADER]
            if not text.isascii():
                text = decoded(text.encode("utf-8", "surrogateescape"))
            return _SPACE.sub(" ", text).strip()
    return ""


def decoded_words(text: str) -> str:
    """Return a header with its encoded words decoded."""
    if "=?" not in text:
        return text
    try:
        pieces = decode_header(text)
    except (HeaderParseError, ValueError, LookupError):
        return text
    words = (_decoded_piece(one, charset) if isinstance(one, bytes) else one for one, charset in pieces)
    return _SPACE.sub(" ", "".join(words)).strip() or text


def _decoded_piece(piece: bytes, charset: str | None) -> str:
    if charset is None:
        # Python writes the plain text between encoded words in this form.
        with suppress(UnicodeError):
            return piece.decode("raw_unicode_escape")
    return decoded(piece, charset or "")


@dataclass(slots=True)
class MailContent:
    """The text and the attachments of a mail."""

    texts: list[str] = field(default_factory=list[str])
    attachments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    #: The parts read so far.
    parts: int = 0

    @property
    def text(self) -> str:
        """All text parts, in order."""
        return "\n\n".join(filter(None, self.texts))


def read_headers(data: bytes) -> tuple["Message[str, str]", bytes]:
    """Return the headers of a mail or part, and what follows them."""
    if data[:1] == b"\n" or data[:2] == b"\r\n":
        # A part without headers begins with an empty line.
        head, body = b"", data.partition(b"\n")[2]
    else:
        ends = [(data.find(mark), len(mark)) for mark in (b"\n\n", b"\n\r\n")]
        place, length = min((end for end in ends if end[0] >= 0), default=(len(data), 0))
        head, body = data[:place], data[place + length :]
    if head.startswith((b"From ", b">From ")):
        head = head.partition(b"\n")[2]
    place = _end_of_headers(head[:_MAX_HEADERS])
    # Some texts begin without an empty line.
    early = head[place:_MAX_HEADERS]
    return BytesHeaderParser().parsebytes(head[:place] + b"\n\n"), early + b"\n\n" + body if early else body


def _end_of_headers(head: bytes) -> int:
    """Return where the first line begins that is no header."""
    place = 0
    for line in head.splitlines(keepends=True):
        name, colon, _ = line.partition(b":")
        if not (line[:1] in {b" ", b"\t"} or (colon and name and b" " not in name)):
            break
        place += len(line)
    return place


def read_content(mail: "Message[str, str]", body: bytes) -> MailContent:
    """Return the text and the attachments of a mail. Plain text is preferred over HTML."""
    content = MailContent()
    _read_part(mail, body, content, depth=0)
    return content


def _read_part(part: "Message[str, str]", body: bytes, content: MailContent, *, depth: int) -> None:
    content.parts += 1
    if content.parts > _MAX_PARTS or depth > _MAX_DEPTH:
        return
    kind = part.get_content_type()
    boundary = _parameter(part, "boundary") if kind.startswith("multipart/") else ""
    parts = [read_headers(data) for data in _divided(body, boundary)] if boundary else []
    if parts:
        chosen = _best_alternative(parts) if kind == "multipart/alternative" else None
        for number, (inner, data) in enumerate(parts):
            if kind == "multipart/digest":
                inner.set_default_type("message/rfc822")
            if chosen in {None, number}:
                _read_part(inner, data, content, depth=depth + 1)
            else:
                _read_files(inner, data, content, depth=depth + 1)
    elif kind == "message/rfc822" and not _is_encoded(part):
        content.attachments.append(_forwarded(body, content, depth=depth))
    else:
        _read_leaf(part, kind, body, content)


def _read_leaf(part: "Message[str, str]", kind: str, body: bytes, content: MailContent) -> None:
    name = _file_name(part)
    is_attached = header(part, "content-disposition").casefold().startswith("attachment")
    is_text = kind in {"text/plain", "text/html"} or kind.startswith("multipart/")
    if is_text and not is_attached and not name:
        text = decoded(_without_transfer_encoding(part, body), _parameter(part, "charset"))
        content.texts.append(text_of_html(text) if kind == "text/html" else with_quote_marks(text))
    else:
        content.attachments.append({"type": kind} | non_empty(name=name))


def _forwarded(body: bytes, content: MailContent, *, depth: int) -> dict[str, Any]:
    """Return a mail inside a mail as an attachment."""
    inner, data = read_headers(body)
    inside = MailContent(parts=content.parts)
    _read_part(inner, data, inside, depth=depth + 1)
    content.parts = inside.parts
    return {"type": "forward"} | non_empty(
        author=decoded_words(header(inner, "from"))[:_MAX_NAME],
        title=decoded_words(header(inner, "subject"))[:_MAX_NAME],
        text=inside.text,
    )


def _best_alternative(parts: list[tuple["Message[str, str]", bytes]]) -> int:
    """Return the number of the plain text if there is one; otherwise of the last alternative, which is the best."""
    for number, (part, body) in enumerate(parts):
        if part.get_content_type() == "text/plain" and body.strip():
            return number
    return len(parts) - 1


def _read_files(part: "Message[str, str]", body: bytes, content: MailContent, *, depth: int) -> None:
    """Read only the files of an alternative that is not chosen."""
    inside = MailContent(parts=content.parts)
    _read_part(part, body, inside, depth=depth)
    content.parts = inside.parts
    content.attachments += [file for file in inside.attachments if "name" in file]


def _divided(body: bytes, boundary: str) -> Iterator[bytes]:
    """Yield the parts between the lines with the boundary."""
    mark = b"\n--" + boundary.encode("utf-8", "surrogateescape")
    body = b"\n" + body
    place, start, count = body.find(mark), -1, 0
    while place >= 0 and count < _MAX_PARTS:
        end = body.find(b"\n", place + 1)
        end = len(body) if end < 0 else end
        rest = body[place + len(mark) : end].strip()
        # Otherwise the line only begins like the boundary.
        if rest in {b"", b"--"}:
            if start >= 0:
                yield body[start:place].removesuffix(b"\r")
            if rest:
                return
            start, count = end + 1, count + 1
        place = body.find(mark, end)
    if start >= 0:
        yield body[start:]


def _parameter(part: "Message[str, str]", name: str) -> str:
    try:
        value = part.get_param(name)
    except (ValueError, TypeError, UnicodeError, LookupError):
        return ""
    text = value[2] if isinstance(value, tuple) else value
    return text.strip()[:_MAX_NAME] if isinstance(text, str) else ""


def _file_name(part: "Message[str, str]") -> str:
    try:
        name = part.get_filename() or ""
    except (ValueError, TypeError, UnicodeError, LookupError):
        return ""
    text = decoded(str(name)[:MAX_HEADER].encode("utf-8", "surrogateescape"))
    return _SPACE.sub(" ", decoded_words(text)).strip()[:_MAX_NAME]


def _is_encoded(part: "Message[str, str]") -> bool:
    return header(part, "content-transfer-encoding").casefold() in {"base64", "quoted-printable"}


def _without_transfer_encoding(part: "Message[str, str]", body: bytes) -> bytes:
    if header(part, "content-transfer-encoding").casefold() == "base64":
        return _base64(body)
    if header(part, "content-transfer-encoding").casefold() == "quoted-printable":
        return binascii.a2b_qp(body)
    return body


def _base64(body: bytes) -> bytes:
    letters = body.translate(None, delete=_NOT_BASE64)
    return binascii.a2b_base64(letters[: len(letters) - (len(letters) % 4 == 1)] + b"==")


_NOT_BASE64 = bytes(set(range(256)) - set(string.ascii_letters.encode()) - set(b"0123456789+/"))

# Text

#: ">> text" and "> > text" quote a quotation.
_QUOTED = lazy_pattern(r"((?:> ?){1,50})(.*)")


def with_quote_marks(text: str) -> str:
    """Return a text whose quoted lines all begin with the same mark, without spaces at the ends of lines."""
    return "\n".join(map(_with_quote_mark, text.splitlines())).strip("\n")


def _with_quote_mark(line: str) -> str:
    match = _QUOTED.fullmatch(line.rstrip()) if line.startswith(">") else None
    return QUOTE_PREFIX * match[1].count(">") + match[2] if match else line.rstrip()


_TAG = lazy_pattern(r"<!--|-->|<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,20})(?P<rest>[^<>]{0,4000})>")
_HIDDEN = frozenset({"head", "script", "style", "title"})
_BLOCKS = frozenset(
    "address article blockquote br dd div dl dt figure h1 h2 h3 h4 h5 h6 hr li ol p pre section table tr ul".split()
)
_BLANK_LINES = lazy_pattern(r"\n{3,}")


def text_of_html(source: str) -> str:
    """Return the text of an HTML page. Quotations become quoted lines."""
    lines, line, quoted, place, hidden = list[str](), "", 0, 0, ""
    for tag in _TAG.finditer(source, 0, _MAX_HTML):
        if not hidden:
            line += source[place : tag.start()]
        place = tag.end()
        name = (tag["name"] or tag[0]).casefold()
        if hidden:
            is_end = name == "-->" if hidden == "<!--" else name == hidden and bool(tag["end"])
            hidden = "" if is_end else hidden
        elif name == "<!--" or (name in _HIDDEN and not tag["end"]):
            hidden = name
        elif name in _BLOCKS:
            lines.append(_html_line(line, quoted))
            line = ""
            if name == "blockquote":
                quoted = max(quoted + (-1 if tag["end"] else 1), 0)
    lines.append(_html_line(line + ("" if hidden else source[place:_MAX_HTML]), quoted))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def _html_line(source: str, quoted: int) -> str:
    text = _SPACE.sub(" ", html.unescape(source)).strip()
    return QUOTE_PREFIX * min(quoted, 5) + text if text else ""
