"""A language model is asked over HTTP, on this machine, by a server that keeps to nothing."""

import asyncio
import gzip
import json
import logging
import time
from datetime import timedelta
from itertools import chain, repeat

import pytest

from models.chatserver import chat_server, completion, http, titled
from roomlore.cli.main import cli
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import LlmFailure
from roomlore.models import http_models
from roomlore.models.http_models import open_language_model
from roomlore.settings import LanguageModelSettings, Settings, from_environment

SHAPE = {"type": "object", "properties": {"title": {"type": "string"}}}
KEY = "a-key-that-nobody-may-see"


@pytest.fixture
async def server():
    async with chat_server() as chat:
        yield chat


async def ask(server, *, key=None, seconds=5.0):
    language_model = open_language_model(server.url, "small", key=key, seconds=seconds)
    return await language_model.answer("Find a title.", "[ana]: hello", shape=SHAPE)


async def reason(server, **how):
    answer = await ask(server, **how)
    assert isinstance(answer, LlmFailure), answer
    return answer.reason


async def test_an_answer_is_returned_unchanged(server):
    server.says = lambda _: completion('{"title": "Toner"}')
    assert await ask(server) == '{"title": "Toner"}'
    [asked] = server.asked
    assert server.heads[0].startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert asked["model"] == "small"
    assert asked["messages"] == [
        {"role": "system", "content": "Find a title."},
        {"role": "user", "content": "[ana]: hello"},
    ]
    assert asked["response_format"]["json_schema"]["schema"] == SHAPE
    assert asked["max_tokens"] <= 200


async def test_the_key_is_sent_and_never_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    language_model = open_language_model(server.url, "small", key=KEY)
    assert isinstance(await language_model.answer("a", "b", shape=SHAPE), str)
    server.says = lambda _: http(f"wrong key {KEY}", status="401 Unauthorized")
    refused = await language_model.answer("a", "b", shape=SHAPE)
    assert f"Bearer {KEY}" in server.heads[0]
    settings = LanguageModelSettings(url=server.url, name="small", key=KEY)
    shown = [
        repr(language_model),
        repr(refused),
        repr(settings),
        repr(Settings(language_model=settings)),
        caplog.text,
        json.dumps(server.asked),
    ]
    assert not [text for text in shown if KEY in text]
    assert await reason(server) == "the server answered 401: is the key right?"
    assert "authorization" not in server.heads[-1].lower()


async def test_a_server_without_schemas_is_asked_without(server):
    def says(asked):
        if len(asked) > 2:
            return http('{"error": "unknown field response_format"}', status="400 Bad Request")
        return titled("Toner")

    server.says = says
    language_model = open_language_model(server.url, "small")
    for _ in range(2):
        assert isinstance(await language_model.answer("a", "b", shape=SHAPE), str)
    assert [sorted(asked) for asked in server.asked] == [
        ["max_tokens", "messages", "model", "response_format", "temperature"],
        ["messages", "model"],
        ["messages", "model"],
    ]


async def test_a_server_that_refuses_both_forms_is_asked_with_a_schema_again(server):
    server.says = lambda _: http("{}", status="400 Bad Request")
    language_model = open_language_model(server.url, "small")
    for _ in range(2):
        answer = await language_model.answer("a", "b", shape=SHAPE)
        assert isinstance(answer, LlmFailure)
        assert answer.reason == "the server answered 400"
    assert ["response_format" in asked for asked in server.asked] == [True, False, True, False]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ({"Retry_After": "17"}, timedelta(seconds=17)),
        ({"Retry_After": "Wed, 21 Oct 2099 07:28:00 GMT"}, None),
        ({"Retry_After": "9" * 50}, None),
        ({"Retry_After": "-5"}, None),
        ({"Retry_After": "٣"}, None),
        ({}, None),
    ],
)
async def test_retry_after_is_reported(server, header, wanted):
    server.says = lambda _: http("{}", status="429 Too Many Requests", **header)
    answer = await ask(server)
    assert answer == LlmFailure(reason="the server answered 429: too many calls", retry_after=wanted)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "302 Found"])
async def test_server_errors_are_failures(server, status):
    server.says = lambda _: http("secret words", status=status, Location=f"{server.url}/elsewhere")
    assert await reason(server) == f"the server answered {status[:3]}"
    assert len(server.heads) == 1, "a redirect is not followed: the key would go along"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "{}",
        "null",
        '{"choices": []}',
        '{"choices": [{"message": {}}]}',
        '{"choices": [{"message": {"content": null}}]}',
        '{"choices": [{"message": {"content": {"title": "x"}}}]}',
        '{"choices": [{"message": "x"}]}',
        "[" * 100_000,
        "1" * 100_000,
        b"\xff\xfe\x00",
        '{"choices": [{"message": {"content": "cut',
    ],
)
async def test_other_json_is_a_failure(server, body):
    server.says = lambda _: http(body)
    assert await reason(server) == "the server's answer is not a chat completion"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (titled("Toner")[:-20], "the connection failed"),
        (b"220 mail.example ESMTP\r\n\r\n", "the connection failed"),
        (http(b" " * 30_000_000), "the answer is larger than 262,144 bytes"),
        (
            http(gzip.compress(b" " * 5_000_000), Content_Encoding="gzip"),
            "the answer is packed, which was not asked for",
        ),
    ],
    ids=["cut", "another protocol", "huge", "packed"],
)
async def test_a_broken_answer_is_a_failure(server, reply, why):
    server.says = lambda _: reply
    assert await reason(server) == why


@pytest.mark.parametrize("trickles", [False, True])
async def test_a_slow_server_times_out(server, trickles):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    server.says = lambda _: chain([head], repeat(b" ", 500)) if trickles else 30.0
    began = time.monotonic()
    assert await reason(server, seconds=0.3) == "no answer within 0.3 seconds"
    assert time.monotonic() - began < 25


async def test_a_refused_connection_is_a_failure():
    language_model = open_language_model("http://127.0.0.1:9/v1", "small", key=KEY)
    answer = await language_model.answer("a", "b", shape=SHAPE)
    assert answer == LlmFailure(reason="the connection failed")


async def test_cancellation_ends_a_call(server):
    server.says = lambda _: 30.0
    call = asyncio.create_task(ask(server, seconds=30))
    await server.arrived.wait()
    call.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < 25


async def test_a_proxy_of_the_environment_is_ignored(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(await ask(server), str)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setattr(http_models, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"pip install 'roomlore\[languagemodel\]'"):
        open_language_model("http://127.0.0.1/v1", "small")


# Settings


def test_the_environment_configures_a_language_model():
    env = {
        "ROOMLORE_LANGUAGE_MODEL_URL": "https://host/v1",
        "ROOMLORE_LANGUAGE_MODEL_NAME": "small",
        "ROOMLORE_LANGUAGE_MODEL_KEY": KEY,
        "ROOMLORE_LANGUAGE_MODEL_CALLS": "7",
    }
    assert from_environment({"ROOMLORE_LANGUAGE_MODEL_KEY": KEY}).language_model is None
    found = from_environment(env).language_model
    assert found == LanguageModelSettings(url="https://host/v1", name="small", key=KEY, calls=7)
    assert from_environment(env | {"ROOMLORE_LANGUAGE_MODEL_CALLS": ""}).language_model != found


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"URL": ""}, "is missing"),
        ({"URL": "ftp://host/v1"}, "must be like https://host/v1"),
        ({"URL": "host/v1"}, "must be like https://host/v1"),
        ({"URL": f"https://me:{KEY}@host/v1"}, "without an account"),
        ({"URL": f"https://host/v1?key={KEY}"}, "a query"),
        ({"URL": "https://[host/v1"}, "must be like https://host/v1"),
        ({"URL": "https://host/v1\r\nX: y"}, "must be like https://host/v1"),
        ({"NAME": " "}, "ROOMLORE_LANGUAGE_MODEL_NAME"),
        ({"NAME": ""}, "ROOMLORE_LANGUAGE_MODEL_NAME"),
        ({"KEY": f"{KEY}\n"}, "line break"),
        ({"CALLS": "many"}, "must be a number"),
        ({"CALLS": "-1"}, "must be a number"),
    ],
)
def test_invalid_settings_are_refused_without_showing_the_key(changed, complaint):
    env = {"URL": "https://host/v1", "NAME": "small"} | changed
    with pytest.raises(BadInput, match=complaint) as refused:
        from_environment({f"ROOMLORE_LANGUAGE_MODEL_{name}": value for name, value in env.items()})
    assert KEY not in str(refused.value)


def test_the_command_line_reads_the_environment(monkeypatch):
    monkeypatch.setenv("ROOMLORE_LANGUAGE_MODEL_URL", "https://host/v1")
    monkeypatch.setenv("ROOMLORE_LANGUAGE_MODEL_NAME", "small")
    context = cli.make_context("roomlore", ["--quiet", "rooms"])
    assert context.obj.settings.language_model == LanguageModelSettings(url="https://host/v1", name="small")
