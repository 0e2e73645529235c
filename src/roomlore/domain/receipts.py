"""Receipts: what an erasure removed, what it kept and why, and what a second look found.

Counts and ids only: a receipt outlives what it tells about, so it repeats nothing of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.domain.ids import KeyId, MessageId, ParticipantId, ReceiptId, RoomId

#: `expiry` is what the retention of a room removes.
ErasureKind = Literal["message", "range", "person", "expiry", "room"]
#: Where it lay: the truth, and the projections made from it.
StoreName = Literal["postgresql", "qdrant", "neo4j"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCount:
    """How much of one thing is gone from one store."""

    store: StoreName
    #: "messages", "revisions", "embeddings", "memories", …
    what: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedCount:
    """How much of one thing stays, and why."""

    store: StoreName
    what: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationCheck:
    """What a second look found of one thing; anything but nothing is a fault."""

    store: StoreName
    what: str
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRemoval:
    """What copies in one server may hold still of what is gone: all that was asked of them by the second look.

    Of somebody's own receipt it is of the messages and accounts themselves alone: what was made of them may be with what
    they cannot see.
    """

    store: StoreName
    #: Points or nodes of what is there no more.
    to_remove: int
    #: What stays and is to be written anew: it may tell of what is gone, as a count of answers does.
    to_rewrite: int
    #: How many of both the server would not take; they wait to be tried again.
    set_aside: int
    #: Since when the server fails.
    failing_since: datetime | None
    #: How it does; only operators are told.
    error: str | None

    @property
    def is_done(self) -> bool:
        """Whether nothing of what it is of is left there."""
        return not self.to_remove and not self.to_rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What an erasure did, or on a dry run would do."""

    id: ReceiptId
    at: datetime
    kind: ErasureKind
    room_id: RoomId | None
    message_id: MessageId | None
    participant_ids: Sequence[ParticipantId]
    since: datetime | None
    until: datetime | None
    #: With which key it was asked for; None without one.
    key_id: KeyId | None
    #: Who asked, who may see this; None is the operator, who also gets in full what somebody else asked for.
    viewer_id: ParticipantId | None
    removed: Sequence[RemovedCount]
    kept: Sequence[RetainedCount]
    #: None until the second look; a dry run has none.
    checks: Sequence[VerificationCheck] | None
    checked_at: datetime | None
    is_dry_run: bool = False
    #: As of now, and never kept with the receipt: it follows from the work that waits. None where nobody looked.
    copies: Sequence[PendingRemoval] | None = None

    @property
    def is_own(self) -> bool:
        """Whether somebody but the operator asked for it, who is told of their own alone."""
        return self.viewer_id is not None

    @property
    def is_clean(self) -> bool:
        """Whether the second look was taken and found nothing left."""
        return self.checks is not None and not any(check.found for check in self.checks)
