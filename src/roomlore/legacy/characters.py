"""Reads which account each character of a bot has on the platform."""

import csv
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from roomlore.domain.errors import BadInput
from roomlore.importers.reading.fields import MAX_ID


def read_characters(path: Path) -> Mapping[str, str]:
    """Return the account of each character from a TOML or CSV file.

    A TOML file has lines `elena = "1005"`, at the top or under `[agents]`. A CSV file has the columns name and id.

    Raises BadInput if the file cannot be read or a line has no id.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"agents file {path.name!r}", f"cannot be read ({type(error).__name__})") from error
    entries = _from_csv(text) if path.suffix.lower() == ".csv" else _from_toml(path, text)
    return {name: _account(path, name, account) for name, account in entries.items()}


def _from_toml(path: Path, text: str) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"agents file {path.name!r}", f"is not TOML: {error}") from error
    agents = document.get("agents", document)
    if not isinstance(agents, dict):
        raise BadInput(f"agents file {path.name!r}", "agents is not a table")
    return cast("Mapping[str, Any]", agents)


def _from_csv(text: str) -> Mapping[str, Any]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if any(row)]
    if rows and [cell.casefold() for cell in rows[0][:2]] in (["name", "id"], ["character", "id"]):
        rows = rows[1:]
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def _account(path: Path, name: str, value: Any) -> str:
    account = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not name or not 0 < len(account) <= MAX_ID:
        raise BadInput(f"agents file {path.name!r}", f"{name!r} has no id")
    return account
