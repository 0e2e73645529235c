"""The page that tells why a context is what it is, as far as whoever looks may know."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from playwright.async_api import Browser

from ingest.stories import at, author, message, room
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import IncomingMessage
from roomlore.operations import App
from roomlore.web.context_view import MAX_DOTS, Candidate, MemoryCandidate, context_graph
from search.telling import closed, tell
from surfaces.web.conftest import visiting, window

ANA, BO, EVE = map(author, ("ana", "bo", "eve"))
PIP = author("pip", kind="agent")
QUAY, SHED = room("quay"), closed("shed", ANA, BO)
UUID_SHAPED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def said(key: str, minute: float, who: Any, body: str, **fields: Any) -> IncomingMessage:
    return message(key, body, author=who, sent_at=at(minute), **({"room": QUAY} | fields))


OPEN = [
    said("q1", 1, ANA, "when does the ferry leave?"),
    said("q2", 2, BO, "at nine, from the north pier", reply_to="q1"),
    said("q3", 3, EVE, "who took my umbrella?"),
    said("q4", 4, PIP, "the forecast says rain", reply_to="q3"),
    said("q5", 200, ANA, "and when does the ferry come back?", reply_to="q2"),
]
#: Between what everybody may read, and answering it.
HIDDEN = [
    said("h1", 2.5, ANA, "the skipper is ill", reply_to="q2", kind="whisper", audience=(BO,)),
    said("h2", 3.5, BO, "then nobody sails", reply_to="h1", kind="whisper", audience=(ANA,)),
    said("h3", 100, BO, "I told nobody yet", kind="whisper", audience=(ANA,)),
    said("s1", 150, ANA, "the shed is full", room=SHED),
]


async def ids_of(app: App) -> dict[str, MessageId]:
    return {
        one.external_id: one.id
        for where in await app.rooms(app.operator)
        for one in await app.messages(app.operator, str(where.id), limit=100)
    }


async def key_of(app: App, name: str) -> str:
    role = "agent" if name == "pip" else "member"
    return (await app.keys.create(role, name=name, participant=name)).key


def essence(twin: Any) -> Any:
    """What a page tells, without the ids that chance made."""
    side = twin["side"]
    return [
        [
            (
                one["external_id"],
                one["included"],
                one["rule"],
                one["step"],
                one["tokens"],
                UUID_SHAPED.sub("", one["reason"]),
            )
            for one in side["candidates"]
        ],
        [(one["direction"], one["gap"]) for one in side["boundaries"]],
        side["spent"],
        side["given"]["text"],
        [line["text"] for line in side["lines"]],
    ]


async def test_the_page_tells_what_the_context_is(app: App) -> None:
    await tell(app, *OPEN)
    ids = await ids_of(app)
    built = await app.context(app.operator, "quay", "q5")
    async with visiting(app) as visitor:
        twin = (await visitor.twin(f"/x/{ids['q5']}.json"))["side"]
        page = await visitor.page(f"/x/{ids['q5']}")
    assert [one["message_id"] for one in twin["candidates"]] == [
        str(one.message_id) for one in built.explain()
    ]
    assert twin["given"]["tokens"] == built.tokens
    assert sum(one["tokens"] for one in twin["spent"]) == built.budget
    assert "\n".join(f"#{one['label']}{one['text']}" for one in twin["lines"]) == twin["given"]["text"]
    for one in built.explain():
        assert one.reason in page
        assert f"#m-{one.message_id}" in page
    assert page.count('<path class="way stated"') >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eve", "pip"])
async def test_a_context_is_told_as_if_what_is_hidden_had_never_been_said(open_app: Any, name: str) -> None:
    told: list[Any] = []
    for hidden in (HIDDEN, []):
        app = await open_app("org")
        await tell(app, *sorted([*OPEN, *hidden], key=lambda one: one.sent_at))
        ids = await ids_of(app)
        async with visiting(app, await key_of(app, name)) as visitor:
            twin = await visitor.twin(f"/x/{ids['q5']}.json?budget=500")
            page = await visitor.page(f"/x/{ids['q5']}?budget=500")
        told.append(essence(twin))
        for one in hidden:
            assert str(ids[one.external_id]) not in page
            assert one.body not in page
    assert told[0] == told[1]


async def test_whom_a_whisper_was_for_sees_it_in_their_context(app: App) -> None:
    await tell(app, *OPEN, *HIDDEN)
    ids = await ids_of(app)
    async with visiting(app, await key_of(app, "bo")) as visitor:
        assert "the skipper is ill" not in await visitor.page(f"/x/{ids['q5']}")
        assert "the skipper is ill" in await visitor.page(f"/x/{ids['q5']}?private=1")
        assert (await visitor.get(f"/x/{ids['s1']}")).status_code == 200


@pytest.mark.slow
async def test_a_hidden_message_is_not_found_like_one_that_is_not_there(app: App) -> None:
    await tell(app, *OPEN, *HIDDEN)
    ids = await ids_of(app)
    async with visiting(app, await key_of(app, "eve")) as visitor:
        for hidden in ("h1", "s1"):
            for end in ("", ".json"):
                absent_id = uuid4()
                seen = await visitor.get(f"/x/{ids[hidden]}{end}")
                absent = await visitor.get(f"/x/{absent_id}{end}")
                assert seen.status_code == absent.status_code == 404
                same = seen.text.replace(str(ids[hidden]), str(absent_id))
                assert (
                    same.replace(seen.headers["x-request-id"], absent.headers["x-request-id"]) == absent.text
                )


@pytest.mark.slow
async def test_words_that_a_wish_keeps_from_somebody_are_not_in_what_they_read(app: App) -> None:
    await tell(
        app,
        said("1", 1, ANA, "my quartz account is 4412-9981"),
        said("2", 2, BO, "noted"),
        said("3", 3, ANA, "please forget that"),
        said("4", 4, EVE, "when is lunch?"),
    )
    ids = await ids_of(app)
    for name in ("bo", "eve"):
        async with visiting(app, await key_of(app, name)) as visitor:
            for trigger in ("1", "4"):
                for end in ("", ".json"):
                    assert "4412-9981" not in await visitor.page(f"/x/{ids[trigger]}{end}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("query", ["viewer=bo", "against=bo", "viewer=bo&against=ana", "viewer=nobody"])
async def test_only_an_operator_looks_through_the_eyes_of_others(app: App, query: str) -> None:
    await tell(app, *OPEN, *HIDDEN)
    ids = await ids_of(app)
    async with visiting(app, await key_of(app, "eve")) as visitor:
        for end in ("", ".json"):
            refused = await visitor.get(f"/x/{ids['q5']}{end}?{query}")
            assert refused.status_code == 403
            assert "skipper" not in refused.text
        assert 'name="viewer"' not in await visitor.page(f"/x/{ids['q5']}")
    async with visiting(app) as visitor:
        assert (await visitor.get(f"/x/{ids['q5']}?as=eve&{query}")).status_code == 403


async def test_an_operator_compares_what_two_read(app: App) -> None:
    await tell(app, *OPEN, *HIDDEN)
    ids = await ids_of(app)
    async with visiting(app) as visitor:
        twin = await visitor.twin(f"/x/{ids['q5']}.json?viewer=bo&against=eve&private=1")
        page = await visitor.page(f"/x/{ids['q5']}?viewer=bo&against=eve&private=1")
        unreadable = await visitor.page(f"/x/{ids['s1']}?against=eve")
    compared = twin["compared"]
    only_bo = {one["candidate"]["external_id"] for one in compared["differences"] if one["is_first"]}
    assert only_bo >= {"h1", "h2"}
    assert not [one for one in compared["differences"] if not one["is_first"]]
    assert compared["in_both"] == len([one for one in compared["side"]["candidates"] if one["included"]])
    assert "Only bo has" in page
    assert "eve may not read this message" in unreadable


@pytest.mark.sampled(1)
@pytest.mark.parametrize("query", ["budget=0", "budget=-1", "budget=x", "budget=9999999999", "budget=²"])
async def test_a_bad_budget_is_told(app: App, query: str) -> None:
    await tell(app, *OPEN)
    ids = await ids_of(app)
    async with visiting(app) as visitor:
        for end in ("", ".json"):
            assert (await visitor.get(f"/x/{ids['q5']}{end}?{query}")).status_code == 400
        assert (await visitor.get("/x/%00")).status_code == 404


async def test_a_pause_at_which_the_walk_ended_is_drawn_as_one(app: App) -> None:
    talk = [said(f"t{number}", number, ANA, f"boat {number} is in") for number in range(30)]
    await tell(app, *talk, *(said(f"u{number}", 300 + number, BO, "and out again") for number in range(12)))
    ids = await ids_of(app)
    async with visiting(app) as visitor:
        twin = await visitor.twin(f"/x/{ids['u11']}.json")
        page = await visitor.page(f"/x/{ids['u11']}")
    assert len(twin["side"]["boundaries"]) == 1
    assert "no messages for 5 h" in page


@pytest.mark.slow
async def test_a_small_budget_leaves_out_and_says_why(app: App) -> None:
    await tell(app, *OPEN)
    ids = await ids_of(app)
    async with visiting(app) as visitor:
        page = await visitor.page(f"/x/{ids['q5']}?budget=40")
    assert "not all of its thread fits" in page
    assert '<tr class="out">' in page


async def test_what_an_agent_remembers_stands_as_diamonds_with_links(app: App) -> None:
    await tell(app, *OPEN)
    pip = app.impersonate(await app.viewer("pip"))
    memory = await pip.memories.remember(
        "The ferry is always late in rain", kind="learning", sources=["q4"], importance=5.0
    )
    ids = await ids_of(app)
    async with visiting(app, await key_of(app, "pip")) as visitor:
        twin = await visitor.twin(f"/x/{ids['q5']}.json")
        page = await visitor.page(f"/x/{ids['q5']}")
    assert [one["memory_id"] for one in twin["side"]["memories"] if one["included"]] == [str(memory.id)]
    assert 'class="diamond"' in page
    assert page.count("The ferry is always late in rain") == 3
    assert f'<a class="cite" href="/m/{memory.id}">#k1</a>' in page
    assert {one["part"] for one in twin["side"]["spent"]} >= {"memories", "trigger", "left"}
    async with visiting(app, await key_of(app, "eve")) as visitor:
        assert str(memory.id) not in await visitor.page(f"/x/{ids['q5']}")


def candidate(number: int, **fields: Any) -> Candidate:
    plain = Candidate(
        message_id=MessageId(uuid4()),
        external_id=str(number),
        author_id=ParticipantId(uuid4()),
        author_name="Ana",
        author_kind="human",
        sent_at=at(number),
        glance="words " * 40,
        included=True,
        label=f"m{number}",
        part="room",
        rule="recent",
        reached_from=None,
        reply_to=None,
        method=None,
        confidence=None,
        step=0,
        reason="among the most recent before the trigger",
        tokens=5,
        characters_cut=0,
    )
    return replace(plain, **fields)


def test_a_picture_has_a_row_for_each_message_and_every_line_within_it() -> None:
    trigger = candidate(400, rule="trigger")
    before: Sequence[Candidate] = [
        candidate(number, reached_from=trigger.message_id, included=number % 3 == 0) for number in range(200)
    ]
    memory = MemoryCandidate(
        memory_id=MemoryId(uuid4()),
        text="rain",
        included=True,
        label="k1",
        section="insights",
        weight=0.5,
        reason="weighty",
    )
    picture = context_graph([*before, trigger], (), [memory])
    assert len(picture.dots) == MAX_DOTS
    assert picture.not_drawn == 201 - MAX_DOTS
    assert {dot.candidate.message_id for dot in picture.dots} >= {
        one.message_id for one in before if one.included
    }
    rows = [*(dot.y for dot in picture.dots), *(one.y for one in picture.diamonds)]
    assert rows == sorted(set(rows))
    assert max(rows) < picture.height
    assert len(picture.arcs) == MAX_DOTS
    for arc in picture.arcs:
        x, start, edge, *_, _, end = [float(number) for number in re.findall(r"-?\d+", arc.path)]
        # A curve goes three quarters of the way to where it is drawn.
        assert 0 <= (x + 3 * edge) / 4 <= picture.x
        assert {start, end} <= {float(row) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page(app: App, browser: Browser, theme: str) -> None:
    await tell(app, *OPEN, *HIDDEN)
    ids = await ids_of(app)
    async with window(browser, app, theme=theme) as seen:
        for query in ("", "?viewer=bo&against=eve&budget=60"):
            page = await seen.open(f"/x/{ids['q5']}{query}")
            assert await seen.violations() == [], query
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy as JSON").focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("Copied.").wait_for()
        assert f'"message_id":"{ids["q5"]}"' in await page.evaluate("navigator.clipboard.readText()")
        assert seen.faults == []
