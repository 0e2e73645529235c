"""Walks JSON as it streams, so that a huge or broken file still yields all that stands before the fault.

The C parser gives events; only the containers named in a `Spine` are walked into, everything below is built
as plain Python. Bytes are mended first: invalid UTF-8 and escaped halves of surrogate pairs become U+FFFD and bare
control characters spaces, since one of them would otherwise cost the rest of the file.
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
from roomlore.importers.fields import TOO_DEEP

JsonPath = tuple[str, ...]
#: Which containers to walk into, by place: as an object, as a list, or as either.
JsonShape = Mapping[JsonPath, Literal["object", "list", "any"]]
#: Stands for "an element of this list" in a place.
ITEM = "[]"
#: Nesting of one value; deeper ones exhaust the stack of whoever serialises them later.
MAX_DEPTH = 60
#: How much of a file is looked at to recognise it.
PEEK_BYTES = 2**16
#: How many files are looked at to recognise an export.
SNIFFED_FILES = 50

_START_EVENTS = {"start_map": "object", "start_array": "list"}
#: How the C parser begins a first line that holds fixed phrases only.
_FAULTS = ("parse error: ", "lexical error: ")
_END_EVENTS = frozenset({"end_map", "end_array"})
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: A whole pair of surrogates, a half of one, or any other escape; a backslash that is escaped begins none.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_FIRST_HALF = lazy_pattern(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SURROGATE = lazy_pattern(r"\\u[dD][89a-fA-F]")
_PAIR_LENGTH = len(r"\ud83d\ude00")
_CONTROLS = bytes.maketrans(bytes([*range(9), 11, 12, *range(14, 32)]), b" " * 29)


class JsonStep(NamedTuple):
    """One thing met on the walk."""

    kind: Literal["opened", "value", "fault"]
    #: Place of the opened container, or of the container that the value stands in.
    place: JsonPath
    #: Member name of a value in an object.
    key: str
    #: Number of a value in a list, from 1.
    number: int
    #: The value; for a fault, its reason and detail.
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
        #: The beginning of an escape that goes on in the next bytes.
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
    """Return where the escapes at the end begin that may go on; the length of the text where none do."""
    place = text.find("\\", max(len(text) - _PAIR_LENGTH + 1, 0))
    if place < 0:
        return len(text)
    if _is_escaped(text, place):
        return place - 1
    first = place - _PAIR_LENGTH // 2
    is_second_half = first >= 0 and _FIRST_HALF.match(text, first) and not _is_escaped(text, first)
    return first if is_second_half else place


def _is_escaped(text: str, place: int) -> bool:
    """Return whether a backslash is escaped by one before it: every second one of a row is."""
    bare = len(text[:place].rstrip("\\"))
    return (place - bare) % 2 == 1


def replace_lone_surrogates(text: str) -> str:
    """Return JSON with U+FFFD for each escaped half of a surrogate pair: it is no character and cannot be stored."""
    if _SURROGATE.search(text) is None:
        return text
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape["half"] else escape[0], text)


def _with_encoding(data: bytes) -> tuple[bytes, str]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :], encoding
    return data, "utf-8"


def walk(stream: IO[bytes], spine: JsonShape) -> Iterator[JsonStep]:
    """Yield what the spine passes, in file order; on a fault one last step that names it."""
    try:
        # Floats are also the safe way: in the other mode a number of thousands of digits breaks the interpreter.
        yield from _steps(iter(ijson.basic_parse(_Utf8Stream(stream), use_float=True)), spine)
    except ijson.JSONError as error:
        said = str(error).strip().removeprefix("b'").removeprefix('b"')
        detail = said.split("\n", 1)[0].split("\\n", 1)[0][:120]
        reason = "truncated JSON" if "premature EOF" in detail else "damaged JSON"
        # Whatever else an error says may be a piece of the file, and with it somebody's words or secrets.
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
    """Return the value that begins with this event, taking the rest of its events."""
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
            made = _empty(event_) if starts else value_
            deep = deep or len(stack) > MAX_DEPTH
            if not deep:
                holder = stack[-1]
                if isinstance(holder, dict):
                    holder[key] = made
                else:
                    holder.append(made)
            if starts:
                stack.append(made)
    return TOO_DEEP if deep else top


def _empty(event: str) -> Any:
    return {} if event == "start_map" else []


def walk_file(source: ExportFiles, file: str, spine: JsonShape) -> Iterator[JsonStep]:
    """Walk one file of an export; a file that cannot be opened is one fault."""
    try:
        with source.open(file) as stream:
            yield from walk(stream, spine)
    except OSError as error:
        yield JsonStep("fault", (), "", 0, ("unreadable file", error.strerror or str(error)))


def skipped_fault(step: JsonStep, file: str) -> SkippedRecord:
    """Return the report line of a fault."""
    reason, detail = step.value
    return SkippedRecord(where=file, reason=reason, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStart:
    """What the first kilobytes of a JSON file show."""

    #: Members of the root object; a long list among them holds its first elements.
    members: Mapping[str, Any]
    #: First elements of a root list.
    items: tuple[Any, ...]


def peek(source: ExportFiles, file: str) -> FileStart:
    """Return what stands at the beginning of a file; nothing when it is not JSON."""
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
    """Return whether one of the first JSON files looks like an export; a few are enough to know."""
    return any(looks(peek(source, file)) for file in _json_files(source)[:SNIFFED_FILES])


def _json_files(source: ExportFiles) -> list[str]:
    """Return the JSON files, shallowest first; a single file may have any name."""
    if len(source.files) == 1:
        return list(source.files)
    files = [file for file in source.files if file.lower().endswith(".json")]
    return sorted(files, key=lambda name: name.count("/"))


def json_exports(
    source: ExportFiles, looks: Callable[[FileStart], bool]
) -> tuple[list[str], list[SkippedRecord]]:
    """Return the files that are exports, and a report line for each JSON file beside or below them that is not.

    Only the shallowest level that holds an export is read: what lies deeper are files that people sent,
    and one of those may be made to look like an export.
    """
    chosen: list[str] = []
    left: list[SkippedRecord] = []
    for file in _json_files(source):
        fits = looks(peek(source, file))
        deeper = bool(chosen) and file.count("/") > chosen[0].count("/")
        if fits and not deeper:
            chosen.append(file)
        elif fits:
            left.append(
                SkippedRecord(
                    where=file, reason="export among attachments", detail="import its folder by itself"
                )
            )
        elif not deeper:
            left.append(SkippedRecord(where=file, reason="not an export of this format"))
    return chosen, left
