"""Migrates stores of other programs into the database. For operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from roomlore.db import migrated_messages
from roomlore.db.migrated_messages import MessageContent, MessageKey, MigratedMessage, RoomKey
from roomlore.domain.clock import utc_now
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import Viewer
from roomlore.ingest.accept import IngestResult
from roomlore.legacy.chat_history import CHAT_HISTORY
from roomlore.legacy.columns import ColumnsReport, add_author_columns
from roomlore.legacy.migration import MigrationReport, migrate_rows
from roomlore.legacy.parity import SEED, compare_stores
from roomlore.legacy.source import open_source
from roomlore.operations.access import Access
from roomlore.operations.application import App
from roomlore.operations.intake import store_records

__all__ = ["ColumnsReport", "MigrationReport", "add_author_columns", "migrate_chat_history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessages:
    """Finds messages of an org by their ids on the platform."""

    access: Access

    async def find(self, keys: Sequence[MessageKey]) -> Sequence[MigratedMessage]:
        """Return the messages with these ids."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await migrated_messages.find(conn, self.access.org_id, keys)

    async def contents(self, keys: Sequence[MessageKey]) -> Sequence[MessageContent]:
        """Return the fields of the messages with these ids."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await migrated_messages.contents(conn, self.access.org_id, keys)

    async def counts(self, keys: Sequence[RoomKey]) -> Mapping[RoomKey, int]:
        """Return the number of all messages of each of these rooms."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await migrated_messages.counts(conn, self.access.org_id, keys)


async def migrate_chat_history(
    app: App | None,
    dsn: str,
    *,
    characters: Mapping[str, str],
    seed: int = SEED,
    progress: Callable[[int], None] = lambda _: None,
) -> MigrationReport:
    """Migrate the table `v2_chat_history` of a database, compare both stores, and return the report.

    Without an App, only report what the table holds. A migration that was stopped can be run again: it adds only what is
    missing.

    Raises:
        BadInput: the address is not valid, or the table or one of its required columns is missing.
        DatabaseUnavailable: the database cannot be reached, or the connection to it is lost.
        NotAllowed: the caller is not an operator.
    """
    if app is not None:
        await app.access.audit_work("migrate")

    async def store(batch: Sequence[IncomingMessage]) -> IngestResult:
        assert app is not None
        return await store_records(app.access, batch, action="migrate")

    async with open_source(dsn, "chat_history", tables=[CHAT_HISTORY]) as source:
        report = await migrate_rows(
            source, characters, store=None if app is None else store, now=utc_now(), progress=progress
        )
        if app is not None:
            report.parity = await compare_stores(
                source,
                StoredMessages(access=app.access),
                characters=characters,
                left_out=report.left_out,
                seed=seed,
            )
    return report
