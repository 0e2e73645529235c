"""An answer holds so many bytes of text and no more, however large what was said is; and nothing is lost by that."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.stories import at, message, room
from roomlore.domain import paging
from roomlore.domain.paging import MAX_PAGE_BYTES, TRUNCATED_LENGTH, TRUNCATION_MARK
from surfaces.http.conftest import Served

SMALL, LARGE = 2_000, 900_000
LISTINGS = {
    "messages": ("messages", lambda one: one),
    "timeline": ("messages", lambda one: one["message"]),
}
#: In bytes; more than one answer holds, as much, and much less.
SIZES = st.lists(st.sampled_from([0, 10, 300, SMALL - 1, SMALL, 3 * SMALL]), min_size=1, max_size=12)

Walk = Callable[[str, int], Awaitable[list[list[Any]]]]


async def said_of(served: Served, sizes: Sequence[int], *, answers: bool = False) -> str:
    """Say texts of these sizes in a room of their own, and return its name."""
    where = room(f"r{uuid4().hex}")
    said = [
        # Two bytes to a character: it is bytes that count.
        message(
            f"{where.external_id}-{number}",
            "é" * (size // 2) + "x" * (size % 2),
            room=where,
            # Some at the same time.
            sent_at=at(number // 2),
            order=number,
            reply_to=f"{where.external_id}-0" if answers and number else None,
            metadata={"n": number} if number % 3 == 0 else {},
        )
        for number, size in enumerate(sizes)
    ]
    assert not (await served.app.ingest_batch(said)).skipped
    return where.external_id


async def walked(served: Served, path: str, held: str, limit: int) -> list[list[Any]]:
    """Return the pages of a listing, as `next` leads through them."""
    pages, following = [], ""
    while True:
        page = await served.operator.get(f"/v1/{path}?limit={limit}{following}")
        pages.append(page[held])
        assert len(page[held]) <= limit
        if page["next"] is None:
            return pages
        following = f"&cursor={page['next']}"


def numbers(found: Sequence[Any]) -> list[int]:
    return [int(one["external_id"].rpartition("-")[2]) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTINGS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, limit=st.integers(1, 13))
async def test_pages_give_every_message_once_however_large_they_are(
    served: Served, monkeypatch: pytest.MonkeyPatch, name: str, *, sizes: list[int], limit: int
) -> None:
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    held, said = LISTINGS[name]
    where = await said_of(served, sizes)
    pages = await walked(served, f"rooms/{where}/{name}", held, limit)

    found = [[said(one) for one in page] for page in pages]
    assert [one for page in reversed(found) for one in numbers(page)] == list(range(len(sizes)))
    for page in found:
        # Oldest first: what fills a page is its oldest message.
        assert sum(len(one["body"].encode()) for one in page[1:]) < SMALL
        assert page or page is found[-1]


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, limit=st.integers(1, 13))
async def test_an_app_is_walked_by_what_it_gave_last(
    served: Served, monkeypatch: pytest.MonkeyPatch, sizes: list[int], limit: int
) -> None:
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    app, where = served.app, await said_of(served, sizes)
    found: list[str] = []
    while page := await app.messages(app.operator, where, limit=limit, before=found[0] if found else None):
        assert sum(len(one.body.encode()) for one in page[1:]) < SMALL
        found = [*(one.external_id for one in page), *found]
    assert found == [f"{where}-{number}" for number in range(len(sizes))]


@pytest.mark.slow
async def test_an_answer_of_large_messages_has_the_size_that_is_stated(served: Served) -> None:
    where = await said_of(served, [LARGE] * 12)
    answer = await served.operator("GET", f"/v1/rooms/{where}/messages?limit=1000")

    page = answer.json()
    texts = sum(len(one["body"].encode()) for one in page["messages"])
    assert MAX_PAGE_BYTES <= texts < MAX_PAGE_BYTES + LARGE
    assert len(answer.content) < texts + 2_000 * len(page["messages"])
    assert len(page["messages"]) == 3
    assert page["next"] is not None


async def test_what_a_message_is_told_with_counts_too(served: Served) -> None:
    where = room("told-with")
    said = [
        message(f"t{n}", "few words", room=where, sent_at=at(n), metadata={"x": "y" * LARGE})
        for n in range(6)
    ]
    await served.app.ingest_batch(said)
    page = await served.operator.get(f"/v1/rooms/{where.external_id}/messages")
    assert [one["external_id"] for one in page["messages"]] == ["t3", "t4", "t5"]
    assert page["next"] is not None


@pytest.mark.slow
async def test_a_conversation_is_read_page_by_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    where = await said_of(served, [900, 10, 1_500, 800, 2_500, 10, 10], answers=True)
    await served.app.disentangle()
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    pages = await walked(served, f"conversations/message:{where}-0", "messages", 100)
    assert [one for page in reversed(pages) for one in numbers([said["message"] for said in page])] == [
        0, 1, 2, 3, 4, 5, 6,
    ]  # fmt: skip
    assert [len(page) for page in pages] == [3, 2, 2]


async def test_exchanges_come_whole_until_an_answer_is_full(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = await said_of(served, [900, 600, 800, 10, 1_200])
    # None answers another: each is a thread of its own.
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    pages = await walked(served, f"rooms/{where}/threads", "threads", 100)
    openings = [[one for told in page for one in numbers(told["messages"])] for page in pages]
    assert openings == [[4, 3, 2], [1, 0]]
    assert all(told["shortened_to"] is None for page in pages for told in page)


async def test_an_exchange_that_no_answer_holds_is_shortened_and_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = await said_of(served, [1_500] * 4, answers=True)
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    [[told]] = await walked(served, f"rooms/{where}/threads", "threads", 100)
    assert numbers(told["messages"]) == [0, 1, 2, 3]
    assert told["shortened_to"] == TRUNCATED_LENGTH
    assert {one["body"] for one in told["messages"]} == {"é" * TRUNCATED_LENGTH + TRUNCATION_MARK}


@pytest.mark.slow
async def test_a_search_tells_the_beginnings_of_what_an_answer_does_not_hold(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = room("kiln")
    said = [
        message(f"k{n}", f"kiln number {n} " + "words " * 300, room=where, sent_at=at(n)) for n in range(6)
    ]
    await served.app.ingest_batch(said)
    await served.app.drain()
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    found = await served.operator.post("/v1/search", {"question": "kiln number", "room": "kiln", "limit": 6})

    bodies = [one["body"] for hit in found["hits"] for one in hit["messages"]]
    assert len(bodies) == 6
    cut = [body for body in bodies if body.endswith(TRUNCATION_MARK)]
    assert [len(body) > TRUNCATED_LENGTH + len(TRUNCATION_MARK) for body in bodies[:2]] == [True, True]
    assert len(cut) == 4
    assert all(len(body) <= TRUNCATED_LENGTH + len(TRUNCATION_MARK) for body in cut)


async def test_memories_end_with_the_one_that_fills_an_answer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await served.app.memories.remember(f"fact {number} " + "x" * 1_200)
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", SMALL)
    found = await served.operator.get("/v1/memories?limit=100")
    assert [one["content"][:6] for one in found] == ["fact 3", "fact 2"]
