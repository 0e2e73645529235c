"""Helpers: tell an App about rooms, and read results by the platform's ids."""

import re
from collections.abc import Sequence
from pathlib import Path

import psycopg

from ingest.stories import at, author, message, room
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.operations import App
from roomlore.search.records import Answer, Hit, Thread
from roomlore.settings import Settings

_QUOTED_FROM = re.compile(r"[^\[\]]+?, \d{4}-\d\d-\d\d \d\d:\d\d ")
HOOK = author("hook", kind="system", name="notice")
PIP = author("pip", kind="agent")
ANA, BO, CY = author("ana"), author("bo"), author("cy")


def closed(external_id: str, *members, since: float = 0):
    """A closed room with these members, from a minute on."""
    present = tuple(IncomingMembership(author=member, joined_at=at(since)) for member in members)
    return room(external_id, visibility="members", members=present)


async def tell(app: App, *told: IncomingMessage) -> App:
    accepted = await app.ingest_batch(told)
    assert accepted.skipped == []
    await app.drain()
    return app


async def without_model(app: App, folder: Path) -> App:
    """The same org without an embedding model."""
    settings = Settings(org=app.settings.org, model=folder)
    return App(db=app.db, org_id=app.org_id, settings=settings)


async def find(
    admin: psycopg.AsyncConnection,
    app: App,
    child: str,
    parent: str,
    *,
    method="mention",
    confidence=0.9,
    answers: float | None = 0.9,
) -> None:
    """Store an inferred reply, as the worker does; `answers` is the probability that the child answers the parent."""
    await admin.execute(
        """insert into replies (org_id, room_id, child_id, parent_id, method, confidence, answer_probability)
           select child.org_id, child.room_id, child.id, parent.id, %(method)s, %(confidence)s, %(answers)s
           from messages as child join messages as parent using (org_id, room_id)
           where org_id = %(org)s and child.external_id = %(child)s and parent.external_id = %(parent)s
           on conflict (org_id, child_id) where method in ('mention', 'inferred') do update
           set parent_id = excluded.parent_id, method = excluded.method, confidence = excluded.confidence,
             answer_probability = excluded.answer_probability""",
        {
            "org": app.org_id,
            "child": child,
            "parent": parent,
            "method": method,
            "confidence": confidence,
            "answers": answers,
        },
    )


def words(answer: Answer) -> list[str]:
    """Return the lines of an answer without their room and time, which must be there."""
    lines = [line for line in answer.text.splitlines() if not line.startswith("  | ")]
    assert all(_QUOTED_FROM.match(line) for line in lines)
    return [_QUOTED_FROM.sub("", line, count=1) for line in answer.text.splitlines()]


def ids(hit: Thread) -> list[str]:
    return [said.external_id for said in hit.messages]


def all_ids(hits: Sequence[Thread]) -> list[list[str]]:
    return [ids(hit) for hit in hits]


def found_ids(hit: Hit) -> list[str]:
    return [said.external_id for said in hit.messages if said.id in hit.why]


__all__ = [
    "ANA",
    "BO",
    "CY",
    "HOOK",
    "PIP",
    "all_ids",
    "at",
    "author",
    "closed",
    "find",
    "found_ids",
    "ids",
    "message",
    "room",
]
