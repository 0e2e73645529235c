"""Limits of a context: how far the expansion goes, and how much it fetches."""

from dataclasses import dataclass
from datetime import timedelta

from roomlore.domain.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionLimits:
    """Limits of the expansion."""

    #: The number of messages just before the trigger that are always included, whatever the pauses between them.
    min_recent: int = 10
    #: The largest number of messages, including the trigger.
    max_messages: int = 30
    #: A pause between neighbours that is longer than this ends the expansion in its direction.
    gap: timedelta = timedelta(minutes=30)
    #: The confidence that an inferred reply needs; stated replies are certain. Measured on annotated IRC (dev): even
    #: the least certain replies mostly stay within one conversation. F1 of a trigger's context is 80.7 up to 0.15, 79.7
    #: with 0.2, 75.6 with 0.3 and 50 with 0.5. Three alternatives were worse, or more often gave messages to a
    #: trigger that starts a conversation: a threshold for the product of confidences along a path, a limit of hops, and
    #: recent messages of the same author.
    min_confidence: float = 0.1
    #: The confidence that an inferred reply needs across a long silence. Such a guess is easily wrong.
    min_confidence_across_silence: float = 0.5
    #: The number of messages before the trigger that are fetched at once, with the replies around them.
    near: int = 100
    #: The number of neighbours further away that one call fetches.
    page: int = 10
    #: The number of reply edges that one step fetches. The stated parent of a message needs no edge and is never left
    #: out.
    max_replies: int = 64

    def __post_init__(self) -> None:
        if self.min_recent < 0 or self.near < 0:
            raise BadInput("min_recent and near", "must not be negative")
        if self.max_messages <= self.min_recent:
            raise BadInput("max_messages", "must be greater than min_recent: the trigger counts too")
        if self.gap < timedelta(0):
            raise BadInput("gap", "must not be negative")
        if self.page < 1 or self.max_replies < 1:
            raise BadInput("page and max_replies", "must be at least 1")
        for bar in ("min_confidence", "min_confidence_across_silence"):
            if not 0 <= getattr(self, bar) <= 1:
                raise BadInput(bar, "must be from 0 to 1")

    @property
    def near_replies(self) -> int:
        """The number of reply edges that are fetched with the near messages."""
        return self.max_replies + 2 * self.near

    @property
    def max_calls(self) -> int:
        """The maximum number of source calls of one expansion."""
        return max(1, self.min_recent) + 1 + 6 * self.max_messages

    @property
    def max_rows(self) -> int:
        """The maximum number of messages and reply edges that one expansion receives."""
        near = max(self.min_recent, self.near)
        edges = self.near_replies + 2 * self.max_messages * self.max_replies
        explicit_parents = near + 1 + 2 * self.max_messages
        return near + 2 * edges + explicit_parents + 2 * self.max_messages * self.page


DEFAULT_LIMITS = ExpansionLimits()
#: The maximum number of tokens.
DEFAULT_BUDGET = 4000
