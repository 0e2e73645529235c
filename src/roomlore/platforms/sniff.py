"""Chooses the reader for an export, or says plainly that there is none."""

from collections.abc import Sequence

from roomlore.domain.errors import UnknownFormat
from roomlore.domain.ports import Reader, Source

_SHOWN = 3


def choose(source: Source, readers: Sequence[Reader], name: str | None = None) -> Reader:
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
    found = [reader for reader in readers if reader.sniff(source)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(reader.name for reader in found)
        raise UnknownFormat(source.name, f"holds several formats ({names}): import them apart, or name one")
    raise UnknownFormat(
        source.name,
        f"not recognised: found {_found(source)}. The formats are {known}; name one if you know it",
    )


def _found(source: Source) -> str:
    files = source.files
    if not files:
        return "no files"
    shown = ", ".join(files[:_SHOWN])
    rest = len(files) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
