"""Services on a server. Each declared operation is a method with the signature of the service's own method."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from roomlore.client import codec
from roomlore.client.codec import segment
from roomlore.client.session import Session, fetch_all
from roomlore.domain.receipts import Receipt
from roomlore.domain.records import AssignedMessage, Conversation, Viewer, convert
from roomlore.operations.registry import Operation, check_zone, operations_of
from roomlore.operations.responses import ConversationResponse, ReceiptResponse, TimelinePage

Service = TypeVar("Service")


def remote(service: type[Service], session: Session, *, by_hand: object = None) -> Service:
    """Return a service that runs on a server. `by_hand` has the methods that no declaration describes."""
    return cast("Service", Remote(service, session, by_hand))


class Remote:
    """A service that runs on a server."""

    def __init__(self, service: type, session: Session, by_hand: object) -> None:
        self._service = service
        self._session = session
        self._by_hand = by_hand

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(self._by_hand, name):
            return getattr(self._by_hand, name)
        operation = operations_of(self._service).get(name)
        if operation is None:
            raise AttributeError(f"{self._service.__name__} has no operation {name!r} over HTTP")
        return partial(_call, self._session, operation)

    def __dir__(self) -> list[str]:
        return sorted({*operations_of(self._service), *dir(self._by_hand)})


async def _call(session: Session, operation: Operation, *args: Any, **keywords: Any) -> Any:
    arguments = operation.bind(args, keywords)
    for name, value in arguments.items():
        check_zone(name, value)
    viewer = arguments.pop("viewer", None)
    in_path = {
        one.name: segment(one.name, arguments.pop(one.name))
        for one in operation.parameters
        if operation.is_in_path(one)
    }
    path = operation.path.format(**in_path).removeprefix("/")
    takes_body = operation.method != "DELETE" and len(operation.parameters) > len(in_path)
    body = arguments if takes_body else None
    key, kind = operation.declaration.get("result_key"), operation.result
    response = dict[str, kind] if key is not None else kind
    if operation.method == "GET":
        answer = await session.read(response, path, viewer=viewer, query=codec.query(**arguments))
    elif operation.declaration.get("replay") == "read":
        answer = await session.read(response, path, viewer=viewer, body=body)
    elif kind is type(None):
        return await session.command(operation.method, path, body)
    else:
        answer = await session.change(response, operation.method, path, body)
    return answer if key is None else answer[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPages:
    """The methods of `Conversations` that read page by page."""

    session: Session

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: str | None = None
    ) -> tuple[Conversation, list[AssignedMessage]]:
        """Return a conversation and its newest messages, or the messages before a given message, oldest first."""
        path = f"conversations/{segment('conversation', word)}"
        heads: list[ConversationResponse] = []

        async def fetch(query: codec.Query) -> tuple[list[AssignedMessage], str | None]:
            page = await self.session.read(ConversationResponse, path, viewer=viewer, query=query)
            heads.append(page)
            return [*page.messages][::-1], page.next

        messages = await fetch_all(fetch, limit=limit, before=before)
        return convert(Conversation, heads[0]), messages[::-1]

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None
    ) -> list[AssignedMessage]:
        """Return the newest messages of a room, or the messages before a given message, oldest first."""
        path = f"rooms/{segment('room', room)}/timeline"

        async def fetch(query: codec.Query) -> tuple[list[AssignedMessage], str | None]:
            page = await self.session.read(TimelinePage, path, viewer=viewer, query=query)
            return [*page.messages][::-1], page.next

        return (await fetch_all(fetch, limit=limit, before=before))[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteErasures:
    """The methods of `Erasures` that share one route."""

    session: Session

    async def message(self, word: str, *, room: str | None = None, dry_run: bool = False) -> Receipt:
        """Erase a message and leave a tombstone in its place. Return the receipt."""
        return await self._erase("message", message=word, room=room, dry_run=dry_run)

    async def range(
        self,
        room: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Erase the messages of a room that were sent in a time range, without tombstones. Return the receipt."""
        codec.check_zone("time", since)
        codec.check_zone("time", until)
        everything = since is None and until is None
        return await self._erase(
            "range", room=room, since=since, until=until, everything=everything, dry_run=dry_run
        )

    async def room(self, room: str, *, dry_run: bool = False) -> Receipt:
        """Erase a room: its messages, everything derived from them, its members and its name. Return the receipt."""
        return await self._erase("room", room=room, dry_run=dry_run)

    async def person(self, word: str, *, dry_run: bool = False) -> Receipt:
        """Erase a person: all accounts, all messages, and mentions in other people's messages. Return the receipt."""
        return await self._erase("person", participant=word, dry_run=dry_run)

    async def _erase(self, kind: str, **body: Any) -> Receipt:
        response = await self.session.change(ReceiptResponse, "POST", "erasures", {"kind": kind, **body})
        return response.receipt()
