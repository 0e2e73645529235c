"""Reads the table of seeded faults and says what is wrong with it."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("faults.toml")
#: How many faults there are at least, in all and in the areas where a fault costs most.
LEAST = 66
LEAST_OF_AREA = {"visibility": 20, "ingest": 12, "erasure": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One small mistake that the tests should notice."""

    id: str
    area: str
    #: The file that gets the mistake, from the root of the repository.
    file: str
    #: The text as it is. It occurs once in the file.
    before: str
    #: The text with the mistake.
    after: str
    #: Why it is wrong.
    why: str
    #: The tests that should notice: paths or node ids, the likeliest and quickest first.
    tests: Sequence[str]


def read_table(path: Path = TABLE) -> tuple[Fault, ...]:
    """Return all faults of a table, in its order.

    Raises:
        TypeError: a fault lacks a field or has one too many.
    """
    return tuple(Fault(**fault) for fault in tomllib.loads(path.read_text("utf-8"))["fault"])


def seeded(fault: Fault, root: Path = ROOT) -> str:
    """Return the text of the fault's file with the mistake in it.

    Raises:
        ValueError: the text to replace does not occur exactly once.
    """
    text = (root / fault.file).read_text("utf-8")
    count = text.count(fault.before)
    if count != 1:
        raise ValueError(f"{fault.id}: the text `before` occurs {count} times in {fault.file}, not once")
    return text.replace(fault.before, fault.after)


def problems(faults: Sequence[Fault], root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with a table: nothing where every fault can be seeded."""
    for name, count in Counter(fault.id for fault in faults).items():
        if count > 1:
            yield f"{name}: {count} faults have this id"
    for fault in faults:
        if fault.before == fault.after:
            yield f"{fault.id}: `before` and `after` are the same"
        if (root / fault.file).is_file():
            try:
                seeded(fault, root)
            except ValueError as error:
                yield str(error)
        else:
            yield f"{fault.id}: there is no file {fault.file}"
        yield from _missing_tests(fault, root)


def _missing_tests(fault: Fault, root: Path) -> Iterator[str]:
    if not fault.tests:
        yield f"{fault.id}: names no tests"
    for test in fault.tests:
        path, _, name = test.partition("::")
        if not (root / path).exists():
            yield f"{fault.id}: there is no test file {path}"
        elif name and f"def {name.partition('[')[0]}(" not in (root / path).read_text("utf-8"):
            yield f"{fault.id}: there is no test {name} in {path}"
