"""redact, forget, keep and receipts on the command line: nothing goes unasked, and what went is told."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The command line on an org of its own."""

    url: str
    org: str
    admin: str

    def __call__(self, *words: object) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", ["roomlore", "--json", *self.options, *map(str, words)])
            with pytest.raises(SystemExit) as end:
                main.run()
        return Done(code=end.value.code, out=out.getvalue(), err=err.getvalue())

    @property
    def options(self) -> list[str]:
        return ["--database", self.url, "--org", self.org]

    def shown(self, room: str = "general") -> list[str]:
        """The bodies that an operator reads in a room."""
        return [one["body"] for one in self("show", room).document["messages"]]


@pytest.fixture
def roomlore(cluster, tmp_path: Path) -> Line:
    url = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    line = Line(url=url, org=f"cli-{uuid4()}", admin=cluster.admin_dsn)
    export = tmp_path / "said.jsonl"
    records = [
        {
            "schema": "roomlore.message/1",
            "room": "general",
            "id": str(number),
            "author": who,
            "text": f"{who} says {number}",
            "sent_at": f"2026-01-12T08:0{number}:00Z",
        }
        for number, who in enumerate(["mira", "bo", "mira", "cy"])
    ]
    export.write_text("\n".join(map(json.dumps, records)))
    assert line("import", "--no-embed", export).code == 0
    return line


@pytest.fixture
def nobody_else(cluster) -> None:
    """A worker goes through every org: what other tests left behind is neither counted nor done here."""
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("truncate roomlore.orgs, roomlore.work cascade")


def counts(receipt) -> dict[str, int]:
    return {one["what"]: one["count"] for one in receipt["removed"]}


def test_a_message_is_redacted(roomlore: Line):
    dry = roomlore("redact", "0", "--room", "general", "--dry-run").document
    assert dry["is_dry_run"]
    assert roomlore.shown()[0] == "mira says 0"
    done = roomlore("redact", "0", "--room", "general", "--yes").document
    assert done == {"redacted": dry["redacted"], "is_dry_run": False}
    assert roomlore.shown()[0] == ""
    assert "bo says 1" in roomlore("--text", "redact", "1", "--dry-run").out
    assert "redacted" in roomlore("--text", "redact", "1", "--yes").out
    assert "[message removed]" in roomlore("--text", "show", "general").out


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("message", "1", "--room", "general"), ["mira says 0", "", "mira says 2", "cy says 3"]),
        (("range", "general", "--since", "2026-01-12T08:01:00", "--until", "2026-01-12T08:03"), [0, 3]),
        (("range", "general", "--until", "2026-01-12T09:02:00+0100"), [2, 3]),
        (("range", "general", "--since", "2026-01-13"), [0, 1, 2, 3]),
        (("range", "general", "--all"), []),
        (("person", "mira"), ["", "bo says 1", "", "cy says 3"]),
    ],
)
def test_what_is_to_be_forgotten_is_and_nothing_else(roomlore: Line, words, left):
    authors = ["mira", "bo", "mira", "cy"]
    wanted = [one if isinstance(one, str) else f"{authors[one]} says {one}" for one in left]
    dry = roomlore("forget", *words, "--dry-run").document
    assert dry["is_dry_run"]
    assert dry["is_clean"] is None
    assert "id" not in dry
    assert roomlore.shown() == [f"{who} says {number}" for number, who in enumerate(authors)]
    receipt = roomlore("forget", *words, "--yes").document
    assert receipt["is_clean"]
    assert counts(receipt) == counts(dry)
    assert roomlore.shown() == wanted
    [kept] = roomlore("receipts").document
    # What copies may hold is looked up for one receipt at a time.
    assert (receipt.pop("copies"), kept.pop("copies")) == ([], None)
    assert kept == receipt


@pytest.mark.parametrize(
    "words",
    [
        ("redact", "1"),
        ("forget", "message", "1"),
        ("forget", "range", "general", "--all"),
        ("forget", "person", "mira"),
        ("keep", "general", "1d"),
        ("project", "drop", "qdrant"),
    ],
)
def test_nobody_there_to_be_asked_is_told_so_and_nothing_goes(roomlore: Line, words):
    done = roomlore(*words)
    assert done.code == 2
    assert "--yes" in done.err
    assert done.out == ""
    assert len(roomlore.shown()) == 4
    assert "" not in roomlore.shown()
    assert roomlore("rooms").document[0]["keep_for"] is None
    assert roomlore(*words, "--dry-run", "--yes").code == 0
    assert len(roomlore.shown()) == 4
    assert "" not in roomlore.shown()
    assert roomlore("rooms").document[0]["keep_for"] is None


@pytest.mark.parametrize("words", [(), ("--all", "--since", "2026-01-01"), ("--since", "yesterday")])
def test_a_range_must_be_said(roomlore: Line, words):
    assert roomlore("forget", "range", "general", *words, "--yes").code == 2
    assert len(roomlore.shown()) == 4


def test_a_member_forgets_only_what_is_theirs(roomlore: Line):
    for words in (("message", "0"), ("person", "mira"), ("range", "general", "--all")):
        refused = roomlore("--as", "bo", "forget", *words, "--yes")
        assert refused.code == 1
        assert "not allowed" in refused.err
    assert roomlore("--as", "bo", "forget", "message", "none", "--yes").code == 1
    assert roomlore("--as", "bo", "forget", "message", "1", "--yes").document["is_clean"]
    assert len(roomlore("--as", "bo", "receipts").document) == 1
    assert roomlore("--as", "cy", "receipts").document == []
    assert roomlore("--as", "bo", "keep", "general", "1d").code == 1


def test_a_receipt_reads_well_and_is_looked_up_by_its_beginning(roomlore: Line):
    told = roomlore("--text", "forget", "person", "mira", "--yes").out
    assert "clean" in told
    assert "2 messages" in told
    assert "2 holes: the place" in told
    assert "mira" not in told
    [receipt] = roomlore("receipts").document
    assert receipt["id"][-8:] in roomlore("--text", "receipts").out
    assert roomlore("receipts", receipt["id"][-8:]).document == receipt | {"copies": []}
    again = roomlore("receipts", receipt["id"], "--check").document
    assert again["checked_at"] > receipt["checked_at"]
    told = roomlore("--text", "receipts", receipt["id"], "--check").out
    [looked] = [line for line in told.splitlines() if "looked again at 20" in line]
    assert " UTC: clean (" in looked
    assert all(f"{check['what']} 0" in looked for check in again["checks"])
    assert roomlore("receipts", "ffffffff").code == 1
    assert roomlore("receipts", "--check").code == 2


def test_a_receipt_tells_what_is_still_to_be_removed_from_copies(roomlore: Line):
    ours = "(select org_id from roomlore.orgs where name = %s)"
    with psycopg.connect(roomlore.admin, autocommit=True) as conn:
        conn.execute(
            f"insert into roomlore.projections (org_id, target, copy) values ({ours}, 'qdrant', 'a')",
            [roomlore.org],
        )
        told = roomlore("--text", "forget", "message", "1", "--yes")
        assert told.code == 0
        assert "  copies in qdrant: 1 point to be removed" in told.out.splitlines()
        [receipt] = roomlore("receipts").document
        conn.execute(
            "update roomlore.projections set failing_since = '2026-01-01 10:00Z', error = 'Qdrant cannot be reached'"
            f" where org_id = {ours}",
            [roomlore.org],
        )
        [line] = [
            line
            for line in roomlore("--text", "receipts", receipt["id"]).out.splitlines()
            if "copies in" in line
        ]
        assert line == (
            "  copies in qdrant: 1 point to be removed;"
            " the server has been failing since 2026-01-01 10:00:00 UTC: Qdrant cannot be reached"
        )
        [copy] = roomlore("receipts", receipt["id"]).document["copies"]
        assert (copy["store"], copy["to_remove"], copy["to_rewrite"]) == ("qdrant", 1, 0)
        conn.execute(f"delete from roomlore.work where stage = 'qdrant' and org_id = {ours}", [roomlore.org])
    told = roomlore("--text", "receipts", receipt["id"]).out
    assert "  copies in qdrant: all of it is gone there, too" in told.splitlines()


def test_what_a_second_look_finds_is_shown_and_ends_in_an_error(roomlore: Line):
    receipt = roomlore("forget", "message", "1", "--yes").document
    with psycopg.connect(roomlore.admin, autocommit=True) as conn:
        conn.execute(
            "insert into roomlore.revisions select org_id, id, now(), 'text' from roomlore.messages where id = %s",
            [receipt["message_id"]],
        )
    done = roomlore("--text", "receipts", receipt["id"], "--check")
    assert done.code == 1
    assert "NOT CLEAN" in done.out
    assert "FOUND" in done.out
    assert "1 revisions" in done.out
    assert "UTC: NOT CLEAN" in done.out
    assert "revisions 1" in done.out


def test_a_room_keeps_what_it_is_told_to(roomlore: Line):
    kept = roomlore("keep", "general", "90d", "--yes").document
    assert (kept["keep_for"], kept["messages"]) == (90 * 86400, 4)
    [room] = roomlore("rooms").document
    assert room["retention_starts_at"] == kept["starts_at"]
    assert "90 days, from 20" in roomlore("--text", "rooms").out
    # Whoever keeps more than before destroys nothing, and is not asked.
    assert roomlore("keep", "general", "91d").code == 2
    assert roomlore("keep", "general", "forever").document["keep_for"] is None
    for span in ("90", "-1d", "0d", "soon"):
        assert roomlore("keep", "general", "--", span).code == 2
    assert roomlore("keep", "nowhere", "1d", "--yes").code == 1


@pytest.mark.parametrize(
    ("span", "told"),
    [
        ("90d", "for 90 days"),
        ("1d", "for 1 day"),
        ("1h", "for 1 hour"),
        ("36h", "for 36 hours"),
        ("48h", "for 2 days"),
        ("4w", "for 28 days"),
        ("forever", "forever"),
    ],
)
def test_a_time_to_keep_is_told_in_words(roomlore: Line, span, told):
    lines = roomlore("--text", "keep", "general", span, "--yes").out.splitlines()
    assert lines[0].partition(",")[0] == f"general keeps what was said {told}"
    if span == "forever":
        assert lines[1:] == []
        return
    assert ", from 20" in lines[0]
    assert lines[1] == "  goes    4 messages, sent from 2026-01-12 08:00 to 2026-01-12 08:03 UTC"
    assert "`roomlore keep general forever` takes this back" in lines[2]


@pytest.mark.parametrize(("answer", "code", "kept"), [("n", 1, None), ("y", 0, 30 * 86400)])
def test_whoever_keeps_less_on_a_terminal_is_shown_what_goes_and_asked(roomlore: Line, answer, code, kept):
    done = at_a_terminal(roomlore, "keep", "general", "30d", answer=answer, asks=b"no more than that?")
    assert "4 messages, sent from 2026-01-12 08:00 to 2026-01-12 08:03 UTC" in done.err
    assert done.code == code
    assert roomlore("rooms").document[0]["keep_for"] == kept
    assert len(roomlore.shown()) == 4


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, "bo says 1"), ("y", 0, "")])
def test_whoever_redacts_on_a_terminal_is_shown_the_message_and_asked(roomlore: Line, answer, code, left):
    done = at_a_terminal(roomlore, "redact", "1", answer=answer, asks=b"Redact?")
    assert "bo says 1" in done.err
    assert done.code == code
    assert roomlore.shown()[1] == left


def test_months_or_minutes_are_not_guessed_where_something_is_erased(roomlore: Line):
    refused = roomlore("keep", "general", "6m")
    assert refused.code == 2
    assert "months or minutes" in refused.err
    made = ("keys", "new", "--role", "operator", "--name", "ci", "--lasts")
    assert roomlore(*made, "30m").document["expires_at"]
    assert roomlore(*made, "6y").code == 2


@pytest.mark.usefixtures("nobody_else", "no_grace")
def test_a_drain_tells_how_much_went_that_a_room_no_longer_keeps(roomlore: Line, tmp_path: Path):
    assert "erased" not in roomlore("worker", "--drain").err
    roomlore("keep", "general", "1d", "--yes")
    assert "erased 4 messages that rooms no longer keep" in roomlore("worker", "--drain").err
    assert roomlore.shown() == []
    # An import drains too, and another room of it has something to embed.
    export = tmp_path / "more.jsonl"
    record = {"schema": "roomlore.message/1", "room": "other", "author": "mira", "text": "hello"}
    times = {"1": "2026-01-12T08:00:00Z", "2": "2026-01-12T09:00:00Z"}
    lines = [json.dumps({**record, "id": number, "sent_at": time}) for number, time in times.items()]
    export.write_text(lines[0])
    roomlore("import", "--no-embed", export)
    roomlore("keep", "other", "1d", "--yes")
    export.write_text("\n".join(json.dumps({**json.loads(one), "room": "third"}) for one in lines))
    assert "erased 1 message that rooms no longer keep" in roomlore("import", export).err
    assert roomlore.shown("other") == []
    assert len(roomlore.shown("third")) == 2


@pytest.mark.usefixtures("nobody_else", "no_grace")
def test_a_running_worker_tells_how_much_went_that_a_room_no_longer_keeps(roomlore: Line):
    roomlore("keep", "general", "1d", "--yes")
    process = subprocess.Popen(
        [sys.executable, "-m", "roomlore", *roomlore.options, "worker"],
        stderr=subprocess.PIPE,
        env=outside(),
        text=True,
    )
    try:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "erased" in line)
        assert "erased 4 messages that rooms no longer keep" in told
    finally:
        process.terminate()
        process.communicate(timeout=200)
    assert roomlore.shown() == []


def test_the_help_says_that_what_is_older_goes(roomlore: Line):
    for verb in ("worker", "import"):
        assert "what is older" in " ".join(roomlore(verb, "--help").out.split())


def outside() -> dict[str, str]:
    """The environment without what it says to Roomlore."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}


def at_a_terminal(
    roomlore: Line, *words: str, answer: str, asks: bytes = b"Erase?", meanwhile: Callable[[], object] = int
) -> Done:
    """Say the words on a terminal, and the answer once asked; `meanwhile` is done before that."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "roomlore", "--json", *roomlore.options, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=outside(),
    )
    os.close(theirs)
    try:
        asked = b""
        while asks not in asked:
            asked += os.read(ours, 1000)
        meanwhile()
        os.write(ours, f"{answer}\n".encode())
        answered = b""
        # A terminal that everybody has left ends in an error.
        with suppress(OSError):
            while more := os.read(ours, 1000):
                answered += more
        return Done(code=process.wait(15), out=answered.decode(), err=asked.decode())
    finally:
        os.close(ours)
        process.kill()
        process.wait()


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 4), ("y", 0, 0)])
def test_on_a_terminal_one_is_shown_what_would_go_and_asked(roomlore: Line, answer, code, left):
    done = at_a_terminal(roomlore, "forget", "range", "general", "--all", answer=answer)
    assert "dry run, nothing was erased" in done.err
    assert "4 messages" in done.err
    assert done.code == code
    assert len(roomlore.shown()) == left
    assert ("nothing was erased" in done.out) == (answer == "n")
    assert "interrupted" not in done.out


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (("message", "1"), ["kind", "room_id", "message_id"]),
        (("person", "mira"), ["kind", "participant_ids"]),
        (("range", "general", "--since", "2026-01-12"), ["kind", "room_id"]),
    ],
)
def test_the_question_names_what_would_go(roomlore: Line, words, fields):
    dry = roomlore("forget", *words, "--dry-run").document
    asked = at_a_terminal(roomlore, "forget", *words, answer="n").err
    for field in fields:
        for value in dry[field] if isinstance(dry[field], list) else [dry[field]]:
            assert value in asked
    if "--since" in words:
        assert "since   2026-01-12 00:00:00 UTC" in asked
        assert "until   20" in asked


OURS = "org_id = (select org_id from roomlore.orgs where name = %(org)s)"


def test_what_was_shown_goes_even_if_its_name_means_another_by_then(roomlore: Line):
    def rename() -> None:
        with psycopg.connect(roomlore.admin, autocommit=True) as conn:
            for old, new in (("mira", "old"), ("cy", "mira")):
                words = {"old": old, "new": new, "org": roomlore.org}
                conn.execute(
                    f"update roomlore.participants set name = %(new)s where name = %(old)s and {OURS}", words
                )
                conn.execute(
                    f"update roomlore.identities set account_id = %(new)s where account_id = %(old)s and {OURS}",
                    words,
                )

    assert at_a_terminal(roomlore, "forget", "person", "mira", answer="y", meanwhile=rename).code == 0
    assert roomlore.shown() == ["", "bo says 1", "", "cy says 3"]


def test_what_comes_in_while_one_is_asked_does_not_go(roomlore: Line, tmp_path: Path):
    export = tmp_path / "later.jsonl"

    def arrive() -> None:
        # Later than what was shown, earlier than the answer.
        record = {"id": "later", "text": "later", "sent_at": datetime.now(UTC).isoformat()}
        whole = {"schema": "roomlore.message/1", "room": "general", "author": "bo", **record}
        export.write_text(json.dumps(whole))
        assert roomlore("import", "--no-embed", export).code == 0

    done = at_a_terminal(roomlore, "forget", "range", "general", "--all", answer="y", meanwhile=arrive)
    assert done.code == 0
    assert roomlore.shown() == ["later"]
    [receipt] = roomlore("receipts").document
    assert receipt["until"][:19].replace("T", " ") in done.err
