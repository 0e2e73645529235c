"""Writes what a system found as a run: one JSON object a line, in the form that scorers of such data sets read."""

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from roomlore.domain.errors import BadInput

#: What one line of a run says, ready for JSON.
Line = Mapping[str, Any]


def check_place(out: Path) -> None:
    """Do nothing if a run can be written there.

    Raises:
        BadInput: the folder does not exist, or there is something that is no file.
    """
    if not out.parent.is_dir():
        raise BadInput(
            str(out), f"there is no folder {str(out.parent)!r}; make it first, or name another place"
        )
    if out.exists() and not out.is_file():
        raise BadInput(str(out), "is there already and is not a file; name another place")
    if not os.access(out.parent, os.W_OK):
        raise BadInput(str(out), f"the folder {str(out.parent)!r} may not be written to; name another place")


def write_run(out: Path, lines: Iterable[Line]) -> None:
    """Write a run, packed where the name ends in .gz: all of it, or nothing and what was there before stays.

    Raises:
        BadInput: it cannot be written there.
    """
    check_place(out)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    # The same run is the same file: a packed one would else hold the time.
    content = gzip.compress(text.encode(), mtime=0) if out.suffix == ".gz" else text.encode()
    try:
        _replace(out, content)
    except OSError as error:
        raise BadInput(str(out), f"cannot be written ({error.strerror})") from error


def _replace(out: Path, content: bytes) -> None:
    # Beside its place, so that it gets there in one step.
    handle, name = mkstemp(dir=out.parent, prefix=f".{out.name}.")
    unfinished = Path(name)
    try:
        with open(handle, "wb") as stream:  # noqa: PTH123  a handle, not a path
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        unfinished.chmod(_usual_mode())
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
