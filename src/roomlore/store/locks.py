"""Kernel locks on files, which end with the last process that has them, however it ends.

They belong to an open file and not to a process: a child that inherits the descriptor keeps the lock, and closing a
descriptor gives the lock back only when no child has it.
"""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def opened_lock(file: Path) -> Generator[int]:
    """Yield a descriptor of a lock file, which is made if need be; it is closed, not unlocked, at the end."""
    descriptor = open_lock(file)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_lock(file: Path) -> int:
    """Return a descriptor of a lock file; children do not inherit it unless told to."""
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)


def acquire(descriptor: int, *, shared: bool = False) -> bool:
    """Take a lock, alone or shared, or change from one to the other; False when others are in the way.

    What was held before is lost when a change fails.
    """
    import fcntl  # noqa: PLC0415  Windows has none, and must be able to import this module

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """End the lock, also for children that inherited it."""
    import fcntl  # noqa: PLC0415  as in take

    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_free(file: Path, *, shared: bool) -> bool:
    """Whether one could take the lock now, alone or shared; makes no file."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return acquire(descriptor, shared=shared)
    finally:
        os.close(descriptor)
