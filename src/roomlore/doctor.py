"""Looks whether everything that Roomlore needs is there, and says how to mend what is not."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roomlore.db import embedding_versions, projections, stats, work_queue
from roomlore.db.cluster import cluster_status, start_cluster, stop_cluster
from roomlore.db.database import Database
from roomlore.db.projections import TARGETS, Target
from roomlore.db.schema import BASE, OLDEST_POSTGRES, ServerInspection, inspect_server, wanted_version
from roomlore.domain.clock import CLOCK_REMEDY, clock_problems, utc_now
from roomlore.domain.errors import (
    BackendUnavailable,
    BadInput,
    DatabaseUnavailable,
    ModelUnavailable,
    RoomloreError,
    SchemaMismatch,
)
from roomlore.domain.ids import OrgId
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Viewer
from roomlore.operations import projection_service
from roomlore.operations.embedding_models import load_embedder
from roomlore.settings import DEFAULT_EMBEDDING, Settings

OLDEST_PGVECTOR = (0, 8)
#: For each answer of a server or an embedding model.
CONNECT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing that was looked at."""

    name: str
    is_well: bool
    detail: str
    #: What to do about it; empty when nothing needs to be done.
    cure: str = ""


async def run_checks(settings: Settings) -> list[CheckResult]:
    """Return what was found; starts the embedded database and stops it again if nobody else uses it."""
    models = [await _check_model(settings, name) for name in _named_models(settings)]
    servers = [await _check_server(settings, target) for target in TARGETS]
    findings = [_check_python(), *(model.finding for model in models)]
    answers = [server.finding for server in servers if server.finding is not None]
    try:
        if settings.database is not None:
            return [
                *findings,
                *await _check_database(settings.database, models, servers, migrates_itself=False),
            ]
        findings.append(await asyncio.to_thread(_check_embedded, settings))
        cluster = await start_cluster(settings.data, binaries=settings.binaries)
        try:
            return [*findings, *await _check_database(cluster.app_dsn, models, servers, migrates_itself=True)]
        finally:
            await cluster.close()
    except DatabaseUnavailable as error:
        broken = CheckResult(name="database", is_well=False, detail=error.why, cure=error.cure)
    except RoomloreError as error:
        broken = CheckResult(name="database", is_well=False, detail=str(error))
    return [*findings, broken, *answers]


async def stop_database(settings: Settings, *, force: bool = False) -> bool:
    """Stop the embedded database of the data directory; return False when none was running.

    Raises:
        Conflict: a live process uses it, and `force` was not given.
    """
    return await stop_cluster(settings.data, force=force)


def _check_python() -> CheckResult:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return CheckResult(name="python", is_well=True, detail=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelCheck:
    """An embedding model that settings name, and what it gives; None: no vectors."""

    name: str
    finding: CheckResult
    model_id: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerCheck:
    """A server that may hold copies, and which it holds; None: it does not say."""

    target: Target
    #: None where none is named.
    finding: CheckResult | None = None
    copies: frozenset[str] | None = None


def _named_models(settings: Settings) -> Sequence[str]:
    return [DEFAULT_EMBEDDING, *sorted(settings.embeddings)]


async def _check_model(settings: Settings, name: str) -> _ModelCheck:
    called = "embedding model" if name == DEFAULT_EMBEDDING else f"embedding model {name}"
    try:
        embedder = await load_embedder(settings, name, seconds=CONNECT_TIMEOUT)
    except ModelUnavailable as error:
        return _ModelCheck(
            name=name, finding=CheckResult(name=called, is_well=False, detail=error.why, cure=error.cure)
        )
    except BadInput as error:
        return _ModelCheck(name=name, finding=CheckResult(name=called, is_well=False, detail=error.why))
    detail = f"{embedder.model_id}, {embedder.dimensions} dimensions"
    return _ModelCheck(
        name=name,
        finding=CheckResult(name=called, is_well=True, detail=detail),
        model_id=embedder.model_id,
        dimensions=embedder.dimensions,
    )


async def _check_server(settings: Settings, target: Target) -> _ServerCheck:
    if target not in projection_service.configured(settings):
        return _ServerCheck(target=target)
    try:
        server = projection_service.open_projection(settings, target, seconds=CONNECT_TIMEOUT)
        try:
            copies = frozenset(await server.index_names())
        finally:
            await server.close()
    except BadInput as error:
        return _ServerCheck(target=target, finding=CheckResult(name=target, is_well=False, detail=error.why))
    except BackendUnavailable as error:
        finding = CheckResult(name=target, is_well=False, detail=error.why, cure=error.cure)
        return _ServerCheck(target=target, finding=finding)
    return _ServerCheck(
        target=target, finding=CheckResult(name=target, is_well=True, detail="answers"), copies=copies
    )


def _check_embedded(settings: Settings) -> CheckResult:
    status = cluster_status(settings.data)
    state = "running" if status.running else "stopped"
    megabytes = status.size_bytes / 1_000_000
    detail = (
        f"{settings.data} ({state}, {megabytes:.0f} MB)" if status.version else f"{settings.data} (empty)"
    )
    return CheckResult(name="data directory", is_well=True, detail=detail)


async def _check_database(
    dsn: str, models: Sequence[_ModelCheck], servers: Sequence[_ServerCheck], *, migrates_itself: bool
) -> Sequence[CheckResult]:
    found = await inspect_server(dsn)
    schema = _check_schema(found, migrates_itself=migrates_itself)
    findings = [_check_postgres(found), _check_pgvector(found), _check_login(found), schema]
    if found.schema_version != wanted_version():
        return [*findings, *(server.finding for server in servers if server.finding is not None)]
    db = await Database.connect(dsn, size=1)
    try:
        copies = [
            finding for server in servers if (finding := await _check_projections(db, server)) is not None
        ]
        return [
            *findings,
            await check_clock(db),
            await _check_backlog(db),
            *await _check_vectors(db, models),
            *copies,
        ]
    finally:
        await db.close()


async def check_clock(db: Database) -> CheckResult:
    """Return whether the clock of this machine agrees with that of the database, and with what was said."""
    wrong: set[str] = set()
    for org_id in await _check_orgs(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            newest = await stats.newest_message(conn, org_id)
        wrong |= set(clock_problems(utc_now(), database=newest.now, newest=newest.sent_at))
    if not wrong:
        return CheckResult(
            name="clock", is_well=True, detail="agrees with the database and with what was said"
        )
    return CheckResult(name="clock", is_well=False, detail="; ".join(sorted(wrong)), cure=CLOCK_REMEDY)


async def _check_vectors(db: Database, models: Sequence[_ModelCheck]) -> Sequence[CheckResult]:
    """Return which orgs have vectors unlike those that their models give, or models that are named no more."""
    given = {model.model_id: model.dimensions for model in models if model.model_id is not None}
    unlike, unnamed = Counter[str](), Counter[str]()
    for org_id in await _check_orgs(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            lengths = await embedding_versions.vector_lengths(conn, org_id)
            held = await embedding_versions.all_versions(conn, org_id)
        for model_id, dimensions in lengths.items():
            if model_id in given and given[model_id] != dimensions:
                unlike[f"{model_id} gives {given[model_id]} dimensions, stored are {dimensions}"] += 1
        known = {model.name for model in models}
        unnamed.update({one.provider for state, one in held.items() if state != "previous"} - known)
    findings = [
        CheckResult(
            name="vectors",
            is_well=False,
            detail=f"{why}, in {count_phrase(count, 'org')}",
            cure="another model answers to that name: name it otherwise, and switch to it",
        )
        for why, count in unlike.items()
    ]
    findings += [
        CheckResult(
            name="vectors",
            is_well=False,
            detail=f"{count_phrase(count, 'org')} served by {name!r}, which is not named here",
            cure="name it in the file of ROOMLORE_EMBEDDINGS, or run: roomlore embed switch",
        )
        for name, count in unnamed.items()
    ]
    return findings or [CheckResult(name="vectors", is_well=True, detail="as long as their models give them")]


async def _check_projections(db: Database, server: _ServerCheck) -> CheckResult | None:
    """Return what was found of a server, with how the copies do that orgs have there."""
    target, found = server.target, Counter[str]()
    for org_id in await _check_orgs(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            held = await projections.all_projections(conn, org_id)
            mine = next((one for one in held if one.target == target), None)
            if mine is None:
                continue
            found["copies"] += 1
            found["lag"] += await projections.is_behind(conn, org_id, target)
            left = await projections.backlog(conn, org_id, target)
        found["waiting"] += left.waiting
        found["set aside"] += left.set_aside
        found["being built"] += mine.copy is None
        found["gone"] += server.copies is not None and not {one for one, _ in mine.indexes} <= server.copies
    if server.finding is None and found["copies"]:
        detail = (
            f"no server is named, and {count_phrase(found['copies'], 'org')} want copies: what changes waits"
        )
        cure = f"set ROOMLORE_{target.upper()}_URL, or run: roomlore project drop {target}"
        return CheckResult(name=target, is_well=False, detail=detail, cure=cure)
    if server.finding is None or not found["copies"]:
        return server.finding
    return _projection_result(server.finding, target, found)


def _projection_result(finding: CheckResult, target: Target, found: Counter[str]) -> CheckResult:
    """Return how a server answers, and of its copies how many are there, lag, or are gone."""
    parts = [f"copies of {count_phrase(found['copies'], 'org')}"]
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


async def _check_orgs(db: Database) -> Sequence[OrgId]:
    async with db.system_connection() as conn:
        return await work_queue.org_ids(conn)


def _check_postgres(found: ServerInspection) -> CheckResult:
    is_well = found.server.version_number >= OLDEST_POSTGRES
    return CheckResult(
        name="postgresql",
        is_well=is_well,
        detail=f"{found.server.version}, {found.server.size_bytes / 1_000_000:.0f} MB",
        cure="" if is_well else f"Roomlore needs PostgreSQL {OLDEST_POSTGRES // 10_000} or newer",
    )


def _check_pgvector(found: ServerInspection) -> CheckResult:
    version = found.server.pgvector or found.server.pgvector_available
    if version is None:
        cure = "install the pgvector extension on the server (its package is often postgresql-NN-pgvector)"
        return CheckResult(name="pgvector", is_well=False, detail="not available", cure=cure)
    numbers = tuple(int(part) for part in version.split(".")[:2])
    is_well = numbers >= OLDEST_PGVECTOR
    cure = "" if is_well else "update pgvector to 0.8 or newer, then: alter extension vector update"
    return CheckResult(name="pgvector", is_well=is_well, detail=version, cure=cure)


def _check_login(found: ServerInspection) -> CheckResult:
    above = found.server.is_above_policies
    detail = f"{found.server.login}{', steps down to roomlore_app' if above else ''}"
    cure = "safer: log in as a role that is only a member of roomlore_app" if above else ""
    return CheckResult(name="login", is_well=True, detail=detail, cure=cure)


def _check_schema(found: ServerInspection, *, migrates_itself: bool) -> CheckResult:
    wanted = wanted_version()
    if found.schema_version == wanted:
        return CheckResult(name="schema", is_well=True, detail=f"version {wanted}")
    detail = f"version {found.schema_version}, wanted {wanted}"
    mismatch = SchemaMismatch(found=found.schema_version, wanted=wanted, oldest=BASE)
    if migrates_itself and mismatch.can_be_migrated:
        return CheckResult(name="schema", is_well=True, detail=f"{detail}: made on first use")
    return CheckResult(name="schema", is_well=False, detail=detail, cure=mismatch.cure)


async def _check_backlog(db: Database) -> CheckResult:
    async with db.system_connection() as conn:
        counts = {stage: await work_queue.count(conn, stage, None) for stage in work_queue.QUEUE_NAMES}
    set_aside = sum(count.set_aside for count in counts.values())
    errors = await _check_dead_letters(db) if set_aside else Counter[str]()
    kinds = ", ".join(f"{pieces} {error}" for error, pieces in errors.most_common())
    detail = (
        f"{count_phrase(counts['embed'].waiting, 'text')} to embed, {count_phrase(counts['untangle'].waiting, 'room')} to untangle,"
        f" {set_aside} set aside{f' ({kinds})' if kinds else ''}"
    )
    cure = "run: roomlore worker --drain" if any(count.waiting for count in counts.values()) else ""
    if set_aside:
        cure = "once what stood in the way is mended, run: roomlore worker --drain --retry"
    return CheckResult(name="work", is_well=not set_aside, detail=detail, cure=cure)


async def _check_dead_letters(db: Database) -> Counter[str]:
    """Return how many pieces of work of all orgs were set aside, by kind of error."""
    errors = Counter[str]()
    for org_id in await _check_orgs(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            for stage in work_queue.QUEUE_NAMES:
                for kind in await work_queue.dead_letters(conn, org_id, stage):
                    errors[kind.error] += kind.messages
    return errors
