"""Messages taken as neutral records, as the Python client sends them: whole, and told of as `App.ingest_batch` does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, PlainValidator, ValidationError
from starlette.responses import Response

from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody
from roomlore.http.idempotency import record_name
from roomlore.http.problems import validation_message
from roomlore.http.responses import json_response
from roomlore.importers.json_stream import replace_lone_surrogates
from roomlore.ingest.clean import ValueCleaner
from roomlore.operations.intake import MOST_RECORDS
from roomlore.operations.registry import LONGEST_WORD

ROUTER = APIRouter(prefix="/v1/messages", tags=["messages"])
#: What pydantic takes for a count of seconds.
_NUMBER = lazy_pattern(r"[-+]?[\d.]+")


def _as_it_is(value: Any) -> Any:
    return value


class Records(RequestBody):
    """Messages as neutral records, each as whoever read it somewhere understood it."""

    # Each is looked at by itself, so that one that is wrong keeps none of the others out.
    messages: Annotated[
        list[Annotated[Any, PlainValidator(_as_it_is, json_schema_input_type=IncomingMessage)]],
        Field(max_length=MOST_RECORDS),
    ]


class _Shape(RequestBody):
    record: IncomingMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A message that was not there before: where, its external id and its id."""

    room_id: RoomId
    external_id: str
    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTaken:
    """What became of a batch of records, which is on disk."""

    added: Sequence[Addition]
    #: Of every message that was not left out, in the order of the batch.
    message_ids: Sequence[MessageId]
    room_ids: Sequence[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: Sequence[SkippedRecord]


@ROUTER.post("/records", response_model=RecordsTaken)
async def add_records(app: AuthenticatedApp, batch: Records) -> Response:
    """Store a batch of neutral records in one transaction; what cannot be stored is named and left out."""
    read = [_shaped(record, place) for place, record in enumerate(batch.messages)]
    accepted = await app.ingest_batch([one for one in read if isinstance(one, IncomingMessage)])
    unshaped = [one for one in read if isinstance(one, SkippedRecord)]
    added = [
        Addition(room_id=room_id, external_id=external_id, id=message_id)
        for (room_id, external_id), message_id in accepted.added.items()
    ]
    return json_response(
        RecordsTaken(
            added=added,
            message_ids=accepted.message_ids,
            room_ids=sorted(accepted.room_ids),
            revised=accepted.revised,
            redacted=accepted.redacted,
            unchanged=accepted.unchanged,
            skipped=[*unshaped, *accepted.skipped],
        )
    )


def _shaped(record: Any, place: int) -> IncomingMessage | SkippedRecord:
    """Return the record that is meant, or that it is none: of the types of its fields nothing is guessed."""
    where = ValueCleaner().text(record_name(record, place)[:LONGEST_WORD])
    unshaped = SkippedRecord(where=where, reason="not of its shape")
    try:
        # As JSON, where times are words and still nothing else passes for one.
        shaped = _Shape.model_validate_json(replace_lone_surrogates(json.dumps({"record": record}))).record
    except ValidationError as error:
        return replace(unshaped, detail=validation_message(error.errors(), prefix=1))
    except RecursionError:
        return replace(unshaped, detail="nested too deeply")
    times = [record["sent_at"], record.get("edited_at")]
    times += [
        member.get(name) for member in record["room"].get("members", ()) for name in ("joined_at", "left_at")
    ]
    if any(_NUMBER.fullmatch(time) for time in times if time is not None):
        return replace(unshaped, detail="a time is a number")
    return shaped
