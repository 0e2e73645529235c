"""Reads the records of a chat export: the items of a JSON list, one JSON object, or one JSON object per line."""

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles
from roomlore.importers.reading.fields import Fields, as_object
from roomlore.importers.reading.json_stream import (
    ITEM,
    MAX_DEPTH,
    SNIFFED_FILES,
    JsonPath,
    JsonStep,
    skipped_fault,
    walk,
    walk_file,
)
from roomlore.importers.reading.text_lines import MAX_LINE_BYTES, TextLine, read_lines, unreadable

#: The bytes read to recognise a file. The first record may be long.
PEEK_BYTES = 2**18
#: The lines read to recognise a file. Logs may begin with lines that are no messages.
SNIFFED_LINES = 50
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".af", ".txt", ".log")
#: In digits. Longer integers may need more than 64 bits.
_LONGEST_INTEGER = 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CONVERSATIONS = lazy_pattern(r"(?:.*/)?conversations(?:-\d{1,6})?\.json")
#: Files that a person uploaded to ChatGPT.
_UPLOAD = lazy_pattern(r"(?:.*/)?file[-_][^/]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """How the records of a format look."""

    looks: Callable[[Fields], bool]
    #: One of these is in the beginning of each file. Parsing all files would take seconds.
    words: tuple[bytes, ...]
    #: The paths of members whose first values `looks` needs.
    opened: tuple[str, ...] = ()


def records(source: ExportFiles, file: str) -> Iterator[tuple[str, Any]]:
    """Yield each record of a file with its position. What cannot be read is yielded as a SkippedRecord."""
    try:
        is_lined = _has_lines(source, file)
    except OSError as error:
        yield file, unreadable(file, error)
        return
    if is_lined:
        for line in read_lines(source, file):
            yield from _line_record(line, file)
        return
    for step in walk_file(source, file, {(): "list"}):
        if step.kind == "value" and isinstance(step.value, str) and not step.number:
            # Some servers write the document as a text in a text.
            stream = io.BytesIO(step.value.encode("utf-8", "replace"))
            for inner in walk(stream, {(): "list"}):
                yield from _document_record(inner, file)
        else:
            yield from _document_record(step, file)


def _document_record(step: JsonStep, file: str) -> Iterator[tuple[str, Any]]:
    if step.kind == "fault":
        yield file, skipped_fault(step, file)
    elif step.kind == "value":
        yield f"{file} record {step.number}" if step.number else file, step.value


def _line_record(line: TextLine | SkippedRecord, file: str) -> Iterator[tuple[str, Any]]:
    if isinstance(line, SkippedRecord):
        yield line.where, line
    elif line.text.strip():
        where = f"{file} line {line.number}"
        value = _fast_value(line.text)
        if value is not None:
            yield where, value
            return
        steps = list(walk(io.BytesIO(line.text.encode("utf-8", "replace")), {}))
        fault = next((step for step in steps if step.kind == "fault"), None)
        yield where, skipped_fault(fault, where) if fault else steps[0].value


def _fast_value(text: str) -> Any:
    """Return the value of an ordinary line; None if the line needs a closer look.

    The parser of streams repairs damage and limits numbers and depth, but it takes five times as long.
    """
    if "\\ud" in text or "\\uD" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        return None
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_short_integer)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _short_integer(digits: str) -> int:
    return int(digits) if len(digits) < _LONGEST_INTEGER else _refuse(digits)


def _has_lines(source: ExportFiles, file: str) -> bool:
    """Return whether a file has one JSON object per line. Its first line that is not blank decides."""
    with source.open(file) as stream:
        while data := stream.readline(MAX_LINE_BYTES):
            line = data.removeprefix(_BYTE_ORDER_MARK).strip()
            if line:
                return line[:1] == b"{" and line[-1:] == b"}"
    return False


def peek_records(source: ExportFiles, file: str, form: RecordFormat) -> list[Fields]:
    """Return the first records of a file as far as they can be read, if the file may have the format.

    Of a JSON document, this is the first record. A long record is cut. To see the beginning of a long member, name its
    path in `opened`, such as `values.messages`; `[]` is an item of a list. The record then has a member of this name with the first values.
    """
    try:
        with source.open(file) as stream:
            head = stream.read(PEEK_BYTES).removeprefix(_BYTE_ORDER_MARK).lstrip()
    except OSError:
        return []
    if not any(word in head for word in form.words):
        return []
    if head[:1] == b'"':
        head = _unquoted(head)
    if head[:1] not in (b"{", b"["):
        return []
    lines = [line for line in head.split(b"\n")[: SNIFFED_LINES + 1] if line.strip()]
    if lines[0].rstrip()[:1] == b"{" and lines[0].rstrip()[-1:] == b"}":
        found = [_first_record(line, form.opened) for line in lines[:SNIFFED_LINES]]
    else:
        found = [_first_record(head, form.opened)]
    return [fields for fields in found if fields]


def _unquoted(head: bytes) -> bytes:
    """Return the beginning of a document that is written as a text in a text."""
    for step in walk(io.BytesIO(head), {}):
        if step.kind == "value" and isinstance(step.value, str):
            return step.value.encode("utf-8", "replace")
    text = head.decode("utf-8", "replace")
    # The end may be in the middle of an escape, which has at most six characters.
    for cut in range(7):
        try:
            found = json.loads(f'{text[: len(text) - cut]}"', strict=False)
        except ValueError:
            continue
        return found.encode("utf-8", "replace") if isinstance(found, str) else b""
    return b""


def _first_record(data: bytes, opened: Sequence[str]) -> Fields:
    spine: dict[JsonPath, Literal["object", "list", "any"]] = {(): "any", (ITEM,): "object"}
    for path in opened:
        names = path.split(".")
        for depth in range(1, len(names) + 1):
            spine[tuple(names[:depth])] = spine[ITEM, *names[:depth]] = "any"
    members: dict[str, Any] = {}
    for step in walk(io.BytesIO(data), spine):
        if step.kind == "fault" or (step.place == (ITEM,) and step.kind == "opened" and step.number > 1):
            break
        _note(step, members)
    return members


def _note(step: JsonStep, members: dict[str, Any]) -> None:
    place = step.place[1:] if step.place[:1] == (ITEM,) else step.place
    if step.kind == "opened":
        if place:
            members[".".join(place)] = []
    elif place:
        members[".".join(place)].append(step.value)
    elif step.key:
        members[step.key] = step.value


def has_records(source: ExportFiles, form: RecordFormat) -> bool:
    """Return whether a record at the beginning of one of the first files looks like the format."""
    files = _without_uploads(_candidates(source))
    return any(_fits(source, file, form) for file in files[:SNIFFED_FILES])


def _fits(source: ExportFiles, file: str, form: RecordFormat) -> bool:
    return any(form.looks(record) for record in peek_records(source, file, form))


def _candidates(source: ExportFiles) -> list[str]:
    """Return the files that may hold records, by depth. A single file may have any name."""
    if len(source.files) == 1:
        return list(source.files)
    files = [file for file in source.files if file.lower().endswith(_SUFFIXES)]
    return sorted(files, key=lambda name: (name.count("/"), not _CONVERSATIONS.fullmatch(name)))


def record_files(source: ExportFiles, form: RecordFormat) -> list[str]:
    """Return the files of a format, at any depth. A single file is always returned."""
    if len(source.files) == 1:
        return list(source.files)
    files = _without_uploads(_candidates(source))
    return [file for file in files if _fits(source, file, form)]


def _without_uploads(files: list[str]) -> list[str]:
    """Return the files without uploads in the archive of an assistant. An upload may be an export of its own."""
    if not any(_CONVERSATIONS.fullmatch(file) for file in files):
        return files
    return [file for file in files if not _UPLOAD.fullmatch(file)]


def conversation_files(source: ExportFiles, form: RecordFormat) -> list[str]:
    """Return the files of conversations in the archives of assistants.

    If there are files named `conversations.json` or numbered parts of it, only these are returned.
    """
    fitting = record_files(source, form)
    return [file for file in fitting if _CONVERSATIONS.fullmatch(file)] or fitting


def companion(source: ExportFiles, beside: str, name: str) -> Iterator[Fields]:
    """Yield the records of the file with this name in the same folder, if there is one."""
    folder = beside.rpartition("/")[0]
    file = f"{folder}/{name}" if folder else name
    if file in source.files:
        for _, value in records(source, file):
            fields = as_object(value)
            if fields is not None:
                yield fields
