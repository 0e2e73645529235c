"""Reads a Slack workspace export, as folder or zip.

Traps that shaped it: `ts` is an id and never a float; a thread's root is not a reply to a person; one bot id may
be a bridge that speaks for many people; a folder's name is a channel's, and the lists are incomplete.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, ParsedItem, SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import Importer, ReadOptions, ExportFiles
from roomlore.platforms.fields import (
    Fields,
    MalformedRecord,
    build_or_skip,
    id_list,
    non_empty,
    first_text,
    object_field,
    required_id,
    integer_field,
    object_list,
    platform_metadata,
    checked_id,
    text_field,
    unix_time,
)
from roomlore.platforms.jsonstream import skipped_fault, walk_file
from roomlore.platforms.presence import direct_members
from roomlore.platforms.slackparts import attachments, own_text
from roomlore.platforms.slackrooms import (
    LIST_SPINE,
    SLACKBOT,
    Workspace,
    bot_name,
    day_files,
    record_integration,
    open_workspace,
    unlisted_room,
)
from roomlore.platforms.slacktext import NameResolver, mentions

_TIMESTAMP = lazy_pattern(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
#: Subtypes in which somebody says something; every other one is the workspace reporting.
_TEXT_SUBTYPES = frozenset(
    {
        "",
        "assistant_app_thread",
        "bot_message",
        "file_comment",
        "file_mention",
        "file_share",
        "me_message",
        "reply_broadcast",
        "thread_broadcast",
        "tombstone",
    }
)
_BROADCASTS = frozenset({"reply_broadcast", "thread_broadcast"})
_BRIDGE = lazy_pattern(
    r"\b(bridge|matterbridge|matrix|irc|xmpp|gitter|discord|telegram|mattermost|zulip)\b", re.IGNORECASE
)
#: From how many names with pictures of their own on an app speaks for people.
_BRIDGED_NAMES = 3


@dataclass(slots=True)
class _BotNames:
    """Who speaks through each bot id: names, each with the pictures shown beside it."""

    pictures: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def bridges(self, bot: str, persona: str) -> bool:
        """Return whether a bot id relays people: it is called a bridge, or shows them one by one."""
        name = self.names.get(bot, "")
        if persona.casefold() == name.casefold():
            return False
        if _BRIDGE.search(name):
            return True
        faces = self.pictures.get(bot, {})
        pictures = [picture for shown in faces.values() for picture in shown]
        return len(faces) >= _BRIDGED_NAMES and all(faces.values()) and len(set(pictures)) == len(pictures)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    workspace: Workspace
    apps: _BotNames
    names: NameResolver


def _sniff(source: ExportFiles) -> bool:
    return bool(day_files(source))


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export says all there is to say
    space = open_workspace(source)
    yield from space.faults
    names = NameResolver(user_name=space.user_name, room_name=space.room_name)
    apps = _survey_apps(source, space)
    reading = _ReadContext(workspace=space, apps=apps, names=names)
    for folder, files in space.folders.items():
        room = space.rooms.get(folder) or _unlisted(source, folder, reading)
        broadcasts: set[str] = set()
        for file in files:
            yield from _file(source, file, (room, reading, broadcasts))


def _unlisted(source: ExportFiles, folder: str, reading: _ReadContext) -> IncomingRoom:
    room = unlisted_room(reading.workspace, folder)
    if room.kind != "dm":
        return room
    speakers = _speakers(source, reading.workspace.folders[folder], reading)
    return replace(room, members=direct_members(room.kind, speakers))


def _file(source: ExportFiles, file: str, at: tuple[IncomingRoom, _ReadContext, set[str]]) -> Iterator[ParsedItem]:
    room, reading, broadcasts = at
    label = "/".join(file.split("/")[-2:])
    for step in walk_file(source, file, LIST_SPINE):
        if step.kind == "fault":
            yield skipped_fault(step, label)
        elif step.kind == "value" and not step.number:
            yield SkippedRecord(where=label, reason="not a list of messages")
        elif step.kind == "value":
            where = f"{label} record {step.number}"
            if not _repeated(step.value, broadcasts):
                yield from build_or_skip(step.value, where, build=partial(_message, at=(room, where, reading)))


def _repeated(value: Any, broadcasts: set[str]) -> bool:
    """Return whether a reply that was also sent to the channel has been read already."""
    if not isinstance(value, dict):
        return False
    fields = cast("Fields", value)
    ts = fields.get("ts")
    if first_text(fields, "subtype") not in _BROADCASTS or not isinstance(ts, str):
        return False
    known = ts in broadcasts
    broadcasts.add(ts)
    return known


def _survey_apps(source: ExportFiles, space: Workspace) -> _BotNames:
    """Return who speaks through bots; only the few files in which one has a name of its own are parsed."""
    apps = _BotNames()
    for fields in _records_holding(
        source, [file for files in space.folders.values() for file in files], b'"bot_id"'
    ):
        bot = first_text(fields, "bot_id")
        if not bot:
            continue
        if first_text(fields, "subtype") == "bot_add":
            record_integration(space, fields)
        name = bot_name(space, fields)
        if name:
            apps.names.setdefault(bot, name)
        persona = first_text(fields, "username")
        if persona:
            icons = object_field(fields, "icons")
            shown = {
                value for key, value in icons.items() if key.startswith("image") and isinstance(value, str)
            }
            # The largest picture stands for all sizes of it.
            apps.pictures.setdefault(bot, {}).setdefault(persona, set()).update(sorted(shown)[:1])
    return apps


def _speakers(source: ExportFiles, files: list[str], reading: _ReadContext) -> list[IncomingAuthor]:
    authors: list[IncomingAuthor] = []
    for fields in _records_holding(source, files, b""):
        try:
            author = _author(fields, reading)
        except MalformedRecord:
            continue
        if author.kind != "system":
            authors.append(author)
    return authors


def _records_holding(source: ExportFiles, files: list[str], holding: bytes) -> Iterator[Fields]:
    """Yield the records of those files that hold the bytes."""
    for file in files:
        if holding and not _holds(source, file, holding):
            continue
        for step in walk_file(source, file, LIST_SPINE):
            if step.kind == "value" and step.number and isinstance(step.value, dict):
                yield cast("Fields", step.value)


def _holds(source: ExportFiles, file: str, wanted: bytes) -> bool:
    tail = b""
    try:
        with source.open(file) as stream:
            while chunk := stream.read(2**20):
                if wanted in tail + chunk:
                    return True
                tail = chunk[-len(wanted) :]
    except OSError:
        return False
    return False


def _author(fields: Fields, reading: _ReadContext) -> IncomingAuthor:
    user = text_field(fields, "user")
    bot = text_field(fields, "bot_id")
    persona = first_text(fields, "username")
    if bot and (persona or not user):
        return _app(fields, reading, bot)
    if user:
        author = reading.workspace.user(checked_id(user, "user"), _name_at_time(fields))
        # An account in no list that an app writes for may be a person's or the app's own.
        unsure = bot and user not in reading.workspace.users and user != SLACKBOT
        return IncomingAuthor(account_id=user, name=author.name, kind="agent") if unsure else author
    commenter = first_text(object_field(fields, "comment"), "user")
    if commenter:
        return reading.workspace.user(checked_id(commenter, "comment.user"))
    if persona:
        # An incoming webhook of before bots had ids.
        return IncomingAuthor(
            account_id=first_text(fields, "app_id") or "webhook",
            name=persona,
            kind="agent",
            persona=persona[:255],
        )
    raise MalformedRecord("no author")


def _name_at_time(fields: Fields) -> str:
    """Return the author's name at the time of the message, where newer exports keep it."""
    profile = object_field(fields, "user_profile")
    return first_text(profile, "display_name", "real_name", "name")


def _app(fields: Fields, reading: _ReadContext, bot: str) -> IncomingAuthor:
    checked_id(bot, "bot_id")
    persona = first_text(fields, "username")[:255]
    bridged = bool(persona) and reading.apps.bridges(bot, persona)
    return IncomingAuthor(
        account_id=bot,
        name=persona or bot_name(reading.workspace, fields) or bot,
        kind="human" if bridged else "agent",
        persona=persona,
        bridged=bridged,
    )


def _message(fields: Fields, at: tuple[IncomingRoom, str, _ReadContext]) -> IncomingMessage:
    room, where, reading = at
    ts = required_id(fields, "ts", "no time")
    if fields.get("type", "message") != "message":
        raise MalformedRecord("not a message")
    subtype = text_field(fields, "subtype")
    said = subtype in _TEXT_SUBTYPES
    written = text_field(fields, "text")
    author = _author(fields, reading)
    edited = _edited(fields)
    root = text_field(fields, "thread_ts")
    return IncomingMessage(
        platform="slack",
        room=room,
        external_id=ts,
        author=author,
        body="" if subtype == "tombstone" else own_text(fields, reading.names),
        sent_at=_moment(ts),
        kind="message" if said else "system",
        precision="us",
        thread_root=checked_id(root, "thread_ts") if root and root != ts else None,
        mentions=mentions(written) if said else [],
        attachments=attachments(fields, reading.names),
        reactions=[
            non_empty(emoji=first_text(item, "name"), count=integer_field(item, "count"), by=id_list(item.get("users")))
            for item in object_list(fields, "reactions")
        ],
        edited_at=edited,
        deleted=subtype == "tombstone",
        metadata=_metadata(fields, author, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _moment(ts: str) -> datetime:
    """Return the time that an id tells, exact to the microsecond."""
    match = _TIMESTAMP.fullmatch(ts)
    if match is None:
        raise MalformedRecord("no time", "ts is not a time")
    return unix_time(int(match[1]), microseconds=int((match[2] or "").ljust(6, "0")))


def _edited(fields: Fields) -> datetime | None:
    ts = first_text(object_field(fields, "edited"), "ts")
    try:
        return _moment(ts) if ts else None
    except MalformedRecord:
        return None


def _metadata(fields: Fields, author: IncomingAuthor, *, edited: bool) -> dict[str, Any]:
    subtype = first_text(fields, "subtype")
    editor = first_text(object_field(fields, "edited"), "user")
    return platform_metadata(
        subtype=subtype,
        action=subtype == "me_message",
        history_lost=edited,
        edited_by=editor if editor != author.account_id else "",
        posted_by=first_text(fields, "user") if author.persona else "",
        app_id=first_text(fields, "app_id"),
        inviter=first_text(fields, "inviter"),
        old_name=first_text(fields, "old_name"),
    )


#: Slack workspace export.
IMPORTER = Importer(name="slack", recognises=_sniff, read=_read)
