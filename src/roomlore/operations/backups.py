"""Backups of the whole database, and how they are restored.

Whoever runs the database makes backups, so there is no viewer: a backup holds all orgs. A restore is one transaction:
either all of it happens or nothing.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from roomlore.db import audit_log, backup, kept_erasures
from roomlore.db.backup import OnProgress
from roomlore.db.backup_file import (
    BackupContents,
    BackupReader,
    BackupWriter,
    check_part,
    part_file,
    reading,
)
from roomlore.db.cluster import cluster_status, start_cluster
from roomlore.db.queries import Connection
from roomlore.db.schema import migrate
from roomlore.domain.errors import BadInput, Conflict
from roomlore.domain.ids import uuid7
from roomlore.domain.records import Viewer
from roomlore.operations.repeated_erasures import repeat_erasures
from roomlore.settings import Settings

#: Asks whether to replace a database that is not empty.
Confirm = Callable[["RestorePlan"], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """A finished and checked backup."""

    file: str
    created_at: datetime
    schema_version: int
    rows: int
    messages: int
    orgs: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore would do."""

    created_at: datetime
    rows: int
    messages: int
    orgs: int
    #: The database that is filled.
    target: str
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore did."""

    plan: RestorePlan
    is_dry_run: bool
    #: What was erased since the backup and is erased again, by kind. None if nothing says what was erased.
    erased_again: Mapping[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """How to restore."""

    #: Whether to replace the rows of a database that is not empty.
    replace: bool = False
    #: A file, data folder or URL with the record of what was erased since the backup.
    erasures_from: str | None = None
    #: Only check the file and the database.
    dry_run: bool = False
    #: Asked before rows are replaced.
    confirm: Confirm = lambda _: True


async def write_backup(
    settings: Settings,
    file: Path,
    *,
    overwrite: bool = False,
    erasures_only: bool = False,
    on_progress: OnProgress,
) -> BackupReport:
    """Write all rows of one moment to a file, read it back and check it. Others may write meanwhile.

    Args:
        settings: They name the database.
        file: It appears when it is complete and checked.
        overwrite: Replace the file if it exists.
        erasures_only: Write only the record of what was erased, which a restore of an older backup needs.
        on_progress: Called with a phase, how much is done, and the total.

    Raises:
        BadInput: there is no database, or the file exists or cannot be written.
        SchemaMismatch: the database needs `roomlore migrate`.
    """
    _refuse_key(settings)
    async with _existing(settings) as dsn:
        with part_file(file, overwrite=overwrite) as stream:
            async with backup.snapshot(dsn) as conn:
                kind = "erasures" if erasures_only else "database"
                writer = BackupWriter(stream, await backup.header(conn, kind))
                if erasures_only:
                    await backup.write_erasures(conn, writer)
                else:
                    await backup.write_tables(conn, writer, on_progress)
            contents = await asyncio.to_thread(
                check_part, stream, str(file), partial(on_progress, "checking")
            )
            size = stream.seek(0, os.SEEK_END)
            # A file that nobody can find in the audit log must not appear.
            async with backup.owner_connection(dsn) as conn:
                await backup.become_owner(conn)
                await _audit(conn, "backup")
    return BackupReport(
        file=str(file),
        created_at=contents.header.created_at,
        schema_version=contents.header.schema_version,
        rows=contents.total_rows,
        messages=contents.rows("messages"),
        orgs=contents.rows("orgs"),
        size_bytes=size,
    )


async def restore_backup(
    settings: Settings,
    source: str,
    options: RestoreOptions,
    *,
    on_progress: OnProgress,
) -> RestoreReport | None:
    """Fill the database from a backup, and repeat the erasures since then; return None if the answer was no.

    Args:
        settings: They name the database. A missing embedded database is created.
        source: A file; or the folder or URL of another database, which is backed up to a temporary file first.
        options: How to restore.
        on_progress: Called with a phase, how much is done, and the total.

    Raises:
        BadInput: the file is damaged, no backup, or of another schema version. Nothing was changed.
        Conflict: the database is not empty, or somebody uses it. Nothing was changed.
    """
    _refuse_key(settings)
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(_as_file(settings, source, on_progress))
        reader = stack.enter_context(reading(file))
        contents = await asyncio.to_thread(reader.check, partial(on_progress, "checking"))
        backup.check_restorable(contents, kind="database")
        dsn, target = await stack.enter_async_context(_target(settings, dry_run=options.dry_run))
        is_empty = dsn is None or await backup.is_empty(dsn)
        plan = RestorePlan(
            created_at=contents.header.created_at,
            rows=contents.total_rows,
            messages=contents.rows("messages"),
            orgs=contents.rows("orgs"),
            target=target,
            is_empty=is_empty,
        )
        if options.dry_run or dsn is None:
            return RestoreReport(plan=plan, is_dry_run=True, erased_again=None)
        if not is_empty:
            if not options.replace:
                raise Conflict(
                    "restore",
                    f"{target} is not empty; name an empty folder with --data or an empty database with --database, "
                    "or replace everything in it with --replace",
                )
            if not options.confirm(plan):
                return None
        await migrate(dsn)
        erased = await _fill(
            settings, dsn, reader, contents, options=options, is_empty=is_empty, on_progress=on_progress
        )
        if erased is None and _is_database(source):
            # It was copied as it is now, so nothing was erased since.
            erased = Counter[str]()
        return RestoreReport(plan=plan, is_dry_run=False, erased_again=erased)


async def _fill(
    settings: Settings,
    dsn: str,
    reader: BackupReader,
    contents: BackupContents,
    *,
    options: RestoreOptions,
    is_empty: bool,
    on_progress: OnProgress,
) -> Counter[str] | None:
    keeps = not is_empty or options.erasures_from is not None
    async with backup.filling(dsn, replace=options.replace) as conn:
        await kept_erasures.make_tables(conn)
        if not is_empty:
            async with backup.snapshot(dsn) as source:
                await backup.keep_erasures(conn, source, is_same=True)
        if options.erasures_from is not None:
            await _keep_from(conn, settings, options.erasures_from, on_progress)
        await backup.clear(conn)
        await backup.fill(conn, reader, contents, on_progress)
        if options.erasures_from is not None and not await kept_erasures.has_common_org(conn):
            raise BadInput(
                f"erasures from {_shown(options.erasures_from)}",
                "are of another installation than the backup",
            )
        on_progress("erasing again", 0, 0)
        erased = await repeat_erasures(conn) if keeps else None
        await _audit(conn, "restore")
    return erased


async def _keep_from(conn: Connection, settings: Settings, place: str, on_progress: OnProgress) -> None:
    """Keep the record of erasures of a file, a data folder or a server."""
    if _is_database(place):
        async with _existing(_settings_of(settings, place)) as dsn, backup.snapshot(dsn) as source:
            await backup.keep_erasures(conn, source, is_same=False)
        return
    with reading(Path(place)) as reader:
        contents = await asyncio.to_thread(reader.check, partial(on_progress, "checking"))
        backup.check_restorable(contents, kind="erasures")
        await backup.keep_erasures_of(conn, reader, contents)


async def _audit(conn: Connection, action: str) -> None:
    for org_id in await backup.org_ids(conn):
        async with backup.acting_as_operator(conn, org_id):
            operator = Viewer.operator(org_id)
            await audit_log.append(conn, operator, action, line_id=uuid7(), outcome="done", subject_ids=[])


# The databases


def _refuse_key(settings: Settings) -> None:
    if settings.key is not None:
        raise BadInput("key", "a key is for one org, and a backup holds all of them; unset ROOMLORE_KEY")


@asynccontextmanager
async def _existing(settings: Settings) -> AsyncGenerator[str]:
    """Give the connection string of a database that exists, for a login that may become the owner."""
    if settings.database is not None:
        yield settings.database
        return
    if cluster_status(settings.data).version is None:
        raise BadInput("database", f"there is none in {settings.data}; is that its folder?")
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    try:
        yield cluster.admin_dsn
    finally:
        await cluster.close()


@asynccontextmanager
async def _target(settings: Settings, *, dry_run: bool) -> AsyncGenerator[tuple[str | None, str]]:
    """Give the connection string and the name of the database to fill. A missing one is created, but not by a dry run."""
    if settings.database is not None:
        yield settings.database, backup.place_of(settings.database)
        return
    name = f"the embedded database in {settings.data}"
    if dry_run and cluster_status(settings.data).version is None:
        yield None, name
        return
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    try:
        yield cluster.admin_dsn, name
    finally:
        await cluster.close()


@asynccontextmanager
async def _as_file(settings: Settings, source: str, on_progress: OnProgress) -> AsyncGenerator[Path]:
    """Give a backup file; of another database, a temporary one."""
    if not _is_database(source):
        yield Path(source)
        return
    other = _settings_of(settings, source)
    if (other.database, other.data.resolve()) == (settings.database, settings.data.resolve()):
        raise BadInput("restore", "the source is the database that is to be filled; name another")
    with tempfile.TemporaryDirectory(prefix="roomlore-") as folder:
        file = Path(folder) / "backup"
        await write_backup(other, file, on_progress=on_progress)
        yield file


def _settings_of(settings: Settings, place: str) -> Settings:
    if _is_url(place):
        return Settings(database=place, binaries=settings.binaries)
    return Settings(data=Path(place), binaries=settings.binaries)


def _is_database(place: str) -> bool:
    return _is_url(place) or Path(place).is_dir()


def _is_url(place: str) -> bool:
    return "://" in place


def _shown(place: str) -> str:
    """Return a place without the password of its URL."""
    return backup.place_of(place) if _is_url(place) else place
