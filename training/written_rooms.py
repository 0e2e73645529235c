"""Reads rooms that were written to learn from: `training/sets/rooms/AUTHOR/*.jsonl`, one message a line."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from training.mixing import Line

SETS = Path(__file__).with_name("sets") / "rooms"


def authors() -> list[str]:
    """Return the names of those who wrote rooms; hold one out to see how a model does on somebody else's rooms."""
    return sorted(folder.name for folder in SETS.iterdir())


def rooms_of(author: str) -> list[list[Line]]:
    """Return the rooms of one author, each in order of time."""
    return [list(_lines(path)) for path in sorted((SETS / author).glob("*.jsonl"))]


def _lines(path: Path) -> Iterator[Line]:
    numbers: dict[str, int] = {}
    for text in filter(None, path.read_text().split("\n")):
        message = json.loads(text)
        conversation = numbers.setdefault(message["conversation"], len(numbers))
        yield Line(
            datetime.fromisoformat(message["at"]).timestamp(),
            message["author"],
            conversation,
            message["text"],
        )
