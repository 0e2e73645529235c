"""The ASGI application around an App: what every request passes on its way in, and the routes."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from time import monotonic
from uuid import UUID

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from roomlore.domain.errors import BadInput, RoomloreError
from roomlore.domain.ids import uuid7
from roomlore.domain.phrases import unknown_name_hint
from roomlore.http.authentication import AuthenticationMiddleware
from roomlore.http.headers import SLASH, SecurityHeadersMiddleware
from roomlore.http.idempotency import IdempotencyMiddleware
from roomlore.http.limits import LimitMiddleware, RequestLimits
from roomlore.http.metrics import PATH, InFlightMiddleware, Metrics, MetricsMiddleware
from roomlore.http.openapi import openapi_document, parameters
from roomlore.http.operations import routers
from roomlore.http.problems import ErrorMiddleware, handle_error
from roomlore.http.responses import json_response
from roomlore.http.routes import (
    agents,
    contexts,
    conversations,
    erasure,
    events,
    health,
    ingest,
    monitoring,
    participants,
    rooms,
    search,
    viewers,
)
from roomlore.operations import App

#: Routes that are written by hand: pages with cursors, streams, and answers that are not the result alone.
ROUTERS = (
    rooms, contexts, participants, viewers, ingest, conversations, search, agents, erasure, events, monitoring, health,
)  # fmt: skip
OPENAPI_PATH = "/v1/openapi.json"


def build(
    rooms_app: App,
    *,
    limits: RequestLimits | None = None,
    clock: Callable[[], float] = monotonic,
    new_id: Callable[[], UUID] = uuid7,
    mounted: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """Return the application that serves an App; each request acts on behalf of whoever's key it shows.

    Args:
        rooms_app: The App of an operator without a key, of one org or of all in its database.
        limits: How much is too much.
        clock: Seconds, from whenever.
        new_id: Gives ids to requests that have none.
        mounted: What else is served behind the same doors, by path.
    """
    metrics, api = Metrics(), _new_app()
    # What routes are of is read from types, which takes longer than all else: once in a process is enough.
    api.router.routes.extend(routes_app().router.routes)
    api.openapi = routes_app().openapi
    api.router.routes.extend(Route(path, one) for path, one in (mounted or {}).items())
    api.state.served, api.state.metrics, api.state.stop = rooms_app, metrics, asyncio.Event()
    # The last that is added is the first to be passed.
    api.add_middleware(InFlightMiddleware, metrics=metrics)
    api.add_middleware(IdempotencyMiddleware)
    api.add_middleware(AuthenticationMiddleware, served=rooms_app)
    api.add_middleware(LimitMiddleware, limits=limits or RequestLimits(), clock=clock)
    api.add_middleware(ErrorMiddleware)
    api.add_middleware(MetricsMiddleware, metrics=metrics, clock=clock)
    api.add_middleware(SecurityHeadersMiddleware, new_id=new_id)
    return api


@cache
def routes_app() -> FastAPI:
    """Return the routes alone, always the same: enough to describe them."""
    api = _new_app()
    noted = [Depends(_check_parameters)]
    for router in (*(resource.ROUTER for resource in ROUTERS), *routers()):
        api.include_router(router, dependencies=noted)
    api.add_api_route(OPENAPI_PATH, _openapi_response, include_in_schema=False, dependencies=noted)
    api.add_api_route(PATH, _metrics_response, include_in_schema=False, dependencies=noted)
    api.openapi = lambda: openapi_document(api)
    return api


def _new_app() -> FastAPI:
    # No pages about itself: they would load scripts from elsewhere, and need no key.
    # Nor traces: they would hold what stands in addresses.
    api = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for error in (RoomloreError, RequestValidationError, HTTPException):
        api.add_exception_handler(error, handle_error)
    return api


async def _openapi_response(request: Request) -> Response:
    return json_response(request.app.openapi())


async def _metrics_response(request: Request) -> Response:
    acting: App = request.state.app
    await acting.access.check("administer", "read metrics")
    return request.app.state.metrics.response(acting.org_id)


async def _check_parameters(request: Request) -> None:
    """Note which route serves a request, and refuse what the route does not know: a misspelt filter filters nothing."""
    route = request.scope["route"].path
    request.state.route = route
    parts = request.scope["path_params"]
    request.scope["path_params"] = {name: part.replace(SLASH, "/") for name, part in parts.items()}
    known = parameters(request.app, route, request.method)
    unknown = set(request.query_params) - known
    if unknown:
        word = min(unknown)
        raise BadInput("query", f"{word!r} is no parameter of this path{unknown_name_hint(word, known)}")
