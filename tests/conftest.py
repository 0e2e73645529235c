"""One real PostgreSQL for the whole session; every test that needs it gets an org of its own."""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import httpx._transports.default as transports_of_qdrant
import httpx2._transports.default as transports
import psycopg
import psycopg.rows
import pytest
from hypothesis import Phase, settings

from copies import Copies, Story
from roomlore.db.cluster import Cluster, start_cluster, stop_cluster
from roomlore.db.database import Database, Pool
from roomlore.db.schema import migrate
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

#: A server whose data nobody will miss need not wait for the disk.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
#: No plan is worth making twice for what a test has told.
ONE_PLAN = {"plan_cache_mode": "force_generic_plan"}

# Tests start Roomlore as a process of its own time and again; compiled once it comes faster.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes is the machine's affair.
settings.register_profile("unhurried", settings(), deadline=None)
# For runs that only want to know whether a test fails: a smaller example that fails takes minutes to find.
settings.register_profile("first failure", settings(deadline=None, phases=[Phase.explicit, Phase.generate]))
settings.load_profile("unhurried")

# Every client would read all certificates of the system, which takes longer than most requests.
for module in (transports, transports_of_qdrant):
    module.create_ssl_context = cache(module.create_ssl_context)

#: What the test that runs has begun.
TASKS: ContextVar[WeakSet[asyncio.Task[Any]] | None] = ContextVar("TASKS", default=None)

OpenApp = Callable[[str], Awaitable[App]]
TellOnce = Callable[[App, Story], Awaitable[Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but the first cases of `sampled` tests as slow."""
    cases = defaultdict[str, list[pytest.Function]](list)
    for item in items:
        if item.get_closest_marker("sampled") and isinstance(item, pytest.Function):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        of_test.sort(key=lambda item: tuple(item.callspec.indices.values()))
        marker = of_test[0].get_closest_marker("sampled")
        assert marker is not None
        for item in of_test[marker.args[0] :]:
            item.add_marker(pytest.mark.slow)


@contextmanager
def fast_cluster(data: Path, settings: Mapping[str, str] = FAST) -> Generator[Cluster]:
    """Give a server with our tables in a new folder."""

    async def start() -> Cluster:
        server = await start_cluster(data, settings=settings)
        await migrate(server.admin_dsn)
        return server

    async def stop() -> None:
        await server.close()
        await stop_cluster(data, force=True)

    server = asyncio.run(start())
    yield server
    asyncio.run(stop())


@asynccontextmanager
async def opened_pool(cluster: Cluster) -> AsyncGenerator[Pool]:
    connections = Pool(cluster.app_dsn, size=12)
    await connections.open(wait=True)
    yield connections
    await connections.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), FAST | ONE_PLAN) as server:
        yield server


class Superuser:
    """One connection for all tests, since a new one costs the server more than most statements."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg.AsyncConnection | None = None

    async def connection(self) -> psycopg.AsyncConnection:
        """Return it as a new one would be."""
        if self._conn is None or self._conn.closed or self._conn.broken:
            options = "-c search_path=roomlore,public -c timezone=UTC"
            self._conn = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, options=options)
        return self._conn

    async def reset(self) -> None:
        """Undo what a test left behind in it."""
        if self._conn is None or self._conn.closed:
            return
        await self._conn.rollback()
        await self._conn.set_autocommit(True)
        self._conn.row_factory = psycopg.rows.tuple_row
        await self._conn.execute("reset session authorization; reset all; unlisten *; discard temp")

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()


@pytest.fixture(scope="session")
async def superuser(cluster: Cluster) -> AsyncGenerator[Superuser]:
    user = Superuser(cluster.admin_dsn)
    yield user
    await user.close()


@pytest.fixture
async def admin(superuser: Superuser) -> AsyncGenerator[psycopg.AsyncConnection]:
    """A superuser, whom no policy binds: for what a test must know that Roomlore may not."""
    yield await superuser.connection()
    await superuser.reset()


@pytest.fixture(scope="session")
async def pool(cluster: Cluster) -> AsyncGenerator[Pool]:
    """Connections for all tests: the next one finds prepared what others asked before."""
    async with opened_pool(cluster) as connections:
        yield connections


@pytest.fixture
async def db(
    cluster: Cluster, pool: Pool, superuser: Superuser, tasks_of_test: WeakSet[asyncio.Task[Any]]
) -> AsyncGenerator[Database]:
    yield Database(pool, cluster.app_dsn)
    # As the end of a loop of its own would.
    left = [task for task in tasks_of_test if not task.done() and task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    # The queue spans orgs: what a test leaves undone is not the next one's.
    await superuser.reset()
    await (await superuser.connection()).execute("delete from roomlore.work_queue")


@pytest.fixture(scope="session")
async def _noting_tasks() -> AsyncGenerator[None]:
    """Note which task a test begins, itself or by others; the pool and the browser begin theirs before any."""

    def begin(loop: asyncio.AbstractEventLoop, coroutine: Any, **rest: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **rest)
        if (begun := TASKS.get()) is not None:
            begun.add(task)
        return task

    asyncio.get_running_loop().set_task_factory(begin)
    yield
    asyncio.get_running_loop().set_task_factory(None)


@pytest.fixture
async def tasks_of_test(_noting_tasks: None) -> AsyncGenerator[WeakSet[asyncio.Task[Any]]]:
    begun = WeakSet[asyncio.Task[Any]]()
    TASKS.set(begun)
    yield begun
    TASKS.set(None)


@pytest.fixture
def open_app(db: Database) -> OpenApp:
    """Open the App of an org that no other test sees."""

    async def open_org(name: str) -> App:
        unique = f"{name}-{uuid4()}"
        return App(
            db=db, org_id=await db.ensure_org(unique), settings=Settings(org=unique), _embedder=FakeEmbedder()
        )

    return open_org


@pytest.fixture
async def app(open_app: OpenApp) -> App:
    return await open_app("org")


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rooms that are to keep less than before begin at once."""
    monkeypatch.setattr("roomlore.domain.retention.GRACE", timedelta(0))


@pytest.fixture(scope="session")
def copies(cluster: Cluster) -> Generator[Copies]:
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        yield Copies(conn)


@pytest.fixture
def tell_once(copies: Copies) -> TellOnce:
    """Tell a story to an empty org; from the second test on that is a copy of what the first one told."""
    here = set[Story]()

    async def tell(app: App, story: Story) -> Any:
        # Two orgs of one test must not have ids in common; and what else was told to this one is no part of it.
        if story in here or not copies.is_empty(app.org_id):
            return await story(app)
        here.add(story)
        if story in copies:
            return copies.put(story, app.org_id)
        result = await story(app)
        copies.keep(story, app.org_id, result)
        return result

    return tell
