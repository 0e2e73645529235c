"""What the builder returns: lines, citations, and the account of what is in and what is out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.context.expansion import ContextPart, SelectionRule, TimeBoundary
from roomlore.context.memory_section import MemorySection
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.records import Message, Postable, Reply, ReplyMethod, Viewer
from roomlore.search.records import RestrictedResult

OmissionCause = Literal["limit", "budget", "exchange"]


_WHY_OUT: dict[OmissionCause, str] = {
    "limit": "the walk was full",
    "budget": "the budget went to messages that matter more",
    "exchange": "not all of its exchange fits",
}


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
    #: Whether it is the first of its day here: as text it then says the day.
    is_dated: bool
    part: ContextPart
    rule: SelectionRule
    via: MessageId | None
    #: The reply over which it was reached, stated or found; None where it was not by a reply.
    reply: Reply | None
    step: int
    #: Of the line as text, with what is embedded.
    tokens: int
    #: What the message links to, as one block in which every page is harmless; empty unless it was asked for.
    embeddings: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedMessage:
    """A message that was considered and is not in the context."""

    message: Message
    part: ContextPart
    rule: SelectionRule
    via: MessageId | None
    reply: Reply | None
    step: int
    #: `limit`: the walk was full; `budget`: the tokens were spent on messages that matter more; `exchange`: all of the
    #: exchange that it belongs to did not fit.
    cause: OmissionCause
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLink:
    """A link of which nothing is shown."""

    #: Of the newest line that has it.
    label: str
    url: str
    #: One phrase for a person.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """One candidate, in or out, with the reason."""

    message_id: MessageId
    included: bool
    #: Its citation label; None when it is out.
    label: str | None
    part: ContextPart
    rule: SelectionRule
    via: MessageId | None
    #: How the reply over which it was reached is known, and how surely; None where it was not by a reply.
    method: ReplyMethod | None
    confidence: float | None
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
    left_out: tuple[OmittedMessage, ...]
    sealed: tuple[TimeBoundary, ...]
    #: Never more than the budget, unless the trigger is alone and too long itself.
    tokens: int
    budget: int
    #: Where the answer may be posted without telling anybody there what they may not read.
    postable: Postable
    #: Whether messages of the exchange that the trigger belongs to are left out; no other is ever shown in part.
    is_partial: bool = False
    #: Links of the lines that nothing is embedded of, with the reasons; empty unless articles were asked for.
    unread: tuple[UnreadLink, ...] = ()
    #: What the viewer remembers as an agent; its tokens are among those of the context. It explains itself.
    block: MemorySection | None = None
    #: What would be shown, too, if no spoken request withheld it; told to operators alone, and no part of the text.
    withheld: tuple[RestrictedResult, ...] = ()

    @property
    def citations(self) -> Mapping[str, Citation]:
        """The message behind each label."""
        return {line.label: _citation(line) for line in self.lines}

    def explain(self) -> tuple[ExplainedMessage, ...]:
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


def _explain_line(line: ContextLine, labels: Mapping[MessageId, str]) -> ExplainedMessage:
    return ExplainedMessage(
        message_id=line.message.id,
        included=True,
        label=line.label,
        part=line.part,
        rule=line.rule,
        via=line.via,
        method=line.reply and line.reply.method,
        confidence=line.reply and line.reply.confidence,
        step=line.step,
        reason=_how_reached(line, labels),
        tokens=line.tokens,
        characters_cut=line.characters_cut,
    )


def _explain_left_out(item: OmittedMessage, labels: Mapping[MessageId, str]) -> ExplainedMessage:
    return ExplainedMessage(
        message_id=item.message.id,
        included=False,
        label=None,
        part=item.part,
        rule=item.rule,
        via=item.via,
        method=item.reply and item.reply.method,
        confidence=item.reply and item.reply.confidence,
        step=item.step,
        reason=f"{_how_reached(item, labels)}; {_WHY_OUT[item.cause]}",
        tokens=item.tokens,
        characters_cut=0,
    )


def _how_reached(item: ContextLine | OmittedMessage, labels: Mapping[MessageId, str]) -> str:
    label = labels.get(item.via) if item.via else None
    origin = f"#{label}" if label else f"message {item.via}"
    match item.rule:
        case "trigger":
            return "the trigger"
        case "recent":
            return "among the most recent before the trigger"
        case "reply":
            return f"{_how_tied(item.reply, item.via)} {origin}{_how_known(item.reply)}"
        case "temporal":
            return f"next to {origin} in time"


def _how_tied(reply: Reply | None, parent: MessageId | None) -> str:
    if reply is None:
        return "tied by a reply to"
    if reply.method == "thread":
        return "the root of the thread of" if reply.child_id == parent else "in the thread of"
    return "answered by" if reply.child_id == parent else "answers"


def _how_known(reply: Reply | None) -> str:
    match reply and reply.method:
        case "mention":
            how = ", found by name"
        case "inferred":
            how = ", found"
        case _:
            return ""
    return f"{how} ({reply.confidence:.0%} sure)" if reply else ""
