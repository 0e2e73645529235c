"""What somebody is shown is byte for byte what it would be if nothing that is hidden from them had ever been said.

The same is told twice: to one org whole, to another without what the viewer may not see. Ids are random, so each is
renamed by what it is of; the time of the test itself is no part of the comparison. Nothing else is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from app.village import ANA, ATTIC, BO, CY, DEE, EVE, EVERYWHERE, PIP, SQUARE, STORY, say
from conftest import OpenApp
from ingest.stories import at
from roomlore.app import App
from roomlore.domain.incoming import IncomingMessage
from roomlore.surfaces.cli.output import plain
from roomlore.surfaces.http.limits import Limits
from roomlore.surfaces.web import rows
from surfaces.http.conftest import Serve
from surfaces.http.test_visibility import ASKED, bodies, places
from surfaces.mcp.speaking import beside
from surfaces.web.conftest import Visitor, visiting

UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: When the test runs; nothing of the story is of that time.
NOW = re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?")
#: From when on a page is told of what changes: an id of the moment in which it was made.
SINCE = re.compile(r'("as_of":"|events\?after=)[0-9a-f-]{36}')
MOMENT = re.compile(r"datetime\.datetime\(20(2[6-9]|[3-9]\d), [^)]*\)")
#: What fades with time, to more places than that changes between two orgs.
FADING = re.compile(r"(0\.\d{7})\d+")
TOKEN = re.compile(r'name="token" value="[^"]*"')
#: Of the same moments as what is hidden, and of the same words.
MORE = [
    say(13, BO, SQUARE, body=f"{EVERYWHERE} ferry leaves at seven"),
    say(14, ANA, ATTIC, body=f"{EVERYWHERE} ferry ferry ferry secretferry"),
    say(15, CY, SQUARE, body=f"{EVERYWHERE} which ferry leaves?", kind="whisper", audience=(BO,)),
    say(16, EVE, SQUARE, body=f"{EVERYWHERE} I live in Porto.", reply_to="m13"),
    say(17, DEE, ATTIC, body=f"{EVERYWHERE} I live in Braga.", reply_to="m14"),
    say(18, PIP, SQUARE, body=f"{EVERYWHERE} the ferry is late"),
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
TOLD = [STORY[3], STORY[7], *STORY, *MORE, *AT_ONCE]


def hears(name: str, one: IncomingMessage) -> bool:
    """Whether somebody hears a message, by the rules as a person would put them."""
    if one.kind == "whisper":
        return name in {one.author.account_id, *(who.account_id for who in one.audience)}
    members = {member.author.account_id for member in one.room.members}
    return one.room.visibility == "open" or name in members


async def told(app: App, lines: Sequence[IncomingMessage]) -> App:
    """Tell lines to an org, numbered as in a file, with memories of each."""
    numbered = [replace(one, order=number) for number, one in enumerate(lines)]
    for one in numbered:
        assert (await app.ingest_batch([one])).skipped == []
    await app.drain()
    for one in dict.fromkeys(one.external_id for one in lines):
        await app.memories.remember(f"known of {one}", sources=[one])
    await app.drain()
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What each id of an org is of."""

    by_id: Mapping[str, str]

    @classmethod
    async def of(cls, app: App, admin: psycopg.AsyncConnection) -> "Names":
        """Read them where nothing is hidden."""
        queries = (
            "select id::text, 'message ' || external_id from messages where org_id = %s",
            # Of what the test itself did.
            "select id::text, 'line' from activity_log where org_id = %s",
            "select id::text, 'key' from api_keys where org_id = %s",
            "select id::text, 'room ' || external_id from rooms where org_id = %s",
            "select id::text, 'memory ' || content from memories where org_id = %s",
            "select participant_id::text, 'person ' || min(account_id) from identities where org_id = %s group by 1",
            """
            select conversation_id::text, 'talk of ' || min(messages.external_id)
            from placements
            join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
            where placements.org_id = %s
            group by 1""",
        )
        found = {str(app.org_id): "org"}
        for query in queries:
            found |= dict(await (await admin.execute(query.encode(), [app.org_id])).fetchall())
        return cls(by_id=found)

    def __call__(self, text: str) -> str:
        """Return a text with names for ids, and without the time of the test."""
        named = UUIDS.sub(lambda found: self.by_id.get(found[0], found[0]), text)
        timeless = MOMENT.sub("<now>", NOW.sub("<now>", SINCE.sub(r"\1<now>", named)))
        timeless = FADING.sub(r"\1", timeless)
        return TOKEN.sub("<token>", timeless)

    def ids(self, kind: str, names: "Names", others: "Names") -> list[str]:
        """Return the ids of a kind that both orgs have, in the order of their names."""
        both = set(names.by_id.values()) & set(others.by_id.values())
        return [
            one
            for one, name in sorted(self.by_id.items(), key=lambda pair: pair[1])
            if name in both and name.startswith(kind)
        ]


class Showing:
    """All that an org shows somebody, by what was asked."""

    def __init__(self, app: App, names: Names, seeds: Mapping[str, Sequence[str]]) -> None:
        self.app, self.names, self.seeds = app, names, seeds
        self.shown: dict[str, str] = {}

    def note(self, asked: str, text: str) -> None:
        self.shown[self.names(asked)] = self.names(text)

    async def http(self, serve: Serve, key: str) -> None:
        served = await serve(self.app, Limits(rate=10_000, burst=100_000))
        caller, header = served.nobody(key), {"x-request-id": "one"}
        seeds = {kind: set(ids) for kind, ids in self.seeds.items()}
        # The log first: it tells of all that is asked after it, in the order of random ids.
        for path, item in sorted(
            caller.api.openapi()["paths"].items(), key=lambda pair: pair[0] != "/v1/log"
        ):
            if "get" not in item or path.endswith("/events") or path.startswith("/health"):
                continue
            query = "?room=square" if path.endswith("/decision") else ""
            for filled in places(path, seeds):
                told = await caller("GET", filled + query, headers=header)
                self.note(f"GET {filled}", f"{told.status_code} {told.text}")
        for path in ASKED:
            for filled in places(path, seeds):
                for body in bodies(path, seeds["room"]):
                    told = await caller("POST", filled, body, headers=header)
                    self.note(f"POST {filled} {body}", f"{told.status_code} {told.text}")

    async def pages(self, key: str) -> None:
        async with visiting(self.app, key) as visitor:
            waiting, seen = ["/", "/people", "/m", f"/search?q={EVERYWHERE}", "/search?q=ferry"], set[str]()
            while waiting and len(seen) < 150:
                path = waiting.pop(0)
                if self.names(path) in seen:
                    continue
                seen.add(self.names(path))
                waiting += await self.page(visitor, path)

    async def page(self, visitor: Visitor, path: str) -> list[str]:
        """Note a page, and return where it leads."""
        told = await visitor.get(path, headers={"x-request-id": "one"})
        self.note(f"page {path}", f"{told.status_code} {told.text}")
        links = re.findall(r'href="(/[^"#]*)', told.text)
        return [link.replace("&amp;", "&") for link in links if not link.startswith(("/static", "/signout"))]

    async def mcp(self, acting: App) -> None:
        async with beside(acting) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("room_search", {"question": EVERYWHERE, "limit": 20, "budget": 16_000}),
                ("ask", {"question": "when does the ferry leave?"}),
                ("memory_search", {"limit": 20, "budget": 16_000}),
                *(("room_context", {"room": room}) for room in self.seeds["room"]),
                *(("memory_why", {"memory": memory}) for memory in self.seeds["memory"]),
            ]
            for name, given in calls:
                told = await client.call_tool(name, given)
                self.note(f"mcp {name} {given}", told.model_dump_json())
            for room in self.seeds["room"]:
                told = await client.read_resource(f"room://{room}/timeline")
                self.note(f"mcp timeline {room}", told.model_dump_json())
            self.note("mcp resources", (await client.list_resources()).model_dump_json())

    async def python(self, name: str) -> None:
        """What the command line prints with --json, and Python returns."""
        viewer = await self.app.viewer(name)
        rooms = await self.app.rooms(viewer)
        for asked, value in {
            "rooms": rooms,
            "participants": await self.app.participants(viewer),
            "messages": [await self.app.messages(viewer, str(room.id), limit=100) for room in rooms],
            "exchanges": [await self.app.exchanges(viewer, str(room.id), limit=100) for room in rooms],
            "conversations": await self.app.conversations.all(viewer, limit=1000),
            "memories": await self.app.memories.all(viewer, limit=1000),
            "found": await self.app.search(viewer, "ferry", limit=50),
        }.items():
            self.note(f"json {asked}", repr(plain(value)))
            self.note(f"python {asked}", re.sub(r"UUID\('([^']*)'\)", r"\1", repr(value)))


def apart(asked: str, one: str, other: str) -> str:
    """Return where two texts part; nothing where they do not."""
    place = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    around = slice(max(0, place - 60), place + 80)
    return "" if one == other else f"{asked}\n    {one[around]!r}\n    {other[around]!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eve", "pip", "bo", "cy"])
async def test_nothing_that_is_shown_depends_on_what_is_hidden(
    open_app: OpenApp,
    serve: Serve,
    admin: psycopg.AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    name: str,
) -> None:
    whole = await told(await open_app("whole"), TOLD)
    bare = await told(await open_app("bare"), [one for one in TOLD if hears(name, one)])
    # By its random id a conversation has its colour.
    monkeypatch.setattr(rows, "BANDS", 1)
    role = "agent" if name == "pip" else "member"
    keys = [(await app.keys.make(role, name=name, participant=name)).key for app in (whole, bare)]
    names = [await Names.of(app, admin) for app in (whole, bare)]
    seen: list[dict[str, str]] = []
    for app, mine, key in zip((whole, bare), names, keys, strict=True):
        kinds = {
            "room": "room",
            "message": "message",
            "memory": "memory",
            "conversation": "talk",
            "participant": "person",
        }
        seeds = {kind: mine.ids(word, *names) for kind, word in kinds.items()}
        seeds |= {"agent": seeds["participant"], "receipt": ["0199"], "key": ["0199"], "wish": ["0199"]}
        showing = Showing(app, mine, seeds)
        await showing.python(name)
        await showing.http(serve, key)
        await showing.mcp(await app.sign_in(key))
        await showing.pages(key)
        seen.append(showing.shown)
    late = [await Names.of(app, admin) for app in (whole, bare)]
    one, other = (
        {asked: name(text) for asked, text in each.items()} for each, name in zip(seen, late, strict=True)
    )
    assert len(one) > 100
    differing = [apart(asked, one.get(asked, ""), other.get(asked, "")) for asked in sorted({*one, *other})]
    if told_apart := "\n".join(filter(None, differing)):
        pytest.fail(told_apart)
