"""Keys: who is let in, with whose eyes they read, what they may change, and where the key itself never is."""

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

Call = Callable[[App], Awaitable[Any]]
HOLDERS = {"operator": None, "agent": "pip", "member": "ana"}


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, whole_village)
    return app


async def key_for(app: App, role: str, **fields: Any) -> NewKey:
    return await app.keys.make(role, name=f"{role}'s", participant=HOLDERS[role], **fields)


async def holder(app: App, role: str) -> App:
    """Return the App on behalf of whoever holds a new key of that role."""
    return await app.sign_in((await key_for(app, role)).key)


# Who is let in


@pytest.mark.parametrize("role", HOLDERS)
async def test_whoever_holds_a_key_reads_with_the_eyes_it_was_made_for(told: App, role: str):
    let_in = await holder(told, role)
    whose = told.operator if role == "operator" else await told.viewer(HOLDERS[role])

    assert let_in.access.principal == whose
    assert let_in.access.principal.role == role
    assert await read_by(let_in, let_in.access.principal) == await read_by(told, whose)


async def test_a_key_of_one_account_reads_what_the_person_may(told: App):
    made = await key_for(told, "member")
    whole = await read_by(told, await told.viewer("ana")) | await read_by(told, await told.viewer("ana_home"))
    before = await told.sign_in(made.key)

    await told.people.merge("ana", "ana_home")
    let_in = await told.sign_in(made.key)

    for app in (before, let_in):
        assert await read_by(app, app.access.principal) == whole
    with pytest.raises(NotAllowed):
        await let_in.rooms(await told.viewer("ana_home"))


async def test_every_key_that_does_not_let_in_is_refused_in_the_same_words(
    told: App, open_app: OpenApp, admin: psycopg.AsyncConnection
):
    elsewhere = await village(await open_app("elsewhere"))
    other = await key_for(elsewhere, "member")
    made, revoked, expired = [await key_for(told, "member", lasts=timedelta(days=1)) for _ in range(3)]
    await told.keys.revoke(str(revoked.id))
    await admin.execute(
        "update api_keys set created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
        " where org_id = %s and id = %s",
        [told.org_id, expired.id],
    )
    held = base64.urlsafe_b64decode(made.key.removeprefix("rlk_"))
    moved = "rlk_" + base64.urlsafe_b64encode(elsewhere.org_id.bytes + held[16:]).decode()
    nowhere = "rlk_" + base64.urlsafe_b64encode(uuid7().bytes + held[16:]).decode()
    wrong = "rlk_" + base64.urlsafe_b64encode(told.org_id.bytes + bytes(32)).decode()

    await told.sign_in(made.key)
    await elsewhere.sign_in(other.key)
    for key in (
        *(
            revoked.key,
            expired.key,
            other.key,
            moved,
            nowhere,
            wrong,
            made.key[:-1],
            made.key[:-4],
            made.key + "AAAA",
        ),
        *(
            made.key.removeprefix("rlk_"),
            made.key.lower(),
            f" {made.key}",
            "rlk_",
            "",
            "café",
            "\0",
            "\ud800",
        ),
    ):
        assert await error_of(told.sign_in(key)) == (KeyRefused, "the key is not valid")


async def test_a_key_that_is_revoked_or_expires_ends_at_once_also_where_it_is_in_use(
    told: App, admin: psycopg.AsyncConnection
):
    for role in HOLDERS:
        for end in ("revoked_at = now()", "expires_at = now()"):
            made = await key_for(told, role)
            app = await told.sign_in(made.key)
            await app.rooms(app.access.principal)
            await admin.execute(f"update api_keys set {end} where id = %s", [made.id])

            with pytest.raises(KeyRefused):
                await app.rooms(app.access.principal)
            with pytest.raises(KeyRefused):
                await app.keys.all()
            assert [line[:2] for line in await log_lines(admin, told)][-2:] == [
                ("list rooms", "refused"),
                ("list keys", "refused"),
            ]


async def test_a_revoked_key_stays_revoked_since_the_first_time(told: App):
    made = await key_for(told, "member")

    await told.keys.revoke(str(made.id)[:18])
    (first,) = await told.keys.all()
    await told.keys.revoke(str(made.id))

    assert first.revoked_at is not None
    assert await told.keys.all() == [first]


async def test_keys_are_listed_newest_first_with_all_that_is_kept_of_them(told: App):
    first = await key_for(told, "member", lasts=timedelta(days=90))
    second = await key_for(told, "operator")

    assert [one.id for one in await told.keys.all()] == [second.id, first.id]
    assert first.expires_at == first.created_at + timedelta(days=90)
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
        ("operator", {"name": " "}),
        ("operator", {"name": "a\0b"}),
        ("operator", {"name": "a\ud800"}),
        ("operator", {"name": "x" * 201}),
        ("operator", {"name": "rlk_" + "a" * 64}),
        ("operator", {"lasts": timedelta(0)}),
        ("operator", {"lasts": timedelta(days=-1)}),
        ("operator", {"lasts": timedelta.max}),
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(told: App, role: Any, fields: dict[str, Any]):
    with pytest.raises(BadInput):
        await told.keys.make(role, **{"name": "phone", **fields})
    assert await told.keys.all() == []


async def test_a_key_is_for_somebody_there_is(told: App):
    with pytest.raises(NotFound):
        await told.keys.make("member", name="phone", participant="nobody")


async def test_only_a_key_there_is_is_revoked_and_is_not_named_by_itself(told: App, open_app: OpenApp):
    made = await key_for(told, "member")
    other = await key_for(await village(await open_app("elsewhere")), "member")

    for word in ("", "0", "nosuch", "zzzz", "ffffffff", "a\0b", str(other.id)):
        with pytest.raises(NotFound):
            await told.keys.revoke(word)
    kind, said = await error_of(told.keys.revoke(made.key))
    assert kind is BadInput
    assert made.key not in said
    again = await key_for(told, "member")
    with pytest.raises(BadInput, match="several are meant"):
        await told.keys.revoke(str(again.id)[:6])


# Where the key never is


async def test_the_key_itself_is_stored_and_shown_nowhere(
    told: App, admin: psycopg.AsyncConnection, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    made = await key_for(told, "member")
    secret = base64.urlsafe_b64decode(made.key.removeprefix("rlk_"))[16:]
    let_in = await told.sign_in(made.key)
    await read_by(let_in, let_in.access.principal)
    _, refusal = await error_of(let_in.keys.all())
    shown = [
        repr(made),
        str(made),
        repr([made]),
        repr(let_in),
        repr(await told.keys.all()),
        refusal,
        caplog.text,
    ]
    shown += [
        repr(Settings(org=None, key=made.key)),
        repr(await told.log(told.operator)),
        repr(let_in.access),
    ]

    dump = await everything(admin)

    spellings = [
        made.key,
        made.key.removeprefix("rlk_"),
        secret.hex(),
        base64.b64encode(secret).decode(),
        repr(secret),
    ]
    assert hashlib.sha256(secret).hexdigest() in dump
    for spelling in spellings:
        assert spelling not in dump
        for text in shown:
            assert spelling not in text
    assert "digest" not in {field.name for field in dataclasses.fields(made)}


async def everything(admin: psycopg.AsyncConnection) -> str:
    """Return every row of every table, as text."""
    names = "select tablename from pg_tables where schemaname = 'roomlore'"
    rows: list[str] = []
    for (name,) in await (await admin.execute(names)).fetchall():
        rows += [row[0] for row in await (await admin.execute(f"select t::text from {name} as t")).fetchall()]
    return "\n".join(rows)


async def test_a_key_pasted_into_a_room_is_taken_out(told: App, admin: psycopg.AsyncConnection):
    made = await key_for(told, "member")
    for number, body in enumerate(
        (f"here: {made.key}", f"_{made.key}_", f"ROOMLORE_KEY={made.key} roomlore"), start=40
    ):
        await told.ingest(say(number, BO, SQUARE, body=body, raw={"text": body, "by": {"key": made.key}}))

    said = await told.messages(told.operator, "square", limit=3)

    assert all(MARKER in message.body for message in said)
    assert made.key.removeprefix("rlk_") not in await everything(admin)


# What a key does not let in to


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
    let_in = await holder(told, role)
    caller = let_in.access.principal
    elsewhere = await village(await open_app("elsewhere"))
    own = HOLDERS[role]
    others = [await told.viewer(name) for name in PEOPLE if name != own]
    forged = [
        told.operator,
        let_in.operator,
        Viewer(org_id=told.org_id, participant_id=None, accounts=frozenset({caller.participant_id})),
        Viewer(
            org_id=told.org_id,
            participant_id=others[0].participant_id,
            accounts=frozenset({caller.participant_id}),
        ),
        Viewer(org_id=elsewhere.org_id, participant_id=caller.participant_id),
        await elsewhere.viewer(own),
        elsewhere.operator,
    ]

    for action, read in READS.items():
        before = await log_lines(admin, told)
        for viewer in (*others, *forged):
            with pytest.raises(NotAllowed):
                await read(let_in, viewer)
        await read(let_in, caller)

        lines = (await log_lines(admin, told))[len(before) :]
        refused = (action, "refused", caller.participant_id, caller.key_id, [])
        assert lines[:-1] == [refused] * len([*others, *forged])
        assert lines[-1][:4] == (action, "done", caller.participant_id, caller.key_id)


async def test_an_operators_key_reads_as_anybody_of_its_org_and_nobody_of_another(
    told: App, open_app: OpenApp, admin: psycopg.AsyncConnection
):
    let_in = await holder(told, "operator")
    elsewhere = await village(await open_app("elsewhere"))

    for viewer in (let_in.operator, await let_in.viewer("ana"), await told.viewer("pip")):
        await let_in.rooms(viewer)
        assert (await log_lines(admin, told))[-1][2:4] == (
            viewer.participant_id,
            let_in.access.principal.key_id,
        )
    for app in (told, let_in):
        for action, read in READS.items():
            for viewer in (elsewhere.operator, await elsewhere.viewer("ana")):
                with pytest.raises(NotAllowed):
                    await read(app, viewer)
                assert (await log_lines(admin, app))[-1][:2] == (action, "refused")
        with pytest.raises(NotAllowed):
            app.acting(elsewhere.operator)
    assert not [line for line in await log_lines(admin, elsewhere) if line[0] in READS]


async def test_a_key_learns_nothing_of_which_names_there_are(told: App):
    for role in ("agent", "member"):
        let_in = await holder(told, role)
        answers = {
            await error_of(let_in.viewer(word)) for word in ("bo", "ana", "nobody", "", "\0", str(uuid7()))
        }
        assert len(answers) == 1
        assert answers.pop()[0] is NotAllowed


async def test_what_a_viewer_says_of_itself_gives_it_no_rights(told: App, admin: psycopg.AsyncConnection):
    let_in = await holder(told, "member")
    caller = let_in.access.principal
    boast = dataclasses.replace(
        caller,
        role="operator",
        key_id=uuid7(),
        accounts=frozenset({(await told.viewer("bo")).participant_id}),
    )

    assert await read_by(told, await told.viewer("ana")) == await read_by(let_in, boast)
    assert (await log_lines(admin, told))[-1][3] == caller.key_id
    with pytest.raises(NotAllowed):
        let_in.acting(boast)


# What a role may change


def export(folder: Path) -> Path:
    path = folder / "said.jsonl"
    path.write_text(
        '{"schema": "roomlore.message/1", "platform": "p", "room": "r", "id": "1", "author": "Zoe",'
        ' "text": "hi", "sent_at": "2026-01-01T10:00:00Z"}\n'
    )
    return path


CHANGES: dict[str, tuple[str, Callable[[App, Path], Awaitable[Any]]]] = {
    "ingest": ("ingest", lambda app, _: app.ingest(say(30, ANA, SQUARE))),
    "ingest a batch": ("ingest", lambda app, _: app.ingest_batch([say(31, ANA, SQUARE)])),
    "ingest nothing": ("ingest", lambda app, _: app.ingest_batch([])),
    "import": ("import", lambda app, folder: app.import_path(export(folder))),
    "drain": ("work", lambda app, _: app.drain()),
    "retry": ("retry work", lambda app, _: app.retry()),
    "count work": ("count work", lambda app, _: app.waiting()),
    "make key": ("make key", lambda app, _: app.keys.make("operator", name="another")),
    "list keys": ("list keys", lambda app, _: app.keys.all()),
    "revoke key": ("revoke key", lambda app, _: revoke_one(app)),
    "merge": ("merge", lambda app, _: app.people.merge("bo", "cy")),
    "split": ("split", lambda app, _: split_one(app)),
    "name a viewer": ("read as another", lambda app, _: app.viewer("bo")),
}


async def revoke_one(app: App) -> None:
    made = await keyless(app).keys.make("operator", name="to be revoked")
    await app.keys.revoke(str(made.id))


async def split_one(app: App) -> None:
    operator = keyless(app)
    if not (await operator.people.accounts(operator.operator, "cy"))[0].is_merged:
        await operator.people.merge("cy", "dee")
    await app.people.split("cy")


def keyless(app: App) -> App:
    return dataclasses.replace(app, _principal=None)


async def test_a_member_says_nothing_in_rooms(told: App):
    member = await holder(told, "member")
    before = await told.messages(told.operator, "square")
    kind, said = await error_of(member.intake.say("square", "good morning"))
    assert (kind, "another key" in said) == (NotAllowed, True)
    assert await told.messages(told.operator, "square") == before


@pytest.mark.parametrize("what", CHANGES)
async def test_only_an_operator_changes_anything_but_their_own(
    told: App, admin: psycopg.AsyncConnection, tmp_path: Path, what: str
):
    action, change = CHANGES[what]

    for role in ("agent", "member"):
        let_in = await holder(told, role)
        kind, said = await error_of(change(let_in, tmp_path))
        assert (kind, "another key" in said) == (NotAllowed, True)
        caller = let_in.access.principal
        assert (await log_lines(admin, told))[-1] == (
            action,
            "refused",
            caller.participant_id,
            caller.key_id,
            [],
        )
    await change(await holder(told, "operator"), tmp_path)


async def test_a_key_works_in_its_own_org_only(told: App):
    let_in = await holder(told, "operator")

    for call in (let_in.drain(every_org=True), let_in.retry(every_org=True), let_in.waiting(every_org=True)):
        with pytest.raises(NotAllowed, match="its own org"):
            await call
    assert await told.waiting(every_org=True)


# Opened with a key


@pytest.fixture
def database(cluster: Cluster) -> str:
    parts = urlencode(conninfo_to_dict(cluster.app_dsn), quote_via=quote)
    return f"postgresql://?{parts}"


async def test_an_app_opened_with_a_key_is_its_holders(told: App, database: str):
    made = await key_for(told, "member")

    for org in (None, told.settings.org):
        async with roomlore.open(Settings(database=database, org=org, key=made.key)) as opened:
            assert opened.org_id == told.org_id
            assert await opened.rooms(opened.access.principal) == await told.rooms(await told.viewer("ana"))
            with pytest.raises(NotAllowed):
                await opened.rooms(opened.operator)


async def test_a_key_and_another_org_do_not_go_together(told: App, open_app: OpenApp, database: str):
    made = await key_for(told, "member")
    elsewhere = await open_app("elsewhere")

    for org in (elsewhere.settings.org, "default", "nosuch"):
        with pytest.raises(BadInput, match="the key"):
            async with roomlore.open(Settings(database=database, org=org, key=made.key)):
                pytest.fail("opened")


async def test_a_key_that_lets_nobody_in_opens_nothing_and_makes_no_org(
    told: App, database: str, admin: psycopg.AsyncConnection
):
    nowhere = "rlk_" + base64.urlsafe_b64encode(uuid7().bytes + bytes(32)).decode()
    made = await key_for(told, "member")
    await told.keys.revoke(str(made.id))
    orgs = await (await admin.execute("select count(*) from orgs")).fetchone()

    for key in ("nonsense", nowhere, made.key):
        for org in (None, told.settings.org, "nosuch"):
            with pytest.raises(KeyRefused):
                async with roomlore.open(Settings(database=database, org=org, key=key)):
                    pytest.fail("opened")

    assert await (await admin.execute("select count(*) from orgs")).fetchone() == orgs


async def test_a_key_made_now_is_valid_until_its_end(told: App):
    made = await key_for(told, "member", lasts=timedelta(hours=1))

    assert made.expires_at > datetime.now(UTC) > made.created_at
    await told.sign_in(made.key)


async def test_an_empty_key_is_a_key_that_is_refused_and_not_the_operator(database: str):
    """As of a secret that is missing where it was to be read from."""
    settings = from_environment({"ROOMLORE_DATABASE_URL": database, "ROOMLORE_KEY": ""})
    with pytest.raises(KeyRefused):
        async with roomlore.open(settings):
            pass
