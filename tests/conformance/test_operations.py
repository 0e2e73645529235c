"""Every declared operation does the same on every surface: the App is the truth for HTTP, client, MCP and command line."""

from collections.abc import Sequence

import psycopg
import pytest

from conformance.calls import CALLS, TOOLS_OF_OTHER_METHODS, Call
from conformance.conftest import MakeOrg
from conformance.ways import (
    DERIVED,
    OPERATIONS,
    Elsewhere,
    Org,
    as_app,
    as_client,
    has_words,
    ids_in,
    is_change,
    on_command_line,
    over_http,
    records,
    with_tool,
)
from operations.village import log_lines
from roomlore.domain.errors import RoomloreError
from roomlore.mcp.tools import TOOLS


def test_the_table_has_every_operation_every_tool_and_every_derived_verb() -> None:
    assert OPERATIONS.keys() - CALLS.keys() == set(), "add a call to tests/conformance/calls.py"
    assert CALLS.keys() - OPERATIONS.keys() == set(), "no such operation"
    assert [name for name, calls in CALLS.items() if all(call.error for call in calls)] == []
    tools = {call.tool[0] for calls in CALLS.values() for call in calls if call.tool is not None}
    assert tools | TOOLS_OF_OTHER_METHODS == {tool.name for tool in TOOLS}
    verbs = {name for name, calls in CALLS.items() if any(has_words(name, call) for call in calls)}
    assert (DERIVED.keys() & OPERATIONS.keys()) - verbs == set()


async def done_in(org: Org, admin: psycopg.AsyncConnection) -> set[str]:
    """Return what the audit log says was done since the story."""
    lines = await log_lines(admin, org.app)
    return {f"{what} {how} {org.settled(sorted(map(str, ids or [])))}" for what, how, _, _, ids in lines}


def first_calls(calls: Sequence[Call]) -> list[Call]:
    """Return the first call that succeeds, and the first that is refused."""
    done, refused = (
        next((one for one in calls if bool(one.error) is failed), None) for failed in (False, True)
    )
    return [one for one in (done, refused) if one is not None]


FIRST = {name: first_calls(calls) for name, calls in CALLS.items()}
OTHERS = {
    name: rest for name, calls in CALLS.items() if (rest := [one for one in calls if one not in FIRST[name]])
}


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=case[0]) for case in FIRST.items()),
        *(
            pytest.param(case, id=f"{case[0]}, other calls", marks=pytest.mark.slow)
            for case in OTHERS.items()
        ),
    ],
)
async def test_an_operation_does_the_same_on_every_surface(
    case: tuple[str, Sequence[Call]], make_org: MakeOrg, elsewhere: Elsewhere, admin: psycopg.AsyncConnection
) -> None:
    name, calls = case
    people = {call.who for call in calls}
    shared = await make_org(people)
    for call in calls:
        is_apart = call.error is None and is_change(OPERATIONS[name])
        org = await make_org(people) if is_apart else shared
        truth, result = await as_app(org, name, call)
        assert (type(result) if isinstance(result, RoomloreError) else None) == call.error, truth
        done = await done_in(org, admin)

        there = await make_org(people) if is_apart else shared
        told, received = await as_client(there, name, call)
        assert told == truth
        if call.error is None:
            assert there.settled(records(received)) == org.settled(records(result))
        assert await done_in(there, admin) == done

        there = await make_org(people) if is_apart else shared
        assert await over_http(elsewhere, there, name, call) == truth
        assert await done_in(there, admin) == done

        if call.tool is not None:
            there = await make_org(people) if is_apart else shared
            told = await with_tool(there, call)
            assert told == (str(result) if call.error else ids_in(org, result))
            assert await done_in(there, admin) == done

        if has_words(name, call):
            there = await make_org(people) if is_apart else shared
            shown = await on_command_line(elsewhere, there, name, call)
            if call.error:
                assert str(result) in shown
            else:
                assert shown == ({**(truth or {}), **call.printed} if call.printed else truth)
            # A verb that asks before it does something also looks first.
            assert done <= await done_in(there, admin)
