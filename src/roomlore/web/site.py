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

from roomlore.domain.errors import RoomloreError
from roomlore.http.problems import ErrorMiddleware
from roomlore.operations import App
from roomlore.web.authentication import PageAuthenticationMiddleware
from roomlore.web.errors import handle_error, handle_fault
from roomlore.web.pages import PageRoutes, all_routes
from roomlore.web.routes import (
    context_explanation,
    conversation,
    memories,
    monitoring,
    people,
    receipts,
    room_management,
    rooms,
    search,
    signin,
    timeline,
)

PAGE_GROUPS: tuple[PageRoutes, ...] = (
    signin.PAGES,
    rooms.PAGES,
    room_management.PAGES,
    timeline.PAGES,
    conversation.PAGES,
    memories.PAGES,
    context_explanation.PAGES,
    search.PAGES,
    people.PAGES,
    receipts.PAGES,
    monitoring.PAGES,
)
STATIC = Path(__file__).parent / "static"
#: A file's address changes with what is in it.
CACHE_FOREVER = "public, max-age=31536000, immutable"


class _StaticFiles(StaticFiles):
    async def get_response(self, path: str, scope: dict[str, object]) -> Response:  # type: ignore[override]
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = CACHE_FOREVER
        return response


def build(rooms_app: App, *, local: bool, stop: Callable[[], asyncio.Event] = asyncio.Event) -> ASGIApp:
    """Return the application that shows an App's rooms to people.

    It expects to be within an envelope that gives requests their ids.

    Args:
        rooms_app: The App of an operator without a key, of one org or of all in its database.
        local: Whether whoever sits at this machine comes in as operator, without a key.
        stop: Gives what is set when streams are to end.
    """
    pages = Starlette(
        routes=[*all_routes(*PAGE_GROUPS), Mount("/static", _StaticFiles(directory=STATIC))],
        exception_handlers={RoomloreError: handle_error, HTTPException: handle_error},
        middleware=[Middleware(ErrorMiddleware, answer=handle_fault)],
    )
    pages.router.redirect_slashes = False
    pages.state.served, pages.state.stop = rooms_app, stop
    return PageAuthenticationMiddleware(app=pages, served=rooms_app, local=local)
