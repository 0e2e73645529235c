"""The last messages of a room as arrays: authors, addressees, parents, rare words.

The state depends only on the messages in the window and their parents. Names are looked up among the authors in the
window, so the name of an author is removed with the author's last message. Counts are stored even where a flag would be
enough, so that each addition can be undone.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from roomlore.conversations.message_text import (
    TEXT_FEATURE_NAMES,
    TEXT_FEATURES,
    Lexicon,
    ParsedText,
    RareWordIndex,
    bucket,
    remove_oldest,
)
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.text.mentions import MentionWords, aliases, mention_words

#: The number of earlier messages that are candidates; older ones are never read.
WINDOW = 100
#: The number of columns of participants: those in the window, one for empty places, one for everybody else.
SLOTS = WINDOW + 2
EMPTY, OUTSIDE = WINDOW, WINDOW + 1
#: The number of columns of conversations: those in the window, and EMPTY.
CONVERSATIONS = WINDOW + 1
#: A word with a lower rarity is taken for a word of the language before it is taken for a name.
COMMON_WORD_RARITY = 7.4
#: Stands for the number of a missing message.
NO_MESSAGE = -1_000_000
_CAPACITY = 8 * WINDOW

#: The column of a participant, and one of their names.
Speaker = tuple[int, str]
Array = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

#: Facts of a message that do not depend on the author of the next one; they are the rows of `Window.facts`.
FACT_NAMES = (
    *("next is theirs", "before is theirs", "answers", "answered by themselves", "answers themselves"),
    *("starts", "parent outside", "lone start"),
)
_NEXT, _BEFORE, _ANSWERS, _BY_THEMSELVES, _THEMSELVES, _STARTS, _OUTSIDE, _LONE = range(len(FACT_NAMES))
_ASKS = TEXT_FEATURE_NAMES.index("question mark")
#: log(1 + count) for each count.
LOG1P: Array = np.log1p(np.arange(WINDOW + 2, dtype=np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMessage:
    """The part of a message that disentanglement reads."""

    id: MessageId
    author_id: ParticipantId
    author_name: str
    #: The time with a zone; its precision may be one minute.
    sent_at: datetime
    body: str
    #: The message that it replies to, according to the platform.
    reply_to: MessageId | None = None
    #: The root of its thread, according to the platform.
    thread_root: MessageId | None = None
    #: The participants it mentions, according to the platform.
    mentions: frozenset[ParticipantId] = frozenset()


@dataclass(slots=True)
class ParsedMessage:
    """A parsed message, in the window or not."""

    message: ConversationMessage
    text: ParsedText
    mention_words: MentionWords
    time: float
    #: The words that may address somebody, by which the window finds the message.
    loud: tuple[object, ...]
    plain: tuple[object, ...]
    parent_id: MessageId | None = None
    #: The number of its parent; NO_MESSAGE if the parent is not in the window.
    parent: int = NO_MESSAGE
    #: The numbers of its answers; and, in `siblings`, the numbers of all answers to its parent if the parent has left
    #: the window.
    answers: list[int] = field(default_factory=list)
    siblings: list[int] = field(default_factory=list)
    #: For each participant, by column, how many of their aliases it contains.
    mentioned: dict[int, int] = field(default_factory=dict)


class Window:
    """The last messages of one room, oldest first. The last axis of each array is the message."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        #: For each name its aliases, and whether each alias is recognised anywhere in a message.
        self._spelled: dict[str, dict[str, bool]] = {}
        self.count = 0
        #: The number of the next message, and the number of the message in row 0.
        self.next = 0
        self._row0 = -WINDOW
        self.parsed: deque[ParsedMessage] = deque()
        self._numbers: dict[MessageId, int] = {}
        self._set_up_messages(_CAPACITY)
        #: How many messages of the window start a conversation.
        self.starts = 0
        #: The rank of the last message of each participant, and of the last message of each conversation.
        self.last_ranks = np.zeros((2, SLOTS), dtype=np.intp)
        #: For each conversation the number of its messages in the window, and the number of its last message.
        self.sizes = np.ones(CONVERSATIONS, dtype=np.intp)
        self.lasts = np.zeros(CONVERSATIONS, dtype=np.int64)
        self._unused = list(range(WINDOW))
        self._slot_of: dict[ParticipantId, int] = {}
        self._who: dict[int, ParticipantId] = {}
        self._free = list(range(WINDOW))
        self._lines_of = [0] * WINDOW
        self._lines_as: dict[Speaker, int] = {}
        self._loud: dict[object, list[int]] = {}
        self._plain: dict[object, list[int]] = {}
        self._named: dict[object, dict[Speaker, bool]] = {}
        self._words = RareWordIndex()

    def _set_up_messages(self, rows: int) -> None:
        self.times = np.zeros(rows)
        self.slots = np.full(rows, EMPTY, dtype=np.intp)
        #: For each message the column of its conversation, and the column of its parent's author (EMPTY if not in the
        #: window).
        self.conversations = np.full(rows, EMPTY, dtype=np.intp)
        self.parent_slots = np.full(rows, EMPTY, dtype=np.intp)
        #: The rank of each message among those of its author, and among those of its conversation.
        self.ranks = np.zeros((2, rows), dtype=np.intp)
        self.facts = np.zeros((len(FACT_NAMES), rows), dtype=np.float32)
        self.marks = np.zeros((TEXT_FEATURES, rows), dtype=np.float32)
        self.masses = np.full(rows, 1e6, dtype=np.float32)
        self.answers = np.zeros(rows, dtype=np.uint8)
        self.answered_at = np.full(rows, NO_MESSAGE, dtype=np.int64)
        #: Whether a participant answered each message, whether each message addresses the participant, and how many it
        #: addresses.
        self.answered_by = np.zeros((SLOTS, rows), dtype=np.bool_)
        self.calls = np.zeros((SLOTS, rows), dtype=np.bool_)
        self.called = np.zeros(rows, dtype=np.uint8)
        #: Whether each message is an unanswered question that starts a conversation.
        self.open = np.zeros(rows, dtype=np.bool_)

    # Reading a message

    def parse(self, said: ConversationMessage) -> ParsedMessage:
        """Return a message with its parsed text, without adding it to the window."""
        called = mention_words(said.body)
        return ParsedMessage(
            message=said,
            text=ParsedText(said.body, self._lexicon, skip=called.opening),
            mention_words=called,
            time=said.sent_at.timestamp(),
            loud=(*called.loud, *said.mentions),
            plain=called.plain,
        )

    @property
    def people(self) -> int:
        """The number of authors in the window."""
        return len(self._slot_of)

    def slot_of(self, participant_id: ParticipantId) -> int:
        """Return the column of a participant, or OUTSIDE."""
        return self._slot_of.get(participant_id, OUTSIDE)

    def mentioned_by(self, heard: ParsedMessage, author: int) -> tuple[dict[int, ParticipantId], set[int]]:
        """Return the participants that a message addresses, by column, and the columns of clearly addressed ones."""
        named = self._named
        loud = {slot for word in heard.loud if word in named for slot, _ in named[word]}
        found = {
            slot
            for word in heard.plain
            if word in named
            for (slot, _), anywhere in named[word].items()
            if anywhere
        }
        loud.discard(author)
        found |= loud
        found.discard(author)
        return {slot: self._who[slot] for slot in found}, loud

    def mentions_of(self, said: ConversationMessage) -> list[int]:
        """Return the places of the messages that address the author of `said`, who need not be in the window."""
        start = self.next - WINDOW
        return [number - start for number in self._callers(self._spellings(said.author_id, said.author_name))]

    def position_of(self, message_id: MessageId) -> int | None:
        """Return the place of a message in the window; None if it is not in the window."""
        number = self._numbers.get(message_id)
        return None if number is None else number - self.next + WINDOW

    def at(self, place: int) -> ParsedMessage:
        """Return the message at a place of the window (0 is the oldest)."""
        return self.parsed[place - WINDOW + self.count]

    def rows(self) -> slice:
        """Return the rows that the window takes in the arrays."""
        end = self.next - self._row0
        return slice(end - WINDOW, end)

    def shared_words(self, heard: ParsedMessage) -> tuple[Array, Array] | None:
        """Return the sum of squares and the maximum of the weights of rare words that a message shares with each place.

        Return None if the message shares no rare word.
        """
        return self._words.shared_weights(heard.text.rare, start=self.next - WINDOW, places=WINDOW)

    # Adding

    def add(self, heard: ParsedMessage, parent_id: MessageId | None) -> None:
        """Add a message with its parent. If the window is full, drop the oldest message."""
        if self.count == WINDOW:
            self._drop()
        if self.next - self._row0 == _CAPACITY:
            self._slide()
        number, row = self.next, self.next - self._row0
        slot = self._enter(heard.message)
        self.times[row], self.slots[row] = heard.time, slot
        self.marks[:, row] = heard.text.features
        self.masses[row] = heard.text.rare_weight + 1.0
        self.facts[_NEXT, row - 1] = self.facts[_BEFORE, row] = self.slots[row - 1] == slot
        self._rank(0, slot, row)
        self._note_parent(heard, parent_id, row=row, slot=slot)
        self.next += 1
        self.count += 1
        self.parsed.append(heard)
        self._numbers[heard.message.id] = number
        self._words.add(heard.text.rare, number)
        self._post(heard, number)

    def _rank(self, kind: int, column: int, row: int) -> None:
        self.last_ranks[kind, column] += 1
        self.ranks[kind, row] = self.last_ranks[kind, column]

    def _note_parent(self, heard: ParsedMessage, parent_id: MessageId | None, *, row: int, slot: int) -> None:
        number = None if parent_id is None else self._numbers.get(parent_id)
        heard.parent_id = parent_id
        self.open[row] = parent_id is None and heard.text.features[_ASKS] > 0
        self.parent_slots[row] = EMPTY
        if parent_id is None:
            self.facts[_STARTS, row] = self.facts[_LONE, row] = 1.0
            self.starts += 1
            self._join(row, None)
        elif number is None:
            self.facts[_OUTSIDE, row] = 1.0
            known = next((each for each in self.parsed if each.parent_id == parent_id), heard)
            heard.siblings = known.siblings
            self._join(
                row, int(self.conversations[known.siblings[0] - self._row0]) if known.siblings else None
            )
            heard.siblings.append(self._row0 + row)
        else:
            heard.parent = number
            self._answer(number, row=row, slot=slot)

    def _answer(self, number: int, *, row: int, slot: int) -> None:
        parent, above = self._numbered(number), number - self._row0
        parent.answers.append(self._row0 + row)
        self.answers[above] += 1
        self.answered_at[above] = self._row0 + row
        self.answered_by[slot, above] = True
        self.facts[_ANSWERS, above] = LOG1P[len(parent.answers)]
        if self.slots[above] == slot:
            self.facts[_BY_THEMSELVES, above] = self.facts[_THEMSELVES, row] = 1.0
        self.facts[_LONE, above] = 0.0
        self.open[above] = False
        self.parent_slots[row] = self.slots[above]
        self._join(row, int(self.conversations[above]))

    def _join(self, row: int, column: int | None) -> None:
        """Put a message into the conversation of a column. If the column is None, start a conversation."""
        if column is None:
            column = self._unused.pop()
        else:
            self.sizes[column] += 1
        self.conversations[row] = column
        self.lasts[column] = self._row0 + row
        self._rank(1, column, row)

    def _numbered(self, number: int) -> ParsedMessage:
        return self.parsed[number - self.next + self.count]

    def _post(self, heard: ParsedMessage, number: int) -> None:
        """Index the words of a message, and count the participants that it addresses."""
        named = self._named
        speakers: set[Speaker] = set()
        for word in heard.loud:
            self._loud.setdefault(word, []).append(number)
            if word in named:
                speakers.update(named[word])
        for word in heard.plain:
            self._plain.setdefault(word, []).append(number)
            if word in named:
                speakers.update(who for who, anywhere in named[word].items() if anywhere)
        for slot, _ in speakers:
            self._count(number, slot, 1)

    def _count(self, number: int, slot: int, by: int) -> None:
        row = number - self._row0
        if self.slots[row] == slot:
            return
        callees = self._numbered(number).mentioned
        callees[slot] = callees.get(slot, 0) + by
        if not callees[slot]:
            del callees[slot]
        self.calls[slot, row] = slot in callees
        self.called[row] = len(callees)

    def _spellings(self, author: ParticipantId, name: str) -> dict[object, bool]:
        if name not in self._spelled:
            if len(self._spelled) > _CAPACITY:
                self._spelled.clear()
            when_loud, anywhere = aliases(name, self._is_common)
            self._spelled[name] = dict.fromkeys(when_loud, False) | dict.fromkeys(anywhere, True)
        return {**self._spelled[name], author: False}

    def _is_common(self, word: str) -> bool:
        return self._lexicon.rarity[bucket(word)] < COMMON_WORD_RARITY

    def _callers(self, words: dict[object, bool]) -> set[int]:
        numbers: set[int] = set()
        for word, anywhere in words.items():
            if word in self._loud:
                numbers.update(self._loud[word])
            if anywhere and word in self._plain:
                numbers.update(self._plain[word])
        return numbers

    def _enter(self, said: ConversationMessage) -> int:
        """Return the column of an author. A new author gets a new column.

        If the author's name is new, earlier messages that address this name are counted.
        """
        author = said.author_id
        slot = self._slot_of.get(author)
        if slot is None:
            slot = self._slot_of[author] = self._free.pop()
            self._who[slot] = author
        self._lines_of[slot] += 1
        speaker = (slot, said.author_name)
        lines = self._lines_as.get(speaker, 0)
        self._lines_as[speaker] = lines + 1
        if not lines:
            words = self._spellings(author, said.author_name)
            for number in self._callers(words):
                self._count(number, slot, 1)
            for word, anywhere in words.items():
                self._named.setdefault(word, {})[speaker] = anywhere
        return slot

    # Dropping

    def _drop(self) -> None:
        number = self.next - self.count
        heard = self.parsed.popleft()
        self.count -= 1
        known = self._numbers.pop(heard.message.id, number)
        if known != number:
            self._numbers[heard.message.id] = known
        self._words.drop(heard.text.rare)
        remove_oldest(self._loud, heard.loud)
        remove_oldest(self._plain, heard.plain)
        row = number - self._row0
        self._part(heard, row)
        self._leave(int(self.slots[row]), heard.message.author_name)

    def _part(self, heard: ParsedMessage, row: int) -> None:
        """Remove the oldest message from its conversation. Its answers then have a parent outside the window."""
        self.facts[_BEFORE, row + 1] = 0.0
        self.starts -= heard.parent_id is None
        for answer in heard.answers:
            self._numbered(answer).siblings = heard.answers
            self.parent_slots[answer - self._row0] = EMPTY
            self.facts[_THEMSELVES, answer - self._row0] = 0.0
            self.facts[_OUTSIDE, answer - self._row0] = 1.0
        del heard.siblings[:1]
        column = int(self.conversations[row])
        if self.sizes[column] == 1:
            self._unused.append(column)
            return
        self.sizes[column] -= 1
        if heard.answers and heard.siblings:
            self._split(column, row)

    def _split(self, column: int, gone: int) -> None:
        """Move the descendants of a removed message to a conversation of their own."""
        rows = slice(gone + 1, self.next - self._row0)
        below, beside = [gone], list[int]()
        for row in ((self.conversations[rows] == column).nonzero()[0] + gone + 1).tolist():
            parent = self._numbered(self._row0 + row).parent - self._row0
            (below if parent in below else beside).append(row)
        del below[0]
        for part, members in ((column, beside), (self._unused.pop(), below)):
            self.conversations[members] = part
            self.ranks[1, members] = range(len(members))
            self.last_ranks[1, part] = len(members) - 1
            self.sizes[part] = len(members)
            self.lasts[part] = self._row0 + members[-1]

    def _leave(self, slot: int, name: str) -> None:
        speaker = (slot, name)
        self._lines_as[speaker] -= 1
        if not self._lines_as[speaker]:
            del self._lines_as[speaker]
            self._forget_name(speaker)
        self._lines_of[slot] -= 1
        if not self._lines_of[slot]:
            del self._slot_of[self._who.pop(slot)]
            self._free.append(slot)

    def _forget_name(self, speaker: Speaker) -> None:
        slot, name = speaker
        words = self._spellings(self._who[slot], name)
        for number in self._callers(words):
            self._count(number, slot, -1)
        for word in words:
            del self._named[word][speaker]
            if not self._named[word]:
                del self._named[word]

    def _slide(self) -> None:
        """Move the rows of the window to the start of the arrays."""
        kept = slice(_CAPACITY - WINDOW, _CAPACITY)
        people = (self.slots, self.parent_slots, self.answered_by, self.calls, self.called)
        answers = (self.conversations, self.answers, self.answered_at, self.open, self.ranks, self.facts)
        for array in (*people, *answers, self.times, self.marks, self.masses):
            array[..., :WINDOW] = array[..., kept]
            array[..., WINDOW:] = 0
        self.answered_at[WINDOW:] = NO_MESSAGE
        self._row0 += _CAPACITY - WINDOW
