"""Whether this process lives, and whether it can serve; told to anybody, so it says nothing else."""

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
#: What does not answer within so many seconds is not ready.
PATIENCE = 2.0
#: The database is asked once in so many seconds, however often anybody asks.
KNOWN_FOR = 1.0
#: The clocks are compared once in so many seconds.
CLOCK_KNOWN_FOR = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """It lives."""

    status: Literal["live"] = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Whether requests can be served."""

    status: Literal["ready", "waiting"]
    #: Whether the database answers.
    database: bool
    #: Whether there is room to write; while there is none, what is stored is still read.
    room: bool
    #: Whether this server's clock agrees with the database's and is not behind what was said; None until that is known.
    #: One that disagrees is served by: `roomlore doctor` and the operations tell how it does.
    clock: bool | None


@ROUTER.get("/live", response_model=Live)
async def read_live() -> Response:
    """Tell that this process lives."""
    return json_response(Live())


@ROUTER.get("/ready", response_model=Ready, responses={503: {"model": Ready}})
async def read_ready(request: Request) -> Response:
    """Tell whether requests can be served: whether the database answers and has room to write."""
    state, now = request.app.state, asyncio.get_running_loop().time()
    asked: asyncio.Task[Ready] | None = getattr(state, "asked", None)
    if asked is None or (asked.done() and now - state.asked_at >= KNOWN_FOR):
        known = state.clock_known = getattr(state, "clock_known", None) or ClockKnown()
        state.asked = asked = asyncio.create_task(_answers(state.served.db, known))
        state.asked_at = now
    # Others wait for the same answer, whoever goes meanwhile.
    told = await asyncio.shield(asked)
    return json_response(
        told, status=HTTPStatus.OK if told.status == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
    )


@dataclass(slots=True, kw_only=True)
class ClockKnown:
    """Whether the clocks agreed when that was last looked at, which goes through every org."""

    agrees: bool | None = None
    looked_at: float | None = None

    async def look(self, db: Database) -> None:
        """Look again, unless that was done a short time ago."""
        now = asyncio.get_running_loop().time()
        if self.looked_at is None or now - self.looked_at >= CLOCK_KNOWN_FOR:
            self.looked_at = now
            self.agrees = (await check_clock(db)).is_well


async def _answers(db: Database, known: ClockKnown) -> Ready:
    try:
        async with asyncio.timeout(PATIENCE):
            with translate_connection_errors():
                await db.probe()
    except DatabaseFull:
        return Ready(status="waiting", database=True, room=False, clock=known.agrees)
    except (TimeoutError, DatabaseUnavailable):
        return Ready(status="waiting", database=False, room=not db.is_full, clock=known.agrees)
    with suppress(TimeoutError, RoomloreError):
        # A wrong clock keeps nobody from being served.
        async with asyncio.timeout(PATIENCE):
            await known.look(db)
    return Ready(status="ready", database=True, room=True, clock=known.agrees)
