"""Receipts of erasures: what was removed, what stays and why, and the result of the verification.

A receipt stays when the content is gone. So it contains only counts and ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.domain.ids import KeyId, MessageId, ParticipantId, ReceiptId, RoomId

#: `expiry`: removed by the retention of a room.
ErasureKind = Literal["message", "range", "person", "expiry", "room"]
StoreName = Literal["postgresql", "qdrant", "neo4j"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCount:
    """How much of one thing was removed from one store."""

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
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationCheck:
    """How much of one thing the verification found. Any number but 0 is a fault."""

    store: StoreName
    what: str
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRemoval:
    """The erased content that the indexes on one server may still hold.

    The receipt of a participant counts only messages and accounts, because derived records may include content that the
    participant cannot see.
    """

    store: StoreName
    #: Points or nodes that still have to be removed.
    to_remove: int
    #: Points or nodes that stay but may reflect erased content, such as a reply count.
    to_rewrite: int
    #: How many of both the server refused. They wait for a retry.
    dead_lettered: int
    #: The start of the server's current outage.
    failing_since: datetime | None
    #: The error of this outage. Only operators see it.
    error: str | None

    @property
    def is_done(self) -> bool:
        """Whether nothing is pending."""
        return not self.to_remove and not self.to_rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The result of an erasure, or of its dry run."""

    id: ReceiptId
    at: datetime
    kind: ErasureKind
    room_id: RoomId | None
    message_id: MessageId | None
    participant_ids: Sequence[ParticipantId]
    since: datetime | None
    until: datetime | None
    #: The key of the request; None without a key.
    key_id: KeyId | None
    #: The requester, who may see the receipt. None means the operator, who also sees all other receipts in full.
    viewer_id: ParticipantId | None
    removed: Sequence[RemovedCount]
    kept: Sequence[RetainedCount]
    #: None until the verification. A dry run has no checks.
    checks: Sequence[VerificationCheck] | None
    checked_at: datetime | None
    is_dry_run: bool = False
    #: The current state. It is derived from pending work and not stored; None if it was not looked up.
    pending_projections: Sequence[PendingRemoval] | None = None

    @property
    def is_own(self) -> bool:
        """Whether a participant requested the erasure. Participants see counts of their own content only."""
        return self.viewer_id is not None

    @property
    def is_clean(self) -> bool:
        """Whether the verification ran and found nothing."""
        return self.checks is not None and not any(check.found for check in self.checks)
