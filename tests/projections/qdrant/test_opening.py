"""Invalid addresses and keys are refused and not shown."""

import importlib.util

import pytest

from roomlore.domain.errors import BadInput
from roomlore.projections import qdrant
from roomlore.projections.qdrant import open_qdrant

KEY = "a-key-that-nobody-may-see"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6333",
        "ftp://localhost",
        "http://",
        "http://localhost:0",
        "http://localhost:99999",
        "http://localhost:port",
        f"http://ana:{KEY}@localhost:6333",
        f"http://localhost:6333/?api-key={KEY}",
        f"http://localhost:6333/#{KEY}",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(url):
    with pytest.raises(BadInput, match="Qdrant URL") as refused:
        open_qdrant(url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://qdrant.internal:6333", "http://192.0.2.7", "http://localhost.evil.example"]
)
def test_a_key_is_not_shown_to_everybody_on_the_way(url):
    with pytest.raises(BadInput, match="https") as refused:
        open_qdrant(url, key=KEY)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("key", ["", "two\nlines", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key):
    with pytest.raises(BadInput, match="printable ASCII") as refused:
        open_qdrant("http://localhost:6333", key=key)
    assert not key or key not in str(refused.value)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "url",
    [
        "https://qdrant.example:6333",
        "https://qdrant.example/behind/a/path/",
        "http://localhost",
        "http://127.0.0.2:6333/",
        "http://[::1]:6333",
    ],
)
async def test_a_key_is_shown_where_nobody_else_can_read_it(url):
    points = open_qdrant(url, key=KEY)
    assert KEY not in repr(points)
    assert "localhost" not in repr(points)
    await points.close()


@pytest.mark.slow
@pytest.mark.usefixtures("server")
async def test_without_a_key_any_address_will_do():
    await open_qdrant("http://qdrant.internal:6333").close()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(qdrant, "find_spec", lambda name: None if name == "qdrant_client" else real(name))
    with pytest.raises(BadInput, match=r"pip install 'roomlore\[qdrant\]'"):
        open_qdrant("http://localhost:6333")
