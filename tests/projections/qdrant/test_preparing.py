"""An index is created once, also by several callers, and only by a server that supports it."""

import asyncio
import json

import pytest

from models.chatserver import http
from projections.qdrant.running import stranger
from projections.qdrant.stories import DIMENSIONS, digests, point, told
from roomlore.domain.errors import BackendUnavailable
from roomlore.projections.qdrant import PREFIX, open_qdrant

TITLE = "qdrant - vector search engine"


@pytest.mark.slow
async def test_a_collection_without_its_indexes_gets_them(points, name):
    from roomlore.projections.qdrant_connection import INDEXES  # noqa: PLC0415  needs the extra

    await points._wire.create(PREFIX + name, dimensions=DIMENSIONS)
    await points._wire.index(PREFIX + name, "room_id")
    await points.prepare(name, dimensions=DIMENSIONS)
    assert (await points._wire.shape(PREFIX + name)).indexes == INDEXES.keys()


@pytest.mark.slow
async def test_many_may_prepare_the_same_copy_at_once(points, name):
    await asyncio.gather(*(points.prepare(name, dimensions=DIMENSIONS) for _ in range(6)))
    assert (await points.index_names()).count(name) == 1
    await points.put(name, [point(1)])
    assert await digests(points, name) == told([point(1)])


@pytest.mark.slow
async def test_the_collections_of_others_are_nobodys_copies(points, copy):
    theirs = f"theirs-{copy}"
    await points._wire.create(theirs, dimensions=3)
    try:
        copies = await points.index_names()
        assert copy in copies
        assert not any("theirs" in one for one in copies)
    finally:
        await points._wire.remove(theirs)


async def test_a_server_that_would_pass_over_versions_is_given_nothing(shim):
    shim.start("--version", "1.15.5")
    points = open_qdrant(shim.url)
    with pytest.raises(
        BackendUnavailable, match=r"Qdrant 1\.15 is too old: an index needs 1\.16 or newer; install a newer"
    ):
        await points.prepare("one", dimensions=DIMENSIONS)
    assert await points.index_names() == []
    await points.close()


async def versioned(version):
    """Check a server that states this version."""
    async with stranger(http(json.dumps({"title": TITLE, "version": version, "commit": "0"}))) as url:
        points = open_qdrant(url)
        try:
            await points._wire.check_version()
        finally:
            await points.close()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("version", ["1.16.0", "1.16.0-dev", "1.20.1", "2.0.0", "10.1", "1.100"])
async def test_new_versions_are_accepted(version):
    await versioned(version)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("version", ["1.15.5", "1.9.16", "0.99.0", "1.1", "1.2.16"])
async def test_old_versions_are_refused(version):
    with pytest.raises(BackendUnavailable, match="too old"):
        await versioned(version)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("version", ["", "latest", "1", "1.x", "v1.16.0", "1" * 5000])
async def test_unknown_versions_are_refused(version):
    with pytest.raises(BackendUnavailable, match="is not Qdrant"):
        await versioned(version)


async def test_the_server_of_these_tests_is_new_enough(points):
    await points._wire.check_version()
