"""Small worlds of rooms and people, made up by hypothesis, and the facts that decide who may see what in them.

A world is what a platform would report, and what was made of it since: erasures, merges, conversations, memories.
`load` puts it into an org; `Truth` reads back, as a superuser, what the database holds, in the terms of the
visibility rule; `seen_by` is the world from which everything that a viewer may not see was left out.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import psycopg
import pytest
from hypothesis import strategies as st

from domain.audience import (
    ConversationFacts,
    DestinationFacts,
    Membership,
    MemoryFacts,
    MessageFacts,
    Period,
    RoomFacts,
    ViewerFacts,
    can_see_audit_line,
    can_see_conversation,
    can_see_interaction,
    can_see_membership,
    can_see_memory,
    can_see_merge,
    can_see_message,
    can_see_participant,
    can_see_reply,
    can_see_room,
    can_see_stated_trust,
)
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
PLATFORM = "village"
PEOPLE = (
    IncomingAuthor(account_id="ana", name="Ana"),
    IncomingAuthor(account_id="ben", name="Ben"),
    IncomingAuthor(account_id="cleo", name="Cleo"),
    IncomingAuthor(account_id="pip", name="Pip", kind="agent"),
    IncomingAuthor(account_id="zed", name="Zed", kind="agent"),
)
#: Makes the vectors.
FAKE = FakeEmbedder()
#: Writes what only carries rooms and names into the store; nobody reads for it.
SCRIBE = IncomingAuthor(account_id="scribe", name="Scribe", kind="system")
ROOMS = ("garden", "harbour", "attic", "cellar")
TOPICS = ("lantern", "rope", "apples", "ferry")
#: Every body has this word, so that a question with it asks for everything.
EVERYWHERE = "village"
MINUTES = st.integers(0, 12)
ACCOUNTS = st.sampled_from([person.account_id for person in PEOPLE])
SENSITIVITIES = st.sampled_from(["normal", "normal", "sensitive"])
ROLES = ("author", "subject", "involved", "perspective")
#: What has ids of our own making, the same in every org: whoever mixed up two orgs would be noticed.
MADE = ("person", "conversation", "memory", "key", "line", "receipt")


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def made_id(thing: str, number: int) -> UUID:
    return UUID(int=0x01900000_0000_7000_9000_000000000000 + (MADE.index(thing) << 32) + number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    number: int
    room: str
    #: External ids of messages of that room.
    said: Sequence[str]
    sensitivity: str = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    number: int
    #: External ids of messages of any rooms.
    sources: Sequence[str] = ()
    sensitivity: str = "normal"
    #: Heeded where it rests on nothing.
    audience: str = "self"
    #: An account, as all below.
    asserted_by: str | None = None
    #: (account, role) of whom it names.
    people: Sequence[tuple[str, str]] = ()

    @property
    def content(self) -> str:
        return f"{EVERYWHERE} recollection{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of the activity log or a receipt: whose, and about which messages."""

    number: int
    account: str | None
    said: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    rooms: Sequence[IncomingRoom]
    #: Each once, in the order of their numbers; external ids are m0, m1, …
    said: Sequence[IncomingMessage]
    #: Later versions and removals of some of them.
    again: Sequence[IncomingMessage] = ()
    #: Accounts of whom nothing more needs to be told.
    others: Sequence[str] = ()
    #: External ids of what was erased after all of that.
    erased: Sequence[str] = ()
    #: Numbers of persons, by the account that is theirs.
    merges: Mapping[str, int] = field(default_factory=dict)
    conversations: Sequence[Conversation] = ()
    #: External ids of what was found to answer something, and of what it answers.
    found: Mapping[str, str] = field(default_factory=dict)
    memories: Sequence[Memory] = ()
    #: (number of the conversation, account of the agent, account of whom it met there).
    interactions: Sequence[tuple[int, str, str]] = ()
    #: Accounts that have keys.
    keys: Sequence[str] = ()
    lines: Sequence[Note] = ()
    receipts: Sequence[Note] = ()
    #: Rooms whose members were listed whole.
    listed: Sequence[str] = ()

    def named(self) -> list[IncomingAuthor]:
        """Whoever the world mentions, under the name of their account."""
        mentioned = {member.author.account_id for room in self.rooms for member in room.members}
        for message in self.said:
            mentioned |= {message.author.account_id, *(author.account_id for author in message.audience)}
        mentioned |= {
            *self.others,
            *self.merges,
            *self.keys,
            *(account for _, *pair in self.interactions for account in pair),
        }
        for memory in self.memories:
            mentioned |= {memory.asserted_by, *(account for account, _ in memory.people)}
        mentioned |= {note.account for note in (*self.lines, *self.receipts)}
        return [person for person in PEOPLE if person.account_id in mentioned]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = ROOMS[: draw(st.integers(2, 4))]
    made = [
        IncomingRoom(
            external_id=name,
            name=name.title(),
            topic=f"about {name}",
            visibility="open" if place == 0 else draw(st.sampled_from(["members", "members", "open"])),
            members=draw(st.lists(memberships(), max_size=5)),
        )
        for place, name in enumerate(names)
    ]
    said = [draw(message(number, made)) for number in range(draw(st.integers(3, 12)))]
    again = [change for one in said if (change := draw(later(one))) is not None]
    erased = draw(st.lists(st.sampled_from([one.external_id for one in said]), max_size=2, unique=True))
    # What rested on an erased message went with it.
    left = [one for one in said if one.external_id not in erased]
    talks = draw(conversations(left))
    return World(
        rooms=made,
        said=said,
        again=again,
        erased=erased,
        merges=draw(merges()),
        conversations=talks,
        found=draw(found(left)),
        memories=[draw(memory(number, left)) for number in range(draw(st.integers(0, 4)))],
        interactions=draw(st.lists(interactions(len(talks)), max_size=4, unique=True)),
        keys=draw(st.lists(ACCOUNTS, max_size=2)),
        lines=[draw(note(number, left)) for number in range(draw(st.integers(0, 3)))],
        receipts=[draw(note(number, left)) for number in range(draw(st.integers(0, 2)))],
        listed=draw(st.lists(st.sampled_from(names), unique=True)),
    )


@st.composite
def memberships(draw: st.DrawFn) -> IncomingMembership:
    joined, left = draw(st.none() | MINUTES), draw(st.none() | MINUTES)
    if joined is not None and left is not None:
        joined, left = min(joined, left), max(joined, left)
    return IncomingMembership(
        author=draw(st.sampled_from(PEOPLE)),
        joined_at=None if joined is None else at(joined),
        left_at=None if left is None else at(left),
    )


@st.composite
def message(draw: st.DrawFn, number: int, rooms: Sequence[IncomingRoom]) -> IncomingMessage:
    room = draw(st.sampled_from(rooms))
    author = draw(st.sampled_from(PEOPLE))
    kind = draw(st.sampled_from(["message", "message", "message", "whisper", "system", "context_injection"]))
    others = st.lists(st.sampled_from(PEOPLE), max_size=2, unique=True)
    words = draw(st.lists(st.sampled_from(TOPICS), max_size=3))
    answered = draw(st.none() | st.integers(0, 12))
    return IncomingMessage(
        platform=PLATFORM,
        room=replace(room, members=()),
        external_id=f"m{number}",
        author=replace(author, name=f"Alias{number}") if draw(st.booleans()) else author,
        body=" ".join([EVERYWHERE, f"secret{number}", *words]),
        sent_at=at(draw(MINUTES)),
        kind=kind,
        order=number,
        audience=draw(others) if kind in {"whisper", "context_injection"} or number % 5 == 0 else (),
        reply_to=None if answered is None else f"m{answered}",
        thread_root=draw(st.none() | st.just("m0")),
    )


@st.composite
def later(draw: st.DrawFn, one: IncomingMessage) -> IncomingMessage | None:
    match draw(st.sampled_from(["nothing", "nothing", "edit", "remove"])):
        case "edit":
            return replace(one, body=f"{one.body} mended", edited_at=one.sent_at + timedelta(hours=1))
        case "remove":
            return replace(one, deleted=True)
        case _:
            return None


@st.composite
def merges(draw: st.DrawFn) -> dict[str, int]:
    accounts = draw(st.permutations([person.account_id for person in PEOPLE]))
    persons = draw(st.sampled_from([(), (0, 0), (0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 1, 1)]))
    return dict(zip(accounts, persons, strict=False))


@st.composite
def conversations(draw: st.DrawFn, said: Sequence[IncomingMessage]) -> list[Conversation]:
    """Up to two in each room, and one in which nothing was said."""
    parts = defaultdict(list)
    for one in said:
        if (part := draw(st.none() | st.integers(0, 1))) is not None:
            parts[one.room.external_id, part].append(one.external_id)
    parts[ROOMS[0], None] = []
    return [
        Conversation(number=number, room=room, said=ids, sensitivity=draw(SENSITIVITIES))
        for number, ((room, _), ids) in enumerate(parts.items())
    ]


@st.composite
def found(draw: st.DrawFn, said: Sequence[IncomingMessage]) -> dict[str, str]:
    """What some messages answer, each something else in its room."""
    edges = {}
    for one in said:
        others = [other.external_id for other in said if other.room == one.room and other != one]
        if others and draw(st.booleans()):
            edges[one.external_id] = draw(st.sampled_from(others))
    return edges


@st.composite
def memory(draw: st.DrawFn, number: int, said: Sequence[IncomingMessage]) -> Memory:
    sources = st.sampled_from([one.external_id for one in said]) if said else st.nothing()
    return Memory(
        number=number,
        sources=draw(st.lists(sources, max_size=3, unique=True)),
        sensitivity=draw(SENSITIVITIES),
        audience=draw(st.sampled_from(["self", "org"])),
        asserted_by=draw(st.none() | ACCOUNTS),
        people=draw(st.lists(st.tuples(ACCOUNTS, st.sampled_from(ROLES)), max_size=3, unique=True)),
    )


def interactions(talks: int) -> st.SearchStrategy[tuple[int, str, str]]:
    met = st.tuples(st.integers(0, talks - 1), ACCOUNTS, ACCOUNTS)
    return met.filter(lambda one: one[1] != one[2])


@st.composite
def note(draw: st.DrawFn, number: int, said: Sequence[IncomingMessage]) -> Note:
    """Of what somebody read, which they could: here what they wrote themselves."""
    account = draw(st.none() | ACCOUNTS)
    subjects = [one.external_id for one in said if account in {None, one.author.account_id}]
    return Note(number=number, account=account, said=subjects[:2])


async def load(app: App, world: World) -> None:
    """Put a world into an org; ids grow in its order, so that equal scores are told apart alike in all worlds."""
    await _tell(app, world)
    await derive(app, world)


async def _tell(app: App, world: World) -> None:
    ids = count(1)

    def next_id() -> UUID:
        return UUID(int=0x01900000_0000_7000_8000_000000000000 + next(ids))

    half = len(ROOMS) + 2
    early = [one for one in world.said if one.order < half]
    late = [one for one in world.said if one.order >= half]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roomlore.ingest.accept.uuid7", next_id)
        patch.setattr("roomlore.ingest.resolve.random_id", next_id)
        openers = [_opener(room) for room in world.rooms]
        for batch in ([_census(world)], openers, early, [*late, *world.again]):
            accepted = await app.ingest_batch(batch)
            assert not accepted.skipped
    await app.drain()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What an org holds already, by the platform's ids."""

    org_id: UUID
    said: Mapping[str, UUID]
    accounts: Mapping[str | None, UUID | None]


async def derive(app: App, world: World) -> None:
    """Erase what was erased, and add what was made of the rest."""
    for key in world.erased:
        await app.erasure.message(key)

    async def work(conn: psycopg.AsyncConnection) -> None:
        accounts = dict(await _rows(conn, "select account_id, participant_id from platform_accounts"))
        held = Held(
            org_id=app.org_id,
            said=dict(await _rows(conn, "select external_id, id from messages")),
            accounts={**accounts, None: None},
        )
        await _keep_out(conn, held, world)
        await conn.execute(
            "update rooms set member_list_at = case when external_id = any (%s) then now() end",
            [[*world.listed]],
        )
        await _tangle(conn)
        await _add_found(conn, held, world)
        await _add_conversations(conn, held, world)
        await _add_memories(conn, held, world)
        await _add_encounters_and_keys(conn, held, world)
        await _add_notes(conn, held, world)

    await app.db.change(app.org_id, work)
    await merge(app, world.merges)


async def merge(app: App, persons: Mapping[str, int]) -> None:
    """Say whose accounts participants are."""

    async def work(conn: psycopg.AsyncConnection) -> None:
        await conn.cursor().executemany(
            "insert into participant_merges (org_id, participant_id, person_id)"
            " select org_id, participant_id, %s from platform_accounts where account_id = %s",
            [(made_id("person", person), account) for account, person in persons.items()],
        )

    await app.db.change(app.org_id, work)


async def split(app: App) -> None:
    """Make every participant a person of its own."""

    async def work(conn: psycopg.AsyncConnection) -> None:
        await conn.execute("delete from participant_merges where org_id = %s", [app.org_id])

    await app.db.change(app.org_id, work)


async def _rows(conn: psycopg.AsyncConnection, query: str, params: Sequence | None = None) -> list[tuple]:
    return await (await conn.execute(query, params)).fetchall()


async def _keep_out(conn: psycopg.AsyncConnection, held: Held, world: World) -> None:
    """Add what larger erasures leave behind; and where the scribe wrote what was erased, it was not there."""
    if not world.erased:
        return
    await conn.execute(
        "delete from memberships where participant_id in"
        " (select participant_id from platform_accounts where account_id = %s)",
        [SCRIBE.account_id],
    )
    for table in ("erased_accounts", "erased_names"):
        await conn.execute(
            f"insert into {table} (org_id, digest, erased_at) values (%s, sha256('somebody'), now())",
            [held.org_id],
        )
    await conn.execute(
        "insert into erased_ranges (org_id, room_id, since, until, erased_at)"
        " select org_id, room_id, sent_at, sent_at + interval '1 second', now() from messages where id = %s",
        [held.said[world.erased[0]]],
    )


async def _tangle(conn) -> None:
    """Forget what was found out, to make room for what the world says."""
    await conn.execute("delete from conversation_messages")
    await conn.execute("delete from conversations")
    await conn.execute("delete from replies where method in ('mention', 'inferred')")


async def _add_found(conn, held: Held, world: World) -> None:
    await conn.cursor().executemany(
        "insert into replies (org_id, room_id, child_id, parent_id, method, confidence)"
        " select org_id, room_id, id, %s, 'inferred', 0.5 from messages where id = %s",
        [(held.said[parent], held.said[child]) for child, parent in world.found.items()],
    )


async def _add_conversations(conn, held: Held, world: World) -> None:
    for one in world.conversations:
        key, said = made_id("conversation", one.number), [held.said[key] for key in one.said]
        await conn.execute(
            "insert into conversations"
            " (org_id, id, room_id, label, sensitivity, split_reason, opened_at, last_at, idle_timeout)"
            " select rooms.org_id, %s, rooms.id, %s, %s, 'first', coalesce(min(said.sent_at), %s),"
            " coalesce(max(said.sent_at), %s), '1 hour'"
            " from rooms left join messages as said on said.id = any (%s)"
            " where rooms.external_id = %s group by rooms.org_id, rooms.id",
            [key, f"label{one.number}", one.sensitivity, START, START, said, one.room],
        )
        await conn.execute(
            "insert into conversation_messages (org_id, message_id, conversation_id) select %s, unnest(%s::uuid[]), %s",
            [held.org_id, said, key],
        )
        # Every other one became sensitive when all of this was said, the others before.
        if one.sensitivity == "sensitive" and one.number % 2:
            await conn.execute(
                "update conversations set prior_authors = speakers(org_id, id) where id = %s", [key]
            )


async def _add_memories(conn, held: Held, world: World) -> None:
    for one in world.memories:
        key = made_id("memory", one.number)
        await conn.execute(
            "insert into memories (org_id, id, kind, content, sensitivity, audience, asserted_by, recorded_at)"
            " values (%s, %s, 'fact', %s, %s, %s, %s, %s)",
            [
                *(held.org_id, key, one.content, one.sensitivity, one.audience),
                *(held.accounts[one.asserted_by], at(one.number)),
            ],
        )
        [vector] = FAKE.embed([one.content])
        await conn.execute(
            "insert into memory_embeddings values (%s, %s, %s, %s::vector::halfvec)",
            [held.org_id, key, FAKE.model_id, str(vector.tolist())],
        )
        await conn.execute(
            "insert into memory_sources select %s, %s, unnest(%s::uuid[])",
            [held.org_id, key, [held.said[source] for source in one.sources]],
        )
        await conn.execute(
            "insert into memory_participants select %s, %s, * from unnest(%s::uuid[], %s::text[])",
            [
                held.org_id,
                key,
                [held.accounts[account] for account, _ in one.people],
                [role for _, role in one.people],
            ],
        )


async def _add_encounters_and_keys(conn, held: Held, world: World) -> None:
    await conn.cursor().executemany(
        "insert into interactions values (%s, %s, %s, %s, 1, 0, 0, 0, 0, now())",
        [
            (held.org_id, made_id("conversation", number), held.accounts[agent], held.accounts[met])
            for number, agent, met in world.interactions
        ],
    )
    await conn.cursor().executemany(
        "insert into stated_trust values (%s, %s, %s, 0.5, now())",
        [
            (held.org_id, held.accounts[agent], held.accounts[met])
            for agent, met in sorted({(agent, met) for _, agent, met in world.interactions})
        ],
    )
    await conn.cursor().executemany(
        "insert into api_keys (org_id, id, name, role, participant_id, digest, created_at)"
        " values (%s, %s, 'key', 'member', %s, sha256(%s::bytea), now())",
        [
            (held.org_id, made_id("key", number), held.accounts[account], str(number).encode())
            for number, account in enumerate(world.keys)
        ],
    )


async def _add_notes(conn, held: Held, world: World) -> None:
    await conn.cursor().executemany(
        "insert into audit_log (org_id, id, viewer_id, action, outcome, subject_ids)"
        " values (%s, %s, %s, 'search', 'done', %s)",
        [
            (
                held.org_id,
                made_id("line", one.number),
                held.accounts[one.account],
                [held.said[key] for key in one.said],
            )
            for one in world.lines
        ],
    )
    await conn.cursor().executemany(
        "insert into receipts (org_id, id, at, kind, viewer_id, message_id, removed, kept)"
        " values (%s, %s, now(), 'message', %s, %s, '{}', '{}')",
        [
            (
                held.org_id,
                made_id("receipt", one.number),
                held.accounts[one.account],
                held.said[one.said[0]] if one.said else None,
            )
            for one in world.receipts
        ],
    )


def _opener(room: IncomingRoom) -> IncomingMessage:
    """A whisper to nobody that brings a room and its members in."""
    return _by_scribe(room, kind="whisper")


def _census(world: World) -> IncomingMessage:
    """A line in a room of nobody that brings in everybody under the name of their account."""
    room = IncomingRoom(external_id="census", name="Census", visibility="members")
    return replace(_by_scribe(room, kind="system"), audience=world.named())


def _by_scribe(room: IncomingRoom, *, kind) -> IncomingMessage:
    return IncomingMessage(
        platform=PLATFORM,
        room=room,
        external_id=f"scribe-{room.external_id}",
        author=SCRIBE,
        body=f"{EVERYWHERE} scribbled",
        sent_at=at(0),
        kind=kind,
    )


#: By what a row of each table is recognised. Two tables beside these are told by other things than ids.
KEYS = {
    "messages": "id",
    "timeline": "id",
    "message_audience": "message_id, participant_id",
    "message_revisions": "message_id",
    "message_embeddings": "message_id",
    "replies": "id",
    "rooms": "id",
    "participants": "id",
    "platform_accounts": "participant_id",
    "participant_merges": "participant_id, person_id",
    "conversations": "id",
    "conversation_messages": "message_id, conversation_id",
    "memories": "id",
    "memory_sources": "memory_id, message_id",
    "memory_participants": "memory_id, participant_id",
    "interactions": "conversation_id, agent_id, participant_id",
    "stated_trust": "agent_id, participant_id",
    "receipts": "id",
    "audit_log": "id",
    "room_activity": "room_id, participant_id",
    "work_queue": "subject_id",
    "api_keys": "id",
    "erased_accounts": "org_id",
    "erased_names": "org_id",
    "erased_ranges": "room_id",
}
_EVERYTHING = " union all ".join(
    f"select '{table}', array[{key}] from {table} {{}}" for table, key in KEYS.items()
)
_MEMBERSHIPS = "select room_id, participant_id, nullif(joined_at, '-infinity'), left_at from memberships {}"
_HOW_MANY = "select {}".format(
    ", ".join(f"(select count(*) from {table})" for table in (*KEYS, "memberships"))
)
Rows = Mapping[str, Counter]


async def rows_seen(conn: psycopg.AsyncConnection) -> Rows:
    """The rows of every table that the connection's viewer sees, which is as many as it counts."""
    rows = await _everything(conn, "", [])
    [counted] = await _rows(conn, _HOW_MANY)
    assert counted == tuple(rows[table].total() for table in (*KEYS, "memberships"))
    return rows


async def _everything(conn: psycopg.AsyncConnection, condition: str, params: Sequence) -> Rows:
    rows: dict[str, Counter] = {table: Counter() for table in KEYS}
    for table, key in await _rows(conn, _EVERYTHING.replace("{}", condition), params * len(KEYS)):
        rows[table][tuple(key)] += 1
    rows["memberships"] = Counter(await _rows(conn, _MEMBERSHIPS.format(condition), params))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What an org holds, as the visibility rule needs it."""

    app: App
    rows: Rows
    kinds: dict[UUID, str]
    accounts: dict[str, UUID]
    #: Persons by the participants who are accounts of theirs.
    persons: dict[UUID, UUID]
    rooms: dict[UUID, RoomFacts]
    #: Those whose members were listed whole.
    listed: set[UUID]
    messages: dict[UUID, MessageFacts]
    presences: Sequence[Membership]
    #: (child, parent or None) by edge.
    replies: dict[UUID, tuple[UUID, UUID | None]]
    #: (child, parent, method) of edges at both ends of which there is something.
    edges: Sequence[tuple[UUID, UUID, str]]
    #: Where messages stand in their rooms, as far as they were not erased.
    places: dict[UUID, tuple]
    conversations: dict[UUID, ConversationFacts]
    memories: dict[UUID, MemoryFacts]
    #: Whose they are, by id: lines of the log and receipts.
    owners: dict[UUID, UUID | None]
    external_ids: dict[UUID, str]
    embedded: set[UUID]
    redacted: set[UUID]

    def destination(self, viewer: Viewer, own: set[UUID]) -> DestinationFacts | None:
        """Who reads where a viewer's answer is posted, each person once."""
        if viewer.destination is None:
            return None
        room = self.rooms.get(viewer.destination)
        if room is not None and room.visibility == "open":
            return DestinationFacts(room_id=room.id, readers=None)
        said = self.messages.get(viewer.destination)
        accounts = {
            one.participant_id for one in self.presences if one.room == room and one.period.left_at is None
        }
        if said is not None and said.kind == "whisper":
            accounts = {said.author_id, *said.audience}
        if not (accounts and (viewer.participant_id is None or accounts & own)):
            return DestinationFacts(room_id=None, readers=())
        persons = {self.persons.get(key, key): key for key in accounts}
        readers = [Viewer(org_id=viewer.org_id, participant_id=key) for key in persons.values()]
        room_id = room.id if room is not None else said.room.id
        named = DestinationFacts(room_id=room_id, readers=[self.facts(one) for one in readers])
        if room is None or room.id in self.listed:
            return named
        return DestinationFacts(room_id=room_id, readers=None, member_periods=named.shared_periods(room))

    def facts(self, viewer: Viewer) -> ViewerFacts:
        one = viewer.participant_id
        person = self.persons.get(one) if viewer.org_id == self.app.org_id else None
        own = {one} | {key for key, other in self.persons.items() if person is not None and other == person}
        periods = defaultdict(list)
        for presence in self.presences:
            if presence.participant_id in own and viewer.org_id == self.app.org_id:
                periods[presence.room.id].append(presence.period)
        return ViewerFacts(
            viewer=viewer,
            is_participant=one in self.kinds and one != self.app.org_id,
            is_agent=all(self.kinds.get(key) == "agent" for key in own),
            periods=periods,
            accounts=frozenset(own - {one}),
            destination=self.destination(viewer, own),
        )

    def viewer(self, account: str) -> Viewer:
        return Viewer(org_id=self.app.org_id, participant_id=self.accounts[account])

    def visible(self, viewer: Viewer) -> set[UUID]:
        facts = self.facts(viewer)
        return {key for key, one in self.messages.items() if can_see_message(one, facts)}

    def known(self, facts: ViewerFacts) -> set[UUID]:
        return {
            key
            for key in self.kinds
            if can_see_participant(
                key,
                facts,
                org_id=self.app.org_id,
                memberships=[one for one in self.presences if one.participant_id == key],
                messages=[one for one in self.messages.values() if one.author_id == key],
            )
        }

    def answers(self, viewer: Viewer) -> set[tuple[UUID, UUID, str]]:
        """The one edge of each message that counts for a viewer: to something said before to the same people."""
        visible, ranks = self.visible(viewer), ("explicit", "thread", "mention", "inferred")
        counting: dict[UUID, tuple[UUID, UUID, str]] = {}
        for child, parent, method in sorted(self.edges, key=lambda edge: ranks.index(edge[2])):
            is_there = {child, parent} <= visible and {child, parent} <= self.places.keys()
            if is_there and self._is_answer(child, parent):
                counting.setdefault(child, (child, parent, method))
        return set(counting.values())

    def _is_answer(self, child: UUID, parent: UUID) -> bool:
        one, other = self.messages[child], self.messages[parent]
        if one.kind not in {"message", "whisper"} or one.kind != other.kind:
            return False
        heard_alike = one.audience | {one.author_id} == other.audience | {other.author_id}
        return self.places[parent] < self.places[child] and (one.kind == "message" or heard_alike)

    def seen(self, viewer: Viewer) -> Rows:
        """The rows of every table that the rule lets a viewer see."""
        rule = self._rule(viewer)
        return {
            table: Counter({key: times for key, times in rows.items() if rule[table](*key)})
            for table, rows in self.rows.items()
        }

    def _rule(self, viewer: Viewer) -> Mapping[str, Callable[..., bool]]:
        facts, visible = self.facts(viewer), self.visible(viewer)
        known, org_id = self.known(facts), self.app.org_id

        def by_message(message_id, *_) -> bool:
            return message_id in visible

        def by_participant(participant_id) -> bool:
            return participant_id in known

        def by_owner(key) -> bool:
            return can_see_audit_line(self.owners[key], facts, org_id=org_id)

        def by_memory(key, *_) -> bool:
            return can_see_memory(self.memories[key], facts)

        def by_operator(*_) -> bool:
            return viewer == self.app.operator

        return {
            **dict.fromkeys(("messages", "timeline", "message_audience", "message_revisions"), by_message),
            "message_embeddings": by_message,
            "replies": lambda key: self._can_see_reply(key, facts),
            "rooms": lambda key: can_see_room(self.rooms[key], facts),
            "memberships": lambda *key: can_see_membership(self._presence(*key), facts),
            **dict.fromkeys(("participants", "platform_accounts"), by_participant),
            "participant_merges": lambda key, person: self._can_see_merge(key, person, facts, known),
            "conversations": lambda key: can_see_conversation(self.conversations[key], facts),
            **dict.fromkeys(("memories", "memory_sources"), by_memory),
            "memory_participants": lambda key, one: by_memory(key) and one in known,
            "interactions": lambda where, agent, met: can_see_interaction(
                agent, facts, conversation=self.conversations[where], knows=met in known
            ),
            "stated_trust": lambda agent, met: can_see_stated_trust(agent, facts, knows=met in known),
            **dict.fromkeys(("receipts", "audit_log"), by_owner),
            **dict.fromkeys(
                (
                    "room_activity",
                    "work_queue",
                    "api_keys",
                    "erased_accounts",
                    "erased_names",
                    "erased_ranges",
                    "conversation_messages",
                ),
                by_operator,
            ),
        }

    def _presence(self, room_id, participant_id, joined_at, left_at) -> Membership:
        period = Period(joined_at=joined_at, left_at=left_at)
        return Membership(room=self.rooms[room_id], participant_id=participant_id, period=period)

    def _can_see_reply(self, key: UUID, facts: ViewerFacts) -> bool:
        child, parent = self.replies[key]
        return can_see_reply(self.messages[child], self.messages.get(parent), facts)

    def _can_see_merge(self, key: UUID, person: UUID, facts: ViewerFacts, known: set[UUID]) -> bool:
        others = {one for one, other in self.persons.items() if other == person and one != key}
        return can_see_merge(
            facts, org_id=self.app.org_id, knows=key in known, knows_another=bool(others & known)
        )


async def truth(admin: psycopg.AsyncConnection, app: App) -> Truth:
    async def rows(columns: str) -> list[tuple]:
        return await _rows(admin, f"select {columns} where org_id = %s", [app.org_id])

    rooms = {
        key: RoomFacts(org_id=app.org_id, id=key, visibility=visibility)
        for key, visibility in await rows("id, visibility from rooms")
    }
    heard = defaultdict(set)
    for message_id, participant_id in await rows("message_id, participant_id from message_audience"):
        heard[message_id].add(participant_id)
    said = await rows(
        "id, room_id, kind, author_id, sent_at, external_id, redacted_at is not null from messages"
    )
    spoken = dict(
        await _rows(
            admin,
            "select message_id, prior_authors from conversation_messages p join conversations c"
            " on c.org_id = p.org_id and c.id = p.conversation_id"
            " where p.org_id = %s and c.sensitivity = 'sensitive'",
            [app.org_id],
        )
    )
    messages = {
        key: MessageFacts(
            room=rooms[room],
            kind=kind,
            author_id=author,
            sent_at=sent,
            audience=frozenset(heard[key]),
            prior_speakers=frozenset(spoken.get(key, ())),
        )
        for key, room, kind, author, sent, _, _ in said
    }
    return Truth(
        app=app,
        rows=await _everything(admin, "where org_id = %s", [app.org_id]),
        kinds=dict(await rows("id, kind from participants")),
        accounts=dict(await rows("account_id, participant_id from platform_accounts")),
        persons=dict(await rows("participant_id, person_id from participant_merges")),
        rooms=rooms,
        listed={key for key, told_at in await rows("id, member_list_at from rooms") if told_at is not None},
        messages=messages,
        presences=[
            Membership(room=rooms[room], participant_id=who, period=Period(joined_at=joined, left_at=left))
            for room, who, joined, left in await rows(
                "room_id, participant_id, nullif(joined_at, '-infinity'), left_at from memberships"
            )
        ],
        replies={
            key: (child, parent) for key, child, parent in await rows("id, child_id, parent_id from replies")
        },
        edges=[
            edge for edge in await rows("child_id, parent_id, method from replies") if edge[1] is not None
        ],
        places={
            key: (sent, order, key)
            for key, sent, order, erased_at in await rows("id, sent_at, sequence, erased_at from messages")
            if erased_at is None
        },
        conversations={
            key: ConversationFacts(
                org_id=app.org_id,
                messages=[messages[one] for one in held],
                is_sensitive=sensitivity == "sensitive",
                prior_speakers=frozenset(prior_authors),
            )
            for key, sensitivity, prior_authors, held in await rows(
                "id, sensitivity, prior_authors, array(select message_id from conversation_messages p"
                " where p.org_id = conversations.org_id and p.conversation_id = conversations.id)"
                " from conversations"
            )
        },
        memories={
            key: MemoryFacts(
                org_id=app.org_id,
                sources=[messages[one] for one in sources],
                is_sensitive=sensitivity == "sensitive",
                asserted_by=asserted_by,
                is_for_org=audience == "org",
            )
            for key, sensitivity, audience, asserted_by, sources in await rows(
                "id, sensitivity, audience, asserted_by, array(select message_id from memory_sources s"
                " where s.org_id = memories.org_id and s.memory_id = memories.id) from memories"
            )
        },
        owners=dict(
            [*await rows("id, viewer_id from receipts"), *await rows("id, viewer_id from audit_log")]
        ),
        external_ids={key: external_id for key, _, _, _, _, external_id, _ in said},
        embedded={key for (key,) in await rows("message_id from message_embeddings")},
        redacted={key for key, *_, is_redacted in said if is_redacted},
    )


def seen_by(world: World, told: Truth, viewer: Viewer) -> World:
    """The world without the rows that the viewer may not see; what is seen of memberships is stated."""
    facts, seen_rows = told.facts(viewer), told.seen(viewer)
    visible = {told.external_ids[key] for (key,) in seen_rows["messages"]}
    said = [_as_left(one, world) for one in world.said if one.external_id in visible]
    return World(
        rooms=_rooms_seen(world, told, facts, {one.room.external_id for one in said}),
        said=said,
        again=[
            one for one in world.again if one.external_id in visible and one.external_id not in world.erased
        ],
        erased=[key for key in world.erased if key in visible],
        listed=world.listed,
        **_derived_seen(world, told, seen_rows),
    )


def _as_left(one: IncomingMessage, world: World) -> IncomingMessage:
    """What an erasure leaves of a message."""
    if one.external_id not in world.erased:
        return one
    return replace(one, author=SCRIBE, body=EVERYWHERE, audience=())


def _rooms_seen(world: World, told: Truth, facts: ViewerFacts, spoken_in: set[str]) -> list[IncomingRoom]:
    people = {
        told.accounts[person.account_id]: person for person in PEOPLE if person.account_id in told.accounts
    }
    by_name = {told.external_ids[key]: one.room for key, one in told.messages.items()}
    rooms = []
    for room in world.rooms:
        held = by_name[f"scribe-{room.external_id}"]
        if room.external_id not in spoken_in and not can_see_room(held, facts):
            continue
        members = [
            IncomingMembership(
                author=people[presence.participant_id],
                joined_at=presence.period.joined_at,
                left_at=presence.period.left_at,
            )
            for presence in told.presences
            if presence.room == held and can_see_membership(presence, facts)
        ]
        rooms.append(replace(room, members=members))
    return rooms


def _derived_seen(world: World, told: Truth, seen: Rows) -> dict:
    known = {account for account, key in told.accounts.items() if (key,) in seen["participants"]}

    def notes(table: str, thing: str, held: Sequence[Note]) -> list[Note]:
        return [one for one in held if (made_id(thing, one.number),) in seen[table]]

    return {
        "others": sorted(known),
        "merges": {
            account: person
            for account, person in world.merges.items()
            if (told.accounts[account], made_id("person", person)) in seen["participant_merges"]
        },
        "conversations": [
            one
            for one in world.conversations
            if (made_id("conversation", one.number),) in seen["conversations"]
        ],
        "found": {
            child: parent
            for child, parent in world.found.items()
            if {child, parent} <= {told.external_ids[key] for (key,) in seen["messages"]}
        },
        "memories": [
            replace(
                one,
                asserted_by=one.asserted_by if one.asserted_by in known else None,
                people=[(account, role) for account, role in one.people if account in known],
            )
            for one in world.memories
            if (made_id("memory", one.number),) in seen["memories"]
        ],
        "interactions": [
            (number, *pair)
            for number, *pair in world.interactions
            if (made_id("conversation", number), *(told.accounts[one] for one in pair))
            in seen["interactions"]
        ],
        "lines": notes("audit_log", "line", world.lines),
        "receipts": notes("receipts", "receipt", world.receipts),
    }
