"""Small worlds of rooms and people, made up by hypothesis, and the facts that decide who may see what in them.

A world is only what a platform would report. `load` puts it into an org; `Truth` reads back, as a superuser,
what the database holds, in the terms of the visibility rule; `seen_by` is the world from which everything that
a viewer may not see was left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import psycopg
import pytest
from hypothesis import strategies as st

from roomlore.app import App
from roomlore.domain.audience import (
    MessageFacts,
    Period,
    Presence,
    RoomFacts,
    ViewerFacts,
    can_see,
    can_see_presence,
    can_see_room,
)
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
PLATFORM = "village"
PEOPLE = (
    IncomingAuthor(account_id="ana", name="Ana"),
    IncomingAuthor(account_id="ben", name="Ben"),
    IncomingAuthor(account_id="cleo", name="Cleo"),
    IncomingAuthor(account_id="pip", name="Pip", kind="agent"),
    IncomingAuthor(account_id="zed", name="Zed", kind="agent"),
)
#: Writes what only carries rooms and names into the store; nobody reads for it.
SCRIBE = IncomingAuthor(account_id="scribe", name="Scribe", kind="system")
ROOMS = ("garden", "harbour", "attic", "cellar")
TOPICS = ("lantern", "rope", "apples", "ferry")
#: Every body has this word, so that a question with it asks for everything.
EVERYWHERE = "village"
MINUTES = st.integers(0, 12)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    rooms: Sequence[IncomingRoom]
    #: Each once, in the order of their numbers; external ids are m0, m1, …
    said: Sequence[IncomingMessage]
    #: Later versions and removals of some of them.
    again: Sequence[IncomingMessage]

    def named(self) -> list[IncomingAuthor]:
        """Whoever the world mentions, under the name of their account."""
        mentioned = {member.author.account_id for room in self.rooms for member in room.members}
        for message in self.said:
            mentioned |= {message.author.account_id, *(author.account_id for author in message.audience)}
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
    return World(rooms=made, said=said, again=again)


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


async def load(app: App, world: World) -> None:
    """Put a world into an org; ids grow in its order, so that equal scores are told apart alike in all worlds."""
    ids = count(1)

    def next_id() -> UUID:
        return UUID(int=0x01900000_0000_7000_8000_000000000000 + next(ids))

    half = len(ROOMS) + 2
    early = [one for one in world.said if one.order < half]
    late = [one for one in world.said if one.order >= half]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roomlore.ingest.accept.uuid7", next_id)
        patch.setattr("roomlore.ingest.resolve.uuid7", next_id)
        for batch in ([_census(world), *map(_opener, world.rooms)], early, [*late, *world.again]):
            accepted = await app.ingest_batch(batch)
            assert not accepted.skipped
    await app.drain()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What an org holds, as the visibility rule needs it."""

    app: App
    kinds: dict[UUID, str]
    accounts: dict[str, UUID]
    rooms: dict[UUID, RoomFacts]
    messages: dict[UUID, MessageFacts]
    presences: Sequence[Presence]
    #: (child, parent or None) by edge.
    replies: dict[UUID, tuple[UUID, UUID | None]]
    audiences: Sequence[tuple[UUID, UUID]]
    external_ids: dict[UUID, str]
    embedded: set[UUID]
    redacted: set[UUID]

    def facts(self, viewer: Viewer) -> ViewerFacts:
        own = defaultdict(list)
        for presence in self.presences:
            if presence.participant_id == viewer.participant_id and viewer.org_id == self.app.org_id:
                own[presence.room.id].append(presence.period)
        kind = self.kinds.get(viewer.participant_id)
        return ViewerFacts(
            viewer=viewer, is_participant=kind is not None, is_agent=kind == "agent", periods=own
        )

    def viewer(self, account: str) -> Viewer:
        return Viewer(org_id=self.app.org_id, participant_id=self.accounts[account])

    def visible(self, viewer: Viewer) -> set[UUID]:
        facts = self.facts(viewer)
        return {key for key, one in self.messages.items() if can_see(one, facts)}


async def truth(admin: psycopg.AsyncConnection, app: App) -> Truth:
    async def rows(query: str) -> list[tuple]:
        return await (await admin.execute(query, [app.org_id])).fetchall()

    rooms = {
        key: RoomFacts(org_id=app.org_id, id=key, visibility=visibility)
        for key, visibility in await rows("select id, visibility from rooms where org_id = %s")
    }
    audiences = await rows("select message_id, participant_id from message_audience where org_id = %s")
    heard = defaultdict(set)
    for message_id, participant_id in audiences:
        heard[message_id].add(participant_id)
    said = await rows(
        "select id, room_id, kind, author_id, sent_at, external_id, redacted_at is not null from messages"
        " where org_id = %s"
    )
    return Truth(
        app=app,
        kinds=dict(await rows("select id, kind from participants where org_id = %s")),
        accounts=dict(await rows("select account_id, participant_id from identities where org_id = %s")),
        rooms=rooms,
        messages={
            key: MessageFacts(
                room=rooms[room], kind=kind, author_id=author, sent_at=sent, audience=frozenset(heard[key])
            )
            for key, room, kind, author, sent, _, _ in said
        },
        presences=[
            Presence(room=rooms[room], participant_id=who, period=Period(joined_at=joined, left_at=left))
            for room, who, joined, left in await rows(
                "select room_id, participant_id, nullif(joined_at, '-infinity'), left_at from memberships"
                " where org_id = %s"
            )
        ],
        replies={
            key: (child, parent)
            for key, child, parent in await rows(
                "select id, child_id, parent_id from replies where org_id = %s"
            )
        },
        audiences=audiences,
        external_ids={key: external_id for key, _, _, _, _, external_id, _ in said},
        embedded={
            key for (key,) in await rows("select message_id from message_embeddings where org_id = %s")
        },
        redacted={key for key, *_, is_redacted in said if is_redacted},
    )


def seen_by(world: World, told: Truth, viewer: Viewer) -> World:
    """The world without the rows that the viewer may not see; what is seen of memberships is stated."""
    facts = told.facts(viewer)
    visible = {told.external_ids[key] for key in told.visible(viewer)}
    said = [one for one in world.said if one.external_id in visible]
    seen = {one.room.external_id for one in said}
    people = {
        told.accounts[person.account_id]: person for person in PEOPLE if person.account_id in told.accounts
    }
    by_name = {told.external_ids[key]: one.room for key, one in told.messages.items()}
    rooms = []
    for room in world.rooms:
        held = by_name[f"scribe-{room.external_id}"]
        if room.external_id not in seen and not can_see_room(held, facts):
            continue
        members = [
            IncomingMembership(
                author=people[presence.participant_id],
                joined_at=presence.period.joined_at,
                left_at=presence.period.left_at,
            )
            for presence in told.presences
            if presence.room == held and can_see_presence(presence, facts)
        ]
        rooms.append(replace(room, members=members))
    again = [one for one in world.again if one.external_id in visible]
    return World(rooms=rooms, said=said, again=again)
