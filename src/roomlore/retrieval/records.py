"""What a search and an answer return."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roomlore.domain.ids import MessageId
from roomlore.domain.records import Message, Reply

Tier = Literal["room", "history", "none"]
#: `empty`: there was nothing to look at; `below_bar`: nothing was good enough; `answered`: this tier answered.
Outcome = Literal["empty", "below_bar", "answered"]
Degradation = Literal["no embedding model", "not everything is embedded yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a message was found."""

    #: 0..1, comparable within one search only.
    score: float
    #: Cosine between question and message; None if it was not among the nearest.
    similarity: float | None
    #: Share of the question's words, by rarity, that the message has; None if it shares none.
    coverage: float | None
    #: The shared words, rarest first, as stems.
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One exchange that was found: its messages in room order, all of them unless it is very large."""

    messages: Sequence[Message]
    #: For each message that matched, why; the others came with it.
    why: dict[MessageId, Why]
    room_name: str
    platform: str
    #: For each of the messages but the opening what it stands under, which may be left out; in room order.
    replies: Sequence[Reply] = ()
    #: How many messages of a very large exchange are left out; only such as the viewer may see count.
    omitted: int = 0

    @property
    def score(self) -> float:
        """The best score of its messages."""
        return max(why.score for why in self.why.values())

    @property
    def opening(self) -> Message:
        """The message that all others stand under, seldom not the first."""
        below = {edge.child_id for edge in self.replies}
        return next(message for message in self.messages if message.id not in below)

    @property
    def best(self) -> Message:
        """The message that matched best."""
        best_id = max(self.why, key=lambda message_id: (self.why[message_id].score, message_id))
        return next(message for message in self.messages if message.id == best_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search returns: exchanges, best first, and what could not be used."""

    hits: Sequence[Hit]
    degraded: Sequence[Degradation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTrace:
    """What one tier of the cascade saw and why it passed on."""

    tier: Tier
    candidates: int
    #: Evidence of the best candidate, 0..1; None where there was none.
    best: float | None
    bar: float
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer from cited messages, or the honest lack of one."""

    question: str
    tier: Tier
    #: The answer's text: what the cited messages say, or that nothing is known.
    text: str
    #: What it rests on, best first; empty where nothing is known.
    hits: Sequence[Hit]
    trace: Sequence[TierTrace]
    degraded: Sequence[Degradation] = ()

    @property
    def is_known(self) -> bool:
        """Whether there is an answer."""
        return self.tier != "none"
