"""Indexes and callers when the server is killed, slow, emptied, restored from a backup, or refuses."""

import asyncio
import json
import logging
import re
import shutil
import time
from contextlib import asynccontextmanager

import pytest

from models.chatserver import http
from projections.qdrant.running import stranger
from projections.qdrant.stories import (
    DIMENSIONS,
    EVERYTHING,
    EVERYWHERE,
    digests,
    facing,
    point,
    some_id,
    told,
)
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.projections.qdrant import open_qdrant

COPY = "one"
KEY = "a-key-that-nobody-may-see"
SAID = [point(number, version=number) for number in range(1, 41)]


@asynccontextmanager
async def opened(url, *, key=None, seconds=20.0):
    points = open_qdrant(url, key=key, seconds=seconds)
    yield points
    await points.close()


def calls(points):
    """One call of each kind."""
    everything = {"sight": EVERYTHING, "query_filter": EVERYWHERE}
    return [
        points.prepare(COPY, dimensions=DIMENSIONS),
        points.put(COPY, SAID),
        points.drop(COPY, [some_id(1)]),
        points.stored_digests(COPY, after=None, limit=9),
        points.index_names(),
        points.remove(COPY),
        points.search_dense(COPY, facing(1, 0, 0, 0), wanted=3, **everything),
        points.search_lexical(COPY, ["toner"], wanted=3, **everything),
    ]


async def test_batch_interrupted_by_a_kill_completes_on_retry(shim):
    shim.start("--die-after", "17")
    async with opened(shim.url) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await points.put(COPY, SAID)
        shim.died()
        shim.start()
        half = await digests(points, COPY)
        assert half == told(SAID[:17])
        await points.put(COPY, SAID)
        assert await digests(points, COPY) == told(SAID)


async def test_kill_loses_no_confirmed_write(shim):
    shim.start()
    async with opened(shim.url) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        kept = set()
        are_some = asyncio.Event()

        async def write():
            for one in SAID:
                await points.put(COPY, [one])
                kept.add(one.id)
                if len(kept) == 5:
                    are_some.set()

        writing = asyncio.create_task(write())
        await are_some.wait()
        shim.kill()
        with pytest.raises(BackendUnavailable):
            await writing
        shim.start()
        assert kept <= (await digests(points, COPY)).keys()
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID)
        assert await digests(points, COPY) == told(SAID)


async def test_a_server_that_is_too_slow_is_given_up_in_time(shim):
    shim.start("--slow", "30")
    async with opened(shim.url, seconds=0.3) as points:
        for call in calls(points):
            begun = time.monotonic()
            with pytest.raises(BackendUnavailable, match=r"no answer within 0\.3 seconds"):
                await call
            assert time.monotonic() - begun < 5


async def test_a_server_that_answers_nobody_is_unavailable(shim):
    shim.start("--refuse")
    async with opened(shim.url) as points:
        for call in calls(points):
            with pytest.raises(BackendUnavailable, match="answered 503"):
                await call


async def test_a_server_that_turns_everything_down_is_unavailable_and_nothing_is_set_aside_for_it(shim):
    shim.start("--turn-down")
    async with opened(shim.url) as points:
        await points.prepare("1", dimensions=4)
        with pytest.raises(BackendUnavailable, match="takes none"):
            await points.put("1", [point(number) for number in range(1, 21)])
        with pytest.raises(BadInput):
            await points.put("1", [point(1)])


async def test_a_server_that_is_not_there_is_unavailable(shim):
    shim.start()
    shim.kill()
    async with opened(shim.url) as points:
        for call in calls(points):
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await call


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_key_that_is_missing_or_wrong_is_not_shown_to_anybody(shim, caplog, key):
    caplog.set_level(logging.DEBUG)
    shim.start("--key", "another-key-that-nobody-may-see")
    async with opened(shim.url, key=key) as points:
        assert "nobody-may-see" not in repr(points) + repr(points._wire)
        for call in calls(points):
            with pytest.raises(BackendUnavailable, match="ROOMLORE_QDRANT_KEY") as refused:
                await call
            assert "nobody-may-see" not in repr(refused.value) + str(refused.value)
            assert refused.value.__cause__ is None
            assert refused.value.__suppress_context__
    assert "nobody-may-see" not in caplog.text


async def test_the_right_key_opens(shim, caplog):
    caplog.set_level(logging.DEBUG)
    shim.start("--key", KEY)
    async with opened(shim.url, key=KEY) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID)
        assert await digests(points, COPY) == told(SAID)
    assert KEY not in caplog.text


async def test_a_key_that_may_only_read_reads_and_changes_nothing(shim):
    shim.start()
    async with opened(shim.url) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID)
    shim.restart("--key", "another", "--reading-key", KEY)
    async with opened(shim.url, key=KEY) as points:
        assert await points.index_names() == [COPY]
        everything = {"sight": EVERYTHING, "query_filter": EVERYWHERE, "wanted": 50}
        near = await points.search_dense(COPY, facing(1, 0, 0, 0), **everything)
        assert {one.message_id for one in near} == {one.id for one in SAID}
        for change in (
            points.prepare("2", dimensions=DIMENSIONS),
            points.put(COPY, [point(99)]),
            points.drop(COPY, [some_id(1)]),
            points.remove(COPY),
        ):
            with pytest.raises(BackendUnavailable, match="ROOMLORE_QDRANT_KEY"):
                await change
        assert await digests(points, COPY) == told(SAID)


async def test_a_server_that_was_emptied_says_that_the_copy_is_gone(shim):
    shim.start()
    async with opened(shim.url) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID)
        shim.kill()
        shutil.rmtree(shim.folder)
        shim.start()
        assert await points.index_names() == []
        with pytest.raises(BackendUnavailable, match="gone; run: roomlore index rebuild qdrant"):
            await points.put(COPY, SAID)
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID)
        assert await digests(points, COPY) == told(SAID)


async def test_a_copy_that_was_set_back_tells_so_by_its_digests(shim, tmp_path):
    shim.start()
    changed = [point(number, version=50, author_name="Bea") for number in range(1, 6)]
    async with opened(shim.url) as points:
        await points.prepare(COPY, dimensions=DIMENSIONS)
        await points.put(COPY, SAID[:30])
        shim.kill()
        shutil.copytree(shim.folder, tmp_path / "backup")
        shim.start()
        await points.put(COPY, [*SAID[30:], *changed])
        await points.drop(COPY, [some_id(20)])
        now = await digests(points, COPY)

        shim.kill()
        shutil.rmtree(shim.folder)
        shutil.copytree(tmp_path / "backup", shim.folder)
        shim.start()
        then = await digests(points, COPY)
        assert then == told(SAID[:30])
        differing = {one for one in now.keys() | then.keys() if now.get(one) != then.get(one)}
        assert differing == {one.id for one in (*SAID[30:], *changed)} | {some_id(20)}

        await points.put(COPY, [*SAID[30:], *changed])
        await points.drop(COPY, [some_id(20)])
        assert await digests(points, COPY) == now


ANSWERS = {
    "words": http("hello"),
    "another program": http('{"hello": "world"}'),
    "nothing": http(""),
    "another place": http("", status="302 Found", Location="http://127.0.0.1:1/elsewhere"),
    "half of an answer": http('{"result": {"collections": [{"name": ', status="200 OK"),
    "no bytes of text": http(b"\xff\xfe\x00"),
    "too many": http("{}", status="429 Too Many Requests"),
    "too many until": http("{}", status="429 Too Many Requests", Retry_After="3"),
    "too many until when": http("{}", status="429 Too Many Requests", Retry_After="tomorrow"),
    "hung up": b"",
    "not there": http("{}", status="404 Not Found"),
}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("status", ["acknowledged", "wait_timeout"])
async def test_a_change_that_cannot_be_seen_yet_is_not_taken_for_done(status):
    result = {"operation_id": 7, "status": status}
    answer = {"status": "ok", "time": 0.1}
    async with stranger(http(json.dumps({**answer, "result": [result]}))) as url, opened(url) as points:
        with pytest.raises(BackendUnavailable, match="behind"):
            await points.put(COPY, SAID)
    async with stranger(http(json.dumps({**answer, "result": result}))) as url, opened(url) as points:
        with pytest.raises(BackendUnavailable, match="behind"):
            await points.drop(COPY, [some_id(1)])


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("answer", ANSWERS)
async def test_any_foreign_answer_is_backend_unavailable(answer):
    async with stranger(ANSWERS[answer]) as url, opened(url, seconds=5) as points:
        for call in calls(points):
            with pytest.raises(BackendUnavailable) as error:
                await call
            assert not re.search(r"127\.0\.0\.1|hello|elsewhere", str(error.value))
