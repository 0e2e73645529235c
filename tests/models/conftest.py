import pytest

from roomlore.models.fake import FakeEmbedder
from roomlore.models.local_embedding import LocalEmbedder


@pytest.fixture(scope="session")
def local() -> LocalEmbedder:
    return LocalEmbedder.load(threads=2)


@pytest.fixture(params=["local", "fake"])
def embedder(request):
    """Every implementation of the Embedder port in turn."""
    return FakeEmbedder() if request.param == "fake" else request.getfixturevalue("local")
