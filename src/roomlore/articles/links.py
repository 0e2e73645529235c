"""Checks which links may be read, and which addresses may be connected to.

The author of a message chooses the link. The name in the link may stand for any machine that this machine can reach: a
router, a database, a cloud's key service. So a link must be spelt in the usual way. Every address of its name must be
public, unless its network is allowed explicitly.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, quote, urlsplit

from roomlore.domain.patterns import lazy_pattern

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Resolves a host and port to addresses.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

DEFAULT_PORTS = {"http": 80, "https": 443}
_NOT_PLAIN = "not a plainly spelt address"
_LONGEST_URL = 2048
_LONGEST_HOST = 253

#: Characters that no ordinary URL has. Some parsers read a backslash as a slash.
_ODD = lazy_pattern(
    r"[\x00-\x20\x7f-\xa0<>\"\\^`{|}\s\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_NAME = lazy_pattern(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
#: The last part of a host in old spellings of addresses, which resolvers still accept: 2130706433, 0x7f.1, 0177.0.0.1.
_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*")
#: An IPv6 address in brackets, and a port.
_IN_BRACKETS = lazy_pattern(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](:[0-9]*)?")
_LEFT_IN_PATH = "/%:@!$&'()*+,;=~"

#: The only public IPv6 range.
_GLOBAL_IPV6 = IPv6Network("2000::/3")
#: Special addresses (RFC 6890 and later), and an address that only looks public.
_SPECIAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # the host of virtual machines in a large cloud
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3ffe::/16",
        "3fff::/20",
    )
)
#: IPv6 ranges that contain an IPv4 address. A connection reaches this IPv4 address.
_IPV4_IN_IPV6 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
#: ISATAP addresses also contain an IPv4 address, after any prefix.
_ISATAP, _ISATAP_MASK = 0x5EFE, 0xFCFFFFFF


class UnreadableLink(Exception):
    """Raised if a link cannot be read, with the reason in one phrase. It is caught within this package."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """Where links may lead."""

    #: Private networks that are allowed, such as an intranet.
    allowed_networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of one page."""

    #: The time limit of everything: names, redirects and the body.
    seconds: float = 8.0
    #: The time limit of connecting to one address. After it, the next address is tried.
    connect_seconds: float = 3.0
    #: The maximum number of bytes of the body, both compressed and unpacked.
    bytes: int = 2 * 1024 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A fetched page."""

    media_type: str
    #: The charset that the server states; it may be empty.
    charset: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed link."""

    scheme: str
    #: A name, or an address without brackets; ASCII, lower case.
    host: str
    port: int
    #: Path and query, ASCII.
    path: str

    @property
    def authority(self) -> str:
        """Host and port for the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The normalised link."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_link(url: str, ports: Collection[int]) -> Target:
    """Return the parts of a link, without its fragment.

    Raises:
        UnreadableLink: The link is not http or https, has a forbidden port or an account, or is spelt unusually.
    """
    if len(url) > _LONGEST_URL or _ODD.search(url):
        raise UnreadableLink(_NOT_PLAIN)
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise UnreadableLink(_NOT_PLAIN) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise UnreadableLink("neither http nor https")
    if "@" in parts.netloc:
        raise UnreadableLink("names an account")
    if {"[", "]"} & set(parts.netloc) and not _IN_BRACKETS.fullmatch(parts.netloc):
        raise UnreadableLink(_NOT_PLAIN)
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    if port not in ports:
        raise UnreadableLink("at a port that is not allowed")
    return Target(scheme=parts.scheme, host=_plain_host(host), port=port, path=_path(parts))


def check_address(text: str, allowed: Collection[Network] = ()) -> Address:
    """Return an address if it is public or in an allowed network. Raise UnreadableLink otherwise."""
    try:
        address = ip_address(text)
    except ValueError:
        raise UnreadableLink("its name has no address") from None
    reached = _embedded_ipv4(address)
    is_allowed = any(one in network for network in allowed for one in (address, reached))
    if getattr(address, "scope_id", None) or not (is_allowed or _is_public(reached)):
        raise UnreadableLink("its address is not public")
    return address


def _path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_LEFT_IN_PATH)
    return f"{path}?{quote(parts.query, safe=_LEFT_IN_PATH + '?')}" if parts.query else path


def _plain_host(host: str) -> str:
    """Return a host name or address in its normal form."""
    host = host.removesuffix(".")
    if ":" in host:
        return str(_address_in_brackets(host))
    if not host.isascii():
        host = _ascii(host)
    if len(host) > _LONGEST_HOST or not _NAME.fullmatch(host):
        raise UnreadableLink(_NOT_PLAIN)
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_dotted(host):
        raise UnreadableLink(_NOT_PLAIN)
    return host


def _address_in_brackets(host: str) -> IPv6Address:
    try:
        address = IPv6Address(host)
    except ValueError:
        address = None
    if address is None or address.scope_id:
        raise UnreadableLink(_NOT_PLAIN)
    return address


def _ascii(host: str) -> str:
    import idna  # noqa: PLC0415  an extra, which whoever reads no links may lack

    try:
        return idna.encode(host, uts46=True).decode("ascii").removesuffix(".")
    except (idna.IDNAError, UnicodeError):
        raise UnreadableLink(_NOT_PLAIN) from None


def _is_dotted(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address contains; otherwise the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in _IPV4_IN_IPV6):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    # The library's answers differ between releases, so both checks must pass.
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_IPV6 and (int(address) >> 32) & _ISATAP_MASK != _ISATAP
