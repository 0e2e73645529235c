"""An erasure reaches no further than asked, in time and in what comes after it."""

from datetime import UTC, datetime, timedelta

import pytest

from ingest.stories import at, message
from roomlore.domain.errors import BadInput, NotFound
from roomlore.operations import App

HOUR, AGE = timedelta(hours=1), timedelta(days=1)


async def bodies(app: App) -> list[str]:
    return [said.body for said in await app.messages(app.operator, "general")]


async def test_a_range_that_reaches_into_the_future_does_not_keep_out_what_is_said_later(app: App):
    await app.ingest(message("1"))
    receipt = await app.erasure.range("general", until=datetime.now(UTC) + timedelta(days=36_500))
    assert receipt.until is not None
    assert receipt.until <= datetime.now(UTC)
    await app.ingest(message("2", "said later", sent_at=datetime.now(UTC)))
    assert await bodies(app) == ["said later"]


async def test_a_range_that_begins_after_now_is_refused(app: App):
    await app.ingest(message("1"))
    with pytest.raises(BadInput, match="begins after now"):
        await app.erasure.range("general", since=datetime.now(UTC) + HOUR)


@pytest.mark.parametrize(
    "since", [datetime.min.replace(tzinfo=UTC), datetime.fromisoformat("0001-01-01T00:00:00+01:00")]
)
async def test_a_time_outside_of_all_time_is_no_fault_of_ours(app: App, since: datetime):
    await app.ingest(message("1"))
    try:
        await app.erasure.range("general", since=since, dry_run=True)
    except BadInput as error:
        assert error.what == "time"  # noqa: PT017  either answer is one


@pytest.mark.usefixtures("no_grace")
async def test_what_was_erased_stays_out_after_its_room_kept_for_a_time_and_then_forever(app: App):
    await app.ingest_batch([message("1", "a secret"), message("2", "no secret")])
    await app.erasure.message("1", room="general")
    await app.erasure.set_retention("general", HOUR)
    await app.erasure.erase_expired()
    await app.erasure.set_retention("general", None)
    again = await app.ingest_batch([message("1", "a secret"), message("2", "no secret")])
    assert [skipped.reason for skipped in again.skipped] == ["erased"]
    assert await bodies(app) == ["", "no secret"]


@pytest.mark.usefixtures("no_grace")
async def test_the_receipt_of_an_expiry_stays_clean_when_the_room_takes_things_in_again(app: App):
    await app.ingest(message("1"))
    await app.erasure.set_retention("general", HOUR)
    [receipt] = await app.erasure.erase_expired()
    assert receipt.is_clean
    await app.erasure.set_retention("general", None)
    await app.ingest(message("1"))
    assert (await app.erasure.verify(str(receipt.id))).is_clean


@pytest.mark.parametrize("now", [datetime.now(UTC) + AGE, at(0).replace(tzinfo=None)])
async def test_nothing_expires_at_a_time_that_has_not_come_or_has_no_zone(app: App, now: datetime):
    await app.ingest(message("1"))
    await app.erasure.set_retention("general", HOUR)
    with pytest.raises(BadInput):
        await app.erasure.erase_expired(now)
    assert len(await bodies(app)) == 1


@pytest.mark.parametrize("word", ["\0", "\udcff", "zz", "", "0" * 40])
async def test_no_receipt_is_found_by_garbage(app: App, word: str):
    with pytest.raises(NotFound):
        await app.erasure.receipt(word)


async def test_a_person_who_is_gone_is_not_erased_once_more(app: App):
    await app.ingest(message("1"))
    [person] = await app.participants(app.operator)
    await app.erasure.person(str(person.id))
    with pytest.raises(NotFound):
        await app.erasure.person(str(person.id))
    assert len(await app.erasure.receipts()) == 1


@pytest.mark.parametrize("limit", [0, -1, 2**70])
async def test_no_list_is_longer_than_the_database_can_count(app: App, limit: int):
    await app.ingest(message("1"))
    with pytest.raises(BadInput):
        await app.messages(app.operator, "general", limit=limit)
    with pytest.raises(BadInput):
        await app.erasure.receipts(limit)
