"""The page on which operators arrange a room."""

from datetime import timedelta

import pytest

from operations.village import village
from roomlore.operations import App
from surfaces.web.conftest import Visitor, visiting
from surfaces.web.test_people_pages import key_of


async def place(app: App, name: str) -> str:
    return next(f"/r/{one.id}/manage" for one in await app.rooms(app.operator) if one.name == name)


async def test_an_operator_opens_renames_adds_and_erases(app: App, local: Visitor) -> None:
    path = await place(app, "attic")
    page = await local.page(path)
    assert "may read the 3 messages" in page
    assert (await local.send(f"{path}/open", on=path)).status_code == 400
    assert (await local.send(f"{path}/open", on=path, sure="1")).status_code == 303
    assert [one.external_id for one in await app.messages(await app.viewer("eve"), "attic")] == [
        "m4",
        "m5",
        "m11",
    ]
    await local.send(f"{path}/close", on=path)
    await local.send(f"{path}/rename", on=path, name="Loft")
    await local.send(f"{path}/add", on=path, participant="eve", always="1")
    assert [one.external_id for one in await app.messages(await app.viewer("eve"), "loft")] == [
        "m4",
        "m5",
        "m11",
    ]
    eve = next(one for one in (await local.twin(f"{path}.json"))["members"] if one["name"] == "Eve")
    await local.send(f"{path}/remove", on=path, participant=eve["participant_id"])
    assert "Eve" not in {one.name for one in await app.room_admin.members("loft") if one.left_at is None}
    looked = await local.send(f"{path}/look", on=path)
    assert "Preview of the erasure" in looked.text
    wrong = await local.send(path, on=path, name="attic")
    assert (wrong.status_code, "nothing was erased" in wrong.text) == (400, True)
    done = await local.send(path, on=path, name="loft")
    assert (done.status_code, "/receipts/" in done.headers["location"]) == (303, True)
    assert "A room" in (await local.page(done.headers["location"])).replace("a room", "A room")
    assert {one.name for one in await app.rooms(app.operator)} == {"square", "cellar"}


async def kept(app: App, name: str) -> tuple[timedelta | None, bool]:
    [found] = [one for one in await app.rooms(app.operator) if one.name == name]
    return found.retention_period, found.retention_starts_at is not None


async def test_an_operator_shortens_a_retention_that_was_told_and_takes_it_back(
    app: App, local: Visitor
) -> None:
    await village(app)
    path = await place(app, "attic")
    assert "<p>Forever.</p>" in await local.page(path)
    page = await local.page(f"{path}?keep=30")
    assert "4 messages, sent from" in page
    assert "2024-03-01 12:04" in page
    refused = await local.send(f"{path}/keep", on=path, keep="30")
    assert (refused.status_code, await kept(app, "attic")) == (400, (None, False))
    assert (await local.send(f"{path}/keep", on=path, keep="30", sure="1")).status_code == 303
    assert await kept(app, "attic") == (timedelta(days=30), True)
    assert "until then forever. Then 4 messages" in await local.page(path)
    ops = await local.page("/ops")
    assert "4 messages in grace, until then kept forever" in ops
    assert (await local.send(f"{path}/keep/back", on=path)).status_code == 303
    assert await kept(app, "attic") == (None, False)
    assert (await local.send(f"{path}/keep/back", on=path)).status_code == 400
    assert "in grace" not in await local.page("/ops")


async def test_a_retention_that_is_none_is_refused(app: App, local: Visitor) -> None:
    await village(app)
    path = await place(app, "attic")
    for span in ["0", "-1", "30d", "ever", "9" * 30]:
        assert (await local.get(f"{path}?keep={span}")).status_code == 400
        assert (await local.send(f"{path}/keep", on=path, keep=span, sure="1")).status_code == 400
        assert await kept(app, "attic") == (None, False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["ana", "eve", "pip"])
async def test_nobody_else_arranges_a_room(app: App, name: str) -> None:
    await village(app)
    path = await place(app, "square")
    async with visiting(app, await key_of(app, name)) as visitor:
        assert "/manage" not in await visitor.page(path.removesuffix("/manage"))
        for asked in (path, f"{path}.json"):
            assert (await visitor.get(asked)).status_code == 403
        for deed in ("", "/look", "/keep", "/keep/back", "/open", "/close", "/rename", "/add", "/remove"):
            said = {"name": "square", "participant": name, "sure": "1", "keep": "1"}
            assert (await visitor.send(f"{path}{deed}", **said)).status_code == 403, deed
    [square] = [one for one in await app.rooms(app.operator) if one.external_id == "square"]
    assert (square.name, square.visibility) == ("square", "open")
