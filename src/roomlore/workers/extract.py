"""Draws memories from conversations that are over, by rules: what was decided, what somebody is or likes, and so on.

A conversation is drawn from once as it is, and again when anything in it has changed. What is to be done is what the
conversations themselves say, so that whatever ends a worker loses nothing, and going through them again changes
nothing. Several workers may go through the same one; the second finds it done.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import ConversationId, OrgId
from roomlore.domain.ports import Extractor, LlmFailure
from roomlore.domain.records import Viewer
from roomlore.domain.statements import NamedParticipant, SourceText, Claim
from roomlore.extraction import rules
from roomlore.store import extracting, work
from roomlore.store.db import Database
from roomlore.store.extracting import PendingConversation
from roomlore.store.queries import Connection
from roomlore.workers import drawing
from roomlore.workers.drawing import ConversationToExtract, ExtractedClaims, WriteResult
from roomlore.workers.rounds import Scheduler, orgs

#: How often a running worker looks for conversations that are over.
POLL_SECONDS = 10.0
#: Conversations gone through at once.
BATCH = 100

#: Called after each batch with how many messages were gone through.
Progress = Callable[[int], None]

LOG = logging.getLogger(__name__)


class RuleExtractor:
    """The `Extractor` that needs nothing but words."""

    name = "rules"

    async def extract(
        self, said: Sequence[SourceText], people: Sequence[NamedParticipant]
    ) -> Sequence[Claim] | LlmFailure:
        """Return what is stated."""
        return await asyncio.to_thread(rules.extract, said, people)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionWorker:
    """Goes through conversations that are over."""

    db: Database
    extractor: Extractor
    batch: int = BATCH

    async def next(self, org_id: OrgId, *, now: datetime) -> WriteResult | None:
        """Go through some conversations of an org that are over; None where there is none left."""
        find = partial(extracting.pending, org_id=org_id, now=now, limit=self.batch)
        return await self._extract_found(org_id, find, now=now)

    async def extract(
        self, org_id: OrgId, ids: Sequence[ConversationId], *, now: datetime, progress: Progress | None = None
    ) -> WriteResult:
        """Go through these conversations, over or not, and return what came of it."""
        done = WriteResult()
        for start in range(0, len(ids), self.batch):
            find = partial(extracting.requested, org_id=org_id, ids=ids[start : start + self.batch])
            written = await self._extract_found(org_id, find, now=now) or WriteResult()
            _report(progress, written)
            done += written
        return done

    async def _extract_found(self, org_id: OrgId, find_conversations: partial[Any], *, now: datetime) -> WriteResult | None:
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            found: list[PendingConversation] = await find_conversations(conn)
            conversations = await drawing.load_conversations(conn, org_id, found)
        if not found:
            return None
        drawings = [one for one in [await self._extract(org_id, each) for each in conversations] if one]
        return await self._write_separately(org_id, drawings, now=now)

    async def _extract(self, org_id: OrgId, conversation: ConversationToExtract) -> ExtractedClaims | None:
        try:
            found = await self.extractor.extract(conversation.messages, conversation.people)
        except Exception as error:  # noqa: BLE001  whatever one conversation breaks must not stop the others
            await self._dead_letter(org_id, conversation, type(error).__name__)
            return None
        if isinstance(found, LlmFailure):
            await self._dead_letter(org_id, conversation, found.reason)
            return None
        return ExtractedClaims(conversation=conversation, claims=found)

    async def _write_separately(self, org_id: OrgId, drawings: Sequence[ExtractedClaims], *, now: datetime) -> WriteResult:
        """Write drawings together, or one by one if that fails; what fails alone is set aside."""
        if not drawings:
            return WriteResult()
        try:
            with work.translate_connection_errors():
                return await self.db.change(
                    org_id, partial(self._write, org_id=org_id, drawings=drawings, now=now)
                )
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as above
            if len(drawings) == 1:
                await self._dead_letter(org_id, drawings[0].conversation, type(error).__name__)
                return WriteResult()
        done = WriteResult()
        for one in drawings:
            done += await self._write_separately(org_id, [one], now=now)
        return done

    async def _write(
        self, conn: Connection, org_id: OrgId, *, drawings: Sequence[ExtractedClaims], now: datetime
    ) -> WriteResult:
        written, states = await drawing.write_claims(conn, org_id, drawings, extractor=self.extractor.name, now=now)
        await extracting.record_extracted(conn, org_id, states)
        return written

    async def _dead_letter(self, org_id: OrgId, conversation: ConversationToExtract, reason: str) -> None:
        """Leave a conversation for a kind of error; its text may quote what somebody said."""
        LOG.warning("conversation %s: %s; set aside", conversation.id, reason)
        note = partial(extracting.dead_letter, org_id=org_id, conversation_id=conversation.id, error=reason)
        await self.db.change(org_id, note)


async def run(worker: ExtractionWorker, stop: asyncio.Event, *, interval: float = POLL_SECONDS) -> None:
    """Go through conversations of every org as they end, until told to stop.

    Raises:
        DatabaseUnavailable: the server went away.
    """

    async def visit(org_id: OrgId) -> float | None:
        return None if await worker.next(org_id, now=datetime.now(UTC)) is None else 0.0

    await Scheduler(db=worker.db, visit=visit, task_name="drawing memories", interval=interval).run(stop)


async def drain(
    worker: ExtractionWorker, *, only_org: OrgId | None = None, progress: Progress | None = None
) -> WriteResult:
    """Go through what waits, in one org or in all, and return what came of it.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    done = WriteResult()
    with work.translate_connection_errors():
        for org_id in await orgs(worker.db, only_org):
            now = datetime.now(UTC)
            while (written := await worker.next(org_id, now=now)) is not None:
                _report(progress, written)
                done += written
    return done


def _report(progress: Progress | None, written: WriteResult) -> None:
    if written.messages and progress is not None:
        progress(written.messages)
