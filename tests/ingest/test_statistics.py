"""A database that was empty a minute ago knows how much it holds."""

from pathlib import Path

import pytest

import roomlore
from ingest.stories import at, message
from roomlore import Settings


@pytest.mark.slow
async def test_after_an_import_what_is_sent_again_is_looked_up_one_by_one(tmp_path: Path):
    said = [message(f"m{number}", sent_at=at(number)) for number in range(8_000)]
    async with roomlore.open(Settings(data=tmp_path, org="grown")) as app:
        for first in range(0, len(said), 500):
            await app.ingest_batch(said[first : first + 500])
        async with app.db.read_transaction(app.operator) as conn:
            cursor = await conn.execute(
                "select reltuples from pg_class where oid = 'roomlore.messages'::regclass"
            )
            [(known,)] = await cursor.fetchall()
    # Without, it is -1: nobody has ever looked.
    assert 1_000 <= known <= len(said)
