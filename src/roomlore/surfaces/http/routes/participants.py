"""Participants: who takes part, registered, whose accounts they are, put together and taken apart again."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.app.people import OWN_PLATFORM
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account
from roomlore.surfaces.documents import Person, persons
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Body, Word

ROUTER = APIRouter(prefix="/v1/participants", tags=["participants"])


class Two(Body):
    """Two participants, by name, account or id."""

    one: Word
    other: Word


class One(Body):
    """A participant, by name, account or id."""

    account: Word


class Registration(Body):
    """Somebody who has not spoken yet: a name, and the account they will speak by."""

    name: Word
    kind: ParticipantKind = "agent"
    platform: Word = OWN_PLATFORM
    #: The name by default.
    account: Word | None = None


@ROUTER.post("", response_model=Account, status_code=HTTPStatus.CREATED)
async def register_participant(app: Acting, who: Registration) -> Response:
    """Add a participant who has not spoken yet, so that a key can be made for them; one that is there stays as it is."""
    added = await app.people.register(who.name, kind=who.kind, platform=who.platform, account=who.account)
    return shown(added, status=HTTPStatus.CREATED)


@ROUTER.get("", response_model=list[Person])
async def list_participants(app: Acting) -> Response:
    """List the participants the viewer may know of, most talkative first, with their accounts."""
    people = await app.participants(app.desk.caller)
    return shown(persons(people, await app.people.accounts(app.desk.caller)))


@ROUTER.get("/accounts", response_model=list[Account])
async def list_all_accounts(app: Acting) -> Response:
    """List the accounts of everybody whom the viewer may know of."""
    return shown(await app.people.accounts(app.desk.caller))


@ROUTER.get("/{participant}/accounts", response_model=list[Account])
async def list_accounts(app: Acting, participant: Word) -> Response:
    """List the accounts of a person: by name, account, id or beginning of an id."""
    return shown(await app.people.accounts(app.desk.caller, participant))


@ROUTER.post("/merge", response_model=list[Account])
async def merge_participants(app: Acting, two: Two) -> Response:
    """Say that two participants are accounts of one person, and list all accounts of it."""
    return shown(await app.people.merge(two.one, two.other))


@ROUTER.post("/split", response_model=list[Account])
async def split_participant(app: Acting, one: One) -> Response:
    """Say that a participant is a person of its own, and list the accounts it was parted from."""
    return shown(await app.people.split(one.account))
