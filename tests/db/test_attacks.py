"""What the application's own login can and cannot do with plain SQL, whatever the code above it does."""

import asyncio
import contextlib
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors, sql

from conftest import TellOnce
from db.worlds import Conversation, Memory, Note, World, at, derive, made_id
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.operations import App

ANA = IncomingAuthor(account_id="ana", name="Ana")
ANN = IncomingAuthor(account_id="ann", name="Ann")
BEN = IncomingAuthor(account_id="ben", name="Ben")
TABLES = (
    "orgs", "participants", "platform_accounts", "rooms", "memberships", "messages", "message_audience",
    "message_revisions", "replies", "room_activity", "message_embeddings", "work_queue", "participant_merges", "conversations", "memories",
    "memory_embeddings",
    "memory_sources", "memory_participants", "interactions", "stated_trust", "injections", "erased_accounts", "erased_names",
    "erased_ranges", "receipts",
    "api_keys", "audit_log", "conversation_messages", "privacy_requests", "restricted_messages",
    "llm_calls", "llm_call_messages", "llm_quota", "llm_room_quota", "heartbeats", "outbox", "idempotency",
)  # fmt: skip
SEARCHES = (
    "(select unnest(message_ids) from lexical_candidates('secret', null, false, 100)) as found (message_id)",
    "(select unnest(message_ids) from lexical_candidates('secret', null, true, 100)) as found (message_id)",
    "dense_candidates_exact((select array_fill(1, array[384])::vector::halfvec(384)), 'fake-hash-384', null, 100)",
    "dense_candidates_indexed((select array_fill(1, array[384])::vector::halfvec(384)), 'fake-hash-384', null, 100)",
    "context_window(array(select id from messages), array['secret'], null, '', null, 100)",
    "lexical_memories('village', 100)",
    "dense_memories((select array_fill(1, array[384])::vector::halfvec(384)), 'fake-hash-384', 100)",
    "newest_memories(null, null, null, null, null, null, null, null, null, null, null, null, 100)",
)
#: What functions tell of memories, what the tables tell of them, and whose ids are given.
TIES = (
    (
        "select memory_id, message_id from links_of({}::uuid[]) where message_id is not null",
        "select memory_id, message_id from memory_sources",
        "memories",
    ),
    (
        "select memory_id, participant_id, role from links_of({}::uuid[]) where role is not null",
        "select memory_id, participant_id, role from memory_participants",
        "memories",
    ),
    (
        "select memory_id, tag from links_of({}::uuid[]) where tag is not null",
        "select memory_id, tag from memory_tags",
        "memories",
    ),
    (
        (
            "select memory_id from unnest({}::uuid[]) as asked (id), dense_memories((select array_fill(1, array[384])"
            "::vector::halfvec), 'fake-hash-384', 100) as near where near.memory_id = asked.id"
        ),
        "select memory_id from memory_embeddings",
        "memories",
    ),
    (
        "select message_id, memory_id from derived_from({}::uuid[])",
        "select message_id, memory_id from memory_sources",
        "messages",
    ),
)


CONVERSATION = "conversations (org_id, id, room_id, split_reason, opened_at, last_at, idle_timeout)"
#: What was made of what Ana said.
DERIVED = World(
    rooms=(),
    said=(),
    merges={"ana": 0, "ann": 0},
    conversations=[Conversation(number=0, room="attic", said=["m0", "m1"])],
    memories=[
        Memory(number=0, sources=["m0"], people=[("ana", "author")]),
        Memory(number=1, sources=["m0", "m2"], sensitivity="sensitive"),
        Memory(number=2, asserted_by="ana"),
    ],
    interactions=[(0, "ana", "ben")],
    keys=["ana"],
    lines=[Note(number=0, account="ana", said=["m0"])],
    receipts=[Note(number=0, account="ana", said=["m0"])],
)


async def whispered(app: App) -> None:
    """Tell of Ana, who has two accounts, in a closed room; Ben has only been seen in an open one."""
    attic = IncomingRoom(
        external_id="attic",
        name="Attic",
        visibility="members",
        members=[IncomingMembership(author=ANA), IncomingMembership(author=ANN)],
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
    await derive(app, DERIVED)


@pytest.fixture
async def secrets(app: App, admin, tell_once: TellOnce) -> App:
    """What was whispered, after some of it was erased."""
    await tell_once(app, whispered)
    for table in ("erased_accounts", "erased_names"):
        await admin.execute(f"insert into {table} values (%s, sha256('secret'), now())", [app.org_id])
    await admin.execute(
        "insert into erased_ranges select org_id, id, now(), now() + interval '1 day', now() from rooms"
        " where org_id = %s and external_id = 'attic'",
        [app.org_id],
    )
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


async def attempt(conn, org, viewer, statement, *, params=None, recall="off") -> list[tuple]:
    """Run one statement for a viewer in a transaction of its own; return its rows, or none."""
    async with conn.transaction():
        await state(
            conn, org=str(org), viewer=viewer if isinstance(viewer, str) else str(viewer.participant_id)
        )
        await conn.execute(sql.SQL("set local roomlore.apply_restrictions = {}").format(sql.Literal(recall)))
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("viewer", [None, "", "00000000-0000-0000-0000-000000000000"])
async def test_an_org_without_a_viewer_shows_its_name_only(secrets: App, raw, viewer: str | None):
    async with raw.transaction():
        await state(raw, org=str(secrets.org_id), viewer=viewer)
        assert await visible(raw) == {"orgs": 1}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("org", [None, "", "00000000-0000-0000-0000-000000000000"])
async def test_an_operator_of_no_org_sees_nothing(secrets: App, raw, org: str | None):
    assert secrets.org_id
    async with raw.transaction():
        await state(raw, org=org, viewer="operator")
        assert await visible(raw) == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("garbage", ["everybody", "operator ", "OPERATOR", "'; select 1 --", "*", "null"])
async def test_garbage_for_a_viewer_shows_nothing(secrets: App, raw, garbage: str):
    for call in (*TABLES[1:], *SEARCHES):
        try:
            assert await attempt(raw, secrets.org_id, garbage, f"select * from {call}") == []
        except errors.InvalidTextRepresentation as error:
            assert "secret" not in str(error)  # noqa: PT017  an error is as good as no rows
    with pytest.raises(errors.InvalidTextRepresentation):
        await attempt(raw, secrets.org_id, garbage, "select * from messages")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("garbage", ["everywhere", "%", "{}"])
async def test_garbage_for_an_org_is_an_error(secrets: App, raw, admin, garbage: str):
    assert secrets.org_id
    # A table known to be without rows is read without the org being asked for: there is nothing to show.
    empty = {table for table in TABLES if not await fetch(admin, f"select 1 from {table} limit 1")}
    assert not empty & {"orgs", "participants", "rooms", "memberships", "messages", "room_activity"}
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
            async with db.read_transaction(Viewer(org_id=app.org_id, participant_id=evil)):
                pass


# What the next borrower of a connection finds


async def test_settings_end_with_the_transaction_also_after_an_error(cluster: Cluster, secrets: App):
    db = await Database.connect(cluster.app_dsn, size=1)
    try:
        async with db.read_transaction(secrets.operator) as conn:
            backend = conn.info.backend_pid
            assert await count(conn, "messages") == 3
        with pytest.raises(errors.DivisionByZero):
            async with db.read_transaction(secrets.operator) as conn:
                await conn.execute("select 1 / 0")
        async with db.system_connection() as conn:
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
        async with db.read_transaction(secrets.operator) as conn:
            inside.set()
            await conn.execute("select pg_sleep(60)")

    try:
        task = asyncio.create_task(linger())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with db.system_connection() as conn:
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
                async with db.read_transaction(viewer) as conn:
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


async def test_a_kept_plan_knows_which_accounts_are_the_viewers_now(secrets: App, raw):
    """The rules of what is derived are asked by functions whose plans are kept: a split counts at once."""
    ann, org = await secrets.viewer("ann"), secrets.org_id
    await raw.execute("set plan_cache_mode = force_generic_plan")
    queries = ("select id from memories order by id", "select id from conversations", "select own_ids()")
    for number, query in enumerate(queries):
        await raw.execute(f"prepare look{number} as {query}")

    async def looks() -> list[int]:
        found = [await attempt(raw, org, ann, f"execute look{number}") for number in range(2)]
        [(own,)] = await attempt(raw, org, ann, "execute look2")
        return [*map(len, found), len(own)]

    merged = await looks()
    await attempt(raw, org, "operator", "delete from participant_merges")
    assert (merged, await looks()) == ([2, 1, 2], [1, 1, 1])


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
        "select * from lease_work('embed', null, 10, 10, interval '1 hour')",
        "select ensure_org('another', gen_random_uuid())",
    ):
        with pytest.raises((errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)):
            async with db.read_transaction(ben) as conn:
                await conn.execute(statement)


async def test_a_reading_transaction_sees_one_moment(db: Database, secrets: App, ben: Viewer):
    async with db.read_transaction(ben) as conn:
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
    async with db.read_transaction(ben) as conn:
        assert await count(conn, "messages") == 2


# Changing things


CHANGES = {
    "orgs": "name = 'x'",
    "participants": "name = 'x'",
    "platform_accounts": "account_id = 'x'",
    "rooms": "visibility = 'open'",
    "memberships": "left_at = null",
    "messages": "body = 'x'",
    "message_audience": "participant_id = participant_id",
    "message_revisions": "body = 'x'",
    "replies": "confidence = 0",
    "room_activity": "message_count = 0",
    "message_embeddings": "model = 'x'",
    "memory_embeddings": "model = 'x'",
    "work_queue": "attempts = 0",
    "participant_merges": "person_id = gen_random_uuid()",
    "conversations": "label = 'x'",
    "conversation_messages": "is_manual = true",
    "memories": "content = 'x'",
    "privacy_requests": "status = 'active'",
    "restricted_messages": "from_ids = null",
    "memory_sources": "message_id = message_id",
    "memory_participants": "role = 'subject'",
    "interactions": "messages = 1",
    "stated_trust": "trust = 1",
    "injections": "injected_at = now()",
    "llm_calls": "answer = 'x'",
    "llm_call_messages": "call_id = call_id",
    "llm_quota": "calls = 0",
    "llm_room_quota": "calls = 0",
    "erased_accounts": "erased_at = now()",
    "erased_names": "erased_at = now()",
    "erased_ranges": "erased_at = now()",
    "receipts": "checks = '{}'",
    "api_keys": "revoked_at = null",
    "heartbeats": "seen_at = now()",
    "audit_log": "outcome = 'refused'",
}


#: Tables without rows in that org.
SELDOM = {
    *(
        "message_audience",
        "message_revisions",
        "work_queue",
        "privacy_requests",
        "restricted_messages",
        "llm_calls",
        "llm_call_messages",
        "llm_quota",
    ),
    *("llm_room_quota", "injections", "heartbeats"),
}


async def test_a_participant_changes_nothing(ben: Viewer, raw, admin):
    for table, change in CHANGES.items():
        own_org = f"org_id = '{ben.org_id}'"
        rows = f"select t::text from {table} t where {own_org} order by 1"
        before = await fetch(admin, rows)
        assert before or table in SELDOM
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


#: (table, row) in which `{}` is a key that is taken by a row Ben cannot see, or free.
ORACLES = [
    ("participant_merges", "participant_merges values ('{org}', '{}', gen_random_uuid())", "ana"),
    (
        "memories",
        "memories (org_id, id, kind, content, recorded_at) values ('{org}', '{}', 'fact', 'x', now())",
        "memory",
    ),
    ("memory_sources", "memory_sources values ('{org}', '{memory}', '{}')", "secret"),
    ("memory_participants", "memory_participants values ('{org}', '{memory}', '{}', 'author')", "ana"),
    (
        "conversations",
        f"{CONVERSATION} values ('{{org}}', '{{}}', '{{attic}}', 'first', now(), now(), '1 hour')",
        "conversation",
    ),
    (
        "conversations",
        f"{CONVERSATION} values ('{{org}}', gen_random_uuid(), '{{}}', 'first', now(), now(), '1 hour')",
        "attic",
    ),
    ("conversation_messages", "conversation_messages values ('{org}', '{}', '{conversation}')", "secret"),
    ("conversation_messages", "conversation_messages values ('{org}', '{secret}', '{}')", "conversation"),
    (
        "interactions",
        "interactions values ('{org}', '{conversation}', '{ana}', '{}', 1, 0, 0, 0, 0, now())",
        "ben",
    ),
    (
        "interactions",
        "interactions values ('{org}', '{}', '{ana}', '{ben}', 1, 0, 0, 0, 0, now())",
        "conversation",
    ),
    ("stated_trust", "stated_trust values ('{org}', '{ana}', '{}', 0.5, now())", "ben"),
    (
        "receipts",
        "receipts (org_id, id, at, kind, removed, kept) values ('{org}', '{}', now(), 'message', '{{}}', '{{}}')",
        "receipt",
    ),
    (
        "api_keys",
        (
            "api_keys (org_id, id, name, role, digest, created_at)"
            " values ('{org}', gen_random_uuid(), 'x', 'operator', sha256('{}'), now())"
        ),
        "digested",
    ),
    ("erased_accounts", "erased_accounts values ('{org}', sha256('{}'), now())", "erased"),
    ("erased_names", "erased_names values ('{org}', sha256('{}'), now())", "erased"),
    (
        "audit_log",
        "audit_log (org_id, id, viewer_id, action, outcome) values ('{org}', '{}', '{ana}', 'search', 'done')",
        "line",
    ),
]


async def test_a_refused_insert_does_not_tell_whether_a_key_is_taken(ben: Viewer, raw, admin):
    [(attic, secret, ana)] = await fetch(
        admin,
        "select room_id, id, author_id from messages where org_id = %s and external_id = 'm0'",
        [ben.org_id],
    )
    taken = {
        "org": ben.org_id,
        "attic": attic,
        "secret": secret,
        "ana": ana,
        "ben": ben.participant_id,
        "digested": "0",
        "erased": "secret",
        **{thing: made_id(thing, 0) for thing in ("memory", "conversation", "receipt", "line")},
    }
    for table, row, key in ORACLES:
        told = set()
        for value in (taken[key], uuid4()):
            for ending in ("", " on conflict do nothing"):
                with pytest.raises(errors.InsufficientPrivilege) as caught:
                    await attempt(raw, ben.org_id, ben, f"insert into {row.format(value, **taken)}{ending}")
                told.add(str(caught.value))
        assert told == {f'new row violates row-level security policy for table "{table}"'}, row


async def test_a_row_of_the_operators_that_breaks_a_key_is_not_quoted(secrets: App, raw):
    """Where policies apply, neither the row that is refused nor the one in its way is shown."""
    org = secrets.org_id
    ana = (await secrets.viewer("ana")).participant_id
    for row, refusal in (
        (f"participant_merges values ('{org}', '{ana}', gen_random_uuid())", errors.UniqueViolation),
        (
            f"participant_merges values ('{org}', gen_random_uuid(), gen_random_uuid())",
            errors.ForeignKeyViolation,
        ),
        (f"participant_merges values ('{org}', '{org}', gen_random_uuid())", errors.CheckViolation),
        (
            f"memories values ('{org}', '{made_id('memory', 0)}', 'fact', 'secret', 'normal', null, now())",
            errors.UniqueViolation,
        ),
        (
            f"memories values ('{org}', gen_random_uuid(), 'rumour', 'secret', 'normal', null, now())",
            errors.CheckViolation,
        ),
        (
            f"memory_sources values ('{org}', '{made_id('memory', 0)}', gen_random_uuid())",
            errors.ForeignKeyViolation,
        ),
        (
            (
                "api_keys (org_id, id, name, role, digest, created_at)"
                f" values ('{org}', gen_random_uuid(), 'secret', 'operator', sha256('0'), now())"
            ),
            errors.UniqueViolation,
        ),
    ):
        with pytest.raises(refusal) as caught:
            await attempt(raw, org, "operator", f"insert into {row}")
        assert "(" not in (caught.value.diag.message_detail or ""), row  # as in "Key (id)=(…) exists"
        assert "secret" not in str(caught.value)


WAYS_IN = [
    "memberships (org_id, room_id, participant_id, joined_at) values ('{org}', '{attic}', '{ben}', '-infinity')",
    "message_audience (org_id, message_id, participant_id) values ('{org}', '{secret}', '{ben}')",
    (
        "rooms (org_id, id, platform, external_id, name, kind, visibility)"
        " values ('{org}', '{ben}', 'v', 'r', 'R', 'dm', 'open')"
    ),
    (
        "participants (org_id, id, kind, name, first_name, first_named_at, named_at)"
        " values ('{org}', gen_random_uuid(), 'agent', 'x', 'x', now(), now())"
    ),
    "platform_accounts (org_id, platform, account_id, participant_id) values ('{org}', 'village', 'ana2', '{ben}')",
    "work_queue (org_id, queue, subject_id) values ('{org}', 'embed', '{secret}')",
    (
        "replies (org_id, room_id, child_id, parent_id, method, confidence)"
        " values ('{org}', '{attic}', '{ben}', '{secret}', 'explicit', 1)"
    ),
    # An account of Ana's person, or of a person with her.
    "participant_merges (org_id, participant_id, person_id) values ('{org}', '{ben}', '{person}')",
    "participant_merges (org_id, participant_id, person_id) values ('{org}', '{ana}', gen_random_uuid())",
    (
        "participant_merges (org_id, participant_id, person_id) values ('{org}', '{ben}', '{person}')"
        " on conflict (org_id, participant_id) do update set person_id = excluded.person_id"
    ),
    f"{CONVERSATION} values ('{{org}}', gen_random_uuid(), '{{attic}}', 'first', now(), now(), '1 hour')",
    "conversation_messages (org_id, message_id, conversation_id) values ('{org}', '{secret}', '{conversation}')",
    (
        "memories (org_id, id, kind, content, asserted_by, recorded_at)"
        " values ('{org}', gen_random_uuid(), 'fact', 'x', '{ben}', now())"
    ),
    "memory_sources (org_id, memory_id, message_id) values ('{org}', '{memory}', '{secret}')",
    "memory_participants (org_id, memory_id, participant_id, role) values ('{org}', '{memory}', '{ben}', 'author')",
    ("interactions values ('{org}', '{conversation}', '{ben}', '{ana}', 1, 0, 0, 0, 0, now())"),
    "stated_trust values ('{org}', '{ben}', '{ana}', 1, now())",
    ("injections values ('{org}', '{secret}', '{attic}', '{ben}', '{memory}', '{secret}', now())"),
    "erased_accounts (org_id, digest, erased_at) values ('{org}', sha256('ana'), now())",
    "erased_names (org_id, digest, erased_at) values ('{org}', sha256('ana'), now())",
    (
        "erased_ranges (org_id, room_id, since, until, erased_at)"
        " values ('{org}', '{attic}', now(), now() + interval '1 day', now())"
    ),
    (
        "receipts (org_id, id, at, kind, viewer_id, removed, kept)"
        " values ('{org}', gen_random_uuid(), now(), 'message', '{ben}', '{{}}', '{{}}')"
    ),
    (
        "api_keys (org_id, id, name, role, digest, created_at)"
        " values ('{org}', gen_random_uuid(), 'mine', 'operator', sha256('mine'), now())"
    ),
    # In the name of another, of the operator, of nobody.
    (
        "audit_log (org_id, id, viewer_id, action, outcome)"
        " values ('{org}', gen_random_uuid(), '{ana}', 'search', 'done')"
    ),
    "audit_log (org_id, id, action, outcome) values ('{org}', gen_random_uuid(), 'search', 'done')",
]


async def test_a_participant_cannot_let_themselves_in(ben: Viewer, raw, admin):
    [(attic, secret, ana)] = await fetch(
        admin,
        "select room_id, id, author_id from messages where org_id = %s and external_id = 'm0'",
        [ben.org_id],
    )
    for way in WAYS_IN:
        row = way.format(
            org=ben.org_id,
            attic=attic,
            secret=secret,
            ana=ana,
            ben=ben.participant_id,
            person=made_id("person", 0),
            memory=made_id("memory", 0),
            conversation=made_id("conversation", 0),
        )
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
                "insert into room_activity (org_id, room_id, participant_id, message_count, first_at, last_at)"
                " values (%s, %s, gen_random_uuid(), 1, now(), now())",
                params=[other.org_id, room_id],
            )
        told.add(str(caught.value).replace(str(room_id), "…"))
    assert len(told) == 1
    assert "Attic" not in told.pop()


# What only grows, and what only partly changes


@pytest.mark.parametrize("viewer", ["operator", "ana", "ben"])
async def test_nobody_changes_the_log_once_it_is_written(secrets: App, raw, admin, viewer: str):
    who = secrets.operator if viewer == "operator" else await secrets.viewer(viewer)
    name = "operator" if viewer == "operator" else who
    log = f"select t::text from audit_log t where org_id = '{secrets.org_id}' order by 1"
    before = await fetch(admin, log)
    assert before
    for statement in (
        "update audit_log set outcome = 'refused'",
        "update audit_log set subject_ids = '{}' where viewer_id is not null",
        "delete from audit_log",
        "truncate audit_log",
        "merge into audit_log t using (select 1) s on true when matched then delete",
        (
            f"insert into audit_log (org_id, id, action, outcome) values ('{secrets.org_id}',"
            f" '{made_id('line', 0)}', 'search', 'done') on conflict (org_id, id) do update set outcome = 'refused'"
        ),
        "select * from audit_log for update",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, secrets.org_id, name, statement)
    assert await fetch(admin, log) == before


async def test_a_line_says_when_it_was_written_by_the_servers_clock(ben: Viewer, raw):
    line = f"'{ben.org_id}', gen_random_uuid(), '{ben.participant_id}', 'search', 'done'"
    for viewer in (ben, "operator"):
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied"):
            await attempt(
                raw,
                ben.org_id,
                viewer,
                "insert into audit_log (org_id, id, viewer_id, action, outcome, at)"
                f" values ({line}, '2020-01-01')",
            )
    added = await attempt(
        raw,
        ben.org_id,
        ben,
        f"insert into audit_log (org_id, id, viewer_id, action, outcome) values ({line})"
        " returning at between now() and clock_timestamp()",
    )
    assert added == [(True,)]


async def test_a_participants_line_is_their_own_also_where_they_have_two_accounts(secrets: App, raw):
    ann = (await secrets.viewer("ann")).participant_id
    ana = await secrets.viewer("ana")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        await attempt(
            raw,
            secrets.org_id,
            ana,
            "insert into audit_log (org_id, id, viewer_id, action, outcome)"
            " values (%s, gen_random_uuid(), %s, 'search', 'done')",
            params=[secrets.org_id, ann],
        )


async def test_of_a_receipt_only_the_check_is_filled_in(secrets: App, raw):
    for column in (
        "id",
        "at",
        "kind",
        "room_id",
        "message_id",
        "participant_ids",
        "viewer_id",
        "removed",
        "kept",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, secrets.org_id, "operator", f"update receipts set {column} = {column}")
    for statement in ("delete from receipts", "truncate receipts"):
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, secrets.org_id, "operator", statement)
    filled = "update receipts set checks = '[]', checked_at = now()"
    assert await attempt(raw, secrets.org_id, "operator", filled) == [(1,)]
    assert await attempt(raw, secrets.org_id, await secrets.viewer("ana"), filled) == [(0,)]


async def test_of_a_key_only_its_end_is_changed(secrets: App, raw):
    for column in ("id", "name", "role", "participant_id", "digest", "created_at", "expires_at"):
        with pytest.raises(errors.InsufficientPrivilege):
            await attempt(raw, secrets.org_id, "operator", f"update api_keys set {column} = {column}")


# Coming in


async def test_a_participant_sees_no_key_not_even_their_own(secrets: App, ben: Viewer, raw):
    for viewer in (ben, await secrets.viewer("ana")):
        for query in (
            "select digest from api_keys",
            "select 1 from api_keys where digest = sha256('0')",
            "select count(*) from api_keys having count(*) > 0",
        ):
            assert await attempt(raw, ben.org_id, viewer, query) == []
    assert len(await attempt(raw, ben.org_id, "operator", "select digest from api_keys")) == 1


SIGN_IN = "select key_id, role, participant_id from sign_in(%s, sha256(%s))"


async def test_a_key_lets_in_whoever_comes_without_a_viewer(secrets: App, ben: Viewer, raw):
    ana = (await secrets.viewer("ana")).participant_id
    key = [secrets.org_id, b"0"]
    assert await fetch(raw, SIGN_IN, key) == [(made_id("key", 0), "member", ana)]
    for org in (secrets.org_id, uuid4()):
        for viewer in ("operator", ben, str(ana), str(secrets.org_id), str(uuid4()), "everybody"):
            assert await attempt(raw, org, viewer, SIGN_IN, params=key) == []


async def test_a_key_lets_nobody_in_once_it_has_ended_or_to_another_org(secrets: App, open_app, raw, admin):
    other = await open_app("other")
    ends = {
        b"expired": ("now() - interval '1 second'", "null"),
        b"revoked": ("null", "now()"),
        b"both": ("now() - interval '1 second'", "now()"),
        b"to be revoked": ("now() + interval '1 hour'", "now() + interval '1 hour'"),
        b"valid": ("now() + interval '1 hour'", "null"),
    }
    for secret, (expires_at, revoked_at) in ends.items():
        await admin.execute(
            "insert into api_keys (org_id, id, name, role, digest, created_at, expires_at, revoked_at)"
            f" values (%s, gen_random_uuid(), 'x', 'operator', sha256(%s), now(), {expires_at}, {revoked_at})",
            [secrets.org_id, secret],
        )
    let_in = {secret for secret in ends if await fetch(raw, SIGN_IN, [secrets.org_id, secret])}
    assert let_in == {b"valid"}
    for org in (other.org_id, uuid4(), None):
        assert await fetch(raw, SIGN_IN, [org, b"valid"]) == []
    for digest in (None, b"", b"valid", b"%"):
        assert await fetch(raw, "select * from sign_in(%s, %s)", [secrets.org_id, digest]) == []
    assert await fetch(raw, "select * from sign_in(null, null)") == []


async def test_the_author_of_holes_is_nobody(secrets: App, raw, admin):
    """Whoever read as the org itself would see every hole in every room, as if they had made it."""
    org = secrets.org_id
    await derive(secrets, World(rooms=(), said=(), erased=["m0", "m1"]))
    assert await fetch(admin, "select count(*) from messages where author_id = %s", [org]) == [(2,)]
    async with raw.transaction():
        await state(raw, org=str(org), viewer=str(org))
        assert await visible(raw) == {"orgs": 1}
        assert await fetch(raw, "select viewer_id(), own_ids(), viewer_is_agent()") == [(None, [], False)]
    for row in (
        f"participant_merges values ('{org}', '{org}', gen_random_uuid())",
        (
            "api_keys (org_id, id, name, role, participant_id, digest, created_at)"
            f" values ('{org}', gen_random_uuid(), 'x', 'member', '{org}', sha256('hole'), now())"
        ),
    ):
        with pytest.raises(errors.CheckViolation):
            await attempt(raw, org, "operator", f"insert into {row}")


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


LEAKY = [
    "memories where pg_temp.tell(content)",
    "memories where content::integer = 1",
    "memories where 1 / (length(content) - length(content)) = 1",
    "conversations where pg_temp.tell(label)",
    "conversation_messages where pg_temp.tell(conversation_id::text)",
    "answers where pg_temp.tell(parent_id::text)",
    "participant_merges where pg_temp.tell(person_id::text)",
    "memory_sources where pg_temp.tell(memory_id::text)",
    "memory_participants where pg_temp.tell(participant_id::text)",
    "interactions where pg_temp.tell(messages::text)",
    "injections where pg_temp.tell(memory_id::text)",
    "api_keys where pg_temp.tell(encode(digest, 'hex'))",
    "receipts where pg_temp.tell(removed::text)",
    "audit_log where viewer_id is distinct from viewer_id() and pg_temp.tell(subject_ids::text)",
    "erased_accounts where pg_temp.tell(digest::text)",
    "erased_ranges where pg_temp.tell(room_id::text)",
    "memories join messages on pg_temp.tell(content || body)",
    "messages left join memories on pg_temp.tell(content)",
    "messages, lateral (select pg_temp.tell(content) from memories) as told",
]


async def test_what_is_derived_is_not_shown_to_a_leaky_function_either(ben: Viewer, raw):
    await raw.execute(
        "create function pg_temp.tell(text) returns boolean language plpgsql cost 0.0000001 as"
        " $$ begin raise exception 'told %', $1; end $$"
    )
    for query in LEAKY:
        rows = await attempt(raw, ben.org_id, ben, f"select count(*) from {query}")
        assert rows == [(1,)] if "left join" in query else [(0,)], query
    with pytest.raises(errors.RaiseException, match="recollection"):
        await attempt(raw, ben.org_id, "operator", f"select count(*) from {LEAKY[0]}")


async def test_plans_of_what_is_derived_quote_no_invisible_row(ben: Viewer, raw, admin):
    hidden = await fetch(
        admin,
        "select id::text from messages where org_id = %s and external_id <> 'm2' union all"
        " select id::text from memories where org_id = %s union all"
        " select person_id::text from participant_merges where org_id = %s",
        [ben.org_id] * 3,
    )
    for table in (
        "memories",
        "memory_sources",
        "memory_participants",
        "conversations",
        "conversation_messages",
        "participant_merges",
        "api_keys",
    ):
        await admin.execute(f"analyze roomlore.{table}")
        async with raw.transaction():
            await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
            plan = str(await fetch(raw, f"explain (analyze, verbose) select * from {table}"))
        for text in ("recollection", "label0", *(key for (key,) in hidden)):
            assert text not in plan, table


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
        "participant_merges": f"as participant_id, '{made_id('person', 0)}'::uuid as person_id",
        "memories": "as id, 'normal' as sensitivity, null::uuid as asserted_by",
        "memory_sources": "as memory_id, null::uuid as message_id",
        "conversations": "as id, 'normal' as sensitivity",
        "conversation_messages": "as conversation_id, (select id from roomlore.messages limit 1) as message_id",
    }
    for name, rest in stand_ins.items():
        await raw.execute(f"{fake.format(name)} {rest}")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        assert await fetch(raw, "select external_id from roomlore.messages") == [("m2",)]
        assert await fetch(raw, "select viewer_is_agent()") == [(False,)]
        assert await fetch(raw, f"select count(*) from {SEARCHES[0]}") == [(0,)]
        assert await fetch(raw, "select own_ids()") == [([ben.participant_id],)]
        assert await fetch(raw, "select can_see_memory(%s)", [ben.participant_id]) == [(False,)]
        assert await fetch(raw, "select can_see_conversation(%s)", [ben.participant_id]) == [(False,)]
        assert await fetch(raw, "select messages_in(%s)", [ben.participant_id]) == []
        asked = await fetch(
            raw, "select distinct conversation_of(message_id) from pg_temp.conversation_messages"
        )
        assert {key for (key,) in asked} <= {None}
    db = await Database.connect(cluster.app_dsn, size=1)
    try:
        async with db.system_connection() as conn:
            await conn.execute("create temporary table messages (id uuid) on commit preserve rows")
        async with db.read_transaction(ben) as conn:
            assert await fetch(conn, "select external_id from messages") == [("m2",)]
    finally:
        await db.close()


async def test_functions_of_the_callers_do_not_stand_in_for_ours(ben: Viewer, raw):
    for name, returned in {
        "current_org": "uuid",
        "viewer_id": "uuid",
        "viewer_is_operator": "boolean",
        "own_ids": "uuid[]",
        "can_see_memory": "boolean",
    }.items():
        made = {"boolean": "true", "uuid": f"'{ben.org_id}'::uuid", "uuid[]": "'{}'::uuid[]"}[returned]
        await raw.execute(f"create function pg_temp.{name}() returns {returned} language sql return {made}")
    await raw.execute("set search_path = pg_temp, roomlore, public")
    async with raw.transaction():
        await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
        assert await fetch(raw, "select external_id from messages") == [("m2",)]
        assert await fetch(raw, "select id from roomlore.memories") == []
        assert await fetch(raw, f"select count(*) from {SEARCHES[0]}") == [(0,)]


# Functions that run as the owner


WORDED = "(select unnest(message_ids) as message_id from"
HUMAN, EVER, NEVER = "array['human']", "'-infinity'", "'infinity'"


def scope(*, rooms: str = "null", kinds: str = "null", since: str = "null", until: str = "null") -> str:
    return f"row({rooms}, null, {kinds}, null, null, {since}, {until}, null, null, null)::search_filter"


ODD_CALLS = [
    f"{WORDED} lexical_candidates('secret', {scope(rooms='array[]::uuid[]')}, false, 100)) as found",
    f"{WORDED} lexical_candidates('secret number', {scope(kinds=HUMAN, since=EVER, until=NEVER)}, false, 100)) as found",
    f"{WORDED} lexical_candidates('secret number', {scope(kinds=HUMAN)}, true, 100)) as found",
    f"{WORDED} lexical_candidates('', null, false, 100)) as found",
    "lexical_memories('', 100)",
    "newest_memories(array[null, gen_random_uuid()], '{}', '{}', '{}', '{}', '{}', '{}', '', 'infinity', 'infinity', null, null, 0)",
    "links_of(null)",
    "links_of(array[null, gen_random_uuid()])",
    "derived_from(null)",
    "derived_from(array[null, gen_random_uuid()])",
    "lexical_memories('village''); drop table memories; --', 100)",
    "lexical_memories('village | recollection0 & ! <-> :*', null)",
    "dense_memories(null, 'fake-hash-384', null)",
    "dense_memories((select array_fill(0, array[384])::vector::halfvec), 'fake-hash-384', 100)",
    "dense_memories((select array_fill(1, array[384])::vector::halfvec), null, 100)",
    f"{WORDED} lexical_candidates('', null, true, 100)) as found",
    f"{WORDED} lexical_candidates('''); drop table messages; --', null, true, 100)) as found",
    f"{WORDED} lexical_candidates('secret | number & ! <-> :*', null, null, null)) as found",
    "dense_candidates_exact(null, 'fake-hash-384', null, 100)",
    "dense_candidates_exact((select array_fill(0, array[384])::vector::halfvec), null, null, 100)",
    "dense_candidates_indexed(null, 'fake-hash-384', null, null)",
    "context_window(null, null, null, null, null, null)",
    "token_vectors('fake-hash-384', null)",
    "token_vectors(null, array[null, gen_random_uuid()])",
    "context_window(array[gen_random_uuid()], array['secret', null, ''], null, 'fake-hash-384', null, -1)",
    "lease_work('embed', null, 100, 100, interval '1 hour')",
    "lease_work(null, null, null, null, null)",
    "lease_work('embed', null, 100, 100, interval '1 hour', true)",
    "org_ids()",
]


async def test_odd_arguments_bring_nothing_to_light(ben: Viewer, raw, admin):
    own = await fetch(admin, "select id from messages where org_id = %s and external_id = 'm2'", [ben.org_id])
    stranger = Viewer(org_id=ben.org_id, participant_id=uuid4())
    for call in ODD_CALLS:
        for viewer, readable in ((ben, set(own)), (stranger, set())):
            found = await attempt(raw, ben.org_id, viewer, f"select * from {call}")
            assert {row[:1] for row in found} <= readable, call


async def test_nobody_learns_which_conversation_what_they_cannot_read_is_in(secrets: App, ben: Viewer, raw):
    """Asked from either end, with ids that are right: the answers are those for ids of nothing."""
    held, ann = made_id("conversation", 0), await secrets.viewer("ann")
    rows = await attempt(
        raw, secrets.org_id, "operator", "select message_id, conversation_id from conversation_messages"
    )
    assert {key for _, key in rows} == {held}
    stranger = Viewer(org_id=secrets.org_id, participant_id=uuid4())
    for viewer, is_let_in in ((ann, True), (ben, False), (stranger, False)):
        for message_id, _ in rows:
            [(told,)] = await attempt(
                raw, secrets.org_id, viewer, "select conversation_of(%s)", params=[message_id]
            )
            assert told == (held if is_let_in else None)
        said = await attempt(raw, secrets.org_id, viewer, "select messages_in(%s)", params=[held])
        assert {key for (key,) in said} == ({key for key, _ in rows} if is_let_in else set())
        assert await attempt(raw, secrets.org_id, viewer, "select * from conversation_messages") == []
        for odd in (None, message_id):
            assert await attempt(raw, secrets.org_id, viewer, "select messages_in(%s)", params=[odd]) == []
            asked = "select conversation_of(%s)"
            [(told,)] = await attempt(raw, secrets.org_id, viewer, asked, params=[held if odd else None])
            assert told is None


async def test_a_conversation_of_which_the_viewer_may_read_a_part_is_not_there_for_them(
    secrets: App, ben: Viewer, raw
):
    """With something of Ben's own among it: he learns neither of its id nor where his own message is."""
    held = made_id("conversation", 0)
    await attempt(
        raw,
        secrets.org_id,
        "operator",
        "insert into conversation_messages select org_id, id, %s from messages where external_id = 'm2'",
        params=[held],
    )
    for query in (
        "select id from conversations",
        "select messages_in('{held}')",
        "select conversation_of(id) from messages where conversation_of(id) is not null",
        "select id from conversations where id in (select conversation_of(id) from messages)",
    ):
        assert await attempt(raw, secrets.org_id, ben, query.format(held=held)) == [], query
    ann = await secrets.viewer("ann")
    assert len(await attempt(raw, secrets.org_id, ann, f"select messages_in('{held}')")) == 3


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
            assert await fetch(raw, "select * from lease_work('embed', null, 9, 9, interval '1 hour')") == []
            assert await fetch(raw, "select * from count_work('embed', null)") == [(0, 0)]
    assert (await fetch(raw, "select waiting from count_work('embed', null)"))[0][0] >= 1


async def test_a_search_by_words_does_not_weigh_what_the_viewer_cannot_read(ben: Viewer, raw):
    for is_large in ("false", "true"):
        query = (
            f"select lexemes, rarities from lexical_candidates('good secret nonesuch', null, {is_large}, 9)"
        )
        async with raw.transaction():
            await state(raw, org=str(ben.org_id), viewer=str(ben.participant_id))
            [(lexemes, rarities)] = await fetch(raw, query)
        assert lexemes == ["good", "nonesuch", "secret"]
        # What others say secretly is as rare as what nobody says.
        assert rarities[0] < rarities[1] == rarities[2]


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


async def test_what_memories_are_tied_to_is_told_to_those_alone_whom_the_tables_tell(
    secrets: App, admin, raw, open_app
):
    ids = [
        key for (key,) in await fetch(admin, "select id from memories where org_id = %s", [secrets.org_id])
    ]
    said = [
        key for (key,) in await fetch(admin, "select id from messages where org_id = %s", [secrets.org_id])
    ]
    ana, ben = await secrets.viewer("ana"), await secrets.viewer("ben")
    await admin.execute(
        "insert into memory_tags select org_id, id, 'red' from memories where org_id = %s", [secrets.org_id]
    )
    stranger = Viewer(org_id=secrets.org_id, participant_id=uuid4())
    seen: dict[object, int] = {}
    for viewer in ("operator", ana, ben, stranger):
        for recall in ("on", "off"):
            told = 0
            for function, table, asked in TIES:
                given = sql.SQL(function).format(sql.Literal(said if asked == "messages" else ids))
                by_function = await attempt(raw, secrets.org_id, viewer, given, recall=recall)
                by_table = await attempt(raw, secrets.org_id, viewer, table, recall=recall)
                assert sorted(by_function) == sorted(by_table), (function, viewer, recall)
                told += len(by_function)
            seen[viewer if isinstance(viewer, str) else viewer.participant_id] = told
    assert seen["operator"] >= seen[ana.participant_id] > 0
    assert seen[ben.participant_id] == seen[stranger.participant_id] == 0
    other = await open_app("other")
    for function, _, asked in TIES:
        given = sql.SQL(function).format(sql.Literal(said if asked == "messages" else ids))
        assert await attempt(raw, other.org_id, "operator", given) == []


async def test_memories_are_not_narrowed_by_somebody_whom_the_viewer_may_not_know(
    secrets: App, admin, raw, ben: Viewer
):
    by_ana = (
        "select memory_id"
        " from newest_memories(null, null, {}::uuid[], null, null, null, null, null, null, null, null, null, null)"
    )
    ana = await secrets.viewer("ana")
    asked = sql.SQL(by_ana).format(sql.Literal([ana.participant_id]))
    [(held,)] = await fetch(
        admin,
        "select memory_id from memory_participants where org_id = %s and role = 'author'",
        [secrets.org_id],
    )
    for viewer in ("operator", ana):
        assert await attempt(raw, secrets.org_id, viewer, asked) == [(held,)]
    assert await attempt(raw, secrets.org_id, ben, asked) == []
    # A memory of Ben's own that names somebody whom he does not know is not found by them.
    await admin.execute(
        "update memories set asserted_by = %s where org_id = %s and id = %s",
        [ben.participant_id, secrets.org_id, held],
    )
    await admin.execute(
        "delete from memory_sources where org_id = %s and memory_id = %s", [secrets.org_id, held]
    )
    assert await attempt(raw, secrets.org_id, ben, "select id from memories") == [(held,)]
    assert await attempt(raw, secrets.org_id, ben, asked) == []
