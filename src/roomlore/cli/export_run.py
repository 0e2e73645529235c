"""The verb that writes an export as JSON lines, and the import of such an export."""

import gzip
import os
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click

from roomlore.cli.output import Output
from roomlore.cli.progress import count_progress
from roomlore.cli.session import Session, with_app
from roomlore.domain.errors import BadInput, RoomloreError
from roomlore.domain.ids import OrgId
from roomlore.importers.reading.export import open_export
from roomlore.operations import App
from roomlore.operations.exports import RestoreReport, find_export, preview

STDOUT = "-"


class _Writable(Protocol):
    def write(self, data: bytes, /) -> int: ...


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--room", metavar="ROOM", help="Only this room: name, id or external id.")
@click.option("--person", metavar="NAME", help="Only what this person wrote and what is remembered of them.")
@click.pass_obj
def export(session: Session, file: Path, *, room: str | None, person: str | None) -> None:
    """Write everything as JSON lines to FILE, which `roomlore import` reads elsewhere; `-` is standard output.

    A name that ends with .gz is compressed. Keys, vectors, the audit log and calls to language models are not exported.
    """
    if room is not None and person is not None:
        raise click.UsageError("--room and --person exclude each other")

    async def use(app: App) -> Counter[str]:
        viewer = await app.viewer(person) if person is not None else None
        if viewer is None and not app.access.principal.is_operator:
            viewer = app.access.principal
        written = Counter[str]()
        with _writing(file) as stream, count_progress(session.output, "exporting", total=None) as advance:
            async for kind, text in app.exports.lines(room=room, person=viewer):
                stream.write(f"{text}\n".encode())
                written[kind] += 1
                advance(1)
        return written

    written = with_app(session, use)
    del written["header"]
    if str(file) != STDOUT:
        session.output.result({"file": str(file), "records": dict(written)}, f"{file}: {_counts(written)}")


def exported_org(paths: Sequence[Path]) -> OrgId | None:
    """Return the org of the first path that exports a whole org; None if there is none."""
    for path in paths:
        try:
            with open_export(path) as source:
                found = find_export(source)
        except RoomloreError:
            # The import itself reports it.
            continue
        if found is not None and found.header.scope == "org":
            return found.header.org_id
    return None


async def import_export(app: App | None, path: Path, output: Output) -> RestoreReport | None:
    """Import an export of Roomlore, or only preview it without an App. Return None if the path is no such export."""
    with open_export(path) as source:
        found = find_export(source)
        if found is None:
            return None
        if app is None:
            return preview(found)
        with count_progress(output, "importing", total=None) as advance:
            done = 0

            def progress(records: int) -> None:
                nonlocal done
                advance(records - done)
                done = records

            return await app.exports.restore(found, progress=progress)


def show_restored(output: Output, report: RestoreReport) -> None:
    """Print what an import of an export found and stored."""
    output.skipped(report.skipped)
    dry = " (dry run, nothing stored)" if report.added is None else ""
    output.text(f"export of Roomlore, {report.scope}{dry}", style="bold")
    output.text(f"  found: {_counts(report.records)}")
    if report.added is not None:
        output.text(f"  stored: {_counts(report.added) or 'nothing new'}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)


@contextmanager
def _writing(file: Path) -> Generator[_Writable]:
    """Open a file for writing. It appears under its name only when it is complete and on disk."""
    if str(file) == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if file.exists():
        raise BadInput(str(file), "exists; choose another name, or remove it first")
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as raw:
            if file.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
                    yield stream
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BadInput(str(file), f"cannot be written ({error.strerror}); choose another place") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.rename(file)
