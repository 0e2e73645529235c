"""Of what was asked for with a key no word is kept, whatever it was."""

import re
from typing import Any

from roomlore.http.idempotency import REPLAYS
from surfaces.http.conftest import Served
from surfaces.http.test_idempotency import SECRET, once, record, rows

#: What is asked of every route whose answer is kept whole, with words wherever there is place for some.
SAID: dict[tuple[str, str], Any] = {
    ("POST", "/v1/messages"): record(3, text=SECRET, id=f"{SECRET}3"),
    ("POST", "/v1/messages/records"): {
        "messages": [
            {
                "platform": "test", "room": {"external_id": SECRET, "name": SECRET}, "external_id": f"{SECRET}4",
                "author": {"account_id": SECRET, "name": SECRET}, "body": SECRET, "sent_at": "2026-01-01T00:00:00Z",
            },
            {"external_id": f"{SECRET}5", "where": f"line {SECRET}"},
        ]
    },
    ("PATCH", "/v1/messages/{message}"): {"text": SECRET, "room": "square"},
    ("POST", "/v1/messages/{message}/redact"): {"room": "square"},
    ("POST", "/v1/erasures"): {"kind": "message", "message": "m5", "room": "attic"},
    ("POST", "/v1/erasures/expired"): {},
    ("POST", "/v1/receipts/{receipt}/verify"): None,
    ("DELETE", "/v1/keys/{key}"): None,
    ("POST", "/v1/rooms/{room}/messages"): {"text": SECRET, "external_id": f"{SECRET}6", "metadata": {"x": SECRET}},
    ("PUT", "/v1/privacy-requests/mode"): {"mode": "on"},
    ("POST", "/v1/rooms/{room}/replies"): {"trigger": "m1", "reply": "m3"},
    ("POST", "/v1/rooms/{room}/reset-context"): None,
    ("PUT", "/v1/rooms/{room}/injection"): {"on": True},
    ("PUT", "/v1/agents/{agent}/relationships/{participant}"): {"trust": 0.5},
    ("DELETE", "/v1/agents/{agent}/relationships/{participant}"): None,
    ("PUT", "/v1/rooms/{room}/retention"): {"retention_period": 60},
    ("POST", "/v1/rooms/{room}/close"): None,
    ("PUT", "/v1/rooms/{room}/name"): {"name": "square"},
    ("PUT", "/v1/rooms/{room}/context"): {"context": "square"},
}  # fmt: skip
#: Words of people, and what they and their rooms and keys are called.
WORDS = re.compile(rf"{SECRET}|village|square|attic|\bana\b|\bbo\b|\bm\d+\b")


async def test_no_word_is_kept_of_anything(served: Served, admin) -> None:
    assert set(SAID) == {route for route, keeping in REPLAYS.items() if keeping == "whole"}
    erased = await served.operator.post("/v1/erasures", {"kind": "message", "message": "m4"})
    key = await served.app.keys.create("operator", name=SECRET)
    words = {
        "message": "m2",
        "room": "square",
        "receipt": erased["id"],
        "key": str(key.id),
        "agent": "pip",
        "participant": "bo",
    }
    for number, ((method, route), body) in enumerate(SAID.items()):
        path = re.sub(r"\{(\w+)\}", lambda found: words[found[1]], route)
        # An agent alone speaks, and says what it answered.
        viewer = "pip" if route.endswith(("/replies", "{room}/messages")) else None
        told = [
            await once(served.operator, method, path, body, key=f"{SECRET} {number}", viewer=viewer)
            for _ in range(2)
        ]
        assert [one.status_code for one in told] in ([200, 200], [201, 201], [204, 204]), (
            route,
            told[0].text,
        )
        assert "idempotency-replayed" in told[1].headers

    kept = await rows(admin, served)
    assert len(kept) == len(SAID)
    assert sum(bool(body) for _, body, _, _ in kept) == len(SAID) - 2
    for _, body, place, row in kept:
        assert place is None
        for text in (row, bytes(body or b"").decode()):
            assert not WORDS.search(text.replace("message_audience", "")), text


async def test_no_word_is_kept_of_what_is_read_anew_or_told_once(served: Served, admin) -> None:
    wrong = record(2, text=SECRET, sent_at=f"not a time {SECRET}")
    await once(served.operator, "POST", "/v1/messages", wrong, key=f"{SECRET} itself")
    await once(served.operator, "POST", "/v1/search", {"question": SECRET}, key="c")
    await once(
        served.operator, "POST", "/v1/participants/merge", {"one": "ana", "other": "ana_home"}, key="d"
    )

    kept = await rows(admin, served)
    assert len(kept) == 2
    for _, body, _, row in kept:
        for text in (row, bytes(body or b"").decode()):
            assert not WORDS.search(text)
