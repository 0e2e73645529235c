"""Who gets in, as whom, and that nobody else does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from conftest import OpenApp
from roomlore.settings import Settings
from surfaces.http.conftest import Serve, Served


def operations(served: Served) -> list[tuple[str, str]]:
    """Every method and path, with something in the place of each parameter."""
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, item in served.api.openapi()["paths"].items()
        for method in item
    ]


async def test_nothing_but_health_is_there_without_a_key(served: Served) -> None:
    nobody = served.nobody()

    told = {path: (await nobody(method, path)).status_code for method, path in operations(served)}

    assert len(told) > 30
    assert {path for path, status in told.items() if status != 401} == {"/health/live", "/health/ready"}
    assert (await nobody("GET", "/v1/openapi.json")).status_code == 401
    assert (await nobody("GET", "/metrics")).status_code == 401
    assert (await nobody("GET", "/")).status_code == 401


async def test_what_is_no_key_is_refused(served: Served) -> None:
    for key in ["", "rlk_", "rlk_AAAA", "nonsense", "rlk_" + "A" * 64, "rlk_\xe9"]:
        response = await served.nobody()(
            "GET", "/v1/rooms", headers={"authorization": f"Bearer {key}".encode("latin-1")}
        )

        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert len(key) < 5 or key not in response.text


async def test_another_scheme_than_bearer_is_no_key(served: Served) -> None:
    response = await served.nobody()(
        "GET", "/v1/rooms", headers={"authorization": f"Basic {served.operator.key}"}
    )

    assert response.status_code == 401


async def test_expired_revoked_and_unknown_keys_are_refused_alike(served: Served, admin) -> None:
    expired = await served.app.keys.create(
        "member", name="old", participant="bo", valid_for=timedelta(hours=1)
    )
    await admin.execute(
        "update api_keys set created_at = created_at - interval '2 hours', expires_at = %s where id = %s",
        [datetime.now(UTC) - timedelta(hours=1), expired.id],
    )
    revoked = await served.app.keys.create("member", name="gone", participant="bo")
    await served.app.keys.revoke(str(revoked.id))
    unknown = revoked.key[:-4] + ("AAAA" if not revoked.key.endswith("AAAA") else "BBBB")

    told = [
        (await served.nobody(key)("GET", "/v1/rooms", headers={"x-request-id": "one"})).text
        for key in (expired.key, revoked.key, unknown)
    ]

    assert len(set(told)) == 1
    assert "key-refused" in told[0]


async def test_a_key_that_is_revoked_ends_with_the_next_request(served: Served) -> None:
    made = await served.app.keys.create("member", name="short", participant="bo")
    bo = served.nobody(made.key)
    await bo.get("/v1/rooms")

    revoked = await served.operator("DELETE", f"/v1/keys/{made.id}")

    assert revoked.json() == {"revoked": str(made.id)}
    assert (await bo("GET", "/v1/rooms")).status_code == 401


async def test_another_orgs_key_is_refused_where_one_org_is_served(served: Served, open_app: OpenApp) -> None:
    other = await open_app("other")
    made = await other.keys.create("operator", name="theirs")

    assert (await served.nobody(made.key)("GET", "/v1/rooms")).status_code == 401


async def test_where_every_org_is_served_a_key_shows_its_own_alone(
    served: Served, serve: Serve, open_app: OpenApp
) -> None:
    other = await open_app("other")
    made = await other.keys.create("operator", name="theirs")
    everybody = await serve(replace(served.app, settings=Settings()))

    theirs, ours = everybody.nobody(made.key), everybody.nobody(served.operator.key)
    room = (await ours.get("/v1/rooms"))[0]

    assert await theirs.get("/v1/rooms") == []
    assert (await theirs("GET", f"/v1/rooms/{room['id']}/messages")).status_code == 404


async def test_a_member_reads_as_themselves(served: Served) -> None:
    bo = await served.principal("bo")

    assert {room["name"] for room in await bo.get("/v1/rooms")} == {"square", "attic"}


async def test_an_operator_reads_as_whom_they_name(served: Served) -> None:
    bo = await served.principal("bo")

    assert await served.operator.get("/v1/rooms", viewer="bo") == await bo.get("/v1/rooms")
    assert len(await served.operator.get("/v1/rooms")) == 3
    assert (await served.operator("GET", "/v1/rooms", viewer="%4eobody")).status_code == 404


async def test_nobody_else_names_a_viewer(served: Served) -> None:
    bo = await served.principal("bo")

    told = [
        (await bo("GET", "/v1/rooms", viewer=name, headers={"x-request-id": "one"}))
        for name in ("ana", "bo", "nobody at all")
    ]

    assert {response.status_code for response in told} == {403}
    assert len({response.text for response in told}) == 1


OPERATORS = [
    ("GET", "/v1/keys", None),
    ("POST", "/v1/keys", {"role": "operator", "name": "mine"}),
    ("GET", "/v1/statistics", None),
    ("POST", "/v1/messages", {"messages": [{"id": "x"}]}),
    ("PATCH", "/v1/messages/m1", {"text": "other"}),
    ("POST", "/v1/participants/merge", {"one": "ana", "other": "bo"}),
    ("POST", "/v1/participants/split", {"account": "ana"}),
    ("PUT", "/v1/rooms/square/retention", {"retention_period": None}),
    ("POST", "/v1/rooms/square/open", {"dry_run": True}),
    ("POST", "/v1/rooms/square/open?", {}),
    ("POST", "/v1/rooms/square/close", None),
    ("PUT", "/v1/rooms/square/name", {"name": "mine"}),
    ("GET", "/v1/rooms/square/members", None),
    ("POST", "/v1/rooms/square/members", {"participant": "eve", "always": True}),
    ("DELETE", "/v1/rooms/square/members/ana", None),
    ("POST", "/v1/erasures?&", {"kind": "room", "room": "square"}),
    ("PUT", "/v1/rooms/square/embedding-policy", {"policy": "message"}),
    ("PUT", "/v1/rooms/square/injection", {"on": False}),
    ("POST", "/v1/erasures", {"kind": "range", "room": "square", "everything": True}),
    ("POST", "/v1/erasures?", {"kind": "person", "participant": "bo"}),
    ("POST", "/v1/messages/m1/redact", {}),
    ("GET", "/metrics", None),
]


async def test_a_member_may_nothing_that_is_the_operators(served: Served) -> None:
    for method, path, body in OPERATORS:
        eve = await served.principal("eve")

        assert (await eve(method, path, body)).status_code == 403
        assert (await served.operator(method, path, body, viewer="eve")).status_code == 403


async def test_what_may_not_be_seen_is_like_what_is_not_there(served: Served) -> None:
    eve = await served.principal("eve")
    attic = next(room for room in await served.operator.get("/v1/rooms") if room["name"] == "attic")
    whisper = next(
        one
        for one in (await served.operator.get(f"/v1/rooms/{attic['id']}/messages"))["messages"]
        if one["kind"] == "whisper"
    )
    nothing = "0199d300-0000-7000-8000-000000000000"

    for hidden, pattern in (
        (attic["id"], "/v1/rooms/{}/messages"),
        (attic["id"], "/v1/rooms/{}/context"),
        (attic["id"], "/v1/memories?room={}"),
        (whisper["id"], "/v1/messages/{}/memories"),
        (whisper["id"], "/v1/conversations/message:{}"),
        (whisper["author_id"], "/v1/agents/{}/memories"),
    ):
        told = [
            await eve("GET", pattern.format(word), headers={"x-request-id": "one"})
            for word in (hidden, nothing)
        ]
        if hidden == whisper["author_id"]:
            continue  # Bo also spoke in the square
        assert {response.status_code for response in told} == {404}
        assert told[0].text.replace(hidden, "…") == told[1].text.replace(nothing, "…")


async def test_a_key_is_shown_once_and_stands_in_no_log(served: Served, caplog) -> None:
    made = await served.operator.post("/v1/keys", {"role": "member", "name": "new", "participant": "bo"})

    assert made["key"].startswith("rlk_")
    assert made["key"] not in str(await served.operator.get("/v1/keys"))
    await served.nobody(made["key"]).get("/v1/rooms")
    assert made["key"] not in caplog.text


async def test_a_header_that_decides_is_there_once(served: Served) -> None:
    for name in ["roomlore-viewer", "authorization"]:
        shown = {"authorization": f"Bearer {served.operator.key}", "roomlore-viewer": "ana"}

        response = await served.nobody()("GET", "/v1/rooms", headers=shown, besides=[(name, shown[name])])

        assert response.status_code == 400
        assert "more than once" in response.json()["detail"]
