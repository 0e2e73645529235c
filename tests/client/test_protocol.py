"""App and Client are both Rooms: the same calls with the same signatures; every call of a service has its place."""

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import pytest

from roomlore.client import Client, Rooms
from roomlore.client.remote import ConversationPages, RemoteErasures
from roomlore.operations import App
from roomlore.operations.registry import Operation, operations_of
from roomlore.operations.services import SERVICES

WORK = "work runs beside the database; operations.numbers tells how far it has come"
LOCAL = "part of how an App is put together"
#: Public names of an App and of its services that a client does not have, and why.
OUTSIDE = {
    "App.db": LOCAL,
    "App.settings": LOCAL,
    "App.access": LOCAL,
    "App.import_path": "a file is read where it lies; its messages can be sent, see ingest_batch",
    "App.drain": WORK,
    "App.disentangle": WORK,
    "App.run_worker": WORK,
    "App.waiting": WORK,
    "App.retry": WORK,
    "App.extraction": WORK,
    "App.exports": "files are written and read beside the database",
    "App.graph": "asked beside the database; search, memories and people give what it answers",
    "App.projections": WORK,
    "App.embedding_versions": WORK,
    "Agents.section_for_context": LOCAL,
    "Agents.with_memory_section": LOCAL,
    "PrivacyRequests.with_request_counts": "told where an export is read",
}
#: Calls of a client that are not made from a declaration: they read page by page, or join several forms of one request.
BY_HAND: dict[str, type] = {"Conversations": ConversationPages, "Erasures": RemoteErasures}


def names(kind: type) -> set[str]:
    """Return the public names of a class: methods, properties and fields."""
    return {
        name
        for one in kind.__mro__
        if one is not object
        for name in vars(one) | vars(one).get("__annotations__", {})
        if name[0] != "_"
    }


@cache
def named_for_type_checkers(module: str) -> dict[str, Any]:
    """Return what a module imports for type checkers alone."""
    found: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), found)
    return found


def get_type_hints(call: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a call's arguments and result, whatever they are imported for."""
    return hints_of(call, localns=named_for_type_checkers(call.__module__))


def calls(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: member for name in names(kind) if callable(member := inspect.getattr_static(kind, name, None))
    }


def kinds_of(annotation: Any) -> set[Any]:
    return set(get_args(annotation)) if get_origin(annotation) in {Union, UnionType} else {annotation}


def signed_alike(wanted: Callable[..., Any], found: Callable[..., Any]) -> bool:
    """Return whether two calls take the same arguments, and the second whatever types the first takes."""
    one, other = inspect.signature(wanted).parameters, inspect.signature(found).parameters
    same = [(p.name, p.kind, p.default) for p in one.values()] == [
        (p.name, p.kind, p.default) for p in other.values()
    ]
    types, wider = get_type_hints(wanted), get_type_hints(found)
    return (
        same
        and all(kinds_of(types[name]) <= kinds_of(wider[name]) for name in one if name in types)
        and inspect.iscoroutinefunction(wanted) == inspect.iscoroutinefunction(found)
    )


def test_there_are_services_to_look_at() -> None:
    assert len(SERVICES) > 9
    assert sum(len(operations_of(service)) for service in SERVICES.values()) > 45


@pytest.mark.parametrize("kind", [App, Client])
def test_every_call_is_signed_alike(kind) -> None:
    unlike = {
        name
        for name, call in calls(Rooms).items()
        if not signed_alike(call, inspect.getattr_static(kind, name))
    }

    assert unlike == set()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_client_has_every_service_of_an_app(name) -> None:
    given = [get_type_hints(inspect.getattr_static(kind, name).fget)["return"] for kind in (Rooms, Client)]

    assert given == [SERVICES[name], SERVICES[name]]


def test_every_call_of_a_service_is_an_operation_or_written_by_hand() -> None:
    left = {
        f"{service.__name__}.{name}"
        for service in SERVICES.values()
        for name in set(calls(service))
        - set(operations_of(service))
        - set(calls(BY_HAND.get(service.__name__, object)))
        if inspect.isfunction(calls(service)[name])
    }

    assert left == {name for name in OUTSIDE if not name.startswith("App.")}, (
        "declare it with @operation, write it in roomlore.client, or say here why a client does not have it"
    )


@pytest.mark.parametrize("service", [one for one in SERVICES.values() if one.__name__ in BY_HAND])
def test_a_call_written_by_hand_is_signed_alike(service) -> None:
    by_hand = calls(BY_HAND[service.__name__])

    assert {name for name, call in by_hand.items() if not signed_alike(call, calls(service)[name])} == set()


def test_every_public_name_of_an_app_is_of_the_protocol_or_has_a_reason_not_to_be() -> None:
    assert {f"App.{name}" for name in names(App) - names(Rooms)} == {
        name for name in OUTSIDE if name.startswith("App.")
    }


def test_a_client_has_nothing_that_an_app_has_not() -> None:
    assert names(Client) - names(Rooms) == {"session"}


OPERATIONS = [one for service in SERVICES.values() for one in operations_of(service).values()]


@pytest.mark.parametrize("one", OPERATIONS, ids=[one.name for one in OPERATIONS])
def test_every_operation_is_whole(one: Operation) -> None:
    in_path = [parameter.name for parameter in one.parameters if one.is_in_path(parameter)]

    assert one.path.count("{") == len(in_path), "a name in braces is no argument of the method"
    assert (one.method == "GET") == ("replay" not in one.declaration), (
        "a change says what a repeated request gets"
    )
    assert one.result is not None
