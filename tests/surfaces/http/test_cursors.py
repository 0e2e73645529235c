"""Cursors lead through a whole listing, and are of no use to anybody else, nor anywhere else."""

import base64
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ingest.stories import at
from operations.village import BO, SQUARE, say
from surfaces.http.conftest import Served


@pytest.mark.parametrize("listing", ["messages", "timeline", "threads"])
async def test_pages_come_to_the_whole_listing(served: Served, listing) -> None:
    whole = (await served.operator.get(f"/v1/rooms/attic/{listing}?limit=100"))[
        listing.replace("timeline", "messages")
    ]
    found, path = [], f"/v1/rooms/attic/{listing}?limit=2"
    while True:
        page = await served.operator.get(path)
        items = page[listing.replace("timeline", "messages")]
        found = [*found, *items] if listing == "threads" else [*items, *found]
        if page["next"] is None:
            break
        path = f"/v1/rooms/attic/{listing}?limit=2&cursor={page['next']}"

    assert len(whole) > 2
    assert found == whole


async def test_a_cursor_is_of_use_to_its_viewer_and_listing_alone(served: Served) -> None:
    ana, bo = await served.principal("ana"), await served.principal("bo")
    cursor = (await ana.get("/v1/rooms/attic/messages?limit=1"))["next"]
    path = f"/v1/rooms/attic/messages?limit=1&cursor={cursor}"

    assert (await ana.get(path))["messages"]
    for caller, where, viewer in (
        (bo, path, None),
        (served.operator, path, None),
        (served.operator, path, "ana"),
        (ana, path.replace("/messages", "/timeline"), None),
        (ana, path.replace("attic", "square"), None),
    ):
        response = await caller("GET", where, viewer=viewer)
        assert response.status_code == 400
        assert response.json()["detail"].startswith("cursor: ")


async def test_a_cursor_of_one_viewer_of_an_operator_is_not_anothers(served: Served) -> None:
    page = await served.operator.get("/v1/rooms/attic/messages?limit=1", viewer="ana")
    path = f"/v1/rooms/attic/messages?limit=1&cursor={page['next']}"

    assert (await served.operator("GET", path, viewer="ana")).status_code == 200
    assert (await served.operator("GET", path, viewer="bo")).status_code == 400


async def test_a_cursor_that_was_tampered_with_is_refused(served: Served) -> None:
    cursor = (await served.operator.get("/v1/rooms/attic/messages?limit=1"))["next"]
    held = bytearray(base64.urlsafe_b64decode(cursor))
    for place in range(len(held)):
        changed = bytes([*held[:place], held[place] ^ 1, *held[place + 1 :]])
        word = base64.urlsafe_b64encode(changed).decode()
        assert (await served.operator("GET", f"/v1/rooms/attic/messages?cursor={word}")).status_code == 400
    for word in ("", "x", cursor[:-4], f"{cursor}AAAA", "A" * 101, "é", "%00"):
        assert (await served.operator("GET", f"/v1/rooms/attic/messages?cursor={word}")).status_code == 400


async def test_a_cursor_holds_nothing_but_the_place_that_its_page_showed(served: Served) -> None:
    page = await served.operator.get("/v1/rooms/attic/messages?limit=1")
    held = base64.urlsafe_b64decode(page["next"])

    first = page["messages"][0]
    assert held[8:24].hex() == first["id"].replace("-", "")
    sent_at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=struct.unpack(">q", held[:8])[0])
    assert sent_at == datetime.fromisoformat(first["sent_at"])
    assert len(held) == 40
    assert "sequence" not in first


async def test_pages_of_what_was_said_at_one_time_come_to_all_of_it(served: Served) -> None:
    said = [
        replace(say(30 + number, BO, SQUARE), sent_at=at(40), order=order)
        for number, order in enumerate((7, 3, 99, 5))
    ]
    await served.app.ingest_batch(said)
    found, path = [], "/v1/rooms/square/messages?limit=1"
    for _ in said:
        page = await served.operator.get(path)
        found += [one["external_id"] for one in page["messages"]]
        path = f"/v1/rooms/square/messages?limit=1&cursor={page['next']}"

    assert found == ["m32", "m30", "m33", "m31"]


@pytest.mark.parametrize("listing", ["messages", "timeline", "threads"])
async def test_a_cursor_outlives_the_message_that_its_page_ended_with(served: Served, listing) -> None:
    path = f"/v1/rooms/square/{listing}?limit=1"
    first = await served.operator.get(path)
    last = first[listing.replace("timeline", "messages")][0]
    named = last["root"] if listing == "threads" else last.get("message", last)["id"]
    whole = await served.operator.get(f"/v1/rooms/square/{listing}?limit=100")
    sent_at = next(
        one["sent_at"]
        for one in (await served.operator.get("/v1/rooms/square/messages?limit=100"))["messages"]
        if one["id"] == named
    )
    until = (datetime.fromisoformat(sent_at) + timedelta(seconds=1)).isoformat()
    await served.operator.post(
        "/v1/erasures", {"kind": "range", "room": "square", "since": sent_at, "until": until}
    )

    page = await served.operator.get(f"{path}&cursor={first['next']}")
    items = whole[listing.replace("timeline", "messages")]
    assert page[listing.replace("timeline", "messages")] == [items[1] if listing == "threads" else items[-2]]


async def test_a_cursor_goes_without_a_message_to_begin_before(served: Served) -> None:
    page = await served.operator.get("/v1/rooms/attic/messages?limit=1")

    response = await served.operator("GET", f"/v1/rooms/attic/messages?before=m5&cursor={page['next']}")

    assert response.status_code == 400
