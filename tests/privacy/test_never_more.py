"""An erasure never takes more than asked, and nothing comes back: in made-up rooms, whatever is erased."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import OpenApp
from ingest.stories import Story, at, stories
from privacy.village import Change, Rows, changes, converse, dump, link, remember, rooms_again, tangle
from roomlore.domain.receipts import Receipt
from roomlore.operations import App

HOLLOW = {
    *("author_id", "author_kind", "author_name", "body", "words", "redacted_at", "erased_at", "edited_at"),
    *("mentions", "attachments", "reactions", "metadata", "raw"),
}
#: What a conversation loses with some of its messages.
SPANNED = {"label", "opened_at", "last_at"}
NOTHING = Change(went=[], came=[], differ=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to erase, and what was derived before."""

    kind: str
    #: Which message, account or minute, modulo what there is.
    pick: int
    length: int
    #: Each memory rests on these messages.
    memories: Sequence[Sequence[int]]
    shuffle: int


WISHES = st.builds(
    Wish,
    kind=st.sampled_from(["message", "range", "person"]),
    pick=st.integers(0, 7),
    length=st.integers(1, 4),
    memories=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=2, unique=True), max_size=3),
    shuffle=st.integers(0, 99),
)


FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(story=stories(), wish=WISHES)
async def test_an_erasure_never_takes_more_than_asked(
    open_app: OpenApp, admin: psycopg.AsyncConnection, story: Story, wish: Wish
):
    await try_wish(open_app, admin, story, wish)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(FEW, max_examples=8)
@given(story=stories(), wish=WISHES)
async def test_an_erasure_never_takes_more_than_asked_in_many_rooms(
    open_app: OpenApp, admin: psycopg.AsyncConnection, story: Story, wish: Wish
):
    await try_wish(open_app, admin, story, wish)


async def try_wish(open_app: OpenApp, admin: psycopg.AsyncConnection, story: Story, wish: Wish) -> None:
    """Tell a story, erase something of it, look at what changed, and tell the story once more."""
    app = await open_app("story")
    for batch in story.batches:
        await app.ingest_batch(batch)
    await app.drain()
    await derive(app, await dump(admin, app), wish)
    before = await dump(admin, app)

    dry = await erase(app, before, wish, dry_run=True)
    assert changes(before, await dump(admin, app)) == {}
    receipt = await erase(app, before, wish, dry_run=False)

    assert receipt.is_clean
    assert (dry.removed, dry.kept) == (receipt.removed, receipt.kept)
    after = await dump(admin, app)
    check(before, after, receipt)
    arriving = [record for batch in story.batches for record in batch]
    random.Random(wish.shuffle).shuffle(arriving)
    await app.ingest_batch(arriving)
    assert changes(after, await dump(admin, app)) == {}


async def derive(app: App, rows: Rows, wish: Wish) -> None:
    """Let memories rest on messages, put those of each room into a conversation, let some answer each other."""
    await tangle(app)
    marks = sorted(row["external_id"] for row in rows["messages"].values())
    for sources in wish.memories:
        named = {marks[source % len(marks)] for source in sources}
        await remember(app, "something durable", sources=sorted(named))
    for room_id in rows["rooms"]:
        inside = [r["external_id"] for r in rows["messages"].values() if f'["{r["room_id"]}"]' == room_id]
        if inside:
            await converse(app, "a label", inside)
        for child, parent in pairwise(inside):
            await link(app, child, parent)


async def erase(app: App, rows: Rows, wish: Wish, *, dry_run: bool) -> Receipt:
    said = sorted(rows["messages"].values(), key=lambda row: row["id"])
    one = said[wish.pick % len(said)]
    match wish.kind:
        case "message":
            return await app.erasure.message(one["id"], dry_run=dry_run)
        case "range":
            since, until = at(wish.pick), at(wish.pick + wish.length)
            return await app.erasure.range(one["room_id"], since=since, until=until, dry_run=dry_run)
        case _:
            return await app.erasure.person(one["author_id"], dry_run=dry_run)


def check(before: Rows, after: Rows, receipt: Receipt) -> None:
    """Compare what changed with what was asked for, from the rows as they were."""
    found = changes(before, after)

    def of(table: str) -> Change:
        return found.get(table, NOTHING)

    people = {str(one) for one in receipt.participant_ids}
    doomed = {row["id"]: row for row in before["messages"].values() if is_doomed(row, receipt)}
    resting = {r["memory_id"] for r in before["memory_sources"].values() if r["message_id"] in doomed}
    talks = {
        r["conversation_id"] for r in before["conversation_messages"].values() if r["message_id"] in doomed
    }
    counted = {(row["room_id"], row["author_id"]) for row in doomed.values()}

    assert_messages(of("messages"), doomed, receipt)
    for table in ("message_audience", "message_revisions", "message_embeddings", "conversation_messages"):
        gone = {row["message_id"] for row in of(table).went if row.get("participant_id") not in people}
        assert gone <= set(doomed)
        assert not [r for r in after[table].values() if r["message_id"] in doomed]
        assert (of(table).came, of(table).differ) == ([], [])
    assert {row["id"] for row in of("memories").went} == resting
    assert {row["memory_id"] for row in of("memory_sources").went} == resting
    assert {row["id"] for row in of("conversations").went} <= talks
    assert {row["id"] for row, _ in of("conversations").differ} <= talks
    assert {c for _, columns in of("conversations").differ for c in columns} <= SPANNED
    assert_again(found, before, doomed, people)
    assert_edges(of("replies"), doomed, receipt)
    left = [row for row in after["replies"].values() if row["method"] == "inferred"]
    assert not [row for row in left if row["child_id"] in doomed or row["parent_id"] in doomed]
    for row in (*of("room_activity").went, *(row for row, _ in of("room_activity").differ)):
        assert (row["room_id"], row["participant_id"]) in counted or row["participant_id"] in people
    assert of("room_activity").came == []
    assert_people(found, people)
    assert "rooms" not in found
    assert len(of("erased_ranges").came) == (receipt.kind == "range")


def is_spoken(row: Mapping[str, Any]) -> bool:
    return row["kind"] in {"message", "whisper"} and row["erased_at"] is None


def is_doomed(row: Mapping[str, Any], receipt: Receipt) -> bool:
    match receipt.kind:
        case "message":
            return row["id"] == str(receipt.message_id)
        case "person":
            return row["author_id"] in map(str, receipt.participant_ids)
        case _:
            assert receipt.since is not None
            assert receipt.until is not None
            inside = receipt.since.isoformat() <= row["sent_at"] < receipt.until.isoformat()
            return inside and row["room_id"] == str(receipt.room_id)


def assert_again(found: dict[str, Change], before: Rows, doomed: Mapping[str, Any], people: set[str]) -> None:
    """Rooms are gone through again where something goes, or was whispered to who goes, or a label goes."""
    heard = {
        row["message_id"]
        for row in found.get("message_audience", NOTHING).went
        if row["participant_id"] in people and row["message_id"] not in doomed
    }
    due = {row["room_id"] for row in before["messages"].values() if row["id"] in heard}
    due |= {row["room_id"] for row in doomed.values() if is_spoken(row)}
    stands = {row["message_id"]: row["conversation_id"] for row in before["conversation_messages"].values()}
    losing = {stands[one] for one in doomed if one in stands}
    left = [row for row in before["messages"].values() if row["id"] not in doomed and is_spoken(row)]
    due |= {row["room_id"] for row in left if stands.get(row["id"]) in losing}
    assert rooms_again(found) == due


def assert_messages(change: Change, doomed: Mapping[str, Any], receipt: Receipt) -> None:
    assert change.came == []
    if receipt.kind == "range":
        assert {row["id"] for row in change.went} == set(doomed)
        assert change.differ == []
    else:
        assert change.went == []
        # Nothing in these stories names anybody, so that what others said stays as it was.
        assert {row["id"] for row, _ in change.differ} == set(doomed)
        assert {column for _, columns in change.differ for column in columns} <= HOLLOW


def assert_edges(change: Change, doomed: Mapping[str, Any], receipt: Receipt) -> None:
    assert change.came == []
    found = [row for row in change.went if row["method"] == "inferred"]
    assert all(row["child_id"] in doomed or row["parent_id"] in doomed for row in found)
    stated = [row for row in change.went if row not in found]
    if receipt.kind != "range":
        assert (stated, change.differ) == ([], [])
        return
    assert all(row["child_id"] in doomed for row in stated)
    for row, columns in change.differ:
        assert row["child_id"] not in doomed
        assert row["parent_id"] in doomed
        assert columns == {"parent_id"}


def assert_people(found: Mapping[str, Change], people: set[str]) -> None:
    for table, key in (
        ("participants", "id"),
        ("platform_accounts", "participant_id"),
        ("memberships", "participant_id"),
    ):
        change = found.get(table, NOTHING)
        assert {row[key] for row in change.went} <= people
        assert change.differ == []
        assert all(row["name"] == "erased" for row in change.came)
    digests = found.get("erased_accounts", NOTHING)
    assert len(digests.came) == len(people)
