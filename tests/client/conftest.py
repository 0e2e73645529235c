"""The village twice: in a database that is here, and the same behind a server's socket."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

import roomlore
from conftest import TellOnce
from operations.village import STORY
from roomlore.client import Client, Rooms
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.http.limits import RequestLimits
from roomlore.http.runtime import listen, serve
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings
from search.telling import tell

WIDE = RequestLimits(rate=1e9, burst=10**9)


@pytest.fixture(scope="session")
def address(cluster: Cluster) -> Generator[str]:
    """Where every org of the database is served, outside of the tests' event loops."""
    stop, started, found = asyncio.Event(), threading.Event(), list[asyncio.AbstractEventLoop]()
    listening = listen("127.0.0.1", 0)

    async def run() -> None:
        db = await Database.connect(cluster.app_dsn, size=8)
        app = App(db=db, org_id=await db.ensure_org("default"), settings=Settings(), _embedder=FakeEmbedder())
        found.append(asyncio.get_running_loop())
        started.set()
        await serve(app, listening, limits=WIDE, workers=False, stop=stop)
        await db.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(60)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    found[0].call_soon_threadsafe(stop.set)
    thread.join(30)
    listening.close()
    assert not thread.is_alive()


@dataclass(kw_only=True)
class Village:
    """The village, and ways to come to it."""

    #: For what a test sets up, whichever way it comes.
    app: App
    address: str
    is_here: bool
    stack: AsyncExitStack
    keys: dict[str, str] = field(default_factory=dict[str, str])

    async def key(self, name: str) -> str:
        """Return a key of one of the people, or of an operator."""
        if name not in self.keys:
            role = {"operator": "operator", "pip": "agent"}.get(name, "member")
            who = None if name == "operator" else name
            self.keys[name] = (await self.app.keys.create(role, name=f"key of {name}", participant=who)).key
        return self.keys[name]

    async def here(self, name: str) -> App:
        """Return the App on behalf of somebody."""
        return await self.app.sign_in(await self.key(name))

    async def there(self, name: str) -> Client:
        """Return a client on behalf of somebody."""
        return await self.stack.enter_async_context(roomlore.open(self.address, key=await self.key(name)))

    async def __call__(self, name: str) -> Rooms:
        """Return the rooms on behalf of somebody, the way this test comes."""
        return await (self.here(name) if self.is_here else self.there(name))


MakeVillage = Callable[..., Awaitable[Village]]


async def disentangled(app: App) -> None:
    """Tell the village to an org, and go through it."""
    await tell(app, *STORY)


@pytest.fixture
async def make_village(app: App, address: str, tell_once: TellOnce) -> AsyncGenerator[MakeVillage]:
    async with AsyncExitStack() as stack:

        async def make(*, is_here: bool) -> Village:
            await tell_once(app, disentangled)
            return Village(app=app, address=address, is_here=is_here, stack=stack)

        yield make


@pytest.fixture(params=["here", "there"])
async def village(request: pytest.FixtureRequest, make_village: MakeVillage) -> Village:
    """The village, come to either way."""
    return await make_village(is_here=request.param == "here")


@pytest.fixture
async def both(make_village: MakeVillage) -> Village:
    """The village, come to both ways."""
    return await make_village(is_here=False)
