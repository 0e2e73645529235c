"""People: their accounts, privacy requests and relationships; and actions to merge, split and erase them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from roomlore.agents.trust import Relationship
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import ParticipantId
from roomlore.operations.people import PeopleDirectory
from roomlore.operations.privacy import PrivacyRequestView
from roomlore.operations.responses import PersonResponse, ReceiptResponse, person_responses, receipt_response
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
#: People on a page, and the highest page number.
SHOWN, MOST_PAGES = 50, 100_000
#: The number of newest privacy requests that are checked.
MOST_WISHES = 200
#: The maximum number of agents whose opinions are shown.
MOST_AGENTS = 10
KINDS = ("human", "agent", "system")
NOTICES: Mapping[str, str] = {
    "merged": "The accounts are one person now, who may read what any of them may read.",
    "parted": "The account is a separate person again.",
    "dismissed": "The request is dismissed. The messages it covered are recalled again.",
    "accepted": "The request is carried out.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleListPage:
    """Participants that the viewer may know of, the most messages first."""

    #: The part of a name or account that is searched for; empty for all people.
    named: str
    #: The kind of people to show; empty for all kinds.
    kind: str
    people: Sequence[PersonResponse]
    found: int
    number: int
    pages: int
    #: Whether the viewer may know of nobody.
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """An agent's opinion of somebody."""

    agent_id: ParticipantId
    agent_name: str
    of: Relationship


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPage:
    """One person."""

    person: PersonResponse
    #: Their privacy requests, newest first. Only they and operators see these.
    privacy_requests: Sequence[PrivacyRequestView]
    #: The relationships of an agent with others, most trusted first. Only the agent and operators see them.
    relationships: Sequence[Relationship]
    #: The opinions of agents about the person. Only operators see them.
    opinions: Sequence[Opinion]
    #: Whether the viewer may merge and split.
    may_arrange: bool
    #: Whether the viewer may erase them.
    may_erase: bool
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePreview:
    """The preview of the erasure of a person."""

    person: PersonResponse
    #: The name that has to be typed as confirmation.
    called: str
    #: What would be removed; None before the preview.
    receipt: ReceiptResponse | None
    #: Whether the person is the viewer.
    is_own: bool


@PAGES.page("/people", "people.html")
async def people(visit: RequestContext) -> PeopleListPage:
    """Return people by a part of their name or account."""
    named, kind = visit.word("named") or "", visit.word("kind") or ""
    if kind and kind not in KINDS:
        raise BadInput("kind", f"must be one of {', '.join(KINDS)}")
    number = visit.number("page", 1, most=MOST_PAGES)
    page = await PeopleDirectory(access=visit.app.access).page(
        visit.viewer, named=named, kind=kind, number=number, limit=SHOWN
    )
    return PeopleListPage(
        named=named,
        kind=kind,
        people=person_responses(page.people, page.accounts),
        found=page.total,
        number=page.number,
        pages=page.pages,
        is_empty=page.is_empty,
    )


@PAGES.page("/people/{person}", "person.html")
async def person(visit: RequestContext, person: str) -> PersonPage:
    """Return a person that the viewer may know."""
    found = await _resolve_person(visit, person)
    viewer, ids = visit.viewer, {account.participant_id for account in found.accounts}
    is_own = any(map(viewer.is_own, ids))
    requests = await visit.app.privacy_requests.all(viewer, limit=MOST_WISHES)
    met: list[Relationship] = []
    if found.kind == "agent" and (viewer.is_operator or is_own):
        met = await visit.app.agents.relationships(viewer, str(found.id))
    return PersonPage(
        person=found,
        privacy_requests=[request for request in requests if request.author_id in ids],
        relationships=met[:SHOWN],
        opinions=await _opinions(visit, found) if viewer.is_operator else [],
        may_arrange=viewer.is_operator,
        may_erase=viewer.is_operator or is_own,
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.page("/people/{person}/erase", "people_erase.html")
async def erasure_page(visit: RequestContext, person: str) -> ErasurePreview:
    """Return the page to erase a person, before the preview."""
    found = await _resolve_person(visit, person)
    is_own = any(visit.viewer.is_own(account.participant_id) for account in found.accounts)
    if not (is_own or visit.viewer.is_operator):
        raise NotAllowed("only an operator may erase somebody else")
    return ErasurePreview(person=found, called=_typed_name(found), receipt=None, is_own=is_own)


@PAGES.preview("/people/{person}/erase", "people_erase.html")
async def look(visit: RequestContext, person: str) -> ErasurePreview:
    """Return what the erasure of a person would remove."""
    page = await erasure_page(visit, person)
    receipt = await visit.app.erasure.person(str(page.person.id), dry_run=True)
    return replace(page, receipt=receipt_response(receipt))


@PAGES.action("/people/{person}/erase")
async def erase(visit: RequestContext, form: Form, person: str) -> str:
    """Erase a person after their name was typed, and go to the receipt."""
    found = await _resolve_person(visit, person)
    if _normalised(form.word("name")) != _normalised(_typed_name(found)):
        raise BadInput("name", "is not the person's; nothing was erased. Type it as shown")
    receipt = await visit.app.erasure.person(str(found.id))
    return visit.address(at_path("receipts", receipt.id), {"done": "erased"})


@PAGES.action("/people/{person}/merge")
async def merge(visit: RequestContext, form: Form, person: str) -> str:
    """Merge two participants into one person."""
    await visit.app.people.merge(person, form.word("other"))
    return visit.address(at_path("people", person), {"done": "merged"})


@PAGES.action("/people/{person}/split")
async def split(visit: RequestContext, form: Form, person: str) -> str:
    """Split an account off a person."""
    others = await visit.app.people.split(form.word("account"))
    here = next((str(one.participant_id) for one in others), person)
    return visit.address(at_path("people", here), {"done": "parted"})


@PAGES.action("/people/{person}/privacy-requests/{request_id}/apply")
async def accept(visit: RequestContext, form: Form, person: str, request_id: str) -> str:
    """Accept a proposed or dismissed request."""
    del form
    await visit.app.privacy_requests.apply(request_id)
    return visit.address(at_path("people", person), {"done": "accepted"}, at="privacy-requests")


@PAGES.action("/people/{person}/privacy-requests/{request_id}/dismiss")
async def dismiss(visit: RequestContext, form: Form, person: str, request_id: str) -> str:
    """Dismiss a request."""
    del form
    await visit.app.privacy_requests.dismiss(request_id)
    return visit.address(at_path("people", person), {"done": "dismissed"}, at="privacy-requests")


def _typed_name(person: PersonResponse) -> str:
    """Return a name or account of the person that can be typed. Return `erase` if there is none."""
    names = [person.name, *(one.account_id for one in person.accounts)]
    return next((" ".join(name.split()) for name in names if any(map(str.isalnum, name))), "erase")


def _normalised(name: str) -> str:
    return " ".join(name.split()).casefold()


async def _resolve_person(visit: RequestContext, word: str) -> PersonResponse:
    """Return the person with an account of that id. Raise NotFound if the viewer may not know of them."""
    try:
        participant_id = ParticipantId(UUID(word))
    except ValueError:
        raise NotFound("person", word) from None
    found, accounts = await PeopleDirectory(access=visit.app.access).one(visit.viewer, participant_id)
    return person_responses([found], accounts)[0]


async def _opinions(visit: RequestContext, of: PersonResponse) -> list[Opinion]:
    """Return the opinions of the agents with the most messages about a person."""
    people = PeopleDirectory(access=visit.app.access)
    page = await people.page(visit.viewer, kind="agent", limit=MOST_AGENTS + 1)
    agents = [one for one in page.people if one.id != of.id][:MOST_AGENTS]
    accounts = {account.participant_id for account in of.accounts}
    found = await people.relationships_with(visit.viewer, accounts, agents)
    return [Opinion(agent_id=agent.id, agent_name=agent.name, of=one) for agent, one in found]
