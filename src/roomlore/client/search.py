"""What a server finds and answers, as the records that an App returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from roomlore.client.codec import convert, format_time
from roomlore.domain.records import Message, Postable, Reply
from roomlore.search.query_parser import AppliedFilters, Filters, TimeLike
from roomlore.search.records import (
    Answer,
    Hit,
    LogMatch,
    MatchedMemory,
    MatchReason,
    RestrictedResult,
    SearchDegradation,
    SearchResult,
    StageName,
    StageTrace,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundMessage(Message):
    """A message of an exchange that was found, and why."""

    why: MatchReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundThread:
    """An exchange that was found."""

    room: str
    platform: str
    omitted: int
    messages: list[_FoundMessage]
    replies: list[Reply]

    def hit(self) -> Hit:
        """Return it as a search returns it."""
        return Hit(
            messages=[convert(Message, one) for one in self.messages],
            replies=self.replies,
            omitted=self.omitted,
            why={one.id: one.why for one in self.messages if one.why is not None},
            room_name=self.room,
            platform=self.platform,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse:
    """What a search found, as a server tells it."""

    hits: list[_FoundThread]
    certainty: float | None
    degraded: list[SearchDegradation]
    read: AppliedFilters | None
    withheld: list[RestrictedResult]
    postable: Postable

    def found(self) -> SearchResult:
        """Return it as a search returns it."""
        hits = [one.hit() for one in self.hits]
        return SearchResult(
            hits=hits,
            certainty=self.certainty,
            degraded=self.degraded,
            read=self.read,
            withheld=self.withheld,
            postable=self.postable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResponse:
    """An answer, as a server tells it."""

    question: str
    tier: StageName
    answer: str
    written_by: str
    note: str
    citations: Mapping[str, str]
    sources: list[_FoundThread]
    memories: list[MatchedMemory]
    lines: list[LogMatch]
    trace: list[StageTrace]
    degraded: list[SearchDegradation]
    read: AppliedFilters | None
    withheld: list[RestrictedResult]
    postable: Postable

    def to_answer(self) -> Answer:
        """Return it as `ask` returns it."""
        return Answer(
            question=self.question,
            tier=self.tier,
            text=self.answer,
            hits=[one.hit() for one in self.sources],
            memories=self.memories,
            lines=self.lines,
            trace=self.trace,
            written_by=self.written_by,
            citations={label: _citation_of(place) for label, place in self.citations.items()},
            note=self.note,
            degraded=self.degraded,
            read=self.read,
            withheld=self.withheld,
            postable=self.postable,
        )


def search_body(
    question: str, *, room: str | None, as_of: str | None, filters: Filters, private: bool
) -> dict[str, Any]:
    """Return a question, and what narrows it, as a server is asked."""
    return {
        "question": question,
        "room": room,
        "as_of": as_of,
        "private": private,
        "by": list(filters.by),
        "kinds": list(filters.kinds),
        "since": _time("since", filters.since),
        "until": _time("until", filters.until),
        "conversation": filters.conversation,
        "answered": filters.answered,
        "literal": filters.literal,
        "near": filters.near,
    }


def _citation_of(place: str) -> UUID | str:
    """Return what a mark stands for: the id of a message or a memory, or the place of a line."""
    try:
        return UUID(place)
    except ValueError:
        return place


def _time(name: str, time: TimeLike | None) -> str | None:
    return format_time(name, time, otherwise="must say its time zone") if isinstance(time, datetime) else time
