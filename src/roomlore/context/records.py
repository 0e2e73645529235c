"""A context: labelled lines, citations, and why each message is in or out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.context.expansion import ContextPart, Reached, SelectionRule, TimeBoundary
from roomlore.context.memory_section import MemorySection
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.records import Postable, Reply, ReplyMethod, Viewer
from roomlore.search.records import RestrictedResult

OmissionCause = Literal["limit", "budget", "thread"]


_WHY_OUT: dict[OmissionCause, str] = {
    "limit": "the limit of messages was reached",
    "budget": "the budget went to more important messages",
    "thread": "not all of its thread fits",
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
class ContextSpeaker:
    """Somebody who speaks in a context, by the name that its lines show."""

    participant_id: ParticipantId
    name: str
    is_agent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine(Reached):
    """A message as the context shows it."""

    #: The label with which it is cited, unique in the context: "m1", "m2", …
    label: str
    #: The author's name, sanitised. It differs from the name of every other author.
    speaker: str
    #: The body, sanitised, with a marker where the body is cut.
    text: str
    characters_cut: int
    #: The label of the message that this message answers, as the platform states it; None if that message is not shown.
    reply_to: str | None
    #: Whether the message is the first of its day. Its text then begins with the date.
    is_dated: bool
    #: The tokens of the line as text, including embeddings.
    tokens: int
    #: The contents of the message's links, as one sanitised block; empty unless articles were requested.
    embeddings: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedMessage(Reached):
    """A message that was considered and is not in the context."""

    #: `limit`: too many messages. `budget`: more important messages took the tokens. `thread`: its thread did not fit.
    reason: OmissionCause
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLink:
    """A link whose page is not shown."""

    #: The label of the newest line with the link.
    label: str
    url: str
    #: The reason, as one phrase for people.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """A message that was considered, whether it is in the context, and why."""

    message_id: MessageId
    included: bool
    #: The label of the message; None if it is not in the context.
    label: str | None
    part: ContextPart
    rule: SelectionRule
    reached_from: MessageId | None
    #: Method and confidence of the reply over which the message was reached; None if it was not reached by a reply.
    method: ReplyMethod | None
    confidence: float | None
    step: int
    #: The reason, as one phrase for people.
    reason: str
    tokens: int
    characters_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The messages that an agent reads before it answers the trigger, in the order of the room."""

    room_id: RoomId
    viewer: Viewer
    trigger_id: MessageId
    #: The lines in the order of the room. The trigger is the last line.
    lines: tuple[ContextLine, ...]
    omitted: tuple[OmittedMessage, ...]
    boundaries: tuple[TimeBoundary, ...]
    #: The tokens of the context. They are at most the budget, unless the trigger alone exceeds it.
    tokens: int
    budget: int
    #: Where the answer may be posted without revealing anything to people who may not read it.
    postable: Postable
    #: Whether the trigger's own thread is incomplete. Other threads are always complete.
    is_partial: bool = False
    #: Links whose pages are not shown, with the reasons; empty unless articles were requested.
    unread_links: tuple[UnreadLink, ...] = ()
    #: What the agent remembers. Its tokens are included in the tokens of the context.
    memory_section: MemorySection | None = None
    #: Messages that privacy requests keep out. This is for operators only, and not in the rendered text.
    restrictions: tuple[RestrictedResult, ...] = ()

    @property
    def citations(self) -> Mapping[str, Citation]:
        """The message that each label cites."""
        return {
            line.label: Citation(
                label=line.label,
                message_id=line.message.id,
                external_id=line.message.external_id,
                author_id=line.message.author_id,
                author_name=line.message.author_name,
                sent_at=line.message.sent_at,
            )
            for line in self.lines
        }

    @property
    def addressee(self) -> ContextSpeaker | None:
        """Whom the answer addresses, usually the author of the trigger.

        If the viewer wrote the trigger, the author of the message that it answers. None if that is nobody, or not shown.
        """
        by_label = {line.label: line for line in self.lines}
        line = self.lines[-1]
        if self.viewer.is_own(line.message.author_id) and line.reply_to is not None:
            line = by_label[line.reply_to]
        return None if self.viewer.is_own(line.message.author_id) else _speaker(line)

    @property
    def others_present(self) -> tuple[ContextSpeaker, ...]:
        """Everybody else who speaks in the context, except the viewer, in the order of their first line."""
        said = [_speaker(line) for line in self.lines if not self.viewer.is_own(line.message.author_id)]
        here = {one.participant_id: one for one in said if one is not None}
        addressee = self.addressee
        return tuple(
            one
            for one in here.values()
            if addressee is None or one.participant_id != addressee.participant_id
        )

    def explain(self) -> tuple[ExplainedMessage, ...]:
        """Return every considered message in the order of the room, with the reason why it is in or out."""
        labels = {line.message.id: line.label for line in self.lines}
        items = sorted((*self.lines, *self.omitted), key=lambda item: item.message.position)
        return tuple(_explain(item, labels) for item in items)


def _speaker(line: ContextLine) -> ContextSpeaker | None:
    message = line.message
    if message.kind == "system" or message.author_kind == "system" or message.erased_at is not None:
        return None
    return ContextSpeaker(
        participant_id=message.author_id, name=line.speaker, is_agent=message.author_kind == "agent"
    )


def _explain(item: ContextLine | OmittedMessage, labels: Mapping[MessageId, str]) -> ExplainedMessage:
    line = item if isinstance(item, ContextLine) else None
    omitted = "" if isinstance(item, ContextLine) else f"; {_WHY_OUT[item.reason]}"
    return ExplainedMessage(
        message_id=item.message.id,
        included=line is not None,
        label=line.label if line else None,
        part=item.part,
        rule=item.rule,
        reached_from=item.reached_from,
        method=item.reply and item.reply.method,
        confidence=item.reply and item.reply.confidence,
        step=item.step,
        reason=f"{_how_reached(item, labels)}{omitted}",
        tokens=item.tokens,
        characters_cut=line.characters_cut if line else 0,
    )


def _how_reached(item: Reached, labels: Mapping[MessageId, str]) -> str:
    label = labels.get(item.reached_from) if item.reached_from else None
    origin = f"#{label}" if label else f"message {item.reached_from}"
    match item.rule:
        case "trigger":
            return "the trigger"
        case "recent":
            return "among the most recent before the trigger"
        case "reply":
            return f"{_how_related(item.reply, item.reached_from)} {origin}{_how_known(item.reply)}"
        case "temporal":
            return f"next to {origin} in time"


def _how_related(reply: Reply | None, parent: MessageId | None) -> str:
    if reply is None:
        return "related by a reply to"
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
