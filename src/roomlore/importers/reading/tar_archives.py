"""Unpacks tar archives and gzip files into a folder.

A tar has no index, and a compressed one cannot be read from its middle. So it is unpacked once, and the folder is read.
A file gets a number as its name on disk, so no name in an archive can lead out of the folder.
"""

import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import SkippedRecord

_CHUNK = 2**20
_GZIP = b"\x1f\x8b"
_COMPRESSED = (_GZIP, b"BZh", b"\xfd7zXZ\x00")
#: Where a tar header has its magic word.
_TAR_MAGIC, _TAR_PLACE = b"ustar", 257
_BROKEN = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, ValueError, gzip.BadGzipFile)

#: Returns why a member is refused, an empty string if it is accepted, or None if it is passed over in silence.
MemberCheck = Callable[[str, tarfile.TarInfo], str | None]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(slots=True, kw_only=True)
class Unpacked:
    """The files of an archive, and what was refused."""

    #: The most bytes that may still be unpacked.
    bytes_left: int
    files: dict[str, Path] = field(default_factory=dict[str, Path])
    refused: list[SkippedRecord] = field(default_factory=list[SkippedRecord])


def is_tar(path: Path) -> bool:
    """Return whether a file is a tar archive, compressed or not."""
    with path.open("rb") as stream:
        head = stream.read(_TAR_PLACE + len(_TAR_MAGIC))
    if head[_TAR_PLACE:] == _TAR_MAGIC:
        return True
    if not head.startswith(_COMPRESSED):
        return False
    try:
        with tarfile.open(path, "r|*") as archive:
            return archive.next() is not None
    except (*_BROKEN, OSError):
        return False


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed by gzip."""
    with path.open("rb") as stream:
        return stream.read(len(_GZIP)) == _GZIP


def unpack_gzip(path: Path, folder: Path, max_bytes: int) -> Unpacked:
    """Unpack a gzip file into a folder. The file inside has the name without `.gz`.

    Raises BadInput if the file is damaged or too large.
    """
    unpacked = Unpacked(bytes_left=max_bytes)
    try:
        with gzip.open(path) as stream:
            _store(unpacked, folder, path.stem if path.suffix.lower() == ".gz" else path.name, stream)
    except _BROKEN as error:
        raise _incomplete(path) from error
    return unpacked


def unpack_tar(path: Path, folder: Path, check: MemberCheck, *, max_files: int, max_bytes: int) -> Unpacked:
    """Unpack the files of a tar archive into a folder.

    Raises BadInput if the archive is damaged or too large.
    """
    unpacked = Unpacked(bytes_left=max_bytes)
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in _files(archive, path, max_files):
                name = member.name.removeprefix("./")
                reason = "name twice in archive" if name in unpacked.files else check(name, member)
                if reason:
                    unpacked.refused.append(SkippedRecord(where=name[:200], reason=reason))
                elif reason is not None and (stream := archive.extractfile(member)) is not None:
                    _store(unpacked, folder, name, stream)
    except _BROKEN as error:
        raise _incomplete(path) from error
    return unpacked


def _files(archive: tarfile.TarFile, path: Path, max_files: int) -> Iterator[tarfile.TarInfo]:
    for number, member in enumerate(archive):
        if number >= max_files:
            raise BadInput(str(path), f"holds more than {max_files:,} files; import its parts one by one")
        if not member.isdir():
            yield member


def _store(unpacked: Unpacked, folder: Path, name: str, stream: _Readable) -> None:
    target = folder / str(len(unpacked.files))
    with target.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            unpacked.bytes_left -= len(chunk)
            if unpacked.bytes_left < 0:
                raise BadInput(
                    name,
                    "unpacks to far more than a chat export would; if you trust it, unpack it and import the folder",
                )
            out.write(chunk)
    unpacked.files[name] = target


def _incomplete(path: Path) -> BadInput:
    return BadInput(str(path), "is not a complete archive; download it again")
