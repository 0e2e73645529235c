"""What was said that fits a question, for a viewer: narrowed by what they name, and by what the question itself says.

What only an answer needs, or a copy, is imported for it: a search does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from msgspec import Meta

from roomlore.app.desk import Desk, Reading
from roomlore.app.embedding import Models
from roomlore.app.meaning import Meaning
from roomlore.app.operation import NO_NUL
from roomlore.app.posting import Place, bind
from roomlore.app.withholding import left_out, rests_on, said_in, told_to_operator
from roomlore.config import Settings
from roomlore.domain.errors import BadInput, RoomloreError
from roomlore.domain.ids import MemoryId, MessageId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.retrieval import meant
from roomlore.retrieval.asked import Asked, Filters, Read, asks, is_anybody, read
from roomlore.retrieval.records import Answer, Degradation, Found, Hit
from roomlore.retrieval.search import NEAR, Question, Searched, search
from roomlore.retrieval.when import Period
from roomlore.store import directory
from roomlore.store.db import verbatim
from roomlore.store.directory import ParticipantKey
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

if TYPE_CHECKING:
    from roomlore.app.graphasking import Proposed
    from roomlore.app.nearness import Acquaintance
    from roomlore.app.proposing import Servers
    from roomlore.retrieval import cascade

#: The shortest time between two messages.
MOMENT = timedelta(microseconds=1)
#: Among so many exchanges the questions are looked for.
LOOKED_THROUGH = 100
#: The most exchanges that one search finds: each is read whole.
MOST_FOUND = 1_000
#: In characters; what is longer is a document, and PostgreSQL refuses its words beyond a megabyte.
LONGEST_QUESTION = 10_000
SearchedText = Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """A question, before anything of it is looked up."""

    asked: Asked
    filters: Filters
    #: Each of its wordings, as retrieval takes it.
    worded: Mapping[str, Question]
    degraded: Sequence[Degradation]
    #: Made the vectors of the wordings; None: they have none.
    embedder: Embedder | None
    began: float
    #: What a copy of the graph proposes as near the viewer, where that is to count; None where it is not.
    near: Proposed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Who:
    """Whose words a question asks for."""

    accounts: Sequence[ParticipantKey] = ()
    kinds: Sequence[ParticipantKind] = ()
    #: Whom it names, where nobody is called so whom the viewer may know of.
    unknown: Sequence[str] = ()

    @property
    def is_known(self) -> bool:
        """Whether these are some whose words can be looked through."""
        return bool(self.accounts or self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is looked for, and where."""

    #: None is everything there.
    question: Question | None
    #: Bound to the room where it is asked, unless it is private.
    viewer: Viewer
    #: Whether only what asks something is wanted, where anything does.
    asks: bool
    scope: Scope
    read: Read | None
    #: Rooms, participants and conversations that whoever asked named.
    named: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Searching and asking, as far as viewers may read; `App` describes the calls."""

    desk: Desk
    models: Models
    now: Callable[[], datetime]
    #: Say what answers are told with, and where else they are looked for.
    settings: Settings
    #: Hold copies that are asked, too, where there are any.
    servers: Callable[[], Servers]

    async def search(
        self,
        viewer: Viewer,
        question: str,
        *,
        place: Place,
        filters: Filters,
        limit: int,
    ) -> Found:
        """Return up to `limit` exchanges the viewer may see, best first, or newest first where all are wanted."""
        _check_found(limit)
        asking = await self._asking(viewer, question, filters)
        asking = await self._proposed(viewer, asking, place, limit=limit)
        async with self._recalling(viewer, place.marked("search"), asking) as reading:
            wanted = await self._wanted(reading.conn, viewer, asking, place)
            reach = max(limit, LOOKED_THROUGH) if wanted.asks else limit
            found = await _searched(reading.conn, wanted, limit=reach)
            hits = ((wanted.asks and _questions(found.hits)) or found.hits)[:limit]
            reading.shows([*wanted.named, *said_in(hits)])

            async def look() -> list[MessageId]:
                return said_in((await _searched(reading.conn, wanted, limit=limit)).hits)

            hidden = await left_out(reading.conn, viewer, look, shown=said_in(hits))
        withheld = await told_to_operator(self.desk, viewer, hidden, place=wanted.viewer.place)
        return Found(
            hits=hits,
            certainty=found.certainty,
            degraded=asking.degraded,
            read=wanted.read,
            withheld=withheld,
            postable=place.postable,
        )

    async def ask(
        self,
        viewer: Viewer,
        question: str,
        *,
        place: Place,
        filters: Filters,
        quote: bool,
    ) -> Answer:
        """Return what the viewer's messages say about a question, or that they do not."""
        from roomlore.app.answering import Answering
        from roomlore.app.reciting import recited

        asking = await self._asking(viewer, question, filters)
        asking = await self._proposed(viewer, asking, place, limit=NEAR, beyond_room=True)
        answering = Answering(desk=self.desk, settings=self.settings, now=self.now)
        near = await answering.near(viewer, asking.worded.get(question), asking.embedder)
        async with self._recalling(viewer, place.marked("ask"), asking) as reading:
            conn = reading.conn
            wanted = await self._wanted(conn, viewer, asking, place)
            settled = await _settled(conn, wanted, near)
            answer = (
                settled.answer() if settled else await recited(conn, wanted.viewer, question, wanted.scope)
            )
            recalled = [one.memory.id for one in answer.memories]
            reading.shows([*wanted.named, *said_in(answer.hits), *recalled])

            async def look() -> list[MessageId]:
                again = await _settled(conn, wanted, near)
                found = (
                    again.answer() if again else await recited(conn, wanted.viewer, question, wanted.scope)
                )
                return rests_on(found)

            hidden = await left_out(conn, viewer, look, shown=rests_on(answer))
        if settled is not None:
            answer = await answering.finish(wanted.viewer, settled, scope=wanted.scope, quote=quote)
        answer = _remarked(answer, wanted.read)
        withheld = await told_to_operator(self.desk, viewer, hidden, place=wanted.viewer.place)
        return replace(
            answer,
            question=question,
            degraded=asking.degraded,
            read=wanted.read,
            postable=place.postable,
            withheld=withheld,
        )

    async def similar(self, viewer: Viewer, question: str, *, place: Place, limit: int) -> Found:
        """Return up to `limit` exchanges in which the viewer asked something like a question, most alike first."""
        _check_found(limit)
        asking = await self._asking(viewer, question, Filters(by=[meant.ME], literal=True))
        async with self._recalling(viewer, place.marked("search"), asking) as reading:
            wanted = await self._wanted(reading.conn, viewer, asking, place)
            found = await _searched(reading.conn, wanted, limit=max(limit, LOOKED_THROUGH))
            hits = _questions(found.hits)[:limit]
            reading.shows([*wanted.named, *said_in(hits)])
        return Found(hits=hits, degraded=asking.degraded, postable=place.postable)

    def _recalling(
        self, viewer: Viewer, action: str, asking: _Asking
    ) -> AbstractAsyncContextManager[Reading]:
        return self.desk.reading(viewer, action, keeps_plans=True, recalls=True, began=asking.began)

    # Before the database is asked: no connection is held while the embedding model works

    async def _asking(self, viewer: Viewer, text: str, filters: Filters) -> _Asking:
        check_question(text)
        filters.check()
        began = perf_counter()
        asked = Asked(text=text) if filters.literal else read(text)
        meaning = Meaning(desk=self.desk, models=self.models)
        worded = await meaning.worded(viewer, sorted(asked.wordings() - {""}))
        near = await self._acquaintance.proposed(viewer) if filters.near else None
        return _Asking(
            asked=asked,
            filters=filters,
            worded=worded.questions,
            degraded=(*worded.degraded, *(near.degraded if near else ())),
            near=near,
            embedder=worded.embedder,
            began=began,
        )

    async def _proposed(
        self, viewer: Viewer, asking: _Asking, place: Place, *, limit: int, beyond_room: bool = False
    ) -> _Asking:
        """Return a question with what a copy proposes for it, where one is read; no connection is held meanwhile."""
        if self.settings.qdrant is None:
            return asking
        from roomlore.app.proposing import Proposing

        proposing = Proposing(desk=self.desk, settings=self.settings, servers=self.servers())
        copied, degraded = await proposing.copy()
        if copied is None:
            return replace(asking, degraded=(*asking.degraded, *degraded))
        await self.desk.check_viewer(viewer, "ask" if beyond_room else "search")
        try:
            async with self.desk.db.reading(viewer, recalls=True) as conn:
                wanted = await self._wanted(conn, viewer, asking, place)
                if wanted.question is None:
                    return asking
                seen = await proposing.seen(conn, wanted.question, copied)
        except RoomloreError:
            # Whoever asks is told when the question is looked up, and the log has a line.
            return asking
        scopes = [wanted.scope]
        if beyond_room and wanted.scope.room_ids is not None:
            scopes.append(replace(wanted.scope, room_ids=None))
        reach = max(limit, LOOKED_THROUGH) if wanted.asks else limit
        question, degraded = await proposing.propose(
            wanted.question, copied, seen=seen, scopes=scopes, limit=reach
        )
        worded = {**asking.worded, question.text: question}
        return replace(asking, worded=worded, degraded=(*asking.degraded, *degraded))

    # Through the eyes of the viewer: what may not be seen is not there

    async def _wanted(self, conn: Connection, viewer: Viewer, asking: _Asking, place: Place) -> _Wanted:
        """Return what a question looks for, and where; bind the rest of the read to a room that is named."""
        asked, filters = asking.asked, asking.filters
        viewer, scope, now = await self._placed(conn, viewer, place)
        conversation_ids = (
            None
            if filters.conversation is None
            else [await meant.conversation(conn, self.desk.org_id, filters.conversation)]
        )
        # What somebody names goes before what the question says.
        read_who = _Who() if filters.by or filters.kinds else await self._who(conn, viewer, asked)
        who = read_who if read_who.is_known else await _named(conn, viewer, filters)
        told = None if filters.since or filters.until else asked.period(now)
        stretch = told or filters.period(now)
        ends = [end for end in (stretch.until, scope.until) if end is not None]
        narrowed = replace(
            scope,
            author_ids=[key.id for key in who.accounts] or None,
            author_kinds=who.kinds or None,
            conversation_ids=conversation_ids,
            answered=filters.answered,
            since=stretch.since,
            until=min(ends, default=None),
        )
        words = asked.words(author=read_who.is_known, time=told is not None)
        question = asking.worded.get(words)
        if question is not None and asking.near is not None:
            nearness = await self._acquaintance.nearness(conn, viewer, asking.near)
            question = replace(question, nearness=nearness)
        return _Wanted(
            question=question,
            viewer=viewer,
            asks=read_who.is_known and asked.questions,
            scope=narrowed,
            read=_read(read_who, told, words),
            named=[*(scope.room_ids or ()), *(narrowed.author_ids or ()), *(conversation_ids or ())],
        )

    @property
    def _acquaintance(self) -> Acquaintance:
        from roomlore.app.nearness import Acquaintance

        return Acquaintance(desk=self.desk, settings=self.settings, servers=self.servers())

    async def _placed(self, conn: Connection, viewer: Viewer, place: Place) -> tuple[Viewer, Scope, datetime]:
        """Return for whom it is asked, where, and when that is."""
        org_id = self.desk.org_id
        room_id = None if place.room is None else await meant.room(conn, org_id, place.room)
        scope, now = Scope(room_ids=None if room_id is None else [room_id]), self.now()
        if place.as_of is not None:
            async with verbatim(conn):
                last = await meant.message(conn, org_id, place.as_of, room_id=room_id)
            scope, now = replace(scope, until=last.sent_at + MOMENT, last=last.position), last.sent_at
        if place.room is not None and room_id is not None and not place.private:
            viewer = await bind(conn, viewer, room_id, word=place.room)
        return viewer, scope, now

    async def _who(self, conn: Connection, viewer: Viewer, asked: Asked) -> _Who:
        """Return whose words a question asks for; nobody's where one of them is nobody whom the viewer may know of."""
        if asked.mine and viewer.participant_id is None:
            return _Who()
        named = await meant.called(conn, self.desk.org_id, asked.names) if asked.names else []
        if asked.names and not named:
            return _Who(unknown=await _unknown(conn, viewer, asked.names))
        mine = await directory.accounts(conn, self.desk.org_id, viewer.participant_id) if asked.mine else []
        return _Who(accounts=[*mine, *named], kinds=asked.kinds)


def check_question(text: str) -> None:
    """Do nothing if a text may be asked or searched for.

    Raises:
        BadInput: it is empty, or longer than any question.
    """
    if not text.strip():
        raise BadInput("question", "must not be empty")
    if len(text) > LONGEST_QUESTION:
        raise BadInput("question", f"must have at most {LONGEST_QUESTION:,} characters; ask for less of it")


def _check_found(limit: int) -> None:
    if not 1 <= limit <= MOST_FOUND:
        raise BadInput("limit", f"must be at least 1 and at most {MOST_FOUND:,} exchanges")


async def _named(conn: Connection, viewer: Viewer, filters: Filters) -> _Who:
    """Return whose words somebody wants who names them."""
    accounts = [key for word in filters.by for key in await meant.person(conn, viewer, word)]
    return _Who(accounts=list(dict.fromkeys(accounts)), kinds=filters.kinds)


async def _unknown(conn: Connection, viewer: Viewer, names: Sequence[str]) -> list[str]:
    """Return the names that nobody has whom the viewer may know of."""
    named = [name for name in names if not is_anybody(name)]
    return [name for name in named if not await meant.called(conn, viewer.org_id, [name])]


def _remarked(answer: Answer, read: Read | None) -> Answer:
    """Return an answer that says so where the question names somebody unknown: these are others' words."""
    remark = read.remark() if read else ""
    if not remark:
        return answer
    parts = (remark, answer.text) if answer.is_known else (answer.text, remark)
    return replace(answer, text=("\n" if answer.is_known else " ").join(parts))


async def _settled(
    conn: Connection, wanted: _Wanted, near: Mapping[MemoryId, float]
) -> cascade.Settled | None:
    """Return what answers; None where everything is wanted, which is recited."""
    if wanted.question is None:
        return None
    from roomlore.retrieval import cascade

    return await cascade.settle(conn, wanted.viewer, wanted.question, scope=wanted.scope, near=near)


async def _searched(conn: Connection, wanted: _Wanted, *, limit: int) -> Searched:
    viewer = wanted.viewer
    if wanted.question is None:
        from roomlore.retrieval.listed import listed

        hits = await listed(conn, viewer, scope=wanted.scope, limit=limit)
        return Searched(hits=hits, certainty=None, bar=0.0)
    return await search(conn, viewer, wanted.question, scope=wanted.scope, limit=limit)


def _read(who: _Who, told: Period | None, words: str) -> Read | None:
    if not (who.is_known or who.unknown or told):
        return None
    return Read(
        by=list(dict.fromkeys(key.name for key in who.accounts)),
        kinds=who.kinds,
        since=told.since if told else None,
        until=told.until if told else None,
        words=words,
        unknown=who.unknown,
    )


def _questions(hits: Iterable[Hit]) -> list[Hit]:
    """Return the finds that ask something, each with those of its messages alone as reasons that do."""
    found: list[Hit] = []
    for hit in hits:
        asking = {message.id for message in hit.messages if asks(message.body)}
        why = {key: hit.why[key] for key in hit.why if key in asking}
        found += [replace(hit, why=why)] if why else []
    return found
