import pytest

from roomlore.domain.errors import UnknownFormat
from roomlore.importers import discord, irc, jsonl, mbox, qdrant, slack, telegram, whatsapp
from roomlore.importers.export import choose_importer, open_export

READERS = [module.IMPORTER for module in (jsonl, discord, slack, telegram, irc, qdrant, whatsapp, mbox)]
DISCORD = {"guild": {"id": "1"}, "channel": {"id": "2", "type": "GuildTextChat"}, "messages": []}
TELEGRAM = {"name": "x", "type": "private_group", "id": 1, "messages": []}
POINT = {
    "id": 1,
    "payload": {"role": "user", "user_id": "1", "content": "hi", "timestamp": "2024-01-01T12:00:00"},
}
EXPORTS = {
    "discord": {"a.json": DISCORD},
    "telegram": {"result.json": TELEGRAM},
    "slack": {"general/2024-01-01.json": []},
    "irc": {"2024-01-01.log": "[12:00] <ana> hi\n"},
    "whatsapp": {"WhatsApp Chat with Ana.txt": "20/01/24, 21:05 - Ana: hi\n"},
    "mbox": {
        "2024-January.txt": "From ana at x.org  Sat Jan 20 21:05:00 2024\nFrom: ana at x.org (Ana)\n\nhi\n"
    },
    "jsonl": {"a.jsonl": '{"schema": "roomlore.message/1"}\n'},
    "qdrant": {"pip.json": {"result": {"points": [POINT], "next_page_offset": None}, "status": "ok"}},
}


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
    assert "jsonl, discord, slack, telegram, irc, qdrant, whatsapp, mbox" in str(caught.value)


def test_an_empty_folder_is_no_export(tmp_path):
    with open_export(tmp_path) as source, pytest.raises(UnknownFormat, match="no files"):
        choose_importer(source, READERS)


def test_a_format_may_be_named_and_a_wrong_name_is_refused(write):
    with open_export(write({"a.bin": b"\x00"})) as source:
        assert choose_importer(source, READERS, "irc").name == "irc"
        with pytest.raises(UnknownFormat, match="the formats are"):
            choose_importer(source, READERS, "icq")
