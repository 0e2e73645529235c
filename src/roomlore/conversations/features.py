"""Features of a message and of each candidate parent in the window.

PAIR_FEATURE_NAMES names the rows of `Features.pairs`, MESSAGE_FEATURE_NAMES those of `Features.own`; docs/replymodel.md
describes them. A numpy call costs as much as the hundred numbers it handles, so values of a participant or a
conversation are computed once in a table and then copied to all places of the window at once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roomlore.conversations.message_text import TEXT_FEATURE_NAMES, TEXT_FEATURES
from roomlore.conversations.window import (
    CONVERSATIONS,
    FACT_NAMES,
    LOG1P,
    OUTSIDE,
    SLOTS,
    WINDOW,
    Array,
    ParsedMessage,
    Places,
    Window,
)
from roomlore.domain.ids import ParticipantId

#: Fewer messages than this do not show the pace of a room.
_FEW = 20
_SPAN = 10
#: Usual seconds between messages: the default, and the minimum.
_USUAL_PACE = 30.0
_FASTEST = 1.0
#: The number of an author's last messages whose addressees are counted.
_OWN_LINES = 8
_SECONDS = 60.0

_STATIC_NAMES = ("turns", "one over turns", "previous", "one before", "third or fourth")
_REL_NAMES = (
    *("time", "time in paces", "same minute", "same author", "is called", "is called loud", "calls author"),
    *("calls others", "calls same", "later by them", "their last", "their last to author", "later to author"),
    *("own lines since", "own last since", "called them before", "they called before"),
    *("turns since they called",),
    *("turns since called", "next is theirs", "before is theirs", "author knows them"),
)
_GRAPH_NAMES = (
    *("answers", "answered by author", "answered by themselves", "answered by others", "turns since answer"),
    *("answers author", "answers themselves", "starts", "answers called", "parent outside"),
    *("conversation size", "later in it", "its last", "turns since its last", "author in it"),
    *("author's last in it",),
    *("called in it", "share of author", "its last by author", "its last in paces"),
    *("author's last answered them",),
    *("is author's last parent", "lone start", "author last there"),
)
_TEXT_NAMES = ("likeness", "shared words", "rarest shared", "conversation likeness", "rarest is theirs")
PAIR_FEATURE_NAMES = (
    *_STATIC_NAMES,
    *_REL_NAMES,
    *_GRAPH_NAMES,
    *_TEXT_NAMES,
    *(f"candidate {name}" for name in TEXT_FEATURE_NAMES),
)
MESSAGE_FEATURE_NAMES = (
    *(f"own {name}" for name in TEXT_FEATURE_NAMES),
    *("calls", "calls loud", "calls stranger", "calls someone here", "newcomer", "turns since own last"),
    *("time since own last", "own last was previous", "calls waiting", "pace", "time since previous"),
    *("time since previous in paces", "participants", "who call", "window filled", "best likeness"),
    *("called have called",),
    *("own lines", "own last was start", "open questions", "linked"),
)
PAIR_FEATURES = len(PAIR_FEATURE_NAMES)
MESSAGE_FEATURES = len(MESSAGE_FEATURE_NAMES)

_TURNS = np.arange(WINDOW, 0, -1).astype(np.float32)
_PLACES = np.arange(WINDOW)
#: log(1 + count) for each count, rounded once.
_LOGS: list[float] = np.log1p(np.arange(WINDOW + 2)).tolist()
_LOG_OF: list[float] = LOG1P.tolist()

_FACTS = np.array([PAIR_FEATURE_NAMES.index(name) for name in FACT_NAMES])
#: Names of the boolean rows, which are copied all at once.
_BOOLEAN_NAMES = (
    *("same minute", "same author", "calls author", "calls others", "calls same", "their last"),
    *("their last to author", "own last since", "answered by author", "answered by others", "answers author"),
    *("its last", "author's last answered them", "is author's last parent", "author last there"),
)
_BOOLEAN_ROWS = np.array([PAIR_FEATURE_NAMES.index(name) for name in _BOOLEAN_NAMES])
_MARKS_FROM = PAIR_FEATURES - TEXT_FEATURES
_TEXT = slice(PAIR_FEATURE_NAMES.index("likeness"), _MARKS_FROM)
_TIMES = slice(PAIR_FEATURE_NAMES.index("time"), PAIR_FEATURE_NAMES.index("same minute"))
#: Rows whose values are the same for all messages of a participant, with their columns in the table of participants.
_PERSON = slice(PAIR_FEATURE_NAMES.index("is called"), PAIR_FEATURE_NAMES.index("calls author"))
_KNOWN = slice(PAIR_FEATURE_NAMES.index("called them before"), PAIR_FEATURE_NAMES.index("next is theirs"))
_CALLED, _LOUD, _MY_CALLS, _TO_ME, _SINCE_TO_ME, _SINCE_MINE, _KNOWS = range(7)
#: Rows whose values are the same for all messages of a conversation.
_SHARED = slice(
    PAIR_FEATURE_NAMES.index("turns since its last"), PAIR_FEATURE_NAMES.index("author's last answered them")
)


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a message and its candidate parents; the arrays are overwritten by the next extraction."""

    #: (PAIRS, WINDOW); oldest candidate first.
    pairs: Array
    #: (OWN,)
    own: Array
    #: The number of candidates, in the last columns.
    count: int
    #: Participants in the window that the message addresses by name.
    addressed_ids: frozenset[ParticipantId]
    #: (WINDOW,): the number of the conversation of each place, up to WINDOW.
    conversations: Places


def _fixed_rows() -> Array:
    rows = np.zeros((PAIR_FEATURES, WINDOW), dtype=np.float32)
    rows[0] = np.log(_TURNS)
    rows[1] = 1.0 / _TURNS
    rows[2] = _TURNS == 1.0
    rows[3] = _TURNS == 2.0  # noqa: PLR2004
    rows[4] = (_TURNS == 3.0) | (_TURNS == 4.0)  # noqa: PLR2004
    return rows


def _empty_participants() -> Array:
    """Return the table of participants before any message."""
    table = np.zeros((_KNOWS + 1, SLOTS), dtype=np.float32)
    table[[_SINCE_TO_ME, _SINCE_MINE]] = LOG1P[WINDOW]
    return table


_EMPTY_PARTICIPANTS = _empty_participants()


class FeatureExtractor:
    """Extracts the features of messages in relation to one window; reuses its arrays."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.pairs = _fixed_rows()
        #: Each row by its name.
        self.row = dict(zip(PAIR_FEATURE_NAMES, self.pairs, strict=True))
        self.people = _EMPTY_PARTICIPANTS.copy()
        self.conversations = np.zeros((7, CONVERSATIONS), dtype=np.float32)
        self._all_yes = np.zeros((len(_BOOLEAN_NAMES), WINDOW), dtype=np.bool_)
        #: Each boolean row by its name.
        self.yes = dict(zip(_BOOLEAN_NAMES, self._all_yes, strict=True))
        self.paces = np.full((2, 1), _SECONDS)

    def extract(self, heard: ParsedMessage) -> Features:
        """Return the features of a message in relation to each message of the window."""
        window = self._window
        view = _MessageView(self, window, heard)
        self.pairs[_FACTS] = window.facts[:, view.rows]
        self.pairs[_MARKS_FROM:] = window.marks[:, view.rows]
        view.people()
        view.order()
        view.answers()
        view.conversations()
        best = view.text()
        self.pairs[_BOOLEAN_ROWS] = self._all_yes
        return Features(
            pairs=self.pairs,
            own=view.own(best),
            count=window.count,
            addressed_ids=frozenset(view.found.values()),
            conversations=view.labels,
        )


class _MessageView:
    """A message and the window: the arrays that several features share."""

    def __init__(self, eye: FeatureExtractor, window: Window, heard: ParsedMessage) -> None:
        self.eye, self.window, self.heard = eye, window, heard
        rows = self.rows = window.rows()
        self.slots: Places = window.slots[rows]
        self.labels: Places = window.conversations[rows]
        self.me = window.slot_of(heard.message.author_id)
        self.found, self.loud = window.mentioned_by(heard, self.me)
        self.calls_me, self.same = eye.yes["calls author"], eye.yes["same author"]
        np.equal(self.slots, self.me, out=self.same)
        self.calls_me[:] = window.calls[self.me, rows]
        if self.me == OUTSIDE:
            self.calls_me[window.mentions_of(heard.message)] = True
        self.mine: Places = self.same.nonzero()[0]
        self.calling: Places = self.calls_me.nonzero()[0]
        self.last_own = int(self.mine[-1]) if len(self.mine) else -1
        self.pace = _pace(window.times[rows], window.count)

    def people(self) -> None:
        """Fill the rows about who addresses whom."""
        row, yes, table = self.eye.row, self.eye.yes, self.eye.people
        table[:] = _EMPTY_PARTICIPANTS
        for slot in self.found:
            table[_CALLED, slot] = 1.0
        for slot in self.loud:
            table[_LOUD, slot] = 1.0
        for slot, (times, last) in self._my_calls().items():
            table[_MY_CALLS, slot] = _LOGS[times]
            table[_SINCE_MINE, slot] = _LOG_OF[WINDOW - last]
            table[_KNOWS, slot] = 1.0
        last_to_me = yes["their last to author"]
        last_to_me.fill(False)
        for slot, (times, last) in self._calls_to_me().items():
            table[_TO_ME, slot] = _LOGS[times]
            table[_SINCE_TO_ME, slot] = _LOG_OF[WINDOW - last]
            table[_KNOWS, slot] = 1.0
            last_to_me[last] = True
        pairs, slots = self.eye.pairs, self.slots
        table[_CALLED:_MY_CALLS].take(slots, axis=1, out=pairs[_PERSON], mode="clip")
        table[_MY_CALLS:_KNOWS].take(slots, axis=1, out=pairs[_KNOWN], mode="clip")
        table[_KNOWS].take(slots, out=row["author knows them"], mode="clip")
        table[_CALLED].take(self.window.parent_slots[self.rows], out=row["answers called"], mode="clip")
        self._calls()

    def _my_calls(self) -> dict[int, tuple[int, int]]:
        """Return the columns of the people whom the author's last messages address.

        Each column comes with the number of these messages and the place of the last of them.
        """
        found: dict[int, tuple[int, int]] = {}
        for place in self.mine[-_OWN_LINES:].tolist():
            for slot in self.window.at(place).mentioned:
                found[slot] = (found[slot][0] + 1 if slot in found else 1, place)
        return found

    def _calls_to_me(self) -> dict[int, tuple[int, int]]:
        """Return the columns of the people who address the author.

        Each column comes with the number of their messages to the author and the place of the last of them.
        """
        found: dict[int, tuple[int, int]] = {}
        slots = self.slots[self.calling].tolist()
        for place, slot in zip(self.calling.tolist(), slots, strict=True):
            found[slot] = (found[slot][0] + 1 if slot in found else 1, place)
        return found

    def _calls(self) -> None:
        yes, window, rows = self.eye.yes, self.window, self.rows
        np.greater(window.called[rows], self.calls_me, out=yes["calls others"])
        same = yes["calls same"]
        same.fill(False)
        for slot in self.found:
            np.logical_or(same, window.calls[slot, rows], out=same)

    def order(self) -> None:
        """Fill the rows about time and order."""
        window, row, yes = self.window, self.eye.row, self.eye.yes
        gaps = np.maximum(self.heard.time - window.times[self.rows], 0.0)
        self.eye.paces[1] = self.pace
        self.eye.pairs[_TIMES] = np.log1p(gaps / self.eye.paces)
        np.less(gaps, _SECONDS, out=yes["same minute"])
        later = window.last_ranks[0].take(self.slots)
        later -= window.ranks[0, self.rows]
        LOG1P.take(later, out=row["later by them"], mode="clip")
        np.equal(later, 0, out=yes["their last"])
        since = len(self.mine) - self.mine.searchsorted(_PLACES)
        LOG1P.take(since, out=row["own lines since"], mode="clip")
        np.equal(since, 0, out=yes["own last since"])
        since = len(self.calling) - self.calling.searchsorted(_PLACES, "right")
        LOG1P.take(since, out=row["later to author"], mode="clip")

    def answers(self) -> None:
        """Fill the rows about answers."""
        window, rows, row, yes = self.window, self.rows, self.eye.row, self.eye.yes
        above = window.parent_slots[rows]
        by_author = yes["answered by author"]
        by_author[:] = window.answered_by[self.me, rows]
        known = np.maximum(by_author, row["answered by themselves"])
        np.greater(window.answers[rows], known, out=yes["answered by others"])
        LOG1P.take(window.next - window.answered_at[rows], out=row["turns since answer"], mode="clip")
        np.equal(above, self.me, out=yes["answers author"])
        parent, answered = yes["is author's last parent"], yes["author's last answered them"]
        parent.fill(False)
        answered.fill(False)
        if self.last_own >= 0:
            place = window.at(self.last_own).parent - window.next + WINDOW
            if place >= WINDOW - window.count:
                parent[place] = True
                np.equal(self.slots, above[self.last_own], out=answered)

    def conversations(self) -> None:
        """Fill the rows about conversations."""
        window, row, yes = self.window, self.eye.row, self.eye.yes
        labels, last = self.labels, self.last_own
        sizes = self.sizes = window.sizes
        later = window.last_ranks[1].take(labels)
        later -= window.ranks[1, self.rows]
        LOG1P.take(later, out=row["later in it"], mode="clip")
        np.equal(later, 0, out=yes["its last"])
        LOG1P.take(sizes.take(labels), out=row["conversation size"], mode="clip")
        table = self.eye.conversations
        since = window.next - window.lasts
        LOG1P.take(since, out=table[0], mode="clip")
        mine = np.bincount(labels[self.mine], minlength=CONVERSATIONS)
        table[1] = mine > 0
        table[2:4] = 0.0
        if last >= 0:
            table[2, labels[last]] = 1.0
        if self.found:
            table[3, labels[row["is called"].nonzero()[0]]] = 1.0
        table[4] = mine / sizes
        last_places = WINDOW - since
        table[5] = self.same.take(last_places, mode="clip")
        row["time in paces"].take(last_places, out=table[6], mode="clip")
        table.take(labels, axis=1, out=self.eye.pairs[_SHARED], mode="clip")
        own_last = np.full(CONVERSATIONS, -1)
        own_last[labels[self.mine]] = self.mine
        np.greater(own_last.take(labels), _PLACES, out=yes["author last there"])

    def text(self) -> float:
        """Fill the rows about shared words, and return the highest similarity to a message of the window."""
        row, labels = self.eye.row, self.labels
        shared = self.window.shared_words(self.heard)
        if shared is None:
            self.eye.pairs[_TEXT] = 0.0
            return 0.0
        total, most = shared
        likeness = total / ((self.heard.text.rare_weight + 1.0) * self.window.masses[self.rows])
        there = np.bincount(labels, weights=total, minlength=CONVERSATIONS)
        row["likeness"][:] = likeness
        row["shared words"][:] = np.sqrt(total) / 10.0
        row["rarest shared"][:] = most / 10.0
        row["conversation likeness"][:] = (np.sqrt(there / self.sizes) / 10.0).take(labels)
        # The maximum is positive here.
        row["rarest is theirs"][:] = most == np.maximum.reduce(most)
        return float(np.maximum.reduce(likeness))

    def own(self, best: float) -> Array:
        """Return the features of the message alone. Call this last, because it reads rows that other methods fill."""
        window, heard, last, row = self.window, self.heard, self.last_own, self.eye.row
        count = window.count
        waiting = np.count_nonzero(self.calls_me[last + 1 :])
        callers = np.count_nonzero(window.called[self.rows])
        own = np.empty(MESSAGE_FEATURES, dtype=np.float32)
        own[:TEXT_FEATURES] = heard.text.features
        own[TEXT_FEATURES:] = (
            len(self.found),
            len(self.loud),
            heard.mention_words.opening > 0 and not self.loud,
            len(self.found) > 0,
            last < 0,
            _LOG_OF[WINDOW - last],
            row["time in paces"].item(last) if last >= 0 else 0.0,
            last == WINDOW - 1,
            _LOG_OF[waiting],
            float(np.log(self.pace)),
            row["time"].item(-1) if count else 0.0,
            row["time in paces"].item(-1) if count else 0.0,
            _LOG_OF[window.people],
            callers / count if count else 0.0,
            count / WINDOW,
            best,
            len(self.found) > 0 and bool(row["is called"][self.calling].any()),
            _LOG_OF[len(self.mine)] / 4.0,
            last >= 0 and window.at(last).parent_id is None,
            _LOG_OF[np.count_nonzero(window.open[self.rows])],
            1.0 - window.starts / count if count else 0.0,
        )
        return own


def _pace(times: npt.NDArray[np.float64], count: int) -> float:
    """Return the usual seconds between messages: the mean of the middle half of the pauses."""
    if count < 3:  # noqa: PLR2004
        return _USUAL_PACE
    if count < _FEW:
        return max(float(times[-1] - times[-count]) / (count - 1), _FASTEST)
    here = times[WINDOW - count :]
    spans = here[_SPAN:] - here[:-_SPAN]
    spans.sort()
    quarter = len(spans) // 4
    middle = spans[quarter : len(spans) - quarter]
    return max(float(np.add.reduce(middle)) / len(middle) / _SPAN, _FASTEST)
