"""Imports Mattermost's bulk export: JSON lines of teams, channels, users, bots and posts.

Pitfalls: posts have no ids, and replies are inside their posts, in any order. A webhook posts with the account of the
person who made it. A public channel is public in its team only.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.reading.fields import (
    MAX_ID,
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    as_record,
    build_or_skip,
    checked_id,
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
from roomlore.importers.reading.json_stream import skipped_fault, walk
from roomlore.importers.reading.text_lines import is_format, read_lines, shallowest_files

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".txt")
_PEEK_BYTES = 2**16
_SNIFFED_LINES = 20
_SNIFFED_FILES = 50
_POSTS = frozenset({"post", "direct_post"})
#: Lines that describe something. Only some of them are used.
_DESCRIPTIONS = frozenset({
    "version", "scheme", "role", "emoji", "team", "channel", "user", "bot", "direct_channel",
})  # fmt: skip
#: How the server begins the line of a post. Most lines are posts.
_POST_LINE = lazy_pattern(r'\{"type": ?"(?:direct_)?post"')
_SIDES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    """A user line."""

    author: IncomingAuthor
    #: The channels by team.
    channels: dict[str, frozenset[str]]
    deactivated_at: datetime | None

    def membership(self) -> IncomingMembership:
        """Return the membership of the user in a room. A deactivated user reads nothing more."""
        return IncomingMembership(author=self.author, left_at=self.deactivated_at)


@dataclass(slots=True)
class _Server:
    """The descriptions of an export."""

    teams: dict[str, Fields] = field(default_factory=dict[str, Fields])
    channels: dict[tuple[str, str], Fields] = field(default_factory=dict[tuple[str, str], Fields])
    users: dict[str, _User] = field(default_factory=dict[str, _User])
    bots: dict[str, str] = field(default_factory=dict[str, str])
    rooms: dict[tuple[str, ...], IncomingRoom] = field(default_factory=dict[tuple[str, ...], IncomingRoom])

    def note(self, kind: str, fields: Fields) -> None:
        """Note a description."""
        name = first_text(fields, "name")
        if kind == "team":
            self.teams[name] = fields
        elif kind == "channel":
            self.channels[first_text(fields, "team"), name] = fields
        elif kind == "bot":
            username = first_text(fields, "username")
            self.bots[username] = first_text(fields, "display_name") or username
        elif kind == "user" and 0 < len(first_text(fields, "username")) <= MAX_ID:
            self.users[first_text(fields, "username")] = _user(fields)

    def account(self, username: str) -> IncomingAuthor:
        """Return an account by its name."""
        if username in self.bots:
            return IncomingAuthor(account_id=username, name=self.bots[username], kind="agent")
        user = self.users.get(username)
        return user.author if user else IncomingAuthor(account_id=username, name=username)

    def channel(self, team: str, name: str) -> IncomingRoom:
        """Return the room of a channel."""
        key = (team, name)
        if key not in self.rooms:
            self.rooms[key] = self._channel(team, name)
        return self.rooms[key]

    def _channel(self, team: str, name: str) -> IncomingRoom:
        fields = self.channels.get((team, name), {})
        kind = first_text(fields, "type")
        is_known = kind in {"O", "P"}
        is_open = kind == "O" and self._is_for_all(team)
        readers = [
            user.membership()
            for user in self.users.values()
            if name in user.channels.get(team, ()) or (kind == "O" and team in user.channels)
        ]
        return IncomingRoom(
            external_id=checked_id(f"{team}/{name}", "team and channel"),
            name=first_text(fields, "display_name") or name,
            # A channel that no line describes may be private.
            kind="channel" if is_known else None,
            visibility="open" if is_open else "members" if is_known else None,
            topic=first_text(fields, "header", "purpose"),
            members=() if is_open else tuple(readers),
            workspace=first_text(self.teams.get(team, {}), "display_name") or team,
        )

    def _is_for_all(self, team: str) -> bool:
        """Return whether everybody may read the public channels of a team: all may join it, or are in it."""
        if self.teams.get(team, {}).get("allow_open_invite") is True:
            return True
        return all(team in user.channels for user in self.users.values() if user.channels)

    def direct(self, members: list[str]) -> IncomingRoom:
        """Return the room of a direct conversation."""
        key = tuple(sorted(set(members)))
        if not key:
            raise MalformedRecord("no room")
        # Two names are a key of `rooms` for channels, too.
        if ("", *key) not in self.rooms:
            self.rooms["", *key] = self._direct(key)
        return self.rooms["", *key]

    def _direct(self, members: tuple[str, ...]) -> IncomingRoom:
        listed = ",".join(members)
        external_id = f"direct:{listed}"
        if len(external_id) > MAX_ID:
            external_id = f"direct:{hashlib.sha256(listed.encode('utf-8', 'replace')).hexdigest()}"
        authors = [self.account(member) for member in members]
        return IncomingRoom(
            external_id=external_id,
            name=" and ".join(author.name for author in authors),
            kind="dm" if len(members) <= _SIDES else "group_dm",
            visibility="members",
            members=tuple(IncomingMembership(author=author) for author in authors),
        )


def _user(fields: Fields) -> _User:
    username = first_text(fields, "username")
    full_name = f"{first_text(fields, 'first_name')} {first_text(fields, 'last_name')}".strip()
    channels = {
        first_text(team, "name"): frozenset(
            first_text(channel, "name") for channel in object_list(team, "channels")
        )
        for team in object_list(fields, "teams")
    }
    return _User(
        author=IncomingAuthor(
            account_id=username, name=first_text(fields, "nickname") or full_name or username
        ),
        channels=channels,
        deactivated_at=_optional_time(fields, "delete_at"),
    )


def _is_export(source: ExportFiles, file: str) -> bool:
    if len(source.files) > 1 and not file.lower().endswith(_SUFFIXES):
        return False
    with source.open(file) as stream:
        lines = stream.read(_PEEK_BYTES).splitlines()[:_SNIFFED_LINES]
    # A line that is cut off is no export, unless its beginning says so.
    return any(_is_description(line) for line in lines)


def _is_description(line: bytes) -> bool:
    for step in walk(io.BytesIO(line), {}):
        fields = as_object(step.value) if step.kind == "value" else None
        if fields is None:
            return False
        kind = first_text(fields, "type")
        if kind == "version":
            return integer_field(fields, "version") is not None
        return kind in _DESCRIPTIONS | _POSTS and as_object(fields.get(kind)) is not None
    return False


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
    files, skipped = shallowest_files(source, _is_export)
    yield from skipped
    server = _Server()
    for file in files:
        for _, _, value in _values(source, file, only_descriptions=True):
            fields = as_object(value) or {}
            kind = first_text(fields, "type")
            if kind in _DESCRIPTIONS:
                server.note(kind, object_field(fields, kind))
    repeats: Counter[tuple[str, str]] = Counter()
    for file in files:
        for number, where, value in _values(source, file):
            if isinstance(value, SkippedRecord):
                yield value
            else:
                yield from _line(
                    value, _ReadContext(server=server, repeats=repeats, where=where, order=number)
                )


def _values(
    source: ExportFiles, file: str, *, only_descriptions: bool = False
) -> Iterator[tuple[int, str, Any]]:
    """Yield the value of each line with its number and place; a SkippedRecord for a broken line."""
    for line in read_lines(source, file):
        if isinstance(line, SkippedRecord):
            yield 0, line.where, line
        elif line.text.strip() and not (only_descriptions and _POST_LINE.match(line.text)):
            where = f"{file} line {line.number}"
            stream = io.BytesIO(line.text.encode("utf-8", "replace"))
            for step in walk(stream, {}):
                yield line.number, where, skipped_fault(step, where) if step.kind == "fault" else step.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    """The context of a post."""

    server: _Server
    #: Counts the posts of an account at the same time, by room.
    repeats: Counter[tuple[str, str]]
    where: str
    #: The number of the line.
    order: int
    room: IncomingRoom | None = None
    #: The post that a reply belongs to.
    root: str | None = None


def _line(value: Any, at: _ReadContext) -> Iterator[ParsedItem]:
    try:
        post, room = _post(value, at.server)
    except MalformedRecord as error:
        yield SkippedRecord(where=at.where, reason=error.reason, detail=error.detail)
        return
    if room is None:
        return
    at = replace(at, room=room)
    root: str | None = None
    for item in build_or_skip(post, at.where, build=partial(_message, at=at)):
        root = item.external_id if isinstance(item, IncomingMessage) else None
        yield item
    for number, reply in enumerate(_replies(post), start=1):
        inner = replace(at, where=f"{at.where} reply {number}", root=root)
        yield from build_or_skip(reply, inner.where, build=partial(_message, at=inner))


def _post(value: Any, server: _Server) -> tuple[Fields, IncomingRoom | None]:
    """Return the post of a line and its room. A description has no room."""
    record = as_record(value)
    kind = first_text(record, "type")
    if kind in _DESCRIPTIONS:
        return record, None
    if kind not in _POSTS:
        raise MalformedRecord("not a line of a Mattermost export")
    post = as_record(record.get(kind))
    return post, _room(kind, post, server)


def _room(kind: str, post: Fields, server: _Server) -> IncomingRoom:
    if kind == "direct_post":
        return server.direct(id_list(post.get("channel_members")))
    return server.channel(required_id(post, "team", "no room"), required_id(post, "channel", "no room"))


def _replies(post: Fields) -> list[Any]:
    replies = post.get("replies")
    return [] if replies is None else as_list(replies) if isinstance(replies, list) else [replies]


def _message(fields: Fields, at: _ReadContext) -> IncomingMessage:
    room = at.room
    if room is None:
        raise MalformedRecord("no room")
    username = required_id(fields, "user", "no author")
    created = integer_field(fields, "create_at")
    if created is None:
        raise MalformedRecord("no time")
    kind = text_field(fields, "type")
    edited = _optional_time(fields, "edit_at")
    author = _author(fields, at.server.account(username))
    return IncomingMessage(
        platform="mattermost",
        room=room,
        author=author,
        body=text_field(fields, "message"),
        sent_at=_time(created),
        # The id comes last, because a post that is left out must not change the ids of others.
        external_id=_external_id(room, username, created, at.repeats),
        kind="system" if kind.startswith("system_") else "message",
        order=at.order,
        thread_root=at.root,
        attachments=attachments(fields),
        reactions=reactions(fields),
        edited_at=edited,
        synthetic_id=True,
        metadata=platform_metadata(
            type=kind if kind != "me" else "",
            action=kind == "me",
            history_lost=edited is not None,
            pinned=fields.get("is_pinned") is True,
            posted_by=username if author.persona else "",
        ),
        raw={key: value for key, value in fields.items() if key != "replies"},
        where=at.where,
    )


def _external_id(room: IncomingRoom, username: str, created: int, repeats: Counter[tuple[str, str]]) -> str:
    """Return an id that stays the same when the text is edited: author, time, and a number if these repeat."""
    digest = hashlib.sha256(username.encode("utf-8", "replace")).hexdigest()[:12]
    external_id = f"{created}:{digest}"
    repeats[room.external_id, external_id] += 1
    count = repeats[room.external_id, external_id]
    return external_id if count == 1 else f"{external_id}:{count}"


def _time(milliseconds: int) -> datetime:
    return unix_time(milliseconds // 1000, microseconds=milliseconds % 1000 * 1000)


def _optional_time(fields: Fields, key: str) -> datetime | None:
    """Return an optional time. Zero means none."""
    milliseconds = integer_field(fields, key)
    try:
        return _time(milliseconds) if milliseconds else None
    except MalformedRecord:
        return None


def _author(fields: Fields, account: IncomingAuthor) -> IncomingAuthor:
    """Return the author of a post. A webhook speaks under a name of its own."""
    props = object_field(fields, "props")
    if not _is_true(props, "from_webhook"):
        is_bot = account.kind == "agent" or _is_true(props, "from_bot")
        return IncomingAuthor(
            account_id=account.account_id, name=account.name, kind="agent" if is_bot else "human"
        )
    persona = first_text(props, "override_username", "webhook_display_name") or "webhook"
    return IncomingAuthor(account_id=account.account_id, name=persona, kind="agent", persona=persona[:MAX_ID])


def _is_true(props: Fields, key: str) -> bool:
    """Return whether a mark is set. The server writes it as a text."""
    return props.get(key) in (True, "true")


def attachments(fields: Fields) -> list[dict[str, Any]]:
    """Return the files and cards of a post."""
    files = [
        non_empty(name=PurePosixPath(first_text(item, "path")).name, url=first_text(item, "path"))
        for item in object_list(fields, "attachments")
    ]
    cards = [
        {"type": "card"} | _card(item) for item in object_list(object_field(fields, "props"), "attachments")
    ]
    return [*(file for file in files if file), *cards]


def _card(item: Fields) -> dict[str, Any]:
    inner = [
        non_empty(name=first_text(entry, "title"), value=first_text(entry, "value"))
        for entry in object_list(item, "fields")
    ]
    text = first_text(item, "text")
    # The fallback repeats everything else for simple clients.
    is_described = text or first_text(item, "pretext", "title")
    return non_empty(
        author=first_text(item, "author_name"),
        pretext=first_text(item, "pretext"),
        name=first_text(item, "title"),
        url=first_text(item, "title_link", "image_url"),
        text=text or ("" if is_described else first_text(item, "fallback")),
        fields=[entry for entry in inner if entry],
        footer=first_text(item, "footer"),
    )


def reactions(fields: Fields) -> list[dict[str, Any]]:
    """Return the reactions to a post, by emoji."""
    by: dict[str, list[str]] = {}
    for item in object_list(fields, "reactions"):
        emoji, username = first_text(item, "emoji_name"), first_text(item, "user")
        if emoji and username:
            by.setdefault(emoji, []).append(username)
    return [{"emoji": emoji, "count": len(names), "by": id_list(names)} for emoji, names in by.items()]


IMPORTER = Importer(
    name="mattermost",
    recognises=partial(is_format, fits=_is_export, most=_SNIFFED_FILES),
    read=_read,
    signs=('"post"', '"create_at"', '"channel_members"', '"team"', '"type":'),
)
