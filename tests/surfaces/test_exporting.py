"""The export as a file: whole or not there."""

import gzip
import json
from pathlib import Path

import pytest

from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, line

LINES = [line(1, "ana", "when does the ferry leave"), line(2, "bo", "at nine", reply_to="1")]


@pytest.fixture(scope="module")
def quay(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    quay = CommandLine(cluster=cluster)
    quay.tell(tmp_path_factory.mktemp("export"), LINES)
    return quay


def test_an_export_can_be_previewed_and_is_known_as_one(quay: CommandLine, tmp_path: Path) -> None:
    written = quay.json("export", tmp_path / "quay.jsonl")
    assert written["records"]["message"] == 2

    previewed = quay.json("import", "--dry-run", tmp_path / "quay.jsonl")
    assert previewed["records"] == written["records"]
    assert previewed["added"] is None
    again = quay("import", tmp_path / "quay.jsonl", "--no-embed")
    assert again.code == 0
    assert "stored: nothing new" in again.out
    assert "room is already here (general)" in again.err


def test_a_compressed_export_holds_the_same_lines(quay: CommandLine, tmp_path: Path) -> None:
    quay("export", tmp_path / "quay.jsonl")
    quay("export", tmp_path / "quay.jsonl.gz")

    plain = (tmp_path / "quay.jsonl").read_bytes()
    assert gzip.decompress((tmp_path / "quay.jsonl.gz").read_bytes()) == plain
    assert quay.json("import", "--dry-run", tmp_path / "quay.jsonl.gz")["records"]["message"] == 2


def test_an_export_goes_to_standard_output(quay: CommandLine) -> None:
    done = quay("export", "-", "--room", "general")

    assert json.loads(done.out.splitlines()[0])["scope"] == "room"
    assert sum('"record": "message"' in text for text in done.out.splitlines()) == 2


def test_a_persons_export_has_their_words_only(quay: CommandLine) -> None:
    done = quay("export", "-", "--person", "bo")

    assert "at nine" in done.out
    assert "when does the ferry leave" not in done.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--room", "nowhere"], "nowhere"),
        (["--person", "nobody"], "nobody"),
        (["--room", "general", "--person", "bo"], "exclude each other"),
    ],
)
def test_an_export_that_fails_leaves_no_file(
    quay: CommandLine, tmp_path: Path, words: list[str], why: str
) -> None:
    done = quay("export", tmp_path / "quay.jsonl", *words)

    assert done.code != 0
    assert why in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays(quay: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "quay.jsonl").write_text("mine")
    done = quay("export", tmp_path / "quay.jsonl")

    assert done.code != 0
    assert "exists; choose another name" in done.err
    assert (tmp_path / "quay.jsonl").read_text() == "mine"
