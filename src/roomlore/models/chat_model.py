"""Asks a language model over HTTP, as any server answers that speaks OpenAI's chat completions.

The request goes to the address that was configured and nowhere else: no proxy out of the environment, no
redirects, no cookies, nothing kept between two calls. The key is in one header and in nothing that is shown.

Source of the protocol: the OpenAI API reference, "Create chat completion", with structured outputs.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from roomlore.domain.errors import BadInput
from roomlore.domain.ports import LlmAnswer, LlmFailure

if TYPE_CHECKING:
    import httpx2

#: An answer with everything around it.
_LARGEST = 256 * 1024
#: Before this a connection stands, or there will be none.
_CONNECT_SECONDS = 10.0
#: No server is told more, nor tells more.
_MOST_TOKENS = 100_000_000
#: A title needs twenty.
MAX_TITLE_TOKENS = 100
_OK = 200
#: How servers say that they do not know a field.
_UNSUPPORTED_FIELD = frozenset({400, 415, 422, 501})
_TOO_MANY = 429
_REFUSING = frozenset({401, 403})
_NOT_FOUND = 404


def open_language_model(
    url: str, name: str, *, key: str | None = None, seconds: float = 60.0, tokens: int = MAX_TITLE_TOKENS
) -> "HttpLanguageModel":
    """Return a language model behind an address; it holds no connection and needs no closing.

    Args:
        url: Where the server's API begins: what stands before `/chat/completions`.
        name: Which of its models.
        key: Shown to the server, if it wants one.
        seconds: For one call, from connecting to the last letter.
        tokens: Longer answers are cut; those of a server that knows no schemas are as long as it likes.

    Raises:
        BadInput: the extra is not installed.
    """
    if find_spec("httpx2") is None:
        raise BadInput("language model", "asking it needs httpx2; run: pip install 'roomlore[languagemodel]'")
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
        #: Whether the server was found to know no schemas.
        self._is_plain = False

    def __repr__(self) -> str:
        """Show which one it is, but neither address nor key."""
        return f"HttpLanguageModel({self._name!r})"

    @property
    def name(self) -> str:
        """Which one answers."""
        return self._name

    @property
    def timeout(self) -> timedelta:
        """After so long a call has ended, answered or not."""
        return timedelta(seconds=self._seconds)

    async def answer(self, instructions: str, material: str, *, shape: Mapping[str, Any]) -> str | LlmFailure:
        """Return the answer, or why there is none; only a cancellation is raised.

        A server that does not know schemas is asked a second time without, and from then on at once.
        """
        import httpx2  # noqa: PLC0415  needs the extra

        asked = {
            "model": self._name,
            "messages": [
                {"role": "system", "content": instructions},
                {"role": "user", "content": material},
            ],
        }
        try:
            async with asyncio.timeout(self._seconds), self._client() as client:
                return await self._ask(client, asked, shape)
        except (TimeoutError, httpx2.TimeoutException):
            return LlmFailure(reason=f"no answer within {self._seconds:g} seconds")
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
            # Not what it says: that may tell the address, and of a proxy the password.
            return LlmFailure(reason="the connection failed")

    def _client(self) -> "httpx2.AsyncClient":
        import httpx2  # noqa: PLC0415  needs the extra

        # Unpacked as it comes: nothing small may become large here.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "roomlore"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        timeout = httpx2.Timeout(self._seconds, connect=min(_CONNECT_SECONDS, self._seconds))
        return httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False, follow_redirects=False)

    async def _ask(
        self, client: "httpx2.AsyncClient", asked: Mapping[str, Any], shape: Mapping[str, Any]
    ) -> str | LlmFailure:
        if not self._is_plain:
            status, answered = await self._post(client, {**asked, **_response_format(shape, self._tokens)})
            if status not in _UNSUPPORTED_FIELD:
                return answered
        status, answered = await self._post(client, asked)
        self._is_plain = status == _OK
        return answered

    async def _post(
        self, client: "httpx2.AsyncClient", asked: Mapping[str, Any]
    ) -> tuple[int, str | LlmFailure]:
        async with client.stream("POST", self._url, json=asked) as response:
            status = response.status_code
            if status != _OK:
                return status, _refusal(status, response.headers.get("retry-after", ""))
            if response.headers.get("content-encoding", "identity") != "identity":
                return status, LlmFailure(reason="the answer is packed, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _LARGEST:
                    return status, LlmFailure(reason=f"the answer is larger than {_LARGEST:,} bytes")
        return status, _content(bytes(body))


def _response_format(shape: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    schema = {"name": "answer", "strict": True, "schema": shape}
    return {
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_tokens": tokens,
        "temperature": 0,
    }


def _refusal(status: int, retry_after: str) -> LlmFailure:
    reason = f"the server answered {status}"
    if status in _REFUSING:
        reason += ": is the key right?"
    elif status == _NOT_FOUND:
        reason += ": are address and name right?"
    elif status == _TOO_MANY:
        reason += ": too many calls"
    # A date, the other form, says no more than our own patience does.
    wait = retry_after.strip()
    seconds = int(wait) if wait.isascii() and wait.isdecimal() and len(wait) < len("1000000") else None
    return LlmFailure(reason=reason, retry_after=None if seconds is None else timedelta(seconds=seconds))


def _content(body: bytes) -> str | LlmFailure:
    """Return what the first choice says; how it is said is the server's affair, so anything may be missing."""
    try:
        answered = json.loads(body)
        content: object = answered["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return LlmFailure(reason="the server's answer is not a chat completion")
    if not isinstance(content, str):
        return LlmFailure(reason="the server's answer is not a chat completion")
    usage = answered.get("usage")
    return LlmAnswer(
        content,
        sent_tokens=_token_count(usage, "prompt_tokens"),
        answer_tokens=_token_count(usage, "completion_tokens"),
    )


def _token_count(usage: object, name: str) -> int | None:
    """Return a number of tokens, if there is one and it may be true."""
    count: object = cast("Mapping[str, object]", usage).get(name) if isinstance(usage, dict) else None
    is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS
    return cast("int", count) if is_count else None
