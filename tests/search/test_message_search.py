"""Message search: candidates, filters, as of an earlier message."""

import pytest

from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BadInput, NotFound
from roomlore.search.message_search import SearchQuery, search_messages
from search.telling import ANA, BO, PIP, all_ids, at, closed, found_ids, ids, message, tell, without_model

MINUTE = "min"


async def scoped(app, question, **scope):
    """Search by words in a scope that the App does not offer."""
    async with app.db.read_transaction(app.operator) as conn:
        found = await search_messages(
            conn,
            app.operator,
            SearchQuery(text=question, vector=None),
            search_filter=SearchFilter(**scope),
            limit=10,
        )
    return sorted(key for hit in found.hits for key in ids(hit))


async def test_meaning_and_words_both_count_and_each_find_says_why(app):
    await tell(
        app,
        message("1", "the ferry leaves at noon"),
        message("2", "noon"),
        message("3", "apples and pears in the cellar"),
    )
    found = await app.search(app.operator, "when does the ferry leave at noon")
    best = found.hits[0]
    why = best.why[best.best.id]
    assert ids(best) == ["1"]
    assert set(why.terms) == {"ferri", "leav", "noon"}
    assert why.coverage == pytest.approx(1.0)
    assert why.similarity is not None
    assert why.score == best.score == 1.0
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    near = next(hit for hit in found.hits if ids(hit) == ["3"])
    assert next(iter(near.why.values())).coverage is None
    assert found.degraded == ()


async def test_hit_has_its_whole_thread_and_marks_the_matches(app):
    await tell(app, message("1", "where is the lantern"), message("2", "under the stairs", reply_to="1"))
    [hit] = await by_words(app, "lantern")
    assert (ids(hit), found_ids(hit)) == (["1", "2"], ["1"])
    [edge] = hit.replies
    assert (edge.parent_id, edge.child_id) == (hit.messages[0].id, hit.messages[1].id)


async def by_words(app, question, limit=10):
    async with app.db.read_transaction(app.operator) as conn:
        asked = SearchQuery(text=question, vector=None)
        return (
            await search_messages(conn, app.operator, asked, search_filter=SearchFilter(), limit=limit)
        ).hits


async def test_a_limit_counts_exchanges_and_finds_of_one_share_a_place(app):
    told = [message(str(number), f"lantern {'lantern ' * number}") for number in range(4)]
    await tell(app, *told, message("5", "lantern again", reply_to="0"))
    assert len(await by_words(app, "lantern", limit=2)) == 2
    hits = await by_words(app, "lantern")
    assert sorted(all_ids(hits)) == [["0", "5"], ["1"], ["2"], ["3"]]
    assert next(found_ids(hit) for hit in hits if len(hit.messages) == 2) == ["0", "5"]


async def test_a_scope_narrows_by_room_author_kind_and_time(app):
    await tell(
        app,
        message("1", "lantern", author=ANA),
        message("2", "lantern", author=BO),
        message("3", "lantern", author=PIP),
        message("4", "lantern", author=ANA, room=closed("attic", ANA)),
    )
    bo, rooms = await app.viewer("bo"), await app.rooms(app.operator)
    attic = next(room.id for room in rooms if room.name == "attic")
    assert await scoped(app, "lantern") == ["1", "2", "3", "4"]
    assert await scoped(app, "lantern", author_ids=[bo.participant_id]) == ["2"]
    assert await scoped(app, "lantern", author_ids=[]) == []
    assert await scoped(app, "lantern", author_kinds=["agent"]) == ["3"]
    assert await scoped(app, "lantern", room_ids=[attic]) == ["4"]
    assert await scoped(app, "lantern", room_ids=[]) == []
    assert await scoped(app, "lantern", since=at(2), until=at(4)) == ["2", "3"]


async def test_without_a_model_words_still_find_and_the_result_says_so(app, tmp_path):
    await tell(app, message("1", "the lantern is lit"), message("2", "good night"))
    found = await (await without_model(app, tmp_path)).search(app.operator, "lantern")
    assert all_ids(found.hits) == [["1"]]
    assert found.hits[0].why[found.hits[0].best.id].similarity is None
    assert found.degraded == ("no embedding model",)


async def test_only_the_operator_hears_that_something_is_not_embedded_yet(app):
    await app.ingest_batch([message("1", "the lantern is lit")])
    assert (await app.search(app.operator, "lantern")).degraded == ("not everything is embedded yet",)
    assert (await app.search(await app.viewer("ana"), "lantern")).degraded == ()


@pytest.mark.parametrize("limit", [0, -1])
async def test_less_than_one_is_no_limit(limit, app):
    await tell(app, message("1", "lantern"))
    with pytest.raises(BadInput, match="limit: must be at least 1"):
        await app.search(app.operator, "lantern", limit=limit)
    with pytest.raises(BadInput, match="limit: must be at least 1"):
        await app.messages(app.operator, "general", limit=limit)


async def test_question_loses_characters_that_the_database_refuses(app):
    await tell(app, message("1", "the lantern is lit"))
    assert all_ids((await app.search(app.operator, "lan\udce9 \0lantern")).hits) == [["1"]]


async def test_an_empty_question_and_an_unknown_room_are_refused(app):
    with pytest.raises(BadInput, match="question"):
        await app.search(app.operator, " \n")
    with pytest.raises(BadInput, match="question"):
        await app.ask(app.operator, "")
    with pytest.raises(NotFound):
        await app.search(app.operator, "lantern", room="nowhere")


async def test_as_of_cuts_by_the_place_in_the_room_where_times_are_the_same(app):
    same = {"sent_at": at(0), "precision": MINUTE}
    await tell(app, *(message(f"x{order}", f"lantern {order}", order=order, **same) for order in range(5)))
    for room in ("general", None):
        found = await app.search(app.operator, "lantern", room=room, as_of="x2")
        assert sorted(all_ids(found.hits)) == [["x0"], ["x1"], ["x2"]]


async def test_later_messages_do_not_change_scores_as_of_an_earlier_one(app):
    same = {"sent_at": at(0), "precision": MINUTE}
    told = [
        message(f"x{order}", body, order=order, **same)
        for order, body in enumerate(["lantern", "old lantern"])
    ]
    await tell(app, *told)

    async def scores(**scope):
        found = await app.search(app.operator, "old brass lantern", **scope)
        return [(hit.best.external_id, hit.score) for hit in found.hits]

    before = await scores()
    later = message("x9", "old brass lantern", order=9, **same)
    await tell(app, later)
    as_of = await scores(as_of="x1")
    assert [key for key, _ in as_of] == [key for key, _ in before]
    assert as_of[0][1] == 1.0
    assert (await scores())[0][0] == "x9"


async def test_as_of_leaves_out_later_members_of_an_exchange(app):
    told = [
        message("1", "where is the lantern"),
        message("2", "no idea", reply_to="1"),
        message("3", "in the cellar", reply_to="1"),
        message("4", "thanks", reply_to="3"),
    ]
    await tell(app, *told)
    [hit] = (await app.search(app.operator, "lantern", room="general", as_of="2")).hits
    assert (ids(hit), hit.omitted) == (["1", "2"], 0)
    assert [edge.child_id for edge in hit.replies] == [hit.messages[1].id]


async def test_member_finds_only_messages_of_the_membership_period(app):
    where = closed("attic", ANA, since=5)
    told = [
        message("1", "the lantern is in the attic", room=where, author=BO),
        message("6", "the lantern broke", room=where, author=BO, reply_to="1"),
    ]
    await tell(app, *told)
    [hit] = (await app.search(await app.viewer("ana"), "lantern")).hits
    assert (ids(hit), hit.replies) == (["6"], [])
