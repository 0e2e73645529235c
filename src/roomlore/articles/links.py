"""Where a link may lead: which spellings of an address are read at all, and which machines are ever connected to.

Whoever may write a message chooses the link, and the name in it may stand for any machine that this one can
reach: a router, a database, the service that hands out a cloud's keys. So a link must be plainly spelt, and
of the addresses behind its name every one must be open to all the world, unless it was allowed by hand.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, quote, urlsplit

from roomlore.domain.patterns import lazy_pattern

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Returns the addresses that a name stands for, as text, in the order in which they are to be tried.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 2048
_LONGEST_HOST = 253

#: What no address has when it is spelt out; a backslash is a slash to some and not to others.
_ODD = lazy_pattern(
    r"[\x00-\x20\x7f-\xa0<>\"\\^`{|}\s\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_NAME = lazy_pattern(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
#: The last part of 2130706433, 0x7f.1 and 0177.0.0.1: old spellings of numbers that resolvers still take.
_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*")
#: Brackets hold an IPv6 address and nothing else, and nothing else stands beside them.
_IN_BRACKETS = lazy_pattern(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](:[0-9]*)?")
_LEFT_IN_PATH = "/%:@!$&'()*+,;=~"

#: Of IPv6 only this is given out to the world.
_GLOBAL_IPV6 = IPv6Network("2000::/3")
#: The registries of special addresses (RFC 6890 and later), and one that only looks public.
_SPECIAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # the host below a virtual machine, in one of the large clouds
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3ffe::/16",
        "3fff::/20",
    )
)
#: Inside these stands an IPv4 address, which is what is reached; on some networks every name gets one.
_IPV4_IN_IPV6 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
#: Interface identifiers of ISATAP carry one too, below any prefix.
_ISATAP, _ISATAP_MASK = 0x5EFE, 0xFCFFFFFF


class UnreadableLink(Exception):
    """A link is not read; says why, in one phrase for a person. Never leaves the backends."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """Where links may lead."""

    #: Networks that are reached although they are not open to all the world: an intranet. None by default.
    allowed_networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What one page may take."""

    #: For all of it: names, redirects and the body.
    seconds: float = 8.0
    #: For one address, before the next one behind the name is tried.
    connect_seconds: float = 3.0
    #: Of the body, as sent and as unpacked.
    bytes: int = 2 * 1024 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a link led to."""

    media_type: str
    #: As the server says; empty where it does not.
    charset: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A link taken apart: whom to ask, and for what."""

    scheme: str
    #: ASCII, lower case: a name, or an address without brackets.
    host: str
    port: int
    #: Path and query, ASCII.
    path: str

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The link, spelt in the one way in which it was understood."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_link(url: str, ports: Collection[int]) -> Target:
    """Return a link taken apart; what follows a hash sign is dropped.

    Raises:
        Unreadable: it is not http or https, not at one of the ports, names an account or is oddly spelt.
    """
    if len(url) > _LONGEST_URL or _ODD.search(url):
        raise UnreadableLink("not a plainly spelt address")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise UnreadableLink("not a plainly spelt address") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise UnreadableLink("neither http nor https")
    if "@" in parts.netloc:
        raise UnreadableLink("names an account")
    if {"[", "]"} & set(parts.netloc) and not _IN_BRACKETS.fullmatch(parts.netloc):
        raise UnreadableLink("not a plainly spelt address")
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    if port not in ports:
        raise UnreadableLink("at a port that is not allowed")
    return Target(scheme=parts.scheme, host=_plain_host(host), port=port, path=_path(parts))


def check_address(text: str, allowed: Collection[Network] = ()) -> Address:
    """Return an address that may be connected to: open to all the world, or in a network that was allowed.

    Raises:
        Unreadable: it is neither.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise UnreadableLink("its name stands for no address") from None
    reached = _embedded_ipv4(address)
    is_allowed = any(one in network for network in allowed for one in (address, reached))
    if getattr(address, "scope_id", None) or not (is_allowed or _is_public(reached)):
        raise UnreadableLink("its address is not open to all the world")
    return address


def _path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_LEFT_IN_PATH)
    return f"{path}?{quote(parts.query, safe=_LEFT_IN_PATH + '?')}" if parts.query else path


def _plain_host(host: str) -> str:
    """Return a host in the one spelling that names have and the one that addresses have."""
    host = host.removesuffix(".")
    if ":" in host:
        return str(_address_in_brackets(host))
    if not host.isascii():
        host = _ascii(host)
    if len(host) > _LONGEST_HOST or not _NAME.fullmatch(host):
        raise UnreadableLink("not a plainly spelt address")
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_dotted(host):
        raise UnreadableLink("not a plainly spelt address")
    return host


def _address_in_brackets(host: str) -> IPv6Address:
    try:
        address = IPv6Address(host)
    except ValueError:
        address = None
    if address is None or address.scope_id:
        raise UnreadableLink("not a plainly spelt address")
    return address


def _ascii(host: str) -> str:
    import idna  # noqa: PLC0415  an extra, which whoever reads no links may lack

    try:
        return idna.encode(host, uts46=True).decode("ascii").removesuffix(".")
    except (idna.IDNAError, UnicodeError):
        raise UnreadableLink("not a plainly spelt address") from None


def _is_dotted(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only carries, or else the address."""
    if isinstance(address, IPv6Address) and any(address in network for network in _IPV4_IN_IPV6):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    # The library's own judgement differs between releases; both must agree.
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_IPV6 and (int(address) >> 32) & _ISATAP_MASK != _ISATAP
