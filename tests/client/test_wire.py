"""What is sent on its way, and what comes of a server that is slow, lost, full, wrong or hostile."""

import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence

import httpx2
import pytest

from roomlore.client import Client, Server
from roomlore.client.application import sign_in
from roomlore.client.transport import LONGEST_PAUSE, Transport, http_client
from roomlore.domain.errors import (
    BadInput,
    Conflict,
    KeyRefused,
    NotAllowed,
    NotFound,
    QueryTimeout,
    RoomloreError,
    ServerUnavailable,
)
from roomlore.domain.records import Viewer
from roomlore.operations.keys import org_of

KEY = "rlk_" + "A" * 64
ORG = org_of(KEY)
OPERATOR = {"org_id": str(ORG), "participant_id": None, "role": "operator", "key_id": None, "accounts": []}
Answer = Callable[[httpx2.Request], httpx2.Response]


async def streamed(content: bytes) -> AsyncGenerator[bytes]:
    yield content


class Stub:
    """A server that answers as it is told, and keeps what it was asked."""

    def __init__(self, *answers: httpx2.Response | Exception | Answer) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/viewer":
            return httpx2.Response(200, content=streamed(json.dumps(OPERATOR).encode()))
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        told = answer if isinstance(answer, httpx2.Response) else answer(request)
        return httpx2.Response(told.status_code, headers=told.headers, content=streamed(told.content))

    async def client(self, **rest) -> Client:
        server = Server(**{"address": "https://rooms.example", "key": KEY} | rest)
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return await sign_in(Transport(server, http, sleep=self.sleep, chance=lambda: 1.0), KEY)


def problem(
    status: int, name: str, detail: str, facts: dict[str, str] | None = None, **headers
) -> httpx2.Response:
    body = {"type": f"urn:roomlore:problem:{name}", "title": "x", "status": status, "detail": detail}
    body |= {"request_id": "r-1", "facts": facts or {}}
    content = json.dumps(body).encode()
    return httpx2.Response(
        status, content=content, headers={"content-type": "application/problem+json"} | headers
    )


ROOMS = httpx2.Response(200, json=[])


async def error_of(stub: Stub, **rest) -> RoomloreError:
    client = await stub.client(**rest)
    with pytest.raises(RoomloreError) as raised:
        await client.rooms(client.operator)
    return raised.value


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(400, "bad-input", "limit: too much", {"what": "limit", "why": "too much"}), BadInput("limit", "too much")),
        (problem(400, "bad-input", "query.limit: is a number"), BadInput("query.limit", "is a number")),
        (problem(400, "bad-input", "no"), BadInput("request", "no")),
        (problem(413, "too-large", "a body has at most 9 bytes"), BadInput("request", "a body has at most 9 bytes")),
        (problem(404, "not-found", "no room 'a'", {"what": "room", "key": "a"}), NotFound("room", "a")),
        (problem(403, "not-allowed", "not allowed: that", {"what": "that"}), NotAllowed("that")),
        (problem(401, "key-refused", "the key is not valid"), KeyRefused()),
        (problem(401, "key-needed", "show a key"), KeyRefused()),
        (problem(409, "conflict", "a: b", {"what": "a", "why": "b"}), Conflict("a", "b")),
        (problem(409, "done-already", "it was done"), Conflict("request", "it was done")),
        (problem(409, "outcome-unknown", "look"), Conflict("request", "look")),
        (problem(503, "took-too-long", "too long"), QueryTimeout()),
        (problem(400, "bad-input", "", {"what": "\x1b[31ma", "why": "b\u202e" * 3_000}), BadInput("[31ma", "b" * 1_000)),
        (problem(403, "not-allowed", "", {"what": "a\nb"}), NotAllowed("a b")),
    ],
)  # fmt: skip
async def test_what_a_server_refuses_is_the_error_that_an_app_raises(answer, error) -> None:
    told = await error_of(Stub(answer))

    assert (type(told), str(told), vars(told)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (problem(500, "fault", "a fault in Roomlore"), "a fault in Roomlore; ask its operator about request r-1"),
        (problem(404, "not-found", "no GET of this path"), "knows no such call"),
        (httpx2.Response(200, text="<html>"), "is no list"),
        (httpx2.Response(200, content=b"\xff\xfe"), "is no list"),
        (httpx2.Response(200, content=b"[" * 100_000), "is no list"),
        (httpx2.Response(200, json=[{"id": 1}]), "is no list"),
        (httpx2.Response(502, text="bad gateway"), "answered 502, and not as Roomlore does"),
        (httpx2.Response(404, json={"detail": "x"}), "answered 404"),
        (httpx2.Response(400, content=b"{", headers={"content-type": "application/problem+json"}), "answered 400"),
    ],
)  # fmt: skip
async def test_a_server_that_is_none_of_ours_is_told_as_such(answer, words) -> None:
    told = await error_of(Stub(answer))

    assert isinstance(told, ServerUnavailable)
    assert words in str(told)


async def test_a_redirect_is_not_followed() -> None:
    stub = Stub(httpx2.Response(307, headers={"location": "https://other.example/v1/rooms"}))
    told = await error_of(stub)

    assert "no redirect is followed" in str(told)
    assert "other.example" not in str(told)
    assert len(stub.asked) == 1


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    told = await error_of(Stub(httpx2.Response(200, content=b" " * 2000)), largest=1000)

    assert "more than 1,000 bytes" in str(told)


LOST = (
    httpx2.ConnectError("x"),
    httpx2.ReadError("x"),
    httpx2.RemoteProtocolError("x"),
    httpx2.ConnectTimeout("x"),
)


async def test_what_was_lost_on_the_way_is_asked_again() -> None:
    stub = Stub(*LOST, ROOMS)
    client = await stub.client(attempts=5)

    assert await client.rooms(client.operator) == []
    assert stub.slept == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_full_is_asked_again_when_it_says(status) -> None:
    full = problem(status, "overloaded", "come again", **{"retry-after": "7"})
    stub = Stub(full, full, ROOMS)
    client = await stub.client()

    assert await client.rooms(client.operator) == []
    assert stub.slept == [7.0, 7.0]


async def test_no_server_is_asked_for_ever() -> None:
    stub = Stub(*[httpx2.ConnectError("x")] * 9)
    told = await error_of(stub, attempts=3)

    assert isinstance(told, ServerUnavailable)
    assert "no server answers at https://rooms.example (ConnectError); is it running" in str(told)
    assert len(stub.asked) == 3


async def test_nobody_sleeps_for_as_long_as_a_server_likes() -> None:
    stub = Stub(problem(503, "overloaded", "come again", **{"retry-after": str(int(LONGEST_PAUSE) + 1)}))
    told = await error_of(stub)

    assert str(told) == "come again; try again in a moment"
    assert stub.slept == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 502])
async def test_what_would_be_refused_again_is_not_asked_again(status) -> None:
    stub = Stub(httpx2.Response(status))
    await error_of(stub)

    assert len(stub.asked) == 1


async def test_what_took_too_long_is_not_asked_again() -> None:
    stub = Stub(problem(503, "took-too-long", "too long"))
    assert isinstance(await error_of(stub), QueryTimeout)
    assert (len(stub.asked), stub.slept) == (1, [])


async def test_a_change_has_one_key_for_all_attempts_and_another_for_the_next() -> None:
    done = httpx2.Response(200, json={"compacted_at": "2026-01-01T00:00:00Z"})
    busy = problem(409, "conflict", "still under way", **{"retry-after": "1"})
    stub = Stub(httpx2.ReadError("x"), busy, done, done)
    client = await stub.client()
    await client.agents.reset_context("a")
    await client.agents.reset_context("a")
    keys = [one.headers["idempotency-key"] for one in stub.asked]

    assert len(keys[0]) == 36
    assert keys[0] == keys[1] == keys[2] != keys[3]


async def test_a_read_has_no_such_key() -> None:
    empty = {
        "hits": [],
        "confidence": None,
        "degraded": [],
        "applied_filters": None,
        "restrictions": [],
        "postable": "nowhere",
    }
    stub = Stub(ROOMS, httpx2.Response(200, json=empty))
    client = await stub.client()
    await client.rooms(client.operator)
    await client.search(client.operator, "flour")

    assert all("idempotency-key" not in one.headers for one in stub.asked)


async def test_what_is_asked_stands_in_no_address() -> None:
    empty = httpx2.Response(
        200,
        json={
            "hits": [],
            "confidence": None,
            "degraded": [],
            "applied_filters": None,
            "restrictions": [],
            "postable": "nowhere",
        },
    )
    stub = Stub(empty, empty)
    client = await stub.client()
    await client.search(client.operator, "flour")
    await client.similar(client.operator, "flour")

    assert ["flour" in str(one.url) for one in stub.asked] == [False, False]


async def test_the_key_is_in_one_header_and_in_nothing_that_is_shown(caplog) -> None:
    caplog.set_level(logging.DEBUG)
    stub = Stub(*[httpx2.ConnectError("x")] * 4)
    client = await stub.client()
    with pytest.raises(ServerUnavailable) as raised:
        await client.rooms(client.operator)
    server = client.session.transport.server
    shown = [repr(client), str(client), repr(client.session), repr(client.session.transport), repr(server)]
    shown += [
        repr(raised.value),
        repr(raised.value.__cause__),
        caplog.text,
        repr(client.keys),
        repr(client.memories),
    ]

    assert stub.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert [KEY in text for text in shown] == [False] * len(shown)
    assert not any(
        KEY in value for one in stub.asked for name, value in one.headers.items() if name != "authorization"
    )


@pytest.mark.parametrize("word", ["..", ".", "", "\ud800"])
async def test_a_word_that_cannot_stand_in_an_address_is_sent_nowhere(word) -> None:
    stub = Stub()
    client = await stub.client()
    with pytest.raises(BadInput):
        await client.messages(client.operator, word)

    assert stub.asked == []


@pytest.mark.parametrize(
    "word", ["a/b", "a b", "ä", "?x=1", "#x", "a%2Fb", "a;b", "a&b", "\x00", "..a", "a\nb", "%"]
)
async def test_a_word_is_one_part_of_a_path_whatever_it_holds(word) -> None:
    stub = Stub(httpx2.Response(200, json={"messages": [], "next": None}))
    client = await stub.client()
    await client.messages(client.operator, word)
    path = stub.asked[0].url.raw_path.decode().partition("?")[0]

    assert path.startswith("/v1/rooms/")
    assert path.count("/") == 4
    assert httpx2.URL(f"https://x{path}").path == f"/v1/rooms/{word}/messages"


async def test_a_viewer_is_named_only_where_it_is_not_the_keys_own() -> None:
    stub = Stub(*[ROOMS] * 3)
    client = await stub.client()
    mira = Viewer(org_id=ORG, participant_id=ORG)  # type: ignore[arg-type]  any id will do
    await client.rooms(client.operator)
    await client.rooms(mira)
    await client.impersonate(mira).rooms(mira)

    assert [one.headers.get("roomlore-viewer") for one in stub.asked] == [None, str(ORG), str(ORG)]


async def test_who_acts_for_somebody_is_nobody_else() -> None:
    stub = Stub()
    client = await stub.client()
    mira = Viewer(org_id=ORG, participant_id=ORG)  # type: ignore[arg-type]
    acting = client.impersonate(mira)

    with pytest.raises(NotAllowed):
        await acting.rooms(acting.operator)
    with pytest.raises(NotAllowed):
        acting.impersonate(client.operator)
    assert stub.asked == []


async def test_pages_are_put_together_again() -> None:
    def page(numbers: Sequence[int], following: str | None) -> httpx2.Response:
        said = [placed(number) for number in numbers]
        return httpx2.Response(200, json={"messages": said, "next": following})

    stub = Stub(page(range(1500, 2500), "c1"), page(range(500, 1500), "c2"), page(range(400, 500), None))
    client = await stub.client()
    found = await client.conversations.timeline(client.operator, "a", limit=2100, before="m")
    asked = [dict(one.url.params) for one in stub.asked]

    assert [one.message.external_id for one in found] == [str(number) for number in range(400, 2500)]
    assert asked == [
        {"limit": "1000", "before": "m"},
        {"limit": "1000", "cursor": "c1"},
        {"limit": "100", "cursor": "c2"},
    ]


def placed(number: int) -> dict[str, object]:
    said = {
        "id": str(ORG), "room_id": str(ORG), "external_id": str(number), "kind": "message", "author_id": str(ORG),
        "author_name": "a", "author_kind": "human", "body": "b", "sent_at": "2026-01-01T00:00:00Z", "precision": "s",
        "sequence": 0, "edited_at": None, "redacted_at": None, "erased_at": None, "reply_to": None,
    }  # fmt: skip
    return {"message": said, "answers": None, "conversation_id": None}


async def test_connections_keep_no_cookies_follow_nothing_and_ask_no_proxy(monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:1")
    async with http_client(Server(address="https://rooms.example", key=KEY)) as http:
        request = http.build_request("GET", "https://rooms.example/")
        response = httpx2.Response(200, headers={"set-cookie": "a=b; Path=/"}, request=request)
        http.cookies.extract_cookies(response)

        assert list(http.cookies.jar) == []
        assert http.follow_redirects is False
        assert http.trust_env is False


@pytest.mark.parametrize(
    "answer", [httpx2.Response(200, text="<html>sign in"), httpx2.Response(201, json={})]
)
async def test_a_change_that_returns_nothing_is_believed_to_nobody_but_a_server_of_ours(answer) -> None:
    client = await Stub(answer).client()
    with pytest.raises(ServerUnavailable, match="not as Roomlore does"):
        await client.agents.set_injection("square", on=False)

    await (await Stub(httpx2.Response(204)).client()).agents.set_injection("square", on=False)


@pytest.mark.parametrize("error", [httpx2.ReadTimeout("x"), httpx2.ReadError("x")])
async def test_a_change_that_has_no_answer_may_have_been_made_and_says_so(error) -> None:
    client = await Stub(*[error] * 9).client()
    with pytest.raises(ServerUnavailable, match="may have been done"):
        await client.agents.set_injection("square", on=False)

    assert "may have been done" not in str(await error_of(Stub(*[error] * 9)))
