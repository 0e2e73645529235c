"""The command line as a person or a program meets it: a process, its streams and its exit code."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest

from roomlore import operations as composition
from roomlore.cli.main import run
from roomlore.db.cluster import cluster_status, start_cluster
from roomlore.settings import Settings

TRACEBACK = "Traceback"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory with the demo in it, whose server stays up for the module."""
    folder = tmp_path_factory.mktemp("cli")
    server = asyncio.run(start_cluster(folder))
    told = process("--data", folder, "demo")
    assert told.returncode == 0, told.stderr
    (folder / "told.txt").write_text(told.stdout, encoding="utf-8")
    yield folder
    asyncio.run(server.close())


def process(*words, **environment) -> subprocess.CompletedProcess:
    """Run a command line in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}
    return subprocess.run(
        [sys.executable, "-m", "roomlore", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=clean | environment,
    )


def roomlore(*words, **environment) -> subprocess.CompletedProcess:
    """Run a command line as a process would, without the start of one; what no pipe takes is an error here, too."""
    argv = ["roomlore", *map(str, words)]
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding=stream.encoding, errors=stream.errors)
        for stream in (sys.__stdout__, sys.__stderr__)
    )
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", argv)
        patch.setattr(sys, "stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            run()
    return subprocess.CompletedProcess(argv, ended.value.code, written(out), written(err))


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def demo(data: Path, *words) -> subprocess.CompletedProcess:
    return roomlore("--data", data, "--org", "demo", *words)


def answer(data: Path, *words):
    """Return the JSON document that a command prints."""
    done = demo(data, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: subprocess.CompletedProcess, code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert TRACEBACK not in done.stderr
    for word in words:
        assert word in done.stderr


def test_the_demo_shows_storing_context_search_refusal_and_an_honest_no(data):
    told = process("--data", data, "demo").stdout
    for part in (
        "5 rooms",
        "#m1",
        "berth 3",
        "source: message salary in #hiring",
        "I don't have this information",
    ):
        assert part in told
    assert told.count("41,500") == 1  # the member's answer, and nothing of it for the outsider


def test_the_demo_prints_what_the_readme_says(data):
    """Line by line; an ellipsis stands for what the page leaves out, and how long it took is nobody's promise."""
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


def test_the_demo_can_be_told_again_and_adds_nothing(data):
    told = json.loads(roomlore("--data", data, "--json", "demo").stdout)
    assert told["stored"]["stored"]["added"] == 0
    assert told["stored"]["skipped"] == {}
    assert "41,500" in told["only_for_members"]["teo"]
    assert "41,500" not in told["only_for_members"]["hal"]


def test_rooms_are_listed_as_their_viewer_sees_them(data):
    everything = {room["name"]: room["message_count"] for room in answer(data, "rooms")}
    outsider = {room["name"]: room["message_count"] for room in answer(data, "--as", "hal", "rooms")}
    assert "hiring" in everything
    assert "hiring" not in outsider
    assert outsider["harbour"] <= everything["harbour"]


def test_a_room_is_shown_oldest_first_and_pages_backwards(data):
    newest = answer(data, "show", "harbour", "--limit", "3")["messages"]
    earlier = answer(data, "show", "harbour", "--limit", "3", "--before", newest[0]["external_id"])[
        "messages"
    ]
    times = [message["sent_at"] for message in earlier + newest]
    assert times == sorted(times)
    assert len({message["id"] for message in earlier + newest}) == 6


def test_a_context_cites_every_line(data):
    context = answer(data, "--as", "almanac", "context", "harbour", "--explain")
    labels = [
        line.split()[0].removeprefix("#") for line in context["text"].splitlines() if line.startswith("#m")
    ]
    assert set(labels) == set(context["citations"])
    assert context["tokens"] <= context["budget"]
    assert {item["included"] for item in context["explain"]} >= {True}


def test_a_search_returns_whole_exchanges_with_reasons(data):
    best = answer(data, "search", "berth 3 dredging", "--limit", "2")["hits"][0]
    assert best["room"] == "port-office"
    assert any(message["why"] for message in best["messages"])


def test_an_answer_names_its_tier_and_sources(data):
    known = answer(data, "ask", "when is berth 3 closed for dredging?")
    assert known["known"]
    assert known["sources"]
    unknown = answer(data, "ask", "what is the wifi password in the office?")
    assert not unknown["known"]
    assert unknown["sources"] == []
    assert unknown["trace"][-1]["outcome"] in {"below_bar", "empty"}


def test_a_question_about_a_closed_room_is_answered_for_its_members_only(data):
    question = "what is the starting salary for the new skipper?"
    assert "41,500" in demo(data, "--as", "teo", "ask", question).stdout
    for outsider in ("hal", "priya"):
        assert "41,500" not in demo(data, "--as", outsider, "ask", question).stdout
        assert "41,500" not in demo(data, "--as", outsider, "search", question).stdout


def test_a_process_prints_what_is_printed_here(data):
    for words in (["rooms"], ["--text", "show", "harbour"], ["ask", " "]):
        apart, here = process("--data", data, "--org", "demo", *words), demo(data, *words)
        assert (apart.returncode, apart.stdout, apart.stderr) == (here.returncode, here.stdout, here.stderr)


def test_global_options_stand_before_the_verb_or_after_it(data):
    before = demo(data, "--json", "--as", "hal", "rooms").stdout
    after = roomlore("rooms", "--org", "demo", "--as", "hal", "--json", "--data", data).stdout
    assert before == after
    assert "hiring" not in {room["name"] for room in json.loads(after)}
    assert (
        json.loads(roomlore("--text", "keys", "list", "--json", "--org", "demo", "--data", data).stdout) == []
    )


def test_a_pipe_gets_text_unless_json_is_asked_for(data):
    assert "last activity" in demo(data, "rooms").stdout
    assert json.loads(demo(data, "rooms", "--json").stdout)


def test_a_hidden_room_and_a_missing_one_get_the_same_answer(data):
    hidden = demo(data, "--as", "hal", "show", "hiring")
    missing = demo(data, "--as", "hal", "show", "nosuch")
    refused(hidden, 1, "no room 'hiring'")
    assert hidden.stderr.replace("hiring", "nosuch") == missing.stderr


def test_a_name_that_two_people_bear_is_refused_with_both(data):
    refused(demo(data, "--as", "Sam", "rooms"), 1, "several are meant")


def test_text_on_request_and_no_chatter_when_quiet(data):
    done = demo(data, "-q", "--text", "search", "dredging")
    assert "port-office" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["bogus"], 2, "No such command"),
        (["search"], 2, "Missing argument"),
        (["show", "nosuch"], 1, "no room"),
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
def test_a_mistake_ends_in_one_readable_line(data, words, code, reason):
    done = demo(data, *words)
    refused(done, code, reason)
    assert "100%" not in done.stdout + done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_words_that_no_database_can_hold_find_nothing(data):
    for word in ("caf\udce9", "nul"):
        done = demo(data, "search", word)
        assert done.returncode == 0, done.stderr
        refused(demo(data, "show", word), 1, "no room")
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
    assert json.loads(done.stdout)["messages"] == 1
    assert not (tmp_path / "data").exists()


def test_an_unreachable_database_says_what_to_do(tmp_path):
    url = f"postgresql://nobody:hunter2@/nothing?host={tmp_path}"
    for verb in ("rooms", "doctor", "migrate"):
        done = roomlore("--database", url, verb)
        refused(done, 1)
        assert "hunter2" not in done.stdout + done.stderr


def test_the_zone_of_a_log_is_named_or_said_to_be_assumed(tmp_path):
    export = tmp_path / "#plans.log"
    export.write_text("--- Log opened Thu Feb 26 22:00:00 2026\n22:01 <ana> hi\n", encoding="utf-8")
    assert json.loads(roomlore("--json", "import", export, "--dry-run").stdout)["zone_assumed"] == 1
    zoned = roomlore("--json", "import", export, "--dry-run", "--timezone", "Europe/Berlin")
    assert json.loads(zoned.stdout)["zone_assumed"] == 0
    refused(roomlore("import", export, "--dry-run", "--timezone", "Berlin"), 2, "Europe/Berlin")


def test_an_export_is_imported_once_and_repeatable(data, tmp_path):
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
    dry = json.loads(roomlore("import", export, "--dry-run", "--json").stdout)
    first = roomlore("--data", data, "--org", "club", "--json", "import", export)
    report = json.loads(first.stdout)
    again = json.loads(roomlore("import", export, "--json", "--data", data, "--org", "club").stdout)
    assert fields <= set(report)
    assert {name: dry[name] for name in fields} == {name: report[name] for name in fields}
    assert report["messages"] == 3
    assert sum(report["skipped"].values()) == 1
    assert "club.jsonl" in first.stderr
    assert report["stored"]["added"] == 3
    assert again["stored"] == {"added": 0, "unchanged": 3, "revised": 0, "redacted": 0}


def test_an_interrupted_import_says_so_and_a_second_one_completes_it(data, tmp_path):
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
    command = [
        sys.executable,
        "-m",
        "roomlore",
        "--data",
        str(data),
        "--org",
        "long",
        "import",
        str(export),
        "--no-embed",
    ]
    # The org is there before, so that who waits for the room looks without delay.
    first = tmp_path / "first.jsonl"
    first.write_text(export.read_text().partition("\n")[0].replace('"long"', '"first"'))
    roomlore("--data", data, "--org", "long", "import", first, "--no-embed")
    process = asyncio.run(interrupted(command, Settings(data=data, org="long"), "long"))
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 130
    assert TRACEBACK not in stderr
    assert "safe to run this again" in stderr
    rooms = json.loads(roomlore("--data", data, "--org", "long", "--json", "rooms").stdout)
    [stored] = [room["message_count"] for room in rooms if room["name"] == "long"]
    assert 0 < stored < count
    done = roomlore("--data", data, "--org", "long", "--json", "import", export, "--no-embed")
    assert json.loads(done.stdout)["stored"]["added"] == count - stored


async def interrupted(command: list[str], settings: Settings, room: str) -> subprocess.Popen:
    """Return a process that was told to stop as soon as it had stored something in a room."""
    async with composition.open(settings) as app, asyncio.timeout(200):
        process = subprocess.Popen(  # noqa: ASYNC220  nobody else waits for this loop
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while all(one.name != room for one in await app.rooms(app.operator)):
            pass
        process.send_signal(signal.SIGINT)
    return process


def test_a_worker_stops_promptly_when_told(data):
    command = [sys.executable, "-m", "roomlore", "--data", str(data), "worker"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "waiting for work" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=200) == 0
    process.stderr.close()


def test_doctor_finds_everything_well_and_stops_the_server(tmp_path):
    done = process("--data", tmp_path, "doctor", "--json")
    assert done.returncode == 0, done.stdout
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert {"python", "embedding model", "postgresql", "pgvector", "schema"} <= set(findings)
    assert all(finding["is_well"] or finding["cure"] for finding in findings.values())
    stopped = process("--data", tmp_path, "doctor", "--stop")
    assert stopped.returncode == 0
    assert "was not running" in stopped.stderr


def test_a_server_in_use_is_stopped_only_by_force(data):
    refused(roomlore("--data", data, "doctor", "--stop"), 1, "use")


def test_a_folder_of_several_formats_is_refused_and_not_read_in_part(tmp_path):
    (tmp_path / "chat.jsonl").write_text(
        '{"schema": "roomlore.message/1", "platform": "p", "room": "r", "id": "1", "author": "A", "text": "x", "sent_at": 0}'
    )
    (tmp_path / "2024-01-02.txt").write_text("[10:00] <ana> hello\n[10:01] <ben> hi\n")
    refused(roomlore("import", tmp_path, "--dry-run"), 1, "several formats", "jsonl", "irc")
    assert (
        json.loads(roomlore("--json", "import", tmp_path, "--dry-run", "--format", "irc").stdout)["messages"]
        == 2
    )


def test_a_file_that_is_not_of_the_named_format_is_refused(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    for name in ("slack", "discord", "telegram", "irc", "jsonl"):
        refused(roomlore("import", picture, "--dry-run", "--format", name), 1, "picture.png")


def test_an_import_told_to_end_stops_its_server(tmp_path):
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
