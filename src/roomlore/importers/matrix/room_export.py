"""Imports Matrix rooms: the JSON export of Element, and saved responses of a homeserver's client API.

Pitfalls: an edit, a reaction or a redaction is a separate event, before or after its target, perhaps in another file.
Pages may list the newest event first. The body of a reply may begin with a quote for old clients, and a message in a
thread may name a parent for them. The name of an author is in the state of the room.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import dropwhile
from typing import Any, Literal

from roomlore.domain.incoming import IncomingMessage, IncomingRoom, ParsedItem, SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.matrix.state import RoomFacts, event_time, state_text
from roomlore.importers.reading.fields import (
    MAX_ID,
    Fields,
    MalformedRecord,
    as_list,
    as_object,
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
)
from roomlore.importers.reading.json_stream import JsonPath, JsonStep, skipped_fault, walk, walk_file
from roomlore.importers.reading.text_lines import (
    MAX_LINE_BYTES,
    is_format,
    read_lines,
    shallowest_files,
    unreadable,
)

_FILE_TYPES = {"m.image": "image", "m.file": "file", "m.audio": "audio", "m.video": "video"}
_POLL_TYPES = frozenset({"m.poll.start", "org.matrix.msc3381.poll.start"})
_MESSAGE_TYPES = _POLL_TYPES | {"m.room.message", "m.sticker", "m.room.encrypted"}
#: Element's type of a message that it could not decrypt.
_UNDECRYPTED = "m.bad.encrypted"
#: The first line of the quote that clients put before the text of a reply.
_FALLBACK = lazy_pattern(r"> (?:\* )?<@[^<>\s]{1,255}>")


def is_redacted(fields: Fields) -> bool:
    """Return whether an event says that its content was removed."""
    unsigned = object_field(fields, "unsigned")
    return bool(object_field(unsigned, "redacted_because") or first_text(unsigned, "redacted_by"))


def is_encrypted(kind: str, content: Fields) -> bool:
    """Return whether the content of an event could not be read."""
    return kind == "m.room.encrypted" or first_text(content, "msgtype") == _UNDECRYPTED


def own_text(content: Fields, *, is_reply: bool) -> str:
    """Return the text of a message, without the quote of a reply. The name of a file is no text."""
    kind, body = first_text(content, "msgtype"), text_field(content, "body")
    if kind in _FILE_TYPES:
        return body if first_text(content, "filename") not in {"", body} else ""
    if kind == "m.location":
        return ""
    if not body and "body" not in content:
        raise MalformedRecord("no text")
    return _without_fallback(body) if is_reply else body


def _without_fallback(body: str) -> str:
    if not _FALLBACK.match(body):
        return body
    rest = list(dropwhile(lambda line: line.startswith(">"), body.split("\n")))
    return "\n".join(rest[1:] if rest and not rest[0].strip() else rest)


def attachments(kind: str, content: Fields) -> list[dict[str, Any]]:
    """Return the file, place, sticker or poll of a message. `kind` is the type of its event."""
    if kind in _POLL_TYPES:
        return [{"type": "poll"} | _poll(content)]
    if kind == "m.sticker":
        return [{"type": "sticker"} | _file_facts(content)]
    message_type = first_text(content, "msgtype")
    if message_type in _FILE_TYPES:
        is_voice = message_type == "m.audio" and bool(
            {"org.matrix.msc3245.voice", "org.matrix.msc3245.voice.v2"} & content.keys()
        )
        return [{"type": "voice message" if is_voice else _FILE_TYPES[message_type]} | _file_facts(content)]
    if message_type == "m.location":
        place = first_text(content, "geo_uri").removeprefix("geo:")
        return [{"type": "location"} | non_empty(name=first_text(content, "body"), text=place)]
    return []


def _file_facts(content: Fields) -> dict[str, Any]:
    return non_empty(
        name=first_text(content, "filename", "body"),
        url=first_text(content, "url") or first_text(object_field(content, "file"), "url"),
        size=integer_field(object_field(content, "info"), "size"),
    )


def _poll(content: Fields) -> dict[str, Any]:
    poll = object_field(content, "m.poll") or object_field(content, "org.matrix.msc3381.poll.start")
    poll = poll or object_field(content, "m.poll.start")
    options = [_rich_text(answer) for answer in object_list(poll, "answers")]
    return non_empty(
        name=_rich_text(object_field(poll, "question")), options=[text for text in options if text]
    )


def _rich_text(item: Fields) -> str:
    """Return a text in one of the forms that polls use."""
    plain = first_text(item, "org.matrix.msc1767.text", "m.text", "body")
    return plain or next(
        (text for part in object_list(item, "m.text") if (text := first_text(part, "body"))), ""
    )


class _Shape(Mapping[JsonPath, Literal["object", "list", "any"]]):
    """A shape in which an asterisk stands for the id of any room."""

    def __init__(self, shape: dict[JsonPath, Literal["object", "list", "any"]]) -> None:
        self._shape = shape

    def __getitem__(self, place: JsonPath) -> Literal["object", "list", "any"]:
        is_room = place[:1] == ("rooms",) and len(place) > len(("rooms", "join"))
        return self._shape[(*place[:2], "*", *place[3:]) if is_room else place]

    def __iter__(self) -> Iterator[JsonPath]:
        return iter(self._shape)

    def __len__(self) -> int:
        return len(self._shape)


_SHAPE = _Shape(
    {
        (): "any",
        # An export of Element.
        ("messages",): "list",
        # Responses to /messages and /context.
        **{(key,): "list" for key in ("chunk", "state", "events_before", "events_after")},
        # A response to /sync.
        ("rooms",): "object",
        **{
            ("rooms", way, *rest): "list" if rest[-1:] == ("events",) else "object"
            for way in ("join", "leave")
            for rest in (
                (),
                ("*",),
                *(
                    ("*", part, *inner)
                    for part in ("timeline", "state", "state_after")
                    for inner in ((), ("events",))
                ),
            )
        },
    }
)
_STATE_PARTS = frozenset({"state", "state_after"})
_PEEK_BYTES = 2**18
_SNIFFED_FILES = 50
_LINES_TO_TRY = 2
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A value at a place where events are, or the summary of a room."""

    value: Any
    where: str
    position: int
    #: The room that the file names around the value; empty if it names none.
    room: str = ""
    is_summary: bool = False
    #: State before or after the messages: it describes the room, and is no message.
    is_state: bool = False
    #: The name and topic of the room in an export of Element.
    heading: tuple[str, str] = ("", "")


@dataclass(slots=True)
class _Walker:
    """Finds the events of one file."""

    file: str
    position: int = 0
    heading: tuple[str, str] = ("", "")

    def found(self, source: ExportFiles) -> Iterator[_Found | SkippedRecord]:
        """Yield the events of the file, whether it has one value or one value on each line."""
        try:
            is_lined = _has_json_lines(source, self.file)
        except OSError as error:
            yield unreadable(self.file, error)
            return
        if not is_lined:
            yield from self.steps(walk_file(source, self.file, _SHAPE), self.file)
            return
        for line in read_lines(source, self.file):
            if isinstance(line, SkippedRecord):
                yield line
            elif line.text.strip():
                stream = io.BytesIO(line.text.encode("utf-8", "replace"))
                yield from self.steps(walk(stream, _SHAPE), f"{self.file} line {line.number}")

    def steps(self, steps: Iterator[JsonStep], where: str) -> Iterator[_Found | SkippedRecord]:
        """Yield the events of one JSON value."""
        root: dict[str, Any] = {}
        for step in steps:
            if step.kind == "fault":
                yield skipped_fault(step, where)
                return
            if step.kind != "value":
                continue
            if step.number:
                yield self._event(step, where)
            elif step.place == ():
                root[step.key] = step.value
                yield from self._root_member(step, where)
            elif step.key == "summary" and len(step.place) == len(("rooms", "join", "id")):
                yield _Found(value=step.value, where=where, position=0, room=step.place[2], is_summary=True)
        if "event_id" in root:
            self.position += 1
            yield _Found(value=root, where=where, position=self.position)

    def _event(self, step: JsonStep, where: str) -> _Found:
        self.position += 1
        place = step.place
        in_room = place[:1] == ("rooms",)
        return _Found(
            value=step.value,
            where=f"{where} record {self.position if where == self.file else step.number}",
            position=self.position,
            # An export that names no room by id is a room of its own.
            room=place[2] if in_room else f"name:{self.heading[0]}"[:MAX_ID] if self.heading[0] else "",
            is_state=(place[3] if in_room else place[-1] if place else "") in _STATE_PARTS,
            heading=self.heading,
        )

    def _root_member(self, step: JsonStep, where: str) -> Iterator[_Found | SkippedRecord]:
        if step.key == "event" and as_object(step.value) is not None:
            self.position += 1
            yield _Found(value=step.value, where=f"{where} event", position=self.position)
        elif step.key == "room_name" and isinstance(step.value, str):
            self.heading = step.value, self.heading[1]
        elif step.key == "topic" and isinstance(step.value, str):
            self.heading = self.heading[0], step.value
        elif step.key in {"messages", "chunk"}:
            yield SkippedRecord(where=where, reason="not a list of messages")


def _has_json_lines(source: ExportFiles, file: str) -> bool:
    """Return whether each line of a file is a JSON value of its own. Its first two lines decide."""
    lines: list[bytes] = []
    with source.open(file) as stream:
        while len(lines) < _LINES_TO_TRY and (line := stream.readline(MAX_LINE_BYTES)):
            if line.strip():
                lines.append(line)
    if len(lines) < _LINES_TO_TRY or not lines[0].removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        return False
    return any(map(_is_json_object, lines))


def _is_json_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_event(value: Any) -> bool:
    fields = as_object(value) or {}
    return (
        first_text(fields, "event_id").startswith("$")
        and first_text(fields, "sender").startswith("@")
        and bool(first_text(fields, "type"))
        and as_object(fields.get("content")) is not None
    )


def _is_matrix_file(source: ExportFiles, file: str) -> bool:
    if len(source.files) > 1 and not file.lower().endswith(_SUFFIXES):
        return False
    with source.open(file) as stream:
        head = stream.read(_PEEK_BYTES).removeprefix(_BYTE_ORDER_MARK).lstrip()
    if head[:1] not in (b"{", b"["):
        return False
    return any(
        not isinstance(found, SkippedRecord) and _is_event(found.value)
        for part in (head, head.partition(b"\n")[0])
        for found in _Walker(file).steps(walk(io.BytesIO(part), _SHAPE), file)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """The newest edit of a message by its author."""

    at: datetime
    #: The new content; None if the server states only that the message was edited.
    content: Fields | None


#: A room and an event in it.
_Target = tuple[str, str]


@dataclass(slots=True)
class _Relations:
    """The events that change other events, by their targets."""

    #: Edits by target and editor, because only the author may edit. The key of an edit is its own id.
    edits: dict[_Target, dict[str, tuple[str, _Edit]]] = field(
        default_factory=dict[_Target, dict[str, tuple[str, _Edit]]]
    )
    #: Reactions by emoji and account, each with the id of its event.
    reactions: dict[_Target, dict[tuple[str, str], str]] = field(
        default_factory=dict[_Target, dict[tuple[str, str], str]]
    )
    redacted: set[_Target] = field(default_factory=set[_Target])
    #: Targets that were not met, with the places and kinds of the events that name them.
    missing: dict[_Target, list[tuple[str, str]]] = field(
        default_factory=dict[_Target, list[tuple[str, str]]]
    )

    def add(self, room: str, fields: Fields, where: str) -> None:
        """Collect what an event says about others. Raises MalformedRecord if it has no time."""
        if is_redacted(fields):
            self.redacted.add((room, first_text(fields, "event_id")))
            return
        kind, target = related(fields)
        at, sender = event_time(fields), first_text(fields, "sender")
        if kind and target:
            self.missing.setdefault((room, target), []).append((where, kind))
        if kind == "edit":
            new = as_object(object_field(fields, "content").get("m.new_content"))
            self._add_edit((room, target), sender, first_text(fields, "event_id"), _Edit(at=at, content=new))
        elif kind == "reaction":
            key = first_text(object_field(object_field(fields, "content"), "m.relates_to"), "key")
            if key and 0 < len(sender) <= MAX_ID:
                given = self.reactions.setdefault((room, target), {})
                given.setdefault((key, sender), first_text(fields, "event_id"))
        elif kind == "redaction":
            self.redacted.add((room, target))
        self._add_bundled_edit(room, fields)

    def _add_bundled_edit(self, room: str, fields: Fields) -> None:
        bundled = object_field(object_field(object_field(fields, "unsigned"), "m.relations"), "m.replace")
        if integer_field(bundled, "origin_server_ts") is None:
            return
        new = as_object(object_field(bundled, "content").get("m.new_content"))
        edit = _Edit(at=event_time(bundled), content=new)
        target = room, first_text(fields, "event_id")
        self._add_edit(target, first_text(bundled, "sender"), first_text(bundled, "event_id"), edit)

    def _add_edit(self, target: _Target, sender: str, event_id: str, edit: _Edit) -> None:
        by_sender = self.edits.setdefault(target, {})
        known = by_sender.get(sender)
        if known is None or (known[1].at, known[1].content is not None) < (edit.at, edit.content is not None):
            by_sender[sender] = event_id, edit

    def edit_of(self, target: _Target, sender: str) -> _Edit | None:
        """Return the newest edit of a message, unless it was redacted."""
        event_id, edit = self.edits.get(target, {}).get(sender, ("", None))
        return None if (target[0], event_id) in self.redacted else edit

    def reactions_to(self, target: _Target, counts: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return the reactions to a message. `counts` are the numbers that the server states."""
        by: dict[str, list[str]] = {key: [] for key in counts}
        for (key, sender), event_id in self.reactions.get(target, {}).items():
            if (target[0], event_id) not in self.redacted:
                by.setdefault(key, []).append(sender)
        return [
            non_empty(emoji=key, count=max(len(senders), counts.get(key, 0)), by=senders)
            for key, senders in by.items()
            if senders or counts.get(key)
        ]

    def unmet(self) -> Iterator[SkippedRecord]:
        """Yield the edits, reactions and redactions whose targets were not met."""
        for places in self.missing.values():
            for where, kind in places:
                yield SkippedRecord(
                    where=where, reason=f"{kind} {'to' if kind == 'reaction' else 'of'} a missing message"
                )


def related(fields: Fields) -> tuple[str, str]:
    """Return what an event does to another one, and the id of the other; empty if it does nothing."""
    kind, content = first_text(fields, "type"), object_field(fields, "content")
    if kind == "m.room.redaction":
        return "redaction", first_text(fields, "redacts") or first_text(content, "redacts")
    relation = object_field(content, "m.relates_to")
    if kind == "m.reaction":
        return "reaction", first_text(relation, "event_id")
    is_readable = kind in _MESSAGE_TYPES and not is_encrypted(kind, content)
    if is_readable and first_text(relation, "rel_type") == "m.replace":
        return "edit", first_text(relation, "event_id")
    return "", ""


@dataclass(slots=True)
class _Survey:
    """What the first pass collects from all files."""

    facts: dict[str, RoomFacts] = field(default_factory=dict[str, RoomFacts])
    relations: _Relations = field(default_factory=_Relations)
    #: The times of the first and the last message of each file.
    ends: dict[str, tuple[datetime, datetime]] = field(default_factory=dict[str, tuple[datetime, datetime]])

    def note(self, file: str, found: _Found) -> None:
        """Collect what a value says about its room and about other events."""
        if found.is_summary:
            count = integer_field(as_object(found.value) or {}, "m.joined_member_count")
            self.facts.setdefault(found.room, RoomFacts()).member_count = count or 0
            return
        fields = as_object(found.value)
        room = room_of(fields, found) if fields else ""
        if fields is None or not room:
            return
        facts = self.facts.setdefault(room, RoomFacts())
        facts.heading = found.heading if any(found.heading) else facts.heading
        try:
            at = event_time(fields)
            if isinstance(fields.get("state_key"), str):
                facts.note_state(fields, at)
            elif not found.is_state:
                self.ends[file] = self.ends.get(file, (at, at))[0], at
                facts.note_message(first_text(fields, "sender"), at)
            self.relations.add(room, fields, found.where)
        except MalformedRecord:
            return

    def rooms(self) -> dict[str, IncomingRoom]:
        """Return the descriptions of all rooms."""
        for facts in self.facts.values():
            facts.sort()
        return {room: facts.room(room) for room, facts in self.facts.items()}

    def order(self, file: str, position: int) -> int:
        """Return a position as an order in time. A page may begin with its newest event."""
        first, last = self.ends.get(file, (None, None))
        return -position if first is not None and last is not None and last < first else position


def room_of(fields: Fields, found: _Found) -> str:
    """Return the id of the room of an event; empty if it is unknown or too long."""
    room = first_text(fields, "room_id") or found.room
    return room if len(room) <= MAX_ID else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadContext:
    """The context of a message."""

    room: IncomingRoom
    facts: RoomFacts
    relations: _Relations
    where: str
    order: int


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the events state everything
    files, skipped = shallowest_files(source, _is_matrix_file)
    yield from skipped
    survey = _Survey()
    for file in files:
        for found in _Walker(file).found(source):
            if not isinstance(found, SkippedRecord):
                survey.note(file, found)
    rooms = survey.rooms()
    for file in files:
        for found in _Walker(file).found(source):
            if isinstance(found, SkippedRecord):
                yield found
            elif not found.is_summary:
                yield from _items(file, found, survey, rooms)
    yield from survey.relations.unmet()


def _items(file: str, found: _Found, survey: _Survey, rooms: dict[str, IncomingRoom]) -> Iterator[ParsedItem]:
    fields = as_object(found.value) or {}
    room = room_of(fields, found)
    if room in rooms:
        survey.relations.missing.pop((room, first_text(fields, "event_id")), None)
        if found.is_state or _is_silent(fields):
            return
        context = _ReadContext(
            room=rooms[room],
            facts=survey.facts[room],
            relations=survey.relations,
            where=found.where,
            order=survey.order(file, found.position),
        )
        yield from build_or_skip(found.value, found.where, build=partial(_message, at=context))
    elif not found.is_state:
        yield from build_or_skip(found.value, found.where, build=_without_room)


def _without_room(fields: Fields) -> IncomingMessage:
    del fields  # another error comes first if the record is no object
    raise MalformedRecord("no room")


def _is_silent(fields: Fields) -> bool:
    """Return whether an event is no message, but was used: for its target, or for the room."""
    kind, target = related(fields)
    if kind:
        # Of a removed reaction, the target is not known any more.
        return bool(target) or is_redacted(fields)
    return isinstance(fields.get("state_key"), str) and not state_text(fields, "")


def _message(fields: Fields, at: _ReadContext) -> IncomingMessage:
    external_id = required_id(fields, "event_id", "no id")
    sender = required_id(fields, "sender", "no author")
    kind, content = first_text(fields, "type"), object_field(fields, "content")
    sent_at = event_time(fields)
    target = at.room.external_id, external_id
    deleted = is_redacted(fields) or target in at.relations.redacted
    is_state = isinstance(fields.get("state_key"), str)
    edit = None if is_state or deleted else at.relations.edit_of(target, sender)
    current = (edit.content if edit else None) or content
    parent, root = (None, None) if is_state else _parents(content)
    body = _body(fields, current, at, deleted=deleted)
    is_notice = first_text(current, "msgtype") == "m.server_notice"
    return IncomingMessage(
        platform="matrix",
        room=at.room,
        external_id=external_id,
        author=at.facts.author(sender, sent_at),
        body=body,
        sent_at=sent_at,
        kind="system" if is_state or is_notice else "message",
        order=at.order,
        reply_to=parent,
        thread_root=root,
        mentions=[] if is_state or deleted else id_list(object_field(current, "m.mentions").get("user_ids")),
        attachments=[] if is_state or deleted else attachments(kind, current),
        reactions=[] if is_state or deleted else at.relations.reactions_to(target, _stated_counts(fields)),
        edited_at=edit.at if edit else None,
        deleted=deleted,
        metadata=_metadata(fields, current, edited=edit is not None),
        raw=None if deleted else _without_keys(fields),
        where=at.where,
    )


def _body(fields: Fields, content: Fields, at: _ReadContext, *, deleted: bool) -> str:
    """Return the text of an event. Raises MalformedRecord if the event is no message."""
    kind = first_text(fields, "type")
    if isinstance(fields.get("state_key"), str):
        return (
            ""
            if deleted
            else state_text(fields, at.facts.author(str(fields["state_key"]), event_time(fields)).name)
        )
    if kind not in _MESSAGE_TYPES or first_text(content, "msgtype") == "m.key.verification.request":
        raise MalformedRecord("not a message")
    if deleted:
        return ""
    if is_encrypted(kind, content):
        raise MalformedRecord("encrypted")
    if kind != "m.room.message":
        return ""
    original = object_field(object_field(fields, "content"), "m.relates_to")
    return own_text(content, is_reply=bool(object_field(original, "m.in_reply_to")))


def _parents(content: Fields) -> tuple[str | None, str | None]:
    """Return the ids of the parent and of the first message of the thread."""
    relation = object_field(content, "m.relates_to")
    parent = (
        checked_id(text_field(object_field(relation, "m.in_reply_to"), "event_id"), "m.in_reply_to") or None
    )
    if first_text(relation, "rel_type") != "m.thread":
        return parent, None
    root = checked_id(text_field(relation, "event_id"), "m.relates_to.event_id") or None
    # Old clients show a message of a thread as a reply to the message before it.
    return (None if relation.get("is_falling_back") is True else parent), root


def _stated_counts(fields: Fields) -> dict[str, int]:
    """Return the numbers of reactions that a server states."""
    relations = object_field(object_field(fields, "unsigned"), "m.relations")
    stated = object_list(object_field(relations, "m.annotation"), "chunk")
    return {
        key: count
        for item in stated
        if first_text(item, "type") == "m.reaction" and (key := first_text(item, "key"))
        if (count := integer_field(item, "count")) is not None and count > 0
    }


def _metadata(fields: Fields, content: Fields, *, edited: bool) -> dict[str, Any]:
    kind, message_type = first_text(fields, "type"), first_text(content, "msgtype")
    is_member = kind == "m.room.member"
    return platform_metadata(
        type=kind if isinstance(fields.get("state_key"), str) else None,
        membership=first_text(content, "membership") if is_member else None,
        member=first_text(fields, "state_key") if is_member else None,
        action=message_type == "m.emote",
        notice=message_type in {"m.notice", "m.server_notice"},
        history_lost=edited,
    )


def _without_keys(fields: Fields) -> Fields:
    """Return an event without the keys of its encrypted files."""
    is_encrypted = any("file" in part or "thumbnail_file" in part for part in _file_parts(fields))
    return {**fields, "content": _stripped(fields["content"])} if is_encrypted else fields


def _file_parts(fields: Fields) -> Iterator[Fields]:
    content = object_field(fields, "content")
    for part in (content, object_field(content, "m.new_content")):
        yield from (part, object_field(part, "info"))


def _stripped(value: Any) -> Any:
    """Return a content without keys in objects. The key of a reaction is a text."""
    fields = as_object(value)
    if fields is not None:
        return {key: _stripped(item) for key, item in fields.items() if key != "key" or isinstance(item, str)}
    return [_stripped(item) for item in as_list(value)] if isinstance(value, list) else value


IMPORTER = Importer(
    name="matrix",
    recognises=partial(is_format, fits=_is_matrix_file, most=_SNIFFED_FILES),
    read=_read,
    signs=('"event_id"', '"origin_server_ts"', '"sender"', "m.room.message", '"room_id"'),
)
