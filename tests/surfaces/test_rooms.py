"""Rooms on the command line: an import says what it opens and asks, and an operator opens, closes, renames, erases."""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from psycopg.conninfo import conninfo_to_dict

from ingest.test_deciding import channel
from roomlore.cli import main


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The command line on an org of its own."""

    url: str
    org: str

    def __call__(self, *words: object, typed: str | None = None) -> tuple[int, str, str]:
        stream = io.StringIO if typed is None else Terminal
        out, err = stream(), stream()
        argv = ["roomlore", "--database", self.url, "--org", self.org, *map(str, words)]
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", argv)
            patch.setattr(sys, "stdin", stream(typed or ""))
            with pytest.raises(SystemExit) as end:
                main.run()
        return int(end.value.code or 0), out.getvalue(), err.getvalue()

    def json(self, *words: object) -> Any:
        code, out, err = self("--json", *words)
        assert code == 0, err
        return json.loads(out)

    def audiences(self) -> dict[str, str]:
        return {one["name"]: one["visibility"] for one in self.json("rooms")}


@pytest.fixture
def line(cluster: Any) -> Line:
    url = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    return Line(url=url, org=f"cli-{uuid4()}")


@pytest.fixture
def exports(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.json" for name in ("general", "staff")]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(channel(str(number), path.stem)))
    return paths


def test_several_exports_go_in_each_with_its_report_and_what_is_wrong_keeps_no_other_out(
    line: Line, exports: list[Path], tmp_path: Path
):
    code, out, err = line("import", "--no-embed", exports[0], tmp_path / "none.json", exports[1])
    assert code == 1
    assert "none.json" in err
    assert "1 of 3 paths were not imported" in err
    assert line.audiences() == {"general": "open", "staff": "members"}
    for told in ("Harbour/general", "everybody", "Harbour/staff", "the name suggests a closed circle"):
        assert told in out
    told = line.json("import", "--no-embed", *exports)
    assert [one["path"] for one in told] == list(map(str, exports))
    assert [room["rests_on"] for one in told for room in one["audiences"]] == ["before", "before"]


def test_a_room_named_wrongly_keeps_every_export_out(line: Line, exports: list[Path]):
    code, _, err = line("import", "--no-embed", *exports, "--members", "genral")
    assert (code, "genral" in err) == (1, True)
    assert line("import", "--no-embed", *exports, "--members", "general", "--open", "staff")[0] == 0
    assert line.audiences() == {"general": "members", "staff": "open"}


@pytest.mark.parametrize(("answer", "audience"), [("\n", "members"), ("n\n", "open")])
def test_on_a_terminal_it_is_asked_who_may_read_what_may_be_private(
    line: Line, exports: list[Path], answer: str, audience: str
):
    code, _, err = line("import", "--no-embed", *exports, typed=answer)
    assert code == 0, err
    assert "Harbour/staff (under Text Channels): the export does not say who may read it." in err
    assert "general (under" not in err
    assert line.audiences() == {"general": "open", "staff": audience}


def test_a_room_is_opened_only_when_somebody_says_so_and_closed_again(line: Line, exports: list[Path]):
    line("import", "--no-embed", *exports)
    code, _, err = line("rooms", "open", "staff")
    assert (code, "--yes" in err) == (2, True)
    assert line.json("rooms", "open", "staff", "--dry-run")["messages"] == 1
    code, _, err = line("rooms", "open", "harbour/staff", typed="n\n")
    assert (code, "1 message would become readable to everybody" in err) == (1, True)
    assert line.audiences()["staff"] == "members"
    assert line("rooms", "open", "staff", "--yes")[0] == 0
    assert line.audiences()["staff"] == "open"
    assert line("rooms", "close", "staff")[0] == 0
    assert line.audiences()["staff"] == "members"


def test_a_room_is_renamed_its_members_are_seen_to_and_it_is_erased(line: Line, exports: list[Path]):
    line("import", "--no-embed", *exports)
    line("rooms", "rename", "staff", "bridge crew")
    line("import", "--no-embed", *exports)
    assert "bridge crew" in line.audiences()
    [ana] = line.json("rooms", "members", "bridge crew")
    assert (ana["name"], ana["known_by"], ana["left_at"]) == ("ana", "wrote", None)
    [ana] = line.json("rooms", "members", "bridge crew", "--remove", "ana")
    assert ana["left_at"] is not None
    added = line.json("rooms", "members", "bridge crew", "--add", "ana", "--since", "always")
    assert [one["joined_at"] for one in added if one["left_at"] is None] == [None]
    assert line("rooms", "delete", "bridge crew")[0] == 2
    assert line("rooms", "delete", "bridge crew", typed="n\n")[0] == 1
    code, out, err = line("rooms", "delete", "bridge crew", "--yes")
    assert code == 0, err
    assert "clean" in out
    line("import", "--no-embed", *exports)
    assert line.audiences() == {"general": "open"}
