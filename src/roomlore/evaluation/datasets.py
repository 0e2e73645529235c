"""Reads conversations with known answers from a folder of JSON lines.

A data set is `rooms`, `messages`, and what is asked of them: `questions` or `context`, each a `.jsonl` or
`.jsonl.gz` file. A system under test gets rooms and messages only; the rest is for the scorer.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from roomlore.domain.errors import BadInput

Record = TypeVar("Record")


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
        value = self.text_or_none(name)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise self._wrong(name, "a time") from error
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)

    def inside(self, name: str) -> "_Row":
        """Return the object in a field, empty where there is none."""
        value = self._fields.get(name)
        if not isinstance(value, dict | None):
            raise self._wrong(name, "an object")
        return _Row(self._where, cast("dict[str, Any]", value or {}))


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


def _read(folder: Path, name: str, make: Callable[[_Row], Record]) -> list[Record]:
    """Return the records of one file.

    Raises:
        BadInput: The file is missing or damaged, or a line is not such a record.
    """
    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
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
        is_bot=row.flag("is_bot"),
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
