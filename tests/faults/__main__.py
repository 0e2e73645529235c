"""Shows which of the seeded faults the tests notice: `python -m tests.faults --help`."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .running import WHOLE, Copy, Result, copied, try_fault
from .table import Fault, problems, read_table


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Seeds faults one at a time and runs the tests that should notice.",
    )
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    parser.add_argument(
        "--check", action="store_true", help="check that every fault can be seeded and run nothing"
    )
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="these faults")
    parser.add_argument("--area", nargs="+", metavar="AREA", default=[], help="the faults of these areas")
    parser.add_argument(
        "--whole", action="store_true", help="run the whole fast suite where the named tests pass"
    )
    parser.add_argument("--processes", type=int, default=2, help="pytest processes (default: 2)")
    parser.add_argument(
        "--timeout", type=float, default=1200, help="seconds for one run of pytest (default: 1200)"
    )
    parser.add_argument("--no-baseline", action="store_true", help="skip the first run, without any fault")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file")
    return parser.parse_args(words)


def chosen(faults: Sequence[Fault], *, only: Sequence[str], areas: Sequence[str]) -> list[Fault]:
    """Return the faults that are asked for; all where nothing is named."""
    for word in [*set(only) - {fault.id for fault in faults}, *set(areas) - {fault.area for fault in faults}]:
        raise SystemExit(f"there is no fault or area {word!r}; see --list")
    return [fault for fault in faults if (not only and not areas) or fault.id in only or fault.area in areas]


def baseline(copy: Copy, faults: Sequence[Fault], *, whole: bool) -> None:
    """Check that the tests pass without a fault: a failure says nothing otherwise."""
    tests = WHOLE if whole else tuple(dict.fromkeys(test for fault in faults for test in fault.tests))
    outcome, name = copy.run(tests)
    if outcome != "not caught":
        raise SystemExit(f"without any fault the tests do not pass: {name or outcome}")


def line(result: Result) -> str:
    """Return one line of the table."""
    by = result.caught_by or ""
    return f"{result.id:<44} {result.outcome:<10} {result.seconds:>7.1f} s  {by}{' (whole suite)' * result.by_whole_suite}"


def summary(results: Sequence[Result]) -> str:
    """Return how many faults of each area were caught."""
    areas = dict.fromkeys(result.area for result in results)
    counts = [
        f"{area}: {sum(one.outcome == 'caught' for one in results if one.area == area)}"
        f" of {sum(one.area == area for one in results)}"
        for area in areas
    ]
    caught = sum(result.outcome == "caught" for result in results)
    return f"caught {caught} of {len(results)} ({', '.join(counts)})"


def try_all(faults: Sequence[Fault], asked: argparse.Namespace) -> list[Result]:
    """Try faults one after the other, print each result as it comes, and keep what there is when interrupted."""
    results: list[Result] = []
    try:
        with copied(processes=asked.processes, timeout=asked.timeout) as copy:
            if not asked.no_baseline:
                baseline(copy, faults, whole=asked.whole)
            for fault in faults:
                results.append(try_fault(copy, fault, whole=asked.whole))
                print(line(results[-1]), flush=True)
                write(results, asked.json)
    except KeyboardInterrupt:
        print("interrupted; the working tree is as it was", file=sys.stderr)
    return results


def write(results: Sequence[Result], path: Path | None) -> None:
    """Write results to a file, if one is named."""
    if path:
        path.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n", "utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; return 0 if every fault that was tried is caught."""
    # A job that is ended tidies up like one that is interrupted; a shell lets its background jobs ignore interrupts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    asked = arguments(words)
    faults = read_table()
    found = list(problems(faults))
    if found or asked.check:
        print("\n".join(found) or f"{len(faults)} faults can be seeded")
        return bool(found)
    faults = chosen(faults, only=asked.only, areas=asked.area)
    if asked.list:
        for fault in faults:
            print(f"{fault.id:<44} {fault.area:<12} {fault.file}\n    {fault.why}")
        return 0
    results = try_all(faults, asked)
    print(summary(results))
    return not (len(results) == len(faults) and all(result.outcome == "caught" for result in results))


if __name__ == "__main__":
    sys.exit(main())
