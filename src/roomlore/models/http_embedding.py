"""Asks an embedding model over HTTP, as any server answers that speaks OpenAI's embeddings.

The request goes to the address that was configured and nowhere else: no proxy out of the environment, no
redirects, no cookies, nothing kept between two calls. The key is in one header and in nothing that is shown.

Source of the protocol: the OpenAI API reference, "Create embeddings".
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import Vectors

if TYPE_CHECKING:
    import httpx2

#: Texts and characters of one request; servers refuse more.
MOST_TEXTS = 128
MOST_CHARACTERS = 100_000
#: Longer texts are cut: models read no more than some thousand tokens.
LONGEST_TEXT = 8_000
#: No model gives longer vectors.
MOST_DIMENSIONS = 16_000
#: An answer with as many vectors as may be asked for at once, of 8,000 numbers.
_LARGEST = 32 * 1024 * 1024
#: Before this a connection stands, or there will be none.
_CONNECT_SECONDS = 10.0
#: No pause is longer, whatever the server wishes: a thread waits meanwhile.
LONGEST_PAUSE = 10.0
_FIRST_PAUSE = 0.5
_OK = 200
_TOO_MANY = 429
_RETRYABLE = frozenset({_TOO_MANY, 500, 502, 503, 504})
#: How servers say that a text is not to their liking.
_INVALID_REQUEST = frozenset({400, 413, 422})
_REFUSING = frozenset({401, 403})
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTimer:
    """The clock, how to sleep and how to scatter pauses; tests have their own."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


def open_http_embedder(
    url: str,
    name: str,
    *,
    key: str | None = None,
    dimensions: int | None = None,
    seconds: float = 60.0,
    opening_seconds: float | None = None,
    waiting: RetryTimer | None = None,
) -> "HttpEmbedder":
    """Return an embedding model behind an address, asked once already; it needs no closing.

    Args:
        url: Where the server's API begins: what stands before `/embeddings`.
        name: Which of its models.
        key: Shown to the server, if it wants one.
        dimensions: Asked of the server; None takes as many as it gives.
        seconds: For one request with all its repetitions.
        opening_seconds: For the first one; as long as any other by default.
        waiting: Another clock.

    Raises:
        BadInput: the extra is not installed.
        ModelUnavailable: the server gives no vectors, or none so long.
    """
    if find_spec("httpx2") is None:
        raise BadInput(
            "embedding model", "asking it needs httpx2; run: pip install 'roomlore[languagemodel]'"
        )
    wire = _RetryingClient(url, key=key, seconds=seconds, waiting=waiting or RetryTimer())
    opening = _RetryingClient(
        url, key=key, seconds=opening_seconds or seconds, waiting=waiting or RetryTimer()
    )
    asked: dict[str, Any] = {"model": name, "encoding_format": "float"}
    if dimensions is not None:
        asked["dimensions"] = dimensions
    try:
        with opening.client() as client:
            found = _vectors(opening.post(client, asked | {"input": ["hello"]}), 1, dimensions)
    except TextRefused:
        raise _unavailable("the server refuses the request", "are name and dimensions right?") from None
    return HttpEmbedder(wire, asked, dimensions=found.shape[1])


def vector_space_name(model: str, dimensions: int | None) -> str:
    """Return the name of the vector space of a model, asked for so many dimensions; nobody is asked."""
    return f"http/{model}" + ("" if dimensions is None else f"@{dimensions}")


class HttpEmbedder:
    """An `Embedder` behind HTTP; any number of threads may ask it at once.

    Its id tells the model and the dimensions asked for, but not the host: the same model gives the same vectors
    wherever it runs, and a move to another address must not embed everything again. Who puts another model behind
    the same name must name it otherwise.
    """

    def __init__(self, wire: "_RetryingClient", asked: Mapping[str, Any], *, dimensions: int) -> None:
        self._wire = wire
        self._asked = asked
        self._dimensions = dimensions

    def __repr__(self) -> str:
        """Show which one it is, but neither address nor key."""
        return f"HttpEmbedder({self.model_id!r})"

    @property
    def model_id(self) -> str:
        """Name of the vector space."""
        return vector_space_name(self._asked["model"], self._asked.get("dimensions"))

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._dimensions

    @property
    def has_token_vectors(self) -> bool:
        """Never: the protocol has one vector for each text."""
        return False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length one per text, in the order given.

        Long texts are cut; one without any words is sent as a full stop, since servers refuse empty ones.

        Raises:
            TextRefused: the server takes a request for wrong, perhaps for one of its texts.
            ModelUnavailable: it gives no vectors, or others than before.
        """
        rows = [np.empty((0, self._dimensions), dtype=np.float32)]
        if texts:
            with self._wire.client() as client:
                for batch in _batches(texts):
                    body = self._wire.post(client, {**self._asked, "input": batch})
                    rows.append(_vectors(body, len(batch), self._dimensions))
        return np.concatenate(rows)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return what `embed` returns, and no tokens."""
        return TextEmbeddings(vectors=self.embed(texts), tokens=None)


class _RetryingClient:
    """Sends requests, again and again while that may help."""

    def __init__(self, url: str, *, key: str | None, seconds: float, waiting: RetryTimer) -> None:
        self._url = f"{url.rstrip('/')}/embeddings"
        self._key = key
        self._seconds = seconds
        self._waiting = waiting

    def client(self) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415  needs the extra

        # Unpacked as it comes: nothing small may become large here.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "roomlore"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return httpx2.Client(headers=headers, trust_env=False, follow_redirects=False)

    def post(self, client: "httpx2.Client", asked: Mapping[str, Any]) -> bytes:
        """Return what the server answers; pauses grow, and end with the seconds there are."""
        end = self._waiting.clock() + self._seconds
        pause = _FIRST_PAUSE
        while True:
            answer = self._try(client, asked, end)
            if isinstance(answer, bytes):
                return answer
            wanted = pause * (0.5 + self._waiting.jitter() / 2)
            wait = min(max(wanted, answer.retry_after), LONGEST_PAUSE)
            if self._waiting.clock() + wait >= end:
                raise _unavailable(answer.why, "try again later; is ROOMLORE_EMBEDDING_URL right?")
            self._waiting.sleep(wait)
            pause *= 2

    def _try(self, client: "httpx2.Client", asked: Mapping[str, Any], end: float) -> "bytes | _FailedAttempt":
        import httpx2  # noqa: PLC0415  needs the extra

        left = max(end - self._waiting.clock(), 0.001)
        timeout = httpx2.Timeout(left, connect=min(_CONNECT_SECONDS, left))
        try:
            # What a server sets in cookies stays unsent.
            client.cookies.clear()
            with client.stream("POST", self._url, json=asked, timeout=timeout) as response:
                if response.status_code in _RETRYABLE:
                    after = response.headers.get("retry-after", "")
                    why = f"the server answered {response.status_code}"
                    return _FailedAttempt(why=why, retry_after=_retry_after_seconds(after))
                _raise_refused(response.status_code)
                return self._body(response, end)
        except httpx2.TimeoutException:
            return _FailedAttempt(why=f"no answer within {self._seconds:g} seconds")
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
            # Not what it says: that may tell the address.
            return _FailedAttempt(why="the connection failed")

    def _body(self, response: "httpx2.Response", end: float) -> "bytes | _FailedAttempt":
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _unavailable("the answer is packed, which was not asked for", "ask another server")
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > _LARGEST:
                raise _unavailable(f"the answer is larger than {_LARGEST:,} bytes", "ask for less dimensions")
            if self._waiting.clock() > end:
                return _FailedAttempt(why=f"no answer within {self._seconds:g} seconds")
        return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedAttempt:
    """Why there is no answer, which may pass."""

    why: str
    retry_after: float = 0.0


def _unavailable(why: str, cure: str) -> ModelUnavailable:
    return ModelUnavailable(f"embedding model: {why}", cure=cure)


def _raise_refused(status: int) -> None:
    if status == _OK:
        return
    if status in _INVALID_REQUEST:
        raise TextRefused("text", f"the embedding server answered {status}")
    cure = "is ROOMLORE_EMBEDDING_URL right?"
    if status in _REFUSING:
        cure = "is ROOMLORE_EMBEDDING_KEY right?"
    elif status == _NOT_FOUND:
        cure = "are ROOMLORE_EMBEDDING_URL and ROOMLORE_EMBEDDING_NAME right?"
    raise _unavailable(f"the server answered {status}", cure)


def _retry_after_seconds(retry_after: str) -> float:
    wait = retry_after.strip()
    return float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < len("1000000") else 0.0


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        # A lone surrogate cannot be sent.
        cut = text[:LONGEST_TEXT].encode("utf-8", "replace").decode()
        cut = cut if cut.strip() else "."
        if batch and (len(batch) == MOST_TEXTS or size + len(cut) > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(cut)
        size += len(cut)
    if batch:
        yield batch


def _vectors(body: bytes, count: int, dimensions: int | None) -> Vectors:
    """Return the vectors in the order of their indexes, each made as long as one."""
    rows = _parse_rows(body)
    if sorted(rows) != list(range(count)):
        raise _unavailable("the server left out vectors or gave others", "ask another server")
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1 or not 0 < max(lengths) <= MOST_DIMENSIONS or dimensions not in {None, *lengths}:
        cure = "was another model put behind its name? See ROOMLORE_EMBEDDING_DIMENSIONS"
        raise _unavailable("the vectors are not as long as they should be", cure)
    try:
        found = np.array([rows[index] for index in range(count)], dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise _not_embeddings() from None
    # By the largest number first, whose square could be too large.
    largest = np.abs(found).max(axis=1, keepdims=True)
    if not np.isfinite(found).all() or not (largest > 0).all():
        raise _unavailable("a vector is zero or not finite", "ask another server")
    found = found / largest
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def _parse_rows(body: bytes) -> dict[int, list[float]]:
    try:
        data: object = json.loads(body)["data"]
        rows: dict[int, list[float]] = {}
        for item in cast("list[dict[str, object]]", data):
            index, row = item["index"], item["embedding"]
            if type(index) is not int or index in rows or not isinstance(row, list):
                raise _not_embeddings()
            numbers = cast("list[object]", row)
            if not all(type(number) in {int, float} for number in numbers):
                raise _not_embeddings()
            rows[index] = cast("list[float]", numbers)
    except (ValueError, RecursionError, LookupError, TypeError):
        raise _not_embeddings() from None
    return rows


def _not_embeddings() -> ModelUnavailable:
    return _unavailable("the server's answer is not embeddings", "is ROOMLORE_EMBEDDING_URL right?")
