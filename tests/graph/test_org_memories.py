"""A memory that rests on nothing and is for the org is so in copies, too."""

from ingest.stories import at, author, message
from roomlore.db.graph_nodes import nodes
from roomlore.operations import App


async def test_only_what_rests_on_nothing_and_is_for_the_org_is_told_to_a_copy_as_such(app: App):
    await app.ingest_batch([message("1", "hello", author=author("ana"))])
    held = {
        "for all": await app.memories.remember("Tea is at four", occurred_at=at(5)),
        "for one": await app.memories.remember("Cake is at five", audience="self"),
        "said": await app.memories.remember("Ana says hello", sources=["1"]),
    }
    async with app.db.read_transaction(app.operator) as conn:
        found = await nodes(conn, app.org_id, [one.id for one in held.values()], version=1)
    told = {one.id: one.properties for one in found}
    assert {name: told[one.id]["is_for_org"] for name, one in held.items()} == {
        "for all": True,
        "for one": False,
        "said": False,
    }
    assert told[held["for all"].id]["valid_from"] == at(5).isoformat(timespec="microseconds")
