"""Services behind a server: each declared operation as a call with the signature of the service's own method."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from roomlore.client import codec
from roomlore.client.codec import segment
from roomlore.client.session import Session
from roomlore.operations.registry import Operation, check_zone, operations_of

Service = TypeVar("Service")


def remote(service: type[Service], line: Session, *, by_hand: object = None) -> Service:
    """Return a service whose operations a server carries out; `by_hand` has the calls that are not made from declarations."""
    return cast("Service", Remote(service, line, by_hand))


class Remote:
    """A service behind a server."""

    def __init__(self, service: type, line: Session, by_hand: object) -> None:
        self._service = service
        self._line = line
        self._by_hand = by_hand

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the call of an operation."""
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(self._by_hand, name):
            return getattr(self._by_hand, name)
        operation = operations_of(self._service).get(name)
        if operation is None:
            raise AttributeError(f"{self._service.__name__} has no operation {name!r} over HTTP")
        return partial(_call, self._line, operation)

    def __dir__(self) -> list[str]:
        """Return the names of the calls."""
        return sorted({*operations_of(self._service), *dir(self._by_hand)})


async def _call(line: Session, operation: Operation, *args: Any, **keywords: Any) -> Any:
    given = operation.bind(args, keywords)
    for name, value in given.items():
        check_zone(name, value)
    viewer = given.pop("viewer", None)
    in_path = {
        one.name: segment(one.name, given.pop(one.name))
        for one in operation.parameters
        if operation.is_in_path(one)
    }
    path = operation.path.format(**in_path).removeprefix("/")
    takes_body = operation.method != "DELETE" and len(operation.parameters) > len(in_path)
    body = given if takes_body else None
    key, kind = operation.declaration.get("result_key"), operation.result
    answer = dict[str, kind] if key is not None else kind
    if operation.method == "GET":
        found = await line.read(answer, path, viewer=viewer, query=codec.query(**given))
    elif operation.declaration.get("replay") == "read":
        found = await line.read(answer, path, viewer=viewer, body=body)
    elif kind is type(None):
        return await line.command(operation.method, path, body)
    else:
        found = await line.change(answer, operation.method, path, body)
    return found if key is None else found[key]
