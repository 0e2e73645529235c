"""Looks whether everything that Roomlore needs is there, and says how to mend what is not."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.backends.embedding import LocalEmbedder
from roomlore.config import Settings
from roomlore.domain.errors import DatabaseUnavailable, ModelUnavailable, RoomloreError
from roomlore.domain.records import Viewer
from roomlore.store import work
from roomlore.store.cluster import cluster_status, start_cluster, stop_cluster
from roomlore.store.db import Database
from roomlore.store.inspect import Inspection, inspect
from roomlore.store.migrate import wanted_version

OLDEST_POSTGRES = 150_000
OLDEST_PGVECTOR = (0, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    name: str
    is_well: bool
    detail: str
    #: What to do about it; empty when nothing needs to be done.
    cure: str = ""


async def examine(settings: Settings) -> list[Finding]:
    """Return what was found; starts the embedded database and stops it again if nobody else uses it."""
    findings = [_python(), await asyncio.to_thread(_model, settings)]
    try:
        if settings.database is not None:
            return [*findings, *await _database(settings.database, migrates_itself=False)]
        findings.append(await asyncio.to_thread(_embedded, settings))
        cluster = await start_cluster(settings.data, binaries=settings.binaries)
        try:
            return [*findings, *await _database(cluster.app_dsn, migrates_itself=True)]
        finally:
            await cluster.close()
    except DatabaseUnavailable as error:
        return [*findings, Finding(name="database", is_well=False, detail=error.why, cure=error.cure)]
    except RoomloreError as error:
        return [*findings, Finding(name="database", is_well=False, detail=str(error))]


async def stop(settings: Settings, *, force: bool = False) -> bool:
    """Stop the embedded database of the data directory; return False when none was running.

    Raises:
        Conflict: a live process uses it, and `force` was not given.
    """
    return await stop_cluster(settings.data, force=force)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding(name="python", is_well=True, detail=version)


def _model(settings: Settings) -> Finding:
    try:
        embedder = LocalEmbedder.load(settings.model)
    except ModelUnavailable as error:
        return Finding(name="embedding model", is_well=False, detail=error.why, cure=error.cure)
    return Finding(
        name="embedding model", is_well=True, detail=f"{embedder.model_id}, {embedder.dimensions} dimensions"
    )


def _embedded(settings: Settings) -> Finding:
    status = cluster_status(settings.data)
    state = "running" if status.running else "stopped"
    megabytes = status.size_bytes / 1_000_000
    detail = (
        f"{settings.data} ({state}, {megabytes:.0f} MB)" if status.version else f"{settings.data} (empty)"
    )
    return Finding(name="data directory", is_well=True, detail=detail)


async def _database(dsn: str, *, migrates_itself: bool) -> Sequence[Finding]:
    found = await inspect(dsn)
    schema = _schema(found, migrates_itself=migrates_itself)
    findings = [_postgres(found), _pgvector(found), _login(found), schema]
    if found.schema_version == wanted_version():
        findings.append(await _backlog(dsn))
    return findings


def _postgres(found: Inspection) -> Finding:
    is_well = found.server.version_number >= OLDEST_POSTGRES
    return Finding(
        name="postgresql",
        is_well=is_well,
        detail=f"{found.server.version}, {found.server.size_bytes / 1_000_000:.0f} MB",
        cure="" if is_well else "Roomlore needs PostgreSQL 15 or newer",
    )


def _pgvector(found: Inspection) -> Finding:
    version = found.server.pgvector or found.server.pgvector_available
    if version is None:
        cure = "install the pgvector extension on the server (its package is often postgresql-NN-pgvector)"
        return Finding(name="pgvector", is_well=False, detail="not available", cure=cure)
    numbers = tuple(int(part) for part in version.split(".")[:2])
    is_well = numbers >= OLDEST_PGVECTOR
    cure = "" if is_well else "update pgvector to 0.8 or newer, then: alter extension vector update"
    return Finding(name="pgvector", is_well=is_well, detail=version, cure=cure)


def _login(found: Inspection) -> Finding:
    above = found.server.is_above_policies
    detail = f"{found.server.login}{', steps down to roomlore_app' if above else ''}"
    cure = "safer: log in as a role that is only a member of roomlore_app" if above else ""
    return Finding(name="login", is_well=True, detail=detail, cure=cure)


def _schema(found: Inspection, *, migrates_itself: bool) -> Finding:
    wanted = wanted_version()
    if found.schema_version == wanted:
        return Finding(name="schema", is_well=True, detail=f"version {wanted}")
    detail = f"version {found.schema_version}, wanted {wanted}"
    if found.schema_version > wanted:
        return Finding(name="schema", is_well=False, detail=detail, cure="install a newer Roomlore")
    if migrates_itself:
        return Finding(name="schema", is_well=True, detail=f"{detail}: made on first use")
    return Finding(name="schema", is_well=False, detail=detail, cure="run: roomlore migrate")


async def _backlog(dsn: str) -> Finding:
    db = await Database.connect(dsn, size=1)
    try:
        async with db.outside_orgs() as conn:
            counts = {stage: await work.count(conn, stage, None) for stage in work.STAGES}
        set_aside = sum(count.set_aside for count in counts.values())
        errors = await _set_aside(db) if set_aside else Counter[str]()
    finally:
        await db.close()
    kinds = ", ".join(f"{pieces} {error}" for error, pieces in errors.most_common())
    detail = (
        f"{counts['embed'].waiting} messages to embed, {counts['untangle'].waiting} rooms to untangle,"
        f" {set_aside} set aside{f' ({kinds})' if kinds else ''}"
    )
    cure = "run: roomlore worker --drain" if any(count.waiting for count in counts.values()) else ""
    if set_aside:
        cure = "once what stood in the way is mended, run: roomlore worker --drain --retry"
    return Finding(name="work", is_well=not set_aside, detail=detail, cure=cure)


async def _set_aside(db: Database) -> Counter[str]:
    """Return how many pieces of work of all orgs were set aside, by kind of error."""
    async with db.outside_orgs() as conn:
        org_ids = await work.org_ids(conn)
    errors = Counter[str]()
    for org_id in org_ids:
        async with db.reading(Viewer.operator(org_id)) as conn:
            for stage in work.STAGES:
                for kind in await work.set_aside(conn, org_id, stage):
                    errors[kind.error] += kind.messages
    return errors
