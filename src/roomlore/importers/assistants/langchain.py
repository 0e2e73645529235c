"""Imports messages of LangChain and checkpoints of LangGraph: lists, lines, states and histories of threads.

Rows of a table of chat histories, with `session_id` and `message`, are read, too.

A message states no time. A checkpoint does, so a message gets the time of the earliest checkpoint in the file that
contains it, and its platform metadata has `time: checkpoint`. Without checkpoints, the caller names a day.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roomlore.domain.incoming import ParsedItem, SkippedRecord
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    DerivedIds,
    Role,
    read_content,
    time_or_assumed,
    without_results,
)
from roomlore.importers.assistants.chat_records import RecordFormat, has_records, record_files, records
from roomlore.importers.assistants.chat_turns import Chat, Turn, chat_messages, first_moment
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    as_record,
    first_text,
    json_type,
    object_field,
    object_list,
)

_PLATFORM = "langchain"
#: Where messages are in a record.
_PATHS = ("messages", "values.messages", "channel_values.messages", "checkpoint.channel_values.messages")
_ROLES: dict[str, Role] = {
    "human": "person",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_CHUNK = "MessageChunk"


def _looks(record: Fields) -> bool:
    if _is_message(record) or _is_row(record):
        return True
    listed = (object_list(record, path)[:1] for path in _PATHS)
    return any(_is_message(item) for items in listed for item in items)


def _is_message(fields: Fields) -> bool:
    if fields.get("type") == "constructor":
        return _class_name(fields).endswith(("Message", _CHUNK)) and isinstance(fields.get("kwargs"), dict)
    kind = _kind(first_text(fields, "type"))
    if isinstance(fields.get("data"), dict):
        return kind in _ROLES and "content" in object_field(fields, "data")
    details = {"additional_kwargs", "response_metadata"} & fields.keys()
    return "content" in fields and (kind in {"human", "ai"} or (kind in _ROLES and bool(details)))


def _is_row(fields: Fields) -> bool:
    return _is_message(object_field(fields, "message"))


def _class_name(fields: Fields) -> str:
    path = as_list(fields.get("id"))
    return path[-1] if path and isinstance(path[-1], str) else ""


def _kind(name: str) -> str:
    """Return the type of a message from its type or class: `ai` for `AIMessageChunk`."""
    return name.removesuffix("Chunk").removesuffix("Message").casefold()


@dataclass(slots=True)
class _Message:
    """A message, and the earliest checkpoint that contains it."""

    position: int
    value: Any
    where: str
    time: Any = None
    #: What the time is the time of, if it is not that of the message.
    time_of: str = ""


@dataclass(slots=True, kw_only=True)
class _Thread:
    """A thread, put together from its checkpoints."""

    external_id: str
    person: str = ""
    messages: dict[str, _Message] = field(default_factory=dict[str, _Message])

    def add(self, listed: list[Any], time: Any, where: str) -> None:
        """Add the messages of a checkpoint. `time` is None without a checkpoint."""
        ids = DerivedIds()
        for number, value in enumerate(listed, start=1):
            key = _message_id(value) or ids.of(repr(value))
            known = self.messages.get(key)
            if known is None:
                self.messages[key] = _Message(
                    number, value, f"{where} message {number}", time, "checkpoint" if time else ""
                )
            elif _is_earlier(time, known.time):
                known.time = time


def _message_id(value: Any) -> str:
    fields = as_object(value) or {}
    inner = object_field(fields, "kwargs") or object_field(fields, "data") or fields
    return first_text(inner, "id")


def _is_earlier(one: Any, other: Any) -> bool:
    try:
        return time_or_assumed(one)[0] < time_or_assumed(other)[0]
    except MalformedRecord:
        return False


_FORMAT = RecordFormat(
    looks=_looks, words=(b'"human"', b'"ai"', b'"system"', b'"tool"', b'Message"', b'Chunk"'), opened=_PATHS
)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    for file in record_files(source, _FORMAT):
        stem = file.rpartition(".")[0] or file
        threads: dict[str, _Thread] = {}
        for number, (where, value) in enumerate(records(source, file), start=1):
            if isinstance(value, SkippedRecord):
                yield value
                continue
            try:
                fields = as_record(value)
                if _is_message(fields) or _is_row(fields):
                    _add_single(threads, fields, stem, _Message(number, fields, where))
                else:
                    _add_snapshot(threads, fields, stem, where)
            except MalformedRecord as error:
                yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
        for thread in threads.values():
            yield from _thread_messages(thread, options)


def _add_single(threads: dict[str, _Thread], fields: Fields, stem: str, message: _Message) -> None:
    """Add a message, or a row of a table with a message and perhaps its time."""
    room = stem
    if _is_row(fields):
        room = first_text(fields, "session_id") or stem
        message.value = fields["message"]
        message.time = fields.get("created_at")
    thread = threads.setdefault(room, _Thread(external_id=room))
    thread.messages[f"{message.position}"] = message


def _add_snapshot(threads: dict[str, _Thread], fields: Fields, stem: str, where: str) -> None:
    checkpoint = object_field(fields, "checkpoint")
    holder = next(
        (
            one
            for one in (
                object_field(fields, "values"),
                object_field(fields, "channel_values"),
                object_field(checkpoint, "channel_values"),
                fields,
            )
            if "messages" in one
        ),
        None,
    )
    if holder is None:
        raise MalformedRecord("no messages")
    listed = holder["messages"]
    if not isinstance(listed, list):
        raise MalformedRecord("not a conversation", f"messages is {json_type(listed)}, not a list")
    config = object_field(object_field(fields, "config"), "configurable")
    room = first_text(fields, "thread_id") or first_text(config, "thread_id")
    room = room or first_text(checkpoint, "thread_id") or stem
    thread = threads.setdefault(room, _Thread(external_id=room))
    thread.person = thread.person or first_text(config, "user_id", "langgraph_auth_user_id")
    time = first_text(fields, "created_at", "ts") or first_text(checkpoint, "ts") or None
    thread.add(as_list(listed), time, where)


def _thread_messages(thread: _Thread, options: ReadOptions) -> Iterator[ParsedItem]:
    entries = [_turn_or_skip(message, thread.person) for message in _ordered(thread)]
    chat = Chat(platform=_PLATFORM, external_id=thread.external_id, begins=first_moment(None, options))
    yield from chat_messages(chat, entries)


def _ordered(thread: _Thread) -> list[_Message]:
    """Return the messages by the checkpoint that first contains them, then by their position in it."""

    def place(message: _Message) -> tuple[float, int]:
        try:
            return time_or_assumed(message.time)[0].timestamp(), message.position
        except MalformedRecord:
            return 0.0, message.position

    return sorted(thread.messages.values(), key=place)


def _turn_or_skip(message: _Message, person: str) -> Turn | SkippedRecord:
    try:
        return _turn(as_record(message.value), message, person)
    except MalformedRecord as error:
        return SkippedRecord(where=message.where, reason=error.reason, detail=error.detail)


def _turn(fields: Fields, message: _Message, person: str) -> Turn:
    """Return a message as a turn. Its fields are in `kwargs`, in `data`, or in the message itself."""
    inner = object_field(fields, "kwargs") or object_field(fields, "data") or fields
    is_constructor = fields.get("type") == "constructor"
    name = _class_name(fields) if is_constructor else first_text(fields, "type")
    role = _ROLES.get(_kind(name))
    if role is None:
        raise MalformedRecord("not a message")
    calls = object_list(inner, "tool_calls") or object_list(
        object_field(inner, "additional_kwargs"), "tool_calls"
    )
    more = [{**call, "type": "tool_call"} for call in calls]
    stated = first_text(inner, "name")
    return Turn(
        role=role,
        content=read_content(inner.get("content"), more=more),
        account=person if role == "person" else "",
        name=stated,
        id=first_text(inner, "id"),
        time=message.time,
        time_of=message.time_of,
        call=first_text(inner, "tool_call_id"),
        model=first_text(object_field(inner, "response_metadata"), "model_name", "model"),
        raw={**inner, "type": _kind(name), "content": without_results(inner.get("content"))},
        where=message.where,
    )


IMPORTER = Importer(
    name=_PLATFORM,
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"channel_values"', '"checkpoint"', '"thread_id"', "langchain_core", '"human"'),
)
