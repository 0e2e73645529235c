"""Reads a Slack workspace export, as folder or zip.

Traps that shaped it: `ts` is an id and never a float; a thread's root is not a reply to a person; one bot id may
be a bridge that speaks for many people; a folder's name is a channel's, and the lists are incomplete.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, ParsedItem, SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    build_or_skip,
    checked_id,
    direct_members,
    first_text,
    id_list,
    integer_field,
    non_empty,
    object_field,
    object_list,
    platform_metadata,
    required_id,
    text_field,
    unix_time,
)
from roomlore.importers.json_stream import skipped_fault, walk_file
from roomlore.importers.slack_workspace import (
    LIST_SPINE,
    SLACKBOT,
    Workspace,
    bot_name,
    day_files,
    open_workspace,
    record_integration,
    unlisted_room,
)

_TOKEN = lazy_pattern(r"<([^<>\n]*)>")
_ENTITY = lazy_pattern(r"&(amp|lt|gt);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">"}

#: Returns the name for an id, or nothing.
NameLookup = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResolver:
    """How to turn ids into names."""

    user_name: NameLookup
    room_name: NameLookup


def render(text: str, names: NameResolver) -> str:
    """Return the text with tokens as words and entities as characters."""
    return _unescape(_TOKEN.sub(lambda token: _token_text(token[1], names), text))


def mentions(text: str) -> list[str]:
    """Return the account ids that the text mentions, in order, each once."""
    found = [token.partition("|")[0][1:] for token in _TOKEN.findall(text) if token[:2] in {"@U", "@W"}]
    return list(dict.fromkeys(found))


def _unescape(text: str) -> str:
    # One pass: "&amp;lt;" was typed as "&lt;" and must not become "<".
    return _ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], text)


def _token_text(token: str, names: NameResolver) -> str:
    target, _, label = token.partition("|")
    if target.startswith("@"):
        return "@" + (names.user_name(target[1:]) or label or target[1:])
    if target.startswith("#"):
        return "#" + (label or names.room_name(target[1:]) or target[1:])
    if target.startswith("!"):
        return _special_token(target[1:], label)
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in (target, bare) or target.endswith("//" + label):
        return bare
    return f"{label} ({target})"


def _special_token(target: str, label: str) -> str:
    """Return `@here`, the name of a group, or the fallback of a date."""
    if target.startswith("date^"):
        return label or target
    name = label or target.rpartition("^")[2]
    return name if name.startswith("@") else "@" + name


#: Files whose beginning the export repeats, for they are texts.
_TEXT_FILE_MODES = frozenset({"snippet", "post", "space", "email"})
#: Elements nest a few levels: a list in rich text in a block.
_MAX_DEPTH = 8


def own_text(fields: Fields, names: NameResolver) -> str:
    """Return the text; the words of the blocks where it is empty, as apps leave it."""
    written = text_field(fields, "text")
    return render(written, names) if written else "\n".join(_block_texts(fields, names))


def attachments(fields: Fields, names: NameResolver) -> list[dict[str, Any]]:
    """Return what a message carries besides its own words."""
    return [*_files(fields), *_app_cards(fields, names), *_blocks(fields, names)]


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    single = object_field(fields, "file")
    for item in [*object_list(fields, "files"), *([single] if single else [])]:
        yield non_empty(
            id=first_text(item, "id"),
            name=first_text(item, "name", "title"),
            title=first_text(item, "title"),
            text=first_text(item, "preview") if first_text(item, "mode") in _TEXT_FILE_MODES else "",
            url=first_text(item, "url_private", "permalink"),
            size=integer_field(item, "size"),
            type=first_text(item, "mimetype"),
            missing=first_text(item, "mode") in {"hidden_by_limit", "tombstone"},
        )


def _app_cards(fields: Fields, names: NameResolver) -> Iterator[dict[str, Any]]:
    """Yield previews, cards of apps and shared messages; they may quote others, so they never become the text."""
    for item in object_list(fields, "attachments"):
        blocks = "\n".join(_block_texts(item, names))
        told = first_text(item, "text") or blocks
        # The fallback repeats the rest for programs that show nothing else.
        shown = told or ("" if first_text(item, "pretext", "title") else first_text(item, "fallback"))
        is_shared = item.get("is_msg_unfurl") is True or item.get("is_share") is True
        yield {"type": "forward" if is_shared else "card"} | non_empty(
            author=first_text(item, "author_name", "author_subname") or first_text(item, "service_name"),
            pretext=render(first_text(item, "pretext"), names),
            name=render(first_text(item, "title"), names),
            url=first_text(item, "title_link", "from_url", "original_url", "image_url"),
            text=shown if shown == blocks else render(shown, names),
            fields=[
                non_empty(
                    name=render(first_text(one, "title"), names),
                    value=render(first_text(one, "value"), names),
                )
                for one in object_list(item, "fields")
            ],
            footer=render(first_text(item, "footer"), names),
        )


def _blocks(fields: Fields, names: NameResolver) -> Iterator[dict[str, Any]]:
    """Yield what blocks say beyond the text, which is mostly a short form of them."""
    written = text_field(fields, "text")
    said = " ".join(render(written, names).split())
    more = [line for line in _block_texts(fields, names) if " ".join(line.split()) not in said]
    # Whatever a person writes is rich text, which the text repeats with other marks.
    if written and more and any(item.get("type") != "rich_text" for item in object_list(fields, "blocks")):
        yield {"type": "blocks", "text": "\n".join(more)}


def _block_texts(fields: Fields, names: NameResolver) -> list[str]:
    lines = [_block(item, names) for item in object_list(fields, "blocks")]
    return [line for line in lines if line.strip()]


def _block(item: Fields, names: NameResolver) -> str:
    kind = first_text(item, "type")
    if kind == "rich_text":
        return "".join(_rich_text(item, names, _MAX_DEPTH)).strip()
    parts = [*_item_texts(item, names)]
    for key in ("fields", "elements"):
        for inner in object_list(item, key):
            parts += [_plain_text(inner, names)] if "text" in inner else _item_texts(inner, names)
    return "\n".join(part for part in parts if part)


def _item_texts(item: Fields, names: NameResolver) -> list[str]:
    found = [_plain_text(object_field(item, key), names) for key in ("text", "title", "label")]
    return [*found, first_text(item, "alt_text")]


def _plain_text(item: Fields, names: NameResolver) -> str:
    """Return a text object in words; only `mrkdwn` has tokens."""
    inner = as_object(item.get("text"))
    if inner is not None:
        return _plain_text(inner, names) if "text" in inner and as_object(inner["text"]) is None else ""
    said = first_text(item, "text")
    return said if first_text(item, "type") == "plain_text" else render(said, names)


def _rich_text(item: Fields, names: NameResolver, depth: int) -> Iterator[str]:
    """Yield the pieces of rich text; lists and quotes are lines of their own."""
    for inner in (piece for one in as_list(item.get("elements")) if (piece := as_object(one)) is not None):
        kind = first_text(inner, "type")
        match kind:
            case "text":
                yield first_text(inner, "text")
            case "user":
                yield "@" + (names.user_name(first_text(inner, "user_id")) or first_text(inner, "user_id"))
            case "channel":
                yield "#" + (
                    names.room_name(first_text(inner, "channel_id")) or first_text(inner, "channel_id")
                )
            case "link":
                yield first_text(inner, "text", "url")
            case "emoji":
                yield f":{first_text(inner, 'name')}:"
            case "broadcast":
                yield f"@{first_text(inner, 'range')}"
            case _ if depth > 0:
                said = "".join(_rich_text(inner, names, depth - 1))
                yield _as_quote(said) if kind == "rich_text_quote" else said + "\n"
            case _:
                pass


def _as_quote(said: str) -> str:
    return "".join(f"> {line}\n" for line in said.splitlines())


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


def _file(
    source: ExportFiles, file: str, at: tuple[IncomingRoom, _ReadContext, set[str]]
) -> Iterator[ParsedItem]:
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
                yield from build_or_skip(
                    step.value, where, build=partial(_message, at=(room, where, reading))
                )


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
            non_empty(
                emoji=first_text(item, "name"),
                count=integer_field(item, "count"),
                by=id_list(item.get("users")),
            )
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
