"""What tools return: structured, and as text. Whatever somebody said stands in `text`, fenced."""

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
    """What any tool returns."""

    def to_text(self) -> str:
        """Return all of it as text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextResult:
    """What to read before answering a message of a room."""

    room_id: RoomId
    #: The message to answer, the last in the text.
    message_id: MessageId
    tokens: int
    budget: int
    #: How to read the text.
    note: str
    text: str
    citations: Sequence[CitedMessage]
    #: What the viewer remembers as an agent, by label.
    memories: Mapping[str, MemoryId]
    #: Where the answer may be posted.
    postable: Postable

    def to_text(self) -> str:
        """Return all of it as text."""
        ids = [f"{one.label} = message {one.message_id}" for one in self.citations]
        ids += [f"{label} = memory {key}" for label, key in self.memories.items()]
        return "\n\n".join([self.note, self.text, "\n".join(ids)])


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedResult:
    """What was found, quoted in lines."""

    #: How to read the text.
    note: str
    text: str
    citations: Sequence[CitedMessage]
    memories: Sequence[CitedMemory]
    #: Messages and memories that did not fit into the budget.
    left_out: int
    tokens: int
    #: What it had to do without, and how the question was understood.
    remarks: Sequence[str]

    def to_text(self) -> str:
        """Return all of it as text."""
        return _full_text(self, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """An answer with what it rests on, or that there is none."""

    #: Where it may be posted.
    postable: Postable
    known: bool
    #: Quotations, or what a language model made of them; each line fenced with a bar.
    answer: str
    #: Where it was found.
    tier: Literal["room", "memories", "history", "raw logs", "none"]
    written_by: str
    note: str
    #: What it rests on.
    text: str
    citations: Sequence[CitedMessage]
    memories: Sequence[CitedMemory]
    left_out: int
    tokens: int
    remarks: Sequence[str]

    def to_text(self) -> str:
        """Return all of it as text."""
        known = f"An answer, from {self.tier}:" if self.known else "It is not known."
        return _full_text(self, [f"{known}\n{self.answer}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSummary:
    """A room that the viewer may see."""

    id: RoomId
    #: Harmless.
    name: str
    platform: str
    kind: RoomKind
    is_closed: bool
    #: Of what the viewer may read.
    messages: int
    last_activity_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSummary:
    """Somebody whom the viewer may know of."""

    id: ParticipantId
    #: Harmless.
    name: str
    kind: ParticipantKind
    #: Of what the viewer may read.
    messages: int
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomsResult:
    """Rooms, most recently active first."""

    rooms: Sequence[RoomSummary]
    #: How many there are in all.
    total: int

    def to_text(self) -> str:
        """Return all of it as text."""
        lines = [
            f"[{one.name}] {one.platform} {one.kind}{', members only' if one.is_closed else ''}, "
            f"{count_phrase(one.messages, 'message')}{_last(one.last_activity_at)} = room {one.id}"
            for one in self.rooms
        ]
        return _list_text(lines, self.total, nothing="There is no room that you may see.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleResult:
    """People and agents, most talkative first."""

    people: Sequence[PersonSummary]
    #: How many there are in all.
    total: int

    def to_text(self) -> str:
        """Return all of it as text."""
        lines = [
            f"[{one.name}]{' (bot)' if one.kind == 'agent' else ''} "
            f"{count_phrase(one.messages, 'message')}{_last(one.last_seen_at)} = participant {one.id}"
            for one in self.people
        ]
        return _list_text(lines, self.total, nothing="There is nobody whom you may know of.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What was done, and to which message or memory."""

    done: Literal["said", "edited", "erased", "replaced", "put aside"]
    message_id: MessageId | None = None
    memory_id: MemoryId | None = None
    #: The memory as it is now, on one line.
    text: str = ""

    def to_text(self) -> str:
        """Return all of it as text."""
        what = f"message {self.message_id}" if self.message_id else f"memory {self.memory_id}"
        return "\n".join([f"{self.done}: {what}", *([self.text] if self.text else [])])


def _last(at: datetime | None) -> str:
    return "" if at is None else f", last {at:%Y-%m-%d %H:%M}"


def _list_text(lines: Sequence[str], total: int, *, nothing: str) -> str:
    more = [f"({total - len(lines)} more; ask with a larger limit)"] if total > len(lines) else []
    return "\n".join([*lines, *more]) or nothing


def fenced(answer: str) -> str:
    """Return an answer with each of its lines fenced, for it may quote whatever was said."""
    return "\n".join(f"  | {line}" for line in answer.splitlines())


def quoted(transcript: Transcript, *, nothing: str, remarks: Sequence[str] = ()) -> QuotedResult:
    """Return what was found, or in words that it was nothing."""
    return QuotedResult(
        note=NOTE,
        text=transcript.text or nothing,
        citations=transcript.cited,
        memories=transcript.memories,
        left_out=transcript.left_out,
        tokens=transcript.tokens,
        remarks=[*remarks, *transcript.remarks],
    )


def _full_text(told: QuotedResult | AnswerResult, head: Sequence[str]) -> str:
    ids = [f"{one.label} = message {one.message_id}" for one in told.citations]
    ids += [f"{one.label} = memory {one.memory_id}" for one in told.memories]
    more = (
        f"({told.left_out} more did not fit; ask for less, or with a larger budget)" if told.left_out else ""
    )
    parts = [told.note, *head, told.text, more, *told.remarks, "\n".join(ids)]
    return "\n\n".join(part for part in parts if part)
