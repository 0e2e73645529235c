"""What is said, sent to a server; and what whoever runs it watches and sets."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.client.session import Session
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.ingest.accept import IngestResult
from roomlore.operations.intake import MOST_RECORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class _AddedMessage:
    """A message that was not there before."""

    room_id: RoomId
    external_id: str
    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchResponse:
    """What became of a batch."""

    added: list[_AddedMessage]
    message_ids: list[MessageId]
    room_ids: frozenset[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: list[SkippedRecord]


async def ingest_batch(session: Session, batch: Sequence[IncomingMessage]) -> IngestResult:
    """Have a batch of messages stored in one transaction; what cannot be stored is named and left out.

    Raises:
        BadInput: there are too many for one request.
        NotAllowed: the caller is no operator.
    """
    if len(batch) > MOST_RECORDS:
        raise BadInput("messages", f"over HTTP at most {MOST_RECORDS:,} at a time; send them in parts")
    taken = await session.change(_BatchResponse, "POST", "messages/records", {"messages": list(batch)})
    return IngestResult(
        added={(one.room_id, one.external_id): one.id for one in taken.added},
        message_ids=taken.message_ids,
        room_ids=taken.room_ids,
        revised=taken.revised,
        redacted=taken.redacted,
        unchanged=taken.unchanged,
        skipped=taken.skipped,
    )
