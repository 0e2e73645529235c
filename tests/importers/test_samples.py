"""Real exports, where they lie beside the checkout: the readers must count what was counted by hand."""

import json
import time
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from roomlore.domain.ports import ReadOptions
from roomlore.importers import slack
from roomlore.importers.assistants import chatgpt, openai_messages
from roomlore.importers.matrix import room_export as matrix
from roomlore.importers.reading.export import open_export
from roomlore.importers.reading.recognition import choose_importer
from roomlore.operations.imports import READERS

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"

pytestmark = pytest.mark.skipif(
    not (SAMPLES / "EXPECTED.json").exists(), reason="no samples beside the checkout"
)


def expected(prefix):
    if not (SAMPLES / "EXPECTED.json").exists():
        return {}
    counted = json.loads((SAMPLES / "EXPECTED.json").read_text(encoding="utf-8"))
    return {
        name: counts
        for name, counts in counted.items()
        if name.startswith(prefix) and (SAMPLES / name).exists()
    }


@pytest.fixture
def sample(read):
    def run(name):
        with open_export(SAMPLES / name) as source:
            reader = choose_importer(source, READERS)
            assert reader.name == name.split("/")[0].removesuffix("-json")
            again = list(reader.read(source, ReadOptions()))
        result = read(reader, SAMPLES / name)
        assert result.items == again
        assert result.skipped == []
        return result

    return run


def authors(result):
    return {(m.author.account_id, m.author.persona) for m in result.messages if m.author.account_id}


@pytest.mark.parametrize("name", expected("discord-json/"))
def test_discord(sample, name):
    counts = expected("discord-json/")[name]
    result = sample(name)
    assert len(result.messages) == counts["messages"]
    assert len(authors(result)) == counts["authors"]
    assert sum(m.author.kind == "agent" for m in result.messages) == counts["bots"]
    assert (
        Counter(m.metadata.get("platform", {}).get("type", "Default") for m in result.messages)
        == counts["types"]
    )
    # The one reference in each is a forward or a new thread: neither is a reply.
    assert sum("reference" in m.raw for m in result.messages) == counts["references"]
    assert not any(m.reply_to for m in result.messages)


@pytest.mark.parametrize("name", expected("discord-html/"))
def test_discord_html(sample, name):
    counts = expected("discord-html/")[name]
    result = sample(name)
    ids = {m.external_id for m in result.messages}
    assert len(ids) == len(result.messages) == counts["messages"] == int(counts["stated"][0])
    assert len(authors(result)) == counts["authors"]
    assert sum(m.reply_to is not None for m in result.messages) == counts["replies"]
    assert sum(m.reply_to in ids for m in result.messages) == counts["replies_in_file"]
    # The count took the style sheet's rule for the bot mark for a bot.
    assert sum(m.author.kind == "agent" for m in result.messages) == counts["bots"] - 1
    # The clock of these pages was four hours behind UTC, which only the ids tell.
    assert all(m.edited_at >= m.sent_at for m in result.messages if m.edited_at)
    assert all((m.edited_at - m.sent_at).total_seconds() < 3600 for m in result.messages if m.edited_at)


@pytest.mark.slow
def test_slack(sample):
    counts = expected("slack/")["slack/houstondatavis"]
    result = sample("slack/houstondatavis")
    assert len(result.messages) == counts["messages"]
    assert len({m.room.external_id for m in result.messages}) == counts["channels"]
    assert sum(m.edited_at is not None for m in result.messages) == counts["edited"]
    assert (
        Counter(m.metadata.get("platform", {}).get("subtype", "-") for m in result.messages)
        == counts["subtypes"]
    )
    assert sum(m.thread_root is not None for m in result.messages) == counts["thread_replies"]
    # The count took the missing `user` of six file comments for one more author; their `comment` names it.
    assert len(authors(result)) == counts["authors"] - 1
    said = {"-", "file_share", "file_comment"}
    assert sum(m.kind == "message" for m in result.messages) == sum(
        n for key, n in counts["subtypes"].items() if key in said
    )


@pytest.mark.slow
def test_slack_reads_in_well_under_a_second():
    started = time.perf_counter()
    with open_export(SAMPLES / "slack/houstondatavis") as source:
        items = list(slack.IMPORTER.read(source, ReadOptions()))
        assert source.bytes_read == source.bytes_total
    assert len(items) > 1000
    assert time.perf_counter() - started < 1


def test_slack_zip(sample):
    result = sample("slack/slack-export-viewer-testarchive.zip")
    assert len(result.messages) == 158
    assert {m.author.name for m in result.messages if m.author.kind == "agent"} >= {"github"}


@pytest.mark.parametrize("name", expected("telegram/"))
def test_telegram(sample, name):
    counts = expected("telegram/")[name]
    result = sample(name)
    if "messages" not in counts:
        assert [m.body for m in result.messages] == ["Minimal Message", "Link:https://telegram.org/"]
        return
    ids = {m.external_id for m in result.messages}
    assert len(ids) == len(result.messages)
    found = {
        "messages": len(result.messages),
        "authors": len(authors(result)),
        "replies": sum(m.reply_to is not None for m in result.messages),
        "replies_in_file": sum(m.reply_to in ids for m in result.messages),
        "edited": sum(m.edited_at is not None for m in result.messages),
        "service": sum(m.kind == "system" for m in result.messages),
    }
    assert found == counts


def test_matrix_responses(sample):
    sync, page, context = (sample(f"matrix/nio/{name}.json") for name in ("sync", "room_messages", "context"))
    assert (sync.only.body, sync.only.author.name, sync.only.room.visibility) == ("baba", "example", "open")
    assert (sync.only.room.name, len(sync.only.room.members)) == ("#tutorial:localhost", 2)
    assert [message.body for message in page.messages] == [
        "hello world",
        "the world is big",
        "renamed the room: New room name",
    ]
    assert [message.author.name for message in context.messages] == ["example", "example2"]


def test_matrix_events_without_rooms_are_named_and_nothing_else_is_lost(read):
    result = read(matrix.IMPORTER, SAMPLES / "matrix" / "nio")
    assert Counter(result.reasons) == {"no room": 7, "encrypted": 1}
    assert len(result.messages) == 7


def test_mattermost(sample):
    result = sample("mattermost/zulip_mattermost_excerpt.jsonl")
    assert Counter(message.room.external_id for message in result.messages) == {
        "gryffindor/dumbledores-army": 5,
        "gryffindor/gryffindor-common-room": 3,
        "ad-1/amet-0": 4,
    }
    assert sum(message.thread_root is not None for message in result.messages) == 4
    assert sum(len(message.reactions) for message in result.messages) == 2
    assert {message.room.visibility for message in result.messages} == {"members", "open", None}
    assert len({message.external_id for message in result.messages}) == 12


@pytest.mark.parametrize("name", expected("irc/"))
def test_irc(sample, name):
    counts = expected("irc/")[name]
    result = sample(name)
    said = [m for m in result.messages if m.kind == "message"]
    assert len(said) == counts["messages"] + counts["actions"]
    assert len(result.messages) - len(said) == counts["system"]
    # The count of lines took the end of the last line for one more, empty, line.
    assert len(result.messages) == counts["lines"] - 1
    assert len(authors(result)) == counts["nicks"]
    assert len({m.external_id for m in result.messages}) == len(result.messages)


def test_chatgpt(read):
    path = SAMPLES / "chatgpt/chatgpt2graph_conversations.json"
    with open_export(path) as source:
        assert choose_importer(source, READERS) is chatgpt.IMPORTER
    result = read(chatgpt.IMPORTER, path)
    # 45 nodes: the root, 2 hidden instructions, 8 questions, 12 answers, 11 calls of Python and their results.
    assert Counter(m.author.account_id for m in result.messages) == {
        "user": 8,
        "assistant": 23,
        "tool-python": 11,
    }
    assert sum(bool(m.attachments) for m in result.messages) == 11
    assert result.reasons == ["hidden in the conversation"] * 2
    # The tree has one branch, so each message answers the one before.
    assert [m.reply_to for m in result.messages] == [None, *(m.external_id for m in result.messages[:-1])]


def test_openai(read):
    path = SAMPLES / "openai/toy_chat_fine_tuning_head4.jsonl"
    with open_export(path) as source:
        assert choose_importer(source, READERS) is openai_messages.IMPORTER
    assert set(read(openai_messages.IMPORTER, path).reasons) == {"no time"}
    result = read(openai_messages.IMPORTER, path, day=date(2026, 1, 5))
    rooms = Counter(m.room.external_id for m in result.messages)
    assert list(rooms.values()) == [3, 9, 2, 2]
    assert Counter(m.author.kind for m in result.messages) == {"system": 3, "human": 6, "agent": 7}


@pytest.mark.parametrize(
    "name",
    [
        "test_[mmddyy]_24hrs",
        "test_ddmmyy_24hrs",
        "test_mmddyy_24hrs",
        "test_mmddyyyy_12hrs",
        "test_yyyymmdd_24hrs",
    ],
)
def test_whatsapp(sample, name):
    result = sample(f"whatsapp/{name}.txt")
    assert [f"{m.sent_at:%Y-%m-%d %H:%M}" for m in result.messages] == [
        "2019-01-01 11:25",
        "2019-01-20 11:23",
        "2019-01-30 20:49",
        "2020-06-10 15:55",
        "2020-06-20 00:08",
        "2020-06-30 09:10",
        "2021-12-10 10:10",
        "2021-12-20 12:10",
        "2021-12-30 22:01",
    ]
    assert Counter(m.author.name for m in result.messages) == {
        "John Doe": 3,
        "Jahn Doe": 1,
        "John-John Doe": 1,
        "John Doe 🤓": 1,
        "🤓": 1,
        "WhatsApp": 2,
    }
    assert [m.body for m in result.messages if m.kind == "system"] == [
        '+12 345 578 created group "Groupname"',
        "You were added",
    ]
    assert result.messages[1].body == "."
    assert result.messages[2].body.count("\n") == result.messages[8].body.count("\n") == 1
    assert all("date_order" not in m.metadata["platform"] for m in result.messages)
    assert {m.room.kind for m in result.messages} == {"group_dm"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["discord-json", "discord-html", "telegram", "irc"])
def test_a_folder_holds_what_its_files_hold(sample, read, name):
    whole = sample(name)
    parts = [
        read(next(r for r in READERS if r.name == name.removesuffix("-json")), path)
        for path in sorted((SAMPLES / name).iterdir())
        if "annotation" not in path.name
    ]
    keys = [(m.room.external_id, m.external_id) for m in whole.messages]
    assert sorted(keys) == sorted(
        (m.room.external_id, m.external_id) for part in parts for m in part.messages
    )
    assert len(set(keys)) == len(keys)
