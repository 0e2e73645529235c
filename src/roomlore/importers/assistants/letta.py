"""Imports the messages of Letta's agent files (`.af`), and lists of messages of its server.

An agent has one conversation for each person; an agent file does not name the persons. Older agents speak by calling the
tool `send_message`, and the text beside the call is their reasoning. Older files wrap what the person wrote, and notices
of the program, into JSON. The memory blocks of an agent are no messages and are not imported.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from roomlore.domain.incoming import ParsedItem, SkippedRecord
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    Content,
    Role,
    plain_text,
    read_content,
    role_of,
    without_program_text,
)
from roomlore.importers.assistants.chat_records import RecordFormat, has_records, record_files, records
from roomlore.importers.assistants.chat_turns import Chat, Turn, chat_messages
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    as_record,
    first_text,
    object_field,
    object_list,
)

_PLATFORM = "letta"
_OPENED = ("agents.[].messages",)
_SPEAK = "send_message"
#: In the type of an agent that works in the background. Only the program talks to it.
_BACKGROUND = "sleeptime"
#: What a tool returns if it returns nothing.
_NOTHING = "None"
#: The types of messages of the server.
_TYPES: dict[str, Role] = {
    "user_message": "person",
    "assistant_message": "assistant",
    "tool_call_message": "assistant",
    "approval_request_message": "assistant",
    "tool_return_message": "tool",
    "system_message": "system",
    "reasoning_message": "assistant",
    "hidden_reasoning_message": "assistant",
}
_REASONING = frozenset({"reasoning_message", "hidden_reasoning_message"})


def _looks(record: Fields) -> bool:
    return (
        "agents.[].messages" in record
        or {"agent_type", "core_memory"} <= record.keys()
        or (first_text(record, "message_type") in _TYPES and "date" in record)
    )


_FORMAT = RecordFormat(looks=_looks, words=(b"agents", b"agent_type", b"message_type"), opened=_OPENED)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states its times
    for file in record_files(source, _FORMAT):
        stem = file.rpartition(".")[0] or file
        loose: list[Turn | SkippedRecord] = []
        for where, value in records(source, file):
            if isinstance(value, SkippedRecord):
                loose.append(value)
                continue
            try:
                fields = as_record(value)
                if "message_type" in fields:
                    loose.append(_server_turn(fields, where))
                else:
                    yield from _agents(fields, stem, where)
            except MalformedRecord as error:
                loose.append(SkippedRecord(where=where, reason=error.reason, detail=error.detail))
        yield from chat_messages(Chat(platform=_PLATFORM, external_id=stem), loose)


def _agents(fields: Fields, stem: str, where: str) -> Iterator[ParsedItem]:
    if "agents" not in fields and "messages" not in fields:
        raise MalformedRecord("not an agent")
    agents = object_list(fields, "agents") if "agents" in fields else [fields]
    for number, agent in enumerate(agents, start=1):
        name = first_text(agent, "name")
        has_person = _BACKGROUND not in first_text(agent, "agent_type")
        # In an agent file, ids are only numbered. So the name tells agents apart.
        room = f"{stem}/{name}" if name else f"{stem}/{number}"
        chat = Chat(platform=_PLATFORM, external_id=room, name=name)
        turns = [
            _turn_or_skip(item, name, f"{where} agent {number} message {n}", has_person=has_person)
            for n, item in enumerate(as_list(agent.get("messages")), start=1)
        ]
        yield from chat_messages(chat, turns)


def _turn_or_skip(value: Any, agent: str, where: str, *, has_person: bool) -> Turn | SkippedRecord:
    try:
        turn = _turn(as_record(value), agent, where)
        return turn if has_person or turn.role != "person" else replace(turn, role="system", name="")
    except MalformedRecord as error:
        return SkippedRecord(where=where, reason=error.reason, detail=error.detail)


def _turn(fields: Fields, agent: str, where: str) -> Turn:
    role = role_of(first_text(fields, "role"))
    given = fields["content"] if fields.get("content") is not None else fields.get("text")
    calls = object_list(fields, "tool_calls")
    spoken = [message for call in calls if (message := _spoken(call)) is not None]
    others = [call for call in calls if _spoken(call) is None]
    content = read_content(given, more=others)
    if spoken:
        content = replace(content, text="\n".join(spoken), has_reasoning=True)
    elif role == "person":
        role, content = _unwrapped(content)
    elif role == "tool":
        content = _returned(content, first_text(fields, "name"))
    name = first_text(fields, "name")
    return Turn(
        role=role,
        content=content,
        account=agent if role == "assistant" else "",
        name=agent if role == "assistant" else name,
        time=fields.get("created_at"),
        call=first_text(fields, "tool_call_id"),
        model=first_text(fields, "model"),
        raw=fields,
        where=where,
    )


def _spoken(call: Fields) -> str | None:
    """Return what an agent says with a call; None if the call is of another tool."""
    function = object_field(call, "function") or call
    if first_text(function, "name") != _SPEAK:
        return None
    given = function.get("arguments", {})
    told = _json_object(given) if isinstance(given, str) else as_object(given) or {}
    return first_text(told, "message")


def _unwrapped(content: Content) -> tuple[Role, Content]:
    """Return the words of the person without their wrapper. Other wrapped texts are notices of the program."""
    told = _json_object(content.text)
    kind = first_text(told, "type")
    if not kind or ("message" not in told and "time" not in told):
        own = without_program_text(content.text)
        if own == content.text:
            return "person", content
        return ("person", replace(content, text=own)) if own else ("system", content)
    text = first_text(told, "message", "reason") or kind
    return ("person" if kind == "user_message" else "system"), replace(content, text=text)


def _returned(content: Content, name: str) -> Content:
    """Return what a tool returned without its wrapper. A sent message returns nothing."""
    told = _json_object(content.text)
    if "status" not in told:
        return content
    if name == _SPEAK:
        return replace(content, text="")
    text = plain_text(told.get("message"))
    return replace(content, text="" if text == _NOTHING else text)


def _json_object(text: str) -> Fields:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        return as_object(json.loads(text)) or {}
    except (ValueError, RecursionError):
        return {}


def _server_turn(fields: Fields, where: str) -> Turn:
    kind = first_text(fields, "message_type")
    role = _TYPES.get(kind)
    if role is None:
        raise MalformedRecord("not a message")
    if kind in _REASONING:
        raise MalformedRecord("reasoning of the model")
    call = object_field(fields, "tool_call")
    spoken = _spoken(call) if call else None
    if role == "tool":
        content = Content(text=plain_text(fields.get("tool_return")))
    elif spoken is not None:
        content = Content(text=spoken)
    else:
        content = read_content(fields.get("content"), more=[{"function": call, **call}] if call else [])
    return Turn(
        role=role,
        content=content,
        name=first_text(fields, "name"),
        # A model's answer with calls becomes several messages with one id.
        id=f"{first_text(fields, 'id')}:{kind}" if first_text(fields, "id") else "",
        time=fields.get("date"),
        call=first_text(fields, "tool_call_id"),
        raw=fields,
        where=where,
    )


IMPORTER = Importer(
    name=_PLATFORM,
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=(
        '"agent_type"',
        '"core_memory"',
        '"in_context_message_ids"',
        '"tool_exec_environment_variables"',
        '"messages"',
    ),
)
