"""Assigns the messages of a room to conversations, and finds the parent of each message in its conversation.

For messages to the whole room, the conversation model decides which conversation each message continues. A decision
takes the next LOOKAHEAD - 1 messages into account, so the decisions for the last messages of a room are provisional.
Two rules come before the model: manual assignments are never changed, and a message is in the same conversation as the
parent that the platform states.

A whisper is never in a conversation with open messages or with whispers to other people, so each conversation has one
audience. A whisper continues the last conversation of its audience until a long silence.

A conversation in a room for members ends at a border: a time when a membership ended. Otherwise people who left would
see that the conversation went on. No decision looks across a border. A stated reply across a border starts a
conversation, which further replies to the same message continue. Whispers have no borders, because people who left can
still read the whispers that were addressed to them.

The result for a message depends only on the WINDOW messages (and recent whispers) before it, on the message itself, and
on the LOOKAHEAD - 1 messages after it. So it is the same after a restart, and in batches of any size.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from uuid import uuid5

import numpy as np
import numpy.typing as npt

from roomlore.conversations import conversation_model
from roomlore.conversations.conversation_model import Settled, Step, settle, window_of
from roomlore.conversations.open_conversations import ProjectedTexts, arrival
from roomlore.conversations.reply_linker import (
    ReplyEvidence,
    ReplyLink,
    ReplyLinker,
    inferred_method,
    stated_link,
)
from roomlore.conversations.window import WINDOW, ConversationMessage, Places
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId
from roomlore.domain.records import ReplyMethod, SplitReason
from roomlore.models.local_embedding import bundled_embedder

#: The author and the recipients of a whisper; None for messages to the whole room.
WhisperAudience = frozenset[ParticipantId] | None

#: The methods of replies that the platform states.
STATED = ("explicit", "thread")
#: How many usual pauses of the room make a long silence, and the bounds of a long silence. Half an hour splits best on
#: a hand-annotated workspace.
SILENCE_FACTOR = 30
SHORTEST_SILENCE = timedelta(minutes=30)
LONGEST_SILENCE = timedelta(hours=12)
#: The long silence between people who whisper; it does not depend on the pace of the room.
WHISPER_SILENCE = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMessage:
    """A message that is already assigned to a conversation."""

    message: ConversationMessage
    audience: WhisperAudience = None
    #: The parent that the platform states; otherwise the parent that the reply linker chose.
    linked_parent_id: MessageId | None = None
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to assign to a conversation."""

    message: ConversationMessage
    audience: WhisperAudience = None
    #: The conversation to which a person assigned it.
    pinned_id: ConversationId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedParent:
    """The conversation and the time of a message to which other messages reply."""

    conversation_id: ConversationId
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The parent and the conversation of a message."""

    message_id: MessageId
    #: The parent; None if the message has none. An inferred parent is always in the same conversation.
    parent_id: MessageId | None
    #: How the parent was found; None if the message has no parent.
    method: ReplyMethod | None
    #: The probability that this result is right, 0..1.
    confidence: float
    #: The probability that the message answers its parent; None if the parent is stated or is not a question.
    answer_probability: float | None = None
    #: How many open messages back the parent is that the reply linker chose; None if the linker chose no parent or the
    #: platform states a parent. The linker reads this when it links later messages.
    linked_offset: int | None
    conversation_id: ConversationId
    #: Why the message starts the conversation; None if the message continues a conversation.
    split_reason: SplitReason | None
    #: The silence after the message that ends the conversation.
    idle_timeout: timedelta


def disentangle(
    past: Sequence[PastMessage],
    new: Sequence[NewMessage],
    following: Sequence[NewMessage] = (),
    *,
    distant: Mapping[MessageId, AssignedParent] | None = None,
    borders: Sequence[datetime] = (),
) -> list[Assignment]:
    """Return the assignments of the new messages of a room, in order.

    Args:
        past: The earlier messages, in order: at least WINDOW open messages, and the whispers within WHISPER_SILENCE.
        new: The messages to assign, in order.
        following: The next LOOKAHEAD - 1 open messages. They help to decide and get no assignment.
        distant: Parents that are in neither `past` nor `new`.
        borders: The times when memberships ended, in order. A message at exactly this time lies after the border.
    """
    standing = dict(distant or {}) | {
        one.message.id: _assigned(one.message, one.conversation_id) for one in past
    }
    open_count = sum(one.audience is None for one in new)
    drafts = _OpenMessages(past, [*new, *following], standing, borders).drafts(open_count)
    streams = _Streams()
    for one in past:
        streams.add(one.message, one.audience, one.conversation_id)
    found: list[Assignment] = []
    for one in new:
        said, stream = one.message, streams.at(one.message, one.audience)
        draft = drafts[said.id] if one.audience is None else _whispered(one, stream, standing)
        split_reason = stream.start_reason(said) if draft.is_start else None
        standing[said.id] = _assigned(said, draft.conversation_id)
        streams.add(said, one.audience, draft.conversation_id)
        found.append(
            Assignment(
                message_id=said.id,
                parent_id=draft.link.parent_id,
                method=draft.link.method,
                confidence=draft.link.confidence,
                linked_offset=draft.linked_offset,
                conversation_id=draft.conversation_id,
                split_reason=split_reason,
                idle_timeout=streams.at(said, one.audience).silence,
            )
        )
    return found


def _assigned(said: ConversationMessage, conversation_id: ConversationId) -> AssignedParent:
    return AssignedParent(conversation_id=conversation_id, sent_at=said.sent_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The parent and the conversation of a message."""

    link: ReplyLink
    conversation_id: ConversationId
    is_start: bool
    linked_offset: int | None = None


class _Labels:
    """Numbers conversations."""

    def __init__(self) -> None:
        self._numbers: dict[ConversationId, int] = {}
        self.ids: list[ConversationId] = []

    def number(self, conversation_id: ConversationId) -> int:
        if conversation_id not in self._numbers:
            self._numbers[conversation_id] = len(self.ids)
            self.ids.append(conversation_id)
        return self._numbers[conversation_id]


class _OpenMessages:
    """The messages to the whole room."""

    def __init__(
        self,
        past: Sequence[PastMessage],
        new: Sequence[NewMessage],
        standing: Mapping[MessageId, AssignedParent],
        borders: Sequence[datetime],
    ) -> None:
        self._past = [one for one in past if one.audience is None]
        self._new = [one for one in new if one.audience is None]
        self._standing = standing
        self._labels = _Labels()
        self._messages = [one.message for one in (*self._past, *self._new)]
        self._places = {message.id: place for place, message in enumerate(self._messages)}
        self._borders = borders
        #: How many borders lie before each message.
        self._sections = [bisect_right(borders, message.sent_at) for message in self._messages]

    def drafts(self, count: int) -> dict[MessageId, _Draft]:
        """Return the results of the first `count` new messages. The other new messages only help to decide."""
        if not count:
            return {}
        model = conversation_model.load()
        texts = model.projections.project(bundled_embedder().embed([one.body for one in self._messages]))
        linker = ReplyLinker()
        for one in self._past:
            linker.remember(one.message, one.linked_parent_id)
        labels = [self._labels.number(one.conversation_id) for one in self._past]
        links: list[ReplyLink] = []
        steps: list[Step] = []
        for place, one in enumerate(self._new, len(self._past)):
            evidence = linker.link_with_evidence(one.message)
            links.append(evidence.link)
            steps.append(self._step(one, place, evidence, texts))
        found: dict[MessageId, _Draft] = {}
        decided = settle(model, labels, steps, count)
        for place, (link, step, one) in enumerate(zip(links, steps, decided, strict=False), len(self._past)):
            found[link.id] = self._draft(place, link, step=step, settled=one, before=window_of(labels))
            labels.append(one.label)
        return found

    def _step(self, one: NewMessage, place: int, evidence: ReplyEvidence, texts: ProjectedTexts) -> Step:
        step = Step(
            arrival=arrival(evidence, texts.relations(place, evidence.seen.count)),
            number=self._labels.number(conversation_id_for(one.message.id)),
            known=None if one.pinned_id is None else self._labels.number(one.pinned_id),
            since_border=place - bisect_left(self._sections, self._sections[place]),
        )
        parent_id = evidence.link.parent_id
        if step.known is not None or parent_id is None or evidence.link.method not in STATED:
            return step
        return self._stated_step(step, place, parent_id)

    def _stated_step(self, step: Step, place: int, parent_id: MessageId) -> Step:
        """Return the step of a message with a stated parent, unchanged if the parent is unknown.

        The message is in the conversation of the parent. If a border lies between the two messages, the message
        continues the conversation of an earlier reply to the same parent, or starts a conversation.
        """
        parent = self._places.get(parent_id, place)
        if parent < place and place - parent <= step.since_border:
            return replace(step, follows_offset=place - parent)
        standing = self._standing.get(parent_id)
        if parent >= place and standing is None:
            return step
        if standing is not None and bisect_right(self._borders, standing.sent_at) == self._sections[place]:
            return replace(step, known=self._labels.number(standing.conversation_id))
        for back in range(1, min(step.since_border, WINDOW) + 1):
            if (link := stated_link(self._messages[place - back])) and link.parent_id == parent_id:
                return replace(step, follows_offset=back)
        return replace(step, is_start=True)

    def _draft(self, place: int, link: ReplyLink, *, step: Step, settled: Settled, before: Places) -> _Draft:
        """Return the result of a message. `before` contains the labels of the messages in the window before it."""
        members = before == settled.label
        is_stated = link.method in STATED
        is_decided = step.known is None and step.follows_offset is None
        return _Draft(
            link=link
            if is_stated
            else self._shown_link(place, link, step=step, settled=settled, members=members),
            conversation_id=self._labels.ids[settled.label],
            is_start=is_decided and not members.any(),
            linked_offset=self._linked_offset(place, link),
        )

    def _linked_offset(self, place: int, link: ReplyLink) -> int | None:
        if link.parent_id is None or link.method in STATED:
            return None
        return place - self._places[link.parent_id]

    def _shown_link(
        self, place: int, link: ReplyLink, *, step: Step, settled: Settled, members: npt.NDArray[np.bool_]
    ) -> ReplyLink:
        """Return the link of a message to a parent in the same conversation.

        This is the parent that the linker chose if it is in the conversation, otherwise the most probable parent.
        """
        shares = step.arrival.reply_probabilities * members
        chosen = WINDOW if link.parent_id is None else WINDOW - place + self._places[link.parent_id]
        best = chosen if chosen < WINDOW and members[chosen] else int(shares.argmax())
        if shares[best] <= 0:
            return ReplyLink(id=link.id, parent_id=None, method=None, confidence=settled.probability)
        parent = self._messages[place - WINDOW + best]
        return ReplyLink(
            id=link.id,
            parent_id=parent.id,
            method=inferred_method(parent.author_id, link.addressed_ids),
            confidence=settled.probability * float(shares[best] / shares.sum()),
            addressed_ids=link.addressed_ids,
        )


class _Stream:
    """The recent messages of a room that have one audience."""

    def __init__(self, *, is_whispered: bool) -> None:
        self._is_whispered = is_whispered
        #: For each message: its number among the open messages, its time in seconds, and its conversation.
        self._recent: deque[tuple[int, float, ConversationId]] = deque()
        self._silence: timedelta | None = None

    def add(self, number: int, said: ConversationMessage, conversation_id: ConversationId) -> None:
        self._recent.append((number, said.sent_at.timestamp(), conversation_id))
        self._silence = None

    def forget(self, *, numbers_before: int, seconds_before: float) -> None:
        while self._recent and (
            self._recent[0][1] < seconds_before if self._is_whispered else self._recent[0][0] < numbers_before
        ):
            self._recent.popleft()
            self._silence = None

    @property
    def silence(self) -> timedelta:
        """The silence that ends a conversation, computed from the usual pauses of this stream."""
        if self._is_whispered:
            return WHISPER_SILENCE
        if self._silence is None:
            times = [seconds for _, seconds, _ in self._recent]
            pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
            usual = timedelta(seconds=median(pauses)) if pauses else timedelta(0)
            self._silence = min(max(usual * SILENCE_FACTOR, SHORTEST_SILENCE), LONGEST_SILENCE)
        return self._silence

    def start_reason(self, said: ConversationMessage) -> SplitReason:
        """Return why a message starts a conversation."""
        if not self._recent:
            return "idle" if self._is_whispered else "first"
        return "idle" if self.was_silent(said) else "topic"

    def was_silent(self, said: ConversationMessage) -> bool:
        """Return whether there was a long silence just before a message."""
        return said.sent_at.timestamp() - self._recent[-1][1] > self.silence.total_seconds()

    def last(self, said: ConversationMessage) -> ConversationId | None:
        """Return the conversation that a message continues; None after a long silence."""
        return self._recent[-1][2] if self._recent and not self.was_silent(said) else None


class _Streams:
    """The streams of a room by their audience."""

    def __init__(self) -> None:
        self._streams: dict[WhisperAudience, _Stream] = {}
        self._open_count = 0

    def at(self, said: ConversationMessage, audience: WhisperAudience) -> _Stream:
        """Return the stream of a message, without messages that are too old to matter."""
        if audience not in self._streams:
            self._streams[audience] = _Stream(is_whispered=audience is not None)
        stream = self._streams[audience]
        stream.forget(
            numbers_before=self._open_count - WINDOW,
            seconds_before=(said.sent_at - WHISPER_SILENCE).timestamp(),
        )
        return stream

    def add(
        self, said: ConversationMessage, audience: WhisperAudience, conversation_id: ConversationId
    ) -> None:
        self.at(said, audience).add(self._open_count, said, conversation_id)
        self._open_count += audience is None


def _whispered(one: NewMessage, stream: _Stream, standing: Mapping[MessageId, AssignedParent]) -> _Draft:
    """Return the result of a whisper. Only stated replies are used, because a whisper is read by few people."""
    link = stated_link(one.message) or ReplyLink(
        id=one.message.id, parent_id=None, method=None, confidence=0.0
    )
    stated = standing.get(link.parent_id) if link.parent_id else None
    known = one.pinned_id or (stated and stated.conversation_id) or stream.last(one.message)
    return _Draft(
        link=link, conversation_id=known or conversation_id_for(one.message.id), is_start=known is None
    )


def conversation_id_for(message_id: MessageId) -> ConversationId:
    """Return the stable id of the conversation that a message starts; it does not reveal the message's id."""
    return ConversationId(uuid5(message_id, "conversation"))
