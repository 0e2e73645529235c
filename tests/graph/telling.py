"""What the graph must answer, in the plainest way: read as a superuser, and held against the rule of who may see what."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import psycopg
from hypothesis import strategies as st

from db.worlds import Truth, World, load, made_id, merge, truth, worlds
from domain.audience import can_see_conversation, can_see_memory
from roomlore.db.graph import ParticipantCount, RelatedMemory
from roomlore.domain.projections import tag_id
from roomlore.domain.records import Viewer
from roomlore.operations import App

TAGS = ("tea", "boats", "rain")
KINDS = ("fact", "preference", "lesson")
SAID = {"message", "whisper"}
#: What has a node, so that what rests on it can be told.
HELD = SAID | {"system"}
STATED = {"author", "perspective"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What becomes of a memory of a world."""

    kind: str
    tags: Sequence[str]
    is_archived: bool
    #: By the number of another one.
    superseded_by: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A world, and what becomes of its memories, each by its number."""

    world: World
    marks: Sequence[Mark]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    world = draw(worlds())
    later = [draw(st.none() | st.integers(one.number + 1, 4)) for one in world.memories]
    marks = [
        Mark(
            kind=draw(st.sampled_from(KINDS)),
            tags=draw(st.lists(st.sampled_from(TAGS), max_size=2, unique=True)),
            is_archived=draw(st.integers(0, 5)) == 0,
            superseded_by=one if one is not None and one < len(world.memories) else None,
        )
        for one in later
    ]
    return Story(world=world, marks=marks)


def plain(story: Story) -> Story:
    """Return a story without what graphs are not told of, which the database knows alone.

    What answers one message by its own word and another by its thread; memories that rest on what was not said, or is no
    more; and whoever asserted a memory without being named by it.
    """
    world = story.world
    gone = {one.external_id for one in world.again if one.deleted}
    held = {one.external_id for one in world.said if one.kind in HELD} - gone
    kept = [replace(one, thread_root=None if one.reply_to else one.thread_root) for one in world.said]
    memories = [
        replace(
            one,
            sources=[key for key in one.sources if key in held],
            people=[
                *dict.fromkeys([*one.people, *([(one.asserted_by, "author")] if one.asserted_by else [])])
            ],
        )
        for one in world.memories
    ]
    return replace(story, world=replace(world, said=kept, memories=memories))


async def tell(app: App, story: Story) -> None:
    """Put a story into an org."""
    await load(app, replace(story.world, merges={}))

    async def mark(conn: psycopg.AsyncConnection) -> None:
        for number, one in enumerate(story.marks):
            key = made_id("memory", number)
            later = None if one.superseded_by is None else made_id("memory", one.superseded_by)
            await conn.execute(
                "update memories set kind = %s, archived_at = %s, superseded_by = %s where org_id = %s and id = %s",
                [one.kind, datetime(2025, 4, 1) if one.is_archived else None, later, app.org_id, key],  # noqa: DTZ001  in UTC
            )
            await conn.cursor().executemany(
                "insert into memory_tags values (%s, %s, %s)", [(app.org_id, key, tag) for tag in one.tags]
            )

    await app.db.change(app.org_id, mark)
    await merge(app, story.world.merges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an org holds, as far as the graph has to do with it."""

    truth: Truth
    #: (memory, participant, role), (memory, tag), (memory, message), (conversation, message).
    roles: set[tuple[UUID, UUID, str]]
    tags: set[tuple[UUID, str]]
    sources: set[tuple[UUID, UUID]]
    placed: set[tuple[UUID, UUID]]
    #: Kinds of the memories that stand.
    kinds: Mapping[UUID, str]
    #: Child, parent and method of each edge.
    edges: Sequence[tuple[UUID, UUID, str]]

    def seen(self, viewer: Viewer, *, restrictions: Iterable[UUID] = ()) -> "Seen":
        return Seen(facts=self, viewer=viewer, restrictions=frozenset(restrictions))


async def facts(admin: psycopg.AsyncConnection, app: App) -> Facts:
    async def rows(columns: str) -> list[tuple]:
        return await (await admin.execute(f"select {columns} where org_id = %s", [app.org_id])).fetchall()

    told = await truth(admin, app)
    return Facts(
        truth=told,
        roles={*await rows("memory_id, participant_id, role from memory_participants")},
        tags={*await rows("memory_id, tag from memory_tags")},
        sources={*await rows("memory_id, message_id from memory_sources")},
        placed={*await rows("conversation_id, message_id from conversation_messages")},
        kinds={
            key: kind
            for key, kind, status in await rows("id, kind, status from memories")
            if status == "active"
        },
        edges=told.edges,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The answers for one viewer."""

    facts: Facts
    viewer: Viewer
    #: Messages that wishes keep from them.
    restrictions: frozenset[UUID]

    @property
    def messages(self) -> set[UUID]:
        told = self.facts.truth
        visible = told.visible(self.viewer) - told.redacted - self.restrictions
        return {key for key in visible if told.messages[key].kind in SAID}

    @property
    def memories(self) -> set[UUID]:
        told, seen = self.facts.truth, self.facts.truth.facts(self.viewer)
        kept = {key for key, message in self.facts.sources if message in self.restrictions}
        return {key for key in self.facts.kinds if can_see_memory(told.memories[key], seen)} - kept

    @property
    def known(self) -> set[UUID]:
        told = self.facts.truth
        return told.known(told.facts(self.viewer)) - {told.app.org_id}

    def accounts(self, one: UUID) -> set[UUID]:
        """The accounts of a person, as far as the viewer may know of them."""
        persons = self.facts.truth.persons
        return {one, *(key for key in self.known if key in persons and persons[key] == persons.get(one))}

    def is_followed(self, conversation: UUID) -> bool:
        told = self.facts.truth
        return can_see_conversation(told.conversations[conversation], told.facts(self.viewer))

    def bots(self) -> set[UUID]:
        return {key for key in self.known if self.facts.truth.kinds[key] == "agent"}

    def said_by(self, people: set[UUID]) -> list[UUID]:
        told = self.facts.truth
        said = [told.places[key] for key in self.messages if told.messages[key].author_id in people]
        return [key for *_, key in sorted(said, reverse=True)]

    def known_by(self, people: set[UUID], roles: set[str]) -> list[UUID]:
        named = {key for key, who, role in self.facts.roles if who in people & self.known and role in roles}
        return sorted(named & self.memories, reverse=True)

    def conversation_partners(self, people: set[UUID]) -> list[ParticipantCount]:
        told, talks = self.facts.truth, Counter[UUID]()
        last: dict[UUID, datetime] = {}
        for child, parent in self._answers():
            ends = [told.messages[key].author_id for key in (child, parent)]
            # Whoever answers themselves talks to nobody.
            others = set(ends) - people
            if {child, parent} <= self.messages and len(others) == 1 and people & set(ends):
                [other] = others
                talks[other] += 1
                sent = told.messages[child].sent_at
                last[other] = max(sent, last.get(other, sent))
        return sorted(
            [
                ParticipantCount(participant_id=key, count=count, last=last[key])
                for key, count in talks.items()
            ],
            key=_by_count,
        )

    def _answers(self) -> set[tuple[UUID, UUID]]:
        """What each message answers: by its own word, or else the root of its thread."""
        visible = self.facts.truth.visible(self.viewer) - self.restrictions
        counting: dict[UUID, UUID] = {}
        for method in ("thread", "explicit"):
            counting |= {
                child: parent
                for child, parent, how in self.facts.edges
                if how == method and {child, parent} <= visible
            }
        return set(counting.items())

    def _near(self, people: set[UUID]) -> list[tuple[UUID, UUID, str]]:
        return [
            (key, who, role)
            for key, who, role in self.facts.roles
            if key in self.memories and who in people & self.known and role in {"subject", "involved"}
        ]

    def memories_near(self, people: set[UUID]) -> list[RelatedMemory]:
        ties = {(key, role) for key, _, role in self._near(people)}
        weights = Counter[UUID]()
        for key, role in ties:
            weights[key] += 2 if role == "subject" else 1
        return self._weighed(weights)

    def near(self, people: set[UUID], limit: int) -> list[tuple[UUID, str, float]]:
        near = {key for key, *_ in self._near(people)}
        org_id = self.facts.truth.app.org_id
        counts: dict[str, dict[UUID, int]] = {
            "User": {one.participant_id: one.count for one in self.conversation_partners(people)[:limit]},
            "Memory": {one.memory_id: one.count for one in self.memories_near(people)[:limit]},
            "Tag": Counter(tag_id(org_id, tag) for key, tag in self.facts.tags if key in near),
        }
        scored = [
            (key, label, count / max(found.values()))
            for label, found in counts.items()
            for key, count in found.items()
        ]
        return sorted(scored, key=lambda node: (-node[2], node[1], node[0]))[:limit]

    def participants_of(self, conversation: UUID) -> list[ParticipantCount]:
        told = self.facts.truth
        held = [key for where, key in self.facts.placed if where == conversation and key in self.messages]
        counted = Counter(told.messages[key].author_id for key in held)
        last: dict[UUID, datetime] = {}
        for key in held:
            message = told.messages[key]
            last[message.author_id] = max(message.sent_at, last.get(message.author_id, message.sent_at))
        return sorted(
            [
                ParticipantCount(participant_id=key, count=count, last=last[key])
                for key, count in counted.items()
            ],
            key=_by_count,
        )

    def memories_for(self, conversation: UUID) -> list[RelatedMemory]:
        people = {
            key for one in self.participants_of(conversation) for key in self.accounts(one.participant_id)
        }
        held = {key for where, key in self.facts.placed if where == conversation}
        resting = {key for key, message in self.facts.sources if message in held} & self.memories
        topic = {tag for key, tag in self.facts.tags if key in resting}
        weights = Counter(dict.fromkeys(resting, 4))
        for key, _, role in self._near(people):
            weights[key] += 2 if role == "subject" else 1
        for key in list(weights):
            weights[key] += any((key, tag) in self.facts.tags for tag in topic)
        return self._weighed(weights)

    def _weighed(self, weights: Mapping[UUID, int]) -> list[RelatedMemory]:
        kinds = self.facts.kinds
        return sorted(
            [RelatedMemory(memory_id=key, kind=kinds[key], count=count) for key, count in weights.items()],
            key=lambda one: (-one.count, -one.memory_id.int),
        )


def _by_count(one: ParticipantCount) -> tuple[int, float, UUID]:
    return -one.count, -one.last.timestamp(), one.participant_id
