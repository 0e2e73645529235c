"""The verb that serves one language model over standard input and output."""

import asyncio
import signal
import sys
from importlib.util import find_spec

import click

from roomlore.cli.output import Output
from roomlore.cli.session import Session, with_app
from roomlore.domain.errors import BadInput
from roomlore.domain.rendering import safe_name
from roomlore.operations import App

MISSING = "it needs more; run: pip install 'roomlore[mcp]'"


def is_installed() -> bool:
    """Whether there is what speaks the protocol."""
    return find_spec("mcp") is not None


@click.command()
@click.option("--allow-writes", is_flag=True, help="Also write what whoever it reads for may write.")
@click.pass_obj
def mcp(session: Session, *, allow_writes: bool) -> None:
    """Serve the Model Context Protocol on standard input and output, to the program that starts this.

    It reads for whom --as names, or whoever ROOMLORE_KEY lets in; otherwise for the operator, who sees everything.
    """
    if not is_installed():
        raise BadInput("mcp", MISSING)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  closed by whoever started us
        raise BadInput("mcp", "it is spoken to on standard input; have a program start it")
    from roomlore.mcp import stdio  # noqa: PLC0415  not everybody has what it needs

    async def use(app: App) -> None:
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        acting = await session.acting(app)
        await _show_introduction(acting, session.output)
        await stdio.serve(acting, allow_writes=allow_writes, stop=stop)

    with_app(session, use)


async def _show_introduction(app: App, output: Output) -> None:
    viewer = app.access.principal
    if viewer.participant_id is None:
        who = "the operator, who sees everything; --as NAME reads for somebody"
    else:
        known = await app.people.accounts(viewer, str(viewer.participant_id))
        who = next((safe_name(one.name) for one in known), str(viewer.participant_id))
    output.chatter.print(f"reading for {who}", markup=False)
