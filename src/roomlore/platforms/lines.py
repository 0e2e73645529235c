"""Reads text line by line from files that may be huge, broken or not text at all."""

from collections.abc import Iterator
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
