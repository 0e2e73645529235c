"""Embedding models and language models behind HTTP servers that speak OpenAI's protocols.

Requests go only to the configured address: there is no proxy from the environment, no redirect, no cookie, and no state
between two calls. The key is in one header and is never shown.

Sources: the OpenAI API reference, "Create embeddings" and "Create chat completion" with structured outputs.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ports import LlmAnswer, LlmFailure, TextEmbeddings
from roomlore.domain.vectors import Vectors

if TYPE_CHECKING:
    import httpx2

#: The maximum number of texts, and of characters, in one request. Servers refuse more.
MOST_TEXTS, MOST_CHARACTERS = 128, 100_000
#: Characters. Longer texts are cut, because models read no more than some thousand tokens.
LONGEST_TEXT = 8_000
#: The maximum length of a vector. No model has longer vectors.
MOST_DIMENSIONS = 16_000
#: The maximum number of bytes of a response: a full batch of vectors of 8,000 numbers, and a chat completion.
_LARGEST_EMBEDDINGS, _LARGEST_COMPLETION = 32 * 1024 * 1024, 256 * 1024
_CONNECT_SECONDS = 10.0
#: Seconds. A longer pause between attempts would block a thread.
LONGEST_PAUSE = 10.0
_FIRST_PAUSE = 0.5
#: Token counts above this are ignored as implausible.
_MOST_TOKENS = 100_000_000
#: The maximum number of tokens of a title; twenty are usually enough.
MAX_TITLE_TOKENS = 100
_OK, _NOT_FOUND, _TOO_MANY = 200, 404, 429
_REFUSING = frozenset({401, 403})
_RETRYABLE = frozenset({_TOO_MANY, 500, 502, 503, 504})
#: Statuses for a text that the server does not accept.
_INVALID_REQUEST = frozenset({400, 413, 422})
#: Statuses for a request field that the server does not know.
_UNSUPPORTED_FIELD = frozenset({400, 415, 422, 501})
_PACKED = "the answer is packed, which was not asked for"
_BROKEN = "the connection failed"


def _require_httpx2(subject: str) -> None:
    if find_spec("httpx2") is None:
        raise BadInput(subject, "asking it needs httpx2; run: pip install 'roomlore[languagemodel]'")


def _options(key: str | None) -> dict[str, Any]:
    """Return the options of an HTTP client.

    Compressed responses are not requested, because a small compressed response could become very large.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "roomlore"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return {"headers": headers, "trust_env": False, "follow_redirects": False}


def _is_packed(response: "httpx2.Response") -> bool:
    return response.headers.get("content-encoding", "identity") != "identity"


def _retry_after(response: "httpx2.Response") -> int | None:
    """Return the seconds to wait; None if the header is missing or contains a date instead of seconds."""
    wait = response.headers.get("retry-after", "").strip()
    return int(wait) if wait.isascii() and wait.isdecimal() and len(wait) < len("1000000") else None


# Embeddings


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTimer:
    """The clock, sleep and jitter of retries. Tests replace them."""

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
    """Return an embedding model behind an address, after a first request. The model need not be closed.

    Args:
        url: The base of the API: the part before `/embeddings`.
        name: The name of the model.
        key: The API key.
        dimensions: The vector length to request. None means the server's default.
        seconds: The limit for one request with its retries.
        opening_seconds: The limit for the first request with its retries. Default: `seconds`.
        waiting: The clock, sleep and jitter of retries.

    Raises:
        BadInput: The extra is not installed.
        ModelUnavailable: The server gives no vectors, or none of this length.
    """
    _require_httpx2("embedding model")
    timer = waiting or RetryTimer()
    first = _RetryingClient(url, key=key, seconds=opening_seconds or seconds, timer=timer)
    fields: dict[str, Any] = {"model": name, "encoding_format": "float"}
    if dimensions is not None:
        fields["dimensions"] = dimensions
    try:
        with first.client() as client:
            found = _vectors(first.post(client, fields | {"input": ["hello"]}), 1, dimensions)
    except TextRefused:
        raise _unavailable("the server refuses the request", "are name and dimensions right?") from None
    sender = _RetryingClient(url, key=key, seconds=seconds, timer=timer)
    return HttpEmbedder(sender, fields, dimensions=found.shape[1])


def vector_space_name(model: str, dimensions: int | None) -> str:
    """Return the name of the vector space of a model with these dimensions. No request is made."""
    return f"http/{model}" + ("" if dimensions is None else f"@{dimensions}")


class HttpEmbedder:
    """An `Embedder` behind HTTP, safe for threads.

    Its id consists of the model and the dimensions, without the host. So nothing is embedded again when the address
    changes. A different model must have a different name.
    """

    def __init__(self, sender: "_RetryingClient", fields: Mapping[str, Any], *, dimensions: int) -> None:
        self._sender = sender
        self._fields = fields
        self._dimensions = dimensions

    def __repr__(self) -> str:
        return f"HttpEmbedder({self.model_id!r})"

    @property
    def model_id(self) -> str:
        """Name of the vector space."""
        return vector_space_name(self._fields["model"], self._fields.get("dimensions"))

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._dimensions

    @property
    def has_token_vectors(self) -> bool:
        """Whether `embed_with_tokens` returns token vectors.

        It does not, because the protocol has one vector per text.
        """
        return False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order.

        Raises:
            TextRefused: The server refused the request, perhaps for one of the texts.
            ModelUnavailable: The server gave no vectors, or vectors of another length.
        """
        rows = [np.empty((0, self._dimensions), dtype=np.float32)]
        if texts:
            with self._sender.client() as client:
                for batch in _batches(texts):
                    body = self._sender.post(client, {**self._fields, "input": batch})
                    rows.append(_vectors(body, len(batch), self._dimensions))
        return np.concatenate(rows)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return the vectors of texts, without token vectors."""
        return TextEmbeddings(vectors=self.embed(texts), tokens=None)


class _RetryingClient:
    """Sends requests, with retries."""

    def __init__(self, url: str, *, key: str | None, seconds: float, timer: RetryTimer) -> None:
        self._url = f"{url.rstrip('/')}/embeddings"
        self._key = key
        self._seconds = seconds
        self._timer = timer

    def client(self) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415  needs the extra

        return httpx2.Client(**_options(self._key))

    def post(self, client: "httpx2.Client", fields: Mapping[str, Any]) -> bytes:
        """Return the body of the server's response. Retries, with growing pauses, are made within the time limit."""
        end = self._timer.clock() + self._seconds
        pause = _FIRST_PAUSE
        while True:
            answer = self._try(client, fields, end)
            if isinstance(answer, bytes):
                return answer
            wanted = pause * (0.5 + self._timer.jitter() / 2)
            wait = min(max(wanted, answer.retry_after), LONGEST_PAUSE)
            if self._timer.clock() + wait >= end:
                raise _unavailable(answer.why, "try again later; is ROOMLORE_EMBEDDING_URL right?")
            self._timer.sleep(wait)
            pause *= 2

    def _try(
        self, client: "httpx2.Client", fields: Mapping[str, Any], end: float
    ) -> "bytes | _FailedAttempt":
        import httpx2  # noqa: PLC0415  needs the extra

        left = max(end - self._timer.clock(), 0.001)
        timeout = httpx2.Timeout(left, connect=min(_CONNECT_SECONDS, left))
        try:
            client.cookies.clear()
            with client.stream("POST", self._url, json=fields, timeout=timeout) as response:
                if response.status_code in _RETRYABLE:
                    why = f"the server answered {response.status_code}"
                    return _FailedAttempt(why=why, retry_after=_retry_after(response) or 0)
                _raise_refused(response.status_code)
                return self._body(response, end)
        except httpx2.TimeoutException:
            return _FailedAttempt(why=f"no answer within {self._seconds:g} seconds")
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
            # The error text may hold the address.
            return _FailedAttempt(why=_BROKEN)

    def _body(self, response: "httpx2.Response", end: float) -> "bytes | _FailedAttempt":
        if _is_packed(response):
            raise _unavailable(_PACKED, "ask another server")
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > _LARGEST_EMBEDDINGS:
                raise _unavailable(
                    f"the answer is larger than {_LARGEST_EMBEDDINGS:,} bytes", "ask for fewer dimensions"
                )
            if self._timer.clock() > end:
                return _FailedAttempt(why=f"no answer within {self._seconds:g} seconds")
        return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedAttempt:
    """The reason why an attempt failed. The request may be sent again."""

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


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        # A lone surrogate cannot be sent, and servers refuse an empty text.
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
    """Return the unit vectors of a response, ordered by their indexes."""
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
    # The vector is divided by the largest number first, because the square of a large number could overflow.
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


# Language models


def open_language_model(
    url: str, name: str, *, key: str | None = None, seconds: float = 60.0, tokens: int = MAX_TITLE_TOKENS
) -> "HttpLanguageModel":
    """Return a language model behind an address. The model holds no connection.

    Args:
        url: The base of the API: the part before `/chat/completions`.
        name: The name of the model.
        key: The API key.
        seconds: The limit for one call.
        tokens: The maximum number of tokens of an answer. Servers that do not support schemas do not get this limit.

    Raises:
        BadInput: The extra is not installed.
    """
    _require_httpx2("language model")
    return HttpLanguageModel(url, name, key=key, seconds=seconds, tokens=tokens)


class HttpLanguageModel:
    """A `LanguageModel` behind HTTP."""

    def __init__(
        self, url: str, name: str, *, key: str | None, seconds: float, tokens: int = MAX_TITLE_TOKENS
    ) -> None:
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._name = name
        self._key = key
        self._seconds = seconds
        self._tokens = tokens
        #: Whether the server has turned out not to support schemas.
        self._is_plain = False

    def __repr__(self) -> str:
        return f"HttpLanguageModel({self._name!r})"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def timeout(self) -> timedelta:
        """The time limit of a call."""
        return timedelta(seconds=self._seconds)

    async def answer(self, instructions: str, prompt: str, *, shape: Mapping[str, Any]) -> str | LlmFailure:
        """Return the answer or a failure. Only a cancellation is raised.

        If the server turns out not to support schemas, the request is repeated without a schema. All later requests
        then have no schema.
        """
        import httpx2  # noqa: PLC0415  needs the extra

        fields = {
            "model": self._name,
            "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": prompt}],
        }
        try:
            async with asyncio.timeout(self._seconds), self._client() as client:
                return await self._ask(client, fields, shape)
        except (TimeoutError, httpx2.TimeoutException):
            return LlmFailure(reason=f"no answer within {self._seconds:g} seconds")
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
            # The error text may hold the address.
            return LlmFailure(reason=_BROKEN)

    def _client(self) -> "httpx2.AsyncClient":
        import httpx2  # noqa: PLC0415  needs the extra

        timeout = httpx2.Timeout(self._seconds, connect=min(_CONNECT_SECONDS, self._seconds))
        return httpx2.AsyncClient(timeout=timeout, **_options(self._key))

    async def _ask(
        self, client: "httpx2.AsyncClient", fields: Mapping[str, Any], shape: Mapping[str, Any]
    ) -> str | LlmFailure:
        if not self._is_plain:
            status, answered = await self._post(client, {**fields, **_response_format(shape, self._tokens)})
            if status not in _UNSUPPORTED_FIELD:
                return answered
        status, answered = await self._post(client, fields)
        self._is_plain = status == _OK
        return answered

    async def _post(
        self, client: "httpx2.AsyncClient", fields: Mapping[str, Any]
    ) -> tuple[int, str | LlmFailure]:
        async with client.stream("POST", self._url, json=fields) as response:
            status = response.status_code
            if status != _OK:
                return status, _refusal(status, _retry_after(response))
            if _is_packed(response):
                return status, LlmFailure(reason=_PACKED)
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _LARGEST_COMPLETION:
                    return status, LlmFailure(
                        reason=f"the answer is larger than {_LARGEST_COMPLETION:,} bytes"
                    )
        return status, _content(bytes(body))


def _response_format(shape: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    schema = {"name": "answer", "strict": True, "schema": shape}
    return {
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_tokens": tokens,
        "temperature": 0,
    }


def _refusal(status: int, wait: int | None) -> LlmFailure:
    reason = f"the server answered {status}"
    if status in _REFUSING:
        reason += ": is the key right?"
    elif status == _NOT_FOUND:
        reason += ": are address and name right?"
    elif status == _TOO_MANY:
        reason += ": too many calls"
    return LlmFailure(reason=reason, retry_after=None if wait is None else timedelta(seconds=wait))


def _content(body: bytes) -> str | LlmFailure:
    """Return the text of the first choice, or a failure. Any part of the response may be missing."""
    try:
        answered = json.loads(body)
        content: object = answered["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        content = answered = None
    if not isinstance(content, str):
        return LlmFailure(reason="the server's answer is not a chat completion")
    usage = cast("dict[str, object]", answered).get("usage")
    return LlmAnswer(
        content,
        sent_tokens=_token_count(usage, "prompt_tokens"),
        answer_tokens=_token_count(usage, "completion_tokens"),
    )


def _token_count(usage: object, name: str) -> int | None:
    """Return a number of tokens; None if it is missing or implausible."""
    count: object = cast("Mapping[str, object]", usage).get(name) if isinstance(usage, dict) else None
    is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS
    return cast("int", count) if is_count else None
