"""Opens an export (a file, a folder or an archive) as named files, safely.

Importers see only names and byte streams. Links, unsafe names and archive bombs are refused here.
"""

import io
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.tar_archives import Unpacked, is_gzip, is_tar, unpack_gzip, unpack_tar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: The maximum number of files per export. A busy workspace has some 100,000 after ten years.
MAX_FILES = 200_000
#: The maximum number of uncompressed bytes, of one archive member and of all together.
MAX_MEMBER_BYTES = 4 * 2**30
MAX_TOTAL_BYTES = 32 * 2**30
#: The maximum compression ratio. Chat exports reach about 30, deflate 1,032.
MAX_RATIO = 200
#: This size is always allowed, because tiny files may compress extremely well.
RATIO_FREE_BYTES = 2**20

_DRIVE = lazy_pattern(r"^[A-Za-z]:(/|$)")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f]")
#: Files that operating systems add.
_IGNORED_NAMES = ("__MACOSX", "Thumbs.db", "desktop.ini")
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class Export(ABC):
    """An open export. It implements `domain.ports.ExportFiles` and counts bytes for progress."""

    def __init__(self, name: str, sizes: dict[str, int], refused: Sequence[SkippedRecord] = ()) -> None:
        self._name = name
        self._sizes = sizes
        self._files = tuple(sorted(sizes))
        self._furthest = dict.fromkeys(sizes, 0)
        self._read = 0
        #: What was refused on opening: links, unsafe names, encrypted members.
        self.refused: tuple[SkippedRecord, ...] = tuple(refused)

    @property
    def name(self) -> str:
        """The name of the file or folder, without its path."""
        return self._name

    @property
    def files(self) -> Sequence[str]:
        """The sorted names of the files inside."""
        return self._files

    @property
    def bytes_total(self) -> int:
        """The stated uncompressed size of all files."""
        return sum(self._sizes.values())

    @property
    def bytes_read(self) -> int:
        """The number of bytes read so far. A second pass over a file is not counted."""
        return self._read

    def open(self, file: str) -> IO[bytes]:
        """Open one of the files for reading."""
        if file not in self._sizes:
            raise NotFound("file", file)
        return io.BufferedReader(
            _CountingStream(self._open(file), lambda position: self._report_position(file, position))
        )

    def close(self) -> None:  # noqa: B027  most exports hold nothing open
        """Close what the export holds open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _open(self, file: str) -> IO[bytes]: ...

    def _report_position(self, file: str, position: int) -> None:
        gain = position - self._furthest[file]
        if gain > 0:
            self._furthest[file] = position
            self._read += gain


class _FileExport(Export):
    """One file, or the regular files of a folder."""

    def __init__(self, name: str, paths: dict[str, Path], refused: Sequence[SkippedRecord] = ()) -> None:
        super().__init__(name, {file: path.lstat().st_size for file, path in paths.items()}, refused)
        self._paths = paths

    def _open(self, file: str) -> IO[bytes]:
        # The file may have been replaced by a link since it was listed.
        descriptor = os.open(self._paths[file], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        return os.fdopen(descriptor, "rb", buffering=0)


class _UnpackedExport(_FileExport):
    """The files of a tar or gzip file, unpacked into a temporary folder."""

    def __init__(self, name: str, unpacked: Unpacked, folder: "tempfile.TemporaryDirectory[str]") -> None:
        super().__init__(name, unpacked.files, unpacked.refused)
        self._folder = folder

    def close(self) -> None:
        self._folder.cleanup()


class _ZipExport(Export):
    """The members of an archive. The limits apply to the bytes that are really unpacked."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        members, refused = _members(archive)
        super().__init__(path.name, {name: info.file_size for name, info in members.items()}, refused)
        self._archive = archive
        self._members = members
        self._packed = path.stat().st_size
        for name, info in members.items():
            self._limit(name, info.file_size, info.file_size)
        self._limit(path.name, 0, self.bytes_total)

    def close(self) -> None:
        self._archive.close()

    def _open(self, file: str) -> IO[bytes]:
        try:
            return self._archive.open(self._members[file])
        except _BROKEN_ARCHIVE as error:
            raise OSError(f"damaged archive member: {type(error).__name__}") from error

    def _report_position(self, file: str, position: int) -> None:
        super()._report_position(file, position)
        self._limit(file, position, self._read)

    def _limit(self, file: str, member: int, total: int) -> None:
        packed = min(self._members[file].compress_size if file in self._members else 0, self._packed)
        too_large = member > MAX_MEMBER_BYTES or total > MAX_TOTAL_BYTES
        too_dense = (
            member > packed * MAX_RATIO + RATIO_FREE_BYTES
            or total > self._packed * MAX_RATIO + RATIO_FREE_BYTES
        )
        if too_large or too_dense:
            raise BadInput(
                f"{self.name}: {file}",
                "unpacks to far more than a chat export would; if you trust it, unpack it and import the folder",
            )


class _CountingStream(io.RawIOBase):
    """A file that reports its read position."""

    def __init__(self, inner: IO[bytes], passed: Callable[[int], None]) -> None:
        super().__init__()
        self._inner = inner
        self._passed = passed
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._inner.read(len(view))
        except _BROKEN_ARCHIVE as error:
            raise OSError(f"damaged file: {type(error).__name__}") from error
        view[: len(data)] = data
        self._position += len(data)
        self._passed(self._position)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


def open_export(path: str | os.PathLike[str]) -> Export:
    """Open a file, a folder, a zip, a tar (compressed or not) or a gzip file. The caller closes it.

    Raises BadInput if it is missing, unreadable, broken or a bomb.
    """
    place = Path(path)
    try:
        real = place.resolve(strict=True)
        name = place.name if place.name not in {"", ".", ".."} else real.name
        mode = real.stat().st_mode
        if stat.S_ISDIR(mode):
            return _open_folder(real, name)
        if not stat.S_ISREG(mode):
            raise BadInput(str(place), "is neither a file nor a folder; save it as a file first")
        if zipfile.is_zipfile(real):
            return _open_archive(real)
        if real.suffix.lower() == ".zip":
            raise BadInput(str(place), "is not a complete zip archive; download it again")
        if is_tar(real) or is_gzip(real):
            return _open_unpacked(real, name)
        return _FileExport(name, {name: real})
    except FileNotFoundError as error:
        raise BadInput(str(place), "no such file or folder; check the path") from error
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise BadInput(str(place), f"cannot be read ({why}); check the path and its permissions") from error


def _open_folder(root: Path, name: str) -> Export:
    paths: dict[str, Path] = {}
    refused: list[SkippedRecord] = []
    # An unreadable root is an error of the caller. An unreadable folder inside the root is only reported.
    os.scandir(root).close()
    for place, entry in _entries(root, refused):
        if len(paths) + len(refused) >= MAX_FILES:
            raise BadInput(str(root), f"holds more than {MAX_FILES:,} files; import its parts one by one")
        if entry.is_symlink():
            refused.append(SkippedRecord(where=place, reason="link not followed"))
        elif not entry.is_file(follow_symlinks=False):
            refused.append(SkippedRecord(where=place, reason="not a regular file"))
        else:
            paths.setdefault(place, Path(entry.path))
    return _FileExport(name, paths, refused)


def _entries(root: Path, refused: list[SkippedRecord]) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Walk the folders below the root and yield their entries with relative names, without system files."""
    waiting = [("", os.fspath(root))]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                found = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            refused.append(
                SkippedRecord(where=prefix, reason="unreadable folder", detail=error.strerror or "")
            )
            continue
        for entry in found:
            label = _CONTROL.sub("�", os.fsencode(entry.name).decode("utf-8", "replace"))
            if label.startswith(".") or label in _IGNORED_NAMES:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{prefix}{label}/", entry.path))
            else:
                yield f"{prefix}{label}", entry


def _open_archive(path: Path) -> Export:
    try:
        archive = zipfile.ZipFile(path)
    except _BROKEN_ARCHIVE as error:
        raise BadInput(str(path), "is not a readable zip archive; download it again") from error
    try:
        return _ZipExport(path, archive)
    except BadInput:
        archive.close()
        raise


def _open_unpacked(path: Path, name: str) -> Export:
    packed = path.stat().st_size
    limit = min(MAX_TOTAL_BYTES, packed * MAX_RATIO + RATIO_FREE_BYTES)
    folder = tempfile.TemporaryDirectory(prefix="roomlore-")
    try:
        place = Path(folder.name)
        if is_tar(path):
            unpacked = unpack_tar(path, place, _check_tar_member, max_files=MAX_FILES, max_bytes=limit)
        else:
            unpacked = unpack_gzip(path, place, limit)
        return _UnpackedExport(name, unpacked, folder)
    except BaseException:
        folder.cleanup()
        raise


def _check_tar_member(name: str, member: tarfile.TarInfo) -> str | None:
    if _is_system_file(name):
        return None
    if _is_unsafe(name):
        return "unsafe name in archive"
    return "" if member.isreg() else "link in archive"


def _members(archive: zipfile.ZipFile) -> tuple[dict[str, zipfile.ZipInfo], list[SkippedRecord]]:
    listed = archive.infolist()
    if len(listed) > MAX_FILES:
        raise BadInput(
            str(archive.filename), f"holds more than {MAX_FILES:,} files; import its parts one by one"
        )
    members: dict[str, zipfile.ZipInfo] = {}
    refused: list[SkippedRecord] = []
    for info in listed:
        name = info.filename.replace("\\", "/")
        if info.is_dir() or _is_system_file(name):
            continue
        reason = "name twice in archive" if name in members else _refusal_reason(name, info)
        if reason:
            refused.append(SkippedRecord(where=_CONTROL.sub("�", name)[:200], reason=reason))
        else:
            members[name] = info
    return members, refused


def _refusal_reason(name: str, info: zipfile.ZipInfo) -> str:
    """Return why a member is refused, or an empty string."""
    if _is_unsafe(name):
        return "unsafe name in archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "link in archive"
    if info.flag_bits & 0x1:
        return "encrypted in archive"
    return ""


def _is_system_file(name: str) -> bool:
    """Return whether a member is hidden, or was added by an operating system."""
    return any(part in _IGNORED_NAMES or part[:1] == "." for part in name.split("/") if part != "..")


def _is_unsafe(name: str) -> bool:
    """Return whether a name could lead out of a folder, or garble a terminal."""
    parts = name.split("/")
    return bool(
        name.startswith("/") or _DRIVE.match(name) or ".." in parts or "" in parts or _CONTROL.search(name)
    )
