"""Memories: a list with filters, and one memory with its sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args

from roomlore.domain.errors import BadInput
from roomlore.domain.records import RIGHTS, Memory, MemoryKind, Message, Provenance, SourceMessage
from roomlore.operations.digest import Digest
from roomlore.operations.explicit_memories import LONGEST_CONTENT, involved_participants
from roomlore.operations.memories import (
    STATUSES,
    FacetCount,
    MemoryAudience,
    MemoryBrowser,
    MemoryListPage,
    MemoryOptions,
)
from roomlore.operations.privacy import PrivacyRequestView
from roomlore.search.query_parser import Filters
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
#: Memories on a page.
SHOWN = 40
#: Memories in a digest.
MOST_IN_DIGEST = 100
#: The maximum number of values that are shown of a facet. These are the most frequent values.
MOST_VALUES = 10
#: The maximum number of values of a facet that may be chosen together.
MOST_CHOSEN = 20
#: The maximum number of characters before and after a quote, and of a message without a quote.
QUOTE_CONTEXT, MAX_LENGTH = 300, 1_200
#: The maximum number of sources on a page.
MOST_SOURCES = 100
#: The number of newest privacy requests that are checked.
MOST_WISHES = 200
KINDS = get_args(MemoryKind)
#: Stands for any status.
ANY = "any"
NOTICES: Mapping[str, str] = {
    "corrected": "Corrected. The old memory is in the history.",
    "forgotten": "Archived: it is not recalled any more. Its messages stay.",
    "restored": "The memory is active again.",
}
#: The filters in the address of the page, each with its name on the page.
FILTER_NAMES = {
    "room": "room",
    "about": "about",
    "by": "stated by",
    "seen_by": "seen by",
    "kind": "kind",
    "status": "status",
    "tag": "tag",
    "task": "task",
    "since": "since",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveFilter:
    """A filter in the address of the page."""

    name: str
    means: str
    value: str
    #: The name under which the page shows the value.
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesPage:
    """A page of memories, and the filters for memories."""

    active_filters: Sequence[ActiveFilter]
    shelf: MemoryListPage
    #: The most frequent values of each facet that are not chosen.
    facets: Mapping[str, Sequence[FacetCount]]
    #: The memory before which the page ends; None on the first page.
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A source message with its quote."""

    source: SourceMessage
    #: The text before the quote, the quote, and the text after it. Without a quote, `quoted` is the whole message.
    before: str
    quoted: str
    after: str
    is_truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """One memory with its sources, history and audience."""

    notice: str
    provenance: Provenance
    #: The sources. If there are very many, these are only the first ones.
    evidence: Sequence[Evidence]
    more_sources: int
    audience: MemoryAudience
    #: The privacy requests that cover a source and that the viewer may see.
    privacy_requests: Sequence[PrivacyRequestView]
    may_correct: bool
    may_archive: bool
    may_restore: bool

    @property
    def history(self) -> Sequence[Memory]:
        """All versions of the memory, newest first."""
        return [*reversed(self.provenance.successors), self.provenance.memory, *self.provenance.predecessors]


@PAGES.page("/m", "memories.html")
async def memories(visit: RequestContext) -> MemoriesPage:
    """Return memories that match the filters, newest first."""
    options, before = _memory_options(visit), visit.word("before")
    shelf = await MemoryBrowser(access=visit.app.access).list_page(
        visit.viewer, limit=SHOWN, before=before, **options
    )
    names = {(one.facet, one.value): one.name for one in shelf.facets}
    chosen = [(name, value) for name in FILTER_NAMES for value in _values(visit, name)]
    return MemoriesPage(
        active_filters=[
            ActiveFilter(
                name=name, means=FILTER_NAMES[name], value=value, shown=names.get((name, value), value)
            )
            for name, value in chosen
        ],
        shelf=shelf,
        facets=_facets(shelf.facets, set(chosen)),
        before=before,
    )


@PAGES.page("/r/{room}/digest", "digest.html")
async def digest(visit: RequestContext, room: str) -> Digest:
    """Return what a room learned since a time, or since the viewer last wrote there."""
    word = visit.word("since")
    since = None if word is None else Filters(since=word).time_range(datetime.now(UTC)).since
    return await visit.app.memories.digest(visit.viewer, room, since=since, limit=MOST_IN_DIGEST)


@PAGES.page("/m/{memory}", "memory.html")
async def memory(visit: RequestContext, memory: str) -> MemoryPage:
    """Return a memory and its sources."""
    provenance = await visit.app.memories.provenance(visit.viewer, memory)
    one, sources = provenance.memory, provenance.sources
    audience = await MemoryBrowser(access=visit.app.access).audience(visit.viewer, str(one.id))
    may = _may_change(visit, one)
    return MemoryPage(
        notice=NOTICES.get(visit.word("done") or "", ""),
        provenance=replace(
            provenance, sources=[_shortened_source(source) for source in sources[:MOST_SOURCES]]
        ),
        evidence=[_evidence(source, one) for source in sources[:MOST_SOURCES]],
        more_sources=max(0, len(sources) - MOST_SOURCES),
        audience=audience,
        privacy_requests=await _requests_about(visit, one),
        may_correct=may and one.status == "active",
        may_archive=may and one.status == "active",
        may_restore=may and one.status != "active",
    )


@PAGES.action("/m/{memory}/correct")
async def correct(visit: RequestContext, form: Form, memory: str) -> str:
    """Replace a memory by its correction."""
    content = form.word("content")
    if len(content) > LONGEST_CONTENT:
        raise BadInput("content", f"must have at most {LONGEST_CONTENT:,} characters")
    return _page_address(visit, await visit.app.memories.correct(memory, content), "corrected")


@PAGES.action("/m/{memory}/archive")
async def archive(visit: RequestContext, form: Form, memory: str) -> str:
    """Archive a memory."""
    if not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked")
    return _page_address(visit, await visit.app.memories.archive(memory), "forgotten")


@PAGES.action("/m/{memory}/restore")
async def restore(visit: RequestContext, form: Form, memory: str) -> str:
    """Restore a memory."""
    del form
    return _page_address(visit, await visit.app.memories.restore(memory), "restored")


def _page_address(visit: RequestContext, changed: Memory, done: str) -> str:
    return visit.address(at_path("m", changed.id), {"done": done})


def _values(visit: RequestContext, name: str) -> list[str]:
    """Return the values of a filter, each once."""
    values = [word.strip() for word in visit.query.getlist(name) if word.strip()]
    if any("\0" in word for word in values):
        raise BadInput(name, "must be text")
    if name not in {"kind", "status", "tag"}:
        return values[-1:]
    chosen = list(dict.fromkeys(values))
    if len(chosen) > MOST_CHOSEN:
        # The page has a link for each value. The link contains all chosen values.
        raise BadInput(name, f"at most {MOST_CHOSEN} can be chosen together")
    return chosen


def _memory_options(visit: RequestContext) -> MemoryOptions:
    options: dict[str, Any] = {
        name: values[0]
        for name in ("room", "about", "by", "seen_by", "task")
        if (values := _values(visit, name))
    }
    for name, plural in (("kind", "kinds"), ("tag", "tags"), ("status", "statuses")):
        if values := _values(visit, name):
            options[plural] = values
    if ANY in options.get("statuses", ()):
        options["statuses"] = STATUSES
    if values := _values(visit, "since"):
        options["since"] = Filters(since=values[0]).time_range(datetime.now(UTC)).since
    return MemoryOptions(**options)


def _facets(tallies: Sequence[FacetCount], chosen: set[tuple[str, str]]) -> dict[str, Sequence[FacetCount]]:
    """Return the values that are not chosen, by facet.

    If there is only one status, the facet of statuses is left out.
    """
    found: dict[str, list[FacetCount]] = {}
    for one in tallies:
        if (one.facet, one.value) not in chosen:
            found.setdefault(one.facet, []).append(one)
    order = ("kind", "room", "about", "by", "tag", "status")
    if len(found.get("status", ())) == 1:
        del found["status"]
    return {facet: found[facet][:MOST_VALUES] for facet in order if facet in found}


def _may_change(visit: RequestContext, memory: Memory) -> bool:
    """Return whether the viewer may change a memory. The change itself repeats the check."""
    if not (visit.viewer.is_operator or "correct" in RIGHTS[visit.viewer.role]):
        return False
    return visit.viewer.is_operator or any(map(visit.viewer.is_own, involved_participants(memory)))


async def _requests_about(visit: RequestContext, memory: Memory) -> list[PrivacyRequestView]:
    requests = await visit.app.privacy_requests.all(visit.viewer, limit=MOST_WISHES)
    sources = set(memory.source_ids)
    return [
        replace(
            request,
            body=request.body[:MAX_LENGTH],
            covered_messages=[
                replace(message, body=message.body[:QUOTE_CONTEXT])
                for message in request.covered_messages[:MOST_SOURCES]
            ],
        )
        for request in requests
        if any(message.id in sources for message in request.covered_messages)
    ]


def _evidence(source: SourceMessage, memory: Memory) -> Evidence:
    message = source.message
    start, end = _span(message, source, memory)
    before, after = message.body[:start], message.body[end:]
    quoted = message.body[start:end][:MAX_LENGTH]
    return Evidence(
        source=_shortened_source(source),
        before=before[-QUOTE_CONTEXT:],
        quoted=quoted,
        after=after[:QUOTE_CONTEXT],
        is_truncated=len(before) > QUOTE_CONTEXT or len(after) > QUOTE_CONTEXT or len(quoted) < end - start,
    )


def _shortened_source(source: SourceMessage) -> SourceMessage:
    """Return a source with the beginning of its text. The quote of the source is in the evidence."""
    message, quote = source.message, source.quote
    return replace(
        source,
        message=replace(message, body=message.body[:MAX_LENGTH]),
        quote=None if quote is None else quote[:MAX_LENGTH],
    )


def _span(message: Message, source: SourceMessage, memory: Memory) -> tuple[int, int]:
    """Return start and end of the quote in the message. If there is no quote, return those of the whole message."""
    known = next((one for one in memory.sources if one.message_id == message.id), None)
    if source.quote is None or known is None or known.quote_start is None or known.quote_end is None:
        return 0, len(message.body)
    return known.quote_start, known.quote_end
