"""Import of neutral records, for the Python client."""

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, PlainValidator, ValidationError
from starlette.responses import Response

from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import convert
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody
from roomlore.http.idempotency import record_name
from roomlore.http.problems import validation_message
from roomlore.http.responses import json_response
from roomlore.importers.reading.json_stream import replace_lone_surrogates
from roomlore.ingest.clean import ValueCleaner
from roomlore.operations.intake import MOST_RECORDS
from roomlore.operations.registry import LONGEST_WORD
from roomlore.operations.responses import AddedMessage, BatchResponse

ROUTER = APIRouter(prefix="/v1/messages", tags=["messages"])
#: Numbers of seconds as pydantic accepts them.
_NUMBER = lazy_pattern(r"[-+]?[\d.]+")


class RecordsRequest(RequestBody):
    """Messages as neutral records."""

    # Each record is validated by itself, so that a wrong record does not keep the others out.
    messages: Annotated[
        list[Annotated[Any, PlainValidator(lambda value: value, json_schema_input_type=IncomingMessage)]],
        Field(max_length=MOST_RECORDS),
    ]


class _Envelope(RequestBody):
    record: IncomingMessage


@ROUTER.post("/records", response_model=BatchResponse)
async def add_records(app: AuthenticatedApp, body: RecordsRequest) -> Response:
    """Store a batch of neutral records in one transaction. The response names the records that were skipped."""
    records = [_validated(record, index) for index, record in enumerate(body.messages)]
    accepted = await app.ingest_batch([one for one in records if isinstance(one, IncomingMessage)])
    malformed = [one for one in records if isinstance(one, SkippedRecord)]
    added = [
        AddedMessage(room_id=room_id, external_id=external_id, id=message_id)
        for (room_id, external_id), message_id in accepted.added.items()
    ]
    skipped, room_ids = [*malformed, *accepted.skipped], sorted(accepted.room_ids)
    return json_response(convert(BatchResponse, accepted, added=added, room_ids=room_ids, skipped=skipped))


def _validated(record: Any, index: int) -> IncomingMessage | SkippedRecord:
    """Return the record, or the reason why it is skipped. Types are never guessed."""
    where = ValueCleaner().text(record_name(record, index)[:LONGEST_WORD])
    skipped = SkippedRecord(where=where, reason="not of its shape")
    try:
        # The record is validated as JSON. In JSON, times are texts, and nothing else is converted.
        text = replace_lone_surrogates(json.dumps({"record": record}))
        message = _Envelope.model_validate_json(text).record
    except ValidationError as error:
        return replace(skipped, detail=validation_message(error.errors(), prefix=1))
    except RecursionError:
        return replace(skipped, detail="nested too deeply")
    times = [record["sent_at"], record.get("edited_at")]
    times += [
        member.get(name) for member in record["room"].get("members", ()) for name in ("joined_at", "left_at")
    ]
    if any(_NUMBER.fullmatch(time) for time in times if time is not None):
        return replace(skipped, detail="a time is a number")
    return message
