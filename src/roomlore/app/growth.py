"""What has been stored since the database was last told to look how much it holds."""

from contextlib import suppress
from dataclasses import dataclass

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.store import work
from roomlore.store.db import Database

#: After so many messages for the first time, and then whenever there are so many times as many.
FIRST, TIMES = 1_000, 4


@dataclass(slots=True)
class Growth:
    """Counts what this process has stored.

    A database that was empty a minute ago plans as if it were: what is sent again right after an import would be looked up
    by going through its room, message by message.
    """

    stored: int = 0
    _due: int = FIRST

    async def note(self, db: Database, count: int) -> None:
        """Take note of messages just stored, and let the planner look where they have become many."""
        self.stored += count
        if self.stored < self._due:
            return
        self._due = self.stored * TIMES
        # They are stored, whatever becomes of this.
        with suppress(DatabaseUnavailable), work.meeting_outages():
            async with db.outside_orgs() as conn:
                await work.refresh_statistics(conn)
