"""The address of a server, the caller's key, and the limits of one client."""

import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from roomlore.domain.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The address and key for a server, and the limits of requests to it."""

    #: The base address, for example https://host:7171. It is everything before /v1.
    address: str
    #: The key, which is sent to this server only.
    key: str = field(repr=False)
    #: The time limit of one attempt, from connecting to the last byte. An answer by a language model may take long.
    seconds: float = 120.0
    #: The maximum number of concurrent requests. Further requests wait. Each stream of events has one additional
    #: connection.
    connections: int = 20
    #: The number of attempts after which a request fails.
    attempts: int = 4
    #: The maximum number of bytes of one response.
    largest: int = 64 * 1024 * 1024
    #: Whether to allow plain HTTP to another machine. Other people on the network can then read the key and all
    #: messages.
    in_the_clear: bool = False
    #: Trusted certificates. Default: the certificates of the system.
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
    """Return the host of an address; None if the address is not a plain web address."""
    try:
        parts = urlsplit(address)
        is_web = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        return None
    extras = (parts.username, parts.password, parts.query, parts.fragment)
    is_plain = address.isascii() and address.isprintable() and not {" ", "\\", "?", "#"} & set(address)
    return parts.hostname if is_web and is_plain and not any(extras) and "@" not in parts.netloc else None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address stands for this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
