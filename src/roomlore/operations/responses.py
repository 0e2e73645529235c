"""The JSON shapes of records that JSON shows in another form. Server, client, command line and pages share them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast, get_args, get_origin
from uuid import UUID

from roomlore.context.expansion import TimeBoundary
from roomlore.context.memory_section import ExplainedMemory, MemorySection, section_text
from roomlore.context.records import Citation, Context, ContextSpeaker, ExplainedMessage, UnreadLink
from roomlore.context.render import format_note, to_text
from roomlore.domain.ids import KeyId, MemoryId, MessageId, ParticipantId, ReceiptId, RoomId, uuid7
from roomlore.domain.incoming import ParticipantKind, SkippedRecord
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
    convert,
    field_values,
)
from roomlore.operations.conversations import ConversationFound, shown_conversation
from roomlore.operations.registry import Operation
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
    """A message of a thread, and why it matched. The reason is None if only other messages of the thread matched."""

    why: MatchReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundThread:
    """A thread that a search found. Its messages are in room order."""

    score: float
    #: Empty for a whisper from a room that the viewer may not see.
    room: str
    platform: str
    omitted: int
    messages: Sequence[FoundMessage]
    replies: Sequence[Reply]

    def hit(self) -> Hit:
        """Convert this response back to the `Hit` that the search returned."""
        return Hit(
            messages=[convert(Message, one) for one in self.messages],
            replies=self.replies,
            omitted=self.omitted,
            why={one.id: one.why for one in self.messages if one.why is not None},
            room_name=self.room,
            platform=self.platform,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse:
    """The threads that a search found, best first, and the filters that it read from the question."""

    hits: Sequence[FoundThread]
    #: The probability that the answer is among these threads, 0..1.
    confidence: float | None
    degraded: Sequence[SearchDegradation]
    applied_filters: AppliedFilters | None
    #: Results that restrictions hide. Only operators see them.
    restrictions: Sequence[RestrictedResult]
    postable: Postable

    def result(self) -> SearchResult:
        """Convert this response back to the result that the search returned."""
        return convert(SearchResult, self, hits=[one.hit() for one in self.hits])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResponse:
    """An answer, its sources, and the trace of each stage."""

    question: str
    stage: StageName
    is_answered: bool
    answer: str
    written_by: str
    note: str
    citations: Mapping[str, str]
    sources: Sequence[FoundThread]
    memories: Sequence[MatchedMemory]
    lines: Sequence[LogMatch]
    trace: Sequence[StageTrace]
    degraded: Sequence[SearchDegradation]
    applied_filters: AppliedFilters | None
    #: Sources that restrictions hide. Only operators see them.
    restrictions: Sequence[RestrictedResult]
    postable: Postable

    def to_answer(self) -> Answer:
        """Convert this response back to the answer that `ask` returned."""
        cited = {label: _citation_target(place) for label, place in self.citations.items()}
        return convert(
            Answer, self, text=self.answer, hits=[one.hit() for one in self.sources], citations=cited
        )


def _citation_target(place: str) -> UUID | str:
    """Return the id of a message or memory, or the place of a log line."""
    try:
        return UUID(place)
    except ValueError:
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextResponse:
    """The messages that an agent should read before it answers. The reasons are included only on request."""

    room_id: RoomId
    trigger_id: MessageId
    viewer: ParticipantId | Literal["operator"]
    #: Where the answer may be posted.
    postable: Postable
    tokens: int
    budget: int
    #: How to read the text, and whom the answer addresses, for the system prompt.
    note: str
    text: str
    #: Whom the answer addresses: usually the author of the trigger. None if that is nobody.
    addressee: ContextSpeaker | None
    #: Everybody else who speaks in the context.
    others_present: Sequence[ContextSpeaker]
    #: Whether messages of the trigger's thread are left out. All other threads are complete.
    is_partial: bool
    citations: Mapping[str, Citation]
    #: What restrictions hide in this part of the room; None unless the viewer is an operator.
    restrictions: Sequence[RestrictedResult] | None = None
    #: None unless the viewer is an agent. The same holds for `explain_memories`.
    memories: Mapping[str, MemoryId] | None = None
    explain: Sequence[ExplainedMessage] | None = None
    boundaries: Sequence[TimeBoundary] | None = None
    unread_links: Sequence[UnreadLink] | None = None
    explain_memories: Sequence[ExplainedMemory] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySectionResponse:
    """The memories of an agent that may matter now."""

    text: str
    #: Where the answer may be posted.
    postable: Postable
    tokens: int
    budget: int
    citations: Mapping[str, MemoryId]
    explain: Sequence[ExplainedMemory] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadResponse:
    """A thread and its root message."""

    root: MessageId
    messages: Sequence[Message]
    replies: Sequence[Reply]
    #: The maximum length of each text in a very large thread; None if the texts are whole.
    shortened_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesPage:
    """Messages of a room, oldest first, and the cursor of earlier messages; None if there are no earlier messages."""

    messages: Sequence[Message]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """Messages of a room, oldest first, and the cursor of earlier messages.

    Each message comes with the message that it answers, and with its conversation.
    """

    messages: Sequence[AssignedMessage]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsPage:
    """Threads of a room, newest root first, and the cursor of earlier threads."""

    threads: Sequence[ThreadResponse]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationResponse(ConversationFound):
    """A conversation with its newest messages, oldest first, and the cursor of earlier messages."""

    messages: Sequence[AssignedMessage]
    #: None if there are no earlier messages. Always None on the command line.
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonResponse:
    """A participant with all accounts that the viewer may know."""

    id: ParticipantId
    accounts: Sequence[Account]
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None

    def participant(self) -> Participant:
        """Return the participant, with the ids of the accounts."""
        ids = dict.fromkeys((self.id, *(one.participant_id for one in self.accounts)))
        return convert(Participant, self, accounts=list(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptResponse:
    """The result of an erasure, or of its dry run, and whether verification found nothing left."""

    #: None for a dry run, which is not stored.
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
    #: What indexes on other servers may still hold. None for a dry run and in lists.
    pending_projections: Sequence[PendingRemoval] | None
    #: None for a dry run.
    is_clean: bool | None

    def receipt(self) -> Receipt:
        """Return the receipt. A dry run gets a new id that is stored nowhere, as in an App."""
        return convert(Receipt, self, id=self.id or ReceiptId(uuid7()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedMessage:
    """A new message: its room, external id and id."""

    room_id: RoomId
    external_id: str
    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResponse:
    """The outcome of a batch of records. The stored records are on disk."""

    added: Sequence[AddedMessage]
    #: The ids of all messages that were not skipped, in the order of the batch.
    message_ids: Sequence[MessageId]
    room_ids: Sequence[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: Sequence[SkippedRecord]


def found_thread(hit: Hit) -> FoundThread:
    """Return a thread that was found. Each message has the reasons why it matched."""
    messages = [convert(FoundMessage, one, why=hit.why.get(one.id)) for one in hit.messages]
    return convert(FoundThread, hit, room=hit.room_name, messages=messages)


def search_response(found: SearchResult) -> SearchResponse:
    """Return the response for the results of a search."""
    return convert(SearchResponse, found, hits=[found_thread(hit) for hit in found.hits])


def answer_response(answer: Answer) -> AnswerResponse:
    """Return the response for an answer, with its sources."""
    return convert(
        AnswerResponse,
        answer,
        is_answered=answer.is_answered,
        answer=answer.text,
        citations={label: str(place) for label, place in answer.citations.items()},
        sources=[found_thread(hit) for hit in answer.hits],
    )


def context_response(context: Context, *, explain: bool) -> ContextResponse:
    """Return the response for a context.

    With `explain`, it also says why each message is in or out, and which links were not read.
    """
    section = context.memory_section
    return ContextResponse(
        room_id=context.room_id,
        trigger_id=context.trigger_id,
        viewer=context.viewer.participant_id or "operator",
        postable=context.postable,
        tokens=context.tokens,
        budget=context.budget,
        note=format_note(context),
        addressee=context.addressee,
        others_present=context.others_present,
        text=to_text(context),
        is_partial=context.is_partial,
        citations=context.citations,
        restrictions=context.restrictions if context.viewer.is_operator else None,
        memories=section.citations if section else None,
        explain=context.explain() if explain else None,
        boundaries=context.boundaries if explain else None,
        unread_links=context.unread_links if explain else None,
        explain_memories=section.explain() if section and explain else None,
    )


def memory_section_response(section: MemorySection, *, explain: bool) -> MemorySectionResponse:
    """Return the response for a memory section. With `explain`, it also says why each memory is in or out."""
    explained = section.explain() if explain else None
    return convert(MemorySectionResponse, section, text=section_text(section), explain=explained)


def thread_response(thread: Thread) -> ThreadResponse:
    """Return a thread with the id of its root."""
    return convert(ThreadResponse, thread, root=thread.root.id)


def conversation_response(
    conversation: Conversation, messages: Sequence[AssignedMessage], *, cursor: str | None = None
) -> ConversationResponse:
    """Return a conversation with a page of its messages."""
    shown = field_values(shown_conversation(conversation))
    return ConversationResponse(**shown, messages=messages, next=cursor)


def person_responses(people: Sequence[Participant], accounts: Sequence[Account]) -> list[PersonResponse]:
    """Return participants, each with their accounts."""
    known: defaultdict[ParticipantId, list[Account]] = defaultdict(list)
    for account in accounts:
        known[account.participant_id].append(account)
    return [
        convert(PersonResponse, one, accounts=[account for key in one.accounts for account in known[key]])
        for one in people
    ]


def receipt_response(receipt: Receipt) -> ReceiptResponse:
    """Return a receipt that says whether it is clean."""
    is_stored = not receipt.is_dry_run
    shown_id, is_clean = (receipt.id, receipt.is_clean) if is_stored else (None, None)
    return convert(ReceiptResponse, receipt, id=shown_id, is_clean=is_clean)


#: Results that JSON shows as another record.
SHOWN: Mapping[Any, Callable[[Any], Any]] = {Conversation: shown_conversation, Receipt: receipt_response}


def shown_as(operation: Operation) -> Callable[[Any], Any] | None:
    """Return the function that converts a result, or each item of a list, to the record that JSON shows.

    Return None if JSON shows the result itself.
    """
    is_list = get_origin(operation.result) is list
    return SHOWN.get(get_args(operation.result)[0] if is_list else operation.result)


def to_document(operation: Operation, result: Any) -> Any:
    """Return the JSON form of an operation's result."""
    shown, key = shown_as(operation), operation.declaration.get("result_key")
    if shown is not None:
        is_list = isinstance(result, list)
        result = [shown(item) for item in cast("list[Any]", result)] if is_list else shown(result)
    return result if key is None else {key: result}
