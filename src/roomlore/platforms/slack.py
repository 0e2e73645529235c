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

from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, ReadItem, Skipped
from roomlore.domain.patterns import later
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.platforms.fields import (
    Fields,
    Malformed,
    attempt,
    ids,
    kept,
    loose_text,
    member,
    need,
    number,
    objects,
    platform_facts,
    short,
    text,
    unix_time,
)
from roomlore.platforms.jsonstream import fault, walk_file
from roomlore.platforms.presence import both_sides
from roomlore.platforms.slackparts import carried, own_words
from roomlore.platforms.slackrooms import (
    LIST_SPINE,
    SLACKBOT,
    Workspace,
    bot_name,
    day_files,
    note_integration,
    open_workspace,
    unlisted_room,
)
from roomlore.platforms.slacktext import Names, mentions

_TS = later(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
#: Subtypes in which somebody says something; every other one is the workspace reporting.
_SAID = frozenset(
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
_BRIDGE = later(
    r"\b(bridge|matterbridge|matrix|irc|xmpp|gitter|discord|telegram|mattermost|zulip)\b", re.IGNORECASE
)
#: From how many names with pictures of their own on an app speaks for people.
_BRIDGED_NAMES = 3


@dataclass(slots=True)
class _Apps:
    """Who speaks through each bot id: names, each with the pictures shown beside it."""

    faces: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def bridges(self, bot: str, persona: str) -> bool:
        """Return whether a bot id relays people: it is called a bridge, or shows them one by one."""
        name = self.names.get(bot, "")
        if persona.casefold() == name.casefold():
            return False
        if _BRIDGE.search(name):
            return True
        faces = self.faces.get(bot, {})
        pictures = [picture for shown in faces.values() for picture in shown]
        return len(faces) >= _BRIDGED_NAMES and all(faces.values()) and len(set(pictures)) == len(pictures)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    space: Workspace
    apps: _Apps
    names: Names


def _sniff(source: Source) -> bool:
    return bool(day_files(source))


def _read(source: Source, options: ReadOptions) -> Iterator[ReadItem]:
    del options  # the export says all there is to say
    space = open_workspace(source)
    yield from space.faults
    names = Names(of_user=space.user_name, of_room=space.room_name)
    apps = _survey_apps(source, space)
    reading = _Reading(space=space, apps=apps, names=names)
    for folder, files in space.folders.items():
        room = space.rooms.get(folder) or _unlisted(source, folder, reading)
        broadcasts: set[str] = set()
        for file in files:
            yield from _file(source, file, (room, reading, broadcasts))


def _unlisted(source: Source, folder: str, reading: _Reading) -> IncomingRoom:
    room = unlisted_room(reading.space, folder)
    if room.kind != "dm":
        return room
    speakers = _speakers(source, reading.space.folders[folder], reading)
    return replace(room, members=both_sides(room.kind, speakers))


def _file(source: Source, file: str, at: tuple[IncomingRoom, _Reading, set[str]]) -> Iterator[ReadItem]:
    room, reading, broadcasts = at
    label = "/".join(file.split("/")[-2:])
    for step in walk_file(source, file, LIST_SPINE):
        if step.kind == "fault":
            yield fault(step, label)
        elif step.kind == "value" and not step.number:
            yield Skipped(where=label, reason="not a list of messages")
        elif step.kind == "value":
            where = f"{label} record {step.number}"
            if not _repeated(step.value, broadcasts):
                yield from attempt(step.value, where, build=partial(_message, at=(room, where, reading)))


def _repeated(value: Any, broadcasts: set[str]) -> bool:
    """Return whether a reply that was also sent to the channel has been read already."""
    if not isinstance(value, dict):
        return False
    fields = cast("Fields", value)
    ts = fields.get("ts")
    if loose_text(fields, "subtype") not in _BROADCASTS or not isinstance(ts, str):
        return False
    known = ts in broadcasts
    broadcasts.add(ts)
    return known


def _survey_apps(source: Source, space: Workspace) -> _Apps:
    """Return who speaks through bots; only the few files in which one has a name of its own are parsed."""
    apps = _Apps()
    for fields in _all_fields(
        source, [file for files in space.folders.values() for file in files], b'"bot_id"'
    ):
        bot = loose_text(fields, "bot_id")
        if not bot:
            continue
        if loose_text(fields, "subtype") == "bot_add":
            note_integration(space, fields)
        name = bot_name(space, fields)
        if name:
            apps.names.setdefault(bot, name)
        persona = loose_text(fields, "username")
        if persona:
            icons = member(fields, "icons")
            shown = {
                value for key, value in icons.items() if key.startswith("image") and isinstance(value, str)
            }
            # The largest picture stands for all sizes of it.
            apps.faces.setdefault(bot, {}).setdefault(persona, set()).update(sorted(shown)[:1])
    return apps


def _speakers(source: Source, files: list[str], reading: _Reading) -> list[IncomingAuthor]:
    authors: list[IncomingAuthor] = []
    for fields in _all_fields(source, files, b""):
        try:
            author = _author(fields, reading)
        except Malformed:
            continue
        if author.kind != "system":
            authors.append(author)
    return authors


def _all_fields(source: Source, files: list[str], holding: bytes) -> Iterator[Fields]:
    """Yield the records of those files that hold the bytes."""
    for file in files:
        if holding and not _holds(source, file, holding):
            continue
        for step in walk_file(source, file, LIST_SPINE):
            if step.kind == "value" and step.number and isinstance(step.value, dict):
                yield cast("Fields", step.value)


def _holds(source: Source, file: str, wanted: bytes) -> bool:
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


def _author(fields: Fields, reading: _Reading) -> IncomingAuthor:
    user = text(fields, "user")
    bot = text(fields, "bot_id")
    persona = loose_text(fields, "username")
    if bot and (persona or not user):
        return _app(fields, reading, bot)
    if user:
        author = reading.space.user(short(user, "user"), _name_then(fields))
        # An account in no list that an app writes for may be a person's or the app's own.
        unsure = bot and user not in reading.space.users and user != SLACKBOT
        return IncomingAuthor(account_id=user, name=author.name, kind="agent") if unsure else author
    commenter = loose_text(member(fields, "comment"), "user")
    if commenter:
        return reading.space.user(short(commenter, "comment.user"))
    if persona:
        # An incoming webhook of before bots had ids.
        return IncomingAuthor(
            account_id=loose_text(fields, "app_id") or "webhook",
            name=persona,
            kind="agent",
            persona=persona[:255],
        )
    raise Malformed("no author")


def _name_then(fields: Fields) -> str:
    """Return the author's name at the time of the message, where newer exports keep it."""
    profile = member(fields, "user_profile")
    return loose_text(profile, "display_name", "real_name", "name")


def _app(fields: Fields, reading: _Reading, bot: str) -> IncomingAuthor:
    short(bot, "bot_id")
    persona = loose_text(fields, "username")[:255]
    bridged = bool(persona) and reading.apps.bridges(bot, persona)
    return IncomingAuthor(
        account_id=bot,
        name=persona or bot_name(reading.space, fields) or bot,
        kind="human" if bridged else "agent",
        persona=persona,
        bridged=bridged,
    )


def _message(fields: Fields, at: tuple[IncomingRoom, str, _Reading]) -> IncomingMessage:
    room, where, reading = at
    ts = need(fields, "ts", "no time")
    if fields.get("type", "message") != "message":
        raise Malformed("not a message")
    subtype = text(fields, "subtype")
    said = subtype in _SAID
    written = text(fields, "text")
    author = _author(fields, reading)
    edited = _edited(fields)
    root = text(fields, "thread_ts")
    return IncomingMessage(
        platform="slack",
        room=room,
        external_id=ts,
        author=author,
        body="" if subtype == "tombstone" else own_words(fields, reading.names),
        sent_at=_moment(ts),
        kind="message" if said else "system",
        precision="us",
        thread_root=short(root, "thread_ts") if root and root != ts else None,
        mentions=mentions(written) if said else [],
        attachments=carried(fields, reading.names),
        reactions=[
            kept(emoji=loose_text(item, "name"), count=number(item, "count"), by=ids(item.get("users")))
            for item in objects(fields, "reactions")
        ],
        edited_at=edited,
        deleted=subtype == "tombstone",
        metadata=_metadata(fields, author, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _moment(ts: str) -> datetime:
    """Return the time that an id tells, exact to the microsecond."""
    match = _TS.fullmatch(ts)
    if match is None:
        raise Malformed("no time", "ts is not a time")
    return unix_time(int(match[1]), microseconds=int((match[2] or "").ljust(6, "0")))


def _edited(fields: Fields) -> datetime | None:
    ts = loose_text(member(fields, "edited"), "ts")
    try:
        return _moment(ts) if ts else None
    except Malformed:
        return None


def _metadata(fields: Fields, author: IncomingAuthor, *, edited: bool) -> dict[str, Any]:
    subtype = loose_text(fields, "subtype")
    editor = loose_text(member(fields, "edited"), "user")
    return platform_facts(
        subtype=subtype,
        action=subtype == "me_message",
        history_lost=edited,
        edited_by=editor if editor != author.account_id else "",
        posted_by=loose_text(fields, "user") if author.persona else "",
        app_id=loose_text(fields, "app_id"),
        inviter=loose_text(fields, "inviter"),
        old_name=loose_text(fields, "old_name"),
    )


#: Slack workspace export.
READER = Reader(name="slack", sniff=_sniff, read=_read)
