"""Verbs for operators: statistics, the embedding model, and the indexes in Qdrant and Neo4j."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output, retention_text
from roomlore.cli.progress import count_progress
from roomlore.cli.session import Session, with_app
from roomlore.db.projections import TARGETS, Target
from roomlore.db.stats import Latency
from roomlore.domain.clock import CLOCK_REMEDY
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App
from roomlore.operations.embedding_versions import EmbeddingVersionStatus, ModelSwitch
from roomlore.operations.monitoring import (
    Coverage,
    OrgStatistics,
    ProjectionCoverage,
    RoomCounts,
    RoomStatistics,
)
from roomlore.operations.projection_service import ProjectionDiff, ProjectionStatus

HEADINGS = (
    "room", "embeds", "messages", "in threads", "size", "legacy", "vectors", "saved", "to embed", "assigned",
    "failed", "oldest pending",
)  # fmt: skip
#: The maximum number of ids that are shown for a difference.
SHOWN = 10
#: What an index holds.
INDEXED_ITEMS: Mapping[Target, str] = {"qdrant": "message", "neo4j": "node"}


@click.command(cls=OperationCommand, operation="monitoring.statistics")
def stats(output: Output, numbers: OrgStatistics) -> None:
    """Show the progress of the background work in each room, statistics of threads, and read latencies."""
    rows = [(room.name, room.embedding_policy, *_cells(room.counts, numbers.at)) for room in numbers.rooms]
    output.table(HEADINGS, [*rows, ("all rooms", "", *_cells(numbers.counts, numbers.at))])
    _show_retention(output, numbers.rooms)
    for wrong in numbers.clock:
        output.text(f"the clock may be wrong: {wrong}; {CLOCK_REMEDY}", style="yellow")
    counts, calls, cache = numbers.counts, numbers.llm_calls, numbers.blocks
    if counts.sampled < counts.messages:
        sample = f"{counts.sampled:,} of {count_phrase(counts.messages, 'message')}"
        output.text(f"shares, sizes and savings from the newest {sample}", style="dim")
    pending = count_phrase(counts.extracted.waiting, "conversation")
    output.text(
        f"memories extracted from {count_phrase(counts.extracted.done, 'message')}; {pending} pending"
    )
    if counts.privacy_checked.waiting or counts.privacy_checked.dead_lettered:
        output.text(
            f"privacy requests: {count_phrase(counts.privacy_checked.waiting, 'message')} to check,"
            f" {counts.privacy_checked.dead_lettered:,} failed; roomlore worker --drain --retry tries these again"
        )
    if calls.calls_today or calls.error:
        why = f"; {calls.error}" if calls.error else ""
        pending = count_phrase(calls.waiting, "conversation")
        output.text(
            f"language model: {pending} pending, {count_phrase(calls.calls_today, 'call')} today{why}"
        )
    for one in numbers.embedding:
        output.text(f"vectors: {model_line(one)}")
    for copy in numbers.projections:
        output.text(f"index {index_line(copy)}")
    rows = [(room.name, *(one.waiting for one in room.counts.projected)) for room in numbers.rooms]
    behind = [row for row in rows if any(row[1:])]
    if behind:
        output.table(("messages pending in", *(f"for {one.target}" for one in numbers.projections)), behind)
    share = "" if cache.rate is None else f", {cache.rate:.0%}"
    output.text(
        f"memory sections: {cache.hits} of {cache.asked} from the cache{share}; each process counts its own",
        style="dim",
    )
    if numbers.latencies:
        output.text()
        _show_latencies(output, numbers.latencies)


def _show_latencies(output: Output, latencies: Iterable[Latency]) -> None:
    rows = [
        (one.action, one.format, one.reads, f"{one.p50_ms:.0f} ms", f"{one.p95_ms:.0f} ms")
        for one in latencies
    ]
    output.table(("read", "embeddings of rooms", "reads", "p50", "p95"), rows)


def _show_retention(output: Output, rooms: Iterable[RoomStatistics]) -> None:
    for room in rooms:
        kept = f"{room.name} keeps messages {retention_text(room.retention_period, room.retention_starts_at)}"
        if room.expiring_messages is not None:
            removed = count_phrase(room.expiring_messages, "message")
            before = retention_text(room.current_retention_period, None)
            output.text(f"{kept}, until then {before}; {removed} to be removed then", style="yellow")
        elif room.retention_period is not None:
            output.text(kept)


def _cells(counts: RoomCounts, now: datetime) -> Sequence[str | int]:
    size = "" if counts.mean_thread_size is None else f"{counts.mean_thread_size:.1f}"
    stages = (
        counts.embedded,
        counts.disentangled,
        counts.extracted,
        counts.privacy_checked,
        *counts.projected,
    )
    return (
        counts.messages,
        _percent(counts.share_in_threads),
        size,
        _percent(counts.legacy_share),
        counts.vectors,
        counts.vectors_saved,
        counts.embedded.waiting,
        counts.disentangled.done,
        sum(queue.dead_lettered for queue in stages),
        _oldest(stages, now),
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _oldest(stages: Iterable[Coverage | ProjectionCoverage], now: datetime) -> str:
    since = [queue.oldest_at for queue in stages if queue.oldest_at is not None]
    return str(timedelta(seconds=round((now - min(since)).total_seconds()))) if since else ""


@click.group()
def model() -> None:
    """Choose the embedding model of the org: `default`, or a name from ROOMLORE_EMBEDDINGS.

    A new model embeds everything in the background. Until it is done, searches use both models.
    """


@model.command("status", cls=OperationCommand, operation="embedding_versions.status")
def model_status(output: Output, versions: Sequence[EmbeddingVersionStatus]) -> None:
    """Show the current model, the progress of the next one, and the previous one."""
    for one in versions:
        output.text(model_line(one))


@model.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Embed now, and return when searches use the model.")
@click.pass_obj
def switch(session: Session, name: str, *, wait: bool) -> None:
    """Switch to the embedding model NAME when the worker has embedded everything with it."""

    async def use(app: App) -> None:
        acting = await session.impersonate(app)
        await _show_switch(acting, session.output, await acting.embedding_versions.switch(name), wait=wait)

    with_app(session, use)


@model.command()
@click.option("--wait", is_flag=True, help="Embed now what the previous model lacks.")
@click.pass_obj
def revert(session: Session, *, wait: bool) -> None:
    """Cancel a switch that is not done yet; otherwise switch back to the previous model."""

    async def use(app: App) -> None:
        acting = await session.impersonate(app)
        await _show_switch(acting, session.output, await acting.embedding_versions.back(), wait=wait)

    with_app(session, use)


async def _show_switch(app: App, output: Output, switched: ModelSwitch, *, wait: bool) -> None:
    if wait and not switched.is_done:
        with count_progress(output, "embedded", total=switched.waiting or None) as advance:
            switched = await app.embedding_versions.finish(advance)
    if switched.provider is None:
        text = "canceled; its vectors are removed"
    elif switched.is_done:
        text = f"searches use {switched.provider} now"
    else:
        left = count_phrase(switched.waiting, "text")
        text = f"{switched.provider} is next: {left} to be embedded by the worker; see roomlore model status"
    output.result(switched, text)


def model_line(one: EmbeddingVersionStatus) -> str:
    """Return the state of an embedding model in one line."""
    name = "never reached" if one.model is None else one.model
    dimensions = "" if one.dimensions is None else f", {one.dimensions} dimensions"
    since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M}"
    parts = [f"{one.state}{since}: {one.provider} ({name}{dimensions})"]
    parts.append(f"{one.done:,} of {count_phrase(one.total, 'text')} embedded")
    if one.waiting:
        parts.append(f"{one.waiting:,} pending")
    if one.dead_lettered:
        parts.append(f"{one.dead_lettered:,} failed: roomlore worker --drain --retry tries again")
    if one.failing_since is not None:
        parts.append(f"no vectors since {one.failing_since:%Y-%m-%d %H:%M:%S}: {one.error}")
    return "; ".join(parts)


@click.group()
def index() -> None:
    """Keep indexes in Qdrant and Neo4j.

    PostgreSQL has the data. The worker updates an index; you can drop, rebuild and compare it at any time. Results from
    it are checked against the database, so it shows nothing that a viewer may not see.
    """


@index.command("status", cls=OperationCommand, operation="projections.status")
def index_status(output: Output, indexes: Sequence[ProjectionStatus]) -> None:
    """Show the state of each index: ready or being built, what is pending, and since when a server fails."""
    for one in indexes:
        output.text(index_line(one))
    if not indexes:
        output.text("no index; roomlore index rebuild makes one")


@index.command()
@click.argument("target", type=click.Choice(TARGETS))
@click.pass_obj
def rebuild(session: Session, target: str) -> None:
    """Build an index from scratch beside the current one, and use it when it is complete."""

    async def use(app: App) -> None:
        acting = await session.impersonate(app)
        with count_progress(session.output, "indexed", total=None) as advance:
            waiting = partial(session.output.chatter.print, "waiting for transactions that began before")
            built = await acting.projections.rebuild(target, advance, waiting=waiting)
        session.output.result(built, index_line(built))

    with_app(session, use)


@index.command()
@click.argument("target", type=click.Choice(TARGETS))
@click.option("--repair", is_flag=True, help="Let the worker write again what differs.")
@click.pass_obj
def diff(session: Session, target: str, *, repair: bool) -> None:
    """Compare an index with the database; exit with 1 if they differ and --repair was not given."""

    async def use(app: App) -> ProjectionDiff:
        return await (await session.impersonate(app)).projections.diff(target, repair=repair)

    found = with_app(session, use)
    session.output.result(found, "\n".join(_diff_lines(found)))
    if found.count and not found.is_repaired:
        raise click.exceptions.Exit(1)


@index.command()
@click.argument("target", type=click.Choice(TARGETS))
@destructive_options
@click.pass_obj
def drop(session: Session, target: str, **options: bool) -> None:
    """Remove the index from a server; after that only the database is read."""
    check_answerable(**options)

    async def look(app: App) -> list[ProjectionStatus]:
        return [one for one in await app.projections.status() if one.target == target]

    async def destroy(app: App, _seen: list[ProjectionStatus] | None) -> None:
        await app.projections.drop(target)

    dropping = DestructiveAction(
        preview=look,
        execute=destroy,
        lines=lambda seen: _drop_preview(target, seen),
        question=f"Drop it? `roomlore index rebuild {target}` makes a new one.",
        refusal="nothing was dropped",
    )

    async def use(app: App) -> list[ProjectionStatus] | None:
        return await run_destructive(await session.impersonate(app), dropping, **options)

    seen = with_app(session, use)
    if seen is None:
        session.output.chatter.print(f"dropped the index in {target}")
    else:
        session.output.result(seen, "\n".join(_drop_preview(target, seen)))


def _drop_preview(target: str, seen: Sequence[ProjectionStatus]) -> list[str]:
    return ["dry run, nothing was dropped", *(map(index_line, seen) if seen else [f"no index in {target}"])]


def index_line(one: ProjectionStatus) -> str:
    """Return the state of an index in one line."""
    item = INDEXED_ITEMS[one.target]
    ready = "ready" if one.is_ready else "not ready"
    parts = [
        f"{one.target}: {ready}{', a new one is being built' if one.is_ready and one.is_building else ''}"
    ]
    if one.is_building and one.remaining is None:
        parts.append("its content is still to be queued before it is used")
    elif one.is_building and one.remaining is not None:
        parts.append(f"{count_phrase(one.remaining, item)} still to be written before it is used")
    if one.waiting:
        lag = timedelta(seconds=round(one.lag_seconds))
        parts.append(f"{count_phrase(one.waiting, item)} to be written, the oldest for {lag}")
    if one.dead_lettered:
        parts.append(f"{count_phrase(one.dead_lettered, item)} failed: roomlore worker --retry tries again")
    if one.failing_since is not None:
        parts.append(f"failing since {one.failing_since:%Y-%m-%d %H:%M:%S}: {one.error}")
    return "; ".join(parts)


def _diff_lines(found: ProjectionDiff) -> list[str]:
    lines = [f"{count_phrase(found.compared, INDEXED_ITEMS[found.target])} on both sides"]
    for what, ids in (("missing", found.missing), ("extra", found.extra), ("different", found.different)):
        if ids:
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            lines.append(f"{len(ids)} {what}: {' '.join(str(one) for one in ids[:SHOWN])}{more}")
    if found.is_repaired:
        lines.append("queued again; the worker writes them")
    elif not found.count:
        lines.append("no difference")
    return lines
