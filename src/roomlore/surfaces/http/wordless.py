"""Answers kept without a word of anybody's: what callers sent is put back from the same request, sent again."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pydantic_core

RECORDS = "/v1/messages/records"
MESSAGES_ROUTE = "/v1/messages"


def strip_request_text(route: str, answer: bytes, request: bytes) -> bytes | None:
    """Return an answer without words: places in the request instead; None where it holds words of another origin."""
    if route == RECORDS:
        return _places(pydantic_core.from_json(answer), _sent(request))
    if route == MESSAGES_ROUTE:
        facts = pydantic_core.from_json(answer)
        for item in facts["items"]:
            # What was found in what was left out.
            item["detail"] = ""
        return pydantic_core.to_json(facts)
    return answer


def restore_request_text(route: str, kept: bytes, request: bytes) -> bytes:
    """Return an answer as it was, with the words of the request."""
    if route != RECORDS:
        return kept
    facts: dict[str, Any] = pydantic_core.from_json(kept)
    sent = _sent(request)
    for one in facts["added"]:
        one["external_id"] = sent[one["external_id"]]["external_id"]
    for one in facts["skipped"]:
        place: int | None = one["where"]
        one["where"] = "" if place is None else record_name(sent[place], place)
    return pydantic_core.to_json(facts)


def record_name(record: Any, place: int) -> str:
    """Return what reports call a record of a request: by its own word for where it stands, its id, or else its number."""
    words = (_fields(record).get("where"), _fields(record).get("external_id"))
    return next((word for word in words if isinstance(word, str) and word), f"record {place + 1}")


def _fields(record: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", record) if isinstance(record, Mapping) else {}


def _sent(request: bytes) -> Sequence[Any]:
    # Parsed as the request was: what is left out of a batch may be more than other parsers take.
    return json.loads(request)["messages"]


def _places(facts: dict[str, Any], sent: Sequence[Any]) -> bytes | None:
    ids = [_fields(record).get("external_id") for record in sent]
    by_id = {word: place for place, word in enumerate(ids) if isinstance(word, str)}
    by_where = {record_name(record, place): place for place, record in enumerate(sent)}
    for one in facts["added"]:
        if one["external_id"] not in by_id:
            return None
        one["external_id"] = by_id[one["external_id"]]
    for one in facts["skipped"]:
        # Cut short or cleaned of secrets it is nowhere in the request, and not kept.
        one["where"], one["detail"] = by_where.get(one["where"]), ""
    return pydantic_core.to_json(facts)
