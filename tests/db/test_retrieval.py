"""What the functions of search find where rooms are large, and for whom the world is small."""

from dataclasses import replace

import numpy as np
import pytest

from ingest.stories import at, message, room
from roomlore.db import search
from roomlore.db.search import FilterSize, SearchFilter
from roomlore.domain.records import Viewer
from roomlore.operations import App
from search.telling import ANA, BO, CY, closed, find, tell

LARGE = FilterSize(message_count=1_000_000, indexed_lengths=())
SMALL = FilterSize(message_count=1, indexed_lengths=())


async def worded(
    app: App, question: str, *, size: FilterSize, viewer: Viewer | None = None, **scope
) -> list[str]:
    """Return the bodies of what words alone propose, best first."""
    async with app.db.read_transaction(viewer or app.operator) as conn:
        found = await search.lexical_candidates(
            conn, question, search_filter=SearchFilter(**scope), measure=size, wanted=60
        )
        rows = await (
            await conn.execute("select id, body from messages where id = any (%s)", [list(found.message_ids)])
        ).fetchall()
    bodies = dict(rows)
    return [bodies[key] for key in found.message_ids]


@pytest.mark.slow
async def test_rare_words_are_found_among_thousands_with_common_ones_and_common_ones_alone(app: App):
    said = [message(str(n), "the meeting is on friday") for n in range(2_500)]
    said += [message(str(n), "meeting friday xylophone") for n in range(2_500, 2_503)]
    await app.ingest_batch(said)
    for size in (SMALL, LARGE):
        found = await worded(app, "meeting friday xylophone", size=size)
        assert found[:3] == ["meeting friday xylophone"] * 3
    for question in ("friday", "meeting on friday"):
        assert len(await worded(app, question, size=LARGE)) == 60


@pytest.mark.slow
async def test_common_words_that_stand_together_are_found_whichever_of_them_is_the_rarest(app: App):
    said = ["anvil"] * 4_500 + ["bellows"] * 4_700 + ["candle"] * 5_000 + ["bellows candle"] * 30
    await app.ingest_batch([message(str(n), body) for n, body in enumerate(said)])
    assert await worded(app, "anvil bellows candle", size=LARGE) == ["bellows candle"] * 30


async def test_words_are_looked_up_in_the_rooms_of_the_scope(app: App):
    await tell(app, message("1", "lantern here"), message("2", "lantern there", room=room("other")))
    other = next(one.id for one in await app.rooms(app.operator) if one.name == "other")
    for size in (SMALL, LARGE):
        assert await worded(app, "lantern", size=size, room_ids=[other]) == ["lantern there"]


async def test_a_long_question_keeps_its_first_words(app: App):
    await tell(app, message("1", "xylophone"))
    question = "xylophone " + " ".join(f"apple{n}" for n in range(100))
    assert await worded(app, question, size=SMALL) == ["xylophone"]


async def test_a_vector_of_another_length_finds_nothing_and_tells_nothing(app: App):
    await tell(app, message("1", "lantern", room=closed("attic", ANA)))
    odd = (app._embedder.model_id, np.ones(3, np.float32))
    for viewer in (app.operator, await app.viewer("ana")):
        async with app.db.read_transaction(viewer) as conn:
            for size in (SMALL, FilterSize(message_count=1_000_000, indexed_lengths=(384,))):
                assert (
                    await search.dense_candidates(
                        conn, odd, search_filter=SearchFilter(), measure=size, wanted=5
                    )
                    == []
                )
            ids = [row[0] for row in await (await conn.execute("select id from messages")).fetchall()]
            around = await search.context_window(
                conn, ids, lexemes=[], vector=odd, search_filter=SearchFilter(), reach=1
            )
            assert [row.similarity for row in around] == [None]


@pytest.mark.slow
async def test_whether_something_is_answered_does_not_depend_on_what_the_viewer_cannot_read(app: App, admin):
    """Bo's line was found to answer Ana's question. That it also answers a whisper is not for Cy to know."""
    whisper = message("2", "psst", author=ANA, kind="whisper", audience=(BO,))
    await tell(
        app, message("1", "where is the lantern?", author=ANA), whisper, message("3", "ana: under it", author=BO),
        message("4", "hi", author=CY),
    )  # fmt: skip
    await find(admin, app, "3", "1")
    cy, bo = await app.viewer("cy"), await app.viewer("bo")
    for viewer in (cy, bo, app.operator):
        assert await worded(app, "lantern", size=SMALL, viewer=viewer, answered=True) != []
    await admin.execute(
        """
        insert into replies (org_id, room_id, child_id, parent_id, method, confidence)
        select child.org_id, child.room_id, child.id, parent.id, 'explicit', 1
        from messages as child
        join messages as parent on parent.org_id = child.org_id and parent.external_id = '2'
        where child.org_id = %s and child.external_id = '3'""",
        [app.org_id],
    )
    assert await worded(app, "lantern", size=SMALL, viewer=cy, answered=True) == ["where is the lantern?"]
    assert await worded(app, "lantern", size=SMALL, viewer=cy, answered=False) == []
    for viewer in (bo, app.operator):
        assert await worded(app, "lantern", size=SMALL, viewer=viewer, answered=True) == []


async def test_vectors_that_no_index_holds_are_found_in_large_orgs_too(app: App, admin):
    await tell(app, message("1", "lantern"))
    await admin.execute(
        "insert into message_embeddings (org_id, message_id, room_id, model, embedding)"
        " select org_id, id, room_id, 'other', '[1, 0, 0]' from messages where org_id = %s",
        [app.org_id],
    )
    odd = ("other", np.array([1, 0, 0], np.float32))
    large = FilterSize(message_count=1_000_000, indexed_lengths=(384,))
    async with app.db.read_transaction(app.operator) as conn:
        [near] = await search.dense_candidates(
            conn, odd, search_filter=SearchFilter(), measure=large, wanted=5
        )
    assert near.similarity == 1


@pytest.mark.slow
async def test_what_few_said_is_found_among_what_many_said(app: App):
    others = [message(str(n), "the lantern is lit", author=BO) for n in range(200)]
    await tell(app, *others, message("ana", "a lantern for the boat", author=ANA))
    ana = next(one.id for one in await app.participants(app.operator) if one.name == "Ana")
    vector = (app._embedder.model_id, app._embedder.embed(["the lantern is lit"])[0])
    since = message("200", "").sent_at
    for size in (LARGE, replace(LARGE, indexed_lengths=(384,))):
        async with app.db.read_transaction(app.operator) as conn:
            scope = SearchFilter(author_ids=[ana])
            [near] = await search.dense_candidates(conn, vector, search_filter=scope, measure=size, wanted=5)
        assert near.similarity > 0
        assert await worded(app, "lantern is lit", size=size, author_ids=[ana]) == ["a lantern for the boat"]
        assert await worded(app, "lantern", size=size, since=since, until=None) == []


async def test_what_few_said_is_looked_for_in_the_rooms_of_the_scope_alone(app: App):
    others = [message(str(n), "the lantern is lit", author=BO) for n in range(50)]
    elsewhere = message("1", "a lantern in the attic", author=ANA, room=room("attic"))
    await tell(app, *others, message("ana", "a lantern for the boat", author=ANA), elsewhere)
    ana = next(one.id for one in await app.participants(app.operator) if one.name == "Ana")
    general = next(one.id for one in await app.rooms(app.operator) if one.name == "general")
    asked = (app._embedder.model_id, app._embedder.embed(["lantern"])[0])
    for where, count in (([general], 1), (None, 2)):
        found = await worded(app, "lantern", size=LARGE, author_ids=[ana], room_ids=where)
        async with app.db.read_transaction(app.operator) as conn:
            scope = SearchFilter(author_ids=[ana], room_ids=where)
            near = await search.dense_candidates(conn, asked, search_filter=scope, measure=LARGE, wanted=5)
        assert len(near) == len(found) == count
        assert "a lantern for the boat" in found


@pytest.mark.slow
async def test_what_was_said_later_changes_neither_rarities_nor_what_is_answered(app: App):
    said = [message(str(n), "is the lantern lit?", sent_at=at(n)) for n in range(2_000)]
    later = [message(str(n), "is the lantern lit?", sent_at=at(n)) for n in range(2_000, 9_000)]
    later.append(message("reply", "yes", reply_to="0", sent_at=at(9_000)))
    await app.ingest_batch(said)
    last = (await app.messages(app.operator, "general"))[-1].position
    async with app.db.read_transaction(app.operator) as conn:
        before = await search.lexical_candidates(
            conn, "lantern", search_filter=SearchFilter(last=last), measure=LARGE, wanted=5
        )
    await app.ingest_batch(later)
    async with app.db.read_transaction(app.operator) as conn:
        after = await search.lexical_candidates(
            conn, "lantern", search_filter=SearchFilter(last=last), measure=LARGE, wanted=5
        )
    assert before == after
    assert await worded(app, "lantern", size=SMALL, last=last, answered=True) == []
