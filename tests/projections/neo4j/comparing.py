"""Compares an index in a real server with the database, without the code that wrote it."""

from collections.abc import Mapping
from typing import Any

from jobs.copying import expected_nodes
from projections.neo4j.stories import Model, Raw
from roomlore.db import projections
from roomlore.operations import App


async def assert_alike(app: App, raw: Raw) -> str:
    """The copy that is read holds what the database would have it hold, and stubs for tags alone; return its name."""
    wanted, model = await expected_nodes(app), Model()
    model.put([*wanted.values()])
    found = await app.projections.diff("neo4j")
    assert (found.count, found.compared) == (0, len(wanted))
    async with app.db.read_transaction(app.operator) as conn:
        [held] = [one for one in await projections.all_projections(conn, app.org_id) if one.target == "neo4j"]
    assert held.index_name is not None
    nodes, stubs, lines = await raw.seen(held.index_name)
    modelled = model.seen()
    assert {key: (label, plain(held)) for key, (label, _, held) in nodes.items()} == {
        key: (label, dict(held)) for key, (label, _, held) in modelled[0].items()
    }
    assert stubs == modelled[1]
    assert lines == modelled[2]
    tags = await raw.ask("MATCH (t:Tag {copy: $copy}) RETURN t.uuid AS id", copy=held.index_name)
    assert stubs == {tag["id"] for tag in tags}
    return held.index_name


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in properties.items()}
