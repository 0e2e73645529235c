"""Adds author columns to the table `v2_chat_history` in its own database, and fills them.

The change only adds. Running it again adds nothing and fills only rows that have no author yet.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from roomlore.legacy.chat_history import CHAT_HISTORY, fact_parameters
from roomlore.legacy.source import open_source, present_columns

#: The number of rows in one transaction.
BATCH = 5_000
NEW_COLUMNS = ("author_id", "author_is_bot", "reply_to_msg_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsReport:
    """What was added to the table."""

    #: The columns that were missing.
    added: list[str]
    #: The number of rows that got an author.
    filled: int
    #: The number of rows whose author is unknown. They stay empty.
    unknown: int

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


async def add_author_columns(
    dsn: str, characters: Mapping[str, str], *, progress: Callable[[int], None]
) -> ColumnsReport:
    """Add the columns and indexes, and fill the columns in batches. Each batch is committed."""
    params = fact_parameters(characters) | {"size": BATCH}
    async with open_source(dsn, "chat_history", tables=[CHAT_HISTORY], writes=True) as source:
        present = await present_columns(source.conn, CHAT_HISTORY.name)
        await source.execute("add_columns")
        filled = 0
        while changed := await source.execute("backfill", params):
            filled += changed
            progress(changed)
        # The indexes come last, so that filling the columns does not maintain them.
        await source.execute("add_author_index")
        await source.execute("add_author_bot_index")
        [unknown] = await source.fetch("unknown_authors")
    added = [name for name in NEW_COLUMNS if name not in present]
    return ColumnsReport(added=added, filled=filled, unknown=unknown["count"])
