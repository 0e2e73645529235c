"""Whatever anybody may send, made up from the description: no fault, and nothing that is not described."""

import asyncio
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

import roomlore
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.http.application import routes_app
from roomlore.http.limits import EVENTS, RequestLimits
from roomlore.http.openapi import METHODS, openapi_document
from roomlore.http.runtime import listen, serve
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

STORY = Path(roomlore.__file__).parent / "cli" / "demo.jsonl"
DESCRIPTION = openapi_document(routes_app())
OPERATIONS = [
    (method, path)
    for path, item in DESCRIPTION["paths"].items()
    for method in METHODS
    # Events have no end, and the tool waits for one.
    if method in item and path != EVENTS
]
#: Some is of its shape and still means nothing: a person merged with itself, or an interval that ends before it begins.
MEANING = [checks.positive_data_acceptance]
#: What is wrong with one message of a batch is told beside what became of the others.
EACH_FOR_ITSELF = {
    ("post", "/v1/messages"): [checks.negative_data_rejection],
    ("post", "/v1/messages/records"): [checks.negative_data_rejection],
}
#: The same each time; more of them and others, by hand, before something is given out.
EXAMPLES = {GenerationMode.POSITIVE: 12, GenerationMode.NEGATIVE: 6}
#: Nothing is too often here, nor are keys that are none: the tool shows many.
ENDLESS = RequestLimits(rate=1e9, burst=10**9, failed_auth_rate=1e9, failed_auth_burst=10**9)
#: What is too large to be read; the tool knows other refusals only.
REFUSED_UNREAD = 413


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server, and what it knows."""

    address: str
    key: str
    words: dict[str, list[str]]


async def _known(app: App) -> dict[str, list[str]]:
    """Return words that mean something, by the parameter they stand for."""
    rooms = await app.rooms(app.operator)
    people = [one.name for one in await app.participants(app.operator)]
    held = [str(one.id) for one in await app.memories.all(app.operator)]
    topics = [str(one.id) for one in await app.conversations.all(app.operator)]
    said = [one.external_id for one in await app.messages(app.operator, str(rooms[0].id))]
    words = {"room": [room.name for room in rooms], "participant": people, "agent": people}
    return words | {"message": said, "memory": held, "conversation": topics}


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Generator[Running]:
    """The story of the demo, served as it is outside of tests."""
    stop, started, found = asyncio.Event(), threading.Event(), list[Any]()

    async def run() -> None:
        db = await Database.connect(cluster.app_dsn)
        org = f"anything-{uuid4()}"
        app = App(
            db=db, org_id=await db.ensure_org(org), settings=Settings(org=org), _embedder=FakeEmbedder()
        )
        await app.import_path(STORY)
        await app.drain()
        made = await app.keys.create("operator", name="anything")
        with listen("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            found.extend(
                [Running(address=f"http://127.0.0.1:{port}", key=made.key, words=await _known(app)), loop()]
            )
            started.set()
            await serve(app, listening, limits=ENDLESS, workers=False, stop=stop)
        await db.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(120)
    yield found[0]
    found[1].call_soon_threadsafe(stop.set)
    thread.join(30)
    assert not thread.is_alive()


def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of the tool are its own
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", list(EXAMPLES), ids=["of its shape", "not of its shape"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{one} {path}" for one, path in OPERATIONS])
def test_whatever_is_sent_is_answered_as_described(running: Running, method, path, mode) -> None:
    schema = schemathesis.openapi.from_dict(DESCRIPTION)
    schema.config.update(base_url=running.address)
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and path.startswith("/health"):
        pytest.skip("takes nothing that could be wrong")
    excluded = [*MEANING, *EACH_FOR_ITSELF.get((method, path), [])]

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if mode is GenerationMode.POSITIVE and case.path_parameters:
            for name, words in running.words.items():
                if name in case.path_parameters and data.draw(st.booleans()):
                    case.path_parameters[name] = data.draw(st.sampled_from(words))
        # Seldom: nearly all that may be made up is nobody's name.
        if data.draw(st.integers(0, 9)):
            case.headers.pop("Roomlore-Viewer", None)
        response = case.call(headers={"Authorization": f"Bearer {running.key}"})
        if response.status_code != REFUSED_UNREAD:
            case.validate_response(response, excluded_checks=excluded)

    ask()
