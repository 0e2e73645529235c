"""Two databases that are told the same, but for what is hidden: with the same ids, keys and clock.

What is random or of the moment is drawn from what is told or asked just now, never from how much came before. So whatever
still differs between the two is there because of what is hidden.
"""

import asyncio
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import shake_256
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import roomlore
from ingest.stories import APART, at
from roomlore.cli import main
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.domain import ids
from roomlore.domain.incoming import IncomingMessage
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

ORG = "twins"
#: Work is done after so many lines, whether or not they were heard.
OFTEN = 8
#: When the first line comes in, after all that is told was said, and when what is stored is asked for.
TOLD_AT, ASKED_AT = at(2 * APART), at(100_000)
#: The clock and the chance of the server, for what it makes ids and times of itself.
SERVER = """
create table public.world (now timestamptz not null);
insert into public.world values ('2024-01-01T00:00:00Z');

create function public.note_change() returns trigger
  language plpgsql security definer set search_path = roomlore, pg_temp
as $$
declare
  moment constant timestamptz := (select now from public.world);
  digest constant text := md5(concat_ws(' ', new.kind, new.room_id, (
    select count(*)
    from outbox
    where kind = new.kind and room_id is not distinct from new.room_id and noted_at = moment
  )));
begin
  new.noted_at := moment;
  new.id := lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0')
    || '7' || substr(digest, 1, 3) || '8' || substr(digest, 4, 15);
  return new;
end $$;
create function public.note_line() returns trigger
  language plpgsql security definer set search_path = roomlore, pg_temp
as $$
begin
  new.at := (select now from public.world);
  return new;
end $$;

create trigger world before insert on roomlore.audit_log for each row execute function public.note_line();
create trigger world before insert on roomlore.outbox for each row execute function public.note_change();
"""


class Fate:
    """What ids, keys and times are drawn from."""

    def __init__(self) -> None:
        self.now = TOLD_AT
        self._of, self._drawn = "", 0

    def of(self, what: str) -> None:
        """Draw from what is told or asked from now on."""
        self._of, self._drawn = what, 0

    def bytes(self, size: int) -> bytes:
        self._drawn += 1
        return shake_256(f"{self._of} {self._drawn}".encode()).digest(size)

    def moment(self, what: str) -> UUID:
        """Return the id of a moment that something gets whatever was drawn before."""
        kept = self._of, self._drawn
        self.of(what)
        made = ids.uuid7()
        self._of, self._drawn = kept
        return made


def timeless(what: str) -> UUID:
    """Return the id without a time that something gets."""
    return UUID(bytes=shake_256(what.encode()).digest(16), version=4)


class _Clock(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


def _stopped(fate: Fate) -> type:
    class Stopped(datetime, metaclass=_Clock):
        def __new__(cls, *values: Any, **rest: Any) -> Any:
            return datetime(*values, **rest)  # noqa: DTZ001  as it was asked for

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return fate.now.astimezone(tz)

    return Stopped


@contextmanager
def fated() -> Generator[Fate]:
    """Give what everything random and of the moment in Roomlore is drawn from, until the block ends."""
    fate = Fate()
    _load_all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "os", SimpleNamespace(urandom=fate.bytes))
        patch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: int(fate.now.timestamp()) * 10**9))
        patch.setattr("roomlore.operations.keys.secrets", SimpleNamespace(token_bytes=fate.bytes))
        # Of two rooms that are gone through side by side, either may be done first.
        patch.setattr("roomlore.jobs.runner.CONCURRENCY", 1)
        stopped = _stopped(fate)
        for module in [one for name, one in sys.modules.items() if name.startswith("roomlore.")]:
            if getattr(module, "datetime", None) is datetime:
                patch.setattr(module, "datetime", stopped)
        for place, of in _named(fate).items():
            _name(patch, place, of)
        yield fate


def _load_all() -> None:
    """Import every module of Roomlore.

    A module that is imported later has the real clock. By that clock, a drain drops all changes because they are old, and
    who waits for one in the stream of events waits forever.
    """
    for module in pkgutil.walk_packages(roomlore.__path__, "roomlore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _named(fate: Fate) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Return which id each record gets where it is made."""

    def draft(one: Any) -> dict[str, Any]:
        return {"id": fate.moment(f"memory {one.content} {[source.message_id for source in one.sources]}")}

    def who(one: Any) -> dict[str, Any]:
        return {"participant_id": timeless(f"participant {one.platform} {one.account_id} {one.persona}")}

    return {
        "roomlore.ingest.resolve.NewRoom": lambda one: {"id": timeless(f"room {one.external_id}")},
        "roomlore.ingest.resolve.NewAccount": who,
        "roomlore.operations.people.NewAccount": who,
        "roomlore.ingest.accept.NewMessage": lambda one: {
            "id": fate.moment(f"message {one.room_id} {one.external_id}")
        },
        "roomlore.jobs.extraction.MemoryDraft": draft,
        "roomlore.operations.explicit_memories.MemoryDraft": draft,
    }


def _name(patch: pytest.MonkeyPatch, place: str, of: Callable[[Any], dict[str, Any]]) -> None:
    module, _, name = place.rpartition(".")
    record = getattr(sys.modules[module], name)

    def made(**fields: Any) -> Any:
        return record(**fields | of(SimpleNamespace(**fields)))

    patch.setattr(sys.modules[module], name, made)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A database of its own."""

    fate: Fate
    admin_dsn: str
    app_dsn: str
    shown: dict[str, Any] = field(default_factory=dict[str, Any])

    def turn(self, what: str, now: datetime) -> None:
        """Let something happen at a time, and all that is random hang on it alone."""
        self.fate.of(what)
        self.fate.now = now
        with psycopg.connect(self.admin_dsn, autocommit=True) as conn:
            conn.execute("update public.world set now = %s", [now])

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[App]:
        """Give the App of the one org."""
        db = await Database.connect(self.app_dsn, size=6)
        try:
            self.turn("org", TOLD_AT)
            org_id = await db.ensure_org(ORG)
            yield App(db=db, org_id=org_id, settings=Settings(org=ORG), _embedder=FakeEmbedder())
        finally:
            await db.close()

    def run(self, *words: str) -> tuple[object, str, str]:
        """Return how a command ends, and what it prints."""
        url = f"postgresql:///?{urlencode(conninfo_to_dict(self.app_dsn))}"
        out, err = io.StringIO(), io.StringIO()
        self.fate.of(f"run {words}")
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", ["roomlore", "--database", url, "--org", ORG, *words])
            with pytest.raises(SystemExit) as end:
                main.run()
        return end.value.code, out.getvalue(), err.getvalue()


@contextmanager
def worlds(cluster: Cluster, fate: Fate, count: int = 2) -> Generator[list[World]]:
    """Give some databases of one server, each empty, until the block ends."""
    names = [f"world_{uuid4().hex}" for _ in range(count)]
    with psycopg.connect(make_conninfo(cluster.admin_dsn, dbname="postgres"), autocommit=True) as admin:
        try:
            made: list[World] = []
            for name in names:
                admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
                admin_dsn = make_conninfo(cluster.admin_dsn, dbname=name)
                asyncio.run(migrate(admin_dsn))
                with psycopg.connect(admin_dsn, autocommit=True) as conn:
                    conn.execute(SERVER)
                app_dsn = make_conninfo(cluster.app_dsn, dbname=name)
                made.append(World(fate=fate, admin_dsn=admin_dsn, app_dsn=app_dsn))
            yield made
        finally:
            for name in names:
                admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


async def tell(
    world: World, app: App, lines: Sequence[IncomingMessage], hears: Callable[[IncomingMessage], bool]
) -> None:
    """Tell what is heard of some lines, numbered as in a file, and remember each; each at its own time."""
    told = 0
    for place, one in enumerate(lines):
        world.turn(f"line {place}", TOLD_AT + timedelta(minutes=place))
        if hears(one):
            accepted = await app.ingest_batch([replace(one, order=told)])
            assert accepted.skipped == []
            told += 1
        if place % OFTEN == 0:
            await app.drain()
    await app.drain()
    for place, one in enumerate({one.external_id: one for one in lines}.values()):
        world.turn(f"memory {place}", TOLD_AT + timedelta(hours=2, minutes=place))
        if hears(one) and not one.deleted:
            await app.memories.remember(f"known of {one.external_id}", sources=[one.external_id])
    await app.drain()
