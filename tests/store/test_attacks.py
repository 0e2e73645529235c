"""What the application's own login can and cannot do with plain SQL, whatever the code above it does."""

import asyncio
import contextlib
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors, sql

from roomlore.app import App
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.store.cluster import Cluster
from roomlore.store.db import Database
from store.worlds import at

ANA = IncomingAuthor(account_id="ana", name="Ana")
BEN = IncomingAuthor(account_id="ben", name="Ben")
TABLES = (
    "orgs", "participants", "identities", "rooms", "memberships", "messages", "message_audience",
    "revisions", "replies", "activity", "message_embeddings", "work",
)  # fmt: skip
SEARCHES = (
    "best_worded('secret', null, null, null, null, null, 100)",
    (
        "nearest_exact((select array_fill(1, array[384])::vector::halfvec(384)), 'fake-hash-384', null, null, null,"
        " null, null, 100)"
    ),
    (
        "nearest_indexed((select array_fill(1, array[384])::vector::halfvec(384)), 'fake-hash-384', null, null, null,"
        " null, null, 100)"
    ),
)


@pytest.fixture
async def secrets(app: App) -> App:
    """Ana alone in a closed room; Ben has only been seen in an open one."""
    attic = IncomingRoom(
        external_id="attic",
        name="Attic",
        visibility="members",
        members=[IncomingMembership(author=ANA)],
    )
    square = IncomingRoom(external_id="square", name="Square")
    for number, (room, author) in enumerate([(attic, ANA), (attic, ANA), (square, BEN)]):
        await app.ingest(
            IncomingMessage(
                platform="village",
                room=room,
                external_id=f"m{number}",
                author=author,
                body=f"secret number {number}" if room is attic else "good morning",
                sent_at=at(number),
                reply_to="m0" if number == 1 else None,
            )
        )
    await app.drain()
    return app


@pytest.fixture
async def ben(secrets: App) -> Viewer:
    return await secrets.viewer("ben")


@pytest.fixture
async def raw(cluster: Cluster):
    """A connection of the application's login, outside the pool and without a viewer."""
    async with await psycopg.AsyncConnection.connect(
        cluster.app_dsn, autocommit=True, options="-c search_path=roomlore,public"
    ) as conn:
        yield conn


async def fetch(conn, query: str, params=None) -> list[tuple]:
    return await (await conn.execute(query, params)).fetchall()


async def count(conn, table: str) -> int:
    return (await fetch(conn, sql.SQL("select count(*) from {}").format(sql.Identifier(table))))[0][0]


async def state(conn, *, org: str | None = None, viewer: str | None = None) -> None:
    for name, value in (("org", org), ("viewer", viewer)):
        if value is not None:
            await conn.execute(
                sql.SQL("set local {} = {}").format(sql.Identifier("roomlore", name), sql.Literal(value))
            )


async def attempt(conn, org, viewer, statement, *, params=None) -> list[tuple]:
    """Run one statement for a viewer in a transaction of its own; return its rows, or none."""
    async with conn.transaction():
        await state(
            conn, org=str(org), viewer=viewer if isinstance(viewer, str) else str(viewer.participant_id)
        )
        cursor = await conn.execute(statement, params)
        return await cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


async def visible(conn) -> dict[str, int]:
    """How many rows of each table and search are seen; empty ones are left out."""
    counts = {table: await count(conn, table) for table in TABLES}
    counts |= {call: (await fetch(conn, f"select count(*) from {call}"))[0][0] for call in SEARCHES}
    return {name: number for name, number in counts.items() if number}


# Who is reading


async def test_without_settings_nothing_is_seen(secrets: App, raw):
    assert secrets.org_id
    assert await visible(raw) == {}


@pytest.mark.parametrize("viewer", [None, "", "00000000-0000-0000-0000-000000000000"])
async def test_an_org_without_a_viewer_shows_its_name_only(secrets: App, raw, viewer: str | None):
    async with raw.transaction():
        await state(raw, org=str(secrets.org_id), viewer=viewer)
        assert await visible(raw) == {"orgs": 1}


@pytest.mark.parametrize("org", [None, "", "00000000-0000-0000-0000-000000000000"])
async def test_an_operator_of_no_org_sees_nothing(secrets: App, raw, org: str | None):
    assert secrets.org_id
    async with raw.transaction():
        await state(raw, org=org, viewer="operator")
        assert await visible(raw) == {}


@pytest.mark.parametrize("garbage", ["everybody", "operator ", "OPERATOR", "'; select 1 --", "*", "null"])
async def test_garbage_for_a_viewer_shows_nothing(secrets: App, raw, garbage: str):
    for call in (*TABLES[1:], *SEARCHES):
        try:
            assert await attempt(raw, secrets.org_id, garbage, f"select * from {call}") == []
        except errors.InvalidTextRepresentation as error:
            assert "secret" not in str(error)  # noqa: PT017  an error is as good as no rows
    with pytest.raises(errors.InvalidTextRepresentation):
        await attempt(raw, secrets.org_id, garbage, "select * from messages")


@pytest.mark.parametrize("garbage", ["everywhere", "%", "{}"])
async def test_garbage_for_an_org_is_an_error(secrets: App, raw, admin, garbage: str):
    assert secrets.org_id
    # A table known to be without rows is read without the org being asked for: there is nothing to show.
    empty = {table for table in TABLES if not await fetch(admin, f"select 1 from {table} limit 1")}
    assert not empty & {"orgs", "participants", "rooms", "memberships", "messages", "activity"}
    for call in (*TABLES, *SEARCHES):
        if call in empty:
            with contextlib.suppress(errors.InvalidTextRepresentation):
                assert await attempt(raw, garbage, "operator", f"select * from {call}") == []
        else:
            with pytest.raises(errors.InvalidTextRepresentation):
                await attempt(raw, garbage, "operator", f"select * from {call}")


async def test_a_participant_of_one_org_is_nobody_in_another(secrets: App, open_app, raw):
    other = await open_app("other")
    await other.ingest(
        IncomingMessage(
            platform="village",
            room=IncomingRoom(external_id="far", name="Far"),
            external_id="f1",
            author=ANA,
            body="far away",
            sent_at=at(0),
        )
    )
    stranger = (await other.viewer("ana")).participant_id
    async with raw.transaction():
        await state(raw, org=str(secrets.org_id), viewer=str(stranger))
        assert await visible(raw) == {"orgs": 1}


async def test_a_viewer_is_not_text_that_is_pasted_into_sql(db: Database, app: App):
    for evil in ("operator", "x'; set local roomlore.viewer = 'operator"):
        with pytest.raises(ValueError, match="hexadecimal"):
            async with db.reading(Viewer(org_id=app.org_id, participant_id=evil)):
                pass


# What the next borrower of a connection finds


async def test_settings_end_with_the_transaction_also_after_an_error(cluster: Cluster, secrets: App):
    db = await Database.connect(cluster.app_dsn, size=1)
    try:
        async with db.reading(secrets.operator) as conn:
            backend = conn.info.backend_pid
            assert await count(conn, "messages") == 3
        with pytest.raises(errors.DivisionByZero):
            async with db.reading(secrets.operator) as conn:
                await conn.execute("select 1 / 0")
        async with db.outside_orgs() as conn:
            assert conn.info.backend_pid == backend
            assert await fetch(
                conn, "select current_setting('roomlore.org', true), current_setting('roomlore.viewer', true)"
            ) in ([("", "")], [(None, None)])
            assert await visible(conn) == {}
    finally:
        await db.close()


async def test_settings_end_when_the_borrower_is_cancelled(cluster: Cluster, secrets: App):
    db = await Database.connect(cluster.app_dsn, size=1)
    inside = asyncio.Event()

    async def linger() -> None:
        async with db.reading(secrets.operator) as conn:
            inside.set()
            await conn.execute("select pg_sleep(60)")

    try:
        task = asyncio.create_task(linger())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with db.outside_orgs() as conn:
            assert await visible(conn) == {}
    finally:
        await db.close()


async def test_a_prepared_statement_answers_for_whoever_reads_now(
    cluster: Cluster, secrets: App, ben: Viewer
):
    db = await Database.connect(cluster.app_dsn, size=1)
    ana = await secrets.viewer("ana")
    query = "select external_id from messages order by sent_at"
    expected = {secrets.operator: ["m0", "m1", "m2"], ana: ["m0", "m1", "m2"], ben: ["m2"]}
    try:
        for _ in range(4):
            for viewer, shown in expected.items():
                async with db.reading(viewer) as conn:
                    rows = await (await conn.execute(query, prepare=True)).fetchall()
                    assert [row[0] for row in rows] == shown
    finally:
        await db.close()


async def test_plans_that_are_kept_answer_for_whoever_reads_now(ben: Viewer, raw):
    await raw.execute("set plan_cache_mode = force_generic_plan")
    await raw.execute("prepare look as select count(*) from messages")
    seen = []
    for viewer in ("operator", str(ben.participant_id), "operator", ""):
        async with raw.transaction():
            await state(raw, org=str(ben.org_id), viewer=viewer)
            seen += await fetch(raw, "execute look")
    assert seen == [(3,), (1,), (3,), (0,)]


async def test_a_cursor_held_over_the_transaction_keeps_what_its_viewer_saw(ben: Viewer, raw):
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        await raw.execute("declare later cursor with hold for select external_id from messages")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer="operator")
        assert await fetch(raw, "fetch all from later") == [("m2",)]


# Roles


@pytest.mark.parametrize(
    "statement",
    [
        "set role roomlore_owner",
        "set role roomlore_admin",
        "set session authorization roomlore_owner",
        "set session authorization roomlore_admin",
        "grant roomlore_owner to roomlore_app",
        "alter role roomlore_app bypassrls",
        "alter role roomlore_app superuser",
        "create role accomplice",
        "create database elsewhere",
        "alter table messages disable row level security",
        "alter table messages no force row level security",
        "alter table messages owner to roomlore_app",
        "drop policy read on messages",
        "create policy all_of_it on messages using (true)",
        "create table roomlore.mine (id int)",
        "create table public.mine (id int)",
        "create schema mine",
        "create function roomlore.viewer_is_operator2() returns boolean language sql return true",
        "create or replace function roomlore.viewer_is_operator() returns boolean language sql return true",
        "create view public.everything as select 1",
        "create trigger spy after insert on messages execute function now()",
        "create rule spy as on select to messages do instead select 1",
        "create index on messages (body)",
        "truncate messages",
        "comment on table messages is 'mine'",
        "create extension dblink",
        "create extension file_fdw",
        "alter system set row_security = off",
        "set session_replication_role = replica",
        "load 'auto_explain'",
    ],
)
async def test_the_login_cannot_become_more_than_it_is(raw, statement: str):
    with pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)):
        await raw.execute(statement)


async def test_reset_role_leads_nowhere(secrets: App, raw):
    assert secrets.org_id
    await raw.execute("reset role")
    await raw.execute("reset session authorization")
    assert await fetch(raw, "select session_user::text, current_user::text") == [("roomlore_app",) * 2]
    assert await visible(raw) == {}


async def test_row_security_cannot_be_switched_off(secrets: App, raw):
    assert secrets.org_id
    await raw.execute("set row_security = off")
    with pytest.raises(errors.InsufficientPrivilege):
        await raw.execute("select * from messages")


async def test_reading_transactions_cannot_write(db: Database, ben: Viewer):
    for statement in (
        "insert into orgs (org_id, name) values (gen_random_uuid(), 'x')",
        "select * from take_work('embed', null, 10, 10, interval '1 hour')",
        "select ensure_org('another', gen_random_uuid())",
    ):
        with pytest.raises((errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)):
            async with db.reading(ben) as conn:
                await conn.execute(statement)


async def test_a_reading_transaction_sees_one_moment(db: Database, secrets: App, ben: Viewer):
    async with db.reading(ben) as conn:
        assert await count(conn, "messages") == 1
        await secrets.ingest(
            IncomingMessage(
                platform="village",
                room=IncomingRoom(external_id="square", name="Square"),
                external_id="m9",
                author=ANA,
                body="meanwhile",
                sent_at=at(9),
            )
        )
        assert await count(conn, "messages") == 1
    async with db.reading(ben) as conn:
        assert await count(conn, "messages") == 2


# Changing things


CHANGES = {
    "orgs": "name = 'x'",
    "participants": "name = 'x'",
    "identities": "account_id = 'x'",
    "rooms": "visibility = 'open'",
    "memberships": "left_at = null",
    "messages": "body = 'x'",
    "message_audience": "participant_id = participant_id",
    "revisions": "body = 'x'",
    "replies": "confidence = 0",
    "activity": "message_count = 0",
    "message_embeddings": "model = 'x'",
    "work": "attempts = 0",
}


async def test_a_participant_changes_nothing(ben: Viewer, raw, admin):
    for table, change in CHANGES.items():
        own_org = f"org_id = '{ben.org_id}'"
        rows = f"select t::text from {table} t where {own_org} order by 1"
        before = await fetch(admin, rows)
        for statement in (
            f"update {table} set {change}",
            f"update {table} set {change} where {own_org}",
            f"delete from {table}",
            f"merge into {table} t using (select 1) s on true when matched then delete",
        ):
            with suppress(errors.InsufficientPrivilege):
                assert await attempt(raw, ben.org_id, ben, statement) == [(0,)]
        assert await fetch(admin, rows) == before


async def test_an_insert_by_a_participant_fails_alike_whether_the_key_is_taken_or_free(
    ben: Viewer, raw, admin
):
    """Otherwise a refused insert would tell which invisible ids exist."""
    [(attic, taken)] = await fetch(
        admin,
        "select room_id, id from messages where org_id = %s and external_id = 'm0'",
        [ben.org_id],
    )
    told = set()
    for ending in ("", " on conflict do nothing"):
        for message_id, external_id in ((taken, "m0"), (uuid4(), "new")):
            with pytest.raises(errors.InsufficientPrivilege) as caught:
                await attempt(
                    raw,
                    ben.org_id,
                    ben,
                    "insert into messages (org_id, id, room_id, external_id, kind, author_id, author_name,"
                    " author_kind, body, sent_at, precision, received_at) values (%s, %s, %s, %s, 'message',"
                    " %s, 'Ben', 'human', 'x', now(), 'ms', now())" + ending,
                    params=[ben.org_id, message_id, attic, external_id, ben.participant_id],
                )
            told.add(str(caught.value))
    assert told == {'new row violates row-level security policy for table "messages"'}


WAYS_IN = [
    "memberships (org_id, room_id, participant_id, joined_at) values ('{org}', '{attic}', '{ben}', '-infinity')",
    "message_audience (org_id, message_id, participant_id) values ('{org}', '{secret}', '{ben}')",
    (
        "rooms (org_id, id, platform, external_id, name, kind, visibility)"
        " values ('{org}', '{ben}', 'v', 'r', 'R', 'dm', 'open')"
    ),
    (
        "participants (org_id, id, kind, name, first_name, named_at)"
        " values ('{org}', gen_random_uuid(), 'agent', 'x', 'x', now())"
    ),
    "identities (org_id, platform, account_id, participant_id) values ('{org}', 'village', 'ana2', '{ben}')",
    "work (org_id, stage, subject_id) values ('{org}', 'embed', '{secret}')",
    (
        "replies (org_id, room_id, child_id, parent_id, method, confidence)"
        " values ('{org}', '{attic}', '{ben}', '{secret}', 'explicit', 1)"
    ),
]


async def test_a_participant_cannot_let_themselves_in(ben: Viewer, raw, admin):
    [(attic, secret)] = await fetch(
        admin, "select room_id, id from messages where org_id = %s and external_id = 'm0'", [ben.org_id]
    )
    for way in WAYS_IN:
        row = way.format(org=ben.org_id, attic=attic, secret=secret, ben=ben.participant_id)
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            await attempt(raw, ben.org_id, ben, f"insert into {row}")


async def test_an_operator_cannot_reach_into_another_org(secrets: App, open_app, raw, admin):
    other = await open_app("other")
    statements = [
        (
            "insert into rooms (org_id, id, platform, external_id, name, kind, visibility)"
            f" values ('{secrets.org_id}', gen_random_uuid(), 'v', 'r', 'R', 'dm', 'open')"
        ),
        f"insert into orgs (org_id, name) values ('{secrets.org_id}', 'x')",
        "update orgs set name = 'x'",
    ]
    for statement in statements:
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, other.org_id, "operator", statement)
    with pytest.raises(errors.InsufficientPrivilege):
        await attempt(raw, secrets.org_id, "operator", f"update messages set org_id = '{other.org_id}'")
    assert await fetch(admin, "select count(*) from messages where org_id = %s", [other.org_id]) == [(0,)]


async def test_a_row_cannot_point_into_another_org_and_the_refusal_does_not_quote_it(
    secrets: App, open_app, raw, admin
):
    other = await open_app("other")
    [(attic,)] = await fetch(
        admin, "select id from rooms where org_id = %s and external_id = 'attic'", [secrets.org_id]
    )
    told = set()
    for room_id in (attic, uuid4()):
        with pytest.raises(errors.ForeignKeyViolation) as caught:
            await attempt(
                raw,
                other.org_id,
                "operator",
                "insert into activity (org_id, room_id, participant_id, message_count, first_at, last_at)"
                " values (%s, %s, gen_random_uuid(), 1, now(), now())",
                params=[other.org_id, room_id],
            )
        told.add(str(caught.value).replace(str(room_id), "…"))
    assert len(told) == 1
    assert "Attic" not in told.pop()


# Ways around the tables


SIDE_DOORS = [
    "select * from readable_messages",
    "select * from message_embeddings_0",
    "select * from pg_catalog.pg_statistic",
    "select * from pg_catalog.pg_authid",
    "select pg_read_file('postgresql.conf')",
    "select pg_ls_dir('.')",
    "copy messages to '/tmp/messages'",
    "copy messages to program 'cat'",
    "copy messages from '/etc/passwd'",
    "select lo_import('/etc/passwd')",
    "select lo_export(1, '/tmp/out')",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'roomlore_admin'",
    "select * from pg_catalog.pg_largeobject",
    "insert into roomlore.migrations (version, name) values (9999, 'mine')",
    "delete from roomlore.migrations",
    "update roomlore.migrations set version = 9999",
]


async def test_side_doors_are_closed(ben: Viewer, raw):
    for query in SIDE_DOORS:
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, ben.org_id, ben, query)


async def test_copy_out_gives_visible_rows_only(ben: Viewer, raw):
    for source in ("messages", "(select * from messages)", "(table timeline)"):
        async with raw.transaction(), raw.cursor() as cursor:
            await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
            async with cursor.copy(f"copy {source} to stdout") as copy:
                lines = [bytes(line) async for line in copy]
        assert len(lines) == 1
        assert b"secret" not in lines[0]


async def test_statistics_of_columns_are_hidden_and_so_are_other_sessions_queries(ben: Viewer, raw, admin):
    await admin.execute("analyze roomlore.messages")
    assert await fetch(admin, "select count(*) > 0 from pg_stats where tablename = 'messages'") == [(True,)]
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
            shown = await fetch(raw, f"select count(*) from {view} where schemaname = 'roomlore'")
            own = await fetch(
                raw,
                "select count(*) from pg_stats where schemaname = 'roomlore' and tablename = 'migrations'",
            )
            assert shown == (own if view == "pg_stats" else [(0,)])
        queries = await fetch(
            raw, "select query from pg_stat_activity where usename = 'roomlore_admin' and query is not null"
        )
        assert {query for (query,) in queries} <= {"<insufficient privilege>", ""}


async def test_a_leaky_function_in_a_query_never_sees_an_invisible_row(ben: Viewer, raw):
    """A cheap function that raises what it is given is not run before the policy."""
    await raw.execute(
        "create function pg_temp.tell(text) returns boolean language plpgsql cost 0.0000001 as"
        " $$ begin raise notice 'told %', $1; return true; end $$"
    )
    told: list[str] = []
    raw.add_notice_handler(lambda notice: told.append(notice.message_primary))
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        for view in ("messages", "timeline"):
            assert len(await fetch(raw, f"select 1 from {view} where pg_temp.tell(body)")) == 1
        assert (
            await fetch(raw, "select 1 from messages where body like 'secret%' and 1 / length(body) < 2")
            == []
        )
    assert told == ["told good morning"] * 2


async def test_an_error_while_reading_quotes_no_invisible_row(ben: Viewer, raw):
    for query in ("select body::integer from messages", "select 1 from messages where body::integer = 1"):
        with pytest.raises(errors.InvalidTextRepresentation) as caught:
            await attempt(raw, ben.org_id, ben, query)
        assert "good morning" in str(caught.value)
        assert "secret" not in str(caught.value)


async def test_a_plan_quotes_no_invisible_row(ben: Viewer, raw, admin):
    await admin.execute("analyze roomlore.messages")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        plan = await fetch(raw, "explain (analyze, verbose) select * from timeline where body like 'sec%'")
    assert "secret number" not in str(plan)


async def test_temporary_tables_do_not_stand_in_for_ours(cluster: Cluster, ben: Viewer, raw):
    fake = (
        f"create temporary table {{}} as select '{ben.org_id}'::uuid as org_id, '{ben.participant_id}'::uuid"
    )
    stand_ins = {
        "memberships": "as participant_id, (select '-infinity'::timestamptz) as joined_at,"
        " null::timestamptz as left_at, null::uuid as room_id",
        "message_audience": "as participant_id, null::uuid as message_id",
        "participants": "as id, 'agent' as kind",
        "readable_messages": "as id, 'secret' as body",
    }
    for name, rest in stand_ins.items():
        await raw.execute(f"{fake.format(name)} {rest}")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        assert await fetch(raw, "select external_id from roomlore.messages") == [("m2",)]
        assert await fetch(raw, "select viewer_is_agent()") == [(False,)]
        assert await fetch(raw, f"select count(*) from {SEARCHES[0]}") == [(0,)]
    db = await Database.connect(cluster.app_dsn, size=1)
    try:
        async with db.outside_orgs() as conn:
            await conn.execute("create temporary table messages (id uuid) on commit preserve rows")
        async with db.reading(ben) as conn:
            assert await fetch(conn, "select external_id from messages") == [("m2",)]
    finally:
        await db.close()


async def test_functions_of_the_callers_do_not_stand_in_for_ours(ben: Viewer, raw):
    for name, returned in {
        "current_org": "uuid",
        "viewer_id": "uuid",
        "viewer_is_operator": "boolean",
    }.items():
        made = "true" if returned == "boolean" else f"'{ben.org_id}'::uuid"
        await raw.execute(f"create function pg_temp.{name}() returns {returned} language sql return {made}")
    await raw.execute("set search_path = pg_temp, roomlore, public")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        assert await fetch(raw, "select external_id from messages") == [("m2",)]
        assert await fetch(raw, f"select count(*) from {SEARCHES[0]}") == [(0,)]


# Functions that run as the owner


ODD_CALLS = [
    "best_worded('secret', array[]::uuid[], null, null, null, null, 100)",
    "best_worded('secret number', null, null, array['human'], '-infinity', 'infinity', 100)",
    "best_worded('', null, null, null, null, null, 100)",
    "best_worded('''); drop table messages; --', null, null, null, null, null, 100)",
    "best_worded('secret | number & ! <-> :*', null, null, null, null, null, null)",
    "nearest_exact(null, 'fake-hash-384', null, null, null, null, null, 100)",
    "nearest_exact((select array_fill(0, array[384])::vector::halfvec), null, null, null, null, null, null, 100)",
    "nearest_indexed(null, 'fake-hash-384', null, null, null, null, null, null)",
    "take_work('embed', null, 100, 100, interval '1 hour')",
    "take_work(null, null, null, null, null)",
    "take_work('embed', null, 100, 100, interval '1 hour', true)",
    "org_ids()",
]


async def test_odd_arguments_bring_nothing_to_light(ben: Viewer, raw, admin):
    own = await fetch(admin, "select id from messages where org_id = %s and external_id = 'm2'", [ben.org_id])
    stranger = Viewer(org_id=ben.org_id, participant_id=uuid4())
    for call in ODD_CALLS:
        for viewer, readable in ((ben, set(own)), (stranger, set())):
            found = await attempt(raw, ben.org_id, viewer, f"select * from {call}")
            assert {row[:1] for row in found} <= readable, call


async def test_only_a_worker_that_speaks_for_nobody_sees_the_queue(open_app, raw):
    app = await open_app("busy")
    await app.ingest(
        IncomingMessage(
            platform="village",
            room=IncomingRoom(external_id="square", name="Square"),
            external_id="m1",
            author=BEN,
            body="good morning",
            sent_at=at(0),
        )
    )
    ben = await app.viewer("ben")
    for viewer in (str(ben.participant_id), "operator"):
        async with raw.transaction():
            await state(raw, org=str(app.org_id), viewer=viewer)
            assert await fetch(raw, "select * from take_work('embed', null, 9, 9, interval '1 hour')") == []
            assert await fetch(raw, "select * from count_work('embed', null)") == [(0, 0)]
    assert (await fetch(raw, "select waiting from count_work('embed', null)"))[0][0] >= 1


async def test_a_search_by_words_does_not_weigh_what_the_viewer_cannot_read(ben: Viewer, raw):
    query = "select weight, coverage, terms from best_worded('good secret', null, null, null, null, null, 9)"
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        [(_, coverage, terms)] = await fetch(raw, query)
    assert terms == ["good"]
    assert 0 < coverage < 1


async def test_there_are_no_sequences_whose_numbers_tell_how_much_there_is(admin):
    assert (
        await fetch(
            admin,
            "select relname from pg_class where relkind = 'S' and relnamespace = 'roomlore'::regnamespace",
        )
        == []
    )


async def test_large_objects_hold_nothing_of_ours(secrets: App, raw):
    assert secrets.org_id
    assert await fetch(raw, "select count(*) from pg_catalog.pg_largeobject_metadata") == [(0,)]


async def test_the_schema_version_may_be_read_and_nothing_else_of_it(raw):
    assert await fetch(raw, "select count(*) > 0 from roomlore.migrations") == [(True,)]
