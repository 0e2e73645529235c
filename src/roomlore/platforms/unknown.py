"""Keys of our own format that it does not have: what they were meant to say would be lost without a word."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from roomlore.domain.incoming import Skipped
from roomlore.platforms.fields import Fields, Malformed, as_list, as_object

MESSAGE = frozenset(
    [
        "schema",
        "platform",
        "room",
        "id",
        "author",
        "kind",
        "text",
        "sent_at",
        "reply_to",
        "thread_root",
        "audience",
        "mentions",
        "attachments",
        "reactions",
        "edited_at",
        "deleted",
        "metadata",
    ]
)
ROOM = frozenset({"id", "name", "kind", "visibility", "topic", "members", "workspace", "category"})
PARTICIPANT = frozenset({"id", "name", "kind", "persona", "bridged"})
MEMBER = PARTICIPANT | {"joined_at", "left_at"}
#: Who may read a message depends on these: one that is misspelt would open what it was to close.
_CLOSING = ("visibility", "members", "audience", "kind", "deleted", "left_at")
_REASON = "unknown field"
_MOST, _LONGEST = 10, 60


def unknown_keys(record: Mapping[str, Any]) -> list[str]:
    """Return the keys of a record, and of what it holds, that the format does not have; `metadata` may hold any."""
    found = set(_beyond(record, MESSAGE, ""))
    found.update(_beyond(record.get("author"), PARTICIPANT, "author."))
    for one in as_list(record.get("audience")):
        found.update(_beyond(one, PARTICIPANT, "audience."))
    room = as_object(record.get("room")) or {}
    found.update(_beyond(room, ROOM, "room."))
    for one in as_list(room.get("members")):
        found.update(_beyond(one, MEMBER, "room.members."))
    return sorted(found)


def refuse_misspelt(unknown: list[str]) -> None:
    """Do nothing if no unknown key seems to have been meant to say who may read a message.

    Raises:
        Malformed: one does; without it the message would be open to more than it should be.
    """
    for key in unknown:
        *_, word = key.rpartition(".")
        if near := get_close_matches(word.casefold(), _CLOSING, n=1, cutoff=0.75):
            raise Malformed(_REASON, f"{named([key])}: did you mean {near[0]}?")


def left_aside(unknown: list[str], where: str) -> Skipped:
    """Return the report of keys that were left aside while their message went in."""
    return Skipped(where=where, reason=_REASON, detail=f"{named(unknown)}: left aside, the message went in")


def named(unknown: list[str]) -> str:
    """Return unknown keys in words, as many and as much of each as anybody reads."""
    told = ", ".join(key[:_LONGEST] for key in unknown[:_MOST])
    return f"{told}, …" if len(unknown) > _MOST else told


def _beyond(value: Any, known: frozenset[str], prefix: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{prefix}{key}" for key in cast("Fields", value).keys() - known)
