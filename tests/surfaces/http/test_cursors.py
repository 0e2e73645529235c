"""Cursors lead through a whole listing, and are of no use to anybody else, nor anywhere else."""

import base64

import pytest

from surfaces.http.conftest import Served


@pytest.mark.parametrize("listing", ["messages", "timeline", "exchanges"])
async def test_pages_come_to_the_whole_listing(served: Served, listing) -> None:
    whole = (await served.operator.get(f"/v1/rooms/attic/{listing}?limit=100"))[
        listing.replace("timeline", "messages")
    ]
    found, path = [], f"/v1/rooms/attic/{listing}?limit=2"
    while True:
        page = await served.operator.get(path)
        items = page[listing.replace("timeline", "messages")]
        found = [*found, *items] if listing == "exchanges" else [*items, *found]
        if page["next"] is None:
            break
        path = f"/v1/rooms/attic/{listing}?limit=2&cursor={page['next']}"

    assert len(whole) > 2
    assert found == whole


async def test_a_cursor_is_of_use_to_its_viewer_and_listing_alone(served: Served) -> None:
    ana, bo = await served.caller("ana"), await served.caller("bo")
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


async def test_a_cursor_holds_nothing_but_the_id_that_its_page_showed(served: Served) -> None:
    page = await served.operator.get("/v1/rooms/attic/messages?limit=1")
    held = base64.urlsafe_b64decode(page["next"])

    assert held[:16].hex() == page["messages"][0]["id"].replace("-", "")
    assert len(held) == 32


async def test_a_cursor_goes_without_a_message_to_begin_before(served: Served) -> None:
    page = await served.operator.get("/v1/rooms/attic/messages?limit=1")

    response = await served.operator("GET", f"/v1/rooms/attic/messages?before=m5&cursor={page['next']}")

    assert response.status_code == 400
