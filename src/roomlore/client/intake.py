"""What is said, sent to a server; and what whoever runs it watches and sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.app.intake import MOST_RECORDS, BatchTaken
from roomlore.app.operations import EmbeddingPolicy, Numbers, PolicyChange, State
from roomlore.client.line import Line
from roomlore.client.written import segment
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.incoming import IncomingMessage, Skipped
from roomlore.ingest.accept import Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Addition:
    """A message that was not there before."""

    room_id: RoomId
    external_id: str
    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What became of a batch."""

    added: list[_Addition]
    message_ids: list[MessageId]
    room_ids: frozenset[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: list[Skipped]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The message that was stored."""

    said: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edited:
    """The message that has another text now."""

    edited: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embeds:
    """What a room embeds now."""

    change: PolicyChange


async def ingest_batch(line: Line, batch: Sequence[IncomingMessage]) -> Accepted:
    """Have a batch of messages stored in one transaction; what cannot be stored is named and left out.

    Raises:
        BadInput: there are too many for one request.
        NotAllowed: the caller is no operator.
    """
    if len(batch) > MOST_RECORDS:
        raise BadInput("messages", f"over HTTP at most {MOST_RECORDS:,} at a time; send them in parts")
    taken = await line.change(_Taken, "POST", "messages/records", {"messages": list(batch)})
    return Accepted(
        added={(one.room_id, one.external_id): one.id for one in taken.added},
        message_ids=taken.message_ids,
        room_ids=taken.room_ids,
        revised=taken.revised,
        redacted=taken.redacted,
        unchanged=taken.unchanged,
        skipped=taken.skipped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIntake:
    """What is said, as records of our own format; the calls are those of `app.intake.Intake`."""

    line: Line

    async def records(self, records: Sequence[Any]) -> BatchTaken:
        """Have messages stored that are objects of `roomlore.message/1`, and return what became of each."""
        return await self.line.change(BatchTaken, "POST", "messages", {"messages": list(records)})

    async def say(
        self,
        room: str,
        text: str,
        *,
        reply_to: str | None = None,
        to: Sequence[str] = (),
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Store a message of the calling agent's and return its id; it is on the server's disk when this returns."""
        body = {"text": text, "reply_to": reply_to, "to": list(to), "external_id": external_id}
        path = f"rooms/{segment('room', room)}/messages"
        return (await self.line.change(_Said, "POST", path, body | {"metadata": dict(metadata or {})})).said

    async def edit(self, message: str, text: str, *, room: str | None = None) -> MessageId:
        """Put another text in the place of a message's and return its id; the earlier one stays as a revision."""
        path, body = f"messages/{segment('message', message)}", {"text": text, "room": room}
        return (await self.line.change(_Edited, "PATCH", path, body)).edited


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOperations:
    """How far the work has come; the calls are those of `app.operations.Operations`."""

    line: Line

    async def numbers(self) -> Numbers:
        """Return how far the work has come in each room, how messages stand in exchanges and how long reads take."""
        return await self.line.read(Numbers, "operations")

    async def state(self) -> State:
        """Return which workers there are, and what was set aside and why; sizes are for who is where the rooms are."""
        return await self.line.read(State, "operations/state")

    async def embed(self, room: str, policy: EmbeddingPolicy) -> PolicyChange:
        """Say what a room embeds, each message or only what opens an exchange; return what that changed."""
        path = f"rooms/{segment('room', room)}/embedding"
        return (await self.line.change(_Embeds, "PUT", path, {"policy": policy})).change
