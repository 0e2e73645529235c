"""A fault is in the copy while its tests run, and nowhere after."""

from dataclasses import replace
from pathlib import Path

import pytest

from faults.running import Copy
from faults.table import Fault

FAULT = Fault(
    id="sample",
    area="search",
    file="test_code.py",
    before="assert 1 < 2",
    after="assert 2 < 1",
    why="the wrong way round",
    tests=["test_code.py"],
)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    (tmp_path / "test_code.py").write_text("def test_order():\n    assert 1 < 2\n", "utf-8")
    return Copy(root=tmp_path, processes=1, timeout=60)


def interrupt(copy: Copy) -> None:
    with copy.with_fault(FAULT):
        assert FAULT.after in (copy.root / FAULT.file).read_text("utf-8")
        raise KeyboardInterrupt


def test_a_copy_is_as_it_was_after_a_run_that_was_interrupted(copy: Copy):
    path = copy.root / FAULT.file
    text, written_at = path.read_text("utf-8"), path.stat().st_mtime_ns
    with pytest.raises(KeyboardInterrupt):
        interrupt(copy)
    assert (path.read_text("utf-8"), path.stat().st_mtime_ns) == (text, written_at)


@pytest.mark.slow
def test_only_a_fault_that_a_test_notices_is_caught(copy: Copy):
    (copy.root / "conftest.py").write_text(PROFILE, "utf-8")
    with copy.with_fault(FAULT):
        assert copy.run(FAULT.tests) == ("caught", "test_code.py::test_order")
    with copy.with_fault(replace(FAULT, after="assert 1 < 3")):
        assert copy.run(FAULT.tests) == ("not caught", None)


#: As the suite's own.
PROFILE = 'from hypothesis import settings\n\nsettings.register_profile("first failure", settings())\n'
