"""Imports a Slack workspace export, as a folder or a zip.

Pitfalls: `ts` is an id, not a float. A message in a thread is not taken for a reply. One bot id may be a bridge for
many people. Folders are named after channels, and the lists of rooms and accounts are incomplete.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    ParticipantKind,
    RoomKind,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.importers.reading.fields import (
    MAX_ID,
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
    reaction,
    required_id,
    text_field,
    unix_time,
)
from roomlore.importers.reading.json_stream import JsonShape, skipped_fault, walk_file

DAY_FILE = lazy_pattern(r"(?:.*/)?([^/]+)/(\d{4}-\d\d-\d\d)\.json")
_DIRECT_ID = lazy_pattern(r"D[A-Z0-9]{8,}")
_INTEGRATION = lazy_pattern(r"/services/(?P<bot>B[A-Z0-9]+)\|(?P<name>[^<>|]+)>")
#: "Harbour Works Slack export Jan 1 2024 - Feb 2 2024.zip".
_EXPORT_NAME_MARK = " Slack export "
#: Slack's own account. No list contains it.
SLACKBOT = "USLACKBOT"
LIST_SPINE: JsonShape = {(): "list"}
_LISTS: Mapping[str, tuple[RoomKind, bool]] = {
    "channels.json": ("channel", True),
    "groups.json": ("channel", False),
    "mpims.json": ("group_dm", False),
    "dms.json": ("dm", False),
}


@dataclass(slots=True)
class Workspace:
    """The contents of the lists of an export."""

    folders: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    #: The workspace's name, from the name of the export file, if Slack has named the file.
    name: str = ""
    users: dict[str, Fields] = field(default_factory=dict[str, Fields])
    apps: dict[str, str] = field(default_factory=dict[str, str])
    rooms: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])
    room_names: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[SkippedRecord] = field(default_factory=list[SkippedRecord])

    def user_name(self, account: str) -> str:
        """Return the display name of an account; empty if no list has it."""
        if account == SLACKBOT:
            return "slackbot"
        user = self.users.get(account, {})
        profile = object_field(user, "profile")
        return first_text(profile, "display_name", "real_name") or first_text(user, "real_name", "name")

    def room_name(self, room: str) -> str:
        """Return the name of a room; empty if no list has it."""
        return self.room_names.get(room, "")

    def user(self, account: str, name: str = "") -> IncomingAuthor:
        """Return an ordinary account as an author."""
        kind: ParticipantKind = "human"
        if account == SLACKBOT:
            kind = "system"
        elif self.users.get(account, {}).get("is_bot") is True:
            kind = "agent"
        return IncomingAuthor(account_id=account, name=name or self.user_name(account) or account, kind=kind)


def open_workspace(source: ExportFiles) -> Workspace:
    """Return the contents of the lists and folders of an export."""
    name, found, _ = source.name.partition(_EXPORT_NAME_MARK)
    space = Workspace(folders=day_files(source), name=name if found else "")
    for name in ("users.json", "integration_logs.json", *_LISTS):
        for file in _list_file(source, name):
            for record in _records(source, file, space):
                _add_record(space, name, record)
    return space


def day_files(source: ExportFiles) -> dict[str, list[str]]:
    """Return the day files of each room. Other files contain no messages."""
    folders: dict[str, list[str]] = {}
    root = _export_root(source)
    for file in source.files:
        match = DAY_FILE.fullmatch(file)
        if match and file.rsplit("/", 2)[0] in {root, match[1]}:
            folders.setdefault(match[1], []).append(file)
    return folders


def _export_root(source: ExportFiles) -> str:
    """Return the root folder: the folder of the lists, or else the shallowest folder with room folders."""
    lists = [file for file in source.files if file.rpartition("/")[2] in {"channels.json", "users.json"}]
    days = [
        file.rsplit("/", 2)[0] if file.count("/") > 1 else ""
        for file in source.files
        if DAY_FILE.fullmatch(file)
    ]
    roots = [file.rpartition("/")[0] for file in lists] or days
    return min(roots, key=lambda root: (root.count("/"), len(root)), default="")


def _list_file(source: ExportFiles, name: str) -> list[str]:
    root = _export_root(source)
    path = f"{root}/{name}" if root else name
    return [path] if path in source.files else []


def _records(source: ExportFiles, file: str, space: Workspace) -> Iterator[Fields]:
    for step in walk_file(source, file, LIST_SPINE):
        if step.kind == "fault":
            space.faults.append(skipped_fault(step, file))
        elif step.kind == "value" and step.number and isinstance(step.value, dict):
            yield cast("Fields", step.value)
        elif step.kind == "value":
            space.faults.append(SkippedRecord(where=file, reason="not a list entry"))


def _add_record(space: Workspace, name: str, record: Fields) -> None:
    if name == "users.json":
        account = first_text(record, "id")
        space.users[account] = record
        bot = first_text(object_field(record, "profile"), "bot_id")
        if bot:
            space.apps.setdefault(bot, space.user_name(account))
    elif name == "integration_logs.json":
        app = first_text(record, "app_id", "service_id")
        space.apps.setdefault(app, first_text(record, "app_type", "service_type"))
    else:
        _add_room(space, record, _LISTS[name])


def _add_room(space: Workspace, record: Fields, listed: tuple[RoomKind, bool]) -> None:
    external_id = first_text(record, "id")
    kind, is_open = listed
    if not external_id or len(external_id) > MAX_ID:
        return
    # Some exporters write all rooms into one list, with flags.
    if record.get("is_im") is True:
        kind = "dm"
    elif record.get("is_mpim") is True:
        kind = "group_dm"
    private = any(record.get(flag) is True for flag in ("is_private", "is_im", "is_mpim", "is_group"))
    members = id_list(record.get("members"))
    name = (
        first_text(record, "name")
        or " and ".join(space.user_name(account) or account for account in members)
        or external_id
    )
    room = IncomingRoom(
        external_id=external_id,
        name=name,
        kind=kind,
        visibility="open" if is_open and not private else "members",
        topic=first_text(object_field(record, "topic"), "value"),
        workspace=space.name,
        members=tuple(IncomingMembership(author=space.user(account)) for account in members),
    )
    space.room_names[external_id] = name
    for folder in {external_id, first_text(record, "name")} - {""}:
        # If two lists name the same folder, the narrower visibility wins.
        if folder not in space.rooms or room.visibility == "members":
            space.rooms[folder] = room


def unlisted_room(space: Workspace, folder: str) -> IncomingRoom:
    """Return the room of an unlisted folder, without members. The room may be private."""
    kind: RoomKind | None = None
    if folder.startswith("mpdm-"):
        kind = "group_dm"
    elif _DIRECT_ID.fullmatch(folder):
        kind = "dm"
    return IncomingRoom(
        external_id=folder[:255],
        name=folder,
        kind=kind,
        visibility="members" if kind in DIRECT_KINDS else None,
        workspace=space.name,
    )


def record_integration(space: Workspace, fields: Fields) -> None:
    """Record the name of a bot from its arrival message. Old exports state the name nowhere else."""
    match = _INTEGRATION.search(first_text(fields, "text"))
    if match and match["bot"] == first_text(fields, "bot_id"):
        space.apps.setdefault(match["bot"], match["name"])


def bot_name(space: Workspace, fields: Fields) -> str:
    """Return the name of an app; empty if unknown."""
    profile_name = first_text(object_field(fields, "bot_profile"), "name")
    bot, app = first_text(fields, "bot_id"), first_text(fields, "app_id")
    return profile_name or space.apps.get(bot, "") or space.apps.get(app, "")


_TOKEN = lazy_pattern(r"<([^<>\n]*)>")
_ENTITY = lazy_pattern(r"&(amp|lt|gt);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">"}

#: Returns the name of an id, or an empty string.
NameLookup = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResolver:
    """Names for ids in the text."""

    user_name: NameLookup
    room_name: NameLookup


def render(text: str, names: NameResolver) -> str:
    """Return the text with tokens replaced by words and entities by characters."""
    return _unescape(_TOKEN.sub(lambda token: _token_text(token[1], names), text))


def mentions(text: str) -> list[str]:
    """Return the mentioned account ids, in order, without duplicates."""
    found = [token.partition("|")[0][1:] for token in _TOKEN.findall(text) if token[:2] in {"@U", "@W"}]
    return list(dict.fromkeys(found))


def _unescape(text: str) -> str:
    # All tokens are replaced in one pass, because "&amp;lt;" is a typed "&lt;", not "<".
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
    """Return `@here`, a group name, or the fallback of a date."""
    if target.startswith("date^"):
        return label or target
    name = label or target.rpartition("^")[2]
    return name if name.startswith("@") else "@" + name


#: Text files. The export repeats their beginning.
_TEXT_FILE_MODES = frozenset({"snippet", "post", "space", "email"})
#: Maximum nesting of rich text.
_MAX_DEPTH = 8


def own_text(fields: Fields, names: NameResolver) -> str:
    """Return the message text. If it is empty, as in many app messages, return the text of the blocks."""
    written = text_field(fields, "text")
    return render(written, names) if written else "\n".join(_block_texts(fields, names))


def attachments(fields: Fields, names: NameResolver) -> list[dict[str, Any]]:
    """Return files, cards and blocks."""
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
    """Yield previews, app cards and shared messages. They may quote others, so they never become the body."""
    for item in object_list(fields, "attachments"):
        blocks = "\n".join(_block_texts(item, names))
        text = first_text(item, "text") or blocks
        # The fallback repeats everything else for simple clients.
        visible_text = text or ("" if first_text(item, "pretext", "title") else first_text(item, "fallback"))
        is_shared = item.get("is_msg_unfurl") is True or item.get("is_share") is True
        yield {"type": "forward" if is_shared else "card"} | non_empty(
            author=first_text(item, "author_name", "author_subname") or first_text(item, "service_name"),
            pretext=render(first_text(item, "pretext"), names),
            name=render(first_text(item, "title"), names),
            url=first_text(item, "title_link", "from_url", "original_url", "image_url"),
            text=visible_text if visible_text == blocks else render(visible_text, names),
            fields=[
                non_empty(
                    name=render(first_text(item_field, "title"), names),
                    value=render(first_text(item_field, "value"), names),
                )
                for item_field in object_list(item, "fields")
            ],
            footer=render(first_text(item, "footer"), names),
        )


def _blocks(fields: Fields, names: NameResolver) -> Iterator[dict[str, Any]]:
    """Yield the text of blocks that the message text does not contain."""
    written = text_field(fields, "text")
    flat_text = " ".join(render(written, names).split())
    extra = [line for line in _block_texts(fields, names) if " ".join(line.split()) not in flat_text]
    # People type rich text, and the message text repeats it.
    if written and extra and any(item.get("type") != "rich_text" for item in object_list(fields, "blocks")):
        yield {"type": "blocks", "text": "\n".join(extra)}


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
    """Return a text object as words. Only `mrkdwn` has tokens."""
    inner = as_object(item.get("text"))
    if inner is not None:
        return _plain_text(inner, names) if "text" in inner and as_object(inner["text"]) is None else ""
    text = first_text(item, "text")
    return text if first_text(item, "type") == "plain_text" else render(text, names)


def _rich_text(item: Fields, names: NameResolver, depth: int) -> Iterator[str]:
    """Yield the pieces of rich text. Lists and quotes are separate lines."""
    for inner in (
        piece for element in as_list(item.get("elements")) if (piece := as_object(element)) is not None
    ):
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
                inner_text = "".join(_rich_text(inner, names, depth - 1))
                yield _as_quote(inner_text) if kind == "rich_text_quote" else inner_text + "\n"
            case _:
                pass


def _as_quote(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


_TIMESTAMP = lazy_pattern(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
#: Subtypes whose text comes from a person or bot. Messages of all other subtypes are system messages.
_TEXT_SUBTYPES = frozenset({
    "", "assistant_app_thread", "bot_message", "file_comment", "file_mention", "file_share", "me_message",
    "reply_broadcast", "thread_broadcast", "tombstone",
})  # fmt: skip
_BROADCASTS = frozenset({"reply_broadcast", "thread_broadcast"})
_BRIDGE = lazy_pattern(
    r"\b(bridge|matterbridge|matrix|irc|xmpp|gitter|discord|telegram|mattermost|zulip)\b", re.IGNORECASE
)
#: If an app posts under at least this many names with distinct pictures, it is taken for a bridge.
_BRIDGED_NAMES = 3


@dataclass(slots=True)
class _BotNames:
    """The speakers behind each bot id: names, with their pictures."""

    pictures: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def bridges(self, bot: str, persona: str) -> bool:
        """Return whether a bot id is a bridge. Its name says so, or each persona has its own picture."""
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


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
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
    """Return whether a broadcast reply was already read."""
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
    """Return the speakers behind bot accounts. Only files that mention a bot are parsed."""
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
            # One picture stands for all its sizes.
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


def _records_holding(source: ExportFiles, files: list[str], needle: bytes) -> Iterator[Fields]:
    """Yield the records of the files that contain the bytes `needle`."""
    for file in files:
        if needle and not _holds(source, file, needle):
            continue
        for step in walk_file(source, file, LIST_SPINE):
            if step.kind == "value" and step.number and isinstance(step.value, dict):
                yield cast("Fields", step.value)


def _holds(source: ExportFiles, file: str, needle: bytes) -> bool:
    tail = b""
    try:
        with source.open(file) as stream:
            while chunk := stream.read(2**20):
                if needle in tail + chunk:
                    return True
                tail = chunk[-len(needle) :]
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
        # If an app posts for an unlisted account, the account may be a person's or the app's own.
        is_ambiguous = bot and user not in reading.workspace.users and user != SLACKBOT
        return IncomingAuthor(account_id=user, name=author.name, kind="agent") if is_ambiguous else author
    commenter = first_text(object_field(fields, "comment"), "user")
    if commenter:
        return reading.workspace.user(checked_id(commenter, "comment.user"))
    if persona:
        # An old incoming webhook, from the time before bots had ids.
        return IncomingAuthor(
            account_id=first_text(fields, "app_id") or "webhook",
            name=persona,
            kind="agent",
            persona=persona[:255],
        )
    raise MalformedRecord("no author")


def _name_at_time(fields: Fields) -> str:
    """Return the author's name at the time of the message, if the export states it."""
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
    is_text = subtype in _TEXT_SUBTYPES
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
        kind="message" if is_text else "system",
        precision="us",
        thread_root=checked_id(root, "thread_ts") if root and root != ts else None,
        mentions=mentions(written) if is_text else [],
        attachments=attachments(fields, reading.names),
        reactions=[
            reaction(item, first_text(item, "name"), id_list(item.get("users")))
            for item in object_list(fields, "reactions")
        ],
        edited_at=edited,
        deleted=subtype == "tombstone",
        metadata=_metadata(fields, author, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _moment(ts: str) -> datetime:
    """Return the time in an id. It is exact to the microsecond."""
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


IMPORTER = Importer(
    name="slack",
    recognises=lambda source: bool(day_files(source)),
    read=_read,
    signs=('"ts"', '"user"', '"subtype"', '"thread_ts"', '"user_profile"'),
)
