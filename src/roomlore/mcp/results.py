"""Results of tools, structured and as text. Text that people wrote is only in `text` and `answer`, marked as quoted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from roomlore.domain.ids import MemoryId, MessageId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Postable
from roomlore.mcp.transcript import NOTE, CitedMemory, CitedMessage, Transcript


class ToolResult(Protocol):
    """The result of any tool."""

    def to_text(self) -> str:
        """Return the result as text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextResult:
    """The context for an answer to a message."""

    room_id: RoomId
    #: The message to answer. The text ends with it.
    message_id: MessageId
    tokens: int
    budget: int
    note: str
    text: str
    citations: Sequence[CitedMessage]
    #: The memories of the agent, by label.
    memories: Mapping[str, MemoryId]
    postable: Postable

    def to_text(self) -> str:
        """Return the result as text."""
        ids = [f"{one.label} = message {one.message_id}" for one in self.citations]
        ids += [f"{label} = memory {key}" for label, key in self.memories.items()]
        return "\n\n".join([self.note, self.text, "\n".join(ids)])


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedResult:
    """Messages and memories, quoted in lines."""

    note: str
    text: str
    citations: Sequence[CitedMessage]
    memories: Sequence[CitedMemory]
    #: Messages and memories that did not fit into the budget.
    omitted: int
    tokens: int
    #: Why the result may be incomplete, and how the question was understood.
    notes: Sequence[str]

    def to_text(self) -> str:
        """Return the result as text."""
        return _full_text(self, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """An answer with its sources, or the statement that there is none."""

    postable: Postable
    is_answered: bool
    #: Quotes, or the text of a language model. Each line begins with a bar.
    answer: str
    stage: Literal["room", "memories", "history", "logs", "none"]
    written_by: str
    note: str
    #: The sources.
    text: str
    citations: Sequence[CitedMessage]
    memories: Sequence[CitedMemory]
    omitted: int
    tokens: int
    notes: Sequence[str]

    def to_text(self) -> str:
        """Return the result as text."""
        known = f"An answer, from {self.stage}:" if self.is_answered else "The answer is not known."
        return _full_text(self, [f"{known}\n{self.answer}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSummary:
    """A room that the viewer may see."""

    id: RoomId
    name: str
    platform: str
    kind: RoomKind
    is_closed: bool
    #: The number of messages that the viewer may read.
    messages: int
    last_activity_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSummary:
    """A participant that the viewer may know of."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    #: The number of messages that the viewer may read.
    messages: int
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomsResult:
    """Rooms, most recently active first."""

    rooms: Sequence[RoomSummary]
    total: int

    def to_text(self) -> str:
        """Return the result as text."""
        lines = [
            f"[{one.name}] {one.platform} {one.kind}{', members only' if one.is_closed else ''}, "
            f"{count_phrase(one.messages, 'message')}{_last(one.last_activity_at)} = room {one.id}"
            for one in self.rooms
        ]
        return _list_text(lines, self.total, nothing="There is no room that you may see.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleResult:
    """People and agents, the most messages first."""

    people: Sequence[PersonSummary]
    total: int

    def to_text(self) -> str:
        """Return the result as text."""
        lines = [
            f"[{one.name}]{' (bot)' if one.kind == 'agent' else ''} "
            f"{count_phrase(one.messages, 'message')}{_last(one.last_seen_at)} = participant {one.id}"
            for one in self.people
        ]
        return _list_text(lines, self.total, nothing="There is nobody that you may know of.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """A change, and the message or memory that it changed."""

    action: Literal["sent", "edited", "erased", "replaced", "archived"]
    message_id: MessageId | None = None
    memory_id: MemoryId | None = None
    #: The memory as it is now, on one line.
    text: str = ""

    def to_text(self) -> str:
        """Return the result as text."""
        what = f"message {self.message_id}" if self.message_id else f"memory {self.memory_id}"
        return "\n".join([f"{self.action}: {what}", *([self.text] if self.text else [])])


def _last(at: datetime | None) -> str:
    return "" if at is None else f", last {at:%Y-%m-%d %H:%M}"


def _list_text(lines: Sequence[str], total: int, *, nothing: str) -> str:
    more = [f"({total - len(lines)} more; call again with a larger limit)"] if total > len(lines) else []
    return "\n".join([*lines, *more]) or nothing


def fenced(answer: str) -> str:
    """Return an answer with a bar before each line, because it may quote anybody."""
    return "\n".join(f"  | {line}" for line in answer.splitlines())


def quoted(transcript: Transcript, *, nothing: str, notes: Sequence[str] = ()) -> QuotedResult:
    """Return the lines of a transcript, or `nothing` if it has none."""
    return QuotedResult(
        note=NOTE,
        text=transcript.text or nothing,
        citations=transcript.cited,
        memories=transcript.memories,
        omitted=transcript.omitted,
        tokens=transcript.tokens,
        notes=[*notes, *transcript.notes],
    )


def _full_text(result: QuotedResult | AnswerResult, head: Sequence[str]) -> str:
    ids = [f"{one.label} = message {one.message_id}" for one in result.citations]
    ids += [f"{one.label} = memory {one.memory_id}" for one in result.memories]
    more = (
        f"({result.omitted} more did not fit; ask for less, or with a larger budget)"
        if result.omitted
        else ""
    )
    parts = [result.note, *head, result.text, more, *result.notes, "\n".join(ids)]
    return "\n\n".join(part for part in parts if part)
