"""Everybody follows every link there is and guesses every address there could be, and is shown nothing that is not theirs.

Words, ids and counts: of whispers, of rooms for others, of sensitive memories, of wishes, of what was erased.
"""

import html
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import psycopg
import pytest

from conftest import OpenApp
from operations.village import ANA, EVERYWHERE, PEOPLE, SQUARE, STORY, say, village
from roomlore.domain.errors import RoomloreError
from roomlore.domain.incoming import IncomingMessage
from roomlore.operations import App
from roomlore.web.site import PAGE_GROUPS
from surfaces.web.conftest import Visitor, visiting

#: Streams have no end; who is told of which event has tests of its own, as have the tools of the MCP.
ENDLESS = {"/r/{room}/events"}
#: What is asked of pages in their addresses, with what may stand there.
ASKED = {
    "/r/{room}": {"at": "message", "author": "person"},
    "/m": {"room": "room", "about": "person", "by": "person", "seen_by": "person", "before": "memory"},
    "/search": {"room": "room", "as_of": "message"},
    "/people": {"as": "person"},
}
#: Of addresses that differ in what they ask alone, so many are looked at.
OF_ONE_PATH, AT_MOST = 12, 300
#: What recalls shows nothing that was wished to be forgotten.
RECALLING = ("/search", "/x/", "/m")
# Of letters that no id has: what is random must not look like it.
FORGOTTEN = "wolfy4412"
WISHED = [
    say(20, ANA, SQUARE, body=f"{EVERYWHERE} my wolfram account is {FORGOTTEN}"),
    say(21, ANA, SQUARE, body="please forget that"),
]
GONE = ("m11", "m12")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What there is, by the ids of the database."""

    app: App
    #: By kind, as parts of paths are called.
    ids: Mapping[str, Sequence[str]]
    #: Of each message by its external id, as the next.
    messages: Mapping[str, str]
    rooms: Mapping[str, str]
    #: Which messages are in which conversation.
    talks: Mapping[str, frozenset[str]]
    #: Sources and words of memories.
    memories: Mapping[str, str]


async def built(app: App, admin: psycopg.AsyncConnection) -> World:
    """Tell a story in which there is something of everything to hide."""
    await village(app)
    assert (await app.ingest_batch(WISHED)).skipped == []
    for one in STORY[:10]:
        await app.memories.remember(f"memo{one.external_id[1:]}x", sources=[one.external_id])
    await app.drain()
    for conversation in await app.conversations.all(app.operator, limit=1000):
        await app.conversations.rename(str(conversation.id), f"topic{str(conversation.id)[-6:]}")
    spoken = (await app.conversations.all(app.operator, "square"))[0]
    await app.conversations.set_sensitivity(str(spoken.id), "sensitive")
    await app.erasure.redact(GONE[0])
    await app.erasure.message(GONE[1])

    async def column(query: str) -> list[Any]:
        return await (await admin.execute(query, [app.org_id])).fetchall()

    talks: defaultdict[str, set[str]] = defaultdict(set)
    for conversation, message in await column(
        "select conversation_id, message_id from conversation_messages where org_id = %s"
    ):
        talks[str(conversation)].add(str(message))
    messages = dict(await column("select external_id, id::text from messages where org_id = %s"))
    rooms = dict(await column("select name, id::text from rooms where org_id = %s"))
    memories = dict(await column("select content, id::text from memories where org_id = %s"))

    def all_of(table: str) -> str:
        return f"select id::text from {table} where org_id = %s"

    tables = {
        "person": "participants",
        "conversation": "conversations",
        "wish": "privacy_requests",
        "receipt": "receipts",
    }
    ids = {kind: [one for (one,) in await column(all_of(table))] for kind, table in tables.items()}
    ids |= {"message": [*messages.values()], "room": [*rooms.values()], "memory": [*memories.values()]}
    # Who is the author of holes is nobody.
    ids["person"].remove(str(app.org_id))
    assert all(ids.values()), ids
    return World(app=app, ids=ids, messages=messages, rooms=rooms, talks=talks, memories=memories)


def heard_by(name: str) -> set[str]:
    """Return the external ids of what somebody may read, by the rules as a person would put them."""
    return {one.external_id for one in (*STORY, *WISHED) if _hears(name, one)}


def _hears(name: str, one: IncomingMessage) -> bool:
    if one.kind == "whisper":
        return name in {one.author.account_id, *(who.account_id for who in one.audience)}
    members = {member.author.account_id for member in one.room.members}
    return one.room.visibility != "members" or name in members


async def forbidden(world: World, name: str) -> dict[str, str]:
    """Return what must not be shown to somebody, as patterns, and what each would betray."""
    app, viewer, heard = world.app, await world.app.viewer(name), heard_by(name)
    hidden = {external: key for external, key in world.messages.items() if external not in heard}
    found = {key: f"message {external}" for external, key in hidden.items()}
    found |= {rf"\bword{external[1:]}\b": f"words of {external}" for external in {*hidden, *GONE}}
    seen = {room.name for room in await app.rooms(viewer)}
    for room, key in world.rooms.items():
        if room not in seen:
            found |= {key: f"room {room}", rf"\b{room}\b": f"the name of {room}"}
    known = {str(one) for person in await app.participants(viewer) for one in person.accounts}
    found |= {key: "a person" for key in world.ids["person"] if key not in known}
    remembered = {str(one.id) for one in await app.memories.all(viewer, limit=1000)}
    for content, key in world.memories.items():
        if key not in remembered:
            found |= {key: f"memory {content}", rf"\b{re.escape(content)}\b": f"words of memory {content}"}
    for key, said in world.talks.items():
        if said & set(hidden.values()):
            found |= {key: "a conversation", f"topic{key[-6:]}": "what a conversation is called"}
    found |= dict.fromkeys(world.ids["receipt"], "a receipt")
    if name != "ana":
        found |= dict.fromkeys(world.ids["wish"], "a wish")
    return found


@dataclass(slots=True)
class Crawl:
    """What one visitor was shown, by address."""

    visitor: Visitor
    shown: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    async def ask(self, address: str) -> tuple[int, str]:
        """Return status and text of an address, which is asked for once."""
        if address not in self.shown:
            told = await self.visitor.get(address)
            assert told.status_code < 500, (address, told.text[:300])
            self.shown[address] = (told.status_code, told.text)
        return self.shown[address]

    async def follow(self) -> None:
        """Follow every link of every page; each leads somewhere."""
        left, of_path = deque(["/"]), Counter[str]()
        while left and len(self.shown) < AT_MOST:
            address = left.popleft()
            of_path[address.partition("?")[0]] += 1
            if address in self.shown or of_path[address.partition("?")[0]] > OF_ONE_PATH:
                continue
            status, text = await self.ask(address)
            assert status == 200, (address, status)
            left += links(text)


def links(page: str) -> Iterator[str]:
    """Give every address that a page links to or loads parts from."""
    for found in re.findall(r'href="(/[^"]*)"', page):
        address = html.unescape(found).partition("#")[0]
        if not address.startswith("/static/"):
            yield address


def guesses(world: World) -> Iterator[tuple[str, str]]:
    """Give every address that somebody could think of who knows every id, with what was put where."""
    paths = [route.path for kind in PAGE_GROUPS for route in kind.routes if "GET" in (route.methods or ())]
    for path in paths:
        if path in ENDLESS:
            continue
        names = re.findall(r"\{(\w+)\}", path)
        # A new kind of thing has to be known here, too.
        assert set(names) <= set(world.ids), path
        plain = path.replace(".json", "")
        for word in world.ids[names[0]] if names else [""]:
            yield (path.replace(f"{{{names[0]}}}", word) if names else path), word
        for asked, kind in ASKED.get(plain, {}).items():
            here = path.replace("{room}", world.rooms["square"])
            more = "&q=village" if plain == "/search" else ""
            for word in world.ids[kind]:
                yield f"{here}?{asked}={word}{more}", word


def without(text: str, *words: str) -> str:
    """Return a text without what was asked, and without what is of each answer alone."""
    for word in words:
        for written in {word, quote(word), html.escape(word)}:
            text = text.replace(written, "")
    return re.sub(r'Request [0-9a-f-]{36}|"request_id":"[^"]*"|name="token" value="[^"]*"', "", text)


def betrayed(crawl: Crawl, patterns: Mapping[str, str]) -> list[str]:
    """Return what was shown that must not be, and where."""
    found: list[str] = []
    for address, (_, text) in crawl.shown.items():
        asked = unquote(address)
        for pattern, what in patterns.items():
            # What was asked may be repeated; that it is answered as if it were not there is looked at elsewhere.
            if not re.search(pattern, asked) and re.search(pattern, text):
                found.append(f"{what} at {address}")
        if address.startswith(RECALLING) and FORGOTTEN not in asked and FORGOTTEN in text:
            found.append(f"what was to be forgotten at {address}")
    return found


def some_at_first(first: str) -> list[Any]:
    """Return everybody; the fast tests have one of them."""
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in PEOPLE if name != first)]


async def key_of(app: App, name: str) -> str:
    role = "agent" if name == "pip" else "member"
    return (await app.keys.create(role, name="a key", participant=name)).key


@pytest.mark.slow
@pytest.mark.parametrize("name", some_at_first("bo"))
async def test_nobody_is_shown_what_is_not_theirs_by_any_link(
    app: App, admin: psycopg.AsyncConnection, name: str
) -> None:
    world = await built(app, admin)
    async with visiting(app, await key_of(app, name)) as visitor:
        crawl = Crawl(visitor)
        await crawl.follow()
        words = {f"/search?q={word}" for word in (EVERYWHERE, "word4", "memo8x", "attic", FORGOTTEN)}
        for address in words:
            await crawl.ask(address)
        pages = list(crawl.shown)
        for address in pages:
            path, _, asked = address.partition("?")
            twin = "/index.json" if path == "/" else f"{path}.json"
            if not path.endswith((".json", "/lines", "/signin")):
                await crawl.ask(f"{twin}?{asked}" if asked else twin)
    assert len(pages) > 12, name
    assert betrayed(crawl, await forbidden(world, name)) == [], name
    # It is looked where there is something.
    everything = "".join(text for _, text in crawl.shown.values())
    heard = [one for one in heard_by(name) if one not in GONE]
    assert [one for one in heard if world.messages[one] not in everything] == [], name


@pytest.mark.slow
@pytest.mark.parametrize("name", some_at_first("eve"))
async def test_nobody_is_shown_what_is_not_theirs_at_any_address_there_could_be(
    app: App, admin: psycopg.AsyncConnection, name: str
) -> None:
    world = await built(app, admin)
    patterns = await forbidden(world, name)
    async with visiting(app, await key_of(app, name)) as visitor:
        crawl = Crawl(visitor)
        for address, word in guesses(world):
            told = await crawl.ask(address)
            if word in patterns:
                # Its neighbour, which nothing has: ids tell of a time.
                made_up = word[:-1] + ("0" if word[-1] != "0" else "1")
                other = await crawl.ask(address.replace(word, made_up))
                assert told[0] == other[0], (name, address)
                assert without(told[1], word) == without(other[1], made_up), (name, address)
    assert betrayed(crawl, patterns) == [], name


@pytest.mark.slow
async def test_whoever_looks_as_somebody_is_shown_no_more_than_they_are(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    world = await built(app, admin)
    async with visiting(app) as visitor:
        for name in ("eve", "cy"):
            viewer = (await app.viewer(name)).participant_id
            crawl = Crawl(visitor)
            await crawl.ask(f"/?as={viewer}")
            left = deque(links(crawl.shown[f"/?as={viewer}"][1]))
            while left and len(crawl.shown) < 40:
                address = left.popleft()
                if address in crawl.shown or f"as={viewer}" not in address:
                    continue
                status, text = await crawl.ask(address)
                assert status == 200, address
                left += links(text)
            assert len(crawl.shown) > 12
            for address, (_, text) in crawl.shown.items():
                here = address.partition("?")[0]
                if not here.endswith((".json", "/lines", "/events")):
                    # One way back to oneself, and to what is nobody's view.
                    alone = {link for link in links(text) if not re.search(r"[?&]as=", link)}
                    assert alone == {"/ops", here}, here
            assert betrayed(crawl, await forbidden(world, name)) == []


# As if it had never been said


PAGES = (
    "/",
    "/people",
    "/m",
    "/search?q=village",
    "/search?q=word4",
    "/receipts",
    "/r/{square}",
    "/r/{attic}",
    "/r/{cellar}",
)


async def looks(app: App, name: str) -> dict[str, str]:
    """Return how pages look to somebody, without ids and without the time of day."""
    rooms = {room.name: str(room.id) for room in await app.rooms(app.operator)}
    found: dict[str, str] = {}
    async with visiting(app, await key_of(app, name)) as visitor:
        people = await visitor.twin("/people.json")
        persons = {
            f"/people/{one['accounts'][0]['account_id']}": f"/people/{one['id']}" for one in people["people"]
        }
        named = {
            path: re.sub(r"\{(\w+)\}", lambda room: rooms.get(room[1], str(uuid4())), path) for path in PAGES
        }
        for path, address in (named | persons).items():
            for tail in ("", ".json"):
                plain, mark, asked = address.partition("?")
                twin = "/index" if plain == "/" and tail else plain
                told = await visitor.get(f"{twin}{tail}{mark}{asked}")
                found[path + tail] = f"{told.status_code} {_plain(told.text)}"
    return found


def _plain(text: str) -> str:
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    text = re.sub(rf"{datetime.now(UTC):%Y-%m-}\d\d[T ][0-9:.]+(Z|\+00:00)?", "NOW", text)
    return re.sub(r'name="token" value="[^"]*"', "", text)


async def remembering(app: App, story: Sequence[IncomingMessage]) -> App:
    assert (await app.ingest_batch(story)).skipped == []
    for one in story:
        await app.memories.remember(f"memo{one.external_id[1:]}x", sources=[one.external_id])
    return app


@pytest.mark.slow
@pytest.mark.parametrize("name", some_at_first("cy"))
async def test_pages_are_those_of_a_database_in_which_the_rest_was_never_said(
    open_app: OpenApp, name: str
) -> None:
    whole = await remembering(await open_app("whole"), STORY)
    heard = heard_by(name)
    part = await remembering(await open_app("part"), [one for one in STORY if one.external_id in heard])
    ours, theirs = await looks(whole, name), await looks(part, name)
    assert set(ours) == set(theirs)
    for path, text in ours.items():
        assert text == theirs[path], path


@pytest.mark.slow
async def test_the_crawl_knows_what_would_be_a_leak(app: App, admin: psycopg.AsyncConnection) -> None:
    world = await built(app, admin)
    patterns = await forbidden(world, "eve")
    async with visiting(app) as operator:
        crawl = Crawl(operator)
        for address in ("/", "/people", "/m", f"/r/{world.rooms['attic']}", "/receipts"):
            await crawl.ask(address)
    told = " ".join(betrayed(crawl, patterns))
    for what in (
        "message m4",
        "words of m4",
        "room attic",
        "the name of attic",
        "memory memo4x",
        "a receipt",
        "a conversation",
    ):
        assert what in told
    with pytest.raises(RoomloreError):
        await app.impersonate(await app.viewer("eve")).conversations.read(await app.viewer("eve"), "nothing")
