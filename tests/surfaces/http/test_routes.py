"""What each resource does over HTTP, and that it shows the very JSON that the command line prints."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from operations.village import ANA, SQUARE, say
from roomlore.cli.output import plain
from roomlore.ingest.clean import TOO_FAR_AHEAD
from roomlore.operations import responses
from surfaces.http.conftest import Served


def record(name: str, text: str = "the lantern is lit", **fields: Any) -> dict[str, Any]:
    """Return a message as it is sent."""
    return {
        "platform": "test",
        "room": "square",
        "id": name,
        "author": {"id": "ana", "name": "Ana"},
        "text": text,
        "sent_at": "2026-01-01T00:00:00Z",
    } | fields


def nested(levels: int) -> dict[str, Any]:
    """Return an object in an object, and so on."""
    return {"in": nested(levels - 1)} if levels else {}


def printed(value: object) -> Any:
    """Return a value as the command line prints it with --json."""
    return json.loads(json.dumps(plain(value)))


async def messages_of(served: Served, room: str = "square") -> dict[str, dict[str, Any]]:
    page = await served.operator.get(f"/v1/rooms/{room}/messages?limit=1000")
    return {one["external_id"]: one for one in page["messages"]}


# What is shown


@pytest.mark.slow
async def test_what_is_shown_is_what_the_command_line_prints(served: Served) -> None:
    await served.app.drain()
    app, ask, viewer = served.app, served.operator, served.app.operator
    found, said = await app.conversations.read(viewer, "message:m1")

    assert await ask.get("/v1/rooms") == printed(await app.rooms(viewer))
    assert (await ask.get("/v1/rooms/square/messages"))["messages"] == printed(
        await app.messages(viewer, "square")
    )
    assert (await ask.get("/v1/rooms/square/threads"))["threads"] == printed(
        [responses.thread_response(one) for one in await app.threads(viewer, "square")]
    )
    assert await ask.get("/v1/conversations/message:m1") == printed(
        responses.conversation_response(found, said)
    )
    assert await ask.post("/v1/search", {"question": "village"}) == printed(
        responses.search_response(await app.search(viewer, "village"))
    )
    assert await ask.post("/v1/ask", {"question": "village word1"}) == printed(
        responses.answer_response(await app.ask(viewer, "village word1"))
    )
    context = responses.context_response(await app.context(viewer, "square"), explain=True)
    assert await ask.get("/v1/rooms/square/context?explain=true") == printed(context)
    assert await ask.get("/v1/participants") == printed(
        responses.person_responses(await app.participants(viewer), await app.people.accounts(viewer))
    )


async def test_searches_are_narrowed(served: Served) -> None:
    async def found(**wish: Any) -> set[str]:
        hits = (await served.operator.post("/v1/search", {"question": "village", "limit": 100} | wish))[
            "hits"
        ]
        return {one["author_name"] for hit in hits for one in hit["messages"] if one["why"]}

    assert await found(by=["bo"]) == {"Bo"}
    assert await found(kinds=["agent"]) == {"Pip"}
    assert "Cy" not in await found(room="square")
    assert await found(since="2024-03-01T12:12:00+00:00") == {"Dee"}


# What comes in


async def test_of_a_batch_each_is_told_what_became_of_it(served: Served) -> None:
    batch = [
        record("n1"),
        record("n2", author=None),
        record("n1"),
        record("m1", "village other", author="bo", sent_at="2024-03-01T12:01:00Z"),
        "not an object",
        record(
            "n3",
            metadata=nested(200),
        ),
        record("n4", "a\x00b \ud800"),
        record("n5", sent_at="2999-01-01T00:00:00Z"),
    ]

    told = await served.operator.post("/v1/messages", content=json.dumps({"messages": batch}), headers=JSON)

    outcomes = [(one["outcome"], one["reason"]) for one in told["items"]]
    assert [outcome for outcome, _ in outcomes] == [
        "added", "skipped", "known", "skipped", "skipped", "skipped", "added", "skipped",
    ]  # fmt: skip
    assert outcomes[1][1] == "no author"
    assert outcomes[3][1] == "same id, other text"
    assert (told["added"], told["skipped"]) == (2, 5)
    kept = await messages_of(served)
    assert {kept["n1"]["id"], kept["n4"]["id"], kept["m1"]["id"]} == {
        one["id"] for one in told["items"] if one["id"]
    }
    assert kept["n4"]["body"] == "a\ufffdb \ufffd"
    assert kept["m1"]["body"] == "village word1"


JSON = {"content-type": "application/json"}


async def test_the_same_batch_again_changes_nothing(served: Served) -> None:
    batch = {"messages": [record(f"n{number}") for number in range(20)]}
    first = await served.operator.post("/v1/messages", batch)
    kept = await messages_of(served)

    again = await served.operator.post("/v1/messages", batch)

    assert {one["outcome"] for one in again["items"]} == {"known"}
    assert [one["id"] for one in again["items"]] == [one["id"] for one in first["items"]]
    assert await messages_of(served) == kept


async def test_an_edit_that_the_platform_tells_is_taken(served: Served) -> None:
    await served.operator.post("/v1/messages", {"messages": [record("n1")]})

    edit = record("n1", "the lantern is out", edited_at="2026-01-01T00:01:00Z")
    told = await served.operator.post("/v1/messages", {"messages": [edit, record("n1", deleted=True)]})

    assert told["redacted"] == 1
    assert (await messages_of(served))["n1"]["body"] == ""


async def test_a_message_is_edited_and_stays_what_else_it_was(served: Served, admin) -> None:
    whole = say(90, replace(ANA, name="Ana Old"), SQUARE, attachments=({"name": "map.png"},), reply_to="m1")
    await served.app.ingest_batch([whole, say(91, replace(ANA, name="Ana New"), SQUARE)])
    before = await messages_of(served)

    edited = await served.operator(
        "PATCH", "/v1/messages/m90", {"text": "the mill, not the lantern", "room": "square"}
    )

    after = await messages_of(served)
    assert edited.json() == {"edited": before["m90"]["id"]}
    assert after["m90"] == before["m90"] | {
        # The file is still there.
        "body": "the mill, not the lantern\n> [file] map.png",
        "edited_at": after["m90"]["edited_at"],
    }
    rows = await (
        await admin.execute(
            """select attachments, message_revisions.body from messages join message_revisions on message_id = messages.id
               where messages.id = %s""",
            [before["m90"]["id"]],
        )
    ).fetchall()
    assert rows == [([{"name": "map.png"}], f"{whole.body}\n> [file] map.png")]
    assert "Ana New" in {one["name"] for one in await served.operator.get("/v1/participants")}
    hits = (await served.operator.post("/v1/search", {"question": "mill lantern"}))["hits"]
    assert hits[0]["messages"][-1]["external_id"] == "m90"


async def test_what_was_removed_is_not_edited(served: Served) -> None:
    await served.operator.post("/v1/messages/m1/redact", {})

    response = await served.operator("PATCH", "/v1/messages/m1", {"text": "back again"})

    assert response.status_code == 400
    assert (await messages_of(served))["m1"]["body"] == ""


async def test_an_edit_takes_secrets_out(served: Served) -> None:
    token = "xoxb-" + "123456789012-" * 2 + "abcdefghijklmnopqrstuvwx"

    await served.operator("PATCH", "/v1/messages/m1", {"text": f"use {token}"})

    assert token not in json.dumps(await messages_of(served))


# What is put right


async def test_a_misspelt_word_is_no_wish(served: Served) -> None:
    """Left out, it would have made the memory everybody's."""
    statement = {"content": "The gate is blue.", "sources": ["m1"], "sensitiv": True}

    response = await served.operator("POST", "/v1/memories", statement)

    assert response.status_code == 400
    assert "sensitiv" in response.json()["detail"]
    assert await served.operator.get("/v1/memories") == []


# What goes


async def test_an_erasure_is_shown_first_and_ends_in_a_receipt(served: Served) -> None:
    wish = {"kind": "message", "message": "m1", "room": "square"}
    dry = await served.operator.post("/v1/erasures", wish | {"dry_run": True})
    assert "m1" in await messages_of(served)

    receipt = await served.operator.post("/v1/erasures", wish)

    assert (dry["id"], dry["is_clean"], dry["removed"]) == (None, None, receipt["removed"])
    assert receipt["is_clean"] is True
    assert "village word1" not in {one["body"] for one in (await messages_of(served)).values()}
    assert [one["id"] for one in await served.operator.get("/v1/receipts")] == [receipt["id"]]
    assert (await served.operator.get(f"/v1/receipts/{receipt['id']}"))["kind"] == "message"
    assert (await served.operator.post(f"/v1/receipts/{receipt['id']}/verify"))["is_clean"] is True


async def test_nothing_goes_by_leaving_something_out(served: Served) -> None:
    for wish in [
        {"kind": "range", "room": "square"},
        {"kind": "range", "room": "square", "everything": True, "since": "2024-01-01T00:00:00Z"},
        {"kind": "range", "room": "square", "since": "2024-01-01T00:00:00"},
        {"kind": "everything"},
        {"kind": "person"},
        {"kind": "person", "participant": "ana", "dryrun": True},
    ]:
        before = await messages_of(served)

        assert (await served.operator("POST", "/v1/erasures", wish)).status_code == 400
        assert await messages_of(served) == before


async def test_nothing_is_dropped_in_silence_by_a_server_whose_clock_is_behind(served: Served) -> None:
    now = datetime.now(UTC)
    sent = {"soon": now + timedelta(days=3), "far": now + timedelta(days=800)}
    said = [record(name, sent_at=at.isoformat()) for name, at in sent.items()]
    taken = await served.operator.post("/v1/messages", {"messages": said})
    assert [(one["outcome"], one["reason"]) for one in taken["items"]] == [
        ("added", ""),
        ("skipped", TOO_FAR_AHEAD),
    ]
    assert datetime.fromisoformat((await messages_of(served))["soon"]["sent_at"]) == sent["soon"]


# Rooms, agents, wishes, the running of it


async def test_no_record_opens_a_direct_room(served: Served) -> None:
    def record(number: str, **room: Any) -> dict[str, Any]:
        who = {"account_id": "ana", "name": "Ana"}
        described = {"external_id": f"r{number}", "name": f"r{number}"} | room
        said = {"platform": "test", "external_id": number, "author": who, "body": "hi"}
        return said | {"room": described, "sent_at": "2026-01-01T00:00:00Z"}

    rooms = [{"kind": "dm"}, {"kind": "group_dm"}, {"kind": None}, {"kind": "dm", "visibility": "open"}, {}]
    batch = [record(str(number), **room) for number, room in enumerate(rooms)]
    taken = await served.operator.post("/v1/messages/records", {"messages": batch})
    assert [one["reason"] for one in taken["skipped"]] == ["a direct room is never open"]
    told = {room["name"]: room["visibility"] for room in await served.operator.get("/v1/rooms")}
    assert [told.get(f"r{number}") for number in range(5)] == ["members", "members", "members", None, "open"]


async def test_agents_remember_and_are_asked(served: Served) -> None:
    await served.app.drain()
    pip = await served.principal("pip")
    await pip.post(
        "/v1/memories", {"content": "Bo likes short answers.", "kind": "learning", "sources": ["m1"]}
    )

    asked = {"room": "square", "explain": True, "topic": "answers"}
    block = await pip.post("/v1/agents/pip/memory-section", asked)
    experiences = await pip.post("/v1/agents/pip/experiences", {"topic": "answers"})
    assert await pip.post("/v1/agents/pip/memories", {"topic": "answers"})
    memories = await pip.get("/v1/agents/pip/memories?kinds=learning")

    assert "Bo likes short answers." in block["text"]
    assert [one["content"] for one in experiences["learning"]] == ["Bo likes short answers."]
    assert [one["content"] for one in memories] == ["Bo likes short answers."]
    decision = await pip.get("/v1/agents/pip/decision?room=square&trigger=m3")
    assert (decision["answer"], decision["reason"]["what"]) == (False, "the agent said it itself")
    assert isinstance(await pip.get("/v1/agents/pip/relationships?present=bo"), list)
    assert (
        await pip("POST", "/v1/rooms/square/replies", {"trigger": "m2", "reply": "m3"})
    ).status_code == 204
    told = await served.operator(
        "POST", "/v1/rooms/square/replies", {"trigger": "m2", "reply": "m3"}, viewer="pip"
    )
    assert told.status_code == 204


async def test_an_operator_who_names_a_room_is_told_beside_what_may_be_posted(served: Served) -> None:
    said = (
        record("n1", "The code of the shed is 4-4-1-7."),
        record("n2", "Please forget that.", reply_to="n1", sent_at="2026-01-01T00:01:00Z"),
    )
    await served.operator.post("/v1/messages", {"messages": list(said)})
    (wish,) = await served.operator.get("/v1/privacy-requests?room=square")
    asking = (
        ("/v1/search", {"question": "code of the shed", "room": "square"}),
        ("/v1/ask", {"question": "what is the code of the shed?", "room": "square"}),
        ("/v1/rooms/square/context", {}),
    )
    bo = await served.principal("bo")
    for path, body in asking:
        told = await served.operator.post(path, body)
        assert {one["request_id"] for one in told.pop("restrictions")} == {wish["id"]}, path
        assert told["postable"] == "room"
        assert "4-4-1-7" not in json.dumps(told)
        assert wish["id"] not in json.dumps(told)
        assert not (await bo.post(path, body)).get("restricted_messages")


@pytest.mark.slow
@pytest.mark.parametrize(("author", "others"), [("pip", ("ana", "bo")), ("ana", ("pip", "bo"))])
async def test_whoever_made_a_request_decides_about_it_with_their_own_key_and_nobody_else_does(
    served: Served, author: str, others: tuple[str, ...]
) -> None:
    said = (
        record("n1", "The code of the shed is 4-4-1-7.", author={"id": author}),
        record("n2", "oh dear, me and my mouth. Please forget what I said.", author={"id": author})
        | {"reply_to": "n1", "sent_at": "2026-01-01T00:01:00Z"},
    )
    await served.operator.post("/v1/messages", {"messages": list(said)})
    mine = await served.principal(author)
    (wish,) = await mine.get("/v1/privacy-requests")
    assert wish["status"] == "proposed"

    for name in others:
        other = await served.principal(name)
        assert await other.get("/v1/privacy-requests") == []
        assert (await other.get("/v1/privacy-requests/counts"))["proposed"] == 0
        for deed in ("apply", "dismiss"):
            assert (await other("POST", f"/v1/privacy-requests/{wish['id']}/{deed}")).status_code == 404
    assert [one["status"] for one in await mine.get("/v1/privacy-requests")] == ["proposed"]

    found = {"question": "code of the shed"}
    for deed, status, is_hidden in (("apply", "active", True), ("dismiss", "dismissed", False)):
        assert (await mine.post(f"/v1/privacy-requests/{wish['id']}/{deed}"))["status"] == status
        for name in (author, *others):
            told = await (await served.principal(name)).post("/v1/search", found)
            assert ("4-4-1-7" not in json.dumps(told)) is is_hidden, (deed, name)


async def test_a_slash_in_a_name_is_sent_encoded(served: Served) -> None:
    where = {"id": "g", "name": "general", "workspace": "acme"}
    await served.operator.post("/v1/messages", {"messages": [record("z1", "hello", room=where)]})
    for path in ("/v1/rooms/acme%2Fgeneral/messages", "/v1/rooms/acme%2fgeneral/threads"):
        assert "hello" in str(await served.operator.get(path)), path
    assert (await served.operator("GET", "/v1/rooms/acme%2Fnowhere/messages")).json()["detail"] == (
        "no room 'acme/nowhere'"
    )
    assert (await served.operator("GET", "/v1/rooms/acme/general/messages")).status_code == 404


async def test_the_log_tells_who_read(served: Served) -> None:
    bo = await served.principal("bo")
    await bo.get("/v1/rooms/attic/messages")

    (line,) = [one for one in await bo.get("/v1/audit-log") if one["action"] == "read room"]

    assert line["outcome"] == "done"
