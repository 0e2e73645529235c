"""Looks whether everything that Roomlore needs is there, and says how to mend what is not."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roomlore.app import projecting
from roomlore.app.embedding import load_embedder
from roomlore.config import DEFAULT_EMBEDDING, Settings
from roomlore.domain.clock import CLOCK_CURE, disagreements, utc_now
from roomlore.domain.errors import (
    BackendUnavailable,
    BadInput,
    DatabaseUnavailable,
    ModelUnavailable,
    RoomloreError,
    SchemaMismatch,
)
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.domain.wording import counted
from roomlore.store import generations, operations, projections, work
from roomlore.store.cluster import cluster_status, start_cluster, stop_cluster
from roomlore.store.db import Database
from roomlore.store.inspect import Inspection, inspect
from roomlore.store.migrate import BASE, OLDEST_POSTGRES, wanted_version
from roomlore.store.projections import TARGETS, Target

OLDEST_PGVECTOR = (0, 8)
#: For each answer of a server or an embedding model.
PATIENCE = 5.0


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
    models = [await _model(settings, name) for name in _named(settings)]
    servers = [await _server(settings, target) for target in TARGETS]
    findings = [_python(), *(model.finding for model in models)]
    answers = [server.finding for server in servers if server.finding is not None]
    try:
        if settings.database is not None:
            return [*findings, *await _database(settings.database, models, servers, migrates_itself=False)]
        findings.append(await asyncio.to_thread(_embedded, settings))
        cluster = await start_cluster(settings.data, binaries=settings.binaries)
        try:
            return [*findings, *await _database(cluster.app_dsn, models, servers, migrates_itself=True)]
        finally:
            await cluster.close()
    except DatabaseUnavailable as error:
        broken = Finding(name="database", is_well=False, detail=error.why, cure=error.cure)
    except RoomloreError as error:
        broken = Finding(name="database", is_well=False, detail=str(error))
    return [*findings, broken, *answers]


async def stop(settings: Settings, *, force: bool = False) -> bool:
    """Stop the embedded database of the data directory; return False when none was running.

    Raises:
        Conflict: a live process uses it, and `force` was not given.
    """
    return await stop_cluster(settings.data, force=force)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding(name="python", is_well=True, detail=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """An embedding model that settings name, and what it gives; None: no vectors."""

    name: str
    finding: Finding
    model_id: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A server that may hold copies, and which it holds; None: it does not say."""

    target: Target
    #: None where none is named.
    finding: Finding | None = None
    copies: frozenset[str] | None = None


def _named(settings: Settings) -> Sequence[str]:
    return [DEFAULT_EMBEDDING, *sorted(settings.embeddings)]


async def _model(settings: Settings, name: str) -> _Model:
    called = "embedding model" if name == DEFAULT_EMBEDDING else f"embedding model {name}"
    try:
        embedder = await load_embedder(settings, name, seconds=PATIENCE)
    except ModelUnavailable as error:
        return _Model(
            name=name, finding=Finding(name=called, is_well=False, detail=error.why, cure=error.cure)
        )
    except BadInput as error:
        return _Model(name=name, finding=Finding(name=called, is_well=False, detail=error.why))
    detail = f"{embedder.model_id}, {embedder.dimensions} dimensions"
    return _Model(
        name=name,
        finding=Finding(name=called, is_well=True, detail=detail),
        model_id=embedder.model_id,
        dimensions=embedder.dimensions,
    )


async def _server(settings: Settings, target: Target) -> _Server:
    if target not in projecting.configured(settings):
        return _Server(target=target)
    try:
        server = projecting.open_projection(settings, target, seconds=PATIENCE)
        try:
            copies = frozenset(await server.copies())
        finally:
            await server.close()
    except BadInput as error:
        return _Server(target=target, finding=Finding(name=target, is_well=False, detail=error.why))
    except BackendUnavailable as error:
        finding = Finding(name=target, is_well=False, detail=error.why, cure=error.cure)
        return _Server(target=target, finding=finding)
    return _Server(target=target, finding=Finding(name=target, is_well=True, detail="answers"), copies=copies)


def _embedded(settings: Settings) -> Finding:
    status = cluster_status(settings.data)
    state = "running" if status.running else "stopped"
    megabytes = status.size_bytes / 1_000_000
    detail = (
        f"{settings.data} ({state}, {megabytes:.0f} MB)" if status.version else f"{settings.data} (empty)"
    )
    return Finding(name="data directory", is_well=True, detail=detail)


async def _database(
    dsn: str, models: Sequence[_Model], servers: Sequence[_Server], *, migrates_itself: bool
) -> Sequence[Finding]:
    found = await inspect(dsn)
    schema = _schema(found, migrates_itself=migrates_itself)
    findings = [_postgres(found), _pgvector(found), _login(found), schema]
    if found.schema_version != wanted_version():
        return [*findings, *(server.finding for server in servers if server.finding is not None)]
    db = await Database.connect(dsn, size=1)
    try:
        copies = [finding for server in servers if (finding := await _copies(db, server)) is not None]
        return [*findings, await clock(db), await _backlog(db), *await _vectors(db, models), *copies]
    finally:
        await db.close()


async def clock(db: Database) -> Finding:
    """Return whether the clock of this machine agrees with that of the database, and with what was said."""
    wrong: set[str] = set()
    for org_id in await _orgs(db):
        async with db.reading(Viewer.operator(org_id)) as conn:
            newest = await operations.newest_said(conn, org_id)
        wrong |= set(disagreements(utc_now(), database=newest.now, newest=newest.sent_at))
    if not wrong:
        return Finding(name="clock", is_well=True, detail="agrees with the database and with what was said")
    return Finding(name="clock", is_well=False, detail="; ".join(sorted(wrong)), cure=CLOCK_CURE)


async def _vectors(db: Database, models: Sequence[_Model]) -> Sequence[Finding]:
    """Return which orgs have vectors unlike those that their models give, or models that are named no more."""
    given = {model.model_id: model.dimensions for model in models if model.model_id is not None}
    unlike, unnamed = Counter[str](), Counter[str]()
    for org_id in await _orgs(db):
        async with db.reading(Viewer.operator(org_id)) as conn:
            lengths = await generations.lengths(conn, org_id)
            held = await generations.all_of(conn, org_id)
        for model_id, dimensions in lengths.items():
            if model_id in given and given[model_id] != dimensions:
                unlike[f"{model_id} gives {given[model_id]} dimensions, stored are {dimensions}"] += 1
        known = {model.name for model in models}
        unnamed.update({one.provider for state, one in held.items() if state != "previous"} - known)
    findings = [
        Finding(
            name="vectors",
            is_well=False,
            detail=f"{why}, in {counted(count, 'org')}",
            cure="another model answers to that name: name it otherwise, and switch to it",
        )
        for why, count in unlike.items()
    ]
    findings += [
        Finding(
            name="vectors",
            is_well=False,
            detail=f"{counted(count, 'org')} served by {name!r}, which is not named here",
            cure="name it in the file of ROOMLORE_EMBEDDINGS, or run: roomlore embed switch",
        )
        for name, count in unnamed.items()
    ]
    return findings or [Finding(name="vectors", is_well=True, detail="as long as their models give them")]


async def _copies(db: Database, server: _Server) -> Finding | None:
    """Return what was found of a server, with how the copies do that orgs have there."""
    target, found = server.target, Counter[str]()
    for org_id in await _orgs(db):
        async with db.reading(Viewer.operator(org_id)) as conn:
            held = await projections.all_of(conn, org_id)
            mine = next((one for one in held if one.target == target), None)
            if mine is None:
                continue
            found["copies"] += 1
            found["lag"] += await projections.is_behind(conn, org_id, target)
            left = await projections.backlog(conn, org_id, target)
        found["waiting"] += left.waiting
        found["set aside"] += left.set_aside
        found["being built"] += mine.copy is None
        found["gone"] += server.copies is not None and not {one for one, _ in mine.copies} <= server.copies
    if server.finding is None and found["copies"]:
        detail = f"no server is named, and {counted(found['copies'], 'org')} want copies: what changes waits"
        cure = f"set ROOMLORE_{target.upper()}_URL, or run: roomlore project drop {target}"
        return Finding(name=target, is_well=False, detail=detail, cure=cure)
    if server.finding is None or not found["copies"]:
        return server.finding
    return _told(server.finding, target, found)


def _told(finding: Finding, target: Target, found: Counter[str]) -> Finding:
    """Return how a server answers, and of its copies how many are there, lag, or are gone."""
    parts = [f"copies of {counted(found['copies'], 'org')}"]
    parts += [f"{found[what]} {what}" for what in ("gone", "being built", "lag") if found[what]]
    parts.append(f"{found['waiting']} to be written" if found["waiting"] else "nothing to be written")
    if found["set aside"]:
        parts.append(f"{found['set aside']} set aside")
    cure = finding.cure
    if finding.is_well and found["gone"]:
        cure = f"run: roomlore project rebuild {target}"
    elif finding.is_well and found["set aside"]:
        cure = "run: roomlore worker --drain --retry"
    elif finding.is_well and found["lag"]:
        cure = "run: roomlore worker --drain"
    is_well = finding.is_well and not (found["gone"] or found["lag"] or found["set aside"])
    return replace(finding, is_well=is_well, detail="; ".join([finding.detail, *parts]), cure=cure)


async def _orgs(db: Database) -> Sequence[OrgId]:
    async with db.outside_orgs() as conn:
        return await work.org_ids(conn)


def _postgres(found: Inspection) -> Finding:
    is_well = found.server.version_number >= OLDEST_POSTGRES
    return Finding(
        name="postgresql",
        is_well=is_well,
        detail=f"{found.server.version}, {found.server.size_bytes / 1_000_000:.0f} MB",
        cure="" if is_well else f"Roomlore needs PostgreSQL {OLDEST_POSTGRES // 10_000} or newer",
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
    mismatch = SchemaMismatch(found=found.schema_version, wanted=wanted, oldest=BASE)
    if migrates_itself and mismatch.can_be_migrated:
        return Finding(name="schema", is_well=True, detail=f"{detail}: made on first use")
    return Finding(name="schema", is_well=False, detail=detail, cure=mismatch.cure)


async def _backlog(db: Database) -> Finding:
    async with db.outside_orgs() as conn:
        counts = {stage: await work.count(conn, stage, None) for stage in work.STAGES}
    set_aside = sum(count.set_aside for count in counts.values())
    errors = await _set_aside(db) if set_aside else Counter[str]()
    kinds = ", ".join(f"{pieces} {error}" for error, pieces in errors.most_common())
    detail = (
        f"{counted(counts['embed'].waiting, 'text')} to embed, {counted(counts['untangle'].waiting, 'room')} to untangle,"
        f" {set_aside} set aside{f' ({kinds})' if kinds else ''}"
    )
    cure = "run: roomlore worker --drain" if any(count.waiting for count in counts.values()) else ""
    if set_aside:
        cure = "once what stood in the way is mended, run: roomlore worker --drain --retry"
    return Finding(name="work", is_well=not set_aside, detail=detail, cure=cure)


async def _set_aside(db: Database) -> Counter[str]:
    """Return how many pieces of work of all orgs were set aside, by kind of error."""
    errors = Counter[str]()
    for org_id in await _orgs(db):
        async with db.reading(Viewer.operator(org_id)) as conn:
            for stage in work.STAGES:
                for kind in await work.set_aside(conn, org_id, stage):
                    errors[kind.error] += kind.messages
    return errors
