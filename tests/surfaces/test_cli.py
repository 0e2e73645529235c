"""The command line as a whole: global options, streams, exit codes, imports, signals and the demo."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from roomlore import operations as composition
from roomlore.cli import demo as demo_command
from roomlore.db.cluster import Cluster, cluster_status, start_cluster
from roomlore.settings import Settings
from surfaces.commandline import CommandLine, Done, process, refused, roomlore

TRACEBACK = "Traceback"
STORY = Path(demo_command.__file__).with_name("demo.jsonl")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory with the demo in it, whose server stays up for the module."""
    folder = tmp_path_factory.mktemp("cli")
    server = asyncio.run(start_cluster(folder))
    told = process("--data", folder, "demo")
    assert told.code == 0, told.err
    (folder / "told.txt").write_text(told.out, encoding="utf-8")
    yield folder
    asyncio.run(server.close())


@pytest.fixture(scope="module")
def island(cluster: Cluster) -> CommandLine:
    """The messages of the demo, on the server of the session."""
    command_line = CommandLine(cluster=cluster)
    assert command_line.json("import", STORY, "--no-embed")["skipped"] == {}
    return command_line


def demo(data: Path, *words) -> Done:
    return roomlore("--data", data, "--org", "demo", *words)


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_says(data):
    """Line by line; an ellipsis stands for omitted lines, and the time may differ."""
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("```console\n$ make demo\nStored in ")
    expected = rest.partition("```\n")[0].splitlines()[1:]
    told = [line.rstrip() for line in (data / "told.txt").read_text(encoding="utf-8").splitlines()][1:]
    place = 0
    for before, line in pairwise(["", *expected]):
        if line == "…":
            continue
        if before == "…":
            place = told.index(line, place)
        assert told[place] == line
        place += 1


@pytest.mark.slow
def test_a_second_demo_adds_nothing(data):
    told = json.loads(roomlore("--data", data, "--json", "demo").out)
    assert told["stored"]["stored"]["added"] == 0
    assert told["stored"]["skipped"] == {}
    assert "41,500" in told["only_for_members"]["teo"]
    assert "41,500" not in told["only_for_members"]["hal"]


def test_a_context_cites_every_line(island):
    context = island.json("--as", "almanac", "context", "harbour", "--explain")
    labels = [
        line.split()[0].removeprefix("#") for line in context["text"].splitlines() if line.startswith("#m")
    ]
    assert set(labels) == set(context["citations"])
    assert context["tokens"] <= context["budget"]
    assert {item["included"] for item in context["explain"]} >= {True}


@pytest.mark.slow
def test_only_members_get_answers_from_a_closed_room(data):
    question = "what is the starting salary for the new skipper?"
    assert "41,500" in demo(data, "--as", "teo", "ask", question).out
    for outsider in ("hal", "priya"):
        assert "41,500" not in demo(data, "--as", outsider, "ask", question).out
        assert "41,500" not in demo(data, "--as", outsider, "search", question).out


def test_global_options_go_before_the_verb_or_after_it(island):
    before = island("--json", "--as", "hal", "rooms").out
    after = roomlore("rooms", "--as", "hal", "--json", *island.options).out
    assert before == after
    assert "hiring" not in {room["name"] for room in json.loads(after)}
    assert json.loads(roomlore("--text", "keys", "list", "--json", *island.options).out) == []


def test_a_hidden_room_and_a_missing_one_get_the_same_answer(island):
    hidden = island("--as", "hal", "messages", "hiring")
    missing = island("--as", "hal", "messages", "nosuch")
    refused(hidden, 1, "no room 'hiring'")
    assert hidden.err.replace("hiring", "nosuch") == missing.err


@pytest.mark.slow
def test_quiet_prints_no_notes(data):
    done = demo(data, "-q", "--text", "search", "dredging")
    assert "port-office" in done.out
    assert done.err == ""


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["bogus"], 2, "No such command"),
        (["search"], 2, "Missing argument"),
        (["messages", "nosuch"], 1, "no room"),
        (["context", "harbour", "--at", "nosuch"], 1, "no message"),
        (["--as", "nobody", "rooms"], 1, "no participant"),
        (["import", "nosuch.json"], 1, "nosuch.json"),
        (["--database", "nonsense", "rooms"], 1, "must be a URL"),
        (["ask", " "], 1, "must not be empty"),
        (["--org", "typo", "rooms"], 1, "no org 'typo'"),
        (["--org", "", "rooms"], 1, "must not be empty"),
        (["import", ""], 2, "must not be empty"),
        (["--database", "postgresql://me:100%sure@h/db", "rooms"], 1, "not a valid URL"),
        (["--database", "postgresql://me:s3cret@[host/db", "doctor"], 1, ""),
        (["search", "--limit", "0", "x"], 2, "0 is not in the range"),
    ],
)
def test_a_mistake_is_one_readable_line(island, words, code, reason):
    done = island(*words)
    refused(done, code, reason)
    assert "100%" not in done.out + done.err
    assert "s3cret" not in done.out + done.err


@pytest.mark.slow
def test_text_that_no_database_can_store_finds_nothing(data):
    for word in ("caf\udce9", "nul"):
        done = demo(data, "search", word)
        assert done.code == 0, done.err
        refused(demo(data, "messages", word), 1, "no room")
        refused(demo(data, "--as", word, "rooms"), 1, "no participant")


def test_a_dry_run_leaves_no_trace(tmp_path):
    export = tmp_path / "chat.jsonl"
    record = {
        "schema": "roomlore.message/1",
        "platform": "p",
        "room": "club",
        "id": "1",
        "author": "Ana",
        "text": "hi",
        "sent_at": 0,
    }
    export.write_text(json.dumps(record))
    done = roomlore("--data", tmp_path / "data", "--json", "import", export, "--dry-run")
    assert json.loads(done.out)["messages"] == 1
    assert not (tmp_path / "data").exists()


def test_an_unreachable_database_says_what_to_do(tmp_path):
    url = f"postgresql://nobody:hunter2@/nothing?host={tmp_path}"
    for verb in ("rooms", "doctor", "migrate"):
        done = roomlore("--database", url, verb)
        refused(done, 1)
        assert "hunter2" not in done.out + done.err


def test_the_zone_of_a_log_is_an_option_or_reported_as_assumed(tmp_path):
    export = tmp_path / "#plans.log"
    export.write_text("--- Log opened Thu Feb 26 22:00:00 2026\n22:01 <ana> hi\n", encoding="utf-8")
    assert json.loads(roomlore("--json", "import", export, "--dry-run").out)["zone_assumed"] == 1
    zoned = roomlore("--json", "import", export, "--dry-run", "--timezone", "Europe/Berlin")
    assert json.loads(zoned.out)["zone_assumed"] == 0
    refused(roomlore("import", export, "--dry-run", "--timezone", "Berlin"), 2, "Europe/Berlin")


@pytest.mark.slow
def test_an_import_can_be_repeated(data, tmp_path):
    export = tmp_path / "club.jsonl"
    lines = [
        {
            "platform": "p",
            "room": "club",
            "id": str(i),
            "author": "Ana",
            "text": f"note {i}",
            "sent_at": "2026-01-01T10:00:00Z",
        }
        for i in range(3)
    ]
    lines[0]["schema"] = "roomlore.message/1"
    export.write_text("\n".join(map(json.dumps, lines)) + "\n{broken\n")
    fields = {"rooms", "messages", "system", "authors", "replies", "edits", "skipped", "secrets_stripped"}
    dry = json.loads(roomlore("import", export, "--dry-run", "--json").out)
    first = roomlore("--data", data, "--org", "club", "--json", "import", export)
    report = json.loads(first.out)
    again = json.loads(roomlore("import", export, "--json", "--data", data, "--org", "club").out)
    assert fields <= set(report)
    assert {name: dry[name] for name in fields} == {name: report[name] for name in fields}
    assert report["messages"] == 3
    assert sum(report["skipped"].values()) == 1
    assert "club.jsonl" in first.err
    assert report["stored"]["added"] == 3
    assert again["stored"] == {"added": 0, "unchanged": 3, "revised": 0, "redacted": 0}


@pytest.mark.slow
def test_an_interrupted_import_is_completed_by_a_second_one(data, tmp_path):
    count = 60_000
    export = tmp_path / "long.jsonl"
    with export.open("w") as file:
        for i in range(count):
            record = {
                "platform": "p",
                "room": "long",
                "id": str(i),
                "author": "Ana",
                "text": f"word {i}",
                "sent_at": 1767261600000 + i,
            }
            file.write(json.dumps(record | ({"schema": "roomlore.message/1"} if i == 0 else {})) + "\n")
    command = [sys.executable, "-m", "roomlore", "--data", str(data), "--org", "long", "import", str(export)]
    command.append("--no-embed")
    # The org exists before, so that the loop below sees the room at once.
    first = tmp_path / "first.jsonl"
    first.write_text(export.read_text().partition("\n")[0].replace('"long"', '"first"'))
    roomlore("--data", data, "--org", "long", "import", first, "--no-embed")
    process = asyncio.run(interrupted(command, Settings(data=data, org="long"), "long"))
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 130
    assert TRACEBACK not in stderr
    assert "you can run this again" in stderr
    rooms = json.loads(roomlore("--data", data, "--org", "long", "--json", "rooms").out)
    [stored] = [room["message_count"] for room in rooms if room["name"] == "long"]
    assert 0 < stored < count
    done = roomlore("--data", data, "--org", "long", "--json", "import", export, "--no-embed")
    assert json.loads(done.out)["stored"]["added"] == count - stored


async def interrupted(command: list[str], settings: Settings, room: str) -> subprocess.Popen:
    """Return a process that was told to stop as soon as it had stored something in a room."""
    async with composition.open(settings) as app, asyncio.timeout(200):
        process = subprocess.Popen(  # noqa: ASYNC220  nobody else waits for this loop
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while all(one.name != room for one in await app.rooms(app.operator)):  # noqa: ASYNC110  another process stores it
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
    return process


@pytest.mark.slow
def test_a_worker_stops_on_sigterm(data):
    command = [sys.executable, "-m", "roomlore", "--data", str(data), "worker"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "waiting for work" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=200) == 0
    process.stderr.close()


@pytest.mark.slow
def test_doctor_checks_everything_and_stops_the_server(tmp_path):
    done = process("--data", tmp_path, "doctor", "--json")
    assert done.code == 0, done.out
    findings = {finding["name"]: finding for finding in json.loads(done.out)}
    assert {"python", "embedding model", "postgresql", "pgvector", "schema"} <= set(findings)
    assert all(finding["is_well"] or finding["cure"] for finding in findings.values())
    stopped = process("--data", tmp_path, "doctor", "--stop")
    assert stopped.code == 0
    assert "was not running" in stopped.err


@pytest.mark.slow
def test_a_server_in_use_is_stopped_only_by_force(data):
    refused(roomlore("--data", data, "doctor", "--stop"), 1, "use")


def test_a_folder_of_several_formats_is_refused_and_not_read_in_part(tmp_path):
    (tmp_path / "chat.jsonl").write_text(
        '{"schema": "roomlore.message/1", "platform": "p", "room": "r", "id": "1", "author": "A", "text": "x", "sent_at": 0}'
    )
    (tmp_path / "2024-01-02.txt").write_text("[10:00] <ana> hello\n[10:01] <ben> hi\n")
    refused(roomlore("import", tmp_path, "--dry-run"), 1, "several formats", "jsonl", "irc")
    assert (
        json.loads(roomlore("--json", "import", tmp_path, "--dry-run", "--format", "irc").out)["messages"]
        == 2
    )


@pytest.mark.slow
def test_an_import_stops_its_server_on_sigterm(tmp_path):
    export = tmp_path / "long.jsonl"
    record = {
        "schema": "roomlore.message/1",
        "platform": "p",
        "room": "long",
        "author": "Ana",
        "text": "word",
    }
    with export.open("w") as file:
        for i in range(80_000):
            file.write(json.dumps(record | {"id": str(i), "sent_at": 1767261600000 + i}) + "\n")
    data = tmp_path / "data"
    command = [sys.executable, "-m", "roomlore", "--data", str(data), "import", str(export)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: cluster_status(data).running)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 143
    assert TRACEBACK not in stderr
    assert not cluster_status(data).running


@pytest.mark.slow
def test_a_worker_starts_its_killed_server_again(tmp_path):
    command = [sys.executable, "-m", "roomlore", "--data", str(tmp_path), "worker"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "waiting for work" in process.stderr.readline()
    first = cluster_status(tmp_path).pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: cluster_status(tmp_path).running and cluster_status(tmp_path).pid != first)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 0
    assert TRACEBACK not in stderr
    assert "psycopg" not in stderr


def wait_until(holds) -> None:
    deadline = time.monotonic() + 200
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
