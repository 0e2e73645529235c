"""Draws memories from conversations that are over, by rules: what was decided, what somebody is or likes, and so on.

A conversation is drawn from once as it is, and again when anything in it has changed. What is to be done is what the
conversations themselves say, so that whatever ends a worker loses nothing, and going through them again changes
nothing. Several workers may go through the same one; the second finds it done.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from roomlore.conversations.erased_names import reject_erased_names
from roomlore.db import directory, erased, extraction_state, work_queue
from roomlore.db.database import Database
from roomlore.db.extraction_state import PendingConversation
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.claims import Claim, ExistingMemory, NamedParticipant, SourceText
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import Extractor, LlmFailure
from roomlore.domain.records import MemoryRole, MemorySource, Sensitivity, Viewer
from roomlore.jobs.llm_client import is_allowed_for_model
from roomlore.jobs.scheduler import Scheduler, orgs
from roomlore.memories import prompt_candidates, rule_extractor
from roomlore.memories.consolidation import detach_messages, upsert
from roomlore.memories.kinds import MEMORY_KINDS
from roomlore.privacy.enforcement import add_detected
from roomlore.privacy.records import PrivacyRequest

_WORD = lazy_pattern(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationToExtract:
    """A conversation as it is given to an extractor."""

    snapshot: PendingConversation
    messages: Sequence[SourceText]
    #: Who may be spoken of: whoever speaks in it, and whoever of its room is named.
    people: Sequence[NamedParticipant]
    #: Of one that is to be shown to a language model: what stands already of the same people for the same people.
    known_memories: Sequence[ExistingMemory] = ()

    @property
    def id(self) -> ConversationId:
        """Return which one it is."""
        return self.snapshot.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedClaims:
    """What was found stated in a conversation."""

    conversation: ConversationToExtract
    claims: Sequence[Claim]
    #: That rules did not hear, by the message that voices it.
    wishes: Mapping[MessageId, PrivacyRequest] = field(default_factory=dict[MessageId, PrivacyRequest])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What became of drawings."""

    #: Conversations that had not changed meanwhile.
    conversations: int = 0
    messages: int = 0
    #: Memories that came.
    added: int = 0
    #: Memories that went, because what they rest on does not say so any more.
    released: int = 0
    #: Wishes that were heard.
    wishes: int = 0

    def __add__(self, other: "WriteResult") -> "WriteResult":
        """Return both together."""
        return WriteResult(
            conversations=self.conversations + other.conversations,
            messages=self.messages + other.messages,
            added=self.added + other.added,
            released=self.released + other.released,
            wishes=self.wishes + other.wishes,
        )


async def load_conversations(
    conn: Connection, org_id: OrgId, found: Sequence[PendingConversation], *, is_for_model: bool = False
) -> list[ConversationToExtract]:
    """Return conversations as they are given to an extractor; those in which nothing is left are left out.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        found: Which.
        is_for_model: Whether they will be shown to a language model, which gets nothing that a spoken wish covers.
    """
    there = [one for one in found if one.state is not None]
    said = await extraction_state.message_texts(conn, org_id, [one.id for one in there], shown=is_for_model)
    people = await extraction_state.room_participants(conn, org_id, {one.room_id for one in there})
    conversations = [
        ConversationToExtract(
            snapshot=one,
            messages=said.get(one.id, []),
            people=_mentioned_people(said.get(one.id, []), people.get(one.room_id, [])),
        )
        for one in there
    ]
    return (
        [await _with_known_memories(conn, org_id, one) for one in conversations]
        if is_for_model
        else conversations
    )


async def _with_known_memories(
    conn: Connection, org_id: OrgId, conversation: ConversationToExtract
) -> ConversationToExtract:
    found = await prompt_candidates.load(
        conn,
        org_id,
        [one.message_id for one in conversation.messages],
        people={person.id for person in conversation.people},
        text="\n".join(one.body for one in conversation.messages),
    )
    return replace(conversation, known_memories=found)


async def write_claims(
    conn: Connection,
    org_id: OrgId,
    extracted: Sequence[ExtractedClaims],
    *,
    extractor: str,
    now: datetime,
    is_for_model: bool = False,
) -> tuple[WriteResult, dict[ConversationId, str]]:
    """Remember what was found in conversations that are as they were, let go of what is not found any more.

    Args:
        conn: Writes for the operator.
        org_id: Whose.
        extracted: What was found.
        extractor: What found it.
        now: When it is remembered.
        is_for_model: Whether it was shown to a language model: then nothing that a wish covers by now becomes a memory, the
            wishes that were found first.

    Returns:
        What became of it, and the states of those conversations, which are still to be noted.
    """
    await erased.lock_shared(conn, org_id)
    await directory.lock_rooms(conn, sorted(_room_ids(extracted)))
    states = await extraction_state.lock(conn, org_id, sorted(one.conversation.id for one in extracted))
    same = {
        one.conversation.id: one.conversation.snapshot.state
        for one in extracted
        if states.get(one.conversation.id) == one.conversation.snapshot.state
    }
    fit = [one for one in extracted if one.conversation.id in same]
    wishes = sum(
        [await _store_privacy_requests(conn, org_id, one, heard_by=extractor, now=now) for one in fit]
    )
    found = [draft for one in fit for draft in _drafts(one, extractor=extractor, now=now)]
    drafts = await reject_erased_names(conn, org_id, found)
    kept: set[tuple[MemoryId, MessageId]] = set()
    added = 0
    for draft in drafts:
        message_ids = [source.message_id for source in draft.sources]
        if is_for_model and not await is_allowed_for_model(conn, org_id, message_ids):
            continue
        became = await upsert(conn, org_id, draft)
        if became is not None:
            kept.update((became.memory_id, message_id) for message_id in message_ids)
            added += became.outcome == "added"
    # Also of what says nothing any more, so that nothing stays of words that were edited away.
    members = await extraction_state.message_ids(conn, org_id, same)
    released = (
        await detach_messages(conn, org_id, members, extractor=extractor, still_extracted=kept)
        if members
        else 0
    )
    written = WriteResult(
        conversations=len(fit),
        messages=sum(len(one.conversation.messages) for one in fit),
        added=added,
        released=released,
        wishes=wishes,
    )
    return written, {key: state for key, state in same.items() if state is not None}


async def _store_privacy_requests(
    conn: Connection, org_id: OrgId, extracted: ExtractedClaims, *, heard_by: str, now: datetime
) -> int:
    """Hear the wishes that were found, so that they count for whatever is remembered next; return how many."""
    if not extracted.wishes:
        return 0
    room_id = extracted.conversation.snapshot.room_id
    return await add_detected(conn, org_id, room_id, extracted.wishes, detected_by=heard_by, at=now)


def _room_ids(extracted: Sequence[ExtractedClaims]) -> set[RoomId]:
    return {one.conversation.snapshot.room_id for one in extracted}


def _drafts(extracted: ExtractedClaims, *, extractor: str, now: datetime) -> list[MemoryDraft]:
    sent_at = {one.message_id: one.sent_at for one in extracted.conversation.messages}
    sensitivity = extracted.conversation.snapshot.sensitivity
    return [
        _draft(
            one,
            extractor=extractor,
            sensitivity=sensitivity,
            now=now,
            sent_at=sent_at[one.quotes[0].message_id],
        )
        for one in extracted.claims
    ]


def _draft(
    statement: Claim, *, extractor: str, sensitivity: Sensitivity, now: datetime, sent_at: datetime
) -> MemoryDraft:
    roles: set[tuple[MemoryRole, ParticipantId]] = {("author", statement.author_id)}
    roles |= {("subject", who) for who in statement.subject_ids}
    roles |= {("involved", who) for who in statement.involved_ids - {statement.author_id}}
    usual = MEMORY_KINDS[statement.kind].importance
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=statement.kind,
        title=statement.title,
        content=statement.content,
        importance=usual if statement.importance is None else statement.importance,
        confidence=statement.confidence,
        sensitivity=sensitivity,
        recorded_at=now,
        valid_from=sent_at,
        sources=[
            MemorySource(message_id=quote.message_id, quote_start=quote.start, quote_end=quote.end)
            for quote in statement.quotes
        ],
        roles=frozenset(roles),
        tags=statement.tags,
        slot=statement.slot,
        repeats=statement.repeats,
        replaces=statement.replaces,
        extractor=extractor,
    )


def _mentioned_people(
    said: Sequence[SourceText], people: Sequence[NamedParticipant]
) -> list[NamedParticipant]:
    """Return those who speak, and those one of whose names begins with a word that somebody says."""
    authors = {one.author_id for one in said}
    words = {word for one in said for word in _WORD.findall(one.body.casefold())}
    return [one for one in people if one.id in authors or _is_named(one, words)]


def _is_named(person: NamedParticipant, words: Collection[str]) -> bool:
    called = (_WORD.search(name.casefold()) for name in (person.name, *person.names))
    return any(found is not None and found[0] in words for found in called)


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
        return await asyncio.to_thread(rule_extractor.extract, said, people)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionWorker:
    """Goes through conversations that are over."""

    db: Database
    extractor: Extractor
    batch: int = BATCH

    async def next(self, org_id: OrgId, *, now: datetime) -> WriteResult | None:
        """Go through some conversations of an org that are over; None where there is none left."""
        find = partial(extraction_state.pending, org_id=org_id, now=now, limit=self.batch)
        return await self._extract_found(org_id, find, now=now)

    async def extract(
        self, org_id: OrgId, ids: Sequence[ConversationId], *, now: datetime, progress: Progress | None = None
    ) -> WriteResult:
        """Go through these conversations, over or not, and return what came of it."""
        done = WriteResult()
        for start in range(0, len(ids), self.batch):
            find = partial(extraction_state.requested, org_id=org_id, ids=ids[start : start + self.batch])
            written = await self._extract_found(org_id, find, now=now) or WriteResult()
            _report(progress, written)
            done += written
        return done

    async def _extract_found(
        self, org_id: OrgId, find_conversations: partial[Any], *, now: datetime
    ) -> WriteResult | None:
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            found: list[PendingConversation] = await find_conversations(conn)
            conversations = await load_conversations(conn, org_id, found)
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

    async def _write_separately(
        self, org_id: OrgId, drawings: Sequence[ExtractedClaims], *, now: datetime
    ) -> WriteResult:
        """Write drawings together, or one by one if that fails; what fails alone is set aside."""
        if not drawings:
            return WriteResult()
        try:
            with work_queue.translate_connection_errors():
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
        written, states = await write_claims(conn, org_id, drawings, extractor=self.extractor.name, now=now)
        await extraction_state.record_extracted(conn, org_id, states)
        return written

    async def _dead_letter(self, org_id: OrgId, conversation: ConversationToExtract, reason: str) -> None:
        """Leave a conversation for a kind of error; its text may quote what somebody said."""
        LOG.warning("conversation %s: %s; set aside", conversation.id, reason)
        note = partial(
            extraction_state.dead_letter, org_id=org_id, conversation_id=conversation.id, error=reason
        )
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
    with work_queue.translate_connection_errors():
        for org_id in await orgs(worker.db, only_org):
            now = datetime.now(UTC)
            while (written := await worker.next(org_id, now=now)) is not None:
                _report(progress, written)
                done += written
    return done


def _report(progress: Progress | None, written: WriteResult) -> None:
    if written.messages and progress is not None:
        progress(written.messages)
