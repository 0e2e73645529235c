"""Where a server is, who asks it, and what one client takes on."""

import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from roomlore.domain.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server behind an address, and how patiently it is asked."""

    #: Like https://host:7171, with whatever stands before its /v1.
    address: str
    #: Shown to the server, and to nobody else.
    key: str = field(repr=False)
    #: For one attempt, from connecting to the last letter; an answer that a language model words may take long.
    seconds: float = 120.0
    #: Calls under way at a time; others wait for their turn. Each stream of events has a connection of its own beside.
    connections: int = 20
    #: How often a call is begun before its failure is told.
    attempts: int = 4
    #: Bytes of one answer.
    largest: int = 64 * 1024 * 1024
    #: Also where whoever is on the way can read the key and everything that is said.
    in_the_clear: bool = False
    #: Whose certificates are trusted; those of the system by default.
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work, and to show a key to whoever listens."""
        host = _host_of(self.address)
        if host is None:
            why = "must be like https://host:7171, without an account, a query or a fragment"
            raise BadInput("address", why)
        if not (self.address.startswith("https://") or self.in_the_clear or _is_loopback(host)):
            why = "would show the key to everybody on the way; use https, or say in_the_clear"
            raise BadInput("address", why)
        if self.seconds <= 0 or min(self.connections, self.attempts, self.largest) < 1:
            raise BadInput("seconds, connections, attempts and largest", "must be more than nothing")


def _host_of(address: str) -> str | None:
    """Return the host of an address that is no more than one, or None."""
    try:
        parts = urlsplit(address)
        is_web = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        return None
    extras = (parts.username, parts.password, parts.query, parts.fragment)
    is_plain = address.isascii() and address.isprintable() and not {" ", "\\", "?", "#"} & set(address)
    return parts.hostname if is_web and is_plain and not any(extras) and "@" not in parts.netloc else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
