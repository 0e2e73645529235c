"""Participants: who takes part, registered, whose accounts they are, put together and taken apart again."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.surfaces.documents import Person, persons
from roomlore.surfaces.http.responses import json_response
from roomlore.surfaces.http.signin import AuthenticatedApp

ROUTER = APIRouter(prefix="/v1/participants", tags=["participants"])


@ROUTER.get("", response_model=list[Person])
async def list_participants(app: AuthenticatedApp) -> Response:
    """List the participants the viewer may know of, most talkative first, with their accounts."""
    people = await app.participants(app.access.principal)
    return json_response(persons(people, await app.people.accounts(app.access.principal)))
