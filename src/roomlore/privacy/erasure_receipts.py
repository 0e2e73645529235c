"""Builds receipts: what was removed, what is kept and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MessageId, ParticipantId, ReceiptId, RoomId, uuid7
from roomlore.domain.receipts import ErasureKind, Receipt, RemovedCount, RetainedCount
from roomlore.domain.records import Viewer

#: The kinds of things that can be removed, in the order of the receipt.
REMOVED = (
    "messages",
    "revisions",
    "audiences",
    "replies",
    "embeddings",
    "work",
    "memories",
    "memory links",
    "memory embeddings",
    "language model calls",
    "conversation messages",
    "labels",
    "conversations",
    "participants",
    "accounts",
    "memberships",
    "activity",
    "merges",
    "keys",
    "interactions",
    "stated trust",
    "injections",
    "privacy requests",
    "mentions in others' messages",
    "room names",
    "rooms",
    "tags",
    "speakers",
)
#: The counts that a requester who is not an operator may see. They count only the requester's own content. Other counts
#: may include content that the requester cannot see.
OWN_COUNTS = frozenset(
    {
        *("messages", "revisions", "audiences", "embeddings", "work", "participants", "accounts"),
        *("memberships", "activity", "merges", "keys", "digests", "name digests"),
    }
)
#: What is counted and kept, with the reason.
KEPT_REASONS = {
    "waiting replies": (
        "replies to what is gone",
        "others said that they answer it: they keep the platform's id of it, and wait",
    ),
    "digests": (
        "digests of accounts",
        "so that what these accounts have said so far is not taken in again; an account cannot be read from one",
    ),
    "name digests": (
        "digests of the words of their names",
        "so that no label or title contains them again; a guessed word can be confirmed with them",
    ),
    "tombstones of privacy requests": (
        "privacy requests to forget, without author and text",
        "what others repeated of what was to be forgotten stays out of recall; an operator may undo them",
    ),
    "names in others' words": (
        "messages of others with their names in the words",
        "plain words are those of who said them",
    ),
    "names in others' records": (
        "records of messages of others with their names in a field that is not known to be about people",
        "they came like this; operators see them, and readers of the message see the metadata that a caller added",
    ),
    "names of rooms": (
        "rooms with their names in what they are called or are for",
        "a room of many bears the words of those who run it; an operator may rename it",
    ),
    "names of keys": (
        "keys of others with their names in what they are called",
        "an operator called them so, and may revoke them",
    ),
    "names in others' memories": (
        "memories with their names in the words",
        "they rest on the words of others and are not about them",
    ),
}
TOMBSTONE_REASON = "the place, the time and the platform's id stay, so that it is not taken in again and what answered it is whole"
RANGE = "so that what was said then is not taken in again"
ROOM = "so that nothing of it is taken in again; neither its name nor its id can be read from one"
MEMBERS = (
    "who was a member, and how participants are called, are facts about them and not about what was said"
)
LOG = "they hold ids only, and say who did what"
SERVER = "dead rows until vacuumed, its write-ahead log until recycled, and backups made of it are not in our hands"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """The content to erase."""

    kind: ErasureKind
    room_id: RoomId | None = None
    message_id: MessageId | None = None
    participant_ids: Sequence[ParticipantId] = ()
    since: datetime | None = None
    until: datetime | None = None


def visible_counts(by: Viewer, counts: Mapping[str, int]) -> Counter[str]:
    """Return the counts that the requester may see."""
    return Counter({what: count for what, count in counts.items() if by.is_operator or what in OWN_COUNTS})


def build_receipt(
    request: ErasureRequest, counts: Mapping[str, int], *, at: datetime, by: Viewer, is_dry_run: bool
) -> Receipt:
    """Return the receipt of an erasure, without the verification."""
    return Receipt(
        id=ReceiptId(uuid7()),
        at=at,
        kind=request.kind,
        room_id=request.room_id,
        message_id=request.message_id,
        participant_ids=tuple(request.participant_ids),
        since=request.since,
        until=request.until,
        key_id=by.key_id,
        viewer_id=by.participant_id,
        removed=tuple(
            RemovedCount(store="postgresql", what=what, count=counts[what])
            for what in REMOVED
            if counts[what]
        ),
        kept=tuple(_kept_records(request.kind, counts)),
        checks=None,
        checked_at=None,
        is_dry_run=is_dry_run,
    )


def _kept_records(kind: ErasureKind, counts: Mapping[str, int]) -> list[RetainedCount]:
    kept: list[tuple[str, int, str]] = []
    if kind in {"message", "person"}:
        kept.append(("tombstones", counts["messages"], TOMBSTONE_REASON))
    if kind == "range":
        kept.append(("the range", 1, RANGE))
    if kind == "room":
        kept.append(("the digest of the room", 1, ROOM))
    if kind in {"range", "expiry"}:
        kept.append(("memberships", counts["memberships of the room"], MEMBERS))
    kept += [(what, counts[key], why) for key, (what, why) in KEPT_REASONS.items() if counts[key]]
    dead = sum(counts[what] for what in REMOVED)
    kept += [
        ("this receipt, and lines of the activity log", 1, LOG),
        ("dead rows, log, backups", dead, SERVER),
    ]
    return [
        RetainedCount(store="postgresql", what=what, count=count, reason=why) for what, count, why in kept
    ]
