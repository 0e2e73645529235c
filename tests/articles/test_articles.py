"""Articles read from a real server on this machine, which is reached because these tests allow it."""

import asyncio
import contextlib
import gzip
import os
import time
from ipaddress import ip_network
from types import SimpleNamespace

import httpcore2
import pytest

from roomlore.articles import article_reader, fetching
from roomlore.articles.article_reader import ReadLimits, open_reader
from roomlore.articles.fetching import Fetcher, system_resolver
from roomlore.articles.links import FetchLimits, NetworkPolicy
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Article, FetchFailure

LOOPBACK = (ip_network("127.0.0.0/8"),)
LINES = [f"Sentence number {n} tells why the harbour closes on Fridays at noon." for n in range(20)]
STORY = "<html><head><title>Site</title></head><body><nav>Menu</nav><article><h1>The harbour</h1>{}</article></body></html>"
PAGE = STORY.format("".join(f"<p>{line}</p>" for line in LINES))


def answer(body, *, status="200 OK", kind="text/html; charset=utf-8", **headers):
    """Write an HTTP answer; a header whose value is None is left out."""
    body = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": kind, "Content-Length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def text(body="One line"):
    """Write an answer that takes no parser."""
    return answer(body, kind="text/plain")


def moved(to, status="302 Found", **headers):
    return answer("", status=status, Location=to, **headers)


class Site:
    """Answers each path with bytes, or with what a function writes."""

    def __init__(self):
        self.paths = {}
        self.requests = []
        self.port = 0
        self.closing = asyncio.Event()

    def url(self, path="/", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            given = self.paths.get(head.split()[1], answer("", status="404 Not Found"))
            if callable(given):
                await given(writer)
            else:
                writer.write(given)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def running(site):
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    yield site
    site.closing.set()
    server.close()
    await server.wait_closed()


@pytest.fixture
async def site():
    async with running(Site()) as one:
        yield one


@pytest.fixture
def read(site):
    """Read a path of the site, or a whole address, with loopback allowed unless told."""

    async def read_one(
        link, *, allowed=LOOPBACK, ports=None, resolve=system_resolver, parse_seconds=20.0, **limits
    ):
        reach = NetworkPolicy(allowed_networks=allowed, ports=frozenset(ports or {site.port, 80, 443}))
        bounds = ReadLimits(fetch=FetchLimits(**limits), parse_seconds=parse_seconds)
        reader = open_reader(reach=reach, limits=bounds, resolve=resolve)
        return await reader.read(site.url(link) if link.startswith("/") else link)

    return read_one


def resolver(*answers):
    """Resolve any name to one list of addresses after the other, and keep what was asked."""
    waiting = list(answers)

    async def resolve(host, port):
        resolve.asked.append((host, port))
        return waiting.pop(0)

    resolve.asked = []
    return resolve


# What is read


async def test_an_article_is_extracted_without_the_navigation(site, read):
    site.paths["/story"] = answer(PAGE)
    article = await read("/story")
    assert isinstance(article, Article)
    assert article.url == site.url("/story")
    assert article.title == "The harbour"
    assert all(line in article.text for line in LINES)
    assert "Menu" not in article.text


async def test_plain_text_is_unchanged(site, read):
    site.paths["/a.txt"] = answer("One <b>line</b>\nand more", kind="text/plain")
    assert await read("/a.txt") == Article(url=site.url("/a.txt"), title="", text="One <b>line</b>\nand more")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("Größe €".encode(), "text/plain"),
        ("Größe €".encode("cp1252"), "text/plain; charset=ISO-8859-1"),
        ("Größe €".encode("cp1252"), "text/plain"),
        ("Größe €".encode("utf-16-le"), "text/plain; charset=utf-16le"),
        (b"\xff\xfe" + "Größe €".encode("utf-16-le"), "text/plain; charset=utf-8"),
        ("Größe €".encode(), "text/plain; charset=no-such"),
        ("Größe €".encode(), "text/plain; charset=zip"),
        ("Größe €".encode(), "text/plain; charset=punycode"),
        ("Größe €".encode(), 'text/plain; charset="UTF-8"'),
    ],
)
async def test_charsets_are_decoded(site, read, body, kind):
    site.paths["/a"] = answer(body, kind=kind)
    assert (await read("/a")).text == "Größe €"


@pytest.mark.slow
async def test_a_gzip_page_with_a_declared_charset_is_unpacked(site, read):
    page = PAGE.replace("<head>", '<head><meta charset="windows-1251">').replace("harbour", "гавань")
    site.paths["/a"] = answer(gzip.compress(page.encode("cp1251")), kind="text/html", Content_Encoding="gzip")
    assert "гавань" in (await read("/a")).text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("status", ["301 Moved", "303 See Other", "308 Permanent"])
async def test_a_redirect_is_followed(site, read, status):
    site.paths |= {"/old/a": moved("../new?x=1", status=status), "/new?x=1": text("new")}
    article = await read("/old/a")
    assert (article.text, article.url) == ("new", site.url("/old/a"))


async def test_a_request_reveals_only_the_address(site, read):
    site.paths |= {"/a": moved("/b", Set_Cookie="seen=1; Path=/"), "/b": text()}
    await read("/a#private")
    for request in site.requests:
        names = {line.partition(":")[0].lower() for line in request.splitlines()[1:] if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert "private" not in request
        assert "User-Agent: roomlore\r\n" in request


async def test_a_proxy_of_the_environment_is_ignored(site, read, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.paths["/a"] = text()
    assert isinstance(await read("/a"), Article)


# Where links may lead


async def refused(site, read, link, **options):
    outcome = await read(link, **options)
    assert isinstance(outcome, FetchFailure)
    assert outcome.reason == "its address is not public"
    assert site.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost."])
async def test_loopback_is_refused_by_default(site, read, host):
    await refused(site, read, site.url("/", host=host), allowed=())


async def test_every_address_of_a_name_must_be_public(site, read):
    resolve = resolver(["127.0.0.1", "10.0.0.1"])
    await refused(site, read, site.url("/", host="two.example"), resolve=resolve)


async def test_a_name_is_resolved_once(site, read):
    site.paths["/a"] = text()
    resolve = resolver(["127.0.0.1"], ["169.254.169.254"])
    article = await read(site.url("/a", host="rebinding.example"), resolve=resolve)
    assert isinstance(article, Article)
    assert resolve.asked == [("rebinding.example", site.port)]
    assert f"Host: rebinding.example:{site.port}\r\n" in site.requests[0]


async def test_a_rebinding_name_is_checked_for_each_request(site, read):
    site.paths["/a"] = moved("/b")
    resolve = resolver(["127.0.0.1"], ["10.0.0.1"])
    outcome = await read(site.url("/a", host="rebinding.example"), resolve=resolve)
    assert outcome.reason == "its address is not public"
    assert len(resolve.asked) == 2
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/", "its address is not public"),
        ("http://[::1]/", "its address is not public"),
        ("http://[::ffff:10.0.0.1]/", "its address is not public"),
        ("//10.0.0.1/", "its address is not public"),
        ("http://2852039166/", "not a plainly spelt address"),
        ("http://127.1/", "not a plainly spelt address"),
        ("http://10.0.0.1:22/", "at a port that is not allowed"),
        ("http://a:b@10.0.0.1/", "names an account"),
        ("file:///etc/passwd", "neither http nor https"),
        ("ftp://10.0.0.1/", "neither http nor https"),
        ("http://[", "a redirect to nowhere"),
        ("", "a redirect to nowhere"),
        (None, "a redirect to nowhere"),
    ],
)
async def test_redirect_targets_are_checked(site, read, to, reason):
    site.paths["/a"] = moved(to)
    assert (await read("/a")).reason == reason
    assert len(site.requests) == 1


async def test_redirects_are_limited(site, read):
    site.paths["/a"] = moved("/a")
    assert (await read("/a", redirects=5)).reason == "more than 5 redirects"
    assert len(site.requests) == 6


async def test_a_port_must_be_allowed(site, read):
    assert (await read("/a", ports={80})).reason == "at a port that is not allowed"
    assert site.requests == []


async def test_the_next_address_is_tried_after_a_failure(site, read):
    site.paths["/a"] = text()
    outcome = await read(site.url("/a", host="two.example"), resolve=resolver(["127.0.0.2", "127.0.0.1"]))
    assert isinstance(outcome, Article)


@pytest.mark.parametrize("error", [OSError("no such host"), UnicodeError("label too long")])
async def test_an_unresolved_name_is_refused(read, error):
    async def resolve(*_):
        raise error

    assert (await read("http://nowhere.example/", resolve=resolve)).reason == "its name has no address"
    assert (await read("http://a.example/", resolve=resolver([]))).reason == "its name has no address"


class Wire(httpcore2.AsyncMockStream):
    """Remembers the name that the certificate must bear."""

    names = ()

    async def start_tls(self, ssl_context, server_hostname=None, **_):
        Wire.names = (*Wire.names, (server_hostname, ssl_context.check_hostname))
        return self


async def test_certificates_are_checked_against_the_name():
    connected = []

    class Inner(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host, port, *_):
            connected.append((host, port))
            return Wire([answer(PAGE)])

    fetcher = Fetcher(reach=NetworkPolicy(), limits=FetchLimits(), resolve=resolver(["8.8.8.8"]))
    fetcher._network._inner = Inner()
    page = await fetcher.fetch("https://name.example/a")
    assert page.body == PAGE.encode()
    assert connected == [("8.8.8.8", 443)]
    assert Wire.names == (("name.example", True),)


# Limits


async def test_an_endless_page_is_refused(site, read):
    async def endless(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while not site.closing.is_set():
            writer.write(b"<p>more</p>" * 1000)
            await writer.drain()

    site.paths["/a"] = endless
    assert (await read("/a", bytes=100_000)).reason == "larger than 100,000 bytes"


async def test_a_declared_large_page_is_refused(site, read):
    async def only_head(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9000000\r\n\r\n")
        await site.closing.wait()

    site.paths["/a"] = only_head
    assert (await read("/a")).reason == "larger than 2,097,152 bytes"


async def test_a_gzip_bomb_is_refused(site, read, monkeypatch):
    sizes = []
    unpacked = fetching._GzipDecoder.decode

    def watched(self, chunk, most):
        sizes.append(len(out := unpacked(self, chunk, most)))
        return out

    monkeypatch.setattr(fetching._GzipDecoder, "decode", watched)
    bomb = gzip.compress(bytes(64 * 1024 * 1024), compresslevel=1)
    site.paths["/a"] = answer(bomb, Content_Encoding="gzip")
    assert (await read("/a")).reason == "larger than 2,097,152 bytes"
    assert sum(sizes) == 2_097_153


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        *(
            (answer(PAGE, Content_Encoding=name), "packed in an unsupported way")
            for name in ("br", "deflate", "gzip, gzip")
        ),
        *(
            (answer(body, Content_Encoding="gzip"), "the page is incomplete")
            for body in (b"not gzip", gzip.compress(PAGE.encode())[:-20], b"")
        ),
        *(
            (answer(PAGE, kind=kind), "not a page of text")
            for kind in (
                "application/pdf",
                "text/event-stream",
                "text/css",
                "text/htmlx",
                "nonsense",
                "",
                None,
            )
        ),
        *(
            (answer(PAGE, status=status), f"the server answered {status[:3]}")
            for status in ("204 No Content", "206 Partial", "304 Not Modified", "403 Forbidden", "500 Oh")
        ),
    ],
)
async def test_other_answers_are_refused(site, read, reply, reason):
    site.paths["/a"] = reply
    assert (await read("/a")).reason == reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"]
)
async def test_a_silent_server_times_out(site, read, said):
    async def silent(writer):
        writer.write(said)
        await site.closing.wait()

    site.paths["/a"] = silent
    assert (await read("/a", seconds=0.2)).reason == "took longer than 0.2 seconds"


async def test_a_slow_resolver_times_out(read):
    async def resolve(*_):
        await asyncio.Event().wait()

    assert (await read("http://slow.example/", resolve=resolve, seconds=0.1)).reason == (
        "took longer than 0.1 seconds"
    )


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: x\r\n" * 30_000 + b"\r\n",
    ],
)
async def test_protocol_errors_are_refused(site, read, said):
    site.paths["/a"] = said
    assert (await read("/a")).reason == "the connection failed"


async def test_a_refused_connection_is_a_failure(read):
    async with running(Site()) as other:
        gone = other.url("/a")
        port = other.port
    assert (await read(gone, ports={port})).reason == "the connection failed"


# Parsing


@pytest.fixture
def started(monkeypatch):
    """Keep the processes that parse."""
    create = asyncio.create_subprocess_exec
    kept = SimpleNamespace(processes=[], one=asyncio.Event())

    async def keep(*arguments, **options):
        kept.processes.append(await create(*arguments, **options))
        kept.one.set()
        return kept.processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", keep)
    return kept


async def test_a_slow_extraction_is_killed(site, read, started):
    site.paths["/a"] = answer(PAGE)
    outcome = await read("/a", parse_seconds=0.01)
    assert outcome.reason == "parsing it took longer than 0.01 seconds"
    assert [process.returncode for process in started.processes] == [-9]


async def test_cancellation_kills_the_extraction(site, read, started):
    site.paths["/a"] = answer(PAGE)
    reading = asyncio.create_task(read("/a"))
    await started.one.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [process.returncode for process in started.processes] == [-9]


async def test_cancellation_closes_the_connection(site, read):
    asked, left = asyncio.Event(), asyncio.Event()

    async def silent(writer):
        asked.set()
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
        left.set()

    site.paths["/a"] = silent
    reading = asyncio.create_task(read("/a"))
    await asked.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(left.wait(), 60)


HOSTILE = {
    "deep": "<div>" * 150_000 + "text",
    "wide": "<p>word</p>" * 150_000,
    "tables": "<table><tr><td>" * 40_000,
    "attributes": "<a " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x</a>",
    "entities": "&amp;" * 300_000,
    "unclosed": "<" * 1_000_000,
    "comments": "<!--" * 300_000,
    "nothing": "",
    "nul": "\x00" * 1000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_page_takes_limited_time(site, read, name):
    site.paths["/a"] = answer(HOSTILE[name])
    began = time.monotonic()
    outcome = await read("/a", parse_seconds=1.0)
    assert isinstance(outcome, Article | FetchFailure)
    assert time.monotonic() - began < 60


async def test_a_page_cannot_make_the_parser_open_a_file(site, read):
    entity = '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    site.paths["/a"] = answer(entity + PAGE.replace("at noon", "&a; at noon"), kind="application/xhtml+xml")
    article = await read("/a")
    assert "Sentence number 7" in article.text
    assert "root:" not in article.text


@pytest.mark.slow
async def test_extraction_does_not_block_the_event_loop(site, read):
    site.paths["/a"] = answer(HOSTILE["wide"])
    began = last = time.monotonic()
    longest = 0.0
    reading = asyncio.create_task(read("/a", parse_seconds=1.0))
    while not reading.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert longest < (last - began) / 2


async def test_the_extraction_gets_no_secrets(monkeypatch):
    monkeypatch.setenv("ROOMLORE_KEY", "secret")
    monkeypatch.setenv("ROOMLORE_DATABASE_URL", "postgresql://ana:secret@host/db")
    assert "secret" not in repr(article_reader._environment())
    assert set(article_reader._environment()) <= {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT"}


async def test_a_failing_extraction_is_a_failure(site, read, monkeypatch, tmp_path):
    site.paths["/a"] = answer(PAGE)
    monkeypatch.setattr(article_reader, "_EXTRACTION", tmp_path / "missing.py")
    assert (await read("/a")).reason == "the page cannot be parsed"
    monkeypatch.setattr(article_reader.sys, "executable", os.fspath(tmp_path / "missing"))
    assert (await read("/a")).reason == "the parser does not start"


async def test_long_articles_are_cut(site):
    site.paths["/a"] = text("word " * 1000)
    reach = NetworkPolicy(allowed_networks=LOOPBACK, ports=frozenset({site.port}))
    reader = open_reader(reach=reach, limits=ReadLimits(characters=50))
    assert (await reader.read(site.url("/a"))).text == ("word " * 10)


async def test_concurrency_is_limited(site):
    inside, most = 0, 0
    all_in = asyncio.Event()

    async def counted(writer):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 2:
            all_in.set()
        await all_in.wait()
        inside -= 1
        writer.write(text("text"))

    site.paths |= {f"/{n}": counted for n in range(6)}
    reach = NetworkPolicy(allowed_networks=LOOPBACK, ports=frozenset({site.port}))
    reader = open_reader(reach=reach, limits=ReadLimits(concurrency=2))
    outcomes = await asyncio.gather(*(reader.read(site.url(f"/{n}")) for n in range(6)))
    assert {outcome.text for outcome in outcomes} == {"text"}
    assert most == 2


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setattr(article_reader, "find_spec", lambda name: None if name == "trafilatura" else object())
    with pytest.raises(BadInput, match=r"needs trafilatura; run: pip install 'roomlore\[articles\]'"):
        open_reader()
