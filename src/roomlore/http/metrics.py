"""Prometheus metrics by route. Each org has its own metrics, and its operator sees only these.

Requests without a valid key are not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.ids import OrgId

PATH = "/metrics"
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgMetrics:
    """The metrics of one org."""

    registry: CollectorRegistry
    requests: Counter
    seconds: Histogram
    in_flight: Gauge


class Metrics:
    """The metrics of one process, by org."""

    def __init__(self) -> None:
        self.orgs = dict[OrgId, OrgMetrics]()

    def of(self, org_id: OrgId) -> OrgMetrics:
        """Return the metrics of an org."""
        if org_id not in self.orgs:
            self.orgs[org_id] = _new_org_metrics()
        return self.orgs[org_id]

    def response(self, org_id: OrgId) -> Response:
        """Return the metrics of an org in Prometheus' format."""
        return Response(generate_latest(self.of(org_id).registry), media_type=CONTENT_TYPE_LATEST)


def _new_org_metrics() -> OrgMetrics:
    registry = CollectorRegistry()
    return OrgMetrics(
        registry=registry,
        requests=Counter(
            "roomlore_http_requests",
            "Requests by status.",
            ["method", "route", "status"],
            registry=registry,
        ),
        seconds=Histogram(
            "roomlore_http_request_seconds",
            "Time from the request to the last byte of its response.",
            ["method", "route"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        ),
        in_flight=Gauge("roomlore_http_in_flight", "Requests in progress.", registry=registry),
    )


class InFlightMiddleware:
    """Counts requests in progress. It runs after authentication, when the org is known."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = scope.get("state", {}).get("app")
        if scope["type"] != "http" or app is None:
            await self._app(scope, receive, send)
            return
        with self._metrics.of(app.org_id).in_flight.track_inprogress():
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
        started_at, status = self._clock(), 500

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            app = scope["state"].get("app")
            if app is not None:
                metrics = self._metrics.of(app.org_id)
                # Callers may invent methods, and each invented method would add a time series.
                method = scope["method"] if scope["method"] in METHODS else "other"
                route = scope["state"].get("route", "none")
                metrics.requests.labels(method, route, str(status)).inc()
                metrics.seconds.labels(method, route).observe(self._clock() - started_at)
