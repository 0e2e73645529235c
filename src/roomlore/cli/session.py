"""The session of a verb: the global options, and an App opened with them."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from roomlore import operations as composition
from roomlore.cli.exit import Terminated
from roomlore.cli.output import Output
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.settings import Settings

Result = TypeVar("Result")

# The drivers would print their own lines about lost connections between ours.
for driver in ("psycopg", "neo4j"):
    logging.getLogger(driver).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The global options."""

    settings: Settings
    output: Output
    #: The name, account or id of the participant who reads. None means the operator.
    viewer: str | None

    async def viewer_in(self, app: App) -> Viewer:
        """Return the viewer that --as names. Without --as, return the viewer of the key."""
        return app.access.principal if self.viewer is None else await app.viewer(self.viewer)

    async def impersonate(self, app: App) -> App:
        """Return an App that acts as the viewer that --as names. Without --as, it acts as the viewer of the key."""
        return app if self.viewer is None else app.impersonate(await app.viewer(self.viewer))


def with_app(
    session: Session,
    use: Callable[[App], Awaitable[Result]],
    *,
    create_org: bool | OrgId = False,
    will_search: bool = False,
) -> Result:
    """Open the App, use it and close it."""

    async def opened() -> Result:
        task = asyncio.current_task()
        assert task is not None
        # On SIGTERM the task is cancelled, so that the App closes and the embedded database can stop.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with composition.open(session.settings, create_org=create_org, will_search=will_search) as app:
            return await use(app)

    try:
        return asyncio.run(opened())
    except asyncio.CancelledError as end:
        raise Terminated from end


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop
