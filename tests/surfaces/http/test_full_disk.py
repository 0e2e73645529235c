"""While the disk of the database is full, what is stored is read, writes are refused by name, and it heals by itself."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import roomlore
from ingest.stories import author
from operations.village import SQUARE, say
from roomlore.db import audit_log
from roomlore.db import database as store
from roomlore.db.connections import translate_connection_errors
from roomlore.domain.errors import DatabaseFull, DatabaseUnavailable
from roomlore.http.routes import health
from roomlore.mcp.errors import ToolError, translate_errors
from roomlore.settings import Settings
from surfaces.http.conftest import Serve, Served

FULL = "do $$ begin raise exception using errcode = '53100', message = 'no room'; end $$"
WRITING = ("PUT", "/v1/rooms/square/injection", {"on": False})
MEGABYTES = 300


async def room_lists(served: Served) -> int:
    """Return how often the log says that rooms were listed."""
    return sum(one.action == "list rooms" for one in await served.app.log(served.app.operator, limit=1000))


async def test_a_full_disk_refuses_writes_by_name_and_lets_reads_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await room_lists(served)

    async def full(conn: Any, *_: object, **__: object) -> None:
        await conn.execute(FULL)

    monkeypatch.setattr(health, "KNOWN_FOR", 0)
    with monkeypatch.context() as broken:
        broken.setattr(audit_log, "append", full)
        broken.setattr(store, "PROBE", FULL)
        told = await served.operator(*WRITING)
        assert (told.status_code, told.json()["type"]) == (507, "urn:roomlore:problem:database-full")
        assert "free some of the disk" in told.json()["detail"]
        ready = await served.nobody()("GET", "/health/ready")
        assert ready.status_code == 503
        assert ready.json() == {"status": "waiting", "database": True, "room": False, "clock": None}
        with pytest.raises(ToolError, match="the disk of the database is full"):
            await translate_errors(served.app.agents.set_injection("square", on=False))
    with monkeypatch.context() as broken:
        # A line of the log alone finds no room.
        broken.setattr(audit_log.QUERIES.declared["append"], "run", full)
        assert len(await served.operator.get("/v1/rooms")) == 3
    assert (await served.nobody()("GET", "/health/ready")).json()["room"] is True
    assert (await served.operator(*WRITING)).status_code == 204

    # What was read meanwhile stands in the log, once.
    await asyncio.gather(*(served.operator.get("/v1/rooms") for _ in range(3)))
    assert await room_lists(served) == before + 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A real file system with little room."""
    if os.geteuid() or not all(map(shutil.which, ("mkfs.ext4", "mount", "umount"))):
        pytest.skip("only root may mount a file system")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(MEGABYTES * 2**20)
    made = [["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(place)]]
    for command in made:
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no room at all on a disk."""
    with suppress(OSError), (place / "ballast").open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


async def filled_up(app: roomlore.App) -> None:
    """Write until there is no room."""
    for number in range(2, 2000):
        await app.ingest_batch([say(number, author("ana"), SQUARE, body="word " * 2000)])


async def written(app: roomlore.App, number: int) -> None:
    """Write until there is room, as a sender does who tries again."""
    while True:
        try:
            with translate_connection_errors():
                await app.ingest_batch([say(number, author("ana"), SQUARE)])
        except DatabaseUnavailable:
            continue
        return


@pytest.mark.slow
async def test_a_disk_that_is_really_full_is_told_and_heals_with_the_server(
    small_disk: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "KNOWN_FOR", 0)
    async with asyncio.timeout(240), roomlore.open(Settings(data=small_disk / "data")) as app:
        await app.ingest_batch([say(1, author("ana"), SQUARE)])
        served = await serve(app)
        fill(small_disk)

        with pytest.raises(DatabaseFull, match="free some of it"):
            await filled_up(app)
        fill(small_disk)
        for _ in range(50):
            assert len(await served.operator.get("/v1/rooms")) == 1
        assert (await served.nobody()("GET", "/health/ready")).json()["room"] is False
        said = {"messages": [{"platform": "t", "room": "x", "id": "1", "author": "a", "text": "w " * 90_000}]}
        said["messages"][0]["sent_at"] = "2026-01-01T00:00:00Z"
        told = await served.operator("POST", "/v1/messages", said)
        assert (told.status_code, told.json()["title"]) == (507, "Database full")

        # The worst: the server goes down just then, and finds no room to come up again.
        home = small_disk / "data" / "postgres"
        pid = int((home / "pgdata" / "postmaster.pid").read_text().partition("\n")[0])
        os.kill(pid, signal.SIGKILL)
        (home / "pgdata" / "postmaster.pid").write_text("")
        fill(small_disk)
        assert (await served.nobody()("GET", "/health/ready")).status_code == 503
        (small_disk / "ballast").unlink()
        await written(app, 5000)
        assert (await served.nobody()("GET", "/health/ready")).status_code == 200
        kept = await app.messages(app.operator, "square", limit=5)
        assert kept[-1].external_id == "m5000"


@pytest.mark.slow
async def test_a_disk_without_room_to_begin_with_is_named(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(DatabaseUnavailable, match="is full"):
        async with roomlore.open(Settings(data=small_disk / "data")):
            pytest.fail("it was opened")
