"""The verb that serves: pages, the HTTP API, and the workers beside them."""

import asyncio
import signal
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from roomlore.cli import mcp_server
from roomlore.cli.session import Session, with_app
from roomlore.domain.errors import BadInput
from roomlore.operations import App

if TYPE_CHECKING:
    from roomlore.web.gateway import EnabledSurfaces

REQUIRED_PACKAGES = ("fastapi", "jinja2", "prometheus_client", "python_multipart", "uvicorn")
REACHABLE_NOTE = (
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
@click.option("--web/--no-web", default=True, help="Also the pages, for people. [pages]")
@click.option("--api/--no-api", default=True, help="Also the API, for programs, and /mcp. [API]")
@click.option(
    "--local", is_flag=True, help="Open the pages to whoever sits at this machine, as operator without a key."
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe this proxy where a request comes from, by what it adds to X-Forwarded-For.",
)
@click.option("--mcp/--no-mcp", default=None, help="Also the Model Context Protocol at /mcp. [if installed]")
@click.option(
    "--allow-writes", is_flag=True, help="Let language models write at /mcp what their key may write."
)
@click.pass_obj
def serve(session: Session, host: str, port: int, *, workers: bool, rate: float, **more: Any) -> None:
    """Serve pages, and the HTTP API under /v1, to whoever comes with a key, and do the work that waits.

    With --org to that org's keys alone, otherwise to those of every org of the database.
    """
    if any(find_spec(name) is None for name in REQUIRED_PACKAGES):
        raise BadInput("serve", "it needs more; run: pip install 'roomlore[server]'")
    if session.settings.key is not None or session.viewer is not None:
        raise BadInput("serve", "whoever comes shows a key of their own; leave out ROOMLORE_KEY and --as")
    from roomlore.http import runtime  # noqa: PLC0415  not everybody has what it needs
    from roomlore.http.limits import RequestLimits  # noqa: PLC0415  as above
    from roomlore.http.proxies import address  # noqa: PLC0415  as above
    from roomlore.web.gateway import EnabledSurfaces, compose  # noqa: PLC0415  as above

    proxies = frozenset(map(address, more.pop("proxies")))
    ways = EnabledSurfaces(
        api=more.pop("api"), pages=more.pop("web"), local=more.pop("local"), proxies=proxies
    )
    _check_surfaces(host, ways, is_loopback=runtime.is_loopback(host))
    beside = _mounted_apps(**more)
    chatter, limits = session.output.chatter, RequestLimits(rate=rate, burst=max(1, round(4 * rate)))

    async def use(app: App) -> None:
        runtime.raise_file_limit()
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        with runtime.listen(host, port) as listening:
            place = f"{host}:{listening.getsockname()[1]}"
            paths = " and ".join(["/v1", *beside]) if ways.api else ""
            chatter.print(f"serving {place}{paths}; Ctrl-C stops", markup=False)
            if ways.pages:
                chatter.print(f"pages: http://{place}/", markup=False)
            if not runtime.is_loopback(host):
                chatter.print(REACHABLE_NOTE, style="yellow")
            around = partial(compose, served=app, ways=ways, limits=limits)
            await runtime.serve(
                app, listening, limits=limits, workers=workers, stop=stop, mounted=beside, wrap=around
            )

    with_app(session, use)


def _check_surfaces(host: str, surfaces: "EnabledSurfaces", *, is_loopback: bool) -> None:
    """Do nothing if somebody can come in, and nobody who should not.

    Raises:
        BadInput: there is no way in, or pages for this machine alone would listen to others.
    """
    if not (surfaces.api or surfaces.pages):
        raise BadInput("serve", "nothing is left to serve; leave out --no-web or --no-api")
    if surfaces.local and not surfaces.pages:
        raise BadInput("--local", "is for the pages; leave it or --no-web out")
    if surfaces.local and surfaces.proxies:
        raise BadInput("--local", "is for this machine alone, and for no proxy; leave out --trusted-proxy")
    if surfaces.local and not is_loopback:
        raise BadInput("--local", f"is for this machine alone, and {host} is not; leave out --host")


def _mounted_apps(*, mcp: bool | None, allow_writes: bool) -> Mapping[str, Any]:
    """Return what is served beside the API, by path.

    Raises:
        BadInput: it is wanted, and what it needs is not installed.
    """
    wanted = mcp or allow_writes
    if mcp is False and allow_writes:
        raise BadInput("--allow-writes", "is for /mcp; leave it or --no-mcp out")
    if wanted and not mcp_server.is_installed():
        raise BadInput("--mcp", mcp_server.MISSING)
    if mcp is False or not mcp_server.is_installed():
        return {}
    from roomlore.mcp.http_transport import PATH, mcp_app  # noqa: PLC0415  not everybody has what it needs

    return {PATH: mcp_app(allow_writes=allow_writes)}
