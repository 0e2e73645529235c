"""Imports a Zulip data export, unpacked or as a zip, and saved answers of Zulip's API.

Pitfalls: a message names a recipient, which may be a person, a stream or a group. The text is Markdown in an export, and
often HTML in an answer. Moving a message to another topic counts as an edit. In some private streams, people read only
what came after they joined.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.reading.fields import (
    MAX_ID,
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    build_or_skip,
    checked_id,
    first_text,
    integer_field,
    non_empty,
    object_field,
    object_list,
    platform_metadata,
    text_field,
    unix_time,
)
from roomlore.importers.reading.json_stream import JsonPath, JsonStep, skipped_fault, walk, walk_file
from roomlore.importers.reading.text_lines import is_format, shallowest_files
from roomlore.importers.zulip.text import mentioned_ids, mentions, plain_text, quoted_message

#: The tables with messages. Of archived messages, only the place remains.
_MESSAGE_TABLES = frozenset({"zerver_message", "zerver_archivedmessage", "messages"})
_USER_TABLES = frozenset({
    "zerver_userprofile", "zerver_userprofile_crossrealm", "zerver_userprofile_mirrordummy", "members",
})  # fmt: skip
_STREAM_TABLES = frozenset({"zerver_stream", "streams", "subscriptions"})
_TABLES = _MESSAGE_TABLES | _USER_TABLES | _STREAM_TABLES | {
    "zerver_realm", "zerver_recipient", "zerver_subscription", "zerver_reaction", "zerver_realmauditlog",
    "zerver_usermessage",
}  # fmt: skip
_PEEK_BYTES = 2**16
_SNIFFED_FILES = 50
_PERSONAL, _STREAM, _GROUP = 1, 2, 3
_JOINED = frozenset({301, 302, "subscription_created", "subscription_activated"})
_LEFT = frozenset({303, "subscription_deactivated"})
#: The type of a message by which the server reports a resolved topic.
_TOPIC_NOTICE = 2
#: Topics that only mean that the author chose none.
_NO_TOPICS = frozenset({"", "\x07", "(no topic)"})
_SIDES = 2
_POLL = lazy_pattern(r"/poll[ \t]+(?P<question>[^\n]{1,1000})(?P<options>(?:\n[^\n]*)*)")


class _Shape(Mapping[JsonPath, Literal["object", "list"]]):
    """A shape in which the root and all its lists are walked into, so that no table is held as a whole."""

    def __getitem__(self, place: JsonPath) -> Literal["object", "list"]:
        if len(place) > 1:
            raise KeyError(place)
        return "list" if place else "object"

    def __iter__(self) -> Iterator[JsonPath]:
        return iter(())

    def __len__(self) -> int:
        return 0


_SHAPE = _Shape()
#: What a message's topic belongs to: a recipient of an export, or a stream of an answer.
_TopicKey = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    name: str
    description: str
    #: None if the answer does not say it.
    is_private: bool | None
    #: Whether subscribers read what was written before they came.
    shares_history: bool


@dataclass(slots=True)
class _Organisation:
    """The tables of an export, without its messages."""

    name: str = ""
    users: dict[int, IncomingAuthor] = field(default_factory=dict[int, IncomingAuthor])
    #: Users that have the same full name, by the name.
    named: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    streams: dict[int, _Stream] = field(default_factory=dict[int, _Stream])
    #: Type and id by recipient.
    recipients: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    #: Whether a subscription is active, by recipient and user.
    subscriptions: dict[int, dict[int, bool]] = field(default_factory=dict[int, dict[int, bool]])
    #: Joins and leaves by stream and user.
    changes: dict[tuple[int, int], list[tuple[datetime, bool]]] = field(
        default_factory=dict[tuple[int, int], list[tuple[datetime, bool]]]
    )
    #: The givers by message and emoji.
    reactions: dict[int, dict[str, list[str]]] = field(default_factory=dict[int, dict[str, list[str]]])
    #: The first message of each topic.
    topics: dict[_TopicKey, int] = field(default_factory=dict[_TopicKey, int])
    rooms: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])

    def note(self, table: str, row: Fields) -> None:
        """Note a row of a table. A row without an id is left out."""
        number = integer_field(row, "id")
        if table in _USER_TABLES:
            self._note_user(row)
        elif table in _STREAM_TABLES:
            self._note_stream(row)
        elif table == "zerver_realm":
            self.name = first_text(row, "name", "string_id")
        elif table == "zerver_recipient" and number is not None:
            self.recipients[number] = integer_field(row, "type") or 0, integer_field(row, "type_id") or 0
        elif table == "zerver_subscription":
            recipient, user = integer_field(row, "recipient"), integer_field(row, "user_profile")
            if recipient is not None and user is not None:
                self.subscriptions.setdefault(recipient, {})[user] = row.get("active") is not False
        elif table == "zerver_reaction":
            self._note_reaction(row)
        elif table == "zerver_realmauditlog":
            self._note_change(row)
        elif table in _MESSAGE_TABLES and number is not None:
            self._note_message(row, number)

    def _note_user(self, row: Fields) -> None:
        number = integer_field(row, "id")
        number = integer_field(row, "user_id") if number is None else number
        if number is None:
            return
        name = first_text(row, "full_name") or str(number)
        kind = "agent" if row.get("is_bot") is True else "human"
        self.users[number] = IncomingAuthor(account_id=str(number), name=name, kind=kind)
        self.named.setdefault(name, set()).add(number)

    def _note_stream(self, row: Fields) -> None:
        number = integer_field(row, "stream_id")
        number = integer_field(row, "id") if number is None else number
        if number is None:
            return
        is_private = row.get("invite_only")
        self.streams[number] = _Stream(
            name=first_text(row, "name"),
            description=first_text(row, "description"),
            is_private=is_private if isinstance(is_private, bool) else None,
            shares_history=row.get("history_public_to_subscribers") is not False,
        )

    def _note_reaction(self, row: Fields) -> None:
        message, user = integer_field(row, "message"), integer_field(row, "user_profile")
        emoji = first_text(row, "emoji_name")
        if message is not None and user is not None and emoji:
            self.reactions.setdefault(message, {}).setdefault(emoji, []).append(str(user))

    def _note_change(self, row: Fields) -> None:
        kind, moment = row.get("event_type"), _optional_time(row, "event_time")
        stream, user = integer_field(row, "modified_stream"), integer_field(row, "modified_user")
        if stream is None or user is None or moment is None or not isinstance(kind, int | str):
            return
        if kind in _JOINED or kind in _LEFT:
            self.changes.setdefault((stream, user), []).append((moment, kind in _JOINED))

    def _note_message(self, row: Fields, number: int) -> None:
        key = _topic_key(row)
        if key is not None:
            self.topics[key] = min(number, self.topics.get(key, number))
        sender, name = integer_field(row, "sender_id"), first_text(row, "sender_full_name")
        if sender is not None and name and sender not in self.users:
            self._note_user({"id": sender, "full_name": name})

    def resolve(self, name: str, number: int | None) -> str:
        """Return the account that a mention means; empty if it is unknown or if two people have the name."""
        if number is not None:
            return str(number)
        found = self.named.get(name, set())
        return str(next(iter(found))) if len(found) == 1 else ""

    def author(self, number: int, name: str = "") -> IncomingAuthor:
        """Return a user as an author. `name` is the name that a message states."""
        known = self.users.get(number) or IncomingAuthor(account_id=str(number), name=str(number))
        return replace(known, name=name) if name and name != known.name else known

    def room(self, row: Fields, sender: int) -> IncomingRoom:
        """Return the room of a message."""
        stream, members = self._audience(row, sender)
        key = str(stream) if stream is not None else f"direct:{','.join(map(str, members))}"
        if key not in self.rooms:
            is_stream = stream is not None
            self.rooms[key] = self._stream_room(stream, row) if is_stream else self._direct_room(key, members)
        return self.rooms[key]

    def _audience(self, row: Fields, sender: int) -> tuple[int | None, list[int]]:
        """Return the stream of a message, or the people of a direct conversation."""
        stream, shown = integer_field(row, "stream_id"), row.get("display_recipient")
        if stream is not None:
            return stream, []
        if isinstance(shown, list):
            numbers = [integer_field(one, "id") for item in as_list(shown) if (one := as_object(item))]
            return None, sorted({sender, *(number for number in numbers if number is not None)})
        recipient = integer_field(row, "recipient")
        kind, number = self.recipients.get(-1 if recipient is None else recipient, (0, 0))
        if kind == _STREAM:
            return number, []
        if kind == _PERSONAL:
            return None, sorted({sender, number})
        members = self.subscriptions.get(recipient or 0, {})
        if kind != _GROUP or not members:
            raise MalformedRecord("no room")
        return None, sorted({sender, *members})

    def _stream_room(self, number: int, row: Fields) -> IncomingRoom:
        stream = self.streams.get(number)
        shown = row.get("display_recipient")
        name = (stream.name if stream else "") or (shown if isinstance(shown, str) else "") or str(number)
        is_private = stream.is_private if stream else None
        return IncomingRoom(
            external_id=str(number),
            name=name,
            # A stream that nothing describes may be private.
            kind="channel" if stream else None,
            visibility=None if is_private is None else "members" if is_private else "open",
            topic=stream.description if stream else "",
            members=tuple(self._members(number, stream)) if stream and is_private else (),
            workspace=self.name,
        )

    def _members(self, number: int, stream: _Stream) -> Iterator[IncomingMembership]:
        """Yield the periods of the subscribers of a private stream."""
        recipients = [key for key, value in self.recipients.items() if value == (_STREAM, number)]
        for recipient in recipients:
            for user, is_active in sorted(self.subscriptions.get(recipient, {}).items()):
                yield from self._periods(
                    number, user, shares_history=stream.shares_history, is_active=is_active
                )

    def _periods(
        self, stream: int, user: int, *, shares_history: bool, is_active: bool
    ) -> Iterator[IncomingMembership]:
        """Yield the periods that the export proves."""
        author, begun = self.author(user), None
        if shares_history and is_active:
            yield IncomingMembership(author=author)
            return
        for moment, is_join in sorted(self.changes.get((stream, user), ())):
            if is_join:
                begun = begun or moment
            elif begun is not None:
                yield IncomingMembership(
                    author=author, joined_at=None if shares_history else begun, left_at=moment
                )
                begun = None
        if begun is not None and is_active:
            yield IncomingMembership(author=author, joined_at=begun)

    def _direct_room(self, key: str, members: list[int]) -> IncomingRoom:
        authors = [self.author(number) for number in members]
        return IncomingRoom(
            external_id=checked_id(key, "room"),
            name=" and ".join(author.name for author in authors),
            kind="dm" if len(members) <= _SIDES else "group_dm",
            visibility="members",
            members=tuple(IncomingMembership(author=author) for author in authors),
        )


def _topic_key(row: Fields) -> _TopicKey | None:
    """Return the key of the topic of a message; None if it has none. Topics that differ only in case are one topic."""
    topic = first_text(row, "subject").casefold()
    if topic in _NO_TOPICS or isinstance(row.get("display_recipient"), list):
        return None
    for key in ("stream_id", "recipient"):
        number = integer_field(row, key)
        if number is not None:
            return key, number, topic
    return None


def _is_export(source: ExportFiles, file: str) -> bool:
    if len(source.files) > 1 and not file.lower().endswith(".json"):
        return False
    with source.open(file) as stream:
        head = stream.read(_PEEK_BYTES)
    return any(_is_table(step) for step in walk(io.BytesIO(head), _SHAPE))


def _is_table(step: JsonStep) -> bool:
    """Return whether a step begins a table of an export, or is a row of an answer."""
    if step.kind == "opened":
        return bool(step.place) and step.place[0].startswith("zerver_") and step.place[0] in _TABLES
    row = as_object(step.value) if step.kind == "value" and step.number else None
    if row is None or step.place[:1] not in {("messages",), ("members",), ("streams",), ("subscriptions",)}:
        return False
    keys = {
        "messages": {"sender_id", "sender_full_name", "timestamp"},
        "members": {"user_id", "full_name", "is_bot"},
    }
    return keys.get(step.place[0], {"stream_id", "invite_only"}) <= row.keys()


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
    files, skipped = shallowest_files(source, _is_export)
    yield from skipped
    organisation = _Organisation()
    for file in files:
        for step in walk_file(source, file, _SHAPE):
            row = as_object(step.value) if step.kind == "value" and step.number else None
            if row is not None:
                organisation.note(step.place[0], row)
    for file in files:
        yield from _file(source, file, organisation)


def _file(source: ExportFiles, file: str, organisation: _Organisation) -> Iterator[ParsedItem]:
    for step in walk_file(source, file, _SHAPE):
        if step.kind == "fault":
            yield skipped_fault(step, file)
        elif step.kind == "value" and step.place[:1] and step.place[0] in _MESSAGE_TABLES:
            where = f"{file} record {step.number}"
            is_archived = step.place[0] == "zerver_archivedmessage"
            at = _ReadContext(organisation=organisation, where=where, is_archived=is_archived)
            yield from build_or_skip(step.value, where, build=partial(_message, at=at))
        elif step.kind == "value" and step.key in _MESSAGE_TABLES:
            yield SkippedRecord(where=file, reason="not a list of messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    """The context of a message."""

    organisation: _Organisation
    where: str
    is_archived: bool


def _message(row: Fields, at: _ReadContext) -> IncomingMessage:
    number, sender = _required(row, "id", "no id"), _sender(row)
    organisation = at.organisation
    room = organisation.room(row, sender)
    raw = {key: value for key, value in row.items() if key != "rendered_content"}
    text, named = _text(row, organisation)
    is_action = text.startswith("/me ")
    poll = _poll(text)
    edited = _edited(row)
    key = _topic_key(row) if room.kind not in {"dm", "group_dm"} else None
    root = organisation.topics.get(key, number) if key else number
    return IncomingMessage(
        platform="zulip",
        room=room,
        external_id=str(number),
        author=organisation.author(sender, first_text(row, "sender_full_name")),
        body="" if poll or at.is_archived else text.removeprefix("/me "),
        sent_at=_sent(row),
        kind="system" if integer_field(row, "type") == _TOPIC_NOTICE else "message",
        precision="us" if "date_sent" in row or "pub_date" in row else "s",
        order=number,
        reply_to=None if at.is_archived else quoted_message(text, room.external_id),
        thread_root=str(root) if root != number else None,
        mentions=[] if at.is_archived else named,
        attachments=[poll] if poll and not at.is_archived else [],
        reactions=_reactions(row, organisation.reactions.get(number, {})),
        edited_at=edited,
        deleted=at.is_archived,
        metadata=platform_metadata(
            topic=first_text(row, "subject") if key else "", action=is_action, history_lost=edited is not None
        ),
        raw=None if at.is_archived else raw,
        where=at.where,
    )


def _required(row: Fields, key: str, reason: str) -> int:
    number = integer_field(row, key)
    if number is None:
        raise MalformedRecord(reason)
    return number


def _sender(row: Fields) -> int:
    return _required(row, "sender_id" if "sender_id" in row else "sender", "no author")


def _sent(row: Fields) -> datetime:
    for key in ("date_sent", "pub_date", "timestamp"):
        if key in row:
            return _time(row[key])
    raise MalformedRecord("no time")


def _time(value: Any) -> datetime:
    """Return a Unix time with a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedRecord("no time")
    try:
        seconds, fraction = divmod(value, 1)
        return unix_time(int(seconds), microseconds=round(fraction * 1_000_000))
    except (OverflowError, ValueError) as error:
        raise MalformedRecord("no time", "out of range") from error


def _optional_time(row: Fields, key: str) -> datetime | None:
    try:
        return _time(row[key]) if row.get(key) else None
    except MalformedRecord:
        return None


def _text(row: Fields, organisation: _Organisation) -> tuple[str, list[str]]:
    """Return the text of a message, and the accounts that it mentions."""
    content = text_field(row, "content")
    if first_text(row, "content_type") == "text/html":
        return plain_text(content), mentioned_ids(content)
    found = [organisation.resolve(name, number) for name, number in mentions(content)]
    return content, list(dict.fromkeys(account for account in found if account))


def _edited(row: Fields) -> datetime | None:
    """Return the time of the last edit of the text. A move to another topic is no edit of the text."""
    history = row.get("edit_history")
    entries = _history(history) if isinstance(history, str) else as_list(history)
    edits = [entry for item in entries if (entry := as_object(item)) and "prev_content" in entry]
    times = [moment for entry in edits if (moment := _optional_time(entry, "timestamp"))]
    if entries and not edits:
        return None
    return (
        max(times, default=None)
        or _optional_time(row, "last_edit_time")
        or _optional_time(row, "last_edit_timestamp")
    )


def _history(text: str) -> list[Any]:
    try:
        return as_list(json.loads(text))
    except (ValueError, RecursionError):
        return []


def _poll(text: str) -> dict[str, Any]:
    """Return the poll that a text opens, or an empty object."""
    match = _POLL.fullmatch(text)
    if match is None:
        return {}
    options = [line.strip().removeprefix("* ").removeprefix("- ") for line in match["options"].split("\n")]
    return {"type": "poll"} | non_empty(
        name=match["question"].strip(), options=[option for option in options if option]
    )


def _reactions(row: Fields, noted: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    by = {emoji: list(givers) for emoji, givers in noted.items()}
    for item in object_list(row, "reactions"):
        user, emoji = object_field(item, "user"), first_text(item, "emoji_name")
        number = integer_field(item, "user_id")
        number = integer_field(user, "id") if number is None else number
        if emoji and number is not None:
            by.setdefault(emoji, []).append(str(number))
    return [
        {"emoji": emoji[:MAX_ID], "count": len(set(givers)), "by": list(dict.fromkeys(givers))}
        for emoji, givers in by.items()
    ]


IMPORTER = Importer(
    name="zulip",
    recognises=partial(is_format, fits=_is_export, most=_SNIFFED_FILES),
    read=_read,
    signs=('"zerver_message"', '"sender_full_name"', '"zerver_', '"subject"', '"rendered_content"'),
)
