"""Searches that rank higher what is near the asker: the same finds in another order, by the same graph."""

import pytest

from graph.test_proposals import lied_to
from ingest.stories import at, author, message
from roomlore.operations import App
from roomlore.search.query_parser import Filters

NEAR = Filters(near=True)
ASKED = "which paint is best for the fence"


@pytest.fixture(name="painters")
async def _painters(app: App) -> App:
    """Ana talks with Cy, and hardly ever with Bo; both speak of paint."""
    ana, bo, cy = author("ana", name="Ana"), author("bo", name="Bo"), author("cy", name="Cy")
    talk = [
        record
        for number in range(6)
        for record in (
            message(f"q{number}", f"Lunch number {number}?", author=ana, sent_at=at(10 * number)),
            message(
                f"a{number}", "Fine by me.", author=cy, reply_to=f"q{number}", sent_at=at(10 * number + 1)
            ),
        )
    ]
    paint = [
        message("by bo", "The green paint is best for the fence.", author=bo, sent_at=at(200)),
        message("by cy", "The brown paint is best for the fence.", author=cy, sent_at=at(400)),
        message("by dee", "The white paint is best for the fence.", author=author("dee"), sent_at=at(600)),
    ]
    await app.ingest_batch([*talk, *paint])
    await app.drain()
    return app


async def found(app: App, who: str, filters: Filters) -> list[str]:
    viewer = app.operator if who == "operator" else await app.viewer(who)
    return [
        one.external_id
        for hit in (await app.search(viewer, ASKED, filters=filters)).hits
        for one in hit.messages
    ]


async def test_what_somebody_said_whom_the_asker_talks_to_goes_first(painters: App):
    plain, near = await found(painters, "ana", Filters()), await found(painters, "ana", NEAR)

    assert set(near) == set(plain)
    assert near[0] == "by cy"
    assert (await found(painters, "bo", NEAR))[0] == "by bo"


async def test_nothing_is_near_the_operator(painters: App):
    assert await found(painters, "operator", NEAR) == await found(painters, "operator", Filters())


async def test_a_copy_of_the_graph_changes_nothing_and_one_that_is_away_is_told_of(painters: App, admin):
    asked, liar = await lied_to(painters, admin)

    assert await found(asked, "ana", NEAR) == await found(painters, "ana", NEAR)
    assert liar.asked > 0

    liar.is_down = True
    told = await asked.search(await asked.viewer("ana"), ASKED, filters=NEAR)
    assert told.degraded == ("neo4j is unavailable",)
    assert told.hits[0].messages[0].external_id == "by cy"


async def test_an_answer_is_as_sure_as_without(painters: App):
    ana = await painters.viewer("ana")
    plain = await painters.search(ana, ASKED)
    near = await painters.search(ana, ASKED, filters=NEAR)

    assert near.certainty == plain.certainty
