"""What an extractor is given of conversations, and how what it finds stated there becomes memories.

Read in one transaction and written in another, in which a conversation that has changed meanwhile is left for the
next time: what was found in it may not be so any more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemoryRole, MemorySource, Sensitivity
from roomlore.domain.statements import NamedParticipant, ExistingMemory, SourceText, Claim
from roomlore.extraction.taxonomy import MEMORY_KINDS
from roomlore.remembering import offering
from roomlore.remembering.keep import upsert, detach_messages
from roomlore.store import directory, erased, extracting
from roomlore.store.extracting import PendingConversation
from roomlore.store.keeping import MemoryDraft
from roomlore.store.queries import Connection
from roomlore.untangling.unnamed import reject_erased_names
from roomlore.wishes.hearing import add_detected
from roomlore.wishes.records import PrivacyRequest
from roomlore.workers.showing import is_allowed_for_model

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
        shown: Whether they will be shown to a language model, which gets nothing that a spoken wish covers.
    """
    there = [one for one in found if one.state is not None]
    said = await extracting.message_texts(conn, org_id, [one.id for one in there], shown=is_for_model)
    people = await extracting.room_participants(conn, org_id, {one.room_id for one in there})
    conversations = [
        ConversationToExtract(
            snapshot=one,
            messages=said.get(one.id, []),
            people=_mentioned_people(said.get(one.id, []), people.get(one.room_id, [])),
        )
        for one in there
    ]
    return [await _with_known_memories(conn, org_id, one) for one in conversations] if is_for_model else conversations


async def _with_known_memories(conn: Connection, org_id: OrgId, conversation: ConversationToExtract) -> ConversationToExtract:
    found = await offering.load(
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
        drawings: What was found.
        extractor: What found it.
        now: When it is remembered.
        shown: Whether it was shown to a language model: then nothing that a wish covers by now becomes a memory, the
            wishes that were found first.

    Returns:
        What became of it, and the states of those conversations, which are still to be noted.
    """
    await erased.lock_shared(conn, org_id)
    await directory.lock_rooms(conn, sorted(_room_ids(extracted)))
    states = await extracting.lock(conn, org_id, sorted(one.conversation.id for one in extracted))
    same = {
        one.conversation.id: one.conversation.snapshot.state
        for one in extracted
        if states.get(one.conversation.id) == one.conversation.snapshot.state
    }
    fit = [one for one in extracted if one.conversation.id in same]
    wishes = sum([await _store_privacy_requests(conn, org_id, one, heard_by=extractor, now=now) for one in fit])
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
    members = await extracting.message_ids(conn, org_id, same)
    released = await detach_messages(conn, org_id, members, extractor=extractor, still_extracted=kept) if members else 0
    written = WriteResult(
        conversations=len(fit),
        messages=sum(len(one.conversation.messages) for one in fit),
        added=added,
        released=released,
        wishes=wishes,
    )
    return written, {key: state for key, state in same.items() if state is not None}


async def _store_privacy_requests(conn: Connection, org_id: OrgId, extracted: ExtractedClaims, *, heard_by: str, now: datetime) -> int:
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


def _mentioned_people(said: Sequence[SourceText], people: Sequence[NamedParticipant]) -> list[NamedParticipant]:
    """Return those who speak, and those one of whose names begins with a word that somebody says."""
    authors = {one.author_id for one in said}
    words = {word for one in said for word in _WORD.findall(one.body.casefold())}
    return [one for one in people if one.id in authors or _is_named(one, words)]


def _is_named(person: NamedParticipant, words: Collection[str]) -> bool:
    called = (_WORD.search(name.casefold()) for name in (person.name, *person.names))
    return any(found is not None and found[0] in words for found in called)
