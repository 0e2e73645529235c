"""The door of the pages: who comes in, by which proof, and what no other site can have them do.

Whoever signs in has their key in a cookie that no script can read; a key that is revoked ends with the next page. In
local mode nobody signs in: there is one operator, whoever sits at this machine, and only a browser that asks for the
machine by a name of its own is served, since another site's name can be made to lead here (DNS rebinding).
"""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed
from roomlore.domain.patterns import lazy_pattern
from roomlore.http.authentication import authenticate
from roomlore.http.limits import key_of
from roomlore.operations import App
from roomlore.web.errors import JSON_SUFFIX, handle_error, handle_fault
from roomlore.web.request_context import VIEW_AS, RequestContext, clean_word

KEY = "roomlore_key"
#: Over TLS the same under a name that no neighbouring site can set.
SECURE_KEY = f"__Host-{KEY}"
THEME = "roomlore_theme"
THEMES = ("auto", "light", "dark")
SIGN_IN = "/signin"
STATIC = "/static/"
#: Where the state of a request holds the key that got in, or that one was shown which is none.
AUTHENTICATED, REJECTED = "let_in", "guessed"
#: How forms are written.
FORM = "application/x-www-form-urlencoded"
#: Bytes of a form.
MAX_FORM_BYTES = 64 * 1024
#: Bytes of an address to go on to.
LONGEST_WAY = 4096
SAFE = frozenset({"GET", "HEAD"})
#: The names by which a browser asks for this machine.
LOCAL_HOST = lazy_pattern(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")
#: What whoever stands between adds, by how it begins: then it is not this machine that asks.
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded", "x-real-ip", "x-original")
#: Who has a browser ask: a page of ours, or whoever sits before it.
OWN_SITES = frozenset({"same-origin", "none"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # With none at all, browsers do not even tell us that a form is our own.
    "referrer-policy": "same-origin",
}


@dataclass(slots=True)
class PageAuthenticationMiddleware:
    """Lets in whoever may come in."""

    app: ASGIApp
    served: App
    #: Whether this machine's own operator is let in without a key, and nobody else.
    local: bool
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            with translate_connection_errors():
                answer = await self._authenticate(request)
        except HTTPException as error:
            answer = await handle_error(request, error)
        except Exception as error:  # noqa: BLE001  whatever it is, whoever asks is told, and told no details
            answer = handle_fault(scope, error)
        await (answer or self.app)(scope, receive, with_page_headers(send))
        if "route" in scope:
            # By its pattern, for the metrics: an address tells what was asked.
            scope["state"]["route"] = scope["route"].path

    async def _authenticate(self, request: Request) -> Response | None:
        """Return why a request is not let in; or note who comes, and return None."""
        if self.local:
            _check_local_request(request)
        if request.method not in {*SAFE, "POST"}:
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD, POST"})
        if not _is_path(request.scope["path"]):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        _check_site(request, local=self.local)
        if request.url.path.startswith(STATIC):
            return None
        if request.method not in SAFE:
            _check_origin(request)
        if request.url.path == SIGN_IN:
            request.scope["state"]["visit"] = None
            return RedirectResponse("/", HTTPStatus.SEE_OTHER) if self.local else None
        key = None if self.local else key_of_request(request)
        if not self.local and key is None:
            return _to_sign_in(request)
        try:
            request.scope["state"]["visit"] = await self._request_context(request, key)
        except KeyRefused:
            if key_of(request.headers) or request.url.path.endswith(JSON_SUFFIX):
                raise
            return _to_sign_in(request)
        return None

    async def _request_context(self, request: Request, key: str | None) -> RequestContext:
        acting = self.served if self.local else await authenticate_request(request, self.served, key or "")
        # For the metrics, which are each org's own.
        request.scope["state"]["app"] = acting
        by_operator = acting.access.principal.is_operator
        query = QueryParams(request.url.query)
        viewing_as = clean_word(VIEW_AS, query.get(VIEW_AS))
        if viewing_as is not None:
            acting = acting.acting(await acting.viewer(viewing_as))
        theme = _cookies(request, THEME)
        return RequestContext(
            app=acting,
            path=request.url.path,
            query=query,
            token=self._token if self.local else form_token(key or ""),
            by_operator=by_operator,
            viewing_as=viewing_as,
            is_local=self.local,
            theme=theme[0] if theme and theme[0] in THEMES else THEMES[0],
        )


def form_token(key: str) -> str:
    """Return what the forms of whoever holds a key send back: no other site can know it."""
    return hmac.digest(key.encode(), b"roomlore forms", "sha256").hex()


def key_of_request(request: Request) -> str | None:
    """Return the key that a request shows, in its header or in a cookie.

    Raises:
        BadInput: it shows several: somebody else may have set one of them.
    """
    if len(request.headers.getlist("authorization")) > 1:
        raise BadInput("authorization", "is there more than once")
    given = key_of(request.headers)
    shown = {given} if given is not None else set[str]()
    # A neighbouring site can set the plain one, so that over TLS it is nobody's.
    for name in (SECURE_KEY,) if is_over_tls(request) else (SECURE_KEY, KEY):
        shown.update(_cookies(request, name))
    if len(shown) > 1:
        raise BadInput("keys", "there are several, and none is believed; remove this site's cookies")
    return next(iter(shown), None)


async def authenticate_request(request: Request, served: App, key: str) -> App:
    """Return the App on behalf of whoever holds a key, and note whether it is one.

    Raises:
        KeyRefused: there is no such key, or it has expired or was revoked.
    """
    try:
        acting = await authenticate(served, key, viewer=None)
    except KeyRefused:
        request.scope["state"][REJECTED] = True
        raise
    request.scope["state"][AUTHENTICATED] = key
    return acting


def is_over_tls(request: Request) -> bool:
    """Whether a browser sent a request over TLS, which what stands in front may speak for us.

    Saying so falsely keeps out only whoever says it.
    """
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def has_fit_length(request: Request) -> bool:
    """Whether a form says how large it is, and is not larger than any of ours."""
    length = request.headers.get("content-length", "")
    is_number = length.isascii() and length.isdigit() and len(length) <= len(str(MAX_FORM_BYTES))
    return is_number and int(length) <= MAX_FORM_BYTES


def local_path(address: str | None) -> str:
    """Return a path of these pages, whatever an address says to go to."""
    way = address or "/"
    # What browsers leave out of an address, or read as a slash, could make two of one.
    is_within = way.startswith("/") and _is_path(way) and way.isascii() and " " not in way
    return way if is_within and len(way) <= LONGEST_WAY else "/"


def _check_local_request(request: Request) -> None:
    """Do nothing if a request comes from this machine and asks for it by a name of its own.

    Raises:
        NotAllowed: it does not.
    """
    names = request.headers.getlist("host")
    is_named = len(names) == 1 and LOCAL_HOST.fullmatch(names[0].lower()) is not None
    is_forwarded = any(name.startswith(FORWARDING_HEADERS) for name in request.headers)
    if request.client is None or not _is_loopback(request.client.host) or not is_named or is_forwarded:
        raise NotAllowed("local pages are for this machine alone: ask for localhost, and through nobody else")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_path(path: str) -> bool:
    """Whether a link to a path leads back here: browsers drop some signs, and read two slashes as another site."""
    return path.isprintable() and not path.startswith("//") and "\\" not in path


def _check_site(request: Request, *, local: bool) -> None:
    """Do nothing if a page of ours has a browser ask, or another's link that somebody follows.

    Following one asks no language model where nobody signs in: it is somebody else who has it asked.

    Raises:
        NotAllowed: another site loads something of ours.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "none") in OWN_SITES:
        return
    is_followed = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    if not is_followed or "sec-purpose" in headers:
        raise NotAllowed("another site asks for this; open it here")
    asked = QueryParams(request.url.query).getlist("do")
    if local and any(one.strip() == "ask" for one in asked):
        raise NotAllowed("another site asks this; ask it here yourself")


def _check_origin(request: Request) -> None:
    """Do nothing if a form was on a page of ours.

    Raises:
        NotAllowed: another site sends it.
        BadInput: it is larger than any form of ours, or says not how large, or is written as none of ours is.
    """
    origins, site = request.headers.getlist("origin"), request.headers.get("sec-fetch-site", "same-origin")
    host = request.headers.get("host", "")
    foreign = any(origin not in {f"http://{host}", f"https://{host}"} for origin in origins)
    if foreign or site not in OWN_SITES:
        raise NotAllowed("another site sends this form")
    if not has_fit_length(request):
        raise BadInput("form", f"must be at most {MAX_FORM_BYTES // 1024} KB")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind != FORM:
        # No parts, of which each may be written in letters that are dear to read.
        raise BadInput("form", f"must be {FORM}")


def _to_sign_in(request: Request) -> Response:
    if request.url.path.endswith(JSON_SUFFIX):
        raise KeyRefused
    asked = f"?{request.url.query}" if request.url.query else ""
    back = local_path(request.url.path + asked) if request.method in SAFE else "/"
    return RedirectResponse(f"{SIGN_IN}?next={quote(back, safe='/')}", HTTPStatus.SEE_OTHER)


def _cookies(request: Request, name: str) -> list[str]:
    """Return what cookies of a name hold; an empty one holds nothing."""
    pairs = [cookie_parser(part) for line in request.headers.getlist("cookie") for part in line.split(";")]
    return [pair[name] for pair in pairs if pair.get(name)]


def with_page_headers(send: Send) -> Send:
    """Return a way to send that gives each page the headers of all."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sealed
