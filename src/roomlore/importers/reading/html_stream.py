"""Reads huge or damaged HTML pages piece by piece.

A page is never in memory as a whole: only one piece of it, such as a message, is built as a tree. Damage costs the piece
that it is in.
"""

import codecs
import html
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.ports import ExportFiles
from roomlore.importers.reading.text_lines import unreadable

#: The maximum number of characters of a piece, and of a tag. No message comes near it.
MAX_PIECE = 4 * 2**20
#: Deeper elements become children of their last ancestor above this depth.
MAX_DEPTH = 100
_CHUNK = 2**16
_VOID = frozenset("area base br col embed hr img input link meta param path source track wbr".split())
#: Elements that messages consist of. Anything else in a message is text in angle brackets.
_KNOWN = _VOID | frozenset(
    "a audio b blockquote button code del details div em font g h1 h2 h3 h4 h5 h6 i iframe ins label li mark ol p picture"
    " pre q s section small span strike strong sub summary sup svg symbol table tbody td th thead time tr tt u ul use video".split()
)


@dataclass(slots=True, kw_only=True)
class HtmlElement:
    """An element with its children: elements and texts."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: "list[HtmlElement | str]" = field(default_factory=list["HtmlElement | str"])
    #: The names of its classes.
    classes: frozenset[str] = frozenset()
    #: The elements of a finished tree, so that it is walked once.
    _elements: "list[HtmlElement] | None" = None

    def __post_init__(self) -> None:
        self.classes = _class_names(self.attributes.get("class", ""))

    def has(self, *classes: str) -> bool:
        """Return whether it has one of these classes."""
        return not self.classes.isdisjoint(classes)

    def get(self, name: str) -> str:
        """Return an attribute; empty if it is missing."""
        return self.attributes.get(name, "")

    def walk(self) -> "list[HtmlElement]":
        """Return the element and all elements below it, in the order of the page. The tree must be finished."""
        if self._elements is None:
            self._elements = [self]
            for child in self.children:
                if isinstance(child, HtmlElement):
                    self._elements += child.walk()
        return self._elements

    def find(self, *classes: str) -> "HtmlElement | None":
        """Return the first element with one of these classes; None if there is none."""
        return next((one for one in self.walk() if not one.classes.isdisjoint(classes)), None)

    def find_all(self, *classes: str) -> "list[HtmlElement]":
        """Return all elements with one of these classes."""
        return [one for one in self.walk() if not one.classes.isdisjoint(classes)]

    def find_tag(self, *tags: str) -> "HtmlElement | None":
        """Return the first element with one of these tags; None if there is none."""
        return next((element for element in self.walk() if element.tag in tags), None)

    def text(self) -> str:
        """Return the text as a browser shows it in one line."""
        return " ".join(self._whole_text().split())

    def source(self) -> str:
        """Return the element as HTML."""
        shown = "".join(
            f' {name}="{html.escape(value, quote=False).replace(chr(34), "&quot;")}"'
            for name, value in self.attributes.items()
        )
        if self.tag in _VOID:
            return f"<{self.tag}{shown}>"
        inner = "".join(
            html.escape(child, quote=False) if isinstance(child, str) else child.source()
            for child in self.children
        )
        return f"<{self.tag}{shown}>{inner}</{self.tag}>"

    def _whole_text(self) -> str:
        return "".join(
            child if isinstance(child, str) else child._whole_text()  # noqa: SLF001  its own class
            for child in self.children
        )


@lru_cache(maxsize=1024)
def _class_names(written: str) -> frozenset[str]:
    """Return the names of classes. A page has few different ones."""
    return frozenset(written.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShape:
    """Which elements of a page are pieces."""

    #: Classes of elements that are read whole. An element inside a piece belongs to that piece.
    pieces: frozenset[str]
    #: Classes of elements of which only the start is reported, without children.
    marks: frozenset[str]
    #: Whether an element cannot be inside a piece. It ends a piece that damage left open.
    is_border: Callable[[HtmlElement], bool]


def read_pieces(source: ExportFiles, file: str, shape: PageShape) -> Iterator[HtmlElement | SkippedRecord]:
    """Yield the pieces and marks of a page in order, with invalid UTF-8 replaced. A read error ends the page."""
    builder = _PieceBuilder(shape)
    decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    count = 0
    try:
        with source.open(file) as stream:
            while data := stream.read(_CHUNK):
                builder.feed(decode(data))
                for piece in builder.take():
                    count += 1
                    yield piece if piece is not None else _too_long(file, count)
                if len(builder.rawdata) > MAX_PIECE:
                    yield SkippedRecord(where=f"{file} after element {count}", reason="not HTML")
                    return
    except OSError as error:
        yield unreadable(f"{file} after element {count}", error)
        return
    if builder.is_open:
        yield SkippedRecord(where=f"{file} after element {count}", reason="the file is cut off")


def _too_long(file: str, count: int) -> SkippedRecord:
    return SkippedRecord(where=f"{file} element {count}", reason="element too long")


class _PieceBuilder(HTMLParser):
    """Builds the trees of pieces. What is between pieces is dropped."""

    def __init__(self, shape: PageShape) -> None:
        super().__init__(convert_charrefs=True)
        self._shape = shape
        #: Finished pieces. None stands for a piece that was too long.
        self._done: list[HtmlElement | None] = []
        #: The open elements of the piece, outermost first.
        self._open: list[HtmlElement] = []
        self._open_tags: Counter[str] = Counter()
        self._size = 0

    @property
    def is_open(self) -> bool:
        """Whether a piece was begun and not ended, or a tag is incomplete."""
        return bool(self._open) or self.rawdata.startswith("<")

    def take(self) -> list[HtmlElement | None]:
        """Return the finished pieces, once."""
        done, self._done = self._done, []
        return done

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = HtmlElement(tag=tag, attributes={name: value or "" for name, value in attrs})
        if self._open and self._shape.is_border(element):
            self._finish()
        if self._open:
            self._add(element)
        elif element.has(*self._shape.marks):
            self._done.append(element)
        elif element.has(*self._shape.pieces):
            self._size = 0
            self._push(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or tag in _VOID:
            return
        if tag not in _KNOWN:
            self._add_text(f"</{tag}>")
            return
        outermost = self._open[0]
        while self._open_tags[tag] and self._open:
            closed = self._open.pop()
            self._open_tags[closed.tag] -= 1
            if closed.tag == tag:
                break
        if not self._open:
            self._end(outermost)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._add_text(data)

    def parse_html_declaration(self, i: int) -> int:
        """Pass over a declaration. The base class raises an error for an unknown one."""
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1

    def updatepos(self, i: int, j: int) -> int:
        """Return the end of what was read. Lines are not counted."""
        del i
        return j

    def set_cdata_mode(self, elem: str, **options: Any) -> None:
        """Read the content of scripts and styles as text, except in a message that only quotes such a tag."""
        if not self._open:
            super().set_cdata_mode(elem, **options)

    def _add(self, element: HtmlElement) -> None:
        if element.tag not in _KNOWN:
            self._add_text(self.get_starttag_text() or "")
            return
        if self._has_room(len(self.get_starttag_text() or "")) and len(self._open) <= MAX_DEPTH:
            self._open[-1].children.append(element)
        if element.tag in _VOID:
            return
        if len(self._open) > MAX_DEPTH:
            # Its text goes to the last element that is not too deep.
            element = HtmlElement(tag=element.tag, children=self._open[-1].children)
        self._push(element)

    def _push(self, element: HtmlElement) -> None:
        if element.tag in _VOID:
            self._done.append(element)
            return
        self._open.append(element)
        self._open_tags[element.tag] += 1

    def _add_text(self, text: str) -> None:
        if self._has_room(len(text)):
            self._open[-1].children.append(text)

    def _has_room(self, size: int) -> bool:
        self._size += size
        return self._size <= MAX_PIECE

    def _finish(self) -> None:
        outermost = self._open[0]
        self._open.clear()
        self._open_tags.clear()
        self._end(outermost)

    def _end(self, outermost: HtmlElement) -> None:
        self._open_tags.clear()
        self._done.append(outermost if self._size <= MAX_PIECE else None)
