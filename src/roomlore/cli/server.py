"""Verbs that serve: pages, the HTTP API and workers; or the Model Context Protocol on standard input and output."""

import sys
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from roomlore.cli.output import Output
from roomlore.cli.session import Session, stop_on_signals, with_app
from roomlore.client.server import is_loopback
from roomlore.domain.errors import BadInput
from roomlore.domain.rendering import safe_name
from roomlore.operations import App

if TYPE_CHECKING:
    from roomlore.web.gateway import EnabledSurfaces

REQUIRED_PACKAGES = ("fastapi", "jinja2", "prometheus_client", "python_multipart", "uvicorn")
REACHABLE_NOTE = (
    "other machines can reach this one: nobody gets in without a key, and you should put TLS in front"
)
MCP_MISSING = "it needs more packages; run: pip install 'roomlore[mcp]'"


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is every interface."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7171, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--workers/--no-workers", default=True, help="Also run the background workers. [workers]")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=50,
    show_default=True,
    help="Requests per second for each key.",
)
@click.option("--web/--no-web", default=True, help="Serve the pages. [pages]")
@click.option("--api/--no-api", default=True, help="Serve the API and /mcp. [API]")
@click.option("--local", is_flag=True, help="Open the pages on this machine as operator, without a key.")
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Trust the client address that this proxy adds to X-Forwarded-For. Repeatable.",
)
@click.option("--mcp/--no-mcp", default=None, help="Serve the Model Context Protocol at /mcp. [if installed]")
@click.option("--allow-writes", is_flag=True, help="Let language models at /mcp write what their key allows.")
@click.pass_obj
def serve(session: Session, host: str, port: int, *, workers: bool, rate: float, **more: Any) -> None:
    """Serve the pages and the HTTP API under /v1, and run the workers; clients need a key.

    With --org, only keys of that org are accepted, otherwise keys of every org of the database.
    """
    if any(find_spec(name) is None for name in REQUIRED_PACKAGES):
        raise BadInput("serve", "it needs more packages; run: pip install 'roomlore[server]'")
    if session.settings.key is not None or session.viewer is not None:
        raise BadInput("serve", "clients bring their own keys; leave out ROOMLORE_KEY and --as")
    from roomlore.http import runtime  # noqa: PLC0415  needs an extra
    from roomlore.http.headers import address  # noqa: PLC0415  as above
    from roomlore.http.limits import RequestLimits  # noqa: PLC0415  as above
    from roomlore.web.gateway import EnabledSurfaces, compose  # noqa: PLC0415  as above

    proxies = frozenset(map(address, more.pop("proxies")))
    surfaces = EnabledSurfaces(
        api=more.pop("api"), pages=more.pop("web"), local=more.pop("local"), proxies=proxies
    )
    _check_surfaces(host, surfaces, is_loopback=is_loopback(host))
    mounted = _mounted_apps(**more)
    chatter, limits = session.output.chatter, RequestLimits(rate=rate, burst=max(1, round(4 * rate)))

    async def use(app: App) -> None:
        runtime.raise_file_limit()
        stop = stop_on_signals()
        with runtime.listen(host, port) as listening:
            address_text = f"{host}:{listening.getsockname()[1]}"
            paths = " and ".join(["/v1", *mounted]) if surfaces.api else ""
            chatter.print(f"serving {address_text}{paths}; Ctrl-C stops", markup=False)
            if surfaces.pages:
                chatter.print(f"pages: http://{address_text}/", markup=False)
            if not is_loopback(host):
                chatter.print(REACHABLE_NOTE, style="yellow")
            wrap = partial(compose, served=app, surfaces=surfaces, limits=limits)
            await runtime.serve(
                app, listening, limits=limits, workers=workers, stop=stop, mounted=mounted, wrap=wrap
            )

    with_app(session, use)


@click.command()
@click.option("--allow-writes", is_flag=True, help="Also write what the viewer may write.")
@click.pass_obj
def mcp(session: Session, *, allow_writes: bool) -> None:
    """Serve the Model Context Protocol on standard input and output, to the program that starts this.

    The viewer is the participant that --as or ROOMLORE_KEY names, otherwise the operator, who sees everything.
    """
    if not _has_mcp():
        raise BadInput("mcp", MCP_MISSING)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  None if the parent process closed it
        raise BadInput("mcp", "it reads standard input; let a program start it")
    from roomlore.mcp import stdio  # noqa: PLC0415  needs an extra

    async def use(app: App) -> None:
        stop = stop_on_signals()
        acting = await session.impersonate(app)
        await _show_introduction(acting, session.output)
        await stdio.serve(acting, allow_writes=allow_writes, stop=stop)

    with_app(session, use)


async def _show_introduction(app: App, output: Output) -> None:
    viewer = app.access.principal
    if viewer.participant_id is None:
        name = "the operator, who sees everything; --as NAME reads for a participant"
    else:
        known = await app.people.accounts(viewer, str(viewer.participant_id))
        name = next((safe_name(one.name) for one in known), str(viewer.participant_id))
    output.chatter.print(f"reading for {name}", markup=False)


def _check_surfaces(host: str, surfaces: "EnabledSurfaces", *, is_loopback: bool) -> None:
    """Raise BadInput if nothing would be served, or if --local would be open to other machines."""
    if not (surfaces.api or surfaces.pages):
        raise BadInput("serve", "there is nothing to serve; leave out --no-web or --no-api")
    if surfaces.local and not surfaces.pages:
        raise BadInput("--local", "is for the pages; leave out it or --no-web")
    if surfaces.local and surfaces.proxies:
        raise BadInput("--local", "is only for this machine, without a proxy; leave out --trusted-proxy")
    if surfaces.local and not is_loopback:
        raise BadInput("--local", f"is only for this machine, and {host} is not; leave out --host")


def _mounted_apps(*, mcp: bool | None, allow_writes: bool) -> Mapping[str, Any]:
    """Return the apps served beside the API, by path."""
    if mcp is False and allow_writes:
        raise BadInput("--allow-writes", "is for /mcp; leave out it or --no-mcp")
    if (mcp or allow_writes) and not _has_mcp():
        raise BadInput("--mcp", MCP_MISSING)
    if mcp is False or not _has_mcp():
        return {}
    from roomlore.mcp.http_transport import PATH, mcp_app  # noqa: PLC0415  needs an extra

    return {PATH: mcp_app(allow_writes=allow_writes)}


def _has_mcp() -> bool:
    return find_spec("mcp") is not None
