"""Participants: who takes part, registered, whose accounts they are, put together and taken apart again."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.responses import json_response
from roomlore.http.schemas import Person, persons

ROUTER = APIRouter(prefix="/v1/participants", tags=["participants"])


@ROUTER.get("", response_model=list[Person])
async def list_participants(app: AuthenticatedApp) -> Response:
    """List the participants the viewer may know of, most talkative first, with their accounts."""
    people = await app.participants(app.access.principal)
    return json_response(persons(people, await app.people.accounts(app.access.principal)))
