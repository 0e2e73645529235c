"""The format of backups: a tar file with compressed text of COPY for each table, a manifest and a digest.

Members, in this order:

    roomlore-backup.json     what the file is, its format and the schema version
    TABLE.NUMBER.copy.gz     rows of a table as `copy … to stdout` gives them, a few megabytes each
    manifest.json            tables, columns, row counts and the SHA-256 of each table's text
    sha256                   the SHA-256 of all bytes before this member

The text of COPY is the same in every major version of PostgreSQL. Rows end at newlines and members at rows. The last
2,048 bytes follow from the bytes before, so a change of any byte is noticed. A file can be read with tar and gunzip.
"""

import gzip
import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from roomlore.domain.errors import BadInput, Conflict

FORMAT = "roomlore backup"
FORMAT_VERSION = 1
#: The uncompressed size at which a member ends. A larger row makes its member larger.
MEMBER_BYTES = 4 * 2**20
#: Level 6 makes files a quarter smaller and takes three times as long.
COMPRESSION = 1

ABOUT, MANIFEST, DIGEST = "roomlore-backup.json", "manifest.json", "sha256"
BLOCK = 512
END = bytes(2 * BLOCK)
READ_BYTES = 2**20
#: The most bytes of a member that is read whole, such as the manifest.
MAX_DOCUMENT_BYTES = 16 * 2**20

#: What a file holds: all tables, or only the record of what was erased.
BackupKind = Literal["database", "erasures"]
#: Called with the number of bytes that were checked and their total number.
OnChecked = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupHeader:
    """What a file says about itself."""

    kind: BackupKind
    schema_version: int
    #: The time of the snapshot.
    created_at: datetime
    roomlore: str
    postgresql: str
    pgvector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupTable:
    """A table in a file."""

    name: str
    columns: Sequence[str]
    rows: int
    #: The digest of its text.
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContents:
    """The header of a file, and its tables in the order in which they can be restored."""

    header: BackupHeader
    tables: Sequence[BackupTable]
    #: Rows by embedding model.
    embedding_models: Mapping[str, int]

    def rows(self, table: str) -> int:
        """Return how many rows of a table the file holds."""
        return sum(one.rows for one in self.tables if one.name == table)

    @property
    def total_rows(self) -> int:
        """How many rows the file holds."""
        return sum(one.rows for one in self.tables)


class BackupWriter:
    """Writes a file table by table. `part_file` opens it."""

    def __init__(self, stream: BinaryIO, header: BackupHeader) -> None:
        self._stream, self._header, self._digest = stream, header, hashlib.sha256()
        self._tables: list[BackupTable] = []
        self._name, self._columns = "", tuple[str, ...]()
        self._pending, self._rows, self._members, self._text = bytearray(), 0, 0, hashlib.sha256()
        about = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(header)}
        self._member(ABOUT, _document({**about, "created_at": header.created_at.isoformat()}))

    def begin_table(self, name: str, columns: Sequence[str]) -> None:
        """Begin a table."""
        self._name, self._columns = name, tuple(columns)
        self._rows, self._members, self._text = 0, 0, hashlib.sha256()

    def add(self, rows: bytes) -> None:
        """Add whole rows to the table."""
        self._pending += rows
        if len(self._pending) >= MEMBER_BYTES:
            self._flush()

    def end_table(self) -> int:
        """End the table; return how many rows it has."""
        self._flush()
        table = BackupTable(
            name=self._name, columns=self._columns, rows=self._rows, sha256=self._text.hexdigest()
        )
        self._tables.append(table)
        return self._rows

    def finish(self, embedding_models: Mapping[str, int]) -> None:
        """Write manifest and digest, and wait until the file is on disk."""
        tables = [asdict(table) for table in self._tables]
        self._member(MANIFEST, _document({"tables": tables, "embedding_models": dict(embedding_models)}))
        self._stream.write(_tail(self._digest.hexdigest()))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _flush(self) -> None:
        if self._pending:
            text = bytes(self._pending)
            self._pending.clear()
            self._rows += text.count(b"\n")
            self._text.update(text)
            self._members += 1
            compressed = gzip.compress(text, COMPRESSION, mtime=0)
            self._member(f"{self._name}.{self._members:06}.copy.gz", compressed)

    def _member(self, name: str, content: bytes) -> None:
        data = _tar_member(name, content)
        self._digest.update(data)
        self._stream.write(data)


def _document(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def _tar_member(name: str, content: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    return info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % BLOCK)


def _tail(digest: str) -> bytes:
    return _tar_member(DIGEST, f"{digest}\n".encode()) + END


@contextmanager
def part_file(file: Path, *, overwrite: bool) -> Generator[BinaryIO]:
    """Give the stream of FILE.part, which becomes FILE at the end of the block.

    If the block raises, FILE.part is removed, and FILE is as before.
    """
    if file.is_dir():
        raise BadInput(f"file {str(file)!r}", "is a folder; name a file in it")
    if not overwrite and file.exists():
        raise BadInput(f"file {str(file)!r}", "exists; name another, or pass --overwrite")
    part = file.with_name(f"{file.name}.part")
    try:
        stream = _open_alone(part)
        try:
            with stream:
                yield stream
                part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(file.parent)
    except OSError as error:
        raise BadInput(f"file {str(file)!r}", f"cannot be written: {error.strerror or error}") from error


def _open_alone(part: Path) -> BinaryIO:
    """Open a file that only this process writes. What a killed process left in it is discarded."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    stream = os.fdopen(descriptor, "r+b")
    # The other process may have finished, and renamed the file, before it was locked here.
    if not (_lock(descriptor) and part.exists() and os.path.samestat(part.stat(), os.fstat(descriptor))):
        stream.close()
        raise Conflict("backup", f"another process is writing {part}")
    stream.truncate(0)
    return stream


def _lock(descriptor: int) -> bool:
    try:
        import fcntl  # noqa: PLC0415  Windows has none

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except BlockingIOError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Damaged(BadInput):
    """Bytes are missing or wrong; `why` says which."""

    def __init__(self, why: str) -> None:
        super().__init__("backup", why)


#: What reading a damaged file may raise.
_DAMAGES = (
    *(_Damaged, tarfile.HeaderError, zlib.error, ValueError, KeyError, TypeError),
    *(AttributeError, OverflowError, RecursionError),
)


class BackupReader:
    """Reads a file. Everything is checked before it is used."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._digest = hashlib.sha256()

    def check(self, on_checked: OnChecked) -> BackupContents:
        """Read the whole file, compare every digest and count, and return the contents.

        Raises:
            BadInput: it is no backup, of a newer format, or damaged.
        """
        try:
            return self._checked(on_checked)
        except _DAMAGES as error:
            why = error.why if isinstance(error, _Damaged) else "its bytes are not those that were written"
            raise BadInput(
                f"backup {self._name!r}", f"is damaged: {why}; nothing was changed, use another backup"
            ) from None

    def tables(self, contents: BackupContents) -> Generator[tuple[BackupTable, Generator[bytes]]]:
        """Yield the tables in order, each with its text in pieces. Read each to its end before the next.

        The file was checked before. If it has changed since then, reading raises BadInput.
        """
        self._stream.seek(0)
        self._read_content(self._next_header()[1])
        pending = self._next_header()
        for table in contents.tables:
            text = hashlib.sha256()

            def pieces(table: BackupTable = table, text: Any = text) -> Generator[bytes]:
                nonlocal pending
                while _table_of(pending[0]) == table.name:
                    for piece in self._unpacked(pending[1]):
                        text.update(piece)
                        yield piece
                    pending = self._next_header()
                if text.hexdigest() != table.sha256:
                    raise BadInput(f"backup {self._name!r}", "has changed while it was read")

            yield table, pieces()

    def _checked(self, on_checked: OnChecked) -> BackupContents:
        self._digest = hashlib.sha256()
        total = self._stream.seek(0, os.SEEK_END)
        self._stream.seek(0)
        header = self._header()
        found: dict[str, tuple[int, Any]] = {}
        while True:
            on_checked(self._stream.tell(), total)
            before = self._digest.hexdigest()
            name, size = self._next_header()
            table = _table_of(name)
            if table is None:
                break
            rows, text = found.get(table, (0, hashlib.sha256()))
            for piece in self._unpacked(size):
                text.update(piece)
                rows += piece.count(b"\n")
            found[table] = rows, text
        if name != MANIFEST:
            raise _Damaged("it has no manifest")
        contents = _contents(header, self._read_content(size))
        _compare(contents, {name: (rows, text.hexdigest()) for name, (rows, text) in found.items()})
        before = self._digest.hexdigest()
        if self._stream.read(len(_tail(before)) + 1) != _tail(before):
            raise _Damaged("its digest is another, or it does not end where it should")
        on_checked(total, total)
        return contents

    def _header(self) -> BackupHeader:
        start = self._stream.read(BLOCK)
        self._stream.seek(0)
        if start[: len(ABOUT)] != ABOUT.encode():
            raise BadInput(f"file {self._name!r}", "is not a backup of Roomlore")
        _, size = self._next_header()
        about = json.loads(self._read_content(size))
        if about["format"] != FORMAT:
            raise BadInput(f"file {self._name!r}", "is not a backup of Roomlore")
        if about["version"] > FORMAT_VERSION:
            raise BadInput(
                f"backup {self._name!r}",
                f"has format {about['version']}, written by Roomlore {about['roomlore']}; this Roomlore reads "
                f"format {FORMAT_VERSION}: install that Roomlore or a newer one",
            )
        if about["kind"] not in {"database", "erasures"}:
            raise _Damaged("it does not say what it holds")
        return BackupHeader(
            kind=about["kind"],
            schema_version=int(about["schema_version"]),
            created_at=datetime.fromisoformat(about["created_at"]),
            roomlore=str(about["roomlore"]),
            postgresql=str(about["postgresql"]),
            pgvector=str(about["pgvector"]),
        )

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise _Damaged("it ends early")
        self._digest.update(data)
        return data

    def _next_header(self) -> tuple[str, int]:
        info = tarfile.TarInfo.frombuf(self._read(BLOCK), "utf-8", "strict")
        if info.size < 0:
            raise _Damaged("a member has no size")
        return info.name, info.size

    def _read_content(self, size: int) -> bytes:
        if size > MAX_DOCUMENT_BYTES:
            raise _Damaged("a member is too large")
        content = self._read(size)
        self._read(-size % BLOCK)
        return content

    def _unpacked(self, size: int) -> Generator[bytes]:
        unpacker, left = zlib.decompressobj(wbits=31), size
        while left:
            packed = self._read(min(left, READ_BYTES))
            left -= len(packed)
            piece = b"."
            # A full piece may have more behind it, even if all packed bytes are used.
            while packed or len(piece) == READ_BYTES:
                piece = unpacker.decompress(packed, READ_BYTES)
                packed = unpacker.unconsumed_tail
                yield piece
        if not unpacker.eof or unpacker.unused_data:
            raise _Damaged("a member is not whole")
        self._read(-size % BLOCK)


@contextmanager
def reading(file: Path) -> Generator[BackupReader]:
    """Open a file to read it."""
    try:
        stream = file.open("rb")
    except OSError as error:
        raise BadInput(f"file {str(file)!r}", f"cannot be read: {error.strerror}") from error
    with stream:
        yield BackupReader(stream, str(file))


def check_part(stream: BinaryIO, name: str, on_checked: OnChecked) -> BackupContents:
    """Read what was written back from the disk, check it, and return the contents."""
    if hasattr(os, "posix_fadvise"):
        # Otherwise the memory of the system is checked, and not the disk.
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return BackupReader(stream, name).check(on_checked)


def _table_of(member: str) -> str | None:
    return member.partition(".")[0] if member.endswith(".copy.gz") else None


def _contents(header: BackupHeader, manifest: bytes) -> BackupContents:
    document = json.loads(manifest)
    tables = [
        BackupTable(
            name=str(one["name"]),
            columns=tuple(map(str, one["columns"])),
            rows=int(one["rows"]),
            sha256=str(one["sha256"]),
        )
        for one in document["tables"]
    ]
    models = cast("dict[str, int]", document["embedding_models"])
    return BackupContents(header=header, tables=tables, embedding_models=models)


def _compare(contents: BackupContents, found: Mapping[str, tuple[int, str]]) -> None:
    nothing = (0, hashlib.sha256().hexdigest())
    for table in contents.tables:
        if found.get(table.name, nothing) != (table.rows, table.sha256):
            raise _Damaged(f"the rows of {table.name} are not those that were written")
    if unknown := found.keys() - {table.name for table in contents.tables}:
        raise _Damaged(f"it has rows of {', '.join(sorted(unknown))}, which its manifest does not name")
