"""Streams JSON, so that a huge or damaged file still yields every value before the damage.

The C parser emits events. Only the containers of a `JsonShape` are walked into; their values are built as Python
objects. The bytes are repaired first, because one fault would lose the rest of the file. Invalid UTF-8 and lone
surrogates become U+FFFD; control characters become spaces.
"""

import codecs
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple

import ijson

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles
from roomlore.importers.reading.fields import TOO_DEEP

JsonPath = tuple[str, ...]
#: The containers to walk into, by path: an object, a list, or either.
JsonShape = Mapping[JsonPath, Literal["object", "list", "any"]]
#: The path element for list items.
ITEM = "[]"
#: The maximum nesting of a value. Deeper nesting would exhaust the stack of a serialiser.
MAX_DEPTH = 60
#: The bytes read to recognise a file.
PEEK_BYTES = 2**16
#: The files read to recognise an export.
SNIFFED_FILES = 50

_START_EVENTS = {"start_map": "object", "start_array": "list"}
#: Error messages of the C parser that contain no text of the file.
_FAULTS = ("parse error: ", "lexical error: ")
_END_EVENTS = frozenset({"end_map", "end_array"})
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: A surrogate pair, a lone surrogate, or another escape. An escaped backslash begins no escape.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_FIRST_HALF = lazy_pattern(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SURROGATE = lazy_pattern(r"\\u[dD][89a-fA-F]")
_PAIR_LENGTH = len(r"\ud83d\ude00")
_CONTROLS = bytes.maketrans(bytes([*range(9), 11, 12, *range(14, 32)]), b" " * 29)


class JsonStep(NamedTuple):
    """An event while a document is read: a container was opened, a value was read, or a fault was found."""

    kind: Literal["opened", "value", "fault"]
    #: The path of the opened container, or of the container of the value.
    place: JsonPath
    #: The member name of a value in an object.
    key: str
    #: The number of a value in a list, from 1.
    number: int
    #: The value. For a fault, its reason and detail.
    value: Any


@dataclass(slots=True)
class _Frame:
    place: JsonPath
    is_list: bool
    key: str = ""
    number: int = 0


class _Utf8Stream:
    """A byte stream as clean UTF-8."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None
        #: The start of an escape that continues in the next chunk.
        self._begun = ""

    def read(self, size: int = -1) -> bytes:
        if size == 0:
            return b""
        while True:
            data = self._stream.read(size)
            if self._decoder is None:
                data, encoding = _with_encoding(data)
                self._decoder = codecs.getincrementaldecoder(encoding)("replace")
            text = self._begun + self._decoder.decode(data, final=not data)
            cut = _incomplete_escape(text) if data else len(text)
            text, self._begun = replace_lone_surrogates(text[:cut]), text[cut:]
            if text or not data:
                return text.encode("utf-8", "replace").translate(_CONTROLS)


def _incomplete_escape(text: str) -> int:
    """Return the position of an incomplete escape at the end; the length of the text if there is none."""
    place = text.find("\\", max(len(text) - _PAIR_LENGTH + 1, 0))
    if place < 0:
        return len(text)
    if _is_escaped(text, place):
        return place - 1
    first = place - _PAIR_LENGTH // 2
    is_second_half = first >= 0 and _FIRST_HALF.match(text, first) and not _is_escaped(text, first)
    return first if is_second_half else place


def _is_escaped(text: str, place: int) -> bool:
    """Return whether the backslash is itself escaped."""
    bare = len(text[:place].rstrip("\\"))
    return (place - bare) % 2 == 1


def replace_lone_surrogates(text: str) -> str:
    """Return JSON with U+FFFD in place of lone surrogates, which cannot be stored."""
    if _SURROGATE.search(text) is None:
        return text
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape["half"] else escape[0], text)


def _with_encoding(data: bytes) -> tuple[bytes, str]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :], encoding
    return data, "utf-8"


def walk(stream: IO[bytes], spine: JsonShape) -> Iterator[JsonStep]:
    """Yield the steps through the containers of `spine`. A fault is the last step."""
    try:
        # Numbers become floats, because with Decimal a huge number can block the interpreter.
        yield from _steps(iter(ijson.basic_parse(_Utf8Stream(stream), use_float=True)), spine)
    except ijson.JSONError as error:
        message = str(error).strip().removeprefix("b'").removeprefix('b"')
        detail = message.split("\n", 1)[0].split("\\n", 1)[0][:120]
        reason = "truncated JSON" if "premature EOF" in detail else "damaged JSON"
        # Other error messages may quote the file, perhaps a secret.
        yield JsonStep("fault", (), "", 0, (reason, detail if detail.startswith(_FAULTS) else ""))
    except OSError as error:
        yield JsonStep("fault", (), "", 0, ("unreadable file", error.strerror or str(error)))


def _steps(events: Iterator[tuple[str, Any]], spine: JsonShape) -> Iterator[JsonStep]:
    frames: list[_Frame] = []
    for event, value in events:
        if event == "map_key":
            frames[-1].key = value
            continue
        if event in _END_EVENTS:
            frames.pop()
            continue
        place, key, number = _current_path(frames)
        inner = (*place, key or ITEM) if frames else ()
        if event in _START_EVENTS and spine.get(inner) in (_START_EVENTS[event], "any"):
            frames.append(_Frame(inner, event == "start_array"))
            yield JsonStep("opened", inner, "", number, None)
        else:
            yield JsonStep("value", place, key, number, _build_value(event, value, events))


def _current_path(frames: list[_Frame]) -> tuple[JsonPath, str, int]:
    if not frames:
        return (), "", 0
    frame = frames[-1]
    if frame.is_list:
        frame.number += 1
        return frame.place, "", frame.number
    return frame.place, frame.key, 0


def _build_value(event: str, value: Any, events: Iterator[tuple[str, Any]]) -> Any:
    """Return the value that begins with this event. Its events are consumed."""
    if event not in _START_EVENTS:
        return value
    top = _empty(event)
    stack = [top]
    deep = False
    key = ""
    for event_, value_ in events:
        if event_ == "map_key":
            key = value_
        elif event_ in _END_EVENTS:
            stack.pop()
            if not stack:
                break
        else:
            starts = event_ in _START_EVENTS
            built = _empty(event_) if starts else value_
            deep = deep or len(stack) > MAX_DEPTH
            if not deep:
                holder = stack[-1]
                if isinstance(holder, dict):
                    holder[key] = built
                else:
                    holder.append(built)
            if starts:
                stack.append(built)
    return TOO_DEEP if deep else top


def _empty(event: str) -> Any:
    return {} if event == "start_map" else []


def walk_file(source: ExportFiles, file: str, spine: JsonShape) -> Iterator[JsonStep]:
    """Walk a file of an export. A file that cannot be opened is reported as a fault."""
    try:
        with source.open(file) as stream:
            yield from walk(stream, spine)
    except OSError as error:
        yield JsonStep("fault", (), "", 0, ("unreadable file", error.strerror or str(error)))


def skipped_fault(step: JsonStep, file: str) -> SkippedRecord:
    """Return the SkippedRecord that reports a fault."""
    reason, detail = step.value
    return SkippedRecord(where=file, reason=reason, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStart:
    """The beginning of a JSON file."""

    #: The members of the root object. A long list is cut.
    members: Mapping[str, Any]
    #: The first items of a root list.
    items: tuple[Any, ...]


def peek(source: ExportFiles, file: str) -> FileStart:
    """Return the beginning of a file. It is empty if the file is not JSON."""
    members: dict[str, Any] = {}
    items: list[Any] = []
    try:
        with source.open(file) as stream:
            head = stream.read(PEEK_BYTES)
    except OSError:
        head = b""
    spine: JsonShape = {(): "any", ("messages",): "list", ("chats",): "object"}
    for step in walk(io.BytesIO(head), spine):
        if step.kind == "fault":
            break
        if step.kind == "opened" and step.place:
            members[step.place[0]] = [] if step.place == ("messages",) else {}
        elif step.kind == "value":
            _record_step(step, members, items)
    return FileStart(members=members, items=tuple(items))


def _record_step(step: JsonStep, members: dict[str, Any], items: list[Any]) -> None:
    if step.place == ("messages",):
        members["messages"].append(step.value)
    elif step.place == ("chats",):
        members["chats"][step.key] = step.value
    elif step.key:
        members[step.key] = step.value
    else:
        items.append(step.value)


def has_export(source: ExportFiles, looks: Callable[[FileStart], bool]) -> bool:
    """Return whether one of the first JSON files looks like an export."""
    return any(looks(peek(source, file)) for file in _json_files(source)[:SNIFFED_FILES])


def _json_files(source: ExportFiles) -> list[str]:
    """Return the JSON files, by depth. A single file may have any name."""
    if len(source.files) == 1:
        return list(source.files)
    files = [file for file in source.files if file.lower().endswith(".json")]
    return sorted(files, key=lambda name: name.count("/"))


def json_exports(
    source: ExportFiles, looks: Callable[[FileStart], bool]
) -> tuple[list[str], list[SkippedRecord]]:
    """Return the export files, and a record for each other JSON file at their level or above.

    Only the shallowest level with an export is read. Deeper files may be attachments, and an attachment may imitate an
    export.
    """
    exports: list[str] = []
    skipped: list[SkippedRecord] = []
    for file in _json_files(source):
        fits = looks(peek(source, file))
        deeper = bool(exports) and file.count("/") > exports[0].count("/")
        if fits and not deeper:
            exports.append(file)
        elif fits:
            skipped.append(
                SkippedRecord(
                    where=file, reason="export among attachments", detail="import its folder by itself"
                )
            )
        elif not deeper:
            skipped.append(SkippedRecord(where=file, reason="not an export of this format"))
    return exports, skipped
