"""Explicit memories: what a caller asserts, with the sources, the participants and the memory that it supersedes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict, get_args

from msgspec import Meta

from roomlore.db import directory, erasure_guard, memories, memory_writes
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.records import (
    AssertionAudience,
    Memory,
    MemoryKind,
    MemoryRole,
    MemorySource,
    Message,
    Viewer,
)
from roomlore.ingest.clean import ValueCleaner, storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.memories.consolidation import EVERYBODY, audiences_of, upsert
from roomlore.memories.kinds import DEFAULT_IMPORTANCE
from roomlore.operations.access import Access
from roomlore.operations.registry import NO_NUL, Share
from roomlore.search import lookup
from roomlore.text.recognisers import is_question
from roomlore.text.sentences import Sentence, own_sentences_of

#: In characters.
LONGEST_CONTENT, LONGEST_NAME, LONGEST_METADATA = 10_000, 200, 10_000
#: The tolerated difference of two clocks.
_SKEW = timedelta(minutes=5)
#: The maximum number of sources, participants and tags. A read checks each of them to decide who sees the memory.
MOST_NAMED = 100
Content = Annotated[str, Meta(min_length=1, max_length=LONGEST_CONTENT, pattern=NO_NUL)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
Named = Annotated[Sequence[str], Meta(max_length=MOST_NAMED)]
KINDS = get_args(MemoryKind)
#: Changes a memory. Returns whether it changed something.
WriteStatus = Callable[[Connection, OrgId, MemoryId], Awaitable[bool]]
#: The kinds that an agent asserts about its own experience.
EXPERIENCE_KINDS: tuple[MemoryKind, ...] = ("observation", "interaction", "learning", "insight")
#: Messages of these kinds are statements of their author. Notices and injected context are not.
SPOKEN_KINDS = frozenset({"message", "whisper"})


class MemoryDetails(TypedDict, total=False):
    """The details of an explicit memory; all are optional.

    Attributes:
        kind: Kind of the memory; a fact by default.
        title: A short title.
        importance: How important it is; the default depends on the kind.
        confidence: How likely it is that the claim is true; 1 by default.
        sources: Source messages, by id or external id. You must be able to read them; they decide who sees the memory.
        audience: Who sees a memory without sources: `self` (only you) or `org` (everybody). Only operators may choose `org`,
            and it is their default.
        by: Who stated a memory without sources: a name, account or id. Only operators may name somebody else.
        occurred_at: When it was said or became true, with a time zone. By default the time of the first source, or now.
        metadata: More data to store with it: a JSON object.
        room: The room of the sources, and where the memory is stored.
        about: Who it is about: a name, account or id.
        involving: Who else is involved: a name, account or id.
        tags: A tag to find it by.
        task: The task it belongs to: a name from another system.
        sensitive: Only for those who were members of the rooms when the sources were sent.
        supersedes: The memory that it replaces: an id or the start of one. Both need the same audience: sources in the
            same rooms, and the same sensitivity.
    """

    kind: MemoryKind
    title: Name
    importance: Annotated[float, Meta(ge=1, le=5)]
    confidence: Share
    sources: Named
    audience: AssertionAudience | None
    by: str | None
    occurred_at: datetime | None
    metadata: Mapping[str, Any] | None
    room: str | None
    about: Named
    involving: Named
    tags: Annotated[Sequence[Name], Meta(max_length=MOST_NAMED)]
    task: Name | None
    sensitive: bool
    supersedes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitMemory:
    """A memory to store, and the rooms of its sources."""

    draft: MemoryDraft
    room_ids: frozenset[RoomId]
    superseded: Memory | None = None


async def resolve(access: Access, content: str, details: MemoryDetails) -> ExplicitMemory:
    """Return a memory with its sources, its participants and the memory that it supersedes.

    Raises:
        BadInput: an argument is invalid or ambiguous, or a source was removed.
        NotFound: there is no such source, room, memory or participant, or the caller may not see it.
        NotAllowed: the caller may not supersede that memory or name another author.
    """
    caller, org_id = access.principal, access.org_id
    _check(caller, details)
    text = clean("content", content, max_length=LONGEST_CONTENT)
    async with access.resolving("remember") as conn:
        room = details.get("room")
        room_id = None if room is None else await lookup.room(conn, org_id, room)
        sources: list[Message] = []
        for word in details.get("sources", ()):
            sources.append(await lookup.message(conn, org_id, word, room_id=room_id))
            if sources[-1].redacted_at:
                raise BadInput(f"message {word!r}", "was removed")
        subjects = {await lookup.participant(conn, org_id, word) for word in details.get("about", ())}
        others = {await lookup.participant(conn, org_id, word) for word in details.get("involving", ())}
        roles = _roles(caller, text, sources, subjects)
        roles |= {("involved", key) for key in others}
        if (by := details.get("by")) is not None:
            author = await lookup.participant(conn, org_id, by)
            if not await access.is_own(conn, author):
                raise NotAllowed("only an operator says that another stated something")
            roles = {("author", author), *(role for role in roles if role[0] != "author")}
        named = {key for _, key in roles}
        for key in named - (await memories.known_names(conn, org_id, named)).keys():
            # The caller was erased after sign-in.
            raise NotFound("participant", str(key))
        supersedes = details.get("supersedes")
        superseded = None if supersedes is None else await find_memory(conn, access, supersedes)
        if superseded is not None:
            await check_involved(conn, access, superseded)
    draft = replace(_draft(caller, text, sources, details), roles=frozenset(roles), asserted_in=room_id)
    room_ids = frozenset(message.room_id for message in sources)
    return ExplicitMemory(draft=draft, room_ids=room_ids, superseded=superseded)


def _draft(caller: Viewer, text: str, messages: Sequence[Message], details: MemoryDetails) -> MemoryDraft:
    now = datetime.now(UTC)
    unique = sorted(set(messages), key=lambda message: message.position)
    kind = details.get("kind", "fact")
    # The platform's clock may be ahead of ours, and the memory is based on the newest edit.
    edits = [message.edited_at for message in unique if message.edited_at is not None]
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=kind,
        title=clean("title", title, max_length=LONGEST_NAME) if (title := details.get("title")) else "",
        content=text,
        importance=details.get("importance", DEFAULT_IMPORTANCE[kind]),
        confidence=details.get("confidence", 1.0),
        sensitivity="sensitive" if details.get("sensitive") else "normal",
        audience=details.get("audience") or ("org" if caller.is_operator and not unique else "self"),
        asserted_by=caller.participant_id,
        recorded_at=max([now, *edits]),
        valid_from=details.get("occurred_at") or min([now, *(message.sent_at for message in unique)]),
        metadata=_metadata(details.get("metadata") or {}),
        sources=[_source(message, text) for message in unique],
        tags=frozenset(clean("tag", tag, max_length=LONGEST_NAME) for tag in details.get("tags", ())),
        task_id=clean("task", task, max_length=LONGEST_NAME) if (task := details.get("task")) else None,
    )


def _metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return metadata without secrets and without text that PostgreSQL rejects."""
    cleaner = ValueCleaner()
    cleaned = cleaner.value(value)
    if cleaner.size > LONGEST_METADATA:
        raise BadInput("metadata", f"longer than {LONGEST_METADATA:,} characters")
    return cleaned


def _source(message: Message, text: str) -> MemorySource:
    """Return a message as a source. If the message contains the text, include the position of the text."""
    start = message.body.find(text)
    if start < 0:
        return MemorySource(message_id=message.id)
    return MemorySource(message_id=message.id, quote_start=start, quote_end=start + len(text))


async def save(conn: Connection, access: Access, memory: ExplicitMemory) -> MemoryId:
    """Store a memory and return its id, or the id of the active memory that says the same.

    The locks make this call and a removal of its sources run one after the other.

    Raises:
        BadInput: a source or participant was removed meanwhile, or the superseded memory has another audience or is no
            longer active.
    """
    await erasure_guard.lock_shared(conn, access.org_id)
    await directory.lock_rooms(conn, memory.room_ids)
    if memory.superseded is not None:
        await check_involved(conn, access, memory.superseded)
    stored = await upsert(conn, access.org_id, memory.draft)
    if stored is None:
        raise BadInput("memory", "a source or a participant of it was removed meanwhile")
    if memory.superseded is not None:
        await _supersede(conn, access, memory.superseded.id, by=stored.memory_id)
    return stored.memory_id


async def _supersede(conn: Connection, access: Access, old_id: MemoryId, *, by: MemoryId) -> None:
    if by == old_id:
        raise BadInput(f"memory {old_id}", "says the same; what supersedes it must say something else")
    found = await memories.memories_by_id(conn, access.org_id, {old_id, by})
    by_id = {memory.id: memory for memory in found}
    if by_id.keys() != {old_id, by}:
        raise BadInput(f"memory {old_id}", "was removed meanwhile")
    old, new = by_id[old_id], by_id[by]
    if old.superseded_by == by:
        return
    if new.status != "active":
        raise BadInput(f"memory {by}", "says the same and was superseded; rest this on newer messages")
    if await _audience_key(conn, access, old) != await _audience_key(conn, access, new):
        raise BadInput(
            f"memory {old_id}", "is for others; what supersedes it must rest on the same rooms as it does"
        )
    if not await memory_writes.supersede(conn, access.org_id, old_id, by=by):
        raise BadInput(f"memory {old_id}", "does not stand any more; supersede what took its place")


async def _audience_key(conn: Connection, access: Access, memory: Memory) -> tuple[str, object]:
    """Return an audience key; equal keys mean equal audiences."""
    sources = await memory_writes.source_audiences(conn, access.org_id, memory.source_ids)
    audiences = audiences_of(sources, is_sensitive=memory.sensitivity == "sensitive")
    without_sources = {EVERYBODY} if memory.audience == "org" else memory.asserted_by
    return memory.sensitivity, audiences or without_sources


async def find_memory(conn: Connection, access: Access, reference: str) -> Memory:
    """Return the visible memory of an id, or of its beginning or end.

    Raise NotFound if no visible memory matches, and BadInput if several memories match.
    """
    return lookup.single("memory", reference, await memories.find(conn, access.org_id, reference))


def involved_participants(memory: Memory) -> set[ParticipantId | None]:
    """Return the participants who may change a memory: its asserter, authors, subjects and observer."""
    return {memory.asserted_by, *(person.id for person in memory.participants if person.role != "involved")}


async def check_involved(conn: Connection, access: Access, memory: Memory) -> None:
    """Raise NotAllowed unless a current account of the caller may change a memory, or the caller is an operator."""
    if not access.principal.is_operator and involved_participants(memory).isdisjoint(
        await access.own_accounts(conn)
    ):
        raise NotAllowed(
            f"memory {memory.id} is for those to change who stated it or whom it is about, or for an operator"
        )


def check_audience(caller: Viewer, memory: Memory) -> None:
    """Raise NotAllowed if somebody else asserted a memory for the whole org, unless the caller is an operator."""
    if memory.audience == "org" and not (caller.is_operator or caller.is_own(memory.asserted_by)):
        raise NotAllowed(
            f"memory {memory.id} is for the whole org: ask an operator to correct it, or put it aside (forget) and say in a"
            " room what is right"
        )


def _roles(
    caller: Viewer, content: str, sources: Sequence[Message], subjects: set[ParticipantId]
) -> set[tuple[MemoryRole, ParticipantId]]:
    asserter: set[ParticipantId] = set() if caller.participant_id is None else {caller.participant_id}
    spoken = [message for message in sources if message.kind in SPOKEN_KINDS]
    authors = {message.author_id for message in spoken}
    # If the sources contain the words and have only one author, this person is the author. Otherwise the asserter is
    # the author.
    is_quoted = len(authors) == 1 and any(_states(message.body, content) for message in spoken)
    roles: dict[MemoryRole, set[ParticipantId]] = {
        "author": authors if is_quoted else asserter,
        "involved": set() if is_quoted else authors,
        "subject": subjects,
        "perspective": asserter if caller.role == "agent" else set(),
    }
    return {(role, key) for role, keys in roles.items() for key in keys}


def _states(body: str, content: str) -> bool:
    """Return whether a message states this content in the same words, as sentences of its author.

    Quotes and questions do not count.
    """
    body_sentences, content_sentences = own_sentences_of(body), own_sentences_of(content)
    if not content_sentences or any(is_question(sentence.text) for sentence in content_sentences):
        return False
    spoken, words = _words(body, body_sentences), _words(content, content_sentences)
    # Content with quoted lines has no author.
    if _plain(content) != _plain(" ".join(content[part.start : part.end] for part in content_sentences)):
        return False
    size = len(words)
    return any(spoken[start : start + size] == words for start in range(len(body_sentences)))


def _words(text: str, parts: Sequence[Sentence]) -> list[str]:
    return [_plain(text[part.start : part.end]) for part in parts]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(".!")


def clean(what: str, words: str, *, max_length: int) -> str:
    """Return text without secrets and without characters that PostgreSQL rejects.

    Raises:
        BadInput: nothing is left, or it is too long.
    """
    if len(words) > max_length:
        raise BadInput(what, f"longer than {max_length} characters")
    text, _ = remove_secrets(storable(words).strip())
    if not text:
        raise BadInput(what, "must not be empty")
    return text


def _check(caller: Viewer, details: MemoryDetails) -> None:
    if (kind := details.get("kind", "fact")) not in KINDS:
        raise BadInput(f"kind {kind!r}", f"must be one of {', '.join(KINDS)}")
    if kind in EXPERIENCE_KINDS and caller.role != "agent":
        raise BadInput(
            f"kind {kind!r}", "is what an agent experienced; assert it as that agent, or choose another"
        )
    if not 1 <= details.get("importance", 1) <= 5:  # noqa: PLR2004  the documented scale
        raise BadInput("importance", "must be at least 1 and at most 5")
    if not 0 <= details.get("confidence", 0) <= 1:
        raise BadInput("confidence", "must be at least 0 and at most 1")
    for what in ("sources", "about", "involving", "tags"):
        if len(details.get(what, ())) > MOST_NAMED:
            raise BadInput(what, f"more than {MOST_NAMED}")
    _check_attribution(caller, details)


def _check_attribution(caller: Viewer, details: MemoryDetails) -> None:
    audience, moment = details.get("audience"), details.get("occurred_at")
    if audience not in (None, *get_args(AssertionAudience)):
        raise BadInput(f"audience {audience!r}", "must be org or self")
    if details.get("sources"):
        for what in ("audience", "by"):
            if details.get(what) is not None:
                raise BadInput(what, "goes without messages that it rests on: those decide it")
    elif audience == "org" and not caller.is_operator:
        raise NotAllowed(
            "only an operator remembers for the whole org; or name the messages that it rests on"
        )
    elif details.get("sensitive") and (audience == "org" or (caller.is_operator and audience is None)):
        raise BadInput("sensitive", "goes with messages that it rests on, or with the audience self")
    if moment is not None and moment.tzinfo is None:
        raise BadInput("occurred at", "must have a time zone")
    if moment is not None and moment > datetime.now(UTC) + _SKEW:
        raise BadInput("occurred at", "lies in the future")
