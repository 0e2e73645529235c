"""Knows a Slack export's rooms, people and apps, as far as its lists tell.

The lists are help, never a condition: folders may be missing from `channels.json`, authors from `users.json`.
A folder that no list explains is readable by those who wrote in it, each from then on, and nobody else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingRoom,
    ParticipantKind,
    RoomKind,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.importers.fields import MAX_ID, Fields, first_text, id_list, object_field
from roomlore.importers.json_stream import JsonShape, skipped_fault, walk_file

DAY_FILE = lazy_pattern(r"(?:.*/)?([^/]+)/(\d{4}-\d\d-\d\d)\.json")
_DIRECT_ID = lazy_pattern(r"D[A-Z0-9]{8,}")
_INTEGRATION = lazy_pattern(r"/services/(?P<bot>B[A-Z0-9]+)\|(?P<name>[^<>|]+)>")
#: "Harbour Works Slack export Jan 1 2024 - Feb 2 2024.zip".
_EXPORT_NAME_MARK = " Slack export "
#: Slack's own account; it is in no list.
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
    """What the lists of an export say; filled once, before the first message."""

    folders: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    #: As the file is called that Slack offers; empty where it is called otherwise.
    name: str = ""
    users: dict[str, Fields] = field(default_factory=dict[str, Fields])
    apps: dict[str, str] = field(default_factory=dict[str, str])
    rooms: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])
    room_names: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[SkippedRecord] = field(default_factory=list[SkippedRecord])

    def user_name(self, account: str) -> str:
        """Return the name shown for an account; empty when no list has it."""
        if account == SLACKBOT:
            return "slackbot"
        user = self.users.get(account, {})
        profile = object_field(user, "profile")
        return first_text(profile, "display_name", "real_name") or first_text(user, "real_name", "name")

    def room_name(self, room: str) -> str:
        """Return the name of a room by its id; empty when no list has it."""
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
    """Return what the export's lists and folders say."""
    name, found, _ = source.name.partition(_EXPORT_NAME_MARK)
    space = Workspace(folders=day_files(source), name=name if found else "")
    for name in ("users.json", "integration_logs.json", *_LISTS):
        for file in _list_file(source, name):
            for record in _records(source, file, space):
                _add_record(space, name, record)
    return space


def day_files(source: ExportFiles) -> dict[str, list[str]]:
    """Return the day files of each room's folder; whatever else lies there is not messages."""
    folders: dict[str, list[str]] = {}
    root = _export_root(source)
    for file in source.files:
        match = DAY_FILE.fullmatch(file)
        if match and file.rsplit("/", 2)[0] in {root, match[1]}:
            folders.setdefault(match[1], []).append(file)
    return folders


def _export_root(source: ExportFiles) -> str:
    """Return the folder that the rooms' folders lie in: the lists', else the shallowest one."""
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
    # Some exporters put every kind of room into one list and mark it.
    if record.get("is_im") is True:
        kind = "dm"
    elif record.get("is_mpim") is True:
        kind = "group_dm"
    private = any(record.get(flag) is True for flag in ("is_private", "is_im", "is_mpim", "is_group"))
    members = id_list(record.get("members"))
    name = (
        first_text(record, "name")
        or " and ".join(space.user_name(who) or who for who in members)
        or external_id
    )
    room = IncomingRoom(
        external_id=external_id,
        name=name,
        kind=kind,
        visibility="open" if is_open and not private else "members",
        topic=first_text(object_field(record, "topic"), "value"),
        workspace=space.name,
        members=tuple(IncomingMembership(author=space.user(who)) for who in members),
    )
    space.room_names[external_id] = name
    for folder in {external_id, first_text(record, "name")} - {""}:
        # Two lists naming one folder disagree about who may read: the narrower one holds.
        if folder not in space.rooms or room.visibility == "members":
            space.rooms[folder] = room


def unlisted_room(space: Workspace, folder: str) -> IncomingRoom:
    """Return the room of a folder that no list explains, without its members; it may be a private one."""
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
    """Remember what a bot is called from the line that tells of its arrival, the only place old exports say it."""
    match = _INTEGRATION.search(first_text(fields, "text"))
    if match and match["bot"] == first_text(fields, "bot_id"):
        space.apps.setdefault(match["bot"], match["name"])


def bot_name(space: Workspace, fields: Fields) -> str:
    """Return what an app is called, from the message or the export's lists; empty when unknown."""
    named = first_text(object_field(fields, "bot_profile"), "name")
    bot, app = first_text(fields, "bot_id"), first_text(fields, "app_id")
    return named or space.apps.get(bot, "") or space.apps.get(app, "")
