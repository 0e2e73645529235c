"""Reads Telegram Desktop's `result.json`: one chat, or a full export with many.

Traps that shaped it: text is a string or a list of pieces; ids count per chat and chats of different types may
share a number; there is no bot flag; older files have local times only; forwarded words are not the forwarder's.
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
    ReadItem,
    RoomKind,
    Skipped,
    Visibility,
)
from roomlore.domain.patterns import later
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.platforms.fields import (
    Fields,
    Malformed,
    as_object,
    attempt,
    iso_time,
    kept,
    kind_of,
    loose_text,
    number,
    objects,
    optional_time,
    platform_facts,
    short,
    unix_time,
)
from roomlore.platforms.jsonstream import (
    ITEM,
    Peek,
    Place,
    Spine,
    Step,
    fault,
    has_export,
    json_exports,
    walk_file,
)
from roomlore.platforms.presence import both_sides
from roomlore.platforms.telegramparts import (
    attachments,
    is_forward,
    links,
    mentions,
    poll,
    reactions,
    text_of,
)

_LISTS = (("chats", "list"), ("left_chats", "list"))
_CHATS: frozenset[Place] = frozenset({(), *((*place, ITEM) for place in _LISTS)})
_SPINE: Spine = {
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
_KINDS: dict[str, tuple[RoomKind, str]] = {
    "personal_chat": ("dm", "user"),
    "bot_chat": ("dm", "user"),
    "saved_messages": ("dm", "user"),
    "private_group": ("group_dm", "chat"),
    "private_supergroup": ("channel", "channel"),
    "public_supergroup": ("channel", "channel"),
    "private_channel": ("channel", "channel"),
    "public_channel": ("channel", "channel"),
}
_TYPES = frozenset({"message", "service", "unsupported"})
#: Exports of before 2021 number accounts with their type in the upper half.
_PEER_BITS = 32
_OLD_USER = 1
_PREFIX = later("^[a-z]+")


@dataclass(slots=True)
class _Chat:
    """A chat as the first pass finds it."""

    head: dict[str, Any] = field(default_factory=dict[str, Any])
    authors: dict[str, IncomingAuthor] = field(default_factory=dict[str, IncomingAuthor])
    #: How often a message without id was met that looks the same.
    repeats: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """Where a message stands."""

    room: IncomingRoom
    where: str
    repeats: Counter[str]
    #: The zone of times that name none.
    zone: ZoneInfo | None


def _looks(head: Peek) -> bool:
    members = head.members
    if {"channel", "guild"} & members.keys():
        return False
    if {"chats", "left_chats"} & members.keys():
        return True
    if "messages" in members and loose_text(members, "type") in _KINDS:
        return True
    first = objects(members, "messages")[:1]
    return any(
        loose_text(item, "type") in _TYPES and {"date", "date_unixtime"} & item.keys() for item in first
    )


def _sniff(source: Source) -> bool:
    return has_export(source, _looks)


def _read(source: Source, options: ReadOptions) -> Iterator[ReadItem]:
    files, left = json_exports(source, _looks)
    yield from left
    surveys = {file: _survey(source, file) for file in files}
    seen: dict[str, dict[str, IncomingAuthor]] = {}
    for file, chats in surveys.items():
        for chat in chats:
            seen.setdefault(_room_id(chat.head, file), {}).update(chat.authors)
    repeats: dict[str, Counter[str]] = {}
    for file, chats in surveys.items():
        rooms: list[tuple[IncomingRoom, Counter[str]]] = []
        for chat in chats:
            room = _room(chat.head, file, list(seen[_room_id(chat.head, file)].values()))
            rooms.append((room, repeats.setdefault(room.external_id, Counter())))
        yield from _file(source, file, rooms, options.zone)


def _survey(source: Source, file: str) -> list[_Chat]:
    """Return the chats of a file in order, with everybody who speaks in them."""
    chats: list[_Chat] = []
    for step in walk_file(source, file, _SPINE):
        if step.kind == "opened" and step.place in _CHATS:
            chats.append(_Chat())
        elif step.kind == "value" and step.place in _CHATS and chats:
            # Members of the root after its chats belong to the root.
            chat = chats[0] if not step.place else chats[-1]
            if step.key in {"id", "name", "type"}:
                chat.head[step.key] = step.value
        elif step.kind == "value" and step.place[-1:] == ("messages",):
            chat = chats[0] if len(step.place) == 1 else chats[-1]
            _note_author(as_object(step.value) or {}, chat)
    return chats


def _note_author(fields: Fields, chat: _Chat) -> None:
    try:
        author = _author(fields)
    except Malformed:
        return
    chat.authors.setdefault(author.account_id, author)


def _file(
    source: Source, file: str, rooms: list[tuple[IncomingRoom, Counter[str]]], zone: ZoneInfo | None
) -> Iterator[ReadItem]:
    current, chat = -1, ""
    for step in walk_file(source, file, _SPINE):
        if step.kind == "fault":
            yield fault(step, file)
        elif step.kind == "opened":
            if step.place in _CHATS:
                current, chat = current + 1, _label(step)
        elif step.place[-1:] == ("messages",):
            room, repeats = rooms[0 if len(step.place) == 1 else current]
            where = f"{file}{chat if len(step.place) > 1 else ''} record {step.number}"
            at = _At(room=room, where=where, repeats=repeats, zone=zone)
            yield from attempt(step.value, where, build=partial(_message, at=at))
        else:
            yield from _misplaced(step, file)


def _label(step: Step) -> str:
    """Return which chat of a full export has been opened; by number, for its name may say anything."""
    return f" {'left chat' if step.place[:1] == ('left_chats',) else 'chat'} {step.number}"


def _misplaced(step: Step, file: str) -> Iterator[Skipped]:
    """Report a container that has another shape than a chat or its messages."""
    if step.place in _LISTS:
        yield Skipped(where=f"{file} chat {step.number}", reason="not an object")
    elif step.key == "messages" and step.place in _CHATS:
        yield Skipped(where=file, reason="not a list of messages")
    elif (*step.place, step.key) in _SPINE:
        yield Skipped(where=file, reason="not a list of chats", detail=f"{step.key} is {kind_of(step.value)}")


def _room_id(head: Fields, file: str) -> str:
    """Return the id with the prefix that Telegram gives accounts: numbers repeat between chat types."""
    _, prefix = _KINDS.get(str(head.get("type")), ("channel", ""))
    given = number(head, "id")
    if given is not None:
        return f"{prefix}{given}"
    return f"name:{loose_text(head, 'name') or PurePosixPath(file).stem}"[:255]


def _room(head: Fields, file: str, authors: list[IncomingAuthor]) -> IncomingRoom:
    type_ = str(head.get("type"))
    # A type that is missing or new may be a private one: nobody may read it but those who write in it.
    kind = _KINDS[type_][0] if type_ in _KINDS else None
    name = loose_text(head, "name") or (
        "Saved messages" if type_ == "saved_messages" else PurePosixPath(file).stem
    )
    return IncomingRoom(
        external_id=_room_id(head, file),
        name=name,
        kind=kind,
        visibility=_visibility(type_),
        members=both_sides(kind, authors),
    )


def _visibility(type_: str) -> Visibility | None:
    """Return who may read a chat of a type; None where the type does not tell."""
    if type_ not in _KINDS:
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
        raise Malformed("wrong type", f"the author's name is {kind_of(name)}, not text")
    if isinstance(account, bool) or not isinstance(account, str | int | None):
        raise Malformed("wrong type", f"the author's id is {kind_of(account)}")
    if isinstance(account, int):
        account = _old_account(account)
    if not account and not name:
        raise Malformed("no author")
    # Without an id the name is all there is; marked, so that nobody named "user1" becomes user1.
    return IncomingAuthor(
        account_id=short(account or f"name:{name}", "from_id"), name=name or "Deleted Account", kind="human"
    )


def _old_account(account: int) -> str:
    if account >> _PEER_BITS == _OLD_USER:
        return f"user{account & (2**_PEER_BITS - 1)}"
    return f"user{account}" if 0 < account < 2**_PEER_BITS else f"peer{account}"


def _message(fields: Fields, at: _At) -> IncomingMessage:
    room = at.room
    kind = loose_text(fields, "type")
    if kind == "unsupported":
        raise Malformed("unsupported in the export")
    if kind not in _TYPES:
        raise Malformed("not a message")
    sent_at, is_zoned = _sent(fields, at.zone)
    author = _author(fields)
    words = text_of(fields)
    given = number(fields, "id")
    if given is None and fields.get("id") is not None:
        raise Malformed("wrong type", f"id is {kind_of(fields.get('id'))}")
    edited = _edited(fields, at.zone)
    return IncomingMessage(
        platform="telegram",
        room=room,
        external_id=str(given)
        if given is not None
        else _made_id(_sent(fields, None)[0], author, words, at.repeats),
        author=author,
        body="" if is_forward(fields) else words,
        sent_at=sent_at,
        kind="system" if kind == "service" else "message",
        precision="s",
        order=given or 0,
        reply_to=_reply_to(fields, room),
        mentions=mentions(fields),
        attachments=list(attachments(fields)),
        reactions=reactions(fields),
        edited_at=edited,
        synthetic_id=given is None,
        metadata=_metadata(
            fields,
            room,
            edited=edited is not None,
            zone="" if is_zoned else str(at.zone or ASSUMED_UTC),
        ),
        raw=fields,
        where=at.where,
    )


def _made_id(sent_at: datetime, author: IncomingAuthor, words: str, repeats: Counter[str]) -> str:
    digest = hashlib.sha256(f"{author.account_id}\0{words}".encode("utf-8", "replace")).hexdigest()[:12]
    made = f"{int(sent_at.timestamp())}:{digest}"
    repeats[made] += 1
    return made if repeats[made] == 1 else f"{made}:{repeats[made]}"


def _unix(value: Any) -> datetime | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len("253402300799"):
        return unix_time(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return unix_time(value)
    return None


def _sent(fields: Fields, zone: ZoneInfo | None) -> tuple[datetime, bool]:
    """Return the time, and whether it tells its zone itself."""
    moment = _unix(fields.get("date_unixtime"))
    if moment is not None:
        return moment, True
    local = loose_text(fields, "date")
    if not local:
        raise Malformed("no time")
    return iso_time(local, zone=zone or UTC), False


def _edited(fields: Fields, zone: ZoneInfo | None) -> datetime | None:
    try:
        exact = _unix(fields.get("edited_unixtime"))
    except Malformed:
        exact = None
    return exact or optional_time(fields.get("edited"), zone=zone or UTC)


def _reply_to(fields: Fields, room: IncomingRoom) -> str | None:
    value = fields.get("reply_to_message_id")
    if value is None or _elsewhere(fields, room):
        return None
    target = number(fields, "reply_to_message_id")
    if target is None:
        raise Malformed("wrong type", f"reply_to_message_id is {kind_of(value)}")
    return str(target)


def _elsewhere(fields: Fields, room: IncomingRoom) -> bool:
    """Return whether the message answered stands in another chat."""
    peer = fields.get("reply_to_peer_id")
    return peer is not None and str(peer) not in {room.external_id, _PREFIX.sub("", room.external_id)}


def _metadata(fields: Fields, room: IncomingRoom, *, edited: bool, zone: str) -> dict[str, Any]:
    reply_elsewhere = fields.get("reply_to_message_id") is not None and _elsewhere(fields, room)
    return platform_facts(
        time_zone=zone,
        action=loose_text(fields, "action"),
        history_lost=edited,
        forwarded_from=(loose_text(fields, "forwarded_from") or "unknown") if is_forward(fields) else None,
        saved_from=loose_text(fields, "saved_from"),
        via_bot=loose_text(fields, "via_bot"),
        signature=loose_text(fields, "author"),
        reply_elsewhere=kept(
            room=str(fields.get("reply_to_peer_id")), message=number(fields, "reply_to_message_id")
        )
        if reply_elsewhere
        else None,
        links=links(fields),
        poll=poll(fields),
    )


#: Telegram Desktop JSON.
READER = Reader(name="telegram", sniff=_sniff, read=_read)
