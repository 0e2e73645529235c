"""The village over HTTP: its operator, and callers who read as one of its people."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from fastapi import FastAPI

from conftest import TellOnce
from operations.village import whole_village
from roomlore.http.application import build, routes_app
from roomlore.http.limits import RequestLimits
from roomlore.operations import App
from surfaces.http.calling import Caller, Described


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """An App that is served."""

    app: App
    api: FastAPI
    described: Described
    operator: Caller

    async def principal(self, name: str) -> Caller:
        """Return somebody who comes with a key of their own."""
        role = "agent" if name == "pip" else "member"
        made = await self.app.keys.create(role, name=f"key of {name}", participant=name)
        return Caller(self.api, self.described, made.key)

    def nobody(self, key: str | None = None) -> Caller:
        """Return somebody without a key, or with one that may be anything."""
        return Caller(self.api, self.described, key)


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture(scope="session")
def described() -> Described:
    """The description, which is the same wherever it is served."""
    return Described(routes_app())


@pytest.fixture
def serve(described: Described) -> Serve:
    """Serve an App within limits."""

    async def served(app: App, limits: RequestLimits | None = None, **rest) -> Served:
        api = build(app, limits=limits, **rest)
        made = await app.keys.create("operator", name="operator's")
        return Served(app=app, api=api, described=described, operator=Caller(api, described, made.key))

    return served


@pytest.fixture
async def served(app: App, serve: Serve, tell_once: TellOnce) -> Served:
    """The village."""
    await tell_once(app, whole_village)
    return await serve(app, RequestLimits(rate=10_000, burst=100_000))
