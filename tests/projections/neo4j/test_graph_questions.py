"""Queries of an index in a real Neo4j: alone within the visibility rule, with the database exactly the answer."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from conftest import OpenApp
from graph.comparing import compare, viewers
from graph.copied import with_neo4j
from graph.telling import STATED, Facts, Story, facts, plain, stories, tell
from graph.test_story import STORY
from projections.neo4j.stories import Raw, uid
from roomlore.db import projections
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.projections import Edge, Node, VisibilityFilter
from roomlore.domain.records import MembershipPeriod, Viewer
from roomlore.operations import App
from roomlore.projections.neo4j import Neo4jProjection
from roomlore.projections.neo4j_connection import load_queries
from roomlore.projections.neo4j_queries import Neo4jGraphView, _query_parts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MANY = 1_000
generated = settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # each example makes an org of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
ANN, BOB, BOT, HEARD, WHISPERED, UNHEARD = 1, 2, 3, 10, 11, 12
ROOM, OTHER = 900, 901
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(name="open_copied")
async def _open_copied(
    open_app: OpenApp, server: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[OpenApp]:
    """Open the App of an org that no other test sees, where the server is named."""
    opened: list[App] = []

    async def open_org(name: str) -> App:
        opened.append(with_neo4j(await open_app(name), server, monkeypatch))
        return opened[-1]

    yield open_org
    for app in opened:
        await app.projections.drop("neo4j")
        await app._projection_clients.close()


async def build(app: App) -> str:
    """Build the copy of an org and return its name."""
    assert (await app.projections.rebuild("neo4j")).is_ready
    async with app.db.read_transaction(app.operator) as conn:
        [held] = [one for one in await projections.all_projections(conn, app.org_id) if one.target == "neo4j"]
    assert held.index_name is not None
    return held.index_name


async def test_the_copy_and_the_database_answer_alike(open_copied: OpenApp, admin):
    app = await open_copied("graph")
    await tell(app, STORY)
    await build(app)

    assert await compare(app, await facts(admin, app), by="neo4j") > 100


@given(story=stories().map(plain))
@generated
async def test_the_copy_and_the_database_answer_alike_in_many_stories(
    story: Story, open_copied: OpenApp, admin
):
    app = await open_copied("graph")
    await tell(app, story)
    await build(app)

    await compare(app, await facts(admin, app), by="neo4j")


async def alone(app: App, copy: str, viewer: Viewer, graph: Neo4jProjection) -> Neo4jGraphView:
    """Return the copy as this viewer asks it, before the database decides."""
    async with app.db.read_transaction(viewer, apply_restrictions=True) as conn:
        return graph.view_for(copy, await projections.visibility_filter(conn))


async def test_a_copy_alone_shows_no_more_than_may_be_read(
    open_copied: OpenApp, admin, graph: Neo4jProjection
):
    app = await open_copied("graph")
    await tell(app, STORY)
    copy = await build(app)
    told = await facts(admin, app)
    for viewer in viewers(app, told):
        asked, seen = await alone(app, copy, viewer, graph), told.seen(viewer)
        for key in told.truth.accounts.values():
            people = [ParticipantId(key)]
            assert await asked.messages_by(people, limit=MANY) == seen.said_by({key})
        assert await asked.messages_by_agents(limit=MANY) == seen.said_by(bots(told))
        assert (
            set(seen.known_by(seen.bots(), STATED))
            <= set(await asked.memories_by_agents(limit=MANY))
            <= seen.memories
        )


def bots(told: Facts) -> set:
    return {key for key, kind in told.truth.kinds.items() if kind == "agent"}


def say(number: int, *, minute: int = 0, **more) -> Node:
    sent_at = (NOON + timedelta(minutes=minute)).isoformat(timespec="microseconds")
    properties = {
        "room_uuid": str(uid(ROOM)),
        "sent_at": sent_at,
        "sequence": 0,
        "author_uuid": str(uid(ANN)),
        "kind": "message",
    } | more
    edges = [Edge(kind="AUTHORED", label="User", target_id=uid(ANN), incoming=True)]
    kept = {name: value for name, value in properties.items() if value is not None}
    return Node(id=uid(number), version=1, label="Message", properties=kept, edges=edges)


def within(**fields) -> VisibilityFilter:
    return replace(VisibilityFilter(), **fields)


OPEN = within(open_room_ids=[RoomId(uid(ROOM))])


@pytest.mark.parametrize("lacking", ["room_uuid", "sent_at", "author_uuid", "kind"])
async def test_what_is_not_known_of_a_message_makes_it_nobodys(
    graph: Neo4jProjection, copy: str, lacking: str
):
    stay = MembershipPeriod(room_id=RoomId(uid(ROOM)), joined_at=NOON, left_at=None)
    await graph.put(copy, [say(HEARD, **{lacking: None})])
    for sight in (OPEN, within(stays=[stay])):
        found = await graph.view_for(copy, sight).messages_by([ParticipantId(uid(ANN))], limit=9)
        # A room that is open is open at any time, whoever says so.
        is_known = lacking == "author_uuid" or (lacking == "sent_at" and sight is OPEN)
        assert found == ([uid(HEARD)] if is_known else [])


async def test_whoever_may_see_nothing_is_told_nothing(graph: Neo4jProjection, copy: str):
    await graph.put(copy, [say(HEARD), say(WHISPERED, kind="whisper", audience=(str(uid(BOB)),))])
    people = [ParticipantId(uid(ANN))]
    assert await graph.view_for(copy, within()).messages_by(people, limit=9) == []
    assert (
        await graph.view_for(copy, within(own_ids=[ParticipantId(uid(4))])).messages_by(people, limit=9) == []
    )
    assert await graph.view_for(copy, within(own_ids=people)).messages_by(people, limit=0) == []
    assert len(await graph.view_for(copy, within(is_operator=True)).messages_by(people, limit=9)) == 2


async def test_a_whisper_is_for_its_author_and_those_it_names(graph: Neo4jProjection, copy: str):
    named = (str(uid(BOB)),)
    await graph.put(
        copy, [say(WHISPERED, kind="whisper", audience=named), say(UNHEARD, kind="whisper", audience=())]
    )
    people = [ParticipantId(uid(ANN))]

    async def heard(sight: VisibilityFilter) -> set:
        return {one.int for one in await graph.view_for(copy, sight).messages_by(people, limit=9)}

    assert await heard(within(own_ids=[ParticipantId(uid(BOB))])) == {WHISPERED}
    assert await heard(within(own_ids=people)) == {WHISPERED, UNHEARD}
    assert await heard(OPEN) == set()


@pytest.mark.parametrize(
    ("there", "heard"),
    [((None, None), [0, 1, 2]), ((1, None), [1, 2]), ((None, 1), [0]), ((1, 2), [1]), ((2, 2), [])],
    ids=["ever", "from then on", "until then", "between", "never"],
)
async def test_a_stay_begins_with_its_first_moment_and_ends_before_its_last(
    graph: Neo4jProjection, copy: str, there, heard
):
    await graph.put(copy, [say(HEARD + minute, minute=minute) for minute in range(3)])

    def moment(minute: int | None) -> datetime | None:
        return None if minute is None else NOON + timedelta(minutes=minute)

    joined, left = map(moment, there)
    stay = MembershipPeriod(room_id=RoomId(uid(ROOM)), joined_at=joined, left_at=left)
    elsewhere = MembershipPeriod(room_id=RoomId(uid(OTHER)), joined_at=None, left_at=None)
    asked = graph.view_for(copy, within(stays=[stay, elsewhere]))

    found: list[MessageId] = await asked.messages_by([ParticipantId(uid(ANN))], limit=9)

    assert sorted(one.int - HEARD for one in found) == heard


def remembered(number: int, day: int, *, is_for_org: bool) -> Node:
    properties = {"kind": "fact", "is_active": True, "is_for_org": is_for_org}
    properties["valid_from"] = f"2026-03-{day:02}T10:00:00.000000+00:00"
    edges = [Edge(kind="HAS_MEMORY", label="User", target_id=uid(BOT), incoming=True)]
    return Node(id=uid(number), version=1, label="Memory", properties=properties, edges=edges)


async def test_what_is_for_the_org_is_proposed_to_all_of_it_newest_first_by_when_it_was_said(
    graph: Neo4jProjection, copy: str
):
    await graph.put(
        copy,
        [
            Node(id=uid(BOT), version=1, label="User", properties={"is_bot": True}, edges=[]),
            remembered(50, 9, is_for_org=True),
            remembered(51, 3, is_for_org=True),
            remembered(52, 5, is_for_org=False),
        ],
    )
    somebody = graph.view_for(copy, within(own_ids=[ParticipantId(uid(4))]))
    assert await somebody.memories_by_agents(limit=9) == [uid(50), uid(51)]
    nobody = graph.view_for(copy, within(open_room_ids=[RoomId(uid(ROOM))]))
    assert await nobody.memories_by_agents(limit=9) == []


async def test_a_copy_that_is_gone_says_so(graph: Neo4jProjection):
    with pytest.raises(BackendUnavailable, match="gone"):
        await graph.view_for("never-there", OPEN).messages_by([ParticipantId(uid(ANN))], limit=9)


@pytest.mark.parametrize("name", ["messages_by_agents", "said_by", "memories_of_agents"])
async def test_every_question_begins_at_the_index(raw: Raw, copy: str, name: str):
    text = load_queries()[name]
    for word, meant in _query_parts().items():
        text = text.replace(f"<{word}>", meant)
    assert "<" not in text.replace("<-", "").replace("<=", "").replace(" < ", "").replace("<>", "")
    steps = await raw.plan(
        text,
        copy=copy,
        participants=["1"],
        limit=5,
        operator=False,
        own=[],
        open=[],
        stays={},
    )
    assert any("Index" in step for step in steps), steps
    assert not any("AllNodesScan" in step or "ByLabelScan" in step for step in steps), steps
