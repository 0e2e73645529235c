import json

import pytest

from roomlore.domain.errors import UnknownFormat
from roomlore.importers.reading.export import open_export
from roomlore.importers.reading.recognition import choose_importer
from roomlore.operations.imports import READERS

DISCORD = {"guild": {"id": "1"}, "channel": {"id": "2", "type": "GuildTextChat"}, "messages": []}
TELEGRAM = {"name": "x", "type": "private_group", "id": 1, "messages": []}
EVENT = {
    "type": "m.room.message",
    "event_id": "$a",
    "room_id": "!r:x.org",
    "sender": "@ana:x.org",
    "origin_server_ts": 1700000000000,
    "content": {"msgtype": "m.text", "body": "hi"},
}
POINT = {
    "id": 1,
    "payload": {"role": "user", "user_id": "1", "content": "hi", "timestamp": "2024-01-01T12:00:00"},
}
ZEP = {"uuid": "1", "role": "Ana", "role_type": "user", "content": "hi", "created_at": "2024-01-01T12:00:00Z"}
HUMAN = {"type": "human", "content": "hi", "additional_kwargs": {}, "id": "1"}
EXPORTS = {
    "discord": {"a.json": DISCORD},
    "discord-html": {"a.html": "<!DOCTYPE html><html><style>.chatlog__message-group{}</style><body>"},
    "discord-csv": {"a.csv": "AuthorID,Author,Date,Content,Attachments,Reactions\n"},
    "telegram": {"result.json": TELEGRAM},
    "slack": {"general/2024-01-01.json": []},
    "matrix": {"export.json": {"room_name": "x", "messages": [EVENT]}},
    "mattermost": {"import.jsonl": '{"type": "version", "version": 1}\n'},
    "zulip": {"realm.json": {"zerver_realm": []}, "messages-000001.json": {"zerver_message": []}},
    "irc": {"2024-01-01.log": "[12:00] <ana> hi\n"},
    "whatsapp": {"WhatsApp Chat with Ana.txt": "20/01/24, 21:05 - Ana: hi\n"},
    "mbox": {
        "2024-January.txt": "From ana at x.org  Sat Jan 20 21:05:00 2024\nFrom: ana at x.org (Ana)\n\nhi\n"
    },
    "jsonl": {"a.jsonl": '{"schema": "roomlore.message/1"}\n'},
    "qdrant": {"pip.json": {"result": {"points": [POINT], "next_page_offset": None}, "status": "ok"}},
    "chatgpt": {
        "conversations.json": [
            {"title": "x", "mapping": {"a": {"id": "a", "message": None, "parent": None, "children": []}}}
        ],
        "user.json": {"id": "user-1", "email": "ana@example.org"},
    },
    "claude": {
        "conversations.json": [{"uuid": "1", "name": "x", "chat_messages": []}],
        "users.json": [{"uuid": "2", "full_name": "Ana"}],
        "projects.json": [{"uuid": "3", "name": "p", "docs": []}],
    },
    "agent-log": {
        "a.jsonl": '{"type": "summary", "summary": "x"}\n'
        '{"type": "user", "uuid": "1", "sessionId": "2", "message": {"role": "user", "content": "hi"}}\n'
    },
    "openai": {"a.jsonl": '{"messages": [{"role": "system", "content": "be kind"}]}\n'},
    "zep": {"a.json": {"messages": [ZEP], "total_count": 1}},
    "letta": {"a.af": {"agents": [{"id": "agent-0", "name": "pip", "messages": []}], "blocks": []}},
    "langchain": {"a.json": [{"values": {"messages": [HUMAN]}, "created_at": "2024-01-01T12:00:00Z"}]},
}
#: Other forms of the same formats.
OTHER_FORMS = [
    (
        "agent-log",
        '{"type": "session_meta", "payload": {"id": "1"}}\n{"type": "response_item", "payload": {}}\n',
    ),
    ("agent-log", {"loglines": [{"type": "user", "message": {"role": "user", "content": "hi"}}]}),
    ("openai", [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]),
    ("openai", [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]),
    (
        "openai",
        {
            "object": "list",
            "data": [{"id": "1", "object": "thread.message", "role": "user", "content": [], "created_at": 1}],
        },
    ),
    ("openai", {"messages": [{"role": "user", "content": "hi"}]}),
    ("zep", [ZEP]),
    (
        "letta",
        {"agent_type": "memgpt_agent", "core_memory": [], "messages": [{"role": "user", "text": "hi"}]},
    ),
    (
        "letta",
        json.dumps(json.dumps({"agents": [{"messages": [{"role": "user", "content": "\\" * 300_000}]}]})),
    ),
    ("letta", [{"id": "1", "message_type": "user_message", "date": "2024-01-01T12:00:00Z", "content": "hi"}]),
    ("langchain", [{"id": 1, "session_id": "1", "message": HUMAN}]),
    ("langchain", [{"type": "human", "data": {"content": "hi"}}]),
    (
        "langchain",
        {
            "checkpoint": {
                "ts": "2024-01-01T12:00:00Z",
                "channel_values": {
                    "messages": [
                        {
                            "lc": 1,
                            "type": "constructor",
                            "id": ["langchain", "schema", "messages", "HumanMessage"],
                            "kwargs": {"content": "hi"},
                        }
                    ]
                },
            }
        },
    ),
    ("chatgpt", {"title": "x", "mapping": {"a": {"message": None, "parent": None}}}),
    ("claude", {"uuid": "1", "chat_messages": [{"uuid": "2", "sender": "human", "text": "hi"}]}),
]


ROOM = {"timeline": {"events": [EVENT]}}
ROW = {"id": 1, "sender_id": 2, "sender_full_name": "Ana", "timestamp": 3, "content": "hi"}
VARIANTS = [
    ("matrix", {"a.json": {"next_batch": "s1", "rooms": {"join": {"!r:x.org": ROOM}}}}),
    ("matrix", {"a.json": {"chunk": [EVENT], "start": "t1"}}),
    ("matrix", {"state.json": [EVENT]}),
    ("matrix", {"a.jsonl": f"{json.dumps(EVENT)}\n{json.dumps(EVENT)}\n"}),
    ("mattermost", {"a.jsonl": json.dumps({"type": "post", "post": {"message": "hi"}})}),
    ("zulip", {"a.json": {"result": "success", "msg": "", "messages": [ROW]}}),
]


@pytest.mark.parametrize(("name", "files"), VARIANTS)
def test_a_format_is_known_in_each_of_its_forms(write, name, files):
    with open_export(write(files)) as source:
        assert [reader.name for reader in READERS if reader.recognises(source)] == [name]


@pytest.mark.parametrize("name", EXPORTS)
def test_each_format_is_known_by_one_reader_only(write, name):
    with open_export(write(EXPORTS[name])) as source:
        assert [reader.name for reader in READERS if reader.recognises(source)] == [name]
        assert choose_importer(source, READERS).name == name
        assert choose_importer(source, READERS[::-1]).name == name


@pytest.mark.parametrize(("name", "content"), OTHER_FORMS)
def test_other_forms_of_a_format_are_known_by_its_reader_only(write, name, content):
    with open_export(write({"a.json": content})) as source:
        assert [reader.name for reader in READERS if reader.recognises(source)] == [name]


def test_an_upload_in_the_archive_of_an_assistant_is_no_second_format(write):
    upload = {"file-1-tuning.jsonl": EXPORTS["openai"]["a.jsonl"], "user-1/file_2-a.json": [HUMAN]}
    with open_export(write(EXPORTS["chatgpt"] | upload)) as source:
        assert choose_importer(source, READERS).name == "chatgpt"


def test_other_files_beside_an_archive_of_an_assistant_are_a_second_format(write):
    both = EXPORTS["chatgpt"] | {"logs/a.jsonl": EXPORTS["agent-log"]["a.jsonl"]}
    with open_export(write(both)) as source, pytest.raises(UnknownFormat, match="several formats"):
        choose_importer(source, READERS)


LONG = "x" * 300_000
LONG_RECORDS = {
    "chatgpt": [
        {
            "title": "x",
            "mapping": {
                "a": {"id": "a", "message": None, "parent": None, "children": ["b"]},
                "b": {"id": "b", "message": {"content": LONG}, "parent": "a", "children": []},
            },
        }
    ],
    "claude": [{"uuid": "1", "chat_messages": [{"uuid": "2", "sender": "human", "text": LONG}]}],
    "openai": {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": LONG}]},
    "zep": {"messages": [ZEP, ZEP | {"content": LONG}]},
    "letta": {"agents": [{"name": "pip", "messages": [{"role": "user", "content": LONG}]}]},
    "langchain": {"values": {"messages": [HUMAN, HUMAN | {"content": LONG}]}, "created_at": "x"},
}


@pytest.mark.parametrize("name", LONG_RECORDS)
def test_a_record_longer_than_what_is_looked_at_is_known(write, name):
    with open_export(write({"a.json": LONG_RECORDS[name]})) as source:
        assert [reader.name for reader in READERS if reader.recognises(source)] == [name]


def test_an_unknown_file_says_what_was_found_and_what_is_known(write):
    with (
        open_export(write({"a.bin": b"\x00\x01", "b": "", "c": "", "d": ""})) as source,
        pytest.raises(UnknownFormat) as caught,
    ):
        choose_importer(source, READERS)
    assert "a.bin, b, c and 1 more" in str(caught.value)
    assert ", ".join(reader.name for reader in READERS) in str(caught.value)


def test_an_unknown_export_names_the_most_similar_formats(write):
    almost = {"messages": [{"from_id": 1, "date_unixtime": 2, "text_entities": []}], "channel": "?"}
    with (
        open_export(write({"chat.json": {"log": almost}})) as source,
        pytest.raises(UnknownFormat, match=r"most similar formats are telegram, discord.*JSON lines"),
    ):
        choose_importer(source, READERS)


def test_an_empty_folder_is_no_export(tmp_path):
    with open_export(tmp_path) as source, pytest.raises(UnknownFormat, match="no files"):
        choose_importer(source, READERS)


def test_a_format_may_be_named_and_a_wrong_name_is_refused(write):
    with open_export(write({"a.bin": b"\x00"})) as source:
        assert choose_importer(source, READERS, "irc").name == "irc"
        with pytest.raises(UnknownFormat, match="the formats are"):
            choose_importer(source, READERS, "icq")
