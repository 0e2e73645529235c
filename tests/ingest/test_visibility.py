"""An import says what it opens; whoever imports decides, and no import opens what is there already."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.stories import message, room
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingRoom
from roomlore.ingest.imports import ImportOptions
from roomlore.ingest.visibility import VisibilityOptions, VisibilityResolver
from roomlore.operations import App, preview

SERVER = {"id": "7", "name": "Harbour"}


def channel(
    number: str, name: str, category: str = "Text Channels", type_: str = "GuildTextChat"
) -> dict[str, Any]:
    said = {
        "id": number,
        "type": "Default",
        "timestamp": "2024-05-01T10:00:00+00:00",
        "content": f"said in {name}",
        "author": {"id": "1", "name": "ana", "discriminator": "0001", "isBot": False},
    }
    described = {"id": f"9{number}", "type": type_, "name": name, "category": category}
    return {"guild": SERVER, "channel": described, "messages": [said]}


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """An export of a server, which does not tell who may read its channels."""
    root = tmp_path / "server"
    root.mkdir()
    channels = [
        channel("1", "general"),
        channel("2", "staff"),
        channel("3", "budget", category="Leadership"),
        channel("4", "secret plans", type_="GuildPrivateThread"),
        channel("5", "ana", type_="DirectTextChat"),
        channel("6", "odd", type_="GuildHologram"),
    ]
    for one in channels:
        (root / f"{one['channel']['id']}.json").write_text(json.dumps(one))
    return root


def wish(**fields: Any) -> ImportOptions:
    return ImportOptions(audience=VisibilityOptions(**fields))


async def audiences(app: App) -> dict[str, str]:
    return {one.name: one.visibility for one in await app.rooms(app.operator)}


def told(report: Any) -> dict[str, tuple[str, str]]:
    return {one.name: (one.audience, one.rests_on) for one in report.audiences}


ASSUMED = {
    "general": ("open", "assumed"),
    "staff": ("members", "assumed"),
    "budget": ("members", "assumed"),
    "secret plans": ("members", "export"),
    "ana": ("members", "export"),
    "odd": ("members", "assumed"),
}


async def test_what_may_be_private_is_closed_and_the_report_says_what_that_rests_on(app: App, server: Path):
    report = await app.import_path(server)
    assert told(report) == ASSUMED == told(await preview(server))
    assert await audiences(app) == {name: audience for name, (audience, _) in ASSUMED.items()}
    assert {one.workspace for one in report.audiences if one.name != "ana"} == {"Harbour"}
    assert {one.name: one.why for one in report.audiences if one.rests_on == "assumed"} == {
        "general": "nothing suggests a closed circle",
        "staff": "the name suggests a closed circle",
        "budget": "the category suggests a closed circle",
        "odd": "its kind is not known",
    }


@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        ({"members": frozenset({"#General"})}, {"general": ("members", "chosen")}),
        ({"open": frozenset({"staff"})}, {"staff": ("open", "chosen")}),
        ({"open": frozenset({"92"})}, {"staff": ("open", "chosen")}),
        ({"open": frozenset({"harbour/secret plans"})}, {"secret plans": ("open", "chosen")}),
        ({"members": frozenset({"text channels"}), "open": frozenset({"staff"})}, {
            "general": ("members", "chosen"), "staff": ("open", "chosen"),
            "secret plans": ("members", "chosen"), "odd": ("members", "chosen"),
        }),
        ({"assume": "members"}, {"general": ("members", "assumed")}),
        # nothing that is known to be private, and nothing of an unknown kind
        ({"assume": "open"}, {"staff": ("open", "assumed"), "budget": ("open", "assumed")}),
    ],
)  # fmt: skip
async def test_whoever_imports_decides(app: App, server: Path, wanted: Any, changed: Any):
    report = await app.import_path(server, options=wish(**wanted))
    assert told(report) == ASSUMED | changed
    assert await audiences(app) == {name: audience for name, (audience, _) in (ASSUMED | changed).items()}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"members": frozenset({"staf"})}, "is not in what is imported"),
        ({"open": frozenset({"ana"})}, "never open"),
        ({"open": frozenset({"staff"}), "members": frozenset({"#staff"})}, "cannot be both"),
    ],
)
async def test_a_room_named_wrongly_keeps_everything_out(app: App, server: Path, wanted: Any, why: str):
    with pytest.raises(BadInput, match=why):
        await app.import_path(server, options=wish(**wanted))
    assert await audiences(app) == {}


@pytest.mark.parametrize("order", [("open", "members"), ("members", "open")])
async def test_of_several_descriptions_of_one_room_the_narrower_holds(order: tuple[Any, ...]):
    deciding = VisibilityResolver(options=VisibilityOptions(), stored=None)
    await deciding.resolve([message(one, room=room("garden", visibility=one)) for one in order])
    assert [one.audience for one in await deciding.report()] == ["members"]


async def test_one_name_in_two_servers_is_named_with_its_server(app: App, tmp_path: Path):
    for number, name in (("1", "Harbour"), ("2", "Island")):
        one = channel(number, "general") | {"guild": {"id": number, "name": name}}
        (tmp_path / f"{number}.json").write_text(json.dumps(one))
    with pytest.raises(BadInput, match=r"Harbour/general \(91\), Island/general \(92\)"):
        await app.import_path(tmp_path, options=wish(open=frozenset({"general"})))
    await app.import_path(tmp_path)
    with pytest.raises(BadInput, match=r"(?s)Harbour/general.*Island/general"):
        await app.messages(app.operator, "general")
    [said] = await app.messages(app.operator, "island/GENERAL")
    assert said.external_id == "2"


async def test_rooms_that_may_be_private_are_asked_about_once_and_only_these(app: App, server: Path):
    asked: list[str] = []

    def ask(one: IncomingRoom) -> Any:
        asked.append(one.name)
        return "open" if one.name == "staff" else "members"

    report = await app.import_path(server, options=wish(ask=ask))
    assert told(report) == ASSUMED | {"staff": ("open", "chosen"), "budget": ("members", "chosen")}
    await app.import_path(server, options=wish(ask=ask))
    assert asked == ["staff", "budget"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("later", [{"assume": "open"}, {"open": frozenset({"staff", "secret plans"})}, {}])
async def test_no_later_import_opens_anything(app: App, server: Path, later: Any):
    await app.import_path(server, options=wish(members=frozenset({"general"})))
    before = await audiences(app)
    report = await app.import_path(server, options=wish(**later))
    assert await audiences(app) == before == dict.fromkeys(before, "members")
    assert told(report)["general"] == ("members", "before")
    opened = room("general", visibility="open")
    await app.ingest_batch(
        [message("1", room=room("general", visibility="members")), message("2", room=opened)]
    )
    assert {one.visibility for one in await app.rooms(app.operator)} == {"members"}


@pytest.mark.parametrize("later", [{"assume": "members"}, {"members": frozenset({"general"})}])
async def test_a_later_import_may_close(app: App, server: Path, later: Any):
    await app.import_path(server)
    report = await app.import_path(server, options=wish(**later))
    assert (await audiences(app))["general"] == "members"
    [general] = [one for one in report.audiences if one.name == "general"]
    assert general.why.startswith("closed now")


@pytest.mark.parametrize(
    ("described", "visibility"),
    [
        ({"kind": "dm"}, "members"),
        ({"kind": "group_dm"}, "members"),
        ({"kind": None}, "members"),
        ({}, "open"),
    ],
)
async def test_single_records_open_no_direct_room(app: App, described: Any, visibility: str):
    await app.ingest(message(room=room(**described)))
    [stored] = await app.rooms(app.operator)
    assert stored.visibility == visibility


async def test_a_direct_room_that_is_stated_to_be_open_is_refused(app: App):
    with pytest.raises(BadInput, match="a direct room is never open"):
        await app.ingest(message(room=room(kind="dm", visibility="open")))
    taken = await app.intake.add_messages(
        [
            {
                "id": "1",
                "room": {"id": "r", "kind": "dm", "visibility": "open"},
                "author": "ana",
                "sent_at": 1,
            },
            {"id": "2", "room": {"id": "s", "kind": "cave"}, "author": "ana", "text": "hi", "sent_at": 1},
        ]
    )
    assert [(one.outcome, one.reason) for one in taken.items] == [
        ("skipped", "a direct room is never open"),
        ("added", ""),
    ]
    assert taken.items[1].detail == "the kind of its room is not known: it is for its members"
    [cave] = await app.rooms(app.operator)
    assert (cave.kind, cave.visibility) == ("channel", "members")


async def test_an_open_room_that_turns_out_to_be_direct_is_closed(app: App):
    await app.ingest(message("1"))
    await app.ingest(message("2", room=room(kind="dm")))
    [stored] = await app.rooms(app.operator)
    assert (stored.kind, stored.visibility) == ("dm", "members")
