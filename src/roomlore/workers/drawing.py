"""What an extractor is given of conversations, and how what it finds stated there becomes memories.

Read in one transaction and written in another, in which a conversation that has changed meanwhile is left for the
next time: what was found in it may not be so any more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.patterns import later
from roomlore.domain.records import MemoryRole, MemorySource, Sensitivity
from roomlore.domain.statements import Person, Remembered, Spoken, Statement
from roomlore.extraction.taxonomy import TAXONOMY
from roomlore.remembering import offering
from roomlore.remembering.keep import keep, release
from roomlore.store import directory, erased, extracting
from roomlore.store.extracting import Undrawn
from roomlore.store.keeping import Draft
from roomlore.store.queries import Connection
from roomlore.untangling.unnamed import unnaming
from roomlore.wishes.hearing import hear_named
from roomlore.wishes.records import Wish
from roomlore.workers.showing import may_be_shown

_WORD = later(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation as it is given to an extractor."""

    as_it_was: Undrawn
    said: Sequence[Spoken]
    #: Who may be spoken of: whoever speaks in it, and whoever of its room is named.
    people: Sequence[Person]
    #: Of one that is to be shown to a language model: what stands already of the same people for the same people.
    remembered: Sequence[Remembered] = ()

    @property
    def id(self) -> ConversationId:
        """Return which one it is."""
        return self.as_it_was.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What was found stated in a conversation."""

    conversation: Conversation
    statements: Sequence[Statement]
    #: That rules did not hear, by the message that voices it.
    wishes: Mapping[MessageId, Wish] = field(default_factory=dict[MessageId, Wish])


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
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

    def __add__(self, other: "Written") -> "Written":
        """Return both together."""
        return Written(
            conversations=self.conversations + other.conversations,
            messages=self.messages + other.messages,
            added=self.added + other.added,
            released=self.released + other.released,
            wishes=self.wishes + other.wishes,
        )


async def read(
    conn: Connection, org_id: OrgId, found: Sequence[Undrawn], *, shown: bool = False
) -> list[Conversation]:
    """Return conversations as they are given to an extractor; those in which nothing is left are left out.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        found: Which.
        shown: Whether they will be shown to a language model, which gets nothing that a spoken wish covers.
    """
    there = [one for one in found if one.state is not None]
    said = await extracting.said(conn, org_id, [one.id for one in there], shown=shown)
    people = await extracting.people(conn, org_id, {one.room_id for one in there})
    conversations = [
        Conversation(
            as_it_was=one,
            said=said.get(one.id, []),
            people=_spoken_of(said.get(one.id, []), people.get(one.room_id, [])),
        )
        for one in there
    ]
    return [await _with_remembered(conn, org_id, one) for one in conversations] if shown else conversations


async def _with_remembered(conn: Connection, org_id: OrgId, conversation: Conversation) -> Conversation:
    found = await offering.remembered(
        conn,
        org_id,
        [one.message_id for one in conversation.said],
        people={person.id for person in conversation.people},
        text="\n".join(one.body for one in conversation.said),
    )
    return replace(conversation, remembered=found)


async def write(
    conn: Connection,
    org_id: OrgId,
    drawings: Sequence[Drawing],
    *,
    extractor: str,
    now: datetime,
    shown: bool = False,
) -> tuple[Written, dict[ConversationId, str]]:
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
    await erased.keep_erasures_out(conn, org_id)
    await directory.lock_rooms(conn, sorted(_rooms(drawings)))
    states = await extracting.hold(conn, org_id, sorted(one.conversation.id for one in drawings))
    same = {
        one.conversation.id: one.conversation.as_it_was.state
        for one in drawings
        if states.get(one.conversation.id) == one.conversation.as_it_was.state
    }
    fit = [one for one in drawings if one.conversation.id in same]
    wishes = sum([await _hear(conn, org_id, one, heard_by=extractor, now=now) for one in fit])
    found = [draft for one in fit for draft in _drafts(one, extractor=extractor, now=now)]
    drafts = await unnaming(conn, org_id, found)
    kept: set[tuple[MemoryId, MessageId]] = set()
    added = 0
    for draft in drafts:
        message_ids = [source.message_id for source in draft.sources]
        if shown and not await may_be_shown(conn, org_id, message_ids):
            continue
        became = await keep(conn, org_id, draft)
        if became is not None:
            kept.update((became.memory_id, message_id) for message_id in message_ids)
            added += became.outcome == "added"
    # Also of what says nothing any more, so that nothing stays of words that were edited away.
    members = await extracting.members(conn, org_id, same)
    released = await release(conn, org_id, members, extractor=extractor, kept=kept) if members else 0
    written = Written(
        conversations=len(fit),
        messages=sum(len(one.conversation.said) for one in fit),
        added=added,
        released=released,
        wishes=wishes,
    )
    return written, {key: state for key, state in same.items() if state is not None}


async def _hear(conn: Connection, org_id: OrgId, drawing: Drawing, *, heard_by: str, now: datetime) -> int:
    """Hear the wishes that were found, so that they count for whatever is remembered next; return how many."""
    if not drawing.wishes:
        return 0
    room_id = drawing.conversation.as_it_was.room_id
    return await hear_named(conn, org_id, room_id, drawing.wishes, heard_by=heard_by, at=now)


def _rooms(drawings: Sequence[Drawing]) -> set[RoomId]:
    return {one.conversation.as_it_was.room_id for one in drawings}


def _drafts(drawing: Drawing, *, extractor: str, now: datetime) -> list[Draft]:
    sent_at = {one.message_id: one.sent_at for one in drawing.conversation.said}
    sensitivity = drawing.conversation.as_it_was.sensitivity
    return [
        _draft(
            one,
            extractor=extractor,
            sensitivity=sensitivity,
            now=now,
            sent_at=sent_at[one.quotes[0].message_id],
        )
        for one in drawing.statements
    ]


def _draft(
    statement: Statement, *, extractor: str, sensitivity: Sensitivity, now: datetime, sent_at: datetime
) -> Draft:
    roles: set[tuple[MemoryRole, ParticipantId]] = {("author", statement.author_id)}
    roles |= {("subject", who) for who in statement.subject_ids}
    roles |= {("involved", who) for who in statement.involved_ids - {statement.author_id}}
    usual = TAXONOMY[statement.kind].importance
    return Draft(
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


def _spoken_of(said: Sequence[Spoken], people: Sequence[Person]) -> list[Person]:
    """Return those who speak, and those one of whose names begins with a word that somebody says."""
    authors = {one.author_id for one in said}
    words = {word for one in said for word in _WORD.findall(one.body.casefold())}
    return [one for one in people if one.id in authors or _is_named(one, words)]


def _is_named(person: Person, words: Collection[str]) -> bool:
    called = (_WORD.search(name.casefold()) for name in (person.name, *person.names))
    return any(found is not None and found[0] in words for found in called)
