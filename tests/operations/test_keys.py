"""Keys: whom they let in, what they show and change, and that their secret appears nowhere."""

import base64
import dataclasses
import hashlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import roomlore
from conftest import OpenApp, TellOnce
from operations.village import (
    ANA,
    BO,
    PEOPLE,
    SQUARE,
    error_of,
    log_lines,
    read_by,
    say,
    village,
    whole_village,
)
from roomlore.db.cluster import Cluster
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed, NotFound
from roomlore.domain.ids import uuid7
from roomlore.domain.records import Viewer
from roomlore.ingest.secrets import MARKER
from roomlore.operations import App
from roomlore.operations.keys import NewKey
from roomlore.settings import Settings, from_environment

HOLDERS = {"operator": None, "agent": "pip", "member": "ana"}


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, whole_village)
    return app


async def key_for(app: App, role: str, **fields: Any) -> NewKey:
    return await app.keys.create(role, name=f"{role}'s", participant=HOLDERS[role], **fields)


async def holder(app: App, role: str) -> App:
    """Return the App signed in with a new key of that role."""
    return await app.sign_in((await key_for(app, role)).key)


def encode(org_id: Any, rest: bytes) -> str:
    return "rlk_" + base64.urlsafe_b64encode(org_id.bytes + rest).decode()


@pytest.mark.parametrize("role", HOLDERS)
async def test_a_key_reads_as_its_participant(told: App, role: str):
    app = await holder(told, role)
    viewer = told.operator if role == "operator" else await told.viewer(HOLDERS[role])

    assert app.access.principal == viewer
    assert app.access.principal.role == role
    assert await read_by(app, app.access.principal) == await read_by(told, viewer)


async def test_a_key_of_a_merged_account_reads_what_the_person_may(told: App):
    key = await key_for(told, "member")
    whole = await read_by(told, await told.viewer("ana")) | await read_by(told, await told.viewer("ana_home"))
    before = await told.sign_in(key.key)

    await told.people.merge("ana", "ana_home")

    for app in (before, await told.sign_in(key.key)):
        assert await read_by(app, app.access.principal) == whole
        with pytest.raises(NotAllowed):
            await app.rooms(await told.viewer("ana_home"))


async def test_invalid_keys_are_refused_with_the_same_error(
    told: App, open_app: OpenApp, admin: psycopg.AsyncConnection
):
    other = await key_for(elsewhere := await village(await open_app("elsewhere")), "member")
    valid, revoked, expired = [await key_for(told, "member", valid_for=timedelta(days=1)) for _ in range(3)]
    await told.keys.revoke(str(revoked.id))
    await admin.execute(
        "update api_keys set created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
        " where org_id = %s and id = %s",
        [told.org_id, expired.id],
    )
    secret = base64.urlsafe_b64decode(valid.key.removeprefix("rlk_"))[16:]
    moved, nowhere = encode(elsewhere.org_id, secret), encode(uuid7(), secret)
    stored = [revoked.key, expired.key, other.key, moved, nowhere, encode(told.org_id, bytes(32))]
    cut = [valid.key[:-1], valid.key[:-4], valid.key + "AAAA", valid.key.removeprefix("rlk_")]
    malformed = [valid.key.lower(), f" {valid.key}", "rlk_", "", "café", "\0", "\ud800"]

    await told.sign_in(valid.key)
    await elsewhere.sign_in(other.key)
    for key in (*stored, *cut, *malformed):
        assert await error_of(told.sign_in(key)) == (KeyRefused, "the key is not valid")


@pytest.mark.parametrize("end", ["revoked_at = now()", "expires_at = now()"])
async def test_a_key_in_use_ends_at_once(told: App, admin: psycopg.AsyncConnection, end: str):
    key = await key_for(told, "agent")
    app = await told.sign_in(key.key)
    await app.rooms(app.access.principal)
    await admin.execute(f"update api_keys set {end} where id = %s", [key.id])

    for call in (app.rooms(app.access.principal), app.keys.all()):
        with pytest.raises(KeyRefused):
            await call
    lines = await log_lines(admin, told)
    assert [line[:2] for line in lines][-2:] == [("list rooms", "refused"), ("list keys", "refused")]


async def test_a_second_revocation_changes_nothing(told: App):
    key = await key_for(told, "member")

    await told.keys.revoke(str(key.id)[:18])
    (first,) = await told.keys.all()
    await told.keys.revoke(str(key.id))

    assert first.revoked_at is not None
    assert await told.keys.all() == [first]


async def test_keys_are_listed_newest_first(told: App):
    first = await key_for(told, "member", valid_for=timedelta(days=90))
    second = await key_for(told, "operator")

    assert [key.id for key in await told.keys.all()] == [second.id, first.id]
    assert first.expires_at == first.created_at + timedelta(days=90)
    assert first.expires_at > datetime.now(UTC) > first.created_at
    assert second.expires_at is None
    assert first.participant_id == (await told.viewer("ana")).participant_id


@pytest.mark.parametrize(
    ("role", "fields"),
    [
        ("member", {}),
        ("agent", {}),
        ("operator", {"participant": "ana"}),
        ("agent", {"participant": "ana"}),
        ("member", {"participant": "pip"}),
        ("boss", {"participant": "ana"}),
        *(("operator", {"name": name}) for name in (" ", "a\0b", "a\ud800", "x" * 201, "rlk_" + "a" * 64)),
        *(("operator", {"valid_for": span}) for span in (timedelta(0), timedelta(days=-1), timedelta.max)),
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(told: App, role: Any, fields: dict[str, Any]):
    with pytest.raises(BadInput):
        await told.keys.create(role, **{"name": "phone", **fields})
    with pytest.raises(NotFound):
        await told.keys.create("member", name="phone", participant="nobody")
    assert await told.keys.all() == []


async def test_a_key_is_revoked_by_its_id_only(told: App, open_app: OpenApp):
    key = await key_for(told, "member")
    other = await key_for(await village(await open_app("elsewhere")), "member")

    for word in ("", "0", "nosuch", "zzzz", "ffffffff", "a\0b", str(other.id)):
        with pytest.raises(NotFound):
            await told.keys.revoke(word)
    kind, text = await error_of(told.keys.revoke(key.key))
    assert kind is BadInput
    assert key.key not in text
    again = await key_for(told, "member")
    with pytest.raises(BadInput, match="several are meant"):
        await told.keys.revoke(str(again.id)[:6])


async def test_the_secret_is_stored_and_shown_nowhere(
    told: App, admin: psycopg.AsyncConnection, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    key = await key_for(told, "member")
    secret = base64.urlsafe_b64decode(key.key.removeprefix("rlk_"))[16:]
    app = await told.sign_in(key.key)
    await read_by(app, app.access.principal)
    _, refusal = await error_of(app.keys.all())
    objects = [key, [key], app, app.access, await told.keys.all(), Settings(org=None, key=key.key)]
    shown = [*map(repr, objects), str(key), repr(await told.log(told.operator)), refusal, caplog.text]

    stored = await everything(admin)

    assert hashlib.sha256(secret).hexdigest() in stored
    encoded = base64.b64encode(secret).decode()
    for spelling in (key.key, key.key.removeprefix("rlk_"), secret.hex(), encoded, repr(secret)):
        assert not [text for text in (stored, *shown) if spelling in text]
    assert "digest" not in {field.name for field in dataclasses.fields(key)}


async def everything(admin: psycopg.AsyncConnection) -> str:
    """Return every row of every table as text."""
    names = "select tablename from pg_tables where schemaname = 'roomlore'"
    rows: list[str] = []
    for (name,) in await (await admin.execute(names)).fetchall():
        rows += [row[0] for row in await (await admin.execute(f"select t::text from {name} as t")).fetchall()]
    return "\n".join(rows)


async def test_a_key_in_a_message_is_removed(told: App, admin: psycopg.AsyncConnection):
    key = (await key_for(told, "member")).key
    for number, body in enumerate((f"here: {key}", f"_{key}_", f"ROOMLORE_KEY={key} roomlore"), start=40):
        await told.ingest(say(number, BO, SQUARE, body=body, raw={"text": body, "by": {"key": key}}))

    assert all(MARKER in message.body for message in await told.messages(told.operator, "square", limit=3))
    assert key.removeprefix("rlk_") not in await everything(admin)


READS: dict[str, Callable[[App, Viewer], Awaitable[Any]]] = {
    "list rooms": lambda app, viewer: app.rooms(viewer),
    "list participants": lambda app, viewer: app.participants(viewer),
    "read room": lambda app, viewer: app.messages(viewer, "square"),
    "context": lambda app, viewer: app.context(viewer, "square"),
    "search": lambda app, viewer: app.search(viewer, "village"),
    "ask": lambda app, viewer: app.ask(viewer, "village"),
    "read log": lambda app, viewer: app.log(viewer),
    "list accounts": lambda app, viewer: app.people.accounts(viewer, "bo"),
}


@pytest.mark.parametrize("role", ["agent", "member"])
async def test_a_key_reads_as_nobody_but_its_own_participant(
    told: App, open_app: OpenApp, admin: psycopg.AsyncConnection, role: str
):
    app = await holder(told, role)
    caller, own = app.access.principal, HOLDERS[role]
    elsewhere = await village(await open_app("elsewhere"))
    others = [await told.viewer(name) for name in PEOPLE if name != own]
    accounts = frozenset({caller.participant_id})
    forged = [
        told.operator,
        Viewer(org_id=told.org_id, participant_id=None, accounts=accounts),
        Viewer(org_id=told.org_id, participant_id=others[0].participant_id, accounts=accounts),
        Viewer(org_id=elsewhere.org_id, participant_id=caller.participant_id),
        await elsewhere.viewer(own),
        elsewhere.operator,
    ]

    for action, read in READS.items():
        before = await log_lines(admin, told)
        for viewer in (*others, *forged):
            with pytest.raises(NotAllowed):
                await read(app, viewer)
        await read(app, caller)

        lines = (await log_lines(admin, told))[len(before) :]
        refused = (action, "refused", caller.participant_id, caller.key_id, [])
        assert lines[:-1] == [refused] * len([*others, *forged])
        assert lines[-1][:4] == (action, "done", caller.participant_id, caller.key_id)


async def test_an_operator_s_key_reads_as_anybody_of_its_org_only(
    told: App, open_app: OpenApp, admin: psycopg.AsyncConnection
):
    signed_in = await holder(told, "operator")
    key_id = signed_in.access.principal.key_id
    elsewhere = await village(await open_app("elsewhere"))

    for viewer in (signed_in.operator, await signed_in.viewer("ana"), await told.viewer("pip")):
        await signed_in.rooms(viewer)
        assert (await log_lines(admin, told))[-1][2:4] == (viewer.participant_id, key_id)
    for app in (told, signed_in):
        for action, read in READS.items():
            for viewer in (elsewhere.operator, await elsewhere.viewer("ana")):
                with pytest.raises(NotAllowed):
                    await read(app, viewer)
                assert (await log_lines(admin, app))[-1][:2] == (action, "refused")
        with pytest.raises(NotAllowed):
            app.impersonate(elsewhere.operator)
    assert not [line for line in await log_lines(admin, elsewhere) if line[0] in READS]


@pytest.mark.parametrize("role", ["agent", "member"])
async def test_a_key_learns_nothing_about_names(told: App, role: str):
    app = await holder(told, role)
    words = ("bo", "ana", "nobody", "", "\0", str(uuid7()))
    [(kind, _)] = {await error_of(app.viewer(word)) for word in words}
    assert kind is NotAllowed


async def test_a_forged_viewer_gives_no_rights(told: App, admin: psycopg.AsyncConnection):
    app = await holder(told, "member")
    caller, bo = app.access.principal, (await told.viewer("bo")).participant_id
    forged = dataclasses.replace(caller, role="operator", key_id=uuid7(), accounts=frozenset({bo}))

    assert await read_by(told, await told.viewer("ana")) == await read_by(app, forged)
    assert (await log_lines(admin, told))[-1][3] == caller.key_id
    with pytest.raises(NotAllowed):
        app.impersonate(forged)


def export(folder: Path) -> Path:
    path = folder / "said.jsonl"
    path.write_text(
        '{"schema": "roomlore.message/1", "platform": "p", "room": "r", "id": "1", "author": "Zoe",'
        ' "text": "hi", "sent_at": "2026-01-01T10:00:00Z"}\n'
    )
    return path


async def revoke_one(app: App) -> None:
    key = await keyless(app).keys.create("operator", name="to be revoked")
    await app.keys.revoke(str(key.id))


async def split_one(app: App) -> None:
    operator = keyless(app)
    if not (await operator.people.accounts(operator.operator, "cy"))[0].is_merged:
        await operator.people.merge("cy", "dee")
    await app.people.split("cy")


def keyless(app: App) -> App:
    return dataclasses.replace(app, _principal=None)


CHANGES: dict[str, tuple[str, Callable[[App, Path], Awaitable[Any]]]] = {
    "ingest": ("ingest", lambda app, _: app.ingest(say(30, ANA, SQUARE))),
    "ingest nothing": ("ingest", lambda app, _: app.ingest_batch([])),
    "import": ("import", lambda app, folder: app.import_path(export(folder))),
    "drain": ("work", lambda app, _: app.drain()),
    "retry": ("retry work", lambda app, _: app.retry()),
    "count work": ("count work", lambda app, _: app.waiting()),
    "make key": ("make key", lambda app, _: app.keys.create("operator", name="another")),
    "list keys": ("list keys", lambda app, _: app.keys.all()),
    "revoke key": ("revoke key", lambda app, _: revoke_one(app)),
    "merge": ("merge", lambda app, _: app.people.merge("bo", "cy")),
    "split": ("split", lambda app, _: split_one(app)),
    "name a viewer": ("read as another", lambda app, _: app.viewer("bo")),
}


async def test_a_member_says_nothing_in_rooms(told: App):
    member = await holder(told, "member")
    before = await told.messages(told.operator, "square")
    kind, text = await error_of(member.intake.send("square", "good morning"))
    assert (kind, "another key" in text) == (NotAllowed, True)
    assert await told.messages(told.operator, "square") == before


@pytest.mark.parametrize("what", CHANGES)
async def test_only_operators_administer(
    told: App, admin: psycopg.AsyncConnection, tmp_path: Path, what: str
):
    action, change = CHANGES[what]

    for role in ("agent", "member"):
        app = await holder(told, role)
        kind, text = await error_of(change(app, tmp_path))
        assert (kind, "another key" in text) == (NotAllowed, True)
        caller = app.access.principal
        refused = (action, "refused", caller.participant_id, caller.key_id, [])
        assert (await log_lines(admin, told))[-1] == refused
    await change(await holder(told, "operator"), tmp_path)


async def test_an_operator_s_key_works_in_its_own_org_only(told: App):
    app = await holder(told, "operator")

    for call in (app.drain(every_org=True), app.retry(every_org=True), app.waiting(every_org=True)):
        with pytest.raises(NotAllowed, match="its own org"):
            await call
    assert await told.waiting(every_org=True)


@pytest.fixture
def database(cluster: Cluster) -> str:
    parts = urlencode(conninfo_to_dict(cluster.app_dsn), quote_via=quote)
    return f"postgresql://?{parts}"


async def test_an_app_opened_with_a_key_is_its_holder_s(told: App, database: str):
    key = await key_for(told, "member")

    for org in (None, told.settings.org):
        async with roomlore.open(Settings(database=database, org=org, key=key.key)) as opened:
            assert opened.org_id == told.org_id
            assert await opened.rooms(opened.access.principal) == await told.rooms(await told.viewer("ana"))
            with pytest.raises(NotAllowed):
                await opened.rooms(opened.operator)


async def test_a_key_with_another_org_is_refused(told: App, open_app: OpenApp, database: str):
    key = await key_for(told, "member")
    elsewhere = await open_app("elsewhere")

    for org in (elsewhere.settings.org, "default", "nosuch"):
        with pytest.raises(BadInput, match="the key"):
            async with roomlore.open(Settings(database=database, org=org, key=key.key)):
                pytest.fail("opened")


async def test_an_invalid_key_opens_nothing_and_creates_no_org(
    told: App, database: str, admin: psycopg.AsyncConnection
):
    revoked = await key_for(told, "member")
    await told.keys.revoke(str(revoked.id))
    orgs = await (await admin.execute("select count(*) from orgs")).fetchone()

    for key in ("nonsense", encode(uuid7(), bytes(32)), revoked.key):
        for org in (None, told.settings.org, "nosuch"):
            with pytest.raises(KeyRefused):
                async with roomlore.open(Settings(database=database, org=org, key=key)):
                    pytest.fail("opened")

    assert await (await admin.execute("select count(*) from orgs")).fetchone() == orgs


async def test_an_empty_key_is_refused(database: str):
    """A missing secret must not open the App as the operator."""
    settings = from_environment({"ROOMLORE_DATABASE_URL": database, "ROOMLORE_KEY": ""})
    with pytest.raises(KeyRefused):
        async with roomlore.open(settings):
            pytest.fail("opened")
