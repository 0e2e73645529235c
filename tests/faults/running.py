"""Seeds one fault at a time into a copy of the working tree and runs tests there."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from .table import ROOT, Fault, seeded

Outcome = Literal["caught", "not caught", "timeout"]
#: The line of pytest's summary that names a test that failed, or a file that could not be read.
FAILED = re.compile(r"^(FAILED|ERROR) (\S+(?:\[.*?\])?)", re.MULTILINE)
#: pytest's own word that all tests passed, that some failed, that some could not be collected, and that there are none.
PASSED, FAILING, NOT_COLLECTED, NO_TESTS = 0, 1, 2, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the tests said about one fault."""

    id: str
    area: str
    outcome: Outcome
    #: The first test that failed.
    caught_by: str | None
    #: Whether only the whole suite noticed, and none of the tests that the table names.
    by_whole_suite: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of the working tree in which tests run."""

    root: Path
    processes: int
    timeout: float

    def run(self, tests: Sequence[str]) -> tuple[Outcome, str | None]:
        """Run tests until one fails; return what came of it, with the name of the test that failed.

        Raises:
            RuntimeError: pytest itself failed.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["--no-header", "--tb=line"]
        command += ["--hypothesis-seed", "0", "--hypothesis-profile", "first failure"]
        if self.processes > 1:
            command += ["--numprocesses", str(self.processes), "--dist", "worksteal"]
        try:
            code, output = self._wait([*command, *tests])
        finally:
            # Examples that failed are no business of the next fault.
            shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        if code is None:
            return "timeout", None
        # There are none where a test has become a slow one: the fast suite does not notice then.
        if code in {PASSED, NO_TESTS}:
            return "not caught", None
        found = FAILED.search(output)
        if code in {FAILING, NOT_COLLECTED} and found:
            # Such a fault may keep everything from running, which says little about the test.
            return "caught", found[2] + (" (setup)" if found[1] == "ERROR" else "")
        raise RuntimeError(f"pytest ended with {code}:\n{output[-3000:]}")

    def _wait(self, command: Sequence[str]) -> tuple[int | None, str]:
        """Return the exit code and the output of a command; no code if it took too long."""
        # A group of its own: whatever the tests started is stopped with them.
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=_environment(self.root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=self.timeout)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                # pytest gets the time to stop its database servers.
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGINT)
                    try:
                        process.communicate(timeout=60)
                    except subprocess.TimeoutExpired:
                        os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, output

    @contextmanager
    def with_fault(self, fault: Fault) -> Generator[None]:
        """Keep a fault in the copy for a while."""
        path = self.root / fault.file
        text, stat = path.read_text("utf-8"), path.stat()
        path.write_text(seeded(fault, self.root), "utf-8")
        try:
            yield
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _environment(root: Path) -> dict[str, str]:
    # The copy comes before the tree that is installed.
    return {**os.environ, "PYTHONPATH": str(root / "src")}


@contextmanager
def copied(*, processes: int, timeout: float) -> Generator[Copy]:
    """Keep a copy of the working tree for a while: all files that git knows or does not ignore.

    Raises:
        RuntimeError: the package would not be imported from the copy.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    with TemporaryDirectory(prefix="roomlore-faults-") as folder:
        root = Path(folder)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        (root / ".venv").symlink_to(ROOT / ".venv")
        _check_imported_from(root)
        yield Copy(root=root, processes=processes, timeout=timeout)


def _check_imported_from(root: Path) -> None:
    imported = subprocess.run(
        [sys.executable, "-c", "import roomlore; print(roomlore.__file__)"],
        cwd=root,
        env=_environment(root),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if not Path(imported.strip()).resolve().is_relative_to(root.resolve()):
        raise RuntimeError(f"roomlore is imported from {imported.strip()} and not from the copy")


def try_fault(copy: Copy, fault: Fault, *, whole: bool) -> Result:
    """Return whether tests notice a fault: those that the table names, then, if wanted, the whole suite."""
    began = time.monotonic()
    by_whole_suite = False
    with copy.with_fault(fault):
        outcome, name = copy.run(fault.tests)
        if outcome == "not caught" and whole:
            by_whole_suite = True
            outcome, name = copy.run(WHOLE)
    return Result(
        id=fault.id,
        area=fault.area,
        outcome=outcome,
        caught_by=name,
        by_whole_suite=by_whole_suite and outcome == "caught",
        seconds=round(time.monotonic() - began, 1),
    )


#: The fast suite without the check of the table, which would notice every fault.
WHOLE = ("tests", "--ignore=tests/faults")
