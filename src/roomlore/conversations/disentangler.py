"""Makes conversations of what answers what: a message stands where the message it answers stands.

A person's word comes first: what was placed by hand stays, and what answers it comes along. What answers nothing
opens a conversation of its own, except where there is only one: while two people have a room to themselves, and
among those who whisper to each other, it goes on with the last one until there was a long silence or the topic
is clearly another. Whispers never mix with what everybody hears, nor with whispers for others, so that a
conversation has one audience.
"""

import itertools
from collections import Counter, deque
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from uuid import uuid5

from roomlore.conversations.linker import WINDOW, ReplyLinker
from roomlore.conversations.records import Assignment, ConversationMessage, ReplyLink
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId
from roomlore.domain.records import SplitReason

#: Whom a whisper is for, its author among them; None is everybody in the room.
WhisperAudience = frozenset[ParticipantId] | None

#: A silence is long when it lasts so many times the usual pause of the room, and within these bounds: half an hour
#: parts conversations best on a hand-annotated workspace, and nobody goes on after half a day.
SILENCE_FACTOR = 30
SHORTEST_SILENCE = timedelta(minutes=30)
LONGEST_SILENCE = timedelta(hours=12)
#: Among those who whisper to each other it is this one: what is whispered to others has no say in their pace.
WHISPER_SILENCE = timedelta(hours=6)
#: How sure it must be that nothing is answered for a new topic where there is only one conversation.
NEW_TOPIC_THRESHOLD = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class _PastMessage:
    """What is remembered of a message for those after it."""

    #: How many messages were said aloud before it, since the start.
    number: int
    author_id: ParticipantId
    #: When it was said.
    seconds: float
    conversation_id: ConversationId
    is_pinned: bool


class _Stream:
    """What the same people heard, as far as it is within the window, or within the silence of whispers."""

    def __init__(self, *, is_whispered: bool) -> None:
        self._is_whispered = is_whispered
        self.earlier: deque[_PastMessage] = deque()
        #: How many of them each author wrote.
        self._written: Counter[ParticipantId] = Counter()
        self._silence: timedelta | None = None

    def add(self, one: _PastMessage) -> None:
        self.earlier.append(one)
        self._written[one.author_id] += 1
        self._silence = None

    def forget(self, *, numbers_before: int, seconds_before: float) -> None:
        while self.earlier and (
            self.earlier[0].seconds < seconds_before
            if self._is_whispered
            else self.earlier[0].number < numbers_before
        ):
            gone = self.earlier.popleft().author_id
            self._written[gone] -= 1
            if not self._written[gone]:
                del self._written[gone]
            self._silence = None

    @property
    def silence(self) -> timedelta:
        """How long nobody speaks until a conversation counts as over, by the pace of the stream."""
        if self._is_whispered:
            return WHISPER_SILENCE
        if self._silence is None:
            times = [one.seconds for one in self.earlier]
            pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
            usual = timedelta(seconds=median(pauses)) if pauses else timedelta(0)
            self._silence = min(max(usual * SILENCE_FACTOR, SHORTEST_SILENCE), LONGEST_SILENCE)
        return self._silence

    @property
    def initial_boundary(self) -> SplitReason:
        """Why a conversation is opened where nothing is remembered."""
        return "silence" if self._is_whispered else "first"

    def is_single_thread(self, author_id: ParticipantId) -> bool:
        """Return whether at most two people take part, or it is whispered."""
        if self._is_whispered:
            return True
        return len(self._written) + (author_id not in self._written) <= 2  # noqa: PLR2004  two people

    def was_silent(self, said: ConversationMessage) -> bool:
        """Return whether nobody had spoken for long before this."""
        if not self.earlier:
            return False
        return said.sent_at.timestamp() - self.earlier[-1].seconds > self.silence.total_seconds()

    def last(self) -> ConversationId:
        """Return the conversation that goes on: that of the last message nobody moved by hand."""
        left = [one for one in self.earlier if not one.is_pinned]
        return (left or self.earlier)[-1].conversation_id


class Disentangler:
    """Goes through a room in order, given what came before.

    It is to `remember` the last WINDOW messages before, and what was whispered within WHISPERED_SILENCE. What comes out for a message depends on it and on those alone, so that it is the same in whatever portions the
    room is gone through.
    """

    def __init__(self, linker: ReplyLinker | None = None) -> None:
        self._linker = linker or ReplyLinker()
        self._streams: dict[WhisperAudience, _Stream] = {}
        self._number = 0
        self._standing: dict[MessageId, ConversationId] = {}

    def set_conversation(self, message_id: MessageId, conversation_id: ConversationId) -> None:
        """Take note of where a message stands that may be answered from afar."""
        self._standing[message_id] = conversation_id

    def remember(
        self,
        said: ConversationMessage,
        hearers: WhisperAudience,
        *,
        parent_id: MessageId | None,
        conversation_id: ConversationId | None,
        by_hand: bool,
    ) -> None:
        """Take note of a message that was gone through before."""
        if hearers is None:
            self._linker.remember(said, parent_id)
        # What was never placed is read again with what comes next, or is on its way to be.
        placed = conversation_id or conversation_id_for(said.id)
        self._record(said, self._stream(said, hearers), placed=placed, by_hand=by_hand)

    def assign(
        self, said: ConversationMessage, hearers: WhisperAudience, *, pinned_id: ConversationId | None
    ) -> Assignment:
        """Return what a message answers and the conversation it is in."""
        stream = self._stream(said, hearers)
        linked = _platform_link(said) if hearers is not None else self._link(said, stream)
        boundary = _boundary(said, linked, stream)
        conversation_id, boundary = self._conversation(said, linked, stream=stream, boundary=boundary)
        if pinned_id is not None:
            conversation_id, boundary = pinned_id, None
        by_hand = pinned_id is not None
        self._record(said, stream, placed=conversation_id, by_hand=by_hand)
        return Assignment(
            link=linked,
            conversation_id=conversation_id,
            boundary=boundary,
            idle_timeout=self._stream(said, hearers).silence,
        )

    def _link(self, said: ConversationMessage, stream: _Stream) -> ReplyLink:
        """Return what a message answers that everybody hears."""
        is_stated = said.reply_to is not None or said.thread_root is not None
        if stream.is_single_thread(said.author_id) and stream.was_silent(said) and not is_stated:
            self._linker.remember(said, None)
            return ReplyLink(id=said.id, parent_id=None, method=None, confidence=1.0)
        return self._linker.link(said)

    def _conversation(
        self, said: ConversationMessage, linked: ReplyLink, *, stream: _Stream, boundary: SplitReason | None
    ) -> tuple[ConversationId, SplitReason | None]:
        where = self._standing.get(linked.parent_id) if linked.parent_id is not None else None
        if where is not None:
            return where, None
        if boundary is None:
            return stream.last(), None
        return conversation_id_for(said.id), boundary

    def _stream(self, said: ConversationMessage, hearers: WhisperAudience) -> _Stream:
        if hearers not in self._streams:
            self._streams[hearers] = _Stream(is_whispered=hearers is not None)
        stream = self._streams[hearers]
        stream.forget(
            numbers_before=self._number - WINDOW,
            seconds_before=(said.sent_at - WHISPER_SILENCE).timestamp(),
        )
        return stream

    def _record(
        self, said: ConversationMessage, stream: _Stream, *, placed: ConversationId, by_hand: bool
    ) -> None:
        self._standing[said.id] = placed
        stream.add(
            _PastMessage(
                number=self._number,
                author_id=said.author_id,
                seconds=said.sent_at.timestamp(),
                conversation_id=placed,
                is_pinned=by_hand,
            )
        )
        if stream is self._streams.get(None):
            self._number += 1


def conversation_id_for(message_id: MessageId) -> ConversationId:
    """Return the id of the conversation that a message opens: always the same, and it does not tell the message."""
    return ConversationId(uuid5(message_id, "conversation"))


def _boundary(said: ConversationMessage, linked: ReplyLink, stream: _Stream) -> SplitReason | None:
    """Return why a message would open a conversation if it answered nothing known; None if it goes on."""
    if not stream.earlier:
        return stream.initial_boundary
    if stream.was_silent(said):
        return "silence"
    if stream.is_single_thread(said.author_id) and (
        linked.parent_id is not None or linked.confidence < NEW_TOPIC_THRESHOLD
    ):
        return None
    return "topic"


def _platform_link(said: ConversationMessage) -> ReplyLink:
    """Return what the platform says a whisper answers: among few people nothing needs to be guessed."""
    parent_id = said.reply_to or said.thread_root
    method = None if parent_id is None else "explicit" if said.reply_to else "thread"
    confidence = 0.0 if parent_id is None else 1.0
    return ReplyLink(id=said.id, parent_id=parent_id, method=method, confidence=confidence)
