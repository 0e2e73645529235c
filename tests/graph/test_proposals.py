"""A copy only proposes: whatever it says, and whether it answers at all, the answers are those of the database."""

from dataclasses import replace
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from graph.comparing import compare
from graph.liar import Liar, LyingServers
from graph.telling import Story, facts, plain, stories, tell
from ingest.stories import at, author, message
from roomlore.domain.ids import uuid7
from roomlore.operations import App
from roomlore.operations.candidates import BREAKER_SECONDS
from roomlore.settings import Neo4jSettings

generated = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # each example makes an org of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


async def lied_to(app: App, admin: psycopg.AsyncConnection) -> tuple[App, Liar]:
    """Return the same org, opened where a liar holds the copy that is read."""
    await admin.execute(
        "insert into projections (org_id, target, index_name) values (%s, 'neo4j', 'lies')", [app.org_id]
    )
    servers = LyingServers()
    servers.liar = Liar(app)
    named = replace(app.settings, neo4j=Neo4jSettings(url="bolt://127.0.0.1:1", password="none"))
    return replace(app, settings=named, _projection_clients=servers), servers.liar


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(story=stories().map(plain))
@generated
async def test_nobody_is_told_more_by_a_copy_that_tells_everything(story: Story, open_app, admin):
    app = await open_app("graph")
    await tell(app, story)
    told = await facts(admin, app)
    app, liar = await lied_to(app, admin)

    await compare(app, told, by="neo4j")

    assert liar.asked


@pytest.fixture(name="talking")
async def _talking(app: App) -> App:
    ana, bo, pip = author("ana"), author("bo"), author("pip", kind="agent")
    await app.ingest_batch(
        [
            message("one", "Who feeds the cat?", author=ana, sent_at=at(1)),
            message("two", "I do.", author=bo, reply_to="one", sent_at=at(2)),
            message("three", "It was fed at nine.", author=pip, reply_to="one", sent_at=at(3)),
        ]
    )
    await app.drain()
    return app


async def test_an_answer_says_who_found_it(talking: App, admin):
    asked, liar = await lied_to(talking, admin)

    told = await asked.graph.said_by(asked.operator, "ana")

    assert ([one.external_id for one in told.items], told.answered_by, told.degraded) == (
        ["one"],
        "neo4j",
        (),
    )
    assert liar.asked == 1


async def test_where_too_little_is_left_of_what_a_copy_proposes_the_database_answers(talking: App, admin):
    asked, liar = await lied_to(talking, admin)

    async def only_lies(_ids: object, *, limit: int) -> list[UUID]:
        return [uuid7() for _ in range(limit)]

    liar.messages_by = only_lies  # type: ignore[method-assign]

    told = await asked.graph.said_by(asked.operator, "ana", limit=1)

    assert ([one.external_id for one in told.items], told.answered_by) == (["one"], "postgresql")


async def test_a_copy_that_is_away_is_told_of_and_left_alone_for_a_while(talking: App, admin):
    asked, liar = await lied_to(talking, admin)
    seconds = [0.0]
    asked._projection_clients.graph_breaker.clock = lambda: seconds[0]
    liar.is_down = True

    for _ in range(3):
        told = await asked.graph.messages_by_agents(asked.operator)
        assert [one.external_id for one in told.items] == ["three"]
        assert (told.answered_by, told.degraded) == ("postgresql", ("neo4j is unavailable",))
    assert liar.asked == 1

    liar.is_down, seconds[0] = False, BREAKER_SECONDS + 1
    told = await asked.graph.messages_by_agents(asked.operator)
    assert (told.answered_by, told.degraded) == ("neo4j", ())


@pytest.mark.parametrize("is_failing", [False, True])
async def test_a_copy_that_lags_is_not_asked_and_of_a_server_that_fails_it_is_told(
    talking: App, admin, is_failing
):
    asked, liar = await lied_to(talking, admin)
    if is_failing:
        await admin.execute(
            "update projections set failing_since = now() where org_id = %s", [talking.org_id]
        )
    await admin.execute(
        "insert into work_queue (org_id, queue, subject_id, asked_at) values (%s, 'neo4j', %s, now() - interval '1 minute')",
        [talking.org_id, talking.org_id],
    )

    told = await asked.graph.said_by(asked.operator, "bo")

    assert ([one.external_id for one in told.items], told.answered_by, told.degraded) == (
        ["two"],
        "postgresql",
        ("neo4j is unavailable",) if is_failing else (),
    )
    assert liar.asked == 0
