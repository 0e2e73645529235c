"""Imports Telegram Desktop's `result.json`: one chat, or a full export.

Pitfalls: text is a string or a list. Message ids are unique only in a chat. Chats of different types may share a
number. Bots are not marked. Older files have only local times. Forwarded text is not the text of the person who
forwards it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    RoomKind,
    SkippedRecord,
    Visibility,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    add_author,
    as_list,
    as_object,
    build_or_skip,
    checked_id,
    direct_members,
    first_text,
    integer_field,
    json_type,
    non_empty,
    object_field,
    object_list,
    parse_iso_time,
    parse_optional_time,
    platform_metadata,
    reaction,
    unix_time,
)
from roomlore.importers.reading.json_stream import (
    ITEM,
    FileStart,
    JsonPath,
    JsonShape,
    JsonStep,
    has_export,
    json_exports,
    skipped_fault,
    walk_file,
)

#: Media types in words.
_MEDIA_KINDS = {
    "sticker": "sticker",
    "animation": "animation",
    "video_message": "video",
    "voice_message": "voice message",
    "audio_file": "audio",
    "video_file": "video",
}


def is_forward(fields: Fields) -> bool:
    """Return whether a message forwards another one. A forwarding message has no text of its own."""
    return "forwarded_from" in fields and fields.get("type") != "service"


def text_of(fields: Fields) -> str:
    """Return the text. For a service message, this is the event; for a poll, the question."""
    text = "".join(_text_pieces(fields))
    if text:
        return text
    if fields.get("type") == "service":
        return _service_line(fields)
    return _flat_text(object_field(fields, "poll").get("question"))


def _text_pieces(fields: Fields) -> Iterator[str]:
    value = fields.get("text")
    if value is None:
        return
    for piece in as_list(value) if isinstance(value, list) else [value]:
        inner = as_object(piece)
        text = piece if inner is None else inner.get("text")
        if not isinstance(text, str):
            raise MalformedRecord("wrong type", f"a piece of the text is {json_type(text)}")
        yield text


def _flat_text(value: Any) -> str:
    """Return a text that may be in pieces."""
    pieces = [first_text(inner, "text") if (inner := as_object(piece)) else piece for piece in as_list(value)]
    return value if isinstance(value, str) else "".join(piece for piece in pieces if isinstance(piece, str))


def _service_line(fields: Fields) -> str:
    """Describe a service message, which has no text."""
    action = first_text(fields, "action").replace("_", " ")
    names = [name for name in as_list(fields.get("members")) if isinstance(name, str)]
    details = ", ".join([*names, *filter(None, [first_text(fields, "title", "new_title")])])
    return f"{action}: {details}" if details else action


def mentions(fields: Fields) -> list[str]:
    """Return the accounts that are mentioned by id. Plain @names are text."""
    if is_forward(fields):
        return []
    found = [
        f"user{item['user_id']}" for item in _entities(fields) if integer_field(item, "user_id") is not None
    ]
    return list(dict.fromkeys(found))


def links(fields: Fields) -> list[str]:
    """Return the addresses of links."""
    return [item["href"] for item in _entities(fields) if first_text(item, "href")]


def _entities(fields: Fields) -> list[Fields]:
    return object_list(fields, "text_entities") or object_list(fields, "text")


def poll(fields: Fields) -> dict[str, Any]:
    """Return a poll, or an empty object."""
    poll_fields = object_field(fields, "poll")
    answers = [_flat_text(answer.get("text")) for answer in object_list(poll_fields, "answers")]
    return non_empty(question=_flat_text(poll_fields.get("question")), answers=answers)


def attachments(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield the forwarded text and the files."""
    if not is_forward(fields):
        yield from _files(fields)
        return
    yield {"type": "forward"} | non_empty(text=text_of(fields), author=first_text(fields, "forwarded_from"))
    for item in _files(fields):
        yield item | {"forwarded": True}


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    yield from _non_file_parts(fields)
    if first_text(fields, "photo"):
        yield {"type": "photo"} | _file_of(fields, "photo", "photo_file_size")
    if first_text(fields, "file"):
        media = first_text(fields, "media_type")
        type_ = media if media in _MEDIA_KINDS else first_text(fields, "mime_type", "media_type")
        sung = " - ".join(filter(None, (first_text(fields, "performer"), first_text(fields, "title"))))
        about = non_empty(
            type=_MEDIA_KINDS.get(media, type_), emoji=first_text(fields, "sticker_emoji"), title=sung
        )
        yield about | _file_of(fields, "file", "file_size")


def _non_file_parts(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield polls, contacts, locations, games and the like."""
    poll_parts = poll(fields)
    if poll_parts:
        yield {"type": "poll"} | non_empty(name=poll_parts.get("question"), options=poll_parts.get("answers"))
    contact = object_field(fields, "contact_information")
    if contact:
        full = " ".join(filter(None, (first_text(contact, "first_name"), first_text(contact, "last_name"))))
        yield {"type": "contact"} | non_empty(name=full, text=first_text(contact, "phone_number"))
    place = object_field(fields, "location_information")
    if place:
        where = ", ".join(str(place[key]) for key in ("latitude", "longitude") if _is_degree(place.get(key)))
        place_facts = non_empty(
            name=first_text(fields, "place_name"), title=first_text(fields, "address"), text=where
        )
        yield {"type": "location"} | place_facts
    for kind, key, about in (("game", "game_title", "game_description"), ("story", "story_title", "")):
        if first_text(fields, key):
            yield {"type": kind} | non_empty(name=first_text(fields, key), text=first_text(fields, about))
    for kind in ("invoice", "todo_list", "giveaway_information"):
        details = object_field(fields, f"{kind}_information") or object_field(fields, kind)
        if details:
            texts = [first_text(answer, "text") for answer in object_list(details, "answers")]
            about = non_empty(
                name=first_text(details, "title", "additional_prize"),
                text=first_text(details, "description"),
                options=texts,
            )
            yield {"type": kind.removesuffix("_information").replace("_", " ")} | about


def _is_degree(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _file_of(fields: Fields, key: str, size: str) -> dict[str, Any]:
    """Return name, path and size of a file.

    If the file was not exported, Telegram writes a sentence in brackets in place of the path.
    """
    path = first_text(fields, key)
    missing = path.startswith("(")
    name = first_text(fields, "file_name") if key == "file" else ""
    return non_empty(
        name=name or ("" if missing else PurePosixPath(path).name),
        url="" if missing else path,
        missing=missing,
        size=integer_field(fields, size),
    )


def reactions(fields: Fields) -> list[dict[str, Any]]:
    """Return reactions with their counts and known givers."""
    return [
        reaction(
            item,
            first_text(item, "emoji", "document_id"),
            [
                giver["from_id"]
                for giver in object_list(item, "recent")
                if isinstance(giver.get("from_id"), str)
            ],
        )
        for item in object_list(fields, "reactions")
    ]


_LISTS = (("chats", "list"), ("left_chats", "list"))
_CHATS: frozenset[JsonPath] = frozenset({(), *((*place, ITEM) for place in _LISTS)})
_SPINE: JsonShape = {
    (): "object",
    ("messages",): "list",
    ("chats",): "object",
    ("chats", "list"): "list",
    ("chats", "list", ITEM): "object",
    ("chats", "list", ITEM, "messages"): "list",
    ("left_chats",): "object",
    ("left_chats", "list"): "list",
    ("left_chats", "list", ITEM): "object",
    ("left_chats", "list", ITEM, "messages"): "list",
}
_ROOM_KINDS: dict[str, tuple[RoomKind, str]] = {
    "personal_chat": ("dm", "user"),
    "bot_chat": ("dm", "user"),
    "saved_messages": ("dm", "user"),
    "private_group": ("group_dm", "chat"),
    "private_supergroup": ("channel", "channel"),
    "public_supergroup": ("channel", "channel"),
    "private_channel": ("channel", "channel"),
    "public_channel": ("channel", "channel"),
}
_MESSAGE_TYPES = frozenset({"message", "service", "unsupported"})
#: Exports before 2021 store the account type in the upper half of the id.
_PEER_BITS = 32
_OLD_USER = 1
_PREFIX = lazy_pattern("^[a-z]+")


@dataclass(slots=True)
class _Chat:
    """A chat as found by the first pass."""

    head: dict[str, Any] = field(default_factory=dict[str, Any])
    authors: dict[tuple[str, str], IncomingAuthor] = field(
        default_factory=dict[tuple[str, str], IncomingAuthor]
    )
    #: Counts messages that have no id and look the same.
    repeats: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    """The context of a message."""

    room: IncomingRoom
    where: str
    repeats: Counter[str]
    #: The zone of times that state none.
    zone: ZoneInfo | None


def _is_export(head: FileStart) -> bool:
    members = head.members
    if {"channel", "guild"} & members.keys():
        return False
    if {"chats", "left_chats"} & members.keys():
        return True
    if "messages" in members and first_text(members, "type") in _ROOM_KINDS:
        return True
    first = object_list(members, "messages")[:1]
    return any(
        first_text(item, "type") in _MESSAGE_TYPES and {"date", "date_unixtime"} & item.keys()
        for item in first
    )


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, skipped = json_exports(source, _is_export)
    yield from skipped
    surveys = {file: _survey(source, file) for file in files}
    authors_by_room: dict[str, dict[tuple[str, str], IncomingAuthor]] = {}
    for file, chats in surveys.items():
        for chat in chats:
            authors_by_room.setdefault(_room_id(chat.head, file), {}).update(chat.authors)
    repeats: dict[str, Counter[str]] = {}
    for file, chats in surveys.items():
        rooms: list[tuple[IncomingRoom, Counter[str]]] = []
        for chat in chats:
            room = _room(chat.head, file, list(authors_by_room[_room_id(chat.head, file)].values()))
            rooms.append((room, repeats.setdefault(room.external_id, Counter())))
        yield from _file(source, file, rooms, options.zone)


def _survey(source: ExportFiles, file: str) -> list[_Chat]:
    """Return the chats of a file in order, with their authors."""
    chats: list[_Chat] = []
    for step in walk_file(source, file, _SPINE):
        if step.kind == "opened" and step.place in _CHATS:
            chats.append(_Chat())
        elif step.kind == "value" and step.place in _CHATS and chats:
            # A member of the root belongs to the root's chat, even if it comes after other chats.
            chat = chats[0] if not step.place else chats[-1]
            if step.key in {"id", "name", "type"}:
                chat.head[step.key] = step.value
        elif step.kind == "value" and step.place[-1:] == ("messages",):
            chat = chats[0] if len(step.place) == 1 else chats[-1]
            add_author(chat.authors, step.value, _author)
    return chats


def _file(
    source: ExportFiles, file: str, rooms: list[tuple[IncomingRoom, Counter[str]]], zone: ZoneInfo | None
) -> Iterator[ParsedItem]:
    current, chat = -1, ""
    for step in walk_file(source, file, _SPINE):
        if step.kind == "fault":
            yield skipped_fault(step, file)
        elif step.kind == "opened":
            if step.place in _CHATS:
                current, chat = current + 1, _chat_label(step)
        elif step.place[-1:] == ("messages",):
            room, repeats = rooms[0 if len(step.place) == 1 else current]
            where = f"{file}{chat if len(step.place) > 1 else ''} record {step.number}"
            at = _ReadContext(room=room, where=where, repeats=repeats, zone=zone)
            yield from build_or_skip(step.value, where, build=partial(_message, at=at))
        else:
            yield from _misplaced(step, file)


def _chat_label(step: JsonStep) -> str:
    """Return the number of a chat as its label, because its name is private."""
    return f" {'left chat' if step.place[:1] == ('left_chats',) else 'chat'} {step.number}"


def _misplaced(step: JsonStep, file: str) -> Iterator[SkippedRecord]:
    """Report a container of the wrong shape."""
    if step.place in _LISTS:
        yield SkippedRecord(where=f"{file} chat {step.number}", reason="not an object")
    elif step.key == "messages" and step.place in _CHATS:
        yield SkippedRecord(where=file, reason="not a list of messages")
    elif (*step.place, step.key) in _SPINE:
        yield SkippedRecord(
            where=file, reason="not a list of chats", detail=f"{step.key} is {json_type(step.value)}"
        )


def _room_id(head: Fields, file: str) -> str:
    """Return the id with the prefix of its type, because chats of different types may have the same number."""
    _, prefix = _ROOM_KINDS.get(str(head.get("type")), ("channel", ""))
    number = integer_field(head, "id")
    if number is not None:
        return f"{prefix}{number}"
    return f"name:{first_text(head, 'name') or PurePosixPath(file).stem}"[:255]


def _room(head: Fields, file: str, authors: list[IncomingAuthor]) -> IncomingRoom:
    type_ = str(head.get("type"))
    # A chat of unknown type may be private, so only its authors may read it.
    kind = _ROOM_KINDS[type_][0] if type_ in _ROOM_KINDS else None
    name = first_text(head, "name") or (
        "Saved messages" if type_ == "saved_messages" else PurePosixPath(file).stem
    )
    return IncomingRoom(
        external_id=_room_id(head, file),
        name=name,
        kind=kind,
        visibility=_visibility(type_),
        members=direct_members(kind, authors),
    )


def _visibility(type_: str) -> Visibility | None:
    """Return the visibility of a chat type; None if unknown."""
    if type_ not in _ROOM_KINDS:
        return None
    return "open" if type_.startswith("public_") else "members"


def _author(fields: Fields) -> IncomingAuthor:
    service = fields.get("type") == "service"
    name, account = (
        (fields.get("actor"), fields.get("actor_id"))
        if service
        else (fields.get("from"), fields.get("from_id"))
    )
    if name is not None and not isinstance(name, str):
        raise MalformedRecord("wrong type", f"the author's name is {json_type(name)}, not text")
    if isinstance(account, bool) or not isinstance(account, str | int | None):
        raise MalformedRecord("wrong type", f"the author's id is {json_type(account)}")
    if isinstance(account, int):
        account = _old_account(account)
    if not account and not name:
        raise MalformedRecord("no author")
    # Without an id, the name identifies the author. The prefix prevents clashes with ids such as "user1".
    return IncomingAuthor(
        account_id=checked_id(account or f"name:{name}", "from_id"),
        name=name or "Deleted Account",
        kind="human",
    )


def _old_account(account: int) -> str:
    if account >> _PEER_BITS == _OLD_USER:
        return f"user{account & (2**_PEER_BITS - 1)}"
    return f"user{account}" if 0 < account < 2**_PEER_BITS else f"peer{account}"


def _message(fields: Fields, at: _ReadContext) -> IncomingMessage:
    room = at.room
    kind = first_text(fields, "type")
    if kind == "unsupported":
        raise MalformedRecord("unsupported in the export")
    if kind not in _MESSAGE_TYPES:
        raise MalformedRecord("not a message")
    sent_at, is_zoned = _sent(fields, at.zone)
    author = _author(fields)
    text = text_of(fields)
    number = integer_field(fields, "id")
    if number is None and fields.get("id") is not None:
        raise MalformedRecord("wrong type", f"id is {json_type(fields.get('id'))}")
    edited = _edited(fields, at.zone)
    return IncomingMessage(
        platform="telegram",
        room=room,
        external_id=str(number)
        if number is not None
        else _synthetic_id(_sent(fields, None)[0], author, text, at.repeats),
        author=author,
        body="" if is_forward(fields) else text,
        sent_at=sent_at,
        kind="system" if kind == "service" else "message",
        precision="s",
        order=number or 0,
        reply_to=_reply_to(fields, room),
        mentions=mentions(fields),
        attachments=list(attachments(fields)),
        reactions=reactions(fields),
        edited_at=edited,
        synthetic_id=number is None,
        metadata=_metadata(
            fields,
            room,
            edited=edited is not None,
            zone="" if is_zoned else str(at.zone or ASSUMED_UTC),
        ),
        raw=fields,
        where=at.where,
    )


def _synthetic_id(sent_at: datetime, author: IncomingAuthor, text: str, repeats: Counter[str]) -> str:
    digest = hashlib.sha256(f"{author.account_id}\0{text}".encode("utf-8", "replace")).hexdigest()[:12]
    external_id = f"{int(sent_at.timestamp())}:{digest}"
    repeats[external_id] += 1
    return external_id if repeats[external_id] == 1 else f"{external_id}:{repeats[external_id]}"


def _unix(value: Any) -> datetime | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len("253402300799"):
        return unix_time(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return unix_time(value)
    return None


def _sent(fields: Fields, zone: ZoneInfo | None) -> tuple[datetime, bool]:
    """Return the time, and whether its zone is stated."""
    moment = _unix(fields.get("date_unixtime"))
    if moment is not None:
        return moment, True
    local = first_text(fields, "date")
    if not local:
        raise MalformedRecord("no time")
    return parse_iso_time(local, zone=zone or UTC), False


def _edited(fields: Fields, zone: ZoneInfo | None) -> datetime | None:
    try:
        exact = _unix(fields.get("edited_unixtime"))
    except MalformedRecord:
        exact = None
    return exact or parse_optional_time(fields.get("edited"), zone=zone or UTC)


def _reply_to(fields: Fields, room: IncomingRoom) -> str | None:
    value = fields.get("reply_to_message_id")
    if value is None or _is_cross_chat(fields, room):
        return None
    target = integer_field(fields, "reply_to_message_id")
    if target is None:
        raise MalformedRecord("wrong type", f"reply_to_message_id is {json_type(value)}")
    return str(target)


def _is_cross_chat(fields: Fields, room: IncomingRoom) -> bool:
    """Return whether the parent is in another chat."""
    peer = fields.get("reply_to_peer_id")
    return peer is not None and str(peer) not in {room.external_id, _PREFIX.sub("", room.external_id)}


def _metadata(fields: Fields, room: IncomingRoom, *, edited: bool, zone: str) -> dict[str, Any]:
    reply_elsewhere = fields.get("reply_to_message_id") is not None and _is_cross_chat(fields, room)
    return platform_metadata(
        time_zone=zone,
        action=first_text(fields, "action"),
        history_lost=edited,
        forwarded_from=(first_text(fields, "forwarded_from") or "unknown") if is_forward(fields) else None,
        saved_from=first_text(fields, "saved_from"),
        via_bot=first_text(fields, "via_bot"),
        signature=first_text(fields, "author"),
        reply_elsewhere=non_empty(
            room=str(fields.get("reply_to_peer_id")), message=integer_field(fields, "reply_to_message_id")
        )
        if reply_elsewhere
        else None,
        links=links(fields),
        poll=poll(fields),
    )


IMPORTER = Importer(
    name="telegram",
    recognises=partial(has_export, looks=_is_export),
    read=_read,
    signs=('"from_id"', '"date_unixtime"', '"text_entities"', '"media_type"', '"reply_to_message_id"'),
)
