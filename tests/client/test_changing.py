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


async def test_records_of_our_own_format_are_taken_and_edited(village: Village) -> None:
    app = await village("operator")
    record = {
        "platform": "campfire",
        "room": "kitchen",
        "id": "1",
        "author": "ana",
        "sent_at": "2026-01-01T00:00:00Z",
    }

    taken = await app.intake.add_messages([record | {"text": "No flour."}, {"id": "2"}, 3])
    edited = await app.intake.edit("1", "Flour on Friday.", room="kitchen")
    (told,) = await app.messages(app.operator, "kitchen")

    assert [one.outcome for one in taken.items] == ["added", "skipped", "skipped"]
    assert (taken.added, taken.skipped) == (1, 2)
    assert edited == told.id == taken.items[0].id
    assert (told.body, told.edited_at is None) == ("Flour on Friday.", False)


async def test_memories_are_kept_corrected_forgotten_and_restored(village: Village) -> None:
    app = await village("operator")
    details: dict[str, Any] = {
        "sources": ["m1"],
        "about": ["bo"],
        "tags": ["food"],
        "importance": 4.5,
        "task": "bake",
    }

    kept = await app.memories.remember("Bo eats no nuts.", kind="preference", **details)
    right = await app.memories.correct(str(kept.id), "Bo eats no cashews.")
    gone = await app.memories.archive(str(right.id))
    back = await app.memories.restore(str(right.id))
    why = await app.memories.provenance(app.operator, str(right.id))
    found = await app.memories.all(app.operator, kinds=["preference"], about="bo", tags=["food"], task="bake")

    assert (kept.importance, kept.tags, kept.task_id) == (4.5, ["food"], "bake")
    assert (gone.status, back.status) == ("archived", "active")
    assert [one.message.external_id for one in why.sources] == ["m1"]
    assert [one.id for one in why.predecessors] == [kept.id]
    assert found == [back] == [why.memory]
    assert [one.id for one in await app.memories.derived_from(app.operator, "m1")] == [right.id, kept.id]
    assert (await app.memories.search(app.operator, "who eats no cashews?"))[0].memory == back
    assert await app.memories.all(app.operator, since=datetime.now(UTC)) == []
    assert await app.memories.all(app.operator, statuses=[]) == []


async def test_conversations_are_arranged(village: Village) -> None:
    app = await village("operator")
    before = {one.id for one in await app.conversations.all(app.operator, "attic")}

    made = await app.conversations.split(["m4"], "About the roof")
    named = await app.conversations.rename(str(made.id), "The roof")
    marked = await app.conversations.set_sensitivity(str(made.id), "sensitive")
    closed = await app.conversations.close(str(made.id))
    moved = await app.conversations.move("m5", str(made.id))
    found, said = await app.conversations.read(app.operator, str(made.id))

    assert made.id not in before
    assert (named.label, marked.sensitivity, closed.closed_at is None) == ("The roof", "sensitive", False)
    assert found == moved
    assert [one.message.external_id for one in said[:2]] == ["m4", "m5"]


async def test_people_are_put_together_and_taken_apart(village: Village) -> None:
    app = await village("operator")
    merged = await app.people.merge("ana", "ana_home")
    ana = await app.viewer("ana")
    (person,) = [one for one in await app.participants(app.operator) if ana.participant_id in one.accounts]
    parted = await app.people.split("ana_home")

    assert {one.account_id for one in merged} == {"ana", "ana_home"}
    assert all(one.is_merged for one in merged)
    assert len(person.accounts) == len(ana.accounts) + 1 == 2
    assert [one.account_id for one in parted] == ["ana"]


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


async def test_agents_remember_and_are_held_back(village: Village) -> None:
    app, pip = await village("operator"), await village("pip")
    assert pip.principal is not None
    await pip.memories.remember("Bo likes stairs.", kind="insight", sources=["m1"], about=["bo"])

    assert await pip.agents.record_reply("square", trigger="m2", reply="m3") is None
    assert abs(await pip.agents.reset_context("square") - datetime.now(UTC)) < timedelta(minutes=1)
    assert await app.agents.set_injection("square", on=False) is None
    assert await app.agents.reader("pip") == await pip.agents.reader("pip") == pip.principal
    assert [one.content for one in await pip.agents.memories(pip.principal, "pip")] == ["Bo likes stairs."]
    block = await pip.agents.memory_section(pip.principal, "square", topic="stairs")
    assert [line.text for line in block.lines] == ["Bo likes stairs."]
    assert (await error_of(app.agents.memory_section(app.operator, "square")))[0] is BadInput
    assert (await error_of(pip.agents.reader("bo")))[0] is NotAllowed


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


async def test_operators_see_how_far_the_work_has_come(village: Village) -> None:
    app = await village("operator")
    numbers = await app.monitoring.statistics()
    change = await app.monitoring.set_embedding_policy("square", "thread")
    log = await app.log(app.operator, limit=5)

    assert numbers.counts.messages == 12
    assert {room.name for room in numbers.rooms} == {"square", "attic", "cellar"}
    assert numbers.counts.embedded.waiting == 0
    assert change.dropped >= 0
    assert (await app.monitoring.job_state()).failures == []
    assert "set embedding" in {line.action for line in log}
    assert len(await app.log(app.operator, subject=log[0].subject_ids[0] if log[0].subject_ids else None)) > 0


@pytest.mark.slow
async def test_a_wish_is_listed_dismissed_and_accepted(village: Village) -> None:
    app = await village("operator")
    await app.ingest(say(30, ANA, SQUARE, body="My locker code is 4711. Please forget that I said that."))
    wishes = await app.privacy_requests.all(app.operator)
    assert len(wishes) == 1

    assert await app.privacy_requests.all(app.operator, status="proposed") == wishes

    accepted = await app.privacy_requests.apply(str(wishes[0].id))
    found = await app.search(app.operator, "locker code 4711")
    withheld = await app.privacy_requests.restrictions_on(app.operator, [wishes[0].message_id])
    counts = await app.privacy_requests.counts(app.operator)
    dismissed = await app.privacy_requests.dismiss(str(wishes[0].id))

    assert (accepted.status, dismissed.status) == ("active", "dismissed")
    assert [one.external_id for one in accepted.covered_messages] == [
        one.external_id for one in wishes[0].covered_messages
    ]
    assert {one.request_id for one in (*found.restrictions, *withheld)} == {wishes[0].id}
    assert (counts.carried_out, counts.proposed, counts.dismissed) == (1, 0, 0)
    assert (await app.privacy_requests.mode(), await app.privacy_requests.set_mode("propose")) == (
        "on",
        "propose",
    )


REFUSED: dict[str, Any] = {
    "ingest": lambda app: app.ingest(say(40, BO, SQUARE)),
    "records": lambda app: app.intake.add_messages([{}]),
    "edit": lambda app: app.intake.edit("m1", "x"),
    "merge": lambda app: app.people.merge("bo", "cy"),
    "make key": lambda app: app.keys.create("operator", name="mine"),
    "list keys": lambda app: app.keys.all(),
    "revoke key": lambda app: app.keys.revoke("01a20"),
    "numbers": lambda app: app.monitoring.statistics(),
    "state": lambda app: app.monitoring.job_state(),
    "embed": lambda app: app.monitoring.set_embedding_policy("square", "message"),
    "open a room": lambda app: app.room_admin.open("square"),
    "close a room": lambda app: app.room_admin.close("square"),
    "rename a room": lambda app: app.room_admin.rename("square", "x"),
    "list members": lambda app: app.room_admin.members("square"),
    "add a member": lambda app: app.room_admin.add_member("square", "bo", always=True),
    "remove a member": lambda app: app.room_admin.remove_member("square", "bo"),
    "erase a room": lambda app: app.erasure.room("square"),
    "erase a stretch": lambda app: app.erasure.range("square"),
    "erase another's": lambda app: app.erasure.message("m2"),
    "redact another's": lambda app: app.erasure.redact("m2"),
    "erase another": lambda app: app.erasure.person("eve"),
    "keep": lambda app: app.erasure.set_retention("square", None),
    "expire": lambda app: app.erasure.erase_expired(),
    "remember": lambda app: app.memories.remember("x"),
    "read as another": lambda app: app.viewer("eve"),
    "inject": lambda app: app.agents.set_injection("square", on=True),
    "note a reply": lambda app: app.agents.record_reply("square", trigger="m1", reply="m3"),
    "hidden message": lambda app: app.erasure.message("m7"),
    "hidden room": lambda app: app.messages(app.principal, "cellar"),
    "hidden conversation": lambda app: app.conversations.rename("message:m7", "x"),
    "another's eyes": lambda app: app.rooms(app.operator),
    "another org": lambda app: app.rooms(Viewer.operator(OrgId(uuid7()))),
    "as another": lambda app: app.impersonate(app.operator).rooms(app.operator),
    "no memory": lambda app: app.memories.archive("ffff"),
    "mode of wishes": lambda app: app.privacy_requests.set_mode("off"),
    "no wish": lambda app: app.privacy_requests.dismiss("ffff"),
    "no receipt": lambda app: app.erasure.receipt("ffff"),
    "no time": lambda app: app.memories.all(app.principal, since=datetime(2026, 1, 1)),  # noqa: DTZ001
    "no time to search": lambda app: app.search(
        app.principal,
        "x",
        filters=roomlore_filters(since=datetime(2026, 1, 1)),  # noqa: DTZ001
    ),
    "of two rooms": lambda app: app.conversations.split(["m1", "m4"]),
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
