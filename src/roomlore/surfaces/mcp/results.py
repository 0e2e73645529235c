"""What tools return: structured, and as text. Whatever somebody said stands in `text`, fenced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from roomlore.domain.ids import MemoryId, MessageId, RoomId
from roomlore.domain.records import Postable
from roomlore.surfaces.mcp.transcript import NOTE, Cited, MemoryCited, Transcript


class Told(Protocol):
    """What any tool returns."""

    def whole(self) -> str:
        """Return all of it as text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTold:
    """What to read before answering a message of a room."""

    room_id: RoomId
    #: The message to answer, the last in the text.
    message_id: MessageId
    tokens: int
    budget: int
    #: How to read the text.
    note: str
    text: str
    citations: Sequence[Cited]
    #: What the viewer remembers as an agent, by label.
    memories: Mapping[str, MemoryId]
    #: Where the answer may be posted.
    postable: Postable

    def whole(self) -> str:
        """Return all of it as text."""
        ids = [f"{one.label} = message {one.message_id}" for one in self.citations]
        ids += [f"{label} = memory {key}" for label, key in self.memories.items()]
        return "\n\n".join([self.note, self.text, "\n".join(ids)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """What was found, quoted in lines."""

    #: How to read the text.
    note: str
    text: str
    citations: Sequence[Cited]
    memories: Sequence[MemoryCited]
    #: Messages and memories that did not fit into the budget.
    left_out: int
    tokens: int
    #: What it had to do without, and how the question was understood.
    remarks: Sequence[str]

    def whole(self) -> str:
        """Return all of it as text."""
        return _whole(self, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTold:
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
    citations: Sequence[Cited]
    memories: Sequence[MemoryCited]
    left_out: int
    tokens: int
    remarks: Sequence[str]

    def whole(self) -> str:
        """Return all of it as text."""
        known = f"An answer, from {self.tier}:" if self.known else "It is not known."
        return _whole(self, [f"{known}\n{self.answer}"])


def fenced(answer: str) -> str:
    """Return an answer with each of its lines fenced, for it may quote whatever was said."""
    return "\n".join(f"  | {line}" for line in answer.splitlines())


def quoted(transcript: Transcript, *, nothing: str, remarks: Sequence[str] = ()) -> Quoted:
    """Return what was found, or in words that it was nothing."""
    return Quoted(
        note=NOTE,
        text=transcript.text or nothing,
        citations=transcript.cited,
        memories=transcript.memories,
        left_out=transcript.left_out,
        tokens=transcript.tokens,
        remarks=remarks,
    )


def _whole(told: Quoted | AnswerTold, head: Sequence[str]) -> str:
    ids = [f"{one.label} = message {one.message_id}" for one in told.citations]
    ids += [f"{one.label} = memory {one.memory_id}" for one in told.memories]
    more = (
        f"({told.left_out} more did not fit; ask for less, or with a larger budget)" if told.left_out else ""
    )
    parts = [told.note, *head, told.text, more, *told.remarks, "\n".join(ids)]
    return "\n\n".join(part for part in parts if part)
