"""Verbs for whoever runs it: numbers to watch, and what a room embeds."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import get_args

import click

from roomlore.cli import embedding as embedding_models
from roomlore.cli import projections
from roomlore.cli.output import Output, retention
from roomlore.cli.session import Session, with_app
from roomlore.db.stats import Latency
from roomlore.db.work_queue import EmbeddingPolicy
from roomlore.domain.clock import CLOCK_REMEDY
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App
from roomlore.operations.monitoring import (
    Coverage,
    OrgStatistics,
    ProjectionCoverage,
    RoomCounts,
    RoomStatistics,
)

HEADINGS = (
    "room", "embeds", "messages", "in exchanges", "size", "legacy", "vectors", "saved", "to embed", "untangled",
    "set aside", "oldest waiting",
)  # fmt: skip


@click.command()
@click.pass_obj
def ops(session: Session) -> None:
    """Show how far the work has come in each room, how messages stand in exchanges, how long reads take."""

    async def use(app: App) -> None:
        numbers = await (await session.acting(app)).operations.numbers()
        if session.output.as_json:
            session.output.json(numbers)
        else:
            show(session.output, numbers)

    with_app(session, use)


@click.command()
@click.argument("room")
@click.argument("policy", type=click.Choice(get_args(EmbeddingPolicy)))
@click.pass_obj
def embedding(session: Session, room: str, policy: EmbeddingPolicy) -> None:
    """Say what ROOM embeds: each message, or of an exchange only what opens it, which carries the answers."""

    async def use(app: App) -> None:
        change = await (await session.acting(app)).operations.embed(room, policy)
        if session.output.as_json:
            session.output.json({"room": room, "policy": policy, "change": change})
        else:
            dropped, wanted = count_phrase(change.dropped, "vector"), count_phrase(change.wanted, "message")
            session.output.text(
                f"{room} embeds each {policy}: {dropped} dropped, {wanted} to be embedded by the worker"
            )

    with_app(session, use)


def show(output: Output, numbers: OrgStatistics) -> None:
    """Print numbers as tables: the rooms, what all of them come to, and how long reads take."""
    rows = [(room.name, room.embedding_policy, *_cells(room.counts, numbers.at)) for room in numbers.rooms]
    output.table(HEADINGS, [*rows, ("all rooms", "", *_cells(numbers.counts, numbers.at))])
    _show_retention(output, numbers.rooms)
    for wrong in numbers.clock:
        output.text(f"the clock may be wrong: {wrong}; {CLOCK_REMEDY}", style="yellow")
    if numbers.counts.looked_at < numbers.counts.messages:
        looked_at = f"{numbers.counts.looked_at:,} of {count_phrase(numbers.counts.messages, 'message')}"
        output.text(f"shares, sizes and savings from the newest {looked_at}", style="dim")
    extracted = numbers.counts.extracted
    waiting = count_phrase(extracted.waiting, "conversation")
    output.text(
        f"memories drawn from {count_phrase(extracted.done, 'message')}; {waiting} over and to be gone through"
    )
    listened = numbers.counts.listened
    if listened.waiting or listened.set_aside:
        output.text(
            f"privacy requests: {count_phrase(listened.waiting, 'message')} still to be listened to,"
            f" {listened.set_aside:,} given up; roomlore worker --drain --retry tries these again"
        )
    readings = numbers.readings
    if readings.calls_today or readings.error:
        why = f"; {readings.error}" if readings.error else ""
        unread = count_phrase(readings.waiting, "conversation")
        output.text(
            f"language model: {unread} to read, {count_phrase(readings.calls_today, 'call')} today{why}"
        )
    for one in numbers.embedding:
        output.text(f"vectors: {embedding_models.line(one)}")
    _show_projections(output, numbers)
    hits = numbers.blocks
    share = "" if hits.rate is None else f", {hits.rate:.0%}"
    output.text(
        f"memory blocks: {hits.hits} of {hits.asked} shown again{share}; each process counts its own",
        style="dim",
    )
    if numbers.latencies:
        output.text()
        _show_latencies(output, numbers.latencies)


def _show_projections(output: Output, numbers: OrgStatistics) -> None:
    """Print how copies do, and in which rooms messages wait for which."""
    for one in numbers.copies:
        output.text(f"copies in {projections.line(one)}")
    rows = [(room.name, *(one.waiting for one in room.counts.projected)) for room in numbers.rooms]
    behind = [row for row in rows if any(row[1:])]
    if behind:
        output.table(("messages wait in", *(f"for {one.target}" for one in numbers.copies)), behind)


def _show_latencies(output: Output, latencies: Iterable[Latency]) -> None:
    rows = [
        (one.action, one.format, one.reads, f"{one.p50_ms:.0f} ms", f"{one.p95_ms:.0f} ms")
        for one in latencies
    ]
    output.table(("read", "where rooms embed", "reads", "p50", "p95"), rows)


def _show_retention(output: Output, rooms: Iterable[RoomStatistics]) -> None:
    """Print which rooms keep what was said for a time, which will keep less than they do, and what goes then."""
    for room in rooms:
        kept = f"{room.name} keeps {retention(room.keep_for, room.retention_starts_at)}"
        if room.in_grace is not None:
            gone = count_phrase(room.in_grace, "message")
            before = retention(room.kept_until_then, None)
            output.text(f"{kept}, until then {before}; {gone} in grace", style="yellow")
        elif room.keep_for is not None:
            output.text(kept)


def _cells(counts: RoomCounts, now: datetime) -> Sequence[str | int]:
    size = "" if counts.exchange_size is None else f"{counts.exchange_size:.1f}"
    stages = (counts.embedded, counts.untangled, counts.extracted, counts.listened, *counts.projected)
    return (
        counts.messages,
        _percent(counts.share_in_exchanges),
        size,
        _percent(counts.legacy_share),
        counts.vectors,
        counts.vectors_saved,
        counts.embedded.waiting,
        counts.untangled.done,
        sum(stage.set_aside for stage in stages),
        _oldest(stages, now),
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _oldest(stages: Iterable[Coverage | ProjectionCoverage], now: datetime) -> str:
    since = [stage.oldest_at for stage in stages if stage.oldest_at is not None]
    return str(timedelta(seconds=round((now - min(since)).total_seconds()))) if since else ""
