"""Keys, the audit log, merged accounts, and a command line with a key."""

from datetime import datetime

import pytest

from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, line, process, refused, roomlore

LINES = [
    line(1, "mira", "good morning"),
    line(2, "mira_home", "and good evening"),
    line(3, "teo", "hello both"),
    line(4, "helper", "at your service"),
]


@pytest.fixture(scope="module")
def village(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    village = CommandLine(cluster=cluster)
    village.tell(tmp_path_factory.mktemp("export"), LINES, "--no-embed", "--agent", "helper")
    return village


@pytest.fixture(scope="module")
def key(village: CommandLine) -> str:
    """The key of a member."""
    made = village.json("keys", "create", "--role", "member", "--name", "phone", "--participant", "teo")
    return made["key"]


def with_key(village: CommandLine, key: str, *words: str, **environment: str):
    """Run a command line that has a key and no org."""
    return roomlore(*village.options[:2], "--json", *words, ROOMLORE_KEY=key, **environment)


def test_a_new_key_is_alone_on_standard_output_and_acts_as_its_participant(village: CommandLine) -> None:
    words = ("--role", "agent", "--name", "x", "--participant", "helper", "--valid-for", "90d")
    made = village("--text", "keys", "create", *words)

    key = made.out.removesuffix("\n")
    assert key.startswith("rlk_")
    assert key.split() == [key]
    assert key not in made.err
    assert "not shown again" in made.err
    assert with_key(village, key, "rooms").code == 0
    [newest] = village.json("audit-log", "--limit", "1")
    assert newest["viewer_id"] == village.json("people", "helper")[0]["participant_id"]


@pytest.mark.slow
def test_keys_are_listed_without_secrets_and_revoked(village: CommandLine) -> None:
    made = village.json("keys", "create", "--role", "operator", "--name", "bridge", "--valid-for", "12h")
    span = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert span.total_seconds() == 12 * 3600
    [listed] = [one for one in village.json("keys", "list") if one["id"] == made["id"]]
    assert {**listed, "key": made["key"]} == made
    text = village.text("keys", "list")
    assert "valid until" in text
    assert made["key"] not in text

    assert village.json("keys", "revoke", made["id"]) == {"revoked": made["id"]}

    refused(with_key(village, made["key"], "rooms"), 1, "the key is not valid")
    assert "revoked 20" in village.text("keys", "list")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "--as teo rooms",
        "--as mira rooms",
        "--as nosuch rooms",
        "merge mira mira_home",
        "split mira",
        "keys list",
        "keys create --role operator --name mine",
        "keys revoke 0199",
        "worker --drain",
        "import .",
    ],
)
def test_a_members_key_changes_nothing_and_acts_as_nobody_else(
    village: CommandLine, key: str, words: str
) -> None:
    done = with_key(village, key, *words.split())

    refused(done, 1)
    assert "not allowed" in done.err or "import" in words
    assert key not in done.err


@pytest.mark.slow
def test_a_key_works_with_its_own_org_only(village: CommandLine, key: str) -> None:
    assert with_key(village, key, "--org", village.org, "rooms").code == 0
    for org in ("default", "nosuch"):
        refused(with_key(village, key, "--org", org, "rooms"), 1, "org")
        refused(with_key(village, key, "rooms", ROOMLORE_ORG=org), 1, "org")
    for wrong in ("nonsense", key[:-1], key[:-4] + "AAAA"):
        done = with_key(village, wrong, "rooms")
        refused(done, 1, "the key is not valid")
        assert wrong not in done.err


def test_the_audit_log_shows_who_read_what(village: CommandLine, key: str) -> None:
    with_key(village, key, "messages", "general")

    newest = village.json("audit-log", "--limit", "3")
    assert {one["action"] for one in newest} == {
        "list participants", "list restrictions", "read room",
    }  # fmt: skip
    [room] = village.json("rooms")
    about = village.json("audit-log", "--about", room["id"][:13])
    assert {one["action"] for one in about} >= {"read room", "import"}
    assert all(room["id"] in one["subject_ids"] for one in about)
    assert "read room" in village.text("audit-log")


@pytest.mark.slow
def test_two_accounts_are_merged_and_split(village: CommandLine) -> None:
    count = len(village.json("people"))
    merged = village.json("merge", "mira", "mira_home")
    assert {one["account_id"] for one in merged} == {"mira", "mira_home"}
    assert len(village.json("--as", "teo", "people")) == count - 1
    village.refused(1, "one person already", "merge", "mira", "mira_home")
    assert "mira" in village.text("split", "mira_home")
    assert len(village.json("people")) == count


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("keys create", 2, "Missing option"),
        ("keys create --role boss --name x", 2, "boss"),
        ("keys create --role member --name x", 1, "name the participant"),
        ("keys create --role operator --name x --valid-for 0d", 2, "90d"),
        ("keys create --role operator --name x --valid-for 6y", 2, "90d"),
        ("keys create --role operator --name x --valid-for 999999w", 1, "100 years"),
        ("keys create --role member --name x --participant helper", 1, "agent"),
        ("keys revoke nosuch", 1, "no key"),
        ("keys revoke rlk_nosuch", 1, "by its id"),
        ("audit-log --about mira", 1, "must be an id"),
        ("audit-log --limit 0", 2, "0 is not in the range"),
    ],
)
def test_a_mistake_is_one_readable_line(village: CommandLine, words: str, code: int, reason: str) -> None:
    village.refused(code, reason, *words.split())


@pytest.mark.slow
def test_a_process_prints_what_is_printed_here(village: CommandLine) -> None:
    for words in (["--text", "messages", "general"], ["ask", " "]):
        assert process(*village.options, *words) == village(*words)
