"""Says in words what spoken requests leave out, and which; operators are told of all, others of their own."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from roomlore.domain.ids import short_id
from roomlore.domain.speech import safe_name

if TYPE_CHECKING:
    from roomlore.retrieval.records import RestrictedResult

_REQUEST_NAMES = {
    "forget": "to be forgotten",
    "confide": "off the record",
    "withhold": "kept",
}


def restriction_lines(withheld: Sequence["RestrictedResult"]) -> list[str]:
    """Return how much was left out, a line for each request."""
    asked: dict[UUID, list[RestrictedResult]] = defaultdict(list)
    for one in withheld:
        asked[one.wish_id].append(one)
    return [
        f"withheld: {len(ones)} {'message' if len(ones) == 1 else 'messages'} of {safe_name(ones[0].room_name)},"
        f" {restriction_reason(ones[0])}"
        for ones in asked.values()
    ]


def restriction_reason(one: "RestrictedResult") -> str:
    """Return for which request a message is left out."""
    who = safe_name(one.author_name) if one.author_name else "somebody who is gone"
    whom = ""
    if one.from_names is not None:
        whom = f" from {', '.join(map(safe_name, one.from_names)) or 'nobody who is known'}"
    return f"{_REQUEST_NAMES.get(one.kind, one.kind)}{whom}, asked by {who}; roomlore wishes lists request {short_id(one.wish_id)}"
