"""The doors of the pages, attacked: from other sites, other machines, other keys, and by whoever guesses."""

import asyncio
import logging
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser

from conftest import OpenApp
from operations.village import village
from roomlore.db.cluster import Cluster
from roomlore.http.application import build
from roomlore.http.limits import RequestLimits
from roomlore.operations import App
from roomlore.operations.people import PeopleDirectory
from roomlore.web import authentication
from roomlore.web import limits as web_limits
from roomlore.web.authentication import MAX_FORM_BYTES, local_path
from roomlore.web.gateway import EnabledSurfaces, compose
from surfaces.commandline import refused, roomlore
from surfaces.http.test_serving import address, database, process
from surfaces.web.conftest import HERE, LOCAL, Visitor, listening, site, visiting, window

FORM = {"content-type": "application/x-www-form-urlencoded"}
THEIRS = "http://evil.example"


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def key_of(app: App, name: str | None = "bo") -> str:
    role = "member" if name else "operator"
    return (await app.keys.create(role, name="a key", participant=name)).key


@asynccontextmanager
async def calling(asgi: Any, *, client: tuple[str, int] = HERE, **rest: Any) -> AsyncGenerator[Visitor]:
    """A program that sends just what it is told to."""
    transport = httpx2.ASGITransport(app=asgi, client=client)
    async with httpx2.AsyncClient(transport=transport, base_url=LOCAL, **rest) as one:
        yield Visitor(one)


def whole(app: App, ways: EnabledSurfaces, *, limits: RequestLimits | None = None, clock: Any = None) -> Any:
    """All ways in, as they are served."""
    limits = limits or RequestLimits()
    return compose(build(app, limits=limits), app, ways, limits=limits, clock=clock or Clock())


# This machine alone


async def test_another_name_for_this_machine_opens_nothing(app: App) -> None:
    await village(app)
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:7171",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost.",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "",
    ]:
        async with calling(site(app, local=True)) as one:
            response = await one.get("/", headers={"host": host})
        assert response.status_code == 403
        assert "cellar" not in response.text


async def test_its_own_names_do(app: App) -> None:
    for host in ["localhost", "LOCALHOST:7171", "127.0.0.1:1", "[::1]:7171"]:
        async with calling(site(app, local=True)) as one:
            assert (await one.get("/", headers={"host": host})).status_code == 200


async def test_other_machines_are_not_let_in_by_whatever_name(app: App) -> None:
    for client in [("192.0.2.7", 1), ("10.0.0.1", 1), ("fe80::1", 1), ("testclient", 1)]:
        async with calling(site(app, local=True), client=client) as one:
            assert (await one.get("/")).status_code == 403
            assert (await one.get("/static/roomlore.css")).status_code == 403


async def test_whoever_comes_through_somebody_else_is_not_here(app: App) -> None:
    for name in [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-server",
        "x-real-ip",
    ]:
        async with calling(site(app, local=True)) as one:
            assert (await one.get("/", headers={name: "127.0.0.1"})).status_code == 403


async def test_forwarded_addresses_are_not_believed(app: App) -> None:
    async with calling(site(await village(app), local=True), client=("192.0.2.7", 1)) as one:
        assert (await one.get("/", headers={"x-forwarded-for": "127.0.0.1"})).status_code == 403


async def test_local_pages_let_nobody_sign_in(local: Visitor) -> None:
    assert (await local.get("/signin")).headers["location"] == "/"


# Other sites


async def test_forms_of_other_sites_do_nothing(app: App) -> None:
    for sent in [
        {"origin": THEIRS},
        {"origin": "null"},
        {"origin": "http://localhost:7172"},
        {"origin": "http://["},
        {"origin": f"{LOCAL}.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": LOCAL, "sec-fetch-site": "cross-site"},
    ]:
        for path in ["/theme", "/signin", "/signout", "/ops/retry"]:
            key = await key_of(app, None)
            async with visiting(app, key) as one:
                token = authentication.form_token(key)
                told = await one.client.post(
                    path, data={"token": token, "theme": "dark", "key": key}, headers=sent
                )
            assert told.status_code == 403
            assert "set-cookie" not in told.headers


async def test_a_form_without_its_token_does_nothing(app: App) -> None:
    for token in ["", "x", "0" * 64, "ä"]:
        async with visiting(app, await key_of(app, None)) as one:
            for path in ("/theme", "/signout", "/ops/retry", "/receipts/0/verify"):
                told = await one.client.post(path, data={"token": token, "theme": "dark"})
                assert told.status_code == 403, path


async def test_the_token_of_one_key_is_not_that_of_another(app: App) -> None:
    mine, theirs = await key_of(await village(app)), await key_of(app, "cy")
    async with visiting(app, mine) as one:
        told = await one.client.post(
            "/theme", data={"token": authentication.form_token(theirs), "theme": "dark"}
        )
    assert told.status_code == 403


@pytest.mark.slow
async def test_a_browser_sends_our_own_forms_and_they_are_taken(app: App, browser: Browser) -> None:
    async with window(browser, await village(app)) as seen:
        page = await seen.open("/people")
        await page.select_option("#theme", "dark")
        await page.click("footer button")
        await page.wait_for_url("**/people")
        assert await page.get_attribute("html", "data-theme") == "dark"
        assert seen.faults == []


@pytest.mark.slow
async def test_a_browser_does_not_send_a_form_of_another_site_nor_frame_us(
    app: App, browser: Browser
) -> None:
    key = await key_of(await village(app), None)
    async with listening(site(app, local=False)) as url:
        context = await browser.new_context()
        await context.add_cookies([{"name": "roomlore_key", "value": key, "url": url, "sameSite": "Lax"}])
        page = await context.new_page()
        # 127.0.0.1 and localhost are two sites to a browser.
        await page.goto(url.replace("localhost", "127.0.0.1") + "/signin")
        content = f"<form method=post action='{url}/theme'><input name=theme value=dark></form><iframe src='{url}/'></iframe>"
        await page.set_content(content)
        assert "cellar" not in str([await frame.content() for frame in page.frames[1:]])
        other = await context.new_page()
        assert (await other.goto(f"{url}/")).status == 200  # type: ignore[union-attr]
        await context.close()


# Where to go on to


async def test_an_address_to_go_on_to_leads_nowhere_else(app: App) -> None:
    for where in [
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "\t//evil.example",
        "//[",
        "evil.example",
        "/%0d%0aset-cookie:x=1\r\nx: y",
        "///evil.example",
        "/\u2028",
        "/" + "a" * 5000,
    ]:
        key = await key_of(app, None)
        async with calling(site(app, local=False)) as one:
            told = await one.client.post("/signin", data={"key": key, "next": where})
            page = await one.page("/signin?" + str(httpx2.QueryParams({"next": where})))
        assert told.headers["location"] == "/"
        assert 'name="next" value="/"' in page


@given(st.text())
def test_whatever_is_said_to_go_on_to_is_within(where: str) -> None:
    found = httpx2.URL(LOCAL).join(local_path(where))
    assert (found.scheme, found.host, found.port) == ("http", "localhost", 7171)


async def test_who_signs_in_gets_where_they_wanted_to_go(app: App) -> None:
    key = await key_of(await village(app))
    async with calling(site(app, local=False)) as one:
        asked = await one.get("/people?named=bo&kind=human")
        form = await one.page(asked.headers["location"])
        where = re.search(r'name="next" value="([^"]+)"', form)
        assert where
        told = await one.client.post("/signin", data={"key": key, "next": where[1].replace("&amp;", "&")})
        assert told.headers["location"] == "/people?named=bo&kind=human"
        assert (await one.get(told.headers["location"])).status_code == 200


# Keys


async def test_the_cookie_is_for_no_script_and_no_other_site(app: App) -> None:
    key = await key_of(await village(app))
    async with calling(site(app, local=False)) as one:
        plain = await one.client.post("/signin", data={"key": key})
        behind = await one.client.post("/signin", data={"key": key}, headers={"x-forwarded-proto": "https"})
    assert plain.headers["set-cookie"] == f"roomlore_key={key}; HttpOnly; Path=/; SameSite=lax"
    assert behind.headers["set-cookie"].startswith(
        f"__Host-roomlore_key={key}; HttpOnly; Path=/; SameSite=lax; Secure"
    )


async def test_of_two_keys_none_is_believed(app: App) -> None:
    mine, theirs = await key_of(await village(app)), await key_of(app, None)
    for cookie in (
        f"roomlore_key={mine}; roomlore_key={theirs}",
        f"roomlore_key={theirs}; a=b; roomlore_key={mine}",
    ):
        async with calling(site(app, local=False)) as one:
            told = await one.get("/", headers={"cookie": cookie})
            assert told.status_code == 400
            assert "cookies" in told.text
            twice = [("authorization", f"Bearer {mine}"), ("authorization", f"Bearer {theirs}")]
            assert (await one.get("/", headers=twice)).status_code == 400


async def test_a_cookie_that_a_neighbour_set_does_not_stand_before_the_one_over_tls(app: App) -> None:
    mine, theirs = await key_of(await village(app)), await key_of(app, "cy")
    async with calling(site(app, local=False)) as one:
        told = await one.get(
            "/index.json",
            headers={
                "cookie": f"roomlore_key={theirs}; __Host-roomlore_key={mine}",
                "x-forwarded-proto": "https",
            },
        )
    assert {room["name"] for room in told.json()["rooms"]} == {"square", "attic"}


async def test_a_key_that_is_revoked_or_expired_opens_nothing_any_more(app: App) -> None:
    made = await (await village(app)).keys.create("member", name="bo's", participant="bo")
    async with visiting(app, made.key) as one:
        assert (await one.get("/")).status_code == 200
        page = await one.page("/people")
        await app.keys.revoke(str(made.id))
        assert (await one.get("/")).headers["location"] == "/signin?next=/"
        assert (await one.get("/people.json")).status_code == 401
        token = re.search(r'name="token" value="([^"]+)"', page)
        assert token
        told = await one.client.post("/theme", data={"token": token[1], "theme": "dark"})
        assert told.headers["location"] == "/signin?next=/"
        assert "set-cookie" not in told.headers


async def test_a_key_of_another_org_opens_nothing_of_a_named_one(app: App, open_app: OpenApp) -> None:
    other = await open_app("other")
    key = (await other.keys.create("operator", name="theirs")).key
    async with visiting(await village(app), key) as one:
        assert (await one.get("/index.json")).status_code == 401
    async with calling(site(app, local=False)) as one:
        told = await one.client.post("/signin", data={"key": key})
        assert told.status_code == 401
        assert "set-cookie" not in told.headers


async def test_a_key_is_in_no_page_and_no_log(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key, wrong = await key_of(await village(app)), "rlk_" + "A" * 64
    async with visiting(app, key) as one:
        pages = [
            (await one.get(path)).text
            for path in ("/", "/people", "/signin", "/nowhere", "/people?as=ana", "/ops")
        ]
    async with calling(site(app, local=False)) as one:
        pages.append((await one.client.post("/signin", data={"key": wrong})).text)
        pages.append((await one.get("/", headers={"cookie": f"roomlore_key={wrong}"})).text)
    for text in (*pages, caplog.text):
        assert key not in text
        assert wrong not in text


@pytest.mark.parametrize("name", ["bo", "pip"])
async def test_only_an_operator_looks_as_another(app: App, name: str) -> None:
    role = "agent" if name == "pip" else "member"
    made = await (await village(app)).keys.create(role, name="x", participant=name)
    async with visiting(app, made.key) as one:
        told = [
            await one.get(f"{path}?as={who}")
            for path in ("/", "/index.json", "/people")
            for who in ("ana", "nobody", name)
        ]
    assert {response.status_code for response in told} == {403}


# Ways of asking


async def test_there_is_no_other_way_of_asking(app: App) -> None:
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]:
        async with visiting(app, await key_of(app, None)) as one:
            for path in ("/", "/people", "/signin", "/static/roomlore.css", "/ops.json"):
                assert (await one.client.request(method, path)).status_code == 405, path


async def test_a_head_is_that_of_its_page(local: Visitor) -> None:
    for path in ("/", "/people", "/index.json"):
        page, head = await local.get(path), await local.client.head(path)
        assert (head.status_code, head.content) == (page.status_code, b"")
        assert head.headers["content-type"] == page.headers["content-type"]


TRICKS = (
    "//", "//people", "/people//", "/./people/../ops", "/%2e%2e/", "/people/%2e%2e", "/static/../people", "/static/%2e%2e/doors.py",
    "/static/..%2f..%2fdoors.py", "/static/%5c..%5cdoors.py", "/static//etc/passwd", "/static/", "/static", "/.json", "/ops.json/",
    "/index.json.json", "/r/..", "/people/%00", "/people/%ff", "/signin/", "/SIGNIN",
)  # fmt: skip


async def as_it_is(asgi: Any, path: str, cookie: str = "") -> tuple[int, str]:
    """Return what a path leads to that no client has tidied up."""
    scope = {
        "type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "http_version": "1.1", "client": HERE, "server": ("localhost", 7171),
        "headers": [(b"host", b"localhost:7171"), (b"cookie", cookie.encode())],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await asgi(scope, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:]).decode()


async def test_path_tricks_lead_to_nothing_that_the_plain_path_would_not(app: App) -> None:
    bo = await key_of(await village(app))
    for path, cookie in product(TRICKS, ("", f"roomlore_key={bo}")):
        status, text = await as_it_is(site(app, local=False), path, cookie)
        assert status in {303, 400, 401, 403, 404}, (path, status)
        for word in ("village", "square", "root:", "class Door", "Traceback"):
            assert word not in text


async def test_without_a_key_every_path_is_alike_whether_there_is_something_or_not(app: App) -> None:
    async with calling(site(await village(app), local=False)) as one:
        there = [await one.get(path) for path in ("/", "/people", "/ops", "/m")]
        not_there = [await one.get(path) for path in ("/nowhere", "/r/x", "/people/x", "/a/b/c")]
        twins = [await one.get(f"{path}.json") for path in ("/index", "/people", "/ops", "/nowhere", "/r/x")]
    assert {one.status_code for one in (*there, *not_there)} == {303}
    assert all(one.headers["location"].startswith("/signin?next=/") for one in (*there, *not_there))
    assert {one.status_code for one in twins} == {401}


async def test_what_is_not_there_and_what_is_not_for_the_viewer_are_told_alike(app: App) -> None:
    cellar = next(room for room in await (await village(app)).rooms(app.operator) if room.name == "cellar")
    cy = next(one for one in await app.participants(app.operator) if one.name.casefold() == "dee")
    unknown = str(cellar.id)[:-4] + "0000"
    async with visiting(app, await key_of(app, "eve")) as one:
        for path, known in (("/r/", str(cellar.id)), ("/people/", str(cy.id))):
            for tail in ("", ".json"):
                real, made_up = await one.get(f"{path}{known}{tail}"), await one.get(f"{path}{unknown}{tail}")
                assert real.status_code == made_up.status_code == 404
                assert _alike(real.text, known) == _alike(made_up.text, unknown)


def _alike(text: str, known: str) -> str:
    text = text.replace(known, "ID")
    return re.sub(r'(Request |"request_id":")[0-9a-f-]+|value="[0-9a-f]{64}"', "", text)


async def test_pages_are_kept_by_nobody_and_framed_by_nobody_and_files_are_kept(app: App) -> None:
    async with visiting(await village(app), await key_of(app)) as one:
        for path in ("/", "/people", "/index.json", "/nowhere", "/ops", "/signin", "/people.json?as=ana"):
            told = (await one.get(path)).headers
            assert told["cache-control"] == "no-store", path
            assert told["x-frame-options"] == "DENY"
            policy = told["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert told["x-content-type-options"] == "nosniff"
            assert told["referrer-policy"] == "same-origin"
        kept = await one.get(re.search(r'href="(/static/roomlore.css[^"]+)"', await one.page("/"))[1])  # type: ignore[index]
        assert "immutable" in kept.headers["cache-control"]
        assert (await one.get("/static/nothing.css")).headers["cache-control"] == "no-store"


async def test_nothing_that_was_sent_comes_back_as_markup(app: App) -> None:
    for path in [
        "/?named={}",
        "/people?named={}",
        "/people/{}",
        "/people?page={}",
        "/{}",
        "/?as={}",
        "/signin?next=/{}",
    ]:
        bait = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7919*7907}}"
        async with visiting(app) as one:
            text = (await one.get(path.replace("{}", httpx2.QueryParams({"x": bait}).__str__()[2:]))).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert str(7919 * 7907) not in text


# Too much


async def test_a_form_that_is_too_large_or_does_not_say_how_large_is_not_read(app: App) -> None:
    async with visiting(await village(app), await key_of(app)) as one:
        large = await one.client.post("/theme", content=b"a" * (MAX_FORM_BYTES + 1), headers=FORM)
        assert large.status_code == 400

        async def endless() -> AsyncGenerator[bytes]:
            yield b"theme=dark"
            pytest.fail("it was read")

        assert (await one.client.post("/theme", content=endless(), headers=FORM)).status_code == 400
        for length in ("-1", "1e3", "\uff19", "", "9" * 400):
            told = await one.client.post(
                "/theme", content=b"", headers=FORM | {"content-length": length.encode()}
            )
            assert told.status_code == 400, length
        many = "&".join(f"a{number}=1" for number in range(500))
        assert (await one.client.post("/theme", content=many, headers=FORM)).status_code == 400


async def test_a_form_that_is_written_as_none_of_ours_is_not_read(app: App) -> None:
    key = await key_of(await village(app))
    parts = b'--b\r\ncontent-disposition: form-data; name="key"\r\n\r\n' + b"9" * 1000 + b"\r\n--b--\r\n"
    for kind in ["multipart/form-data; boundary=b; charset=punycode", "text/plain", "application/json"]:
        async with visiting(app, key) as one:
            for path in ("/signin", "/theme"):
                told = await one.client.post(path, content=parts, headers={"content-type": kind})
                assert told.status_code == 400, path


async def test_a_slow_form_is_not_waited_for(app: App) -> None:
    key, ended = await key_of(await village(app)), asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield b"key="
        await ended.wait()
        yield b"x"

    async with (
        calling(whole(app, EnabledSurfaces(), limits=RequestLimits(body_timeout_seconds=0.2))) as one,
        asyncio.timeout(20),
    ):
        head = FORM | {"content-length": "5", "cookie": f"roomlore_key={key}"}
        told = await one.client.post("/signin", content=slow(), headers=head)
    ended.set()
    assert told.status_code == 408


async def test_who_guesses_keys_is_slowed_down_and_nobody_else(app: App) -> None:
    clock = Clock()
    await village(app)
    asgi, known = whole(app, EnabledSurfaces(), clock=clock), await key_of(app)
    async with calling(asgi) as one:
        assert (await one.client.post("/signin", data={"key": known})).status_code == 303
        one.client.cookies.clear()
        guesses = [
            (await one.client.post("/signin", data={"key": f"rlk_{n}"})).status_code for n in range(40)
        ]
        cookies = [
            (await one.get("/", headers={"cookie": f"roomlore_key=rlk_{n}"})).status_code for n in range(5)
        ]
        assert guesses[:10] == [401] * 10
        assert set(guesses[35:]) == {429}
        assert set(cookies) == {429}
        # Whoever got in before goes on, from the very same address.
        assert (await one.get("/", headers={"cookie": f"roomlore_key={known}"})).status_code == 200
        clock.now += 10
        assert (await one.client.post("/signin", data={"key": "rlk_x"})).status_code == 401
    async with calling(asgi, client=("192.0.2.9", 1)) as elsewhere:
        assert (await elsewhere.client.post("/signin", data={"key": known})).status_code == 303


async def test_a_visitor_who_asks_too_often_is_told_when_to_come_again(app: App) -> None:
    clock = Clock()
    asgi = whole(
        await village(app), EnabledSurfaces(local=True), limits=RequestLimits(rate=0.5, burst=2), clock=clock
    )
    async with calling(asgi) as one:
        told = [await one.get("/") for _ in range(3)]
        assert [response.status_code for response in told] == [200, 200, 429]
        assert told[-1].headers["retry-after"] == "2"
        assert "<h1>Too many requests</h1>" in told[-1].text
        assert (await one.get("/static/roomlore.css")).status_code == 200
        assert (await one.get("/health/live")).status_code == 200
        clock.now += 2
        assert (await one.get("/")).status_code == 200


async def test_one_visitor_does_not_take_all_there_is(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_limits, "MAX_PER_KEY", 2)
    await village(app)
    asgi, first, second = whole(app, EnabledSurfaces()), await key_of(app), await key_of(app, "cy")
    async with calling(asgi) as one:
        cookies = [{"cookie": f"roomlore_key={key}"} for key in (first, second)]
        for cookie in cookies:
            assert (await one.get("/", headers=cookie)).status_code == 200
        many = await asyncio.gather(
            *(one.get("/people", headers=cookies[0]) for _ in range(8)), one.get("/", headers=cookies[1])
        )
    assert [response.status_code for response in many].count(503) >= 1
    assert many[-1].status_code == 200


# All ways in together


async def test_programs_get_the_api_and_people_the_pages(app: App) -> None:
    async with calling(whole(await village(app), EnabledSurfaces(local=True))) as one:
        assert (await one.get("/")).headers["content-type"].startswith("text/html")
        api = await one.get("/v1/rooms")
        assert (api.status_code, api.headers["content-type"]) == (401, "application/problem+json")
        assert (await one.get("/metrics")).status_code == 401
        assert (await one.get("/health/live")).status_code == 200
        key = {"authorization": f"Bearer {await key_of(app, None)}"}
        assert (await one.get("/v1/rooms", headers=key)).status_code == 200
        measured = (await one.get("/metrics", headers=key)).text
        assert 'route="/"' in measured


async def test_what_is_closed_is_not_there(app: App) -> None:
    key = {"authorization": f"Bearer {await key_of(await village(app), None)}"}
    for path in ["/v1", "/v1/rooms", "/metrics", "/mcp", "/mcp/x"]:
        async with calling(whole(app, EnabledSurfaces(api=False))) as one:
            assert (await one.get(path, headers=key)).status_code == 404
            assert (await one.get("/health/live")).status_code == 200
        async with calling(whole(app, EnabledSurfaces(pages=False))) as one:
            assert (await one.get("/people", headers=key)).status_code == 404
            assert (await one.get("/v1/rooms", headers=key)).status_code == 200


async def test_measures_name_routes_and_not_what_was_asked(app: App) -> None:
    room = (await (await village(app)).rooms(app.operator))[0].id
    key = {"authorization": f"Bearer {await key_of(app, None)}"}
    async with calling(whole(app, EnabledSurfaces())) as one:
        for path in (f"/r/{room}", "/people?named=secretword", "/search?q=secretword", "/secretword"):
            await one.get(path, headers=key)
        measured = (await one.get("/metrics", headers=key)).text
    assert "/people" in measured
    assert "secretword" not in measured
    assert str(room) not in measured


async def test_a_fault_is_told_without_details(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ValueError("what somebody said")

    await village(app)
    monkeypatch.setattr(PeopleDirectory, "page", broken)
    async with calling(site(app, local=True)) as one:
        page, twin = await one.get("/people"), await one.get("/people.json")
    assert (page.status_code, twin.status_code) == (500, 500)
    assert twin.json()["type"] == "urn:roomlore:problem:fault"
    assert "what somebody said" not in page.text + twin.text + caplog.text
    assert "unexpected ValueError" in caplog.text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--local", "--host", "0.0.0.0"), "0.0.0.0 is not"),
        (("--local", "--host", "192.0.2.1"), "192.0.2.1 is not"),
        (("--local", "--host", "example.com"), "example.com is not"),
        (("--local", "--no-web"), "--no-web"),
        (("--no-api", "--no-web"), "there is nothing to serve"),
        (("--local", "--trusted-proxy", "127.0.0.1"), "without a proxy"),
        (("--trusted-proxy", "example.com"), "no address"),
    ],
)
def test_ways_in_that_make_no_sense_are_refused(words: tuple[str, ...], why: str) -> None:
    done = roomlore("--database", "postgresql://nowhere.invalid/x", "serve", *words)
    refused(done, 1, why)


@pytest.mark.slow
async def test_serve_local_shows_pages_to_this_machine_and_ends_in_order(cluster: Cluster, app: App) -> None:
    org = str((await village(app)).settings.org)
    serving = process(*database(cluster), "--org", org, "serve", "--local", "--no-workers", "--port", "0")
    async with serving as run, asyncio.timeout(90):
        url = await address(run)
        async with httpx2.AsyncClient(base_url=url) as client:
            assert "cellar" in (await client.get("/")).text
            assert (await client.get("/", headers={"host": "evil.example"})).status_code == 403
            assert (await client.get("/v1/rooms")).status_code == 401
        run.send_signal(signal.SIGTERM)
        _, said = await run.communicate()
    assert run.returncode == 0
    assert "pages: http://127.0.0.1:" in said.decode()
    assert "Traceback" not in said.decode()
