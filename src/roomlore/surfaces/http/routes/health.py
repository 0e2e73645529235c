"""Whether this process lives, and whether it can serve; told to anybody, so it says nothing else."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from roomlore.domain.errors import DatabaseFull, DatabaseUnavailable
from roomlore.store.db import Database
from roomlore.store.work import meeting_outages
from roomlore.surfaces.http.responses import shown

ROUTER = APIRouter(prefix="/health", tags=["health"])
#: What does not answer within so many seconds is not ready.
PATIENCE = 2.0
#: The database is asked once in so many seconds, however often anybody asks.
KNOWN_FOR = 1.0


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


@ROUTER.get("/live", response_model=Live)
async def read_live() -> Response:
    """Tell that this process lives."""
    return shown(Live())


@ROUTER.get("/ready", response_model=Ready, responses={503: {"model": Ready}})
async def read_ready(request: Request) -> Response:
    """Tell whether requests can be served: whether the database answers and has room to write."""
    state, now = request.app.state, asyncio.get_running_loop().time()
    asked: asyncio.Task[Ready] | None = getattr(state, "asked", None)
    if asked is None or (asked.done() and now - state.asked_at >= KNOWN_FOR):
        state.asked = asked = asyncio.create_task(_answers(state.served.db))
        state.asked_at = now
    # Others wait for the same answer, whoever goes meanwhile.
    told = await asyncio.shield(asked)
    return shown(told, status=HTTPStatus.OK if told.status == "ready" else HTTPStatus.SERVICE_UNAVAILABLE)


async def _answers(db: Database) -> Ready:
    try:
        async with asyncio.timeout(PATIENCE):
            with meeting_outages():
                await db.probe()
    except DatabaseFull:
        return Ready(status="waiting", database=True, room=False)
    except (TimeoutError, DatabaseUnavailable):
        return Ready(status="waiting", database=False, room=not db.is_full)
    return Ready(status="ready", database=True, room=True)
