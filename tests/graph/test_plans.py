"""A question about one participant reads what has to do with them, and never goes through all messages."""

import json
from typing import Any

import psycopg
import pytest

from ingest.stories import author, message
from roomlore.db.graph import QUERIES
from roomlore.db.queries import Connection
from roomlore.domain.ids import uuid7
from roomlore.domain.records import Viewer
from roomlore.operations import App

PEOPLE, MESSAGES = 50, 8_000
FILL = """
  insert into messages
    (org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision, received_at)
  select %(org)s, gen_random_uuid(), %(room)s, 'fill' || n, case when n %% 4 = 0 then 'whisper' else 'message' end,
    (%(people)s::uuid[])[1 + n %% %(many)s], 'x', 'human', 'words',
    timestamptz '2025-01-01' + n * interval '1 minute', 'us', now()
  from generate_series(1, %(messages)s) as n
"""
# Enough of them that to read them all would be a bad plan, which it is not for a table of one page.
WHISPER = """
  insert into message_audience (org_id, message_id, participant_id)
  select org_id, id, (%(people)s::uuid[])[1 + (hashtext(external_id) & 1023) %% %(many)s]
  from messages
  where org_id = %(org)s and kind = 'whisper'
"""
ANSWER = """
  insert into replies (org_id, room_id, child_id, parent_id, method, confidence)
  select org_id, room_id, id, before, 'explicit', 1
  from (select *, lag(id) over (order by sent_at) as before from messages where org_id = %(org)s) as said
  where before is not null
"""


async def filled(app: App, admin: psycopg.AsyncConnection) -> tuple[Viewer, Viewer]:
    people = [author(f"p{number}") for number in range(PEOPLE)]
    await app.ingest_batch([message(f"first{one.account_id}", "hello", author=one) for one in people])
    rows = await admin.execute("select id from participants where org_id = %s and id <> org_id", [app.org_id])
    ids = [key for (key,) in await rows.fetchall()]
    [(room,)] = await (await admin.execute("select id from rooms where org_id = %s", [app.org_id])).fetchall()
    params = {"org": app.org_id, "room": room, "people": ids, "many": PEOPLE, "messages": MESSAGES}
    await admin.execute(FILL, params)
    await admin.execute(WHISPER, params)
    await admin.execute(ANSWER, params)
    for table in ("messages", "replies", "participants", "message_audience"):
        await admin.execute(f"analyze {table}")
    return Viewer(org_id=app.org_id, participant_id=ids[0]), app.operator


async def scans(conn: Connection, name: str, params: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return which tables a question goes through from beginning to end, and by which indexes it looks things up."""
    explained = psycopg.sql.SQL("explain (format json) ") + QUERIES.by_name[name]
    [(plan,)] = await (await conn.execute(explained, params)).fetchall()
    found, indexes, waiting = (
        set[str](),
        set[str](),
        list(plan if isinstance(plan, list) else json.loads(plan)),
    )
    while waiting:
        step = waiting.pop()
        if step.get("Node Type") == "Seq Scan":
            found.add(step["Relation Name"])
        indexes.add(step.get("Index Name"))
        waiting += [step["Plan"]] if "Plan" in step else step.get("Plans", [])
    return found, indexes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["messages_by", "messages_among", "conversation_partners"])
async def test_no_question_about_somebody_goes_through_all_messages(app: App, admin, name: str):
    for viewer in await filled(app, admin):
        async with app.db.read_transaction(viewer, apply_restrictions=True) as conn:
            params = {
                "org_id": app.org_id,
                "participant_ids": [viewer.participant_id or uuid7()],
                "among": [uuid7()] if name == "messages_among" else None,
                "limit": 20,
            }
            through, indexes = await scans(conn, name, params)
            assert through & {"messages", "replies", "message_audience"} == set()
            assert indexes & {"messages_by_author", "messages_pkey"}
