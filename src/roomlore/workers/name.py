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
from roomlore.domain.ports import LlmFailure
from roomlore.store import asking, naming
from roomlore.store.asking import Purpose, CallReservation
from roomlore.store.naming import TitleMessage, UntitledConversation
from roomlore.store.queries import Connection
from roomlore.untangling.unnamed import erased_name_words
from roomlore.workers import titles
from roomlore.workers.asking import LanguageModelCaller, LanguageModelRequest
from roomlore.workers.showing import is_allowed_for_model

PURPOSE: Purpose = "titles"
#: What became of a look at an org.
Outcome = Literal["named", "refused", "changed", "failed", "stopped", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleRequest:
    """A conversation, and what is asked about it."""

    unnamed: UntitledConversation
    messages: Sequence[TitleMessage]
    reserved: CallReservation


@dataclass(slots=True, kw_only=True)
class TitleWorker:
    """Asks a language model what quiet conversations are about."""

    caller: LanguageModelCaller
    #: For each org and day, in UTC.
    calls: int
    #: Conversations whose call was not answered: others come first, they might be the reason.
    skipped: set[ConversationId] = field(default_factory=set[ConversationId])

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
        question = LanguageModelRequest(
            instructions=titles.INSTRUCTIONS, material=titles.material(asked.messages), shape=titles.SHAPE
        )
        failures = asked.reserved.failures
        answer = await self.caller.call(org_id, question, now=now, failures=failures, stop=stop)
        if answer is None:
            return "stopped"
        if isinstance(answer, LlmFailure):
            self.skipped.add(asked.unnamed.id)
            return "failed"
        self.skipped.clear()
        write = partial(self._write, org_id=org_id, asked=asked, answer=answer, now=now)
        return await self.caller.db.change(org_id, write)

    async def _take(self, conn: Connection, org_id: OrgId, now: datetime) -> TitleRequest | None:
        if await asking.is_blocked(conn, org_id, PURPOSE, now=now, daily_limit=self.calls):
            return None
        await naming.skip_short(conn, org_id, now=now)
        if await self._next(conn, org_id, now) is None:
            return None
        until = now + self.caller.call_timeout
        reserved = await asking.reserve(conn, org_id, PURPOSE, now=now, until=until, daily_limit=self.calls)
        if reserved is None:
            return None
        # Chosen now that nobody else can be asking: what was next before may have been named meanwhile.
        unnamed = await self._next(conn, org_id, now)
        if unnamed is None:
            await asking.release(conn, org_id, PURPOSE, now=now)
            return None
        said = await naming.first_messages(
            conn, org_id, unnamed.id, limit=titles.MOST_MESSAGES, longest=titles.LONGEST_BODY
        )
        # A wish may have been spoken between those two looks.
        if not await is_allowed_for_model(conn, org_id, [one.message_id for one in said]):
            await asking.release(conn, org_id, PURPOSE, now=now)
            return None
        return TitleRequest(unnamed=unnamed, messages=said, reserved=reserved)

    async def _next(self, conn: Connection, org_id: OrgId, now: datetime) -> UntitledConversation | None:
        unnamed = await naming.next_untitled(conn, org_id, now=now, passed_over=self.skipped)
        if unnamed is None and self.skipped:
            self.skipped.clear()
            unnamed = await naming.next_untitled(conn, org_id, now=now)
        return unnamed

    async def _write(
        self, conn: Connection, org_id: OrgId, *, asked: TitleRequest, answer: str, now: datetime
    ) -> Outcome:
        is_fit = await is_allowed_for_model(conn, org_id, [one.message_id for one in asked.messages])
        await asking.record_answer(conn, org_id, PURPOSE, now=now, is_answered=True)
        if not is_fit:
            return "changed"
        await naming.lock(conn, org_id, asked.unnamed.id)
        title = titles.title_in(answer, authors={one.author_name for one in asked.messages})
        if title is not None:
            names = await naming.participant_names(conn, org_id, title)
            if titles.mentions_unknown_people(title, names=names, messages=asked.messages):
                title = None
        if title is not None and await erased_name_words(conn, org_id, [title]):
            title = None
        if not await naming.set_title(conn, org_id, asked.unnamed, title):
            return "changed"
        return "refused" if title is None else "named"
