"""All readers of chats with assistants: texts of many languages come out unchanged, and damage stays where it is."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roomlore.domain.incoming import SkippedRecord
from roomlore.domain.ports import ReadOptions
from roomlore.importers.assistants import agent_log, chatgpt, claude, langchain, letta, openai_messages, zep
from roomlore.importers.reading.export import open_export
from tests.importers.test_hostile import OPTIONS, check, dumped, junk, places, replaced, storable

AT = "2025-03-01T10:00:00Z"
TEXTS = {
    "en": "The ferry leaves at eight — don't be late 🚢",
    "de": "Die Fähre fährt um acht, grüß Jörg und Übelacker!",
    "fr": "Le bac part à huit heures ; n'oublie pas l'œuvre…",
    "es": "¿A qué hora sale el barco? ¡Mañana, señor!",
    "ar": "تغادر العبّارة في الثامنة\u200f — لا تتأخر",
    "ja": "フェリーは八時に出ます。遅れないでね👩‍👩‍👧",
}


def _chatgpt(text, number):
    message = {
        "id": f"m{number}",
        "author": {"role": "user", "name": None},
        "create_time": 1_700_000_000.5,
        "content": {"content_type": "text", "parts": [text]},
        "metadata": {"attachments": [{"id": "f", "name": "a.txt"}]},
        "recipient": "all",
    }
    nodes = {
        "r": {"id": "r", "message": None, "parent": None, "children": ["a"]},
        "a": {"id": "a", "message": message, "parent": "r", "children": []},
    }
    return {"title": text, "conversation_id": f"c{number}", "current_node": "a", "mapping": nodes}


def _claude(text, number):
    message = {
        "uuid": "m",
        "sender": "human",
        "text": text,
        "content": [{"type": "text", "text": text}],
        "created_at": AT,
        "attachments": [{"file_name": "a.txt", "extracted_content": "x"}],
        "files": [{"file_name": "b"}],
        "parent_message_uuid": "0",
    }
    return {"uuid": f"c{number}", "name": text, "account": {"uuid": "u"}, "chat_messages": [message]}


def _agent_log(text, number):
    return {
        "type": "user",
        "uuid": f"m{number}",
        "parentUuid": None,
        "sessionId": f"s{number}",
        "cwd": "/a/b",
        "timestamp": AT,
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
    }


def _openai(text, number):
    messages = [{"role": "user", "content": [{"type": "input_text", "text": text}], "created_at": 5}]
    return {"id": f"c{number}", "messages": messages}


def _zep(text, number):
    message = {"uuid": "m", "role": "Ana", "role_type": "user", "content": text, "created_at": AT}
    return {"session_id": f"s{number}", "user_id": "ana", "messages": [message]}


def _letta(text, number):
    message = {
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "created_at": AT,
        "tool_calls": [],
    }
    return {"agents": [{"name": f"pip{number}", "messages": [message]}]}


def _langchain(text, number):
    message = {"type": "human", "id": "m", "content": text, "additional_kwargs": {}}
    config = {"configurable": {"thread_id": f"t{number}", "user_id": "ana"}}
    return {"values": {"messages": [message]}, "created_at": AT, "config": config}


FORMATS = {
    "chatgpt": (chatgpt, _chatgpt),
    "claude": (claude, _claude),
    "agent-log": (agent_log, _agent_log),
    "openai": (openai_messages, _openai),
    "zep": (zep, _zep),
    "letta": (letta, _letta),
    "langchain": (langchain, _langchain),
}
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def contents(name, records):
    if name == "agent-log":
        return "\n".join(dumped(record) for record in records)
    return dumped(records)


def read(name, path, data):
    """Read twice, check every record, and return what came out."""
    file = path / "export.json"
    file.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    importer = FORMATS[name][0].IMPORTER
    runs = []
    for _ in range(2):
        with open_export(file) as source:
            assert importer.recognises(source) in {True, False}
            runs.append(list(importer.read(source, OPTIONS)))
    assert repr(runs[0]) == repr(runs[1])
    for item in runs[0]:
        check(item)
    return runs[0]


def rooms_of(items):
    return [item.room.external_id for item in items if not isinstance(item, SkippedRecord)]


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_text_of_any_language_comes_out_unchanged(tmp_path, name, language):
    text = TEXTS[language]
    for ascii_only in (True, False):
        record = json.dumps(FORMATS[name][1](text, 1), ensure_ascii=ascii_only)
        data = record if name == "agent-log" else f"[{record}]"
        [message] = read(name, tmp_path, data)
        assert message.body == text
        assert message.author.kind == "human"
        assert message.room.visibility == "members"
        if name in {"chatgpt", "claude"}:
            assert message.room.name == text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FORMATS)
@quick
@given(data=st.data())
def test_any_value_anywhere_in_a_record_leaves_the_others(tmp_path, name, data):
    make = FORMATS[name][1]
    record = make("hello", 2)
    path = data.draw(st.sampled_from(places(record)))
    damaged = replaced(record, path, data.draw(junk.filter(storable)))
    whole = read(name, tmp_path, contents(name, [make("hello", 1), make("hello", 3)]))
    found = read(name, tmp_path, contents(name, [make("hello", 1), damaged, make("hello", 3)]))
    assert set(rooms_of(whole)) <= set(rooms_of(found))
    assert len(whole) == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FORMATS)
@quick
@given(data=st.data())
def test_a_file_cut_anywhere_keeps_the_records_before_the_cut(tmp_path, name, data):
    make = FORMATS[name][1]
    records = [make("hello", number) for number in (1, 2, 3)]
    text = contents(name, records)
    cut = data.draw(st.integers(1, len(text) - 1))
    whole = sum(text.index(dumped(record)) + len(dumped(record)) <= cut for record in records)
    items = read(name, tmp_path, text[:cut])
    assert len(rooms_of(items)) == whole
    assert sum(isinstance(item, SkippedRecord) for item in items) <= 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FORMATS)
@quick
@given(data=st.data())
def test_flipped_and_arbitrary_bytes_never_raise(tmp_path, name, data):
    damaged = bytearray(contents(name, [FORMATS[name][1]("hello", number) for number in (1, 2)]).encode())
    flips = st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255))
    for place, value in data.draw(st.lists(flips, max_size=6)):
        damaged[place] = value
    read(name, tmp_path, bytes(damaged))
    read(name, tmp_path, data.draw(st.binary(max_size=200)))


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_surrogate_pair_is_replaced(tmp_path, name):
    data = contents(name, [FORMATS[name][1]("hiHALF", 1)]).encode().replace(b"HALF", b"\\ud83d")
    [message] = read(name, tmp_path, data)
    assert message.body == "hi\ufffd"


@pytest.mark.parametrize("name", FORMATS)
def test_reading_needs_no_options(tmp_path, name):
    file = tmp_path / "export.json"
    file.write_text(contents(name, [FORMATS[name][1]("hello", 1)]), encoding="utf-8")
    with open_export(file) as source:
        [message] = FORMATS[name][0].IMPORTER.read(source, ReadOptions())
    assert message.platform == name
