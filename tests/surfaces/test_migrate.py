"""The command that takes over data says what is wrong with its arguments, and needs no database to say so."""

import pytest
from click.testing import CliRunner

from roomlore.cli.main import cli

PASSWORD = {"ROOMLORE_MIGRATE_PASSWORD": "secret-word"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["http://somewhere"], "must be like bolt://host:7687"),
        (["bolt://192.0.2.1:7687"], "must be bolt+s or neo4j+s"),
        (["bolt://127.0.0.1:1/graph"], "must end with host and port"),
        (["bolt://127.0.0.1:1", "--person", "Kublai"], "must be like NAME=WHO"),
        (["bolt://127.0.0.1:1", "--audience", "everybody"], "'everybody' is not one of"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(cli, ["migrate", "graph", *arguments, "--dry-run"], env=PASSWORD)
    shown = done.output + str(done.exception)
    assert done.exit_code != 0
    assert told in shown
    assert "secret-word" not in shown
