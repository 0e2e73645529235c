"""Imports Claude's data export: `conversations.json` with `users.json` beside it, or the whole zip.

A conversation lists its messages; newer exports also state the parent of each. All branches are imported. Without a
stated parent, a message is no reply. The reasoning of the model is left out. The text of an uploaded document is an
attachment, not the person's words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    Content,
    Sides,
    ancestors,
    assistant,
    nearest,
    person,
    read_content,
    result_id,
    role_of,
    stated_time,
    tool,
    without_results,
)
from roomlore.importers.assistants.chat_records import (
    RecordFormat,
    companion,
    conversation_files,
    has_records,
    records,
)
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_record,
    first_text,
    json_type,
    non_empty,
    object_field,
    object_list,
    platform_metadata,
    required_id,
)

_NAME = "Claude"
_OPENED = ("chat_messages",)


def _looks(record: Fields) -> bool:
    return isinstance(record.get("chat_messages"), list)


_FORMAT = RecordFormat(looks=_looks, words=(b"chat_messages",), opened=_OPENED)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
    for file in conversation_files(source, _FORMAT):
        names = _names(source, file)
        for where, value in records(source, file):
            if isinstance(value, SkippedRecord):
                yield value
                continue
            try:
                conversation = _conversation(as_record(value), names)
            except MalformedRecord as error:
                yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
            else:
                yield from _messages(conversation, where)


def _names(source: ExportFiles, file: str) -> dict[str, str]:
    """Return the names of the accounts in the file `users.json`."""
    users = companion(source, file, "users.json")
    return {
        first_text(user, "uuid"): first_text(user, "full_name", "display_name", "email_address")
        for user in users
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    """A conversation and the parents of its messages."""

    room: IncomingRoom
    sides: Sides
    messages: list[Any]
    parents: Mapping[str, str]
    #: The messages of the branch that Claude shows; empty if the export does not name it.
    shown: frozenset[str]
    model: str


def _conversation(fields: Fields, names: Mapping[str, str]) -> _Conversation:
    listed = fields.get("chat_messages")
    if not isinstance(listed, list):
        raise MalformedRecord("not a conversation", f"chat_messages is {json_type(listed)}, not a list")
    account = first_text(object_field(fields, "account"), "uuid")
    sides = Sides(person=_person(account, names), assistant=assistant(_NAME))
    project = object_field(fields, "project")
    room = sides.room(
        required_id(fields, "uuid", "no room"),
        first_text(fields, "name"),
        topic=first_text(fields, "summary"),
        category=first_text(project, "name"),
    )
    messages = object_list(fields, "chat_messages")
    ids = {first_text(message, "uuid") for message in messages}
    parents = {
        first_text(message, "uuid"): first_text(message, "parent_message_uuid") for message in messages
    }
    leaf = first_text(fields, "current_leaf_message_uuid")
    return _Conversation(
        room=room,
        sides=sides,
        messages=as_list(listed),
        parents=parents,
        shown=frozenset({leaf, *ancestors(leaf, parents)}) if leaf in ids else frozenset[str](),
        model=first_text(fields, "model"),
    )


def _person(account: str, names: Mapping[str, str]) -> IncomingAuthor:
    return person(account, names.get(account, ""))


def _messages(conversation: _Conversation, where: str) -> Iterator[ParsedItem]:
    built: dict[str, IncomingMessage] = {}
    others: list[ParsedItem] = []
    #: By the id of a call, the name of the tool and the id of the calling message.
    calls: dict[str, tuple[str, str]] = {}
    for number, value in enumerate(conversation.messages, start=1):
        place = f"{where} message {number}"
        try:
            fields = as_record(value)
            message, content = _message(fields, conversation, order=number, where=place)
        except MalformedRecord as error:
            others.append(SkippedRecord(where=place, reason=error.reason, detail=error.detail))
            continue
        if message.external_id in built:
            others.append(SkippedRecord(where=place, reason="message twice"))
            continue
        calls |= {call: (name, message.external_id) for call, name in content.calls.items()}
        results = list(_results(message, content, calls))
        if not content.is_empty:
            built[message.external_id] = message
        elif not results:
            reason = "reasoning of the model" if content.has_reasoning else "no text"
            others.append(SkippedRecord(where=place, reason=reason))
        others += results
    for key, message in built.items():
        yield replace(message, reply_to=nearest(key, conversation.parents, built))
    yield from others


def _message(
    fields: Fields, conversation: _Conversation, *, order: int, where: str
) -> tuple[IncomingMessage, Content]:
    external_id = required_id(fields, "uuid", "no id")
    content = _content(fields)
    sent_at, precision = stated_time(fields.get("created_at"))
    role = role_of(first_text(fields, "sender"))
    message = IncomingMessage(
        platform="claude",
        room=conversation.room,
        external_id=external_id,
        author=conversation.sides.author(role),
        body=content.text,
        sent_at=sent_at,
        kind="system" if role == "system" else "message",
        precision=precision,
        order=order,
        attachments=content.attachments,
        metadata=platform_metadata(
            model=conversation.model if role == "assistant" else "",
            branch="other" if conversation.shown and external_id not in conversation.shown else "",
            truncated=fields.get("truncated") is True,
        ),
        raw={**fields, "content": without_results(fields.get("content"))},
        where=where,
    )
    return message, content


def _content(fields: Fields) -> Content:
    """Return the content. Older exports have no blocks, and the text is in `text`."""
    content = read_content(fields.get("content"))
    if not (content.text or content.calls or content.results or content.has_reasoning):
        text = fields.get("text")
        content = replace(content, text=text if isinstance(text, str) else "")
    return replace(content, attachments=[*content.attachments, *_uploads(fields)])


def _uploads(fields: Fields) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for upload in object_list(fields, "attachments"):
        seen.add(first_text(upload, "file_name"))
        yield non_empty(
            type="document",
            name=first_text(upload, "file_name"),
            text=first_text(upload, "extracted_content"),
            mime=first_text(upload, "file_type"),
        )
    for upload in (*object_list(fields, "files"), *object_list(fields, "files_v2")):
        name = first_text(upload, "file_name", "file_uuid")
        if name and name not in seen:
            seen.add(name)
            yield non_empty(type="file", name=name, id=first_text(upload, "file_uuid"))


def _results(
    message: IncomingMessage, content: Content, calls: Mapping[str, tuple[str, str]]
) -> Iterator[IncomingMessage]:
    """Yield the results of tools as messages by the tools. They answer the message with the call."""
    for number, result in enumerate(content.results, start=1):
        if result.text.strip():
            name, caller = calls.get(result.call, ("", ""))
            yield replace(
                message,
                external_id=result_id(message.external_id, number),
                author=tool(result.name or name),
                body=result.text,
                attachments=(),
                synthetic_id=True,
                reply_to=caller or None,
                raw=non_empty(tool_use_id=result.call, name=result.name, content=result.text),
            )


IMPORTER = Importer(
    name="claude",
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"chat_messages"', '"sender"', '"uuid"', '"human"', '"account"'),
)
