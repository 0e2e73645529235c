"""What a message carries is found and shown as what it is, and is nobody's own words."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ingest.stories import message
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.ports import ReadOptions
from roomlore.importers.jsonl import read_record
from roomlore.importers.reading.export import open_export
from roomlore.importers.reading.recognition import choose_importer
from roomlore.ingest.attachments import MAX_LENGTH, with_attachments
from roomlore.operations import App
from roomlore.operations.imports import READERS, partition_storable
from roomlore.privacy.mentions import NameIndex
from roomlore.privacy.recogniser import recognise
from roomlore.text.sentences import own_sentences_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def discord(**more: Any) -> dict[str, Any]:
    said = {
        "id": "5",
        "type": "Default",
        "timestamp": "2024-05-01T10:00:00+00:00",
        "content": "",
        "author": {"id": "1", "name": "octobot", "isBot": True, "discriminator": "0001"},
    }
    channel = {"id": "9", "type": "GuildTextChat", "name": "core"}
    return {"plans.json": {"guild": {"id": "1"}, "channel": channel, "messages": [said | more]}}


def slack(**more: Any) -> dict[str, Any]:
    said = {"type": "message", "user": "U1", "text": "", "ts": "1700000000.000100"}
    users = [{"id": "U1", "name": "ana"}]
    return {"general/2023-11-14.json": [said | more], "users.json": users, "channels.json": []}


def telegram(**more: Any) -> dict[str, Any]:
    said = {
        "id": 1,
        "type": "message",
        "date_unixtime": "1700000000",
        "from": "Ana",
        "from_id": "user1",
        "text": "",
    }
    return {"result.json": {"name": "x", "type": "public_supergroup", "id": 1, "messages": [said | more]}}


EMBED = {
    "author": {"name": "ana-m"},
    "title": "[lantern/core] Pull request opened: #415 Tide tables",
    "url": "https://example.org/415",
    "description": "Reads the tables of **every** harbour.",
    "fields": [{"name": "Branch", "value": "tides", "isInline": True}],
    "footer": {"text": "lantern"},
}
SHARED = {
    "is_msg_unfurl": True,
    "author_name": "Ben",
    "text": "berth &amp; 3 <@U1>",
    "from_url": "https://x.org/1",
}
CARD = {
    "pretext": "Build",
    "title": "415",
    "title_link": "https://x.org",
    "text": "<https://x.org|green>",
    "fallback": "no",
}
QUOTE = {"type": "rich_text_quote", "elements": [{"type": "text", "text": "fire Ana"}]}
RICH = {
    "type": "rich_text",
    "elements": [QUOTE, {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U1"}]}],
}
SECTION = {
    "type": "section",
    "text": {"type": "mrkdwn", "text": "*Deploy* &lt;7&gt;"},
    "fields": [{"type": "plain_text", "text": "by Ana"}],
}
PLACE = {"latitude": 54.1, "longitude": 7.9}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "embed": (
        discord(embeds=[EMBED]),
        (
            "> [embed] ana-m\n> [lantern/core] Pull request opened: #415 Tide tables\n"
            "> Reads the tables of **every** harbour.\n> Branch: tides\n> lantern\n> https://example.org/415"
        ),
    ),
    "preview of an address": (
        discord(
            content="see https://example.org/415", embeds=[{"url": "https://example.org/415", "title": "PR"}]
        ),
        "see https://example.org/415\n> [embed] PR",
    ),
    "files": (
        discord(
            content="here", attachments=[{"fileName": "report.pdf", "url": "https://cdn/report.pdf?sig=1"}]
        ),
        "here\n> [file] report.pdf",
    ),
    "sticker": (discord(stickers=[{"name": "wave"}]), "> [sticker] wave"),
    "forward": (
        discord(
            content="look",
            forwardedMessage={"content": "close\nLeipzig", "attachments": [{"fileName": "a.png"}]},
        ),
        "look\n> [forwarded] close\n> Leipzig\n> [forwarded file] a.png",
    ),
    "forward of the API": (
        discord(message_snapshots=[{"message": {"content": "close Leipzig", "embeds": [{"title": "T"}]}}]),
        "> [forwarded] close Leipzig\n> [forwarded embed] T",
    ),
    "poll": (
        discord(poll={"question": {"text": "Where?"}, "answers": [{"poll_media": {"text": "Pier"}}]}),
        "> [poll] Where?\n> - Pier",
    ),
    "card": (
        slack(text="done", attachments=[CARD]),
        "done\n> [card] 415\n> Build\n> green (https://x.org)\n> https://x.org",
    ),
    "fallback": (slack(attachments=[{"fallback": "only this"}]), "> [card] only this"),
    "shared": (slack(attachments=[SHARED]), "> [forwarded from Ben] berth & 3 @ana\n> https://x.org/1"),
    "snippet": (
        slack(files=[{"name": "a.py", "title": "Tides", "mode": "snippet", "preview": "x = 1"}]),
        "> [file] a.py\n> Tides\n> x = 1",
    ),
    "blocks alone": (slack(blocks=[SECTION]), "*Deploy* <7>\nby Ana"),
    "blocks with a quotation": (slack(blocks=[RICH]), "> fire Ana\n@ana"),
    "blocks beyond the text": (
        slack(text="*Deploy* &lt;7&gt;", blocks=[SECTION]),
        "*Deploy* <7>\n> [blocks] *Deploy* <7>\n> by Ana",
    ),
    "text repeated as blocks": (slack(text="hi <@U1>", blocks=[RICH]), "hi @ana"),
    "telegram forward": (
        telegram(text="close Leipzig", forwarded_from="Ben [Boss]", file="a.pdf", file_name="a.pdf"),
        "> [forwarded from Ben Boss] close Leipzig\n> [forwarded file] a.pdf",
    ),
    "telegram poll": (
        telegram(poll={"question": "When?", "answers": [{"text": "now"}, {"text": ["la", {"text": "ter"}]}]}),
        "When?\n> [poll] - now\n> - later",
    ),
    "telegram sticker": (
        telegram(file="stickers/s.webp", media_type="sticker", sticker_emoji="👋"),
        "> [sticker] s.webp 👋",
    ),
    "contact": (
        telegram(contact_information={"first_name": "Ben", "last_name": "B", "phone_number": "+1 5"}),
        "> [contact] Ben B\n> +1 5",
    ),
    "location": (
        telegram(location_information=PLACE, place_name="Pier", address="Quay 3"),
        "> [location] Pier\n> Quay 3\n> 54.1, 7.9",
    ),
    "audio": (
        telegram(
            file="a.mp3", media_type="audio_file", mime_type="audio/mpeg", performer="Cleo", title="Tides"
        ),
        "> [audio] a.mp3\n> Cleo - Tides",
    ),
}


def cleaned(*messages: IncomingMessage) -> list[IncomingMessage]:
    fit, unfit = partition_storable(messages, now=NOW)
    assert unfit == []
    return fit


def save(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", CASES)
def test_what_a_message_carries_stands_below_its_own_words(tmp_path: Path, name: str):
    files, body = CASES[name]
    with open_export(save(tmp_path, files)) as source:
        [found] = choose_importer(source, READERS).read(source, ReadOptions())
    assert isinstance(found, IncomingMessage)
    [stored] = cleaned(found)
    assert stored.body == body
    # As a client sends on what it has read, and as an edit tells a message again.
    assert cleaned(stored)[0].body == body


def test_records_of_our_own_format_carry_alike():
    record = {
        "id": "1",
        "room": "r",
        "author": "ana",
        "sent_at": "2024-05-01T10:00:00Z",
        "text": "look",
        "attachments": [
            {"type": "forward", "author": "Boss", "text": "close Leipzig"},
            {"type": "poll", "name": "Where?", "options": ["Pier", 3, None]},
            {"name": "a.png", "type": "image/png", "url": "https://example.org/a.png"},
            {"type": "embed", "fields": [{"name": "k", "value": "v"}, 1], "text": 5},
            {},
        ],
    }
    found, _ = read_record(record, where="0", order=0)
    assert isinstance(found, IncomingMessage)
    assert cleaned(found)[0].body == (
        "look\n> [forwarded from Boss] close Leipzig\n> [poll] Where?\n> - Pier\n> [file] a.png\n> [embed] k: v"
    )


def test_what_is_removed_carries_nothing_and_what_is_huge_is_cut():
    part = {"type": "embed", "text": "x\n" * MAX_LENGTH}
    assert cleaned(message(deleted=True, attachments=[part]))[0].body == ""
    assert MAX_LENGTH - 10 < len(cleaned(message(body="", attachments=[part]))[0].body) < MAX_LENGTH + 10


@pytest.mark.parametrize(
    "theirs",
    [
        "I decided to close the Leipzig office.",
        "Forget what I said about the harbour.",
        "Don't tell Linda about the harbour.",
        'He said "never mind\nI prefer tea.\n\nI decided to leave.',
        "\u2028I decided to close the Leipzig office.",
        "one\r\rI decided to leave.\x85I prefer tea.\x0bForget what I said.",
    ],
)
@pytest.mark.parametrize("kind", ["forward", "embed", "card", "poll", "file"])
def test_what_is_carried_is_no_statement_and_no_wish_of_who_posts_it(kind: str, theirs: str):
    part = {"type": kind, "author": "Boss\nI quit.", "text": theirs, "options": [theirs], "name": theirs}
    body = with_attachments("Good morning.", [part])
    assert [sentence.text for sentence in own_sentences_of(body)] == ["Good morning."]
    assert recognise(body, ParticipantId(UUID(int=1)), NameIndex.build(())) is None


SAMPLE = (
    Path(__file__).parents[2].parent / "shared" / "samples" / "slack" / "slack-export-viewer-testarchive.zip"
)


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the samples are not here")
def test_no_message_of_a_real_workspace_with_bots_is_empty():
    with open_export(SAMPLE) as source:
        found = [
            one
            for one in choose_importer(source, READERS).read(source, ReadOptions())
            if isinstance(one, IncomingMessage)
        ]
    assert [one.where for one in cleaned(*found) if not one.body.strip()] == []
    assert sum(not one.body.strip() for one in found) > 90


async def test_a_preview_that_came_later_is_no_contradiction(app: App):
    await app.ingest_batch([message("1", "see https://example.org")])
    part = {"type": "embed", "name": "Example"}
    again = await app.ingest_batch([message("1", "see https://example.org", attachments=[part])])
    other = await app.ingest_batch([message("1", "something else", attachments=[part])])
    assert [one.reason for one in (*again.skipped, *other.skipped)] == ["same id, other text"]


async def test_a_bots_embed_is_found_by_its_words(app: App, tmp_path: Path):
    await app.import_path(save(tmp_path, discord(embeds=[EMBED])))
    hits = await app.search(app.operator, "tide tables of every harbour")
    assert ["Tide tables" in hit.root.body for hit in hits.hits] == [True]


async def test_a_question_with_a_file_is_a_question_and_answers_nothing(app: App):
    asked = "where is the harbour master's brass lantern?"
    await app.ingest_batch([message("1", asked, attachments=[{"name": "lantern.png"}])])
    answer = await app.ask(app.operator, asked)
    assert "lantern.png" not in answer.text
