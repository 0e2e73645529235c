"""The activity log: one line for every call, with ids and no words, added and never changed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from conftest import OpenApp, TellOnce
from ingest.stories import author
from operations.village import ANA, BO, CELLAR, EVE, SQUARE, log_lines, say, village, whole_village
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound, RoomloreError
from roomlore.domain.ids import short_id
from roomlore.domain.records import AuditLine, Viewer
from roomlore.operations import App

Read = Callable[[App, Viewer], Awaitable[Any]]


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, whole_village)
    return app


async def ids(admin: psycopg.AsyncConnection, app: App) -> dict[str, UUID]:
    """Return our ids of an org's rooms, messages and participants by the platform's."""
    query = (
        "select external_id, id from rooms where org_id = %(org)s"
        " union all select external_id, id from messages where org_id = %(org)s"
        " union all select account_id, participant_id from platform_accounts where org_id = %(org)s"
    )
    return dict(await (await admin.execute(query, {"org": app.org_id})).fetchall())


READS: list[tuple[str, Read, list[str] | None]] = [
    ("list rooms", lambda app, viewer: app.rooms(viewer), ["square", "attic"]),
    ("list participants", lambda app, viewer: app.participants(viewer), ["ana", "bo", "dee", "eve", "pip"]),
    (
        "list participants",
        lambda app, viewer: app.participants(viewer, room="attic"),
        ["attic", "ana", "bo", "dee"],
    ),
    (
        "read room",
        lambda app, viewer: app.messages(viewer, "attic"),
        ["attic", "m4", "m5", "m8", "m11"],
    ),
    (
        "read room",
        lambda app, viewer: app.messages(viewer, "attic", before="m5"),
        ["attic", "m4"],
    ),
    ("context", lambda app, viewer: app.context(viewer, "attic", "m4"), ["attic", "m4"]),
    ("search", lambda app, viewer: app.search(viewer, "word10"), ["m10"]),
    ("search", lambda app, viewer: app.search(viewer, "word5", room="attic", limit=1), ["attic", "m5"]),
    ("search", lambda app, viewer: app.search(viewer, "nothingofthekind"), []),
    ("ask", lambda app, viewer: app.ask(viewer, "nothingofthekind"), []),
    ("read log", lambda app, viewer: app.log(viewer), []),
    ("list accounts", lambda app, viewer: app.people.accounts(viewer, "bo"), ["bo"]),
    ("list accounts", lambda app, viewer: app.people.accounts(viewer), ["ana", "bo", "dee", "eve", "pip"]),
]


async def test_every_read_leaves_one_line_with_what_it_showed(told: App, admin: psycopg.AsyncConnection):
    names = {our_id: name for name, our_id in (await ids(admin, told)).items()}
    ana = await told.viewer("ana")
    made = await told.keys.create("member", name="phone", participant="ana")
    let_in = await told.sign_in(made.key)

    for app, viewer, key_id in ((told, ana, None), (let_in, let_in.access.principal, made.id)):
        for action, read, shown in READS:
            before = await log_lines(admin, told)
            await read(app, viewer)
            (line,) = (await log_lines(admin, told))[len(before) :]
            assert line[:4] == (action, "done", ana.participant_id, key_id)
            assert {names[subject] for subject in line[4]} == set(shown), (action, shown)


REFUSALS: list[tuple[str, Read]] = [
    ("list participants", lambda app, viewer: app.participants(viewer, room="cellar")),
    ("read room", lambda app, viewer: app.messages(viewer, "cellar")),
    ("read room", lambda app, viewer: app.messages(viewer, "nosuch")),
    ("read room", lambda app, viewer: app.messages(viewer, "attic", before="m6")),
    ("context", lambda app, viewer: app.context(viewer, "cellar")),
    ("context", lambda app, viewer: app.context(viewer, "attic", "m6")),
    ("search", lambda app, viewer: app.search(viewer, "village", room="cellar")),
    ("search", lambda app, viewer: app.search(viewer, "village", as_of="m6")),
    ("ask", lambda app, viewer: app.ask(viewer, "village", room="cellar")),
    ("list accounts", lambda app, viewer: app.people.accounts(viewer, "cy")),
]


async def test_every_read_of_what_is_not_there_or_not_for_the_viewer_leaves_one_refused_line(
    told: App, admin: psycopg.AsyncConnection
):
    ana = await told.viewer("ana")
    for action, read in REFUSALS:
        before = await log_lines(admin, told)
        with pytest.raises(NotFound):
            await read(told, ana)
        (line,) = (await log_lines(admin, told))[len(before) :]
        assert line == (action, "refused", ana.participant_id, None, [])


@pytest.mark.slow
async def test_every_change_leaves_one_line_with_what_it_changed(
    told: App, admin: psycopg.AsyncConnection, tmp_path: Path
):
    key = await told.keys.create("operator", name="bridge")
    app = await told.sign_in(key.key)
    made = await app.keys.create("member", name="phone", participant="ana")
    export = tmp_path / "said.jsonl"
    record = {
        "schema": "roomlore.message/1",
        "platform": "test",
        "room": "square",
        "author": "eve",
        "text": "hi",
    }
    export.write_text(json.dumps(record | {"id": "x1", "sent_at": "2024-03-01T13:00:00Z"}))
    name = await ids(admin, told) | {"phone": made.id, "bridge": key.id}
    changes: list[tuple[str, Callable[[], Awaitable[Any]], list[str]]] = [
        ("ingest", lambda: app.ingest(say(30, ANA, SQUARE)), ["square"]),
        (
            "ingest",
            lambda: app.ingest_batch([say(31, ANA, SQUARE), say(32, BO, CELLAR)]),
            ["square", "cellar"],
        ),
        ("ingest", lambda: app.ingest_batch([]), []),
        ("import", lambda: app.import_path(export), ["square"]),
        ("work", app.drain, []),
        ("retry work", app.retry, []),
        ("count work", app.waiting, []),
        ("merge", lambda: app.people.merge("ana", "ana_home"), ["ana", "ana_home"]),
        ("merge", lambda: app.people.merge("ana", "cy"), ["ana", "ana_home", "cy"]),
        ("split", lambda: app.people.split("cy"), ["ana", "ana_home", "cy"]),
        ("list keys", app.keys.all, ["phone", "bridge"]),
        ("revoke key", lambda: app.keys.revoke(str(made.id)), ["phone"]),
    ]

    for action, change, subjects in changes:
        before = await log_lines(admin, told)
        await change()
        (line,) = (await log_lines(admin, told))[len(before) :]
        assert line[:4] == (action, "done", None, key.id)
        assert set(line[4]) == {name[subject] for subject in subjects}, action


async def test_a_change_that_cannot_be_leaves_a_refused_line(told: App, admin: psycopg.AsyncConnection):
    for action, change in (
        ("merge", told.people.merge("ana", "nobody")),
        ("merge", told.people.merge("ana", "pip")),
        ("split", told.people.split("ana")),
        ("make key", told.keys.create("member", name="phone", participant="nobody")),
        ("revoke key", told.keys.revoke("ffffffff")),
    ):
        before = await log_lines(admin, told)
        with pytest.raises(RoomloreError):
            await change
        (line,) = (await log_lines(admin, told))[len(before) :]
        assert line == (action, "refused", None, None, [])


async def test_a_worker_leaves_a_line_when_it_begins(told: App, admin: psycopg.AsyncConnection):
    stop = asyncio.Event()
    stop.set()
    before = await log_lines(admin, told)

    await told.run_worker(stop)

    assert [line[:2] for line in (await log_lines(admin, told))[len(before) :]] == [("work", "done")]


@pytest.mark.slow
async def test_no_line_holds_anything_that_was_said_asked_or_is_called(
    app: App, admin: psycopg.AsyncConnection, tmp_path: Path
):
    # Every one of these stands in the database, in a question or in an argument.
    words = [f"quixotic{number}" for number in range(14)]
    (
        body,
        name,
        room,
        account,
        topic,
        question,
        asked,
        nobody,
        nowhere,
        key_name,
        whom,
        file,
        other,
        persona,
    ) = words
    who = author(account, name=name, persona=persona)
    where = replace(SQUARE, external_id=room, name=room, topic=topic)
    told = [say(1, who, where, body=body), say(2, author(other, kind="agent"), where), say(3, EVE, where)]
    await app.ingest_batch(told)
    path = tmp_path / f"{file}.jsonl"
    path.write_text(json.dumps({"schema": "roomlore.message/1"}))
    calls = [
        *(app.rooms(app.operator), app.participants(app.operator), app.messages(app.operator, room)),
        *(app.search(app.operator, question), app.ask(app.operator, asked), app.context(app.operator, room)),
        *(app.messages(app.operator, nowhere), app.viewer(nobody), app.people.merge(name, nobody)),
        *(app.people.accounts(app.operator, whom), app.people.merge(name, "eve"), app.people.split("eve")),
        *(
            app.keys.create("agent", name=key_name, participant=other),
            app.keys.create("agent", name="x", participant=whom),
        ),
        *(app.import_path(path), app.keys.revoke(whom), app.drain()),
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    dump = "\n".join(
        row[0]
        for row in await (
            await admin.execute("select t::text from audit_log as t where org_id = %s", [app.org_id])
        ).fetchall()
    )

    assert len([outcome for outcome in outcomes if isinstance(outcome, RoomloreError)]) >= 5
    assert not [
        outcome
        for outcome in outcomes
        if isinstance(outcome, Exception) and not isinstance(outcome, RoomloreError)
    ]
    assert dump.count("\n") >= 14
    assert "quixotic" not in dump
    assert "Eve" not in dump


# Added, never changed


@pytest.mark.parametrize(
    "statement",
    [
        "update audit_log set action = 'nothing'",
        "update audit_log set at = now()",
        "delete from audit_log",
        "truncate audit_log",
        "drop table audit_log",
        "alter table audit_log disable row level security",
        "insert into audit_log select * from audit_log on conflict (org_id, id) do update set action = 'x'",
    ],
)
async def test_nobody_changes_or_removes_a_line_not_even_the_operator(
    told: App, admin: psycopg.AsyncConnection, statement: str
):
    async def work(conn: Connection) -> None:
        await conn.execute(statement)

    before = await log_lines(admin, told)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await told.db.change(told.org_id, work)
    assert await log_lines(admin, told) == before


async def test_nobody_adds_a_line_under_anothers_name_or_of_another_org(told: App, open_app: OpenApp):
    elsewhere = await village(await open_app("elsewhere"))
    ana, bo = await told.viewer("ana"), await told.viewer("bo")
    statement = (
        "insert into audit_log (org_id, id, viewer_id, action, outcome)"
        " values (%s, gen_random_uuid(), %s, 'search', 'done')"
    )

    for org_id, viewer_id in (
        (told.org_id, bo.participant_id),
        (told.org_id, None),
        (elsewhere.org_id, ana.participant_id),
        (elsewhere.org_id, None),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with told.db.audit_transaction(ana) as conn:
                await conn.execute(statement, [org_id, viewer_id])


async def test_a_read_whose_line_cannot_be_written_gives_no_answer(told: App, admin: psycopg.AsyncConnection):
    ana = await told.viewer("ana")
    answers: list[object] = []
    for _, read, _ in READS:
        async with unwritable(admin, told):
            with pytest.raises(psycopg.errors.CheckViolation):
                answers.append(await read(told, ana))
    assert answers == []
    assert await told.rooms(ana)


async def test_a_change_whose_line_cannot_be_written_does_not_happen(
    told: App, admin: psycopg.AsyncConnection
):
    for change in (
        lambda: told.ingest(say(30, ANA, SQUARE)),
        lambda: told.people.merge("ana", "ana_home"),
        lambda: told.keys.create("operator", name="bridge"),
    ):
        async with unwritable(admin, told):
            with pytest.raises(psycopg.errors.CheckViolation):
                await change()

    assert "m30" not in {said.external_id for said in await told.messages(told.operator, "square")}
    assert len(await told.people.accounts(told.operator, "ana")) == 1
    assert await told.keys.all() == []


@asynccontextmanager
async def unwritable(admin: psycopg.AsyncConnection, app: App) -> AsyncGenerator[None]:
    """Let no line of the org be added."""
    await admin.execute(
        f"alter table audit_log add constraint full_up check (org_id <> '{app.org_id}') not valid"
    )
    try:
        yield
    finally:
        await admin.execute("alter table audit_log drop constraint full_up")


# Who sees what


async def test_everybody_sees_their_own_lines_and_the_operator_all(told: App, open_app: OpenApp):
    elsewhere = await village(await open_app("elsewhere"))
    ana, bo = await told.viewer("ana"), await told.viewer("bo")
    for viewer in (ana, bo, told.operator):
        await told.rooms(viewer)
    await elsewhere.rooms(elsewhere.operator)

    async def seen_by(viewer: Viewer) -> list[tuple[str, Any]]:
        return [(line.action, line.viewer_id) for line in await told.log(viewer)]

    whole = [
        (name, viewer.participant_id)
        for name, viewer in (("list rooms", told.operator), ("list rooms", bo), ("list rooms", ana))
    ]
    assert await seen_by(ana) == [whole[2]]
    assert await seen_by(bo) == [whole[1]]
    own = [("read log", bo.participant_id), ("read log", ana.participant_id)]
    assert await seen_by(told.operator) == [*own, *whole, ("ingest", None)]


async def test_a_person_sees_the_lines_of_every_account(told: App):
    for name in ("ana", "ana_home"):
        await told.rooms(await told.viewer(name))
    await told.people.merge("ana", "ana_home")

    lines = await told.log(await told.viewer("ana"))

    home = await told.viewer("ana_home")
    assert {line.viewer_id for line in lines} == {home.participant_id, *home.accounts}
    await told.people.split("ana")
    assert {line.viewer_id for line in await told.log(home)} == {home.participant_id}


async def test_lines_about_an_id_are_those_that_name_it(told: App, admin: psycopg.AsyncConnection):
    name = await ids(admin, told)
    ana = await told.viewer("ana")
    made = await told.keys.create("operator", name="bridge")
    let_in = await told.sign_in(made.key)
    await told.messages(ana, "attic")
    await let_in.search(let_in.operator, "word7")

    async def actions(subject: UUID | str) -> list[str]:
        lines: list[AuditLine] = await told.log(told.operator, subject=subject)
        return [line.action for line in lines if line.action != "read log"]

    assert await actions(name["m4"]) == ["read room"]
    assert "search" in await actions(name["m7"])
    assert await actions(name["attic"]) == ["read room", "ingest"]
    assert await actions(made.id) == ["search", "make key"]
    assert await actions(name["ana"]) == ["read room"]
    assert await actions(str(name["m4"])[:30].upper()) == ["read room"]
    assert await actions(short_id(name["m4"])) == ["read room"]
    assert await actions(short_id(made.id)) == ["search", "make key"]
    assert await actions("ffffffff") == []
    assert await told.log(await told.viewer("bo"), subject=name["m4"]) == []


async def test_reads_for_the_viewer_s_eyes_alone_are_marked(told: App):
    bo = await told.viewer("bo")
    for is_private in (False, True):
        await told.search(bo, "word5", room="attic", private=is_private)
        await told.ask(bo, "word5", room="attic", private=is_private)
        await told.context(bo, "attic", private=is_private)
    actions = [line.action for line in await told.log(bo, limit=6)]
    assert actions == [f"{mark}{read}" for mark in ("private ", "") for read in ("context", "ask", "search")]


async def test_the_newest_lines_come_first_and_no_more_than_asked(told: App):
    for _ in range(3):
        await told.rooms(told.operator)

    lines = await told.log(told.operator, limit=2)

    assert [line.action for line in lines] == ["list rooms", "list rooms"]
    assert lines[0].at >= lines[1].at
    for limit, subject in ((0, None), (1, "ana"), (1, "xyz"), (1, "abc"), (1, "\0")):
        with pytest.raises(BadInput):
            await told.log(told.operator, limit=limit, subject=subject)


async def test_whoever_acts_for_another_is_named_with_the_key_they_came_with(
    told: App, admin: psycopg.AsyncConnection
):
    made = await told.keys.create("operator", name="bridge")
    let_in = await told.sign_in(made.key)
    ana = await let_in.viewer("ana")

    acting = let_in.impersonate(ana)
    await acting.rooms(ana)
    assert (await log_lines(admin, told))[-1][:4] == ("list rooms", "done", ana.participant_id, made.id)
    with pytest.raises(NotAllowed):
        await acting.keys.all()
    assert (await log_lines(admin, told))[-1][:4] == (
        "list keys",
        "refused",
        ana.participant_id,
        made.id,
    )
