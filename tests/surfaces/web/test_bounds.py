"""However much was said at once, a page stays small; and what is shown of it is what is logged."""

import re
from collections.abc import AsyncGenerator
from uuid import UUID

import pytest

from conftest import TellOnce
from ingest.stories import at, author, message, room
from operations.village import ANA, BO, PIP, SQUARE, village
from roomlore.db import timeline as store
from roomlore.operations import App
from roomlore.operations.timeline import CACHE_SECONDS
from surfaces.web.conftest import Visitor, visiting
from surfaces.web.stories import ids_by_mark, ids_in, in_square, key_of, room_id, square

HUGE = 200_000
SMALL_ENOUGH = 1_000_000
ALIKE = {"author": ANA, "room": SQUARE}


async def grown(app: App) -> str:
    """Tell of a room where fifty messages are huge, one of them edited again and again; return its id."""
    said = [
        message(
            f"h{number}",
            f"word {number} " + "x" * HUGE,
            sent_at=at(number),
            reply_to=f"h{number - 1}" if number % 10 else None,
            **ALIKE,
        )
        for number in range(50)
    ]
    await app.ingest_batch(said)
    for edit in range(30):
        await app.ingest_batch(
            [message("h7", f"edit {edit} " + "y" * HUGE, sent_at=at(7), edited_at=at(100 + edit), **ALIKE)]
        )
    await app.disentangle()
    return await room_id(app, "square")


@pytest.fixture
async def huge(app: App, tell_once: TellOnce) -> str:
    return await tell_once(app, grown)


@pytest.fixture
async def operator(app: App, huge: str) -> AsyncGenerator[Visitor]:
    del huge
    async with visiting(app) as visitor:
        yield visitor


async def both(visitor: Visitor, path: str, query: str = "") -> tuple[str, str]:
    page, twin = await visitor.page(path + query), (await visitor.get(f"{path}.json{query}")).text
    assert "word 49" in page, path
    assert (len(page) < SMALL_ENOUGH, len(twin) < SMALL_ENOUGH) == (True, True), (path, len(page), len(twin))
    return page, twin


@pytest.mark.slow
async def test_a_page_of_huge_messages_stays_small(app: App, huge: str, operator: Visitor):
    ids = await ids_by_mark(app)
    page, _ = await both(operator, f"/r/{huge}")
    assert page.count("Read all of it") == 50
    assert f'href="/r/{huge}/message/{ids["h49"]}"' in page
    await both(operator, f"/r/{huge}", "?view=threads")
    await both(operator, f"/r/{huge}", "?author=ana")
    await both(operator, f"/c/message:{ids['h49']}", "?shown=200")
    await both(operator, "/search", "?q=word")
    await both(operator, "/search", "?q=word+49&do=ask")
    assert len(await operator.page(f"/x/{ids['h49']}")) < SMALL_ENOUGH
    assert len(await operator.page(f"/r/{huge}/lines?ids={','.join(ids.values())}")) < SMALL_ENOUGH


@pytest.mark.slow
async def test_of_a_message_edited_again_and_again_the_newest_texts_are_shown(huge: str, operator: Visitor):
    page = await operator.page(f"/r/{huge}")
    assert "10 older ones not shown" in page
    assert "edit 28 " in page
    assert "edit 5 " not in page


@pytest.mark.slow
async def test_a_memory_of_a_huge_message_has_a_small_page(app: App, huge: str, operator: Visitor):
    del huge
    kept = await app.memories.remember("Words are said", sources=["h49"], room="square")
    await both(operator, f"/m/{kept.id}")


@pytest.mark.slow
async def test_a_huge_message_is_read_part_by_part(app: App, huge: str, operator: Visitor):
    where = f"/r/{huge}/message/{(await ids_by_mark(app))['h3']}"
    first = await operator.twin(f"{where}.json")
    assert first["parts"] == 5
    read = [(await operator.twin(f"{where}.json?part={part}"))["message"]["body"] for part in range(1, 6)]
    assert "".join(read) == "word 3 " + "x" * HUGE
    assert f'href="{where}?part=2"' in await operator.page(where)
    assert (await operator.get(f"{where}?part=6")).status_code == 404
    for wrong in ("0", "x", "1001"):
        assert (await operator.get(f"{where}?part={wrong}")).status_code == 400


@pytest.mark.slow
async def test_a_message_alone_is_for_those_who_may_read_it(app: App):
    told = await square(app)
    for who, mark, status in (
        ("eve", "s20", 404),
        ("bo", "s20", 200),
        ("eve", "s1", 200),
        ("eve", "a1", 404),
        ("dee", "a1", 404),
        ("ana", "a1", 200),
    ):
        room = told.attic if mark.startswith("a") else told.room
        async with visiting(app, await key_of(app, who)) as visitor:
            for ending in ("", ".json"):
                found = await visitor.get(f"/r/{room}/message/{told.ids[mark]}{ending}")
                assert found.status_code == status, (who, mark)
                assert status == 200 or not ({"hush", "salary"} & set(found.text.split()))
            elsewhere = told.room if room == told.attic else told.attic
            assert (await visitor.get(f"/r/{elsewhere}/message/{told.ids[mark]}")).status_code == 404


@pytest.mark.slow
async def test_a_long_conversation_is_paged(app: App):
    await village(app)
    told = await square(app)
    await app.ingest_batch(
        [in_square(100 + number, f"on and on {number}", reply_to="s9") for number in range(230)]
    )
    await app.disentangle()
    async with visiting(app) as visitor:
        twin = await visitor.twin(f"/c/message:{told.ids['s9']}.json?shown=200")
        here, count = f"/c/{twin['conversation']['id']}", twin["conversation"]["message_count"]
        seen = [row["line"]["placed"]["message"]["id"] for row in twin["rows"]]
        while twin["next"]:
            assert f"before={twin['next']}" in await visitor.page(f"{here}?shown=200") or len(seen) > 200
            twin = await visitor.twin(f"{here}.json?before={twin['next']}")
            seen = [row["line"]["placed"]["message"]["id"] for row in twin["rows"]] + seen
        assert len(seen) == len(set(seen)) == count
        assert (await visitor.get(f"{here}?shown=201")).status_code == 400


async def logged(app: App, action: str) -> set[UUID]:
    [line, *_] = [one for one in await app.log(app.operator, limit=50) if one.action == action]
    return set(line.subject_ids)


async def times_logged(app: App, action: str) -> int:
    return sum(one.action == action for one in await app.log(app.operator, limit=100))


@pytest.mark.slow
async def test_what_a_page_shows_is_what_is_logged(app: App):
    told = await square(app)
    kept = await app.memories.remember("Ferries leave at nine", sources=["s2"], room="square")
    async with visiting(app) as visitor:
        await visitor.page(f"/r/{told.room}/lines?ids={told.ids['s2']}")
        assert await logged(app, "read room") == {
            UUID(told.room),
            UUID(told.ids["s1"]),
            UUID(told.ids["s2"]),
            kept.id,
        }
        already = await times_logged(app, "read room")
        await visitor.page(f"/r/{told.room}?view=threads&before={told.ids['s5']}")
        assert await times_logged(app, "read room") == already + 1
        seen = await logged(app, "read room")
        assert UUID(told.ids["s1"]) in seen
        assert UUID(told.ids["s1500"]) not in seen
        page = await visitor.page(f"/c/{told.ferry}")
        assert {UUID(told.ids["s1"]), kept.id, UUID(told.ferry)} <= await logged(app, "read conversation")
        assert ids_in(page) - await logged(app, "read conversation") <= {
            UUID(told.room),
            *(one.id for one in await app.participants(app.operator)),
        }


@pytest.mark.slow
async def test_rooms_are_paged_and_a_form_names_them_without_counting(app: App):
    await village(app)
    for number in range(105):
        await app.ingest_batch(
            [message("r", "hello", room=room(f"room {number}"), author=ANA, sent_at=at(5_000 + number))]
        )
    async with visiting(app) as visitor:
        first, second = await visitor.twin("/index.json"), await visitor.twin("/index.json?page=2")
        assert (len(first["rooms"]), first["has_more"], second["has_more"]) == (100, True, False)
        seen = [one["id"] for one in [*first["rooms"], *second["rooms"]]]
        every = [str(one.id) for one in await app.rooms(app.operator)]
        assert seen == every
        assert first["rooms"][0]["name"] == "room 104"
        page = await visitor.page("/")
        assert 'href="/?page=2"' in page
        assert [one["name"] for one in (await visitor.twin("/index.json?named=ROOM+77"))["rooms"]] == [
            "room 77"
        ]
        assert (await visitor.get("/?page=0")).status_code == 400
        assert "There are no more rooms" in await visitor.page("/?page=9")
        asked = await visitor.twin("/search.json")
        assert all("message_count" not in one for one in asked["rooms"])
        assert len(asked["rooms"]) == len(every)
    async with visiting(app, await key_of(app, "eve")) as visitor:
        twin = await visitor.twin("/index.json")
        eve = await app.impersonate(await app.viewer("eve")).rooms(await app.viewer("eve"))
        assert [one["id"] for one in twin["rooms"]] == [str(one.id) for one in eve][:100]
        assert [one["message_count"] for one in twin["rooms"]] == [one.message_count for one in eve][:100]


@pytest.mark.slow
async def test_whoever_says_little_is_found_far_back_page_by_page(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "MAX_SCANNED", 40)
    said = [
        message(
            f"n{number}",
            f"line {number}",
            room=SQUARE,
            author=PIP if number in {3, 5, 130} else BO,
            sent_at=at(number),
        )
        for number in range(200)
    ]
    await app.ingest_batch(said)
    where = await room_id(app, "square")
    async with visiting(app) as visitor:
        for asked in ("author=pip", "kind=agents"):
            twin, found, pages = await visitor.twin(f"/r/{where}.json?{asked}"), [], 1
            while True:
                found = [row["line"]["placed"]["message"]["external_id"] for row in twin["rows"]] + found
                if not twin["earlier"]:
                    break
                twin = await visitor.twin(f"/r/{where}.json?{asked}&before={twin['earlier']}")
                pages += 1
            assert (found, pages > 3) == (["n3", "n5", "n130"], True)
        assert "Go to another page" in await visitor.page(f"/r/{where}?author=pip")
        await app.memories.remember("Three is a line", sources=["n3"], room="square")
        far = await visitor.twin(f"/r/{where}.json?memory=1")
        assert [row["line"]["placed"]["message"]["external_id"] for row in far["rows"]] == ["n3"]
        assert far["earlier"] is None


@pytest.mark.slow
async def test_colours_of_new_rows_are_those_of_the_page_and_who_spoke_is_not_counted_each_time(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    told = await square(app)
    assert CACHE_SECONDS > 0
    asked: list[object] = []
    spoke = store.speaker_counts

    async def counted(*words):
        asked.append(words)
        return await spoke(*words)

    monkeypatch.setattr(store, "speaker_counts", counted)
    async with visiting(app) as visitor:
        page = await visitor.twin(f"/r/{told.room}.json")
        for _ in range(5):
            rows = await visitor.page(f"/r/{told.room}/lines?ids={told.ids['s2']},{told.ids['s8']}")
        assert len(asked) == 1
        by_id = {row["line"]["placed"]["message"]["id"]: row["colour"] for row in page["rows"]}
        for mark, name in (("s2", "Bo"), ("s8", "Eve")):
            assert f'author-{by_id[told.ids[mark]]}">{name}<' in rows
        await app.ingest_batch([in_square(1700, "a new voice", author=author("newcomer", name="newcomer"))])
        new = (await ids_by_mark(app))["s1700"]
        fresh = await visitor.page(f"/r/{told.room}/lines?ids={new}")
        assert len(asked) == 2
        [colour] = re.findall(r'author-(\d+)">newcomer<', fresh)
        again = await visitor.twin(f"/r/{told.room}.json")
        assert int(colour) == again["rows"][-1]["colour"]


@pytest.mark.slow
async def test_only_the_two_words_say_how_sensitive_a_conversation_is(app: App):
    told = await square(app)
    async with visiting(app) as visitor:
        assert (await visitor.send(f"/c/{told.ferry}/mark", sensitivity="sensitive")).status_code == 303
        for wrong in ("Sensitive", "SENSITIVE", "none", "norma"):
            assert (await visitor.send(f"/c/{told.ferry}/mark", sensitivity=wrong)).status_code == 400
        twin = await visitor.twin(f"/c/{told.ferry}.json")
        assert twin["conversation"]["sensitivity"] == "sensitive"


@pytest.mark.slow
async def test_attached_files_are_named_as_text(app: App):
    await app.ingest_batch(
        [
            message(
                "f1",
                "look",
                sent_at=at(1),
                attachments=[
                    {"name": "<b>map</b>.png", "type": "image/png", "url": "https://x.example/secret"}
                ],
                **ALIKE,
            )
        ]
    )
    where = await room_id(app, "square")
    async with visiting(app) as visitor:
        for path in (f"/r/{where}", f"/r/{where}/message/f1"):
            page = await visitor.page(path)
            assert "&lt;b&gt;map&lt;/b&gt;.png" in page
            assert "image/png" in page
            assert "x.example" not in page


@pytest.mark.slow
async def test_those_who_hear_a_whisper_of_an_exchange_are_named(app: App):
    told = await square(app)
    async with visiting(app, await key_of(app, "cy")) as visitor:
        page = await visitor.page(f"/r/{told.room}?view=threads")
        assert re.search(r"visible to Ana(, \w+)*, Bo", page) or "visible to Ana, Bo" in page
    async with visiting(app, await key_of(app, "eve")) as visitor:
        assert "visible to" not in await visitor.page(f"/r/{told.room}?view=threads")
