"""One real PostgreSQL for the whole session; every test that needs it gets an org of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import Phase, settings

from copies import Copies, Story
from roomlore.app import App
from roomlore.backends.fake import FakeEmbedder
from roomlore.config import Settings
from roomlore.store.cluster import Cluster, start_cluster, stop_cluster
from roomlore.store.db import Database
from roomlore.store.migrate import migrate

#: A server whose data nobody will miss need not wait for the disk.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

# Tests start Roomlore as a process of its own time and again; compiled once it comes faster.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes is the machine's affair.
settings.register_profile("unhurried", settings(), deadline=None)
# For runs that only want to know whether a test fails: a smaller example that fails takes minutes to find.
settings.register_profile("first failure", settings(deadline=None, phases=[Phase.explicit, Phase.generate]))
settings.load_profile("unhurried")

OpenApp = Callable[[str], Awaitable[App]]
TellOnce = Callable[[App, Story], Awaitable[Any]]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    data = tmp_path_factory.mktemp("cluster")

    async def start() -> Cluster:
        server = await start_cluster(data, settings=FAST)
        await migrate(server.admin_dsn)
        return server

    async def stop() -> None:
        await server.close()
        await stop_cluster(data, force=True)

    server = asyncio.run(start())
    yield server
    asyncio.run(stop())


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncGenerator[psycopg.AsyncConnection]:
    """A superuser, whom no policy binds: for what a test must know that Roomlore may not."""
    async with await psycopg.AsyncConnection.connect(
        cluster.admin_dsn, autocommit=True, options="-c search_path=roomlore,public -c timezone=UTC"
    ) as conn:
        yield conn


@pytest.fixture
async def db(cluster: Cluster) -> AsyncGenerator[Database]:
    database = await Database.connect(cluster.app_dsn, size=12)
    yield database
    await database.close()
    # The queue spans orgs: what a test leaves undone is not the next one's.
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("delete from roomlore.work")


@pytest.fixture
def open_app(db: Database) -> OpenApp:
    """Open the App of an org that no other test sees."""

    async def open_org(name: str) -> App:
        unique = f"{name}-{uuid4()}"
        return App(
            db=db, org_id=await db.org(unique), settings=Settings(org=unique), _embedder=FakeEmbedder()
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
