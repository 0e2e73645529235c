"""Where a message stands in its room."""

from datetime import UTC, datetime
from uuid import UUID

from roomlore.domain.ids import MessageId

#: The order of a message among those of its time, where only its id is known.
UNKNOWN = 2**63 - 1
#: A message's place: (sent_at, native_order, id), comparable.
Position = tuple[datetime, int, MessageId]
#: Behind every place.
AFTER_ALL: Position = (datetime.max.replace(tzinfo=UTC), 2**63 - 1, MessageId(UUID(int=2**128 - 1)))
