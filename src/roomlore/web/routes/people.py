"""People: who takes part, as whom, what they wished, what an agent makes of them; put together, parted, forgotten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from roomlore.agents.trust import Relationship
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import ParticipantId
from roomlore.http.schemas import Person, ReceiptGiven, persons, receipt_given
from roomlore.operations.people import PeopleDirectory
from roomlore.operations.privacy import PrivacyRequestView
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
#: On one page, and pages that may be asked for.
SHOWN, MOST_PAGES = 50, 100_000
#: Of the newest wishes, so many are looked at.
MOST_WISHES = 200
#: Agents whose word on somebody is shown.
MOST_AGENTS = 10
KINDS = ("human", "agent", "system")
NOTICES: Mapping[str, str] = {
    "merged": "They are one person now, who reads what any of the accounts may.",
    "parted": "The account is a person of its own again.",
    "dismissed": "The wish does not count: what it covered is recalled again.",
    "accepted": "The wish is carried out.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleListPage:
    """Those who take part, as far as the viewer may know them, most talkative first."""

    #: Of whose names or accounts this is a part; empty is all.
    named: str
    #: Of which kind; empty is all.
    kind: str
    people: Sequence[Person]
    #: How many there are that are meant.
    found: int
    number: int
    pages: int
    #: Whether anybody is known, whatever they are called.
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What an agent makes of somebody."""

    agent_id: ParticipantId
    agent_name: str
    of: Relationship


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPage:
    """Somebody, and what is known of them."""

    person: Person
    #: What they wished, newest first: their own to see, and an operator's.
    wishes: Sequence[PrivacyRequestView]
    #: Of an agent: whom it met, most trusted first. Its own to see, and an operator's.
    relationships: Sequence[Relationship]
    #: What agents make of them; an operator's to see.
    opinions: Sequence[Opinion]
    #: Whether the viewer may say whose accounts are one person's.
    may_arrange: bool
    #: Whether the viewer may have them forgotten.
    may_forget: bool
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePreview:
    """What would go if a person were forgotten."""

    person: Person
    #: What has to be typed to say so.
    called: str
    #: What would go; None before it was looked for.
    receipt: ReceiptGiven | None
    #: Whether it is the viewer.
    is_own: bool


@PAGES.page("/people", "people.html")
async def people(visit: RequestContext) -> PeopleListPage:
    """Return those whose names or accounts have what is looked for."""
    named, kind = visit.word("named") or "", visit.word("kind") or ""
    if kind and kind not in KINDS:
        raise BadInput("kind", f"must be one of {', '.join(KINDS)}")
    number = visit.number("page", 1, most=MOST_PAGES)
    crowd = await PeopleDirectory(access=visit.app.access).page(
        visit.viewer, named=named, kind=kind, number=number, limit=SHOWN
    )
    return PeopleListPage(
        named=named,
        kind=kind,
        people=persons(crowd.people, crowd.accounts),
        found=crowd.found,
        number=crowd.number,
        pages=crowd.pages,
        is_empty=crowd.is_empty,
    )


@PAGES.page("/people/{person}", "person.html")
async def person(visit: RequestContext, person: str) -> PersonPage:
    """Return somebody whom the viewer may know."""
    found = await _resolve_person(visit, person)
    viewer, ids = visit.viewer, {account.participant_id for account in found.accounts}
    is_own = any(map(viewer.is_own, ids))
    spoken = await visit.app.wishes.all(viewer, limit=MOST_WISHES)
    met: list[Relationship] = []
    if found.kind == "agent" and (viewer.is_operator or is_own):
        met = await visit.app.agents.relationships(viewer, str(found.id))
    return PersonPage(
        person=found,
        wishes=[wish for wish in spoken if wish.author_id in ids],
        relationships=met[:SHOWN],
        opinions=await _opinions(visit, found) if viewer.is_operator else [],
        may_arrange=viewer.is_operator,
        may_forget=viewer.is_operator or is_own,
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.page("/people/{person}/forget", "people_forget.html")
async def erasure_page(visit: RequestContext, person: str) -> ErasurePreview:
    """Return whom one may have forgotten; nothing goes yet, nor is it looked what would."""
    found = await _resolve_person(visit, person)
    is_own = any(visit.viewer.is_own(account.participant_id) for account in found.accounts)
    if not (is_own or visit.viewer.is_operator):
        raise NotAllowed("this is somebody else, and only an operator has others forgotten")
    return ErasurePreview(person=found, called=_typed_name(found), receipt=None, is_own=is_own)


@PAGES.preview("/people/{person}/forget", "people_forget.html")
async def look(visit: RequestContext, person: str) -> ErasurePreview:
    """Return what would go with a person; nothing does yet."""
    page = await erasure_page(visit, person)
    receipt = await visit.app.erasure.person(str(page.person.id), dry_run=True)
    return replace(page, receipt=receipt_given(receipt))


@PAGES.action("/people/{person}/forget")
async def forget(visit: RequestContext, form: Form, person: str) -> str:
    """Erase a person whose name was typed to say so, and go to the receipt."""
    found = await _resolve_person(visit, person)
    if _normalised(form.word("name")) != _normalised(_typed_name(found)):
        raise BadInput("name", "is not theirs; nothing was forgotten. Type it as it is shown")
    receipt = await visit.app.erasure.person(str(found.id))
    return visit.address(at_path("receipts", receipt.id), {"done": "erased"})


@PAGES.action("/people/{person}/merge")
async def merge(visit: RequestContext, form: Form, person: str) -> str:
    """Say that somebody is the same person as another."""
    await visit.app.people.merge(person, form.word("other"))
    return visit.address(at_path("people", person), {"done": "merged"})


@PAGES.action("/people/{person}/split")
async def split(visit: RequestContext, form: Form, person: str) -> str:
    """Say that an account of a person is a person of its own."""
    others = await visit.app.people.split(form.word("account"))
    here = next((str(one.participant_id) for one in others), person)
    return visit.address(at_path("people", here), {"done": "parted"})


@PAGES.action("/people/{person}/wishes/{wish}/accept")
async def accept(visit: RequestContext, form: Form, person: str, wish: str) -> str:
    """Carry a wish out that was proposed, or dismissed before."""
    del form
    await visit.app.wishes.accept(wish)
    return visit.address(at_path("people", person), {"done": "accepted"}, at="wishes")


@PAGES.action("/people/{person}/wishes/{wish}/dismiss")
async def dismiss(visit: RequestContext, form: Form, person: str, wish: str) -> str:
    """Let a wish not count."""
    del form
    await visit.app.wishes.dismiss(wish)
    return visit.address(at_path("people", person), {"done": "dismissed"}, at="wishes")


def _typed_name(person: Person) -> str:
    """Return a name of somebody that can be typed; not everybody gave one."""
    names = [person.name, *(one.account_id for one in person.accounts)]
    return next((" ".join(name.split()) for name in names if any(map(str.isalnum, name))), "forget")


def _normalised(name: str) -> str:
    return " ".join(name.split()).casefold()


async def _resolve_person(visit: RequestContext, word: str) -> Person:
    """Return whom an id means, by whatever account.

    Raises:
        NotFound: nobody, or nobody whom the viewer may know of.
    """
    try:
        wanted = ParticipantId(UUID(word))
    except ValueError:
        raise NotFound("person", word) from None
    found, accounts = await PeopleDirectory(access=visit.app.access).one(visit.viewer, wanted)
    return persons([found], accounts)[0]


async def _opinions(visit: RequestContext, of: Person) -> list[Opinion]:
    """Return what the most talkative agents make of somebody."""
    people = PeopleDirectory(access=visit.app.access)
    crowd = await people.page(visit.viewer, kind="agent", limit=MOST_AGENTS + 1)
    agents = [one for one in crowd.people if one.id != of.id][:MOST_AGENTS]
    accounts = {account.participant_id for account in of.accounts}
    found = await people.relationships_with(visit.viewer, accounts, agents)
    return [Opinion(agent_id=agent.id, agent_name=agent.name, of=one) for agent, one in found]
