"""The embedded cluster on a real PostgreSQL: it starts once, survives any kill and never outlives its last user."""

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from roomlore.db.binaries import find_binaries
from roomlore.db.cluster import cluster_status, start_cluster, stop_cluster
from roomlore.domain.errors import BadInput, Conflict, DatabaseUnavailable

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the embedded PostgreSQL does not run on Windows"
)
FAST = {"fsync": "off", "full_page_writes": "off"}
ODD_TEXT = "it's \"odd\" \\ #\nlisten_addresses = '*'\tä"
HOLD = """
import asyncio, sys
from pathlib import Path
from roomlore.db.cluster import cluster_status, start_cluster

async def hold(data, binaries=None):
    cluster = await start_cluster(data, settings={"fsync": "off"}, binaries=binaries)
    print(cluster_status(data).pid, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await cluster.close()

asyncio.run(hold(*map(Path, sys.argv[1:])))
"""
AS_NOBODY = """
import asyncio, os, sys, tempfile
from pathlib import Path
import psycopg
from roomlore.db.cluster import cluster_status, start_cluster

async def once(data):
    cluster = await start_cluster(data, settings={"fsync": "off"})
    with psycopg.connect(cluster.app_dsn) as conn:
        print(os.geteuid(), conn.execute("select current_user").fetchone()[0], flush=True)
    await cluster.close()
    assert not cluster_status(data).running

# Once as root, so that all modules are loaded when the interpreter's folder can no longer be read.
with tempfile.TemporaryDirectory() as warm:
    asyncio.run(once(Path(warm)))
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
asyncio.run(once(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data directory with a stopped cluster, to be copied."""
    data = tmp_path_factory.mktemp("made")

    async def make():
        await (await start_cluster(data, settings=FAST)).close()

    asyncio.run(make())
    return data


@pytest.fixture
async def fresh(tmp_path_factory):
    """An empty data directory, with room for a socket in its path; its server is stopped after the test."""
    data = tmp_path_factory.mktemp("data")
    yield data
    await stop_cluster(data, force=True)


@pytest.fixture
async def data(made, fresh):
    """A data directory of a cluster that ran before."""
    shutil.copytree(made, fresh, dirs_exist_ok=True)
    return fresh


@pytest.fixture
def holders():
    """Start other processes that hold the cluster; those still there at the end are killed."""
    with contextlib.ExitStack() as stack:

        def start(*arguments):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", HOLD, *map(str, arguments)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def binaries(tmp_path):
    """The real programs, but initdb first notes that it was called and then runs the given shell line."""
    real = find_binaries(None).folder
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("postgres", "pg_ctl"):
        (folder / name).symlink_to(real / name)
    calls = tmp_path / "calls"
    calls.touch()

    def write(then):
        (folder / "initdb").write_text(f'#!/bin/sh\necho call >>"{calls}"\n{then}\n')
        (folder / "initdb").chmod(0o755)
        return folder, calls

    write.real = f'exec "{real / "initdb"}" "$@"'
    return write


async def until(condition):
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


def one(dsn, query, *values):
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(query, values).fetchone()[0]


def do(dsn, *statements):
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


def kill_server(data):
    """Kill the postmaster and return its pid."""
    pid = cluster_status(data).pid
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.slow
async def test_first_start_creates_a_usable_database(fresh):
    cluster = await start_cluster(fresh, settings=FAST)
    assert one(cluster.app_dsn, "select current_user || ' ' || current_database()") == "roomlore_app roomlore"
    assert (
        one(cluster.admin_dsn, "select current_user || ' ' || current_database()")
        == "roomlore_admin roomlore"
    )
    await cluster.close()
    assert not cluster_status(fresh).running


# On one server with the default settings, which these tests only read


@pytest.fixture(scope="module")
def running(made, tmp_path_factory):
    data = tmp_path_factory.mktemp("running")
    shutil.copytree(made, data, dirs_exist_ok=True)
    cluster = asyncio.run(start_cluster(data, settings={"roomlore.note": ODD_TEXT}))
    yield data, cluster
    asyncio.run(cluster.close())


def test_files_of_the_server_are_private(running):
    home = running[0] / "postgres"
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [home, *home.rglob("*")]}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert modes[home] == modes[home / "socket"] == modes[home / "pgdata"] == 0o700
    assert modes[home / "admin.password"] == modes[home / "app.password"] == 0o600


def test_server_listens_on_no_network(running):
    data, cluster = running
    proc = Path("/proc") / str(cluster_status(data).pid)
    assert one(cluster.admin_dsn, "show listen_addresses") == ""
    if proc.exists():
        sockets = {str(fd.readlink()) for fd in (proc / "fd").iterdir()}
        network = [(proc / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        assert not sockets & {f"socket:[{line.split()[9]}]" for lines in network for line in lines}


def test_default_settings_are_durable_and_the_same_everywhere(running):
    cluster = running[1]
    on = dict.fromkeys(("fsync", "full_page_writes", "synchronous_commit", "data_checksums"), "on")
    expected = on | {"jit": "off", "TimeZone": "UTC", "server_encoding": "UTF8", "roomlore.note": ODD_TEXT}
    assert {name: one(cluster.admin_dsn, f"show {name}") for name in expected} == expected
    assert one(cluster.app_dsn, "select lower('ÄÖÜ ŻÓŁĆ ЖЯ')") == "äöü żółć жя"


def test_application_is_bound_by_row_level_security(running):
    cluster = running[1]
    attributes = "rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolreplication, rolcanlogin"
    with psycopg.connect(cluster.admin_dsn) as conn:
        row = conn.execute(f"select {attributes} from pg_roles where rolname = 'roomlore_app'").fetchone()
    assert row == (False, False, False, False, False, True)
    do(
        cluster.admin_dsn,
        "create table secrets as select 1 as n",
        "alter table secrets enable row level security",
        "grant select on secrets to roomlore_app",
    )
    assert one(cluster.app_dsn, "select count(*) from secrets") == 0
    for statements in (
        ["set row_security = off", "select * from secrets"],
        ["alter role roomlore_app bypassrls"],
        ["set role roomlore_admin"],
        ["create database another"],
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            do(cluster.app_dsn, *statements)


def test_passwords_are_required_and_never_shown(running):
    data, cluster = running
    dsns = (cluster.admin_dsn, cluster.app_dsn)
    for dsn in dsns:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(make_conninfo(dsn, password="guess"))
    passwords = {conninfo_to_dict(dsn)["password"] for dsn in dsns}
    shown = f"{cluster!r} {cluster} {cluster_status(data)!r} {(data / 'postgres/postgres.log').read_text()}"
    assert len(passwords) == 2
    assert [password for password in passwords if password in shown or len(password) < 32] == []


def test_status_describes_a_running_server(running):
    data, _ = running
    status = cluster_status(data)
    assert (status.running, status.in_use, status.version) == (True, True, str(find_binaries(None).major))
    assert status.socket_dir == data / "postgres/socket"
    assert status.size_bytes > 2**20


# Servers of their own


async def test_setting_with_an_invalid_name_is_refused(data):
    with pytest.raises(BadInput, match="is not a name"):
        await start_cluster(data, settings={"fsync = off\nport": "1"})
    assert not cluster_status(data).running


@pytest.mark.slow
async def test_setting_that_the_server_refuses_is_reported(data):
    with pytest.raises(DatabaseUnavailable, match="did not start") as refused:
        await start_cluster(data, settings={"shared_buffers": "plenty"})
    assert "shared_buffers" in str(refused.value)
    assert (cluster_status(data).running, cluster_status(data).in_use) == (False, False)


@pytest.mark.slow
async def test_message_text_never_reaches_the_log(data):
    cluster = await start_cluster(data, settings=FAST)
    do(
        cluster.admin_dsn,
        "create table said (body text primary key, n int)",
        "insert into said values ('heron', 1)",
    )
    for statement in (
        "insert into said values ('heron', 2)",
        "insert into said values ('kestrel', 'osprey')",
        "select heron from said",
        "do $$ begin raise warning 'bittern'; end $$",
    ):
        with contextlib.suppress(psycopg.Error):
            do(cluster.admin_dsn, statement)
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        with contextlib.suppress(psycopg.Error):
            conn.execute("select %s::int", ["curlew"])
        # A backend that dies makes the server log what it was doing.
        busy = conn.info.backend_pid
        killer = asyncio.create_task(asyncio.to_thread(kill_when_active, cluster.admin_dsn, busy))
        with pytest.raises(psycopg.OperationalError):
            await asyncio.to_thread(conn.execute, "select pg_sleep(30), 'dunlin'")
        await killer
    log = data / "postgres/postgres.log"
    await until(lambda: "terminated by signal 9" in log.read_text())
    await cluster.close()
    birds = ("heron", "kestrel", "osprey", "bittern", "curlew", "dunlin")
    assert [bird for bird in birds if bird in log.read_text()] == []


def kill_when_active(dsn, pid):
    with psycopg.connect(dsn, autocommit=True) as conn:
        for _ in range(1000):
            if conn.execute("select state from pg_stat_activity where pid = %s", [pid]).fetchone() == (
                "active",
            ):
                break
            conn.execute("select pg_sleep(0.01)")
    os.kill(pid, signal.SIGKILL)


async def test_second_process_joins_the_server_and_the_last_stops_it(data, holders):
    cluster = await start_cluster(data, settings=FAST)
    pid = cluster_status(data).pid
    other = holders(data)
    assert int(other.stdout.readline()) == pid
    await cluster.close()
    assert (cluster_status(data).pid, cluster_status(data).in_use) == (pid, True)
    other.communicate("\n")
    assert not cluster_status(data).running


@pytest.mark.slow
async def test_second_close_changes_nothing(data):
    first, second = await start_cluster(data, settings=FAST), await start_cluster(data, settings=FAST)
    await asyncio.gather(first.close(), first.close())
    await first.close()
    assert one(second.app_dsn, "select 1") == 1
    await second.close()


@pytest.mark.slow
@pytest.mark.parametrize("next_one", ["starts", "stops"])
async def test_server_whose_holder_was_killed_is_joined_and_stopped(data, holders, next_one):
    other = holders(data)
    pid = int(other.stdout.readline())
    with pytest.raises(Conflict, match="uses"):
        await stop_cluster(data)
    other.kill()
    other.wait()
    left = cluster_status(data)
    assert (left.pid, left.running, left.in_use) == (pid, True, False)
    if next_one == "starts":
        cluster = await start_cluster(data, settings=FAST)
        assert cluster_status(data).pid == pid
        await cluster.close()
    else:
        assert await stop_cluster(data) is True
    assert await stop_cluster(data) is False


@pytest.mark.slow
async def test_server_in_use_is_stopped_by_force(data, holders):
    other = holders(data)
    other.stdout.readline()
    assert await stop_cluster(data, force=True) is True
    assert not cluster_status(data).running


@pytest.mark.slow
async def test_settings_of_the_application_role_are_reset_by_a_start(data):
    cluster = await start_cluster(data, settings=FAST)
    do(cluster.admin_dsn, "alter role roomlore_app superuser bypassrls")
    do(
        cluster.app_dsn,
        "alter role current_user set search_path = pg_temp",
        "alter role current_user in database roomlore set default_transaction_read_only = on",
    )
    await cluster.close()
    cluster = await start_cluster(data, settings=FAST)
    rights = "select rolsuper or rolbypassrls from pg_roles where rolname = 'roomlore_app'"
    assert one(cluster.admin_dsn, rights) is False
    assert one(cluster.admin_dsn, "select count(*) from pg_db_role_setting where setrole <> 0") == 0
    kill_server(data)
    await cluster.close()
    assert (cluster_status(data).running, cluster_status(data).in_use) == (False, False)


@pytest.mark.slow
async def test_killed_server_loses_no_data(data):
    cluster = await start_cluster(data)
    do(cluster.admin_dsn, "create table kept as select 7 as n")
    pid = kill_server(data)
    again = await start_cluster(data)
    assert cluster_status(data).pid != pid
    assert one(again.admin_dsn, "select n from kept") == 7
    await cluster.close()
    assert one(again.admin_dsn, "select n from kept") == 7
    await again.close()
    assert not cluster_status(data).running


@pytest.fixture(params=["zombie", "stranger"])
def somebody(request):
    """The pid of a process that is no server, or of one that has ended and that nobody reaps."""
    with subprocess.Popen(["sleep", "60"]) as process:
        if request.param == "zombie":
            process.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid
        process.kill()


@pytest.mark.slow
async def test_pid_of_a_killed_server_may_belong_to_another_process(data, somebody):
    cluster = await start_cluster(data, settings=FAST)
    kill_server(data)
    await until(lambda: not cluster_status(data).running)
    for file in (data / "postgres/pgdata/postmaster.pid", data / "postgres/socket/.s.PGSQL.5432.lock"):
        file.write_text("\n".join([str(somebody), *file.read_text().splitlines()[1:]]) + "\n")
    again = await start_cluster(data, settings=FAST)
    assert one(again.app_dsn, "select 1") == 1
    await cluster.close()
    await again.close()


@pytest.mark.slow
async def test_incomplete_cluster_is_deleted(fresh):
    half = fresh / "postgres/pgdata.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    cluster = await start_cluster(fresh, settings=FAST)
    assert one(cluster.app_dsn, "select 1") == 1
    assert not half.exists()
    await cluster.close()


@pytest.mark.slow
async def test_killed_first_start_is_repeated_after_its_initdb_ended(fresh, holders, binaries):
    folder, calls = binaries(f"sleep 0.3\n{binaries.real}")
    first = holders(fresh, folder)
    await until(calls.read_text)
    first.kill()
    cluster = await start_cluster(fresh, settings=FAST, binaries=folder)
    assert one(cluster.app_dsn, "select 1") == 1
    assert calls.read_text().split() == ["call", "call"]
    await cluster.close()


@pytest.mark.slow
async def test_missing_logins_and_database_are_created_again(data):
    cluster = await start_cluster(data, settings=FAST)
    server = make_conninfo(cluster.admin_dsn, dbname="postgres")
    do(server, "drop database roomlore", "drop role roomlore_app")
    joined = await start_cluster(data, settings=FAST)
    assert one(joined.app_dsn, "select current_database()") == "roomlore"
    (data / "postgres/app.password").unlink()
    renewed = await start_cluster(data, settings=FAST)
    assert one(renewed.app_dsn, "select current_user") == "roomlore_app"
    for each in (cluster, joined, renewed):
        await each.close()


async def test_lost_password_of_the_owner_is_reported_and_not_replaced(data):
    file = data / "postgres/admin.password"
    file.unlink()
    with pytest.raises(DatabaseUnavailable, match=r"admin\.password is missing"):
        await start_cluster(data, settings=FAST)
    assert not file.exists()
    assert not cluster_status(data).running


@pytest.mark.slow
async def test_four_processes_start_it_first_at_the_same_time(fresh, holders, binaries):
    folder, calls = binaries(binaries.real)
    others = [holders(fresh, folder) for _ in range(4)]
    pids = Counter(await asyncio.gather(*(asyncio.to_thread(other.stdout.readline) for other in others)))
    assert list(pids.values()) == [4]
    assert calls.read_text().split() == ["call"]
    for other in others:
        other.communicate("\n")
        assert other.returncode == 0
    assert not cluster_status(fresh).running


@pytest.mark.slow
async def test_repeated_starts_and_closes_leave_no_server(data):
    async def visit():
        for _ in range(5):
            cluster = await start_cluster(data, settings=FAST)
            assert one(cluster.app_dsn, "select 1") == 1
            cluster_status(data)
            await cluster.close()

    await asyncio.gather(*(visit() for _ in range(4)))
    assert not cluster_status(data).running


@pytest.mark.slow
@pytest.mark.parametrize("length", [60, 200])
async def test_path_too_long_for_a_socket_gets_a_short_one(made, tmp_path, length):
    long = tmp_path / ("d" * length) / ("e" * length)
    shutil.copytree(made, long)
    cluster = await start_cluster(long, settings=FAST)
    sockets = cluster_status(long).socket_dir
    assert not sockets.is_relative_to(tmp_path)
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    kill_server(long)
    again = await start_cluster(long, settings=FAST)
    assert one(again.app_dsn, "select 1") == 1
    assert cluster_status(long).socket_dir == sockets
    await cluster.close()
    await again.close()
    assert not sockets.exists()


@pytest.mark.slow
async def test_path_with_any_characters_works(made, tmp_path):
    odd = tmp_path / 'it\'s "$(touch broken)" `x` \\ , ä'
    shutil.copytree(made, odd)
    cluster = await start_cluster(odd, settings=FAST)
    assert one(cluster.app_dsn, "select 1") == 1
    await cluster.close()
    assert not cluster_status(odd).running


async def test_data_of_another_version_is_refused_with_a_cure(data):
    (data / "postgres/pgdata/PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseUnavailable, match=r"written by PostgreSQL 17") as refused:
        await start_cluster(data, settings=FAST)
    assert "roomlore backup" in refused.value.cure
    assert cluster_status(data).version == "17"


@pytest.mark.slow
async def test_cancelled_start_leaves_nothing_running(fresh, binaries):
    folder, calls = binaries("exec sleep 60")
    start = asyncio.create_task(start_cluster(fresh, binaries=folder))
    await until(calls.read_text)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert (cluster_status(fresh).running, cluster_status(fresh).in_use) == (False, False)
    cluster = await start_cluster(fresh, settings=FAST)
    assert one(cluster.app_dsn, "select 1") == 1
    await cluster.close()


async def test_start_times_out(fresh, binaries):
    folder, _ = binaries("exec sleep 60")
    with pytest.raises(DatabaseUnavailable, match=r"not ready after 0\.2 seconds"):
        await start_cluster(fresh, binaries=folder, start_timeout=0.2)
    assert not cluster_status(fresh).in_use


async def test_error_of_initdb_is_reported(fresh, binaries):
    folder, _ = binaries("echo no room left >&2; exit 1")
    with pytest.raises(DatabaseUnavailable, match="initdb failed: no room left"):
        await start_cluster(fresh, binaries=folder)


async def test_folder_without_programs_is_refused(fresh):
    with pytest.raises(DatabaseUnavailable, match="no usable postgres and no initdb and no pg_ctl"):
        await start_cluster(fresh, binaries=fresh)


async def test_missing_wheel_is_reported(fresh, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DatabaseUnavailable, match="not installed") as refused:
        await start_cluster(fresh)
    assert "--database" in refused.value.cure


async def test_windows_needs_its_own_server(fresh, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(DatabaseUnavailable, match="Windows") as refused:
        await start_cluster(fresh)
    monkeypatch.undo()
    assert "--database" in refused.value.cure


async def test_data_path_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnavailable, match="cannot use"):
        await start_cluster(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by PostgreSQL")
async def test_root_without_user_namespaces_gets_a_cure(data, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(DatabaseUnavailable, match="root") as refused:
        await start_cluster(data)
    assert "ordinary user" in refused.value.cure


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_folder_of_another_user_is_refused(data):
    os.chown(data / "postgres", 65534, 65534)
    with pytest.raises(DatabaseUnavailable, match="belongs to another user"):
        await start_cluster(data)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_ordinary_user_can_run_it():
    programs = find_binaries(None).folder
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in (programs, *programs.parents)):
        pytest.skip(f"an ordinary user cannot read {programs}")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, folder], capture_output=True, text=True, check=False, cwd=folder
        )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0 roomlore_app", "65534 roomlore_app"]


def test_status_of_a_missing_directory_creates_nothing(tmp_path):
    status = cluster_status(tmp_path / "none")
    assert (status.running, status.in_use, status.version, status.size_bytes) == (False, False, None, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_empty_pid_file_of_a_full_disk_does_not_prevent_a_start(data):
    cluster = await start_cluster(data, settings=FAST)
    await cluster.close()
    (data / "postgres" / "pgdata" / "postmaster.pid").touch()

    async with asyncio.timeout(60):
        again = await start_cluster(data, settings=FAST)
    assert again.app_dsn == cluster.app_dsn
    await again.close()


@pytest.mark.slow
async def test_server_returns_to_its_last_socket_folder(made, tmp_path):
    long = tmp_path / ("x" * 90)
    shutil.copytree(made, long)
    cluster = await start_cluster(long, settings=FAST)
    pid = cluster_status(long).pid
    os.kill(pid, signal.SIGKILL)
    (long / "postgres" / "pgdata" / "postmaster.pid").write_text("")

    async with asyncio.timeout(60):
        again = await start_cluster(long, settings=FAST)
    try:
        assert again.app_dsn == cluster.app_dsn
        copy = tmp_path / ("y" * 90)
        shutil.copytree(made, copy)
        shutil.copy(long / "postgres" / "pgdata" / "roomlore.conf", copy / "postgres" / "pgdata")
        other = await start_cluster(copy, settings=FAST)
        assert other.app_dsn != again.app_dsn
        await other.close()
    finally:
        await again.close()
        await cluster.close()


@pytest.mark.slow
async def test_open_files_are_closed_to_other_users(data):
    home = data / "postgres"
    data.chmod(0o755)
    (home / "admin.password").chmod(0o644)
    (home / "postgres.log").chmod(0o644)

    await (await start_cluster(data, settings=FAST)).close()

    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    files = [file for file in home.iterdir() if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.slow
async def test_new_data_directory_is_private_and_a_shared_one_keeps_its_mode(fresh):
    shutil.rmtree(fresh)
    await (await start_cluster(fresh, settings=FAST)).close()
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700
    (fresh / "holiday.jpg").touch()
    fresh.chmod(0o755)
    await (await start_cluster(fresh, settings=FAST)).close()
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o755
