"""Asks a language model about conversations, one call at a time for each org.

Calls are counted for each org and day before they are made, and one that is not answered lets the next wait longer,
for that org in the database and for all of them here. No connection is held during a call.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import LanguageModel, Unanswered
from roomlore.store import asking, work
from roomlore.store.asking import Purpose
from roomlore.store.db import Database
from roomlore.workers.rounds import Rounds, orgs

#: How often a running worker looks for conversations that have gone quiet.
EVERY_SECONDS = 30.0
#: After the first call that is not answered; each further one waits four times as long, up to the longest.
FIRST_REST = timedelta(seconds=5)
LONGEST_REST = timedelta(hours=1)
#: Beyond a call's own patience, before others may take it for lost.
GRACE = timedelta(seconds=60)
#: What was given up is told within so many seconds, or left to its time.
GIVING_BACK = 3.0
#: What ends the work in an org: no call may be made, or there is nothing to make one for.
ENDS = frozenset({"failed", "nothing", "stopped"})

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a language model is asked."""

    instructions: str
    #: Strangers' words: nothing in there is an instruction.
    material: str
    #: JSON schema of the answer.
    shape: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Caller:
    """Makes calls for one purpose, and remembers how they went."""

    db: Database
    language_model: LanguageModel
    purpose: Purpose
    #: Calls in a row that were not answered, whatever org they were for.
    failures: int = 0
    #: How long to leave the language model alone after the last of them.
    rest: timedelta = timedelta(0)
    #: Whose call was last: the next round begins behind that org.
    last: OrgId | None = None

    @property
    def patience(self) -> timedelta:
        """After so long others may take a call for lost."""
        return self.language_model.patience + GRACE

    async def call(
        self, org_id: OrgId, question: Question, *, now: datetime, failures: int, stop: asyncio.Event | None
    ) -> str | Unanswered | None:
        """Make a call that was counted and return the answer; None where it was told to stop before there was one.

        Whoever writes what came of an answer says in the same transaction that there was one.

        Args:
            org_id: For whom.
            question: What is asked.
            now: When it was counted.
            failures: How many calls before it were not answered, as the database knows.
            stop: Ends the call.
        """
        self.last = org_id
        try:
            answer = await self._answer(question, stop)
        except BaseException:
            await asyncio.shield(self._give_up(org_id, now))
            raise
        if answer is None:
            await self._give_up(org_id, now)
        elif isinstance(answer, Unanswered):
            await self._note_failure(org_id, answer, now=now, failures=failures)
        else:
            self.failures = 0
        return answer

    async def _answer(self, question: Question, stop: asyncio.Event | None) -> str | Unanswered | None:
        call = asyncio.ensure_future(
            self.language_model.answer(question.instructions, question.material, shape=question.shape)
        )
        stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
        try:
            await asyncio.wait([call, stopping], return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            call.cancel()
            stopping.cancel()
            await asyncio.gather(call, stopping, return_exceptions=True)

    async def _note_failure(self, org_id: OrgId, answer: Unanswered, *, now: datetime, failures: int) -> None:
        self.failures = max(self.failures, failures) + 1
        self.rest = rest_after(self.failures, answer.retry_after)
        LOG.warning("the language model: %s; next call in %d s", answer.reason, self.rest.total_seconds())
        note = partial(
            asking.note_failure,
            org_id=org_id,
            purpose=self.purpose,
            error=answer.reason,
            due_at=now + self.rest,
        )
        await self.db.change(org_id, note)

    async def _give_up(self, org_id: OrgId, now: datetime) -> None:
        """Let others make the next call; where the database has gone, they wait until this one's time is over."""
        note = partial(asking.note_answer, org_id=org_id, purpose=self.purpose, now=now, is_answered=False)
        try:
            async with asyncio.timeout(GIVING_BACK):
                with work.meeting_outages():
                    await self.db.change(org_id, note)
        except (DatabaseUnavailable, TimeoutError):
            LOG.info("the database is away: the next call waits")


class Turns(Protocol):
    """Asks about one thing after another."""

    @property
    def caller(self) -> Caller:
        """Makes the calls."""
        ...

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> str:
        """Ask about the next thing of an org and return what became of it; one of `ENDS` where nothing follows."""
        ...


def rest_after(failures: int, retry_after: timedelta | None = None) -> timedelta:
    """Return how long to leave a language model alone after so many calls in a row without an answer.

    Args:
        failures: At least one.
        retry_after: What the server asked for; no longer than the longest rest.
    """
    # 4^10 is beyond any rest, and no more of them need be computed.
    rest = FIRST_REST * 4 ** min(failures - 1, 10)
    return min(max(rest, retry_after or rest), LONGEST_REST)


async def run(turns: Turns, stop: asyncio.Event, *, every: float = EVERY_SECONDS) -> None:
    """Ask about whatever there is in every org, in turns, until told to stop.

    Raises:
        DatabaseUnavailable: the server went away.
    """

    async def visit(org_id: OrgId) -> float | None:
        became = await turns.next(org_id, now=datetime.now(UTC), stop=stop)
        if became == "failed":
            return max(every, turns.caller.rest.total_seconds())
        return None if became == "nothing" else 0.0

    rounds = Rounds(
        db=turns.caller.db,
        visit=visit,
        doing="asking about conversations",
        every=every,
        order=lambda org_ids: _behind(turns.caller.last, org_ids),
    )
    await rounds.run(stop)


async def drain(turns: Turns, *, only_org: OrgId | None = None) -> Counter[str]:
    """Ask about what waits, in one org or in all, until nothing does or no call may be made; return what became of it.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    outcomes = Counter[str]()
    with work.meeting_outages():
        for org_id in await orgs(turns.caller.db, only_org):
            while (became := await turns.next(org_id, now=datetime.now(UTC))) not in ENDS:
                outcomes[became] += 1
            outcomes[became] += 1
            if became == "failed":
                break
    return outcomes


def _behind(last: OrgId | None, org_ids: Sequence[OrgId]) -> list[OrgId]:
    """Return orgs in an order in which each has its call in time, also where most calls fail."""
    return sorted(org_ids, key=lambda org_id: (last is not None and org_id <= last, org_id))
