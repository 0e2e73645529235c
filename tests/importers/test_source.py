import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from roomlore.domain.errors import BadInput, NotFound
from roomlore.importers.reading import export as source_module
from roomlore.importers.reading.export import open_export


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_single_file_is_an_export_of_one(tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    with open_export(tmp_path / "a.json") as source:
        assert (source.name, source.files, source.bytes_total) == ("a.json", ("a.json",), 6)
        with source.open("a.json") as stream:
            assert stream.read() == b"[1, 2]"
        assert source.bytes_read == 6


def test_a_folder_and_its_zip_hold_the_same_files(tmp_path):
    (tmp_path / "x" / "general").mkdir(parents=True)
    (tmp_path / "x" / "general" / "a.json").write_text("{}")
    (tmp_path / "x" / "b.json").write_text("[]")
    (tmp_path / "x" / ".DS_Store").write_text("clutter")
    archive = zipped(
        tmp_path / "x.zip", {"general/a.json": b"{}", "b.json": b"[]", "__MACOSX/b.json": b"clutter"}
    )
    for path in (tmp_path / "x", archive):
        with open_export(path) as source:
            assert source.files == ("b.json", "general/a.json")
            assert source.bytes_total == 4
            assert source.open("general/a.json").read() == b"{}"


def test_a_second_pass_over_a_file_does_not_count_again(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 1000)
    with open_export(tmp_path) as source:
        for _ in range(3):
            with source.open("a") as stream:
                while stream.read(100):
                    pass
        assert source.bytes_read == source.bytes_total == 1000


def test_what_is_not_there_is_bad_input_with_advice(tmp_path):
    with pytest.raises(BadInput, match="check the path"):
        open_export(tmp_path / "nothing")
    with pytest.raises(BadInput, match="cannot be read"):
        open_export("a\0b")


def test_a_pipe_is_refused_without_waiting_on_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="neither a file nor a folder"):
        open_export(tmp_path / "pipe")
    with open_export(tmp_path) as source:
        assert source.files == ()
        assert [item.reason for item in source.refused] == ["not a regular file"]


def test_a_file_that_does_not_exist_inside_is_not_found(tmp_path):
    with open_export(tmp_path) as source, pytest.raises(NotFound):
        source.open("../secret")


def test_links_are_never_followed(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("secret")
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "link.json").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    with open_export(folder) as source:
        assert source.files == ()
        assert {item.reason for item in source.refused} == {"link not followed"}
        assert len(source.refused) == 3


def test_a_file_swapped_for_a_link_after_listing_is_not_followed(tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "a.json").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    with open_export(folder) as source:
        (folder / "a.json").unlink()
        (folder / "a.json").symlink_to(tmp_path / "secret")
        with pytest.raises(OSError, match="symbolic links"):
            source.open("a.json")


@pytest.mark.parametrize(
    "name", ["../up.json", "/etc/passwd", "a/../../b.json", "C:/x.json", "..\\up.json", "a\x1b[2J.json"]
)
def test_unsafe_names_in_an_archive_are_refused_and_the_rest_is_kept(tmp_path, name):
    with open_export(zipped(tmp_path / "a.zip", {name: b"x", "ok.json": b"[]"})) as source:
        assert source.files == ("ok.json",)
        (refused,) = source.refused
        assert refused.reason == "unsafe name in archive"
        assert "\x1b" not in refused.where


def test_links_and_doubles_in_an_archive_are_refused(tmp_path):
    link = zipfile.ZipInfo("link.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.json", "first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.json", "second")
    with open_export(tmp_path / "a.zip") as source:
        assert source.open("a.json").read() == b"first"
        assert [item.reason for item in source.refused] == ["link in archive", "name twice in archive"]


def test_a_member_denser_than_text_is_refused_on_opening(tmp_path):
    with pytest.raises(BadInput, match="unpacks to far more"):
        open_export(zipped(tmp_path / "bomb.zip", {"a.json": b"\0" * (8 * 2**20)}))


def test_a_bomb_that_lies_about_its_size_is_stopped_while_reading(tmp_path, monkeypatch):
    path = zipped(tmp_path / "bomb.zip", {"a.json": b"ab" * 50_000})
    monkeypatch.setattr(source_module, "RATIO_FREE_BYTES", 0)
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("a.json").file_size
    data = path.read_bytes().replace(size.to_bytes(4, "little"), (20).to_bytes(4, "little"))
    path.write_bytes(data)
    with open_export(path) as source:
        assert source.bytes_total == 20
        with pytest.raises((BadInput, OSError)), source.open("a.json") as stream:
            stream.read()
        assert source.bytes_read <= 20


def test_limits_are_counted_on_what_comes_out(tmp_path, monkeypatch):
    path = zipped(tmp_path / "a.zip", {"a.json": bytes(range(256)) * 100, "b.json": bytes(range(255)) * 100})
    with open_export(path) as source:
        monkeypatch.setattr(source_module, "MAX_TOTAL_BYTES", 40_000)
        source.open("a.json").read()
        with pytest.raises(BadInput, match="unpacks to far more"):
            source.open("b.json").read()
        monkeypatch.setattr(source_module, "MAX_MEMBER_BYTES", 10)
        with pytest.raises(BadInput, match="unpacks to far more"):
            source.open("a.json").read()


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_FILES", 3)
    (tmp_path / "many").mkdir()
    for number in range(4):
        (tmp_path / "many" / f"{number}.json").write_text("[]")
    with pytest.raises(BadInput, match="more than 3 files"):
        open_export(tmp_path / "many")
    with pytest.raises(BadInput, match="more than 3 files"):
        open_export(zipped(tmp_path / "a.zip", {f"{number}": b"" for number in range(4)}))


def test_half_a_zip_says_so(tmp_path):
    whole = zipped(tmp_path / "whole.zip", {"a.json": b"[]" * 100}).read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="not a complete zip archive"):
        open_export(tmp_path / "half.zip")


def test_a_damaged_member_is_an_os_error_and_the_others_stay_readable(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.json": os.urandom(500), "b.json": b"[]"})
    data = bytearray(path.read_bytes())
    data[60:200] = bytes(140)
    path.write_bytes(bytes(data))
    with open_export(path) as source:
        with pytest.raises(OSError, match="damaged"), source.open("a.json") as stream:
            stream.read()
        assert source.open("b.json").read() == b"[]"


def test_streams_read_by_lines_and_small_pieces_alike(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.txt": b"one\ntwo\nthree"})
    with open_export(path) as source, source.open("a.txt") as stream:
        assert isinstance(stream, io.BufferedReader)
        assert [stream.readline(), stream.read(2), stream.readline(), stream.read()] == [
            b"one\n",
            b"tw",
            b"o\n",
            b"three",
        ]


def tarred(path: Path, members: dict[str, bytes], mode: str = "w:gz", kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kind
            if kind == tarfile.SYMTYPE:
                info.size, info.linkname = 0, "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_holds_the_same_files_as_its_folder(tmp_path, mode):
    members = {"./general/a.json": b"{}", "b.json": b"[]", ".DS_Store": b"clutter"}
    with open_export(tarred(tmp_path / "export.bin", members, mode)) as source:
        assert (source.name, source.files, source.bytes_total) == (
            "export.bin",
            ("b.json", "general/a.json"),
            4,
        )
        assert source.open("general/a.json").read() == b"{}"
        folder = source._folder.name
    assert not Path(folder).exists()


def test_a_gzip_file_is_an_export_of_one(tmp_path):
    path = tmp_path / "list.mbox.gz"
    path.write_bytes(gzip.compress(b"From me"))
    with open_export(path) as source:
        assert source.files == ("list.mbox",)
        assert source.open("list.mbox").read() == b"From me"


@pytest.mark.parametrize("name", ["../up.json", "/etc/passwd", "a/../../b.json"])
def test_unsafe_names_in_a_tar_are_refused_and_the_rest_is_kept(tmp_path, name):
    with open_export(tarred(tmp_path / "a.tgz", {name: b"x", "ok.json": b"[]"})) as source:
        assert source.files == ("ok.json",)
        assert [refused.reason for refused in source.refused] == ["unsafe name in archive"]


def test_links_in_a_tar_are_refused(tmp_path):
    with open_export(tarred(tmp_path / "a.tgz", {"link.json": b""}, kind=tarfile.SYMTYPE)) as source:
        assert source.files == ()
        assert [refused.reason for refused in source.refused] == ["link in archive"]


def test_a_tar_that_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "RATIO_FREE_BYTES", 1000)
    path = tarred(tmp_path / "a.tgz", {"a.json": b"0" * 2_000_000})
    with pytest.raises(BadInput, match="far more than a chat export"):
        open_export(path)


@pytest.mark.parametrize("name", ["a.tgz", "a.gz"])
def test_half_an_archive_is_refused_and_leaves_nothing_behind(tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "unpacked"))
    (tmp_path / "unpacked").mkdir()
    whole = tarred(tmp_path / "whole.tgz", {"a.json": os.urandom(100_000)})
    data = whole.read_bytes() if name == "a.tgz" else gzip.compress(os.urandom(100_000))
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match="not a complete archive"):
        open_export(tmp_path / name)
    assert list((tmp_path / "unpacked").iterdir()) == []
