"""One story of changes, told to an App and to a client of a server, with one outcome."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import roomlore
from client.conftest import Village
from ingest.stories import at
from operations.village import ANA, ATTIC, BO, SQUARE, error_of, say
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed, NotFound
from roomlore.domain.ids import OrgId, uuid7
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import Viewer
from roomlore.operations.intake import MOST_RECORDS


async def test_what_is_said_is_stored_once_and_told(village: Village) -> None:
    app = await village("operator")
    said = say(
        20, ANA, SQUARE, body="The ferry leaves at nine.", metadata={"n": [1, {"x": None}]}, raw={"id": "20"}
    )

    first = await app.ingest(said)
    again = await app.ingest_batch([said, say(21, BO, SQUARE, reply_to="m20")])
    (told,) = [one for one in await app.messages(app.operator, "square") if one.external_id == "m20"]

    assert again.message_ids[0] == first == told.id
    assert [key[1] for key in again.added] == ["m21"]
    assert (again.revised, again.redacted, again.unchanged, again.skipped) == (0, 0, 1, [])
    assert again.room_ids == {told.room_id}
    assert (told.body, told.sent_at, told.author_name) == ("The ferry leaves at nine.", at(20), "Ana")


async def test_a_whisper_stays_one_whichever_way_it_comes(village: Village) -> None:
    app = await village("operator")
    await app.ingest(say(22, BO, SQUARE, kind="whisper", audience=(ANA,), body="the key is under the pot"))

    for name, reads in {"ana": True, "bo": True, "eve": False, "pip": False}.items():
        reader = await village(name)
        assert reader.principal is not None
        said = await reader.messages(reader.principal, "square", limit=100)
        assert any("pot" in one.body for one in said) == reads, name


async def test_what_cannot_be_stored_is_named_and_the_rest_goes_in(village: Village) -> None:
    app = await village("operator")
    bad = replace(say(23, ANA, SQUARE), external_id="", where="line 23")

    accepted = await app.ingest_batch([bad, say(24, ANA, SQUARE)])

    assert [key[1] for key in accepted.added] == ["m24"]
    assert [(one.where, one.reason) for one in accepted.skipped] == [("line 23", "no message id")]
    assert await error_of(app.ingest(bad)) == (BadInput, "message 'line 23': no message id")
    assert (await app.ingest_batch([])).message_ids == []


async def test_too_many_at_a_time_are_sent_nowhere(both: Village) -> None:
    app = await both.there("operator")
    with pytest.raises(BadInput, match="send them in parts"):
        await app.ingest_batch([say(1, ANA, SQUARE)] * (MOST_RECORDS + 1))


async def test_keys_are_made_used_and_revoked(village: Village) -> None:
    app = await village("operator")
    made = await app.keys.create("member", name="phone", participant="bo", valid_for=timedelta(days=1))
    bo = await app.sign_in(made.key)
    assert bo.principal is not None
    read = await bo.messages(bo.principal, "attic")
    revoked = await app.keys.revoke(str(made.id))

    assert made.key not in repr(made)
    assert bo.principal == await app.viewer("bo")
    assert (bo.principal.role, bo.principal.key_id) == ("member", made.id)
    assert "m5" in {one.external_id for one in read}
    assert revoked == made.id
    assert [one.revoked_at is None for one in await app.keys.all() if one.id == revoked] == [False]
    assert await error_of(bo.messages(bo.principal, "attic")) == (KeyRefused, "the key is not valid")
    assert await error_of(app.sign_in(made.key)) == (KeyRefused, "the key is not valid")
    assert (await error_of(app.sign_in("rlk_x")))[0] is KeyRefused


async def test_an_operator_acts_for_somebody_and_can_do_no_more_then(village: Village) -> None:
    app = await village("operator")
    bo = app.impersonate(await app.viewer("bo"))
    assert bo.principal is not None

    assert "m5" in {one.external_id for one in await bo.messages(bo.principal, "attic")}
    assert await error_of(bo.messages(bo.principal, "cellar")) == (NotFound, "no room 'cellar'")
    assert (await error_of(bo.keys.all()))[0] is NotAllowed
    assert (await error_of(bo.rooms(bo.operator)))[0] is NotAllowed
    assert (await error_of(bo.viewer("ana")))[0] is NotAllowed
    assert await bo.erasure.redact("m5", dry_run=True) in {
        one.id for one in await app.messages(bo.principal, "attic") if one.body
    }
    assert await bo.erasure.redact("m5") in {one.id for one in await app.messages(app.operator, "attic")}
    assert (await error_of(bo.erasure.redact("m4")))[0] is NotAllowed


@pytest.mark.slow
async def test_what_is_said_can_go_with_a_receipt(village: Village) -> None:
    app = await village("operator")
    dry = await app.erasure.message("m1", dry_run=True)
    done = await app.erasure.message("m1")
    stretch = await app.erasure.range("cellar", since=at(7), until=at(9))
    person = await app.erasure.person("eve")

    assert (dry.is_dry_run, dry.is_clean, done.is_dry_run, done.is_clean) == (True, False, False, True)
    assert (await app.erasure.receipt(str(done.id))).removed == done.removed
    assert (await app.erasure.verify(str(done.id))).is_clean
    assert {one.id for one in await app.erasure.receipts()} == {done.id, stretch.id, person.id}
    assert (await error_of(app.erasure.receipt(str(dry.id))))[0] is NotFound
    assert {one.external_id for one in await app.messages(app.operator, "cellar")} == {"m6", "m9", "m12"}
    assert "Eve" not in {one.name for one in await app.participants(app.operator)}


async def test_rooms_are_opened_renamed_seen_to_and_erased(village: Village) -> None:
    app = await village("operator")
    manage = app.room_admin
    eve = await app.viewer("eve")
    dry = await manage.open("attic", dry_run=True)
    assert await manage.open("attic") == replace(dry, is_dry_run=False)
    assert (dry.messages, dry.name) == (3, "attic")
    assert [one.external_id for one in await app.messages(eve, "attic")] == ["m4", "m5", "m11"]
    assert await manage.close("attic") == dry.room_id == await manage.rename("attic", "loft")
    assert await error_of(app.messages(eve, "loft")) == (NotFound, "no room 'loft'")
    added = await manage.add_member("loft", "eve", since=at(4.5))
    assert added == await manage.members("loft")
    assert [one.external_id for one in await app.messages(eve, "loft")] == ["m5", "m11"]
    removed = await manage.remove_member("loft", "eve")
    assert {one.name: one.left_at is None for one in removed} == {
        "Ana": True,
        "Bo": True,
        "Dee": True,
        "Eve": False,
    }
    would = await app.erasure.room("loft", dry_run=True)
    receipt = await app.erasure.room("loft")
    assert (receipt.kind, receipt.room_id, receipt.is_clean) == ("room", dry.room_id, True)
    assert would.removed == receipt.removed
    assert {room.name for room in await app.rooms(app.operator)} == {"square", "cellar"}
    assert (await app.ingest_batch([say(40, BO, ATTIC)])).skipped[0].reason == "its room was erased"


@pytest.mark.usefixtures("no_grace")
async def test_a_room_keeps_what_was_said_for_as_long_as_it_is_told(village: Village) -> None:
    app = await village("operator")
    (room_id,) = [room.id for room in await app.rooms(app.operator) if room.name == "square"]

    told = await app.erasure.set_retention("square", timedelta(days=30), dry_run=True)
    assert (told.room_id, told.is_dry_run) == (room_id, True)
    assert await app.erasure.erase_expired() == []
    assert (await app.erasure.set_retention("square", timedelta(days=30))).messages == told.messages > 0
    (receipt,) = await app.erasure.erase_expired()
    assert (receipt.kind, receipt.room_id, receipt.is_clean) == ("expiry", room_id, True)
    assert await app.messages(app.operator, "square") == []
    assert (await app.erasure.set_retention("square", None)).starts_at is None
    assert await app.erasure.erase_expired(datetime.now(UTC)) == []
    assert (await error_of(app.erasure.erase_expired(datetime(2999, 1, 1, tzinfo=UTC))))[0] is BadInput


#: Refusals by methods that no declaration describes; tests/conformance has the others.
REFUSED: dict[str, Any] = {
    "ingest": lambda app: app.ingest(say(40, BO, SQUARE)),
    "erase a room": lambda app: app.erasure.room("square"),
    "erase a stretch": lambda app: app.erasure.range("square"),
    "erase another's": lambda app: app.erasure.message("m2"),
    "erase another": lambda app: app.erasure.person("eve"),
    "read as another": lambda app: app.viewer("eve"),
    "hidden message": lambda app: app.erasure.message("m7"),
    "hidden room": lambda app: app.messages(app.principal, "cellar"),
    "another's eyes": lambda app: app.rooms(app.operator),
    "another org": lambda app: app.rooms(Viewer.operator(OrgId(uuid7()))),
    "as another": lambda app: app.impersonate(app.operator).rooms(app.operator),
    "no time": lambda app: app.memories.all(app.principal, since=datetime(2026, 1, 1)),  # noqa: DTZ001
    "no time to search": lambda app: app.search(
        app.principal,
        "x",
        filters=roomlore_filters(since=datetime(2026, 1, 1)),  # noqa: DTZ001
    ),
}


def roomlore_filters(**narrowed: Any) -> Any:
    from roomlore.search.query_parser import Filters  # noqa: PLC0415

    return Filters(**narrowed)


@pytest.mark.slow
async def test_what_is_refused_is_refused_in_the_same_words(both: Village) -> None:
    here, there = await both.here("bo"), await both.there("bo")

    async def told(app: roomlore.Rooms, call: Any) -> tuple[type, str]:
        async def made() -> object:
            return await call(app)

        return await error_of(made())

    outcomes = {what: (await told(here, call), await told(there, call)) for what, call in REFUSED.items()}

    assert {what: one for what, one in outcomes.items() if one[0] != one[1]} == {}


async def test_what_is_sent_by_a_client_is_stored_as_if_it_had_been_here(both: Village) -> None:
    """Every field of a record goes the whole way."""
    said = IncomingMessage(
        platform="other",
        room=replace(SQUARE, topic="fish & ships", kind="group_dm"),
        external_id="x/1?",
        author=replace(BO, persona="The Captain", bridged=True),
        body="“Ahoy” \U0001f6a2\n\ttwice",
        sent_at=datetime(2024, 5, 1, 10, 0, 0, 123456, tzinfo=UTC),
        precision="us",
        order=2**40,
        mentions=["ana"],
        attachments=[{"name": "a.png", "url": "https://example.org/a.png"}],
        reactions=[{"emoji": "+1", "count": 2, "by": ["ana"]}],
        edited_at=datetime(2024, 5, 1, 11, tzinfo=UTC),
        metadata={"deep": [1, 2.5, None, True, {"a": "b"}]},
        raw={"as": "it came"},
    )
    there = await both.there("operator")
    first = await there.ingest(said)

    again = await both.app.ingest_batch([said])

    assert (again.added, again.unchanged, again.revised, again.message_ids) == ({}, 1, 0, [first])
