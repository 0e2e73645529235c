"""What is looked up of a room: how often a value is said counts the value, and not what only holds a part of it."""

import pytest

from ingest.stories import at
from operations.test_privacy_requests import say
from roomlore.operations import App
from roomlore.privacy import storage
from search.telling import ANA, BO, CY, tell


def chatter(body: str) -> list:
    return [say(f"n{n}", CY, f"{body}, day {n}", sent_at=at(3 + n / 100)) for n in range(12)]


@pytest.fixture
def small(monkeypatch):
    """Few are many here."""
    monkeypatch.setattr(storage, "MAX_OCCURRENCES", 5)


async def covers(app: App) -> set[str | None]:
    [wish] = await app.privacy_requests.all(app.operator)
    return {one.external_id for one in wish.covered_messages}


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("noise", ["minutes of 2024", "PX is fine, 2024 was not", "PXL-20245", "2024/PX"])
async def test_a_value_is_not_common_because_a_part_of_it_is(app: App, noise):
    await tell(
        app,
        say("1", ANA, "the kiln ref is PX-2024", sent_at=at(1)),
        say("2", BO, "kiln ref (px 2024), got it", sent_at=at(2)),
        *chatter(noise),
        say("6", ANA, "Please delete PX-2024 from your memory", sent_at=at(9)),
    )
    assert await covers(app) == {"1", "2", "6"}


async def test_a_name_is_not_common_because_a_longer_word_holds_it(app: App):
    await tell(
        app,
        say("1", ANA, "they say Tom snores", sent_at=at(1)),
        *chatter("see you tomorrow, customs office"),
        say("6", ANA, "Please delete the name Tom from your memory", sent_at=at(9)),
    )
    assert await covers(app) == {"1", "6"}


@pytest.mark.usefixtures("small")
async def test_a_value_that_many_say_is_what_the_room_is_about(app: App):
    await tell(
        app,
        say("1", ANA, "the kiln ref is PX-2024", sent_at=at(1)),
        *chatter("PX-2024 it is"),
        say("6", ANA, "Please delete PX-2024 from your memory", sent_at=at(9)),
    )
    assert await covers(app) == {"1", "6"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", ["Müßig-77123", "ñandú-77123", "Łódź 77123"])
async def test_letters_of_any_alphabet_are_found_again(app: App, value):
    await tell(
        app,
        say("1", ANA, f"it is {value}", sent_at=at(1)),
        say("2", BO, f"so {value.lower()}_ok", sent_at=at(2)),
        say("6", ANA, f'Please delete "{value}" from your memory', sent_at=at(9)),
    )
    # One with quotation marks may quote somebody, and is proposed.
    for wish in await app.privacy_requests.all(app.operator):
        await app.privacy_requests.apply(str(wish.id))
    assert await covers(app) == {"1", "2", "6"}
