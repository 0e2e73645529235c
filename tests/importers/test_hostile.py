"""Every reader against damage it was not written for.

Whatever is read, only records and named skips come out, or `BadInput`; and what stands around the damage survives.
"""

import copy
import hashlib
import io
import json
import math
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, SkippedRecord
from roomlore.domain.ports import ReadOptions
from roomlore.importers import irc, jsonl, mattermost, qdrant, slack, telegram
from roomlore.importers.discord import csv_export as discord_csv
from roomlore.importers.discord import html_export as discord_html
from roomlore.importers.discord import json_export as discord
from roomlore.importers.mail import mbox
from roomlore.importers.matrix import room_export as matrix
from roomlore.importers.reading.export import open_export
from roomlore.importers.reading.json_stream import walk
from roomlore.importers.reading.recognition import choose_importer
from roomlore.importers.whatsapp import chat_export as whatsapp
from roomlore.importers.zulip import data_export as zulip

READERS = {
    module.IMPORTER.name: module.IMPORTER
    for module in (
        jsonl,
        discord,
        discord_html,
        discord_csv,
        slack,
        telegram,
        matrix,
        mattermost,
        zulip,
        irc,
        whatsapp,
        mbox,
    )
}
FILES = {
    "discord": "plans.json",
    "discord-html": "plans.html",
    "discord-csv": "plans.csv",
    "slack": "general/2024-01-01.json",
    "telegram": "result.json",
    "matrix": "export.json",
    "mattermost": "import.jsonl",
    "zulip": "messages.json",
    "irc": "2024-01-01.log",
    "jsonl": "a.jsonl",
    "whatsapp": "WhatsApp Chat with Ana.txt",
    "mbox": "list.mbox",
}
#: Whole files of the formats that are not JSON.
TEXTS = {
    "irc": "[12:00] <ana> hi\n=== ben left\n" * 3,
    "whatsapp": "\u200e[20/1/24, 9:05:00 PM] Ana: \u200eEncrypted\n[21/1/24, 9:06:00 PM] Ben: a <b>\nmore\n"
    * 2,
    "mbox": "".join(
        (
            "From a@x.org Sat Jan 20 21:05:00 2024\nFrom: =?utf-8?b?QW5h?= <a@x.org>\nDate: Sat, 20 Jan 2024 21:05:00 +0100\n"
            f'Message-ID: <{number}@x>\nList-Id: L <l.x.org>\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n'
            "Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n<p>=C3=A9</p>\n--b\n"
            'Content-Disposition: attachment; filename="a.png"\n\nx\n--b--\n\n'
        )
        for number in (1, 2)
    ),
    "discord-html": "<!DOCTYPE html><html><body><div class=preamble><div class=preamble__entry>Harbour</div></div>"
    + "".join(
        f"<div class=chatlog__message-group><div class=chatlog__message-container data-message-id=123456789012345{n}>"
        "<span class=chatlog__author title='ana' data-user-id=1>Ana</span><span class=chatlog__timestamp title='1/5/24 "
        "10:00 AM'>x</span><div class=chatlog__content><span class=chatlog__markdown-preserve>a &amp; <b>b</b></span>"
        "</div><div class=chatlog__embed><a class=chatlog__embed-title-link href='http://['>t</a></div></div></div>"
        for n in range(2)
    ),
    "discord-csv": "AuthorID,Author,Date,Content,Attachments,Reactions\n"
    + '"1","ana#1234","2024-05-01T10:00:00.1230000+02:00","a ""b""\nc","http://[/x,http://y/z","x (1),y (2)"\n'
    * 2,
}
RECORDS = {
    "discord": {
        "id": "5",
        "type": "Reply",
        "timestamp": "2024-05-01T10:00:00+00:00",
        "timestampEdited": "2024-05-01T10:00:00+00:00",
        "content": "hi",
        "author": {"id": "1", "name": "ana", "discriminator": "0000", "nickname": "Ana", "isBot": True},
        "attachments": [{"id": "1", "url": "u", "fileName": "f", "fileSizeBytes": 1}],
        "embeds": [{"title": "t", "description": "d"}],
        "stickers": [{"name": "s"}],
        "reactions": [{"emoji": {"name": "x"}, "count": 1, "users": [{"id": "1"}]}],
        "mentions": [{"id": "1"}],
        "reference": {"type": "Default", "messageId": "4", "channelId": "9"},
        "forwardedMessage": {"content": "x", "attachments": []},
        "interaction": {"id": "1", "name": "roll", "user": {"id": "1"}},
    },
    "slack": {
        "type": "message",
        "subtype": "bot_message",
        "ts": "1700000000.000100",
        "thread_ts": "1600000000.000100",
        "user": "U1",
        "bot_id": "B1",
        "username": "ana",
        "icons": {"image_48": "x"},
        "bot_profile": {"name": "Bridge"},
        "user_profile": {"display_name": "Ana"},
        "comment": {"user": "U1"},
        "text": "<@U1> &lt; <http://x|y>",
        "edited": {"user": "U1", "ts": "1700000001.0"},
        "files": [{"name": "f", "size": 1, "mode": "hosted"}],
        "attachments": [{"text": "t"}],
        "reactions": [{"name": "x", "users": ["U1"], "count": 1}],
    },
    "telegram": {
        "id": 5,
        "type": "message",
        "date": "2024-05-01T10:00:00",
        "date_unixtime": "1700000000",
        "edited_unixtime": "1700000000",
        "from": "Ana",
        "from_id": "user1",
        "reply_to_message_id": 4,
        "reply_to_peer_id": "channel9",
        "forwarded_from": "Ben",
        "text": ["a", {"type": "mention_name", "text": "b", "user_id": 3}],
        "text_entities": [{"type": "text_link", "text": "b", "href": "x"}],
        "photo": "p.jpg",
        "file": "f.pdf",
        "poll": {"question": "q", "answers": [{"text": "a"}]},
        "reactions": [{"emoji": "x", "count": 1, "recent": [{"from_id": "user1"}]}],
        "members": ["Ben"],
    },
    "matrix": {
        "type": "m.room.message",
        "event_id": "5",
        "room_id": "!r:x.org",
        "sender": "@ana:x.org",
        "origin_server_ts": 1700000000000,
        "content": {
            "msgtype": "m.image",
            "body": "b",
            "filename": "f",
            "url": "u",
            "info": {"size": 1},
            "m.mentions": {"user_ids": ["@ben:x.org"]},
            "m.relates_to": {"rel_type": "m.thread", "event_id": "3", "m.in_reply_to": {"event_id": "4"}},
        },
        "unsigned": {
            "m.relations": {
                "m.annotation": {"chunk": [{"type": "m.reaction", "key": "x", "count": 1}]},
                "m.replace": {
                    "sender": "@ana:x.org",
                    "event_id": "6",
                    "origin_server_ts": 1700000000001,
                    "content": {"m.new_content": {"msgtype": "m.text", "body": "b"}},
                },
            },
        },
    },
    "mattermost": {
        "team": "t",
        "channel": "c",
        "user": "ana",
        "type": "",
        "message": "hi",
        "create_at": 5,
        "edit_at": 6,
        "props": {
            "from_webhook": "true",
            "override_username": "Ana",
            "attachments": [{"author_name": "a", "text": "t", "fields": [{"title": "t", "value": "v"}]}],
        },
        "attachments": [{"path": "a/b.pdf"}],
        "reactions": [{"user": "ben", "emoji_name": "x"}],
        "is_pinned": True,
    },
    "zulip": {
        "id": 5,
        "sender_id": 11,
        "sender_full_name": "Ana",
        "stream_id": 3,
        "display_recipient": "general",
        "subject": "tides",
        "timestamp": 1700000000,
        "content": "<p>hi</p>",
        "content_type": "text/html",
        "last_edit_timestamp": 1700000001,
        "edit_history": [{"prev_content": "h", "timestamp": 1700000001}],
        "reactions": [{"emoji_name": "x", "user_id": 12, "user": {"id": 12}}],
    },
    "jsonl": {
        "schema": "roomlore.message/1",
        "platform": "p",
        "room": {
            "id": "r",
            "name": "R",
            "kind": "dm",
            "visibility": "members",
            "members": [{"id": "a", "joined_at": 1}],
        },
        "id": "5",
        "author": {"id": "a", "name": "A", "kind": "agent", "persona": "p", "bridged": False},
        "kind": "message",
        "text": "hi",
        "sent_at": "2024-05-01T10:00:00Z",
        "reply_to": "4",
        "thread_root": "3",
        "audience": ["b"],
        "mentions": ["b"],
        "attachments": [{"name": "f"}],
        "reactions": [{"emoji": "x"}],
        "edited_at": 1,
        "deleted": False,
        "metadata": {"k": 1},
    },
}
#: Ids that are not the number of the record. In Mattermost, they are made of time and account.
IDS = {"slack": "{}.000001", "mattermost": f"{{}}:{hashlib.sha256(b'ana').hexdigest()[:12]}"}
OPTIONS = ReadOptions(day=date(2024, 1, 1))
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "",
            "0",
            "1e9",
            "\0",
            "x" * 300,
            "9" * 40,
            "2024-13-40T99:99:99Z",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
quick = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON_FORMATS = sorted(RECORDS)


def dumped(value) -> str:
    return json.dumps(value)


def contents(name: str, records: list) -> str:
    if name == "slack":
        return dumped(records)
    if name == "matrix":
        return dumped({"room_name": "x", "topic": "y", "messages": records})
    if name == "mattermost":
        return "\n".join(dumped({"type": "post", "post": record}) for record in records)
    if name == "jsonl":
        return "\n".join(dumped(record) for record in records)
    if name == "discord":
        return dumped(
            {
                "guild": {"id": "1"},
                "channel": {"id": "9", "type": "DirectTextChat", "name": "x"},
                "messages": records,
            }
        )
    return dumped({"name": "x", "type": "private_group", "id": 9, "messages": records})


def save(root: Path, name: str, data: str | bytes) -> Path:
    path = root / name / FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    return root / name


def read(name: str, path: Path) -> tuple[list[IncomingMessage], list[SkippedRecord]]:
    """Read twice, check every record, and return what came out."""
    runs = []
    for _ in range(2):
        with open_export(path) as source:
            assert READERS[name].recognises(source) in {True, False}
            runs.append(list(READERS[name].read(source, OPTIONS)))
    assert repr(runs[0]) == repr(runs[1])
    for item in runs[0]:
        check(item)
    messages = [item for item in runs[0] if isinstance(item, IncomingMessage)]
    return messages, [item for item in runs[0] if isinstance(item, SkippedRecord)]


def check(item) -> None:
    if isinstance(item, SkippedRecord):
        assert item.reason
        assert item.where
        return
    assert isinstance(item, IncomingMessage)
    assert item.external_id
    assert len(item.external_id) <= 255
    assert item.where
    assert isinstance(item.body, str)
    assert item.sent_at.utcoffset() == datetime.now(UTC).utcoffset()
    assert -(2**63) <= item.order < 2**63
    assert all(isinstance(who, IncomingAuthor) for who in item.audience)
    assert all(isinstance(one, str) for one in item.mentions)
    for author in (item.author, *(member.author for member in item.room.members)):
        assert isinstance(author.name, str)
        assert author.name
        assert max(len(author.account_id), len(author.persona)) <= 255
    stored = json.dumps(
        [item.body, item.metadata, item.raw, list(item.attachments), list(item.reactions)], allow_nan=False
    )
    assert stored.encode("utf-8")


def places(value, path=()):
    """Return where a value can be replaced, itself included."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def replaced(value, path, other):
    if not path:
        return other
    changed = copy.deepcopy(value)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = other
    return changed


def good(name: str, id_: int):
    record = RECORDS[name]
    if name == "slack":
        return record | {"ts": f"{id_}.000001"}
    if name == "matrix":
        return record | {"event_id": str(id_)}
    if name == "mattermost":
        return record | {"create_at": id_}
    return record | {"id": id_ if name in {"telegram", "zulip"} else str(id_)}


def good_ids(name: str) -> set[str]:
    """Return the ids of the first two good records."""
    return {IDS.get(name, "{}").format(number) for number in (1, 2)}


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_the_undamaged_records_read(tmp_path, name):
    messages, skipped = read(name, save(tmp_path, name, contents(name, [good(name, 1), good(name, 2)])))
    assert len(messages) == 2
    assert skipped == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", JSON_FORMATS)
@quick
@given(data=st.data())
def test_any_value_anywhere_in_a_record_costs_at_most_that_record(tmp_path, name, data):
    path = data.draw(st.sampled_from(places(RECORDS[name])))
    # Numbers that JSON or 64 bits cannot hold end a file, which is tested apart.
    value = data.draw(junk.filter(storable))
    damaged = replaced(RECORDS[name], path, value)
    messages, skipped = read(
        name, save(tmp_path, name, contents(name, [good(name, 1), damaged, good(name, 2)]))
    )
    assert len(messages) + len(skipped) == 3
    assert len(skipped) <= 1
    assert good_ids(name) <= {message.external_id for message in messages}


def storable(value) -> bool:
    if isinstance(value, dict):
        return all(map(storable, value.values()))
    if isinstance(value, list):
        return all(map(storable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 2**63


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", JSON_FORMATS)
@quick
@given(data=st.data())
def test_any_value_anywhere_in_a_file_is_survived(tmp_path, name, data):
    whole = json.loads(contents(name, [good(name, 1)]))
    path = data.draw(st.sampled_from(places(whole)))
    damaged = replaced(whole, path, data.draw(junk))
    read(name, save(tmp_path, name, dumped(damaged)))


@pytest.mark.parametrize("name", JSON_FORMATS)
@quick
@given(data=st.data())
def test_a_file_cut_anywhere_yields_the_records_before_the_cut(tmp_path, name, data):
    text = contents(name, [good(name, number) for number in (1, 2, 3)])
    cut = data.draw(st.integers(0, len(text) - 1))
    messages, skipped = read(name, save(tmp_path, name, text[:cut]))
    assert len(skipped) <= 1
    # In Mattermost's lines, the bracket of the line follows the record.
    single = len(dumped(good(name, 1))) + (name == "mattermost")
    starts = [text.index(dumped(good(name, number))) for number in (1, 2, 3)]
    whole = sum(start + single <= cut for start in starts)
    assert len(messages) == whole


HALVES = {"escaped low": b"\\udc00", "escaped high": b"\\ud83d", "raw low": b"\xed\xb0\x80"}


def value_at(value, path):
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", JSON_FORMATS)
def test_half_a_surrogate_pair_anywhere_costs_at_most_its_record(tmp_path, name, half):
    record = RECORDS[name]
    texts = [path for path in places(record) if isinstance(value_at(record, path), str)]
    damaged = [replaced(record, path, value_at(record, path) + "HALF") for path in texts]
    data = contents(name, [good(name, 1), *damaged, good(name, 2)]).encode().replace(b"HALF", HALVES[half])
    messages, skipped = read(name, save(tmp_path, name, data))
    assert len(messages) + len(skipped) == len(damaged) + 2
    assert good_ids(name) <= {message.external_id for message in messages}
    assert any("\ufffd" in message.author.name for message in messages)


@pytest.mark.parametrize("half", HALVES)
def test_half_a_surrogate_pair_in_a_point_or_a_log_is_replaced(tmp_path, half):
    point = {
        "id": 1,
        "payload": {"role": "user", "user_id": "1", "content": "hiHALF", "timestamp": 1700000000},
    }
    path = tmp_path / "pip.json"
    path.write_bytes(dumped([point]).encode().replace(b"HALF", HALVES[half]))
    with open_export(path) as source:
        [message] = qdrant.IMPORTER.read(source, OPTIONS)
    assert message.body.rstrip("\ufffd") == "hi" != message.body
    if half.startswith("raw"):
        messages, _ = read(
            "irc", save(tmp_path, "irc", b"[12:00] <ana> hi" + HALVES[half] + b"\n[12:01] <ben> ho")
        )
        assert [one.body.rstrip("\ufffd") for one in messages] == ["hi", "ho"]


class Trickle(io.RawIOBase):
    """Gives a few bytes at a time, as many as it is told."""

    def __init__(self, data: bytes, at_once: int) -> None:
        super().__init__()
        self.left, self.at_once = data, at_once

    def read(self, size: int = -1) -> bytes:  # noqa: ARG002  as many as it was told
        given, self.left = self.left[: self.at_once], self.left[self.at_once :]
        return given


PIECES = [
    r"\udc00",
    r"\ud83d",
    r"\ud83d\ude00",
    "\\\\",
    "\\\\" * 7,
    r"\n",
    "a",
    "u",
    r"\"",
    "\u00e9",
    r"\\udc00",
    r"\u0041",
]


@quick
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), at_once=st.sampled_from([1, 3, 7, 50]))
def test_halves_are_told_from_pairs_wherever_the_bytes_are_divided(pieces, at_once):
    text = '["' + "".join(pieces) + '"]'
    whole = json.loads(text)[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    found = list(walk(Trickle(text.encode(), at_once), {(): "list"}))
    assert [step.value for step in found if step.kind == "value"] == [whole]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(FILES))
@quick
@given(data=st.data())
def test_flipped_bytes_never_raise(tmp_path, name, data):
    text = TEXTS.get(name) or contents(name, [good(name, number) for number in (1, 2)])
    damaged = bytearray(text.encode())
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=6)
    ):
        damaged[place] = value
    read(name, save(tmp_path, name, bytes(damaged)))


@pytest.mark.parametrize("name", sorted(FILES))
@quick
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(tmp_path, name, data):
    messages, _ = read(name, save(tmp_path, name, data))
    assert name == "irc" or messages == []


@pytest.mark.parametrize("name", sorted(TEXTS))
@quick
@given(data=st.data())
def test_a_text_cut_anywhere_yields_what_is_before_the_cut(tmp_path, name, data):
    text = TEXTS[name]
    whole, _ = read(name, save(tmp_path, name, text))
    messages, skipped = read(name, save(tmp_path, name, text[: data.draw(st.integers(0, len(text) - 1))]))
    assert len(skipped) <= 1
    assert [one.external_id for one in messages[:-1]] == [one.external_id for one in whole[: len(messages)]][
        :-1
    ]


@quick
@given(
    lines=st.lists(
        st.from_regex(r"\[\d\d:\d\d\]  ?(<\w*>|\* \w+)? .{0,8}|=== .{0,8}|.{0,8}", fullmatch=True), max_size=8
    )
)
def test_every_line_of_a_log_is_a_record_or_a_named_skip(tmp_path, lines):
    text = "\n".join(lines)
    expected = sum(bool(line.strip()) for line in text.encode("utf-8", "replace").decode().split("\n"))
    messages, skipped = read("irc", save(tmp_path, "irc", text))
    assert len(messages) + len(skipped) == expected


@quick
@given(data=st.data())
def test_a_damaged_zip_is_read_as_far_as_it_goes_or_refused(tmp_path, data):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("channels.json", dumped([{"id": "C1", "name": "general"}]))
        for day in (1, 2):
            archive.writestr(f"general/2024-01-0{day}.json", contents("slack", [good("slack", day)]))
    damaged = bytearray(path.read_bytes())
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        damaged[place] = value
    path.write_bytes(bytes(damaged))
    try:
        with open_export(path) as source:
            reader = choose_importer(source, list(READERS.values()))
            for item in reader.read(source, OPTIONS):
                check(item)
    except BadInput:
        return


@pytest.mark.slow
def test_all_broken_files_at_once_are_reported_and_the_good_one_goes_in(tmp_path):
    folder = tmp_path / "discord"
    save(tmp_path, "discord", contents("discord", [good("discord", 1)]))
    broken = {
        "empty.json": b"",
        "cut.json": contents("discord", [good("discord", 2)])[:-40].encode(),
        "nul.json": b"\0" * 1000,
        "utf16.json": contents("discord", [good("discord", 3)]).encode("utf-16"),
        "latin1.json": contents("discord", [good("discord", 4) | {"content": "cafX"}])
        .encode()
        .replace(b"cafX", b"caf\xe9"),
        "deep.json": b"[" * 100_000,
        "html.json": b"<html>not what you asked for</html>",
        "list.json": b"[1, 2, 3]",
        "scalar.json": b'"text"',
        "huge number.json": contents("discord", [good("discord", 5)])[:-2].encode()
        + b","
        + b"9" * 5000
        + b"]}",
        "deep record.json": contents("discord", [good("discord", 6)])[:-2].encode()
        + b","
        + b"[" * 90
        + b"]" * 90
        + b"]}",
    }
    for name, data in broken.items():
        (folder / name).write_bytes(data)
    messages, skipped = read("discord", folder)
    assert sorted(message.external_id for message in messages) == ["1", "3", "4", "5", "6"]
    assert {item.where.split(".json")[0] for item in skipped} == {
        "empty",
        "cut",
        "nul",
        "deep",
        "html",
        "list",
        "scalar",
        "huge number",
        "deep record",
    }
    assert next(message.body for message in messages if message.external_id == "4") == "caf�"
