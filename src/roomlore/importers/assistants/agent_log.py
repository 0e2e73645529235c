"""Imports the session logs of coding agents: JSON lines of two kinds.

In the first kind, a line has `type`, `message`, `uuid`, `parentUuid` and `sessionId`. In the second kind, the rollout
log, a line has `type` and `payload`, and the first line describes the session.

A session is a direct conversation of a person and an agent. What a tool returns is a message by the tool. The log stores
some texts of the program under the role of the person, such as reminders and the output of commands. These are `system`
messages without an author. Left out are the reasoning of the model and lines that are no messages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
    TimestampPrecision,
)
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import (
    Content,
    DerivedIds,
    Role,
    Sides,
    assistant,
    person,
    read_content,
    result_id,
    role_of,
    stated_time,
    tool,
    without_program_text,
    without_results,
)
from roomlore.importers.assistants.chat_records import (
    SNIFFED_LINES,
    RecordFormat,
    has_records,
    record_files,
    records,
)
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    as_record,
    checked_id,
    first_text,
    non_empty,
    object_field,
    object_list,
    platform_metadata,
)

_PLATFORM = "agent-log"
_SPOKEN = frozenset({"user", "assistant"})
_ROLLOUT = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
#: The list of lines in a log that is one object.
_LIST = "loglines"
_NOT_MESSAGE = "not a message"
_REASONING = "reasoning of the model"


def _looks(record: Fields) -> bool:
    listed = object_list(record, _LIST)[:SNIFFED_LINES]
    return _is_line(record) or any(_is_line(line, is_listed=True) for line in listed)


def _is_line(record: Fields, *, is_listed: bool = False) -> bool:
    kind = first_text(record, "type")
    if kind in _ROLLOUT:
        return isinstance(record.get("payload"), dict)
    return (
        kind in _SPOKEN
        and isinstance(record.get("message"), dict)
        and (is_listed or bool({"sessionId", "parentUuid", "uuid"} & record.keys()))
    )


_FORMAT = RecordFormat(
    looks=_looks,
    words=(b'"sessionId"', b'"parentUuid"', b'"uuid"', b'"payload"', b"loglines"),
    opened=(_LIST,),
)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the log states everything
    sessions: dict[str, _Session] = {}
    for file in record_files(source, _FORMAT):
        log = _Log(file=file, sessions=sessions)
        for number, (where, value) in enumerate(_lines(source, file), start=1):
            if isinstance(value, SkippedRecord):
                yield value
                continue
            line = _Line(where=where, number=number)
            try:
                yield from log.read(as_record(value), line)
            except MalformedRecord as error:
                yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)


def _lines(source: ExportFiles, file: str) -> Iterator[tuple[str, Any]]:
    """Yield the lines of a log. The log may also be one object with a list of them."""
    for where, value in records(source, file):
        listed = (as_object(value) or {}).get(_LIST)
        if isinstance(listed, list):
            yield from ((f"{where} line {n}", line) for n, line in enumerate(as_list(listed), start=1))
        else:
            yield where, value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The position of a line."""

    where: str
    number: int


@dataclass(slots=True, kw_only=True)
class _Session:
    """A session, and what later lines refer to."""

    room: IncomingRoom
    sides: Sides
    #: By the id of a line, the id of its message, or of the nearest message above it.
    anchors: dict[str, str] = field(default_factory=dict[str, str])
    #: By the id of a call, the name of the tool and the id of the calling message.
    calls: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    #: The ids of the messages. When a session goes on in another file, that file may repeat lines.
    seen: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Utterance:
    """A line that holds content."""

    session: _Session
    role: Role
    content: Content
    sent_at: datetime
    precision: TimestampPrecision
    #: The ids of the line and of the line that it follows; empty if they are not stated.
    line_id: str
    parent: str
    #: The agent that works for the agent of the session; empty in the session itself.
    subagent: str
    model: str
    raw: Fields
    line: _Line
    #: For lines without ids.
    ids: DerivedIds


@dataclass(slots=True, kw_only=True)
class _Log:
    """A log file while it is read."""

    file: str
    #: Sessions by id. A session may go on in another file.
    sessions: dict[str, _Session]
    #: The session of a rollout log, which its first line describes.
    rollout: _Session | None = None
    ids: DerivedIds = field(default_factory=DerivedIds)

    def read(self, fields: Fields, line: _Line) -> Iterator[ParsedItem]:
        """Yield the messages of a line. Raises MalformedRecord if the line has none."""
        kind = first_text(fields, "type")
        if kind in _ROLLOUT:
            said = self._rollout_line(fields, kind, line)
        elif kind in _SPOKEN or kind == "system":
            said = self._session_line(fields, kind, line)
        else:
            self._pass_on(fields)
            raise MalformedRecord(_NOT_MESSAGE)
        messages = list(_messages(said))
        self._note(said, messages)
        if not messages:
            raise MalformedRecord(_REASONING if said.content.has_reasoning else "no text")
        for message in messages:
            if message.external_id not in said.session.seen:
                said.session.seen.add(message.external_id)
                yield message

    def _session_line(self, fields: Fields, kind: str, line: _Line) -> _Utterance:
        message = object_field(fields, "message")
        session = self._session(first_text(fields, "sessionId"), first_text(fields, "cwd"))
        try:
            _require_spoken(fields)
            sent_at, precision = stated_time(fields.get("timestamp"))
            content = read_content((fields if kind == "system" else message).get("content"))
            role = role_of(first_text(message, "role") or kind)
        except MalformedRecord:
            self._pass_on(fields)
            raise
        is_sidechain = fields.get("isSidechain") is True
        return _Utterance(
            session=session,
            role=role,
            content=content,
            sent_at=sent_at,
            precision=precision,
            line_id=checked_id(first_text(fields, "uuid"), "uuid"),
            parent=first_text(fields, "parentUuid"),
            subagent=(first_text(fields, "agentId") or "subagent") if is_sidechain else "",
            model=first_text(message, "model"),
            raw=_without_results(fields, message),
            line=line,
            ids=self.ids,
        )

    def _rollout_line(self, fields: Fields, kind: str, line: _Line) -> _Utterance:
        payload = object_field(fields, "payload")
        if kind == "session_meta" and self.rollout is None:
            self.rollout = self._session(
                first_text(payload, "id"), first_text(payload, "cwd"), first_text(payload, "originator")
            )
        if kind != "response_item":
            raise MalformedRecord(_NOT_MESSAGE)
        if self.rollout is None:
            self.rollout = self._session("", "")
        item = first_text(payload, "type")
        content = read_content(payload.get("content") if item == "message" else [payload])
        if item != "message" and not (content.calls or content.results or content.has_reasoning):
            raise MalformedRecord(_NOT_MESSAGE)
        sent_at, precision = stated_time(fields.get("timestamp"))
        return _Utterance(
            session=self.rollout,
            role=role_of(first_text(payload, "role")) if item == "message" else "assistant",
            content=content,
            sent_at=sent_at,
            precision=precision,
            line_id="",
            parent="",
            subagent="",
            model="",
            raw=fields if not content.results else {"type": kind},
            line=line,
            ids=self.ids,
        )

    def _session(self, external_id: str, cwd: str, agent: str = "") -> _Session:
        external_id = external_id or PurePosixPath(self.file).stem
        known = self.sessions.get(external_id)
        if known is None:
            sides = Sides(person=person(), assistant=assistant(agent, agent))
            folder = cwd.replace("\\", "/").rstrip("/").rpartition("/")[2]
            name = f"{folder} {external_id[:8]}" if folder else external_id
            room = sides.room(external_id, name)
            known = self.sessions[external_id] = _Session(room=room, sides=sides)
        return known

    def _pass_on(self, fields: Fields) -> None:
        """Note that answers to a line that is left out answer the message above it."""
        session = self.sessions.get(first_text(fields, "sessionId"))
        line_id = first_text(fields, "uuid")
        if session and line_id:
            session.anchors[line_id] = session.anchors.get(first_text(fields, "parentUuid"), "")

    def _note(self, said: _Utterance, messages: list[IncomingMessage]) -> None:
        session = said.session
        above = session.anchors.get(said.parent, "")
        if said.line_id:
            session.anchors[said.line_id] = messages[0].external_id if messages else above
        if messages:
            for call, name in said.content.calls.items():
                session.calls[call] = (name, messages[0].external_id)


def _require_spoken(fields: Fields) -> None:
    """Raise MalformedRecord if the program wrote the line for the model only."""
    if fields.get("isMeta") is True or fields.get("isCompactSummary") is True:
        raise MalformedRecord("written by the program")


def _without_results(fields: Fields, message: Fields) -> Fields:
    """Return the record without results of tools. If a result is erased, its text must not stay here."""
    kept = {key: value for key, value in fields.items() if key != "toolUseResult"}
    if message:
        kept["message"] = {**message, "content": without_results(message.get("content"))}
    return kept


def _messages(said: _Utterance) -> Iterator[IncomingMessage]:
    content = _own_content(said)
    message = IncomingMessage(
        platform=_PLATFORM,
        room=said.session.room,
        external_id=_external_id(said),
        author=_author(said),
        body=content.text,
        sent_at=said.sent_at,
        precision=said.precision,
        order=said.line.number,
        reply_to=said.session.anchors.get(said.parent) or None,
        attachments=content.attachments,
        synthetic_id=not said.line_id,
        metadata=platform_metadata(model=said.model, subagent=said.subagent),
        raw=said.raw,
        where=said.line.where,
    )
    is_program = said.role == "system" or (said.role == "person" and content is not said.content)
    if not content.is_empty:
        yield replace(message, kind="system" if said.role == "system" else "message")
    elif is_program and said.content.text.strip():
        system = said.session.sides.author("system")
        yield replace(message, kind="system", author=system, body=said.content.text)
    for number, result in enumerate(content.results, start=1):
        if not result.text.strip():
            continue
        name, caller = said.session.calls.get(result.call, (result.name, ""))
        yield replace(
            message,
            external_id=result_id(message.external_id, number),
            author=tool(name),
            body=result.text,
            attachments=(),
            reply_to=caller or message.reply_to,
            synthetic_id=True,
            raw=non_empty(call=result.call, content=result.text),
        )


def _external_id(said: _Utterance) -> str:
    results = [result.call for result in said.content.results]
    calls = list(said.content.calls)
    return said.line_id or said.ids.of(
        said.role, said.sent_at.isoformat(), said.content.text, *calls, *results
    )


def _author(said: _Utterance) -> IncomingAuthor:
    """Return the author. In the work of a subagent, the words of the other side are the agent's, not the person's."""
    sides = said.session.sides
    if not said.subagent or said.role in {"system", "tool"}:
        return sides.author(said.role)
    if said.role == "person":
        return sides.assistant
    return assistant(said.subagent, said.subagent)


def _own_content(said: _Utterance) -> Content:
    """Return the content without what a program wrote under the role of the person."""
    if said.role != "person":
        return said.content
    raw = said.raw
    given = object_field(raw, "message").get("content", object_field(raw, "payload").get("content"))
    blocks = [given] if isinstance(given, str) else as_list(given)
    kept = [own for block in blocks if (own := _own_block(block))]
    if kept == blocks:
        return said.content
    own = read_content(kept)
    return replace(said.content, text=own.text, attachments=own.attachments)


def _own_block(block: Any) -> Any:
    """Return a block, or what of it are the words of the person."""
    text = block if isinstance(block, str) else first_text(as_object(block) or {}, "text")
    own = without_program_text(text)
    return block if own == text else own


IMPORTER = Importer(
    name=_PLATFORM,
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"sessionId"', '"parentUuid"', '"tool_use"', '"isSidechain"', "response_item"),
)
