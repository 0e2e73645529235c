"""Checks whether everything that Roomlore needs is there, and says how to repair what is not."""

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
#: The timeout of each request to a server or an embedding model.
CONNECT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check."""

    name: str
    is_well: bool
    detail: str
    #: What to do; empty if nothing needs to be done.
    cure: str = ""


def _good(name: str, detail: str, cure: str = "") -> CheckResult:
    return CheckResult(name=name, is_well=True, detail=detail, cure=cure)


def _bad(name: str, detail: str, cure: str = "") -> CheckResult:
    return CheckResult(name=name, is_well=False, detail=detail, cure=cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelCheck:
    """A configured embedding model, and its vectors if it is available."""

    name: str
    result: CheckResult
    model_id: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerCheck:
    """A server for indexes, and the indexes it has."""

    target: Target
    #: None if the server is not configured.
    result: CheckResult | None = None
    #: None if the server is unavailable.
    copies: frozenset[str] | None = None


async def run_checks(settings: Settings) -> list[CheckResult]:
    """Run all checks. The embedded database is started. Afterwards it is stopped again, if nobody else uses it."""
    models = [
        await _check_model(settings, name) for name in [DEFAULT_EMBEDDING, *sorted(settings.embeddings)]
    ]
    servers = [await _check_server(settings, target) for target in TARGETS]
    python = _good("python", ".".join(str(part) for part in sys.version_info[:3]))
    results = [python, *(model.result for model in models)]
    try:
        if settings.database is not None:
            return results + await _check_database(settings.database, models, servers, migrates_itself=False)
        results.append(await asyncio.to_thread(_check_embedded, settings))
        cluster = await start_cluster(settings.data, binaries=settings.binaries)
        try:
            return results + await _check_database(cluster.app_dsn, models, servers, migrates_itself=True)
        finally:
            await cluster.close()
    except DatabaseUnavailable as error:
        results.append(_bad("database", error.why, error.cure))
    except RoomloreError as error:
        results.append(_bad("database", str(error)))
    return results + _server_results(servers)


async def stop_database(settings: Settings, *, force: bool = False) -> bool:
    """Stop the embedded database of the data directory; return False when none was running.

    Raises:
        Conflict: a live process uses it, and `force` was not given.
    """
    return await stop_cluster(settings.data, force=force)


def _server_results(servers: Sequence[_ServerCheck]) -> list[CheckResult]:
    return [server.result for server in servers if server.result is not None]


async def _check_model(settings: Settings, name: str) -> _ModelCheck:
    label = "embedding model" if name == DEFAULT_EMBEDDING else f"embedding model {name}"
    try:
        embedder = await load_embedder(settings, name, seconds=CONNECT_TIMEOUT)
    except ModelUnavailable as error:
        return _ModelCheck(name=name, result=_bad(label, error.why, error.cure))
    except BadInput as error:
        return _ModelCheck(name=name, result=_bad(label, error.why))
    model_id, dimensions = embedder.model_id, embedder.dimensions
    result = _good(label, f"{model_id}, {dimensions} dimensions")
    return _ModelCheck(name=name, result=result, model_id=model_id, dimensions=dimensions)


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
        return _ServerCheck(target=target, result=_bad(target, error.why))
    except BackendUnavailable as error:
        return _ServerCheck(target=target, result=_bad(target, error.why, error.cure))
    return _ServerCheck(target=target, result=_good(target, "answers"), copies=copies)


def _check_embedded(settings: Settings) -> CheckResult:
    status = cluster_status(settings.data)
    state = "running" if status.running else "stopped"
    size = f"{state}, {status.size_bytes / 1_000_000:.0f} MB" if status.version else "empty"
    return _good("data directory", f"{settings.data} ({size})")


async def _check_database(
    dsn: str, models: Sequence[_ModelCheck], servers: Sequence[_ServerCheck], *, migrates_itself: bool
) -> list[CheckResult]:
    found = await inspect_server(dsn)
    results = [
        _check_postgres(found),
        _check_pgvector(found),
        _check_login(found),
        _check_schema(found, migrates_itself=migrates_itself),
    ]
    if found.schema_version != wanted_version():
        return results + _server_results(servers)
    db = await Database.connect(dsn, size=1)
    try:
        copies = [await _check_projections(db, server) for server in servers]
        results += [await check_clock(db), await _check_backlog(db), *await _check_vectors(db, models)]
        return results + [copy for copy in copies if copy is not None]
    finally:
        await db.close()


async def check_clock(db: Database) -> CheckResult:
    """Check whether the clock of this machine agrees with the database and with the messages."""
    wrong: set[str] = set()
    for org_id in await _org_ids(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            newest = await stats.newest_message(conn, org_id)
        wrong |= set(clock_problems(utc_now(), database=newest.now, newest=newest.sent_at))
    if wrong:
        return _bad("clock", "; ".join(sorted(wrong)), CLOCK_REMEDY)
    return _good("clock", "agrees with the database and with what was said")


async def _check_vectors(db: Database, models: Sequence[_ModelCheck]) -> list[CheckResult]:
    """Find stored vectors whose length differs from their model's vectors, and models that are not configured."""
    lengths = {model.model_id: model.dimensions for model in models if model.model_id is not None}
    names = {model.name for model in models}
    unlike, unnamed = Counter[str](), Counter[str]()
    for org_id in await _org_ids(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            stored = await embedding_versions.vector_lengths(conn, org_id)
            versions = await embedding_versions.all_versions(conn, org_id)
        for model_id, dimensions in stored.items():
            if model_id in lengths and lengths[model_id] != dimensions:
                unlike[f"{model_id} gives {lengths[model_id]} dimensions, stored are {dimensions}"] += 1
        unnamed.update(
            {version.provider for state, version in versions.items() if state != "previous"} - names
        )
    results = [
        _bad(
            "vectors",
            f"{why}, in {count_phrase(count, 'org')}",
            "another model answers to that name: name it otherwise, and switch to it",
        )
        for why, count in unlike.items()
    ]
    results += [
        _bad(
            "vectors",
            f"{count_phrase(count, 'org')} served by {name!r}, which is not named here",
            "name it in the file of ROOMLORE_EMBEDDINGS, or run: roomlore model switch",
        )
        for name, count in unnamed.items()
    ]
    return results or [_good("vectors", "as long as their models give them")]


async def _check_projections(db: Database, server: _ServerCheck) -> CheckResult | None:
    """Return the result of a server, with the state of the indexes of all orgs in it."""
    target, found = server.target, Counter[str]()
    for org_id in await _org_ids(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            rows = await projections.all_projections(conn, org_id)
            row = next((row for row in rows if row.target == target), None)
            if row is None:
                continue
            found["copies"] += 1
            found["lag"] += await projections.is_behind(conn, org_id, target)
            backlog = await projections.backlog(conn, org_id, target)
        found["waiting"] += backlog.waiting
        found["set aside"] += backlog.dead_lettered
        found["being built"] += row.index_name is None
        found["gone"] += server.copies is not None and not {name for name, _ in row.indexes} <= server.copies
    if server.result is None and found["copies"]:
        return _bad(
            target,
            f"no server is named, and {count_phrase(found['copies'], 'org')} want copies: what changes waits",
            f"set ROOMLORE_{target.upper()}_URL, or run: roomlore index drop {target}",
        )
    if server.result is None or not found["copies"]:
        return server.result
    return _projection_result(server.result, target, found)


def _projection_result(result: CheckResult, target: Target, found: Counter[str]) -> CheckResult:
    parts = [result.detail, f"copies of {count_phrase(found['copies'], 'org')}"]
    parts += [f"{found[what]} {what}" for what in ("gone", "being built", "lag") if found[what]]
    parts.append(f"{found['waiting']} to be written" if found["waiting"] else "nothing to be written")
    if found["set aside"]:
        parts.append(f"{found['set aside']} set aside")
    cures = {
        "gone": f"run: roomlore index rebuild {target}",
        "set aside": "run: roomlore worker --drain --retry",
        "lag": "run: roomlore worker --drain",
    }
    problems = [what for what in cures if found[what]]
    cure = cures[problems[0]] if result.is_well and problems else result.cure
    return replace(result, is_well=result.is_well and not problems, detail="; ".join(parts), cure=cure)


async def _org_ids(db: Database) -> Sequence[OrgId]:
    async with db.system_connection() as conn:
        return await work_queue.org_ids(conn)


def _check_postgres(found: ServerInspection) -> CheckResult:
    detail = f"{found.server.version}, {found.server.size_bytes / 1_000_000:.0f} MB"
    if found.server.version_number >= OLDEST_POSTGRES:
        return _good("postgresql", detail)
    return _bad("postgresql", detail, f"Roomlore needs PostgreSQL {OLDEST_POSTGRES // 10_000} or newer")


def _check_pgvector(found: ServerInspection) -> CheckResult:
    version = found.server.pgvector or found.server.pgvector_available
    if version is None:
        cure = "install the pgvector extension on the server (its package is often postgresql-NN-pgvector)"
        return _bad("pgvector", "not available", cure)
    if tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_PGVECTOR:
        return _good("pgvector", version)
    return _bad("pgvector", version, "update pgvector to 0.8 or newer, then: alter extension vector update")


def _check_login(found: ServerInspection) -> CheckResult:
    if not found.server.is_above_policies:
        return _good("login", found.server.login)
    cure = "safer: log in as a role that is only a member of roomlore_app"
    return _good("login", f"{found.server.login}, steps down to roomlore_app", cure)


def _check_schema(found: ServerInspection, *, migrates_itself: bool) -> CheckResult:
    wanted = wanted_version()
    if found.schema_version == wanted:
        return _good("schema", f"version {wanted}")
    detail = f"version {found.schema_version}, wanted {wanted}"
    mismatch = SchemaMismatch(found=found.schema_version, wanted=wanted, oldest=BASE)
    if migrates_itself and mismatch.can_be_migrated:
        return _good("schema", f"{detail}: made on first use")
    return _bad("schema", detail, mismatch.cure)


async def _check_backlog(db: Database) -> CheckResult:
    async with db.system_connection() as conn:
        counts = {queue: await work_queue.count(conn, queue, None) for queue in work_queue.QUEUE_NAMES}
    dead_lettered = sum(count.dead_lettered for count in counts.values())
    errors = await _dead_letters(db) if dead_lettered else Counter[str]()
    kinds = ", ".join(f"{count} {error}" for error, count in errors.most_common())
    detail = (
        f"{count_phrase(counts['embed'].waiting, 'text')} to embed,"
        f" {count_phrase(counts['disentangle'].waiting, 'room')} to disentangle,"
        f" {dead_lettered} set aside{f' ({kinds})' if kinds else ''}"
    )
    if dead_lettered:
        return _bad(
            "work", detail, "once what stood in the way is mended, run: roomlore worker --drain --retry"
        )
    is_waiting = any(count.waiting for count in counts.values())
    return _good("work", detail, "run: roomlore worker --drain" if is_waiting else "")


async def _dead_letters(db: Database) -> Counter[str]:
    """Return the number of failed jobs of all orgs by kind of error."""
    errors = Counter[str]()
    for org_id in await _org_ids(db):
        async with db.read_transaction(Viewer.operator(org_id)) as conn:
            for queue in work_queue.QUEUE_NAMES:
                for kind in await work_queue.dead_letters(conn, org_id, queue):
                    errors[kind.error] += kind.messages
    return errors
