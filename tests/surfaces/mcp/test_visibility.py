"""Everything that can be asked for is asked for as everybody, for what is not theirs: words, ids, names and errors."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from operations.village import EVERYWHERE, PEOPLE, STORY
from roomlore.operations import App
from surfaces.mcp.conftest import KeyOf
from surfaces.mcp.speaking import beside

#: Of their form, and nobody's.
NOBODYS = "01990000-0000-7000-8000-000000000000"
ROOM_TEMPLATE = ResourceTemplateReference(uri="room://{room}/timeline")
CLOSED = ("attic", "cellar")
#: A member of each closed room, one of both, one of none, and an agent. Others hear what one of these hears.
SOME = ("ana", "cy", "dee", "eve", "pip")
#: Of the attic, when what the sensitive memory rests on was said.
MEMBERS = {"ana", "bo", "dee"}
#: By what was called and the word that named something: that word, and how it was refused.
Refusals = dict[tuple[str, ...], tuple[str, str]]


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


def sees_room(name: str, room: str) -> bool:
    return room not in CLOSED or any(
        name in {member.author.account_id for member in one.room.members}
        for one in STORY
        if one.room.name == room
    )


class Everything:
    """All ids and names there are, as the operator knows them."""

    rooms: Mapping[str, str]
    messages: Mapping[str, str]
    memories: Mapping[str, str]

    @classmethod
    async def of(cls, app: App) -> "Everything":
        one, operator = cls(), app.operator
        one.rooms = {room.name: str(room.id) for room in await app.rooms(operator)}
        one.messages = {
            said.external_id: str(said.id)
            for room in one.rooms
            for said in await app.messages(operator, room, limit=100)
        }
        one.memories = {
            memory.content: str(memory.id) for memory in await app.memories.all(operator, limit=1000)
        }
        return one


def questions(seeds: Everything) -> list[tuple[str, dict[str, Any], str]]:
    """Return every call of a tool that names something, with the word by which it does."""
    rooms = [*seeds.rooms, *seeds.rooms.values(), NOBODYS]
    said = [*seeds.messages, *seeds.messages.values(), NOBODYS]
    calls: list[tuple[str, dict[str, Any], str]] = []
    calls += [("room_context", {"room": room}, room) for room in rooms]
    calls += [("room_read", {"room": room, "limit": 200}, room) for room in rooms]
    calls += [("room_read", {"room": "square", "before": word}, word) for word in said]
    calls += [("message_read", {"room": "square", "message": word}, word) for word in said]
    calls += [("people_list", {"room": room, "limit": 200}, room) for room in rooms]
    calls += [("room_context", {"room": "square", "message": word}, word) for word in said]
    calls += [("room_search", {"question": EVERYWHERE, "room": room, "limit": 20}, room) for room in rooms]
    calls += [("ask", {"question": f"what is known of {EVERYWHERE}?", "room": room}, room) for room in rooms]
    calls += [("memory_search", {"room": room, "limit": 20}, room) for room in rooms]
    calls += [("room_digest", {"room": room, "since": "2000-01-01"}, room) for room in rooms]
    calls += [("memory_search", {"about": name}, name) for name in (*PEOPLE, NOBODYS)]
    calls += [("memory_provenance", {"memory": word}, word) for word in [*seeds.memories.values(), NOBODYS]]
    calls += [("remember", {"content": "x", "sources": [word]}, word) for word in said[len(seeds.messages) :]]
    return calls


WIDE = [
    ("room_list", {"limit": 200}),
    ("people_list", {"limit": 200}),
    ("room_search", {"question": EVERYWHERE, "limit": 20, "budget": 16_000}),
    ("room_search", {"question": "wordsens1 wordsens4", "limit": 20}),
    ("ask", {"question": f"what was said in the {EVERYWHERE}?", "budget": 16_000}),
    ("memory_search", {"limit": 20, "budget": 16_000}),
    ("memory_search", {"question": f"known of {EVERYWHERE}", "limit": 20}),
    ("memory_search", {"question": "wordsens1 wordsens4"}),
]


async def outcome(call: Any) -> tuple[bool, str]:
    """Return whether a call told something, and all of what it said."""
    try:
        result = await call
    except MCPError as error:
        return False, f"{error.code} {error.message} {error.data}"
    return not getattr(result, "is_error", False), result.model_dump_json()


async def crawl(client: Client, seeds: Everything) -> tuple[str, Refusals]:
    """Return everything that is told, and of each call that was refused what it named and how it was refused."""
    told: list[str] = []
    refused: Refusals = {}

    async def note(call: Any, word: str, *what: str) -> None:
        is_told, text = await outcome(call)
        if is_told:
            told.append(text)
        else:
            refused[*what, word] = (word, text)

    for name, given in WIDE:
        await note(client.call_tool(name, given), "", name, str(given))
    for name, given, word in questions(seeds):
        await note(client.call_tool(name, given), word, name, *given)
    for room in [*seeds.rooms, *seeds.rooms.values(), NOBODYS]:
        await note(client.read_resource(f"room://{room}/timeline"), room, "timeline")
        await note(client.get_prompt("catch_up", {"room": room}), room, "catch_up")
        since = {"room": room, "since": "2020-01-01"}
        await note(client.get_prompt("catch_up", since), room, "catch_up since")
    for memory in [*seeds.memories.values(), NOBODYS]:
        await note(client.read_resource(f"memory://{memory}"), memory, "memory")
    for begun in ("", "a", "att", "c", "cellar", "x"):
        for ref in (ROOM_TEMPLATE, PromptReference(name="catch_up")):
            await note(client.complete(ref, {"name": "room", "value": begun}), begun, "complete")
    for listing in (
        client.list_resources, client.list_resource_templates, client.list_tools, client.list_prompts
    ):  # fmt: skip
        await note(listing(), "", listing.__name__)
    return "\n".join(told), refused


@asynccontextmanager
async def reading_as(app: App, key_of: KeyOf, name: str) -> AsyncGenerator[Client]:
    """A client that reads with somebody's key."""
    acting = await app.sign_in(await key_of(name))
    async with beside(acting, allow_writes=True) as client:
        yield client


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SOME)
async def test_nobody_is_told_what_is_not_theirs_nor_that_it_exists(
    told: App, key_of: KeyOf, name: str
) -> None:
    seeds, heard = await Everything.of(told), heard_by(name)

    async with reading_as(told, key_of, name) as client:
        shown, refused = await crawl(client, seeds)

    assert {one for one in heard if seeds.messages[one] in shown} == heard
    everything = shown + "".join(text for _, text in refused.values())
    for one in STORY:
        memory = seeds.memories[f"known of {one.body}"]
        if one.external_id in heard:
            assert memory in shown
            continue
        assert not re.search(rf"\b{one.body.split()[1]}\b", everything), one.external_id
        assert seeds.messages[one.external_id] not in shown
        assert memory not in shown
    for room in CLOSED:
        assert (seeds.rooms[room] in shown) == sees_room(name, room)
        assert bool(re.search(rf"\b{room}\b", shown)) == sees_room(name, room)
    # What is sensitive is for those who were members; the words that were asked for are repeated by no answer.
    # Whoever said it was there: speaking in an open room begins a stay.
    assert ("wordsens1" in everything) == (name == "bo")
    assert ("wordsens4" in everything) == (name in MEMBERS)
    assert ("wordsens4" in shown) == (name in MEMBERS)
    assert_refused_alike(refused, hidden_from(name, seeds))


def hidden_from(name: str, seeds: Everything) -> set[str]:
    """Return every name and id of what somebody may not know of."""
    heard = heard_by(name)
    hidden = {room for room in CLOSED if not sees_room(name, room)}
    hidden |= {seeds.rooms[room] for room in hidden}
    hidden |= {word for one in seeds.messages if one not in heard for word in (one, seeds.messages[one])}
    hidden |= {seeds.memories[f"known of {one.body}"] for one in STORY if one.external_id not in heard}
    return hidden


def assert_refused_alike(refused: Refusals, hidden: set[str]) -> None:
    """Fail where something hidden was not refused, or not in the words for what never was."""
    met = set[str]()
    for (*what, word), (_, text) in refused.items():
        if word not in hidden:
            continue
        met.add(word)
        assert text.replace(word, "…") == refused[*what, NOBODYS][1].replace(NOBODYS, "…"), (what, word)
    assert met == hidden


@pytest.mark.slow
async def test_the_operator_is_told_everything(told: App, key_of: KeyOf) -> None:
    seeds = await Everything.of(told)

    async with reading_as(told, key_of, "operator") as client:
        shown, _ = await crawl(client, seeds)

    assert all(one in shown for one in (*seeds.messages.values(), *seeds.memories.values()))


@pytest.mark.slow
async def test_what_a_wish_keeps_from_recall_is_nowhere(app: App) -> None:
    from ingest.stories import at, author, message, room  # noqa: PLC0415  this test alone tells a story of its own

    ana, bo, where = author("ana"), author("bo"), room("yard")
    said = ["my locker code is 4412-9981", "noted", "please forget that"]
    for number, (who, body) in enumerate(zip((ana, bo, ana), said, strict=True)):
        await app.ingest(message(f"w{number}", body, author=who, room=where, sent_at=at(number)))
    await app.drain()

    async with beside(app) as client:
        shown, _ = await crawl(client, await Everything.of(app))

    assert "noted" in shown
    assert "4412-9981" not in shown
    # As it was said it is read elsewhere, by people.
    assert any("4412" in one.body for one in await app.messages(app.operator, "yard"))


async def test_an_answer_for_a_room_holds_what_everybody_there_may_read_and_says_so(told: App):
    asked = {"question": "what of village word5?", "room": "square"}
    async with beside(told.impersonate(await told.viewer("dee"))) as client:
        open_to_all = (await client.call_tool("ask", asked)).structured_content
        beyond = (await client.call_tool("ask", asked | {"private": True})).structured_content
        anywhere = (await client.call_tool("ask", {"question": asked["question"]})).structured_content
    assert [one["postable"] for one in (open_to_all, beyond, anywhere)] == ["room", "nowhere", "nowhere"]
    assert "word5" not in open_to_all["answer"] + open_to_all["text"]
    assert "word5" in beyond["answer"]
    assert "do not post it" in " ".join(anywhere["notes"])
