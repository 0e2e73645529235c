"""Reads data sets: folders of JSON lines with messages and the known answers about them.

A data set has `messages`, and some of `questions`, `context`, `links` and `conversations`, each in a `.jsonl` or
`.jsonl.gz` file. The system under test sees messages only; the rest is for the scorer. Unknown fields are ignored.
"""

import gzip
import json
import random
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern

Record = TypeVar("Record")
Fields = dict[str, Any]

#: Time since 1970, by the number of digits before the point: seconds, milliseconds or microseconds.
_SINCE_1970 = lazy_pattern(r"(\d{9,10}|\d{12,13}|\d{15,16})(\.\d{1,9})?")
_UNITS_PER_SECOND = {9: 1, 10: 1, 12: 10**3, 13: 10**3, 15: 10**6, 16: 10**6}
#: Negatives are drawn the same way each time.
_SEED = 20_260_101


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMessage:
    """A message. The messages of a room stand in the order of the room."""

    id: str
    room: str
    author_id: str
    author_name: str
    is_bot: bool = False
    #: In UTC; None where the source has none.
    timestamp: datetime | None = None
    text: str
    reply_to: str | None = None
    #: A notice of the platform, such as a join.
    system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a room, with the messages that answer it."""

    id: str
    room: str
    question: str
    evidence_message_ids: tuple[str, ...]
    category: str
    #: False where the room does not hold the answer; the evidence then only says what may mislead.
    answerable: bool
    #: The question is asked when this message is the last one; None asks at the end.
    as_of_message_id: str | None = None
    asker_id: str | None = None
    #: Patterns that an answer needs.
    include: tuple[str, ...] = ()
    #: Patterns that must not be shown.
    leak_targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A trigger: a message to be answered, with the earlier messages that belong to it."""

    trigger_message_id: str
    room: str
    #: Empty where the trigger starts a conversation.
    gold_context_ids: tuple[str, ...]
    gold_parent_ids: tuple[str, ...]
    #: Messages before this one are not judged.
    judged_from_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A message and an earlier one that it answers."""

    child: str
    parent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldConversation:
    """Judged messages of a room that people see as one conversation."""

    room: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """The gold labels of a data set, which the system under test does not see; those not asked for are empty."""

    questions: Sequence[Question] = ()
    context: Sequence[ContextItem] = ()
    links: Sequence[Link] = ()
    conversations: Sequence[GoldConversation] = ()


def read_messages(folder: Path) -> list[DatasetMessage]:
    """Return the messages of a data set, in the order of their rooms."""
    return _read(folder, "messages", DatasetMessage, _with_timestamp)


def read_questions(folder: Path) -> list[Question]:
    """Return the questions of a data set, with their evidence."""
    return _read(folder, "questions", Question, _with_patterns)


def read_context(folder: Path) -> list[ContextItem]:
    """Return the triggers of a data set, with the context that belongs to them."""
    return _read(folder, "context", ContextItem)


def read_links(folder: Path) -> list[Link]:
    """Return which message answers which, as people judged it."""
    return _read(folder, "links", Link)


def read_conversations(folder: Path) -> list[GoldConversation]:
    """Return the conversations of a data set, as people judged them."""
    return _read(folder, "conversations", GoldConversation)


def read_gold(folder: Path, names: Container[str]) -> Gold:
    """Return the gold labels of the named files."""
    return Gold(
        questions=read_questions(folder) if "questions" in names else (),
        context=read_context(folder) if "context" in names else (),
        links=read_links(folder) if "links" in names else (),
        conversations=read_conversations(folder) if "conversations" in names else (),
    )


def check_files(folder: Path, task: str, names: Iterable[str]) -> None:
    """Raise BadInput if a file that a task needs is missing."""
    for name in names:
        if _file(folder, name) is None:
            raise BadInput(
                str(folder), f"has neither {name}.jsonl nor {name}.jsonl.gz, which the task {task} needs"
            )


def has_file(folder: Path, name: str) -> bool:
    """Return whether a data set has the named file."""
    return _file(folder, name) is not None


def negatives(questions: Sequence[Question], *, most: int | None = None) -> list[Question]:
    """Return answerable questions, each moved to a random other room, which cannot answer it.

    The same questions give the same negatives. They are asked at the end of the room. There are none of one room.

    `most` limits them to a random sample; None moves all.
    """
    chance = random.Random(_SEED)  # noqa: S311  a repeatable draw, not a secret
    rooms = sorted({question.room for question in questions})
    answerable = [question for question in questions if question.answerable]
    if not answerable or not rooms[1:]:
        return []
    if most is not None and len(answerable) > most:
        answerable = chance.sample(answerable, most)
    return [
        replace(
            question,
            room=chance.choice([room for room in rooms if room != question.room]),
            as_of_message_id=None,
        )
        for question in answerable
    ]


def _file(folder: Path, name: str) -> Path | None:
    files = (folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz")
    return next((file for file in files if file.is_file()), None)


def _read(
    folder: Path, name: str, record: type[Record], prepare: Callable[[Fields], None] = lambda _: None
) -> list[Record]:
    """Return the records of one file.

    Raises:
        BadInput: The file is missing or damaged, or a line is not such a record.
    """
    file = _file(folder, name)
    if file is None:
        raise BadInput(str(folder), f"has neither {name}.jsonl nor {name}.jsonl.gz")
    return [
        _parsed(f"{file} line {number}", line, record, prepare)
        for number, line in _lines(file)
        if line.strip()
    ]


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            yield from enumerate(stream, 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(str(file), f"cannot be read ({error})") from error


def _parsed(where: str, line: bytes, record: type[Record], prepare: Callable[[Fields], None]) -> Record:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(where, "not JSON") from error
    if not isinstance(parsed, dict):
        raise BadInput(where, "not an object")
    # A field that is null is missing.
    fields = {name: value for name, value in cast("Fields", parsed).items() if value is not None}
    try:
        prepare(fields)
        return msgspec.convert(fields, record)
    except (ValueError, OverflowError) as error:
        raise BadInput(where, str(error)) from error


def _with_timestamp(fields: Fields) -> None:
    if "timestamp" in fields:
        fields["timestamp"] = _time_of(fields["timestamp"])


def _with_patterns(fields: Fields) -> None:
    extra = msgspec.convert(fields.get("extra", {}), Fields)
    fields |= {name: extra[name] for name in ("include", "leak_targets") if extra.get(name) is not None}


def _time_of(value: object) -> datetime:
    """Return a time in UTC, of ISO 8601 or of a number of seconds, milliseconds or microseconds since 1970.

    A time without a zone is in UTC.
    """
    number = _SINCE_1970.fullmatch(str(value))
    try:
        if number is None:
            moment = datetime.fromisoformat(str(value))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        # Floats would make up parts of a microsecond.
        fraction = (number[2] or ".")[1:].ljust(9, "0")
        nanoseconds = (int(number[1]) * 10**9 + int(fraction)) // _UNITS_PER_SECOND[len(number[1])]
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"`timestamp` is not a time: {value!r}") from error
