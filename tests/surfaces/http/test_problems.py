"""Whatever goes wrong is told in one shape, says what to do, and shows nothing of what is inside."""

import psycopg
import pytest

from roomlore.app import App
from roomlore.domain import errors
from roomlore.surfaces.http.problems import KINDS
from surfaces.http.conftest import Serve, Served

SECRET = "the vault opens at noon"


async def test_a_problem_has_its_shape_and_the_id_of_its_request(served: Served) -> None:
    response = await served.operator("GET", "/v1/rooms/nowhere/messages", headers={"x-request-id": "abc-1"})

    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == "abc-1"
    assert response.json() == {
        "type": "urn:roomlore:problem:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "no room 'nowhere'",
        "request_id": "abc-1",
    }


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "1\x7f", "<script>", "a,b"])
async def test_an_id_that_is_not_well_formed_is_replaced(served: Served, given) -> None:
    response = await served.operator("GET", "/v1/rooms", headers={"x-request-id": given})

    assert len(response.headers["x-request-id"]) == 36


def test_every_error_has_its_kind() -> None:
    raised = {
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.RoomloreError)
    }

    assert raised - {errors.RoomloreError} == set(KINDS)


BAD = {
    "no JSON": b"{",
    "nothing": b"",
    "not an object": b"[]",
    "bad UTF-8": b'{"question": "\xff\xfe"}',
    "NUL": b'{"question": "a\\u0000b"}',
    "half a pair": b'{"question": "\\ud800"}',
    "half a pair as a name": b'{"question": "x", "\\ud800": 1}',
    "too deep": b"[" * 100_000,
    "deep inside": b'{"question": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge number": b'{"question": "x", "limit": ' + b"9" * 10_000 + b"}",
    "no number": b'{"question": "x", "limit": NaN}',
    "a word for a number": b'{"question": "x", "limit": "3"}',
    "an unknown word": b'{"question": "x", "rom": "square"}',
    "too long": b'{"question": "' + b"x" * 20_000 + b'"}',
    "empty": b'{"question": ""}',
}


@pytest.mark.parametrize("path", ["/v1/search", "/v1/ask"])
@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
async def test_bad_bodies_are_refused(served: Served, path, body) -> None:
    response = await served.operator("POST", path, content=body, headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert response.json()["type"] == "urn:roomlore:problem:bad-input"
    assert len(response.content) < 1_000


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_what_is_not_sent_as_json_is_refused(served: Served, kind) -> None:
    headers = {} if kind is None else {"content-type": kind}

    response = await served.operator("POST", "/v1/search", content=b'{"question": "x"}', headers=headers)

    assert response.status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/v1/rooms/a%00b/messages",
        "/v1/rooms?limit=3",
        "/v1/rooms/square/messages?limit=0",
        "/v1/rooms/square/messages?limit=1001",
        "/v1/rooms/square/messages?limit=" + "9" * 5000,
        "/v1/rooms/square/messages?before=%00",
        "/v1/memories?kinds=nonsense",
        "/v1/memories?as_of=2026-01-01",
        "/v1/memories?since=0001-01-01T00:00:00%2B14:00",
        "/v1/log?about=xyz",
        "/v1/agents/pip/block?room=square&budget=0",
        "/v1/rooms/square/context?budget=-1",
    ],
)
async def test_bad_words_in_paths_and_queries_are_refused(served: Served, path) -> None:
    assert (await served.operator("GET", path)).status_code == 400


@pytest.mark.parametrize(
    "path", ["/v1/rooms/%ff%fe/messages", "/v1/rooms/%ED%A0%80/messages", "/v1/memories/zzz"]
)
async def test_words_that_mean_nothing_are_not_found(served: Served, path) -> None:
    assert (await served.operator("GET", path)).status_code == 404


async def test_paths_and_methods_that_are_none_are_told_apart_with_a_key_only(served: Served) -> None:
    assert (await served.operator("GET", "/v1/nothing")).status_code == 404
    assert (await served.operator("PUT", "/v1/rooms")).status_code == 405
    assert (await served.operator("GET", "/v1/rooms/")).status_code == 404
    assert (await served.nobody()("PUT", "/v1/rooms")).status_code == 401
    assert (await served.nobody()("GET", "/v1/nothing")).status_code == 401


async def test_a_fault_shows_nothing_of_itself_and_logs_no_text(served: Served, monkeypatch, caplog) -> None:
    def fail(*_, **__):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(App, "rooms", fail)

    response = await served.operator("GET", "/v1/rooms", headers={"x-request-id": "abc-2"})

    assert response.status_code == 500
    assert SECRET not in response.text + caplog.text
    assert "RuntimeError" in caplog.text
    assert "abc-2" in caplog.text


async def test_an_outage_is_told_as_such(served: Served, monkeypatch) -> None:
    def fail(*_, **__):
        raise psycopg.OperationalError(f"connection to {SECRET} failed")

    monkeypatch.setattr(App, "rooms", fail)

    response = await served.operator("GET", "/v1/rooms")

    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert SECRET not in response.text


async def test_health_tells_whether_the_database_answers(app: App, serve: Serve, monkeypatch) -> None:
    served = await serve(app)
    nobody = served.nobody()
    assert (await nobody("GET", "/health/live")).json() == {"status": "live"}
    assert (await nobody("GET", "/health/ready")).json() == {"status": "ready", "database": True}

    async def fail(*_, **__):
        raise psycopg.OperationalError(SECRET)

    monkeypatch.setattr(type(app.db), "find_org", fail)

    response = await nobody("GET", "/health/ready")

    assert (response.status_code, response.json()["status"]) == (503, "waiting")
    assert (await nobody("GET", "/health/live")).status_code == 200


async def test_metrics_count_by_route_and_name_nobody(served: Served) -> None:
    await served.operator.get("/v1/rooms/attic/messages")
    await served.operator("GET", "/v1/rooms/nowhere/messages")
    await served.operator("BREW", "/v1/rooms")

    told = (await served.operator("GET", "/metrics")).text

    assert 'route="/v1/rooms/{room}/messages",status="200"} 1.0' in told
    assert 'route="/v1/rooms/{room}/messages",status="404"} 1.0' in told
    assert "attic" not in told
    assert "BREW" not in told


async def test_metrics_are_for_operators_wherever_they_ask_from(served: Served) -> None:
    here = {"client": ("127.0.0.1", 4711), "headers": {"host": "localhost:7171"}}

    assert (await served.nobody()("GET", "/metrics", **here)).status_code == 401
    assert (await served.operator("GET", "/metrics", **here)).status_code == 200
