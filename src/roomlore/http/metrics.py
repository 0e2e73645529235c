"""How this process serves, for Prometheus: counts and times by route, never a word of what was asked.

Each org has its own: an operator is told of no other. What came without a valid key is nobody's, and told to nobody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.ids import OrgId

PATH = "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgMetrics:
    """Counts and times of one org."""

    registry: CollectorRegistry
    requests: Counter
    seconds: Histogram
    in_flight: Gauge


class Metrics:
    """Counts and times of one process, by org."""

    def __init__(self) -> None:
        self._of = dict[OrgId, OrgMetrics]()

    @property
    def orgs(self) -> Mapping[OrgId, OrgMetrics]:
        """What was counted, by org."""
        return MappingProxyType(self._of)

    def of(self, org_id: OrgId) -> OrgMetrics:
        """Return what is counted of an org."""
        if org_id not in self._of:
            self._of[org_id] = _new_org_metrics()
        return self._of[org_id]

    def response(self, org_id: OrgId) -> Response:
        """Return everything that was counted of an org."""
        return Response(generate_latest(self.of(org_id).registry), media_type=CONTENT_TYPE_LATEST)


def _new_org_metrics() -> OrgMetrics:
    registry = CollectorRegistry()
    return OrgMetrics(
        registry=registry,
        requests=Counter(
            "roomlore_http_requests",
            "Requests by what became of them.",
            ["method", "route", "status"],
            registry=registry,
        ),
        seconds=Histogram(
            "roomlore_http_request_seconds",
            "From the request to the last byte of its response.",
            ["method", "route"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        ),
        in_flight=Gauge("roomlore_http_in_flight", "Requests that are being served.", registry=registry),
    )


class InFlightMiddleware:
    """Counts what is being served; behind the door, where it is known of whom."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        acting = scope.get("state", {}).get("app")
        if scope["type"] != "http" or acting is None:
            await self._app(scope, receive, send)
            return
        with self._metrics.of(acting.org_id).in_flight.track_inprogress():
            await self._app(scope, receive, send)


class MetricsMiddleware:
    """Counts and times requests."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._clock(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            acting = scope["state"].get("app")
            if acting is not None:
                counted = self._metrics.of(acting.org_id)
                method, route = _method(scope), scope["state"].get("route", "none")
                counted.requests.labels(method, route, str(status)).inc()
                counted.seconds.labels(method, route).observe(self._clock() - began)


def _method(scope: Scope) -> str:
    """Return a method that is one: anybody may make others up, and each would be counted for ever."""
    known = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
    return scope["method"] if scope["method"] in known else "other"
