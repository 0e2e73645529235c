"""Reads text files line by line, even if they are huge, damaged or binary."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.ports import ExportFiles

#: The maximum length of a line. No message comes near it.
MAX_LINE_BYTES = 16 * 2**20
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """A line without its end."""

    number: int
    text: str


def read_lines(source: ExportFiles, file: str) -> Iterator[TextLine | SkippedRecord]:
    """Yield the lines of a file, with invalid UTF-8 replaced. A read error ends the file."""
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
        yield unreadable(f"{file} after line {number}", error)


def matches_format(
    source: ExportFiles, file: str, fits: Callable[[ExportFiles, str], bool]
) -> bool | SkippedRecord:
    """Return whether a file has a format. If the file is unreadable, return a SkippedRecord."""
    try:
        return fits(source, file)
    except OSError as error:
        return unreadable(file, error)


def is_format(source: ExportFiles, fits: Callable[[ExportFiles, str], bool], *, most: int = 200) -> bool:
    """Return whether one of the first files has a format."""
    return any(matches_format(source, file, fits) is True for file in source.files[:most])


def unreadable(where: str, error: OSError) -> SkippedRecord:
    """Return the record of a file that cannot be read."""
    return SkippedRecord(where=where, reason="unreadable file", detail=error.strerror or str(error))


def matching_files(
    source: ExportFiles, fits: Callable[[ExportFiles, str], bool]
) -> tuple[list[str], list[SkippedRecord]]:
    """Return the files of a format, and a record for each unreadable file. A single file is always taken."""
    if len(source.files) == 1:
        return list(source.files), []
    verdicts = {file: matches_format(source, file, fits) for file in source.files}
    files = [file for file, verdict in verdicts.items() if verdict is True]
    return files, [verdict for verdict in verdicts.values() if isinstance(verdict, SkippedRecord)]


def shallowest_files(
    source: ExportFiles, fits: Callable[[ExportFiles, str], bool]
) -> tuple[list[str], list[SkippedRecord]]:
    """Return the files of a format that lie in the highest folder, and a record for each other file.

    Deeper files may be attachments, and an attachment may imitate an export.
    """
    files, skipped = matching_files(source, fits)
    depth = min((file.count("/") for file in files), default=0)
    skipped += [
        SkippedRecord(where=file, reason="export among attachments", detail="import its folder by itself")
        for file in files
        if file.count("/") > depth
    ]
    return [file for file in files if file.count("/") == depth], skipped
