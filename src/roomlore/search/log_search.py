"""The last place to look: logs beside the database that nobody imported, read line by line.

They are the operator's. Others see lines of a file that is mapped to a room, as far as they may read that room at the
time of the line. What is stored already is left out, and so is whatever cannot be told from something removed.
"""

import asyncio
import errno
import gzip
import os
import stat
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from math import log
from pathlib import Path
from typing import IO

from roomlore.db.erased import RoomName
from roomlore.db.search import SearchFilter
from roomlore.domain.audience import Period
from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern
from roomlore.search.confidence import relevance
from roomlore.search.log_lines import LogRecord, parse_json, parse_record
from roomlore.search.records import LogMatch, MatchReason

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
        unreadable: Is told what cannot be opened, and why: `logs: No such file or directory`.
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


MOST_BYTES = 200_000_000
MOST_SECONDS = 5.0
#: Words of a question that are looked for.
MOST_WORDS = 32
#: Lines that are kept while reading; beyond it the half that fits worse goes.
MAX_KEPT = 2_000
#: Lines that are looked up in the database at once.
CHECK_BATCH = 200
#: Lines that may be shown; when there are so many, no others are looked up.
MAX_MATCHES = 100
#: How much of a line is shown.
LONGEST_TEXT = 2_000
#: Names of folders and files in a note.
MOST_NAMED = 3
#: Ids of messages that a log says are gone.
MOST_DELETED = 1_000_000

_WORD = lazy_pattern(r"[^\W_]+")
_ENDING = lazy_pattern(r"(?<=\w{3})(?:ings?|ed|es|s|e)$")
_STOP = frozenset(
    _WORD.findall(
        """
        a about all also am an and any are as at be been but by can could did do does doing done for from had has have
        he her hers him his how i if in into is it its just me my no not of off on or our out over she should so some
        such than that the their them then there these they this those to too up us was we were what when where which
        who whom whose why will with would you your
        """
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolders:
    """Where the logs are, and in which rooms they were written."""

    folders: Sequence[Path]
    #: Platform and external id of the room, by a pattern of file names such as `logs/general-*.jsonl`, which is no
    #: file in a folder `logs/general-private`.
    rooms: Mapping[str, RoomName] = field(default_factory=dict[str, RoomName])
    most_bytes: int = MOST_BYTES
    most_seconds: float = MOST_SECONDS

    def room_of(self, file: str) -> RoomName | None:
        """Return the room that a file is mapped to, by the first pattern that fits."""
        return next((room for pattern, room in self.rooms.items() if _matches_pattern(file, pattern)), None)

    @property
    def ambiguous_folders(self) -> tuple[Path, Path] | None:
        """Two folders whose files cannot be told apart, for all that is known of a folder is its last name."""
        by_name: dict[str, Path] = {}
        for folder in self.folders:
            first = by_name.setdefault(folder_label(folder), folder)
            if first != folder:
                return first, folder
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVisibility:
    """Which lines a viewer may see."""

    is_operator: bool
    #: For others: the rooms they may see, and when they were members; None where everybody may read.
    rooms: Mapping[RoomName, Sequence[Period] | None] = field(
        default_factory=dict[RoomName, Sequence[Period] | None]
    )

    def may_open(self, room: RoomName | None) -> bool:
        """Return whether there may be lines for the viewer in a file that is mapped to a room, or to none."""
        return self.is_operator or room in self.rooms

    def may_see(self, said: LogRecord, room: RoomName | None) -> bool:
        """Return whether a line of such a file is for the viewer."""
        if self.is_operator:
            return True
        if room is None or room not in self.rooms or said.sent_at is None or not said.is_for_all:
            return False
        if any(place != room for place in said.possible_rooms(room)):
            return False
        periods = self.rooms[room]
        return periods is None or any(period.covers(said.sent_at) for period in periods)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCandidate:
    """A line that shares words with the question."""

    record: LogRecord
    file: str
    number: int
    #: The room that its file is mapped to.
    mapped_room: RoomName | None
    terms: frozenset[str]

    @property
    def is_question(self) -> bool:
        """Whether it is a question itself, which answers none."""
        return self.record.text.rstrip().endswith("?")


@dataclass(slots=True, kw_only=True)
class LogScan:
    """What was read, as far as it fits a question; what was removed is still among it."""

    candidates: list[LogCandidate] = field(default_factory=list[LogCandidate])
    #: Whether there were more than are kept.
    is_truncated: bool = False
    #: Lines that are no JSON object, too long, or where a file could not be read further.
    broken_lines: int = 0
    deleted: set[tuple[RoomName | None, str]] = field(default_factory=set[tuple[RoomName | None, str]])
    #: Folders and files that could not be opened, and why.
    unreadable: list[str] = field(default_factory=list[str])
    cut_short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFindings:
    """What raw logs say about a question."""

    #: Best first.
    lines: Sequence[LogMatch] = ()
    #: How many lines that may be shown share a word with the question, at most `ENOUGH`.
    matched: int = 0
    #: What was not looked at, and why; empty where everything was.
    note: str = ""


def query_terms(text: str) -> list[str]:
    """Return the words of a text without endings, each once and in order, but for those that say nothing."""
    words = (word for word in _WORD.findall(text.casefold()) if word not in _STOP)
    return list(dict.fromkeys(_ENDING.sub("", word) for word in words))


def is_applicable(scope: SearchFilter) -> bool:
    """Return whether raw logs may answer: not where what only some said is asked for, whom a log may name otherwise."""
    narrowed = (scope.author_ids, scope.author_kinds, scope.conversation_ids, scope.answered, scope.last)
    return all(part is None for part in narrowed)


async def scan_logs(
    logs: LogFolders,
    question: str,
    visibility: LogVisibility,
    *,
    scope: SearchFilter,
    clock: Callable[[], float],
) -> LogScan:
    """Return the lines that fit a question, among those that a viewer may see; a cancellation ends the reading.

    Args:
        logs: Where they are.
        question: In plain words.
        visibility: What the viewer may see.
        scope: Since when and until when.
        clock: Tells the time that has passed, in seconds.

    Raises:
        BadInput: two folders have the same name. That, and where they lie, is for operators to know: others find
            nothing, for a room that one of them is mapped to might be shown what is in the other.
    """
    if logs.ambiguous_folders is not None:
        if not visibility.is_operator:
            return LogScan()
        one, other = map(str, logs.ambiguous_folders)
        raise BadInput(
            f"folders of raw logs {one!r} and {other!r}",
            "must not have the same name, for their files are told by it; rename one, or name the folders above",
        )
    budget = ReadBudget(bytes_left=logs.most_bytes, deadline=clock() + logs.most_seconds, clock=clock)
    reader = _LogReader(logs=logs, access=visibility, scope=scope, asked=query_terms(question)[:MOST_WORDS])
    try:
        return await asyncio.to_thread(reader.read, budget)
    finally:
        budget.stop.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogReader:
    """Reads logs for one question; blocking."""

    logs: LogFolders
    access: LogVisibility
    scope: SearchFilter
    asked: Sequence[str]

    def read(self, budget: ReadBudget) -> LogScan:
        """Return what fits."""
        scanned = LogScan()
        if not self.asked:
            return scanned
        glances = self._prefilters()
        wanted = frozenset(self.asked)
        found = read_lines(
            self.logs.folders,
            budget,
            wanted=lambda file: self.access.may_open(self.logs.room_of(file)),
            unreadable=scanned.unreadable.append,
        )
        for line in found:
            if line.data is None or not _is_object(line.data):
                scanned.broken_lines += line.data is None or bool(line.data.strip())
            else:
                lowered = line.data.lower()
                if any(glance in lowered for glance in glances):
                    self._read_line(line, line.data, wanted, scanned)
        scanned.cut_short = budget.cut_short
        return scanned

    def _prefilters(self) -> Sequence[bytes]:
        """Return what tells cheaply whether a line may have one of the words, or say that something is gone."""
        if any(not term.isascii() for term in self.asked):
            # Letters may be written in many ways.
            return [b""]
        return [term.encode() for term in (*self.asked, '"deleted"')]

    def _read_line(self, line: FileLine, data: bytes, wanted: frozenset[str], scanned: LogScan) -> None:
        record = parse_json(data)
        if record is None:
            scanned.broken_lines += 1
            return
        said = parse_record(record)
        if said is None:
            # A record without words, such as a call of a tool: nothing is wrong with it.
            return
        mapped = self.logs.room_of(line.file)
        if said.is_deleted:
            if len(scanned.deleted) < MOST_DELETED:
                scanned.deleted |= {(place, one) for place in _places(said, mapped) for one in said.ids}
            return
        terms = wanted.intersection(query_terms(said.text))
        if not (terms and self._in_time(said.sent_at) and self.access.may_see(said, mapped)):
            return
        scanned.candidates.append(
            LogCandidate(record=said, file=line.file, number=line.number, mapped_room=mapped, terms=terms)
        )
        if len(scanned.candidates) > MAX_KEPT:
            scanned.candidates = best_candidates(scanned)[: MAX_KEPT // 2]
            scanned.is_truncated = True

    def _in_time(self, sent_at: datetime | None) -> bool:
        since, until = self.scope.since, self.scope.until
        if since is None and until is None:
            return True
        return (
            sent_at is not None and (since is None or since <= sent_at) and (until is None or sent_at < until)
        )


def best_candidates(scanned: LogScan) -> list[LogCandidate]:
    """Return the lines that were kept without those that the logs say are gone, those with most words first.

    Questions come last. How rare a word is does not count yet: lines that are not shown would have a say in it.
    """
    staying = (one for one in scanned.candidates if not _is_deleted(one, scanned))
    return sorted(staying, key=lambda one: (one.is_question, -len(one.terms), one.file, one.number))


def to_findings(
    scanned: LogScan,
    question: str,
    fit: Sequence[LogCandidate],
    *,
    clean: Callable[[str], str],
    is_operator: bool,
    left_out: int = 0,
) -> LogFindings:
    """Return the lines that may be shown, best first, and what was not looked at.

    Nothing but these lines is counted, and nothing else tells how rare a word is: others may have been removed.

    Args:
        scanned: What was read.
        question: In plain words.
        fit: The lines that may be shown, and questions among them.
        clean: Takes secrets out of a text.
        is_operator: Whether it is for an operator, who is told what else there is.
        left_out: How many could not be told from something removed.
    """
    coverage = _coverage_of(fit, query_terms(question)[:MOST_WORDS])
    telling = [one for one in fit if not one.is_question]
    ranked = sorted(telling, key=lambda one: (-coverage(one), one.file, one.number))
    notes = [f"cut short: {scanned.cut_short}" if scanned.cut_short else ""]
    if is_operator:
        # A broken line may be counted because it has a word of the question: that is not for others to know.
        notes += [
            _unread_note(scanned.unreadable),
            f"broken lines skipped: {scanned.broken_lines}" if scanned.broken_lines else "",
            "more lines share words with it than are kept"
            if scanned.is_truncated and len(fit) < MAX_MATCHES
            else "",
            f"lines left out that cannot be told from what was removed: {left_out}; map their files to rooms"
            if left_out
            else "",
        ]
    return LogFindings(
        lines=[_to_match(one, coverage(one), clean) for one in ranked],
        matched=len(fit),
        note="; ".join(note for note in notes if note),
    )


def _unread_note(unread: Sequence[str]) -> str:
    more = [f"and {len(unread) - MOST_NAMED} more"] if len(unread) > MOST_NAMED else []
    return f"could not be read: {', '.join([*unread[:MOST_NAMED], *more])}" if unread else ""


def _coverage_of(fit: Sequence[LogCandidate], asked: Sequence[str]) -> Callable[[LogCandidate], float]:
    """Return what tells the share that a line has of the question's words, by rarity among these lines, 0..1."""
    lines_with = Counter(term for one in fit for term in one.terms)
    rarity = {term: log(1 + 2 * len(fit) / max(lines_with[term], 0.5)) for term in asked}
    # In the order of the question, for sums of floats depend on it.
    total = sum(rarity.values()) or 1.0
    return lambda one: sum(rarity[term] for term in asked if term in one.terms) / total


def _to_match(one: LogCandidate, coverage: float, clean: Callable[[str], str]) -> LogMatch:
    why = MatchReason(score=coverage, similarity=None, coverage=coverage, terms=sorted(one.terms))
    return LogMatch(
        file=one.file,
        number=one.number,
        author_name=clean(one.record.author_name),
        text=clean(one.record.text)[:LONGEST_TEXT],
        sent_at=one.record.sent_at,
        strength=relevance(why),
    )


def _matches_pattern(file: str, pattern: str) -> bool:
    """Return whether a file has such a name, part by part: no `*` reaches into another folder."""
    parts, patterns = file.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _is_deleted(one: LogCandidate, scanned: LogScan) -> bool:
    return any(
        (place, key) in scanned.deleted
        for place in _places(one.record, one.mapped_room)
        for key in one.record.ids
    )


def _places(said: LogRecord, mapped: RoomName | None) -> Sequence[RoomName | None]:
    return said.possible_rooms(mapped) or [None]


def _is_object(data: bytes) -> bool:
    bare = data.strip()
    return bare.startswith(b"{") and bare.endswith(b"}")
