"""The protocol over HTTP and over pipes, with the SDK's own client and with clients that behave badly."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp_types import INVALID_PARAMS

from conftest import OpenApp
from operations.village import EVERYWHERE, PEOPLE
from roomlore.db.cluster import Cluster
from roomlore.operations import App
from surfaces.http.test_serving import address, database, process
from surfaces.mcp.conftest import KeyOf
from surfaces.mcp.speaking import (
    PATIENCE,
    beside,
    command,
    error_of,
    listening,
    over_http,
    over_pipes,
    text_of,
)
from surfaces.mcp.test_visibility import heard_by

WIDE = {"question": EVERYWHERE, "limit": 20, "budget": 16_000}
TOOLS = [
    "room_list", "people_list", "room_read", "message_read", "room_context", "room_search", "ask", "memory_search", "room_digest", "memory_provenance",
]  # fmt: skip
#: What an agent may do besides.
WRITING = ["remember", "message_send", "correct", "forget"]
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def words(result: Any) -> set[str]:
    """Return by external id what is among the citations."""
    return {
        f"m{line.rpartition('word')[2]}"
        for line in result.structured_content["text"].splitlines()
        if "word" in line
    }


# Over HTTP


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_a_key_reads_as_its_participant(people: App, key_of: KeyOf, mode: str) -> None:
    async with listening(people) as url, over_http(url, await key_of("bo"), mode=mode) as client:
        assert client.server_info.name == "roomlore"
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        found = await client.call_tool("room_search", WIDE)
        context: Any = await client.call_tool("room_context", {"room": "attic"})
        refused = await error_of(client.call_tool("room_context", {"room": "cellar"}))
        rooms = (await client.list_resources()).resources
        timeline = text_of(await client.read_resource("room://attic/timeline"))
        hidden = await error_of(client.read_resource("room://cellar/timeline"))
        prompt = text_of(await client.get_prompt("catch_up", {"room": "attic"}))

    assert words(found) == heard_by("bo")
    assert "word11" in context.structured_content["text"]
    assert refused == "no room 'cellar'"
    assert hidden == f"{INVALID_PARAMS} no room 'cellar'"
    assert [room.name for room in rooms] == ["attic", "square"]
    assert "word5" in timeline
    assert "word5" in prompt


@pytest.mark.slow
async def test_concurrent_callers_get_their_own_results(people: App, key_of: KeyOf) -> None:
    async with listening(people) as url:

        async def asks(name: str) -> list[set[str]]:
            async with over_http(url, await key_of(name)) as client:
                return [words(await client.call_tool("room_search", WIDE)) for _ in range(3)]

        told = await asyncio.gather(*map(asks, PEOPLE))

    assert dict(zip(PEOPLE, told, strict=True)) == {name: [heard_by(name)] * 3 for name in PEOPLE}


async def test_over_http_a_revoked_key_ends_with_the_next_call(people: App, key_of: KeyOf) -> None:
    key = await key_of("bo")

    async with listening(people) as url, over_http(url, key) as client:
        await client.call_tool("room_search", WIDE)
        held = await people.sign_in(key)
        await people.keys.revoke(str(held.access.principal.key_id))
        async with httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"} | JSON) as raw:
            refused = await raw.post("/mcp", json=LIST)
        with pytest.raises(Exception, match=r"."):
            await client.call_tool("room_search", WIDE)

    assert refused.status_code == 401
    assert refused.json()["type"] == "urn:roomlore:problem:key-refused"


async def test_only_an_operators_key_may_have_a_viewer_configured(people: App, key_of: KeyOf) -> None:
    async with listening(people) as url:
        as_ana = {"roomlore-viewer": "ana"}
        async with over_http(url, await key_of("operator"), **as_ana) as client:
            assert words(await client.call_tool("room_search", WIDE)) == heard_by("ana")
        shown = {"authorization": f"Bearer {await key_of('bo')}", **as_ana, **JSON}
        async with httpx2.AsyncClient(base_url=url, headers=shown) as raw:
            assert (await raw.post("/mcp", json=LIST)).status_code == 403


async def test_a_key_of_another_org_shows_nothing(people: App, open_app: OpenApp) -> None:
    other = await open_app("other")
    theirs = (await other.keys.create("operator", name="theirs")).key
    [room, *_] = await people.rooms(people.operator)

    async with (
        listening(people) as url,
        httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {theirs}"} | JSON) as raw,
    ):
        assert (await raw.post("/mcp", json=LIST)).status_code == 401
    async with beside(await other.sign_in(theirs)) as client:
        assert (await client.list_resources()).resources == []
        for word in (str(room.id), room.name):
            refused = await error_of(client.call_tool("room_context", {"room": word}))
            nowhere = await error_of(client.call_tool("room_context", {"room": "nowhere"}))
            assert refused.replace(word, "…") == nowhere.replace("nowhere", "…")
        found: Any = await client.call_tool("room_search", WIDE)
        assert found.structured_content["citations"] == []


@pytest.mark.slow
async def test_over_http_tools_that_write_need_the_server_and_the_key(people: App, key_of: KeyOf) -> None:
    for allow_writes, name, expected in (
        (False, "pip", []),
        (True, "pip", WRITING),
        (True, "bo", WRITING[2:]),
    ):
        async with (
            listening(people, allow_writes=allow_writes) as url,
            over_http(url, await key_of(name)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == [*TOOLS, *expected]


@pytest.mark.slow
async def test_malformed_requests_are_refused(people: App, key_of: KeyOf) -> None:
    key = {"authorization": f"Bearer {await key_of('bo')}"}
    good = key | JSON

    async with listening(people) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as raw:

        async def status(method: str = "POST", path: str = "/mcp", **rest: Any) -> int:
            response = await raw.request(method, path, **({"headers": good, "json": LIST} | rest))
            assert response.headers["x-request-id"]
            assert not any(name.startswith("access-control") for name in response.headers)
            assert "Traceback" not in response.text
            return response.status_code

        assert await status() == 200
        assert await status(headers=JSON) == 401
        assert await status(headers=JSON | {"authorization": "Bearer rlk_x"}) == 401
        assert [await status(verb, json=None) for verb in ("GET", "DELETE", "PUT")] == [405, 405, 405]
        assert await status(path="/mcp/", json=LIST) == 404
        assert await status(headers=key | {"content-type": "text/plain"}, json=None, content="{}") == 415
        # A page in a browser, under whatever name it reaches this machine.
        for origin in (
            "http://[",
            "https://evil.example",
            "http://evil.example:7171",
            "null",
            "http://127.0.0.1.evil.example",
        ):
            named = {"origin": origin, "host": origin.partition("://")[2] or "x"}
            assert await status(headers=good | named) == 403
        assert await status(headers=good | {"origin": "http://localhost:6274"}) == 200
        assert await status(headers=good | {"host": "rooms.example.org"}) == 200
        large = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "y" * 300_000}}
        assert await status(json=large) == 413

        async def pieces() -> AsyncGenerator[bytes]:
            for _ in range(6):
                yield b" " * 50_000

        assert await status(json=None, content=pieces()) == 413
        for body in (
            "{",
            "[]",
            "null",
            '{"jsonrpc": "2.0"}',
            f"[{json.dumps(LIST)}]",
            "\\ud800",
            "9" * 5_000,
        ):
            assert await status(json=None, content=body) == 400
        assert await status() == 200


@pytest.mark.slow
@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("wanted", [[], ["--mcp"], ["--no-mcp"]], ids=["", "on", "off"])
async def test_serve_has_mcp_unless_turned_off(cluster: Cluster, key_of: KeyOf, wanted: list[str]) -> None:
    key = await key_of("bo")

    async with process(*database(cluster), "serve", "--port", "0", "--no-workers", *wanted) as run:
        url = await address(run)
        if "--no-mcp" not in wanted:
            async with over_http(url, key) as client:
                assert words(await client.call_tool("room_search", WIDE)) == heard_by("bo")
        else:
            async with httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}) as raw:
                assert (await raw.post("/mcp", json=LIST)).status_code == 404
        run.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(run.communicate(), PATIENCE)

    assert run.returncode == 0, err


# Over pipes


@pytest.mark.slow
async def test_over_pipes_it_reads_for_the_viewer_of_the_command_line(cluster: Cluster, people: App) -> None:
    started = command(cluster, "--org", str(people.settings.org), "--as", "bo", "mcp")

    async with over_pipes(started, mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        found = await client.call_tool("room_search", WIDE)
        timeline = text_of(await client.read_resource("room://square/timeline"))
        refused = await error_of(client.call_tool("room_context", {"room": "cellar"}))

    assert words(found) == heard_by("bo")
    assert "word3" in timeline
    assert refused == "no room 'cellar'"


@pytest.mark.slow
async def test_over_pipes_a_key_reads_for_its_participant_and_ends_when_it_is_revoked(
    cluster: Cluster, people: App, key_of: KeyOf
) -> None:
    key = await key_of("pip")

    async with over_pipes(command(cluster, "mcp", "--allow-writes", ROOMLORE_KEY=key)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*TOOLS, *WRITING]
        assert words(await client.call_tool("room_search", WIDE)) == heard_by("pip")
        assert not (await client.call_tool("remember", {"content": "x", "sources": ["m3"]})).is_error
        held = await people.sign_in(key)
        await people.keys.revoke(str(held.access.principal.key_id))
        assert await error_of(client.call_tool("room_search", WIDE)) == "the key is not valid"


@asynccontextmanager
async def spoken(
    cluster: Cluster, people: App, *before: str, after: tuple[str, ...] = ()
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`roomlore mcp` with pipes of our own."""
    started = command(cluster, "--org", str(people.settings.org), *before, "mcp", *after)
    run = await asyncio.create_subprocess_exec(
        sys.executable, *started.args, env=started.env,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield run
    finally:
        if run.returncode is None:
            run.kill()
            await run.wait()


async def exchanged(run: asyncio.subprocess.Process, said: bytes) -> dict[str, Any]:
    assert run.stdin is not None
    assert run.stdout is not None
    run.stdin.write(said + b"\n")
    await run.stdin.drain()
    return json.loads(await asyncio.wait_for(run.stdout.readline(), PATIENCE))


HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "0"},
        },
    }
).encode()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "closed input"])
async def test_it_ends_cleanly_while_it_waits(cluster: Cluster, people: App, how: str) -> None:
    async with spoken(cluster, people) as run:
        answer = await exchanged(run, HELLO)
        assert answer["result"]["serverInfo"]["name"] == "roomlore"
        if how == "closed input":
            assert run.stdin is not None
            run.stdin.close()
        else:
            run.send_signal(signal.Signals[how])
        out, err = await asyncio.wait_for(_rest(run), PATIENCE)

    assert (run.returncode, out) == (0, b"")
    assert err == b"reading for the operator, who sees everything; --as NAME reads for a participant\n"


@pytest.mark.slow
async def test_it_ends_when_nobody_reads_it(cluster: Cluster, people: App) -> None:
    read, write = os.pipe()
    started = command(cluster, "--org", str(people.settings.org), "mcp")
    run = await asyncio.create_subprocess_exec(
        sys.executable, *started.args, env=started.env,
        stdin=asyncio.subprocess.PIPE, stdout=write, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    os.close(write)
    os.close(read)
    assert run.stdin is not None
    run.stdin.write(HELLO + b"\n")
    await run.stdin.drain()
    assert run.stderr is not None
    err = await asyncio.wait_for(run.stderr.read(), PATIENCE)

    assert await asyncio.wait_for(run.wait(), PATIENCE) == 0
    assert b"Traceback" not in err


@pytest.mark.slow
async def test_malformed_lines_are_skipped_and_a_long_one_ends_it(cluster: Cluster, people: App) -> None:
    async with spoken(cluster, people, "-q") as run:
        assert run.stdin is not None
        for noise in (b"", b"{", b"\xff\xfe", b"[]", b"null", b'"x"', b"{}", b"9" * 100_000):
            run.stdin.write(noise + b"\n")
        answer = await exchanged(run, HELLO)
        while answer.get("id") != 1:
            # What had no id is answered without one, or not at all.
            answer = await exchanged(run, b"")
        run.stdin.write(b"x" * 400_000)
        _, err = await asyncio.wait_for(_rest(run), PATIENCE)

    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert (run.returncode, err) == (0, b"")


async def _rest(run: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Return what a process says until it ends, without closing its input."""
    assert run.stdout is not None
    assert run.stderr is not None
    out, err, _ = await asyncio.gather(run.stdout.read(), run.stderr.read(), run.wait())
    return out, err
