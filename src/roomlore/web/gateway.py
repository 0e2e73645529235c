"""Combines the API and the pages in one application. The path decides which of the two serves a request."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from uuid import UUID

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from roomlore.domain.ids import uuid7
from roomlore.http.headers import SecurityHeadersMiddleware, TrustedProxiesMiddleware
from roomlore.http.limits import HEALTH, RequestLimits
from roomlore.http.metrics import PATH as METRICS
from roomlore.http.metrics import MetricsMiddleware
from roomlore.http.problems import ProblemKind, problem_response
from roomlore.operations import App
from roomlore.web.limits import PageLimitMiddleware
from roomlore.web.site import build

#: Paths of the API. Everything below them also belongs to the API.
API = ("/v1", "/mcp", METRICS)
CLOSED = ProblemKind(name="not-found", status=HTTPStatus.NOT_FOUND, title="Not Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledSurfaces:
    """The parts of the application that are served. Health checks are always served."""

    api: bool = True
    pages: bool = True
    #: Whether the pages are only for the operator at this machine, without a key.
    local: bool = False
    #: Addresses of proxies whose X-Forwarded-For is trusted.
    proxies: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gateway:
    health: ASGIApp
    api: ASGIApp
    pages: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if path.startswith(HEALTH):
            app = self.health
        else:
            app = self.api if any(f"{path}/".startswith(f"{prefix}/") for prefix in API) else self.pages
        await app(scope, receive, send)


def compose(
    api: FastAPI,
    served: App,
    surfaces: EnabledSurfaces,
    *,
    limits: RequestLimits,
    clock: Callable[[], float] = monotonic,
    new_id: Callable[[], UUID] = uuid7,
) -> ASGIApp:
    """Return the application of API and pages.

    Args:
        api: The application of the API, which holds the metrics of both.
        served: The App of an operator without a key, for one org or for all orgs of its database.
        surfaces: What is served.
        limits: Limits of requests, for the API and for the pages separately.
        clock: A monotonic clock, in seconds.
        new_id: Makes ids for requests that have none.
    """
    nothing = SecurityHeadersMiddleware(_not_found, new_id=new_id)
    pages: ASGIApp = nothing
    if surfaces.pages:
        pages = PageLimitMiddleware(
            build(served, local=surfaces.local, stop=lambda: api.state.stop),
            limits=limits,
            clock=clock,
            local=surfaces.local,
        )
        pages = SecurityHeadersMiddleware(
            MetricsMiddleware(pages, metrics=api.state.metrics, clock=clock), new_id=new_id
        )
    gateway = _Gateway(
        health=api, api=api if surfaces.api else nothing, pages=pages if surfaces.pages else api
    )
    return TrustedProxiesMiddleware(app=gateway, proxies=surfaces.proxies) if surfaces.proxies else gateway


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await problem_response(scope, CLOSED, "this is not served here")(scope, receive, send)
