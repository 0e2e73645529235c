"""Asking twice and doing once: `Idempotency-Key`, as the IETF draft of that header has it.

A key is claimed before anything is done for it, in a transaction of its own; what came of it is kept for a day, and told
to whoever asks for the same again. No word of it is kept: an answer that holds some is read anew, as the caller may see
it then. What was refused before anything was changed may be asked for again. What failed may have been done all the same,
as where the answer to a commit was lost, and what was refused afterwards was done in part: it is done again only where twice
is as good as once.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

import pydantic_core
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.db import idempotency
from roomlore.db.database import track_commits
from roomlore.db.idempotency import CLAIM_TTL, StoredResponse
from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import BadInput, DatabaseUnavailable
from roomlore.domain.ids import OrgId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Viewer
from roomlore.http.operations import declared
from roomlore.http.problems import ProblemKind, error_response, handle_error, problem_response
from roomlore.operations import App
from roomlore.operations.registry import Replay

RECORDS = "/v1/messages/records"
MESSAGES_ROUTE = "/v1/messages"


def strip_request_text(route: str, answer: bytes, request: bytes) -> bytes | None:
    """Return an answer without words: places in the request instead; None where it holds words of another origin."""
    if route == RECORDS:
        return _places(pydantic_core.from_json(answer), _sent(request))
    if route == MESSAGES_ROUTE:
        facts = pydantic_core.from_json(answer)
        for item in facts["items"]:
            # What was found in what was left out.
            item["detail"] = ""
        return pydantic_core.to_json(facts)
    return answer


def restore_request_text(route: str, kept: bytes, request: bytes) -> bytes:
    """Return an answer as it was, with the words of the request."""
    if route != RECORDS:
        return kept
    facts: dict[str, Any] = pydantic_core.from_json(kept)
    sent = _sent(request)
    for one in facts["added"]:
        one["external_id"] = sent[one["external_id"]]["external_id"]
    for one in facts["skipped"]:
        place: int | None = one["where"]
        one["where"] = "" if place is None else record_name(sent[place], place)
    return pydantic_core.to_json(facts)


def record_name(record: Any, place: int) -> str:
    """Return what reports call a record of a request: by its own word for where it stands, its id, or else its number."""
    words = (_fields(record).get("where"), _fields(record).get("external_id"))
    return next((word for word in words if isinstance(word, str) and word), f"record {place + 1}")


def _fields(record: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", record) if isinstance(record, Mapping) else {}


def _sent(request: bytes) -> Sequence[Any]:
    # Parsed as the request was: what is left out of a batch may be more than other parsers take.
    return json.loads(request)["messages"]


def _places(facts: dict[str, Any], sent: Sequence[Any]) -> bytes | None:
    ids = [_fields(record).get("external_id") for record in sent]
    by_id = {word: place for place, word in enumerate(ids) if isinstance(word, str)}
    by_where = {record_name(record, place): place for place, record in enumerate(sent)}
    for one in facts["added"]:
        if one["external_id"] not in by_id:
            return None
        one["external_id"] = by_id[one["external_id"]]
    for one in facts["skipped"]:
        # Cut short or cleaned of secrets it is nowhere in the request, and not kept.
        one["where"], one["detail"] = by_where.get(one["where"]), ""
    return pydantic_core.to_json(facts)


HEADER = "idempotency-key"
REPLAYED = {"idempotency-replayed": "true"}
#: Printable ASCII.
KEY_PATTERN = lazy_pattern(r"[\x20-\x7e]{1,255}")
#: Operations whose routes are written by hand.
BY_HAND: Mapping[tuple[str, str], Replay] = {
    ("POST", RECORDS): "whole",
    ("POST", "/v1/search"): "read",
    ("POST", "/v1/search/similar"): "read",
    ("POST", "/v1/ask"): "read",
    ("POST", "/v1/erasures"): "whole",
    ("POST", "/v1/erasures/expired"): "whole",
    ("POST", "/v1/receipts/{receipt}/check"): "whole",
    ("POST", "/v1/rooms/{room}/context"): "read",
    ("POST", "/v1/agents/{agent}/block"): "read",
}
#: What a repeated request gets, for every operation that takes a key.
REPLAYS: Mapping[tuple[str, str], Replay] = {
    **{
        route: replay
        for route, one in declared().items()
        if (replay := one.declaration.get("replay")) is not None
    },
    **BY_HAND,
}
#: Of these, what may run twice, since the second run changes nothing.
IDEMPOTENT_OPERATIONS = frozenset({
    *(route for route, one in declared().items() if one.declaration.get("is_repeatable")),
    ("POST", RECORDS),
    ("POST", "/v1/receipts/{receipt}/check"),
})  # fmt: skip
_PATTERNS = {route: lazy_pattern(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))) for _, route in REPLAYS}
#: Where what is read anew stands.
RESOURCE_PATHS: Mapping[Replay, str] = {"memory": "memories", "conversation": "conversations"}
IN_PROGRESS = ProblemKind(
    name="under-way", status=HTTPStatus.CONFLICT, title="Under way", headers={"retry-after": "1"}
)
DONE = ProblemKind(name="done-already", status=HTTPStatus.CONFLICT, title="Done already")
UNKNOWN = ProblemKind(name="outcome-unknown", status=HTTPStatus.CONFLICT, title="Outcome unknown")
REUSED = ProblemKind(name="key-reused", status=HTTPStatus.UNPROCESSABLE_ENTITY, title="Key reused")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """What is asked for, by whom, under which key of theirs."""

    org_id: OrgId
    #: Of who asks and of the key.
    digest: bytes
    #: Of what is asked for.
    request: bytes
    #: What is asked for, as it was sent.
    body: bytes
    route: str
    replay: Replay
    #: Whether it may be done twice, since it changes nothing the second time.
    is_idempotent: bool


@dataclass(slots=True)
class RecordedResponse:
    """What the application answers, caught."""

    status: int = 0
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytearray = field(default_factory=bytearray)

    async def add(self, message: Message) -> None:
        """Take a part of it, where it would be sent."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    async def send_to(self, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": bytes(self.body)})


class IdempotencyMiddleware:
    """Does once what is asked for under one key, however often it is asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or tell what became of it before."""
        headers = Headers(scope=scope)
        shown = headers.getlist(HEADER)
        known = replay_policy(scope["method"], scope["path"]) if scope["type"] == "http" and shown else None
        if known is None:
            await self._app(scope, receive, send)
            return
        if len(shown) > 1 or not KEY_PATTERN.fullmatch(shown[0]):
            wrong = BadInput(HEADER, "must be there once, with 1 to 255 printable characters")
            await error_response(scope, wrong)(scope, receive, send)
            return
        try:
            body = await _read_body(receive)
        except HTTPException as error:
            await (await handle_error(Request(scope), error))(scope, receive, send)
            return
        if body is not None:
            asked = _keyed_request(scope, shown[0], body, known=known)
            await self._serve(asked, scope, _replay_body(body, receive), send)

    async def _serve(self, asked: KeyedRequest, scope: Scope, receive: Receive, send: Send) -> None:
        app: App = scope["state"]["app"]
        if asked.replay == "read":
            await self._app(scope, receive, send)
            return
        now = datetime.now(UTC)
        claim = partial(
            idempotency.claim,
            org_id=asked.org_id,
            digest=asked.digest,
            request=asked.request,
            now=now,
            may_repeat=asked.is_idempotent,
        )
        with translate_connection_errors():
            claimed = await app.db.change(asked.org_id, claim)
        if claimed is None:
            scope["state"]["route"] = asked.route
            await (await self._replay(asked, scope, now=now))(scope, receive, send)
            return
        answer = RecordedResponse()
        with track_commits() as changes:
            try:
                await self._app(scope, receive, answer.add)
            except Exception:
                await _store_outcome(
                    app, asked, claimed, RecordedResponse(status=HTTPStatus.INTERNAL_SERVER_ERROR)
                )
                raise
        await _store_outcome(app, asked, claimed, answer, is_untouched=not changes.has_committed)
        await answer.send_to(send)

    async def _replay(self, asked: KeyedRequest, scope: Scope, *, now: datetime) -> Response:
        """Return what is told to whoever asks again."""
        app: App = scope["state"]["app"]
        with translate_connection_errors():
            async with app.db.read_transaction(Viewer.operator(asked.org_id)) as conn:
                found = await idempotency.find(conn, asked.org_id, asked.digest)
        if found is not None and bytes(found.request) != asked.request:
            return problem_response(
                scope, REUSED, "this Idempotency-Key was given to another request; take a new one"
            )
        if found is None or (found.status is None and now - found.claimed_at < CLAIM_TTL):
            return problem_response(scope, IN_PROGRESS, "the same request is still under way; ask again soon")
        if found.status is None or not _is_success(found.status):
            return problem_response(
                scope,
                UNKNOWN,
                "it failed, and nobody knows how much of it was done; look, and ask again with a new Idempotency-Key",
            )
        return await self._replay_stored(asked, scope, found)

    async def _replay_stored(self, asked: KeyedRequest, scope: Scope, found: StoredResponse) -> Response:
        assert found.status is not None
        body = (
            None if found.body is None else restore_request_text(asked.route, bytes(found.body), asked.body)
        )
        if found.place is not None:
            body = await self._read_resource(asked, scope, found.place)
        if body is None:
            return problem_response(
                scope, DONE, "it was done, and what was answered is not kept; ask for what is there", REPLAYED
            )
        kind = "application/json" if body else None
        return Response(body, found.status, REPLAYED, kind)

    async def _read_resource(self, asked: KeyedRequest, scope: Scope, place: str) -> bytes | None:
        """Return what stands at a place now, as the caller may see it; None where nothing does."""
        hidden = {b"content-type", b"content-length", b"transfer-encoding"}
        inner = {
            **scope,
            "method": "GET",
            "path": place,
            "raw_path": place.encode(),
            "query_string": b"limit=1" if asked.replay == "conversation" else b"",
            "headers": [one for one in scope["headers"] if one[0] not in hidden],
            "state": dict(scope["state"]),
        }
        answer = RecordedResponse()
        await self._app(inner, _replay_body(b"", _end_of_body), answer.add)
        if answer.status != HTTPStatus.OK:
            return None
        if asked.replay == "conversation":
            # What was answered was the conversation alone.
            facts = pydantic_core.from_json(bytes(answer.body))
            del facts["messages"], facts["next"]
            return pydantic_core.to_json(facts)
        # Nor was it what the memory rests on.
        return pydantic_core.to_json(pydantic_core.from_json(bytes(answer.body))["memory"])


def replay_policy(method: str, path: str) -> tuple[str, Replay] | None:
    """Return the route that a request is for, and how its answer is kept; None where a key means nothing."""
    return next(
        (
            (route, replay)
            for (of, route), replay in REPLAYS.items()
            if of == method and _PATTERNS[route].fullmatch(path)
        ),
        None,
    )


def _keyed_request(scope: Scope, key: str, body: bytes, *, known: tuple[str, Replay]) -> KeyedRequest:
    app: App = scope["state"]["app"]
    route, replay = known
    caller = app.access.principal
    who = f"{caller.key_id} {caller.participant_id}"
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], body)
    what = b"".join(hashlib.sha256(part).digest() for part in parts)
    return KeyedRequest(
        org_id=app.org_id,
        digest=idempotency.digest_of(who, key),
        request=hashlib.sha256(what).digest(),
        body=body,
        route=route,
        replay=replay,
        is_idempotent=(scope["method"], route) in IDEMPOTENT_OPERATIONS,
    )


async def _store_outcome(
    app: App, asked: KeyedRequest, claim: UUID, response: RecordedResponse, *, is_untouched: bool = False
) -> None:
    """Keep what came of it; what was refused before anything was changed may be asked for again."""
    is_done = _is_success(response.status)
    is_refused = is_untouched and response.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if not is_done and (is_refused or asked.is_idempotent):
        await _release(app, asked, claim)
        return
    body, place = _stored_body(asked, bytes(response.body)) if is_done else (None, None)
    settle = partial(
        idempotency.store_response,
        org_id=asked.org_id,
        digest=asked.digest,
        claimed=claim,
        status=response.status,
        body=body,
        place=place,
    )
    # It is done, whether or not that can be noted.
    with suppress(DatabaseUnavailable), translate_connection_errors():
        await app.db.change(asked.org_id, settle)


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _stored_body(asked: KeyedRequest, body: bytes) -> tuple[bytes | None, str | None]:
    """Return a body without words, or where its words are read anew; or neither."""
    match asked.replay:
        case "whole":
            return strip_request_text(asked.route, body, asked.body), None
        case "memory" | "conversation":
            return None, f"/v1/{RESOURCE_PATHS[asked.replay]}/{pydantic_core.from_json(body)['id']}"
        case "once" | "read":
            return None, None


async def _release(app: App, asked: KeyedRequest, claim: UUID) -> None:
    release = partial(idempotency.release, org_id=asked.org_id, digest=asked.digest, claimed=claim)
    with suppress(DatabaseUnavailable), translate_connection_errors():
        await app.db.change(asked.org_id, release)


async def _read_body(receive: Receive) -> bytes | None:
    """Return a body; None where its sender has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a way to receive a body that is there already, and then whatever comes."""
    is_given = False

    async def given() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return given


async def _end_of_body() -> Message:
    return {"type": "http.disconnect"}
