"""What a client returns is what the App returns, record for record, for everybody."""

import asyncio
import os
import re
import sys
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pydantic_core
import pytest
from psycopg.conninfo import conninfo_to_dict

from client.conftest import Village
from client.test_page import examples
from operations.village import BO, EVERYWHERE, SQUARE, say
from roomlore.client import Rooms
from roomlore.context.limits import ExpansionLimits
from roomlore.db.cluster import Cluster
from roomlore.domain import paging
from roomlore.domain.errors import RoomloreError
from roomlore.domain.records import Viewer
from roomlore.search.query_parser import Filters
from surfaces.http.calling import mostly_slow

NARROW = ExpansionLimits(min_recent=1, max_messages=3, gap=timedelta(minutes=5), near=5)
#: Trust fades while it is asked for.
DIGITS = 5


async def outcome(call: Any) -> Any:
    """Return what a call comes to, as JSON, so that a list is like a tuple; its class where that is told by it."""
    try:
        found = await call
    except RoomloreError as error:
        return type(error).__name__, str(error), vars(error)
    return type(found).__name__, rounded(pydantic_core.to_jsonable_python(found, inf_nan_mode="null"))


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def reads(app: Rooms, viewer: Viewer) -> dict[str, Any]:
    """Return every read that no declaration describes, of what is there, is hidden from some, and is not there.

    tests/conformance has the declared ones.
    """
    calls: dict[str, Any] = {
        "rooms": app.rooms(viewer),
        "participants": app.participants(viewer),
        "participants of a room": app.participants(viewer, room="attic"),
        "messages": app.messages(viewer, "square"),
        "messages of a room": app.messages(viewer, "attic", limit=3),
        "messages before": app.messages(viewer, "attic", limit=3, before="m11"),
        "messages without what is wished away": app.messages(viewer, "square", apply_restrictions=True),
        "messages of none": app.messages(viewer, "nowhere"),
        "none": app.messages(viewer, "square", limit=0),
        "threads": app.threads(viewer, "cellar", limit=2),
        "threads before": app.threads(viewer, "cellar", before="m7"),
        "timeline": app.conversations.timeline(viewer, "attic", limit=2),
        "timeline before": app.conversations.timeline(viewer, "square", before="m3"),
        "context": app.context(viewer, "square"),
        "context, narrow": app.context(viewer, "attic", "m11", budget=60, limits=NARROW),
        "search": app.search(viewer, EVERYWHERE, limit=20),
        "search, narrowed": app.search(viewer, "word4", room="attic", filters=Filters(by=["ana"])),
        "search in time": app.search(viewer, "word1", as_of="m3", filters=Filters(since="2024-01-01")),
        "similar": app.similar(viewer, "word3?"),
        "ask": app.ask(viewer, "what is word5?", quote=True),
        "ask for nothing that is known": app.ask(viewer, "when does the ferry leave?"),
        "ask in a room": app.ask(viewer, "word12", room="cellar"),
        "conversation": app.conversations.read(viewer, "message:m4"),
        "log of nonsense": app.log(viewer, subject="?"),
    }
    return calls


@pytest.mark.parametrize("name", mostly_slow(["operator", "pip", "cy"], "pip"))
async def test_what_is_read_is_the_same_record_for_record(both: Village, name) -> None:
    await remember(both)
    here, there = await both.here(name), await both.there(name)

    found = reads(here, here.principal), reads(there, here.principal)
    told = {what: (await outcome(call), await outcome(found[1][what])) for what, call in found[0].items()}

    assert {what: one for what, one in told.items() if one[0] != one[1]} == {}


@pytest.mark.parametrize("name", mostly_slow(["ana", "eve"]))
async def test_an_operator_reads_as_others_the_same_way(both: Village, name) -> None:
    await remember(both)
    here, there = await both.here("operator"), await both.there("operator")
    viewer = await here.viewer(name)
    assert await there.viewer(name) == viewer

    found = reads(here, viewer), reads(there, viewer)
    told = {what: (await outcome(call), await outcome(found[1][what])) for what, call in found[0].items()}

    assert {what: one for what, one in told.items() if one[0] != one[1]} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        ("memories.all", {"status": "deprecated"}, "statuses"),
        ("memories.remember", {"ocurred_at": "2026-01-31"}, "occurred_at"),
        ("agents.memories", {"kind": "insight"}, "kinds"),
    ],
)
async def test_an_unknown_keyword_is_refused_and_not_dropped(both: Village, call, given, meant) -> None:
    here, there = await both.here("operator"), await both.there("operator")
    for app in (here, there):
        part, name = call.split(".")
        method, viewer = getattr(getattr(app, part), name), here.principal
        positional = {"all": [viewer], "remember": ["so"], "memories": [viewer, "pip"]}[name]
        with pytest.raises(TypeError, match=rf"did you mean '{meant}'\? it knows \w+, "):
            await method(*positional, **given)


async def remember(village: Village) -> None:
    """Have something remembered: by everybody's leave, and by one of them."""
    app = village.app
    kept = await app.memories.remember(
        "The stairs of word4 are steep.", sources=["m4"], about=["ana"], tags=["attic"]
    )
    await app.memories.correct(str(kept.id), "The ladder of word4 is broken.")
    pip = await village.here("pip")
    await pip.memories.remember("Bo likes stairs.", kind="insight", sources=["m1"], about=["bo"])


@pytest.mark.slow
async def test_the_first_example_of_the_page_answers_from_a_database_too(
    both: Village, cluster: Cluster
) -> None:
    await both.app.ingest(say(70, BO, SQUARE, body="There is flour again on Friday."))
    code, changed = re.subn(
        r"roomlore\.open\(\s*\"https:.*?\)", "roomlore.open()", examples()[0], flags=re.DOTALL
    )
    assert changed == 1
    database = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    asked = {"ROOMLORE_DATABASE_URL": database, "ROOMLORE_KEY": await both.key("ana")}
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", code,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | asked,
    )  # fmt: skip
    out, err = await asyncio.wait_for(done.communicate(), 120)

    assert done.returncode == 0, err.decode()
    assert out.decode().splitlines()[:2] == ["square", "attic"]
    assert "flour again on Friday" in out.decode()


async def test_long_texts_end_a_listing_here_and_there_alike(
    both: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", 40)
    here, there = await both.here("operator"), await both.there("operator")
    for limit in (2, 3, 100):
        found = await here.messages(here.principal, "attic", limit=limit)
        assert 0 < len(found) < 4
        assert await there.messages(there.principal, "attic", limit=limit) == found
    first = (await here.messages(here.principal, "attic"))[0]
    earlier = await here.messages(here.principal, "attic", before=str(first.id))
    assert earlier
    assert await there.messages(there.principal, "attic", before=str(first.id)) == earlier
