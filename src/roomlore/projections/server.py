"""The code that the Qdrant and Neo4j projections share: addresses, errors, batches, newest versions."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from roomlore.domain.errors import BadInput, IndexUnavailable
from roomlore.domain.projections import Node, Point

Subject = TypeVar("Subject", Point, Node)
Item = TypeVar("Item")

#: The maximum number of subjects that an error names.
MAX_NAMED = 10


class RequestRefused(IndexUnavailable):
    """The server rejects the content of a request."""


class IndexMissing(IndexUnavailable):
    """The server does not have this index."""

    def __init__(self, server: str) -> None:
        super().__init__(f"the index in {server} is gone", cure=rebuild_hint(server))


def wrong_index(server: str, why: str) -> IndexUnavailable:
    """Return the error for an index that Roomlore cannot use."""
    return IndexUnavailable(f"the index in {server} {why}", cure=rebuild_hint(server))


def rebuild_hint(server: str) -> str:
    """Return the command that builds the index of a server again."""
    return f"run: roomlore index rebuild {server.lower()}"


def parse_url(server: str, url: str, *, schemes: Collection[str], example: str) -> SplitResult:
    """Return the parts of a server's address.

    Raises:
        BadInput: the address has another scheme, no host, or an account, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadInput(f"{server} URL", f"is not an address like {example}") from None
    has_account = parts.username is not None or parts.password is not None
    if not is_plain or has_account or parts.query or parts.fragment:
        raise BadInput(f"{server} URL", f"must be like {example}, without an account, a query or a fragment")
    return parts


def is_loopback(parts: SplitResult) -> bool:
    """Return whether an address is on this machine."""
    host = parts.hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_encodable(text: str) -> bool:
    """Return whether a text is valid Unicode: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def newest_versions(subjects: Iterable[Subject]) -> list[Subject]:
    """Return the newest version of each subject."""
    newest: dict[UUID, Subject] = {}
    for subject in subjects:
        if subject.id not in newest or newest[subject.id].version < subject.version:
            newest[subject.id] = subject
    return list(newest.values())


def batches(
    items: Iterable[Item], size_of: Callable[[Item], int], *, max_items: int, max_size: int
) -> Iterator[list[Item]]:
    """Yield the items in batches. An item larger than `max_size` is a batch of its own."""
    batch: list[Item] = []
    size = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) == max_items or size + own > max_size):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += own
    if batch:
        yield batch


def chunks(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    """Yield slices of at most `length` items."""
    return (items[start : start + length] for start in range(0, len(items), length))


async def write_halving(
    write: Callable[[Sequence[Subject]], Awaitable[None]], subjects: Sequence[Subject]
) -> list[UUID]:
    """Write subjects and return the ids of those that the server refuses.

    A refused batch is halved and written again, until each refused subject is alone.
    """
    try:
        await write(subjects)
    except RequestRefused:
        if len(subjects) == 1:
            return [subjects[0].id]
        middle = len(subjects) // 2
        return [
            *await write_halving(write, subjects[:middle]),
            *await write_halving(write, subjects[middle:]),
        ]
    return []


def raise_if_refused(server: str, kind: str, ids: Sequence[UUID]) -> None:
    """Check that no subject was refused.

    Raises:
        BadInput: subjects were refused; the error names them.
    """
    if ids:
        names = ", ".join(map(str, ids[:MAX_NAMED]))
        more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
        raise BadInput(f"{kind} {names}{more}", f"{server} does not take it")
