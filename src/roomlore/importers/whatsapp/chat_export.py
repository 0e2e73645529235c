"""Imports chats that WhatsApp exports as text: the text alone, or the zip with its files.

Pitfalls: the text depends on the language of the phone. It has no ids, no accounts, no zone and no mark for messages of
the app. So a first pass finds the shape of the dated lines, the order of the dates and the authors. Only the name of
the file names the chat. Ids are derived from author, time and text, so that a longer export adds only its new messages.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    RoomKind,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.reading.fields import MAX_ID, direct_members, platform_metadata
from roomlore.importers.reading.text_lines import TextLine, matches_format, read_lines
from roomlore.importers.whatsapp.content import Content, read_content
from roomlore.importers.whatsapp.lines import (
    MARK,
    DateOrder,
    DateOrderSurvey,
    HeadLine,
    Shape,
    bare,
    in_zone,
    read_head,
)

# Senders

#: Names of contacts are shorter.
_MAX_NAME = 100
_QUOTES = (("\u201c", "\u201d"), ("\u201e", "\u201c"), ("\u00ab", "\u00bb"), ("\u300c", "\u300d"))
_QUOTED = lazy_pattern(r"[\"\u201c\u201e\u00ab\u300c][^\n]{1,100}?[\"\u201d\u201c\u00bb\u300d]")
_PHONE = lazy_pattern(r"\+\d[\d \xa0\u2011()-]{5,20}")
_PHONE_BLANKS = {0xA0: " ", 0x202F: " ", 0x2011: "-"}
#: A line of the app that begins with a name has so many more words at least before its colon.
_MIN_VERB_WORDS = 3


def _sender(written: str) -> str:
    """Return a name or phone number as written, without the invisible marks around it."""
    name = bare(written)
    return name.translate(_PHONE_BLANKS) if _PHONE.fullmatch(name) else name


def _divided(rest: str) -> tuple[str, str]:
    """Return the possible sender of a line, and the text; no sender if the line has none."""
    before, colon, text = rest.partition(": ")
    if not colon and rest.endswith(":"):
        before, colon = rest[:-1], ":"
    name = _sender(before) if colon and len(before) <= _MAX_NAME else ""
    return (name, text) if name and not _is_in_quotes(before) else ("", rest)


def _is_in_quotes(text: str) -> bool:
    """Return whether a quotation is open at the end of the text. Then the colon belongs to the quotation."""
    return text.count('"') % 2 == 1 or any(
        text.count(opening) > text.count(closing) for opening, closing in _QUOTES
    )


# The first pass


@dataclass(slots=True)
class _Survey:
    """What the lines of one shape have in common."""

    first: HeadLine
    lines: int = 0
    dates: DateOrderSurvey = field(default_factory=DateOrderSurvey)
    senders: Counter[str] = field(default_factory=Counter[str])
    #: How often a sender's text begins like the app's own words.
    marked: Counter[str] = field(default_factory=Counter[str])
    #: Whether words beside the times may tell the half of the day, and whether an hour shows that they do not.
    has_unknown_words: bool = False
    has_24_hours: bool = False
    is_quoting: bool = False
    phones: set[str] = field(default_factory=set[str])
    #: Names of text files in the chat. They are no chats of their own.
    attached: set[str] = field(default_factory=set[str])

    def add(self, head: HeadLine) -> None:
        self.lines += 1
        self.dates.add(head.stamp)
        self.has_unknown_words |= head.stamp.has_unknown_words
        self.has_24_hours |= head.stamp.hour in {0, *range(13, 24)}
        sender, text = _divided(head.rest)
        if sender:
            self.senders[sender] += 1
            self.marked[sender] += _is_marked(text)
            if ".txt" in text:
                files = (part.get("name", "") for part in read_content(text).attachments)
                self.attached.update(name for name in files if name.endswith(".txt"))
        else:
            self.is_quoting |= _QUOTED.search(head.rest[:500]) is not None
            if len(self.phones) < _MAX_PHONES:
                self.phones.update(map(_sender, _PHONE.findall(head.rest[:500])))


_MAX_PHONES = 100
#: A file has one shape. Other shapes come from pasted text.
_MAX_SHAPES = 50


def _is_marked(text: str) -> bool:
    return text.startswith(MARK) and not text.startswith(f"{MARK}<")


def _survey(source: ExportFiles, file: str) -> tuple[Shape, _Survey] | None:
    """Return the most frequent shape of dated lines, and what they have in common; None if there are none."""
    surveys: dict[Shape, _Survey] = {}
    for line in read_lines(source, file):
        head = read_head(line.text) if isinstance(line, TextLine) else None
        if head is None or (head.shape not in surveys and len(surveys) >= _MAX_SHAPES):
            continue
        surveys.setdefault(head.shape, _Survey(head)).add(head)
    return max(surveys.items(), key=lambda item: item[1].lines, default=None)


def _authors(survey: _Survey) -> set[str]:
    """Return the senders without those that are parts of lines of the app."""
    return {
        name
        for name, count in survey.senders.items()
        if count > 1 or not _begins_with_sender(name, survey.senders)
    }


def _begins_with_sender(name: str, senders: Counter[str]) -> bool:
    """Return whether a name is another name with at least three more words, as in "Ana changed the topic to"."""
    words = name.split(" ")
    return any(
        " ".join(words[:number]) in senders and not words[number][:1].isupper()
        for number in range(1, len(words) - _MIN_VERB_WORDS + 1)
    )


# The room

#: What comes before and after the name of the chat in the name of the file, in many languages.
_TITLE = lazy_pattern(
    r"(?:whatsapp[ -]chat|chat[ -](?:de |do |di )?whatsapp|conversa (?:do|de) whatsapp|discussion whatsapp"
    r"|conversación de whatsapp|czat whatsapp|whatsapp sohbeti|whatsapp-chatt?|чат whatsapp|obrolan whatsapp"
    r"|whatsapp|محادثة واتساب|دردشة واتساب)"
    r"(?: (?:with|mit|con|com|avec|met|med|z|\u0441|dengan|cu|s|مع|contact|-|\u2013)(?: контактом)?|-) ?(?P<name>.+)"
    r"|(?P<before>.+?)(?: ile whatsapp sohbeti| के साथ whatsapp चैट|のwhatsapp(?:トーク|チャット)| whatsapp 대화)",
    most=300,
)
_COPY = lazy_pattern(r" ?\(\d{1,3}\)$")


def chat_title(name: str) -> str:
    """Return the name of the chat from the name of a file or archive; empty if it does not name a chat."""
    stem = name
    for ending in (".txt", ".zip"):
        stem = stem[: -len(ending)] if stem.casefold().endswith(ending) else stem
    stem = _COPY.sub("", stem)
    # Small letters have other lengths in some languages, so places in them do not count for the name itself.
    folded = stem.lower()
    match = _TITLE.fullmatch(folded)
    if match is None or len(folded) != len(stem):
        return ""
    group = "name" if match["name"] else "before"
    return bare(stem[match.start(group) : match.end(group)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chat:
    """A chat as found by the first pass."""

    file: str
    room: IncomingRoom
    shape: Shape
    order: DateOrder
    #: Whether another order is as likely.
    is_order_assumed: bool
    #: Whether times of the afternoon may be read as times of the morning.
    is_half_day_assumed: bool
    authors: frozenset[str]
    #: The authors by their names in mentions.
    by_mention: Mapping[str, str]
    #: The name under which an iPhone writes messages of the app.
    app_sender: str
    #: The names of the files beside the chat.
    files: frozenset[str]
    zone: ZoneInfo | None

    @property
    def is_bracketed(self) -> bool:
        """Whether an iPhone wrote the file."""
        return self.shape[0]


def _chat(source: ExportFiles, file: str, found: tuple[Shape, _Survey], options: ReadOptions) -> _Chat:
    shape, survey = found
    authors = _authors(survey)
    first, text = _divided(survey.first.rest)
    is_app = bool(first) and shape[0] and _is_marked(text)
    app_sender = first if is_app and survey.marked[first] == survey.senders[first] else ""
    authors.discard(app_sender)
    order, is_assumed = survey.dates.order()
    folder = file.rpartition("/")[0]
    return _Chat(
        file=file,
        room=_room(
            source, file, survey, authors=authors, first=first if is_app else "", workspace=options.workspace
        ),
        shape=shape,
        order=order,
        is_order_assumed=is_assumed,
        is_half_day_assumed=survey.has_unknown_words and not survey.has_24_hours,
        authors=frozenset(authors),
        by_mention={_mention_name(name): name for name in sorted(authors)},
        app_sender=app_sender,
        files=frozenset(PurePosixPath(one).name for one in source.files if one.rpartition("/")[0] == folder),
        zone=options.zone,
    )


def _room(
    source: ExportFiles, file: str, survey: _Survey, *, authors: set[str], first: str, workspace: str
) -> IncomingRoom:
    """Return the room of a chat. `first` is the name that an iPhone gives the chat in its first line."""
    path = PurePosixPath(file)
    places = [path.name, *(parent.name for parent in path.parents), source.name]
    title = next((found for found in map(chat_title, places) if found), first)
    kind = _kind(survey, authors, title=title, file_name=path.stem)
    name = title or (path.stem if path.stem != "_chat" else "WhatsApp chat")
    # The prefixes keep a group apart that has the name of a direct conversation.
    if kind != "group_dm" or (title in authors and len(authors) <= _SIDES):
        # Several people may have a contact of the same name. Only both sides together tell their chats apart.
        sides = sorted(authors | ({title} if title else set())) or [path.stem]
        key = "direct:" + "|".join(side.replace("|", "||") for side in sides)
    elif title:
        key = f"group:{title}"
    else:
        key = f"file:{path.stem}:{_digest(survey.first.stamp.key + survey.first.rest)}"
    return IncomingRoom(
        external_id=_short_id(f"{workspace}/{key}" if workspace else key),
        name=name,
        kind=kind,
        visibility="members",
        members=direct_members(kind, map(_person, sorted(authors))),
        workspace=workspace,
    )


_SIDES = 2


def _kind(survey: _Survey, authors: set[str], *, title: str, file_name: str) -> RoomKind | None:
    """Return the kind of a chat; None if it is unknown."""
    is_of_author: bool | None = None
    if title:
        is_of_author = _letters(title) in set(map(_letters, authors))
    elif "whatsapp" in file_name.casefold():
        is_of_author = any(_letters(author) in _letters(file_name) for author in authors)
    is_group = survey.is_quoting or bool(survey.phones - authors - {title})
    if len(authors) > _SIDES or is_group:
        return "group_dm"
    if len(authors) == _SIDES:
        return "group_dm" if is_of_author is False else "dm"
    return "dm" if is_of_author else None


def _letters(name: str) -> str:
    """Return the letters of a name, because the name of a file cannot hold all signs."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _short_id(key: str) -> str:
    return key if len(key) <= MAX_ID else f"{key[:200]}:{_digest(key)}"


def _person(name: str) -> IncomingAuthor:
    return IncomingAuthor(account_id=name, name=name)


# Messages

_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="WhatsApp", kind="system")
#: No message is longer.
_MAX_TEXT = 1_000_000


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A dated line with the lines that follow it."""

    number: int
    head: HeadLine
    lines: list[str]
    size: int = 0

    def add(self, line: str) -> None:
        self.size += len(line) + 1
        if self.size <= _MAX_TEXT:
            self.lines.append(line)


@dataclass(slots=True)
class _Clock:
    """What is known from the lines before: the last moment, and how often an id was given."""

    last: datetime | None = None
    repeats: Counter[str] = field(default_factory=Counter[str])


def _is_chat(source: ExportFiles, file: str) -> bool:
    """Return whether a file begins with a dated line, and one of the first lines has a sender."""
    with source.open(file) as stream:
        data = stream.read(2**15).decode("utf-8", "replace").removeprefix("\ufeff")
    heads = [read_head(line) for line in data.split("\n")[:_SNIFFED_LINES] if line.strip()]
    if not heads or heads[0] is None:
        return False
    known = [head for head in heads if head is not None]
    return any(_divided(head.rest)[0] for head in known) and not any(
        _IRC_LINE.match(head.rest) for head in known
    )


_SNIFFED_LINES = 60
_IRC_LINE = lazy_pattern(r"<[^\s<>]{1,64}> |\* |\*\*\* |=== |-!- |--> |<-- ")


def _text_files(source: ExportFiles) -> list[str]:
    return [file for file in source.files if file.casefold().endswith(".txt")]


def _recognises(source: ExportFiles) -> bool:
    return any(matches_format(source, file, _is_chat) is True for file in _text_files(source)[:200])


def _chat_files(source: ExportFiles) -> tuple[list[str], list[SkippedRecord]]:
    """Return the files with chats, and a record for each unreadable file. A single file is always taken."""
    if len(source.files) == 1:
        return list(source.files), []
    verdicts = {file: matches_format(source, file, _is_chat) for file in _text_files(source)}
    files = [file for file, verdict in verdicts.items() if verdict is True]
    return files, [verdict for verdict in verdicts.values() if isinstance(verdict, SkippedRecord)]


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, skipped = _chat_files(source)
    yield from skipped
    surveys = {file: _survey(source, file) for file in files}
    attached = {
        f"{file.rpartition('/')[0]}/{name}".lstrip("/"): file
        for file, found in surveys.items()
        if found is not None
        for name in found[1].attached
    }
    for file, found in surveys.items():
        if attached.get(file, file) != file:
            reason = "export among attachments"
            yield SkippedRecord(where=file, reason=reason, detail="import the file by itself")
        elif found is None:
            yield SkippedRecord(where=file, reason="not a WhatsApp chat")
        else:
            yield from _file(source, _chat(source, file, found, options))


def _file(source: ExportFiles, chat: _Chat) -> Iterator[ParsedItem]:
    clock = _Clock()
    entry: _Entry | None = None
    is_begun = False
    for line in read_lines(source, chat.file):
        if isinstance(line, SkippedRecord):
            yield line
            continue
        head = read_head(line.text)
        if head is not None and head.shape == chat.shape:
            if entry is not None:
                yield _item(entry, chat, clock)
            entry = _Entry(number=line.number, head=head, lines=[])
            entry.add(head.rest)
        elif entry is not None:
            entry.add(line.text)
        elif line.text.strip() and not is_begun:
            yield SkippedRecord(where=f"{chat.file} line {line.number}", reason="text before the first date")
            is_begun = True
    if entry is not None:
        yield _item(entry, chat, clock)


def _item(entry: _Entry, chat: _Chat, clock: _Clock) -> ParsedItem:
    where = f"{chat.file} line {entry.number}"
    if entry.size > _MAX_TEXT:
        return SkippedRecord(where=where, reason="text too long")
    shown = entry.head.stamp.moment(chat.order)
    sent_at = in_zone(shown, chat.zone or UTC, clock.last) if shown else None
    if sent_at is None:
        return SkippedRecord(where=where, reason="no time", detail="no such date or time")
    is_first = clock.last is None
    clock.last = sent_at
    text = "\n".join(entry.lines).rstrip()
    sender, said = _sent_by(text, chat, is_first=is_first)
    content = read_content(said, chat.files) if sender else Content(body=bare(said.replace(MARK, "")))
    return IncomingMessage(
        platform="whatsapp",
        room=chat.room,
        external_id=_derived_id(entry, sender, content, clock.repeats),
        author=_person(sender) if sender else _SYSTEM_AUTHOR,
        body=content.body,
        sent_at=sent_at,
        kind="message" if sender else "system",
        precision="min" if entry.head.stamp.second is None else "s",
        order=entry.number,
        mentions=_mentioned(content, chat),
        attachments=content.attachments,
        deleted=content.deleted,
        synthetic_id=True,
        metadata=platform_metadata(
            time_zone=str(chat.zone or ASSUMED_UTC),
            date_order="assumed" if chat.is_order_assumed else None,
            half_day="assumed" if chat.is_half_day_assumed else None,
            history_lost=content.edited,
        ),
        raw=text,
        where=where,
    )


def _sent_by(text: str, chat: _Chat, *, is_first: bool) -> tuple[str, str]:
    """Return the author and the text of an entry; no author if the app wrote it."""
    line, _, more = text.partition("\n")
    sender, said = _divided(line)
    if sender not in chat.authors and not (sender and sender == chat.app_sender):
        # Names before a colon without a space count only if they are known.
        name, colon, after = line.partition(":")
        sender, said = (_sender(name), after) if colon and _sender(name) in chat.authors else ("", line)
    whole = f"{said}\n{more}" if more else said
    if not sender:
        return "", text
    is_first = is_first and chat.is_bracketed
    is_of_app = _is_marked(said) and (is_first or bare(said).startswith(f"{sender} "))
    return ("", whole) if sender == chat.app_sender or is_of_app else (sender, whole)


def _mentioned(content: Content, chat: _Chat) -> list[str]:
    names = map(_mention_name, content.mentions)
    return [chat.by_mention[name] for name in names if name in chat.by_mention]


def _mention_name(name: str) -> str:
    """Return a name without the tilde of names that are not saved on the phone."""
    return _sender(name).lstrip("~ \xa0\u202f")


def _derived_id(entry: _Entry, sender: str, content: Content, repeats: Counter[str]) -> str:
    """Return an id of time, author and words.

    Whether a file was exported with the chat, and in which order the phone writes dates, changes nothing.
    """
    parts = (sender, content.body, "file" if content.attachments else "")
    external_id = f"{entry.head.stamp.key}:{_digest(chr(0).join(parts))}"
    repeats[external_id] += 1
    return external_id if repeats[external_id] == 1 else f"{external_id}:{repeats[external_id]}"


IMPORTER = Importer(
    name="whatsapp",
    recognises=_recognises,
    read=_read,
    signs=("\u200e", "WhatsApp", "] ", " - ", "<Media omitted>"),
)
