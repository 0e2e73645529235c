"""App and Client are both Rooms: the same calls, signed alike; and every call of an App has its place."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import pytest

from roomlore.app import App
from roomlore.client import Client, Rooms

WORK = (
    "work is done, watched and tried again where the rooms are; operations.numbers tells how far it has come"
)
LOCAL = "part of how an App is put together"
#: Every public name of an App and of its parts that is not of the protocol, and why.
OUTSIDE = {
    "App.db": LOCAL,
    "App.settings": LOCAL,
    "App.desk": LOCAL,
    "App.import_path": "a file is read where it lies: its messages can be sent, see ingest_batch",
    "App.drain": WORK,
    "App.untangle": WORK,
    "App.run_worker": WORK,
    "App.waiting": WORK,
    "App.retry": WORK,
    "App.extracting": WORK,
    "App.graph": "asked where the rooms are; what it answers is to be had elsewhere, see search, memories and people",
    "App.projecting": WORK,
    "App.generations": WORK,
    "Agents.desk": LOCAL,
    "Agents.blocks": LOCAL,
    "Agents.in_shadow": LOCAL,
    "Agents.block_beside": LOCAL,
    "Agents.beside": LOCAL,
    "Conversations.desk": LOCAL,
    "Erasures.desk": LOCAL,
    "Intake.desk": LOCAL,
    "Intake.take": LOCAL,
    "Intake.count": LOCAL,
    "Wishes.counted": "told where an export is read",
    "Keys.desk": LOCAL,
    "Memories.desk": LOCAL,
    "Operations.desk": LOCAL,
    "Operations.blocks": LOCAL,
    "Operations.generations": LOCAL,
    "People.desk": LOCAL,
    "RoomManagement.desk": LOCAL,
    "Wishes.desk": LOCAL,
}
#: Of a client, what is not of the protocol.
OWN = {"line"}


def names(kind: type) -> set[str]:
    """Return the public names of a class: methods, properties and fields."""
    return {
        name for one in kind.__mro__ if one is not object for name in vars(one) | get(one) if name[0] != "_"
    }


def get(kind: type) -> dict[str, Any]:
    return vars(kind).get("__annotations__", {})


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


def part(kind: type, name: str) -> type:
    """Return the class of what a property gives."""
    getter = inspect.getattr_static(kind, name).fget
    return get_type_hints(getter)["return"]


def parts() -> Iterator[tuple[type, type, type]]:
    """Yield protocol, App's class and Client's class of each part, themselves first."""
    yield Rooms, App, Client
    for name in sorted(names(Rooms)):
        member = inspect.getattr_static(Rooms, name)
        if isinstance(member, property) and part(Rooms, name).__module__ == "roomlore.client.parts":
            yield part(Rooms, name), part(App, name), part(Client, name)


def calls(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: member for name in names(kind) if callable(member := inspect.getattr_static(kind, name, None))
    }


def kinds_of(annotation: Any) -> set[Any]:
    return set(get_args(annotation)) if get_origin(annotation) in {Union, UnionType} else {annotation}


PARTS = list(parts())


def test_there_are_parts_to_look_at() -> None:
    assert len(PARTS) > 9
    assert sum(len(calls(protocol)) for protocol, _, _ in PARTS) > 50


@pytest.mark.parametrize(("protocol", "here", "there"), PARTS, ids=[one.__name__ for _, one, _ in PARTS])
def test_every_call_is_signed_alike(protocol, here, there) -> None:
    for name, call in calls(protocol).items():
        wanted = inspect.signature(call)
        for kind in (here, there):
            member = inspect.getattr_static(kind, name)
            found = inspect.signature(member)
            assert list(found.parameters) == list(wanted.parameters), f"{kind.__name__}.{name}"
            for one in wanted.parameters.values():
                same = found.parameters[one.name]
                assert (same.kind, same.default) == (one.kind, one.default), (
                    f"{kind.__name__}.{name}({one.name})"
                )
            assert inspect.iscoroutinefunction(member) == inspect.iscoroutinefunction(call), name


@pytest.mark.parametrize(("protocol", "here", "there"), PARTS, ids=[one.__name__ for _, one, _ in PARTS])
def test_every_parameter_is_of_the_same_type(protocol, here, there) -> None:
    for name, call in calls(protocol).items():
        wanted = {key: kind for key, kind in get_type_hints(call).items() if key != "return"}
        for kind in (here, there):
            found = get_type_hints(inspect.getattr_static(kind, name))
            # An App may take more than what a server can be told.
            narrower = {key for key in wanted if not kinds_of(wanted[key]) <= kinds_of(found[key])}
            assert narrower == set(), f"{kind.__name__}.{name}"


def test_every_public_name_of_an_app_is_of_the_protocol_or_has_a_reason_not_to_be() -> None:
    left = {
        f"{here.__name__}.{name}" for protocol, here, _ in PARTS for name in names(here) - names(protocol)
    }

    assert left == set(OUTSIDE), "put it into roomlore.client, or say here why it is not to be had there"


def test_a_client_has_nothing_that_an_app_has_not() -> None:
    assert {
        f"{there.__name__}.{name}"
        for protocol, _, there in PARTS
        for name in names(there) - names(protocol) - OWN
    } == set()
