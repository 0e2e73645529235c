"""Health checks. Everybody may read them, so they reveal nothing else."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from roomlore.db.database import Database
from roomlore.db.work_queue import translate_connection_errors
from roomlore.doctor import check_clock
from roomlore.domain.errors import DatabaseFull, DatabaseUnavailable, RoomloreError
from roomlore.http.responses import json_response

ROUTER = APIRouter(prefix="/health", tags=["health"])
#: The timeout of each check, in seconds.
PATIENCE = 2.0
#: The minimum number of seconds between two checks of the database, whoever asks.
KNOWN_FOR = 1.0
#: The minimum number of seconds between two comparisons of the clocks.
CLOCK_KNOWN_FOR = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The process is alive."""

    status: Literal["live"] = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Whether requests can be served."""

    status: Literal["ready", "waiting"]
    #: Whether the database answers.
    database: bool
    #: Whether the database has space to write. Without space, everything stored can still be read.
    room: bool
    #: Whether this server's clock agrees with the database's clock and is not behind the newest message; None if this
    #: is not yet known. A wrong clock does not stop the server; `roomlore doctor` shows the details.
    clock: bool | None


@ROUTER.get("/live", response_model=Live)
async def read_live() -> Response:
    """Tell that this process is alive."""
    return json_response(Live())


@ROUTER.get("/ready", response_model=Ready, responses={503: {"model": Ready}})
async def read_ready(request: Request) -> Response:
    """Say whether requests can be served: whether the database answers and has space to write."""
    state, now = request.app.state, asyncio.get_running_loop().time()
    check: asyncio.Task[Ready] | None = getattr(state, "ready_check", None)
    if check is None or (check.done() and now - state.ready_checked_at >= KNOWN_FOR):
        clock = state.clock_check = getattr(state, "clock_check", None) or ClockCheck()
        state.ready_check = check = asyncio.create_task(_check(state.served.db, clock))
        state.ready_checked_at = now
    # The check is shielded, because other callers wait for the same check.
    ready = await asyncio.shield(check)
    is_ready = ready.status == "ready"
    return json_response(ready, status=HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(slots=True, kw_only=True)
class ClockCheck:
    """The result of the last comparison of the clocks. A comparison has to read every org."""

    agrees: bool | None = None
    checked_at: float | None = None

    async def refresh(self, db: Database) -> None:
        """Compare the clocks, unless the last comparison is recent."""
        now = asyncio.get_running_loop().time()
        if self.checked_at is None or now - self.checked_at >= CLOCK_KNOWN_FOR:
            self.agrees = (await check_clock(db)).is_well
            # The time is set after the comparison, so that the next check repeats a comparison that took too long.
            self.checked_at = now


async def _check(db: Database, clock: ClockCheck) -> Ready:
    try:
        async with asyncio.timeout(PATIENCE):
            with translate_connection_errors():
                await db.probe()
    except DatabaseFull:
        return Ready(status="waiting", database=True, room=False, clock=clock.agrees)
    except (TimeoutError, DatabaseUnavailable):
        return Ready(status="waiting", database=False, room=not db.is_full, clock=clock.agrees)
    with suppress(TimeoutError, RoomloreError):
        async with asyncio.timeout(PATIENCE):
            await clock.refresh(db)
    return Ready(status="ready", database=True, room=True, clock=clock.agrees)
