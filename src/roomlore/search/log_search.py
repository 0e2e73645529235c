"""Searches log files that were not imported, line by line: the last stage of the fallback chain.

Operators see every line. Other viewers see lines of files that are mapped to a room, if they could read the room at the
time of the line. Messages that are already stored are left out. So are lines that an erasure, a retention period or a
privacy request may have removed. If a line does not say enough to decide this, it is left out, too.

The caller runs `scan_logs`, which reads the files; `best_candidates`; `drop_excluded`, which asks the database; and
`to_findings`.
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

from roomlore.db import erasure_guard, raw_logs, room_retention
from roomlore.db.erasure_guard import AccountName, ErasedKinds, ErasedRange, MessageName, RoomName
from roomlore.db.queries import Connection
from roomlore.db.rooms import erased_rooms
from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import OrgId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MembershipPeriod
from roomlore.privacy.identifiers import contains_any
from roomlore.search.confidence import relevance
from roomlore.search.log_lines import LogRecord, parse_json, parse_record
from roomlore.search.records import LogMatch, MatchReason
from roomlore.text.recognisers import STOP_WORDS, ends_in_question_mark

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
#: The maximum length in bytes. Longer lines are left out.
LONGEST_LINE = 2**20
MOST_BYTES = 200_000_000
MOST_SECONDS = 5.0
#: The maximum number of words of a question that are searched for.
MOST_WORDS = 32
#: The number of candidates that are kept while reading. If there are more, the worse half is dropped.
MAX_KEPT = 2_000
#: The number of lines that are checked in the database at once.
CHECK_BATCH = 200
#: The maximum number of lines that are shown. When there are so many, no more lines are checked.
MAX_MATCHES = 100
#: The maximum number of characters of a line that are shown.
LONGEST_TEXT = 2_000
#: The maximum number of folders and files that a note names.
MOST_NAMED = 3
#: The maximum number of ids of deleted messages that are remembered while reading.
MOST_DELETED = 1_000_000
#: Errors of links and of files that have just disappeared.
_NO_FILE = frozenset({errno.ELOOP, errno.ENOENT})
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f]")
_UTF8_MARK = b"\xef\xbb\xbf"


# Reading files


@dataclass(slots=True, kw_only=True)
class ReadBudget:
    """The bytes that may still be read, and the time by which reading must end."""

    bytes_left: int
    #: When to stop reading, as a time of `clock`.
    deadline: float
    clock: Callable[[], float]
    stop: threading.Event = field(default_factory=threading.Event)
    #: Why reading ended early; empty if everything was read.
    cut_short: str = ""

    def take(self, size: int) -> bool:
        """Take this many bytes; return False if the budget is used up."""
        self.bytes_left -= size
        if not self.cut_short:
            if self.stop.is_set():
                self.cut_short = "cancelled"
            elif self.bytes_left < 0:
                self.cut_short = "too large to be read whole"
            elif self.clock() > self.deadline:
                self.cut_short = "out of time"
        return not self.cut_short


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A line of a log file, with its position."""

    #: The name of the folder, and the path of the file in it.
    file: str
    number: int
    #: The bytes of the line; None if the line is too long, or if the rest of the file could not be read.
    data: bytes | None


def folder_label(folder: Path) -> str:
    """Return the folder's name. It begins the names of its files and does not reveal where the folder is."""
    return _printable(folder.name or folder.resolve().name or ".")


def read_lines(
    folders: Sequence[Path],
    budget: ReadBudget,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    unreadable: Callable[[str], None] = lambda _: None,
) -> Iterator[FileLine]:
    """Yield the lines of all log files in the folders, newest files first, until the budget is used up.

    Args:
        folders: Read one after another.
        budget: Limits of bytes and time.
        wanted: Receives a file's name; returns whether to open the file.
        unreadable: Called with each file or folder that cannot be opened, and the reason: `logs: No such file or
            directory`.
    """
    for folder in folders:
        for file, descriptor in _open_log_files(folder, wanted, unreadable):
            with os.fdopen(descriptor, "rb") as raw:
                if not budget.cut_short:
                    yield from _read_file(file, raw, budget)
            if budget.cut_short:
                return


def _open_log_files(
    folder: Path, wanted: Callable[[str], bool], unreadable: Callable[[str], None]
) -> Iterator[tuple[str, int]]:
    """Yield the name and an open descriptor of each log file below a folder."""
    folder_name = folder_label(folder)

    def skipped(error: OSError) -> None:
        # The error contains only the last part of the path.
        unreadable(f"{folder_name}/…/{_printable(Path(os.fsdecode(error.filename)).name)}: {error.strerror}")

    try:
        root = folder.resolve(strict=True)
        if not root.is_dir():
            unreadable(f"{folder_name}: {os.strerror(errno.ENOTDIR)}")
        for path, names, files, directory in os.fwalk(root, follow_symlinks=False, onerror=skipped):
            names[:] = sorted((name for name in names if not name.startswith(".")), reverse=True)
            below = os.path.relpath(path, root)
            parts = [folder_name] if below == "." else [folder_name, below]
            for name in _newest_first(files, directory):
                label = _printable("/".join([*parts, name]))
                if wanted(label):
                    descriptor = _open_file(name, directory, label, unreadable)
                    if descriptor is not None:
                        yield label, descriptor
    except OSError as error:
        unreadable(f"{folder_name}: {error.strerror}")
    except RuntimeError:
        # `resolve` raises this error for a link to itself.
        unreadable(f"{folder_name}: {os.strerror(errno.ELOOP)}")


def _newest_first(files: Sequence[str], directory: int) -> list[str]:
    def modified_at(name: str) -> float:
        try:
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    logs = [name for name in files if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(logs, key=lambda name: (-modified_at(name), name))


def _open_file(name: str, directory: int, label: str, unreadable: Callable[[str], None]) -> int | None:
    """Return a descriptor of a regular file; None if it is anything else or cannot be opened."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno not in _NO_FILE:
            unreadable(f"{label}: {error.strerror}")
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


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


# Matching lines

_WORD = lazy_pattern(r"[^\W_]+")
_ENDING = lazy_pattern(r"(?<=\w{3})(?:ings?|ed|es|s|e)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolders:
    """The folders of log files, and the rooms of the files."""

    folders: Sequence[Path]
    #: Platform and external id of a room, by the pattern of file names of its logs. A `*` never matches a slash:
    #: `logs/general-*.jsonl` matches no file in the folder `logs/general-private`.
    rooms: Mapping[str, RoomName] = field(default_factory=dict[str, RoomName])
    most_bytes: int = MOST_BYTES
    most_seconds: float = MOST_SECONDS

    def room_of(self, file: str) -> RoomName | None:
        """Return the room of the first pattern that matches a file; None if no pattern does."""
        return next((room for pattern, room in self.rooms.items() if _matches_pattern(file, pattern)), None)

    @property
    def ambiguous_folders(self) -> tuple[Path, Path] | None:
        """Return two different folders that have the same name; None if there are none.

        The files of such folders would have the same names.
        """
        by_name: dict[str, Path] = {}
        for folder in self.folders:
            first = by_name.setdefault(folder_label(folder), folder)
            if first != folder:
                return first, folder
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVisibility:
    """The lines that a viewer may see."""

    is_operator: bool
    #: For viewers other than operators: the rooms that they may read, each with their membership periods; None for an
    #: open room.
    rooms: Mapping[RoomName, Sequence[MembershipPeriod] | None] = field(
        default_factory=dict[RoomName, Sequence[MembershipPeriod] | None]
    )

    def may_open(self, room: RoomName | None) -> bool:
        """Return whether the viewer may see some lines of a file that is mapped to this room."""
        return self.is_operator or room in self.rooms

    def may_see(self, record: LogRecord, room: RoomName | None) -> bool:
        """Return whether the viewer may see a line of a file that is mapped to this room."""
        if self.is_operator:
            return True
        if room is None or room not in self.rooms or record.sent_at is None or not record.is_for_all:
            return False
        if any(possible != room for possible in record.possible_rooms(room)):
            return False
        periods = self.rooms[room]
        return periods is None or any(period.covers(record.sent_at) for period in periods)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCandidate:
    """A line that shares words with the question."""

    record: LogRecord
    file: str
    number: int
    #: The room that the file of the line is mapped to; None without a mapping.
    mapped_room: RoomName | None
    terms: frozenset[str]

    @property
    def is_question(self) -> bool:
        """Whether the line itself is a question. A question cannot be an answer."""
        return ends_in_question_mark(self.record.text)

    @property
    def rooms(self) -> list[RoomName]:
        """The rooms that the line may belong to."""
        return self.record.possible_rooms(self.mapped_room)

    @property
    def message_names(self) -> list[MessageName]:
        """The stored messages that the line may be a copy of, by room and id."""
        return [(*room, key) for room in self.rooms for key in self.record.ids]


@dataclass(slots=True, kw_only=True)
class LogScan:
    """The result of reading the logs for one question. Removed messages are still included."""

    candidates: list[LogCandidate] = field(default_factory=list[LogCandidate])
    #: Whether candidates were dropped because there were too many.
    is_truncated: bool = False
    #: The number of lines that are no JSON object or too long, and of files that could not be read to the end.
    broken_lines: int = 0
    #: Room and id of each message that a log says was deleted.
    deleted: set[tuple[RoomName | None, str]] = field(default_factory=set[tuple[RoomName | None, str]])
    #: Folders and files that could not be opened, each with the reason.
    unreadable: list[str] = field(default_factory=list[str])
    cut_short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFindings:
    """The lines that match a question."""

    #: Best first.
    lines: Sequence[LogMatch] = ()
    #: How many visible lines share a word with the question. The count ends at `MAX_MATCHES`.
    matched: int = 0
    #: What was not searched, and why; empty if everything was searched.
    note: str = ""


def query_terms(text: str) -> list[str]:
    """Return the words of a text without stop words and endings, each word once and in order."""
    words = (word for word in _WORD.findall(text.casefold()) if word not in STOP_WORDS)
    return list(dict.fromkeys(_ENDING.sub("", word) for word in words))


def is_applicable(search_filter: SearchFilter) -> bool:
    """Return whether logs may answer a question with these filters.

    They may answer if the filter contains only rooms and times. For example, a filter by author excludes them, because
    authors may have other names in logs.
    """
    filters = (
        search_filter.author_ids,
        search_filter.author_kinds,
        search_filter.conversation_ids,
        search_filter.answered,
        search_filter.last,
    )
    return all(value is None for value in filters)


async def scan_logs(
    logs: LogFolders,
    question: str,
    visibility: LogVisibility,
    *,
    search_filter: SearchFilter,
    clock: Callable[[], float],
) -> LogScan:
    """Return the lines that match a question and that the viewer may see, within the time range of `search_filter`.

    Raises:
        BadInput: two folders have the same name. Raised for operators only; others get an empty scan, because a file of
            one folder could be mistaken for a file of the other.
    """
    if logs.ambiguous_folders is not None:
        if not visibility.is_operator:
            return LogScan()
        one, other = map(str, logs.ambiguous_folders)
        raise BadInput(
            f"folders of raw logs {one!r} and {other!r}",
            "must not have the same name, because it begins the names of their files; rename one, or configure their parent folders",
        )
    budget = ReadBudget(bytes_left=logs.most_bytes, deadline=clock() + logs.most_seconds, clock=clock)
    reader = _LogReader(
        logs=logs,
        visibility=visibility,
        search_filter=search_filter,
        terms=query_terms(question)[:MOST_WORDS],
    )
    try:
        return await asyncio.to_thread(reader.read, budget)
    finally:
        budget.stop.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogReader:
    """Reads log files for one question. Reading blocks, so it runs in a thread."""

    logs: LogFolders
    visibility: LogVisibility
    search_filter: SearchFilter
    terms: Sequence[str]

    def read(self, budget: ReadBudget) -> LogScan:
        """Return the matching lines."""
        scan = LogScan()
        if not self.terms:
            return scan
        # This is a cheap test before a line is parsed. It works only for ASCII words, because other characters can be
        # escaped in several ways.
        is_ascii = all(term.isascii() for term in self.terms)
        markers = [term.encode() for term in (*self.terms, '"deleted"')] if is_ascii else [b""]
        lines = read_lines(
            self.logs.folders,
            budget,
            wanted=lambda file: self.visibility.may_open(self.logs.room_of(file)),
            unreadable=scan.unreadable.append,
        )
        for line in lines:
            if line.data is None or not _is_object(line.data):
                scan.broken_lines += line.data is None or bool(line.data.strip())
                continue
            lowered = line.data.lower()
            if any(marker in lowered for marker in markers):
                self._match(line, line.data, scan)
        scan.cut_short = budget.cut_short
        return scan

    def _match(self, line: FileLine, data: bytes, scan: LogScan) -> None:
        fields = parse_json(data)
        record = None if fields is None else parse_record(fields)
        if record is None:
            # A JSON object without text, such as a tool call, is not a broken line.
            scan.broken_lines += fields is None
            return
        mapped = self.logs.room_of(line.file)
        if record.is_deleted:
            if len(scan.deleted) < MOST_DELETED:
                scan.deleted |= _message_names(record, mapped)
            return
        terms = frozenset(self.terms).intersection(query_terms(record.text))
        if not (terms and self._in_time(record.sent_at) and self.visibility.may_see(record, mapped)):
            return
        scan.candidates.append(
            LogCandidate(record=record, file=line.file, number=line.number, mapped_room=mapped, terms=terms)
        )
        if len(scan.candidates) > MAX_KEPT:
            scan.candidates = best_candidates(scan)[: MAX_KEPT // 2]
            scan.is_truncated = True

    def _in_time(self, sent_at: datetime | None) -> bool:
        since, until = self.search_filter.since, self.search_filter.until
        if since is None and until is None:
            return True
        return (
            sent_at is not None and (since is None or since <= sent_at) and (until is None or sent_at < until)
        )


def best_candidates(scan: LogScan) -> list[LogCandidate]:
    """Return the candidates of a scan, best first, without messages that a log says were deleted.

    Candidates that share more words come first; questions come last. The rarity of words is not used yet, because it
    would depend on lines that the viewer may not see.
    """
    kept = [
        candidate
        for candidate in scan.candidates
        if scan.deleted.isdisjoint(_message_names(candidate.record, candidate.mapped_room))
    ]
    return sorted(kept, key=lambda one: (one.is_question, -len(one.terms), one.file, one.number))


def _matches_pattern(file: str, pattern: str) -> bool:
    """Return whether a file name matches a pattern. Both are compared part by part, so no `*` matches a slash."""
    parts, patterns = file.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _message_names(record: LogRecord, mapped: RoomName | None) -> set[tuple[RoomName | None, str]]:
    rooms = record.possible_rooms(mapped) or [None]
    return {(room, key) for room in rooms for key in record.ids}


def _is_object(data: bytes) -> bool:
    bare = data.strip()
    return bare.startswith(b"{") and bare.endswith(b"}")


# Leaving out what is stored or was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExclusions:
    """The candidates that are stored, and the removals that may concern candidates, by room, account and time."""

    #: Messages that are stored, or were stored once.
    stored: set[MessageName]
    #: Rooms that contain redacted or erased messages.
    rooms: set[RoomName]
    ranges: Mapping[RoomName, Sequence[ErasedRange]]
    #: Rooms in which a privacy request restricts messages.
    restricted_rooms: set[RoomName]
    #: Texts that a privacy request restricts. This is for candidates without a room.
    restricted_texts: set[str]
    #: Whether any account, room or time range of the org was erased.
    erased: ErasedKinds
    #: The rooms of the candidates that were erased.
    erased_rooms: frozenset[RoomName]
    #: Start of the retention period by room.
    kept_since: Mapping[RoomName, datetime]
    #: The time at which each account was erased.
    accounts: Mapping[AccountName, datetime]
    #: All platforms of the org, for candidates without a room.
    platforms: Sequence[str]

    def is_stored(self, line: LogCandidate) -> bool:
        """Return whether the line's message is stored, or was stored once."""
        return not self.stored.isdisjoint(line.message_names)

    def is_possibly_erased(self, line: LogCandidate) -> bool:
        """Return whether the content of a line may have been removed."""
        rooms = line.rooms
        if not rooms and (self.rooms or self.erased.ranges or self.erased.rooms):
            return True
        if not self.erased_rooms.isdisjoint(rooms) or line.record.text in self.restricted_texts:
            return True
        if not line.record.is_exact and any(room in self.rooms | self.restricted_rooms for room in rooms):
            return True
        return self._is_in_erased_range(line, rooms) or self._is_by_erased_account(line)

    def _is_in_erased_range(self, line: LogCandidate, rooms: Sequence[RoomName]) -> bool:
        """Return whether a line may be from an erased time range, or older than its room's retention period."""
        sent_at = line.record.sent_at
        since = [self.kept_since[room] for room in rooms or self.kept_since if room in self.kept_since]
        ranges = [span for room in rooms for span in self.ranges.get(room, ())]
        if sent_at is None:
            return bool(since or ranges)
        return any(sent_at < start for start in since) or any(
            (span.since is None or span.since <= sent_at) and sent_at < span.until for span in ranges
        )

    def _is_by_erased_account(self, line: LogCandidate) -> bool:
        """Return whether an erased account may have written the line or may be mentioned in it."""
        if not self.erased.accounts:
            return False
        if not line.record.is_exact:
            return True
        sent_at = line.record.sent_at
        names = line.record.possible_accounts(_possible_platforms(line, self.platforms))
        erased_at = (self.accounts.get(name) for name in names)
        return any(at is not None and (sent_at is None or sent_at <= at) for at in erased_at)


def _possible_platforms(line: LogCandidate, all_platforms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(room[0] for room in line.rooms)) or list(all_platforms)


async def drop_excluded(
    conn: Connection, org_id: OrgId, found: Sequence[LogCandidate], *, now: datetime
) -> tuple[list[LogCandidate], int]:
    """Return the lines that may be shown, and the number of lines that may have been removed.

    A line may be shown if its message is not stored and was certainly not removed.

    The checks end after `MAX_MATCHES` lines. The choice of these lines does not depend on excluded lines among them.

    Args:
        conn: A connection of the operator, because a message must stay out even if the viewer may not see its removal.
        org_id: The org.
        found: The lines, best first.
        now: The current time, for retention periods.
    """
    kept: list[LogCandidate] = []
    left_out = 0
    for start in range(0, len(found), CHECK_BATCH):
        checked = found[start : start + CHECK_BATCH]
        exclusions = await _load_exclusions(conn, org_id, checked, now=now)
        new = [line for line in checked if not exclusions.is_stored(line)]
        certain = [line for line in new if not exclusions.is_possibly_erased(line)]
        kept += certain
        left_out += len(new) - len(certain)
        if len(kept) >= MAX_MATCHES:
            break
    return kept[:MAX_MATCHES], left_out


async def _load_exclusions(
    conn: Connection, org_id: OrgId, found: Sequence[LogCandidate], *, now: datetime
) -> LogExclusions:
    flags = await erasure_guard.erased_kinds(conn, org_id)
    rooms = list(dict.fromkeys(room for line in found for room in line.rooms))
    ranges: dict[RoomName, list[ErasedRange]] = {}
    for span in await erasure_guard.erased_ranges(conn, org_id, rooms) if flags.ranges else ():
        ranges.setdefault((span.platform, span.room), []).append(span)
    retention = await room_retention.rooms_with_retention(conn, org_id, now=now) if flags.retention else []
    restricted = await raw_logs.rooms_with_restrictions(conn, org_id)
    without_room = [line.record.text for line in found if not line.rooms]
    platforms = await raw_logs.platforms(conn, org_id)
    accounts = {
        name for line in found for name in line.record.possible_accounts(_possible_platforms(line, platforms))
    }
    return LogExclusions(
        stored=await raw_logs.stored_messages(
            conn, org_id, [name for line in found for name in line.message_names]
        ),
        rooms=await raw_logs.rooms_with_removals(conn, org_id),
        restricted_rooms=restricted,
        restricted_texts=await _restricted_texts(conn, org_id, without_room) if restricted else set(),
        ranges=ranges,
        erased=flags,
        erased_rooms=await erased_rooms(conn, org_id, rooms) if flags.rooms else frozenset(),
        kept_since={(room.platform, room.room): room.kept_since for room in retention},
        accounts=await erasure_guard.erased_accounts(conn, org_id, accounts) if flags.accounts else {},
        platforms=platforms,
    )


async def _restricted_texts(conn: Connection, org_id: OrgId, texts: Sequence[str]) -> set[str]:
    """Return the texts that repeat a restricted message or contain a suppressed value."""
    if not texts:
        return set()
    values = await raw_logs.suppressed_values(conn, org_id)
    suppressed = {text for text in texts if contains_any(text, values)}
    return suppressed | await raw_logs.restricted_repeats(conn, org_id, texts)


# What is shown


def to_findings(
    scan: LogScan,
    question: str,
    lines: Sequence[LogCandidate],
    *,
    clean: Callable[[str], str],
    is_operator: bool,
    left_out: int = 0,
) -> LogFindings:
    """Return the lines that may be shown, best first, and a note about what was not searched.

    The rarity of a word is counted in these lines only, because other lines may have been removed.

    Args:
        scan: What was read.
        question: The question.
        lines: The lines that may be shown, including questions.
        clean: Removes secrets from a text.
        is_operator: Operators get a longer note.
        left_out: How many lines may have been removed.
    """
    coverage = _coverage_by_rarity(lines, query_terms(question)[:MOST_WORDS])
    answers = [line for line in lines if not line.is_question]
    ranked = sorted(answers, key=lambda line: (-coverage(line), line.file, line.number))
    notes = [f"cut short: {scan.cut_short}"] if scan.cut_short else []
    if is_operator:
        # Only operators may learn this, because a broken line may contain a word of the question.
        if scan.unreadable:
            more = len(scan.unreadable) - MOST_NAMED
            named = [*scan.unreadable[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
            notes.append(f"could not be read: {', '.join(named)}")
        if scan.broken_lines:
            notes.append(f"broken lines skipped: {scan.broken_lines}")
        if scan.is_truncated and len(lines) < MAX_MATCHES:
            notes.append("more lines share words with it than are kept")
        if left_out:
            notes.append(f"lines left out that may have been removed: {left_out}; map their files to rooms")
    return LogFindings(
        lines=[_to_match(line, coverage(line), clean) for line in ranked],
        matched=len(lines),
        note="; ".join(notes),
    )


def _coverage_by_rarity(
    lines: Sequence[LogCandidate], terms: Sequence[str]
) -> Callable[[LogCandidate], float]:
    """Return a function that maps a line to its share of the question's words, 0..1. Rare words weigh more.

    The rarity of a word is counted in these lines.
    """
    lines_with = Counter(term for line in lines for term in line.terms)
    rarity = {term: log(1 + 2 * len(lines) / max(lines_with[term], 0.5)) for term in terms}
    # A sum of floats depends on the order, so the order is always that of the question.
    total = sum(rarity.values()) or 1.0
    return lambda line: sum(rarity[term] for term in terms if term in line.terms) / total


def _to_match(line: LogCandidate, coverage: float, clean: Callable[[str], str]) -> LogMatch:
    why = MatchReason(score=coverage, similarity=None, coverage=coverage, terms=sorted(line.terms))
    return LogMatch(
        file=line.file,
        number=line.number,
        author_name=clean(line.record.author_name),
        text=clean(line.record.text)[:LONGEST_TEXT],
        sent_at=line.record.sent_at,
        strength=relevance(why),
    )
