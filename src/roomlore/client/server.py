"""The address of a server, the caller's key, and the limits of one client."""

import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from roomlore.domain.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server, and the limits of requests to it."""

    #: Like https://host:7171, with everything before its /v1.
    address: str
    #: Sent to this server only.
    key: str = field(repr=False)
    #: For one attempt, from connecting to the last byte; an answer that a language model writes may take long.
    seconds: float = 120.0
    #: Concurrent calls; others wait. Each stream of events has one more connection of its own.
    connections: int = 20
    #: Attempts of a call before it fails.
    attempts: int = 4
    #: Bytes of one response.
    largest: int = 64 * 1024 * 1024
    #: Allow plain HTTP to another machine, where others on the network can read the key and all messages.
    in_the_clear: bool = False
    #: Trusted certificates; by default those of the system.
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        host = _host_of(self.address)
        if host is None:
            raise BadInput(
                "address", "must be like https://host:7171, without an account, a query or a fragment"
            )
        if not (self.address.startswith("https://") or self.in_the_clear or is_loopback(host)):
            raise BadInput("address", "would send the key unencrypted; use https, or set in_the_clear")
        if self.seconds <= 0 or min(self.connections, self.attempts, self.largest) < 1:
            raise BadInput("seconds, connections, attempts and largest", "must be more than zero")


def _host_of(address: str) -> str | None:
    """Return the host of an address; None if it is no plain web address."""
    try:
        parts = urlsplit(address)
        is_web = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        return None
    extras = (parts.username, parts.password, parts.query, parts.fragment)
    is_plain = address.isascii() and address.isprintable() and not {" ", "\\", "?", "#"} & set(address)
    return parts.hostname if is_web and is_plain and not any(extras) and "@" not in parts.netloc else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
