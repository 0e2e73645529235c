"""The ways to call an operation. Each returns the outcome in one form, so that outcomes compare with `==`."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import quote
from uuid import UUID

import click
import httpx2
import pydantic_core

import roomlore
from conformance.calls import Call
from roomlore.cli.commands import VERBS
from roomlore.cli.derived import DerivedCommand
from roomlore.cli.main import cli
from roomlore.cli.output import plain
from roomlore.domain.errors import BadInput, Conflict, NotAllowed, NotFound, RoomloreError
from roomlore.domain.ids import id_time
from roomlore.domain.records import Memory, Provenance
from roomlore.operations import App
from roomlore.operations.digest import Digest
from roomlore.operations.registry import Operation, operations_of
from roomlore.operations.responses import to_document
from roomlore.operations.services import SERVICES
from roomlore.search.records import MatchedMemory
from surfaces.commandline import roomlore as command_line
from surfaces.http.calling import Described
from surfaces.mcp.speaking import beside, error_of, text_of

STATUS: Mapping[type[RoomloreError], int] = {BadInput: 400, NotAllowed: 403, NotFound: 404, Conflict: 409}
OPERATIONS: Mapping[str, Operation] = {
    f"{attribute}.{name}": one
    for attribute, service in SERVICES.items()
    for name, one in operations_of(service).items()
}
SECRET = re.compile(r"rlk_[\w-]+")
#: The version of the ids that show when they were made.
WITH_TIME = 7
#: Trust fades while it is asked for.
DIGITS = 4


def is_change(operation: Operation) -> bool:
    """Return whether an operation changes anything."""
    return operation.method != "GET" and operation.declaration.get("replay") != "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Org:
    """An org with the story in it."""

    app: App
    #: Where every org is served.
    address: str
    keys: Mapping[str, str]
    #: The ids of the story, and of a key.
    named: Mapping[str, str]
    #: The ids of what the story tells that show no time: of rooms, participants and conversations.
    ids_without_time: frozenset[str]
    #: What is made from then on has new ids and times.
    since: datetime

    def given(self, value: Any) -> Any:
        """Return an argument with the ids that it names."""
        if isinstance(value, str):
            for name, key in self.named.items():
                value = value.replace(f"${name}", key)
            return value
        if isinstance(value, Mapping):
            return {key: self.given(one) for key, one in value.items()}
        return [self.given(one) for one in value] if isinstance(value, list) else value

    def settled(self, value: Any) -> Any:
        """Return JSON in which what is new, secret or a measurement is the same in every org."""
        if isinstance(value, dict):
            return {key: self.settled(one) for key, one in value.items() if key not in MEASURED}
        if isinstance(value, list):
            return [self.settled(one) for one in value]
        if isinstance(value, float):
            return round(value, DIGITS)
        return self._settled_text(value) if isinstance(value, str) else value

    def _settled_text(self, text: str) -> str:
        if SECRET.fullmatch(text):
            return "a secret"
        try:
            return "a new id" if self._is_new(UUID(text)) else text
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return text
        if moment.tzinfo is None or moment < self.since:
            return text
        # Each org is made a moment after the one before, so its due times are a moment later.
        return f"now + {round((moment - self.since) / timedelta(minutes=10))}"

    def _is_new(self, key: UUID) -> bool:
        # Ids without a time are those of rooms and participants.
        return (
            id_time(key) >= self.since if key.version == WITH_TIME else str(key) not in self.ids_without_time
        )


#: How long things took, and how large they are on disk.
MEASURED = {"latencies", "database_bytes", "size"}


def failed(error: RoomloreError) -> Any:
    return type(error).__name__, str(error), vars(error)


async def as_app(org: Org, name: str, call: Call) -> tuple[Any, Any]:
    """Return the outcome of a call of the App, and what it returned."""
    app = await org.app.sign_in(org.keys[call.who])
    try:
        result = await _call(app, name, org.given(call.given))
    except RoomloreError as error:
        return failed(error), error
    return org.settled(printed(to_document(OPERATIONS[name], result))), result


async def as_client(org: Org, name: str, call: Call) -> tuple[Any, Any]:
    """Return the same of a call of the client."""
    async with roomlore.open(org.address, key=org.keys[call.who]) as client:
        try:
            result = await _call(client, name, org.given(call.given))
        except RoomloreError as error:
            return failed(error), error
        return org.settled(printed(to_document(OPERATIONS[name], result))), result


async def _call(app: Any, name: str, given: Mapping[str, Any]) -> Any:
    service, _, method = name.partition(".")
    viewer = [app.principal] if OPERATIONS[name].takes_viewer else []
    return await getattr(getattr(app, service), method)(*viewer, **given)


def records(result: Any) -> Any:
    """Return a result as JSON, with its class."""
    kinds = [type(one).__name__ for one in result] if isinstance(result, list) else []
    return [type(result).__name__, kinds, pydantic_core.to_jsonable_python(result, inf_nan_mode="null")]


def printed(value: Any) -> Any:
    """Return a document as JSON shows it."""
    return json.loads(json.dumps(plain(value)))


def sent(value: Any) -> Any:
    """Return an argument as a request holds it."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return sent(asdict(value))
    if isinstance(value, Mapping):
        return {key: sent(one) for key, one in value.items()}
    if isinstance(value, Enum):
        return value.value
    return (
        [sent(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The HTTP client, the API description and the database options that all orgs share."""

    http: httpx2.AsyncClient
    described: Described
    #: The options of a command line that name the database.
    database: Sequence[str]


async def over_http(elsewhere: Elsewhere, org: Org, name: str, call: Call) -> Any:
    """Return the outcome of a request, which is held against the description."""
    operation, given = OPERATIONS[name], sent(org.given(call.given))
    in_path = {one: quote(value, safe="") for one, value in given.items() if f"{{{one}}}" in operation.path}
    rest = {one: value for one, value in given.items() if one not in in_path}
    has_body = operation.method not in {"GET", "DELETE"} and len(operation.parameters) > len(in_path)
    # An empty list in a query is written as one empty value.
    query = {one: (value or "") if isinstance(value, list) else value for one, value in rest.items()}
    response = await elsewhere.http.request(
        operation.method,
        f"{org.address}/v1{operation.path.format(**in_path)}",
        headers={"authorization": f"Bearer {org.keys[call.who]}"},
        json=rest if has_body else None,
        params=None if has_body else query,
    )
    elsewhere.described.check(response)
    if response.is_success:
        return org.settled(response.json()) if response.content else None
    problem = response.json()
    [kind] = [one for one, status in STATUS.items() if status == response.status_code]
    return kind.__name__, problem["detail"], problem["facts"]


def _verbs() -> Mapping[str, tuple[str, DerivedCommand]]:
    root, found = click.Context(cli, info_name="roomlore"), dict[str, tuple[str, DerivedCommand]]()
    for name in VERBS:
        verb = cli.get_command(root, name)
        inner = {"": verb, **getattr(verb, "commands", {})}
        for word, command in inner.items():
            if isinstance(command, DerivedCommand):
                found[f"{command._service}.{command._method}"] = (f"{name} {word}".strip(), command)
    return found


#: The verbs that are derived from operations, by operation.
DERIVED = _verbs()


def has_words(name: str, call: Call) -> bool:
    """Return whether a verb makes this call."""
    return call.has_verb and (call.words is not None or name in DERIVED)


def words_of(org: Org, name: str, call: Call) -> list[str]:
    """Return the command line of a call."""
    if call.words is not None:
        return org.given(call.words).split()
    verb, command = DERIVED[name]
    params = {one.name: one for one in command.get_params(click.Context(command))}
    options, arguments = list[str](), dict[str, list[str]]()
    for key, value in org.given(call.given).items():
        texts = [_word(one) for one in (value if isinstance(value, list) else [value])]
        param = params[key]
        if isinstance(param, click.Argument):
            arguments[key] = texts
        elif getattr(param, "is_flag", False):
            options += [param.opts[0]] if value else []
        else:
            options += [word for text in texts for word in (param.opts[0], text)]
    ordered = [word for one in params.values() for word in arguments.get(str(one.name), [])]
    return [*verb.split(), *options, "--", *ordered]


def _word(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds() / 3600)}h"
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value) if isinstance(value, dict) else str(value)


async def on_command_line(elsewhere: Elsewhere, org: Org, name: str, call: Call) -> Any:
    """Return the outcome of a verb: what it prints as JSON, or why it failed."""
    words = words_of(org, name, call)
    done = await asyncio.to_thread(
        command_line, *elsewhere.database, "--json", *words, ROOMLORE_KEY=org.keys[call.who]
    )
    assert "Traceback" not in done.err
    if done.code == 0:
        return org.settled(json.loads(done.out))
    assert (done.code, done.out) == (1, ""), (words, done.err)
    return done.err


async def with_tool(org: Org, call: Call) -> Any:
    """Return the outcome of an MCP tool: the memories and messages that its result names, or its error."""
    assert call.tool is not None
    tool, given = call.tool
    app = await org.app.sign_in(org.keys[call.who])
    async with beside(app, allow_writes=True) as mcp:
        if call.error is not None:
            return await error_of(mcp.call_tool(tool, org.given(given)))
        result: Any = await mcp.call_tool(tool, org.given(given))
    assert not result.is_error, text_of(result)
    shown = result.structured_content
    if "action" in shown:
        return org.settled([shown.get("memory_id") or shown.get("message_id")])
    return org.settled([one["memory_id"] for one in shown["memories"]])


def ids_in(org: Org, result: Any) -> Any:
    """Return the ids that a tool names of what the App returned."""
    many = result if isinstance(result, list) else [result]
    found = list[UUID]()
    for one in many:
        match one:
            case Memory():
                found.append(one.id)
            case MatchedMemory():
                found.append(one.memory.id)
            case Provenance():
                found += [one.memory.id, *(each.id for each in (*one.successors, *one.predecessors))]
            case Digest():
                found += dict.fromkeys(
                    memory.id for part in (*one.sections, *one.people) for memory in part.memories
                )
            case _:
                found.append(one)
    return org.settled([str(one) for one in found])
