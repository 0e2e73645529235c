"""What the builder returns: lines, citations, and the account of what is in and what is out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.context.replygraph import Rule, Sealed
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.records import Message, Viewer

Cause = Literal["limit", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The message that a label stands for."""

    label: str
    message_id: MessageId
    external_id: str
    author_id: ParticipantId
    author_name: str
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine:
    """One message as the context shows it."""

    message: Message
    #: What a citation calls it, unique in the context: "m1", "m2", …
    label: str
    #: The author's name as shown: harmless, and unlike that of any other author in the room's excerpt.
    speaker: str
    #: The body as shown: harmless, and cut only where a marker says so.
    text: str
    #: Characters of the body that the marker stands for.
    characters_cut: int
    #: Label of the message it explicitly answers, where that one is in the context.
    reply_to: str | None
    rule: Rule
    via: MessageId | None
    step: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A message that was considered and is not in the context."""

    message: Message
    rule: Rule
    via: MessageId | None
    step: int
    #: `limit`: the walk was full; `budget`: the tokens were spent on messages that matter more.
    cause: Cause
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One candidate, in or out, with the reason."""

    message_id: MessageId
    included: bool
    #: Its citation label; None when it is out.
    label: str | None
    rule: Rule
    via: MessageId | None
    step: int
    #: One phrase for a person.
    reason: str
    tokens: int
    characters_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an agent should read before it answers the trigger, in the order of the room."""

    room_id: RoomId
    viewer: Viewer
    trigger_id: MessageId
    #: The trigger is the last.
    lines: tuple[ContextLine, ...]
    left_out: tuple[LeftOut, ...]
    sealed: tuple[Sealed, ...]
    #: Never more than the budget, unless the trigger is alone and too long itself.
    tokens: int
    budget: int

    @property
    def citations(self) -> Mapping[str, Citation]:
        """The message behind each label."""
        return {line.label: _citation(line) for line in self.lines}

    def explain(self) -> tuple[Explained, ...]:
        """Return every candidate, in or out, with its reason, in the order of the room."""
        labels = {line.message.id: line.label for line in self.lines}
        told = [(line.message.position, _explain_line(line, labels)) for line in self.lines]
        told += [(item.message.position, _explain_left_out(item, labels)) for item in self.left_out]
        return tuple(explained for _, explained in sorted(told, key=lambda pair: pair[0]))


def _citation(line: ContextLine) -> Citation:
    message = line.message
    return Citation(
        label=line.label,
        message_id=message.id,
        external_id=message.external_id,
        author_id=message.author_id,
        author_name=message.author_name,
        sent_at=message.sent_at,
    )


def _explain_line(line: ContextLine, labels: Mapping[MessageId, str]) -> Explained:
    return Explained(
        message_id=line.message.id,
        included=True,
        label=line.label,
        rule=line.rule,
        via=line.via,
        step=line.step,
        reason=_reached(line.rule, line.via, labels),
        tokens=line.tokens,
        characters_cut=line.characters_cut,
    )


def _explain_left_out(item: LeftOut, labels: Mapping[MessageId, str]) -> Explained:
    why_out = "the walk was full" if item.cause == "limit" else "the budget went to messages that matter more"
    return Explained(
        message_id=item.message.id,
        included=False,
        label=None,
        rule=item.rule,
        via=item.via,
        step=item.step,
        reason=f"{_reached(item.rule, item.via, labels)}; {why_out}",
        tokens=item.tokens,
        characters_cut=0,
    )


def _reached(rule: Rule, via: MessageId | None, labels: Mapping[MessageId, str]) -> str:
    label = labels.get(via) if via else None
    origin = f"#{label}" if label else f"message {via}"
    match rule:
        case "trigger":
            return "the trigger"
        case "recent":
            return "among the most recent before the trigger"
        case "reply":
            return f"tied to {origin} by a reply"
        case "temporal":
            return f"next to {origin} in time"
