"""The last place to look: logs beside the database that nobody imported, read line by line.

They are the operator's. Others see lines of a file that is mapped to a room, as far as they may read that room at the
time of the line. What is stored already is left out, and so is whatever cannot be told from something removed.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from math import log
from pathlib import Path

from roomlore.domain.audience import Period
from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern
from roomlore.retrieval.evidence import relevance
from roomlore.retrieval.rawfiles import ReadBudget, FileLine, read_lines, folder_label
from roomlore.retrieval.rawlines import LogRecord, parse_json, parse_record
from roomlore.retrieval.records import LogMatch, MatchReason
from roomlore.store.erased import RoomName
from roomlore.store.search import SearchFilter

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
    logs: LogFolders, question: str, visibility: LogVisibility, *, scope: SearchFilter, clock: Callable[[], float]
) -> LogScan:
    """Return the lines that fit a question, among those that a viewer may see; a cancellation ends the reading.

    Args:
        logs: Where they are.
        question: In plain words.
        access: What the viewer may see.
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
        (place, key) in scanned.deleted for place in _places(one.record, one.mapped_room) for key in one.record.ids
    )


def _places(said: LogRecord, mapped: RoomName | None) -> Sequence[RoomName | None]:
    return said.possible_rooms(mapped) or [None]


def _is_object(data: bytes) -> bool:
    bare = data.strip()
    return bare.startswith(b"{") and bare.endswith(b"}")
