"""The files of the embedded cluster, and what a crash may leave of them.

Only one user may open `<data>/postgres/`. It holds the server's own `pgdata`, two passwords, the log, three lock files
and the socket. `pgdata` is created under another name and then renamed, so it is either complete or missing.
"""

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roomlore.db.binaries import Binaries, init_data
from roomlore.db.logins import ADMIN, read_or_create_password, write_private
from roomlore.domain.errors import BadInput, DatabaseUnavailable

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "128MB",
    "work_mem": "8MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # Nothing of this is logged, because errors quote rows and statements, and so messages.
    "log_min_messages": "log",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
_CONFIGURATION = "roomlore.conf"
#: The prefix of folders that hold only a socket.
_SOCKET_DIR_PREFIX = "roomlore-"
_SOCKET_DIR_SETTING = re.compile(r"""^unix_socket_directories = '"(.*)"'$""", re.MULTILINE)
_SOCKET = ".s.PGSQL.5432"
#: Bytes that fit into sun_path on every system: macOS has 104, Linux 108, with the terminating zero.
_SOCKET_PATH_LIMIT = 103
_LOG_LIMIT = 8 * 2**20
#: The entries of a data directory that holds nothing but Roomlore's files.
_PROCESS_NAMES = frozenset({"postgres"})
#: Larger than any process id.
_NO_PROCESS = 2**22 + 7
_PID_FILE_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """The contents of postmaster.pid; the server may have ended."""

    pid: int
    sockets: Path
    ready: bool


@dataclass(frozen=True, slots=True)
class DataDir:
    """The folder of one embedded cluster."""

    root: Path

    @property
    def pgdata(self) -> Path:
        """The server's own directory."""
        return self.root / "pgdata"

    @property
    def log(self) -> Path:
        """The log of the server."""
        return self.root / "postgres.log"

    @property
    def admin_password(self) -> Path:
        """The password of the owner."""
        return self.root / "admin.password"

    @property
    def app_password(self) -> Path:
        """The password of the application."""
        return self.root / "app.password"

    def lock(self, name: str) -> Path:
        """One of the lock files: gate, holders or server."""
        return self.root / f"{name}.lock"

    def prepare(self) -> None:
        """Create the folder and the data directory around it, for this user only."""
        is_new = not self.root.parent.exists()
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.root.stat().st_uid != os.geteuid():
            raise DatabaseUnavailable(
                f"{self.root} belongs to another user",
                cure="run as that user, or choose another data directory with --data",
            )
        self.root.chmod(0o700)
        # A folder that also holds other things keeps its mode.
        data = self.root.parent
        is_ours = (
            data.stat().st_uid == os.geteuid() and {one.name for one in data.iterdir()} <= _PROCESS_NAMES
        )
        if is_new or is_ours:
            data.chmod(0o700)
        for file in self.root.iterdir():
            if file.is_file() and not file.is_symlink() and file.stat().st_mode & 0o077:
                file.chmod(0o600)

    def version(self) -> str | None:
        """Return the major version that wrote the data; None if there is no data."""
        with contextlib.suppress(FileNotFoundError):
            return (self.pgdata / "PG_VERSION").read_text(encoding="ascii").strip()
        return None

    def postmaster(self) -> Postmaster | None:
        """Return the contents of postmaster.pid; None while it is missing or incomplete."""
        try:
            lines = (
                (self.pgdata / "postmaster.pid")
                .read_text(encoding="utf-8", errors="surrogateescape")
                .splitlines()
            )
            return Postmaster(
                pid=int(lines[0]),
                sockets=Path(lines[4]),
                ready=len(lines) >= _PID_FILE_LINES and lines[7].strip() == "ready",
            )
        except (FileNotFoundError, ValueError, IndexError):
            return None

    def is_answering(self) -> bool:
        """Return whether the server is ready, according to postmaster.pid, and accepts a connection."""
        server = self.postmaster()
        if server is None or not server.ready:
            return False
        return _is_listened_to(server.sockets)

    def free_bytes(self) -> int:
        """Return the free bytes of its disk."""
        disk = os.statvfs(self.root)
        return disk.f_bavail * disk.f_frsize

    def log_tail(self) -> str:
        """Return the end of the log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
        return "it left no log"


def init_pgdata(
    home: DataDir, binaries: Binaries, settings: Mapping[str, str], *, lock: int, tick: Callable[[], None]
) -> None:
    """Create the server's directory. If the process is killed meanwhile, the next attempt starts over."""
    read_or_create_password(home.admin_password)
    half = home.root / "pgdata.new"
    shutil.rmtree(half, ignore_errors=True)
    options = [f"--username={ADMIN}", f"--pwfile={home.admin_password}"]
    if settings.get("fsync") == "off":
        options.append("--no-sync")
    init_data(binaries, half, options, lock=lock, tick=tick)
    with (half / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"\ninclude_if_exists '{_CONFIGURATION}'\n")
    half.rename(home.pgdata)
    _sync_folder(home.root)


def check_version(home: DataDir, binaries: Binaries) -> None:
    """Raise DatabaseUnavailable for data that another major version wrote."""
    found = home.version()
    if found != str(binaries.major):
        raise DatabaseUnavailable(
            f"{home.pgdata} was written by PostgreSQL {found or '(unknown)'}; the programs in {binaries.folder} are of "
            f"version {binaries.major}, which cannot read it",
            cure=f"name the programs of PostgreSQL {found or 'that wrote it'} with ROOMLORE_PG_BIN and run `roomlore backup`; "
            "then restore that into a new data directory without ROOMLORE_PG_BIN",
        )


def configure(home: DataDir, settings: Mapping[str, str]) -> None:
    """Write the server's settings and choose the folder of its socket."""
    sockets = os.fspath(_socket_folder(home)).replace('"', '""')
    fixed = {"unix_socket_directories": f'"{sockets}"', "port": "5432"}
    lines = [
        f"{name} = {_quoted(name, value)}\n" for name, value in (_SETTINGS | dict(settings) | fixed).items()
    ]
    write_private(home.pgdata / _CONFIGURATION, "".join(lines))


def open_log(home: DataDir) -> int:
    """Open the log for appending; a large one is rotated first."""
    with contextlib.suppress(FileNotFoundError):
        if home.log.stat().st_size > _LOG_LIMIT:
            home.log.replace(home.log.with_suffix(".log.1"))
    return os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def clear_dead_server(home: DataDir) -> None:
    """Remove what a killed server left. The caller has checked that no server process lives.

    A zombie, or another process with the same id, would make PostgreSQL believe that the server runs. So the pid file
    gets an id that no process has. The file itself stays, so that PostgreSQL still checks shared memory.
    """
    file, server = home.pgdata / "postmaster.pid", home.postmaster()
    if server is not None and is_server_of(server.pid, home.pgdata):
        return
    sockets = home.root / "socket" if server is None else server.sockets
    if server is None:
        # A full disk leaves an empty file, with which PostgreSQL never starts.
        file.unlink(missing_ok=True)
    else:
        _, newline, rest = file.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")
        # Replace the file in one step: on a full disk, a write in place would leave the file empty.
        write_private(file, f"{_NO_PROCESS}{newline}{rest}")
    if _is_private(sockets):
        _clear(sockets)


def is_server_of(pid: int, pgdata: Path) -> bool:
    """Return whether a process may be the server of a directory.

    A server works in its directory. If the working directory of the process is unknown, the process may be the server.
    """
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == pgdata
    except PermissionError:
        return True
    except (FileNotFoundError, ProcessLookupError):
        # Without /proc, as on macOS, only PostgreSQL knows.
        return not Path("/proc/self").exists()


def remove_sockets(home: DataDir, sockets: Path) -> None:
    """Remove a socket folder outside the home."""
    if sockets != home.root / "socket":
        with contextlib.suppress(OSError):
            sockets.rmdir()


def _socket_folder(home: DataDir) -> Path:
    usual = home.root / "socket"
    if _fits_socket_path(usual):
        usual.mkdir(mode=0o700, exist_ok=True)
        usual.chmod(0o700)
        return usual
    # An open App still looks for the socket in the previous folder.
    before = _previous_socket_folder(home)
    if before is not None and before.name.startswith(_SOCKET_DIR_PREFIX) and _fits_socket_path(before):
        with contextlib.suppress(OSError):
            before.mkdir(mode=0o700)
        # The server of a copied data directory may use it.
        if _is_private(before) and not _is_listened_to(before):
            _clear(before)
            return before
    short = Path(tempfile.mkdtemp(prefix=_SOCKET_DIR_PREFIX))
    if not _fits_socket_path(short):
        short.rmdir()
        raise DatabaseUnavailable(
            f"the path {usual} is too long for a socket, and so is that of the temporary directory",
            cure="choose a data directory with a shorter path",
        )
    return short


def _previous_socket_folder(home: DataDir) -> Path | None:
    """Return the socket folder of the last start, if any."""
    with contextlib.suppress(FileNotFoundError):
        settings = (home.pgdata / _CONFIGURATION).read_text(encoding="utf-8", errors="surrogateescape")
        found = _SOCKET_DIR_SETTING.search(settings)
        # As PostgreSQL reads it: quotes and backslashes are doubled.
        return None if found is None else Path(re.sub(r"""(["'\\])\1""", r"\1", found[1]))
    return None


def _fits_socket_path(folder: Path) -> bool:
    return len(os.fsencode(folder / f"{_SOCKET}.lock")) <= _SOCKET_PATH_LIMIT


def _is_listened_to(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        try:
            knock.connect(os.fspath(folder / _SOCKET))
        except OSError:
            return False
    return True


def _clear(folder: Path) -> None:
    """Remove the socket of a server that ended."""
    for name in (_SOCKET, f"{_SOCKET}.lock"):
        (folder / name).unlink(missing_ok=True)


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _quoted(name: str, value: str) -> str:
    if not name.replace(".", "").replace("_", "").isalnum():
        raise BadInput("server setting", f"{name!r} is not a name")
    if "\0" in value:
        raise BadInput(f"server setting {name}", "contains a NUL character")
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
