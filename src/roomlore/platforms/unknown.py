"""Keys of our own format that it does not have: what they were meant to say would be lost without a word."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from roomlore.domain.incoming import SkippedRecord
from roomlore.platforms.fields import Fields, MalformedRecord, as_list, as_object

MESSAGE_KEYS = frozenset(
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
ROOM_KEYS = frozenset({"id", "name", "kind", "visibility", "topic", "members", "workspace", "category"})
PARTICIPANT_KEYS = frozenset({"id", "name", "kind", "persona", "bridged"})
MEMBER_KEYS = PARTICIPANT_KEYS | {"joined_at", "left_at"}
#: Who may read a message depends on these: one that is misspelt would open what it was to close.
_VISIBILITY_KEYS = ("visibility", "members", "audience", "kind", "deleted", "left_at")
_UNKNOWN_KEY_REASON = "unknown field"
_MAX_KEYS, _MAX_KEY_LENGTH = 10, 60


def unknown_keys(record: Mapping[str, Any]) -> list[str]:
    """Return the keys of a record, and of what it holds, that the format does not have; `metadata` may hold any."""
    found = set(_unknown_in(record, MESSAGE_KEYS, ""))
    found.update(_unknown_in(record.get("author"), PARTICIPANT_KEYS, "author."))
    for one in as_list(record.get("audience")):
        found.update(_unknown_in(one, PARTICIPANT_KEYS, "audience."))
    room = as_object(record.get("room")) or {}
    found.update(_unknown_in(room, ROOM_KEYS, "room."))
    for one in as_list(room.get("members")):
        found.update(_unknown_in(one, MEMBER_KEYS, "room.members."))
    return sorted(found)


def reject_misspelt_keys(unknown: list[str]) -> None:
    """Do nothing if no unknown key seems to have been meant to say who may read a message.

    Raises:
        Malformed: one does; without it the message would be open to more than it should be.
    """
    for key in unknown:
        *_, word = key.rpartition(".")
        if near := get_close_matches(word.casefold(), _VISIBILITY_KEYS, n=1, cutoff=0.75):
            raise MalformedRecord(_UNKNOWN_KEY_REASON, f"{key_list([key])}: did you mean {near[0]}?")


def skipped_keys(unknown: list[str], where: str) -> SkippedRecord:
    """Return the report of keys that were left aside while their message went in."""
    return SkippedRecord(where=where, reason=_UNKNOWN_KEY_REASON, detail=f"{key_list(unknown)}: left aside, the message went in")


def key_list(unknown: list[str]) -> str:
    """Return unknown keys in words, as many and as much of each as anybody reads."""
    told = ", ".join(key[:_MAX_KEY_LENGTH] for key in unknown[:_MAX_KEYS])
    return f"{told}, …" if len(unknown) > _MAX_KEYS else told


def _unknown_in(value: Any, known: frozenset[str], prefix: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{prefix}{key}" for key in cast("Fields", value).keys() - known)
