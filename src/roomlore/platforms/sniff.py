"""Chooses the reader for an export, or says plainly that there is none."""

from collections.abc import Sequence

from roomlore.domain.errors import UnknownFormat
from roomlore.domain.ports import Importer, ExportFiles

_MAX_SHOWN = 3


def choose_importer(source: ExportFiles, readers: Sequence[Importer], name: str | None = None) -> Importer:
    """Return the reader that recognises the export, or the one asked for by name.

    Raises:
        UnknownFormat: no reader of that name, none that recognises the export, or several: read as one
            format, what is of another would be dropped without a word.
    """
    known = ", ".join(reader.name for reader in readers) or "none"
    if name is not None:
        for reader in readers:
            if reader.name == name:
                return reader
        raise UnknownFormat(f"format {name!r}", f"not known; the formats are {known}")
    found = [reader for reader in readers if reader.recognises(source)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(reader.name for reader in found)
        raise UnknownFormat(source.name, f"holds several formats ({names}): import them apart, or name one")
    raise UnknownFormat(
        source.name,
        f"not recognised: found {_file_list(source)}. The formats are {known}; name one if you know it",
    )


def _file_list(source: ExportFiles) -> str:
    files = source.files
    if not files:
        return "no files"
    shown = ", ".join(files[:_MAX_SHOWN])
    rest = len(files) - _MAX_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
