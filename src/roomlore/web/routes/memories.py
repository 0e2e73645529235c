"""Memories: what is durably known, by what it has in common; and one of them with all that it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args

from roomlore.domain.errors import BadInput
from roomlore.domain.records import RIGHTS, Memory, MemoryKind, Message, Provenance, SourceMessage
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
#: On one page.
SHOWN = 40
#: Of one facet; the most frequent.
MOST_VALUES = 10
#: Of one facet, by whoever looks.
MOST_CHOSEN = 20
#: Characters of a message before and after the words that count, and of one without such.
QUOTE_CONTEXT, MAX_LENGTH = 300, 1_200
#: Messages that a memory rests on, on its page.
MOST_SOURCES = 100
#: In which wishes are looked for that cover what a memory rests on.
MOST_WISHES = 200
KINDS = get_args(MemoryKind)
#: Whatever became of it.
ANY = "any"
#: What a page says after a form was sent.
NOTICES: Mapping[str, str] = {
    "corrected": "Corrected: this stands now, and what stood before is its history.",
    "forgotten": "Put aside: nobody recalls it. What it rests on stays as it was said.",
    "restored": "It stands again.",
}
#: The narrowings that a page's address may name, with their words for people.
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
    """One way in which a list is narrowed, as its address says it."""

    name: str
    #: For people.
    means: str
    value: str
    #: What the value is called.
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesPage:
    """Memories of one page, and what they may be narrowed by."""

    narrowings: Sequence[ActiveFilter]
    shelf: MemoryListPage
    #: Of each facet the most frequent, without those that are asked for already.
    facets: Mapping[str, Sequence[FacetCount]]
    #: What this page is called; None for the first.
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A message that a memory rests on, with the words of it that count."""

    source: SourceMessage
    #: What stands before and after the words that count; these are in `quoted`, the whole message where None is told.
    before: str
    quoted: str
    after: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """One memory, with all that it rests on, its history, and for whom it is."""

    notice: str
    provenance: Provenance
    #: Of very many the first.
    evidence: Sequence[Evidence]
    more_sources: int
    audience: MemoryAudience
    #: Spoken wishes that cover something of what it rests on, as far as the viewer may see these.
    wishes: Sequence[PrivacyRequestView]
    may_correct: bool
    may_forget: bool
    may_restore: bool

    @property
    def history(self) -> Sequence[Memory]:
        """What stood one after the other, newest first, this one among it."""
        return [*reversed(self.provenance.successors), self.provenance.memory, *self.provenance.predecessors]


@PAGES.page("/m", "memories.html")
async def memories(visit: RequestContext) -> MemoriesPage:
    """Return memories, newest first, as far as the address narrows them."""
    wanted, before = _memory_options(visit), visit.word("before")
    shelf = await MemoryBrowser(access=visit.app.access).list_page(
        visit.viewer, limit=SHOWN, before=before, **wanted
    )
    names = {(one.facet, one.value): one.name for one in shelf.tallies}
    said = [(name, value) for name in FILTER_NAMES for value in _values(visit, name)]
    return MemoriesPage(
        narrowings=[
            ActiveFilter(
                name=name, means=FILTER_NAMES[name], value=value, shown=names.get((name, value), value)
            )
            for name, value in said
        ],
        shelf=shelf,
        facets=_facets(shelf.tallies, set(said)),
        before=before,
    )


@PAGES.page("/m/{memory}", "memory.html")
async def memory(visit: RequestContext, memory: str) -> MemoryPage:
    """Return a memory and all that it rests on."""
    told = await visit.app.memories.why(visit.viewer, memory)
    held = told.memory
    audience = await MemoryBrowser(access=visit.app.access).audience(visit.viewer, str(held.id))
    may = _may_change(visit, held)
    return MemoryPage(
        notice=NOTICES.get(visit.word("done") or "", ""),
        provenance=replace(
            told, sources=[_shortened_source(source) for source in told.sources[:MOST_SOURCES]]
        ),
        evidence=[_evidence(source, held) for source in told.sources[:MOST_SOURCES]],
        more_sources=max(0, len(told.sources) - MOST_SOURCES),
        audience=audience,
        wishes=await _requests_about(visit, held),
        may_correct=may and held.status == "active",
        may_forget=may and held.status == "active",
        may_restore=may and held.status != "active",
    )


@PAGES.action("/m/{memory}/correct")
async def correct(visit: RequestContext, form: Form, memory: str) -> str:
    """Put what is right in the place of a memory."""
    right = form.word("content")
    if len(right) > LONGEST_CONTENT:
        raise BadInput("content", f"must have at most {LONGEST_CONTENT:,} characters")
    return _page_address(visit, await visit.app.memories.correct(memory, right), "corrected")


@PAGES.action("/m/{memory}/forget")
async def forget(visit: RequestContext, form: Form, memory: str) -> str:
    """Put a memory aside."""
    _confirmed(form)
    return _page_address(visit, await visit.app.memories.forget(memory), "forgotten")


@PAGES.action("/m/{memory}/restore")
async def restore(visit: RequestContext, form: Form, memory: str) -> str:  # noqa: ARG001  it only asks
    """Let a memory stand again."""
    return _page_address(visit, await visit.app.memories.restore(memory), "restored")


def _page_address(visit: RequestContext, changed: Memory, done: str) -> str:
    return visit.address(at_path("m", changed.id), {"done": done})


def _confirmed(form: Form) -> None:
    if not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked")


def _values(visit: RequestContext, name: str) -> list[str]:
    """Return what the address says under a name, each once."""
    said = [word.strip() for word in visit.query.getlist(name) if word.strip()]
    if any("\0" in word for word in said):
        raise BadInput(name, "must be text")
    if name not in {"kind", "status", "tag"}:
        return said[-1:]
    chosen = list(dict.fromkeys(said))
    if len(chosen) > MOST_CHOSEN:
        # Each is drawn with a link that holds all others.
        raise BadInput(name, f"at most {MOST_CHOSEN} can be chosen together")
    return chosen


def _memory_options(visit: RequestContext) -> MemoryOptions:
    wanted: dict[str, Any] = {
        name: said[0] for name in ("room", "about", "by", "seen_by", "task") if (said := _values(visit, name))
    }
    for name, plural in (("kind", "kinds"), ("tag", "tags"), ("status", "statuses")):
        if said := _values(visit, name):
            wanted[plural] = said
    if ANY in wanted.get("statuses", ()):
        wanted["statuses"] = STATUSES
    if said := _values(visit, "since"):
        wanted["since"] = Filters(since=said[0]).time_range(datetime.now(UTC)).since
    return MemoryOptions(**wanted)


def _facets(tallies: Sequence[FacetCount], said: set[tuple[str, str]]) -> dict[str, Sequence[FacetCount]]:
    """Return what else narrows, by facet; the one status that all have is not worth a heading."""
    found: dict[str, list[FacetCount]] = {}
    for one in tallies:
        if (one.facet, one.value) not in said:
            found.setdefault(one.facet, []).append(one)
    order = ("kind", "room", "about", "by", "tag", "status")
    if len(found.get("status", ())) == 1:
        del found["status"]
    return {facet: found[facet][:MOST_VALUES] for facet in order if facet in found}


def _may_change(visit: RequestContext, held: Memory) -> bool:
    """Return whether whoever visits may change a memory; the same is asked again when they do."""
    if not (visit.viewer.is_operator or "correct" in RIGHTS[visit.viewer.role]):
        return False
    return visit.viewer.is_operator or any(map(visit.viewer.is_own, involved_participants(held)))


async def _requests_about(visit: RequestContext, held: Memory) -> list[PrivacyRequestView]:
    spoken = await visit.app.wishes.all(visit.viewer, limit=MOST_WISHES)
    sources = set(held.source_ids)
    return [
        replace(
            wish,
            body=wish.body[:MAX_LENGTH],
            covers=[
                replace(message, body=message.body[:QUOTE_CONTEXT]) for message in wish.covers[:MOST_SOURCES]
            ],
        )
        for wish in spoken
        if any(message.id in sources for message in wish.covers)
    ]


def _evidence(source: SourceMessage, held: Memory) -> Evidence:
    message = source.message
    start, end = _span(message, source, held)
    before, after = message.body[:start], message.body[end:]
    quoted = message.body[start:end][:MAX_LENGTH]
    return Evidence(
        source=_shortened_source(source),
        before=before[-QUOTE_CONTEXT:],
        quoted=quoted,
        after=after[:QUOTE_CONTEXT],
        is_cut=len(before) > QUOTE_CONTEXT or len(after) > QUOTE_CONTEXT or len(quoted) < end - start,
    )


def _shortened_source(source: SourceMessage) -> SourceMessage:
    """Return a source with the beginning of its words; those that count stand in its evidence."""
    message, quote = source.message, source.quote
    return replace(
        source,
        message=replace(message, body=message.body[:MAX_LENGTH]),
        quote=None if quote is None else quote[:MAX_LENGTH],
    )


def _span(message: Message, source: SourceMessage, held: Memory) -> tuple[int, int]:
    """Return from where to where the words of a message count."""
    known = next((one for one in held.sources if one.message_id == message.id), None)
    if source.quote is None or known is None or known.quote_start is None or known.quote_end is None:
        return 0, len(message.body)
    return known.quote_start, known.quote_end
