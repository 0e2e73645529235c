"""`roomlore mcp` and `serve --mcp` on the command line: what they refuse, and in which words."""

import sys
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from conftest import OpenApp
from roomlore.cli import main, server
from roomlore.db.cluster import Cluster
from roomlore.domain.errors import BadInput
from roomlore.operations import App
from surfaces.mcp.conftest import KeyOf

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def roomlore(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, in this process; only for what ends before it opens anything."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["roomlore", *words])
        with pytest.raises(SystemExit) as end:
            main.run()
        told = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, told.out, told.err

    return run


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the extra."""
    monkeypatch.setattr(server, "_has_mcp", lambda: False)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("words", [["mcp"], ["serve", "--mcp"], ["serve", "--allow-writes"]])
def test_without_the_extra_it_says_what_to_install(roomlore: Run, words: list[str]) -> None:
    code, out, err = roomlore(*words)

    assert (code, out) == (1, "")
    assert "pip install 'roomlore[mcp]'" in err


@pytest.mark.usefixtures("bare")
def test_without_the_extra_the_api_is_served_alone() -> None:
    assert server._mounted_apps(mcp=None, allow_writes=False) == {}


def test_with_the_extra_it_is_served_beside_the_api_unless_told_not_to() -> None:
    assert set(server._mounted_apps(mcp=None, allow_writes=False)) == {"/mcp"}
    assert set(server._mounted_apps(mcp=True, allow_writes=True)) == {"/mcp"}
    assert server._mounted_apps(mcp=False, allow_writes=False) == {}
    with pytest.raises(BadInput, match="leave out it or --no-mcp"):
        server._mounted_apps(mcp=False, allow_writes=True)


def test_without_an_input_there_is_nobody_to_serve(roomlore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    code, out, err = roomlore("mcp")

    assert (code, out) == (1, "")
    assert "let a program start it" in err


@pytest.mark.slow
async def test_a_wrong_viewer_or_key_serves_nothing(
    cluster: Cluster, app: App, key_of: KeyOf, open_app: OpenApp
) -> None:
    from surfaces.http.test_serving import process  # noqa: PLC0415  with all that it imports

    url = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    other, key = await open_app("other"), await key_of("operator")
    org, theirs = str(app.settings.org), str(other.settings.org)
    for words, environment, why in (
        (["--org", theirs], {"ROOMLORE_KEY": key}, "the key is not one of"),
        ([], {"ROOMLORE_KEY": "rlk_x"}, "the key is not valid"),
        (["--org", org, "--as", "nobody"], {}, "no participant 'nobody'"),
        (["--org", f"{org}-x"], {}, "no org"),
    ):
        async with process("--database", url, *words, "mcp", **environment) as run:
            out, err = await run.communicate()
        assert (run.returncode, out) == (1, b"")
        assert why in err.decode()
        assert "Traceback" not in err.decode()
