"""The files of raw logs, read line by line within bounds, and nothing outside of their folders.

Links are not followed, neither of files nor of folders. What is packed counts as unpacked. Whoever reads stops when
the bytes or the time are used up, or when told to.
"""

import errno
import gzip
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from roomlore.domain.patterns import lazy_pattern

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
#: Longer lines are left out; nothing that is said comes near.
LONGEST_LINE = 2**20
#: A link, or a file that was there a moment ago.
_NO_FILE = frozenset({errno.ELOOP, errno.ENOENT})
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f]")
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True, kw_only=True)
class ReadBudget:
    """How much may still be read, and until when."""

    bytes_left: int
    #: By `clock`.
    deadline: float
    clock: Callable[[], float]
    stop: threading.Event = field(default_factory=threading.Event)
    #: Why reading ended before everything was read; empty where it did not.
    cut_short: str = ""

    def take(self, size: int) -> bool:
        """Return whether so many bytes more may be read, and take them."""
        self.bytes_left -= size
        if not self.cut_short:
            if self.stop.is_set():
                self.cut_short = "told to stop"
            elif self.bytes_left < 0:
                self.cut_short = "too large to be read whole"
            elif self.clock() > self.deadline:
                self.cut_short = "out of time"
        return not self.cut_short


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """One line and where it stands."""

    #: Name of the folder and path in it.
    file: str
    number: int
    #: None where it is longer than any line is.
    data: bytes | None


def folder_label(folder: Path) -> str:
    """Return what the names of all files below a folder begin with, which tells nobody where it lies."""
    return _printable(folder.name or folder.resolve().name or ".")


def read_lines(
    folders: Sequence[Path],
    budget: ReadBudget,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    unreadable: Callable[[str], None] = lambda _: None,
) -> Iterator[FileLine]:
    """Yield the lines of all log files below the folders, as far as the budget goes.

    A file that cannot be read, or no further, ends with a line that has no data.

    Args:
        folders: Where to look; of each the newest files first, folder by folder.
        budget: What may be used up.
        wanted: Tells by its name whether a file is to be opened.
        unread: Is told what cannot be opened, and why: `logs: No such file or directory`.
    """
    for folder in folders:
        for file, descriptor in _open_log_files(folder, wanted, unreadable):
            with os.fdopen(descriptor, "rb") as raw:
                if not budget.cut_short:
                    yield from _read_file(file, raw, budget)
            if budget.cut_short:
                return


def _open_log_files(
    folder: Path, wanted: Callable[[str], bool], unread: Callable[[str], None]
) -> Iterator[tuple[str, int]]:
    """Yield the name of each log file below a folder and a descriptor that is open on it."""
    begins = folder_label(folder)

    def skipped(error: OSError) -> None:
        # It knows the last name only.
        unread(f"{begins}/…/{_printable(Path(os.fsdecode(error.filename)).name)}: {error.strerror}")

    try:
        root = folder.resolve(strict=True)
        if not root.is_dir():
            unread(f"{begins}: {os.strerror(errno.ENOTDIR)}")
        for place, names, files, within in os.fwalk(root, follow_symlinks=False, onerror=skipped):
            names[:] = sorted((name for name in names if not name.startswith(".")), reverse=True)
            below = os.path.relpath(place, root)
            labels = {name: _file_label(begins, "" if below == "." else below, name) for name in files}
            for name in _newest_first(files, within):
                if (
                    wanted(labels[name])
                    and (found := _open_file(name, within, labels[name], unread)) is not None
                ):
                    yield labels[name], found
    except OSError as error:
        unread(f"{begins}: {error.strerror}")
    except RuntimeError:
        # So a link to itself is told.
        unread(f"{begins}: {os.strerror(errno.ELOOP)}")


def _newest_first(files: Sequence[str], within: int) -> list[str]:
    logs = [name for name in files if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(logs, key=lambda name: (-_modified_at(name, within), name))


def _modified_at(name: str, within: int) -> float:
    try:
        return os.stat(name, dir_fd=within, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _open_file(name: str, within: int, label: str, unread: Callable[[str], None]) -> int | None:
    """Return a descriptor of a regular file; None where it is none, or may not be read, which is told."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=within)
    except OSError as error:
        if error.errno not in _NO_FILE:
            unread(f"{label}: {error.strerror}")
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _file_label(folder: str, below: str, name: str) -> str:
    return _printable("/".join(part for part in (folder, below, name) if part))


def _printable(text: str) -> str:
    return _CONTROL.sub("\ufffd", os.fsencode(text).decode("utf-8", "replace"))


def _read_file(file: str, raw: IO[bytes], budget: ReadBudget) -> Iterator[FileLine]:
    stream = gzip.GzipFile(fileobj=raw) if file.lower().endswith(".gz") else raw
    number = 0
    try:
        while data := stream.readline(LONGEST_LINE):
            number += 1
            whole = data.endswith(b"\n") or len(data) < LONGEST_LINE
            while budget.take(len(data)) and not (data.endswith(b"\n") or len(data) < LONGEST_LINE):
                data = stream.readline(LONGEST_LINE)
            if budget.cut_short:
                return
            yield FileLine(file=file, number=number, data=data.removeprefix(_UTF8_MARK) if whole else None)
    except (OSError, EOFError, zlib.error):
        yield FileLine(file=file, number=number + 1, data=None)
