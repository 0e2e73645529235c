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
from roomlore.legacy.project_migration import ProjectsReport, migrate_projects
from roomlore.legacy.projects import TABLES
from roomlore.legacy.source import open_source
from roomlore.operations.access import Access
from roomlore.operations.application import App
from roomlore.operations.intake import store_records
from roomlore.operations.project_target import StoredProjects

__all__ = [
    "ColumnsReport",
    "MigrationReport",
    "ProjectsReport",
    "add_author_columns",
    "migrate_chat_history",
    "migrate_project_store",
]


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

    stored = None if app is None else StoredMessages(access=app.access)
    async with open_source(dsn, "chat_history", tables=[CHAT_HISTORY]) as source:
        report = await migrate_rows(
            source,
            characters,
            store=None if stored is None else store,
            find=None if stored is None else stored.find,
            now=utc_now(),
            progress=progress,
        )
        if stored is not None:
            report.parity = await compare_stores(
                source,
                stored,
                characters=characters,
                left_out=report.left_out,
                seed=seed,
            )
    return report


async def migrate_project_store(
    app: App | None,
    dsn: str,
    *,
    org: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> ProjectsReport:
    """Migrate the chat and the memories of a project store, and return the report.

    Without an App, only report what the store holds. `org` is the id of an org of the store; it may be None if the
    store has only one. A migration that was stopped can be run again: it adds only what is missing.

    Raises:
        BadInput: the address or the org is not valid, or a table or a required column is missing.
        DatabaseUnavailable: the database cannot be reached, or the connection to it is lost.
        NotAllowed: the caller is not an operator.
    """
    if app is not None:
        await app.access.audit_work("migrate")
    target = None if app is None else StoredProjects(access=app.access)
    async with open_source(dsn, "projects", tables=TABLES) as source:
        return await migrate_projects(source, target, org=org, now=utc_now(), progress=progress)
