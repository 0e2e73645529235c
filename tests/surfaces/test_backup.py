"""`backup` and `restore`: between the embedded database and a server, what they say, and when they ask."""

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from operations.databases import Databases
from roomlore.db.cluster import Cluster, start_cluster, stop_cluster
from roomlore.db.schema import migrate
from surfaces.commandline import Done, line, process, refused, roomlore

LINES = [line(1, "ana", "when does the ferry leave"), line(2, "bo", "at nine", reply_to="1")]


def done(*words: object, **options: Any) -> Done:
    ended = roomlore(*words, **options)
    assert ended.code == 0, ended.err
    return ended


def tell(folder: Path, *options: object) -> None:
    export = folder / "messages.jsonl"
    export.write_text("\n".join(map(json.dumps, LINES)) + "\n", encoding="utf-8")
    done(*options, "import", "--no-embed", export)


@pytest.fixture(scope="module")
def databases(cluster: Cluster) -> Generator[Databases]:
    made = Databases(cluster.admin_dsn)
    yield made
    made.drop_all()


@pytest.fixture(scope="module")
def told(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = databases.make()
    asyncio.run(migrate(databases.url(name)))
    tell(tmp_path_factory.mktemp("export"), "--database", databases.url(name))
    return name


@pytest.fixture
def options(databases: Databases, told: str) -> list[str]:
    """The options that name a copy of the told database."""
    return ["--database", databases.url(databases.make(told))]


@pytest.fixture
def empty(databases: Databases) -> list[str]:
    return ["--database", databases.url(databases.make())]


def test_a_backup_says_what_it_holds_and_is_restored(options: list[str], empty: list[str], tmp_path) -> None:
    file = tmp_path / "village.backup"

    text = done(*options, "backup", file).out
    assert text.startswith(f"{file}: 2 messages of 1 org (")
    assert text.endswith(" bytes, checked\n")

    told = done(*empty, "restore", file)
    assert told.out.startswith("restored 2 messages of 1 org (")
    assert "--keep-erasures-from" in told.err
    bodies = [
        one["body"] for one in json.loads(done(*empty, "--json", "messages", "general").out)["messages"]
    ]
    assert bodies == [one["text"] for one in LINES]


def test_both_say_it_as_json(options: list[str], empty: list[str], tmp_path) -> None:
    file = tmp_path / "village.backup"

    made = json.loads(done(*options, "--json", "backup", file).out)
    assert (made["file"], made["messages"], made["size_bytes"]) == (str(file), 2, file.stat().st_size)
    looked = json.loads(done(*empty, "--json", "restore", file, "--dry-run").out)
    assert (looked["is_dry_run"], looked["plan"]["is_empty"]) == (True, True)
    restored = json.loads(done(*empty, "--json", "restore", file).out)
    assert restored["plan"]["rows"] == made["rows"]
    assert restored["erased_again"] is None


def test_no_password_is_printed(options: list[str], cluster: Cluster, tmp_path) -> None:
    password = str(psycopg.conninfo.conninfo_to_dict(cluster.admin_dsn)["password"])
    assert password in options[1]

    ended = [
        done(*options, "backup", tmp_path / "one"),
        roomlore(*options, "restore", tmp_path / "one"),
        done(*options, "restore", tmp_path / "one", "--replace", "--dry-run"),
        done(*options, "restore", tmp_path / "one", "--replace", "--yes"),
        roomlore(*options, "restore", options[1], "--replace", "--yes"),
        roomlore("--database", f"{options[1]}x", "backup", tmp_path / "two"),
    ]

    assert [one.code for one in ended] == [0, 1, 0, 0, 1, 1]
    for one in ended:
        assert password not in one.out + one.err
        assert "Traceback" not in one.err
    assert b"ferry" not in (tmp_path / "one").read_bytes()  # it is compressed
    assert password.encode() not in (tmp_path / "one").read_bytes()


def test_progress_is_shown_on_a_terminal_and_not_in_the_result(options: list[str], tmp_path) -> None:
    ended = done(*options, "backup", tmp_path / "one", typed="")

    assert "backing up" in ended.err
    assert "checking" in ended.err
    assert "backing up" not in ended.out
    assert done("--quiet", *options, "backup", tmp_path / "two", typed="").err == ""


def test_rows_are_replaced_only_with_a_yes(options: list[str], tmp_path) -> None:
    file = tmp_path / "one"
    done(*options, "backup", file)
    done(*options, "erase", "message", "1", "--yes")

    refused(roomlore(*options, "restore", file), 1, "is not empty", "--replace")
    refused(roomlore(*options, "restore", file, "--replace"), 2, "--yes to do it")
    no = roomlore(*options, "restore", file, "--replace", typed="n\n")
    refused(no, 1, "not empty: everything in it is replaced", "nothing was restored")
    yes = done(*options, "restore", file, "--replace", typed="y\n")

    assert "erased again: 1 message\n" in yes.out
    assert "ferry" not in done(*options, "messages", "general").out


def test_a_mistake_is_one_readable_line(options: list[str], empty: list[str], tmp_path) -> None:
    file = tmp_path / "one"
    done(*options, "backup", file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    (tmp_path / "short").write_bytes(data[:-700])

    refused(roomlore(*options, "backup", file), 1, "exists; name another, or pass --overwrite")
    refused(roomlore(*empty, "restore", tmp_path / "damaged"), 1, "is damaged", "use another backup")
    refused(roomlore(*empty, "restore", tmp_path / "short"), 1, "is damaged", "use another backup")
    refused(roomlore(*empty, "restore", tmp_path / "none"), 1, "none", "No such file")
    refused(roomlore(*options, "--as", "ana", "backup", tmp_path / "two"), 2, "leave out --as")
    refused(roomlore(*options, "backup", tmp_path / "two", ROOMLORE_KEY="rlk_x"), 1, "unset ROOMLORE_KEY")
    refused(roomlore("--data", tmp_path / "data", "backup", tmp_path / "two"), 1, "there is none in")
    assert not (tmp_path / "two").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("end", "code"), [(KeyboardInterrupt, 130), (asyncio.CancelledError, 143)])
def test_an_interrupted_backup_leaves_no_file(
    options: list[str], tmp_path, monkeypatch: pytest.MonkeyPatch, *, end: type[BaseException], code: int
) -> None:
    async def interrupt(*_: object) -> None:
        assert [one.name for one in tmp_path.iterdir()] == ["one.part"]
        raise end

    monkeypatch.setattr("roomlore.db.backup.write_tables", interrupt)

    refused(roomlore(*options, "backup", tmp_path / "one"), code, "nothing was backed up")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_command_moves_everything_to_a_server_and_one_back(
    databases: Databases, empty: list[str], tmp_path
) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    tell(tmp_path, "--data", home)

    assert "--keep-erasures-from" not in done(*empty, "restore", home).err
    done("--data", back, "restore", empty[1])

    name = str(psycopg.conninfo.conninfo_to_dict(empty[1])["dbname"])
    assert len(databases.dump(name)["messages"]) == 2
    held = [databases.dump(name)]
    for folder in (home, back):
        cluster = asyncio.run(start_cluster(folder))
        held.append(Databases(cluster.admin_dsn).dump("roomlore"))
        asyncio.run(cluster.close())
    assert held[0] == held[1] == held[2]


@pytest.mark.slow
def test_a_backup_is_made_and_restored_by_processes(tmp_path) -> None:
    home, copy, file = tmp_path / "home", tmp_path / "copy", tmp_path / "one"
    tell(tmp_path, "--data", home)

    made = process("--data", home, "backup", file)
    assert made.code == 0, made.err
    restored = process("--data", copy, "restore", file)
    assert restored.code == 0, restored.err

    assert "at nine" in process("--data", copy, "messages", "general").out
    assert (copy / "postgres").stat().st_mode & 0o777 == 0o700
    for folder in (home, copy):
        assert not asyncio.run(stop_cluster(folder))
