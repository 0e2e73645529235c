"""The table itself gets author columns: they are added and filled once, and nothing else changes."""

import pytest

from legacy.conftest import Legacy
from legacy.test_chat_history import ANA, BEN, ELENA, HARBOUR, IDS, MARCUS, migrated, row
from roomlore.legacy import columns
from roomlore.legacy.columns import add_author_columns
from roomlore.operations import App

AUTHORS = "select id, author_id, author_is_bot from v2_chat_history order by id"


async def added(legacy: Legacy, characters=IDS):
    counted: list[int] = []
    report = await add_author_columns(legacy.dsn, characters, progress=counted.append)
    assert sum(counted) == report.filled
    return report


async def test_columns_and_indexes_are_added_and_every_row_gets_its_author(old: Legacy):
    old.tell(
        row(1),
        row(2, role="ai"),
        row(3, user_id=MARCUS, content="from the other bot"),
        row(4, role="ai", character_name="dotty"),
        row(5, user_id=f"channel_{HARBOUR}"),
        row(6, user_id=f"channel_{HARBOUR}", role="ai"),
        row(7, role="narrator"),
    )
    before = old.rows("select id, user_id, role, content, timestamp from v2_chat_history order by id")
    report = await added(old)
    assert report.added == ["author_id", "author_is_bot", "reply_to_msg_id"]
    assert (report.filled, report.unknown) == (5, 2)
    assert old.rows(AUTHORS) == [
        (1, ANA, False),
        (2, ELENA, True),
        (3, MARCUS, True),
        (4, "dotty", True),
        (5, None, False),
        (6, ELENA, True),
        (7, None, False),
    ]
    indexes = old.rows("select indexname from pg_indexes where tablename = 'v2_chat_history'")
    assert {name for (name,) in indexes} >= {"idx_v2_chat_history_author", "idx_v2_chat_history_author_bot"}
    assert before == old.rows("select id, user_id, role, content, timestamp from v2_chat_history order by id")


async def test_adding_columns_again_changes_nothing_but_what_is_still_missing(old: Legacy, monkeypatch):
    monkeypatch.setattr(columns, "BATCH", 3)
    old.tell(*(row(number) for number in range(10)), row(10, role="ai"))
    first = await added(old, {})
    assert first.filled == 11
    again = await added(old, {})
    assert (again.added, again.filled) == ([], 0)
    # The id of the bot became known meanwhile.
    assert (await added(old)).filled == 1
    assert old.rows(AUTHORS)[-1] == (11, ELENA, True)


async def test_a_stated_author_stays_and_a_channel_does_not(legacy: Legacy):
    legacy.tell(
        row(1, author_id=BEN),
        row(2, author_id=f"channel_{HARBOUR}"),
        row(3, user_id=f"channel_{HARBOUR}", author_id=f"channel_{HARBOUR}"),
    )
    report = await added(legacy)
    assert (report.added, report.filled, report.unknown) == ([], 1, 1)
    assert [author for _, author, _ in legacy.rows(AUTHORS)] == [BEN, ANA, f"channel_{HARBOUR}"]


@pytest.mark.parametrize("characters", [IDS, {}], ids=["with ids", "without ids"])
async def test_a_table_migrates_the_same_with_and_without_the_columns(app: App, old: Legacy, characters):
    old.tell(row(1), row(2, role="ai"), row(3, user_id=f"channel_{HARBOUR}", role="ai"))
    assert (await migrated(app, old, characters)).stored["added"] == 3
    await added(old, characters)
    report = await migrated(app, old, characters)
    assert report.stored == {"added": 0, "unchanged": 3, "revised": 0, "redacted": 0}
    assert report.parity.is_equal
