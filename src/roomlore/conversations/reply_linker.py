"""Finds the parent of each message of a room: the message that it replies to.

The parent of a message depends only on the message itself and on the WINDOW messages before it. So it is the same after
a restart, and in batches of any size.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from roomlore.conversations import reply_model
from roomlore.conversations.features import FeatureExtractor, Features
from roomlore.conversations.reply_model import ReplyModel
from roomlore.conversations.window import WINDOW, Array, ConversationMessage, ParsedMessage, Places, Window
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.records import ReplyMethod


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
class ReplyEvidence:
    """The facts from which the parent of a message was chosen, with the window as it was before the message.

    The arrays of `seen` are overwritten by the next message.
    """

    link: ReplyLink
    seen: Features
    #: (WINDOW + 1,): the probability of each parent, and last that the message starts a conversation.
    probabilities: Array
    #: (WINDOW,): the column of the author of each place, and its time in seconds.
    slots: Places
    times: npt.NDArray[np.float64]
    time: float


class ReplyLinker:
    """Finds the parent of each message of one room. The messages must be passed in order."""

    def __init__(self, model: ReplyModel | None = None) -> None:
        self._model = model or reply_model.load()
        self._window = Window(self._model.lexicon)
        self._extractor = FeatureExtractor(self._window)

    def remember(self, said: ConversationMessage, parent_id: MessageId | None) -> None:
        """Add a message with a known parent."""
        self._window.add(self._window.parse(said), parent_id)

    def link(self, said: ConversationMessage) -> ReplyLink:
        """Return the parent of a message, and add the message to the window."""
        return self.link_with_evidence(said).link

    def link_with_evidence(self, said: ConversationMessage) -> ReplyEvidence:
        """Return the parent of a message and the facts behind it, and add the message to the window."""
        window, model = self._window, self._model
        heard = window.parse(said)
        seen = self._extractor.extract(heard)
        scores = model.scores(seen)
        probabilities = model.probabilities(scores)
        rows = window.rows()
        slots, times = window.slots[rows].copy(), window.times[rows].copy()
        link = self._stated_link(heard, seen) or self._predicted_link(heard, seen, scores, probabilities)
        window.add(heard, link.parent_id)
        return ReplyEvidence(
            link=link, seen=seen, probabilities=probabilities, slots=slots, times=times, time=heard.time
        )

    def _stated_link(self, heard: ParsedMessage, seen: Features) -> ReplyLink | None:
        link = stated_link(heard.message)
        if link is None:
            return None
        return replace(link, addressed_ids=heard.message.mentions | seen.addressed_ids)

    def _predicted_link(
        self, heard: ParsedMessage, seen: Features, scores: Array, probabilities: Array
    ) -> ReplyLink:
        place = self._model.choose(scores, seen.conversations)
        addressed = seen.addressed_ids | heard.message.mentions
        start = ReplyLink(
            id=heard.message.id,
            parent_id=None,
            method=None,
            confidence=min(float(probabilities[place]), 1.0),
            addressed_ids=addressed,
        )
        if place == WINDOW:
            return start
        parent = self._window.at(place).message
        return replace(start, parent_id=parent.id, method=inferred_method(parent.author_id, addressed))


def inferred_method(author_id: ParticipantId, addressed_ids: frozenset[ParticipantId]) -> ReplyMethod:
    """Return the method of an inferred reply: `mention` if the message addresses the author of its parent."""
    return "mention" if author_id in addressed_ids else "inferred"


def stated_link(said: ConversationMessage) -> ReplyLink | None:
    """Return the parent of a message as the platform states it; None if the platform states no parent."""
    parent_id = said.reply_to or said.thread_root
    if parent_id is None or parent_id == said.id:
        return None
    method = "explicit" if said.reply_to else "thread"
    return ReplyLink(id=said.id, parent_id=parent_id, method=method, confidence=1.0)


def link_all(said: Iterable[ConversationMessage], *, model: ReplyModel | None = None) -> list[ReplyLink]:
    """Return the parent of each message of one room. The messages must be in order."""
    linker = ReplyLinker(model)
    return [linker.link(each) for each in said]
