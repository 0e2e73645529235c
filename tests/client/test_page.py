"""What the page on clients shows, run against a server."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

import roomlore
from client.conftest import Village
from operations.village import BO, SQUARE, say

PAGE = Path(__file__).parents[2] / "docs" / "howto-client.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["operator", "ana"])
async def test_the_examples_do_with_an_app_what_they_do_with_a_client(both: Village, name) -> None:
    names: dict[str, object] = {}
    exec(compile(examples()[1], PAGE.name, "exec"), names)
    known = names["known"]
    assert callable(known)

    for app in (await both.here(name), await both.there(name)):
        assert await known(app, app.principal, "word5") is True
    # As it is opened without a key.
    assert both.app.principal == both.app.operator
    assert {room.name for room in await both.app.rooms(both.app.principal)} >= {"square", "attic"}


@pytest.mark.slow
async def test_the_first_example_answers_from_a_server(both: Village) -> None:
    await both.app.ingest(say(70, BO, SQUARE, body="There is flour again on Friday."))
    await both.app.drain()
    code = (
        examples()[0]
        .replace("https://rooms.example.org", both.address)
        .replace("rlk_...", await both.key("ana"))
    )

    done = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", code,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    out, err = await asyncio.wait_for(done.communicate(), 120)

    assert done.returncode == 0, err.decode()
    assert out.decode().splitlines()[:2] == ["square", "attic"]
    assert len(out.decode().splitlines()) > 2


@pytest.mark.slow
async def test_the_other_examples_do_what_they_say(both: Village, capsys) -> None:
    names: dict[str, object] = {}
    for code in examples()[1:]:
        exec(compile(code, PAGE.name, "exec"), names)
    known, follow = names["known"], names["follow"]
    app = await both.there("ana")
    assert callable(known)
    assert callable(follow)

    assert await known(app, app.principal, "word5") is True
    assert await known(app, app.principal, "zanzibar submarines") is False
    assert isinstance(names["ours"], roomlore.Server)
    following = asyncio.create_task(follow(app, "square"))
    try:
        await told_of(both, capsys)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def told_of(both: Village, capsys) -> None:
    """Return once the one who follows has printed something that was said meanwhile."""
    printed, number = "", 80
    async with asyncio.timeout(60):
        while "flour" not in printed:
            await both.app.ingest(say(number, BO, SQUARE, body=f"flour {number}"))
            await asyncio.sleep(0.1)  # who follows may not listen yet
            number += 1
            printed += capsys.readouterr().out
