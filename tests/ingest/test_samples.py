"""Real exports, where they are at hand, hold what is known to be in them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ingest.stories import state
from roomlore.operations import App

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"
pytestmark = [
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not here"),
    pytest.mark.slow,
]


def expected() -> dict[str, dict[str, Any]]:
    path = SAMPLES / "EXPECTED.json"
    return json.loads(path.read_text()) if path.is_file() else {}


EXPECTED = expected()


async def imported(app: App, path: Path, admin) -> dict[str, Any]:
    """Import twice, see that the second changes nothing and no token is kept, and return the first report."""
    report = (await app.import_path(path)).as_json()
    before = await state(admin, app)
    again = (await app.import_path(path)).as_json()
    assert await state(admin, app) == before
    assert again["stored"]["added"] == 0
    found = await admin.execute(
        "select count(*) from messages where org_id = %s and messages::text ~ 'xox.-'", [app.org_id]
    )
    assert await found.fetchone() == (0,)
    stored = await admin.execute("select count(*) from messages where org_id = %s", [app.org_id])
    assert await stored.fetchone() == (report["messages"],)
    return report


def authors(report: dict[str, Any]) -> int:
    return sum(count for kind, count in report["authors"].items() if kind != "system")


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("discord-json/")])
async def test_discord(name: str, app: App, admin):
    report, known = await imported(app, SAMPLES / name, admin), EXPECTED[name]
    assert report["messages"] == known["messages"]
    assert authors(report) == known["authors"]
    assert sum(report["replies"].values()) <= known["references"]


@pytest.mark.parametrize(
    "name", [name for name in EXPECTED if name.startswith("telegram/") and "messages" in EXPECTED[name]]
)
async def test_telegram(name: str, app: App, admin):
    known = EXPECTED[name]
    report = await imported(app, SAMPLES / name, admin)
    assert report["messages"] == known["messages"]
    assert report["system"] == known["service"]
    assert report["edits"] == known["edited"]
    assert report["replies"]["resolved"] == known["replies_in_file"]
    assert sum(report["replies"].values()) == known["replies"]
    assert authors(report) == known["authors"]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("irc/")])
async def test_irc(name: str, app: App, admin):
    report, known = await imported(app, SAMPLES / name, admin), EXPECTED[name]
    assert report["messages"] - report["system"] == known["messages"]
    assert report["system"] == known["system"]


@pytest.mark.parametrize("packed", [False, True])
async def test_slack(packed: bool, app: App, admin, tmp_path: Path):  # noqa: FBT001  a parameter of the test
    path, known = SAMPLES / "slack" / "houstondatavis", EXPECTED["slack/houstondatavis"]
    if packed:
        path = Path(shutil.make_archive(str(tmp_path / "export"), "zip", path))
    report = await imported(app, path, admin)
    assert report["messages"] == known["messages"]
    assert report["edits"] == known["edited"]
    said = {"-", "file_share", "file_comment"}
    notices = sum(count for kind, count in known["subtypes"].items() if kind not in said)
    assert report["system"] == notices
    assert report["rooms"] <= known["channels"]


@pytest.mark.parametrize("path", sorted((SAMPLES / "whatsapp").glob("*.txt")), ids=lambda path: path.stem)
async def test_whatsapp(path: Path, app: App, admin):
    report = await imported(app, path, admin)
    assert (report["messages"], authors(report)) == (9, 5)
