"""Finds the parent of each message of a room, and so its conversation, which is that of the parent.

Manual assignments are never changed, and answers to such messages follow them. A message without a parent starts a
conversation, with one exception: between two people alone, and in whispers, it continues the last conversation until a
long silence or a clear change of topic. Whispers are never in a conversation with open messages or with whispers to
others, so each conversation has one audience.

The result for a message depends only on the message itself and on the WINDOW messages (and recent whispers) before it.
So it is the same after a restart, and in batches of any size.
"""

import itertools
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from uuid import uuid5

from roomlore.conversations import reply_model
from roomlore.conversations.features import FeatureExtractor
from roomlore.conversations.reply_model import ReplyModel
from roomlore.conversations.window import WINDOW, ConversationMessage, ParsedMessage, Window
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId
from roomlore.domain.records import ReplyMethod, SplitReason

#: The author and the recipients of a whisper; None for messages to the whole room.
WhisperAudience = frozenset[ParticipantId] | None

#: How many usual pauses of the room make a long silence, and the bounds of a long silence. Half an hour splits best on
#: a hand-annotated workspace.
SILENCE_FACTOR = 30
SHORTEST_SILENCE = timedelta(minutes=30)
LONGEST_SILENCE = timedelta(hours=12)
#: The long silence between people who whisper; it does not depend on the pace of the room.
WHISPER_SILENCE = timedelta(hours=6)
#: If the probability that a message has no parent is at least this, a room with a single thread gets a new
#: conversation.
NEW_TOPIC_THRESHOLD = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLink:
    """The parent of a message."""

    id: MessageId
    #: The parent; None if the message starts a conversation.
    parent_id: MessageId | None
    #: How the parent was found; None if the message starts a conversation.
    method: ReplyMethod | None
    #: The probability that this result is right, 0..1.
    confidence: float
    #: The participants that the message addresses by name.
    addressed_ids: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The parent and the conversation of a message."""

    link: ReplyLink
    conversation_id: ConversationId
    #: Why the message starts the conversation; None if the message continues a conversation.
    split_reason: SplitReason | None
    #: The silence after the message that ends the conversation.
    idle_timeout: timedelta


class ReplyLinker:
    """Finds the parent of each message of one room; takes the messages in order."""

    def __init__(self, model: ReplyModel | None = None) -> None:
        self._model = model or reply_model.load()
        self._window = Window(self._model.lexicon)
        self._eye = FeatureExtractor(self._window)

    def remember(self, said: ConversationMessage, parent_id: MessageId | None) -> None:
        """Add a message with a known parent."""
        self._window.add(self._window.parse(said), parent_id)

    def link(self, said: ConversationMessage) -> ReplyLink:
        """Return the parent of a message, and add the message to the window."""
        heard = self._window.parse(said)
        linked = self._platform_link(heard) or self._predicted_link(heard)
        self._window.add(heard, linked.parent_id)
        return linked

    def _platform_link(self, heard: ParsedMessage) -> ReplyLink | None:
        linked = _platform_link(heard.message)
        if linked is None:
            return None
        found, _ = self._window.mentioned_by(heard, self._window.slot_of(heard.message.author_id))
        return replace(linked, addressed_ids=heard.message.mentions.union(found.values()))

    def _predicted_link(self, heard: ParsedMessage) -> ReplyLink:
        model, said = self._model, heard.message
        seen = self._eye.extract(heard)
        scores = model.scores(seen)
        place = model.choose(scores, seen.conversations)
        confidence = min(float(model.probabilities(scores)[place]), 1.0)
        addressed = seen.addressed_ids | said.mentions
        start = ReplyLink(
            id=said.id, parent_id=None, method=None, confidence=confidence, addressed_ids=addressed
        )
        if place == WINDOW:
            return start
        parent = self._window.at(place).message
        method = "mention" if parent.author_id in addressed else "inferred"
        return replace(start, parent_id=parent.id, method=method)


def link_all(said: Iterable[ConversationMessage], *, model: ReplyModel | None = None) -> list[ReplyLink]:
    """Return the parent of each message of one room; takes the messages in their order."""
    linker = ReplyLinker(model)
    return [linker.link(each) for each in said]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PastMessage:
    """The facts about a past message that later messages need."""

    #: The number of messages to the whole room before it.
    number: int
    author_id: ParticipantId
    seconds: float
    conversation_id: ConversationId
    is_pinned: bool


class _Stream:
    """The recent messages of a room that have one audience."""

    def __init__(self, *, is_whispered: bool) -> None:
        self._is_whispered = is_whispered
        self.earlier: deque[_PastMessage] = deque()
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
        """The silence that ends a conversation, computed from the usual pauses of this stream."""
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
        """The reason for which the first message of the stream starts a conversation."""
        return "idle" if self._is_whispered else "first"

    def is_single_thread(self, author_id: ParticipantId) -> bool:
        """Return whether the stream is one thread: at most two people take part, or all messages are whispers."""
        if self._is_whispered:
            return True
        return len(self._written) + (author_id not in self._written) <= 2  # noqa: PLR2004  two people

    def was_silent(self, said: ConversationMessage) -> bool:
        """Return whether there was a long silence just before a message."""
        if not self.earlier:
            return False
        return said.sent_at.timestamp() - self.earlier[-1].seconds > self.silence.total_seconds()

    def last(self) -> ConversationId:
        """Return the conversation of the last message that was not assigned manually."""
        left = [one for one in self.earlier if not one.is_pinned]
        return (left or self.earlier)[-1].conversation_id


class Disentangler:
    """Assigns the messages of one room to conversations; takes the messages in order.

    Call `remember` first with the last WINDOW messages and the whispers within WHISPER_SILENCE.
    """

    def __init__(self, linker: ReplyLinker | None = None) -> None:
        self._linker = linker or ReplyLinker()
        self._streams: dict[WhisperAudience, _Stream] = {}
        self._number = 0
        self._standing: dict[MessageId, ConversationId] = {}

    def set_conversation(self, message_id: MessageId, conversation_id: ConversationId) -> None:
        """Record the conversation of an older message that may be a parent."""
        self._standing[message_id] = conversation_id

    def remember(
        self,
        said: ConversationMessage,
        recipients: WhisperAudience,
        *,
        parent_id: MessageId | None,
        conversation_id: ConversationId | None,
        is_manual: bool,
    ) -> None:
        """Add a message that already has its assignment."""
        if recipients is None:
            self._linker.remember(said, parent_id)
        # A message without an assignment is processed again later, so it gets a provisional one here.
        placed = conversation_id or conversation_id_for(said.id)
        self._record(said, self._stream(said, recipients), placed=placed, is_manual=is_manual)

    def assign(
        self, said: ConversationMessage, recipients: WhisperAudience, *, pinned_id: ConversationId | None
    ) -> Assignment:
        """Return the parent and the conversation of a message; `pinned_id` is its manual assignment."""
        stream = self._stream(said, recipients)
        if recipients is None:
            linked = self._link(said, stream)
        else:
            # Replies are not inferred among few people.
            start = ReplyLink(id=said.id, parent_id=None, method=None, confidence=0.0)
            linked = _platform_link(said) or start
        split_reason = _boundary(said, linked, stream)
        known = pinned_id or (self._standing.get(linked.parent_id) if linked.parent_id else None)
        if known is not None:
            conversation_id, split_reason = known, None
        else:
            conversation_id = stream.last() if split_reason is None else conversation_id_for(said.id)
        self._record(said, stream, placed=conversation_id, is_manual=pinned_id is not None)
        return Assignment(
            link=linked,
            conversation_id=conversation_id,
            split_reason=split_reason,
            idle_timeout=self._stream(said, recipients).silence,
        )

    def _link(self, said: ConversationMessage, stream: _Stream) -> ReplyLink:
        """Return the parent of a message to the whole room."""
        is_stated = said.reply_to is not None or said.thread_root is not None
        if stream.is_single_thread(said.author_id) and stream.was_silent(said) and not is_stated:
            self._linker.remember(said, None)
            return ReplyLink(id=said.id, parent_id=None, method=None, confidence=1.0)
        return self._linker.link(said)

    def _stream(self, said: ConversationMessage, recipients: WhisperAudience) -> _Stream:
        if recipients not in self._streams:
            self._streams[recipients] = _Stream(is_whispered=recipients is not None)
        stream = self._streams[recipients]
        stream.forget(
            numbers_before=self._number - WINDOW, seconds_before=(said.sent_at - WHISPER_SILENCE).timestamp()
        )
        return stream

    def _record(
        self, said: ConversationMessage, stream: _Stream, *, placed: ConversationId, is_manual: bool
    ) -> None:
        self._standing[said.id] = placed
        stream.add(
            _PastMessage(
                number=self._number,
                author_id=said.author_id,
                seconds=said.sent_at.timestamp(),
                conversation_id=placed,
                is_pinned=is_manual,
            )
        )
        if stream is self._streams.get(None):
            self._number += 1


def conversation_id_for(message_id: MessageId) -> ConversationId:
    """Return the stable id of the conversation that a message starts; it does not reveal the message's id."""
    return ConversationId(uuid5(message_id, "conversation"))


def _boundary(said: ConversationMessage, linked: ReplyLink, stream: _Stream) -> SplitReason | None:
    """Return why a message without a known parent starts a conversation; None if it continues the last conversation."""
    if not stream.earlier:
        return stream.initial_boundary
    if stream.was_silent(said):
        return "idle"
    if stream.is_single_thread(said.author_id) and (
        linked.parent_id is not None or linked.confidence < NEW_TOPIC_THRESHOLD
    ):
        return None
    return "topic"


def _platform_link(said: ConversationMessage) -> ReplyLink | None:
    """Return the parent of a message as the platform states it; None if the platform states no parent."""
    parent_id = said.reply_to or said.thread_root
    if parent_id is None or parent_id == said.id:
        return None
    method = "explicit" if said.reply_to else "thread"
    return ReplyLink(id=said.id, parent_id=parent_id, method=method, confidence=1.0)
