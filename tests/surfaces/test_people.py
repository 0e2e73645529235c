"""People, keys and the log on the command line, and a command line that comes with a key."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from roomlore.cli.main import run
from roomlore.db.cluster import start_cluster
from surfaces.test_cli import TRACEBACK, refused, roomlore


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose server stays up for the module, with one small room in the org "village"."""
    folder = tmp_path_factory.mktemp("people")
    server = asyncio.run(start_cluster(folder))
    export = folder / "village.jsonl"
    said = [
        ("square", "1", "mira", "Mira", "good morning", "human"),
        ("square", "2", "mira_home", "Mira at home", "and good evening", "human"),
        ("square", "3", "teo", "Teo", "hello both", "human"),
        ("square", "4", "helper", "Helper", "at your service", "agent"),
    ]
    head = {"schema": "roomlore.message/1", "platform": "p"}
    export.write_text(
        "\n".join(
            json.dumps(
                head
                | {
                    "room": where,
                    "id": number,
                    "author": {"id": who, "name": name, "kind": kind},
                    "text": text,
                }
                | {"sent_at": f"2026-01-01T10:0{number}:00Z"}
            )
            for where, number, who, name, text, kind in said
        )
    )
    done = roomlore("--data", folder, "--org", "village", "import", export, "--no-embed")
    assert done.returncode == 0, done.stderr
    yield folder
    asyncio.run(server.close())


@dataclass(frozen=True)
class Shell:
    """The command line without the start of a process for each line, in the org "village"."""

    data: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: object, **environment: str) -> subprocess.CompletedProcess:
        """Run a command line as the process would, and return what it printed and its exit code."""
        argv = ["roomlore", "--json", "--data", str(self.data), *map(str, words)]
        with self.monkeypatch.context() as patch:
            for name in (name for name in os.environ if name.startswith("ROOMLORE_")):
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", argv)
            with pytest.raises(SystemExit) as ended:
                run()
        printed = self.capsys.readouterr()
        return subprocess.CompletedProcess(argv, ended.value.code, printed.out, printed.err)

    def village(self, *words: object) -> subprocess.CompletedProcess:
        return self("--org", "village", *words)

    def answer(self, *words: object, **environment: str):
        """Return the JSON document that a command prints into a pipe."""
        done = self(*words, **environment) if environment else self.village(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def key(self, role: str = "member", name: str = "teo") -> str:
        made = self.answer("keys", "new", "--role", role, "--name", "phone", "--for", name)
        return made["key"]


@pytest.fixture
def shell(data, monkeypatch, capsys) -> Shell:
    return Shell(data, monkeypatch, capsys)


def test_people_are_listed_with_their_accounts(shell):
    people = {person["name"]: person for person in shell.answer("people")}
    assert people["Teo"]["accounts"][0]["account_id"] == "teo"
    assert people["Teo"]["accounts"][0]["participant_id"] == people["Teo"]["id"]
    assert people["Helper"]["kind"] == "agent"
    text = shell.village("--text", "people").stdout
    assert "p mira_home" in text
    (account,) = shell.answer("people", "mira_home")
    assert (account["name"], account["is_merged"]) == ("Mira at home", False)
    assert "Mira at home" in shell.village("--text", "people", "mira_home").stdout


def test_two_accounts_become_one_person_and_part_again(shell):
    count = len(shell.answer("people"))
    merged = shell.answer("merge", "mira", "mira_home")
    assert {account["account_id"] for account in merged} == {"mira", "mira_home"}
    people = shell.answer("--as", "teo", "people")
    assert len(people) == count - 1
    assert sorted(len(person["accounts"]) for person in people)[-2:] == [1, 2]
    refused(shell.village("merge", "mira", "mira_home"), 1, "one person already")
    told = shell.village("--text", "split", "mira_home")
    assert told.returncode == 0
    assert "Mira" in told.stdout
    assert len(shell.answer("people")) == count


def test_a_new_key_stands_alone_in_text_and_lets_in(shell):
    options = ("--role", "agent", "--name", "helper", "--for", "helper", "--lasts", "90d")
    made = shell.village("--text", "keys", "new", *options)
    assert made.returncode == 0, made.stderr
    key = made.stdout.removesuffix("\n")
    assert key.startswith("rlk_")
    assert key.split() == [key]
    assert key not in made.stderr
    assert "not shown again" in made.stderr
    assert [room["name"] for room in json.loads(shell("rooms", ROOMLORE_KEY=key).stdout)] == ["square"]
    # The caller is the agent: what it wrote is its own.
    lines = shell.answer("log", "--limit", "1")
    assert lines[0]["viewer_id"] == shell.answer("people", "helper")[0]["participant_id"]


def test_keys_are_listed_without_the_key_and_revoked_by_id(shell):
    made = shell.answer("keys", "new", "--role", "operator", "--name", "bridge", "--lasts", "12h")
    span = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert span.total_seconds() == 12 * 3600
    listed = shell.village("keys", "list")
    assert made["key"] not in listed.stdout
    (kept,) = [key for key in json.loads(listed.stdout) if key["id"] == made["id"]]
    assert {**kept, "key": made["key"]} == made
    assert json.loads(shell("keys", "list", ROOMLORE_KEY=made["key"]).stdout)
    assert "valid until" in shell.village("--text", "keys", "list").stdout

    assert shell.answer("keys", "revoke", made["id"]) == {"revoked": made["id"]}

    refused(shell("rooms", ROOMLORE_KEY=made["key"]), 1, "the key is not valid")
    assert "revoked 20" in shell.village("--text", "keys", "list").stdout


def test_whoever_comes_with_a_key_reads_as_nobody_else(shell):
    key = shell.key()
    for name in ("teo", "mira", "nosuch"):
        done = shell("--as", name, "rooms", ROOMLORE_KEY=key)
        refused(done, 1, "not allowed")
        assert done.stderr.count("\n") == 1
        assert name not in done.stderr
    assert shell("rooms", ROOMLORE_KEY=key).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["merge", "mira", "mira_home"],
        ["split", "mira"],
        ["keys", "list"],
        ["keys", "new", "--role", "operator", "--name", "mine"],
        ["keys", "revoke", "0199"],
        ["worker", "--drain"],
    ],
)
def test_whoever_comes_with_a_members_key_changes_nothing(shell, words):
    key = shell.key()
    done = shell(*words, ROOMLORE_KEY=key)
    refused(done, 1, "not allowed", "member")
    assert key not in done.stderr


def test_an_import_with_a_members_key_is_refused(shell):
    key = shell.key()
    refused(shell("import", shell.data / "village.jsonl", ROOMLORE_KEY=key), 1, "not allowed")


def test_a_key_goes_with_its_own_org_only(shell):
    key = shell.key()
    assert shell("--org", "village", "rooms", ROOMLORE_KEY=key).returncode == 0
    for org in ("default", "nosuch"):
        refused(shell("--org", org, "rooms", ROOMLORE_KEY=key), 1, "org")
        refused(shell("rooms", ROOMLORE_KEY=key, ROOMLORE_ORG=org), 1, "org")
    refused(shell("demo", ROOMLORE_KEY=key), 1, "org")


def test_a_key_that_is_none_is_refused(shell):
    key = shell.key()
    for wrong in ("nonsense", key[:-1], key[:-4] + "AAAA"):
        done = shell("rooms", ROOMLORE_KEY=wrong)
        refused(done, 1, "the key is not valid")
        assert wrong not in done.stderr


def test_the_log_shows_who_read_what(shell):
    key = shell.key()
    shell("show", "square", ROOMLORE_KEY=key)
    newest = shell.answer("log", "--limit", "3")
    assert {line["action"] for line in newest} == {
        "list participants", "look at what is withheld", "read room",
    }  # fmt: skip
    (room,) = shell.answer("rooms")
    about = shell.answer("log", "--about", room["id"][:13])
    assert {line["action"] for line in about} >= {"read room", "import"}
    assert all(room["id"] in line["subject_ids"] for line in about)
    mine = json.loads(shell("log", ROOMLORE_KEY=key).stdout)
    assert {line["viewer_id"] for line in mine} == {shell.answer("people", "teo")[0]["participant_id"]}
    assert "read room" in shell.village("--text", "log").stdout


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["people", "nosuch"], 1, "no participant"),
        (["merge", "mira"], 2, "Missing argument"),
        (["merge", "mira", "nosuch"], 1, "no participant 'nosuch'"),
        (["merge", "mira", "helper"], 1, "only one of them is an agent"),
        (["split", "teo"], 1, "merged with nobody"),
        (["keys"], 2, ""),
        (["keys", "new"], 2, "Missing option"),
        (["keys", "new", "--role", "boss", "--name", "x"], 2, "boss"),
        (["keys", "new", "--role", "member", "--name", "x"], 1, "whose eyes"),
        (["keys", "new", "--role", "operator", "--name", " "], 1, "name"),
        (["keys", "new", "--role", "operator", "--name", "x", "--lasts", "soon"], 2, "90d"),
        (["keys", "new", "--role", "operator", "--name", "x", "--lasts", "0d"], 2, "90d"),
        (["keys", "new", "--role", "operator", "--name", "x", "--lasts", "999999w"], 1, "100 years"),
        (["keys", "new", "--role", "member", "--name", "x", "--for", "helper"], 1, "agent"),
        (["keys", "revoke", "nosuch"], 1, "no key"),
        (["keys", "revoke", "rlk_nosuch"], 1, "by its id"),
        (["log", "--about", "mira"], 1, "must be an id"),
        (["log", "--limit", "0"], 2, "0 is not in the range"),
    ],
)
def test_a_mistake_ends_in_one_readable_line(shell, words, code, reason):
    refused(shell.village(*words), code, reason)


@pytest.mark.parametrize(
    "words",
    [
        ["people"],
        ["merge"],
        ["split"],
        ["keys"],
        ["keys", "new"],
        ["keys", "list"],
        ["keys", "revoke"],
        ["log"],
    ],
)
def test_every_verb_explains_itself(shell, words):
    done = shell(*words, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 4
    assert TRACEBACK not in done.stderr
