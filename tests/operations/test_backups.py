"""A backup is one moment, whole or refused; a restore gives it back, without what was erased since."""

import gzip
import io
import json
import random
import re
import tarfile
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from db import catalog
from ingest.stories import at, author, message, room
from operations.databases import Databases, opened
from privacy.village import ANA, BO, CY, ids_of, participant, settle
from roomlore.db import backup as store
from roomlore.db import backup_file
from roomlore.db.backup_file import BackupHeader, BackupReader, BackupWriter
from roomlore.db.cluster import Cluster
from roomlore.db.schema import migrate, wanted_version
from roomlore.domain.errors import BadInput, Conflict, DatabaseUnavailable, SchemaMismatch
from roomlore.ingest.erasure_filter import ERASED_REASON
from roomlore.operations import App, backups
from roomlore.operations.backups import RestoreOptions, RestoreReport, restore_backup, write_backup
from roomlore.settings import Settings

NOTHING = RestoreOptions()
REPLACE = RestoreOptions(replace=True)


def unheard(phase: str, done: int, total: int) -> None:
    """Ignore the progress."""


def settings_of(url: str) -> Settings:
    return Settings(database=url)


async def back_up(url: str, file: Path, **options: Any) -> backups.BackupReport:
    return await write_backup(settings_of(url), file, **{"on_progress": unheard, **options})


async def restore(url: str, source: object, options: RestoreOptions = NOTHING) -> RestoreReport:
    report = await restore_backup(settings_of(url), str(source), options, on_progress=unheard)
    assert report is not None
    return report


@pytest.fixture(scope="module")
def databases(cluster: Cluster) -> Generator[Databases]:
    made = Databases(cluster.admin_dsn)
    yield made
    made.drop_all()


@pytest.fixture(scope="module")
async def bare(databases: Databases) -> str:
    """A database with our tables and without rows."""
    name = databases.make()
    await migrate(databases.url(name))
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A database in which a story was told, and its backup."""

    name: str
    file: Path
    report: backups.BackupReport


@pytest.fixture(scope="module")
async def told(databases: Databases, bare: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    name = databases.make(bare)
    async with opened(databases.url(name)) as app:
        await settle(app)
        await app.ingest(message("20", "forget the number 4711, everybody", author=BO))
        await app.ingest(message("21", "the harbour opens at six", author=CY, room=room("pier")))
        await app.erasure.message("4")
        await app.drain()
    async with opened(databases.url(name), "other org") as app:
        await app.ingest(message("1", "Grüße \\N\t“tab”\r\nand\x7f \\. line\n\\.\n", author=author("zoë")))
    file = tmp_path_factory.mktemp("backups") / "village.backup"
    return Told(name=name, file=file, report=await back_up(databases.url(name), file))


@pytest.fixture
def source(databases: Databases, told: Told) -> str:
    """A copy of the told database, to change."""
    return databases.make(told.name)


@pytest.fixture
def empty(databases: Databases) -> str:
    return databases.make()


def uncompressed(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        members = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in members.items()}


# Whole


async def test_a_restored_database_equals_its_source_table_by_table(
    databases: Databases, told: Told, empty: str
) -> None:
    report = await restore(databases.url(empty), told.file)

    wanted = databases.dump(told.name)
    assert databases.dump(empty) == wanted
    assert sum(bool(rows) for rows in wanted.values()) > 20
    assert report.plan.rows == told.report.rows
    assert report.plan.messages == len(wanted["messages"])
    assert report.erased_again is None


async def test_a_restored_schema_is_that_of_a_new_database(
    databases: Databases, told: Told, bare: str, empty: str
) -> None:
    await restore(databases.url(empty), told.file)

    options = "-c search_path=roomlore,public"
    found = []
    for name in (empty, bare):
        async with await psycopg.AsyncConnection.connect(databases.url(name), options=options) as conn:
            found.append(await catalog.described(conn))
    assert found[0] == found[1]
    forced = (
        "select count(*) from pg_class where relnamespace = 'roomlore'::regnamespace and relforcerowsecurity"
    )
    assert databases.rows(empty, forced)[0] > 40


async def test_a_restored_org_is_read_and_written_like_before(
    databases: Databases, told: Told, empty: str
) -> None:
    await restore(databases.url(empty), told.file)

    async with opened(databases.url(empty)) as app:
        assert (await app.search(app.operator, "when does the harbour open")).hits
        assert [one.body for one in await app.messages(app.operator, "pier")] == ["the harbour opens at six"]
        await app.ingest(message("22", "and closes at nine", author=CY, room=room("pier")))
        await app.drain()
        again = await app.ingest_batch([message("4", "Ana joined the room", author=ANA)])
        assert [one.reason for one in again.skipped] == [ERASED_REASON]


async def test_the_audit_log_says_who_backed_up_and_restored(
    databases: Databases, told: Told, empty: str
) -> None:
    await restore(databases.url(empty), told.file)

    actions = (
        "select distinct action from audit_log where viewer_id is null and action in ('backup', 'restore')"
    )
    assert databases.rows(told.name, actions) == ["backup"]
    assert databases.rows(empty, actions) == ["restore"]


async def test_a_backup_is_one_moment_while_others_write(databases: Databases, source: str, tmp_path) -> None:
    url, heard = databases.url(source), list[str]()
    before = databases.dump(source)

    def write_meanwhile(phase: str, *_: int) -> None:
        heard.append(phase)
        if phase == "backing up":
            # An org without its participant would break a reference, and a participant without its org too.
            databases.execute(
                source,
                "with made as (insert into orgs (org_id, name) values (gen_random_uuid(), gen_random_uuid()::text)"
                " returning org_id) insert into participants (org_id, id, kind, name, first_name, named_at,"
                " first_named_at) select org_id, gen_random_uuid(), 'human', 'n', 'n', now(), now() from made",
            )

    report = await back_up(url, tmp_path / "one", on_progress=write_meanwhile)

    assert heard.count("backing up") > 10
    assert report.orgs == len(before["orgs"])
    assert len(databases.dump(source)["orgs"]) > report.orgs
    target = databases.make()
    await restore(databases.url(target), tmp_path / "one")
    assert databases.dump(target) == before


async def test_a_login_that_owns_nothing_may_back_up_and_restore_if_it_may_migrate(
    databases: Databases, told: Told, bare: str, tmp_path
) -> None:
    source, target = databases.make(told.name), databases.make(bare)
    databases.execute(source, "create role backups_landlord login password 'key'")
    databases.execute(source, "grant roomlore_owner, roomlore_app to backups_landlord")
    login = {"user": "backups_landlord", "password": "key"}
    try:
        await back_up(databases.url(source, **login), tmp_path / "one")
        await restore(databases.url(target, **login), tmp_path / "one")
    finally:
        databases.execute(source, "drop role backups_landlord")

    assert databases.dump(target) == databases.dump(told.name)


async def test_the_login_of_the_application_may_not_back_up(
    databases: Databases, told: Told, cluster: Cluster, tmp_path
) -> None:
    login = psycopg.conninfo.conninfo_to_dict(cluster.app_dsn)
    url = databases.url(told.name, user=str(login["user"]), password=str(login["password"]))

    with pytest.raises(DatabaseUnavailable, match="the login that ran `roomlore migrate`"):
        await back_up(url, tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


async def test_a_login_without_any_right_is_told_so(
    databases: Databases, told: Told, source: str, tmp_path
) -> None:
    databases.execute(source, "create role backups_stranger login password 'key'")
    url = databases.url(source, user="backups_stranger", password="key")
    try:
        with pytest.raises(DatabaseUnavailable, match="the login may not use Roomlore's tables"):
            await back_up(url, tmp_path / "one")
        with pytest.raises(DatabaseUnavailable, match="the login may not use Roomlore's tables"):
            await restore(url, told.file, REPLACE)
    finally:
        databases.execute(source, "drop role backups_stranger")
    assert list(tmp_path.iterdir()) == []


# What a file holds


async def test_a_backup_can_be_read_with_tar_and_gunzip(told: Told) -> None:
    members = uncompressed(told.file)

    about = json.loads(members["roomlore-backup.json"])
    assert about["format"] == "roomlore backup"
    assert about["schema_version"] == wanted_version()
    assert about["pgvector"]
    manifest = json.loads(members["manifest.json"])
    assert manifest["embedding_models"]["fake-hash-384"] > 5
    rows = {one["name"]: one["rows"] for one in manifest["tables"]}
    assert members["messages.000001.copy.gz"].count(b"\n") == rows["messages"] == told.report.messages
    assert not rows.keys() & {"outbox", "projections", "heartbeats", "migrations"}


async def test_a_backup_holds_no_key_and_only_its_owner_may_read_it(
    databases: Databases, source: str, tmp_path
) -> None:
    async with opened(databases.url(source)) as app:
        key = (await app.keys.create("operator", name="bridge")).key

    await back_up(databases.url(source), tmp_path / "one")

    text = b"".join(uncompressed(tmp_path / "one").values())
    assert b"bridge" in text
    assert key.encode() not in text
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600


async def test_a_backup_does_not_replace_a_file_unasked(databases: Databases, bare: str, tmp_path) -> None:
    file = tmp_path / "one"
    file.write_text("mine")

    with pytest.raises(BadInput, match="--overwrite"):
        await back_up(databases.url(bare), file)
    assert file.read_text() == "mine"
    await back_up(databases.url(bare), file, overwrite=True)
    assert list(tmp_path.iterdir()) == [file]
    assert tarfile.is_tarfile(file)


async def test_an_interrupted_backup_leaves_nothing(databases: Databases, told: Told, tmp_path) -> None:
    file = tmp_path / "one"
    for phase in ("backing up", "checking"):

        def interrupt(now: str, done: int, _: int, *, when: str = phase) -> None:
            if now == when and done:
                assert [one.name for one in tmp_path.iterdir()] == ["one.part"]
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await back_up(databases.url(told.name), file, on_progress=interrupt)
        assert list(tmp_path.iterdir()) == []


async def test_a_backup_that_reads_back_otherwise_is_not_kept(
    databases: Databases, told: Told, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_wrongly(self: BackupWriter, models: Any) -> None:
        finish(self, models)
        self._stream.seek(2_000)
        self._stream.write(b"?")
        self._stream.flush()

    finish = BackupWriter.finish
    monkeypatch.setattr(BackupWriter, "finish", write_wrongly)

    with pytest.raises(BadInput, match="is damaged"):
        await back_up(databases.url(told.name), tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


async def test_two_backups_to_one_file_do_not_mix(databases: Databases, told: Told, tmp_path) -> None:
    file = tmp_path / "one"
    with backup_file.part_file(file, overwrite=False) as stream:
        stream.write(b"half")
        with pytest.raises(Conflict, match="another process is writing"):
            await back_up(databases.url(told.name), file)
        stream.flush()
        assert file.with_name("one.part").read_bytes() == b"half"
    assert file.read_bytes() == b"half"


async def test_what_a_killed_backup_left_is_written_over(databases: Databases, bare: str, tmp_path) -> None:
    (tmp_path / "one.part").write_bytes(bytes(10**6))

    report = await back_up(databases.url(bare), tmp_path / "one")

    assert (tmp_path / "one").stat().st_size == report.size_bytes < 10**5


async def test_a_folder_that_is_missing_is_named(databases: Databases, bare: str, tmp_path) -> None:
    with pytest.raises(BadInput, match=r"nowhere.*No such file"):
        await back_up(databases.url(bare), tmp_path / "nowhere" / "one")


async def test_there_is_no_backup_of_a_folder_without_a_database(tmp_path) -> None:
    with pytest.raises(BadInput, match="there is none in"):
        await write_backup(Settings(data=tmp_path / "data"), tmp_path / "one", on_progress=unheard)
    assert list(tmp_path.iterdir()) == []


# Damage


def check(data: bytes) -> backup_file.BackupContents:
    return BackupReader(io.BytesIO(data), "one").check(lambda *_: None)


def small_backup() -> bytes:
    stream, header = io.BytesIO(), replace_header()
    writer = BackupWriter.__new__(BackupWriter)
    stream.fileno = lambda: -1  # type: ignore[method-assign]
    writer.__init__(stream, header)  # type: ignore[misc]
    writer.begin_table("orgs", ["org_id", "name"])
    writer.add(b"1\tone\n2\ttwo\n")
    assert writer.end_table() == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        writer.finish({})
    return stream.getvalue()


def replace_header(**fields: Any) -> BackupHeader:
    return BackupHeader(
        **{
            "kind": "database",
            "schema_version": wanted_version(),
            "created_at": datetime(2026, 1, 1, tzinfo=UTC),
            "roomlore": "0.1.0",
            "postgresql": "18.1",
            "pgvector": "0.8.1",
            **fields,
        }
    )


def test_any_changed_byte_is_found() -> None:
    whole = small_backup()
    assert check(whole).total_rows == 2
    # Every byte of the headers and of the end, and some of each member.
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        with pytest.raises(BadInput, match=r"is damaged|is not a backup|has format"):
            check(bytes(data))


@pytest.mark.parametrize("cut", [0, 1, 511, 512, 700, -1, -512, -1024, -1025, -2048, -3000])
def test_a_file_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(BadInput, match=r"is damaged|is not a backup"):
        check(small_backup()[:cut])


def test_a_file_with_something_after_its_end_is_refused() -> None:
    with pytest.raises(BadInput, match="does not end where it should"):
        check(small_backup() + bytes(512))


def test_members_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "MEMBER_BYTES", 50_000)
    monkeypatch.setattr(backup_file, "READ_BYTES", 1_000)
    monkeypatch.setattr("os.fsync", lambda _: None)
    rows = [b"%d\t%s\n" % (number, bytes([97 + number % 26]) * 900) for number in range(500)]
    stream = io.BytesIO()
    stream.fileno = lambda: -1  # type: ignore[method-assign]
    writer = BackupWriter(stream, replace_header())
    for name in ("orgs", "rooms", "empty", "messages"):
        writer.begin_table(name, ["number", "text"])
        for row in rows if name != "empty" else ():
            writer.add(row)
        writer.end_table()
    writer.finish({"model": 3})

    reader = BackupReader(stream, "one")
    contents = reader.check(lambda *_: None)
    read = {}
    for table, pieces in reader.tables(contents):
        text = list(pieces)
        assert max(map(len, text), default=0) <= 1_000
        read[table.name] = b"".join(text)

    whole = b"".join(rows)
    assert read == {"orgs": whole, "rooms": whole, "empty": b"", "messages": whole}
    with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as archive:
        assert len(archive.getnames()) == 3 + 3 * 9


def test_a_file_that_changes_after_its_check_is_noticed() -> None:
    data = bytearray(small_backup())
    reader = BackupReader(io.BytesIO(data), "one")
    contents = reader.check(lambda *_: None)
    table = contents.tables[0]
    other = replace(contents, tables=[replace(table, sha256="0" * 64)])

    [(_, pieces)] = [next(reader.tables(other))]
    with pytest.raises(BadInput, match="has changed"):
        list(pieces)


@pytest.mark.parametrize("content", [b"", b"hello\n", bytes(10_240), b"PK\x03\x04" + bytes(600)])
async def test_another_file_is_no_backup(databases: Databases, empty: str, tmp_path, content: bytes) -> None:
    (tmp_path / "one").write_bytes(content)

    with pytest.raises(BadInput, match="is not a backup of Roomlore"):
        await restore(databases.url(empty), tmp_path / "one")


async def test_a_damaged_file_changes_nothing(
    databases: Databases, told: Told, source: str, tmp_path
) -> None:
    data = bytearray(told.file.read_bytes())
    place = random.Random(7).randrange(2_000, len(data))
    data[place] ^= 4
    (tmp_path / "one").write_bytes(data)
    before = databases.dump(source)

    with pytest.raises(BadInput, match=r"is damaged: .*; nothing was changed, use another backup"):
        await restore(databases.url(source), tmp_path / "one", REPLACE)
    assert databases.dump(source) == before


async def test_a_backup_of_another_schema_version_is_refused_with_both_versions(
    databases: Databases, told: Told, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "wanted_version", lambda: wanted_version() + 1)

    wanted = (
        rf"has schema version {wanted_version()}, and .* has version {wanted_version() + 1}; restore it with"
    )
    with pytest.raises(BadInput, match=wanted):
        await restore(databases.url(empty), told.file)
    assert databases.rows(empty, "select count(*) from pg_namespace where nspname = 'roomlore'") == [0]


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "FORMAT_VERSION", 2)
    newer = small_backup()
    monkeypatch.undo()

    with pytest.raises(
        BadInput, match=r"has format 2, written by Roomlore 0\.1\.0; this Roomlore reads format 1"
    ):
        check(newer)


async def test_an_old_database_is_migrated_before_it_is_backed_up(
    databases: Databases, bare: str, tmp_path
) -> None:
    old = databases.make(bare)
    databases.execute(old, "update migrations set version = version - 1")

    with pytest.raises(SchemaMismatch):
        await back_up(databases.url(old), tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


# Targets


async def test_a_database_with_rows_is_not_filled(databases: Databases, told: Told, source: str) -> None:
    before = databases.dump(source)

    with pytest.raises(
        Conflict, match=r"is not empty; name an empty folder .* or replace everything .* --replace"
    ):
        await restore(databases.url(source), told.file)
    assert databases.dump(source) == before


async def test_a_database_that_was_only_opened_is_empty(databases: Databases, told: Told, bare: str) -> None:
    target = databases.make(bare)
    async with opened(databases.url(target), "default") as app:
        await app.participants(app.operator)

    await restore(databases.url(target), told.file)

    assert databases.dump(target) == databases.dump(told.name)


async def test_nobody_else_may_be_connected(
    databases: Databases, told: Told, bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_GONE_SECONDS", 0.1)
    target = databases.make(bare)

    async with opened(databases.url(target)):
        with pytest.raises(Conflict, match=r"roomlore_admin is connected .* stop `roomlore serve`, workers"):
            await restore(databases.url(target), told.file)
    await restore(databases.url(target), told.file)


async def test_a_dry_run_only_looks(databases: Databases, told: Told, empty: str, source: str) -> None:
    look = RestoreOptions(dry_run=True)

    assert (await restore(databases.url(empty), told.file, look)).plan.is_empty
    assert databases.rows(empty, "select count(*) from pg_namespace where nspname = 'roomlore'") == [0]
    before = databases.dump(source)
    assert not (await restore(databases.url(source), told.file, look)).plan.is_empty
    assert databases.dump(source) == before


async def test_a_failed_restore_leaves_what_was_there(
    databases: Databases, told: Told, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(databases.url(source)) as app:
        await app.ingest(message("30", "newer than the backup", author=CY))
    before = databases.dump(source)

    async def fail(conn: Any) -> None:
        assert "newer than the backup" not in str(
            await (await conn.execute("select array_agg(body) from messages")).fetchone()
        )
        raise Conflict("restore", "failed")

    monkeypatch.setattr(backups, "repeat_erasures", fail)

    with pytest.raises(Conflict, match="failed"):
        await restore(databases.url(source), told.file, REPLACE)
    assert databases.dump(source) == before


async def test_an_interrupted_restore_leaves_what_was_there(
    databases: Databases, told: Told, source: str
) -> None:
    databases.execute(source, "delete from api_keys")
    before = databases.dump(source)

    def interrupt(phase: str, done: int, _: int) -> None:
        if phase == "restoring" and done > 50:
            raise KeyboardInterrupt

    url = databases.url(source)
    with pytest.raises(KeyboardInterrupt):
        await restore_backup(settings_of(url), str(told.file), REPLACE, on_progress=interrupt)
    assert databases.dump(source) == before


async def test_a_restore_is_refused_if_the_answer_is_no(
    databases: Databases, told: Told, source: str
) -> None:
    asked = list[backups.RestorePlan]()
    before = databases.dump(source)

    def confirm(plan: backups.RestorePlan) -> bool:
        asked.append(plan)
        return False

    options = RestoreOptions(replace=True, confirm=confirm)
    done = await restore_backup(
        settings_of(databases.url(source)), str(told.file), options, on_progress=unheard
    )

    assert done is None
    assert [one.is_empty for one in asked] == [False]
    assert databases.dump(source) == before


async def test_one_command_moves_a_database_to_another_server(
    databases: Databases, told: Told, source: str, empty: str
) -> None:
    await restore(databases.url(empty), databases.url(source))

    assert databases.dump(empty) == databases.dump(told.name)


async def test_a_database_is_not_restored_from_itself(databases: Databases, source: str) -> None:
    with pytest.raises(BadInput, match="the source is the database that is to be filled"):
        await restore(databases.url(source), databases.url(source), REPLACE)


async def test_a_key_makes_and_restores_no_backup(databases: Databases, told: Told, tmp_path) -> None:
    keyed = replace(settings_of(databases.url(told.name)), key="rlk_1")

    with pytest.raises(BadInput, match="ROOMLORE_KEY"):
        await write_backup(keyed, tmp_path / "one", on_progress=unheard)
    with pytest.raises(BadInput, match="ROOMLORE_KEY"):
        await restore_backup(keyed, str(told.file), NOTHING, on_progress=unheard)


# What was erased


async def erase_much(app: App) -> None:
    """Erase in every way there is, after the backup."""
    await app.erasure.person("ana")
    await app.erasure.message("3")
    await app.erasure.room("pier")
    await app.erasure.redact("2")
    await app.erasure.range("pair", until=at(10_000))
    [bo] = [key for key in await app.keys.all() if key.name == "for Bo"]
    await app.keys.revoke(str(bo.id))
    await app.erasure.set_retention("closed", timedelta(days=3))


def traces(databases: Databases, name: str) -> list[str]:
    """Return where something that `erase_much` erases still stands."""
    words = re.compile(
        r"the ferry leaves|first words|second words|a secret of mine|behind the door"  # by Ana
        r"|plainly, Ana was late|harbour opens|thanks @|just us|Likes tea|Hates tea"
    )
    held = databases.dump(name)
    return [f"{table}: {row}" for table, rows in held.items() for row in rows if words.search(row)]


@pytest.mark.slow
async def test_what_was_erased_does_not_come_back(databases: Databases, told: Told, source: str) -> None:
    assert len(traces(databases, source)) > 10
    async with opened(databases.url(source)) as app:
        ana, [redacted, third] = await participant(app, "ana"), await ids_of(app, ["2", "3"])
        await erase_much(app)
    after = databases.dump(source)
    assert traces(databases, source) == []

    report = await restore(databases.url(source), told.file, REPLACE)

    assert traces(databases, source) == []
    held = databases.dump(source)
    for table in ("erased_accounts", "erased_names", "erased_ranges", "erased_rooms", "receipts"):
        assert held[table] == after[table], table
    assert str(ana) not in json.dumps({table: rows for table, rows in held.items() if table != "receipts"})
    column = "select erased_at is not null, redacted_at is not null, body from messages where id = %s"
    assert databases.rows(source, column, third) == [(True, True, "")]
    assert databases.rows(source, column, redacted) == [(False, True, "")]
    assert databases.rows(source, "select name from api_keys where revoked_at is not null") == ["for Bo"]
    kept = "select retention_period, retention_starts_at is not null from rooms where external_id = 'closed'"
    assert databases.rows(source, kept) == [(timedelta(days=3), True)]
    assert report.erased_again is not None
    assert dict(report.erased_again) == {
        "messages": report.erased_again["messages"],
        "persons": 1,
        "rooms": 1,
        "redactions": 1,
        "keys": 1,
    }


async def test_times_of_erasures_stay(databases: Databases, told: Told, source: str) -> None:
    async with opened(databases.url(source)) as app:
        await app.erasure.message("3")
        await app.erasure.redact("2")
    times = "select id, erased_at, redacted_at from messages where body = '' order by id"
    before = databases.rows(source, times)
    assert len(before) >= 3

    await restore(databases.url(source), told.file, REPLACE)

    assert databases.rows(source, times) == before


async def test_a_revoked_key_stays_revoked(databases: Databases, told: Told, source: str) -> None:
    async with opened(databases.url(source)) as app:
        [bo] = [key for key in await app.keys.all() if key.name == "for Bo"]
        await app.keys.revoke(str(bo.id))

    report = await restore(databases.url(source), told.file, REPLACE)

    assert databases.rows(source, "select name from api_keys where revoked_at is not null") == ["for Bo"]
    assert report.erased_again == {"keys": 1}


async def test_an_erased_person_is_not_imported_again_after_a_restore(
    databases: Databases, told: Told, source: str
) -> None:
    async with opened(databases.url(source)) as app:
        await app.erasure.person("ana")

    await restore(databases.url(source), told.file, REPLACE)

    async with opened(databases.url(source)) as app:
        said = [message("1", "the ferry leaves at nine"), message("40", "never imported before")]
        again = await app.ingest_batch([replace(one, author=ANA) for one in said])
        assert [one.reason for one in again.skipped] == [ERASED_REASON, ERASED_REASON]
        assert all(receipt.is_clean for receipt in await app.erasure.receipts())
        [receipt] = [one for one in await app.erasure.receipts() if one.kind == "person"]
        assert (await app.erasure.verify(str(receipt.id))).is_clean


@pytest.mark.slow
async def test_the_record_of_erasures_comes_from_another_database_or_a_file(
    databases: Databases, told: Told, source: str, tmp_path
) -> None:
    async with opened(databases.url(source)) as app:
        await erase_much(app)
    await back_up(databases.url(source), tmp_path / "erasures", erasures_only=True)
    assert b"weather" not in b"".join(uncompressed(tmp_path / "erasures").values())
    for place in (databases.url(source), tmp_path / "erasures"):
        target = databases.make()

        done = await restore(databases.url(target), told.file, RestoreOptions(erasures_from=str(place)))

        assert traces(databases, target) == []
        assert done.erased_again is not None
        assert done.erased_again["persons"] == 1
        kept = databases.rows(target, "select count(*) from receipts")
        assert kept == databases.rows(source, "select count(*) from receipts")


@pytest.mark.slow
async def test_a_backup_that_has_the_erasures_is_restored_without_them(
    databases: Databases, source: str, tmp_path
) -> None:
    async with opened(databases.url(source)) as app:
        await erase_much(app)
    await back_up(databases.url(source), tmp_path / "one")
    before = databases.dump(source)

    report = await restore(databases.url(source), tmp_path / "one", REPLACE)

    assert report.erased_again == {}
    assert databases.dump(source) == before


async def test_erasures_of_another_installation_are_refused(
    databases: Databases, told: Told, bare: str, empty: str
) -> None:
    stranger = databases.make(bare)
    async with opened(databases.url(stranger)) as app:
        await app.ingest(message("1", "hello"))

    with pytest.raises(BadInput, match="are of another installation than the backup"):
        await restore(databases.url(empty), told.file, RestoreOptions(erasures_from=databases.url(stranger)))
    assert databases.rows(empty, "select count(*) from roomlore.messages") == [0]


async def test_a_record_of_erasures_is_no_backup_and_a_backup_no_record(
    databases: Databases, told: Told, bare: str, tmp_path
) -> None:
    empty = databases.make()
    await back_up(databases.url(bare), tmp_path / "erasures", erasures_only=True)

    with pytest.raises(BadInput, match="holds only the record of what was erased, not a whole database"):
        await restore(databases.url(empty), tmp_path / "erasures")
    with pytest.raises(BadInput, match="holds a whole database, not only the record"):
        await restore(databases.url(empty), told.file, RestoreOptions(erasures_from=str(told.file)))


@pytest.mark.usefixtures("no_grace")
async def test_messages_that_retention_removed_do_not_come_back(
    databases: Databases, told: Told, source: str
) -> None:
    async with opened(databases.url(source)) as app:
        await app.erasure.set_retention("general", timedelta(days=1))
        assert await app.erasure.erase_expired()
    assert "just us" in str(traces(databases, source))

    await restore(databases.url(source), told.file, REPLACE)

    words = re.compile("the ferry leaves|plainly, Ana|weather is fine")
    assert not words.search(json.dumps(databases.dump(source)["messages"]))
    assert "just us" in str(traces(databases, source))


async def test_what_somebody_wanted_forgotten_since_stays_hidden(
    databases: Databases, bare: str, tmp_path
) -> None:
    name = databases.make(bare)
    async with opened(databases.url(name)) as app:
        await app.ingest(message("1", "where do we meet?", author=BO))
        await app.ingest(message("2", "my account is 4412-9981", author=ANA))
        await app.ingest(message("3", "got it, 4412-9981", author=BO))
    await back_up(databases.url(name), tmp_path / "one")
    async with opened(databases.url(name)) as app:
        await app.ingest(message("4", "please forget that", author=ANA))
        hidden = set(await ids_of(app, ["2", "3"]))
    restricted = "select message_id from restricted_messages"
    assert hidden <= set(databases.rows(name, restricted))

    # The second time, only the request's tombstone says what to hide.
    for _ in range(2):
        report = await restore(databases.url(name), tmp_path / "one", REPLACE)

        assert set(databases.rows(name, restricted)) == hidden
        assert databases.rows(name, "select message_id, author_id, status from privacy_requests") == [
            (None, None, "active")
        ]
        assert report.erased_again == {"restrictions": 2}
    async with opened(databases.url(name)) as app:
        assert "4412" not in str(await app.search(app.operator, "4412-9981"))


@pytest.mark.slow
async def test_a_request_that_was_applied_since_stays_applied(
    databases: Databases, bare: str, tmp_path
) -> None:
    name = databases.make(bare)
    async with opened(databases.url(name)) as app:
        await app.privacy_requests.set_mode("propose")
        await app.ingest(message("2", "my account is 4412-9981", author=ANA))
        await app.ingest(message("4", "please forget that", author=ANA))
    await back_up(databases.url(name), tmp_path / "one")
    async with opened(databases.url(name)) as app:
        [request] = await app.privacy_requests.all(app.operator)
        await app.privacy_requests.apply(str(request.id))
    before = databases.dump(name)["restricted_messages"]
    assert before

    await restore(databases.url(name), tmp_path / "one", REPLACE)

    assert databases.dump(name)["restricted_messages"] == before
    assert databases.rows(name, "select id, status, message_id is null from privacy_requests") == [
        (request.id, "active", False)
    ]


async def test_a_restore_that_would_bring_something_back_changes_nothing(
    databases: Databases, told: Told, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(databases.url(source)) as app:
        await app.erasure.person("ana")
    before = databases.dump(source)

    async def forget_nothing(*_: Any, **__: Any) -> Any:
        return Counter(), {}

    monkeypatch.setattr("roomlore.privacy.erasure.erase_person", forget_nothing)

    with pytest.raises(Conflict, match=r"what was erased would come back \(1 participants"):
        await restore(databases.url(source), told.file, REPLACE)
    assert databases.dump(source) == before


async def test_the_audit_log_and_the_indexes_of_a_replaced_database_stay(
    databases: Databases, told: Told, source: str
) -> None:
    databases.execute(
        source,
        "insert into projections (org_id, target, index_name, fencing_token)"
        " select org_id, 'qdrant', 'roomlore-1', 7 from orgs where name = 'village'",
    )
    async with opened(databases.url(source)) as app:
        await app.participants(app.operator)
    lines = databases.rows(source, "select to_jsonb(t)::text from audit_log as t order by id")

    await restore(databases.url(source), told.file, REPLACE)

    kept = databases.rows(
        source, "select to_jsonb(t)::text from audit_log as t where action <> 'restore' order by id"
    )
    assert kept == lines
    assert databases.rows(source, "select index_name, fencing_token from projections") == [("roomlore-1", 7)]
