"""Imports the HTML of DiscordChatExporter. Each file has one channel, direct message or thread, or a partition of one.

Pitfalls: only the first message of a group names its author. Times are local and without a zone; the ids of messages
contain the exact time. Files before July 2019 have no ids. A page does not say whether its room is private. A link in a text
may look like a reply. All speakers of a webhook share its id.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
    TimestampPrecision,
)
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.discord.attachments import attachments, forward, reactions
from roomlore.importers.discord.dates import DateOrder, ShownTime, in_utc, is_near, read_time
from roomlore.importers.discord.html_page import Author, PageFacts, ShownMessage, is_page, read_page
from roomlore.importers.discord.markup import EDITED, MENTION, text_of
from roomlore.importers.discord.rooms import (
    RoomFacts,
    derived_id,
    has_export,
    is_attached,
    is_numbered,
    room_of,
    time_of_id,
    user_name,
)
from roomlore.importers.reading.fields import (
    MalformedRecord,
    checked_id,
    id_list,
    non_empty,
    platform_metadata,
    sequence,
)
from roomlore.importers.reading.text_lines import matching_files

_ENDINGS = (".html", ".htm")
_QUARTER_HOUR = timedelta(minutes=15)


@dataclass(slots=True, kw_only=True)
class _Survey:
    """What all pages of a room state together."""

    facts: RoomFacts
    #: Authors of a room that may be direct, and their names.
    authors: dict[tuple[str, str], IncomingAuthor] = field(
        default_factory=dict[tuple[str, str], IncomingAuthor]
    )
    names: set[str] = field(default_factory=set[str])
    #: The accounts of each full name. Mentions show only names.
    accounts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    order: DateOrder = field(default_factory=DateOrder)

    def see(self, shown: ShownMessage) -> None:
        """Take a message into account."""
        time = read_time(shown.time)
        if time is not None:
            self.order.see(time, exact=time_of_id(shown.message_id))
        if shown.author is None:
            return
        try:
            author = _author(shown.author)
        except MalformedRecord:
            return
        if shown.author.account and not author.persona:
            self.accounts.setdefault(shown.author.full_name, set()).add(author.account_id)
        if self.facts.is_direct:
            self.authors.setdefault((author.account_id, author.persona), author)
            self.names.update((author.name, user_name(shown.author.full_name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    """What a message is read with."""

    room: IncomingRoom
    survey: _Survey
    zone: ZoneInfo | None
    number: int
    #: How often each derived id occurred so far in the file. Files may overlap.
    repeats: Counter[str]


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, unreadable = matching_files(source, _is_html_page)
    yield from unreadable
    surveys: dict[str, _Survey] = {}
    rooms: dict[str, str] = {}
    for file in files:
        if is_attached(file):
            detail = "import its folder by itself"
            yield SkippedRecord(where=file, reason="export among attachments", detail=detail)
        else:
            rooms[file] = _survey_page(source, file, surveys, options.workspace)
    for file, room_id in rooms.items():
        yield from _page(source, file, surveys[room_id], options.zone)


def _is_html_page(source: ExportFiles, file: str) -> bool:
    is_named_so = file.lower().endswith(_ENDINGS) or len(source.files) == 1
    return is_named_so and is_page(source, file)


def _survey_page(source: ExportFiles, file: str, surveys: dict[str, _Survey], workspace: str) -> str:
    """Add what a page states to the survey of its room. Return the id of the room."""
    facts = PageFacts(server=workspace).room(file)
    survey: _Survey | None = None
    for item in read_page(source, file):
        if isinstance(item, PageFacts) and survey is None:
            item.server = item.server or workspace
            facts = item.room(file)
        elif isinstance(item, ShownMessage):
            survey = survey or surveys.setdefault(facts.external_id, _Survey(facts=facts))
            survey.see(item)
    surveys.setdefault(facts.external_id, _Survey(facts=facts))
    return facts.external_id


def _page(source: ExportFiles, file: str, survey: _Survey, zone: ZoneInfo | None) -> Iterator[ParsedItem]:
    room = room_of(survey.facts, survey.authors.values(), survey.names)
    number = 0
    repeats = Counter[str]()
    for item in read_page(source, file):
        if isinstance(item, SkippedRecord):
            yield item
        elif isinstance(item, ShownMessage):
            number += 1
            try:
                at = _ReadContext(room=room, survey=survey, zone=zone, number=number, repeats=repeats)
                yield _message(item, at)
            except MalformedRecord as error:
                yield SkippedRecord(where=item.where, reason=error.reason, detail=error.detail)


def _author(shown: Author) -> IncomingAuthor:
    account = checked_id(shown.account, "author") or f"name:{shown.full_name or shown.name}"
    name = shown.name or user_name(shown.full_name) or shown.account
    if not name:
        raise MalformedRecord("no author")
    # A bot account has a number in its full name, a webhook has none.
    is_webhook = shown.is_bot and bool(shown.account) and not is_numbered(shown.full_name)
    return IncomingAuthor(
        account_id=checked_id(account, "author"),
        name=name,
        kind="agent" if shown.is_bot else "human",
        persona=(user_name(shown.full_name) or name)[:255] if is_webhook else "",
    )


def _message(shown: ShownMessage, at: _ReadContext) -> IncomingMessage:
    if shown.author is None:
        raise MalformedRecord("no author")
    author = _author(shown.author)
    sent = _sent(shown, at)
    system = shown.system_text()
    element = shown.text_element()
    body = system or (text_of(element) if element else "")
    external_id = checked_id(shown.message_id, "data-message-id")
    edited = _edited(shown, at, sent)
    return IncomingMessage(
        platform="discord",
        room=at.room,
        external_id=external_id or derived_id(sent.at, author.account_id, body, at.repeats),
        author=author,
        body=body,
        sent_at=sent.at,
        kind="system" if system else "message",
        precision=sent.precision,
        order=sequence(external_id, at.number),
        reply_to=shown.reply_target() or None,
        mentions=_mentions(shown, at.survey),
        attachments=_attachments(shown, at, sent),
        reactions=reactions(shown),
        edited_at=edited,
        synthetic_id=not external_id,
        metadata=_metadata(shown, sent),
        raw="".join(part.source() for part in shown.parts),
        where=shown.where,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """When a message was sent."""

    at: datetime
    precision: TimestampPrecision
    #: How far the clock of the page is ahead of UTC; None if it is unknown.
    offset: timedelta | None = None
    #: The zone that the time was read in; empty if the time is exact.
    zone_named: str = ""


def _sent(shown: ShownMessage, at: _ReadContext) -> _Sent:
    time = read_time(shown.time)
    exact = time_of_id(shown.message_id)
    if exact is not None:
        return _Sent(at=exact, precision="ms", offset=_offset(time, exact, at.survey.order))
    if time is None:
        raise MalformedRecord("no time", shown.time[:100])
    precision: TimestampPrecision = "s" if time.has_seconds else "min"
    if time.exact is not None:
        return _Sent(at=time.exact, precision=precision)
    local = at.survey.order.pick(time)
    if local is None:
        raise MalformedRecord("day and month unclear", shown.time[:100])
    named = str(at.zone or ASSUMED_UTC)
    return _Sent(at=in_utc(local, at.zone), precision=precision, zone_named=named)


def _offset(time: ShownTime | None, exact: datetime, order: DateOrder) -> timedelta | None:
    """Return how far the clock of the page was ahead of UTC, from a time that is known and shown."""
    local = order.pick(time, exact=exact) if time else None
    if local is None or not is_near(local, exact):
        return None
    ahead = local.replace(tzinfo=UTC) - exact
    return round(ahead / _QUARTER_HOUR) * _QUARTER_HOUR


def _shown_to_utc(shown: str, at: _ReadContext, sent: _Sent) -> datetime | None:
    """Return another time that a message shows; None if it is not understood.

    The clock of the page is the same as for the time of the message itself.
    """
    time = read_time(shown)
    if time is None or time.exact is not None:
        return time.exact if time else None
    local = at.survey.order.pick(time)
    if local is None:
        return None
    if at.zone is None and sent.offset is not None:
        return local.replace(tzinfo=UTC) - sent.offset
    return in_utc(local, at.zone)


def _edited(shown: ShownMessage, at: _ReadContext, sent: _Sent) -> datetime | None:
    mark = shown.find(*EDITED)
    moment = _shown_to_utc(mark.get("title"), at, sent) if mark else None
    # The page shows minutes: an edit in the minute of the message looks earlier than the message.
    return max(moment, sent.at) if moment else None


def _mentions(shown: ShownMessage, survey: _Survey) -> list[str]:
    """Return the accounts of mentioned people who also wrote: a page shows only the full names of mentioned people."""
    element = shown.text_element()
    named = [one.get("title") for one in element.find_all(*MENTION)] if element else []
    found = [survey.accounts.get(name, set[str]()) for name in named if name]
    return id_list([min(accounts) for accounts in found if len(accounts) == 1])


def _attachments(shown: ShownMessage, at: _ReadContext, sent: _Sent) -> list[dict[str, Any]]:
    forwarded = forward(shown)
    if forwarded is None:
        return list(attachments(shown))
    time, parts = forwarded
    moment = _shown_to_utc(time, at, sent)
    first = parts[0] | non_empty(sent_at=moment.isoformat() if moment else "")
    return [*attachments(shown), first, *parts[1:]]


def _metadata(shown: ShownMessage, sent: _Sent) -> dict[str, Any]:
    command, user = shown.command()
    container = shown.parts[0]
    return platform_metadata(
        time_zone=sent.zone_named,
        history_lost=shown.find(*EDITED) is not None,
        pinned=container.has("chatlog__message-container--pinned", "chatlog__message--pinned"),
        forwarded_from="unknown" if forward(shown) else None,
        reply_lost=shown.has_lost_parent(),
        interaction=non_empty(name=command, user=user),
    )


IMPORTER = Importer(
    name="discord-html",
    recognises=partial(has_export, fits=_is_html_page, endings=_ENDINGS),
    read=_read,
    signs=(
        "chatlog__message",
        "data-message-id",
        "DiscordChatExporter",
        "chatlog__timestamp",
        "chatlog__author",
    ),
)
