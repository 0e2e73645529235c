"""The ASGI application of the pages."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from roomlore.app import App
from roomlore.domain.errors import RoomloreError
from roomlore.surfaces.http.problems import Problems
from roomlore.surfaces.web.doors import Door
from roomlore.surfaces.web.faults import on_error, on_fault
from roomlore.surfaces.web.pages import Pages, gathered
from roomlore.surfaces.web.routes import (
    conversation,
    finding,
    managing,
    memories,
    operations,
    people,
    receipts,
    rooms,
    signin,
    timeline,
    why,
)

KINDS: tuple[Pages, ...] = (
    signin.PAGES,
    rooms.PAGES,
    managing.PAGES,
    timeline.PAGES,
    conversation.PAGES,
    memories.PAGES,
    why.PAGES,
    finding.PAGES,
    people.PAGES,
    receipts.PAGES,
    operations.PAGES,
)
STATIC = Path(__file__).parent / "static"
#: A file's address changes with what is in it.
KEPT = "public, max-age=31536000, immutable"


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: dict[str, object]) -> Response:  # type: ignore[override]
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = KEPT
        return response


def build(served: App, *, local: bool, stop: Callable[[], asyncio.Event] = asyncio.Event) -> ASGIApp:
    """Return the application that shows an App's rooms to people.

    It expects to be within an envelope that gives requests their ids.

    Args:
        served: The App of an operator without a key, of one org or of all in its database.
        local: Whether whoever sits at this machine comes in as operator, without a key.
        stop: Gives what is set when streams are to end.
    """
    pages = Starlette(
        routes=[*gathered(*KINDS), Mount("/static", _Files(directory=STATIC))],
        exception_handlers={RoomloreError: on_error, HTTPException: on_error},
        middleware=[Middleware(Problems, answer=on_fault)],
    )
    pages.router.redirect_slashes = False
    pages.state.served, pages.state.stop = served, stop
    return Door(app=pages, served=served, local=local)
