"""Names conversations that have gone quiet, with a language model where one is configured.

Whatever goes wrong costs a title and nothing else: a conversation keeps the label that its words gave it. What a wish
covers is not sent; where one covers by the time of the answer what was sent before it, the answer counts for nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from roomlore.domain.ids import ConversationId, OrgId
from roomlore.domain.ports import Unanswered
from roomlore.store import asking, naming
from roomlore.store.asking import Purpose, Reserved
from roomlore.store.naming import Said, Unnamed
from roomlore.store.queries import Connection
from roomlore.untangling.unnamed import erased_words
from roomlore.workers import titles
from roomlore.workers.asking import Caller, Question
from roomlore.workers.showing import may_be_shown

PURPOSE: Purpose = "titles"
#: What became of a look at an org.
Outcome = Literal["named", "refused", "changed", "failed", "stopped", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A conversation, and what is asked about it."""

    unnamed: Unnamed
    said: Sequence[Said]
    reserved: Reserved


@dataclass(slots=True, kw_only=True)
class NameWorker:
    """Asks a language model what quiet conversations are about."""

    caller: Caller
    #: For each org and day, in UTC.
    calls: int
    #: Conversations whose call was not answered: others come first, they might be the reason.
    passed_over: set[ConversationId] = field(default_factory=set[ConversationId])

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Name one conversation of an org, if one waits and a call may be made; return what became of it.

        Args:
            org_id: Whose.
            now: Tells who has gone quiet, and the day.
            stop: Ends a call that is under way.
        """
        asked = await self.caller.db.change(org_id, partial(self._take, org_id=org_id, now=now))
        if asked is None:
            return "nothing"
        question = Question(
            instructions=titles.INSTRUCTIONS, material=titles.material(asked.said), shape=titles.SHAPE
        )
        failures = asked.reserved.failures
        answer = await self.caller.call(org_id, question, now=now, failures=failures, stop=stop)
        if answer is None:
            return "stopped"
        if isinstance(answer, Unanswered):
            self.passed_over.add(asked.unnamed.id)
            return "failed"
        self.passed_over.clear()
        write = partial(self._write, org_id=org_id, asked=asked, answer=answer, now=now)
        return await self.caller.db.change(org_id, write)

    async def _take(self, conn: Connection, org_id: OrgId, now: datetime) -> Asked | None:
        if await asking.rests(conn, org_id, PURPOSE, now=now, most=self.calls):
            return None
        await naming.pass_by_short(conn, org_id, now=now)
        if await self._next(conn, org_id, now) is None:
            return None
        until = now + self.caller.patience
        reserved = await asking.reserve(conn, org_id, PURPOSE, now=now, until=until, most=self.calls)
        if reserved is None:
            return None
        # Chosen now that nobody else can be asking: what was next before may have been named meanwhile.
        unnamed = await self._next(conn, org_id, now)
        if unnamed is None:
            await asking.give_back(conn, org_id, PURPOSE, now=now)
            return None
        said = await naming.said(
            conn, org_id, unnamed.id, limit=titles.MOST_MESSAGES, longest=titles.LONGEST_BODY
        )
        # A wish may have been spoken between those two looks.
        if not await may_be_shown(conn, org_id, [one.message_id for one in said]):
            await asking.give_back(conn, org_id, PURPOSE, now=now)
            return None
        return Asked(unnamed=unnamed, said=said, reserved=reserved)

    async def _next(self, conn: Connection, org_id: OrgId, now: datetime) -> Unnamed | None:
        unnamed = await naming.next_unnamed(conn, org_id, now=now, passed_over=self.passed_over)
        if unnamed is None and self.passed_over:
            self.passed_over.clear()
            unnamed = await naming.next_unnamed(conn, org_id, now=now)
        return unnamed

    async def _write(
        self, conn: Connection, org_id: OrgId, *, asked: Asked, answer: str, now: datetime
    ) -> Outcome:
        is_fit = await may_be_shown(conn, org_id, [one.message_id for one in asked.said])
        await asking.note_answer(conn, org_id, PURPOSE, now=now, is_answered=True)
        if not is_fit:
            return "changed"
        await naming.hold(conn, org_id, asked.unnamed.id)
        title = titles.title_in(answer, authors={one.author_name for one in asked.said})
        if title is not None:
            names = await naming.names_in(conn, org_id, title)
            if titles.names_strangers(title, names=names, said=asked.said):
                title = None
        if title is not None and await erased_words(conn, org_id, [title]):
            title = None
        if not await naming.put_title(conn, org_id, asked.unnamed, title):
            return "changed"
        return "refused" if title is None else "named"
