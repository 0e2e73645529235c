"""A copy of an org is what the org was, and is nobody else's."""

import psycopg
import pytest
from psycopg import sql

from conftest import OpenApp, TellOnce
from copies import COLUMNS, Copies
from ingest.stories import message, room
from operations.village import STORY, village
from roomlore.operations import App


async def eventful(app: App) -> str:
    """Tell an org something of most kinds, some of which is still to be gone through."""
    await village(app)
    await app.drain()
    await app.memories.remember("known of the attic", sources=["m4"], tags=["attic"], about=["ana"])
    await app.erasure.redact("m11")
    await app.ingest(STORY[0])
    return "told"


async def rows(admin: psycopg.AsyncConnection, app: App) -> dict[str, list[str]]:
    """Return every row of an org as text, without whose it is."""
    tables = await (await admin.execute(COLUMNS)).fetchall()
    found: dict[str, list[str]] = {}
    for name, _ in tables:
        query = sql.SQL(
            "select (to_jsonb(one) - 'org_id')::text from roomlore.{} one where org_id = %s order by 1"
        )
        lines = await (await admin.execute(query.format(sql.Identifier(name)), [app.org_id])).fetchall()
        found[name] = [line for (line,) in lines]
    return found


@pytest.mark.slow
async def test_a_copy_is_row_for_row_what_was_told(
    admin: psycopg.AsyncConnection, app: App, open_app: OpenApp, copies: Copies
) -> None:
    copies.keep(eventful, app.org_id, await eventful(app))
    other = await open_app("other")

    assert copies.put(eventful, other.org_id) == "told"

    told = await rows(admin, app)
    assert await rows(admin, other) == told
    assert {"messages", "memories", "conversation_messages", "message_embeddings", "work_queue"} <= {
        name for name in told if told[name]
    }


@pytest.mark.slow
async def test_a_copy_may_be_changed_without_the_next_one_knowing(
    admin: psycopg.AsyncConnection, open_app: OpenApp, copies: Copies
) -> None:
    first, second, third = [await open_app(name) for name in ("first", "second", "third")]
    copies.keep(eventful, first.org_id, await eventful(first))
    before = await rows(admin, first)
    copies.put(eventful, second.org_id)

    await second.erasure.person("bo")
    await first.memories.remember("later")
    copies.put(eventful, third.org_id)

    assert await rows(admin, third) == before


@pytest.mark.slow
async def test_two_orgs_of_one_test_have_no_ids_in_common(open_app: OpenApp, tell_once: TellOnce) -> None:
    orgs = [await open_app("one"), await open_app("two")]
    for app in orgs:
        await tell_once(app, eventful)

    one, two = [{room.id for room in await app.rooms(app.operator)} for app in orgs]

    assert one
    assert not one & two


async def test_an_app_is_not_kept(app: App, copies: Copies) -> None:
    with pytest.raises(AssertionError, match="of its own"):
        copies.keep(village, app.org_id, app)


async def test_what_else_was_said_in_an_org_is_no_part_of_a_copy(
    open_app: OpenApp, tell_once: TellOnce, copies: Copies
) -> None:
    app = await open_app("busy")
    await app.ingest(message("x", "before", room=room("elsewhere")))

    await tell_once(app, quiet)

    assert quiet not in copies
    assert {one.name for one in await app.rooms(app.operator)} == {"elsewhere", "square", "attic", "cellar"}


async def quiet(app: App) -> None:
    """Tell an org the village and no more."""
    await village(app)
