"""An agent that joins: registered before it speaks, let in by a key, and heard as itself.

tests/conformance shows that it comes to the same over HTTP.
"""

import asyncio
import itertools
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.conftest import MakeVillage, Village
from ingest.stories import at
from operations.village import ANA, BO, EVE, PIP, SQUARE, error_of, say
from roomlore.client import Rooms
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.records import Message
from search.telling import closed

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
async def village(make_village: MakeVillage) -> Village:
    return await make_village(is_here=True)


async def newest(app: Rooms, room: str) -> Message:
    return (await app.messages(app.principal, room))[-1]


async def bodies(app: Rooms, room: str) -> set[str]:
    return {one.body for one in await app.messages(app.principal, room)}


async def test_an_agent_is_registered_and_speaks_before_anybody_heard_of_it(village: Village) -> None:
    operator = await village("operator")
    account = await operator.people.register("Quill", platform="discord", account="4711")
    assert (account.name, account.kind, account.platform, account.account_id) == (
        "Quill",
        "agent",
        "discord",
        "4711",
    )
    assert await operator.people.register("Quill", platform="discord", account="4711") == account

    made = await operator.keys.create("agent", name="quill's", participant="Quill")
    assert made.participant_name == "Quill"
    assert "Quill" in {key.participant_name for key in await operator.keys.all()}
    quill = await operator.sign_in(made.key)
    said = await quill.intake.send("square", "Good morning.", reply_to="m1", metadata={"mood": "fine"})

    ana = await village("ana")
    heard = await newest(ana, "square")
    assert (heard.id, heard.body, heard.author_name, heard.author_kind) == (
        said,
        "Good morning.",
        "Quill",
        "agent",
    )
    assert heard.author_id == account.participant_id
    assert heard.reply_to == (await ana.messages(ana.principal, "square"))[0].id


async def test_what_an_agent_says_is_stored_once_by_the_platforms_id(village: Village) -> None:
    pip = await village("pip")
    first = await pip.intake.send("square", "Once.", external_id="d1")
    assert await pip.intake.send("square", "Once.", external_id="d1") == first
    # The platform's export names the same author by the same account.
    operator = await village("operator")
    await operator.ingest(say(40, PIP, SQUARE))
    people = [one.name for one in await operator.participants(operator.operator, room="square")]
    assert people.count("Pip") == 1


async def test_an_id_that_is_taken_tells_nothing_and_changes_nothing(village: Village) -> None:
    pip, operator = await village("pip"), await village("operator")
    for taken in ("m1", "m10"):  # m10 is a whisper that Pip does not see
        said = await pip.intake.send("square", "Mine.", external_id=taken)
        own = await newest(pip, "square")
        assert (own.id, own.body) == (said, "Mine.")
        assert own.external_id != taken
    bodies = {one.external_id: one.body for one in await operator.messages(operator.operator, "square")}
    assert bodies["m1"] == "village word1"
    assert bodies["m10"] == "village word10"


async def test_a_whisper_reaches_those_it_names_and_is_answered_by_a_whisper(village: Village) -> None:
    operator, pip = await village("operator"), await village("pip")
    await pip.intake.send("square", "For Eve alone.", to=["eve"])
    await operator.ingest(say(41, BO, SQUARE, kind="whisper", audience=(PIP,), body="What is the code?"))
    await pip.intake.send("square", "It is 1234.", reply_to="m41")

    for name, heard in {"eve": {"For Eve alone."}, "bo": {"It is 1234."}, "ana": set()}.items():
        reader = await village(name)
        bodies = {one.body for one in await reader.messages(reader.principal, "square")}
        assert bodies & {"For Eve alone.", "It is 1234."} == heard, name


async def test_what_follows_an_own_whisper_is_for_those_who_heard_it(village: Village) -> None:
    pip = await village("pip")
    whisper = await pip.intake.send("square", "Your salary is 1.", to=["eve", "bo"])
    more = await pip.intake.send("square", "And your bonus is 5.", reply_to=str(whisper))
    words = {"Your salary is 1.", "And your bonus is 5."}
    for name, heard in {"eve": words, "bo": words, "pip": words, "ana": set[str](), "cy": set[str]()}.items():
        reader = await village(name)
        said = await bodies(reader, "square")
        assert said & words == heard, name
    assert more != whisper


async def test_an_answer_to_a_whisper_of_several_is_for_all_of_them(village: Village) -> None:
    operator, pip = await village("operator"), await village("pip")
    await operator.ingest(say(45, BO, SQUARE, kind="whisper", audience=(PIP, EVE), body="What is the code?"))
    await pip.intake.send("square", "It is 1234.", reply_to="m45")
    for name, hears in {"eve": True, "bo": True, "ana": False}.items():
        reader = await village(name)
        assert ("It is 1234." in await bodies(reader, "square")) == hears, name


async def test_a_whisper_that_nobody_else_would_hear_is_not_said_to_the_room(village: Village) -> None:
    pip = await village("pip")
    before = await pip.messages(pip.principal, "square")
    for words in ({"to": ["pip"]}, {"to": ["me"]}):
        kind, _ = await error_of(pip.intake.send("square", "note to self: secret", **words))
        assert kind in {BadInput, NotFound}
    assert await pip.messages(pip.principal, "square") == before
    both = await pip.intake.send("square", "For Eve.", to=["pip", "eve"])
    assert (await newest(await village("eve"), "square")).id == both
    assert (await newest(await village("bo"), "square")).id != both


async def test_a_whisper_to_nobody_is_not_answered_in_the_room(village: Village) -> None:
    operator, pip = await village("operator"), await village("pip")
    await operator.ingest(say(46, PIP, SQUARE, kind="whisper", body="To myself."))
    kind, _ = await error_of(pip.intake.send("square", "And more.", reply_to="m46"))
    assert kind is BadInput
    assert "And more." not in {one.body for one in await operator.messages(operator.operator, "square")}


async def test_a_closed_room_is_for_its_present_members_to_speak_in(village: Village) -> None:
    operator, pip = await village("operator"), await village("pip")
    assert (await error_of(pip.intake.send("attic", "Hello?")))[0] is NotFound
    loft = closed("loft", ANA, PIP)
    await operator.ingest(say(42, ANA, loft))
    await pip.intake.send("loft", "I am in.")
    members = [replace(one, left_at=at(43)) if one.author == PIP else one for one in loft.members]
    await operator.ingest(say(44, ANA, replace(loft, members=members)))
    assert await error_of(pip.intake.send("loft", "Still here?")) == (
        NotAllowed,
        "not allowed: only present members say something in a closed room",
    )


async def test_who_is_not_in_a_closed_room_any_more_edits_nothing_there(village: Village) -> None:
    operator, pip = await village("operator"), await village("pip")
    loft = closed("loft", ANA, PIP)
    await operator.ingest(say(42, ANA, loft))
    said = await pip.intake.send("loft", "I am in.")
    await operator.room_admin.remove_member("loft", "Pip")
    assert await error_of(pip.intake.edit(str(said), "NEW CONTENT")) == (
        NotAllowed,
        "not allowed: only present members say something in a closed room",
    )
    assert "NEW CONTENT" not in {one.body for one in await operator.messages(operator.operator, "loft")}
    # It may still take back what it said, and an operator may edit it.
    await operator.intake.edit(str(said), "I was in.")
    await pip.erasure.redact(str(said))


async def test_a_whisper_is_edited_for_those_who_heard_it(village: Village) -> None:
    pip = await village("pip")
    said = await pip.intake.send("square", "For Eve.", to=["eve"])
    await pip.intake.edit(str(said), "For Eve alone.")
    assert "For Eve alone." in await bodies(await village("eve"), "square")
    assert "For Eve alone." not in await bodies(await village("bo"), "square")


@pytest.mark.parametrize("who", ["operator", "ana"])
async def test_only_agents_say_something_by_a_key(village: Village, who: str) -> None:
    app = await village(who)
    refusal = BadInput if who == "operator" else NotAllowed
    assert (await error_of(app.intake.send("square", "Hello.")))[0] is refusal


async def test_an_agent_edits_what_it_said_and_nothing_else(village: Village) -> None:
    pip = await village("pip")
    said = await pip.intake.send("square", "Teh ferry.", external_id="d2")
    await pip.intake.edit(str(said), "The ferry.")
    assert (await newest(pip, "square")).body == "The ferry."
    assert (await error_of(pip.intake.edit("m1", "Not mine.")))[0] is NotAllowed


@pytest.mark.slow
async def test_the_bot_of_the_readme_answers_what_is_said_to_it(
    both: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example as it stands, against a server, until it has answered."""
    bot = README.read_text(encoding="utf-8").split("```python\n")[2].partition("```")[0]
    operator, names = await both.here("operator"), dict[str, Any]()
    account = await operator.people.register("helperbot")
    key = (await operator.keys.create("agent", name="bot", participant="helperbot")).key
    monkeypatch.setenv("ROOMLORE_SERVER", both.address)
    monkeypatch.setenv("ROOMLORE_KEY", key)
    exec(bot.replace("asyncio.run(main())", ""), names)

    running = asyncio.create_task(names["main"]())
    try:
        async with asyncio.timeout(60), aclosing(operator.events(operator.operator, room="square")) as events:
            hearing = asyncio.ensure_future(anext(events))
            for number in itertools.count(50):
                # Said again until the bot listens: what was said before is not told to it.
                await operator.ingest(say(number, EVE, SQUARE, body="@helperbot what did Bo say?"))
                while (await asyncio.wait([hearing], timeout=2))[0]:
                    hearing = asyncio.ensure_future(anext(events))
                last = await newest(operator, "square")
                if last.author_id == account.participant_id:
                    break
            hearing.cancel()
        assert last.reply_to is not None
        assert last.body
        assert not running.done()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    "words",
    [{"name": ""}, {"name": "A\x07"}, {"name": "B", "kind": "robot"}, {"name": "C", "account": "x" * 300}],
)
async def test_an_agent_that_cannot_be_stored_is_refused(village: Village, words: dict[str, str]) -> None:
    operator = await village("operator")
    assert (await error_of(operator.people.register(**words)))[0] is BadInput
    assert (await error_of((await village("pip")).people.register("D")))[0] is NotAllowed
