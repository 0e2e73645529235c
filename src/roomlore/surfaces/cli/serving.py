"""The verb that serves: the HTTP API, and the workers beside it."""

import asyncio
import signal
from importlib.util import find_spec

import click

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.surfaces.cli.session import Session, with_app

NEEDED = ("fastapi", "prometheus_client", "uvicorn")
BEYOND = (
    "this machine can be reached from others: nobody gets in without a key, and TLS belongs in front of it"
)


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 is everywhere."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7171, show_default=True, help="0 is any that is free."
)
@click.option("--workers/--no-workers", default=True, help="Also do what is to be done. [workers]")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=50,
    show_default=True,
    help="Requests of each key in a second.",
)
@click.pass_obj
def serve(session: Session, host: str, port: int, *, workers: bool, rate: float) -> None:
    """Serve the HTTP API under /v1, to whoever comes with a key, and do the work that waits.

    With --org to that org's keys alone, otherwise to those of every org of the database.
    """
    if any(find_spec(name) is None for name in NEEDED):
        raise BadInput("serve", "it needs more; run: pip install 'roomlore[server]'")
    if session.settings.key is not None or session.viewer is not None:
        raise BadInput("serve", "whoever comes shows a key of their own; leave out ROOMLORE_KEY and --as")
    from roomlore.surfaces.http import running  # noqa: PLC0415  not everybody has what it needs
    from roomlore.surfaces.http.limits import Limits  # noqa: PLC0415  as above

    chatter, limits = session.output.chatter, Limits(rate=rate, burst=max(1, round(4 * rate)))

    async def use(app: App) -> None:
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        with running.listen(host, port) as listening:
            chatter.print(f"serving {host}:{listening.getsockname()[1]}/v1; Ctrl-C stops", markup=False)
            if not running.is_loopback(host):
                chatter.print(BEYOND, style="yellow")
            await running.serve(app, listening, limits=limits, workers=workers, stop=stop)

    with_app(session, use)


VERBS = (serve,)
