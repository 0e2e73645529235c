"""Every path that shows something is crawled as everybody, for what is not theirs: words, ids and counts."""

import json
import re
from collections import defaultdict
from typing import Any

import pytest

from app.village import EVERYWHERE, PEOPLE, STORY
from roomlore.surfaces.http.description import describe
from surfaces.http.calling import Caller
from surfaces.http.conftest import Served

READS = [
    ("/v1/search", {"question": EVERYWHERE, "limit": 100}),
    ("/v1/search/similar", {"question": EVERYWHERE, "limit": 100}),
    ("/v1/ask", {"question": f"what was said in the {EVERYWHERE}?"}),
]


@pytest.fixture
async def told(served: Served) -> Served:
    """The village, untangled, with memories of what was said."""
    await served.app.drain()
    for one in STORY:
        await served.operator.post(
            "/v1/memories", {"content": f"known of {one.body}", "sources": [one.external_id]}
        )
    return served


async def crawl(caller: Caller, seeds: dict[str, set[str]]) -> str:
    """Return everything that all paths show somebody, with whatever could stand in the place of each parameter."""
    shown: list[str] = []
    for path, item in describe(caller.api)["paths"].items():
        if "get" not in item:
            continue
        names = re.findall(r"\{(\w+)\}", path)
        assert len(names) <= 1, path
        words = sorted(seeds[names[0]]) if names else [""]
        query = "?room=square" if path.endswith(("/block", "/decision")) else ""
        for word in words:
            response = await caller("GET", path.replace(f"{{{names[0]}}}", word) + query if names else path)
            if response.status_code == 200:
                shown.append(response.text)
    for path, body in READS:
        shown.append((await caller("POST", path, body)).text)
        shown += [(await caller("POST", path, body | {"room": room})).text for room in seeds["room"]]
    return "\n".join(shown)


async def everything(served: Served) -> dict[str, set[str]]:
    """Return every word that could stand in a path, as the operator knows them."""
    ask, seeds = served.operator, defaultdict[str, set[str]](set)
    rooms = await ask.get("/v1/rooms")
    seeds["room"] = {room["id"] for room in rooms}
    seeds["participant"] = {one["id"] for one in await ask.get("/v1/participants")}
    seeds["agent"] = seeds["participant"]
    for room in rooms:
        said = (await ask.get(f"/v1/rooms/{room['id']}/messages"))["messages"]
        seeds["message"] |= {one["id"] for one in said} | {one["external_id"] for one in said}
    seeds["conversation"] = {one["id"] for one in await ask.get("/v1/conversations")}
    seeds["conversation"] |= {f"message:{word}" for word in seeds["message"]}
    seeds["memory"] = {one["id"] for one in await ask.get("/v1/memories?limit=1000")}
    seeds["receipt"], seeds["key"], seeds["wish"] = {"0199"}, {"0199"}, {"0199"}
    return seeds


def heard_by(name: str) -> set[str]:
    """Return the external ids of what somebody may read, by the rules as a person would put them."""
    return {
        one.external_id
        for one in STORY
        if (
            name in {one.author.account_id, *(who.account_id for who in one.audience)}
            if one.kind == "whisper"
            else one.room.visibility == "open"
            or name in {member.author.account_id for member in one.room.members}
        )
    }


async def ids_of(served: Served) -> dict[str, str]:
    """Return the id of each message by its external id."""
    rooms = await served.operator.get("/v1/rooms")
    pages = [await served.operator.get(f"/v1/rooms/{room['id']}/messages") for room in rooms]
    return {one["external_id"]: one["id"] for page in pages for one in page["messages"]}


@pytest.mark.parametrize("name", PEOPLE)
async def test_nobody_is_shown_anything_that_is_not_theirs(told: Served, name: str) -> None:
    seeds, ids = await everything(told), await ids_of(told)
    by_key, heard = await told.caller(name), heard_by(name)

    shown = await crawl(by_key, seeds)

    assert {word for word in heard if ids[word] in shown} == heard
    for one in STORY:
        if one.external_id in heard:
            continue
        assert ids[one.external_id] not in shown
        assert not re.search(rf"\b{one.body.split()[1]}\b", shown), one.external_id
    for room in await by_key.get("/v1/rooms"):
        assert room["message_count"] == sum(
            one.external_id in heard for one in STORY if one.room.name == room["name"]
        )


async def test_an_operator_who_names_a_viewer_is_shown_what_that_one_is(told: Served) -> None:
    bo = await told.caller("bo")
    for path in (
        "/v1/rooms",
        "/v1/memories",
        "/v1/conversations",
        "/v1/participants",
        "/v1/rooms/attic/messages",
    ):
        theirs, ours = await bo.get(path), await told.operator.get(path, viewer="bo")
        cursors = [value.pop("next") if isinstance(value, dict) else None for value in (theirs, ours)]
        assert cursors == [None, None]
        assert json.dumps(theirs) == json.dumps(ours)


def test_the_crawl_knows_every_parameter_of_the_paths(served: Any) -> None:
    named = {
        name
        for path, item in describe(served.api)["paths"].items()
        if "get" in item
        for name in re.findall(r"\{(\w+)\}", path)
    }

    assert named == {"room", "participant", "agent", "message", "conversation", "memory", "receipt"}
