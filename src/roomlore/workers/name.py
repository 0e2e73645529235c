"""Names conversations that have gone quiet, with a language model where one is configured.

One call at a time. Calls are counted for each org and day before they are made, and one that is not answered lets
the next wait longer, for that org in the database and for all of them here. No connection is held during a call.
Whatever goes wrong costs a title and nothing else: a conversation keeps the label that its words gave it.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import ConversationId, OrgId
from roomlore.domain.ports import LanguageModel, Unanswered
from roomlore.store import erased, naming, work
from roomlore.store.db import Database
from roomlore.store.naming import Reserved, Said, Unnamed
from roomlore.store.queries import Connection
from roomlore.workers import titles

#: How often a running worker looks for conversations that have gone quiet.
EVERY_SECONDS = 30.0
#: After the first call that is not answered; each further one waits four times as long, up to the longest.
FIRST_REST = timedelta(seconds=5)
LONGEST_REST = timedelta(hours=1)
#: Beyond a call's own patience, before others may take it for lost.
GRACE = timedelta(seconds=60)
#: What was given up is told within so many seconds, or left to its time.
GIVING_BACK = 3.0

#: What became of a look at an org.
Outcome = Literal["named", "refused", "changed", "failed", "stopped", "nothing"]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A conversation, and what is asked about it."""

    unnamed: Unnamed
    said: Sequence[Said]
    reserved: Reserved


@dataclass(slots=True, kw_only=True)
class NameWorker:
    """Asks a language model what quiet conversations are about."""

    db: Database
    language_model: LanguageModel
    #: For each org and day, in UTC.
    calls: int
    #: Calls in a row that were not answered, whatever org they were for.
    failures: int = 0
    #: Conversations whose call was not answered: others come first, they might be the reason.
    passed_over: set[ConversationId] = field(default_factory=set[ConversationId])
    #: How long to leave the language model alone after the last of them.
    rest: timedelta = timedelta(0)
    #: Whose call was last: the next round begins behind that org.
    last: OrgId | None = None

    async def name_next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Name one conversation of an org, if one waits and a call may be made; return what became of it.

        Args:
            org_id: Whose.
            now: Tells who has gone quiet, and the day.
            stop: Ends a call that is under way.
        """
        asked = await self.db.change(org_id, partial(self._take, org_id=org_id, now=now))
        if asked is None:
            return "nothing"
        self.last = org_id
        try:
            answer = await self._answer(asked, stop)
        except BaseException:
            await asyncio.shield(self._give_up(org_id, now))
            raise
        if answer is None:
            await self._give_up(org_id, now)
            return "stopped"
        if isinstance(answer, Unanswered):
            await self._note_failure(org_id, asked, answer, now=now)
            return "failed"
        self.failures = 0
        self.passed_over.clear()
        write = partial(self._write, org_id=org_id, asked=asked, answer=answer, now=now)
        return await self.db.change(org_id, write)

    async def _take(self, conn: Connection, org_id: OrgId, now: datetime) -> Asked | None:
        if await naming.rests(conn, org_id, now=now, most=self.calls):
            return None
        await naming.pass_by_short(conn, org_id, now=now)
        if await self._next(conn, org_id, now) is None:
            return None
        until = now + self.language_model.patience + GRACE
        reserved = await naming.reserve(conn, org_id, now=now, until=until, most=self.calls)
        if reserved is None:
            return None
        # Chosen now that nobody else can be asking: what was next before may have been named meanwhile.
        unnamed = await self._next(conn, org_id, now)
        if unnamed is None:
            await naming.give_back(conn, org_id, now=now)
            return None
        said = await naming.said(
            conn, org_id, unnamed.id, limit=titles.MOST_MESSAGES, longest=titles.LONGEST_BODY
        )
        return Asked(unnamed=unnamed, said=said, reserved=reserved)

    async def _next(self, conn: Connection, org_id: OrgId, now: datetime) -> Unnamed | None:
        unnamed = await naming.next_unnamed(conn, org_id, now=now, passed_over=self.passed_over)
        if unnamed is None and self.passed_over:
            self.passed_over.clear()
            unnamed = await naming.next_unnamed(conn, org_id, now=now)
        return unnamed

    async def _answer(self, asked: Asked, stop: asyncio.Event | None) -> str | Unanswered | None:
        """Return the answer; None where the call was told to stop before there was one."""
        call = asyncio.ensure_future(
            self.language_model.answer(titles.INSTRUCTIONS, titles.material(asked.said), shape=titles.SHAPE)
        )
        stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
        try:
            await asyncio.wait([call, stopping], return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            call.cancel()
            stopping.cancel()
            await asyncio.gather(call, stopping, return_exceptions=True)

    async def _write(
        self, conn: Connection, org_id: OrgId, *, asked: Asked, answer: str, now: datetime
    ) -> Outcome:
        await erased.keep_erasures_out(conn, org_id)
        await naming.note_answer(conn, org_id, now=now, is_answered=True)
        await naming.hold(conn, org_id, asked.unnamed.id)
        title = titles.title_in(answer, authors={one.author_name for one in asked.said})
        if title is not None:
            names = await naming.names_in(conn, org_id, title)
            if titles.names_strangers(title, names=names, said=asked.said):
                title = None
        if not await naming.put_title(conn, org_id, asked.unnamed, title):
            return "changed"
        return "refused" if title is None else "named"

    async def _note_failure(self, org_id: OrgId, asked: Asked, answer: Unanswered, *, now: datetime) -> None:
        self.passed_over.add(asked.unnamed.id)
        self.failures = max(self.failures, asked.reserved.failures) + 1
        self.rest = rest_after(self.failures, answer.retry_after)
        LOG.warning("the language model: %s; next call in %d s", answer.reason, self.rest.total_seconds())
        note = partial(naming.note_failure, org_id=org_id, error=answer.reason, due_at=now + self.rest)
        await self.db.change(org_id, note)

    async def _give_up(self, org_id: OrgId, now: datetime) -> None:
        """Let others make the next call; where the database has gone, they wait until this one's time is over."""
        note = partial(naming.note_answer, org_id=org_id, now=now, is_answered=False)
        try:
            async with asyncio.timeout(GIVING_BACK):
                with work.meeting_outages():
                    await self.db.change(org_id, note)
        except (DatabaseUnavailable, TimeoutError):
            LOG.info("the database is away: the next call waits")


def rest_after(failures: int, retry_after: timedelta | None = None) -> timedelta:
    """Return how long to leave a language model alone after so many calls in a row without an answer.

    Args:
        failures: At least one.
        retry_after: What the server asked for; no longer than the longest rest.
    """
    # 4^10 is beyond any rest, and no more of them need be computed.
    rest = FIRST_REST * 4 ** min(failures - 1, 10)
    return min(max(rest, retry_after or rest), LONGEST_REST)


async def run(worker: NameWorker, stop: asyncio.Event, *, every: float = EVERY_SECONDS) -> None:
    """Name conversations of every org as they go quiet, one by one, until told to stop.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    while not stop.is_set():
        rest = await _round(worker, stop, every)
        if rest:
            try:
                await asyncio.wait_for(stop.wait(), rest)
            except TimeoutError:
                continue


async def drain(worker: NameWorker, *, only_org: OrgId | None = None) -> int:
    """Name what waits, in one org or in all, until nothing does or no call may be made; return how many got a title.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    named = 0
    with work.meeting_outages():
        for org_id in await _org_ids(worker.db) if only_org is None else [only_org]:
            while (became := await worker.name_next(org_id, now=datetime.now(UTC))) not in {
                "failed",
                "nothing",
            }:
                named += became == "named"
            if became == "failed":
                break
    return named


async def _round(worker: NameWorker, stop: asyncio.Event, every: float) -> float:
    """Name one conversation of each org; return how many seconds to wait before the next round."""
    rest = every
    try:
        with work.meeting_outages():
            org_ids = await _org_ids(worker.db)
            for org_id in _behind(worker.last, org_ids):
                became = await worker.name_next(org_id, now=datetime.now(UTC), stop=stop)
                if became == "failed":
                    return max(every, worker.rest.total_seconds())
                if became == "stopped":
                    break
                rest = 0.0 if became != "nothing" else rest
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  whatever breaks here must not stop those who embed and untangle
        # The kind of error only: its text may quote what somebody said.
        LOG.warning("naming conversations: %s; trying again later", type(error).__name__)
        return every
    return rest


def _behind(last: OrgId | None, org_ids: Sequence[OrgId]) -> list[OrgId]:
    """Return orgs in an order in which each has its call in time, also where most calls fail."""
    return sorted(org_ids, key=lambda org_id: (last is not None and org_id <= last, org_id))


async def _org_ids(db: Database) -> list[OrgId]:
    async with db.outside_orgs() as conn:
        return await work.org_ids(conn)
