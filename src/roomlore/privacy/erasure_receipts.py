"""Receipts written out: what was removed, and what was kept and why, honestly."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MessageId, ParticipantId, ReceiptId, RoomId, uuid7
from roomlore.domain.receipts import ErasureKind, Receipt, RemovedCount, RetainedCount
from roomlore.domain.records import Viewer

#: What can be removed, in the order in which receipts name it.
REMOVED = (
    *("messages", "revisions", "audiences", "replies", "embeddings", "work", "memories", "memory links"),
    *("memory embeddings", "readings"),
    *("placements", "labels", "conversations", "participants", "identities", "memberships", "activity"),
    *(
        "merges",
        "keys",
        "encounters",
        "injections",
        "wishes",
        "mentions in others' messages",
        "room names",
        "rooms",
    ),
    *("tags", "speakers"),
)
#: What an asker who is no operator may count: what is their own. All else may hang on what they cannot see.
OWN_COUNTS = frozenset(
    {
        *("messages", "revisions", "audiences", "embeddings", "work", "participants", "identities"),
        *("memberships", "activity", "merges", "keys", "digests", "name digests"),
    }
)
#: What was counted and stays, with the reason.
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
        "so that no label or title is made of them again; whoever guesses a word can confirm it",
    ),
    "wishes without words": (
        "wishes to forget, without author and words",
        "what others repeated of what was to be forgotten stays out of recall; an operator may undo them",
    ),
    "names in others' words": (
        "messages of others with their names in the words",
        "plain words are those of who said them",
    ),
    "names in others' records": (
        "records of messages of others with their names in a field that is not known to be about people",
        "they were sent so; operators see them, and metadata that a caller gave is shown to whoever reads the message",
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
    """What is to be erased."""

    kind: ErasureKind
    room_id: RoomId | None = None
    message_id: MessageId | None = None
    participant_ids: Sequence[ParticipantId] = ()
    since: datetime | None = None
    until: datetime | None = None


def visible_counts(by: Viewer, tally: Mapping[str, int]) -> Counter[str]:
    """Return of what was counted what the asker may know."""
    return Counter({what: count for what, count in tally.items() if by.is_operator or what in OWN_COUNTS})


def build_receipt(
    request: ErasureRequest, tally: Mapping[str, int], *, at: datetime, by: Viewer, is_dry_run: bool
) -> Receipt:
    """Return the receipt of an erasure, whose second look is still to come."""
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
            RemovedCount(store="postgresql", what=what, count=tally[what]) for what in REMOVED if tally[what]
        ),
        kept=tuple(_kept_records(request.kind, tally)),
        checks=None,
        checked_at=None,
        is_dry_run=is_dry_run,
    )


def _kept_records(kind: ErasureKind, tally: Mapping[str, int]) -> list[RetainedCount]:
    kept: list[tuple[str, int, str]] = []
    if kind in {"message", "person"}:
        kept.append(("holes", tally["messages"], TOMBSTONE_REASON))
    if kind == "range":
        kept.append(("the range", 1, RANGE))
    if kind == "room":
        kept.append(("the digest of the room", 1, ROOM))
    if kind in {"range", "expiry"}:
        kept.append(("memberships", tally["memberships of the room"], MEMBERS))
    kept += [(what, tally[key], why) for key, (what, why) in KEPT_REASONS.items() if tally[key]]
    dead = sum(tally[what] for what in REMOVED)
    kept += [
        ("this receipt, and lines of the activity log", 1, LOG),
        ("dead rows, log, backups", dead, SERVER),
    ]
    return [RetainedCount(store="postgresql", what=what, count=count, why=why) for what, count, why in kept]
