"""Stories for A3 and A4: who stated what about whom, for whom it is, and whom an agent may trust.

The other rows of the data model are told where they live: A1, A2 and A5 in `test_story.py` and `tests/ingest`, A9 in
`tests/context/test_render.py`. A6 to A8 speak of stores and of old databases that are not there yet.
"""

from datetime import timedelta

from scenarios.kilnhouse import (
    HOME,
    INES,
    MARA,
    NOON,
    QUILL,
    TEO,
    contents,
    known,
    names,
    remember,
    said,
    tell,
)


async def test_a3_facts_are_attributed_to_whoever_stated_them_agents_included_and_marked_as_such(house):
    [home] = await known(house, by="teo", about="teo")
    assert (home.content, names(home, "author"), names(home, "subject")) == (
        f"Teo: \u201c{HOME}\u201d",
        {"Teo"},
        {"Teo"},
    )
    celsius = "I'd rather get temperatures in Celsius, please, I mix up Fahrenheit."
    later = NOON + timedelta(hours=6)
    await tell(
        house,
        said("celsius", QUILL, celsius, sent_at=later),
        said("ok", MARA, "ok", sent_at=later + timedelta(minutes=1)),
    )
    [short] = await known(house, by="quill")
    assert short.content == f"Quill: \u201c{celsius}\u201d"
    assert "agent" in short.tags
    assert "agent" not in home.tags
    kinds = {one.name: one.kind for one in await house.participants(house.operator)}
    assert (kinds["Quill"], kinds["Teo"]) == ("agent", "human")


async def test_a3_what_somebody_reports_of_another_is_not_credited_to_the_other(house):
    await tell(
        house, said("quote", INES, "> I live in Lyon."), said("told", INES, "Teo said: I live in Lyon.")
    )
    await house.extraction.extract("studio")
    assert await contents(house, about="teo") == {f"Teo: \u201c{HOME}\u201d"}
    assert "Lyon" not in str(await contents(house))


async def test_a3_speaker_subject_and_audience_are_three_things(house):
    memory = await remember(house, None, "Ines lost the first key.", about=["ines"], sources=["key"])
    assert (names(memory, "author"), names(memory, "subject")) == ({"Mara"}, {"Ines"})
    # Whom it is for follows from where it was said, and not from whom it is about.
    seen = {name: memory in await known(house, name) for name in ("mara", "teo", "pip", "ines", "quill")}
    assert seen == {"mara": True, "teo": True, "pip": True, "ines": False, "quill": False}
    assert memory in await known(house, about="ines", by="mara")
    assert memory not in await known(house, by="ines")
    # An agent that puts it its own way is who states it, and not whoever said what it rests on.
    own = await remember(house, "pip", "Keys get lost here", about=["ines"], sources=["key"])
    assert (names(own, "author"), names(own, "involved")) == ({"Pip"}, {"Mara"})


async def test_a4_an_agent_has_trust_in_every_participant_of_a_conversation_and_not_in_one(house):
    found = {one.name: one for one in await house.agents.relationships(house.operator, "pip")}
    assert found.keys() == {"Mara", "Teo", "Ines", "Quill"}
    assert (found["Mara"].answered, found["Ines"].answers) == (2, 1)
    # Teo agreed with Mara and thanked Ines; what Ines set right was the agent's.
    assert found["Mara"].confirmed == found["Ines"].confirmed == 1
    assert found["Teo"].confirmed == 0
    assert found["Mara"].trust > found["Teo"].trust > found["Quill"].trust
    assert all(one.reasons for one in found.values() if one.kind == "human")
    other = {one.name: one for one in await house.agents.relationships(house.operator, "quill")}
    assert other["Pip"].corrected == 1
    assert other["Pip"].trust < found["Quill"].trust


async def test_a4_the_next_message_changes_all_of_them_at_once(house):
    before = {one.name: one for one in await house.agents.relationships(house.operator, "quill")}
    await tell(
        house,
        said("more", TEO, "exactly, cone ten", reply_to="answer-no"),
        said("more-2", QUILL, "then the book is wrong", reply_to="more"),
    )
    after = {one.name: one for one in await house.agents.relationships(house.operator, "quill")}
    assert after["Ines"].confirmed == before["Ines"].confirmed + 1
    assert after["Teo"].answered == 1
    assert after["Teo"].messages == before["Teo"].messages + 1
