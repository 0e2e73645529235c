"""How this process serves, for Prometheus: counts and times by route, never a word of what was asked."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/metrics"


class Metrics:
    """Counts and times of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Counter(
            "roomlore_http_requests", "Requests by what became of them.", labels, registry=self._registry
        )
        self.seconds = Histogram(
            "roomlore_http_request_seconds",
            "From the request to the last byte of its response.",
            ["method", "route"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self.in_flight = Gauge(
            "roomlore_http_in_flight", "Requests that are being served.", registry=self._registry
        )

    def response(self) -> Response:
        """Return everything that was counted."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Measuring:
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

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, noted)
        finally:
            self._metrics.in_flight.dec()
            method, route = _method(scope), scope["state"].get("route", "none")
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(method, route).observe(self._clock() - began)


def _method(scope: Scope) -> str:
    """Return a method that is one: anybody may make others up, and each would be counted for ever."""
    known = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
    return scope["method"] if scope["method"] in known else "other"
