"""What a walk through a room comes to: messages, each with the reason why it was reached."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from roomlore.domain.ids import MessageId
from roomlore.domain.records import Message, Reply

Direction = Literal["before", "after"]
#: `conversation`: the trigger's own, tied to it by replies alone; `room`: whatever was said around that.
ContextPart = Literal["conversation", "room"]
SelectionRule = Literal["trigger", "recent", "reply", "temporal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A message that the walk reached, and why."""

    message: Message
    part: ContextPart
    rule: SelectionRule
    #: The message it was reached from; None for the trigger alone.
    via: MessageId | None
    #: The reply over which it was reached, in whichever direction; None where it was not by a reply.
    reply: Reply | None = None
    #: The turn of the walk that added it; the trigger and the most recent messages are turn 0.
    step: int
    #: Edges between it and the trigger along the way it was reached.
    hops: int

    @property
    def is_reply_parent(self) -> bool:
        """Whether the message it was reached from answers it."""
        return self.reply is not None and self.reply.child_id == self.via

    @property
    def is_stated(self) -> bool:
        """Whether the platform itself ties it to the message it was reached from."""
        return self.reply is not None and self.reply.method in {"explicit", "thread"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBoundary:
    """A direction in which the walk stopped because nobody spoke for too long."""

    message_id: MessageId
    direction: Direction
    gap: timedelta
    #: The message on the far side of the pause, which is not in.
    beyond: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What a walk found, in the order of the room."""

    trigger_id: MessageId
    selected: tuple[Selected, ...]
    #: Reached and left out because the limit was met.
    over_limit: tuple[Selected, ...]
    boundaries: tuple[TimeBoundary, ...]
    #: Turns taken, the start not counted.
    steps: int
