"""What somebody asserts: what a statement of theirs rests on, whom it names, and whose place it takes."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict, get_args

from msgspec import Meta

from roomlore.db import directory, erased, memories, memory_writes
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
from roomlore.memories.exclusions import eligible_sentences
from roomlore.memories.kinds import MEMORY_KINDS
from roomlore.memories.patterns import JOKE, is_question, is_reported_speech
from roomlore.memories.sentences import Sentence, own_sentences_of
from roomlore.operations.access import Access
from roomlore.operations.registry import NO_NUL, Share
from roomlore.search import lookup

#: A memory is a statement; what is longer is a document.
LONGEST_CONTENT = 10_000
LONGEST_NAME = 200
LONGEST_METADATA = 10_000
#: So much two clocks may differ.
_SKEW = timedelta(minutes=5)
#: Of sources, participants it is about and tags: whoever may see a memory is found out by looking at each.
MOST_NAMED = 100
Content = Annotated[str, Meta(min_length=1, max_length=LONGEST_CONTENT, pattern=NO_NUL)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
Named = Annotated[Sequence[str], Meta(max_length=MOST_NAMED)]
KINDS = get_args(MemoryKind)
#: Changes a memory, and says whether it did.
WriteStatus = Callable[[Connection, OrgId, MemoryId], Awaitable[bool]]
#: What is seen through the eyes of one agent.
EXPERIENCE_KINDS: tuple[MemoryKind, ...] = ("observation", "interaction", "learning", "insight")
#: What somebody said themselves; a notice of the platform or injected context is nobody's statement.
SPOKEN_KINDS = frozenset({"message", "whisper"})


class MemoryDetails(TypedDict, total=False):
    """What a statement is, besides its words; all of it may be left out."""

    #: What kind of statement it is; a fact by default.
    kind: MemoryKind
    #: In a few words.
    title: Name
    #: 1..5; what its kind has by default.
    importance: Annotated[float, Meta(ge=1, le=5)]
    #: How likely it is so, 0..1; certain by default.
    confidence: Share
    #: Ids or external ids of the messages it rests on, each of which the caller may read: they decide for whom it is.
    sources: Named
    #: For whom it is where it rests on no message: the whole `org`, as what an operator asserts is by default, or
    #: `self`, whoever asserts it alone, as what anybody else does always is.
    audience: AssertionAudience | None
    #: Who stated it, where it rests on no message: by name, account or id; only an operator names another.
    by: str | None
    #: When it was said or became true, with a time zone; when the first of its sources was said, or now, by default.
    occurred_at: datetime | None
    #: Whatever else is to be kept with it: an object of JSON values.
    metadata: Mapping[str, Any] | None
    #: Where the sources are looked for, and where it is asserted; everywhere by default.
    room: str | None
    #: Whom it is about, and who else has to do with it: by name, account or id.
    about: Named
    involving: Named
    tags: Annotated[Sequence[Name], Meta(max_length=MOST_NAMED)]
    #: The work it belongs to, by whatever name that goes elsewhere.
    task: Name | None
    #: Only for those who were members of the rooms when the sources were said.
    sensitive: bool
    #: A memory of which it takes the place, by id or the beginning of it. It must be for the same people: rest on what
    #: was said in the same rooms, and be as sensitive.
    supersedes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitMemory:
    """A statement of the caller's, and where what it rests on was said."""

    draft: MemoryDraft
    room_ids: frozenset[RoomId]
    #: Of which it takes the place.
    superseded: Memory | None = None


async def resolve(access: Access, content: str, details: MemoryDetails) -> ExplicitMemory:
    """Return a statement with the sources, participants and the memory that the caller means.

    Raises:
        BadInput: the content or kind is none, several are meant, or a source was removed.
        NotFound: there is no such source, room, memory or participant, or the caller may not see it.
        NotAllowed: the memory whose place it takes has nothing to do with the caller, who is no operator.
    """
    caller, org_id = access.principal, access.org_id
    _check(caller, details)
    text = clean("content", content, max_length=LONGEST_CONTENT)
    async with access.resolving("remember") as conn:
        room = details.get("room")
        room_id = None if room is None else await lookup.room(conn, org_id, room)
        words = details.get("sources", ())
        found = [await lookup.message(conn, org_id, word, room_id=room_id) for word in words]
        removed = [word for word, message in zip(words, found, strict=True) if message.redacted_at]
        if removed:
            raise BadInput(f"message {removed[0]!r}", "was removed")
        subjects = {await lookup.participant(conn, org_id, word) for word in details.get("about", ())}
        others = {await lookup.participant(conn, org_id, word) for word in details.get("involving", ())}
        roles = _roles(caller, text, found, subjects)
        roles.update(("involved", who) for who in others)
        if (by := details.get("by")) is not None:
            author = await lookup.participant(conn, org_id, by)
            if not await access.is_own(conn, author):
                raise NotAllowed("only an operator says that another stated something")
            roles = _roles_of_author(author, roles)
        named = {who for _, who in roles}
        for who in named - (await memories.known_names(conn, org_id, named)).keys():
            # The caller itself, erased since it was let in.
            raise NotFound("participant", str(who))
        supersedes = details.get("supersedes")
        old = None if supersedes is None else await find_memory(conn, access, supersedes)
        if old is not None:
            await check_involved(conn, access, old)
    draft = _draft(caller, text, found, details)
    draft = replace(draft, roles=frozenset(roles), asserted_in=room_id)
    return ExplicitMemory(draft=draft, room_ids=frozenset(said.room_id for said in found), superseded=old)


def _roles_of_author(
    author: ParticipantId, roles: set[tuple[MemoryRole, ParticipantId]]
) -> set[tuple[MemoryRole, ParticipantId]]:
    """Return whom a memory names once it is said who stated it."""
    stated: set[tuple[MemoryRole, ParticipantId]] = {("author", author)}
    return stated | {one for one in roles if one[0] != "author"}


def _draft(principal: Viewer, text: str, found: Sequence[Message], details: MemoryDetails) -> MemoryDraft:
    now = datetime.now(UTC)
    unique = sorted(set(found), key=lambda said: said.position)
    kind = details.get("kind", "fact")
    # A platform's clock may be ahead of ours, and the memory knows the text of the newest edit.
    edits = [said.edited_at for said in unique if said.edited_at is not None]
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=kind,
        title=clean("title", title, max_length=LONGEST_NAME) if (title := details.get("title")) else "",
        content=text,
        importance=details.get("importance", MEMORY_KINDS[kind].importance),
        confidence=details.get("confidence", 1.0),
        sensitivity="sensitive" if details.get("sensitive") else "normal",
        audience=details.get("audience") or ("org" if principal.is_operator and not unique else "self"),
        asserted_by=principal.participant_id,
        recorded_at=max([now, *edits]),
        valid_from=details.get("occurred_at") or min([now, *(said.sent_at for said in unique)]),
        metadata=_metadata(details.get("metadata") or {}),
        sources=[_source(said, text) for said in unique],
        tags=frozenset(clean("tag", tag, max_length=LONGEST_NAME) for tag in details.get("tags", ())),
        task_id=clean("task", task, max_length=LONGEST_NAME) if (task := details.get("task")) else None,
    )


def _metadata(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what else is kept with a memory, without secrets and what no database takes."""
    scrubber = ValueCleaner()
    kept = scrubber.value(given)
    if scrubber.size > LONGEST_METADATA:
        raise BadInput("metadata", f"longer than {LONGEST_METADATA:,} characters")
    return kept


def _source(said: Message, text: str) -> MemorySource:
    """Return a message as a source: of one that has the very words, these."""
    start = said.body.find(text)
    if start < 0:
        return MemorySource(message_id=said.id)
    return MemorySource(message_id=said.id, quote_start=start, quote_end=start + len(text))


async def save(conn: Connection, access: Access, memory: ExplicitMemory) -> MemoryId:
    """Keep a statement in the caller's transaction, and return the memory that says so then.

    Whoever removes a source, by erasure or because its platform says so, waits or has been waited for.

    Raises:
        BadInput: what it rests on or names was removed meanwhile, or the memory whose place it takes is for others or
            does not stand any more.
    """
    await erased.lock_shared(conn, access.org_id)
    await directory.lock_rooms(conn, memory.room_ids)
    if memory.superseded is not None:
        await check_involved(conn, access, memory.superseded)
    kept = await upsert(conn, access.org_id, memory.draft)
    if kept is None:
        raise BadInput("memory", "what it rests on or names was removed meanwhile")
    if memory.superseded is not None:
        await _supersede(conn, access, memory.superseded.id, by=kept.memory_id)
    return kept.memory_id


async def _supersede(conn: Connection, access: Access, old_id: MemoryId, *, by: MemoryId) -> None:
    """Put a memory in the place of another that is for the same people."""
    if by == old_id:
        raise BadInput(f"memory {old_id}", "says the same; what supersedes it must say something else")
    now = {held.id: held for held in await memories.memories_by_id(conn, access.org_id, {old_id, by})}
    if now.keys() != {old_id, by}:
        raise BadInput(f"memory {old_id}", "was removed meanwhile")
    old, new = now[old_id], now[by]
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
    """Return what tells apart for whom memories are: neither of two that have the same shows more than the other."""
    heard = await memory_writes.source_audiences(conn, access.org_id, memory.source_ids)
    told_to = audiences_of(heard, is_sensitive=memory.sensitivity == "sensitive")
    return memory.sensitivity, told_to or ({EVERYBODY} if memory.audience == "org" else memory.asserted_by)


async def find_memory(conn: Connection, access: Access, reference: str) -> Memory:
    """Return the memory that is meant and visible, by id or the beginning of it.

    Raises:
        NotFound: there is none.
        BadInput: several are meant.
    """
    found = await memories.find(conn, access.org_id, reference)
    if not found:
        raise NotFound("memory", reference)
    if len(found) > 1:
        choices = ", ".join(str(memory.id) for memory in found)
        raise BadInput(f"memory {reference!r}", f"several are meant, name one by id: {choices}")
    return found[0]


def involved_participants(memory: Memory) -> set[ParticipantId | None]:
    """Return whose a memory is to change: those who stated or asserted it, and whom it is about or seen through."""
    return {memory.asserted_by, *(person.id for person in memory.participants if person.role != "involved")}


async def check_involved(conn: Connection, access: Access, memory: Memory) -> None:
    """Do nothing if a memory has to do with the caller by the accounts of now, or the caller is an operator.

    Raises:
        NotAllowed: they neither stated nor asserted it, nor is it about them or seen through their eyes.
    """
    if not access.principal.is_operator and involved_participants(memory).isdisjoint(
        await access.own_accounts(conn)
    ):
        raise NotAllowed(
            f"memory {memory.id} is for those to change who stated it or whom it is about, or for an operator"
        )


def check_audience(principal: Viewer, memory: Memory) -> None:
    """Do nothing if the caller may say something else in the place of a memory, to all whom it is for.

    Raises:
        NotAllowed: another asserted it for the whole org, and the caller is no operator.
    """
    if memory.audience == "org" and not (principal.is_operator or principal.is_own(memory.asserted_by)):
        raise NotAllowed(
            f"memory {memory.id} is for the whole org: ask an operator to correct it, or put it aside (forget) and say in a"
            " room what is right"
        )


def _roles(
    principal: Viewer, content: str, sources: Iterable[Message], subjects: set[ParticipantId]
) -> set[tuple[MemoryRole, ParticipantId]]:
    asserter: set[ParticipantId] = set() if principal.participant_id is None else {principal.participant_id}
    said = [message for message in sources if message.kind in SPOKEN_KINDS]
    speakers = {message.author_id for message in said}
    # Who puts it in other words states it; who said it so did.
    is_one_voice = len(speakers) == 1 and any(_states(message.body, content) for message in said)
    named: dict[MemoryRole, set[ParticipantId]] = {
        "author": speakers if is_one_voice else asserter,
        "involved": set() if is_one_voice else speakers,
        "subject": subjects,
        "perspective": asserter if principal.role == "agent" else set(),
    }
    return {(role, who) for role, people in named.items() for who in people}


def _states(body: str, content: str) -> bool:
    """Return whether a body says so in these words, in sentences of its author's own that ask nothing.

    Words that are doubted, asked about or quoted in a longer sentence are not stated, nor are those next to a joke or
    a report.
    """
    said, stated = eligible_sentences(body), own_sentences_of(content)
    if not stated or any(is_question(one.text) for one in stated):
        return False
    heard, words = _words(body, said), _words(content, stated)
    # Lines of the content that are nobody's own are credited to nobody.
    if _plain(content) != _plain(" ".join(content[one.start : one.end] for one in stated)):
        return False
    return any(
        heard[place : place + len(words)] == words
        and not any(map(_is_hedged, [*said[:place][-1:], *said[place + len(words) :][:1]]))
        for place in range(len(said))
    )


def _words(text: str, parts: Iterable[Sentence]) -> list[str]:
    return [_plain(text[one.start : one.end]) for one in parts]


def _is_hedged(sentence: Sentence) -> bool:
    """Return whether a sentence makes those beside it a joke, or what another said."""
    return bool(JOKE.search(sentence.text)) or is_reported_speech(sentence.text)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(".!")


def clean(what: str, words: str, *, max_length: int) -> str:
    """Return words as they may be stored: nothing in them that no database takes, and no secrets.

    Raises:
        BadInput: nothing is left, or there are too many.
    """
    if len(words) > max_length:
        raise BadInput(what, f"longer than {max_length} characters")
    text, _ = remove_secrets(storable(words).strip())
    if not text:
        raise BadInput(what, "must not be empty")
    return text


def _check(principal: Viewer, details: MemoryDetails) -> None:
    if (kind := details.get("kind", "fact")) not in KINDS:
        raise BadInput(f"kind {kind!r}", f"must be one of {', '.join(KINDS)}")
    if kind in EXPERIENCE_KINDS and principal.role != "agent":
        raise BadInput(
            f"kind {kind!r}", "is what an agent experienced; assert it as that agent, or choose another"
        )
    if not 1 <= details.get("importance", 1) <= 5:  # noqa: PLR2004  the scale of DESIGN's kinds
        raise BadInput("importance", "must be at least 1 and at most 5")
    if not 0 <= details.get("confidence", 0) <= 1:
        raise BadInput("confidence", "must be at least 0 and at most 1")
    _check_attribution(principal, details)
    for what in ("sources", "about", "involving", "tags"):
        if len(details.get(what, ())) > MOST_NAMED:
            raise BadInput(what, f"more than {MOST_NAMED}")


def _check_attribution(principal: Viewer, details: MemoryDetails) -> None:
    """Do nothing if it may be said so for whom, by whom and when something was stated."""
    audience, moment = details.get("audience"), details.get("occurred_at")
    if audience not in (None, *get_args(AssertionAudience)):
        raise BadInput(f"audience {audience!r}", "must be org or self")
    if details.get("sources"):
        for what in ("audience", "by"):
            if details.get(what) is not None:
                raise BadInput(what, "goes without messages that it rests on: those decide it")
    elif audience == "org" and not principal.is_operator:
        raise NotAllowed(
            "only an operator remembers for the whole org; or name the messages that it rests on"
        )
    elif details.get("sensitive") and (audience == "org" or (principal.is_operator and audience is None)):
        raise BadInput("sensitive", "goes with messages that it rests on, or with the audience self")
    if moment is not None and moment.tzinfo is None:
        raise BadInput("occurred at", "must have a time zone")
    if moment is not None and moment > datetime.now(UTC) + _SKEW:
        raise BadInput("occurred at", "lies in the future")
