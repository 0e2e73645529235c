"""`Idempotency-Key`: a request that is repeated with the same key runs once (the IETF draft of this header).

A key is claimed in a separate transaction before the request runs. The outcome is stored for a day. Message texts are
not stored: if a response contains texts, its record is read again, as the caller may see it at the time of the
repetition. A request that was refused before it changed anything may be repeated. A failed request may have taken
effect (for example, if only the commit's acknowledgement was lost). So it runs again only if the operation is
idempotent.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
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

HEADER = "idempotency-key"
REPLAYED = {"idempotency-replayed": "true"}
#: The allowed keys: up to 255 printable ASCII characters.
KEY_PATTERN = lazy_pattern(r"[\x20-\x7e]{1,255}")
RECORDS = "/v1/messages/records"
MESSAGES_ROUTE = "/v1/messages"
#: For every operation that accepts a key, the kind of response to a repeated request.
REPLAYS: Mapping[tuple[str, str], Replay] = {
    **{
        route: replay
        for route, operation in declared().items()
        if (replay := operation.declaration.get("replay")) is not None
    },
    ("POST", RECORDS): "whole",
    ("POST", "/v1/search"): "read",
    ("POST", "/v1/search/similar"): "read",
    ("POST", "/v1/ask"): "read",
    ("POST", "/v1/erasures"): "whole",
    ("POST", "/v1/rooms/{room}/context"): "read",
    ("POST", "/v1/agents/{agent}/memory-section"): "read",
}
#: Operations that may run twice, because a second run changes nothing.
IDEMPOTENT_OPERATIONS = frozenset({
    *(route for route, operation in declared().items() if operation.declaration.get("is_repeatable")),
    ("POST", RECORDS),
})  # fmt: skip
_PATTERNS = {route: lazy_pattern(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))) for _, route in REPLAYS}
#: Paths at which records are read again for a repeated request.
RESOURCE_PATHS: Mapping[Replay, str] = {"memory": "memories", "conversation": "conversations"}
IN_PROGRESS = ProblemKind(
    name="under-way", status=HTTPStatus.CONFLICT, title="Under way", headers={"retry-after": "1"}
)
DONE = ProblemKind(name="done-already", status=HTTPStatus.CONFLICT, title="Done already")
UNKNOWN = ProblemKind(name="outcome-unknown", status=HTTPStatus.CONFLICT, title="Outcome unknown")
REUSED = ProblemKind(name="key-reused", status=HTTPStatus.UNPROCESSABLE_ENTITY, title="Key reused")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request that has an idempotency key."""

    org_id: OrgId
    #: Digest of the caller and the key.
    digest: bytes
    #: Digest of the request itself.
    request: bytes
    body: bytes
    route: str
    replay: Replay
    is_idempotent: bool


@dataclass(slots=True)
class RecordedResponse:
    """A response that is recorded before it is sent."""

    status: int = 0
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytearray = field(default_factory=bytearray)

    async def add(self, message: Message) -> None:
        """Record a part of the response. This is used in place of `send`."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    async def send_to(self, send: Send) -> None:
        """Send the recorded response."""
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": bytes(self.body)})


class IdempotencyMiddleware:
    """Runs each keyed request once, however often it is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        keys = Headers(scope=scope).getlist(HEADER) if scope["type"] == "http" else []
        policy = replay_policy(scope["method"], scope["path"]) if keys else None
        if policy is None:
            await self._app(scope, receive, send)
            return
        if len(keys) > 1 or not KEY_PATTERN.fullmatch(keys[0]):
            error = BadInput(HEADER, "must be there once, with 1 to 255 printable characters")
            await error_response(scope, error)(scope, receive, send)
            return
        try:
            body = await _read_body(receive)
        except HTTPException as error:
            await (await handle_error(Request(scope), error))(scope, receive, send)
            return
        if body is not None:
            request = _keyed_request(scope, keys[0], body, policy=policy)
            await self._serve(request, scope, _replay_body(body, receive), send)

    async def _serve(self, request: KeyedRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if request.replay == "read":
            await self._app(scope, receive, send)
            return
        app: App = scope["state"]["app"]
        now = datetime.now(UTC)
        with translate_connection_errors():
            claim = await app.db.change(
                request.org_id,
                lambda conn: idempotency.claim(
                    conn,
                    org_id=request.org_id,
                    digest=request.digest,
                    request=request.request,
                    now=now,
                    may_repeat=request.is_idempotent,
                ),
            )
        if claim is None:
            scope["state"]["route"] = request.route
            await (await self._replay(request, scope, now=now))(scope, receive, send)
            return
        response = RecordedResponse()
        with track_commits() as changes:
            try:
                await self._app(scope, receive, response.add)
            except Exception:
                failed = RecordedResponse(status=HTTPStatus.INTERNAL_SERVER_ERROR)
                await _store_outcome(app, request, claim, failed)
                raise
        await _store_outcome(app, request, claim, response, is_untouched=not changes.has_committed)
        await response.send_to(send)

    async def _replay(self, request: KeyedRequest, scope: Scope, *, now: datetime) -> Response:
        """Return the response to a repeated request."""
        app: App = scope["state"]["app"]
        with translate_connection_errors():
            async with app.db.read_transaction(Viewer.operator(request.org_id)) as conn:
                stored = await idempotency.find(conn, request.org_id, request.digest)
        if stored is not None and bytes(stored.request) != request.request:
            why = "this Idempotency-Key belongs to another request; use a new one"
            return problem_response(scope, REUSED, why)
        if stored is None or (stored.status is None and now - stored.claimed_at < CLAIM_TTL):
            return problem_response(
                scope, IN_PROGRESS, "the same request is still in progress; try again soon"
            )
        if stored.status is None or not _is_success(stored.status):
            why = "it failed and may have taken effect; check, and try again with a new Idempotency-Key"
            return problem_response(scope, UNKNOWN, why)
        return await self._replay_stored(request, scope, stored)

    async def _replay_stored(self, request: KeyedRequest, scope: Scope, stored: StoredResponse) -> Response:
        assert stored.status is not None
        body = None
        if stored.place is not None:
            body = await self._read_resource(request, scope, stored.place)
        elif stored.body is not None:
            body = restore_request_text(request.route, bytes(stored.body), request.body)
        if body is None:
            why = "it succeeded, and its response is not stored; read what is there now"
            return problem_response(scope, DONE, why, REPLAYED)
        return Response(body, stored.status, REPLAYED, "application/json" if body else None)

    async def _read_resource(self, request: KeyedRequest, scope: Scope, place: str) -> bytes | None:
        """Return the record at a path, as it is now and as the caller may see it.

        Return None if it does not exist for the caller.
        """
        is_conversation = request.replay == "conversation"
        body_headers = {b"content-type", b"content-length", b"transfer-encoding"}
        inner = {
            **scope,
            "method": "GET",
            "path": place,
            "raw_path": place.encode(),
            "query_string": b"limit=1" if is_conversation else b"",
            "headers": [header for header in scope["headers"] if header[0] not in body_headers],
            "state": dict(scope["state"]),
        }
        response = RecordedResponse()
        await self._app(inner, _replay_body(b"", _disconnect), response.add)
        if response.status != HTTPStatus.OK:
            return None
        fields = pydantic_core.from_json(bytes(response.body))
        # The first response was a conversation without its messages, or a memory without its sources.
        if not is_conversation:
            return pydantic_core.to_json(fields["memory"])
        del fields["messages"], fields["next"]
        return pydantic_core.to_json(fields)


def replay_policy(method: str, path: str) -> tuple[str, Replay] | None:
    """Return the route of a request, and how repeated requests are answered.

    Return None if the operation accepts no key.
    """
    for (of, route), replay in REPLAYS.items():
        if of == method and _PATTERNS[route].fullmatch(path):
            return route, replay
    return None


def _keyed_request(scope: Scope, key: str, body: bytes, *, policy: tuple[str, Replay]) -> KeyedRequest:
    app: App = scope["state"]["app"]
    route, replay = policy
    caller = app.access.principal
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], body)
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return KeyedRequest(
        org_id=app.org_id,
        digest=idempotency.digest_of(f"{caller.key_id} {caller.participant_id}", key),
        request=hashlib.sha256(digests).digest(),
        body=body,
        route=route,
        replay=replay,
        is_idempotent=(scope["method"], route) in IDEMPOTENT_OPERATIONS,
    )


async def _store_outcome(
    app: App, request: KeyedRequest, claim: UUID, response: RecordedResponse, *, is_untouched: bool = False
) -> None:
    """Store the outcome of a request. If the request may be repeated, release its key instead."""
    org_id, digest = request.org_id, request.digest
    is_done = _is_success(response.status)
    is_refused = is_untouched and response.status < HTTPStatus.INTERNAL_SERVER_ERROR
    # The request has taken effect even if its outcome cannot be stored.
    with suppress(DatabaseUnavailable), translate_connection_errors():
        if not is_done and (is_refused or request.is_idempotent):
            await app.db.change(
                org_id,
                lambda conn: idempotency.release(conn, org_id=org_id, digest=digest, claimed=claim),
            )
            return
        body, place = _stored_body(request, bytes(response.body)) if is_done else (None, None)
        await app.db.change(
            org_id,
            lambda conn: idempotency.store_response(
                conn,
                org_id=org_id,
                digest=digest,
                claimed=claim,
                status=response.status,
                body=body,
                place=place,
            ),
        )


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _stored_body(request: KeyedRequest, body: bytes) -> tuple[bytes | None, str | None]:
    """Return the body without texts, or the path at which it is read again.

    Both are None if neither is possible.
    """
    match request.replay:
        case "whole":
            return strip_request_text(request.route, body, request.body), None
        case "memory" | "conversation":
            return None, f"/v1/{RESOURCE_PATHS[request.replay]}/{pydantic_core.from_json(body)['id']}"
        case "once" | "read":
            return None, None


def strip_request_text(route: str, response: bytes, request: bytes) -> bytes | None:
    """Return a response in which the request's texts are replaced by their positions in the request.

    Return None if the response contains other texts.
    """
    if route == RECORDS:
        return _strip_records(pydantic_core.from_json(response), _messages(request))
    if route == MESSAGES_ROUTE:
        fields = pydantic_core.from_json(response)
        for item in fields["items"]:
            # The detail may quote the skipped record.
            item["detail"] = ""
        return pydantic_core.to_json(fields)
    return response


def restore_request_text(route: str, stored: bytes, request: bytes) -> bytes:
    """Return a stored response with the request's texts put back."""
    if route != RECORDS:
        return stored
    fields: dict[str, Any] = pydantic_core.from_json(stored)
    messages = _messages(request)
    for one in fields["added"]:
        one["external_id"] = messages[one["external_id"]]["external_id"]
    for one in fields["skipped"]:
        index: int | None = one["where"]
        one["where"] = "" if index is None else record_name(messages[index], index)
    return pydantic_core.to_json(fields)


def record_name(record: Any, index: int) -> str:
    """Return the name of a record in reports.

    This is the position that the record states, its external id, or its number.
    """
    words = (_fields(record).get("where"), _fields(record).get("external_id"))
    return next((word for word in words if isinstance(word, str) and word), f"record {index + 1}")


def _fields(record: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", record) if isinstance(record, Mapping) else {}


def _messages(request: bytes) -> Sequence[Any]:
    # The route uses the same parser. Other parsers may refuse the content of a skipped record.
    return json.loads(request)["messages"]


def _strip_records(fields: dict[str, Any], messages: Sequence[Any]) -> bytes | None:
    ids = [_fields(record).get("external_id") for record in messages]
    by_id = {word: index for index, word in enumerate(ids) if isinstance(word, str)}
    by_name = {record_name(record, index): index for index, record in enumerate(messages)}
    for one in fields["added"]:
        if one["external_id"] not in by_id:
            return None
        one["external_id"] = by_id[one["external_id"]]
    for one in fields["skipped"]:
        # If a name was cut or cleaned, it does not occur in the request, and is not stored.
        one["where"], one["detail"] = by_name.get(one["where"]), ""
    return pydantic_core.to_json(fields)


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body; None if the client has disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body first."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _disconnect() -> Message:
    return {"type": "http.disconnect"}
