"""Keys: who may come in."""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.keys import LONGEST_NAME, LONGEST_SPAN
from roomlore.domain.ids import KeyId
from roomlore.domain.records import ApiKey
from roomlore.domain.roles import Role
from roomlore.surfaces.documents import KeyMade, key_made
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import NO_NUL, Body, Word

ROUTER = APIRouter(prefix="/v1/keys", tags=["keys"])


class Wish(Body):
    """What a key is for: what it lets its holder do, with whose eyes they read, how many seconds it is valid."""

    role: Role
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
    participant: Word | None = None
    lasts: Annotated[float, Field(ge=1, le=LONGEST_SPAN.total_seconds())] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """The key that is invalid now."""

    revoked: KeyId


@ROUTER.get("", response_model=list[ApiKey])
async def list_keys(app: Acting) -> Response:
    """List every key, newest first: never the keys themselves."""
    return shown(await app.keys.all())


@ROUTER.post("", response_model=KeyMade, status_code=HTTPStatus.CREATED)
async def make_key(app: Acting, wish: Wish) -> Response:
    """Make a key and show it, this once."""
    lasts = None if wish.lasts is None else timedelta(seconds=wish.lasts)
    made = await app.keys.make(wish.role, name=wish.name, participant=wish.participant, lasts=lasts)
    return shown(key_made(made), status=HTTPStatus.CREATED)


@ROUTER.delete("/{key}", response_model=Revoked)
async def revoke_key(app: Acting, key: Word) -> Response:
    """Make a key invalid from now on: by its id, or the beginning of it."""
    return shown(Revoked(revoked=await app.keys.revoke(key)))
