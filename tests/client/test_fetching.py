"""The call without parameters."""

import pytest

import roomlore
from client.conftest import MakeVillage
from operations.village import ANA, SQUARE, say


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_fetcher_takes_no_parameters_and_sees_the_room_as_it_is_when_called(
    make_village: MakeVillage, is_here
) -> None:
    village = await make_village(is_here=is_here)
    rooms = await village("eve")
    assert rooms.principal is not None
    fetch = roomlore.fetcher(rooms, rooms.principal, "square", budget=500)
    before = await fetch()
    await village.app.ingest(say(40, ANA, SQUARE))
    after = await fetch()
    assert [line.message.external_id for line in before.lines] == ["m1", "m2", "m3"]
    assert [line.message.external_id for line in after.lines] == ["m1", "m2", "m3", "m40"]
    assert after.budget == 500
