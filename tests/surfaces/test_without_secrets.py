"""What somebody is shown is byte for byte what it would be if nothing that is hidden from them had ever been said.

The same is told twice: to one database whole, to another without what the viewer may not see. Then both are asked for everything,
by every way in. Nothing is renamed, cut or left out.
"""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from uuid import UUID

import pytest
from mcp.shared.exceptions import MCPError

from ingest.stories import at, author, room
from operations.village import ANA, ATTIC, BO, CY, DEE, EVE, EVERYWHERE, PIP, SQUARE, STORY, say
from roomlore.cli.output import plain
from roomlore.db.cluster import Cluster
from roomlore.domain.ids import lowest_id_at
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.http.application import build
from roomlore.http.limits import RequestLimits
from roomlore.operations import App
from surfaces.http.calling import Caller, Described
from surfaces.http.conftest import described
from surfaces.http.streaming import listening
from surfaces.http.test_visibility import ASKED, bodies, places
from surfaces.mcp.speaking import beside
from surfaces.twins import ASKED_AT, TOLD_AT, World, fated, tell, worlds
from surfaces.web.conftest import Visitor, visiting

__all__ = ["described"]
GUS = author("gus")
#: Gus left it; long after that it was spoken in again.
LOFT = room(
    "loft",
    visibility="members",
    members=(
        IncomingMembership(author=BO, joined_at=at(0)),
        IncomingMembership(author=GUS, joined_at=at(0), left_at=at(19)),
    ),
)
#: Of the same moments as what is hidden, and of the same words.
MORE = [
    say(13, BO, SQUARE, body=f"{EVERYWHERE} ferry leaves at seven"),
    say(14, ANA, ATTIC, body=f"{EVERYWHERE} ferry ferry ferry secretferry"),
    say(15, CY, SQUARE, body=f"{EVERYWHERE} which ferry leaves?", kind="whisper", audience=(BO,)),
    say(16, EVE, SQUARE, body=f"{EVERYWHERE} I live in Porto.", reply_to="m13"),
    say(17, DEE, ATTIC, body=f"{EVERYWHERE} I live in Braga.", reply_to="m14"),
    say(18, PIP, SQUARE, body=f"{EVERYWHERE} the ferry is late", reply_to="m16"),
    replace(say(31, GUS, LOFT, body=f"{EVERYWHERE} I live in Faro."), sent_at=at(18.5)),
    replace(say(32, BO, LOFT, body=f"{EVERYWHERE} so the ferry is yours", reply_to="m31"), sent_at=at(18.6)),
    replace(say(33, BO, LOFT, body=f"{EVERYWHERE} Gus left by ferry"), sent_at=at(900)),
]
#: Several things said at one time, hidden ones before, between and after.
AT_ONCE = [
    replace(say(number, who, where, body=f"{EVERYWHERE} at once {number}", **more), sent_at=at(20))
    for number, who, where, more in (
        (20, ANA, SQUARE, {"kind": "whisper", "audience": (BO,)}),
        (21, BO, SQUARE, {}),
        (22, ANA, ATTIC, {}),
        (23, CY, SQUARE, {"kind": "whisper", "audience": (BO,)}),
        (24, EVE, SQUARE, {}),
        (25, ANA, ATTIC, {}),
    )
]
#: Everybody hears these: they name what only some know of, or answer it.
NAMING = [
    replace(one, sent_at=at(20.5 + number / 10))
    for number, one in enumerate(
        (
            say(
                41, BO, SQUARE, body=f"{EVERYWHERE} ask <@dee> and <@ana> in <#attic> about the ferry",
                mentions=("dee",), reactions=({"emoji": "+1", "count": 3, "by": ["dee", "eve", "cy"]},),
            ),
            say(42, EVE, SQUARE, body=f"{EVERYWHERE} Dee lives in Lisbon now."),
            say(43, EVE, SQUARE, body=f"{EVERYWHERE} as you said", reply_to="m10"),
            say(44, DEE, ATTIC, body=f"{EVERYWHERE} Eve lives in Rome."),
            say(45, EVE, SQUARE, body=f"{EVERYWHERE} I live in Paris."),
            say(46, CY, SQUARE, body=f"{EVERYWHERE} Bo lives in Rome.", kind="whisper", audience=(PIP,)),
            say(47, BO, SQUARE, body=f"{EVERYWHERE} I live in Turin."),
            say(48, BO, ATTIC, body=f"{EVERYWHERE} I live in Oslo."),
        )
    )
]  # fmt: skip
#: What is hidden from most is edited and taken back.
AGAIN = [
    replace(STORY[9], body=f"{EVERYWHERE} word10 otherwise", edited_at=at(21)),
    replace(MORE[2], deleted=True),
    replace(MORE[1], body=f"{EVERYWHERE} the ferry is a secret", edited_at=at(22)),
]
LAST = say(27, BO, SQUARE, body=f"{EVERYWHERE} that is all")
TOLD = [STORY[3], STORY[7], *STORY, *MORE, *AT_ONCE, *NAMING, *AGAIN, LAST]
#: Has come to no room, and said nothing.
STRANGER = "zoe"
VIEWERS = ("zoe", "eve", "pip", "bo", "cy", "gus")
COMMANDS = (
    ["rooms"],
    ["people"],
    ["conversations"],
    ["conversation", "show", "message:m13"],
    ["memories"],
    ["search", "ferry"],
    ["ask", "when does the ferry leave?"],
    ["ask", "what did Dee say about the ferry?"],
    ["people", "dee"],
    ["messages", "square"],
    ["messages", "square", "--threads"],
    ["messages", "loft"],
    ["context", "square"],
    ["graph", "messages-by", "bo"],
    ["graph", "conversation-partners", "bo"],
    ["graph", "nearby", "bo"],
    ["agents", "relationships", "pip"],
    ["audit-log"],
)


def hears(name: str) -> Callable[[IncomingMessage], bool]:
    """Return whether somebody hears a message, by the rules as a person would put them."""

    def heard(one: IncomingMessage) -> bool:
        if name == one.author.account_id:
            return True
        if one.kind == "whisper":
            return name in {who.account_id for who in one.audience}
        return one.room.visibility != "members" or any(
            stay.author.account_id == name and (stay.left_at is None or one.sent_at < stay.left_at)
            for stay in one.room.members
        )

    return heard


class Showing:
    """All that a world shows somebody, by what was asked."""

    def __init__(self, world: World, app: App, name: str, key: str) -> None:
        self.world, self.app, self.name, self.key = world, app, name, key
        self.seeds: Mapping[str, Sequence[str]] = {}

    def ask(self, what: str) -> str:
        """Let all that is random hang on what is asked."""
        self.world.fate.of(what)
        return what

    def note(self, asked: str, shown: object) -> None:
        assert asked not in self.world.shown, asked
        self.world.shown[asked] = shown

    async def everything(self, described: Described) -> None:
        self.seeds = await self.known()
        await self.python()
        await self.http(described)
        await self.stream()
        await self.mcp(await self.app.sign_in(self.key))
        await self.pages()

    async def known(self) -> dict[str, list[str]]:
        """Return the ids of all that the viewer sees, and some that are nobody's."""
        viewer, seeds = await self.app.viewer(self.name), defaultdict[str, set[UUID]](set)
        for one in await self.app.rooms(viewer):
            seeds["room"].add(one.id)
            seeds["message"] |= {said.id for said in await self.app.messages(viewer, str(one.id), limit=100)}
        seeds["participant"] = {one.id for one in await self.app.participants(viewer)}
        seeds["conversation"] = {one.id for one in await self.app.conversations.all(viewer, limit=1000)}
        seeds["memory"] = {one.id for one in await self.app.memories.all(viewer, limit=1000)}
        words = {kind: [*map(str, sorted(found))] for kind, found in seeds.items()}
        words |= {"agent": words["participant"], "receipt": ["0199"], "key": ["0199"], "wish": ["0199"]}
        # By the platform's words also what may be hidden.
        words["room"] += ["attic", "cellar", "loft"]
        words["message"] += ["m4", "m10", "m15", "m33"]
        words["conversation"] += ["message:m4", "message:m15"]
        self.note("known", words)
        return words

    async def http(self, described: Described) -> None:
        api = build(self.app, limits=RequestLimits(rate=10_000, burst=100_000))
        caller = Caller(api, described, self.key)
        seeds = {kind: set(words) for kind, words in self.seeds.items()}
        for path, item in sorted(api.openapi()["paths"].items()):
            if "get" not in item or path.endswith("/events") or path.startswith("/health"):
                continue
            query = "?room=square" if path.endswith("/decision") else ""
            asked = [filled + query for filled in places(path, seeds)]
            if path in {"/v1/rooms/{room}/messages", "/v1/rooms/{room}/timeline"}:
                asked += [f"{filled}?limit=2" for filled in asked]
            for one in asked:
                await self.call(caller, "GET", one)
        for path in ("/v1/rooms", "/v1/rooms/attic", "/v1/messages/m4"):
            told = await Caller(api, described)("GET", self.ask(path), headers={"x-request-id": "one"})
            self.note(f"without a key {path}", (told.status_code, sorted(told.headers.raw), told.content))
        for path in ASKED:
            for filled in places(path, seeds):
                for body in bodies(path, seeds["room"]):
                    await self.call(caller, "POST", filled, body)

    async def call(self, caller: Caller, method: str, path: str, body: Any = None) -> None:
        """Ask over HTTP, and go on where the answer says that there is more."""
        asked = self.ask(f"{method} {path} {body or ''}")
        told = await caller(method, path, body, headers={"x-request-id": "one"})
        self.note(asked, (told.status_code, sorted(told.headers.raw), told.content))
        more = told.json() if told.status_code == 200 and "limit=2" in path else None
        if isinstance(more, dict) and (cursor := more.get("next")):
            await self.call(caller, method, f"{path.partition('?')[0]}?limit=2&cursor={cursor}")

    async def stream(self) -> None:
        """Read the events from the first on until the last line is told."""
        api = build(self.app, limits=RequestLimits(rate=10_000, burst=100_000))
        first = str(UUID(int=lowest_id_at(TOLD_AT).int | 0x7 << 76 | 0x2 << 62))
        [last] = [
            one.id
            for one in await self.app.messages(await self.app.viewer(self.name), "square", limit=100)
            if one.external_id == LAST.external_id
        ]
        self.ask("stream")
        frames: list[bytes | None] = []
        async with listening(api, self.key, f"/v1/events?after={first}", x_request_id="one") as heard:
            while not (
                frames and b"message.added" in (frames[-1] or b"") and str(last).encode() in frames[-1]
            ):
                frames.append(await heard.lines())
            self.note("stream", (heard.status, sorted(heard.headers.items()), frames))

    async def pages(self) -> None:
        async with visiting(self.app, self.key) as visitor:
            waiting, seen = ["/", "/people", "/m", f"/search?q={EVERYWHERE}", "/search?q=ferry"], set[str]()
            while waiting and len(seen) < 150:
                path = waiting.pop(0)
                if path not in seen:
                    seen.add(path)
                    waiting += await self.page(visitor, path)

    async def page(self, visitor: Visitor, path: str) -> list[str]:
        """Note a page, and return where it leads."""
        asked = self.ask(f"page {path}")
        told = await visitor.get(path, headers={"x-request-id": "one"})
        self.note(asked, (told.status_code, sorted(told.headers.raw), told.content))
        links = re.findall(r'href="(/[^"#]*)', told.text)
        return [link.replace("&amp;", "&") for link in links if not link.startswith(("/static", "/signout"))]

    async def mcp(self, acting: App) -> None:
        async with beside(acting) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("room_search", {"question": EVERYWHERE, "limit": 20, "budget": 16_000}),
                ("ask", {"question": "when does the ferry leave?"}),
                ("memory_search", {"limit": 20, "budget": 16_000}),
                *(("room_context", {"room": room}) for room in self.seeds["room"]),
                *(("memory_provenance", {"memory": memory}) for memory in self.seeds["memory"]),
            ]
            for name, given in calls:
                asked = self.ask(f"mcp {name} {given}")
                self.note(asked, (await client.call_tool(name, given)).model_dump_json())
            for one in self.seeds["room"]:
                asked = self.ask(f"mcp timeline {one}")
                try:
                    told = (await client.read_resource(f"room://{one}/timeline")).model_dump_json()
                except MCPError as error:
                    told = repr(error)
                self.note(asked, told)
            self.ask("mcp resources")
            self.note("mcp resources", (await client.list_resources()).model_dump_json())
            self.note("mcp tools", (await client.list_tools()).model_dump_json())

    async def python(self) -> None:
        """What Python returns, and the command line prints with --json."""
        viewer = await self.app.viewer(self.name)
        for asked, value in {
            "participants": await self.app.participants(viewer),
            "threads": [await self.app.threads(viewer, one, limit=100) for one in self.seeds["room"][:1]],
            "conversations": await self.app.conversations.all(viewer, limit=1000),
            "memories": await self.app.memories.all(viewer, limit=1000),
            "found": await self.app.search(viewer, "ferry", limit=50),
        }.items():
            self.note(f"json {asked}", json.dumps(plain(value), default=repr))
            self.note(f"python {asked}", repr(value))


def apart(asked: str, one: object, other: object) -> str:
    """Return where two answers part; nothing where they do not."""
    one, other = repr(one), repr(other)
    place = next((n for n, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]), 0)
    around = slice(max(0, place - 120), place + 160)
    return "" if one == other else f"{asked}\n    {one[around]}\n    {other[around]}"


def show_all(world: World, described: Described, name: str, heard: Callable[[IncomingMessage], bool]) -> None:
    """Tell a world what is heard, and note all that it shows somebody."""

    async def show() -> None:
        async with world.opened() as app:
            world.turn("stranger", TOLD_AT)
            await app.people.register(STRANGER, kind="human")
            await tell(world, app, TOLD, heard)
            world.turn("key", ASKED_AT)
            made = await app.keys.create("agent" if name == "pip" else "member", name=name, participant=name)
            await Showing(world, app, name, made.key).everything(described)

    asyncio.run(show())
    for words in COMMANDS:
        for style in ("--text", "--json"):
            world.shown[f"{style} {words}"] = world.run("--as", name, style, *words)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", VIEWERS)
def test_nothing_that_is_shown_depends_on_what_is_hidden(
    cluster: Cluster, described: Described, name: str
) -> None:
    heard = hears(name)
    assert not all(map(heard, TOLD))
    with fated() as fate, worlds(cluster, fate) as (whole, bare):
        show_all(whole, described, name, lambda _: True)
        show_all(bare, described, name, heard)
    assert len(whole.shown) > 100
    differing = [
        apart(asked, whole.shown.get(asked), bare.shown.get(asked))
        for asked in dict.fromkeys((*whole.shown, *bare.shown))
    ]
    told_apart = [*filter(None, differing)]
    if told_apart:
        pytest.fail(
            "\n".join([f"{len(told_apart)} of {len(whole.shown)} differ", *told_apart]), pytrace=False
        )
