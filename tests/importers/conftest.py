"""How the tests of the readers get from a file on disk to records."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from roomlore.domain.incoming import IncomingMessage, ParsedItem, SkippedRecord
from roomlore.domain.ports import Importer, ReadOptions
from roomlore.importers.reading.export import open_export


class Result:
    """What a reader yielded, apart."""

    def __init__(self, items: list[ParsedItem]) -> None:
        self.items = items
        self.messages = [item for item in items if isinstance(item, IncomingMessage)]
        self.skipped = [item for item in items if isinstance(item, SkippedRecord)]
        self.reasons = [item.reason for item in self.skipped]

    @property
    def only(self) -> IncomingMessage:
        assert len(self.messages) == 1, self.items
        return self.messages[0]

    def by_id(self, external_id: str) -> IncomingMessage:
        return next(message for message in self.messages if message.external_id == external_id)


Read = Callable[..., Result]


@pytest.fixture
def read() -> Read:
    def run(
        reader: Importer, path: Path, *, day: date | None = None, zone: str | None = None, workspace: str = ""
    ) -> Result:
        with open_export(path) as source:
            options = ReadOptions(day=day, zone=ZoneInfo(zone) if zone else None, workspace=workspace)
            return Result(list(reader.read(source, options)))

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Write files below a folder: JSON for objects and lists, text and bytes as they are."""

    def run(files: dict[str, Any]) -> Path:
        root = tmp_path / "export"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(
                    content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
                )
        return root

    return run
