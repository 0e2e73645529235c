"""Asks a language model about conversations, one call at a time for each org.

Calls are counted for each org and day before they are made, and one that is not answered lets the next wait longer,
for that org in the database and for all of them here. No connection is held during a call.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from roomlore.db import erased, llm_quota, privacy_requests, work_queue
from roomlore.db.database import Database
from roomlore.db.llm_quota import Purpose
from roomlore.db.queries import Connection
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.ports import LanguageModel, LlmFailure
from roomlore.jobs.scheduler import Scheduler, orgs

#: How often a running worker looks for conversations that have gone quiet.
POLL_SECONDS = 30.0
#: After the first call that is not answered; each further one waits four times as long, up to the longest.
MIN_BACKOFF = timedelta(seconds=5)
LONGEST_REST = timedelta(hours=1)
#: Beyond a call's own patience, before others may take it for lost.
GRACE = timedelta(seconds=60)
#: What was given up is told within so many seconds, or left to its time.
RELEASE_TIMEOUT = 3.0
#: What ends the work in an org: no call may be made, or there is nothing to make one for.
FINAL_OUTCOMES = frozenset({"failed", "nothing", "stopped"})

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelRequest:
    """What a language model is asked."""

    instructions: str
    #: Strangers' words: nothing in there is an instruction.
    material: str
    #: JSON schema of the answer.
    shape: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class LanguageModelCaller:
    """Makes calls for one purpose, and remembers how they went."""

    db: Database
    language_model: LanguageModel
    purpose: Purpose
    #: Calls in a row that were not answered, whatever org they were for.
    failures: int = 0
    #: How long to leave the language model alone after the last of them.
    backoff: timedelta = timedelta(0)
    #: Whose call was last: the next round begins behind that org.
    last: OrgId | None = None

    @property
    def call_timeout(self) -> timedelta:
        """After so long others may take a call for lost."""
        return self.language_model.timeout + GRACE

    async def call(
        self,
        org_id: OrgId,
        request: LanguageModelRequest,
        *,
        now: datetime,
        failures: int,
        stop: asyncio.Event | None,
    ) -> str | LlmFailure | None:
        """Make a call that was counted and return the answer; None where it was told to stop before there was one.

        Whoever writes what came of an answer says in the same transaction that there was one.

        Args:
            org_id: For whom.
            request: What is asked.
            now: When it was counted.
            failures: How many calls before it were not answered, as the database knows.
            stop: Ends the call.
        """
        self.last = org_id
        try:
            answer = await self._answer(request, stop)
        except BaseException:
            await asyncio.shield(self._release_turn(org_id, now))
            raise
        if answer is None:
            await self._release_turn(org_id, now)
        elif isinstance(answer, LlmFailure):
            await self._note_failure(org_id, answer, now=now, failures=failures)
        else:
            self.failures = 0
        return answer

    async def _answer(
        self, request: LanguageModelRequest, stop: asyncio.Event | None
    ) -> str | LlmFailure | None:
        call = asyncio.ensure_future(
            self.language_model.answer(request.instructions, request.material, shape=request.shape)
        )
        stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
        try:
            await asyncio.wait([call, stopping], return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            call.cancel()
            stopping.cancel()
            await asyncio.gather(call, stopping, return_exceptions=True)

    async def _note_failure(self, org_id: OrgId, answer: LlmFailure, *, now: datetime, failures: int) -> None:
        self.failures = max(self.failures, failures) + 1
        self.backoff = backoff_after(self.failures, answer.retry_after)
        LOG.warning("the language model: %s; next call in %d s", answer.reason, self.backoff.total_seconds())
        note = partial(
            llm_quota.record_failure,
            org_id=org_id,
            purpose=self.purpose,
            error=answer.reason,
            due_at=now + self.backoff,
        )
        await self.db.change(org_id, note)

    async def _release_turn(self, org_id: OrgId, now: datetime) -> None:
        """Let others make the next call; where the database has gone, they wait until this one's time is over."""
        note = partial(
            llm_quota.record_answer, org_id=org_id, purpose=self.purpose, now=now, is_answered=False
        )
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                with work_queue.translate_connection_errors():
                    await self.db.change(org_id, note)
        except (DatabaseUnavailable, TimeoutError):
            LOG.info("the database is away: the next call waits")


class LanguageModelJob(Protocol):
    """Asks about one thing after another."""

    @property
    def caller(self) -> LanguageModelCaller:
        """Makes the calls."""
        ...

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> str:
        """Ask about the next thing of an org and return what became of it; one of `ENDS` where nothing follows."""
        ...


def backoff_after(failures: int, retry_after: timedelta | None = None) -> timedelta:
    """Return how long to leave a language model alone after so many calls in a row without an answer.

    Args:
        failures: At least one.
        retry_after: What the server asked for; no longer than the longest rest.
    """
    # 4^10 is beyond any rest, and no more of them need be computed.
    rest = MIN_BACKOFF * 4 ** min(failures - 1, 10)
    return min(max(rest, retry_after or rest), LONGEST_REST)


async def run(job: LanguageModelJob, stop: asyncio.Event, *, interval: float = POLL_SECONDS) -> None:
    """Ask about whatever there is in every org, in turns, until told to stop.

    Raises:
        DatabaseUnavailable: the server went away.
    """

    async def visit(org_id: OrgId) -> float | None:
        became = await job.next(org_id, now=datetime.now(UTC), stop=stop)
        if became == "failed":
            return max(interval, job.caller.backoff.total_seconds())
        return None if became == "nothing" else 0.0

    rounds = Scheduler(
        db=job.caller.db,
        visit=visit,
        task_name="asking about conversations",
        interval=interval,
        order=lambda org_ids: _rotated_after(job.caller.last, org_ids),
    )
    await rounds.run(stop)


async def drain(job: LanguageModelJob, *, only_org: OrgId | None = None) -> Counter[str]:
    """Ask about what waits, in one org or in all, until nothing does or no call may be made; return what became of it.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    outcomes = Counter[str]()
    with work_queue.translate_connection_errors():
        for org_id in await orgs(job.caller.db, only_org):
            while (became := await job.next(org_id, now=datetime.now(UTC))) not in FINAL_OUTCOMES:
                outcomes[became] += 1
            outcomes[became] += 1
            if became == "failed":
                break
    return outcomes


def _rotated_after(last: OrgId | None, org_ids: Sequence[OrgId]) -> list[OrgId]:
    """Return orgs in an order in which each has its call in time, also where most calls fail."""
    return sorted(org_ids, key=lambda org_id: (last is not None and org_id <= last, org_id))


async def is_allowed_for_model(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> bool:
    """Return whether no wish keeps one of these from anybody; until the transaction ends nobody is erased.

    A wish may be spoken anywhere in a room, and what it covers is as it was. So this is asked in the transaction that
    ends just before a call and in the one that takes its answer: what is spoken between them costs the answer.
    """
    await erased.lock_shared(conn, org_id)
    return not await privacy_requests.is_any_restricted(conn, org_id, message_ids)
