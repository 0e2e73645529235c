"""One Qdrant for the whole session, real if QDRANT_URL names one; every test has a copy of its own there."""

from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from projections.qdrant.running import Shim, real_server
from projections.qdrant.stories import DIMENSIONS
from roomlore.domain.ids import uuid7
from roomlore.projections.qdrant import QdrantProjection, open_qdrant


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
    """A name that no copy has yet; whatever gets it is removed, however the test ends."""
    unique = f"test-{uuid7().hex}"
    yield unique
    await points.remove(unique)


@pytest.fixture
async def copy(points: QdrantProjection, name: str) -> str:
    """An empty copy."""
    await points.prepare(name, dimensions=DIMENSIONS)
    return name


@pytest.fixture
async def other(points: QdrantProjection, name: str) -> AsyncGenerator[str]:
    """Another name that no copy has yet."""
    unique = f"{name}-other"
    yield unique
    await points.remove(unique)


@pytest.fixture
def shim(tmp_path: Path) -> Generator[Shim]:
    """A server of the test's own, not started yet, whose faults it chooses; never the real one, which is not killed."""
    _need("qdrant_client", "qdrant-client")
    _need("qdrant_edge", "qdrant-edge-py")
    shim = Shim(tmp_path / "data")
    yield shim
    shim.kill()


def _need(module: str, what: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs {what}")
