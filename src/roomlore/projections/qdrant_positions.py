"""Where messages stand in a copy in Qdrant, and pages of exchanges that go by that."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantPosition:
    """Where a message stands in a walk through a copy: by time, and among those of the same time by id."""

    sent_at: datetime
    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMember:
    """A message as part of an exchange."""

    position: QdrantPosition
    native_order: int
    exchange_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """Exchanges in the order in which they begin, each whole as far as the viewer may read it."""

    #: The messages of each, in room order.
    threads: Sequence[Sequence[MessageId]]
    #: Where the next page begins; None where there is none.
    after: QdrantPosition | None
