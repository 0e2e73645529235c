"""Too much is refused before anything is done for it, and says when to come again."""

import asyncio
import json

import pytest

from roomlore.app import App
from roomlore.surfaces.http.limits import KEYS, Buckets, Limits
from surfaces.http.conftest import Serve, Served


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_key_that_asks_too_often_is_told_when_to_come_again(app: App, serve: Serve) -> None:
    clock = Clock()
    served = await serve(app, Limits(rate=0.5, burst=2), clock=clock)
    told = [await served.operator("GET", "/v1/rooms") for _ in range(3)]

    assert [one.status_code for one in told] == [200, 200, 429]
    assert told[-1].headers["retry-after"] == "2"
    clock.now += 2
    assert (await served.operator("GET", "/v1/rooms")).status_code == 200
    assert (await served.operator("GET", "/v1/rooms")).status_code == 429


async def test_one_key_takes_nothing_from_another(app: App, serve: Serve) -> None:
    served = await serve(app, Limits(rate=0.5, burst=1), clock=Clock())
    other = served.nobody((await app.keys.make("operator", name="other")).key)

    await served.operator.get("/v1/rooms")

    assert (await served.operator("GET", "/v1/rooms")).status_code == 429
    await other.get("/v1/rooms")


async def test_health_is_told_however_much_is_asked(app: App, serve: Serve) -> None:
    served = await serve(app, Limits(rate=0.5, burst=1, in_flight=0), clock=Clock())

    told = [(await served.nobody()("GET", "/health/live")).status_code for _ in range(5)]

    assert told == [200] * 5


def test_no_more_keys_are_remembered_than_fit() -> None:
    buckets = Buckets(Limits(), Clock())

    for number in range(KEYS + 100):
        buckets.take(str(number).encode())

    assert len(buckets._left) == KEYS


async def test_under_overload_requests_are_shed_and_accepted_writes_stay(
    served: Served, serve: Serve
) -> None:
    crowded = await serve(served.app, Limits(in_flight=3, rate=10_000, burst=10_000))

    async def write(number: int) -> tuple[str, int]:
        record = {
            "platform": "test", "room": "square", "id": f"w{number}", "author": "ana", "text": "written",
            "sent_at": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        response = await crowded.operator("POST", "/v1/messages", {"messages": [record]})
        if response.status_code == 503:
            assert response.headers["retry-after"] == "1"
        return record["id"], response.status_code

    told = dict(await asyncio.gather(*(write(number) for number in range(30))))

    assert set(told.values()) == {200, 503}
    kept = {
        one["external_id"]
        for one in (await served.operator.get("/v1/rooms/square/messages?limit=100"))["messages"]
        if one["external_id"].startswith("w")
    }
    assert kept == {name for name, status in told.items() if status == 200}


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_that_is_too_large_is_refused(app: App, serve: Serve, is_announced) -> None:
    served = await serve(app, Limits(body=1000))
    body = json.dumps({"question": "x" * 1000}).encode()

    async def parts():
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    response = await served.operator(
        "POST",
        "/v1/search",
        content=body if is_announced else parts(),
        headers={"content-type": "application/json"},
    )

    assert response.status_code == 413
    assert "1,000 bytes" in response.json()["detail"]


async def test_a_length_that_is_none_is_not_believed(app: App, serve: Serve) -> None:
    served = await serve(app, Limits(body=100))

    response = await served.operator(
        "POST",
        "/v1/search",
        content=b"{}",
        headers={"content-type": "application/json", "content-length": "9" * 5000},
    )

    assert response.status_code == 413


async def test_only_what_is_said_may_be_long(served: Served) -> None:
    long = {"question": "x" * 300_000}

    assert (await served.operator("POST", "/v1/search", json=long)).status_code == 413
    said = await served.operator("POST", "/v1/messages", json={"messages": [], "note": "x" * 300_000})
    assert said.status_code != 413


async def test_a_key_has_one_rate_however_it_is_spelt(app: App, serve: Serve) -> None:
    served = await serve(app, Limits(rate=0.001, burst=2))
    key = served.operator.key
    spelt = [f"Bearer {key}", f"bearer {key}", f"BEARER  {key}", f"Bearer   {key}"]

    told = [
        (await served.nobody()("GET", "/v1/rooms", headers={"authorization": one})).status_code
        for one in spelt
    ]

    assert told == [200, 200, 429, 429]
