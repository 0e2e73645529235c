"""Where a request comes from, where a proxy that is trusted says it: the address that it added itself, and no other."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from roomlore.domain.errors import BadInput

HEADER = "x-forwarded-for"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxiesMiddleware:
    """Serves what comes through a trusted proxy as if it came from where the proxy has it from."""

    app: ASGIApp
    #: Their addresses, as `address` returns them.
    proxies: AbstractSet[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if (
            scope["type"] == "http"
            and _forwarded_address((scope.get("client") or ("", 0))[0]) in self.proxies
        ):
            # Only the last is the proxy's; those before it are whatever the caller said.
            said = ",".join(Headers(scope=scope).getlist(HEADER)).rpartition(",")[2]
            found = _forwarded_address(said)
            if found is not None:
                scope["client"] = (found, 0)
        await self.app(scope, receive, send)


def address(word: str) -> str:
    """Return an address as all spell it.

    Raises:
        BadInput: it is none.
    """
    found = _forwarded_address(word)
    if found is None:
        raise BadInput("--trusted-proxy", f"{word} is no address; give one such as 127.0.0.1")
    return found


def _forwarded_address(word: str) -> str | None:
    try:
        return str(ip_address(word.strip()))
    except ValueError:
        return None
