"""A server that fails is left alone for a while, and of a copy that fails alone the org whose it is."""

import asyncio
import socket
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.liar import Liar, LyingServers
from ingest.stories import at, author, message
from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BackendUnavailable, BadInput, IndexUnavailable
from roomlore.domain.ids import OrgId, uuid7
from roomlore.domain.projections import QueryFilter
from roomlore.operations import App
from roomlore.operations.candidates import BREAKER_SECONDS, CircuitBreaker, ProjectionClients
from roomlore.settings import Neo4jSettings, QdrantSettings

ONE, OTHER = OrgId(uuid7()), OrgId(uuid7())
DOWN = BackendUnavailable("it cannot be reached", cure="start it")
LOST = IndexUnavailable("the copy is gone", cure="build it")


class Clock:
    """Stands still until it is told otherwise."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_server_that_never_failed_is_asked_by_everybody():
    breaker = CircuitBreaker()
    assert [breaker.allow(ONE) for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("error", [DOWN, LOST, TimeoutError(), BadInput("neo4j", "is not installed")])
def test_a_failure_keeps_questions_away_for_half_a_minute(error):
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    breaker.record_failure(ONE, error)
    assert not breaker.allow(ONE)
    clock.seconds += BREAKER_SECONDS - 0.001
    assert not breaker.allow(ONE)
    clock.seconds += 0.001
    assert breaker.allow(ONE)


@pytest.mark.parametrize("error", [DOWN, BadInput("neo4j", "is not installed")])
def test_a_server_that_cannot_be_asked_rests_for_every_org(error):
    breaker = CircuitBreaker(clock=Clock())
    breaker.record_failure(ONE, error)
    assert not breaker.allow(OTHER)


@pytest.mark.parametrize("error", [LOST, TimeoutError()])
def test_a_copy_that_is_lost_or_slow_rests_alone(error):
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    breaker.record_failure(ONE, error)
    assert [breaker.allow(OTHER) for _ in range(3)] == [True] * 3
    breaker.record_success(OTHER)
    assert not breaker.allow(ONE)
    clock.seconds += BREAKER_SECONDS
    assert [breaker.allow(ONE) for _ in range(2)] == [True, False]
    breaker.record_success(ONE)
    assert breaker.allow(ONE)


def test_after_its_rest_one_question_finds_out_for_all():
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    breaker.record_failure(ONE, DOWN)
    clock.seconds += BREAKER_SECONDS
    assert [breaker.allow(one) for one in (OTHER, ONE, OTHER)] == [True, False, False]
    breaker.record_success(OTHER)
    assert breaker.allow(ONE)


def test_a_question_that_may_not_be_asked_does_not_use_up_the_one_that_finds_out():
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    breaker.record_failure(ONE, DOWN)
    clock.seconds += BREAKER_SECONDS / 2
    breaker.record_failure(ONE, LOST)
    clock.seconds += BREAKER_SECONDS / 2
    assert not breaker.allow(ONE)
    assert breaker.allow(OTHER)


@given(
    steps=st.lists(
        st.sampled_from(["fails", "answers"]) | st.floats(0, 2 * BREAKER_SECONDS, allow_nan=False),
        max_size=20,
    ),
    error=st.sampled_from([DOWN, LOST]),
)
def test_between_a_failure_and_the_end_of_its_rest_nobody_asks(steps, error):
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    failed_at: float | None = None
    for step in steps:
        if isinstance(step, float):
            clock.seconds += step
        elif step == "fails":
            breaker.record_failure(ONE, error)
            failed_at = clock.seconds
        else:
            breaker.record_success(ONE)
            failed_at = None
        passes = breaker.allow(ONE)
        if failed_at is None:
            assert passes
        elif passes:
            assert clock.seconds >= failed_at + BREAKER_SECONDS
            # Whoever came through has asked, and may be waiting still.
            failed_at = clock.seconds
        else:
            assert clock.seconds < failed_at + BREAKER_SECONDS


# Two orgs whose copies one server holds


async def told(app: App, admin) -> App:
    """Return an org that was told something and has a copy, which nobody made, in either server."""
    said = [
        message("one", "Who feeds the cat?", sent_at=at(1)),
        message("two", "I do.", author=author("bo"), sent_at=at(2)),
    ]
    await app.ingest_batch(said)
    await app.drain()
    for target in ("qdrant", "neo4j"):
        await admin.execute(
            "insert into projections (org_id, target, index_name) values (%s, %s, 'lies')",
            [app.org_id, target],
        )
    return app


class Liars(LyingServers):
    """A liar for each org, behind one server."""

    def __init__(self, *apps: App) -> None:
        super().__init__()
        self.of = {app.org_id: Liar(app) for app in apps}

    def behind(self, app: App) -> App:
        """Return an org whose questions go to its liar."""
        servers = LyingServers(graph_breaker=self.graph_breaker)
        servers.liar = self.of[app.org_id]
        named = replace(app.settings, neo4j=Neo4jSettings(url="bolt://127.0.0.1:1", password="none"))
        return replace(app, settings=named, _projection_clients=servers)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", ["slow", "gone", "down"])
async def test_a_lost_or_slow_graph_of_one_org_keeps_no_other_from_asking(
    open_app, admin, monkeypatch, fault
):
    monkeypatch.setattr("roomlore.operations.graph.TIMEOUT_SECONDS", 0.3)
    apps = [await told(await open_app(name), admin) for name in ("one", "other")]
    liars = Liars(*apps)
    liars.graph_breaker.clock = Clock()
    one, other = map(liars.behind, apps)
    silent = liars.of[one.org_id]

    async def fails(_ask: object) -> list[object]:
        silent.asked += 1
        if fault == "slow":
            await asyncio.sleep(60)
        raise LOST if fault == "gone" else DOWN

    silent._all = fails  # type: ignore[method-assign]

    for _ in range(2):
        answer = await one.graph.said_by(one.operator, "bo")
        assert (answer.answered_by, answer.degraded) == ("postgresql", ("neo4j is unavailable",))
    assert silent.asked == 1
    answer = await other.graph.said_by(other.operator, "bo")

    assert [said.external_id for said in answer.items] == ["two"]
    unreached = fault == "down"
    assert answer.answered_by == ("postgresql" if unreached else "neo4j")
    assert liars.of[other.org_id].asked == (0 if unreached else 1)


class Points:
    """A server of points that has lost some copies."""

    def __init__(self, *lost: App) -> None:
        self.lost, self.asked = {app.org_id for app in lost}, list[OrgId]()

    def of(self, app: App) -> "Points.Copy":
        return Points.Copy(self, app.org_id)

    class Copy:
        """What one org sees of it."""

        def __init__(self, server: "Points", org_id: OrgId) -> None:
            self.server, self.org_id = server, org_id

        async def search_lexical(self, *_: object, **__: object) -> list[object]:
            self.server.asked.append(self.org_id)
            if self.org_id in self.server.lost:
                raise LOST
            return []

        search_dense = search_lexical

        async def close(self) -> None:
            """Have nothing to close."""


@pytest.mark.slow
async def test_a_lost_copy_in_qdrant_of_one_org_keeps_no_other_from_searching_it(open_app, admin):
    apps = [await told(await open_app(name), admin) for name in ("one", "other")]
    server, breaker = Points(apps[0]), CircuitBreaker(clock=Clock())

    def behind(app: App) -> App:
        servers = ProjectionClients(breaker=breaker, _qdrant=server.of(app))  # pyright: ignore[reportArgumentType]
        settings = replace(app.settings, qdrant=QdrantSettings(url="http://127.0.0.1:1", key=None))
        return replace(app, settings=settings, _projection_clients=servers)

    one, other = map(behind, apps)
    for _ in range(2):
        assert "qdrant is unavailable" in (await one.search(one.operator, "cat")).degraded
    assert server.asked == [one.org_id]
    assert (await other.search(other.operator, "cat")).degraded == ()
    assert set(server.asked) == {one.org_id, other.org_id}


@pytest.mark.slow
async def test_a_server_that_cannot_be_reached_is_not_searched_by_the_next_org(open_app, admin):
    apps = [await told(await open_app(name), admin) for name in ("one", "other")]
    with socket.socket() as unheard:
        # Bound, and nobody listens.
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        servers = ProjectionClients(breaker=CircuitBreaker(clock=Clock()))
        settings = replace(apps[0].settings, qdrant=QdrantSettings(url=url, key=None))
        one, other = (replace(app, settings=settings, _projection_clients=servers) for app in apps)
        assert "qdrant is unavailable" in (await one.search(one.operator, "cat")).degraded
        assert not servers.breaker.allow(other.org_id)
        assert "qdrant is unavailable" in (await other.search(other.operator, "cat")).degraded
        await servers.close()


@pytest.mark.parametrize("is_failing", [False, True])
async def test_a_copy_that_lags_is_not_searched_and_of_a_server_that_fails_it_is_told(
    open_app, admin, is_failing
):
    app = await told(await open_app("one"), admin)
    await admin.execute(
        "insert into work_queue (org_id, queue, subject_id, asked_at) values (%s, 'qdrant', %s, now() - interval '1 minute')",
        [app.org_id, app.org_id],
    )
    if is_failing:
        await admin.execute("update projections set failing_since = now() where org_id = %s", [app.org_id])
    server = Points()
    servers = ProjectionClients(breaker=CircuitBreaker(clock=Clock()), _qdrant=server.of(app))  # pyright: ignore[reportArgumentType]
    settings = replace(app.settings, qdrant=QdrantSettings(url="http://127.0.0.1:1", key=None))
    asked = replace(app, settings=settings, _projection_clients=servers)

    found = await asked.search(asked.operator, "cat")

    assert found.hits
    assert found.degraded == (("qdrant is unavailable",) if is_failing else ())
    assert server.asked == []


def test_an_index_gets_every_filter_that_it_knows():
    # A field with another name would be left out, which widens the filter.
    known, given = ({one.name for one in fields(kind)} for kind in (QueryFilter, SearchFilter))
    assert known <= given
