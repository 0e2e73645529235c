"""Chooses the importer of an export by its content, and names the most likely formats if none fits."""

from collections.abc import Sequence

from roomlore.domain.errors import UnknownFormat
from roomlore.domain.ports import ExportFiles, Importer

_MAX_SHOWN = 3
#: How much is read to find likely formats: files, and bytes of each.
_MAX_FILES, _HEAD_BYTES = 20, 2**18
_MAX_CANDIDATES = 3


def choose_importer(source: ExportFiles, readers: Sequence[Importer], name: str | None = None) -> Importer:
    """Return the importer with this name, or the only importer that recognises the export. Raises UnknownFormat.

    An export in several formats is refused, because one importer would silently drop the other formats.
    """
    known = ", ".join(reader.name for reader in readers) or "none"
    if name is not None:
        for reader in readers:
            if reader.name == name:
                return reader
        raise UnknownFormat(f"format {name!r}", f"not known; the formats are {known}")
    matching = [reader for reader in readers if reader.recognises(source)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(reader.name for reader in matching)
        raise UnknownFormat(source.name, f"holds several formats ({names}): import them apart, or name one")
    raise UnknownFormat(
        source.name, f"not recognised: found {_file_list(source)}. {_advice(source, readers, known)}"
    )


def candidates(source: ExportFiles, readers: Sequence[Importer]) -> list[str]:
    """Return the names of up to three formats whose signs are in the files, the most likely first."""
    heads = b"\n".join(_head(source, file) for file in source.files[:_MAX_FILES])
    shares = {
        reader.name: sum(sign.encode() in heads for sign in reader.signs) / len(reader.signs)
        for reader in readers
        if reader.signs
    }
    likely = sorted((name for name in shares if shares[name] > 0), key=lambda name: -shares[name])
    return likely[:_MAX_CANDIDATES]


def _advice(source: ExportFiles, readers: Sequence[Importer], known: str) -> str:
    likely = candidates(source, readers)
    first = f"The most similar formats are {', '.join(likely)}" if likely else f"The formats are {known}"
    return f"{first}: name one with --format if you know it, or write JSON lines (docs/jsonl.md)"


def _head(source: ExportFiles, file: str) -> bytes:
    try:
        with source.open(file) as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def _file_list(source: ExportFiles) -> str:
    files = source.files
    if not files:
        return "no files"
    shown = ", ".join(files[:_MAX_SHOWN])
    rest = len(files) - _MAX_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
