"""Makes a neutral record fit to be stored, or says why it cannot be.

Nothing here looks at the database, so that a dry run and a real import report the same.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    MessageKind,
    ParticipantKind,
    Precision,
    RoomKind,
    Skipped,
    Visibility,
)
from roomlore.ingest.secrets import MARKER, SECRET_FIELDS, strip

#: Longer bodies are refused: no platform allows them, and a megabyte is no message.
LONGEST_BODY = 1_000_000
LONGEST_NAME = 500
LONGEST_ID = 500
#: Foreign records nest a few levels; a deeper one is an attack on whoever walks it.
DEEPEST = 40
#: Larger integers cannot be written as JSON.
WIDEST_INTEGER = 2**256
WIDEST_ORDER = 2**63
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK_SKEW = timedelta(days=1)
#: What PostgreSQL cannot store: NUL, and halves of surrogate pairs.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """A record fit to be stored."""

    message: IncomingMessage
    secrets_stripped: int


def clean(message: IncomingMessage, *, now: datetime) -> Clean | Skipped:
    """Return the record without secrets and unstorable characters, or the reason why it is left out."""
    reason = _fault(message, now=now)
    if reason is not None:
        return Skipped(where=message.where or storable(message.external_id[:LONGEST_ID]), reason=reason)
    scrubber = Scrubber()
    cleaned = replace(
        message,
        room=_clean_room(message.room),
        external_id=storable(message.external_id),
        author=_clean_author(message.author),
        sent_at=message.sent_at.astimezone(UTC),
        # Some platforms stamp an edit a moment before the message.
        edited_at=max(message.edited_at, message.sent_at).astimezone(UTC) if message.edited_at else None,
        reply_to=storable(message.reply_to) if message.reply_to else None,
        thread_root=storable(message.thread_root) if message.thread_root else None,
        audience=tuple(_clean_author(author) for author in message.audience),
        mentions=tuple(storable(mention) for mention in message.mentions),
        **(_content(message, scrubber) if not message.deleted else NO_CONTENT),
    )
    return Clean(message=cleaned, secrets_stripped=scrubber.count)


def storable(text: str) -> str:
    """Return the text with what PostgreSQL cannot store replaced."""
    return UNSTORABLE.sub(REPLACEMENT, text)


NO_CONTENT: dict[str, Any] = {"body": "", "attachments": (), "reactions": (), "metadata": {}, "raw": None}


@dataclass(slots=True)
class Scrubber:
    """Removes secrets and whatever cannot be stored, and counts the secrets."""

    count: int = 0

    def text(self, text: str) -> str:
        """Return the text fit to be stored."""
        stripped, count = strip(storable(text))
        self.count += count
        return stripped

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return any JSON value fit to be stored."""
        if depth > DEEPEST:
            return None
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            mapping = cast(Mapping[Any, Any], value)
            return {storable(str(key)): self._field(str(key), item, depth) for key, item in mapping.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in cast(list[Any], value)]
        return _storable_number(value)

    def _field(self, key: str, value: Any, depth: int) -> Any:
        if isinstance(value, str) and value and key.lower() in SECRET_FIELDS:
            self.count += 1
            return MARKER
        return self.value(value, depth + 1)


def _content(message: IncomingMessage, scrubber: Scrubber) -> dict[str, Any]:
    return {
        "body": scrubber.text(message.body),
        "attachments": scrubber.value(message.attachments),
        "reactions": scrubber.value(message.reactions),
        "metadata": scrubber.value(message.metadata),
        "raw": scrubber.value(message.raw),
    }


def _fault(message: IncomingMessage, *, now: datetime) -> str | None:
    room, author = message.room, message.author
    checks = {
        "no message id": not message.external_id,
        "no room": not room.external_id,
        "no platform": not message.platform,
        "message id too long": len(message.external_id) > LONGEST_ID,
        "room id too long": len(room.external_id) > LONGEST_ID,
        "account id too long": len(author.account_id) > LONGEST_ID,
        "body too long": len(message.body) > LONGEST_BODY,
        "unknown message kind": message.kind not in get_args(MessageKind),
        "unknown author kind": author.kind not in get_args(ParticipantKind),
        "unknown room kind": room.kind not in get_args(RoomKind),
        "unknown room visibility": room.visibility not in get_args(Visibility),
        "unknown precision": message.precision not in get_args(Precision),
        "order out of range": not -WIDEST_ORDER <= message.order < WIDEST_ORDER,
    }
    return next((reason for reason, found in checks.items() if found), None) or _time_fault(message, now)


def _time_fault(message: IncomingMessage, now: datetime) -> str | None:
    times = [message.sent_at] + ([message.edited_at] if message.edited_at else [])
    if any(time.tzinfo is None for time in times):
        return "time without zone"
    if not all(EARLIEST <= time <= now + CLOCK_SKEW for time in times):
        return "absurd date"
    return None


def _clean_author(author: IncomingAuthor) -> IncomingAuthor:
    account_id = storable(author.account_id)
    return replace(
        author,
        account_id=account_id,
        persona=storable(author.persona)[:LONGEST_NAME],
        name=storable(author.name).strip()[:LONGEST_NAME] or account_id or "unknown",
    )


def _clean_room(room: IncomingRoom) -> IncomingRoom:
    return replace(
        room,
        external_id=storable(room.external_id),
        name=storable(room.name).strip()[:LONGEST_NAME] or storable(room.external_id),
        topic=storable(room.topic),
        members=tuple(replace(member, author=_clean_author(member.author)) for member in room.members),
    )


def _storable_number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > WIDEST_INTEGER:
        return None
    return value
