"""The ASGI application of an App: the middleware of every request, and the routes."""

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
from roomlore.http.routes import agents, erasure, events, health, ingest, rooms, search
from roomlore.operations import App

#: Routes that are written by hand, because no declaration can describe them: pages with cursors, streams, and bodies
#: that are not the arguments of a method.
BY_HAND = (rooms, ingest, search, agents, erasure, events, health)
OPENAPI_PATH = "/v1/openapi.json"


def build(
    rooms_app: App,
    *,
    limits: RequestLimits | None = None,
    clock: Callable[[], float] = monotonic,
    new_id: Callable[[], UUID] = uuid7,
    mounted: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """Return the application that serves an App.

    Each request acts on behalf of the holder of its key.

    Args:
        rooms_app: The App of an operator without a key, for one org or for all orgs of its database.
        limits: Limits of requests.
        clock: A monotonic clock, in seconds.
        new_id: Makes ids for requests that have none.
        mounted: Other applications to serve with the same middleware, by path.
    """
    metrics, api = Metrics(), _new_app()
    # Deriving routes from types is slow, so it is done once per process.
    api.router.routes.extend(routes_app().router.routes)
    api.openapi = routes_app().openapi
    api.router.routes.extend(Route(path, other) for path, other in (mounted or {}).items())
    api.state.served, api.state.metrics, api.state.stop = rooms_app, metrics, asyncio.Event()
    # The middleware that is added last gets a request first.
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
    """Return an application that has the routes only, to describe them."""
    api = _new_app()
    checked = [Depends(_check_parameters)]
    for router in (*(resource.ROUTER for resource in BY_HAND), *routers()):
        api.include_router(router, dependencies=checked)
    api.add_api_route(OPENAPI_PATH, _openapi_response, include_in_schema=False, dependencies=checked)
    api.add_api_route(PATH, _metrics_response, include_in_schema=False, dependencies=checked)
    api.openapi = lambda: openapi_document(api)
    return api


def _new_app() -> FastAPI:
    # Documentation pages are off, because they load scripts of other sites and need no key. Tracebacks are off, because
    # they contain addresses.
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
    app: App = request.state.app
    await app.access.check("administer", "read metrics")
    return request.app.state.metrics.response(app.org_id)


async def _check_parameters(request: Request) -> None:
    """Record the route for metrics, and refuse unknown query parameters, such as a misspelt filter."""
    route = request.scope["route"].path
    request.state.route = route
    parts = request.scope["path_params"]
    request.scope["path_params"] = {name: part.replace(SLASH, "/") for name, part in parts.items()}
    known = parameters(request.app, route, request.method)
    unknown = set(request.query_params) - known
    if unknown:
        name = min(unknown)
        raise BadInput("query", f"{name!r} is no parameter of this path{unknown_name_hint(name, known)}")
