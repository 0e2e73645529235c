"""redact, erase, retention and receipts on the command line: they ask first, and report what they removed."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, clean_environment, line, process

AUTHORS = ["mira", "bo", "mira", "cy"]
BODIES = [f"{author} says {number}" for number, author in enumerate(AUTHORS)]


@pytest.fixture
def org(roomlore: CommandLine, tmp_path: Path) -> CommandLine:
    lines = [line(number, author, BODIES[number]) for number, author in enumerate(AUTHORS)]
    roomlore.tell(tmp_path, lines, "--no-embed")
    return roomlore


@pytest.fixture
def no_other_orgs(cluster: Cluster) -> None:
    """A worker serves every org: remove those of other tests."""
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("truncate roomlore.orgs, roomlore.work_queue cascade")


def counts(receipt: dict) -> dict[str, int]:
    return {one["what"]: one["count"] for one in receipt["removed"]}


@pytest.mark.slow
def test_a_message_is_redacted(org: CommandLine) -> None:
    dry = org.json("redact", "0", "--room", "general", "--dry-run")
    assert dry["is_dry_run"]
    assert org.bodies() == BODIES
    assert org.json("redact", "0", "--yes") == {"redacted": dry["redacted"], "is_dry_run": False}
    assert org.bodies()[0] == ""
    assert "bo says 1" in org.text("redact", "1", "--dry-run")
    assert "redacted" in org.text("redact", "1", "--yes")
    assert "[message removed]" in org.text("messages", "general")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("message 1 --room general", [BODIES[0], "", *BODIES[2:]]),
        ("range general --since 2026-01-12T08:01:00 --until 2026-01-12T08:03", [BODIES[0], BODIES[3]]),
        ("range general --until 2026-01-12T09:02:00+0100", BODIES[2:]),
        ("range general --all", []),
        ("person mira", ["", BODIES[1], "", BODIES[3]]),
    ],
)
def test_exactly_what_is_named_is_erased(org: CommandLine, words: str, left: list[str]) -> None:
    dry = org.json("erase", *words.split(), "--dry-run")
    assert (dry["is_dry_run"], dry["is_clean"], "id" in dry) == (True, None, False)
    assert org.bodies() == BODIES
    receipt = org.json("erase", *words.split(), "--yes")
    assert receipt["is_clean"]
    assert counts(receipt) == counts(dry)
    assert org.bodies() == left
    [stored] = org.json("receipts")
    # A list of receipts does not ask the indexes.
    assert (receipt.pop("pending_projections"), stored.pop("pending_projections")) == ([], None)
    assert stored == receipt


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        "redact 1",
        "erase message 1",
        "erase range general --all",
        "erase person mira",
        "retention general 1d",
        "index drop qdrant",
        "rooms delete general",
    ],
)
def test_without_a_terminal_nothing_is_removed_unless_an_option_says_so(org: CommandLine, words: str) -> None:
    org.refused(2, "--yes", *words.split())
    assert org(*words.split(), "--dry-run", "--yes").code == 0
    assert org.bodies() == BODIES
    assert org.json("rooms")[0]["retention_period"] is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("erase range general --yes", 2, "--since"),
        ("erase range general --all --since 2026-01-01 --yes", 2, "--all"),
        ("erase range general --since yesterday --yes", 2, "yesterday"),
        ("--as bo erase message 0 --yes", 1, "not allowed"),
        ("--as bo erase person mira --yes", 1, "not allowed"),
        ("--as bo erase range general --all --yes", 1, "not allowed"),
        ("--as bo erase message none --yes", 1, "none"),
        ("--as bo retention general 1d", 1, "not allowed"),
        ("retention general 6m", 2, "months or minutes"),
        ("retention general 90", 2, "span of time"),
        ("retention general -- -1d", 2, "span of time"),
        ("retention general 0d", 2, "span of time"),
        ("retention nowhere 1d --yes", 1, "nowhere"),
        ("receipts ffffffff", 1, "no receipt"),
        ("receipts --verify", 2, "needs the ID"),
    ],
)
def test_a_refused_command_removes_nothing(org: CommandLine, words: str, code: int, reason: str) -> None:
    org.refused(code, reason, *words.split())
    assert org.bodies() == BODIES


@pytest.mark.slow
def test_a_member_erases_own_messages(org: CommandLine) -> None:
    assert org.json("--as", "bo", "erase", "message", "1", "--yes")["is_clean"]
    assert len(org.json("--as", "bo", "receipts")) == 1
    assert org.json("--as", "cy", "receipts") == []


@pytest.mark.slow
def test_a_receipt_is_shown_and_verified_again(org: CommandLine) -> None:
    text = org.text("erase", "person", "mira", "--yes")
    for part in ("clean", "2 messages", "stays"):
        assert part in text
    assert "mira" not in text
    [receipt] = org.json("receipts")
    short = receipt["id"][-8:]
    assert short in org.text("receipts")
    assert org.json("receipts", short) == receipt | {"pending_projections": []}
    again = org.json("receipts", receipt["id"], "--verify")
    assert again["checked_at"] > receipt["checked_at"]
    [verified] = [one for one in org.text("receipts", short).splitlines() if "verified at 20" in one]
    assert " UTC: clean (" in verified
    assert all(f"{check['what']} 0" in verified for check in again["checks"])


@pytest.mark.slow
def test_a_verification_that_finds_something_ends_in_an_error(org: CommandLine) -> None:
    receipt = org.json("erase", "message", "1", "--yes")
    org.execute(
        "insert into message_revisions select org_id, id, now(), 'text' from messages where id = %(id)s",
        id=receipt["message_id"],
    )
    done = org("--text", "receipts", receipt["id"], "--verify")
    assert done.code == 1
    for part in ("NOT CLEAN", "FOUND", "1 revisions", "UTC: NOT CLEAN", "revisions 1"):
        assert part in done.out


@pytest.mark.slow
def test_a_receipt_says_what_an_index_still_holds(org: CommandLine) -> None:
    org.execute("insert into projections (org_id, target, index_name) values ((org), 'qdrant', 'a')")
    assert "  index qdrant: 1 point to remove" in org.text("erase", "message", "1", "--yes").splitlines()
    [receipt] = org.json("receipts")
    org.execute(
        "update projections set failing_since = '2026-01-01 10:00Z', error = 'Qdrant cannot be reached'"
        " where org_id = (org)"
    )
    assert (
        "  index qdrant: 1 point to remove;"
        " the server has been failing since 2026-01-01 10:00:00 UTC: Qdrant cannot be reached"
    ) in org.text("receipts", receipt["id"]).splitlines()
    [copy] = org.json("receipts", receipt["id"])["pending_projections"]
    assert (copy["store"], copy["to_remove"], copy["to_rewrite"]) == ("qdrant", 1, 0)
    org.execute("delete from work_queue where queue = 'qdrant' and org_id = (org)")
    assert "  index qdrant: everything is removed" in org.text("receipts", receipt["id"]).splitlines()


# Retention


@pytest.mark.slow
def test_a_room_keeps_its_messages_for_a_time(org: CommandLine) -> None:
    kept = org.json("retention", "general", "90d", "--yes")
    assert (kept["retention_period"], kept["messages"]) == (90 * 86400, 4)
    [room] = org.json("rooms")
    assert room["retention_starts_at"] == kept["starts_at"]
    assert "90 days, starting 20" in org.text("rooms")
    # A longer time than before also begins after the grace period, so it asks.
    assert org("retention", "general", "91d").code == 2
    assert org.json("retention", "general", "forever")["retention_period"] is None
    for span, words in (("1h", "for 1 hour"), ("36h", "for 36 hours"), ("4w", "for 28 days")):
        first, removed, cancel = org.text("retention", "general", span, "--yes").splitlines()
        assert first.startswith(f"general keeps messages {words}, starting 20")
        assert removed == "  removes 4 messages, sent from 2026-01-12 08:00 to 2026-01-12 08:03 UTC"
        assert "`roomlore retention general forever` cancels this" in cancel
    assert org.text("retention", "general", "forever", "--yes") == "general keeps messages forever\n"


@pytest.mark.slow
@pytest.mark.usefixtures("no_other_orgs", "no_grace")
def test_a_drain_and_an_import_report_expired_messages(org: CommandLine, tmp_path: Path) -> None:
    assert "erased" not in org("worker", "--drain").err
    org.json("retention", "general", "1d", "--yes")
    assert "erased 4 messages past their retention" in org("worker", "--drain").err
    assert org.bodies() == []
    other = line(1, "mira", "hello", room="other")
    org.tell(tmp_path, [other], "--no-embed")
    org.json("retention", "other", "1d", "--yes")
    export = tmp_path / "messages.jsonl"
    export.write_text(json.dumps(other | {"room": "third", "id": "2"}))
    assert "erased 1 message past their retention" in org("import", export).err
    assert (org.bodies("other"), len(org.bodies("third"))) == ([], 1)


@pytest.mark.slow
@pytest.mark.usefixtures("no_other_orgs", "no_grace")
def test_a_running_worker_reports_expired_messages(org: CommandLine) -> None:
    org.json("retention", "general", "1d", "--yes")
    worker = subprocess.Popen(
        [sys.executable, "-m", "roomlore", *org.options, "worker"],
        stderr=subprocess.PIPE,
        env=clean_environment(),
        text=True,
    )
    try:
        assert worker.stderr is not None
        assert "erased 4 messages" in next(text for text in worker.stderr if "erased" in text)
    finally:
        worker.terminate()
        worker.communicate(timeout=200)
    assert org.bodies() == []


# On a terminal


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("answer", ["n", "y"])
@pytest.mark.parametrize(
    ("words", "shown", "left"),
    [
        ("redact 1", ["bo says 1", "Redact?"], [BODIES[0], "", *BODIES[2:]]),
        ("erase range general --all", ["dry run, nothing was erased", "4 messages"], []),
        ("erase range general --since 2026-01-12", ["since   2026-01-12 00:00:00 UTC", "until   20"], []),
        ("retention general 30d", ["4 messages, sent from 2026-01-12 08:00", "Set this"], BODIES),
    ],
)
def test_a_question_shows_what_is_removed(
    org: CommandLine, words: str, shown: list[str], left: list[str], *, answer: str
) -> None:
    done = org(*words.split(), typed=f"{answer}\n")

    assert done.code == (answer == "n")
    for part in shown:
        assert part in done.err
    assert org.bodies() == (left if answer == "y" else BODIES)
    assert ("was" in done.err.splitlines()[-1]) == (answer == "n")
    if "retention" in words:
        assert org.json("rooms")[0]["retention_period"] == (30 * 86400 if answer == "y" else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "fields"), [("message 1", ["room_id", "message_id"]), ("person mira", ["participant_ids"])]
)
def test_a_question_names_the_ids(org: CommandLine, words: str, fields: list[str]) -> None:
    dry = org.json("erase", *words.split(), "--dry-run")
    shown = org("erase", *words.split(), typed="n\n").err
    for field in fields:
        for value in dry[field] if isinstance(dry[field], list) else [dry[field]]:
            assert value in shown


@pytest.mark.slow
def test_what_was_shown_is_erased_even_if_the_name_means_somebody_else_by_then(org: CommandLine) -> None:
    def rename() -> None:
        for old, new in (("mira", "old"), ("cy", "mira")):
            for table, column in (("participants", "name"), ("platform_accounts", "account_id")):
                org.execute(
                    f"update {table} set {column} = %(new)s where {column} = %(old)s and org_id = (org)",
                    old=old,
                    new=new,
                )

    assert org("erase", "person", "mira", typed="y\n", meanwhile=rename).code == 0
    assert org.bodies() == ["", BODIES[1], "", BODIES[3]]


@pytest.mark.slow
def test_messages_that_arrive_during_the_question_stay(org: CommandLine, tmp_path: Path) -> None:
    def arrive() -> None:
        export = tmp_path / "later.jsonl"
        export.write_text(json.dumps(line(9, "bo", "later", sent_at=datetime.now(UTC).isoformat())))
        assert process(*org.options, "import", "--no-embed", export).code == 0

    assert org("erase", "range", "general", "--all", typed="y\n", meanwhile=arrive).code == 0
    assert org.bodies() == ["later"]


@pytest.mark.slow
def test_a_real_terminal_is_asked(org: CommandLine) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "roomlore", *org.options, "erase", "range", "general", "--all"]
    asking = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment())
    os.close(theirs)
    try:
        shown = b""
        while b"Erase?" not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, b"y\n")
        # A terminal without a process ends in an error.
        with suppress(OSError):
            while os.read(ours, 1000):
                pass
        assert asking.wait(15) == 0
    finally:
        os.close(ours)
        asking.kill()
        asking.wait()
    assert org.bodies() == []
