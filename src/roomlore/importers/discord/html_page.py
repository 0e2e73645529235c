"""The pages of DiscordChatExporter: what belongs to which message, in the templates since 2018.

- Since 2022, a container holds a message. Only the first message of a group has a header with its author.
- From July 2019 on, a group has the author and the time, and then the messages with their ids.
- Before, a group has texts without ids, each followed by its attachments.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles
from roomlore.importers.discord.rooms import RoomFacts, read_file_name
from roomlore.importers.reading.html_stream import HtmlElement, PageShape, read_pieces

_CONTAINER = "chatlog__message-container"
_GROUP = "chatlog__message-group"
_END = "postamble"
_MESSAGE = "chatlog__message"
_AUTHOR = ("chatlog__author", "chatlog__author-name", "chatlog__system-notification-author")
_BOT = ("chatlog__author-tag", "chatlog__bot-label", "chatlog__bot-tag")
_TIME = ("chatlog__timestamp", "chatlog__system-notification-timestamp", "chatlog__short-timestamp")
_REPLY = ("chatlog__reply", "chatlog__reference")
_REPLY_LINK = ("chatlog__reply-link", "chatlog__reference-link")
_TEXT = "chatlog__content"
_PARTS = (_TEXT, "chatlog__attachment", "chatlog__embed", "chatlog__reactions")
_HEADS = ("preamble", "info")
_SYSTEM = (
    "chatlog__system-notification-content", "chatlog__system-notification",
    "chatlog__system-notification-reference-link",
)  # fmt: skip
_SHAPE = PageShape(
    pieces=frozenset({*_HEADS, _CONTAINER, _MESSAGE, *_PARTS, *_AUTHOR, *_BOT, _TIME[0], *_REPLY}),
    marks=frozenset({_GROUP, _END}),
    is_border=lambda one: (
        one.has(_CONTAINER, _GROUP, _END) or (one.has(_MESSAGE) and bool(one.get("data-message-id")))
    ),
)
_TARGET = lazy_pattern(r"scrollToMessage\(\s*event\s*,\s*['\"]?(\d{1,25})['\"]?\s*\)", most=1000)
_USED = lazy_pattern(r"used /(\S.{0,100})", most=200)
_SNIFFED_BYTES = 2**17
_SEPARATOR = " / "


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """An author as a page shows it."""

    #: Empty in pages before 2019.
    account: str
    #: The name on the server.
    name: str
    #: The name of the account, with a number if it has one.
    full_name: str
    is_bot: bool


@dataclass(slots=True, kw_only=True)
class ShownMessage:
    """A message with its elements."""

    #: Empty if the page does not state it.
    message_id: str
    where: str
    #: None if the page does not show it.
    author: Author | None
    #: Empty if the page does not show it.
    time: str
    #: The elements of the message.
    parts: list[HtmlElement]
    #: The frame above the message with the parent message.
    reply: HtmlElement | None = None

    def find(self, *classes: str) -> HtmlElement | None:
        """Return the first element with one of these classes."""
        return next((found for part in self.parts if (found := part.find(*classes)) is not None), None)

    def find_all(self, *classes: str) -> list[HtmlElement]:
        """Return all elements with one of these classes."""
        return [found for part in self.parts for found in part.find_all(*classes)]

    def text_element(self) -> HtmlElement | None:
        """Return the element with the text; None if there is no text."""
        return self.find(_TEXT)

    def system_text(self) -> str:
        """Return the event that the message tells; empty if the message is not a system message."""
        told = " ".join(found.text() for found in self.find_all(*_SYSTEM))
        return told[:1].upper() + told[1:]

    def reply_target(self) -> str:
        """Return the id of the parent; empty if the message is no reply or its parent is unknown."""
        link = self.reply.find(*_REPLY_LINK) if self.reply else None
        match = _TARGET.search(link.get("onclick")) if link else None
        return match[1] if match else ""

    def has_lost_parent(self) -> bool:
        """Return whether the message is a reply to a deleted message."""
        return (
            self.reply is not None
            and self.reply.find("chatlog__reply-unknown", "chatlog__reference-unknown") is not None
        )

    def command(self) -> tuple[str, str]:
        """Return the name of the command that the message answers, and who used it; empty if there is none."""
        if self.reply is None or self.reply_target():
            return "", ""
        used, user = self.reply.find("chatlog__reply-content"), self.reply.find("chatlog__reply-author")
        match = _USED.fullmatch(used.text()) if used else None
        return (match[1], user.text() if user else "") if match else ("", "")


@dataclass(slots=True, kw_only=True)
class PageFacts:
    """The head of a page."""

    server: str = ""
    path: list[str] = field(default_factory=list[str])
    topic: str = ""

    def room(self, file: str) -> RoomFacts:
        """Return the facts about the room. The file name may state the channel's id."""
        name = read_file_name(file)
        path = self.path or list(name.parts[-1:])
        return RoomFacts(channel_id=name.channel_id, server=self.server, path=path, topic=self.topic)


def is_page(source: ExportFiles, file: str) -> bool:
    """Return whether a file is a page of the exporter."""
    with source.open(file) as stream:
        head = stream.read(_SNIFFED_BYTES)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:15].lower()
    return start.startswith((b"<!doctype html", b"<html")) and b"chatlog__message" in head


def read_page(source: ExportFiles, file: str) -> Iterator[PageFacts | ShownMessage | SkippedRecord]:
    """Yield the head and the messages of a page, in order."""
    group = _Group(file=file)
    for piece in read_pieces(source, file, _SHAPE):
        if isinstance(piece, SkippedRecord):
            yield piece
        elif piece.has(*_HEADS):
            yield _head(piece)
        else:
            yield from group.take(piece)
    yield from group.end()


@dataclass(slots=True, kw_only=True)
class _Group:
    """The state inside a group of messages of one author."""

    file: str
    count: int = 0
    author: Author | None = None
    time: str = ""
    reply: HtmlElement | None = None
    #: Whether the page has elements for messages. A text outside of them is damage.
    has_messages: bool = False
    #: A message of a page without ids: more parts of it may follow.
    open: ShownMessage | None = None

    def take(self, piece: HtmlElement) -> Iterator[ShownMessage]:
        """Yield the messages that are complete with this piece."""
        if piece.has(_GROUP, _END):
            yield from self.end()
            self.author, self.time, self.reply = None, "", None
        elif piece.has(_CONTAINER):
            self.has_messages = True
            yield self._contained(piece)
        elif piece.has(_MESSAGE):
            self.has_messages = True
            yield self._shown([piece], piece.get("data-message-id"))
        elif piece.has(*_PARTS) and self.has_messages:
            pass
        elif piece.has(_TEXT) or (piece.has(*_PARTS) and self.open is None):
            yield from self.end()
            self.open = self._shown([piece], "")
        elif piece.has(*_PARTS) and self.open is not None:
            self.open.parts.append(piece)
        else:
            self._note(piece)

    def end(self) -> Iterator[ShownMessage]:
        """Yield the open message."""
        if self.open is not None:
            yield self.open
            self.open = None

    def _note(self, piece: HtmlElement) -> None:
        if piece.has(*_AUTHOR):
            self.author = _author(piece, is_bot=False)
        elif piece.has(*_BOT) and self.author is not None:
            shown = self.author
            self.author = Author(
                account=shown.account, name=shown.name, full_name=shown.full_name, is_bot=True
            )
        elif piece.has(*_TIME):
            self.time = piece.get("title") or piece.text()
        elif piece.has(*_REPLY):
            self.reply = piece

    def _contained(self, piece: HtmlElement) -> ShownMessage:
        name = piece.find(*_AUTHOR)
        if name is not None:
            self.author = _author(name, is_bot=piece.find(*_BOT) is not None)
        shown = piece.find(*_TIME)
        self.time = (shown.get("title") or shown.text()) if shown else self.time
        self.reply = piece.find(*_REPLY)
        return self._shown([piece], piece.get("data-message-id"))

    def _shown(self, parts: list[HtmlElement], message_id: str) -> ShownMessage:
        self.count += 1
        reply, self.reply = self.reply, None
        where = f"{self.file} message {message_id[:25] or self.count}"
        return ShownMessage(
            message_id=message_id, where=where, author=self.author, time=self.time, parts=parts, reply=reply
        )


def _author(name: HtmlElement, *, is_bot: bool) -> Author:
    return Author(
        account=name.get("data-user-id"),
        name=name.text(),
        full_name=" ".join(name.get("title").split()),
        is_bot=is_bot,
    )


def _head(piece: HtmlElement) -> PageFacts:
    entries = piece.find_all("preamble__entry")
    if entries:
        names = [one.text() for one in entries if not one.has("preamble__entry--small")]
        more = [one.text() for one in entries if one.has("preamble__entry--small")]
        # The range of dates is in the same kind of entry; only the topic can stand before it.
        topic = more[0] if more and not more[0].startswith(("Between ", "After ", "Before ")) else ""
        return (
            PageFacts(server=names[0], path=_path("".join(names[1:2])), topic=topic) if names else PageFacts()
        )
    server, channel, topic = (
        found.text() if (found := piece.find(f"info__{one}")) else ""
        for one in ("guild-name", "channel-name", "channel-topic")
    )
    return PageFacts(server=server, path=_path(channel), topic=topic)


def _path(shown: str) -> list[str]:
    return [part for part in shown.split(_SEPARATOR) if part.strip()]
