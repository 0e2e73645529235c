"""What the graph answers, within the rooms whose messages may count."""

from datetime import UTC, datetime

import pytest

from backends.neo4j.stories import message, uid, user
from roomlore.backends.neo4j import Neo4jGraph
from roomlore.backends.neo4jquestions import Near, Talk
from roomlore.domain.ids import ParticipantId, RoomId
from roomlore.domain.projected import Edge, Node

pytestmark = pytest.mark.slow

ANN, BOB, BOT, OPEN, CLOSED, TEA = 1, 2, 3, 900, 901, 50
IN_OPEN, IN_NONE = [RoomId(uid(OPEN))], list[RoomId]()


def memory(number: int, *edges: tuple[str, str, int], room: int | None = OPEN) -> Node:
    properties = {} if room is None else {"room_id": str(uid(room))}
    led = [Edge(kind=kind, label=label, target_id=uid(target)) for kind, label, target in edges]  # pyright: ignore[reportArgumentType]
    return Node(id=uid(number), version=1, label="Memory", properties=properties, edges=led)


@pytest.fixture
async def told(graph: Neo4jGraph, copy: str) -> str:
    """Ann and Bob talk in the open and in a closed room, and a bot with them; some of it is remembered."""
    knows = [Edge(kind="HAS_MEMORY", label="Memory", target_id=uid(one)) for one in (60, 61, 62)]
    await graph.put(
        copy,
        [
            user(ANN),
            user(BOB, edges=[Edge(kind="HAS_MEMORY", label="Memory", target_id=uid(63))]),
            user(BOT, is_bot=True, edges=knows),
            message(10, author=ANN),
            message(11, author=BOB, reply_to=10),
            message(12, author=ANN, reply_to=11),
            message(13, author=BOT, reply_to=12),
            message(14, author=BOT, room=CLOSED),
            message(15, author=ANN, room=CLOSED, reply_to=14),
            message(16, author=ANN, room=CLOSED, reply_to=15),
            memory(60, ("ABOUT", "User", ANN), ("TAGGED", "Tag", TEA)),
            memory(61, ("INVOLVES", "User", ANN), ("TAGGED", "Tag", TEA), room=CLOSED),
            memory(62, ("ABOUT", "User", BOB), room=None),
            memory(63, ("INVOLVES", "User", ANN)),
            Node(id=uid(TEA), version=1, label="Tag", properties={"name": "tea"}),
        ],
    )
    return copy


@pytest.mark.parametrize(
    ("rooms", "said"), [(None, [14, 13]), (IN_OPEN, [13]), (IN_NONE, [])], ids=["operator", "open", "none"]
)
async def test_what_bots_said_comes_newest_first(graph: Neo4jGraph, told: str, rooms, said):
    assert [one.int for one in await graph.said_by_bots(told, rooms=rooms, limit=9)] == said
    assert [one.int for one in await graph.said_by_bots(told, rooms=rooms, limit=1)] == said[:1]


@pytest.mark.parametrize(
    ("rooms", "said"),
    [(None, [16, 15, 12, 10]), (IN_OPEN, [12, 10]), (IN_NONE, [])],
    ids=["operator", "open", "none"],
)
async def test_what_somebody_said_comes_newest_first(graph: Neo4jGraph, told: str, rooms, said):
    ann = ParticipantId(uid(ANN))
    assert [one.int for one in await graph.said_by(told, ann, rooms=rooms, limit=9)] == said


@pytest.mark.parametrize(
    ("rooms", "known"),
    [(None, [62, 61, 60]), (IN_OPEN, [60]), (IN_NONE, [])],
    ids=["operator", "open", "none"],
)
async def test_what_bots_know_is_not_what_people_know(graph: Neo4jGraph, told: str, rooms, known):
    assert [one.int for one in await graph.known_by_bots(told, rooms=rooms, limit=9)] == known


def talk(number: int, count: int, minute: int) -> Talk:
    last = datetime(2026, 3, 1, 10, minute, tzinfo=UTC)
    return Talk(participant_id=ParticipantId(uid(number)), count=count, last=last)


@pytest.mark.parametrize(
    ("rooms", "talks"),
    [
        (None, [talk(BOT, 2, 15), talk(BOB, 2, 12)]),
        (IN_OPEN, [talk(BOB, 2, 12), talk(BOT, 1, 13)]),
        (IN_NONE, []),
    ],
    ids=["operator", "open", "none"],
)
async def test_who_talked_to_whom_counts_replies_both_ways(graph: Neo4jGraph, told: str, rooms, talks):
    assert await graph.talked_to(told, ParticipantId(uid(ANN)), rooms=rooms, limit=9) == talks


def near(number: int, label, score: float) -> Near:
    return Near(id=uid(number), label=label, score=score)


async def test_people_memories_and_tags_are_near(graph: Neo4jGraph, told: str):
    found = await graph.near(told, ParticipantId(uid(ANN)), rooms=None, limit=9)
    assert found == [
        near(60, "Memory", 1.0),
        near(TEA, "Tag", 1.0),
        near(BOB, "User", 1.0),
        near(BOT, "User", 1.0),
        near(61, "Memory", 0.5),
        near(63, "Memory", 0.5),
    ]
    assert await graph.near(told, ParticipantId(uid(ANN)), rooms=None, limit=2) == found[:2]


async def test_what_is_near_in_a_closed_room_is_not_near_outside(graph: Neo4jGraph, told: str):
    found = await graph.near(told, ParticipantId(uid(ANN)), rooms=IN_OPEN, limit=9)
    assert {(one.id.int, one.score) for one in found} == {(60, 1), (TEA, 1), (BOB, 1), (BOT, 0.5), (63, 0.5)}


async def test_nobody_is_near_a_stranger(graph: Neo4jGraph, told: str):
    assert await graph.near(told, ParticipantId(uid(999)), rooms=None, limit=9) == []
