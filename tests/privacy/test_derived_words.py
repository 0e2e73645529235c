"""No word that is derived names an erased person again, and a receipt tells of every place where their name stays."""

import json
import re

import pytest

from ingest.stories import author, message, room
from privacy.village import ANA, BO, as_text, participant
from roomlore.conversations.erased_names import erased_name_words
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import Viewer
from roomlore.domain.words import name_forms, name_words
from roomlore.operations import App

#: A name that is no word of anything else.
ZEB = author("u-zeb", name="Zebulon Quist")
NAME = re.compile(r"zebulon|quist", re.IGNORECASE)
PAIR = room(
    "pair",
    name="Bo and Zebulon Quist",
    topic="What Zebulon Quist wants",
    kind="group_dm",
    visibility="members",
    members=tuple(IncomingMembership(author=one) for one in (BO, ZEB)),
)
OPEN = room("general", topic="Ask Zebulon Quist for the keys")
#: Where a name stays in plain words, and how a receipt calls it.
STAYS = {
    ("messages", "body"): "messages of others with their names in the words",
    ("message_revisions", "body"): "messages of others with their names in the words",
    ("messages", "words"): "messages of others with their names in the words",
    (
        "messages",
        "raw",
    ): "records of messages of others with their names in a field that is not known to be about people",
    ("memories", "content"): "memories with their names in the words",
    ("memories", "words"): "memories with their names in the words",
    ("memories", "metadata"): "memories with their names in the words",
    ("memories", "title"): "memories with their names in the words",
    ("rooms", "topic"): "rooms with their names in what they are called or are for",
    ("api_keys", "name"): "keys of others with their names in what they are called",
}


async def tell(app: App) -> None:
    await app.ingest_batch(
        [
            message("1", "the crane is mine", author=ZEB, room=OPEN),
            message("2", "zebulon's crane, zebulon's crane", author=BO, room=OPEN, reply_to="1"),
            message(
                "3",
                "Zebulon Quist left the crane",
                author=ANA,
                room=OPEN,
                raw={"preview": "by Zebulon Quist"},
            ),
            message("4", "just us two", author=BO, room=PAIR),
        ]
    )
    await app.disentangle()


async def places_naming(admin, app: App) -> set[tuple[str, str]]:
    """Every column of every table that holds the name, in rows of the org."""
    rows = await admin.execute(
        "select distinct c.table_name from information_schema.columns c join pg_tables t"
        " on t.tablename = c.table_name and t.schemaname = 'roomlore'"
        " where c.table_schema = 'roomlore' and c.column_name = 'org_id' and c.table_name !~ '_[0-9]$'"
    )
    found = set()
    for (table,) in await rows.fetchall():
        held = await admin.execute(f"select to_jsonb({table}) from {table} where org_id = %s", [app.org_id])
        for (row,) in await held.fetchall():
            found |= {(table, column) for column, value in row.items() if NAME.search(json.dumps(value))}
    return found


async def test_every_place_where_a_name_stays_is_in_the_receipt_and_no_other_is(app: App, admin):
    await tell(app)
    await app.memories.remember(
        "The crane of Zebulon Quist is red.",
        sources=["2"],
        title="Zebulon Quist",
        tags=["zebulon quist", "crane"],
    )
    await app.keys.create("operator", name="for Zebulon Quist")
    [conversation] = await app.conversations.all(app.operator, room="general")
    await app.conversations.rename(str(conversation.id), "What Zebulon Quist left")
    await app.conversations.set_sensitivity(str(conversation.id), "sensitive")
    zeb = str(await participant(app, "u-zeb"))

    receipt = await app.erasure.person("u-zeb")
    assert receipt.is_clean
    await app.drain()

    left = await places_naming(admin, app)
    assert left <= set(STAYS), left - set(STAYS)
    told = {one.what: one.count for one in receipt.kept}
    assert all(told.get(STAYS[place]) for place in left), left
    assert told["digests of the words of their names"] == 2
    rooms = {one.external_id: (one.name, one.topic) for one in await app.rooms(app.operator)}
    assert rooms["pair"] == ("Bo and [erased]", "What [erased] wants")
    [memory] = await app.memories.all(app.operator)
    assert list(memory.tags) == ["crane"]
    held = await admin.execute(
        "select prior_authors::text from conversations where org_id = %s", [app.org_id]
    )
    assert zeb not in as_text(await held.fetchall())


async def test_a_room_for_a_few_does_not_get_an_erased_name_again(app: App):
    await tell(app)
    await app.erasure.person("u-zeb")
    await app.ingest(message("5", "still here", author=BO, room=PAIR))
    rooms = {one.external_id: (one.name, one.topic) for one in await app.rooms(app.operator)}
    assert not NAME.search(" ".join(rooms["pair"])), rooms


@pytest.mark.slow
async def test_what_is_left_is_labelled_without_the_erased_name(app: App):
    await tell(app)
    await app.erasure.person("u-zeb")
    await app.disentangle()
    # Also what others say of them later.
    await app.ingest(message("6", "Zebulon's rowboat, zebulons rowboat", author=BO, room=OPEN, reply_to="3"))
    await app.disentangle()
    labels = [one.label for one in await app.conversations.all(app.operator)]
    assert any(labels)
    assert not NAME.search(" ".join(labels)), labels
    assert not NAME.search((await app.conversations.split(["6"])).label)


async def test_an_erased_name_is_known_in_every_form_and_in_one_org_only(app: App, open_app):
    await tell(app)
    await app.erasure.person("u-zeb")
    other = await open_app("other")

    async def known(asked: App, *texts: str) -> set[str]:
        async with asked.db.read_transaction(Viewer.operator(asked.org_id)) as conn:
            return await erased_name_words(conn, asked.org_id, texts)

    assert await known(app, "ZEBULON's quist-boat", "the crane") == {"zebulon's", "quist-boat"}
    assert await known(other, "zebulon") == set()


@pytest.mark.parametrize(
    ("word", "form"), [("zebulon's", "zebulon"), ("zebulons", "zebulon"), ("jean-luc", "luc"), ("Ana", "ana")]
)
def test_a_word_may_be_a_name_with_an_ending_or_in_part(word, form):
    assert form in name_forms(word)
    assert name_words(["Jean-Luc A. Quist"]) == {"jean", "luc", "quist"}


@pytest.mark.slow
async def test_no_memory_is_drawn_again_that_says_an_erased_name(app: App):
    await tell(app)
    lines = [
        message("7", "Decision: Zebulon hosts the wiki from Monday on.", author=BO, room=OPEN),
        message("8", "Decision: the wiki moves to the new server on Friday.", author=ANA, room=OPEN),
    ]
    await app.ingest_batch(lines)
    await app.drain()
    await app.extraction.extract()
    before = [one.content for one in await app.memories.all(app.operator)]
    assert any(NAME.search(one) for one in before), before

    await app.erasure.person("u-zeb")
    # Gone through anew, and said once more by others.
    await app.ingest(message("9", "Decision: Quist keeps the boat until the summer.", author=BO, room=OPEN))
    await app.drain()
    await app.extraction.extract()
    after = [(one.title, one.content, one.tags) for one in await app.memories.all(app.operator)]
    assert any("Friday" in content for _, content, _ in after), after
    assert not NAME.search(repr(after)), after


@pytest.mark.slow
async def test_small_words_of_an_erased_name_keep_no_memory_from_being_drawn(app: App):
    await app.ingest(message("1", "hello", author=author("u-will", name="Will Quist"), room=OPEN))
    await app.erasure.person("u-will")
    await app.ingest(message("2", "We decided that the wiki will move on Friday.", author=ANA, room=OPEN))
    await app.drain()
    await app.extraction.extract()
    assert [one for one in await app.memories.all(app.operator) if "Friday" in one.content]


async def test_a_name_in_the_metadata_of_memories_is_found(app: App, admin):
    await tell(app)
    await app.memories.remember("The crane is red.", sources=["2"], metadata={"seen_by": "Zebulon Quist"})
    await app.memories.remember(
        "The crane is old.", sources=["2"], involving=["u-zeb"], metadata={"by": "Zebulon Quist"}
    )
    receipt = await app.erasure.person("u-zeb")
    told = {one.what: one.count for one in receipt.kept}
    assert told["memories with their names in the words"] == 1
    assert [one.content for one in await app.memories.all(app.operator)] == ["The crane is red."]
    assert ("memories", "metadata") in await places_naming(admin, app)
