"""Every path that shows something is crawled as everybody, for what is not theirs: words, ids and counts."""

import json
import re
from collections import defaultdict
from typing import Any

import pytest

from operations.village import EVERYWHERE, STORY
from roomlore.http.idempotency import REPLAYS
from roomlore.http.limits import EVENTS
from surfaces.http.calling import Caller, mostly_slow
from surfaces.http.conftest import Served

#: What is asked of every read that is asked for by POST.
ASKED: dict[str, dict[str, Any]] = {
    "/v1/search": {"question": EVERYWHERE, "limit": 100},
    "/v1/search/similar": {"question": EVERYWHERE, "limit": 100},
    "/v1/ask": {"question": f"what was said in the {EVERYWHERE}?"},
    "/v1/memories/search": {"question": EVERYWHERE, "limit": 1_000},
    "/v1/agents/{agent}/memories": {"topic": EVERYWHERE, "limit": 1_000},
    "/v1/agents/{agent}/experiences": {"topic": EVERYWHERE, "limit": 1_000},
    "/v1/agents/{agent}/memory-section": {"room": "square", "topic": EVERYWHERE, "explain": True},
    "/v1/rooms/{room}/context": {"budget": 100_000},
    "/v1/rooms/{room}/memory-section": {"topic": EVERYWHERE, "budget": 100_000},
    "/v1/rooms/{room}/decision": {},
}
#: A member of each closed room, one of both, one of none, and an agent. Others hear what one of these hears.
SOME = ("ana", "cy", "dee", "eve", "pip")
#: In a memory that is for one agent alone.
PIPS_OWN = "pipword"
#: These may be asked of one room, too.
IN_A_ROOM = ("/v1/search", "/v1/search/similar", "/v1/ask")
#: These are about a message: the last, whispers, one in a closed room.
ABOUT = ("last", "m8", "m9", "m10", "m4")


@pytest.fixture
async def told(served: Served) -> Served:
    """The village, disentangled, with memories of what was said, some of them an agent's own."""
    await served.app.drain()
    for one in STORY:
        await served.operator.post(
            "/v1/memories", {"content": f"known of {one.body}", "sources": [one.external_id]}
        )
    pip = await served.principal("pip")
    await pip.post("/v1/memories", {"content": f"{EVERYWHERE} {PIPS_OWN}"})
    await pip.post("/v1/memories", {"content": f"{EVERYWHERE} is round", "sources": ["m1"]})
    return served


async def crawl(caller: Caller, seeds: dict[str, set[str]]) -> dict[str, str]:
    """Return everything that each path shows somebody, with whatever could stand in the place of each parameter."""
    shown = defaultdict[str, str](str)
    for path, item in caller.api.openapi()["paths"].items():
        # Events have no end; who is told which has tests of its own.
        if "get" not in item or path == EVENTS:
            continue
        query = "?room=square" if path.endswith("/decision") else ""
        for filled in places(path, seeds):
            response = await caller("GET", filled + query)
            if response.status_code == 200:
                shown[path] += response.text
    for (method, path), keeping in REPLAYS.items():
        if keeping != "read":
            continue
        for filled in places(path, seeds):
            for body in bodies(path, seeds["room"]):
                response = await caller(method, filled, body)
                shown[path if response.status_code == 200 else "refused"] += response.text
    return shown


def places(path: str, seeds: dict[str, set[str]]) -> list[str]:
    """Return a path with each word that could stand in the place of its parameter."""
    names = re.findall(r"\{(\w+)\}", path)
    assert len(names) <= 1, path
    return [path.replace(f"{{{name}}}", word) for name in names for word in sorted(seeds[name])] or [path]


def bodies(path: str, rooms: set[str]) -> list[dict[str, Any]]:
    """Return what is asked of a read."""
    asked = [ASKED[path]]
    if path in IN_A_ROOM:
        asked += [ASKED[path] | {"room": room} for room in sorted(rooms)]
    if path.startswith("/v1/rooms/"):
        asked += [ASKED[path] | {"trigger": word} for word in ABOUT]
    return asked


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
            else one.room.visibility != "members"
            or name in {member.author.account_id for member in one.room.members}
        )
    }


async def ids_of(served: Served) -> dict[str, str]:
    """Return the id of each message by its external id."""
    rooms = await served.operator.get("/v1/rooms")
    pages = [await served.operator.get(f"/v1/rooms/{room['id']}/messages") for room in rooms]
    return {one["external_id"]: one["id"] for page in pages for one in page["messages"]}


@pytest.mark.parametrize("name", mostly_slow(SOME, "pip"))
async def test_nobody_is_shown_anything_that_is_not_theirs(told: Served, name: str) -> None:
    seeds, ids = await everything(told), await ids_of(told)
    by_key, heard = await told.principal(name), heard_by(name)

    by_path = await crawl(by_key, seeds)

    shown = "\n".join(by_path.values())
    assert {word for word in heard if ids[word] in shown} == heard
    assert (PIPS_OWN in shown) == (name == "pip")
    # An agent is answered by all of them.
    assert name != "pip" or set(ASKED) <= set(by_path)
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
    bo = await told.principal("bo")
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


def test_the_crawl_asks_every_read() -> None:
    assert set(ASKED) == {path for (_, path), keeping in REPLAYS.items() if keeping == "read"}


def test_the_crawl_knows_every_parameter_of_the_paths(served: Any) -> None:
    named = {
        name
        for path, item in served.api.openapi()["paths"].items()
        if "get" in item
        for name in re.findall(r"\{(\w+)\}", path)
    }

    assert named == {"room", "participant", "agent", "message", "conversation", "memory", "receipt"}


@pytest.mark.slow
async def test_an_answer_for_a_room_holds_what_everybody_there_may_read_and_says_so(told: Served):
    """Dee hears the attic, and asks in the square; so does an operator, with whose key a bot may read."""
    for caller in (await told.principal("dee"), told.operator):
        asked = {"question": "what of village word5?", "room": "square"}
        open_to_all = await caller.post("/v1/ask", asked)
        beyond = await caller.post("/v1/ask", asked | {"private": True})
        assert (open_to_all["postable"], beyond["postable"]) == ("room", "nowhere")
        assert "word5" not in json.dumps(open_to_all["sources"]) + open_to_all["answer"]
        assert "word5" in beyond["answer"]
        found = await caller.post("/v1/search", {"question": "village", "room": "square", "limit": 100})
        assert found["postable"] == "room"
        assert "word10" not in json.dumps(found["hits"])
    for path in ("/v1/rooms/square/context", "/v1/rooms/square/context?private=true"):
        read = await told.operator.get(path)
        assert (read["postable"] == "nowhere", "word10" in read["text"]) == (("private" in path),) * 2
