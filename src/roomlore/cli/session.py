"""What every verb starts from: the global options, and an App opened with them."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from roomlore import operations as composition
from roomlore.cli.exit import Terminated
from roomlore.cli.output import Output
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.settings import Settings

Result = TypeVar("Result")

# The driver's own remarks on lost connections would stand between ours.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the global options say."""

    settings: Settings
    output: Output
    #: Name, account or id of the participant for whom reads are made; None is the operator.
    viewer: str | None

    async def viewer_in(self, app: App) -> Viewer:
        """Return the viewer that --as names, or whoever the key lets in."""
        return app.access.principal if self.viewer is None else await app.viewer(self.viewer)

    async def acting(self, app: App) -> App:
        """Return the App on behalf of whom --as names, or of whoever the key lets in."""
        return app if self.viewer is None else app.acting(await app.viewer(self.viewer))


def with_app(
    session: Session,
    use: Callable[[App], Awaitable[Result]],
    *,
    create_org: bool = False,
    will_search: bool = False,
) -> Result:
    """Open the App, use it, close it; see `app.open`."""

    async def opened() -> Result:
        task = asyncio.current_task()
        assert task is not None
        # Told to end, we end in order: the database is left to stop.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with composition.open(session.settings, create_org=create_org, will_search=will_search) as app:
            return await use(app)

    return to_its_end(opened())


def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work in a loop of its own and return what it returns.

    Raises:
        Terminated: it was cancelled, which is how it ends when the process is told to.
    """
    try:
        return asyncio.run(work)
    except asyncio.CancelledError as end:
        raise Terminated from end
