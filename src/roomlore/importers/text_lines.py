"""Reads text line by line from files that may be huge, broken or not text at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.ports import ExportFiles

#: Longest line that is taken; no chat message comes near.
MAX_LINE_BYTES = 16 * 2**20
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """One line without its end."""

    number: int
    text: str


def read_lines(source: ExportFiles, file: str) -> Iterator[TextLine | SkippedRecord]:
    """Yield the lines of a file, invalid UTF-8 replaced; a fault ends it with its report."""
    number = 0
    try:
        with source.open(file) as stream:
            while data := stream.readline(MAX_LINE_BYTES):
                number += 1
                if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                    while data and not data.endswith(b"\n"):
                        data = stream.readline(MAX_LINE_BYTES)
                    yield SkippedRecord(where=f"{file} line {number}", reason="line too long")
                    continue
                if number == 1:
                    data = data.removeprefix(_UTF8_MARK)
                yield TextLine(number=number, text=data.decode("utf-8", "replace").rstrip("\r\n"))
    except OSError as error:
        yield SkippedRecord(
            where=f"{file} after line {number}", reason="unreadable file", detail=error.strerror or str(error)
        )


def matches_format(
    source: ExportFiles, file: str, fits: Callable[[ExportFiles, str], bool]
) -> bool | SkippedRecord:
    """Return whether a file is of a format, or the report line when it cannot be read."""
    try:
        return fits(source, file)
    except OSError as error:
        return SkippedRecord(where=file, reason="unreadable file", detail=error.strerror or str(error))


def matching_files(
    source: ExportFiles, fits: Callable[[ExportFiles, str], bool]
) -> tuple[list[str], list[SkippedRecord]]:
    """Return the files of a format, and a report line for each unreadable one; a single file is taken as asked."""
    if len(source.files) == 1:
        return list(source.files), []
    found = {file: matches_format(source, file, fits) for file in source.files}
    files = [file for file, verdict in found.items() if verdict is True]
    return files, [verdict for verdict in found.values() if isinstance(verdict, SkippedRecord)]
