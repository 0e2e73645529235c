"""Rooms on the command line: imports and their visibility; open, close, rename, members, delete."""

import json
from pathlib import Path

import pytest

from ingest.test_visibility import channel
from surfaces.commandline import CommandLine


def visibilities(roomlore: CommandLine) -> dict[str, str]:
    return {one["name"]: one["visibility"] for one in roomlore.json("rooms")}


@pytest.fixture
def exports(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.json" for name in ("general", "staff")]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(channel(str(number), path.stem)))
    return paths


def test_several_exports_are_imported_and_an_error_in_one_does_not_stop_the_others(
    roomlore: CommandLine, exports: list[Path], tmp_path: Path
):
    done = roomlore("import", "--no-embed", exports[0], tmp_path / "none.json", exports[1])
    code, out, err = done.code, done.out, done.err
    assert code == 1
    assert "none.json" in err
    assert "1 of 3 paths were not imported" in err
    assert visibilities(roomlore) == {"general": "open", "staff": "members"}
    for part in ("Harbour/general", "everybody", "Harbour/staff", "the name suggests a closed circle"):
        assert part in out
    reports = roomlore.json("import", "--no-embed", *exports)
    assert [one["path"] for one in reports] == list(map(str, exports))
    assert [room["rests_on"] for one in reports for room in one["audiences"]] == ["before", "before"]


def test_an_unknown_room_in_an_option_stops_every_import(roomlore: CommandLine, exports: list[Path]):
    done = roomlore("import", "--no-embed", *exports, "--members", "genral")
    code, err = done.code, done.err
    assert (code, "genral" in err) == (1, True)
    assert roomlore("import", "--no-embed", *exports, "--members", "general", "--open", "staff").code == 0
    assert visibilities(roomlore) == {"general": "members", "staff": "open"}


@pytest.mark.parametrize(("answer", "audience"), [("\n", "members"), ("n\n", "open")])
def test_on_a_terminal_an_import_asks_about_rooms_that_may_be_private(
    roomlore: CommandLine, exports: list[Path], answer: str, audience: str
):
    done = roomlore("import", "--no-embed", *exports, typed=answer)
    code, err = done.code, done.err
    assert code == 0, err
    assert "Harbour/staff (under Text Channels): the export does not say who may read it." in err
    assert "general (under" not in err
    assert visibilities(roomlore) == {"general": "open", "staff": audience}


def test_a_room_is_opened_after_a_question_and_closed_again(roomlore: CommandLine, exports: list[Path]):
    roomlore("import", "--no-embed", *exports)
    done = roomlore("rooms", "open", "staff")
    code, err = done.code, done.err
    assert (code, "--yes" in err) == (2, True)
    assert roomlore.json("rooms", "open", "staff", "--dry-run")["messages"] == 1
    done = roomlore("rooms", "open", "harbour/staff", typed="n\n")
    code, err = done.code, done.err
    assert (code, "1 message would become readable to everybody" in err) == (1, True)
    assert visibilities(roomlore)["staff"] == "members"
    assert roomlore("rooms", "open", "staff", "--yes").code == 0
    assert visibilities(roomlore)["staff"] == "open"
    assert roomlore("rooms", "close", "staff").code == 0
    assert visibilities(roomlore)["staff"] == "members"


@pytest.mark.slow
def test_a_room_is_renamed_gets_members_and_is_erased(roomlore: CommandLine, exports: list[Path]):
    roomlore("import", "--no-embed", *exports)
    roomlore("rooms", "rename", "staff", "bridge crew")
    roomlore("import", "--no-embed", *exports)
    assert "bridge crew" in visibilities(roomlore)
    [ana] = roomlore.json("rooms", "members", "bridge crew")
    assert (ana["name"], ana["known_by"], ana["left_at"]) == ("ana", "wrote", None)
    [ana] = roomlore.json("rooms", "members", "bridge crew", "--remove", "ana")
    assert ana["left_at"] is not None
    added = roomlore.json("rooms", "members", "bridge crew", "--add", "ana", "--since", "always")
    assert [one["joined_at"] for one in added if one["left_at"] is None] == [None]
    assert roomlore("rooms", "delete", "bridge crew").code == 2
    assert roomlore("rooms", "delete", "bridge crew", typed="n\n").code == 1
    done = roomlore("rooms", "delete", "bridge crew", "--yes")
    code, out, err = done.code, done.out, done.err
    assert code == 0, err
    assert "clean" in out
    roomlore("import", "--no-embed", *exports)
    assert visibilities(roomlore) == {"general": "open"}
