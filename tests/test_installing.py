"""What is installed is what was looked at: every pin has its hashes, and what old installers leave out is named."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.txt", "requirements-dev.txt")
#: A pin, what it is for, and its hashes.
PIN = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;\\]+)([^\n]*)((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)*)", re.MULTILINE
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, tuple[str, int]]:
    """Return version and number of hashes of each pin of a file."""
    found = PIN.findall((ROOT / file).read_text())
    return {normal(name): (version, hashes.count("--hash=")) for name, version, _, hashes in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_is_the_one_that_was_chosen(lock: str) -> None:
    lines = [
        line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith((" ", "#"))
    ]
    found, chosen = pins(lock), pins("constraints.txt")
    assert len(found) == len(lines) > 30
    assert {name for name, (_, hashes) in found.items() if not hashes} == set()
    assert {
        name: version for name, (version, _) in found.items() if chosen.get(name, (version,))[0] != version
    } == {}
    assert "://" not in (ROOT / lock).read_text()


def test_whatever_the_project_names_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    groups = [one for name in ("build", "dev", "docs") for one in project["dependency-groups"][name]]
    needed = project["project"]["dependencies"]

    def names(wanted: list[str]) -> set[str]:
        return {normal(re.split(r"[\[<>=~ ]", one)[0]) for one in wanted}

    assert names(needed) <= set(pins("requirements.txt"))
    assert names([*needed, *extras, *groups]) <= set(pins("requirements-dev.txt"))
    assert set(pins("requirements.txt")) <= set(pins("requirements-dev.txt"))


def test_only_what_has_a_known_hash_is_installed() -> None:
    installs = re.findall(r"^\t\$\(PIP\) (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(installs) == 3
    for line in installs:
        assert line.startswith(("--require-hashes ", "--no-build-isolation --editable ."))


def test_what_reading_articles_needs_is_named_by_ourselves() -> None:
    # pip 23.2 does not find it by way of lxml[html_clean], and no page can be parsed.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert any(
        one.startswith("lxml-html-clean") for one in project["project"]["optional-dependencies"]["articles"]
    )
