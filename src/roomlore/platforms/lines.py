"""Reads text line by line from files that may be huge, broken or not text at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roomlore.domain.incoming import Skipped
from roomlore.domain.ports import Source

#: Longest line that is taken; no chat message comes near.
MAX_LINE_BYTES = 16 * 2**20
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end."""

    number: int
    text: str


def read_lines(source: Source, file: str) -> Iterator[Line | Skipped]:
    """Yield the lines of a file, invalid UTF-8 replaced; a fault ends it with its report."""
    number = 0
    try:
        with source.open(file) as stream:
            while data := stream.readline(MAX_LINE_BYTES):
                number += 1
                if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                    while data and not data.endswith(b"\n"):
                        data = stream.readline(MAX_LINE_BYTES)
                    yield Skipped(where=f"{file} line {number}", reason="line too long")
                    continue
                if number == 1:
                    data = data.removeprefix(_UTF8_MARK)
                yield Line(number=number, text=data.decode("utf-8", "replace").rstrip("\r\n"))
    except OSError as error:
        yield Skipped(
            where=f"{file} after line {number}", reason="unreadable file", detail=error.strerror or str(error)
        )


def looks_like(source: Source, file: str, fits: Callable[[Source, str], bool]) -> bool | Skipped:
    """Return whether a file is of a format, or the report line when it cannot be read."""
    try:
        return fits(source, file)
    except OSError as error:
        return Skipped(where=file, reason="unreadable file", detail=error.strerror or str(error))


def matching(source: Source, fits: Callable[[Source, str], bool]) -> tuple[list[str], list[Skipped]]:
    """Return the files of a format, and a report line for each unreadable one; a single file is taken as asked."""
    if len(source.files) == 1:
        return list(source.files), []
    found = {file: looks_like(source, file, fits) for file in source.files}
    files = [file for file, verdict in found.items() if verdict is True]
    return files, [verdict for verdict in found.values() if isinstance(verdict, Skipped)]
