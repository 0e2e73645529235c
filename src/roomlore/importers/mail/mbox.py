"""Imports mail archives in the mbox format: mailing lists and mailboxes.

Pitfalls: only a line `From …` divides the mails, and such a line may also be in a text. Archives of Pipermail write
`ana at example.com` and have no list header. A mail may miss its id, its zone or its parent.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from email.utils import parsedate_tz
from functools import partial
from pathlib import PurePosixPath
from typing import IO
from zoneinfo import ZoneInfo

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.mail.messages import (
    MailContent,
    decoded,
    decoded_words,
    header,
    read_content,
    read_headers,
)
from roomlore.importers.reading.fields import MAX_ID, MalformedRecord, non_empty, platform_metadata
from roomlore.importers.reading.text_lines import is_format, matching_files, unreadable

# Dividing the file

#: What a mail has beyond is not read. The text comes first; the rest are files.
MAX_MAIL_BYTES = 8 * 2**20
_MAX_LINE = 2**16
_MAX_FROM_LINE = 400
#: A line between mails: "From ana@example.com Thu Jan  1 12:00:00 2009".
_FROM_TIME = lazy_pattern(r"\b\d\d?:\d\d\b")
_FROM_YEAR = lazy_pattern(r"\b(?:19|20)\d\d\b")
_HEADER_LINE = lazy_pattern(r"[!-9;-~]{1,80}:(?:\s|$)")


@dataclass(slots=True, kw_only=True)
class _RawMail:
    """A mail as it is in the file."""

    number: int
    #: The line before the mail.
    from_line: str
    data: bytearray = field(default_factory=bytearray)
    #: Whether the end is missing because the mail is too large.
    is_cut: bool = False

    def add(self, piece: bytes) -> None:
        room = MAX_MAIL_BYTES - len(self.data)
        self.is_cut |= len(piece) > room
        if room > 0:
            self.data += piece[:room]


def _is_from_line(line: bytes) -> bool:
    if not line.startswith(b"From ") or len(line) > _MAX_FROM_LINE:
        return False
    text = line.decode("latin-1")[len("From ") :].strip()
    # Some programs write no date.
    return text in {"", "-"} or bool(_FROM_TIME.search(text) and _FROM_YEAR.search(text))


def _is_header_line(line: bytes) -> bool:
    return _HEADER_LINE.match(line[:120].decode("latin-1")) is not None


def _raw_mails(stream: IO[bytes]) -> Iterator[_RawMail]:
    """Yield the mails of a file. A line divides mails if it is after an empty line and before a header."""
    mail: _RawMail | None = None
    number = 0
    is_after_empty, is_line_start = True, True
    line = stream.readline(_MAX_LINE).removeprefix(b"\xef\xbb\xbf")
    while line:
        after = stream.readline(_MAX_LINE)
        if is_line_start and is_after_empty and _is_from_line(line) and _is_header_line(after):
            if mail is not None:
                yield mail
            number += 1
            mail = _RawMail(number=number, from_line=decoded(line[:400]).rstrip())
        elif mail is not None:
            is_escaped = is_line_start and line.lstrip(b">").startswith(b"From ") and line.startswith(b">")
            mail.add(line[1:] if is_escaped else line)
        is_after_empty = is_line_start and not line.strip()
        is_line_start = line.endswith(b"\n")
        line = after
    if mail is not None:
        yield mail


def _is_mbox(source: ExportFiles, file: str) -> bool:
    """Return whether a file begins with the line before a mail, and a mail with a sender or date."""
    with source.open(file) as stream:
        data = stream.read(2**15).removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    first, _, rest = data.partition(b"\n")
    if not _is_from_line(first) or not _is_header_line(rest):
        return False
    head = read_headers(rest)[0]
    return bool(header(head, "from") or header(head, "date"))


# Rooms

_LIST_ID = lazy_pattern(r"(?P<name>[^<>]{0,500})<(?P<id>[^<>\s]{1,255})>")
#: File names that only say when, or what kind of file it is: "2024-January", "mbox".
_PLAIN_NAME = lazy_pattern(r"(?:\d{4}(?:[-_. ]?(?:\d{1,2}|q[1-4]|[a-z]{3,9}))?|mbox|inbox|archive)")
_ENDINGS = (".mbox", ".mbx", ".txt", ".mail", ".zip")


@dataclass(slots=True, kw_only=True)
class _Archive:
    """The state while reading a file."""

    file: str
    #: The room of mails that name no list.
    room: IncomingRoom
    workspace: str
    zone: ZoneInfo | None
    lists: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])
    #: Hashes of the ids that were given. The ids themselves would need much memory.
    ids: set[int] = field(default_factory=set[int])


def _stem(name: str) -> str:
    for ending in _ENDINGS:
        if name.casefold().endswith(ending):
            return name[: -len(ending)]
    return name


def _file_room(source: ExportFiles, file: str, workspace: str) -> IncomingRoom:
    """Return the room of mails that name no list. Only its authors may read it."""
    path = PurePosixPath(file)
    names = [
        _stem(name) for name in (path.name, *(parent.name for parent in path.parents), source.name) if name
    ]
    name = next((one for one in names if not _PLAIN_NAME.fullmatch(one.casefold())), names[0])
    # The prefixes keep a file and a list of the same name apart, because only the list may be open.
    key = f"{workspace}/file:{name}" if workspace else f"file:{name}"
    return IncomingRoom(
        external_id=_short_id(key), name=name, kind="ad_hoc", visibility="members", workspace=workspace
    )


def _room(archive: _Archive, mail: "Message[str, str]") -> IncomingRoom:
    written = header(mail, "list-id")
    match = _LIST_ID.search(written)
    id_ = (match["id"] if match else written).casefold()
    if not id_ or " " in id_:
        return archive.room
    if id_ not in archive.lists:
        label, _, host = id_.partition(".")
        archive.lists[id_] = IncomingRoom(
            external_id=_short_id(f"list:{id_}"),
            name=label,
            kind="channel",
            topic=decoded_words(match["name"].strip(' "')) if match else "",
            workspace=archive.workspace or host,
        )
    return archive.lists[id_]


# Authors, ids and times

_ADDRESS = lazy_pattern(r"(?P<name>[^<>]{0,500})<(?P<address>[^<>]{1,320})>")
_COMMENT = lazy_pattern(r"(?P<address>[^\s()]{1,254}(?: at [^\s()]{1,254})?) ?(?:\((?P<name>.{0,500})\))?")
_LOOSE_ADDRESS = lazy_pattern(
    r"(?P<name>.{0,500} )?(?P<address>[^\s<>()@]{1,254}@[^\s<>()@]{1,254})", most=1000
)
_AT = lazy_pattern(r" (?:at|AT) |\(at\)")
_VIA = lazy_pattern(r"(?P<name>.{1,300}?)['\"]? via .{1,200}", most=600)
_MESSAGE_ID = lazy_pattern(r"<([^<>\s]{1,2000})>")


def _author(mail: "Message[str, str]") -> IncomingAuthor:
    name, address = _named_address(header(mail, "x-original-from") or header(mail, "from"))
    if not address:
        raise MalformedRecord("no author")
    relayed = _VIA.fullmatch(name)
    # Some lists put their own address in place of the author's. Then only the name tells the authors apart.
    if relayed and address in header(mail, "list-post").casefold():
        return IncomingAuthor(account_id=address, name=relayed["name"], persona=relayed["name"][:MAX_ID])
    return IncomingAuthor(account_id=address, name=name or address)


def _named_address(written: str) -> tuple[str, str]:
    """Return the name and the address of a person."""
    match = _ADDRESS.search(written) or _COMMENT.fullmatch(written) or _LOOSE_ADDRESS.fullmatch(written)
    if match is None:
        return "", ""
    address = _AT.sub("@", match["address"].strip()).casefold()
    name = decoded_words((match["name"] or "").strip().strip('"').replace('\\"', '"'))
    if len(address) > MAX_ID:
        raise MalformedRecord("id too long", f"the address has {len(address)} characters")
    return name.strip(" '\""), address


def _message_ids(written: str) -> list[str]:
    return [_short_id(found) for found in _MESSAGE_ID.findall(written)]


def _short_id(id_: str) -> str:
    return id_ if len(id_) <= MAX_ID else f"{id_[:200]}:{_digest(id_)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _sent(raw: _RawMail, mail: "Message[str, str]", zone: ZoneInfo | None) -> tuple[datetime, bool]:
    """Return the time, and whether its zone is stated. Without a date, the time of delivery counts."""
    written = header(mail, "date")
    for text in (written, raw.from_line.removeprefix("From ").partition(" ")[2].strip()):
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            parts = parsedate_tz(text[:200])
            if parts is not None:
                # Python reads a missing or unknown zone as UTC.
                offset = parts[9] or 0
                is_stated = bool(offset or _UTC_ZONE.search(text))
                stated = timezone(timedelta(seconds=offset)) if is_stated else zone or UTC
                return datetime(*parts[:5], min(parts[5], 59), tzinfo=stated).astimezone(UTC), is_stated
    raise MalformedRecord("no time", written[:100])


_UTC_ZONE = lazy_pattern(r"[+-]0000\b|\b(?:UTC?|GMT|Z)\b")

# Messages


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, skipped = matching_files(source, _is_mbox)
    yield from skipped
    ids: set[int] = set()
    lists: dict[str, IncomingRoom] = {}
    for file in files:
        room = _file_room(source, file, options.workspace)
        archive = _Archive(
            file=file, room=room, workspace=options.workspace, zone=options.zone, ids=ids, lists=lists
        )
        yield from _file(source, archive)


def _file(source: ExportFiles, archive: _Archive) -> Iterator[ParsedItem]:
    number = 0
    try:
        with source.open(archive.file) as stream:
            for raw in _raw_mails(stream):
                number = raw.number
                yield _item(raw, archive)
    except OSError as error:
        yield unreadable(f"{archive.file} after message {number}", error)
        return
    if not number:
        yield SkippedRecord(where=archive.file, reason="not an mbox file")


def _item(raw: _RawMail, archive: _Archive) -> ParsedItem:
    where = f"{archive.file} message {raw.number}"
    try:
        message = _message(raw, archive, where)
    except MalformedRecord as error:
        return SkippedRecord(where=where, reason=error.reason, detail=error.detail)
    key = hash((message.room.external_id, message.external_id))
    if key in archive.ids:
        return SkippedRecord(where=where, reason="message id twice")
    archive.ids.add(key)
    return message


def _message(raw: _RawMail, archive: _Archive, where: str) -> IncomingMessage:
    mail, body = read_headers(bytes(raw.data))
    author = _author(mail)
    sent_at, is_zoned = _sent(raw, mail, archive.zone)
    content = read_content(mail, body)
    subject = decoded_words(header(mail, "subject"))
    reply_to, root = _parents(mail)
    ids = _message_ids(header(mail, "message-id"))
    own_id = ids[0] if ids else _derived_id(author, sent_at, subject, content)
    return IncomingMessage(
        platform="mbox",
        room=_room(archive, mail),
        external_id=own_id,
        author=author,
        body=content.text if reply_to or root or not subject else f"{subject}\n\n{content.text}".rstrip(),
        sent_at=sent_at,
        precision="s",
        order=raw.number,
        reply_to=reply_to if reply_to != own_id else None,
        thread_root=root,
        attachments=content.attachments,
        synthetic_id=not ids,
        metadata=platform_metadata(
            subject=subject,
            time_zone="" if is_zoned else str(archive.zone or ASSUMED_UTC),
            cut=raw.is_cut,
        ),
        raw=non_empty(**{name: header(mail, name)[:2000] for name in _KEPT_HEADERS}),
        where=where,
    )


_KEPT_HEADERS = ("from", "to", "cc", "date", "subject", "message-id", "in-reply-to", "references", "list-id")


def _parents(mail: "Message[str, str]") -> tuple[str | None, str | None]:
    """Return the ids of the parent and of the first message of the thread."""
    references = _message_ids(header(mail, "references"))
    replied = _message_ids(header(mail, "in-reply-to")) or references[-1:]
    return (replied[0] if replied else None), (references[0] if references else None)


def _derived_id(author: IncomingAuthor, sent_at: datetime, subject: str, content: MailContent) -> str:
    parts = (author.account_id, author.persona, subject, content.text)
    return f"{sent_at:%Y-%m-%dT%H:%M:%S}:{_digest(chr(0).join(parts))}"


IMPORTER = Importer(
    name="mbox",
    recognises=partial(is_format, fits=_is_mbox),
    read=_read,
    signs=("From ", "Message-ID:", "In-Reply-To:", "Subject: ", "Date: "),
)
