"""What the Python client asks for: records whole, viewers, and accounts of everybody."""

import json
from typing import Any

from surfaces.http.conftest import Served

SAID: dict[str, Any] = {
    "platform": "test",
    "room": {"external_id": "square", "name": "square"},
    "external_id": "r1",
    "author": {"account_id": "ana", "name": "Ana"},
    "body": "the mill is shut",
    "sent_at": "2024-03-02T12:00:00Z",
}


async def test_neutral_records_are_stored_once_and_told(served: Served) -> None:
    bad = SAID | {"external_id": "", "where": "line 2"}
    first = await served.operator.post("/v1/messages/records", {"messages": [SAID, bad]})
    again = await served.operator.post("/v1/messages/records", {"messages": [SAID]})

    assert [one["external_id"] for one in first["added"]] == ["r1"]
    assert first["message_ids"] == again["message_ids"] == [first["added"][0]["id"]]
    assert [(one["where"], one["reason"]) for one in first["skipped"]] == [("line 2", "no message id")]
    assert (again["added"], again["unchanged"]) == ([], 1)


async def test_what_is_no_batch_is_refused_whole(served: Served) -> None:
    for wrong in [
        {"messages": [SAID], "more": 1},
        {"messages": [SAID] * 1001},
        {"messages": SAID},
        {"messages": "r1"},
        [SAID],
        {},
    ]:
        response = await served.operator("POST", "/v1/messages/records", wrong)
        found = await served.operator.get("/v1/rooms/square/messages")

        assert response.status_code == 400
        assert "mill" not in response.text
        assert "r1" not in {one["external_id"] for one in found["messages"]}


#: What is no record, each for a reason of its own.
UNSHAPED: list[Any] = [
    SAID | {"sent_at": "yesterday"},
    SAID | {"sent_at": 1_704_067_200},
    SAID | {"sent_at": "1704067200"},
    SAID | {"edited_at": "1704067200.5"},
    SAID | {"kind": "shout"},
    SAID | {"author": "ana"},
    SAID | {"deleted": "yes"},
    SAID | {"deleted": 1},
    SAID | {"order": "3"},
    SAID | {"order": 3.0},
    SAID | {"body": 3},
    SAID | {"mentions": "ana"},
    SAID | {"platform": None},
    SAID | {"more": 1},
    SAID | {"author": SAID["author"] | {"bridged": "no"}},
    SAID | {"room": SAID["room"] | {"members": [{"author": SAID["author"], "joined_at": "1704067200"}]}},
    SAID | {"external_id": 7},
    SAID | {"external_id": ["r1"], "where": {}},
    {},
    [],
    "the mill is shut",
    None,
]


async def test_of_what_is_no_record_nothing_is_guessed_and_the_rest_goes_in(served: Served) -> None:
    batch = [SAID | {"external_id": "r0"}, *UNSHAPED, SAID | {"external_id": "r2"}]
    content = json.dumps({"messages": batch}).encode()
    headers = {"content-type": "application/json", "idempotency-key": "a"}
    told, again = [
        await served.operator("POST", "/v1/messages/records", headers=headers, content=content)
        for _ in range(2)
    ]
    found = await served.operator.get("/v1/rooms/square/messages")

    assert told.status_code == 200, told.text
    assert {one["external_id"] for one in told.json()["added"]} == {"r0", "r2"}
    assert {"r0", "r2"} < {one["external_id"] for one in found["messages"]}
    assert "r1" not in {one["external_id"] for one in found["messages"]}
    assert "mill" not in told.text
    names = [
        "r1" if isinstance(one, dict) and one.get("external_id") == "r1" else f"record {number}"
        for number, one in enumerate(UNSHAPED, start=2)
    ]
    for answer in (told.json(), again.json()):
        assert [one["where"] for one in answer["skipped"]] == names
        assert {one["reason"] for one in answer["skipped"]} == {"not of its shape"}
    assert all(one["detail"] for one in told.json()["skipped"])
    assert "idempotency-replayed" in again.headers


async def test_a_record_is_named_as_it_names_itself(served: Served) -> None:
    wrong = [SAID | {"where": "line 1", "body": 1}, SAID | {"where": "x" * 600, "body": 1}]
    told = await served.operator.post("/v1/messages/records", {"messages": wrong})

    assert [one["where"] for one in told["skipped"]] == ["line 1", "x" * 500]
    assert told["added"] == told["message_ids"] == []


async def test_only_an_operator_sends_records(served: Served) -> None:
    ana = await served.principal("ana")
    told = [await ana("POST", "/v1/messages/records", {"messages": [SAID]})]
    told.append(await served.operator("POST", "/v1/messages/records", {"messages": [SAID]}, viewer="ana"))

    assert [one.status_code for one in told] == [403, 403]


async def test_a_key_is_told_as_whom_it_reads(served: Served) -> None:
    ana = await served.principal("ana")
    own, acting = await ana.get("/v1/viewer"), await served.operator.get("/v1/viewer", viewer="ana")
    operator = await served.operator.get("/v1/viewer")

    assert own["participant_id"] == acting["participant_id"] is not None
    assert (own["role"], operator["role"], operator["participant_id"]) == ("member", "operator", None)
    assert own["key_id"] != acting["key_id"] == operator["key_id"]
    assert (await served.operator.get("/v1/viewers/ana"))["participant_id"] == own["participant_id"]


async def test_nobody_but_operators_finds_viewers(served: Served) -> None:
    ana, pip = await served.principal("ana"), await served.principal("pip")
    for path in ("/v1/viewers/eve", "/v1/viewers/nobody", "/v1/viewers/ana"):
        assert (await ana("GET", path)).status_code == 403
        assert (await served.operator("GET", path, viewer="bo")).status_code == 403
    assert (await ana("GET", "/v1/agents/pip/reader")).status_code == 403
    assert (await pip.get("/v1/agents/pip/reader"))["role"] == "agent"


async def test_a_context_is_told_whole_to_whom_it_is_for(served: Served) -> None:
    bo, eve = await served.principal("bo"), await served.principal("eve")
    told = await bo.post(
        "/v1/rooms/attic/context", {"budget": 500, "limits": {"min_recent": 1, "max_messages": 2}}
    )
    text = (await bo.get("/v1/rooms/attic/context?budget=500"))["text"]

    assert 1 <= len(told["lines"]) <= 2
    assert told["lines"][-1]["message"]["body"] in text
    assert (await eve("POST", "/v1/rooms/attic/context", {})).status_code == 404
    assert (await bo("POST", "/v1/rooms/attic/context", {"limits": {"max_messages": 1}})).status_code == 400
    assert (await bo("POST", "/v1/rooms/attic/context", {"articles": True})).status_code == 400


async def test_half_a_surrogate_pair_is_replaced_and_keeps_nothing_out(served: Served) -> None:
    batch = [SAID | {"external_id": "h1", "body": "cake \udc00"}, SAID | {"external_id": "h2"}]
    ours = {
        "schema": "roomlore.message/1",
        "room": "green",
        "author": "ana",
        "sent_at": "2024-03-02T12:00:00Z",
    }
    lines = [ours | {"id": "g1", "text": "tea \ud83d"}, ours | {"id": "g2", "text": "tea"}]
    headers = {"content-type": "application/json", "idempotency-key": "halves"}
    for path, messages in [("/v1/messages/records", batch), ("/v1/messages", lines)]:
        content = json.dumps({"messages": messages}).encode()
        told = await served.operator("POST", path, headers=headers, content=content)
        assert told.status_code == 200, told.text
        headers |= {"idempotency-key": "more halves"}
    square = await served.operator.get("/v1/rooms/square/messages")
    green = await served.operator.get("/v1/rooms/green/messages")
    assert {"cake \ufffd", "the mill is shut"} <= {one["body"] for one in square["messages"]}
    assert {"tea \ufffd", "tea"} <= {one["body"] for one in green["messages"]}
