import gzip
import json
from pathlib import Path

import pytest

from evaluation.runner import check_place, write_predictions
from roomlore.domain.errors import BadInput

LINES = [{"child": "m2", "parent": "m1"}, {"child": "日本", "parent": "\ud800"}]


def test_a_run_is_one_object_a_line(tmp_path):
    write_predictions(tmp_path / "run.jsonl", LINES)
    assert [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()] == LINES


def test_a_run_without_lines_is_an_empty_file(tmp_path):
    write_predictions(tmp_path / "run.jsonl", [])
    assert (tmp_path / "run.jsonl").read_bytes() == b""


def test_a_name_that_ends_in_gz_is_packed_the_same_each_time(tmp_path):
    write_predictions(tmp_path / "one.jsonl.gz", LINES)
    write_predictions(tmp_path / "two.jsonl.gz", LINES)
    packed = (tmp_path / "one.jsonl.gz").read_bytes()
    assert [json.loads(line) for line in gzip.decompress(packed).splitlines()] == LINES
    assert packed == (tmp_path / "two.jsonl.gz").read_bytes()


def test_what_was_there_is_replaced_and_nothing_else_is_left(tmp_path):
    out = tmp_path / "run.jsonl"
    out.write_text("older\n" * 100)
    write_predictions(out, LINES[:1])
    assert json.loads(out.read_text()) == LINES[0]
    assert list(tmp_path.iterdir()) == [out]


def test_others_may_read_it_as_they_may_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    write_predictions(tmp_path / "run.jsonl", LINES)
    assert (tmp_path / "run.jsonl").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("fault", ["cannot be said in JSON", "no place left", "interrupted"])
def test_a_run_that_fails_leaves_what_was_there(fault, tmp_path, monkeypatch):
    out = tmp_path / "run.jsonl"
    out.write_text("older\n")
    error = {
        "cannot be said in JSON": TypeError,
        "no place left": BadInput,
        "interrupted": KeyboardInterrupt,
    }[fault]

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device") if error is BadInput else error

    lines = [*LINES, {"child": object()}] if error is TypeError else LINES
    if error is not TypeError:
        monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(error):
        write_predictions(out, lines)
    assert out.read_text() == "older\n"
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    for call in (check_place, lambda out: write_predictions(out, LINES)):
        with pytest.raises(BadInput, match=r"run\.jsonl: there is no folder '.*nowhere'; make it first"):
            call(tmp_path / "nowhere" / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_place_for_a_run(tmp_path):
    with pytest.raises(BadInput, match="is not a file"):
        check_place(tmp_path)


def test_a_place_that_is_free_or_holds_a_file_is_fine(tmp_path):
    check_place(tmp_path / "run.jsonl")
    (tmp_path / "run.jsonl").touch()
    check_place(tmp_path / "run.jsonl")
    assert (tmp_path / "run.jsonl").read_bytes() == b""
