import json

import pytest

from roomlore.domain.errors import UnknownFormat
from roomlore.importers.export import open_export
from roomlore.importers.recognition import choose_importer
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
    "jsonl": {"a.jsonl": '{"schema": "roomlore.message/1"}\n'},
    "qdrant": {"pip.json": {"result": {"points": [POINT], "next_page_offset": None}, "status": "ok"}},
}


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
