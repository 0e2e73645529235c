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
    rooms,
    search,
    signin,
    timeline,
)

PAGE_GROUPS: tuple[PageRoutes, ...] = (
    signin.PAGES,
    rooms.PAGES,
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
#: The header for files whose address changes with their content.
CACHE_FOREVER = "public, max-age=31536000, immutable"


class _StaticFiles(StaticFiles):
    async def get_response(self, path: str, scope: dict[str, object]) -> Response:  # type: ignore[override]
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = CACHE_FOREVER
        return response


def build(rooms_app: App, *, local: bool, stop: Callable[[], asyncio.Event] = asyncio.Event) -> ASGIApp:
    """Return the application of the pages.

    It must be wrapped in SecurityHeadersMiddleware, which sets request ids.

    Args:
        rooms_app: The App of an operator without a key, for one org or for all orgs of its database.
        local: Whether the pages are for the operator at this machine, without a key.
        stop: Returns the event that ends streams.
    """
    pages = Starlette(
        routes=[*all_routes(*PAGE_GROUPS), Mount("/static", _StaticFiles(directory=STATIC))],
        exception_handlers={RoomloreError: handle_error, HTTPException: handle_error},
        middleware=[Middleware(ErrorMiddleware, answer=handle_fault)],
    )
    pages.router.redirect_slashes = False
    pages.state.served, pages.state.stop = rooms_app, stop
    return PageAuthenticationMiddleware(app=pages, served=rooms_app, local=local)
