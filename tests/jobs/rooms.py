"""Busy rooms made up by chance, and what disentanglement left of them, free of ids."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ingest.stories import START, author, message
from roomlore.domain.incoming import IncomingMessage
from roomlore.operations import App

PEOPLE = ("ana", "bo", "cy", "dee", "eli")
TOPICS = (
    ("printer", "toner", "paper", "driver"),
    ("kernel", "module", "reboot", "panic"),
    ("invoice", "customer", "tax", "ledger"),
)
OPENINGS = ("does anybody know why the {} fails?", "how do I install the {}?", "the {} is broken again")
ANSWERS = (
    "{}: try another {}",
    "yes {}, the {} needs that",
    "{}, which {} do you have?",
    "thanks {}, the {} works",
)


def busy_room(seed: int, count: int, *, people: int = 5, whispers: bool = True) -> list[IncomingMessage]:
    """Return messages of one room in order: topics interleave, people are called by name, some reply or whisper."""
    chance = random.Random(seed)
    said: list[IncomingMessage] = []
    sent_at = START
    for number in range(count):
        sent_at += timedelta(
            seconds=chance.choice([0, 1, 5, 20, 60, 300, *([7_200] if number % 17 == 0 else [])])
        )
        who = chance.choice(PEOPLE[:people])
        one = message(
            f"m{number}", _words(chance, PEOPLE[:people]), author=author(who), sent_at=sent_at, order=number
        )
        if chance.random() < 0.1:
            one = replace(one, reply_to=f"m{chance.randrange(count)}")
        elif chance.random() < 0.05:
            one = replace(one, thread_root=f"m{chance.randrange(number + 1)}")
        if whispers and chance.random() < 0.15:
            audience = tuple(author(name) for name in chance.sample(PEOPLE[:people], 1 + (number % 2)))
            one = replace(one, kind="whisper", audience=audience)
        said.append(one)
    return said


def _words(chance: random.Random, people: Sequence[str]) -> str:
    thing = chance.choice(chance.choice(TOPICS))
    if chance.random() < 0.4:
        return chance.choice(OPENINGS).format(thing)
    return chance.choice(ANSWERS).format(chance.choice(people).title(), thing)


async def disentangled(admin: Any, app: App) -> dict[str, Any]:
    """Return what disentanglement left: edges, and conversations as sets of external ids with all that is said of them."""
    edges = await admin.execute(
        "select child.external_id, parent.external_id, method, confidence from replies"
        " join messages child on child.id = child_id left join messages parent on parent.id = parent_id"
        " where replies.org_id = %s",
        [app.org_id],
    )
    talks = await admin.execute(
        "select array_agg(messages.external_id order by messages.external_id), label, sensitivity, split_reason,"
        " conversations.opened_at, last_at, conversations.idle_timeout"
        " from conversations left join conversation_messages on conversation_id = conversations.id"
        " left join messages on messages.id = message_id"
        " where conversations.org_id = %s group by conversations.id, label, sensitivity, split_reason,"
        " conversations.opened_at, last_at, conversations.idle_timeout",
        [app.org_id],
    )
    return {
        "edges": sorted(map(str, await edges.fetchall())),
        "conversations": sorted(map(str, await talks.fetchall())),
    }
