"""Imports chats in the forms of OpenAI's programming interfaces.

- Conversations: objects with `messages`, one on each line or in a list, as in files for fine-tuning.
- One conversation for each file: a list or lines of messages and items, as stored by sessions of agents.
- A response of the server that lists the messages of a thread, with times.

The first two forms have no times, so the caller names a day, unless there is a `created_at`.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from roomlore.domain.incoming import ParsedItem, SkippedRecord
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    ROLES,
    DerivedIds,
    Role,
    read_content,
    role_of,
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
    object_list,
)

_PLATFORM = "openai"
#: Members of an object that hold the messages of a conversation.
_LISTS = ("messages", "items", "data")
_TIMES = ("created_at", "created", "timestamp")
_ROOMS = ("conversation_id", "thread_id", "session_id", "id")
_ITEMS = frozenset({
    "function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output",
    "web_search_call", "file_search_call", "computer_call", "computer_call_output", "code_interpreter_call",
    "image_generation_call", "local_shell_call", "local_shell_call_output", "mcp_call", "mcp_list_tools",
})  # fmt: skip
#: Keys of the first line of an old log of an agent, which describes the session.
_SESSION = frozenset({"id", "timestamp", "instructions"})
#: Keys by which messages of other formats are known.
_FOREIGN = frozenset({"uuid", "role_type", "date", "message_type", "payload", "message", "lc"})


def _looks(record: Fields) -> bool:
    if {"agent_type", "agents", "schema"} & record.keys():
        return False
    if _is_item(record):
        return True
    return any(_is_item(item) for key in _LISTS for item in object_list(record, key)[:1])


def _is_item(fields: Fields) -> bool:
    """Return whether an object is a message or another item of a conversation."""
    if _FOREIGN & fields.keys():
        return False
    kind = fields.get("type")
    if isinstance(kind, str) and kind in _ITEMS:
        return bool({"id", "call_id", "arguments", "summary", "output"} & fields.keys())
    role = fields.get("role")
    is_role = isinstance(role, str) and role.casefold() in ROLES
    return is_role and bool({"content", "tool_calls", "function_call"} & fields.keys())


_FORMAT = RecordFormat(looks=_looks, words=(b'"role"', b'"call_id"', b'"arguments"'), opened=_LISTS)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    for file in record_files(source, _FORMAT):
        stem = file.rpartition(".")[0] or file
        ids = DerivedIds()
        loose: list[Turn | SkippedRecord] = []
        session: Fields = {}
        for where, value in records(source, file):
            if isinstance(value, SkippedRecord):
                loose.append(value)
                continue
            try:
                fields = as_record(value)
                key = next((key for key in _LISTS if key in fields), "")
                if fields.keys() >= _SESSION:
                    session = fields
                elif key:
                    yield from _conversation(fields, key, options, stem=stem, ids=ids, where=where)
                else:
                    loose.append(_turn(fields, where))
            except MalformedRecord as error:
                loose.append(SkippedRecord(where=where, reason=error.reason, detail=error.detail))
        if loose:
            chat = Chat(
                platform=_PLATFORM,
                external_id=first_text(session, "id") or stem,
                begins=first_moment(session.get("timestamp"), options),
            )
            yield from chat_messages(chat, loose)


def _conversation(
    fields: Fields, key: str, options: ReadOptions, *, stem: str, ids: DerivedIds, where: str
) -> Iterator[ParsedItem]:
    listed = fields[key]
    if not isinstance(listed, list):
        raise MalformedRecord("not a conversation", f"{key} is {json_type(listed)}, not a list")
    entries = [_turn_or_skip(item, f"{where} message {n}") for n, item in enumerate(as_list(listed), 1)]
    person = first_text(fields, "user")
    entries = [
        replace(entry, account=person)
        if isinstance(entry, Turn) and entry.role == "person" and person and not entry.account
        else entry
        for entry in entries
    ]
    room = first_text(fields, *_ROOMS) or _thread(listed) or f"{stem}:{ids.of(_beginning(entries))}"
    begins = next((fields[one] for one in _TIMES if one in fields), None)
    chat = Chat(
        platform=_PLATFORM,
        external_id=room,
        name=first_text(fields, "title", "name"),
        begins=first_moment(begins, options),
    )
    yield from chat_messages(chat, entries)


def _thread(listed: Any) -> str:
    return next((first_text(as_object(item) or {}, "thread_id") for item in as_list(listed)[:1]), "")


def _beginning(entries: list[Turn | SkippedRecord]) -> str:
    """Return the words up to the first of the person. They stay the same when a conversation goes on."""
    told: list[str] = []
    for entry in entries:
        if isinstance(entry, Turn):
            told.append(f"{entry.role}\0{entry.content.text}")
            if entry.role == "person":
                break
    return hashlib.sha256("\0".join(told).encode("utf-8", "replace")).hexdigest()


def _turn_or_skip(value: Any, where: str) -> Turn | SkippedRecord:
    try:
        return _turn(as_record(value), where)
    except MalformedRecord as error:
        return SkippedRecord(where=where, reason=error.reason, detail=error.detail)


def _turn(fields: Fields, where: str) -> Turn:
    """Return a message or another item as a turn. Raises MalformedRecord if it is neither."""
    if "record_type" in fields:
        raise MalformedRecord("not a message")
    kind = first_text(fields, "type")
    is_item = kind in _ITEMS
    if is_item:
        content = read_content([_as_known_block(fields, kind)])
        role: Role = "assistant"
    else:
        role = role_of(first_text(fields, "role"))
        old_call = fields.get("function_call")
        more = [*object_list(fields, "tool_calls"), *([{"function": old_call}] if old_call else [])]
        content = read_content(fields.get("content"), more=more)
    name = "" if is_item else first_text(fields, "name")
    return Turn(
        role=role,
        content=content,
        name=name,
        id=first_text(fields, "id"),
        time=next((fields[key] for key in _TIMES if key in fields), None),
        call=first_text(fields, "tool_call_id"),
        model=first_text(fields, "model"),
        raw={**fields, "content": without_results(fields.get("content"))} if "content" in fields else fields,
        where=where,
    )


def _as_known_block(fields: Fields, kind: str) -> Fields:
    """Return an item as a call, a result or reasoning. A call of a built-in tool is named after its type."""
    if kind == "reasoning":
        return fields
    if kind.endswith("_output"):
        return {**fields, "type": "function_call_output"}
    name = first_text(fields, "name") or kind.removesuffix("_call")
    return {**fields, "type": "function_call", "name": name}


IMPORTER = Importer(
    name=_PLATFORM,
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"messages"', '"role"', '"content"', '"tool_calls"', '"input_text"'),
)
