"""Extracts memories from finished conversations: decisions, answered questions, facts about people and so on.

A conversation is extracted once. It is extracted again when something in it has changed. What is pending is recorded
with the conversations, so nothing is lost when a worker dies. Repeating an extraction changes nothing: if two workers
process the same conversation, the second one finds it unchanged and does nothing.

After new memories are stored, the message model compares them with older ones, which they may supersede.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from roomlore.conversations.erased_names import reject_erased_names
from roomlore.db import directory, erasure_guard, extraction_state, work_queue
from roomlore.db.extraction_state import PendingConversation
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.claims import Claim, ExistingMemory, NamedParticipant, SourceText
from roomlore.domain.errors import DatabaseUnavailable, ModelUnavailable
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, uuid7
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import Extractor, LlmFailure
from roomlore.domain.records import MemoryRole, MemorySource, Sensitivity, Viewer
from roomlore.jobs.llm_client import is_allowed_for_model
from roomlore.jobs.scheduler import OrgWorker
from roomlore.memories.consolidation import detach_messages, prompt_candidates, upsert
from roomlore.memories.kinds import DEFAULT_IMPORTANCE
from roomlore.memories.supersession import RelationModel, comparisons, supersede, superseding
from roomlore.privacy.enforcement import add_detected
from roomlore.privacy.records import PrivacyRequest

_WORD = lazy_pattern(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationToExtract:
    """A conversation in the form in which an extractor gets it."""

    snapshot: PendingConversation
    messages: Sequence[SourceText]
    #: Possible subjects: people who speak in the conversation, and members of its room whose names occur in it.
    people: Sequence[NamedParticipant]
    #: For a language model: active memories of the same people with the same audience.
    known_memories: Sequence[ExistingMemory] = ()

    @property
    def id(self) -> ConversationId:
        """The id of the conversation."""
        return self.snapshot.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedClaims:
    """The claims found in a conversation."""

    conversation: ConversationToExtract
    claims: Sequence[Claim]
    #: Privacy requests that the rules did not find, by source message. Only a language model finds such requests.
    privacy_requests: Mapping[MessageId, PrivacyRequest] = field(
        default_factory=dict[MessageId, PrivacyRequest]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The result of writing claims."""

    #: The number of conversations whose claims were stored. Claims are stored only for unchanged conversations.
    conversations: int = 0
    messages: int = 0
    added: int = 0
    #: The number of memories that were dropped because no message states them any longer.
    released: int = 0
    #: New privacy requests.
    privacy_requests: int = 0

    def __add__(self, other: "WriteResult") -> "WriteResult":
        """Return the sum of both."""
        return WriteResult(
            conversations=self.conversations + other.conversations,
            messages=self.messages + other.messages,
            added=self.added + other.added,
            released=self.released + other.released,
            privacy_requests=self.privacy_requests + other.privacy_requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenClaims:
    """The state after claims were written: counts, states of conversations, and ids of memories."""

    result: WriteResult
    #: The states of the unchanged conversations.
    states: Mapping[ConversationId, str]
    #: The memories that hold the claims.
    memory_ids: frozenset[MemoryId]


async def load_conversations(
    conn: Connection, org_id: OrgId, pending: Sequence[PendingConversation], *, is_for_model: bool = False
) -> list[ConversationToExtract]:
    """Return conversations in the form that an extractor takes. Conversations that are empty by now are left out.

    With `is_for_model`, restricted messages are left out and known memories are included.
    """
    existing = [conversation for conversation in pending if conversation.state is not None]
    texts = await extraction_state.message_texts(
        conn, org_id, [conversation.id for conversation in existing], shown=is_for_model
    )
    people = await extraction_state.room_participants(
        conn, org_id, {conversation.room_id for conversation in existing}
    )
    conversations = [
        ConversationToExtract(
            snapshot=conversation,
            messages=texts.get(conversation.id, []),
            people=_mentioned_people(texts.get(conversation.id, []), people.get(conversation.room_id, [])),
        )
        for conversation in existing
    ]
    return (
        [await _with_known_memories(conn, org_id, conversation) for conversation in conversations]
        if is_for_model
        else conversations
    )


async def _with_known_memories(
    conn: Connection, org_id: OrgId, conversation: ConversationToExtract
) -> ConversationToExtract:
    memories = await prompt_candidates(
        conn,
        org_id,
        [message.message_id for message in conversation.messages],
        people={participant.id for participant in conversation.people},
        text="\n".join(message.body for message in conversation.messages),
    )
    return replace(conversation, known_memories=memories)


async def write_claims(
    conn: Connection,
    org_id: OrgId,
    extracted: Sequence[ExtractedClaims],
    *,
    extractor: str,
    now: datetime,
    is_for_model: bool = False,
) -> WrittenClaims:
    """Store the claims of unchanged conversations as memories; detach memories that the conversations no longer state.

    With `is_for_model`, the claims come from a language model. Its privacy requests are stored first, and claims from
    restricted messages are dropped.

    The caller has to record the states of the result.
    """
    await erasure_guard.lock_shared(conn, org_id)
    await directory.lock_rooms(conn, sorted({each.conversation.snapshot.room_id for each in extracted}))
    states = await extraction_state.lock(conn, org_id, sorted(each.conversation.id for each in extracted))
    unchanged = {
        each.conversation.id: each.conversation.snapshot.state
        for each in extracted
        if states.get(each.conversation.id) == each.conversation.snapshot.state
    }
    current = [each for each in extracted if each.conversation.id in unchanged]
    privacy_requests = sum(
        [
            await _store_privacy_requests(conn, org_id, each, detected_by=extractor, now=now)
            for each in current
        ]
    )
    drafts = [draft for each in current for draft in _drafts(each, extractor=extractor, now=now)]
    allowed = await reject_erased_names(conn, org_id, drafts)
    still_extracted: set[tuple[MemoryId, MessageId]] = set()
    added = 0
    for draft in allowed:
        message_ids = [source.message_id for source in draft.sources]
        if is_for_model and not await is_allowed_for_model(conn, org_id, message_ids):
            continue
        upserted = await upsert(conn, org_id, draft)
        if upserted is not None:
            still_extracted.update((upserted.memory_id, message_id) for message_id in message_ids)
            added += upserted.outcome == "added"
    # Include conversations without claims, so that memories of edited messages are released.
    messages = await extraction_state.message_ids(conn, org_id, unchanged)
    released = 0
    if messages:
        released = await detach_messages(
            conn, org_id, messages, extractor=extractor, still_extracted=still_extracted
        )
    result = WriteResult(
        conversations=len(current),
        messages=sum(len(each.conversation.messages) for each in current),
        added=added,
        released=released,
        privacy_requests=privacy_requests,
    )
    return WrittenClaims(
        result=result,
        states={key: state for key, state in unchanged.items() if state is not None},
        memory_ids=frozenset(memory_id for memory_id, _ in still_extracted),
    )


async def _store_privacy_requests(
    conn: Connection, org_id: OrgId, extracted: ExtractedClaims, *, detected_by: str, now: datetime
) -> int:
    """Store privacy requests; return how many are new.

    They are stored before any memory, so that they restrict the memories.
    """
    if not extracted.privacy_requests:
        return 0
    room_id = extracted.conversation.snapshot.room_id
    return await add_detected(
        conn, org_id, room_id, extracted.privacy_requests, detected_by=detected_by, at=now
    )


def _drafts(extracted: ExtractedClaims, *, extractor: str, now: datetime) -> list[MemoryDraft]:
    sent_at = {claim.message_id: claim.sent_at for claim in extracted.conversation.messages}
    sensitivity = extracted.conversation.snapshot.sensitivity
    return [
        _draft(
            claim,
            extractor=extractor,
            sensitivity=sensitivity,
            now=now,
            sent_at=sent_at[claim.quotes[0].message_id],
        )
        for claim in extracted.claims
    ]


def _draft(
    claim: Claim, *, extractor: str, sensitivity: Sensitivity, now: datetime, sent_at: datetime
) -> MemoryDraft:
    roles: set[tuple[MemoryRole, ParticipantId]] = {("author", claim.author_id)}
    roles |= {("subject", participant_id) for participant_id in claim.subject_ids}
    roles |= {("involved", participant_id) for participant_id in claim.involved_ids - {claim.author_id}}
    default_importance = DEFAULT_IMPORTANCE[claim.kind]
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=claim.kind,
        title=claim.title,
        content=claim.content,
        importance=default_importance if claim.importance is None else claim.importance,
        confidence=claim.confidence,
        sensitivity=sensitivity,
        recorded_at=now,
        valid_from=sent_at,
        sources=[
            MemorySource(message_id=quote.message_id, quote_start=quote.start, quote_end=quote.end)
            for quote in claim.quotes
        ],
        roles=frozenset(roles),
        tags=claim.tags,
        repeats=claim.repeats,
        replaces=claim.replaces,
        extractor=extractor,
    )


def _mentioned_people(
    messages: Sequence[SourceText], people: Sequence[NamedParticipant]
) -> list[NamedParticipant]:
    """Return the people who speak, and those with a name that begins with a word of the conversation."""
    authors = {each.author_id for each in messages}
    words = {word for each in messages for word in _WORD.findall(each.body.casefold())}
    return [each for each in people if each.id in authors or _is_named(each, words)]


def _is_named(person: NamedParticipant, words: Collection[str]) -> bool:
    first_words = (_WORD.search(name.casefold()) for name in (person.name, *person.names))
    return any(word is not None and word[0] in words for word in first_words)


POLL_SECONDS = 10.0
#: Conversations per batch.
BATCH = 100

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionWorker(OrgWorker[WriteResult | None]):
    """Extracts memories from finished conversations."""

    extractor: Extractor
    #: The model that says which memories supersede others. None: memories are not compared.
    relations: RelationModel | None = None
    batch: int = BATCH
    task_name: str = "extraction"
    interval: float = POLL_SECONDS

    async def next(
        self,
        org_id: OrgId,
        *,
        now: datetime,
        stop: asyncio.Event | None = None,  # noqa: ARG002  a batch is short
    ) -> WriteResult | None:
        """Process a batch of finished conversations of an org; return None if none is left."""
        find = partial(extraction_state.pending, org_id=org_id, now=now, limit=self.batch)
        return await self._extract_found(org_id, find, now=now)

    def pause_after(self, outcome: WriteResult | None) -> float | None:
        """Return 0 to continue with the next batch, or None if no conversation is left in the org."""
        return None if outcome is None else 0.0

    async def extract(self, org_id: OrgId, ids: Sequence[ConversationId], *, now: datetime) -> WriteResult:
        """Process these conversations, finished or not."""
        result = WriteResult()
        for start in range(0, len(ids), self.batch):
            find = partial(extraction_state.requested, org_id=org_id, ids=ids[start : start + self.batch])
            result += await self._extract_found(org_id, find, now=now) or WriteResult()
        return result

    async def _extract_found(self, org_id: OrgId, find: partial[Any], *, now: datetime) -> WriteResult | None:
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            pending: list[PendingConversation] = await find(conn)
            conversations = await load_conversations(conn, org_id, pending)
        if not pending:
            return None
        extracted = [await self._extract(org_id, conversation) for conversation in conversations]
        return await self._write_separately(org_id, [one for one in extracted if one], now=now)

    async def _extract(self, org_id: OrgId, conversation: ConversationToExtract) -> ExtractedClaims | None:
        try:
            found = await self.extractor.extract(conversation.messages, conversation.people)
        except ModelUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  one conversation must not stop the others
            await self._dead_letter(org_id, conversation, type(error).__name__)
            return None
        if isinstance(found, LlmFailure):
            await self._dead_letter(org_id, conversation, found.reason)
            return None
        return ExtractedClaims(conversation=conversation, claims=found)

    async def _write_separately(
        self, org_id: OrgId, drawings: Sequence[ExtractedClaims], *, now: datetime
    ) -> WriteResult:
        """Write claims together. If that fails, write one conversation at a time.

        Conversations that fail on their own are marked as failed.
        """
        if not drawings:
            return WriteResult()
        try:
            with work_queue.translate_connection_errors():
                return await self._write(org_id, drawings, now=now)
        except (DatabaseUnavailable, ModelUnavailable):
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
        self, org_id: OrgId, drawings: Sequence[ExtractedClaims], *, now: datetime
    ) -> WriteResult:
        write = partial(
            write_claims, org_id=org_id, extracted=drawings, extractor=self.extractor.name, now=now
        )
        written = await self.db.change(org_id, write)
        # The states are recorded last, so that memories are compared again if a worker dies before.
        pairs = await self._superseding(org_id, written.memory_ids)
        record = partial(self._record, org_id=org_id, drawings=drawings, states=written.states, pairs=pairs)
        await self.db.change(org_id, record)
        return written.result

    async def _superseding(
        self, org_id: OrgId, memory_ids: Collection[MemoryId]
    ) -> Sequence[tuple[MemoryId, MemoryId]]:
        """Return the pairs of memories in which the message model finds that one supersedes the other.

        No connection is held while the model runs.
        """
        if self.relations is None or not memory_ids:
            return []
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            compared = await comparisons(conn, org_id, memory_ids)
        return await asyncio.to_thread(superseding, compared, self.relations)

    async def _record(
        self,
        conn: Connection,
        org_id: OrgId,
        *,
        drawings: Sequence[ExtractedClaims],
        states: Mapping[ConversationId, str],
        pairs: Sequence[tuple[MemoryId, MemoryId]],
    ) -> None:
        await erasure_guard.lock_shared(conn, org_id)
        await directory.lock_rooms(conn, sorted({each.conversation.snapshot.room_id for each in drawings}))
        current = await extraction_state.lock(conn, org_id, sorted(states))
        await supersede(conn, org_id, pairs)
        unchanged = [(key, state) for key, state in states.items() if current.get(key) == state]
        await extraction_state.record_extracted(conn, org_id, unchanged)

    async def _dead_letter(self, org_id: OrgId, conversation: ConversationToExtract, reason: str) -> None:
        # Only the type of an error is recorded: its text may quote a message.
        LOG.warning("conversation %s: %s; set aside", conversation.id, reason)
        note = partial(
            extraction_state.dead_letter, org_id=org_id, conversation_id=conversation.id, error=reason
        )
        await self.db.change(org_id, note)
