"""Parses one line of a log file: who wrote what, where and when.

Roomlore's own JSON lines have fixed field names. Other formats are read by the usual names of such fields. If a line
does not state something, it stays empty. Nothing is guessed from the text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from roomlore.db.erasure_guard import AccountName, RoomName
from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.fields import MalformedRecord, parse_iso_time, unix_time

SCHEMA = "roomlore.message/1"
#: Fields of Roomlore's format. Only the first line of a file has to name the format.
_OWN_FORMAT_FIELDS = frozenset({"id", "room", "author", "text", "sent_at"})
_TEXTS = ("text", "body", "content", "message", "msg")
#: Objects that may hold the message in logs of agent sessions.
_WRAPPER_FIELDS = ("payload", "item")
#: Types of blocks in a language model's message that contain its text, one paragraph each. Blocks of other types are
#: ignored.
_BLOCKS = frozenset({"text", "input_text", "output_text"})
_UNSPOKEN_BLOCKS = frozenset(
    {"thinking", "reasoning", "tool_use", "tool_result", "tool_call", "function_call"}
)
#: Roles in a chat with a language model.
_CHAT_ROLES = frozenset({"user", "assistant", "human", "ai"})
#: Marks of lines in which the role of the person is not the person's.
_BY_PROGRAM = ("isMeta", "isSidechain", "isCompactSummary")
_INNER_AUTHORS = ("author", "user", "sender", "from", "username", "nick")
_AUTHORS = ("author", "user", "sender", "from", "username", "nick", "name", "display_name")
_AUTHOR_IDS = ("author_id", "user_id", "sender_id", "from_id", "account_id")
_ROOMS = ("room", "channel", "room_id", "channel_id", "room_name", "channel_name", "chat", "chat_id")
#: The placeholder for a room that is stated in an unknown form. No file is mapped to it.
_SOME_ROOM = "?"
_TIMES = ("sent_at", "timestamp", "time", "ts", "date", "datetime", "created_at", "@timestamp")
_IDS = ("id", "message_id", "external_id", "msg_id", "ts", "client_msg_id", "event_id", "uuid")
_NAMES = ("name", "display_name", "global_name", "username", "nick", "id")
_KINDS = ("kind", "type", "subtype")
_ADDRESSEES = ("to", "recipients", "recipient")
_SECONDS = lazy_pattern(r"\d+(\.\d+)?")
_MENTION = lazy_pattern(r"<@[!&]?([^>\s]{1,255})>|(?<!\w)@([\w.-]{1,255})")
#: Timestamps below this are in seconds, other timestamps in milliseconds.
_SECONDS_BELOW = 100_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """The content of one line of a log."""

    text: str
    author_name: str = ""
    #: Possible ids or names of the author. The first one is an id if `is_exact`.
    accounts: Sequence[str] = ()
    persona: str = ""
    #: Ids or names of mentioned participants.
    mentions: Sequence[str] = ()
    sent_at: datetime | None = None
    platform: str = ""
    room: str = ""
    #: Possible ids of the message on its platform.
    ids: Sequence[str] = ()
    #: Whether the line is in Roomlore's format. Room and author then have the names under which they are stored.
    is_own_format: bool = False
    #: Whether the line says that the message was deleted. The message itself may be in an earlier line.
    is_deleted: bool = False
    #: Whether the message is an ordinary message to everybody: it has no other kind and no addressees.
    is_for_all: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether room, author and id of the message are the platform's ids."""
        return self.is_own_format and bool(self.platform and self.room and self.ids and self.accounts)

    def possible_accounts(self, platforms: Sequence[str]) -> Iterator[AccountName]:
        """Yield the accounts that may have written the message or be mentioned in it, on each of the platforms."""
        for platform in platforms:
            for account in (*self.accounts, *self.mentions):
                yield platform, account, ""
                if self.persona:
                    yield platform, account, self.persona

    def possible_rooms(self, mapped: RoomName | None) -> list[RoomName]:
        """Return the rooms that the message may belong to.

        These are the room mapped to the file, and the room that the line states. If the line leaves out a part of its
        room, this part is taken from the room mapped to the file.
        """
        if mapped is None:
            return [(self.platform, self.room)] if self.platform and self.room else []
        stated = (self.platform or mapped[0], self.room or mapped[1])
        return list(dict.fromkeys([mapped, stated]))


def parse_line(line: bytes) -> LogRecord | None:
    """Return the content of a line; None if it is no JSON object, or has neither a text nor a deletion."""
    fields = parse_json(line)
    return None if fields is None else parse_record(fields)


def parse_json(line: bytes) -> Mapping[str, Any] | None:
    """Return the JSON object in a line; None if the line is no JSON object."""
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def parse_record(fields: Mapping[str, Any]) -> LogRecord | None:
    """Return the content of a JSON object; None if it has neither a text nor a deletion."""
    text, inner = _text(fields)
    is_deleted = fields.get("deleted") is True
    if not (text.strip() or is_deleted):
        return None
    author = _first_present(fields, _AUTHORS) or _first_present(inner, _INNER_AUTHORS)
    # In a chat with a language model, the role stands for the author if the line names no author.
    role = "" if _is_by_program(fields) else _as_text(inner.get("role")) or _as_text(fields.get("role"))
    is_own = fields.get("schema") == SCHEMA or fields.keys() >= _OWN_FORMAT_FIELDS
    return LogRecord(
        text=_without_surrogates(text),
        author_name=_without_surrogates(_name(author) or role),
        accounts=[_without_surrogates(account) for account in _accounts(fields, author)],
        persona=_string_field(author, "persona"),
        mentions=[_without_surrogates(name) for name in _mentions(fields, text)],
        sent_at=_time(_first_present(fields, _TIMES) or _first_present(inner, _TIMES)),
        platform=_without_surrogates(_as_text(fields.get("platform"))) or ("jsonl" if is_own else ""),
        room=_without_surrogates(_room(fields) or _room(inner)),
        ids=list(dict.fromkeys(_without_surrogates(word) for part in (fields, inner) for word in _ids(part))),
        is_own_format=is_own and bool(_id(fields.get("room"))),
        is_deleted=is_deleted,
        is_for_all=_is_public(fields, role) and _is_public(inner, role),
    )


def _is_by_program(fields: Mapping[str, Any]) -> bool:
    """Return whether a line of an agent's session has the role of the person, but is not by the person.

    The program wrote it for the model, or the agent wrote it for a subagent.
    """
    return fields.get("type") == "user" and any(fields.get(key) is True for key in _BY_PROGRAM)


def _text(fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the text, and the inner object that contains it.

    The inner object is empty if the line itself contains the text.
    """
    for key in (*_TEXTS, *_WRAPPER_FIELDS):
        value = fields.get(key)
        words = "" if key in _WRAPPER_FIELDS else _text_of_blocks(value)
        if words.strip():
            return words, {}
        if isinstance(value, dict):
            inner = cast("Mapping[str, Any]", value)
            words = next(
                (found for name in ("text", "content") if (found := _text_of_blocks(inner.get(name)))), ""
            )
            words = words or _as_text(inner.get("text")) or _as_text(inner.get("content"))
            if words:
                return words, inner
    return "", {}


def _text_of_blocks(value: object) -> str:
    """Return the text of a value.

    This is the value itself, or the text blocks of a list without reasoning and tool calls.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts: list[str] = []
    for piece in cast("list[object]", value):
        is_block = _string_field(piece, "type") in _BLOCKS
        words = piece if isinstance(piece, str) else _string_field(piece, "text")
        if words and _string_field(piece, "type") not in _UNSPOKEN_BLOCKS:
            # Blocks are paragraphs. Other pieces are parts of one text.
            parts += ["\n", words] if is_block and parts else [words]
    return "".join(parts)


def _ids(fields: Mapping[str, Any]) -> Iterator[str]:
    return (word for key in _IDS if (word := _as_text(fields.get(key))))


def _is_public(fields: Mapping[str, Any], role: str) -> bool:
    """Return whether this is an ordinary message to everybody: it has no other kind and no addressees."""
    # This is a tuple and not a set, because the value of a field may not be hashable.
    ordinary = ("message", role) if role in _CHAT_ROLES else ("message",)
    is_ordinary = all(_is_empty(fields.get(key)) or fields[key] in ordinary for key in _KINDS)
    return is_ordinary and all(_is_empty(fields.get(key)) for key in _ADDRESSEES) and "audience" not in fields


def _is_empty(value: object) -> bool:
    return value in (None, "", [], {})


def _room(fields: Mapping[str, Any]) -> str:
    """Return the room that the line states; empty if the line states no room."""
    stated = next((fields[key] for key in _ROOMS if not _is_empty(fields.get(key))), None)
    if stated is None:
        return ""
    return _id(stated) or _string_field(stated, "name") or _SOME_ROOM


def _first_present(fields: Mapping[str, Any], keys: Sequence[str]) -> object:
    return next((fields[key] for key in keys if fields.get(key) not in (None, "")), None)


def _as_text(value: object) -> str:
    """Return a text or a number as text; empty for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _string_field(value: object, key: str) -> str:
    return _as_text(cast("Mapping[str, Any]", value).get(key)) if isinstance(value, dict) else ""


def _id(value: object) -> str:
    return _string_field(value, "id") or _as_text(value)


def _name(author: object) -> str:
    return next((name for key in _NAMES if (name := _string_field(author, key))), _as_text(author))


def _accounts(fields: Mapping[str, Any], author: object) -> list[str]:
    """Return possible names of the author's account, the most likely first."""
    inner = [_string_field(author, key) for key in ("id", *_NAMES)]
    outer = [_as_text(fields.get(key)) for key in (*_AUTHOR_IDS, *_AUTHORS)]
    return [word for word in dict.fromkeys([*inner, *outer]) if word]


def _mentions(fields: Mapping[str, Any], text: str) -> list[str]:
    stated = fields.get("mentions")
    listed = [_id(mention) for mention in cast("list[object]", stated)] if isinstance(stated, list) else []
    marked = [word for match in _MENTION.finditer(text) for word in match.groups() if word]
    return [word for word in dict.fromkeys([*listed, *marked]) if word]


def _time(value: object) -> datetime | None:
    try:
        if isinstance(value, str) and not _SECONDS.fullmatch(value):
            return parse_iso_time(value)
        number = float(_as_text(value) or "nan")
        seconds = number if number < _SECONDS_BELOW else number / 1000
        return unix_time(int(seconds), microseconds=round(seconds % 1 * 1_000_000))
    except (MalformedRecord, ValueError, OverflowError):
        return None


def _without_surrogates(text: str) -> str:
    """Return a text without NUL and lone surrogates, which the database does not accept."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", " ")
