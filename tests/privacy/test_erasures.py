"""Gone means gone: one message, a stretch of a room, a person, and nothing more than that."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ingest.stories import at, author, message, room
from privacy.village import (
    ANA,
    BESIDE,
    TABLES,
    as_text,
    changes,
    converse,
    dump,
    ids_of,
    link,
    participant,
    remember,
    rooms_again,
    settle,
    tangle,
    told,
)
from roomlore.context.render import to_text
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.receipts import Receipt
from roomlore.ingest.erasure_filter import ERASED_REASON
from roomlore.operations import App

HOLLOW = {
    *("author_id", "author_kind", "author_name", "body", "words", "redacted_at", "erased_at", "edited_at"),
    *("mentions", "attachments", "reactions", "metadata", "raw"),
}


def removed(receipt: Receipt) -> dict[str, int]:
    return {one.what: one.count for one in receipt.removed}


def kept(receipt: Receipt) -> dict[str, int]:
    return {one.what: one.count for one in receipt.kept}


async def acting(app: App, account: str) -> App:
    return app.impersonate(await app.viewer(account))


async def test_every_table_with_rows_of_an_org_is_looked_at(admin: psycopg.AsyncConnection):
    rows = await admin.execute("select tablename from pg_tables where schemaname = 'roomlore'")
    tables = {name for (name,) in await rows.fetchall() if not re.fullmatch(r"message_embeddings_\d", name)}
    assert tables == set(TABLES) | BESIDE


# One message


async def test_an_erased_message_leaves_a_hole_and_nothing_else_changes(app: App, admin):
    made = await settle(app)
    before = await dump(admin, app)
    [gone] = map(str, await ids_of(app, ["1"]))

    receipt = await app.erasure.message("1")

    assert receipt.is_clean
    counted = {"messages": 1, "embeddings": 1, "memories": 1, "memory embeddings": 1, "replies": 1}
    assert removed(receipt) == counted | {"conversation messages": 1, "labels": 1}
    went = changes(before, await dump(admin, app))
    assert rooms_again(went) == {str(receipt.room_id)}
    [(was, columns)] = went.pop("messages").differ
    assert (was["id"], columns - HOLLOW) == (gone, set())
    [edge] = went.pop("replies").went
    assert (edge["parent_id"], edge["method"]) == (gone, "inferred")
    assert [row["message_id"] for row in went.pop("conversation_messages").went] == [gone]
    assert [row["id"] for row in went.pop("memories").went] == [str(made["rests on 1"])]
    for table in ("memory_sources", "memory_embeddings"):
        assert {row["memory_id"] for row in went.pop(table).went} == {str(made["rests on 1"])}
    assert [row["message_id"] for row in went.pop("message_embeddings").went] == [gone]
    [(conversation, columns)] = went.pop("conversations").differ
    assert (conversation["id"], columns) == (str(made["root"]), {"label", "opened_at"})
    [(counted, columns)] = went.pop("room_activity").differ
    assert counted["participant_id"] == str(await participant(app, "ana"))
    assert columns == {"message_count", "first_at"}
    [nobody] = went.pop("participants").came
    assert (nobody["id"], nobody["name"]) == (str(app.org_id), "erased")
    assert went == {}


async def test_earlier_texts_go_with_an_erased_message(app: App, admin):
    await app.ingest(message("1", "the ferry leaves at six"))
    await app.ingest(message("1", "the ferry leaves at seven", edited_at=at(9)))
    assert len((await dump(admin, app))["message_revisions"]) == 1
    assert removed(await app.erasure.message("1"))["revisions"] == 1
    assert (await dump(admin, app))["message_revisions"] == {}


async def test_a_hole_keeps_its_place_and_the_edges_around_it(app: App):
    await settle(app)
    [gone, answer] = await ids_of(app, ["1", "2"])
    await app.erasure.message("1", room="general")
    said = await app.messages(app.operator, "general")
    hole = next(one for one in said if one.id == gone)
    assert (hole.external_id, hole.sent_at, hole.kind, hole.body, hole.author_name) == (
        *("1", at(1), "message", "", ""),
    )
    assert next(one for one in said if one.id == answer).reply_to == gone
    text = to_text(await app.context(app.operator, "general", "2"))
    assert re.search(r"#m1 \d+-\d\d-\d\d 12:01 \* \[erased\]\n", text)
    assert "ferry" not in text


async def test_a_conversation_goes_with_its_last_message(app: App, admin):
    made = await settle(app)
    assert removed(await app.erasure.message("7"))["conversations"] == 1
    rows = await dump(admin, app)
    assert json.dumps([str(made["alone"])]) not in rows["conversations"]


async def test_a_message_erased_twice_is_erased_once(app: App, admin):
    await settle(app)
    await app.erasure.message("1")
    before = await dump(admin, app)
    receipt = await app.erasure.message("1")
    assert receipt.is_clean
    assert removed(receipt) == {}
    assert changes(before, await dump(admin, app)) == {}


async def test_a_redacted_message_can_still_be_erased(app: App):
    await settle(app)
    await app.erasure.redact("1")
    [before] = [one for one in await app.messages(app.operator, "general") if one.external_id == "1"]
    assert (await app.erasure.message("1")).is_clean
    [after] = [one for one in await app.messages(app.operator, "general") if one.external_id == "1"]
    assert after.redacted_at == before.redacted_at
    assert after.author_name == ""


@pytest.mark.slow
async def test_a_redaction_takes_every_derived_copy_and_keeps_place_author_and_name(app: App, admin):
    made = await settle(app)
    before = await dump(admin, app)
    await app.erasure.redact("7")
    went = changes(before, await dump(admin, app))
    [(said, columns)] = went.pop("messages").differ
    assert columns == {"body", "words", "edited_at", "redacted_at"}
    assert rooms_again(went) == {said["room_id"]}
    assert [(row["child_id"], row["method"]) for row in went.pop("replies").went] == [(said["id"], "mention")]
    assert len(went.pop("message_revisions").went) == 1
    assert len(went.pop("message_embeddings").went) == 1
    [(conversation, columns)] = went.pop("conversations").differ
    assert (conversation["id"], columns) == (str(made["alone"]), {"label"})
    assert went == {}
    before = await dump(admin, app)
    await app.erasure.redact("3")
    went = changes(before, await dump(admin, app))
    assert {row["id"] for row in went["memories"].went} == {str(made["rests on 1"]), str(made["rests on 3"])}


async def test_a_redacted_message_has_nothing_left_of_the_foreign_record(app: App, admin):
    await app.ingest(message("1", "the ferry", raw={"text": "the ferry"}))
    await app.erasure.redact("1")
    [row] = (await dump(admin, app))["messages"].values()
    assert (row["body"], row["raw"]) == ("", None)


async def test_what_a_platform_removes_takes_its_memories_too(app: App, admin):
    made = await settle(app)
    before = await dump(admin, app)
    await app.ingest(message("3", author=author("cy"), deleted=True))
    went = changes(before, await dump(admin, app))
    assert {row["id"] for row in went["memories"].went} == {str(made["rests on 1"]), str(made["rests on 3"])}


# A stretch of a room


async def test_a_range_takes_its_messages_and_no_others(app: App, admin):
    made = await settle(app)
    before = await dump(admin, app)

    receipt = await app.erasure.range("general", since=at(3), until=at(8))

    assert receipt.is_clean
    assert (receipt.since, receipt.until) == (at(3), at(8))
    went = changes(before, await dump(admin, app))
    gone = {row["id"] for row in went["messages"].went}
    assert rooms_again(went) == {str(receipt.room_id)}
    assert {row["external_id"] for row in went.pop("messages").went} == {"3", "4", "5", "6", "7"}
    for table in ("message_audience", "message_revisions", "message_embeddings", "conversation_messages"):
        assert {row["message_id"] for row in went.pop(table).went} <= gone
    resting = {str(made["rests on 1"]), str(made["rests on 3"])}
    assert {row["id"] for row in went.pop("memories").went} == resting
    assert {row["memory_id"] for row in went.pop("memory_embeddings").went} == resting
    assert len(went.pop("memory_sources").went) == 3
    assert [row["id"] for row in went["conversations"].went] == [str(made["alone"])]
    assert [row["id"] for row, _ in went.pop("conversations").differ] == [str(made["root"])]
    assert len(went.pop("erased_ranges").came) == 1
    assert all(row["room_id"] == str(receipt.room_id) for row, _ in went.pop("room_activity").differ)
    # What stays still says what it answered, and waits for it.
    assert [columns for _, columns in went["replies"].differ] == [{"parent_id"}] * 2
    assert {row["method"] for row in went.pop("replies").went} == {"inferred", "mention"}
    assert kept(receipt)["replies to what is gone"] == 2
    assert went == {}


@pytest.mark.parametrize(
    ("since", "until", "left"),
    [(None, at(5), {"5", "6"}), (at(5), None, {"4"}), (None, None, set()), (at(6), at(7), {"4", "5"})],
)
async def test_a_range_may_be_open_at_either_end(app: App, since, until, left):
    await app.ingest_batch([message("4"), message("5"), message("6")])
    await app.erasure.range("general", since=since, until=until)
    assert {one.external_id for one in await app.messages(app.operator, "general")} == left


async def test_what_is_said_after_an_open_range_is_taken_in(app: App):
    await app.ingest(message("1"))
    receipt = await app.erasure.range("general")
    assert receipt.until is not None
    later = message("2", sent_at=receipt.until)
    again = await app.ingest_batch([message("1"), message("3", "never seen before"), later])
    assert [one.reason for one in again.skipped] == [ERASED_REASON, ERASED_REASON]
    assert [one.external_id for one in await app.messages(app.operator, "general")] == ["2"]


async def test_a_range_that_is_none_is_refused(app: App):
    await app.ingest(message("1"))
    with pytest.raises(BadInput, match="ends before"):
        await app.erasure.range("general", since=at(3), until=at(3))
    with pytest.raises(BadInput, match="zone"):
        await app.erasure.range("general", since=datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(NotFound):
        await app.erasure.range("nowhere")


async def test_a_large_range_goes_in_portions(app: App, monkeypatch):
    monkeypatch.setattr("roomlore.privacy.erasure.BATCH_SIZE", 7)
    await app.ingest_batch([message(str(n), reply_to=str(n - 1) if n else None) for n in range(30)])
    receipt = await app.erasure.range("general", until=at(25))
    assert removed(receipt)["messages"] == 25
    assert removed(receipt)["replies"] == 24
    assert kept(receipt)["replies to what is gone"] == 1
    assert receipt.is_clean


# A person


async def test_an_erased_person_is_nowhere(app: App, admin):
    made = await settle(app)
    ana = str(await participant(app, "ana"))
    before = await dump(admin, app)

    receipt = await app.erasure.person("ana")

    assert receipt.is_clean
    assert [str(one) for one in receipt.participant_ids] == [ana]
    after = await dump(admin, app)
    went = changes(before, after)
    assert ana not in as_text(after)
    plain = {"plainly, Ana was late", "thanks @[erased] and @[erased], says Ana's friend\n> [file] map.png"}
    for rows in after.values():
        for row in rows.values():
            told_in = json.dumps({name: value for name, value in row.items() if name != "words"})
            if row.get("body") not in plain:
                assert not re.search(r"\bana\b|annie", told_in, re.IGNORECASE), row
    assert kept(receipt)["messages of others with their names in the words"] == 2
    gone = {str(made[name]) for name in ("rests on 1", "about ana", "by ana", "names ana")}
    assert {row["id"] for row in went["memories"].went} == gone
    assert [row["participant_id"] for row in went["api_keys"].went] == [ana]
    assert len(went["interactions"].went) == 1
    assert [row["participant_id"] for row in went["stated_trust"].went] == [ana]
    assert removed(receipt)["stated trust"] == 1
    assert removed(receipt)["messages"] == 5


@pytest.mark.slow
async def test_what_others_said_loses_only_what_names_the_person(app: App, admin):
    await settle(app)
    before = await dump(admin, app)
    await app.erasure.person("ana")
    after = await dump(admin, app)
    mine = {
        row["external_id"]: row for row in after["messages"].values() if row["author_id"] != str(app.org_id)
    }
    was = {row["external_id"]: row for row in before["messages"].values()}
    changed = {mark for mark, row in mine.items() if row != was[mark]}
    assert changed == {"2", "4", "8"}
    two = mine["2"]
    assert two["mentions"] == ["cy"]
    assert two["reactions"] == [{"emoji": "+1", "count": 2, "by": ["cy"]}]
    assert two["attachments"] == [{"name": "map.png", "url": "http://x/map.png", "by": "[erased]"}]
    assert two["metadata"] == {"seen_by": ["[erased]", "bo"], "count": 2}
    assert two["raw"] == {
        "text": "thanks @[erased]",
        "mentions": [{"id": "[erased]", "nick": "[erased]"}, {"id": "cy"}],
    }
    assert mine["4"]["body"] == "[erased] joined the room"
    assert mine["8"]["body"] == "yes indeed @[erased]"
    assert [row["body"] for row in after["message_revisions"].values()] == ["yes @[erased]"]
    assert {row["name"] for row in after["rooms"].values()} == {"general", "closed", "erased"}
    # What was said anew is found anew, and so is what it answers.
    anew = {row["subject_id"] for row in after["work_queue"].values() if row["queue"] == "embed"}
    assert anew == {mine[mark]["id"] for mark in ("2", "8")}
    assert rooms_again(changes(before, after)) == {mine["2"]["room_id"], mine["10"]["room_id"]}
    await app.drain()
    assert len((await dump(admin, app))["message_embeddings"]) == len(before["message_embeddings"]) - 4


async def test_somebody_else_of_the_same_name_keeps_it(app: App, admin):
    other = author("ana2", name="Ana")
    await app.ingest_batch(
        [
            message("1", author=ANA),
            message("2", "my own words", author=other, raw={"profile": {"name": "Ana", "id": "ana2"}}),
            message("3", "to <@ana2> @Ana", author=author("bo"), mentions=("ana2",)),
            replace(message("4", "elsewhere", author=ANA, mentions=("ana",)), platform="other"),
        ]
    )
    before = await dump(admin, app)
    await app.erasure.person(str((await participants_of(app, "test", "ana"))[0]))
    went = changes(before, await dump(admin, app))
    assert {was["external_id"] for was, _ in went["messages"].differ} == {"1"}


async def participants_of(app: App, platform: str, account: str) -> Sequence:
    async with app.db.read_transaction(app.operator) as conn:
        rows = await conn.execute(
            "select participant_id from platform_accounts where platform = %s and account_id = %s",
            [platform, account],
        )
        return [one for (one,) in await rows.fetchall()]


async def test_all_accounts_of_a_person_go(app: App, admin):
    await settle(app)
    await app.ingest(message("20", "from home", author=author("ana_home", name="A. at home")))
    await app.people.merge("ana", "ana_home")
    receipt = await app.erasure.person("ana_home")
    assert len(receipt.participant_ids) == 2
    assert removed(receipt)["merges"] == 2
    held = as_text(await dump(admin, app))
    assert "at home" not in held
    again = [message("21", author=author(account)) for account in ("ana", "ana_home")]
    assert [one.reason for one in (await app.ingest_batch(again)).skipped] == [ERASED_REASON, ERASED_REASON]
    assert {one.name for one in await app.participants(app.operator)} == {"Bo", "Cy", "Pip", "notice"}


async def test_a_name_that_an_erased_person_bore_for_a_while_goes_from_notices(app: App, admin):
    names = ("Ana", "Nightingale", "Ana")
    said = [message(str(n), author=replace(ANA, name=name), sent_at=at(n)) for n, name in enumerate(names)]
    notice = message("9", "Nightingale joined", author=author("notice"), kind="system", sent_at=at(9))
    await app.ingest_batch([*said, notice])
    await app.erasure.person("ana")
    assert "Nightingale" not in as_text(await dump(admin, app))


async def test_an_erased_person_is_among_the_speakers_of_no_sensitive_conversation(app: App, admin):
    await app.ingest_batch([message("1", author=ANA), message("2", author=author("bo"))])
    conversation = await converse(app, "the ferry", ["1", "2"])
    await app.conversations.set_sensitivity(str(conversation), sensitivity="sensitive")
    ana = str(await participant(app, "ana"))
    assert ana in as_text(await dump(admin, app))
    await app.erasure.person("ana")
    assert ana not in as_text(await dump(admin, app))


async def test_a_label_that_names_the_person_is_emptied(app: App, admin):
    await app.ingest_batch([message("1", author=ANA), message("2", author=author("bo"))])
    named = await converse(app, "why ANA left", ["2"], is_named=True)
    await app.erasure.person("ana")
    told = (await dump(admin, app))["conversations"][json.dumps([str(named)])]
    assert (told["label"], told["is_named"]) == ("", False)


@pytest.mark.parametrize("how", ["redact", "message"])
async def test_a_label_given_by_a_person_goes_with_what_was_said_and_is_found_anew(app: App, admin, how):
    await app.ingest_batch([message("1", author=ANA), message("2", author=author("bo"))])
    named = await converse(app, "Our plan", ["1", "2"], is_named=True)
    await getattr(app.erasure, how)("1")
    rows = await dump(admin, app)
    told = rows["conversations"][json.dumps([str(named)])]
    assert (told["label"], told["is_named"]) == ("", False)
    placed = {row["message_id"] for row in rows["conversation_messages"].values()}
    assert placed == set(map(str, await ids_of(app, ["1", "2"] if how == "redact" else ["2"])))


async def test_what_answered_an_erased_message_is_gone_through_again_wherever_it_is(app: App, admin):
    await app.ingest_batch([message("1", author=ANA), message("9", author=author("bo"))])
    await app.drain()
    await tangle(app)
    await link(app, "9", "1")
    await app.erasure.message("1")
    [work] = (await dump(admin, app))["work_queue"].values()
    assert (work["queue"], datetime.fromisoformat(work["since"])) == ("disentangle", at(1))
    assert datetime.fromisoformat(work["until"]) == at(9)


async def test_a_persona_goes_without_the_account_that_it_shares(app: App, admin):
    weather, news = (author("hook", kind="agent", name=name, persona=name) for name in ("Weather", "News"))
    await app.ingest_batch(
        [
            message("1", "rain", author=weather),
            message("2", "wars", author=news),
            message("3", "hey @hook", author=ANA, mentions=("hook",), raw={"to": "hook", "about": "Weather"}),
        ]
    )
    assert (await app.erasure.person("Weather")).is_clean
    said = {one.external_id: one for one in await app.messages(app.operator, "general")}
    assert [said[mark].body for mark in "123"] == ["", "wars", "hey @hook"]
    rows = (await dump(admin, app))["messages"].values()
    assert [row["mentions"] for row in rows if row["external_id"] == "3"] == [["hook"]]
    again = await app.ingest_batch([message("1", "rain", author=weather), message("2", "wars", author=news)])
    assert [one.reason for one in again.skipped] == [ERASED_REASON]


@pytest.mark.slow
async def test_what_an_erased_account_says_later_is_somebody_new(app: App, admin):
    await settle(app)
    old = await participant(app, "ana")
    receipt = await app.erasure.person("ana")
    later = receipt.at + timedelta(seconds=1)
    words = message("30", "hello again", author=replace(ANA, name="Anew"), sent_at=later)
    named = message("31", "hi", author=author("bo"), sent_at=later, mentions=("ana",))
    await app.ingest_batch([*told(), words, named])
    new = await participant(app, "ana")
    assert new != old
    assert [one.name for one in await app.participants(app.operator) if one.id == new] == ["Anew"]
    rows = (await dump(admin, app))["messages"].values()
    assert [row["mentions"] for row in rows if row["external_id"] == "31"] == [["ana"]]
    assert {row["author_id"] for row in rows if row["external_id"] in {"1", "6", "7"}} == {str(app.org_id)}
    # And can go again.
    assert (await app.erasure.person("ana")).is_clean
    again = await app.ingest_batch([words])
    assert [one.reason for one in again.skipped] == [ERASED_REASON]


# Nothing comes back


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["message", "range", "person"])
async def test_nothing_comes_back_in_whatever_order_it_is_delivered_again(app: App, admin, what):
    await settle(app)
    match what:
        case "message":
            await app.erasure.message("7")
            await app.erasure.message("2")
        case "range":
            await app.erasure.range("general", since=at(2), until=at(9))
        case _:
            await app.erasure.person("ana")
    before = await dump(admin, app)
    for seed in range(4):
        records = told()
        random.Random(seed).shuffle(records)
        for start in range(0, len(records), 5):
            await app.ingest_batch(records[start : start + 5])
        assert changes(before, await dump(admin, app)) == {}


async def test_lists_audiences_and_mentions_do_not_bring_a_person_back(app: App, admin):
    await settle(app)
    await app.erasure.person("ana")
    full = room("new", visibility="members", members=(*[IncomingMembership(author=ANA)],))
    anew = [
        message("40", "x <@ana> y", author=author("bo"), room=full, mentions=("ana", "bo")),
        message(
            "41", "psst", author=author("bo"), kind="whisper", audience=(ANA,), sent_at=datetime.now(UTC)
        ),
        message("42", "re", author=author("bo"), raw={"to": {"id": "ana", "name": "Annie"}, "by": "Ana"}),
        message("43", "+1", author=author("cy"), reactions=({"emoji": "+", "by": ["ana"]},)),
        message("44", "us", author=author("bo"), room=replace(full, external_id="p", name="Ana", kind="dm")),
    ]
    accepted = await app.ingest_batch(anew)
    assert len(accepted.added) == 5
    held = await dump(admin, app)
    fresh = [row for row in held["messages"].values() if int(row["external_id"]) >= 40]
    assert not re.search(r"\bana\b|annie", as_text({"messages": {r["id"]: r for r in fresh}}), re.IGNORECASE)
    assert not re.search(r"\bana\b", as_text({"rooms": held["rooms"]}), re.IGNORECASE)
    assert "ana" not in {row["account_id"] for row in held["platform_accounts"].values()}
    assert {row["participant_id"] for row in held["message_audience"].values()} == {
        str(await participant(app, "cy"))
    }


# Dry runs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["message", "range", "person"])
async def test_a_dry_run_changes_nothing_and_counts_the_same(app: App, admin, what):
    await settle(app)

    async def erase(*, dry_run: bool) -> Receipt:
        match what:
            case "message":
                return await app.erasure.message("7", dry_run=dry_run)
            case "range":
                return await app.erasure.range("general", since=at(2), until=at(9), dry_run=dry_run)
            case _:
                return await app.erasure.person("ana", dry_run=dry_run)

    before = await dump(admin, app)
    dry = await erase(dry_run=True)
    assert changes(before, await dump(admin, app)) == {}
    assert await app.erasure.receipts() == []
    assert dry.is_dry_run
    assert dry.checks is None
    real = await erase(dry_run=False)
    assert real.is_clean
    assert (dry.removed, dry.kept) == (real.removed, real.kept)
    assert changes(before, await dump(admin, app)) != {}


# Who may


async def test_a_member_erases_what_they_said_and_themselves_only(app: App, admin):
    await settle(app)
    ana, bo = await acting(app, "ana"), await acting(app, "bo")
    before = await dump(admin, app)
    for attempt in (bo.erasure.message("1"), bo.erasure.redact("1"), bo.erasure.person("cy")):
        with pytest.raises(NotAllowed):
            await attempt
    for attempt in (
        bo.erasure.range("general"),
        bo.erasure.set_retention("general", None),
        bo.erasure.erase_expired(),
    ):
        with pytest.raises(NotAllowed):
            await attempt
    assert changes(before, await dump(admin, app)) == {}
    assert (await ana.erasure.message("1")).is_clean
    assert await ana.erasure.redact("7") == (await ids_of(app, ["7"]))[0]
    receipt = await ana.erasure.person("ana")
    assert receipt.is_clean
    assert receipt.viewer_id == receipt.participant_ids[0]


async def test_what_may_not_be_seen_is_not_there_to_be_erased(app: App, admin):
    await settle(app)
    cy = await acting(app, "cy")
    before = await dump(admin, app)
    for unseen in ("9", "6", "none such"):
        for dry_run in (True, False):
            with pytest.raises(NotFound):
                await cy.erasure.message(unseen, dry_run=dry_run)
        with pytest.raises(NotFound):
            await cy.erasure.redact(unseen)
    assert changes(before, await dump(admin, app)) == {}


async def test_everybody_sees_their_own_receipts_only(app: App):
    await settle(app)
    await app.erasure.message("12")
    ana, bo = await acting(app, "ana"), await acting(app, "bo")
    mine = await ana.erasure.message("1")
    assert [one.id for one in await ana.erasure.receipts()] == [mine.id]
    assert await bo.erasure.receipts() == []
    # The operator has the member's, the same in full, and their own.
    assert [one.viewer_id for one in await app.erasure.receipts()].count(mine.viewer_id) == 1
    assert len(await app.erasure.receipts()) == 3
    assert len(await app.erasure.receipts(1)) == 1
    with pytest.raises(NotFound):
        await bo.erasure.verify(str(mine.id))
    assert (await ana.erasure.verify(str(mine.id)[:20])).is_clean


# Receipts and the log


@pytest.mark.slow
async def test_receipts_and_the_log_hold_neither_text_nor_name(app: App, admin):
    await settle(app)
    await app.erasure.message("7")
    await app.erasure.range("general", until=at(3))
    await app.erasure.person("ana")
    rows = await admin.execute(
        "select to_jsonb(receipts)::text from receipts where org_id = %s"
        " union all select to_jsonb(audit_log)::text from audit_log where org_id = %s",
        [app.org_id, app.org_id],
    )
    held = "\n".join(text for (text,) in await rows.fetchall())
    for word in ("ana", "bo", "ferry", "second", "secret", "tea", "general", "annie"):
        assert not re.search(rf"\b{word}\b", held, re.IGNORECASE), word


@pytest.mark.slow
async def test_an_erasure_writes_one_line_with_ids(app: App):
    await settle(app)
    receipt = await app.erasure.message("1", dry_run=True)
    receipt = await app.erasure.message("1")
    lines = [one for one in await app.log(app.operator) if "erase" in one.action]
    assert [one.action for one in lines] == ["erase message", "dry run of erase message"]
    assert {receipt.id, receipt.message_id, receipt.room_id} == set(lines[0].subject_ids)


@pytest.mark.slow
async def test_a_crash_before_the_second_look_leaves_a_receipt_that_check_completes(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    await settle(app)

    async def crash(*_: object, **__: object) -> Receipt:
        raise ConnectionError

    for what in (
        app.erasure.message("7"),
        app.erasure.range("general", until=at(3)),
        app.erasure.person("ana"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("roomlore.operations.erasure.verify", crash)
            with pytest.raises(ConnectionError):
                await what
        [unchecked, *_] = await app.erasure.receipts()
        assert unchecked.checks is None
        assert not unchecked.is_clean
        assert (await app.erasure.verify(str(unchecked.id))).is_clean
        assert (await app.erasure.receipts())[0].is_clean


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        (
            "message",
            "insert into message_revisions select org_id, id, now(), 'text' from messages where external_id = '7'",
        ),
        (
            "range",
            "update erased_ranges set until = until; insert into work_queue values (%(org)s, 'embed', %(org)s)",
        ),
        ("person", "update messages set mentions = '[\"ana\"]' where external_id = '12'"),
    ],
)
async def test_the_second_look_really_looks(app: App, admin, what, spoil):
    await settle(app)
    match what:
        case "message":
            receipt = await app.erasure.message("7")
        case "range":
            receipt = await app.erasure.range("general", until=at(3))
        case _:
            receipt = await app.erasure.person("ana")
    assert receipt.is_clean
    for statement in spoil.split("; "):
        where = " and org_id = %(org)s" if " where " in statement else ""
        await admin.execute(statement + where, {"org": app.org_id})
    again = await app.erasure.verify(str(receipt.id))
    assert not again.is_clean
    assert sum(check.found for check in again.checks or ()) == 1


# Nothing of it is shown


@pytest.mark.slow
async def test_nothing_of_what_is_gone_is_shown(app: App):
    await settle(app)
    bo = await app.viewer("bo")
    await app.erasure.person("ana")
    await app.drain()
    for viewer in (app.operator, bo):
        found = await app.search(viewer, "ferry leaves secret words door Ana", limit=50)
        shown = [one for hit in found.hits for one in hit.messages]
        assert {one.author_name for one in shown} <= {"Bo", "Cy", "Pip", "notice", ""}
        assert all(one.body == "" for one in shown if one.erased_at)
        assert not any(one.id in hit.why for hit in found.hits for one in hit.messages if one.erased_at)
        assert "Ana" not in {one.name for one in await app.participants(viewer)}
        assert "erased" not in {one.name for one in await app.participants(viewer)}
        assert not (await app.ask(viewer, "when does the ferry leave?")).is_answered
    with pytest.raises(NotFound):
        await app.viewer("ana")
    with pytest.raises(NotFound):
        await app.viewer(str(app.org_id))
    text = to_text(await app.context(app.operator, "general", "8"))
    assert "[erased]" in text
    assert "second words" not in text


async def test_the_room_counts_what_can_be_read(app: App):
    await settle(app)
    await app.erasure.person("ana")
    for viewer in (app.operator, await app.viewer("bo")):
        rooms = {one.external_id: one.message_count for one in await app.rooms(viewer)}
        # Ana's four messages of the open room count no more; the viewer's count leaves out what is not theirs.
        assert rooms["general"] == 6
        assert rooms["closed"] == 1


async def test_a_memory_that_only_names_the_person_stays_and_is_told(app: App):
    await app.ingest_batch([message("1", author=ANA), message("2", author=author("bo"))])
    await remember(app, "The Ana river is deep", sources=["2"])
    receipt = await app.erasure.person("ana")
    assert kept(receipt)["memories with their names in the words"] == 1
    assert "memories" not in removed(receipt)
