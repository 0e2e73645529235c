"""Imports ChatGPT's data export: `conversations.json`, its numbered parts, or the whole zip.

A conversation is a tree, because the person can edit a question and have an answer written again. All branches are
imported, and the parent of a message is its nearest imported ancestor. Messages outside the branch that ChatGPT shows
have `branch: other` in their platform metadata. Left out are hidden messages and the reasoning of the model.
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
    Sides,
    ancestors,
    assistant,
    depths,
    nearest,
    person,
    role_of,
    stated_time,
    tool,
    tool_call,
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
    as_object,
    as_record,
    build_or_skip,
    checked_id,
    first_text,
    json_type,
    non_empty,
    object_field,
    object_list,
    platform_metadata,
    required_id,
)

_NAME = "ChatGPT"
_OPENED = ("mapping",)
#: Ids of custom GPTs begin with the first, ids of projects also with the second.
_GPT, _PROJECT = "g-", "g-p-"
_REASONING = frozenset({"thoughts", "reasoning_recap"})
#: Instructions and stored facts about the person, which ChatGPT puts before the conversation.
_CONTEXT = frozenset({"user_editable_context", "model_editable_context"})
_POINTERS = ("asset_pointer", "audio_asset_pointer", "video_container_asset_pointer")


def _looks(record: Fields) -> bool:
    nodes = record.get("mapping")
    if not isinstance(nodes, list):
        return False
    first = as_object(as_list(nodes)[0]) if nodes else None
    return bool({"parent", "children"} & first.keys()) if first else "current_node" in record


_FORMAT = RecordFormat(looks=_looks, words=(b"mapping",), opened=_OPENED)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
    for file in conversation_files(source, _FORMAT):
        account = _account(source, file)
        for where, value in records(source, file):
            if isinstance(value, SkippedRecord):
                yield value
                continue
            try:
                conversation = _conversation(as_record(value), account)
            except MalformedRecord as error:
                yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
            else:
                yield from _messages(conversation, where)


def _account(source: ExportFiles, file: str) -> IncomingAuthor:
    """Return the person whose export this is, from the file `user.json` beside it."""
    for fields in companion(source, file, "user.json"):
        try:
            return person(first_text(fields, "id"), first_text(fields, "name", "email"))
        except MalformedRecord:
            break
    return person()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    """A conversation and its tree."""

    room: IncomingRoom
    sides: Sides
    nodes: Mapping[str, Any]
    parents: Mapping[str, str]
    #: The number of ancestors of each node.
    depths: Mapping[str, int]
    #: The nodes of the branch that ChatGPT shows; empty if the export does not name it.
    shown: frozenset[str]


def _conversation(fields: Fields, account: IncomingAuthor) -> _Conversation:
    nodes = as_object(fields.get("mapping"))
    if nodes is None:
        raise MalformedRecord(
            "not a conversation", f"mapping is {json_type(fields.get('mapping'))}, not an object"
        )
    gizmo = first_text(fields, "gizmo_id", "conversation_template_id")
    is_gpt = gizmo.startswith(_GPT) and not gizmo.startswith(_PROJECT)
    sides = Sides(person=account, assistant=assistant(gizmo, gizmo) if is_gpt else assistant(_NAME))
    external_id = first_text(fields, "conversation_id") or required_id(fields, "id", "no room")
    room = sides.room(
        external_id,
        first_text(fields, "title"),
        category=gizmo if gizmo.startswith(_PROJECT) else "",
    )
    parents = {key: first_text(as_object(node) or {}, "parent") for key, node in nodes.items()}
    leaf = first_text(fields, "current_node")
    shown = frozenset({leaf, *ancestors(leaf, parents)}) if leaf in nodes else frozenset[str]()
    return _Conversation(
        room=room, sides=sides, nodes=nodes, parents=parents, depths=depths(parents), shown=shown
    )


def _messages(conversation: _Conversation, where: str) -> Iterator[ParsedItem]:
    built: dict[str, IncomingMessage] = {}
    skipped: list[SkippedRecord] = []
    for number, (key, node) in enumerate(conversation.nodes.items(), start=1):
        place = f"{where} node {number}"
        # The root of a tree has no message.
        if as_object(node) is not None and node.get("message") is None:
            continue
        build = partial(_message, conversation=conversation, key=key, where=place)
        item = next(build_or_skip(node, place, build=build))
        if isinstance(item, SkippedRecord):
            skipped.append(item)
        else:
            built[key] = item
    yield from _linked(built, conversation)
    yield from skipped


def _linked(built: Mapping[str, IncomingMessage], conversation: _Conversation) -> Iterator[ParsedItem]:
    """Yield the messages with their parents, which are known only when it is known what is left out."""
    seen: set[str] = set()
    for key, message in built.items():
        if message.external_id in seen:
            yield SkippedRecord(where=message.where, reason="message twice")
            continue
        seen.add(message.external_id)
        parent = nearest(key, conversation.parents, built)
        yield replace(message, reply_to=built[parent].external_id) if parent else message


def _message(node: Fields, conversation: _Conversation, key: str, where: str) -> IncomingMessage:
    fields = as_record(node.get("message"))
    metadata = object_field(fields, "metadata")
    content = object_field(fields, "content")
    _require_visible(fields, metadata, content)
    sent_at, precision = stated_time(fields.get("create_time"))
    author_fields = object_field(fields, "author")
    role = role_of(first_text(author_fields, "role"))
    recipient = first_text(fields, "recipient")
    is_call = role == "assistant" and recipient not in {"", "all"}
    text = _text(content)
    attachments = list(_attachments(content, metadata))
    if is_call:
        attachments.insert(0, tool_call({"name": recipient, "arguments": text}))
    if not (text.strip() or attachments):
        raise MalformedRecord("no text")
    return IncomingMessage(
        platform="chatgpt",
        room=conversation.room,
        external_id=checked_id(first_text(fields, "id") or key, "the message's id"),
        author=tool(first_text(author_fields, "name")) if role == "tool" else conversation.sides.author(role),
        body="" if is_call else text,
        sent_at=sent_at,
        kind="system" if role == "system" else "message",
        precision=precision,
        order=conversation.depths[key],
        attachments=attachments,
        metadata=platform_metadata(
            model=first_text(metadata, "model_slug"),
            branch="other" if conversation.shown and key not in conversation.shown else "",
            content_type=_content_type(content),
            status="" if _is_finished(fields) else first_text(fields, "status"),
        ),
        raw=fields,
        where=where,
    )


def _require_visible(fields: Fields, metadata: Fields, content: Fields) -> None:
    """Raise MalformedRecord if ChatGPT does not show the message."""
    kind = first_text(content, "content_type")
    is_spoken = first_text(fields, "recipient") in {"", "all"}
    if kind in _REASONING or (is_spoken and first_text(fields, "channel") == "analysis"):
        raise MalformedRecord("reasoning of the model")
    if metadata.get("is_visually_hidden_from_conversation") is True or kind in _CONTEXT:
        raise MalformedRecord("hidden in the conversation")
    if fields.get("weight") == 0 and object_field(fields, "author").get("role") == "system":
        raise MalformedRecord("hidden in the conversation")


def _is_finished(fields: Fields) -> bool:
    return first_text(fields, "status") == "finished_successfully"


def _content_type(content: Fields) -> str:
    kind = first_text(content, "content_type")
    return "" if kind == "text" else kind


def _text(content: Fields) -> str:
    kind = first_text(content, "content_type")
    if kind == "tether_quote":
        return "\n".join(filter(None, (first_text(content, key) for key in ("title", "url", "text"))))
    parts = content.get("parts")
    if parts is not None:
        return "\n".join(filter(None, (_part_text(part) for part in as_list(parts))))
    return first_text(content, "text", "result", "content", "summary")


def _part_text(part: Any) -> str:
    """Return the words of a part: a text, or what was understood of speech."""
    return part if isinstance(part, str) else first_text(as_object(part) or {}, "text")


def _attachments(content: Fields, metadata: Fields) -> Iterator[dict[str, Any]]:
    """Yield the pictures and recordings of a message, then its other uploads."""
    uploads = {first_text(upload, "id"): upload for upload in object_list(metadata, "attachments")}
    for part in object_list(content, "parts"):
        pointer = first_text(part, *_POINTERS) or first_text(
            object_field(part, "audio_asset_pointer"), "asset_pointer"
        )
        if pointer:
            file = pointer.rpartition("/")[2]
            kind = first_text(part, "content_type")
            yield non_empty(
                type="photo" if kind == "image_asset_pointer" else "recording",
                name=first_text(uploads.pop(file, {}), "name") or file,
                id=file,
            )
    for file, upload in uploads.items():
        if name := first_text(upload, "name", "id"):
            yield non_empty(type="file", name=name, id=file, mime=first_text(upload, "mime_type"))


IMPORTER = Importer(
    name="chatgpt",
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"mapping"', '"current_node"', '"author"', '"content_type"', '"conversation_id"'),
)
