"""An embedding model is asked over HTTP, on this machine, by a server that keeps to nothing."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.embeddingserver import embedding_server, embeddings, meant
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.models.fake import FakeEmbedder
from roomlore.models.http_models import RetryTimer, open_http_embedder
from roomlore.operations.embedding_models import ModelCache, load_embedder
from roomlore.settings import EmbeddingSettings, Settings, from_environment

KEY = "a-key-that-nobody-may-see"


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    @property
    def waiting(self):
        return RetryTimer(clock=lambda: self.now, sleep=self.sleep, jitter=lambda: 1.0)


@pytest.fixture
def server():
    with embedding_server() as found:
        yield found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def embedder(server, clock):
    return open_http_embedder(server.url, "small", key=KEY, waiting=clock.waiting)


def test_vectors_have_the_order_of_the_texts(embedder):
    texts = [f"text number {n}" for n in range(300)]
    assert np.allclose(embedder.embed(texts), FakeEmbedder().embed(texts), atol=1e-6)
    assert embedder.embed_with_tokens(texts[:1]).tokens is None
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_texts_are_sent_in_batches(server, embedder):
    embedder.embed(["a"] * 200 + ["b" * 9_000] * 20 + [""])
    sent = [asked["input"] for asked in server.asked[1:]]
    assert sum(map(len, sent)) == 221
    assert max(map(len, sent)) <= 128
    assert max(sum(map(len, batch)) for batch in sent) <= 100_000
    assert sent[-1][-1] == "."


def test_the_http_embedder_is_thread_safe(embedder):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: embedder.embed([f"text {n}"])[0], range(12)))
    assert np.allclose(found, FakeEmbedder().embed([f"text {n}" for n in range(12)]), atol=1e-6)


def test_dimensions_are_requested_and_part_of_the_id(server):
    server.says = lambda asked: embeddings([[3.0, 4.0]] * len(asked["input"]))
    embedder = open_http_embedder(server.url, "small", dimensions=2)
    assert (embedder.model_id, embedder.dimensions) == ("http/small@2", 2)
    assert server.asked[0]["dimensions"] == 2
    assert np.allclose(embedder.embed(["x"]), [[0.6, 0.8]])
    with pytest.raises(ModelUnavailable, match="not as long"):
        open_http_embedder(server.url, "small", dimensions=3)


def test_temporary_errors_are_retried(server, embedder, clock):
    replies = [(429, {"Retry-After": "7"}, b""), (429, {"Retry-After": "9999"}, b""), (503, {}, b"")]
    server.says = lambda asked: replies.pop(0) if replies else meant(asked)
    assert len(embedder.embed(["x"])) == 1
    assert clock.slept == [7.0, 10.0, 2.0]


def test_retries_end_with_the_time_limit(server, embedder, clock):
    server.says = lambda _: (500, {}, b"secret")
    with pytest.raises(ModelUnavailable, match="the server answered 500"):
        embedder.embed(["x"])
    assert clock.now < 60


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (embeddings([[1.0, 2.0]]), "not as long"),
        (embeddings([[0.0] * 4]), "not as long|zero"),
        (embeddings([[float("nan")] * FakeEmbedder().dimensions]), "zero or not finite"),
        (embeddings([[0] * FakeEmbedder().dimensions]), "zero or not finite"),
        (embeddings([]), "left out"),
        (embeddings([[1.0], [1.0]], [0, 0]), "not embeddings"),
        (embeddings([[1.0]], [1]), "left out"),
        (embeddings([["1"]]), "not embeddings"),
        ((200, {}, b"{"), "not embeddings"),
        ((200, {}, b"[" * 100_000), "not embeddings"),
        ((200, {}, b" " * 40_000_000), "larger than"),
        ((200, {"Content-Encoding": "gzip"}, b"x"), "packed"),
        ((302, {"Location": "/elsewhere"}, b""), "answered 302"),
        ((401, {}, KEY.encode()), "ROOMLORE_EMBEDDING_KEY"),
        ((404, {}, b""), "ROOMLORE_EMBEDDING_NAME"),
    ],
)
def test_invalid_vectors_are_refused(server, embedder, reply, complaint):
    server.says = lambda _: reply
    with pytest.raises(ModelUnavailable, match=complaint):
        embedder.embed(["x"])
    assert len(server.asked) == 2


def test_a_refused_text_is_no_outage(server, embedder):
    server.says = lambda _: (400, {}, b"x")
    with pytest.raises(TextRefused):
        embedder.embed(["x"])


def test_the_key_is_sent_and_never_shown(server, embedder, caplog):
    caplog.set_level(logging.DEBUG)
    server.says = lambda _: (401, {}, KEY.encode())
    with pytest.raises(ModelUnavailable) as refused:
        embedder.embed(["x"])
    settings = EmbeddingSettings(url=server.url, name="small", key=KEY)
    assert server.heads[-1]["authorization"] == f"Bearer {KEY}"
    shown = [repr(embedder), str(refused.value), caplog.text, repr(settings), str(server.asked)]
    assert not [text for text in shown if KEY in text]


def test_a_refused_connection_is_unavailable(clock):
    with pytest.raises(ModelUnavailable, match="the connection failed"):
        open_http_embedder("http://127.0.0.1:9/v1", "small", waiting=clock.waiting)


async def test_settings_choose_the_http_embedder(server):
    env = {"ROOMLORE_EMBEDDING_URL": server.url, "ROOMLORE_EMBEDDING_NAME": "small"}
    assert (await load_embedder(from_environment(env))).model_id == "http/small"


@pytest.mark.slow
async def test_a_cold_server_gets_the_longer_time_limit(server):
    env = {"ROOMLORE_EMBEDDING_URL": server.url, "ROOMLORE_EMBEDDING_NAME": "small"}
    settings, loading, woken = from_environment(env), ModelCache(), threading.Event()

    def says(asked):
        # Whoever does not wait finds it asleep the next time, too.
        woken.wait(1.0)
        return meant(asked)

    server.says = says
    with pytest.raises(ModelUnavailable):
        await loading.embedder(settings, open_timeout_seconds=0.2)
    assert (await loading.embedder(settings, open_timeout_seconds=20.0)).model_id == "http/small"
    woken.set()


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"EMBEDDING_URL": ""}, "is missing"),
        ({"EMBEDDING_URL": f"https://me:{KEY}@host"}, "without an account"),
        ({"EMBEDDING_NAME": ""}, "must not be empty"),
        ({"EMBEDDING_KEY": f"{KEY}\n"}, "printable"),
        ({"EMBEDDING_DIMENSIONS": "many"}, "a number"),
        ({"EMBEDDING_DIMENSIONS": "0"}, "from 1"),
        ({"MODEL": "folder"}, "cannot both"),
    ],
)
def test_invalid_settings_are_refused(changed, complaint):
    env = {"EMBEDDING_URL": "https://host/v1", "EMBEDDING_NAME": "small"} | changed
    with pytest.raises(BadInput, match=complaint) as refused:
        from_environment({f"ROOMLORE_{name}": value for name, value in env.items()})
    assert KEY not in str(refused.value)
    assert Settings().embedding is None
