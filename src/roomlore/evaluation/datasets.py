"""Reads conversations with known answers from a folder of JSON lines.

A data set is `rooms`, `messages`, and what is known of them: `questions`, `context`, `links` or `conversations`,
each a `.jsonl` or `.jsonl.gz` file. A system under test gets rooms and messages only; the rest is for the scorer.
Fields that are not named here are left alone.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import later

Record = TypeVar("Record")

#: Time since 1970 as platforms write it, by the number of digits before the point: seconds, and parts of one.
_SINCE_1970 = later(r"(\d{9,10}|\d{12,13}|\d{15,16})(\.\d{1,9})?")
_PARTS_OF_A_SECOND = {9: 1, 10: 1, 12: 10**3, 13: 10**3, 15: 10**6, 16: 10**6}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRoom:
    """A room of a data set."""

    id: str
    dataset: str
    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMessage:
    """A message of a data set; inside a room they stand in the order of the room."""

    id: str
    room: str
    author_id: str
    author_name: str
    is_bot: bool
    #: Aware; times without a zone are read as UTC. None where the source has none.
    timestamp: datetime | None
    text: str
    reply_to: str | None
    #: The sitting it was said in, where the source tells.
    session: str | None
    #: Joins, leaves and the like.
    system: bool
    #: Names that the text addresses, where the source tells.
    mentions: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a room, with the messages that answer it."""

    id: str
    room: str
    question: str
    evidence_message_ids: Sequence[str]
    answer: str | None
    category: str
    #: False where the room does not hold the answer; evidence then only says what may mislead.
    answerable: bool
    #: The question is asked when this message was the last one.
    as_of_message_id: str | None
    asker_id: str | None
    #: Patterns that an answer needs.
    include: Sequence[str]
    #: Patterns that must not be shown.
    leak_targets: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A message to be answered, with the earlier messages that belong to it."""

    id: str
    room: str
    trigger_message_id: str
    #: Empty where the trigger starts a conversation.
    gold_context_ids: Sequence[str]
    gold_parent_ids: Sequence[str]
    #: What stands before this message is never judged.
    judged_from_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """That a message answers an earlier one of its room."""

    child: str
    parent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldConversation:
    """The judged messages of a room that people hold for one conversation."""

    room: str
    message_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """What people know of a data set and a system under test must not see; empty what was not asked for."""

    questions: Sequence[Question] = ()
    context: Sequence[ContextItem] = ()
    links: Sequence[Link] = ()
    conversations: Sequence[GoldConversation] = ()


class _Row:
    """One line's object; every getter raises BadInput that names the line and the field."""

    def __init__(self, where: str, fields: Mapping[str, Any]) -> None:
        self._where = where
        self._fields = fields

    def _wrong(self, name: str, wanted: str) -> BadInput:
        return BadInput(self._where, f"{name!r} is {'not ' + wanted if name in self._fields else 'missing'}")

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def flag_or_false(self, name: str) -> bool:
        return False if self._fields.get(name) is None else self.flag(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        items = cast("list[object]", value)
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(name, "a list of strings")
        return tuple(cast("list[str]", items))

    def texts_or_none(self, name: str) -> tuple[str, ...]:
        return () if self._fields.get(name) is None else self.texts(name)

    def label(self, name: str) -> str | None:
        """Return a string or a number as a string."""
        value = self._fields.get(name)
        return str(value) if isinstance(value, int) else self.text_or_none(name)

    def moment(self, name: str) -> datetime | None:
        """Return a time in UTC, of ISO 8601 or of a number of seconds, or parts of one, since 1970."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong(name, "a time")
        try:
            return _time_of(str(value))
        except (ValueError, OverflowError) as error:
            raise self._wrong(name, "a time") from error

    def inside(self, name: str) -> "_Row":
        """Return the object in a field, empty where there is none."""
        value = self._fields.get(name)
        if not isinstance(value, dict | None):
            raise self._wrong(name, "an object")
        return _Row(self._where, cast("dict[str, Any]", value or {}))


def _time_of(value: str) -> datetime:
    number = _SINCE_1970.fullmatch(value)
    if number is None:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    parts = _PARTS_OF_A_SECOND[len(number[1])]
    # In whole numbers: halves of a microsecond are nobody's, and floats would make some.
    fraction = (number[2] or ".")[1:].ljust(9, "0")
    nanoseconds = (int(number[1]) * 10**9 + int(fraction)) // parts
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)


def read_rooms(folder: Path) -> list[DatasetRoom]:
    """Return the rooms of a data set."""
    return _read(folder, "rooms", _room)


def read_messages(folder: Path) -> list[DatasetMessage]:
    """Return the messages of a data set, in the order of their rooms."""
    return _read(folder, "messages", _message)


def read_questions(folder: Path) -> list[Question]:
    """Return the questions of a data set, with their evidence."""
    return _read(folder, "questions", _question)


def read_context(folder: Path) -> list[ContextItem]:
    """Return the messages to be answered, with the context that belongs to them."""
    return _read(folder, "context", _context_item)


def read_links(folder: Path) -> list[Link]:
    """Return which message answers which, as people judged it."""
    return _read(folder, "links", _link)


def read_conversations(folder: Path) -> list[GoldConversation]:
    """Return the conversations of a data set, as people told them apart."""
    return _read(folder, "conversations", _conversation)


def check_files(folder: Path, task: str, names: Iterable[str]) -> None:
    """Do nothing if a data set has every file that a task needs.

    Raises:
        BadInput: One is missing; names it and the task.
    """
    for name in names:
        if not any(file.is_file() for file in _places(folder, name)):
            plain, packed = _places(folder, name)
            raise BadInput(
                str(folder), f"has neither {plain.name} nor {packed.name}, which the task {task} needs"
            )


def read_gold(folder: Path, names: Container[str]) -> Gold:
    """Return those of the gold labels of a data set that are named."""
    return Gold(
        questions=read_questions(folder) if "questions" in names else (),
        context=read_context(folder) if "context" in names else (),
        links=read_links(folder) if "links" in names else (),
        conversations=read_conversations(folder) if "conversations" in names else (),
    )


def _places(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"


def _read(folder: Path, name: str, make: Callable[[_Row], Record]) -> list[Record]:
    """Return the records of one file.

    Raises:
        BadInput: The file is missing or damaged, or a line is not such a record.
    """
    plain, packed = _places(folder, name)
    if not plain.is_file() and not packed.is_file():
        raise BadInput(str(folder), f"has neither {plain.name} nor {packed.name}")
    file = plain if plain.is_file() else packed
    return [make(_parsed(f"{file} line {number}", line)) for number, line in _lines(file) if line.strip()]


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            yield from enumerate(stream, 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(str(file), f"cannot be read ({error})") from error


def _parsed(where: str, line: bytes) -> _Row:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(where, "not JSON") from error
    if not isinstance(fields, dict):
        raise BadInput(where, "not an object")
    return _Row(where, cast("dict[str, Any]", fields))


def _room(row: _Row) -> DatasetRoom:
    return DatasetRoom(id=row.text("id"), dataset=row.text("dataset"), split=row.text("split"))


def _message(row: _Row) -> DatasetMessage:
    return DatasetMessage(
        id=row.text("id"),
        room=row.text("room"),
        author_id=row.text("author_id"),
        author_name=row.text("author_name"),
        is_bot=row.flag_or_false("is_bot"),
        timestamp=row.moment("timestamp"),
        text=row.text("text"),
        reply_to=row.text_or_none("reply_to"),
        session=row.label("session"),
        system=row.flag_or_false("system"),
        mentions=row.texts_or_none("mentions"),
    )


def _question(row: _Row) -> Question:
    extra = row.inside("extra")
    return Question(
        id=row.text("id"),
        room=row.text("room"),
        question=row.text("question"),
        evidence_message_ids=row.texts("evidence_message_ids"),
        answer=row.text_or_none("answer"),
        category=row.text("category"),
        answerable=row.flag("answerable"),
        as_of_message_id=row.text_or_none("as_of_message_id"),
        asker_id=row.text_or_none("asker_id"),
        include=extra.texts_or_none("include"),
        leak_targets=extra.texts_or_none("leak_targets"),
    )


def _context_item(row: _Row) -> ContextItem:
    return ContextItem(
        id=row.text("id"),
        room=row.text("room"),
        trigger_message_id=row.text("trigger_message_id"),
        gold_context_ids=row.texts("gold_context_ids"),
        gold_parent_ids=row.texts("gold_parent_ids"),
        judged_from_id=row.text("judged_from_id"),
    )


def _link(row: _Row) -> Link:
    return Link(child=row.text("child"), parent=row.text("parent"))


def _conversation(row: _Row) -> GoldConversation:
    return GoldConversation(room=row.text("room"), message_ids=row.texts("message_ids"))
