"""What the catalog says about the schema, and how a database comes to have it."""

import asyncio
import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import LiteralString, cast
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from db.catalog import described
from roomlore import doctor
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.db.schema import BASE, HERE, Migration, migrate, migrations, schema, wanted_version
from roomlore.doctor import CheckResult
from roomlore.domain.errors import DatabaseUnavailable, SchemaMismatch
from roomlore.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
SECURITY = DOCS / "security.md"
#: The schema of the first release, once there are migrations since then.
RELEASED = Path(__file__).parent / "released.sql"
#: The one table that belongs to no org.
VERSIONS = "migrations"


async def fetch(conn, query: str, params=None) -> list[tuple]:
    return await (await conn.execute(query, params)).fetchall()


async def first_column(conn, query: str) -> list:
    return [row[0] for row in await fetch(conn, query)]


# The catalog


#: By what it proves, what the catalog says about it and what it should say.
CATALOG: dict[str, tuple[LiteralString, list]] = {
    "only the table of versions lacks forced row security and a policy": (
        """
        select relname from pg_class
        where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p')
          and not (relrowsecurity and relforcerowsecurity and exists (select from pg_policy where polrelid = pg_class.oid))
        """,
        [(VERSIONS,)],
    ),
    "only the owner and the application are named by policies": (
        "select distinct unnest(roles)::text from pg_policies where schemaname = 'roomlore' order by 1",
        [("roomlore_app",), ("roomlore_owner",)],
    ),
    "every policy of the application checks the org first": (
        r"""
        select tablename, policyname from pg_policies
        cross join lateral (values (coalesce(qual, with_check)), (coalesce(with_check, qual))) as rule (text)
        where schemaname = 'roomlore' and 'roomlore_app' = any (roles)
          and rule.text !~ '^\(+org_id = \( SELECT (roomlore\.)?current_org\(\)'
        """,
        [],
    ),
    "every key begins with the org": (
        """
        select c.conrelid::regclass::text || '.' || c.conname
        from pg_constraint c
        join pg_attribute here on here.attrelid = c.conrelid and here.attnum = c.conkey[1]
        left join pg_attribute there on there.attrelid = c.confrelid and there.attnum = c.confkey[1]
        where c.connamespace = 'roomlore'::regnamespace and c.contype in ('p', 'u', 'f')
          and (here.attname <> 'org_id' or there.attname <> 'org_id')
        order by 1
        """,
        [(f"{VERSIONS}.migrations_pkey",), ("orgs.orgs_name_key",)],
    ),
    "every unique index begins with the org": (
        """
        select i.indexrelid::regclass::text
        from pg_index i
        join pg_class c on c.oid = i.indexrelid
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where i.indisunique and c.relnamespace = 'roomlore'::regnamespace and a.attname <> 'org_id'
        order by 1
        """,
        [("migrations_pkey",), ("orgs_name_key",)],
    ),
    "there are no triggers or rules but those of constraints and views": (
        """
        select tgname from pg_trigger join pg_class c on c.oid = tgrelid
        where relnamespace = 'roomlore'::regnamespace and not tgisinternal
        union all
        select rulename from pg_rewrite join pg_class c on c.oid = ev_class
        where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p')
        """,
        [],
    ),
    "the application owns nothing but temporary tables": (
        """
        select classid::regclass::text || ' ' || objid from pg_shdepend
        where refobjid = 'roomlore_app'::regrole and deptype = 'o'
          and objid not in (select oid from pg_class where relpersistence = 't')
        """,
        [],
    ),
    "one role owns all relations": (
        "select distinct relowner::regrole::text from pg_class where relnamespace = 'roomlore'::regnamespace",
        [("roomlore_owner",)],
    ),
    "the roles have no attribute but a login": (
        """
        select rolname, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication, rolcanlogin
        from pg_roles where rolname in ('roomlore_app', 'roomlore_owner') order by 1
        """,
        [("roomlore_app", False, True), ("roomlore_owner", False, False)],
    ),
    "the application is in no other role": (
        "select roleid::regrole::text from pg_auth_members where member = 'roomlore_app'::regrole",
        [],
    ),
    "the application may create nothing": (
        (
            "select nspname from pg_namespace"
            " where has_schema_privilege('roomlore_app', oid, 'create') and nspname not like 'pg_temp%'"
        ),
        [],
    ),
    "the application has only the rights that it needs and grants none": (
        """
        select grantee, table_name, privilege_type from information_schema.role_table_grants
        where table_schema = 'roomlore' and grantee <> 'roomlore_owner'
          and (is_grantable = 'YES' or grantee <> 'roomlore_app'
            or privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
            or table_name = 'readable_messages' or table_name ~ '_[0-9]+$'
            or (table_name in (
              'migrations', 'orgs', 'timeline', 'answers', 'thread_edges', 'embeddable_messages'
            ) and privilege_type <> 'SELECT'))
        """,
        [],
    ),
    "only the owner and the application may call functions": (
        """
        select distinct coalesce(nullif(grantee, 0)::regrole::text, 'public')
        from pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner)))
        where pronamespace = 'roomlore'::regnamespace
        order by 1
        """,
        [("roomlore_app",), ("roomlore_owner",)],
    ),
    "a view that runs as the owner for the viewer checks the org and the viewer": (
        r"""
        select viewname from pg_views
        where schemaname = 'roomlore' and viewname ~ '_viewer$'
          and (definition !~ 'org_id = \( SELECT (roomlore\.)?current_org\(\)' or definition !~ '(viewer_id|own_ids)\(\)')
        """,
        [],
    ),
}


@pytest.mark.parametrize(("query", "expected"), CATALOG.values(), ids=CATALOG)
async def test_the_catalog_says_that(admin, query: LiteralString, expected: list):
    assert await fetch(admin, query) == expected


async def definers(admin) -> list[tuple]:
    return await fetch(
        admin,
        """
        select proname, proowner::regrole::text, coalesce(proconfig, '{}')
        from pg_proc where pronamespace = 'roomlore'::regnamespace and prosecdef
        """,
    )


async def test_every_function_that_runs_as_the_owner_has_a_fixed_path_with_temporary_tables_last(admin):
    found = await definers(admin)
    assert len(found) > 10
    for name, owner, config in found:
        assert owner == "roomlore_owner", name
        assert {setting for setting in config if setting.startswith("search_path=")} <= {
            "search_path=roomlore, pg_temp",
            "search_path=roomlore, public, pg_temp",
        }, name
        assert any(setting.startswith("search_path=") for setting in config), name


async def test_every_function_that_runs_as_the_owner_is_accounted_for(admin):
    listed = set(re.findall(r"^\| `(\w+)` \|", SECURITY.read_text("utf-8"), re.MULTILINE))
    assert listed == {name for name, _, _ in await definers(admin)}


async def test_views_read_as_the_caller_except_those_accounted_for_and_three_that_only_functions_reach(admin):
    views = await fetch(
        admin,
        """
        select relname, coalesce('security_invoker=true' = any (reloptions), false),
          coalesce('security_barrier=true' = any (reloptions), false),
          has_table_privilege('roomlore_app', oid, 'select')
        from pg_class where relnamespace = 'roomlore'::regnamespace and relkind in ('v', 'm')
        """,
    )
    granted = {name: (as_caller, is_barrier) for name, as_caller, is_barrier, granted in views if granted}
    assert {name for name, *_, granted in views if not granted} == {
        "messages_anywhere",
        "readable_messages",
        "recallable_messages",
    }
    as_owner = {name for name, (as_caller, _) in granted.items() if not as_caller}
    assert as_owner == set(re.findall(r"`(\w+_(?:of|to|from)_viewer)`", SECURITY.read_text("utf-8")))
    assert all(is_barrier for name, (_, is_barrier) in granted.items() if name in as_owner)


async def test_policies_and_views_have_the_same_rules(admin):
    """One of who may read a message, and one of where it may be posted."""
    policies = dict(
        await fetch(
            admin,
            "select policyname, qual from pg_policies where schemaname = 'roomlore' and tablename = 'messages'",
        )
    )
    [(anywhere, readable)] = await fetch(
        admin,
        "select pg_get_viewdef('roomlore.messages_anywhere'::regclass),"
        " pg_get_viewdef('roomlore.readable_messages'::regclass)",
    )

    def bare(text: str) -> str:
        return re.sub(r"[\s();]|roomlore\.|messages\.|AS\w+", "", text)

    assert bare(anywhere.split("WHERE", 1)[1]) == bare(policies["read"])
    of_destination = bare(policies["destination_readers"]).removeprefix(
        "org_id=SELECTcurrent_orgAScurrent_orgAND"
    )
    assert bare(readable.split("WHERE", 1)[1]) == f"{bare(policies['read'])}AND{of_destination}"


# What is written about it


def test_the_committed_picture_is_that_of_the_schema():
    drawn = subprocess.run(
        [sys.executable, str(DOCS / "schema.py")],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert (DOCS / "schema.md").read_text("utf-8") == drawn.stdout, "run: make schema"


async def test_every_table_is_in_a_picture(admin):
    tables = await first_column(
        admin,
        "select relname from pg_class"
        " where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p') and not relispartition",
    )
    drawn = re.findall(r"^  (\w+) \{$", (DOCS / "schema.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(drawn) == sorted(tables)


# How a database comes to have it


@contextlib.asynccontextmanager
async def empty_database(cluster: Cluster, admin) -> AsyncGenerator[tuple[str, str]]:
    name = f"fresh_{uuid4().hex}"
    await admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        yield make_conninfo(cluster.admin_dsn, dbname=name), make_conninfo(cluster.app_dsn, dbname=name)
    finally:
        await admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
async def fresh(cluster: Cluster, admin) -> AsyncGenerator[tuple[str, str]]:
    """A second, empty database of the same server: how the administrator and the application reach it."""
    async with empty_database(cluster, admin) as reached:
        yield reached


@pytest.fixture
async def other(cluster: Cluster, admin) -> AsyncGenerator[tuple[str, str]]:
    """A third one."""
    async with empty_database(cluster, admin) as reached:
        yield reached


async def run(dsn: str, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(statement)


async def test_a_second_database_of_the_server_is_migrated_once(fresh):
    admin_dsn, app_dsn = fresh
    assert await migrate(admin_dsn) == [schema()]
    assert await migrate(admin_dsn) == []
    db = await Database.connect(app_dsn, size=1)
    try:
        assert await db.ensure_org("here") == await db.ensure_org("here")
    finally:
        await db.close()


async def schema_finding(dsn: str) -> CheckResult:
    parts = urlencode(conninfo_to_dict(dsn), quote_via=quote)
    findings = await doctor.run_checks(Settings(database=f"postgresql://?{parts}"))
    [found] = [one for one in findings if one.name == "schema"]
    return found


@pytest.mark.slow
async def test_doctor_says_which_database_is_to_be_migrated(fresh):
    admin_dsn, app_dsn = fresh
    found = await schema_finding(app_dsn)
    assert (found.is_well, found.cure) == (False, "run: roomlore migrate")
    await migrate(admin_dsn)
    found = await schema_finding(app_dsn)
    assert (found.is_well, found.detail) == (True, f"version {wanted_version()}")


async def test_a_database_that_was_never_migrated_is_refused(fresh):
    with pytest.raises(SchemaMismatch) as caught:
        await Database.connect(fresh[1])
    assert (caught.value.found, caught.value.wanted) == (0, wanted_version())


async def test_a_server_that_is_too_old_is_refused_in_plain_words(fresh, monkeypatch):
    monkeypatch.setattr("roomlore.db.schema.OLDEST_POSTGRES", 990_000)
    for refusing in (migrate, Database.connect):
        with pytest.raises(DatabaseUnavailable, match=r"too old") as caught:
            await refusing(fresh[0])
        assert "PostgreSQL 99 or newer" in str(caught.value)


@pytest.mark.slow
async def test_processes_that_migrate_at_once_make_the_schema_once(fresh):
    program = (
        "import asyncio, sys; from roomlore.db.schema import migrate;"
        " print(len(asyncio.run(migrate(sys.argv[1]))))"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            fresh[0],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(3)
    ]
    outcomes = [await process.communicate() for process in processes]
    assert [errors for _, errors in outcomes] == [b""] * 3
    assert sorted(int(output) for output, _ in outcomes) == [0, 0, 1]


@pytest.mark.slow
async def test_databases_of_one_server_can_be_migrated_at_once(fresh, other):
    both = await asyncio.gather(migrate(fresh[0]), migrate(other[0]))
    assert both == [[schema()], [schema()]]


async def test_a_newer_database_is_refused_by_reading_and_by_migrating(fresh):
    admin_dsn, app_dsn = fresh
    await migrate(admin_dsn)
    await run(admin_dsn, "insert into roomlore.migrations (version, name) values (9999, 'from the future')")
    with pytest.raises(SchemaMismatch, match="newer Roomlore") as caught:
        await Database.connect(app_dsn)
    assert (caught.value.found, caught.value.wanted) == (9999, wanted_version())
    with pytest.raises(SchemaMismatch):
        await migrate(admin_dsn)


async def versions(dsn: str) -> list[tuple]:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        return await fetch(conn, "select version, name from roomlore.migrations order by version")


NOW = wanted_version()
MORE = (
    "create table more (org_id uuid primary key references orgs)",
    "alter table more add column extra text",
)


@pytest.fixture
def add_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give the code migrations besides its own."""

    def add(*texts: str) -> None:
        shutil.copy(HERE / "schema.sql", tmp_path)
        shutil.copytree(HERE / "migrations", tmp_path / "migrations")
        for number, text in enumerate(texts, NOW + 1):
            (tmp_path / "migrations" / f"{number:04}_more.sql").write_text(text, "utf-8")
        monkeypatch.setattr("roomlore.db.schema.HERE", tmp_path)

    return add


@pytest.mark.slow
async def test_a_database_from_before_the_first_release_is_refused_and_told_that_it_stays_so(fresh):
    admin_dsn, app_dsn = fresh
    await migrate(admin_dsn)
    await run(admin_dsn, f"update roomlore.migrations set version = {BASE - 1}")
    with pytest.raises(SchemaMismatch, match="cannot be brought forward") as caught:
        await Database.connect(app_dsn)
    assert not caught.value.can_be_migrated
    with pytest.raises(SchemaMismatch, match="cannot be brought forward"):
        await migrate(admin_dsn)
    found = await schema_finding(app_dsn)
    assert not found.is_well
    assert "import again" in found.cure


async def test_an_older_database_is_refused_told_how_to_migrate_and_gets_what_it_lacks(fresh, add_migrations):
    admin_dsn, app_dsn = fresh
    await migrate(admin_dsn)
    add_migrations(*MORE)
    with pytest.raises(SchemaMismatch, match="roomlore migrate") as caught:
        await Database.connect(app_dsn)
    assert (caught.value.found, caught.value.wanted) == (NOW, NOW + 2)
    assert caught.value.can_be_migrated
    assert await migrate(admin_dsn) == migrations()[-2:]
    assert await migrate(admin_dsn) == []
    assert await versions(admin_dsn) == [(NOW, "schema"), (NOW + 1, "more"), (NOW + 2, "more")]
    async with await psycopg.AsyncConnection.connect(admin_dsn) as conn:
        owners = await fetch(conn, "select tableowner from pg_tables where tablename = 'more'")
    assert owners == [("roomlore_owner",)]


@pytest.mark.slow
async def test_an_empty_database_gets_the_schema_alone_whatever_migrations_there_are(fresh, add_migrations):
    add_migrations(*MORE)
    assert await migrate(fresh[0]) == [schema()]
    assert await versions(fresh[0]) == [(NOW + 2, "schema")]


@pytest.mark.slow
async def test_a_schema_that_fails_leaves_the_database_as_it_was(fresh, monkeypatch):
    admin_dsn, _ = fresh
    whole = schema()
    broken = Migration(
        version=whole.version, name=whole.name, text=whole.text + sql.SQL("create table orgs ()")
    )
    monkeypatch.setattr("roomlore.db.schema.schema", lambda: broken)
    with pytest.raises(psycopg.errors.DuplicateTable):
        await migrate(admin_dsn)
    monkeypatch.undo()
    async with await psycopg.AsyncConnection.connect(admin_dsn) as conn:
        assert await fetch(conn, "select to_regnamespace('roomlore')") == [(None,)]
    assert await migrate(admin_dsn) == [schema()]


async def test_migrations_of_which_one_fails_leave_the_database_as_it_was(fresh, add_migrations):
    admin_dsn, _ = fresh
    await migrate(admin_dsn)
    add_migrations(*MORE, "create table more ()")
    with pytest.raises(psycopg.errors.DuplicateTable):
        await migrate(admin_dsn)
    assert await versions(admin_dsn) == [(NOW, "schema")]
    async with await psycopg.AsyncConnection.connect(admin_dsn) as conn:
        assert await fetch(conn, "select to_regclass('roomlore.more')") == [(None,)]


async def test_the_applications_login_may_not_migrate(fresh):
    with pytest.raises(DatabaseUnavailable, match="roomlore migrate"):
        await migrate(fresh[1])


def test_migrations_count_on_from_the_base_one_by_one():
    assert [step.version for step in migrations()] == list(range(BASE + 1, wanted_version() + 1))
    assert RELEASED.exists() == bool(migrations()), (
        "the schema as it was released is what migrations begin with"
    )


async def description(dsn: str) -> dict[tuple[str, str], str]:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        return await described(conn)


@pytest.mark.slow
async def test_the_released_schema_and_its_migrations_lead_to_the_schema(fresh, other, monkeypatch):
    await migrate(other[0])
    if RELEASED.exists():
        text = sql.SQL(cast("LiteralString", RELEASED.read_text("utf-8")))
        first = Migration(version=BASE, name="schema", text=text)
        monkeypatch.setattr("roomlore.db.schema.schema", lambda: first)
    steps = [*await migrate(fresh[0]), *await migrate(fresh[0])]
    assert [step.name for step in steps] == ["schema", *(step.name for step in migrations())]
    assert await description(fresh[0]) == await description(other[0])


DIFFERENCES: list[LiteralString] = [
    "alter table rooms add column extra text",
    "alter table rooms alter column topic drop default",
    "alter table rooms drop constraint rooms_direct_closed",
    "alter table rooms no force row level security",
    "alter policy read on rooms using (true)",
    "drop index messages_by_author",
    "grant truncate on rooms to roomlore_app",
    "grant update (at) on audit_log to roomlore_app",
    "alter table rooms owner to current_user",
    "create or replace view embeddable as select org_id, id from embeddable_messages",
    "create or replace function destination_id() returns uuid language sql return null::uuid",
    "revoke execute on function destination_id() from roomlore_app",
    "comment on table rooms is 'rooms'",
]


@pytest.mark.parametrize("statement", DIFFERENCES)
async def test_a_schema_that_differs_is_noticed(admin, statement: LiteralString):
    before = await described(admin)
    async with admin.transaction(force_rollback=True):
        await admin.execute("set local search_path = roomlore, public")
        await admin.execute(statement)
        assert await described(admin) != before
