"""One Neo4j server per session, a real one if NEO4J_URI is set; every test has its own index."""

import os
from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from roomlore.domain.ids import uuid7
from roomlore.projections.neo4j import Neo4jProjection, open_neo4j

if find_spec("neo4j") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from projections.neo4j.running import Server, class_path, missing, real_server
    from projections.neo4j.stories import Raw


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a server of our own consists of."""
    if lacking := missing():
        why = f"needs {' and '.join(lacking)}, or NEO4J_URI"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return class_path(tmp_path_factory.mktemp("neo4j-jars"))


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[str, str, str]]:
    """Address, user and password of the server."""
    if (real := real_server()) is not None:
        yield real
        return
    own = Server(tmp_path_factory.mktemp("neo4j"), request.getfixturevalue("jars"))
    own.start()
    yield own.url, own.user, own.password
    own.kill()


@pytest.fixture
async def graph(server: tuple[str, str, str]) -> AsyncGenerator[Neo4jProjection]:
    url, user, password = server
    opened = open_neo4j(url, user=user, password=password)
    yield opened
    await opened.close()


@pytest.fixture
async def raw(server: tuple[str, str, str]) -> AsyncGenerator["Raw"]:
    """The same server, past Roomlore."""
    async with Raw(server) as opened:
        yield opened


@pytest.fixture
async def copy(graph: Neo4jProjection) -> AsyncGenerator[str]:
    """An empty copy."""
    name = f"test-{uuid7().hex}"
    await graph.prepare(name, dimensions=0)
    yield name
    await graph.remove(name)


@pytest.fixture
def own_server(jars: str, tmp_path: Path) -> Generator["Server"]:
    """A server of the test's own, which may be killed."""
    own = Server(tmp_path / "neo4j", jars)
    own.start()
    yield own
    own.kill()
