"""What an extractor is given of conversations, and how what it finds stated there becomes memories.

Read in one transaction and written in another, in which a conversation that has changed meanwhile is left for the
next time: what was found in it may not be so any more.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.records import MemoryRole, MemorySource, Sensitivity
from roomlore.domain.statements import Person, Spoken, Statement
from roomlore.extraction.taxonomy import TAXONOMY
from roomlore.remembering.keep import keep, release
from roomlore.store import directory, erased, extracting
from roomlore.store.extracting import Undrawn
from roomlore.store.keeping import Draft
from roomlore.store.queries import Connection

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation as it is given to an extractor."""

    as_it_was: Undrawn
    said: Sequence[Spoken]
    #: Who may be spoken of: whoever speaks in it, and whoever of its room is named.
    people: Sequence[Person]

    @property
    def id(self) -> ConversationId:
        """Return which one it is."""
        return self.as_it_was.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What was found stated in a conversation."""

    conversation: Conversation
    statements: Sequence[Statement]


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

    def __add__(self, other: "Written") -> "Written":
        """Return both together."""
        return Written(
            conversations=self.conversations + other.conversations,
            messages=self.messages + other.messages,
            added=self.added + other.added,
            released=self.released + other.released,
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
    return [
        Conversation(
            as_it_was=one,
            said=said.get(one.id, []),
            people=_spoken_of(said.get(one.id, []), people.get(one.room_id, [])),
        )
        for one in there
    ]


async def write(
    conn: Connection, org_id: OrgId, drawings: Sequence[Drawing], *, extractor: str, now: datetime
) -> tuple[Written, dict[ConversationId, str]]:
    """Remember what was found in conversations that are as they were, let go of what is not found any more.

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
    kept: set[tuple[MemoryId, MessageId]] = set()
    added = 0
    for drawing in fit:
        for draft in _drafts(drawing, extractor=extractor, now=now):
            became = await keep(conn, org_id, draft)
            if became is not None:
                kept.update((became.memory_id, source.message_id) for source in draft.sources)
                added += became.outcome == "added"
    # Also of what says nothing any more, so that nothing stays of words that were edited away.
    members = await extracting.members(conn, org_id, same)
    released = await release(conn, org_id, members, extractor=extractor, kept=kept) if members else 0
    gone_through = sum(len(drawing.conversation.said) for drawing in fit)
    written = Written(conversations=len(fit), messages=gone_through, added=added, released=released)
    return written, {key: state for key, state in same.items() if state is not None}


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
