"""Too much is refused before anything is done for it, and says when to come again."""

import asyncio
import json
from typing import Any

import pytest

from roomlore.domain.errors import KeyRefused
from roomlore.http.limits import KEYS, LimitMiddleware, RateLimiter, RequestLimits
from roomlore.operations import App
from surfaces.http.calling import ELSEWHERE
from surfaces.http.conftest import Serve, Served


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_key_that_asks_too_often_is_told_when_to_come_again(app: App, serve: Serve) -> None:
    clock = Clock()
    served = await serve(app, RequestLimits(rate=0.5, burst=2), clock=clock)
    told = [await served.operator("GET", "/v1/rooms") for _ in range(3)]

    assert [one.status_code for one in told] == [200, 200, 429]
    assert told[-1].headers["retry-after"] == "2"
    clock.now += 2
    assert (await served.operator("GET", "/v1/rooms")).status_code == 200
    assert (await served.operator("GET", "/v1/rooms")).status_code == 429


async def test_one_key_takes_nothing_from_another(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(rate=0.5, burst=1), clock=Clock())
    other = served.nobody((await app.keys.create("operator", name="other")).key)

    await served.operator.get("/v1/rooms")

    assert (await served.operator("GET", "/v1/rooms")).status_code == 429
    await other.get("/v1/rooms")


async def test_health_is_told_however_much_is_asked(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(rate=0.5, burst=1, in_flight=0), clock=Clock())

    told = [(await served.nobody()("GET", "/health/live")).status_code for _ in range(5)]

    assert told == [200] * 5


def test_no_more_keys_are_remembered_than_fit() -> None:
    buckets = RateLimiter(RequestLimits(), Clock())

    for number in range(KEYS + 100):
        buckets.take(str(number).encode())

    assert len(buckets._left) == KEYS


async def test_under_overload_requests_are_shed_and_accepted_writes_stay(
    served: Served, serve: Serve
) -> None:
    crowded = await serve(served.app, RequestLimits(in_flight=3, max_key_share=1, rate=10_000, burst=10_000))

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
    served = await serve(app, RequestLimits(body=1000))
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
    served = await serve(app, RequestLimits(body=100))

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


async def test_a_body_that_does_not_arrive_is_waited_for_no_longer(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(body_timeout_seconds=0.2))
    received = asyncio.Queue[dict[str, Any]]()
    await received.put({"type": "http.request", "body": b'{"quest', "more_body": True})
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    key = f"Bearer {served.operator.key}".encode()
    scope = {
        "type": "http", "method": "POST", "path": "/v1/search", "raw_path": b"/v1/search", "query_string": b"",
        "http_version": "1.1", "scheme": "http", "root_path": "", "client": (ELSEWHERE, 1), "server": ("x", 80),
        "headers": [(b"authorization", key), (b"content-type", b"application/json"), (b"content-length", b"99")],
    }  # fmt: skip
    async with asyncio.timeout(20):
        await served.api(scope, received.get, send)

    assert sent[0]["status"] == 408
    # Whatever comes of it later is not taken for another request.
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_one_key_does_not_take_all_places(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(in_flight=4, rate=10_000, burst=10_000))
    other = served.nobody((await app.keys.create("operator", name="other")).key)
    held, go = asyncio.Semaphore(0), asyncio.Event()

    async def hold(*_: object) -> list[object]:
        held.release()
        await go.wait()
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "rooms", hold)
        under_way = [asyncio.create_task(served.operator("GET", "/v1/rooms")) for _ in range(2)]
        for _ in under_way:
            await held.acquire()
        refused = await served.operator("GET", "/v1/participants")
        await other.get("/v1/participants")
        go.set()
        assert {(await one).status_code for one in under_way} == {200}

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    await served.operator.get("/v1/participants")


async def test_whoever_guesses_keys_is_slowed_down_and_nobody_else(app: App, serve: Serve) -> None:
    clock = Clock()
    limits = RequestLimits(failed_auth_rate=0.5, failed_auth_burst=3, rate=10_000, burst=10_000)
    served = await serve(app, limits, clock=clock)
    await served.operator.get("/v1/rooms")
    fresh = served.nobody((await app.keys.create("operator", name="fresh")).key)

    guesses = [f"{served.operator.key[:-4]}{number:04}" for number in range(5)]
    told = [await served.nobody(guess)("GET", "/v1/rooms") for guess in guesses]

    assert [one.status_code for one in told] == [401, 401, 401, 429, 429]
    assert told[-1].headers["retry-after"] == "2"
    # From there only what was a key before is looked at; from elsewhere everything.
    await served.operator.get("/v1/rooms")
    assert (await fresh("GET", "/v1/rooms")).status_code == 429
    await fresh.get("/v1/rooms", client=("203.0.113.6", 1))
    await fresh.get("/v1/rooms")
    clock.now += 2
    assert (await served.nobody(guesses[4])("GET", "/v1/rooms")).status_code == 401


async def test_whoever_has_a_network_has_one_share_of_guesses(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(failed_auth_burst=2), clock=Clock())
    told = [
        await served.nobody(served.operator.key[:-4] + "0000")("GET", "/v1/rooms", client=(address, 1))
        for address in ("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1")
    ]
    assert [one.status_code for one in told] == [401, 401, 429, 401]


async def test_a_key_has_one_rate_however_it_is_spelt(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(rate=0.001, burst=2))
    key = served.operator.key
    spelt = [f"Bearer {key}", f"bearer {key}", f"BEARER  {key}", f"Bearer   {key}"]

    told = [
        (await served.nobody()("GET", "/v1/rooms", headers={"authorization": one})).status_code
        for one in spelt
    ]

    assert told == [200, 200, 429, 429]


async def test_a_key_in_other_letters_is_no_key(app: App, serve: Serve) -> None:
    served = await serve(app, RequestLimits(rate=0.001, burst=2))
    key = served.operator.key
    others = {
        key.replace("-", "+").replace("_", "/").replace("rlk/", "rlk_"),
        f"{key}=",
        f"{key}====",
        f"{key} ",
    }
    others |= {key[:-1] + letter for letter in "+/"}

    for other in others - {key, f"{key} "}:
        assert (await served.nobody(other)("GET", "/v1/rooms")).status_code == 401, other
        with pytest.raises(KeyRefused):
            await app.sign_in(other)


async def test_of_two_headers_with_keys_neither_is_looked_at_nor_believed_later(
    app: App, serve: Serve
) -> None:
    served = await serve(
        app,
        RequestLimits(failed_auth_rate=0.5, failed_auth_burst=3, rate=10_000, burst=10_000),
        clock=Clock(),
    )
    guesses = [f"{served.operator.key[:-4]}{number:04}" for number in range(20)]
    for guess in guesses:
        second = [("authorization", f"Bearer {guess}")]
        assert (await served.nobody(guess)("GET", "/v1/rooms", besides=second)).status_code == 400

    told = [(await served.nobody(guess)("GET", "/v1/rooms")).status_code for guess in guesses]

    assert told == [401] * 3 + [429] * 17


async def test_guesses_at_the_same_time_are_no_more_than_one_after_the_other(app: App, serve: Serve) -> None:
    served = await serve(
        app,
        RequestLimits(failed_auth_rate=0.5, failed_auth_burst=3, rate=10_000, burst=10_000),
        clock=Clock(),
    )
    guesses = [served.nobody(f"{served.operator.key[:-4]}{number:04}") for number in range(20)]

    told = [one.status_code for one in await asyncio.gather(*(one("GET", "/v1/rooms") for one in guesses))]

    assert sorted(told) == [401] * 3 + [429] * 17
    # The same key many times at once is one guess, and a good one is none.
    elsewhere = ("203.0.113.77", 1)
    same = [served.operator("GET", "/v1/rooms", client=elsewhere) for _ in range(20)]
    assert {one.status_code for one in await asyncio.gather(*same)} == {200}
    told = [(await one("GET", "/v1/rooms", client=elsewhere)).status_code for one in guesses[:4]]
    assert told == [401] * 3 + [429]


async def test_whoever_goes_before_there_is_an_answer_has_not_guessed() -> None:
    sent: list[Any] = []

    async def gone(*_: Any) -> None: ...

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    limits = RequestLimits()
    admission = LimitMiddleware(gone, limits=limits, clock=Clock())
    for number in range(int(limits.failed_auth_burst) + 10):
        headers = [(b"authorization", f"Bearer key{number}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/v1/rooms", "headers": headers, "state": {}}
        await admission({**scope, "client": ("192.0.2.1", 1)}, receive, send)

    assert sent == []
