"""Whatever is worked through again, from the start and by every worker, changes nothing."""

import asyncio
import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crash.whole import TABLES
from ingest.stories import author, message, room
from models.chatserver import chat_server, completion, titled
from roomlore.agents.injection import COOLDOWN, InjectionWorker
from roomlore.agents.interactions import InteractionWorker
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.jobs import expiry, runner
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.jobs.llm_extraction import LanguageModelExtractionWorker
from roomlore.jobs.message_reading import MessageReader
from roomlore.jobs.titles import TitleWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.models.http_models import open_language_model
from roomlore.operations import App
from roomlore.operations.jobs import extraction_worker
from roomlore.settings import Settings

START = datetime(2025, 3, 3, 9, tzinfo=UTC)
#: Long after all that is said.
LATER = START + timedelta(days=40)
PEOPLE = [author("ana"), author("bo"), author("cy"), author("pip", kind="agent"), author("pop", kind="agent")]
AGENTS = [who for who in PEOPLE if who.kind == "agent"]
MEMBERS = tuple(IncomingMembership(author=who) for who in PEOPLE)
ROOMS = {
    "yard": room("yard", members=MEMBERS),
    "shed": room("shed", visibility="members", members=MEMBERS[:2] + MEMBERS[3:4]),
}
BODIES = [
    "I live in Porto, above the bakery.",
    "I moved to Braga, I don't live in Porto any more.",
    "Correction: I live in Braga.",
    "I prefer tea over coffee.",
    "let's go with the red kiln for the bowls",
    "sounds good, agreed",
    "thanks, that works",
    "no, that's wrong: it was the blue kiln",
    "Lesson learned: never open the red kiln above 200 degrees.",
    "I'll order the cobalt for the red kiln by Friday.",
    "does the red kiln open above 200 degrees?",
    "Pip, which cone does the red kiln need for the bowls?",
    "It needs cone six, and the bowls want a slow ramp overnight.",
    "Bowls beat plates, every day of the year.",
    "hi pip",
    "please forget what I said about tea",
    "just between us: the key of the shed is under the mat",
    "> I live in Rome.",
    "",
]
#: What a language model is to find, wherever it is shown it.
BEATS = re.compile(r"^(m\d+) \[(p\d+) ([^\]]+)\]: (.*beat.*)$", re.MULTILINE)
NOT_COMPARED = {
    # who read what, and when
    "audit_log",
    # A title that is asked for anew is taken away and given again, and both are told.
    "outbox",
    # how often a language model was asked, and since when it rests
    "llm_quota",
    "llm_room_quota",
    "migrations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something said in a made-up room."""

    who: int
    body: str
    where: str
    minutes: float
    answers: int | None
    kind: str


LINES = st.builds(
    Line,
    who=st.integers(0, len(PEOPLE) - 1),
    body=st.sampled_from(BODIES),
    where=st.sampled_from(["yard", "yard", "yard", "shed"]),
    minutes=st.sampled_from([0.2, 0.5, 2, 60 * 5]),
    answers=st.none() | st.integers(1, 4),
    kind=st.sampled_from(["message"] * 5 + ["whisper", "edited", "redacted"]),
)
#: In which everything happens at least once.
EVENTFUL = [
    Line(who=who, body=BODIES[number], where="yard", minutes=minutes, answers=answers, kind="message")
    for who, number, answers, minutes in (
        (0, 0, None, 1),
        (1, 6, 1, 1),
        (0, 1, None, 1),
        (2, 4, None, 1),
        (1, 5, 1, 1),
        (2, 8, None, 1),
        (1, 10, 1, 1),
        (0, 11, None, 1),
        (3, 12, 1, 1),
        (2, 13, None, 1),
        (1, 7, 2, 1),
        (0, 15, None, 1),
        # Hours later, when what was said in the morning is worth being told again.
        (1, 10, None, 300),
        (0, 11, None, 2),
    )
]


def told(lines: list[Line]) -> list[list[IncomingMessage]]:
    """Return what was said, and what became of it afterwards, in two batches."""
    said: list[IncomingMessage] = []
    changed: list[IncomingMessage] = []
    at = START
    for number, line in enumerate(lines):
        at += timedelta(minutes=line.minutes)
        one = message(
            f"m{number}", line.body, author=PEOPLE[line.who], room=ROOMS[line.where], sent_at=at, order=number
        )
        if line.answers is not None and line.answers <= number:
            one = replace(one, reply_to=f"m{number - line.answers}")
        if line.kind == "whisper":
            one = replace(one, kind="whisper", audience=(PEOPLE[(line.who + 1) % 2], PEOPLE[3]))
        said.append(one)
        if line.kind == "edited":
            changed.append(replace(one, body="I live in Faro.", edited_at=at + timedelta(minutes=3)))
        if line.kind == "redacted":
            changed.append(replace(one, deleted=True))
    return [said, changed]


class Workshop:
    """Every worker there is, on a server and in a loop that outlive single examples."""

    def __init__(self, cluster: Cluster) -> None:
        self.loop = asyncio.new_event_loop()
        self.db = self.run(Database.connect(cluster.app_dsn, size=6))
        self.admin: psycopg.AsyncConnection = self.run(
            psycopg.AsyncConnection.connect(
                cluster.admin_dsn, autocommit=True, options="-c search_path=roomlore,public -c timezone=UTC"
            )
        )
        self._serving = chat_server()
        self.server = self.run(self._serving.__aenter__())
        self.server.says = says
        self.clock = LATER

    def run(self, doing: Any) -> Any:
        return self.loop.run_until_complete(doing)

    def close(self) -> None:
        self.run(self._serving.__aexit__(None, None, None))
        self.run(self.admin.execute("delete from roomlore.work_queue"))
        self.run(self.admin.close())
        self.run(self.db.close())
        self.loop.close()

    async def app(self) -> App:
        org = str(uuid4())
        return App(
            db=self.db,
            org_id=await self.db.ensure_org(org),
            settings=Settings(org=org),
            _embedder=FakeEmbedder(),
        )

    async def work(self, app: App) -> None:
        """Let every worker do all it finds to do."""
        db, org_id = self.db, app.org_id
        small = open_language_model(self.server.url, "small", seconds=120.0, tokens=500)
        await expiry.expire_everywhere(db, now=self.clock, only_org=org_id)
        await runner.drain(MessageReader(db=db), only_org=org_id)
        await runner.drain(DisentanglementWorker(db=db), only_org=org_id)
        rules = extraction_worker(db)
        while await rules.next(org_id, now=self.clock) is not None:
            continue
        reader = LanguageModelExtractionWorker(db=db, language_model=small, calls=999, calls_of_room=999)
        namer = TitleWorker(db=db, language_model=small, calls=999)
        for asker in (reader, namer):
            while await asker.next(org_id, now=self.clock) not in {"nothing", "failed"}:
                continue
        clock = self.now
        await runner.drain(InteractionWorker(db=db, now=clock), only_org=org_id)
        await runner.drain(InjectionWorker(db=db, now=clock), only_org=org_id)
        await runner.drain(EmbeddingWorker(db=db, embedder=FakeEmbedder()), only_org=org_id)

    def now(self) -> datetime:
        return self.clock

    async def ask_for_everything(self, app: App, *, titles: bool = True) -> None:
        """Ask for all work again, as if none of it had ever been done; for titles only where that is said."""
        params = {"org": app.org_id, "since": START - timedelta(days=1), "until": LATER}
        for query in [*AGAIN, *([TITLES_AGAIN] if titles else [])]:
            await self.admin.execute(query.encode(), params)

    async def told(self, app: App) -> list[str]:
        """Return the events of the org."""
        rows = await self.admin.execute("select id::text from outbox where org_id = %s", [app.org_id])
        return sorted(key for (key,) in await rows.fetchall())

    async def snapshot(self, app: App) -> dict[str, list[str]]:
        """Return every row of the org, table by table."""
        found = {}
        for (table,) in await (await self.admin.execute(TABLES)).fetchall():
            if table not in NOT_COMPARED:
                query = f"select to_jsonb(t) from {table} as t where org_id = %s"
                rows = await (await self.admin.execute(query.encode(), [app.org_id])).fetchall()
                found[table] = sorted(json.dumps(row, sort_keys=True) for (row,) in rows)
        return found


AGAIN = [
    """
    insert into work_queue (org_id, queue, subject_id)
    select org_id, 'embed', id from embeddable_messages where org_id = %(org)s
    on conflict do nothing""",
    """
    insert into work_queue (org_id, queue, subject_id, since, until)
    select org_id, 'disentangle', id, %(since)s, %(until)s from rooms where org_id = %(org)s
    on conflict do nothing""",
    """
    insert into work_queue (org_id, queue, subject_id)
    select org_id, 'inject', id from messages
    where org_id = %(org)s and kind in ('message', 'whisper') and redacted_at is null""",
    # What every agent said in answer to somebody.
    """
    insert into work_queue (org_id, queue, subject_id, trigger_id)
    select distinct on (said.id) said.org_id, 'interactions', said.id, replies.parent_id
    from messages as said
    join replies on replies.org_id = said.org_id and replies.child_id = said.id and replies.method = 'explicit'
    join messages as asked on asked.org_id = said.org_id and asked.id = replies.parent_id
    where said.org_id = %(org)s and said.author_kind = 'agent' and said.author_id <> asked.author_id
      and said.kind in ('message', 'whisper') and asked.kind in ('message', 'whisper')""",
    """
    update conversations set extraction_state = null, llm_extraction_state = null where org_id = %(org)s""",
    """
    insert into work_queue (org_id, queue, subject_id)
    select org_id, 'read', id from messages
    where org_id = %(org)s and kind in ('message', 'whisper') and redacted_at is null
    on conflict do nothing""",
]
TITLES_AGAIN = """
    update conversations set title_state = null where org_id = %(org)s"""


def says(asked: dict[str, Any]) -> bytes:
    """Answer as a language model that finds whatever beats something, and has a title for everything."""
    prompt = json.dumps(asked)
    if "statements" not in prompt:
        return titled("Kilns and bowls")
    shown = asked["messages"][-1]["content"]
    stated = [
        {
            "kind": "preference",
            "content": f"{who}: {body[0].lower()}{body[1:]}",
            "author": label,
            "subjects": [label],
            "quotes": [{"message": number, "text": body}],
        }
        for number, label, who, body in BEATS.findall(shown)
    ]
    return completion(json.dumps({"statements": stated}))


@pytest.fixture(scope="module")
def workshop(cluster: Cluster):
    workshop = Workshop(cluster)
    yield workshop
    workshop.close()


async def twice(workshop: Workshop, lines: list[Line]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return what there is after everything was worked through, and after it was once more."""
    app = await workshop.app()
    for batch in told(lines):
        if batch:
            assert (await app.ingest_batch(batch)).skipped == []
    await workshop.ask_for_everything(app)
    await workshop.work(app)
    first = await workshop.snapshot(app)
    await workshop.ask_for_everything(app)
    await workshop.work(app)
    return first, await workshop.snapshot(app)


ROOMS_OF_LINES = st.lists(LINES, min_size=1, max_size=14)
QUIETLY = {"deadline": None, "report_multiple_bugs": False, "suppress_health_check": [HealthCheck.too_slow]}


@pytest.mark.slow
@settings(max_examples=6, **QUIETLY)
@example(lines=EVENTFUL)
@given(lines=ROOMS_OF_LINES)
def test_working_through_everything_again_changes_nothing(lines: list[Line], workshop: Workshop):
    first, second = workshop.run(twice(workshop, lines))
    assert unlike(first, second) == {}
    assert second["work_queue"] == []
    assert circles(second["memories"]) == []


@pytest.mark.slow
def test_working_through_everything_again_tells_nobody_of_a_change(workshop: Workshop):
    async def again() -> tuple[list[str], list[str]]:
        app = await workshop.app()
        for batch in filter(None, told(EVENTFUL)):
            await app.ingest_batch(batch)
        await workshop.ask_for_everything(app)
        await workshop.work(app)
        first = await workshop.told(app)
        await workshop.ask_for_everything(app, titles=False)
        await workshop.work(app)
        return first, await workshop.told(app)

    first, second = workshop.run(again())
    assert first
    assert second == first


@pytest.mark.slow
@settings(max_examples=12, **QUIETLY)
@given(lines=ROOMS_OF_LINES)
def test_working_through_everything_again_changes_nothing_in_many_rooms(
    lines: list[Line], workshop: Workshop
):
    first, second = workshop.run(twice(workshop, lines))
    assert unlike(first, second) == {}


#: What is derived, each by another worker or another step of one.
DERIVED = (
    *(
        "conversation_messages",
        "conversations",
        "replies",
        "interactions",
        "message_embeddings",
        "memories",
        "memory_sources",
    ),
    *("memory_participants", "llm_calls", "injections"),
)


@pytest.mark.slow
def test_in_an_eventful_room_every_worker_leaves_something(workshop: Workshop):
    _, second = workshop.run(twice(workshop, EVENTFUL))
    assert {table for table in DERIVED if not second[table]} == set()
    remembered = "".join(second["memories"])
    for what in ('"kind": "interaction"', "Bowls beat plates", '"status": "deprecated"'):
        assert what in remembered
    assert "Kilns and bowls" in "".join(second["conversations"])


@pytest.mark.slow
def test_however_often_agents_have_rested_they_are_given_each_memory_once(workshop: Workshop):
    async def again_and_again() -> list[tuple[UUID, UUID]]:
        app = await workshop.app()
        for batch in filter(None, told(EVENTFUL)):
            await app.ingest_batch(batch)
        for _ in range(4):
            await workshop.ask_for_everything(app)
            await workshop.work(app)
            workshop.clock += 2 * COOLDOWN
        query = "select agent_id, memory_id from injections where org_id = %s"
        return await (await workshop.admin.execute(query, [app.org_id])).fetchall()

    given = workshop.run(again_and_again())
    assert len(given) == len(set(given)) > 1


def circles(memories: list[str]) -> list[str]:
    """Return the memories from which a chain of successors comes back to itself, or ends in nothing."""
    after = {row["id"]: row["superseded_by"] for row in map(json.loads, memories)}
    found = []
    for start in after:
        at, steps = start, 0
        while at is not None and steps <= len(after):
            at, steps = after.get(at, start), steps + 1
        found += [start] if at is not None else []
    return found


def test_a_circle_would_be_seen():
    rows = [{"id": one, "superseded_by": other} for one, other in (("a", "b"), ("b", "a"), ("c", None))]
    assert circles([json.dumps(row) for row in rows]) == ["a", "b"]


def unlike(first, second):
    """Return which rows went and which came, table by table."""
    return {
        table: {"gone": sorted(set(rows) - set(second[table])), "new": sorted(set(second[table]) - set(rows))}
        for table, rows in first.items()
        if rows != second[table]
    }
