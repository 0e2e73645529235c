"""Asked twice with one key, a thing is done once; what is gone meanwhile is not answered again."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from roomlore.db import idempotency
from roomlore.db.database import Database
from roomlore.http.application import routes_app
from roomlore.http.idempotency import REPLAYS, replay_policy
from roomlore.http.openapi import METHODS, openapi_document
from roomlore.jobs.expiry import expire_everywhere
from surfaces.http.calling import Caller
from surfaces.http.conftest import Served

SECRET = "zanzibar"


async def once(
    caller: Caller, method: str, path: str, json: Any = None, *, key: str = "a", **rest: Any
) -> Any:
    headers = {"Idempotency-Key": key} | rest.pop("headers", {})
    return await caller(method, path, json, headers=headers, **rest)


def problem(response: Any) -> str:
    return response.json()["type"].rpartition(":")[2]


def record(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "messages": [
            {
                "platform": "test", "room": "square", "id": f"i{number}", "author": "ana", "text": f"said {number}",
                "sent_at": "2026-01-01T00:00:00Z",
            }
            | fields
        ]
    }  # fmt: skip


async def rows(admin: psycopg.AsyncConnection, served: Served) -> list[tuple[Any, ...]]:
    query = "select status, body, place, t::text from idempotency as t where org_id = %s"
    return await (await admin.execute(query, [served.app.org_id])).fetchall()


def test_of_every_operation_that_does_something_is_said_how_its_answer_is_kept() -> None:
    described = {
        (method.upper(), path)
        for path, item in openapi_document(routes_app())["paths"].items()
        for method in METHODS
        if method in item and method != "get"
    }
    assert described == set(REPLAYS)
    for method, path in REPLAYS:
        assert replay_policy(method, path.replace("{", "").replace("}", "")) is not None


async def test_a_message_is_taken_once_and_answered_the_same_twice(served: Served) -> None:
    first = await once(served.operator, "POST", "/v1/messages", record())
    again = await once(served.operator, "POST", "/v1/messages", record())

    assert first.json()["added"] == 1
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert again.headers["x-request-id"] != first.headers["x-request-id"]


async def test_an_edit_is_not_made_again_over_what_came_after_it(served: Served) -> None:
    for text, key in (("one", "a"), ("two", "b"), ("one", "a")):
        response = await once(served.operator, "PATCH", "/v1/messages/m1", {"text": text}, key=key)
        assert response.status_code == 200

    said = (await served.operator.get("/v1/rooms/square/messages"))["messages"]
    assert next(one["body"] for one in said if one["external_id"] == "m1") == "two"


async def test_what_has_no_answer_is_answered_so_again(served: Served) -> None:
    told = [await once(served.operator, "PUT", "/v1/rooms/square/injection", {"on": False}) for _ in range(2)]
    assert [one.status_code for one in told] == [204, 204]
    assert told[1].headers["idempotency-replayed"] == "true"


async def test_a_memory_is_kept_once_and_read_anew(served: Served, admin) -> None:
    statement = {"content": f"the mill is in {SECRET}", "sources": ["m1"]}
    first = await once(served.operator, "POST", "/v1/memories", statement)
    again = await once(served.operator, "POST", "/v1/memories", statement)

    assert first.status_code == 200, first.text
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    [(status, body, place, row)] = await rows(admin, served)
    assert (status, body, place) == (200, None, f"/v1/memories/{first.json()['id']}")
    assert SECRET not in row


@pytest.mark.slow
async def test_a_conversation_is_read_anew_without_what_was_said_in_it(served: Served) -> None:
    await served.app.drain()
    [one, *_] = await served.operator.get("/v1/conversations?room=square")
    path = f"/v1/conversations/{one['id']}/label"
    first = await once(served.operator, "PUT", path, {"label": "mill"})
    await served.operator("PUT", path, {"label": "well"})
    again = await once(served.operator, "PUT", path, {"label": "mill"})

    assert set(again.json()) == set(first.json())
    assert again.json()["label"] == "well"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["message", "person", "redact"])
async def test_what_is_erased_is_not_answered_again(served: Served, how) -> None:
    statement = {"content": f"the mill is in {SECRET}", "sources": ["m1"]}
    first = await once(served.operator, "POST", "/v1/memories", statement)
    if how == "redact":
        await served.operator.post("/v1/messages/m1/redact", {})
    else:
        wish = {"message": "m1"} if how == "message" else {"participant": "bo"}
        await served.operator.post("/v1/erasures", {"kind": how, **wish})

    again = await once(served.operator, "POST", "/v1/memories", statement)

    assert (again.status_code, problem(again)) == (409, "done-already")
    assert SECRET not in again.text
    assert first.json()["id"] not in again.text


async def test_a_secret_is_told_once(served: Served, admin) -> None:
    wish = {"role": "operator", "name": "other"}
    first = await once(served.operator, "POST", "/v1/keys", wish)
    again = await once(served.operator, "POST", "/v1/keys", wish)

    assert (again.status_code, problem(again)) == (409, "done-already")
    assert first.json()["key"] not in again.text
    assert len(await served.operator.get("/v1/keys")) == 2
    [(_, body, place, row)] = await rows(admin, served)
    assert (body, place) == (None, None)
    assert first.json()["key"] not in row


@pytest.mark.parametrize(
    ("method", "path", "json"),
    [
        ("POST", "/v1/messages", record(2)),
        ("PATCH", "/v1/messages/i1", {"text": "x"}),
        ("POST", "/v1/messages?x=1", record(1)),
    ],
)
async def test_a_key_is_for_one_request(served: Served, method, path, json) -> None:
    await once(served.operator, "POST", "/v1/messages", record(1))

    response = await once(served.operator, method, path, json)

    assert (response.status_code, problem(response)) == (422, "key-reused")
    assert len((await served.operator.get("/v1/rooms/square/messages?limit=100"))["messages"]) == 5


async def test_the_same_key_of_another_caller_or_viewer_is_another(served: Served) -> None:
    other = served.nobody((await served.app.keys.create("operator", name="other")).key)
    wish = {"kind": "message", "message": "m4", "dry_run": True}
    ana = await served.principal("ana")

    told = [
        await once(served.operator, "POST", "/v1/erasures", wish),
        await once(other, "POST", "/v1/erasures", wish),
        await once(served.operator, "POST", "/v1/erasures", wish, viewer="ana"),
        await once(ana, "POST", "/v1/erasures", wish),
    ]

    assert [one.status_code for one in told] == [200] * 4
    assert not any("idempotency-replayed" in one.headers for one in told)
    assert "idempotency-replayed" in (await once(ana, "POST", "/v1/erasures", wish)).headers


async def test_of_many_at_once_one_is_done(served: Served) -> None:
    statement = {"content": "the mill turns", "sources": ["m1"]}
    told = await asyncio.gather(
        *(once(served.operator, "POST", "/v1/memories", statement) for _ in range(12))
    )

    assert sum("idempotency-replayed" not in one.headers for one in told if one.status_code == 200) == 1
    for one in told:
        if one.status_code != 200:
            assert (one.status_code, problem(one), one.headers["retry-after"]) == (409, "under-way", "1")
    assert len({one.json()["id"] for one in told if one.status_code == 200}) == 1


async def test_what_was_refused_or_failed_may_be_asked_for_again(served: Served, admin) -> None:
    assert (
        await once(served.operator, "POST", "/v1/memories", {"content": "x", "sources": ["new"]})
    ).status_code == 404
    assert await rows(admin, served) == []
    await served.operator.post("/v1/messages", record(1, id="new"))
    again = await once(served.operator, "POST", "/v1/memories", {"content": "x", "sources": ["new"]})
    assert again.status_code == 200


async def test_what_was_refused_after_it_was_done_is_not_done_again(served: Served) -> None:
    """Of what pip remembers nothing may be shown to pip, who was not there when it was said."""
    pip = await served.principal("pip")
    statement = {"content": "the mill turns", "sources": ["m1"], "sensitive": True}
    first = await once(pip, "POST", "/v1/memories", statement)
    [kept] = await served.operator.get("/v1/memories")
    await served.operator.post(f"/v1/memories/{kept['id']}/archive")
    again = await once(pip, "POST", "/v1/memories", statement)

    assert (first.status_code, problem(first)) == (404, "not-found")
    assert (again.status_code, problem(again)) == (409, "outcome-unknown")
    assert "idempotency-replayed" not in again.headers
    assert len(await served.operator.get("/v1/memories?statuses=active&statuses=archived")) == 1
    # What was refused before anything was changed leaves nothing behind.
    assert (
        await once(pip, "POST", "/v1/keys", {"role": "operator", "name": "x"}, key="b")
    ).status_code == 403
    assert (
        await once(pip, "POST", "/v1/keys", {"role": "operator", "name": "x"}, key="b")
    ).status_code == 403


@pytest.mark.parametrize("error", [psycopg.OperationalError("lost"), RuntimeError("fault")])
async def test_what_failed_after_it_was_done_is_not_done_again(
    served: Served, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The answer to a commit may be lost on its way."""
    change, calls = Database.change, 0

    async def losing(self: Database, org_id: Any, work: Any) -> Any:
        nonlocal calls
        result = await change(self, org_id, work)
        calls += 1
        if calls == 2:
            raise error
        return result

    monkeypatch.setattr(Database, "change", losing)
    wish = {"role": "operator", "name": "other"}
    first = await once(served.operator, "POST", "/v1/keys", wish)
    again = await once(served.operator, "POST", "/v1/keys", wish)

    assert first.status_code >= 500
    assert (again.status_code, problem(again)) == (409, "outcome-unknown")
    assert sum(one["name"] == "other" for one in await served.operator.get("/v1/keys")) == 1
    # What may be done twice is.
    calls = 0
    first = await once(served.operator, "POST", "/v1/messages", record(), key="b")
    again = await once(served.operator, "POST", "/v1/messages", record(), key="b")
    assert first.status_code >= 500
    assert again.json()["items"][0]["outcome"] == "known"


async def test_records_are_kept_without_a_word_and_told_with_all(served: Served, admin) -> None:
    one = {
        "platform": "test", "room": {"external_id": "square", "name": "square"}, "external_id": f"<{SECRET}@mail>",
        "author": {"account_id": "ana", "name": "ana"}, "body": SECRET, "sent_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    bad = one | {"external_id": "z", "sent_at": "1200-01-01T00:00:00Z", "where": f"line {SECRET}"}
    nowhere = bad | {"where": "", "external_id": f"{SECRET} too"}
    wish = {"messages": [one, bad, nowhere]}
    first = await once(served.operator, "POST", "/v1/messages/records", wish)
    again = await once(served.operator, "POST", "/v1/messages/records", wish)

    assert [skipped["where"] for skipped in first.json()["skipped"]] == [f"line {SECRET}", f"{SECRET} too"]
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["added"] == first.json()["added"] != []
    assert [skipped["where"] for skipped in again.json()["skipped"]] == [f"line {SECRET}", f"{SECRET} too"]
    [(_, body, _, row)] = await rows(admin, served)
    assert SECRET not in row
    assert SECRET not in bytes(body).decode()


async def test_of_one_caller_the_newest_are_known_and_the_expired_go(
    served: Served, admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "MAX_CLAIMS", 3)
    monkeypatch.setattr(idempotency, "COUNT_INTERVAL", 1)
    ana = await served.principal("ana")
    wish = {"kind": "message", "message": "m4", "dry_run": True}
    await once(ana, "POST", "/v1/erasures", wish)
    for number in range(5):
        await once(served.operator, "POST", "/v1/messages", record(number), key=f"k{number}")
    assert len(await rows(admin, served)) == 4
    assert "idempotency-replayed" in (await once(ana, "POST", "/v1/erasures", wish)).headers

    await forget_ends(served, timedelta(hours=25))
    await once(served.operator, "POST", "/v1/messages", record(9), key="new")
    assert len(await rows(admin, served)) == 1


async def test_what_nobody_knows_the_end_of_is_told_so(served: Served) -> None:
    """A process that dies between doing and noting leaves a claim."""
    statement = {"content": "the mill turns", "sources": ["m1"]}
    await once(served.operator, "POST", "/v1/memories", statement)
    await once(served.operator, "POST", "/v1/messages", record(1), key="b")
    for age, expected in ((timedelta(minutes=1), "under-way"), (timedelta(minutes=11), "outcome-unknown")):
        await forget_ends(served, age)
        again = await once(served.operator, "POST", "/v1/memories", statement)
        assert (again.status_code, problem(again)) == (409, expected)
    # What may be done twice is.
    assert (await once(served.operator, "POST", "/v1/messages", record(1), key="b")).status_code == 200


async def forget_ends(served: Served, age: timedelta) -> None:
    then = datetime.now(UTC) - age

    async def change(conn: Any) -> None:
        statement = "update idempotency set status = null, body = null, place = null, claimed_at = %s where org_id = %s"
        await conn.execute(statement, [then, served.app.org_id])

    await served.app.db.change(served.app.org_id, change)


async def test_keys_are_known_for_a_day(served: Served, admin) -> None:
    await once(served.operator, "POST", "/v1/messages", record())
    now = datetime.now(UTC)

    await expire_everywhere(served.app.db, now=now + timedelta(hours=23), only_org=served.app.org_id)
    assert len(await rows(admin, served)) == 1
    await expire_everywhere(served.app.db, now=now + timedelta(hours=25), only_org=served.app.org_id)
    assert await rows(admin, served) == []


async def test_a_key_that_is_none_is_refused(served: Served) -> None:
    for word in ["", "x" * 256, "é", "a\tb"]:
        headers = {"idempotency-key": word.encode()}
        response = await served.operator("POST", "/v1/messages", record(), headers=headers)
        assert (response.status_code, problem(response)) == (400, "bad-input")
        twice = [("idempotency-key", "a"), ("idempotency-key", "b")]
        response = await served.operator("POST", "/v1/messages", record(), besides=twice)
        assert (response.status_code, problem(response)) == (400, "bad-input")


async def test_whoever_is_not_let_in_is_told_nothing_of_a_key(served: Served) -> None:
    made = await served.app.keys.create("operator", name="gone")
    await once(served.nobody(made.key), "POST", "/v1/messages", record())
    await served.app.keys.revoke(str(made.id))

    response = await once(served.nobody(made.key), "POST", "/v1/messages", record())

    assert response.status_code == 401
    assert "idempotency-replayed" not in response.headers


async def test_a_body_that_is_too_large_is_refused_with_a_key_too(served: Served) -> None:
    response = await once(served.operator, "POST", "/v1/memories", {"content": "x" * 300_000})
    assert response.status_code == 413


async def test_only_one_claims(served: Served) -> None:
    digest = hashlib.sha256(b"x").digest()
    now = datetime.now(UTC)

    async def claim(conn: Any) -> Any:
        return await idempotency.claim(
            conn, served.app.org_id, digest, request=digest, now=now, may_repeat=False
        )

    claimed = await asyncio.gather(*(served.app.db.change(served.app.org_id, claim) for _ in range(8)))
    assert sum(one is not None for one in claimed) == 1
