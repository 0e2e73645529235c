"""Verbs for whoever runs it: copies in other servers."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.output import Output
from roomlore.cli.progress import count_progress
from roomlore.cli.session import Session, with_app
from roomlore.db.projections import TARGETS, Target
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App
from roomlore.operations.projection_service import ProjectionDiff, ProjectionStatus

#: So many ids of a difference are shown.
SHOWN = 10
#: What a copy consists of.
INDEXED_ITEMS: Mapping[Target, str] = {"qdrant": "message", "neo4j": "node"}


@click.group()
def project() -> None:
    """Keep copies in Qdrant and Neo4j: rebuildable, and never asked for what a viewer may not see.

    PostgreSQL is the truth. A copy is kept up to date by the worker, and can be dropped, rebuilt and compared at any time.
    """


@project.command()
@click.pass_obj
def status(session: Session) -> None:
    """Show how the copies do: ready or being built, what waits to be written, since when a server fails."""

    async def use(app: App) -> None:
        copies = await (await session.acting(app)).projecting.status()
        if session.output.as_json:
            session.output.json(copies)
        elif copies:
            for one in copies:
                session.output.text(line(one))
        else:
            session.output.text("no copies; roomlore project rebuild makes one")

    with_app(session, use)


@project.command()
@click.argument("target", type=click.Choice(TARGETS))
@click.pass_obj
def rebuild(session: Session, target: str) -> None:
    """Build a copy from nothing, beside the one that is read, and read it once it is whole."""

    async def use(app: App) -> None:
        acting = await session.acting(app)
        with count_progress(session.output, "copied", total=None) as advance:
            waiting = partial(session.output.chatter.print, "waiting for changes that began before")
            built = await acting.projecting.rebuild(target, advance, waiting=waiting)
        if session.output.as_json:
            session.output.json(built)
        else:
            session.output.text(line(built))

    with_app(session, use)


@project.command()
@click.argument("target", type=click.Choice(TARGETS))
@click.option("--repair", is_flag=True, help="Let what differs be written anew by the worker.")
@click.pass_obj
def diff(session: Session, target: str, repair: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Compare a copy with the database; exit with 1 where they differ and nothing is done about it."""

    async def use(app: App) -> ProjectionDiff:
        return await (await session.acting(app)).projecting.diff(target, repair=repair)

    found = with_app(session, use)
    if session.output.as_json:
        session.output.json(found)
    else:
        _show(session.output, found)
    if found.count and not found.is_repaired:
        raise click.exceptions.Exit(1)


@project.command()
@click.argument("target", type=click.Choice(TARGETS))
@destructive_options
@click.pass_obj
def drop(session: Session, target: str, **options: bool) -> None:
    """Have no copies in a server any more; the database alone is read."""
    check_answerable(**options)

    async def look(app: App) -> list[ProjectionStatus]:
        return [one for one in await app.projecting.status() if one.target == target]

    async def destroy(app: App, _seen: list[ProjectionStatus] | None) -> None:
        await app.projecting.drop(target)

    dropping = DestructiveAction(
        preview=look,
        execute=destroy,
        lines=lambda seen: _drop_preview(target, seen),
        question=f"Drop them? `roomlore project rebuild {target}` makes new ones.",
        refusal="nothing was dropped",
    )

    async def use(app: App) -> list[ProjectionStatus] | None:
        return await run_destructive(await session.acting(app), dropping, **options)

    seen = with_app(session, use)
    if seen is None:
        session.output.chatter.print(f"no copies in {target} any more")
    elif session.output.as_json:
        session.output.json(seen)
    else:
        for one in _drop_preview(target, seen):
            session.output.text(one)


def _drop_preview(target: str, seen: Sequence[ProjectionStatus]) -> list[str]:
    return ["dry run, nothing was dropped", *(map(line, seen) if seen else [f"no copies in {target}"])]


def line(one: ProjectionStatus) -> str:
    """Return how the copies in a server do, in a line."""
    how = "ready" if one.is_ready else "not ready"
    parts = [f"{one.target}: {how}{', another one being built' if one.is_ready and one.is_building else ''}"]
    if one.is_building:
        left = (
            "what it is to hold"
            if one.to_build is None
            else count_phrase(one.to_build, INDEXED_ITEMS[one.target])
        )
        parts.append(
            f"{left} still to be {'asked for' if one.to_build is None else 'written'} before it is read"
        )
    if one.waiting:
        lag = timedelta(seconds=round(one.lag_seconds))
        parts.append(
            f"{count_phrase(one.waiting, INDEXED_ITEMS[one.target])} to be written, the oldest for {lag}"
        )
    if one.set_aside:
        parts.append(
            f"{count_phrase(one.set_aside, INDEXED_ITEMS[one.target])} set aside: roomlore worker --retry tries again"
        )
    if one.failing_since is not None:
        parts.append(f"failing since {one.failing_since:%Y-%m-%d %H:%M:%S}: {one.error}")
    return "; ".join(parts)


def _show(output: Output, found: ProjectionDiff) -> None:
    output.text(f"{count_phrase(found.compared, INDEXED_ITEMS[found.target])} on both sides")
    for what, ids in (("missing", found.missing), ("extra", found.extra), ("different", found.different)):
        if ids:
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            output.text(f"{len(ids)} {what}: {' '.join(str(one) for one in ids[:SHOWN])}{more}")
    if found.is_repaired:
        output.text("asked for anew; the worker writes them")
    elif not found.count:
        output.text("no difference")
