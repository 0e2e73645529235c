"""Receipts tell what copies in other servers may hold still of what is gone, and tell no one else's."""

import pytest

from ingest.stories import at, author, message
from jobs.copying import Graph, Shelf
from privacy.village import remember
from roomlore.cli.erasure import receipt_lines
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.receipts import PendingRemoval, Receipt
from roomlore.jobs import projection
from roomlore.jobs.projection import ProjectionWorker
from roomlore.operations import App
from roomlore.operations import projection_service as composition

ANA, BO, CY = map(author, ("ana", "bo", "cy"))


@pytest.fixture(name="shelves")
def _shelves(monkeypatch: pytest.MonkeyPatch) -> dict[str, Shelf]:
    held: dict[str, Shelf] = {"qdrant": Shelf(), "neo4j": Graph()}
    monkeypatch.setattr(composition, "open_projection", lambda _settings, target: held[target])
    return held


@pytest.fixture(name="copied")
async def _copied(app: App, shelves: dict[str, Shelf]) -> App:
    """An org of three people with a copy in either server."""
    await app.ingest_batch(
        [
            message("1", "Who feeds the cat?", author=ANA, sent_at=at(1)),
            message("2", "I do.", author=BO, reply_to="1", sent_at=at(2)),
            message("3", "Thanks, Bo!", author=CY, reply_to="2", sent_at=at(3)),
            message("4", "It rains.", author=ANA, sent_at=at(4)),
        ]
    )
    await app.drain()
    for target in shelves:
        await app.projections.rebuild(target)
    return app


async def write(app: App, shelves: dict[str, Shelf], *targets: str) -> None:
    """Write what waits for these copies."""
    for target in targets:
        worker = ProjectionWorker(db=app.db, projection=shelves[target], queue=target)  # pyright: ignore[reportArgumentType]
        await projection.drain(worker, only_org=app.org_id)


async def told(app: App, receipt_id: object) -> dict[str, PendingRemoval]:
    found = await app.erasure.receipt(str(receipt_id))
    assert found.pending_projections is not None
    return {one.store: one for one in found.pending_projections}


async def test_an_erased_message_is_told_to_be_in_each_copy_until_it_is_not(copied: App, shelves) -> None:
    gone, before = await copied.erasure.message("4"), len(shelves["qdrant"].held_copies)
    assert before == 1
    assert gone.is_clean
    assert gone.pending_projections is not None
    assert {one.store: (one.to_remove, one.is_done) for one in gone.pending_projections} == {
        "qdrant": (1, False),
        "neo4j": (1, False),
    }
    await write(copied, shelves, "qdrant")
    states = await told(copied, gone.id)
    assert states["qdrant"].is_done
    assert not states["neo4j"].is_done
    [held] = shelves["qdrant"].held_copies.values()
    assert gone.message_id not in held
    await write(copied, shelves, "neo4j")
    assert all(one.is_done for one in (await told(copied, gone.id)).values())


@pytest.mark.slow
async def test_a_stretch_of_a_room_leaves_points_to_be_removed_and_what_answered_it_to_be_written(
    copied: App, shelves
) -> None:
    gone = await copied.erasure.range("general", until=at(2))
    assert gone.is_clean
    states = await told(copied, gone.id)
    assert states["qdrant"].to_remove == 1
    assert states["qdrant"].to_rewrite >= 1
    await write(copied, shelves, *shelves)
    assert all(one.is_done for one in (await told(copied, gone.id)).values())


async def test_a_person_goes_from_a_graph_with_what_they_said_and_what_is_remembered_of_them(
    copied: App, shelves
) -> None:
    await remember(copied, "Bo feeds the cat.", sources=["2"], roles=[("bo", "subject")])
    gone = await copied.erasure.person("bo")
    assert gone.is_clean
    states = await told(copied, gone.id)
    assert states["qdrant"].to_remove == 1
    # Their words and themselves at least; the memory was never written.
    assert states["neo4j"].to_remove >= 2
    await write(copied, shelves, *shelves)
    assert all(one.is_done for one in (await told(copied, gone.id)).values())
    assert (await copied.projections.diff("neo4j")).count == 0


@pytest.mark.slow
async def test_a_server_that_fails_is_told_of_with_since_when_and_what_it_refuses(
    copied: App, shelves
) -> None:
    shelves["qdrant"].is_down = True
    gone = await copied.erasure.message("4")
    with pytest.raises(BackendUnavailable):
        await write(copied, shelves, "qdrant")
    state = (await told(copied, gone.id))["qdrant"]
    assert (state.to_remove, state.dead_lettered, state.error) == (1, 0, "the shelf fell down")
    assert state.failing_since is not None
    shelves["qdrant"].is_down = False

    async def refuse(*_: object) -> None:
        raise BadInput("point", "is not to the shelf's taste")

    shelves["qdrant"].drop = refuse  # type: ignore[method-assign]
    await write(copied, shelves, "qdrant")
    state = (await told(copied, gone.id))["qdrant"]
    assert (state.to_remove, state.dead_lettered, state.is_done) == (1, 1, False)


async def test_what_is_asked_for_long_after_an_erasure_is_none_of_its_business(
    copied: App, shelves, admin
) -> None:
    gone = await copied.erasure.message("4")
    await write(copied, shelves, *shelves)
    await admin.execute(
        "update receipts set at = at - interval '1 hour', checked_at = checked_at - interval '1 hour'"
        " where org_id = %s",
        [copied.org_id],
    )
    await copied.ingest(message("5", "It snows.", author=BO, sent_at=at(5)))
    later = await copied.erasure.message("5")
    assert all(one.is_done for one in (await told(copied, gone.id)).values())
    assert not any(one.is_done for one in (await told(copied, later.id)).values())
    # Who looks again looks at all of it.
    again = await copied.erasure.verify(str(gone.id))
    assert again.pending_projections is not None
    assert not any(one.is_done for one in again.pending_projections)


async def test_whoever_erased_their_own_is_told_of_their_own_alone(copied: App, shelves) -> None:
    shelves["qdrant"].is_down = True
    await copied.ingest(message("5", "It snows.", author=BO, sent_at=at(5)))
    with pytest.raises(BackendUnavailable):
        await write(copied, shelves, "qdrant")
    await copied.erasure.message("3")
    ana = copied.impersonate(await copied.viewer("ana"))
    gone = await ana.erasure.message("4")
    assert gone.pending_projections is not None
    assert [(one.store, one.to_remove, one.to_rewrite, one.error) for one in gone.pending_projections] == [
        ("neo4j", 1, 0, None),
        ("qdrant", 1, 0, None),
    ]
    mine = await ana.erasure.person("ana")
    assert mine.pending_projections is not None
    # Her other message, and in the graph herself.
    assert {one.store: one.to_remove for one in mine.pending_projections} == {"qdrant": 1, "neo4j": 2}
    in_full = next(
        one for one in await copied.erasure.receipts() if one.kind == "person" and one.viewer_id is None
    )
    assert (await told(copied, in_full.id))["qdrant"].to_remove == 3


async def test_an_own_receipt_says_no_more_is_gone_than_it_counts(copied: App, shelves, admin) -> None:
    await remember(copied, "It rains.", sources=["4"])
    await copied.projections.rebuild("neo4j")
    ana = copied.impersonate(await copied.viewer("ana"))
    gone = await ana.erasure.message("4")
    await admin.execute(
        "delete from work_queue where org_id = %s and queue = 'neo4j' and subject_id = %s",
        [copied.org_id, gone.message_id],
    )
    # What was drawn from her message waits, and is not counted: somebody else's might be.
    assert not (await told(copied, (await _in_full(copied)).id))["neo4j"].is_done
    assert (await told(ana, gone.id))["neo4j"].is_done
    [line] = [one for one in receipt_lines(await ana.erasure.receipt(str(gone.id))) if "neo4j" in one]
    assert (
        line == "  index neo4j: the messages and accounts are removed; what was derived is not counted here"
    )
    await write(copied, shelves, "neo4j")
    in_full = await copied.erasure.receipt(str((await _in_full(copied)).id))
    assert "  index neo4j: everything is removed" in receipt_lines(in_full)


async def _in_full(app: App) -> Receipt:
    """Return the operator's receipt of what somebody erased of their own."""
    [found] = [one for one in await app.erasure.receipts() if not one.is_own]
    return found


async def test_without_copies_and_in_lists_nothing_is_told(app: App) -> None:
    await app.ingest(message("1", "Who feeds the cat?"))
    assert (await app.erasure.message("1", dry_run=True)).pending_projections is None
    gone = await app.erasure.message("1")
    assert gone.pending_projections == ()
    [listed] = await app.erasure.receipts()
    assert listed.pending_projections is None
