"""Builds the messages of a chat with an assistant from its turns. Many formats store a chat as a list of turns.

Some formats state no times. Such a chat can be imported only if its beginning is known, from the chat itself or from the
caller. The first message then gets this time, and each other message gets one second more than the message before. The
platform metadata of these messages has `time: assumed`, and their precision is a minute.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
    TimestampPrecision,
)
from roomlore.domain.ports import ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    Content,
    DerivedIds,
    Role,
    Sides,
    ToolResult,
    assistant,
    person,
    result_id,
    time_or_assumed,
    tool,
)
from roomlore.importers.reading.fields import Fields, MalformedRecord, checked_id, platform_metadata

_STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One entry of a chat."""

    role: Role
    content: Content
    #: The account and the name of the author, or the name of the tool; empty if they are not stated.
    account: str = ""
    name: str = ""
    #: The id of the message; empty if it is not stated.
    id: str = ""
    #: The time as the format states it; None if it states none.
    time: Any = None
    #: What the time is the time of, if it is not that of the message.
    time_of: str = ""
    #: For the result of a tool, the id of the call.
    call: str = ""
    model: str = ""
    raw: Fields = field(default_factory=dict[str, Any])
    where: str = ""

    @property
    def author(self) -> IncomingAuthor:
        """The author of the turn."""
        if self.role == "tool":
            return tool(self.name)
        if self.role == "system":
            return Sides(person=person(), assistant=assistant("")).author("system")
        account = self.account or self.name
        return person(account, self.name) if self.role == "person" else assistant(self.name, account)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat as its format describes it."""

    platform: str
    external_id: str
    name: str = ""
    #: When the chat begins, for messages without times; None if it is unknown.
    begins: datetime | None = None


def first_moment(value: Any, options: ReadOptions) -> datetime | None:
    """Return the beginning of a chat: the stated time, or midnight of the caller's day; None without both."""
    try:
        return time_or_assumed(value)[0]
    except MalformedRecord:
        if options.day is None:
            return None
        midnight = datetime.combine(options.day, time(), tzinfo=options.zone or UTC)
        return midnight.astimezone(UTC)


def chat_messages(chat: Chat, entries: Sequence[Turn | SkippedRecord]) -> Iterator[ParsedItem]:
    """Yield the messages of a chat, and what is left out of it."""
    turns = [entry for entry in entries if isinstance(entry, Turn)]
    try:
        builder = _Builder(
            chat=chat,
            room=_room(chat, turns),
            begins=None if any(_is_stated(turn) for turn in turns) else chat.begins,
        )
    except MalformedRecord as error:
        where = turns[0].where if turns else chat.external_id
        yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
        return
    for entry in entries:
        if isinstance(entry, SkippedRecord):
            yield entry
            continue
        try:
            yield from builder.messages(entry)
        except MalformedRecord as error:
            yield SkippedRecord(where=entry.where, reason=error.reason, detail=error.detail)


def _is_stated(turn: Turn) -> bool:
    return turn.time not in (None, "")


def _room(chat: Chat, turns: Iterable[Turn]) -> IncomingRoom:
    """Return the room. Everybody who speaks is a member from the beginning, because the chat has no other readers."""
    speakers: dict[str, IncomingAuthor] = {}
    for turn in turns:
        if turn.role in {"person", "assistant"}:
            try:
                author = turn.author
            except MalformedRecord:
                continue
            speakers.setdefault(author.account_id, author)
    people = sum(author.kind == "human" for author in speakers.values())
    return IncomingRoom(
        external_id=checked_id(chat.external_id, "the conversation's id"),
        name=chat.name.strip() or chat.external_id,
        kind="dm" if people <= 1 else "group_dm",
        visibility="members",
        members=tuple(IncomingMembership(author=author) for author in speakers.values()),
    )


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Builds the messages of one chat in order."""

    chat: Chat
    room: IncomingRoom
    #: The time of the first message; None if the messages state their times.
    begins: datetime | None
    number: int = 0
    ids: DerivedIds = field(default_factory=DerivedIds)
    seen: set[str] = field(default_factory=set[str])
    #: By the id of a call, the name of the tool and the id of the calling message.
    calls: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    def messages(self, turn: Turn) -> Iterator[IncomingMessage]:
        """Yield the messages of a turn. Raises MalformedRecord if it has none."""
        self.number += 1
        sent_at, precision, zone_assumed = self._time(turn)
        message = IncomingMessage(
            platform=self.chat.platform,
            room=self.room,
            external_id=self._id(turn),
            author=turn.author,
            body=turn.content.text,
            sent_at=sent_at,
            kind="system" if turn.role == "system" else "message",
            precision=precision,
            order=self.number,
            attachments=turn.content.attachments,
            synthetic_id=not turn.id,
            metadata=platform_metadata(
                time="assumed" if self.begins is not None else turn.time_of,
                time_zone=ASSUMED_UTC if zone_assumed else "",
                model=turn.model,
            ),
            raw=turn.raw,
            where=turn.where,
        )
        if message.external_id in self.seen:
            raise MalformedRecord("message twice")
        found = list(self._spoken(message, turn)) + list(self._results(message, turn.content.results))
        if not found:
            raise MalformedRecord("reasoning of the model" if turn.content.has_reasoning else "no text")
        self.seen.add(message.external_id)
        for call, name in turn.content.calls.items():
            self.calls[call] = (name, message.external_id)
        yield from found

    def _spoken(self, message: IncomingMessage, turn: Turn) -> Iterator[IncomingMessage]:
        if turn.content.is_empty:
            return
        name, caller = self.calls.get(turn.call, ("", "")) if turn.role == "tool" else ("", "")
        author = tool(turn.name or name) if turn.role == "tool" else message.author
        yield replace(message, author=author, reply_to=caller or None)

    def _results(self, message: IncomingMessage, results: Sequence[ToolResult]) -> Iterator[IncomingMessage]:
        for number, result in enumerate(results, start=1):
            if result.text.strip():
                name, caller = self.calls.get(result.call, ("", ""))
                yield replace(
                    message,
                    external_id=result_id(message.external_id, number),
                    author=tool(result.name or name),
                    body=result.text,
                    kind="message",
                    attachments=(),
                    reply_to=caller or None,
                    synthetic_id=True,
                    raw={"call": result.call, "content": result.text},
                )

    def _time(self, turn: Turn) -> tuple[datetime, TimestampPrecision, bool]:
        if self.begins is None:
            if not _is_stated(turn):
                raise MalformedRecord("no time", "the export states none; a chat without times needs --day")
            return time_or_assumed(turn.time)
        try:
            return self.begins + _STEP * (self.number - 1), "min", False
        except OverflowError as error:
            raise MalformedRecord("no time", "out of range") from error

    def _id(self, turn: Turn) -> str:
        if turn.id:
            return checked_id(turn.id, "the message's id")
        content = turn.content
        results = [f"{result.call} {result.text}" for result in content.results]
        stated = str(turn.time) if _is_stated(turn) else ""
        attached = [str(part) for part in content.attachments]
        return self.ids.of(turn.role, turn.account, turn.name, stated, content.text, *attached, *results)
