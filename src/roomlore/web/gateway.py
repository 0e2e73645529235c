"""All ways in as one application: what programs ask for goes to the API, everything else to the pages."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from uuid import UUID

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from roomlore.domain.ids import uuid7
from roomlore.http.headers import SecurityHeadersMiddleware
from roomlore.http.limits import HEALTH, RequestLimits
from roomlore.http.metrics import PATH as METRICS
from roomlore.http.metrics import MetricsMiddleware
from roomlore.http.problems import ProblemKind, problem_response
from roomlore.http.proxies import TrustedProxiesMiddleware
from roomlore.operations import App
from roomlore.web.limits import PageLimitMiddleware
from roomlore.web.site import build

#: What programs ask for, with all that is below it.
API = ("/v1", "/mcp", METRICS)
CLOSED = ProblemKind(name="not-found", status=HTTPStatus.NOT_FOUND, title="Not Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledSurfaces:
    """By which ways one may come in; health is told whatever they are."""

    api: bool = True
    pages: bool = True
    #: Whether the pages are for whoever sits at this machine, as operator and without a key, and for nobody else.
    local: bool = False
    #: Addresses of proxies that tell truly where requests come from.
    proxies: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gateway:
    health: ASGIApp
    api: ASGIApp
    pages: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by whoever it is for."""
        path = scope.get("path", "")
        if path.startswith(HEALTH):
            way = self.health
        else:
            way = self.api if any(f"{path}/".startswith(f"{one}/") for one in API) else self.pages
        await way(scope, receive, send)


def compose(
    api: FastAPI,
    served: App,
    ways: EnabledSurfaces,
    *,
    limits: RequestLimits,
    clock: Callable[[], float] = monotonic,
    new_id: Callable[[], UUID] = uuid7,
) -> ASGIApp:
    """Return the application of all ways in.

    Args:
        api: The application of the API, which holds the metrics of both.
        served: The App of an operator without a key, of one org or of all in its database.
        ways: Which of them are open.
        limits: How much is too much, of each way.
        clock: Seconds, from whenever.
        new_id: Gives ids to requests that have none.
    """
    nothing = SecurityHeadersMiddleware(_not_found, new_id=new_id)
    pages: ASGIApp = nothing
    if ways.pages:
        pages = PageLimitMiddleware(
            build(served, local=ways.local, stop=lambda: api.state.stop),
            limits=limits,
            clock=clock,
            local=ways.local,
        )
        pages = SecurityHeadersMiddleware(
            MetricsMiddleware(pages, metrics=api.state.metrics, clock=clock), new_id=new_id
        )
    fork = _Gateway(health=api, api=api if ways.api else nothing, pages=pages if ways.pages else api)
    return TrustedProxiesMiddleware(app=fork, proxies=ways.proxies) if ways.proxies else fork


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await problem_response(scope, CLOSED, "this is not served here")(scope, receive, send)
