"""`roomlore migrate chat-history`: what it prints, and its exit status."""

import pytest

from legacy.conftest import Legacy
from legacy.stores import ORG, Store
from legacy.test_chat_history import HARBOUR, row
from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, refused


@pytest.fixture
def command_line(cluster: Cluster) -> CommandLine:
    return CommandLine(cluster=cluster)


def test_a_migration_prints_what_it_stored_and_that_both_stores_are_equal(
    command_line, legacy: Legacy, tmp_path
):
    legacy.tell(row(1), row(2, role="ai"), row(3, content=None))
    dry = command_line.json("migrate", "chat-history", legacy.dsn, "--dry-run")
    assert (dry["rows"], dry["stored"], dry["parity"]) == (3, None, None)
    assert dry["characters_without_id"] == {"elena": {"rows": 1, "stated": []}}
    agents = tmp_path / "agents.csv"
    agents.write_text("elena,200000000000000001\n")
    done = command_line("migrate", "chat-history", legacy.dsn, "--agents", agents)
    assert done.code == 0, done.err
    for line in ("stored: 2 added", "left out: 1 no text", "compared: equal", "counted 2 rows of 3"):
        assert line in done.out
    assert "skipped v2_chat_history id 3: no text" in done.err
    again = command_line.json("migrate", "chat-history", legacy.dsn, "--agents", agents)
    assert again["stored"]["unchanged"] == 2
    assert again["parity"]["is_equal"] is True
    assert again["parity"]["explained"] == {"no text": 1}


def test_a_difference_that_nothing_explains_is_an_exit_status(command_line, legacy: Legacy):
    legacy.tell(row(1), row(2))
    command_line.json("migrate", "chat-history", legacy.dsn)
    command_line.execute("update messages set body = 'tampered' where org_id = (org) and body = 'message 1'")
    done = command_line("migrate", "chat-history", legacy.dsn)
    assert done.code == 1
    assert "compared: NOT EQUAL" in done.out
    assert "row 1, text: another text" in done.out
    assert "tampered" not in done.out


def test_columns_are_added_to_the_table_itself(command_line, old: Legacy):
    old.tell(row(1), row(2, user_id=f"channel_{HARBOUR}"))
    done = command_line("migrate", "chat-history", old.dsn, "--add-columns")
    assert done.code == 0, done.err
    assert (
        "added: author_id, author_is_bot, reply_to_msg_id; filled 1 row, 1 have no known author" in done.out
    )


def test_what_cannot_be_migrated_is_refused_in_one_line(command_line, old: Legacy, tmp_path):
    address = "postgresql://ana:hush@127.0.0.1:1/none"
    for done in (
        command_line("migrate", "chat-history", address),
        command_line("migrate", "chat-history", address, "--add-columns"),
    ):
        refused(done, 1, "the source database")
        assert "hush" not in done.err
    refused(command_line("migrate", "chat-history", old.dsn, "--dry-run", "--add-columns"), 2, "exclude")
    refused(
        command_line("migrate", "chat-history", old.dsn, "--agents", tmp_path / "none"), 2, "does not exist"
    )


def test_a_project_store_is_migrated_and_reported(command_line, store: Store):
    store.say("Sam", "hello")
    store.note("The ramp opens at nine")
    store.note("Only for Ada", sensitivity="restricted")
    store.note(None)
    dry = command_line.json("migrate", "projects", store.dsn, "--dry-run")
    assert (dry["messages"], dry["stored"]) == (1, None)
    done = command_line("migrate", "projects", store.dsn, "--source-org", ORG)
    assert done.code == 0, done.err
    for line in (
        "1 room, 1 message",
        "stored: 1 added",
        "1 memory only for their agent",
        "left out: 1 no text",
    ):
        assert line in done.out
    refused(command_line("migrate", "projects", store.dsn, "--source-org", "none"), 1, "is not in the source")
