"""The command line in this process, on an org of its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli.main import run
from roomlore.db.cluster import Cluster


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal; `meanwhile` runs before an answer is read."""

    meanwhile: Callable[[], object] = int

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1) -> str:
        self.meanwhile()
        return super().readline(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def stream(like: Any, text: str = "", *, terminal: bool = False) -> io.TextIOWrapper:
    kind = Terminal if terminal else io.TextIOWrapper
    return kind(io.BytesIO(text.encode()), encoding=like.encoding, errors=like.errors)


def read(written: io.TextIOWrapper) -> str:
    written.flush()
    written.seek(0)
    return io.TextIOWrapper.read(written)


def roomlore(
    *words: object, typed: str | None = None, meanwhile: Callable[[], object] = int, **environment: str
) -> Done:
    """Run a command line as a process would; on a terminal if something is typed."""
    is_terminal = typed is not None
    out, err = (stream(one, terminal=is_terminal) for one in (sys.__stdout__, sys.__stderr__))
    stdin = stream(sys.__stdout__, typed or "", terminal=is_terminal)
    if is_terminal:
        stdin.meanwhile = meanwhile  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["roomlore", *map(str, words)])
        patch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit) as ended:
            run()
    return Done(code=int(ended.value.code or 0), out=read(out), err=read(err))


def process(*words: object, **environment: str) -> Done:
    """Run a command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "roomlore", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=clean_environment() | environment,
    )
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}


def refused(done: Done, code: int, *reasons: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    for reason in reasons:
        assert reason in done.err


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The command line with the database and the org of a test."""

    cluster: Cluster
    org: str = field(default_factory=lambda: f"cli-{uuid4()}")

    @property
    def options(self) -> Sequence[str]:
        url = f"postgresql:///?{urlencode(conninfo_to_dict(self.cluster.app_dsn))}"
        return ("--database", url, "--org", self.org)

    def __call__(self, *words: object, **options: Any) -> Done:
        return roomlore(*self.options, *words, **options)

    def text(self, *words: object, **options: Any) -> str:
        done = self("--text", *words, **options)
        assert done.code == 0, done.err
        return done.out

    def json(self, *words: object, **options: Any) -> Any:
        done = self("--json", *words, **options)
        assert done.code == 0, done.err
        return json.loads(done.out)

    def refused(self, code: int, reason: str, *words: object, **options: Any) -> None:
        done = self(*words, **options)
        refused(done, code, reason)
        assert done.out == ""

    def tell(self, folder: Path, lines: Sequence[dict[str, Any]], *options: object) -> None:
        """Import messages."""
        export = folder / "messages.jsonl"
        export.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        assert self.json("import", *options, export)["skipped"] == {}

    def bodies(self, room: str = "general") -> list[str]:
        """The messages of a room as an operator reads them."""
        return [one["body"] for one in self.json("messages", room)["messages"]]

    @contextmanager
    def admin(self) -> Generator[psycopg.Connection]:
        options = "-c search_path=roomlore,public"
        with psycopg.connect(self.cluster.admin_dsn, autocommit=True, options=options) as conn:
            yield conn

    def execute(self, statement: str, **fields: Any) -> None:
        """Run a statement as the superuser; `(org)` stands for the id of the org."""
        org = "(select org_id from orgs where name = %(org)s)"
        with self.admin() as conn:
            conn.execute(statement.replace("(org)", org), {"org": self.org, **fields})  # type: ignore[arg-type]


def line(number: int, author: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a record of the room `general`."""
    return {
        "schema": "roomlore.message/1",
        "room": "general",
        "id": str(number),
        "author": author,
        "text": text,
        "sent_at": f"2026-01-12T08:{number:02}:00Z",
        **fields,
    }
