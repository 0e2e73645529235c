"""An id that an agent states is its own word: no id of the platform is taken, none is found out, nothing comes twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import at, author
from operations.village import ANA, BO, EVE, PIP, SQUARE, error_of, say, whole_village
from roomlore.domain.errors import BadInput
from roomlore.domain.records import Message
from roomlore.operations import App

QUILL = author("quill", kind="agent")


@pytest.fixture
async def square(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, whole_village)
    return app


async def acting(app: App, name: str) -> App:
    return app.impersonate(await app.viewer(name))


async def heard(app: App, name: str | None = None) -> list[Message]:
    viewer = app.operator if name is None else await app.viewer(name)
    return list(await app.messages(viewer, "square", limit=100))


async def told(app: App, name: str | None = None) -> dict[str, tuple[str, str]]:
    """Who says what, by id, to the operator or somebody."""
    return {one.external_id: (one.author_name, one.body) for one in await heard(app, name)}


# Taking the id of what another will say


@pytest.mark.parametrize("comes", ["earlier", "later"])
async def test_an_agent_cannot_reserve_the_id_of_what_another_will_say(square: App, comes: str) -> None:
    pip = await acting(square, "pip")
    mine = await pip.intake.send("square", "squatting", external_id="m1001")
    sent_at = at(30) if comes == "earlier" else datetime.now(UTC)
    theirs = replace(say(1001, ANA, SQUARE, body="I quit on Monday"), sent_at=sent_at)
    accepted = await square.ingest_batch([theirs])
    assert (accepted.skipped, accepted.revised, len(accepted.added)) == ([], 0, 1)
    assert (await told(square, "eve"))["m1001"] == ("Ana", "I quit on Monday")
    [own] = [one for one in await heard(square, "eve") if one.id == mine]
    assert (own.author_name, own.body, own.edited_at) == ("Pip", "squatting", None)
    assert own.external_id != "m1001"


async def test_a_whisper_with_a_reserved_id_is_read_by_those_it_is_for(square: App) -> None:
    await (await acting(square, "pip")).intake.send("square", "squatting", external_id="m1003")
    await square.ingest(say(1003, ANA, SQUARE, kind="whisper", audience=(BO,), body="secret"))
    assert "secret" not in {one.body for one in await heard(square, "eve")}
    assert "secret" not in {one.body for one in await heard(square, "pip")}
    assert "secret" in {one.body for one in await heard(square, "bo")}


async def test_a_removal_or_an_erasure_by_a_reserved_id_reaches_nobody_elses_message(square: App) -> None:
    pip = await acting(square, "pip")
    mine = await pip.intake.send("square", "squatting", external_id="m1004")
    await square.ingest(say(1004, ANA, SQUARE, body="", deleted=True))
    assert "squatting" in {one.body for one in await heard(square, "eve")}
    other = await pip.intake.send("square", "again", external_id="m1005")
    await pip.erasure.message(str(mine))
    await pip.erasure.message(str(other))
    await square.ingest(say(1005, ANA, SQUARE, body="Ana's own"))
    assert (await told(square))["m1005"] == ("Ana", "Ana's own")


async def test_two_agents_may_state_one_id(square: App) -> None:
    await square.people.register("Quill", platform="test", account="quill")
    ids = [
        await (await acting(square, name)).intake.send("square", name, external_id="m70")
        for name in ("pip", "quill")
    ]
    assert len(set(ids)) == 2
    await square.ingest(say(70, QUILL, SQUARE, body="quill"))
    assert [one.id for one in await heard(square) if one.external_id == "m70"] == [ids[1]]


async def test_a_reply_goes_to_the_platforms_message_once_that_came(square: App) -> None:
    pip = await acting(square, "pip")
    mine = await pip.intake.send("square", "squatting", external_id="m1006")
    answer = await square.ingest(say(1007, BO, SQUARE, body="indeed", reply_to="m1006"))
    theirs = await square.ingest(say(1006, ANA, SQUARE, body="Ana's own"))
    assert {one.id: one.reply_to for one in await heard(square)}[answer] == theirs != mine


# What the platform tells of what was said


async def test_what_an_agent_said_is_not_doubled_by_the_platforms_record_of_it(square: App) -> None:
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "Once.", external_id="m40")
    for _ in range(2):
        accepted = await square.ingest_batch([say(40, PIP, SQUARE, body="Once.")])
        assert (list(accepted.message_ids), accepted.revised, accepted.skipped) == ([said], 0, [])
    [one] = [one for one in await heard(square) if one.body == "Once."]
    assert (one.id, one.external_id, one.edited_at) == (said, "m40", None)
    # The platform's edits and removals are of it from now on.
    edited_at = one.sent_at + timedelta(microseconds=1)
    await square.ingest(say(40, PIP, SQUARE, body="Twice.", edited_at=edited_at))
    assert await pip.intake.send("square", "Once.", external_id="m40") == said
    await square.ingest(say(40, PIP, SQUARE, body="", deleted=True))
    [one] = [one for one in await heard(square) if one.id == said]
    assert one.redacted_at is not None


async def test_what_the_platform_told_first_is_not_said_again(square: App) -> None:
    pip = await acting(square, "pip")
    assert await pip.intake.send("square", "village word3", external_id="m3") == next(
        one.id for one in await heard(square) if one.external_id == "m3"
    )


async def test_the_same_person_by_another_account_is_the_same_author(square: App) -> None:
    operator = square
    await operator.people.register("Quill", platform="elsewhere", account="q")
    said = await (await acting(operator, "Quill")).intake.send("square", "Hello.", external_id="m41")
    await operator.ingest(say(42, QUILL, SQUARE))
    accounts = {one.author_id for one in await heard(operator) if one.author_name == "Quill"}
    assert len(accounts) == 2
    await operator.people.merge(*map(str, sorted(accounts)))
    assert await operator.ingest(say(41, QUILL, SQUARE, body="Hello.")) == said


@pytest.mark.parametrize("is_whisper", [True, False])
async def test_a_record_for_others_is_not_what_was_said(square: App, is_whisper: bool) -> None:  # noqa: FBT001  a parameter of the test
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "To Bo.", external_id="m43", to=["bo"])
    kind = {"kind": "whisper", "audience": (EVE,)} if is_whisper else {}
    assert await square.ingest(say(43, PIP, SQUARE, body="Other words.", **kind)) != said
    assert "To Bo." not in {one.body for one in await heard(square, "eve")}
    assert "Other words." in {one.body for one in await heard(square, "eve")}


async def test_what_was_said_is_answered_by_the_platforms_id(square: App) -> None:
    """Whichever comes first, and without the platform's record of what was said."""
    early = await square.ingest(say(45, BO, SQUARE, reply_to="m44"))
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "Who is there?", external_id="m44")
    late = await square.ingest(say(46, ANA, SQUARE, reply_to="m44"))
    edges = {one.id: one.reply_to for one in await heard(square)}
    assert (edges[early], edges[late]) == (said, said)
    assert await pip.intake.edit("m44", "Who was there?") == said


async def test_what_was_erased_does_not_come_again_from_its_platform_or_a_late_retry(square: App) -> None:
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "Erase me.", external_id="m47")
    await pip.erasure.message(str(said))
    accepted = await square.ingest_batch([say(47, PIP, SQUARE, body="Erase me.")])
    assert [one.reason for one in accepted.skipped] == ["erased"]
    kind, why = await error_of(pip.intake.send("square", "Erase me.", external_id="m47"))
    assert (kind, "was removed" in why) == (BadInput, True)
    assert "Erase me." not in {one.body for one in await heard(square)}


# Saying it again


async def test_a_retry_changes_nothing(square: App) -> None:
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "Once. ", external_id="d1")
    before = await heard(square)
    assert await pip.intake.send("square", "Once. ", external_id="d1") == said
    assert await heard(square) == before
    await pip.intake.edit(str(said), "Twice.")
    assert await pip.intake.send("square", "Once. ", external_id="d1") == said
    assert [one.body for one in await heard(square) if one.id == said] == ["Twice."]


async def test_a_message_does_not_become_another_by_its_id(square: App) -> None:
    pip = await acting(square, "pip")
    await pip.intake.send("square", "For all.", external_id="d1")
    await pip.intake.send("square", "For Bo.", external_id="d2", to=["bo"])
    for text, key, to in (
        ("The salary is 1.", "d1", ["bo"]),
        ("For all.", "d1", ["bo"]),
        ("For Bo.", "d2", []),
        ("For Bo.", "d2", ["eve"]),
        ("Other words.", "d1", []),
    ):
        kind, why = await error_of(pip.intake.send("square", text, external_id=key, to=to))
        assert (kind, "another message of yours" in why) == (BadInput, True), (text, key, to)
    assert {one.body for one in await heard(square, "eve")} & {
        "For all.",
        "For Bo.",
        "The salary is 1.",
    } == {"For all."}


async def test_what_was_redacted_is_not_said_again_by_its_id(square: App) -> None:
    pip = await acting(square, "pip")
    said = await pip.intake.send("square", "First.", external_id="d1")
    await pip.erasure.redact(str(said))
    kind, why = await error_of(pip.intake.send("square", "Second.", external_id="d1"))
    assert (kind, "was removed" in why) == (BadInput, True)


# Finding out what others said


async def test_an_id_tells_nothing_of_what_the_speaker_may_not_see(square: App) -> None:
    """A whisper's, an erased whisper's, one that nobody has: each is stored and answers alike."""
    pip = await acting(square, "pip")
    await square.ingest(say(48, ANA, SQUARE, kind="whisper", audience=(BO,)))
    await square.erasure.message("m48", room="square")
    for key in ("m10", "m48", "nobody's"):
        said = await pip.intake.send("square", f"probe {key}", external_id=key)
        assert await pip.intake.send("square", f"probe {key}", external_id=key) == said
        [one] = [one for one in await heard(square, "pip") if one.id == said]
        assert one.external_id != key
        assert await pip.intake.edit(key, f"edited {key}", room="square") == said
    assert (await told(square))["m10"] == ("Ana", "village word10")


async def test_nobody_else_finds_a_message_by_the_id_that_its_speaker_stated(square: App) -> None:
    await (await acting(square, "pip")).intake.send("square", "squatting", external_id="m1010")
    for app in (square, await acting(square, "eve")):
        with pytest.raises(Exception, match="m1010"):
            await app.context(app.principal, "square", "m1010")
