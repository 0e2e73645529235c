"""What surfaces show as JSON where a record alone is not it: the same from the command line and over HTTP."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from roomlore.context.expansion import TimeBoundary
from roomlore.context.memory_section import ExplainedMemory, MemorySection, section_text
from roomlore.context.records import Citation, Context, ExplainedMessage, UnreadLink
from roomlore.context.render import FORMAT_NOTE, to_text
from roomlore.domain.fields import field_values
from roomlore.domain.ids import KeyId, MemoryId, MessageId, ParticipantId, ReceiptId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.receipts import (
    ErasureKind,
    PendingRemoval,
    Receipt,
    RemovedCount,
    RetainedCount,
    VerificationCheck,
)
from roomlore.domain.records import (
    Account,
    AssignedMessage,
    Conversation,
    Message,
    Participant,
    Postable,
    Reply,
)
from roomlore.operations.conversations import ConversationFound, shown_conversation
from roomlore.search.query_parser import AppliedFilters
from roomlore.search.records import (
    Answer,
    Hit,
    LogMatch,
    MatchedMemory,
    MatchReason,
    RestrictedResult,
    SearchDegradation,
    SearchResult,
    StageName,
    StageTrace,
    Thread,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage(Message):
    """A message of an exchange that was found, and why; None where it came along with others."""

    why: MatchReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExchange:
    """An exchange that was found, in room order."""

    score: float
    #: Empty for a whisper from a room that the viewer may not see.
    room: str
    platform: str
    omitted: int
    messages: Sequence[FoundMessage]
    replies: Sequence[Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExchanges:
    """What a search found, best first, and what was read out of its question."""

    hits: Sequence[FoundExchange]
    #: How sure it is that the answer is among them, 0..1.
    certainty: float | None
    degraded: Sequence[SearchDegradation]
    read: AppliedFilters | None
    #: What spoken requests left out; told to operators alone.
    withheld: Sequence[RestrictedResult]
    postable: Postable


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGiven:
    """An answer, what it rests on, and what each tier saw."""

    question: str
    tier: StageName
    known: bool
    answer: str
    written_by: str
    note: str
    citations: Mapping[str, UUID | str]
    sources: Sequence[FoundExchange]
    memories: Sequence[MatchedMemory]
    lines: Sequence[LogMatch]
    trace: Sequence[StageTrace]
    degraded: Sequence[SearchDegradation]
    read: AppliedFilters | None
    #: What it would rest on, too, if no spoken request withheld it; told to operators alone.
    withheld: Sequence[RestrictedResult]
    postable: Postable


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGiven:
    """What an agent should read before it answers; why each candidate is in or out only where that was wanted."""

    room_id: RoomId
    trigger_id: MessageId
    viewer: ParticipantId | Literal["operator"]
    #: Where the answer may be posted.
    postable: Postable
    tokens: int
    budget: int
    #: How to read the text; for the system prompt.
    note: str
    text: str
    #: Whether messages of the exchange that the trigger belongs to are left out; no other is ever shown in part.
    is_partial: bool
    citations: Mapping[str, Citation]
    #: What spoken requests leave out of this stretch of the room; told to operators alone, None for others.
    withheld: Sequence[RestrictedResult] | None = None
    #: None for those who are no agents, as the last.
    memories: Mapping[str, MemoryId] | None = None
    explain: Sequence[ExplainedMessage] | None = None
    sealed: Sequence[TimeBoundary] | None = None
    unread: Sequence[UnreadLink] | None = None
    explain_memories: Sequence[ExplainedMemory] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGiven:
    """What an agent remembers that may matter now."""

    text: str
    #: Where the answer may be posted.
    postable: Postable
    tokens: int
    budget: int
    citations: Mapping[str, MemoryId]
    explain: Sequence[ExplainedMemory] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSaid:
    """An exchange, and which of its messages opened it."""

    opening: MessageId
    messages: Sequence[Message]
    replies: Sequence[Reply]
    #: So many characters of each text at most, where it has very many messages.
    shortened_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRead(ConversationFound):
    """A conversation with the newest of what was said in it, oldest first, and where what was before is."""

    messages: Sequence[AssignedMessage]
    #: None where there is none, and on the command line.
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who takes part, with all accounts that the viewer may know to be theirs."""

    id: ParticipantId
    accounts: Sequence[Account]
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptGiven:
    """What an erasure did, or on a dry run would do, and whether a second look found nothing left."""

    #: None on a dry run: there is nothing to look up, and nothing that could be clean.
    id: ReceiptId | None
    at: datetime
    kind: ErasureKind
    room_id: RoomId | None
    message_id: MessageId | None
    participant_ids: Sequence[ParticipantId]
    since: datetime | None
    until: datetime | None
    key_id: KeyId | None
    viewer_id: ParticipantId | None
    removed: Sequence[RemovedCount]
    kept: Sequence[RetainedCount]
    checks: Sequence[VerificationCheck] | None
    checked_at: datetime | None
    is_dry_run: bool
    #: What copies in other servers may hold still, as of now. None on a dry run, and where receipts are listed.
    copies: Sequence[PendingRemoval] | None
    is_clean: bool | None


def found_exchange(hit: Hit) -> FoundExchange:
    """Return an exchange that was found, each message with the reasons why."""
    messages = [FoundMessage(**field_values(one), why=hit.why.get(one.id)) for one in hit.messages]
    return FoundExchange(
        score=hit.score,
        room=hit.room_name,
        platform=hit.platform,
        omitted=hit.omitted,
        messages=messages,
        replies=hit.replies,
    )


def found_exchanges(found: SearchResult) -> FoundExchanges:
    """Return what a search found."""
    hits = [found_exchange(hit) for hit in found.hits]
    return FoundExchanges(
        hits=hits,
        certainty=found.certainty,
        degraded=found.degraded,
        read=found.read,
        withheld=found.withheld,
        postable=found.postable,
    )


def answer_given(answer: Answer) -> AnswerGiven:
    """Return an answer with its sources."""
    return AnswerGiven(
        question=answer.question,
        tier=answer.tier,
        known=answer.is_known,
        answer=answer.text,
        written_by=answer.written_by,
        note=answer.note,
        citations=answer.citations,
        sources=[found_exchange(hit) for hit in answer.hits],
        memories=answer.memories,
        lines=answer.lines,
        trace=answer.trace,
        degraded=answer.degraded,
        read=answer.read,
        withheld=answer.withheld,
        postable=answer.postable,
    )


def context_given(context: Context, *, explain: bool) -> ContextGiven:
    """Return a context, and with `explain` why each message is in or out and each link not read."""
    block = context.block
    return ContextGiven(
        room_id=context.room_id,
        trigger_id=context.trigger_id,
        viewer=context.viewer.participant_id or "operator",
        postable=context.postable,
        tokens=context.tokens,
        budget=context.budget,
        note=FORMAT_NOTE,
        text=to_text(context),
        is_partial=context.is_partial,
        citations=context.citations,
        withheld=context.withheld if context.viewer.is_operator else None,
        memories=block.citations if block else None,
        explain=context.explain() if explain else None,
        sealed=context.sealed if explain else None,
        unread=context.unread if explain else None,
        explain_memories=block.explain() if block and explain else None,
    )


def block_given(block: MemorySection, *, explain: bool) -> BlockGiven:
    """Return a memory block, and with `explain` why each memory is in or out."""
    return BlockGiven(
        text=section_text(block),
        postable=block.postable,
        tokens=block.tokens,
        budget=block.budget,
        citations=block.citations,
        explain=block.explain() if explain else None,
    )


def exchange_said(exchange: Thread) -> ExchangeSaid:
    """Return an exchange that says which of its messages opened it."""
    return ExchangeSaid(
        opening=exchange.root.id,
        messages=exchange.messages,
        replies=exchange.replies,
        shortened_to=exchange.shortened_to,
    )


def conversation_read(
    one: Conversation, said: Sequence[AssignedMessage], *, following: str | None = None
) -> ConversationRead:
    """Return a conversation with a page of its messages."""
    return ConversationRead(**field_values(shown_conversation(one)), messages=said, next=following)


def persons(people: Sequence[Participant], accounts: Sequence[Account]) -> list[Person]:
    """Return those who take part, each with their accounts."""
    known: defaultdict[ParticipantId, list[Account]] = defaultdict(list)
    for account in accounts:
        known[account.participant_id].append(account)
    return [
        _person(person, [account for key in person.accounts for account in known[key]]) for person in people
    ]


def _person(person: Participant, accounts: Sequence[Account]) -> Person:
    facts = field_values(person)
    facts["accounts"] = accounts
    return Person(**facts)


def receipt_given(receipt: Receipt) -> ReceiptGiven:
    """Return a receipt that says whether it is clean."""
    unknown: dict[str, Any] = (
        {"id": None, "is_clean": None} if receipt.is_dry_run else {"is_clean": receipt.is_clean}
    )
    return ReceiptGiven(**field_values(receipt) | unknown)
