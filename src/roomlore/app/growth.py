"""What has been stored since the database was last told to look how much it holds."""

from contextlib import suppress
from dataclasses import dataclass

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.store import work
from roomlore.store.db import Database

#: After so many messages for the first time, and then whenever there are so many times as many.
FIRST, GROWTH_FACTOR = 1_000, 4


@dataclass(slots=True)
class AnalyzeTrigger:
    """Counts what this process has stored.

    A database that was empty a minute ago plans as if it were: what is sent again right after an import would be looked up
    by going through its room, message by message.
    """

    stored: int = 0
    _next_analyze: int = FIRST

    async def record_stored(self, db: Database, count: int) -> None:
        """Take note of messages just stored, and let the planner look where they have become many."""
        self.stored += count
        if self.stored < self._next_analyze:
            return
        self._next_analyze = self.stored * GROWTH_FACTOR
        # They are stored, whatever becomes of this.
        with suppress(DatabaseUnavailable), work.translate_connection_errors():
            async with db.system_connection() as conn:
                await work.refresh_statistics(conn)
