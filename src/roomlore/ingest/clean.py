"""Makes a neutral record fit to be stored, or says why it cannot be stored.

Nothing here looks at the database, so a dry run and a real import report the same.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast, get_args

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    MessageKind,
    ParticipantKind,
    RoomKind,
    SkippedRecord,
    TimestampPrecision,
    Visibility,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.room_visibility import is_direct_stated_open
from roomlore.ingest.attachments import with_attachments
from roomlore.ingest.secrets import MARKER, SECRET_FIELDS, is_harmless, remove_secrets

#: Longer bodies are refused. No platform allows them.
MAX_BODY = 1_000_000
MAX_NAME = 500
#: Ids are index keys: two ids and a platform must fit into one entry, with four bytes per character.
MAX_ID = 255
MAX_PLATFORM = 100
MAX_TOPIC = 10_000
#: If a foreign record is larger, it is dropped. The message keeps its own fields.
MAX_RAW = 4_000_000
#: Foreign records nest a few levels. Deeper records are attacks.
MAX_DEPTH = 40
#: Larger integers cannot be written as JSON.
MAX_INTEGER = 2**256
MAX_ORDER = 2**63
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
#: The tolerance for a wrong clock on our side, so that a current message is not dropped.
MAX_CLOCK_SKEW = timedelta(days=366)
TOO_FAR_AHEAD = "dated more than a year after the server's clock"
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
#: The shortest time from a message to its edit. With a coarse platform clock, both may have the same time.
TICK = timedelta(microseconds=1)
#: PostgreSQL cannot store NUL and lone surrogates.
UNSTORABLE = lazy_pattern("[\x00\ud800-\udfff]")
#: Detects a possible integer of more than 256 bits. 77 digits in a row cover four multiples of 19, so checking every
#: 19th character rules out nearly all texts.
MANY_DIGITS = lazy_pattern(r"[0-9]{77}")
FEW_DIGITS, DIGITS_APART = lazy_pattern(r"[0-9]{4}"), 19
#: One strict encoder for many records.
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
MESSAGE_KINDS = get_args(MessageKind)
PARTICIPANT_KINDS = get_args(ParticipantKind)
#: None means that the platform does not state it.
ROOM_KINDS = (*get_args(RoomKind), None)
VISIBILITIES = (*get_args(Visibility), None)
PRECISIONS = get_args(TimestampPrecision)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
DIRECT_STATED_OPEN = "a direct room is never open"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRecord:
    """A record that can be stored."""

    message: IncomingMessage
    secrets_stripped: int
    #: The characters of body and foreign record, to limit batches.
    size: int = field(default=0, compare=False)


class RoomCleaner:
    """Cleans each room once: importers share one object between the messages of a room."""

    def __init__(self, make: Callable[[IncomingRoom], IncomingRoom]) -> None:
        self._make = make
        self._known: dict[str, tuple[IncomingRoom, IncomingRoom]] = {}

    def cleaned(self, room: IncomingRoom) -> IncomingRoom:
        """Return the cleaned room. The same object is returned while the description of the room is unchanged."""
        known = self._known.get(room.external_id)
        if known is None or known[0] != room:
            known = self._known[room.external_id] = (room, self._make(room))
        return known[1]


def clean(
    message: IncomingMessage, *, now: datetime, rooms: RoomCleaner | None = None
) -> CleanRecord | SkippedRecord:
    """Return the record without secrets and unstorable characters, or the reason why it is skipped.

    The time of a record may be up to a year after `now`, because clocks may be wrong. `rooms` caches the rooms of
    earlier records.
    """
    reason = _fault(message, now=now)
    scrubber = ValueCleaner()
    if reason is not None:
        return SkippedRecord(
            where=scrubber.text(message.where or message.external_id[:MAX_ID]), reason=reason
        )
    fields: dict[str, Any] = {
        "room": rooms.cleaned(message.room) if rooms else clean_room(message.room),
        "author": _clean_author(message.author),
        "sent_at": message.sent_at.astimezone(UTC),
        "edited_at": _edited_after(message.sent_at, message.edited_at) if message.edited_at else None,
        "audience": tuple(
            _clean_author(author) for author in message.audience if _is_storable_author(author)
        ),
        "mentions": tuple(scrubber.text(mention) for mention in message.mentions),
        **(_content(message, scrubber) if not message.deleted else NO_CONTENT),
    }
    return CleanRecord(
        message=_replace_fields(message, fields), secrets_stripped=scrubber.count, size=scrubber.size
    )


def _replace_fields(message: IncomingMessage, fields: Mapping[str, Any]) -> IncomingMessage:
    # Most records are clean and need no copy.
    changed = {name: value for name, value in fields.items() if value is not getattr(message, name)}
    return replace(message, **changed) if changed else message


def _edited_after(sent_at: datetime, edited_at: datetime) -> datetime:
    return max(edited_at, sent_at + TICK).astimezone(UTC)


def storable(text: str) -> str:
    """Return the text with unstorable characters replaced."""
    return UNSTORABLE.sub(REPLACEMENT, text) if _is_unstorable(text) else text


def _is_unstorable(text: str) -> bool:
    if text.isascii():
        return "\x00" in text
    return UNSTORABLE.search(text) is not None


NO_CONTENT: dict[str, Any] = {
    "body": "",
    "mentions": (),
    "attachments": (),
    "reactions": (),
    "metadata": {},
    "raw": None,
}


@dataclass(slots=True)
class ValueCleaner:
    """Removes secrets and unstorable characters, and counts both."""

    count: int = 0
    size: int = 0

    def text(self, text: str) -> str:
        """Return the text, ready to be stored."""
        stripped, count = remove_secrets(storable(text))
        self.count += count
        self.size += len(stripped)
        return stripped

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value, ready to be stored."""
        if depth > MAX_DEPTH:
            return None
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            mapping = cast("Mapping[Any, Any]", value)
            return {self._key(key): self._field(key, item, depth) for key, item in mapping.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in cast("list[Any]", value)]
        if value is None or isinstance(value, int | float):
            return _storable_number(value)
        # The value has a type that JSON does not have, such as a time or another kind of number.
        return self.text(str(value))

    def _key(self, key: Any) -> str:
        stripped, count = _clean_key(key if isinstance(key, str) else str(_storable_number(key)))
        self.count += count
        self.size += len(stripped)
        return stripped

    def _field(self, key: Any, value: Any, depth: int) -> Any:
        if isinstance(value, str) and value and isinstance(key, str) and key.lower() in SECRET_FIELDS:
            self.count += value != MARKER
            return MARKER
        return self.value(value, depth + 1)


def _content(message: IncomingMessage, scrubber: ValueCleaner) -> dict[str, Any]:
    return {
        "body": scrubber.text(with_attachments(message.body, message.attachments)),
        "attachments": scrubber.value(message.attachments) if message.attachments else message.attachments,
        "reactions": scrubber.value(message.reactions) if message.reactions else message.reactions,
        "metadata": scrubber.value(message.metadata) if message.metadata else message.metadata,
        "raw": _raw(message, scrubber),
    }


def _raw(message: IncomingMessage, scrubber: ValueCleaner) -> Any:
    size = _size_as_is(message.raw)
    if size is not None:
        scrubber.size += size
        return message.raw
    # Secrets that the foreign record repeats are not counted a second time.
    before, counted = scrubber.size, scrubber.count
    scrubber.count = 0
    raw = scrubber.value(message.raw)
    scrubber.count = max(scrubber.count, counted)
    return raw if scrubber.size - before <= MAX_RAW else None


def _size_as_is(raw: Any) -> int | None:
    """Return the size of a foreign record that needs no cleaning."""
    if not isinstance(raw, dict):
        return None
    try:
        text = JSON.encode(raw)
    except (TypeError, ValueError, RecursionError):
        return None
    is_fit = (
        len(text) <= MAX_RAW
        and text.count("{") + text.count("[") <= MAX_DEPTH
        and "\\u0000" not in text
        and not _is_unstorable(text)
        and not (FEW_DIGITS.search(text[::DIGITS_APART]) and MANY_DIGITS.search(text))
        and is_harmless(text)
    )
    return len(text) if is_fit else None


# Foreign records have few distinct keys.
@lru_cache(maxsize=4096)
def _clean_key(key: str) -> tuple[str, int]:
    return remove_secrets(storable(key))


# Rooms, people and parents repeat.
@lru_cache(maxsize=4096)
def _holds_secret(name: str) -> bool:
    return remove_secrets(name)[1] > 0


def _fault(message: IncomingMessage, *, now: datetime) -> str | None:
    return _name_fault(message) or _kind_fault(message) or _time_fault(message, now)


def _name_fault(message: IncomingMessage) -> str | None:
    """Return what is wrong with an id. The id is not repaired, because another id would name somebody else."""
    for what, is_there in (
        ("message id", message.external_id),
        ("room", message.room.external_id),
        ("platform", message.platform),
        ("account id", _is_named(message.author)),
    ):
        if not is_there:
            return f"no {what}"
    if len(message.platform) > MAX_PLATFORM:
        return "platform name too long"
    if _is_unstorable(message.platform):
        return "platform name not storable"
    return _id_fault(message)


def _id_fault(message: IncomingMessage) -> str | None:
    for what, name in (
        ("message id", message.external_id),
        ("room id", message.room.external_id),
        ("account id", message.author.account_id),
        ("persona", message.author.persona),
        ("reply id", message.reply_to or ""),
        ("thread id", message.thread_root or ""),
    ):
        flaw = _name_flaw(name) if name else None
        if flaw is not None:
            return flaw.format(what=what)
    return None


# Most ids are repeated: rooms, accounts, parents.
@lru_cache(maxsize=65_536)
def _name_flaw(name: str) -> str | None:
    if len(name) > MAX_ID:
        return "{what} too long"
    if _is_unstorable(name):
        return "{what} not storable"
    return "secret in id" if _holds_secret(name) else None


def _kind_fault(message: IncomingMessage) -> str | None:
    if len(message.body) > MAX_BODY:
        return "body too long"
    if not -MAX_ORDER <= message.order < MAX_ORDER:
        return "order out of range"
    for what, kind, kinds in (
        ("message kind", message.kind, MESSAGE_KINDS),
        ("author kind", message.author.kind, PARTICIPANT_KINDS),
        ("room kind", message.room.kind, ROOM_KINDS),
        ("room visibility", message.room.visibility, VISIBILITIES),
        ("precision", message.precision, PRECISIONS),
    ):
        if kind not in kinds:
            return f"unknown {what}"
    return DIRECT_STATED_OPEN if is_direct_stated_open(message.room) else None


def _time_fault(message: IncomingMessage, now: datetime) -> str | None:
    times = (message.sent_at, message.edited_at) if message.edited_at else (message.sent_at,)
    for time in times:
        if time.utcoffset() is None:
            return "time without zone"
    if not all(EARLIEST <= time < LATEST for time in times):
        return "absurd date"
    return TOO_FAR_AHEAD if max(times) > now + MAX_CLOCK_SKEW else None


def _is_named(author: IncomingAuthor) -> bool:
    """Return whether an author is identifiable. Only the platform itself needs no account."""
    return bool(author.account_id) or author.kind == "system"


def _is_storable_author(author: IncomingAuthor) -> bool:
    """Return whether an account of an audience can be stored. If it cannot, it gets no access."""
    names = (author.account_id, author.persona)
    return (
        author.kind in PARTICIPANT_KINDS
        and _is_named(author)
        and not any(len(name) > MAX_ID or _is_unstorable(name) or _holds_secret(name) for name in names)
    )


def _storable_text(text: str) -> str:
    return remove_secrets(storable(text))[0]


def _clean_author(author: IncomingAuthor) -> IncomingAuthor:
    name = _storable_text(author.name).strip()[:MAX_NAME] or author.account_id or "unknown"
    return author if name == author.name else replace(author, name=name)


def clean_room(room: IncomingRoom) -> IncomingRoom:
    """Return the room without secrets, unstorable characters and invalid memberships."""
    cleaned = replace(
        room,
        name=_storable_text(room.name).strip()[:MAX_NAME] or room.external_id,
        topic=_storable_text(room.topic)[:MAX_TOPIC],
        workspace=_storable_text(room.workspace).strip()[:MAX_NAME],
        category=_storable_text(room.category).strip()[:MAX_NAME],
        context_id=_storable_text(room.context_id).strip()[:MAX_ID],
        members=tuple(_clean_member(member) for member in room.members if _is_possible(member)),
    )
    return room if cleaned == room else cleaned


def _clean_member(member: IncomingMembership) -> IncomingMembership:
    return replace(
        member,
        author=_clean_author(member.author),
        joined_at=member.joined_at.astimezone(UTC) if member.joined_at else None,
        left_at=member.left_at.astimezone(UTC) if member.left_at else None,
    )


def _is_possible(member: IncomingMembership) -> bool:
    """Return whether a membership is valid. An invalid membership gives no access."""
    times = [time for time in (member.joined_at, member.left_at) if time is not None]
    if any(time.utcoffset() is None for time in times):
        return False
    in_order = times == sorted(times) and all(EARLIEST <= time < LATEST for time in times)
    return in_order and _is_storable_author(member.author)


def _storable_number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return None
    return value
