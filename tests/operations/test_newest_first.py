"""Whatever is told as newest first is so by when it was said, and not by when it came in."""

import ast
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources

import pytest

from ingest.stories import at, author, message, room
from roomlore.operations import App
from roomlore.operations.history import History
from roomlore.operations.memories import MemoryBrowser
from roomlore.operations.rooms import RoomDirectory
from roomlore.operations.timeline import Timeline
from roomlore.search.query_parser import Filters

ANA, PIP = author("ana"), author("pip", kind="agent")
#: Said late and early; the late one is imported first.
LATE, EARLY = 90_000, 10
YARD, SHED = room("yard"), room("shed")


def said(name: str, minute: int) -> list:
    """Return what is said in a room at a time: a question, an agent's answer, and a request, all named alike."""
    where = YARD if name == "late" else SHED
    request = f"please forget what I said about {name} tea"
    return [
        message(f"{name}1", f"{name} boats?", author=ANA, room=YARD, sent_at=at(minute)),
        message(
            f"{name}2", f"{name} answer", author=PIP, room=YARD, sent_at=at(minute + 1), reply_to=f"{name}1"
        ),
        message(f"{name}3", request, author=ANA, room=YARD, sent_at=at(minute + 2)),
        message(f"{name}4", f"{name} words", author=ANA, room=where, sent_at=at(minute + 3)),
    ]


async def out_of_order(app: App) -> None:
    """Tell what was said late, and remember it, before what was said early."""
    for name, minute in (("late", LATE), ("early", EARLY)):
        accepted = await app.ingest_batch(said(name, minute))
        assert accepted.skipped == []
        pip = app.impersonate(await app.viewer("pip"))
        await app.memories.remember(f"{name} fact", sources=[f"{name}1"], about=["ana"])
        await pip.memories.remember(f"{name} lesson", sources=[f"{name}2"], kind="lesson", about=["pip"])
    # Both rest on the same words too, and one takes the place of both of these.
    shared = [
        await app.memories.remember(f"{name} shared", sources=[f"{name}1", "late1"])
        for name in ("late", "early")
    ]
    newest = await app.memories.remember("new shared", sources=["late2"], supersedes=str(shared[0].id))
    assert newest.superseded_by is None
    await app.memories.remember("stated late", occurred_at=at(LATE))
    await app.memories.remember("stated early", occurred_at=at(EARLY))
    await app.drain()


@pytest.fixture
async def told(app: App, tell_once) -> App:
    await tell_once(app, out_of_order)
    return app


def begun(texts) -> list[str]:
    """Return of which of the two each text is, without those that are of neither."""
    found = [re.match("late|early", text) for text in texts]
    return [one[0] for one in found if one]


async def listed_rooms(app: App) -> list[str]:
    return [{"yard": "late", "shed": "early"}[one.name] for one in await app.rooms(app.operator)]


async def page_of_rooms(app: App) -> list[str]:
    found, _ = await RoomDirectory(access=app.access).page(app.operator)
    return [{"yard": "late", "shed": "early"}[one.name] for one in found]


async def messages(app: App) -> list[str]:
    return begun(one.body for one in (await app.messages(app.operator, "yard"))[::-1])


async def timeline(app: App) -> list[str]:
    found = await app.conversations.timeline(app.operator, "yard")
    return begun(one.message.body for one in found[::-1])


async def threads(app: App) -> list[str]:
    return begun(one.root.body for one in await app.threads(app.operator, "yard"))


async def page_of_exchanges(app: App) -> list[str]:
    found = await Timeline(access=app.access).threads(app.operator, "yard", limit=10)
    return begun(one.root.body for one in found.threads)


async def conversations(app: App) -> list[str]:
    found = await app.conversations.all(app.operator)
    return ["late" if one.last_at > at(LATE) else "early" for one in found]


async def one_conversation(app: App) -> list[str]:
    first, *others = await app.conversations.all(app.operator, "yard")
    for other in others:
        first = await app.conversations.merge(str(first.id), str(other.id))
    _, found = await History(access=app.access).conversation(
        app.operator, str(first.id), limit=50, before=None
    )
    return begun(one.message.body for one in found.items if not one.message.body.startswith("please"))


async def everything_said(app: App) -> list[str]:
    found = await app.search(app.operator, "what did Ana say?", filters=Filters(by=["ana"]))
    return begun(one.best.body for one in found.hits if one.best.body.startswith(("late", "early")))


async def wishes(app: App) -> list[str]:
    found = await app.privacy_requests.all(app.operator)
    return ["late" if "late" in one.body else "early" for one in found]


async def memories(app: App) -> list[str]:
    return begun(one.content for one in await app.memories.all(app.operator, kinds=["fact", "lesson"]))


async def stated(app: App) -> list[str]:
    found = [one.content for one in await app.memories.all(app.operator) if not one.sources]
    return [one.removeprefix("stated ") for one in found]


async def shelf(app: App) -> list[str]:
    browsing, before, found = MemoryBrowser(access=app.access), None, list[str]()
    while True:
        # One at a time: so its cursors are followed, too.
        page = await browsing.list_page(app.operator, limit=1, before=before, kinds=["fact", "lesson"])
        found += [one.memory.content for one in page.memories]
        before = page.next
        if before is None:
            return begun(found)


async def resting_on(app: App) -> list[str]:
    found = await app.memories.derived_from(app.operator, "late1")
    return begun(one.content for one in found if "shared" in one.content)


async def said_by(app: App) -> list[str]:
    return begun(one.body for one in (await app.graph.said_by(app.operator, "ana")).items)


async def messages_by_agents(app: App) -> list[str]:
    return begun(one.body for one in (await app.graph.messages_by_agents(app.operator)).items)


async def known_by(app: App) -> list[str]:
    return begun(one.content for one in (await app.graph.known_by(app.operator, "pip")).items)


async def memories_of_agents(app: App) -> list[str]:
    return begun(one.content for one in (await app.graph.memories_of_agents(app.operator)).items)


async def memories_about(app: App) -> list[str]:
    return begun(one.content for one in (await app.graph.memories_about(app.operator, "pip")).items)


Listing = Callable[[App], Awaitable[list[str]]]
#: By the call whose description says so.
LISTS: Mapping[str, Listing] = {
    "App.rooms": listed_rooms,
    "History.rooms": listed_rooms,
    "RoomDirectory.page": page_of_rooms,
    "History.messages": messages,
    "Conversations.timeline": timeline,
    "App.threads": threads,
    "App.messages": messages,
    "History.threads": threads,
    "History.conversation": one_conversation,
    "Timeline.threads": page_of_exchanges,
    "Conversations.all": conversations,
    "SearchService.search": everything_said,
    "PrivacyRequests.all": wishes,
    "Memories.all": memories,
    "Memories.all of what rests on nothing": stated,
    "MemoryBrowser.list_page": shelf,
    "Memories.derived_from": resting_on,
    "GraphQueries.said_by": said_by,
    "GraphQueries.messages_by_agents": messages_by_agents,
    "GraphQueries.known_by": known_by,
    "GraphQueries.memories_of_agents": memories_of_agents,
    "GraphQueries.memories_about": memories_about,
}
#: What Roomlore itself did, listed by when it did so: nothing of it is imported.
DONE = {"Erasures.receipts", "Extraction.llm_calls", "App.log", "History.log", "Keys.all"}
SAYS_SO = re.compile("newest first|most recently active first|eturn the newest (messages|threads|memories)")


@pytest.mark.parametrize("name", LISTS)
async def test_what_was_said_last_comes_first_though_it_came_in_first(told: App, name: str):
    found = await LISTS[name](told)
    assert {"late", "early"} == set(found)
    assert found == sorted(found, reverse=True)


def test_no_list_that_says_that_it_is_newest_first_is_left_out():
    saying: set[str] = set()
    for file in resources.files("roomlore.operations").iterdir():
        tree = ast.parse(file.read_text("utf-8")) if file.name.endswith(".py") else ast.Module([], [])
        for kind in (one for one in tree.body if isinstance(one, ast.ClassDef)):
            for call in kind.body:
                is_call = isinstance(call, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_call and SAYS_SO.search(ast.get_docstring(call) or ""):
                    saying.add(f"{kind.name}.{call.name}")
    assert saying == {name.partition(" of ")[0] for name in LISTS} | DONE


async def test_a_page_of_memories_goes_on_behind_one_that_is_gone(told: App):
    browsing = MemoryBrowser(access=told.access)
    first = await browsing.list_page(told.operator, limit=1, kinds=["fact", "lesson"])
    rest = await browsing.list_page(told.operator, before=first.next, kinds=["fact", "lesson"])
    await told.memories.archive(str(first.memories[0].memory.id))
    again = await browsing.list_page(told.operator, before=first.next, kinds=["fact", "lesson"])
    assert [one.memory.id for one in again.memories] == [one.memory.id for one in rest.memories]


async def test_the_newest_memories_are_read_from_an_index_in_their_order(admin):
    """As the function has it, with what it is asked for put in."""
    [(body,)] = await (
        await admin.execute("select prosrc from pg_proc where proname = 'newest_memories'")
    ).fetchall()
    inner = body[body.index("select held.id") : body.index("offset 0\n  ) as meant")]
    given = {
        "statuses": "array['active']",
        "before_at": "timestamptz '2026-01-01'",
        "before_id": "uuid '0199d3f0-0000-7000-8000-000000000000'",
    }
    others = ("kinds", "task", "since", "as_of", "tags", "room_ids")
    for name, value in {**dict.fromkeys(others, "null"), **given}.items():
        inner = re.sub(rf"(?<![\w.]){name}\b(?!\s*\()", value, inner)
    # Whatever the statistics of a small table are worth: it can be read in order.
    await admin.execute("set enable_seqscan = off; set enable_sort = off")
    whom = "with whom (role, ids) as (select null::text, null::uuid[] where false)"
    plan = await (await admin.execute(f"explain {whom} {inner}")).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "Index Scan Backward using memories_by_time" in text, text
    assert re.search(r"Index Cond: .*ROW\(", text), text
    assert "Sort" not in text, text
