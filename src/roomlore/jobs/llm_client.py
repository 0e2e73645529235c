"""The base of jobs that call a language model: one call at a time per org, daily limits, backoff.

Calls are counted per org and day before they are made. A failed call delays the next call. The database stores the
delay of an org; this process stores the delay of all orgs. No database connection is held during a call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from roomlore.db import erasure_guard, llm_quota, privacy_requests, work_queue
from roomlore.db.llm_quota import Purpose
from roomlore.db.queries import Connection
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import ConversationId, MessageId, OrgId
from roomlore.domain.ports import LanguageModel, LlmFailure
from roomlore.jobs.scheduler import OrgWorker

Found = TypeVar("Found")

POLL_SECONDS = 30.0
#: The backoff after the first failed call; it grows by a factor of four up to the maximum.
MIN_BACKOFF, MAX_BACKOFF = timedelta(seconds=5), timedelta(hours=1)
#: A call is considered lost this long after its own timeout.
GRACE = timedelta(seconds=60)
#: Seconds in which an interrupted call must be released. If that fails, it blocks the next call until it is considered
#: lost.
RELEASE_TIMEOUT = 3.0

LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CallHistory:
    """How the calls of a worker went."""

    #: Consecutive failed calls, for all orgs.
    failures: int = 0
    backoff: timedelta = timedelta(0)
    #: The org of the last call; the next round starts after it.
    last_org: OrgId | None = None
    #: Conversations whose call failed. All other conversations come before them, because they may have caused the
    #: failure.
    skipped: set[ConversationId] = field(default_factory=set[ConversationId])


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelWorker(OrgWorker[str]):
    """Asks a language model about one conversation after another.

    The outcome "nothing" means that no conversation is left or that no call is allowed. The outcome "failed" means that
    a call failed.
    """

    language_model: LanguageModel
    purpose: Purpose
    #: The maximum number of calls per org and day (in UTC).
    calls: int
    task_name: str = "language model"
    interval: float = POLL_SECONDS
    history: CallHistory = field(default_factory=CallHistory)

    @property
    def call_timeout(self) -> timedelta:
        """The time after which a call is considered lost."""
        return self.language_model.timeout + GRACE

    def pause_after(self, outcome: str) -> float | None:
        """Return the backoff after a failed call, otherwise the usual pause."""
        if outcome == "failed":
            return max(self.interval, self.history.backoff.total_seconds())
        return None if outcome in {"nothing", "stopped"} else 0.0

    def order(self, org_ids: list[OrgId]) -> list[OrgId]:
        """Return the orgs, beginning after the org of the last call.

        So all orgs get their turn, even if most calls fail.
        """
        last = self.history.last_org
        return sorted(org_ids, key=lambda org_id: (last is not None and org_id <= last, org_id))

    async def pick(self, find: Callable[..., Awaitable[Found | None]]) -> Found | None:
        """Return the next conversation from `find(passed_over=...)`. Conversations whose call failed come last."""
        skipped = self.history.skipped
        found = await find(passed_over=skipped)
        if found is None and skipped:
            skipped.clear()
            found = await find()
        return found

    async def call(
        self,
        org_id: OrgId,
        *,
        instructions: str,
        prompt: str,
        shape: Mapping[str, Any],
        now: datetime,
        failures: int,
        stop: asyncio.Event | None,
    ) -> str | LlmFailure | None:
        """Make a reserved call. Return the answer or the failure; return None if `stop` interrupted the call.

        `now` is the time of the reservation. `failures` is the number of failed calls before it that the database has
        recorded. The transaction that stores the result must also record the answer in `llm_quota`.
        """
        self.history.last_org = org_id
        try:
            answer = await self._answer(instructions, prompt, shape, stop)
        except BaseException:
            await asyncio.shield(self._release(org_id, now))
            raise
        if answer is None:
            await self._release(org_id, now)
        elif isinstance(answer, LlmFailure):
            await self._record_failure(org_id, answer, now=now, failures=failures)
        else:
            self.history.failures = 0
        return answer

    async def _answer(
        self, instructions: str, prompt: str, shape: Mapping[str, Any], stop: asyncio.Event | None
    ) -> str | LlmFailure | None:
        call = asyncio.ensure_future(self.language_model.answer(instructions, prompt, shape=shape))
        stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
        try:
            await asyncio.wait([call, stopping], return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            call.cancel()
            stopping.cancel()
            await asyncio.gather(call, stopping, return_exceptions=True)

    async def _record_failure(
        self, org_id: OrgId, failure: LlmFailure, *, now: datetime, failures: int
    ) -> None:
        history = self.history
        history.failures = max(history.failures, failures) + 1
        history.backoff = backoff_after(history.failures, failure.retry_after)
        LOG.warning(
            "the language model: %s; next call in %d s", failure.reason, history.backoff.total_seconds()
        )
        record = partial(
            llm_quota.record_failure,
            org_id=org_id,
            purpose=self.purpose,
            error=failure.reason,
            due_at=now + history.backoff,
        )
        await self.db.change(org_id, record)

    async def _release(self, org_id: OrgId, now: datetime) -> None:
        release = partial(
            llm_quota.record_answer, org_id=org_id, purpose=self.purpose, now=now, is_answered=False
        )
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                with work_queue.translate_connection_errors():
                    await self.db.change(org_id, release)
        except (DatabaseUnavailable, TimeoutError):
            LOG.info("the database is away: the next call waits")


def backoff_after(failures: int, retry_after: timedelta | None = None) -> timedelta:
    """Return the backoff after consecutive failed calls. `retry_after` is the pause that the server asked for."""
    # 4^10 exceeds the maximum; higher powers might overflow.
    backoff = MIN_BACKOFF * 4 ** min(failures - 1, 10)
    return min(max(backoff, retry_after or backoff), MAX_BACKOFF)


async def is_allowed_for_model(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> bool:
    """Return whether no privacy request restricts the messages; block erasures until the transaction ends.

    Check this in the transaction before a call, and again in the transaction that stores the answer. So if a request
    arrives between the two checks, the answer is discarded.
    """
    await erasure_guard.lock_shared(conn, org_id)
    return not await privacy_requests.is_any_restricted(conn, org_id, message_ids)
