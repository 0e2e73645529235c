"""Verbs for whoever runs it: which embedding model serves the org."""

import click

from roomlore.cli.output import Output
from roomlore.cli.progress import count_progress
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App
from roomlore.operations.embedding_versions import EmbeddingVersionStatus, ModelSwitch

STATE_NAMES = {"current": "searched by", "next": "coming", "previous": "before"}


@click.group()
def embed() -> None:
    """Choose the embedding model of the org: `default`, or one that ROOMLORE_EMBEDDINGS names.

    A new one embeds everything in the background; searches ask both meanwhile, and the new one alone once it is whole.
    """


@embed.command()
@click.pass_obj
def status(session: Session) -> None:
    """Show which model is searched by, how far the next one has come, and which one it is possible to go back to."""

    async def use(app: App) -> None:
        held = await (await session.acting(app)).generations.status()
        if session.output.as_json:
            session.output.json(held)
        else:
            for one in held:
                session.output.text(line(one))

    with_app(session, use)


@embed.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Embed here and now, and return once searches use the model.")
@click.pass_obj
def switch(session: Session, name: str, wait: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Search by the embedding model NAME once it has embedded everything; the worker does that."""

    async def use(app: App) -> None:
        acting = await session.acting(app)
        await _show_progress(acting, session.output, await acting.generations.switch(name), wait=wait)

    with_app(session, use)


@embed.command()
@click.option("--wait", is_flag=True, help="Embed here and now what the model before lacks.")
@click.pass_obj
def back(session: Session, wait: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Give up the switch that is under way; without one, go back to the model before."""

    async def use(app: App) -> None:
        acting = await session.acting(app)
        await _show_progress(acting, session.output, await acting.generations.back(), wait=wait)

    with_app(session, use)


async def _show_progress(app: App, output: Output, asked: ModelSwitch, *, wait: bool) -> None:
    """Tell what a switch has come to, after waiting for it if that is wanted."""
    if wait and not asked.is_done:
        with count_progress(output, "embedded", total=asked.waiting or None) as advance:
            asked = await app.generations.finish(advance)
    if output.as_json:
        output.json(asked)
    elif asked.provider is None:
        output.text("given up; its vectors are gone")
    elif asked.is_done:
        output.text(f"searched by {asked.provider} now")
    else:
        left = count_phrase(asked.waiting, "text")
        output.text(f"{asked.provider} is coming: {left} to be embedded by the worker; roomlore embed status")


def line(one: EmbeddingVersionStatus) -> str:
    """Return how the vectors of a model do, in a line."""
    space = "never reached" if one.model is None else one.model
    length = "" if one.dimensions is None else f", {one.dimensions} dimensions"
    since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M}"
    parts = [f"{STATE_NAMES[one.state]}{since}: {one.provider} ({space}{length})"]
    parts.append(f"{one.done:,} of {count_phrase(one.wanted, 'text')} embedded")
    if one.waiting:
        parts.append(f"{one.waiting:,} waiting")
    if one.set_aside:
        parts.append(f"{one.set_aside:,} set aside: roomlore worker --drain --retry tries again")
    if one.failing_since is not None:
        parts.append(f"no vectors since {one.failing_since:%Y-%m-%d %H:%M:%S}: {one.error}")
    return "; ".join(parts)
