"""Takes what a point of a chat memory holds: one message, or a question with its answer.

Several generations of such memories name things differently, and keep some of them in `metadata`. What says neither who
spoke nor when is not taken; what is no talk at all, like a remembered fact, neither.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from roomlore.domain.incoming import IncomingAuthor, TimestampPrecision
from roomlore.platforms.fields import (
    Fields,
    MalformedRecord,
    as_object,
    iso_precision,
    parse_iso_time,
    json_type,
    first_text,
    object_field,
    checked_id,
    text_field,
    unix_time,
)

Side = Literal["asked", "answered"]
#: An answer stands so long after its question.
REPLY_GAP = timedelta(milliseconds=1)
_PAIR = "conversation_pair"
_SIDES: dict[str, Side] = {
    "user_message": "asked",
    "user": "asked",
    "human": "asked",
    "bot_response": "answered",
    "bot": "answered",
    "ai": "answered",
    "assistant": "answered",
}
#: Ids of points are numbers or UUIDs.
_LONGEST_POINT_ID = 64
_TALK = frozenset({"", "conversation"})
#: What of a pair only one of its messages says.
_QUESTION_KEYS, _ANSWER_KEYS = frozenset({"content", "user_message"}), frozenset({"bot_response"})
#: Unix times from here on are in milliseconds: in seconds it would be the year 5138.
_MILLISECONDS_FROM = 10**11


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMessage:
    """One message that a point holds."""

    side: Side
    room: str
    #: Whether nobody else is in the room.
    is_direct: bool
    #: The person who asked and is answered.
    partner: str
    author: IncomingAuthor
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    zone_assumed: bool
    #: What its platform calls it, and what it says that it answers.
    native_id: str = ""
    native_reply: str = ""
    #: Of the answer of a pair: the question.
    answers: str = ""
    #: Of both sides of a pair: the id of the point that held them.
    pair: str = ""
    raw: Fields = field(default_factory=dict[str, Any])
    where: str = ""

    @property
    def external_id(self) -> str:
        """Return an id made of when, by which side, to whom and in which words it was said."""
        told = f"{self.side}\0{self.partner}\0{self.body}"
        digest = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]
        return f"{self.sent_at:%Y%m%dT%H%M%S.%f}:{digest}"


def is_chat_point(value: Any) -> bool:
    """Return whether a value looks like a point of a chat memory."""
    payload = object_field(as_object(value) or {}, "payload")
    fields = {**object_field(payload, "metadata"), **payload}
    return bool(
        first_text(fields, "content", "user_message", "bot_response")
        and {"user_id", "author_id"} & fields.keys()
        and {"role", "source", "author_is_bot"} & fields.keys()
    )


def point_messages(point: Fields, *, bot: str, where: str) -> Iterator[PointMessage]:
    """Yield the messages of a point.

    Args:
        point: As the server tells it.
        bot: What the bot is called where the point does not say it.
        where: What reports call the point.

    Raises:
        Malformed: there is none that can be taken.
    """
    payload = object_field(point, "payload")
    if not payload:
        raise MalformedRecord("no payload")
    fields = {**object_field(payload, "metadata"), **payload}
    if not {first_text(fields, "memory_type"), first_text(fields, "type")} <= _TALK:
        raise MalformedRecord("not something said")
    if _PAIR in (fields.get("source"), fields.get("role")):
        yield from _question_and_answer(point, fields, bot=bot, where=where)
    else:
        yield _single_message(point, fields, bot=bot, where=where)


def _single_message(point: Fields, fields: Fields, *, bot: str, where: str) -> PointMessage:
    side = _side(fields)
    author = _human_author(fields) if side == "asked" else _bot_author(fields, bot, is_author=True)
    said = _point_message(fields, side, author, bot=bot, where=where)
    body = text_field(fields, "content") or text_field(fields, "user_message" if side == "asked" else "bot_response")
    if not body:
        raise MalformedRecord("no text")
    return replace(
        said,
        body=body,
        native_id=_id(fields, "message_id"),
        native_reply=_id(fields, "reply_to_msg_id"),
        raw=_raw(point, frozenset()),
    )


def _question_and_answer(point: Fields, fields: Fields, *, bot: str, where: str) -> Iterator[PointMessage]:
    question = text_field(fields, "user_message") or text_field(fields, "content")
    answer = text_field(fields, "bot_response")
    if not question and not answer:
        raise MalformedRecord("no text")
    asked = replace(
        _point_message(fields, "asked", _human_author(fields), bot=bot, where=where),
        body=question,
        native_id=_id(fields, "message_id"),
        native_reply=_id(fields, "reply_to_msg_id"),
        pair=_point_id(point),
        raw=_raw(point, _ANSWER_KEYS),
    )
    try:
        later = asked.sent_at + REPLY_GAP
    except OverflowError as error:
        raise MalformedRecord("no time", "out of range") from error
    if question:
        yield asked
    if answer:
        yield replace(
            asked,
            side="answered",
            author=_bot_author(fields, bot, is_author=False),
            body=answer,
            sent_at=later,
            precision="us" if asked.precision == "us" else "ms",
            native_id="",
            native_reply="",
            answers=asked.external_id if question else "",
            # Of two messages each must be able to go without leaving its words with the other.
            raw=_raw(point, _QUESTION_KEYS),
        )


def _point_message(fields: Fields, side: Side, author: IncomingAuthor, *, bot: str, where: str) -> PointMessage:
    partner = _id(fields, "user_id") or author.account_id
    channel = _id(fields, "channel_id")
    with_whom = _bot_author(fields, bot, is_author=False).account_id
    sent_at, precision, zone_assumed = _sent(fields)
    return PointMessage(
        side=side,
        room=checked_id(channel or f"{with_whom} with {partner}", "the room's id"),
        is_direct=not channel,
        partner=partner,
        author=author,
        body="",
        sent_at=sent_at,
        precision=precision,
        zone_assumed=zone_assumed,
        where=where,
    )


def _side(fields: Fields) -> Side:
    for key in ("source", "role"):
        side = _SIDES.get(first_text(fields, key))
        if side is not None:
            return side
    is_bot = fields.get("author_is_bot")
    if not isinstance(is_bot, bool):
        raise MalformedRecord("no author", "neither source nor role tells who speaks")
    return "answered" if is_bot else "asked"


def _human_author(fields: Fields) -> IncomingAuthor:
    account = _id(fields, "author_id") or _id(fields, "user_id")
    if not account:
        raise MalformedRecord("no author")
    name = first_text(fields, "author_name", "user_name") or account
    return IncomingAuthor(
        account_id=account, name=name, kind="agent" if fields.get("author_is_bot") is True else "human"
    )


def _bot_author(fields: Fields, otherwise: str, *, is_author: bool) -> IncomingAuthor:
    """Return the bot; what a pair says of an author is about who asked."""
    named = first_text(fields, "bot_name", "character_name", *(["author_name"] if is_author else []))
    account = (_id(fields, "author_id") if is_author else "") or _id(fields, "bot_id")
    account = account or checked_id(named or otherwise, "the bot's name")
    return IncomingAuthor(account_id=account, name=named or account, kind="agent")


def _id(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise MalformedRecord("wrong type", f"{key} is {json_type(value)}, not an id")
    return checked_id(str(value), key)


def _sent(fields: Fields) -> tuple[datetime, TimestampPrecision, bool]:
    """Return the time, how finely it is told, and whether its zone had to be assumed."""
    value = fields.get("timestamp")
    if value is None:
        value = fields.get("timestamp_unix")
    if isinstance(value, str):
        moment = parse_iso_time(value, zone=UTC)
        return moment, iso_precision(value), datetime.fromisoformat(value).tzinfo is None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MalformedRecord("no time", f"timestamp is {json_type(value)}")
    in_seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
    seconds, part = divmod(in_seconds, 1)
    # A fraction of seconds is not exact to the microsecond; a millisecond is what tells question and answer apart.
    return unix_time(int(seconds), microseconds=round(part * 1000) * 1000), "ms", False


def _point_id(point: Fields) -> str:
    """Return the id of a point, which says nothing of what was said."""
    value = point.get("id")
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value)[:_LONGEST_POINT_ID] if is_id and value != "" else "unknown"


def _raw(point: Fields, without: frozenset[str]) -> Fields:
    payload = {key: value for key, value in object_field(point, "payload").items() if key not in without}
    if "metadata" in payload:
        inner = object_field(payload, "metadata")
        payload["metadata"] = {key: value for key, value in inner.items() if key not in without}
    return {"id": point.get("id"), "payload": payload}
