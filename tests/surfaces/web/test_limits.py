"""What the pages take on and from whom, attacked: by other sites' pages, by guesses, by forms that never end."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ingest.stories import author
from operations.village import SQUARE, say, village
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.http.limits import RequestLimits
from roomlore.operations import App
from roomlore.privacy import erasure as erasing
from roomlore.web import authentication
from roomlore.web.gateway import EnabledSurfaces
from surfaces.web.conftest import LOCAL, site, visiting
from surfaces.web.test_authentication import FORM, Clock, calling, key_of, whole

NAVIGATED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
LOADED = (
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "whatever"},
    NAVIGATED | {"sec-purpose": "prefetch;prerender"},
)


# What other sites load


async def test_other_sites_load_no_page_of_ours(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    await village(app)
    key = await key_of(app, None)

    async def asked(*_: object, **__: object) -> None:
        pytest.fail("it was asked")

    monkeypatch.setattr(App, "ask", asked)
    monkeypatch.setattr(App, "rooms", asked)
    for sent in LOADED:
        for is_local in (True, False):
            async with visiting(app, None if is_local else key) as one:
                for path in ("/", "/index.json", "/search?q=x&do=ask", "/search.json?q=x&do=ask", "/signin"):
                    assert (await one.get(path, headers=sent)).status_code == 403, path


async def test_a_link_on_another_site_leads_here_but_has_nothing_asked(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(*_: object, **__: object) -> None:
        pytest.fail("it was asked")

    monkeypatch.setattr(App, "ask", asked)
    async with visiting(await village(app)) as one:
        assert (await one.get("/", headers=NAVIGATED)).status_code == 200
        assert (await one.get("/search?q=village", headers=NAVIGATED)).status_code == 200
        for asking in ("do=ask", "do=%20ask", "do=search&do=ask", "%64o=ask"):
            for path in ("/search", "/search.json"):
                told = await one.get(f"{path}?q=x&{asking}", headers=NAVIGATED)
                assert told.status_code == 403, asking
    key = await key_of(app)
    async with visiting(app, key) as one:
        assert (await one.get("/", headers=NAVIGATED)).status_code == 200


@pytest.mark.slow
async def test_our_own_pages_and_whoever_types_an_address_are_served(app: App) -> None:
    async with visiting(await village(app)) as one:
        for where in ("same-origin", "none"):
            sent = {"sec-fetch-site": where, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
            assert (await one.get("/", headers=sent)).status_code == 200
            assert (await one.get("/search?q=x&do=ask", headers=sent)).status_code == 200


# Looking what would go


async def test_following_a_link_erases_nothing_not_even_to_take_it_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def erased(*_: object, **__: object) -> None:
        pytest.fail("it was erased")

    await village(app)
    bo = next(one for one in await app.participants(app.operator) if one.name.casefold() == "bo")
    monkeypatch.setattr(erasing, "erase_person", erased)
    async with visiting(app, await key_of(app)) as one:
        for path in (f"/people/{bo.id}", f"/people/{bo.id}/erase", f"/people/{bo.id}/erase.json"):
            assert (await one.get(path)).status_code == 200
        assert (await one.get(f"/people/{bo.id}/erase/look")).status_code in {404, 405}
        unsigned = await one.client.post(f"/people/{bo.id}/erase/look", data={"token": "x"})
        assert unsigned.status_code == 403


@pytest.mark.slow
async def test_whoever_looks_what_would_go_keeps_nobody_from_saying_something(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await village(app)
    bo = next(one for one in await app.participants(app.operator) if one.name.casefold() == "bo")
    looking, looked, really = asyncio.Event(), asyncio.Event(), erasing.erase_person

    async def slowly(*args: Any, **rest: Any) -> Any:
        done = await really(*args, **rest)
        looking.set()
        await looked.wait()
        return done

    monkeypatch.setattr(erasing, "erase_person", slowly)
    async with visiting(app, await key_of(app)) as one, asyncio.timeout(15):
        path = f"/people/{bo.id}/erase"
        look = asyncio.create_task(one.send(f"{path}/look", on=path))
        await looking.wait()
        try:
            # Somebody else says something, meanwhile, in a room where both are.
            async with asyncio.timeout(5):
                assert (await app.ingest_batch([say(90, author("zoe"), SQUARE)])).skipped == []
                # And a second look does not wait for the first.
                second = await one.send(f"{path}/look", on=path)
            assert second.status_code == 409
            assert "try again" in second.text
        finally:
            looked.set()
        assert (await look).status_code == 200
        assert (await one.get(path)).status_code == 200


# Guesses


async def test_a_good_key_that_asks_for_what_is_not_there_is_no_guess(app: App) -> None:
    asgi, key = whole(await village(app), EnabledSurfaces(), clock=Clock()), await key_of(app, None)
    async with calling(asgi, cookies={"roomlore_key": key}) as one:
        told = [(await one.get("/?as=nobody-of-that-name")).status_code for _ in range(35)]
        assert set(told) == {404}
        assert (await one.get("/")).status_code == 200
    async with calling(asgi) as stranger:
        assert (await stranger.client.post("/signin", data={"key": "rlk_x"})).status_code == 401


async def test_who_looks_at_the_form_with_an_old_cookie_guesses_nothing(app: App) -> None:
    asgi, key = whole(await village(app), EnabledSurfaces(), clock=Clock()), await key_of(app)
    async with calling(asgi) as one:
        for _ in range(40):
            assert (await one.get("/signin", headers={"cookie": "roomlore_key=old"})).status_code == 200
        assert (await one.client.post("/signin", data={"key": key})).status_code == 303


async def test_a_database_that_is_away_makes_no_key_a_guess(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    asgi, key = whole(await village(app), EnabledSurfaces(), clock=Clock()), await key_of(app)

    async def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away", cure="wait")

    async with calling(asgi, cookies={"roomlore_key": key}) as one:
        with monkeypatch.context() as broken:
            broken.setattr(App, "sign_in", away)
            for _ in range(40):
                assert (await one.get("/")).status_code == 503
        assert (await one.get("/")).status_code == 200


def behind(*proxies: str) -> EnabledSurfaces:
    return EnabledSurfaces(proxies=frozenset(proxies))


async def test_behind_a_trusted_proxy_one_who_guesses_does_not_lock_out_all(app: App) -> None:
    asgi, key = whole(await village(app), behind("127.0.0.1"), clock=Clock()), await key_of(app)
    guesser, other = {"x-forwarded-for": "8.8.4.4, 192.0.2.1"}, {"x-forwarded-for": "192.0.2.1, 192.0.2.2"}
    async with calling(asgi) as one:
        last = await one.get("/signin")
        for n in range(40):
            # What the proxy did not add is the guesser's own, and changes nothing.
            mine = guesser | {"x-forwarded-for": f"8.8.4.{n}, 192.0.2.1"}
            last = await one.client.post("/signin", data={"key": f"rlk_{n}"}, headers=mine)
        assert last.status_code == 429
        assert (await one.client.post("/signin", data={"key": key}, headers=other)).status_code == 303
        api = await one.get("/v1/rooms", headers=other | {"authorization": f"Bearer {key}"})
        assert api.status_code == 200


async def test_a_forwarded_address_is_believed_of_nobody_else(app: App) -> None:
    for ways in (EnabledSurfaces(), behind("192.0.2.77")):
        async with calling(whole(await village(app), ways, clock=Clock())) as one:
            last = await one.get("/signin")
            for n in range(40):
                sent = {"x-forwarded-for": f"8.8.4.{n}"}
                last = await one.client.post("/signin", data={"key": f"rlk_{n}"}, headers=sent)
            assert last.status_code == 429


async def test_guesses_in_forms_at_the_same_time_are_no_more_than_one_after_the_other(app: App) -> None:
    limits = RequestLimits(failed_auth_rate=0.5, failed_auth_burst=2)
    asgi = whole(await village(app), EnabledSurfaces(), limits=limits, clock=Clock())
    async with calling(asgi) as one:
        forms = [one.client.post("/signin", data={"key": f"rlk_{number}"}) for number in range(8)]
        told = sorted(response.status_code for response in await asyncio.gather(*forms))
    assert told == [401] * 2 + [429] * 6


# Places


async def test_forms_that_do_not_arrive_shut_nobody_out(app: App) -> None:
    asgi, key = (
        whole(await village(app), EnabledSurfaces(), limits=RequestLimits(body_timeout_seconds=15)),
        await key_of(app),
    )
    begun, ended = asyncio.Semaphore(0), asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield b"key="
        begun.release()
        await ended.wait()
        yield b"x"

    async def send(number: int) -> int:
        async with calling(asgi, client=(f"192.0.2.{number % 4}", 1)) as one:
            head = FORM | {"content-length": "5"}
            return (await one.client.post("/signin", content=slow(), headers=head)).status_code

    async with asyncio.timeout(15), calling(asgi, client=("198.51.100.1", 1)) as other:
        forms = [asyncio.create_task(send(number)) for number in range(40)]
        for _ in forms:
            await begun.acquire()
        assert (await other.get("/signin")).status_code == 200
        assert (await other.client.post("/signin", data={"key": key})).status_code == 303
        assert (await other.get("/")).status_code == 200
        ended.set()
        assert set(await asyncio.gather(*forms)) <= {401, 503}


async def test_those_without_a_key_leave_places_to_those_who_have_one(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    asgi, key = whole(await village(app), EnabledSurfaces()), await key_of(app)
    entered, ended = asyncio.Semaphore(0), asyncio.Event()
    really = App.sign_in

    async def slowly(self: App, shown: str) -> App:
        if shown != key:
            entered.release()
            await ended.wait()
        return await really(self, shown)

    async with asyncio.timeout(15), calling(asgi) as known:
        assert (await known.get("/", headers={"cookie": f"roomlore_key={key}"})).status_code == 200
        monkeypatch.setattr(App, "sign_in", slowly)
        bad = key[:-4] + ("AAAA" if key[-4:] != "AAAA" else "BBBB")

        async def knock(number: int) -> int:
            async with calling(asgi, client=(f"192.0.2.{number}", 1)) as one:
                return (await one.get("/", headers={"cookie": f"roomlore_key={bad}"})).status_code

        knocks = [asyncio.create_task(knock(number)) for number in range(40)]
        for _ in range(8):
            await entered.acquire()
        assert (await known.get("/", headers={"cookie": f"roomlore_key={key}"})).status_code == 200
        ended.set()
        assert (await asyncio.gather(*knocks)).count(503) == 32


async def test_what_is_refused_before_the_door_looks_like_a_page_of_ours(app: App) -> None:
    asgi = whole(
        await village(app),
        EnabledSurfaces(local=True),
        limits=RequestLimits(rate=0.5, burst=1),
        clock=Clock(),
    )
    async with calling(asgi) as one:
        await one.get("/")
        told = await one.get("/")
    assert told.status_code == 429
    for name, value in authentication.HEADERS.items():
        assert told.headers[name] == value, name


async def test_only_streams_have_the_places_of_streams(app: App) -> None:
    limits = RequestLimits(streams=0)
    async with calling(whole(await village(app), EnabledSurfaces(local=True), limits=limits)) as one:
        room = (await app.rooms(app.operator))[0].id
        assert (await one.get(f"/r/{room}/events")).status_code == 503
        assert (await one.get("/people/events")).status_code == 404
        assert (await one.get("/m/x/events")).status_code == 404
        posted = await one.client.post("/signin/events", data={})
        assert posted.status_code != 503


# Addresses


async def test_a_path_that_could_lead_elsewhere_is_not_there(app: App) -> None:
    from surfaces.web.test_authentication import as_it_is  # noqa: PLC0415

    await village(app)
    for path in ["//evil.example/x", "/\\evil.example", "/%09/evil.example/x", "/r/%00", "/x/%0a"]:
        status, text = await as_it_is(site(app, local=True), path)
        assert status == 404
        assert "evil.example" not in text


async def test_numbers_without_end_and_nothing_at_all_are_no_faults(app: App) -> None:
    async with visiting(await village(app)) as one:
        for path in (
            f"/people?page={'9' * 5000}", "/people?named=%00", "/people?kind=%00", "/search?q=a%00", "/search?room=%00",
            "/m?kind=%00", "/m?about=%00", "/?as=%00",
        ):  # fmt: skip
            assert (await one.get(path)).status_code == 400, path
        assert (await one.send("/ops/embedding", on="/ops", room="a\x00", policy="all")).status_code == 400


# Two keys


async def test_of_a_key_in_the_header_and_another_in_a_cookie_neither_is_believed(app: App) -> None:
    mine, theirs = await key_of(await village(app)), await key_of(app, None)
    async with calling(site(app, local=False)) as one:
        both = {"authorization": f"Bearer {mine}", "cookie": f"roomlore_key={theirs}"}
        assert (await one.get("/index.json", headers=both)).status_code == 400
        both["cookie"] = f"roomlore_key={mine}"
        assert (await one.get("/index.json", headers=both)).status_code == 200
        two = {"cookie": f"roomlore_key={theirs}; __Host-roomlore_key={mine}"}
        assert (await one.get("/index.json", headers=two)).status_code == 400


async def test_over_tls_only_the_cookie_that_no_neighbour_sets_is_believed(app: App) -> None:
    key = await key_of(await village(app))
    async with calling(site(app, local=False)) as one:
        for sent in ({"x-forwarded-proto": "https"}, {}):
            told = await one.get("/index.json", headers=sent | {"cookie": f"roomlore_key={key}"})
            assert told.status_code == (401 if sent else 200)
        secure = {"x-forwarded-proto": "https", "cookie": f"__Host-roomlore_key={key}"}
        assert (await one.get("/index.json", headers=secure)).status_code == 200
    over = LOCAL.replace("http:", "https:")
    async with visiting(app, key, base=over) as one:
        assert (await one.get("/index.json")).status_code == 401
