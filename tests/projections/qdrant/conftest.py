"""One Qdrant server per session, a real one if QDRANT_URL is set; every test has its own index."""

from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from projections.qdrant.running import Shim, real_server
from projections.qdrant.stories import DIMENSIONS
from roomlore.domain.ids import uuid7
from roomlore.projections.qdrant import QdrantProjection, open_qdrant


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests that start servers of their own to the slow suite."""
    for item in items:
        if "shim" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, str | None]]:
    """Address and key of the server."""
    _need("qdrant_client", "qdrant-client")
    if (real := real_server()) is not None:
        yield real
        return
    _need("qdrant_edge", "qdrant-edge-py, or QDRANT_URL")
    shim = Shim(tmp_path_factory.mktemp("qdrant") / "data")
    shim.start()
    yield shim.url, None
    shim.kill()


@pytest.fixture
async def points(server: tuple[str, str | None]) -> AsyncGenerator[QdrantProjection]:
    url, key = server
    opened = open_qdrant(url, key=key)
    yield opened
    await opened.close()


@pytest.fixture
async def name(points: QdrantProjection) -> AsyncGenerator[str]:
    """An unused name; its index is removed after the test."""
    unique = f"test-{uuid7().hex}"
    yield unique
    await points.remove(unique)


@pytest.fixture
async def copy(points: QdrantProjection, name: str) -> str:
    """An empty index."""
    await points.prepare(name, dimensions=DIMENSIONS)
    return name


@pytest.fixture
async def other(points: QdrantProjection, name: str) -> AsyncGenerator[str]:
    """Another unused name."""
    unique = f"{name}-other"
    yield unique
    await points.remove(unique)


@pytest.fixture
def shim(tmp_path: Path) -> Generator[Shim]:
    """A server of the test's own, not started yet; never the real one."""
    _need("qdrant_client", "qdrant-client")
    _need("qdrant_edge", "qdrant-edge-py")
    shim = Shim(tmp_path / "data")
    yield shim
    shim.kill()


def _need(module: str, what: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs {what}")
