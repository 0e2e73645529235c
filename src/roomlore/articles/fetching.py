"""Fetches linked pages from the open web, within limits.

The name in a link is resolved once, every address is checked, and the connection goes to one of the checked addresses.
So a changing DNS answer has no effect. The certificate is checked for the host of the link, and the Host header names
this host. Redirects are checked like links.

The client uses no proxy from the environment, sends no cookies, referrer or credentials, and keeps nothing between
pages.
"""

import asyncio
import contextlib
import socket
import ssl
import zlib
from collections.abc import Collection, Iterable, Sequence
from email.message import Message as Headers
from typing import cast
from urllib.parse import urljoin

import httpcore2

from roomlore.articles.links import (
    Address,
    FetchLimits,
    Network,
    NetworkPolicy,
    Page,
    Resolver,
    Target,
    UnreadableLink,
    check_address,
    parse_link,
)

MEDIA_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK = 200
#: The maximum number of addresses of a name that are tried.
_MOST_ADDRESSES = 4
_GZIP_ONLY = 31  # zlib's code for a gzip header

_HEADERS = (
    ("User-Agent", "roomlore"),
    ("Accept", "text/html, application/xhtml+xml, text/plain;q=0.8"),
    ("Accept-Encoding", "gzip"),
    ("Connection", "close"),
)
#: Errors of the client, which have no common base class.
_BROKEN = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host name, found by the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Fetcher:
    """Fetches each page over its own connections."""

    def __init__(
        self,
        *,
        reach: NetworkPolicy,
        limits: FetchLimits,
        resolve: Resolver,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._reach = reach
        self._limits = limits
        self._network = _CheckedNetwork(
            reach.allowed_networks, resolve=resolve, seconds=limits.connect_seconds
        )
        self._trust = trust or httpcore2.default_ssl_context()

    async def fetch(self, url: str) -> Page:
        """Return the page behind a link. Raise UnreadableLink if it is forbidden, no text page, or over the limits."""
        try:
            async with asyncio.timeout(self._limits.seconds), self._pool() as pool:
                return await self._follow(url, pool)
        except TimeoutError:
            raise UnreadableLink(f"took longer than {self._limits.seconds:g} seconds") from None
        except _BROKEN:
            raise UnreadableLink("the connection failed") from None

    def _pool(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._trust, network_backend=self._network, max_keepalive_connections=0
        )

    async def _follow(self, url: str, pool: httpcore2.AsyncConnectionPool) -> Page:
        for _ in range(self._limits.redirects + 1):
            target = parse_link(url, self._reach.ports)
            address = httpcore2.URL(
                scheme=target.scheme, host=target.host, port=target.port, target=target.path
            )
            headers = [("Host", target.authority), *_HEADERS]
            async with pool.stream("GET", address, headers=headers) as response:
                if response.status not in _REDIRECTS:
                    return await self._page(response)
                url = _redirect_target(response, target)
        raise UnreadableLink(f"more than {self._limits.redirects} redirects")

    async def _page(self, response: httpcore2.Response) -> Page:
        if response.status != _OK:
            raise UnreadableLink(f"the server answered {response.status}")
        media_type, charset = _content_type(_header(response, "content-type"))
        if media_type not in MEDIA_TYPES:
            raise UnreadableLink("not a page of text")
        length = _header(response, "content-length")
        if length.isdecimal() and int(length) > self._limits.bytes:
            raise _too_large(self._limits.bytes)
        return Page(media_type=media_type, charset=charset, body=await self._body(response))

    async def _body(self, response: httpcore2.Response) -> bytes:
        """Return the unpacked body. Never hold more of it than the limit."""
        limit = self._limits.bytes
        unpacker = _decoder_for(_header(response, "content-encoding"))
        body, received = bytearray(), 0
        async for chunk in response.aiter_stream():
            received += len(chunk)
            body += unpacker.decode(chunk, limit + 1 - len(body)) if unpacker else chunk
            if max(received, len(body)) > limit:
                raise _too_large(limit)
            if unpacker and unpacker.is_at_end:
                break
        if unpacker and not unpacker.is_at_end:
            raise UnreadableLink("the page is incomplete")
        return bytes(body)


class _GzipDecoder:
    """Unpacks gzip in limited steps."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_ONLY)

    @property
    def is_at_end(self) -> bool:
        """Whether the stream is complete."""
        return self._stream.eof

    def decode(self, chunk: bytes, most: int) -> bytes:
        """Return the next unpacked bytes of a chunk, at most `most` (which is at least 1)."""
        try:
            return self._stream.decompress(chunk, most)
        except zlib.error:
            raise UnreadableLink("the page is incomplete") from None


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """A network backend that connects only to checked addresses."""

    def __init__(self, allowed: Collection[Network], *, resolve: Resolver, seconds: float) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._seconds = seconds
        # Type checkers know another class of that name.
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(  # noqa: PLR0917  the client's own signature
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  as above
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connection to the first address of a host name that accepts one."""
        refusal: Exception = UnreadableLink("its name has no address")
        for address in (await self._addresses(host, port))[:_MOST_ADDRESSES]:
            try:
                return await self._inner.connect_tcp(
                    str(address), port, timeout or self._seconds, local_address, socket_options
                )
            except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
                refusal = error
        raise refusal

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host name. Raise UnreadableLink if one of the addresses is forbidden."""
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            raise UnreadableLink("its name has no address") from None
        return [check_address(text, self._allowed) for text in found]


def _too_large(limit: int) -> UnreadableLink:
    return UnreadableLink(f"larger than {limit:,} bytes")


def _redirect_target(response: httpcore2.Response, target: Target) -> str:
    with contextlib.suppress(ValueError):
        if location := _header(response, "location"):
            return urljoin(target.url, location)
    raise UnreadableLink("a redirect to nowhere")


def _header(response: httpcore2.Response, name: str) -> str:
    """Return the first header with a name; empty if there is none."""
    wanted = name.encode("ascii")
    for key, value in response.headers:
        if key.lower() == wanted:
            return value.decode("utf-8", "replace").strip()
    return ""


def _content_type(header: str) -> tuple[str, str]:
    """Return media type and charset in lower case."""
    headers = Headers()
    headers["content-type"] = header
    # The library reads an invalid media type as plain text.
    return header.partition(";")[0].strip().lower(), headers.get_content_charset("")


def _decoder_for(encoding: str) -> _GzipDecoder | None:
    match encoding.lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _GzipDecoder()
        case _:
            raise UnreadableLink("packed in an unsupported way")
