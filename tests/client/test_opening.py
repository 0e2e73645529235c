"""Where rooms are opened: in a database or behind a server, and what is refused before anything is sent."""

import pytest

import roomlore
from client.conftest import Village
from roomlore import App, Client, Rooms, Server, Settings
from roomlore.domain.errors import BadInput, DatabaseUnavailable, KeyRefused, ServerUnavailable

KEY = "rlk_" + "A" * 64


@pytest.mark.parametrize(
    "address",
    [
        "https://rooms.example", "https://rooms.example:7171/", "https://rooms.example/roomlore", "http://localhost:7171",
        "http://127.0.0.1:1", "http://[::1]:7171", "https://[2001:db8::1]",
    ],
)  # fmt: skip
def test_an_address_that_shows_the_key_to_nobody_else_will_do(address) -> None:
    assert Server(address=address, key=KEY).address == address


@pytest.mark.parametrize(
    "address",
    [
        "", "rooms.example", "ftp://rooms.example", "https://", "https://a:b@rooms.example", "https://rooms.example?x=1",
        "https://rooms.example#x", "https://rooms.example/?", "https://rooms.example:0", "https://rooms.example:99999",
        "https://rooms.example\\@elsewhere", "https://rooms .example", "https://röoms.example", "https://@rooms.example",
        "https://rooms.example\n", "postgresql://rooms.example/x",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_refused(address) -> None:
    with pytest.raises(BadInput, match="https://host:7171"):
        Server(address=address, key=KEY)


@pytest.mark.parametrize(
    "address",
    [
        "http://rooms.example",
        "http://192.0.2.1:7171",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "HTTP://rooms.example",
    ],
)
def test_a_key_is_not_shown_in_the_clear_unless_somebody_wants_it(address) -> None:
    with pytest.raises(BadInput, match="in_the_clear"):
        Server(address=address, key=KEY)

    assert Server(address=address, key=KEY, in_the_clear=True)


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"attempts": 0}, {"connections": 0}, {"largest": 0}])
def test_a_server_is_asked_at_least_a_little(wrong) -> None:
    with pytest.raises(BadInput):
        Server(address="https://rooms.example", key=KEY, **wrong)


async def test_a_database_and_a_server_are_opened_alike(both: Village, monkeypatch) -> None:
    key = await both.key("ana")
    monkeypatch.setenv("ROOMLORE_KEY", key)

    async def names(app: Rooms) -> list[str]:
        assert app.principal is not None
        return [room.name for room in await app.rooms(app.principal)]

    async with roomlore.open(both.address) as app:
        assert isinstance(app, Client)
        there = await names(app)
    async with roomlore.open(Server(address=both.address, key=key)) as app:
        assert await names(app) == there
    assert await names(await both.here("ana")) == there == ["attic", "square"]


async def test_an_app_is_opened_as_before() -> None:
    with pytest.raises(DatabaseUnavailable):
        async with roomlore.open(Settings(database="postgresql:///nowhere?host=/nowhere")) as app:
            assert isinstance(app, App)


@pytest.mark.parametrize("key", ["", "rlk_", "x", KEY + "\n", KEY + "é", "rlk_" + "B" * 10])
async def test_what_is_no_key_is_sent_nowhere(key) -> None:
    with pytest.raises(KeyRefused):
        async with roomlore.open("https://rooms.invalid", key=key):
            pass


async def test_a_key_that_nobody_has_is_refused_at_the_door(both: Village) -> None:
    for key in (KEY, (await both.key("bo"))[:-4] + "AAAA"):
        with pytest.raises(KeyRefused, match="the key is not valid"):
            async with roomlore.open(both.address, key=key):
                pass


async def test_without_a_key_nobody_is_let_in(monkeypatch) -> None:
    monkeypatch.delenv("ROOMLORE_KEY", raising=False)
    with pytest.raises(BadInput, match="ROOMLORE_KEY"):
        roomlore.open("https://rooms.example")


async def test_what_belongs_elsewhere_is_refused() -> None:
    with pytest.raises(BadInput, match="Settings"):
        roomlore.open(Settings(), key=KEY)  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="Server"):
        roomlore.open(Server(address="https://rooms.example", key=KEY), key=KEY)
    with pytest.raises(BadInput, match="server's own"):
        roomlore.open("https://rooms.example", key=KEY, create_org=False)  # type: ignore[call-overload]


async def test_a_server_that_is_not_there_is_told_with_what_to_do() -> None:
    server = Server(address="http://127.0.0.1:9", key=KEY, attempts=1)
    with pytest.raises(ServerUnavailable, match=r"no server answers at http://127.0.0.1:9 .*is it running"):
        async with roomlore.open(server):
            pass
