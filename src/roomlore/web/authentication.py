"""Authentication of the pages, and protection against requests from other sites.

After sign-in, the key is in a cookie that no script can read. A revoked key is refused at the next request. In local
mode nobody signs in: the only user is the operator at this machine. The browser must then address the machine by a
local name, because another site could make its own name resolve to this machine (DNS rebinding).
"""

import hmac
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.client.server import is_loopback
from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed
from roomlore.domain.patterns import lazy_pattern
from roomlore.http.authentication import authenticate
from roomlore.http.limits import key_of
from roomlore.operations import App
from roomlore.web.errors import JSON_SUFFIX, handle_error, handle_fault
from roomlore.web.request_context import VIEW_AS, RequestContext, clean_word

KEY = "roomlore_key"
#: Name of the cookie over TLS; sites on neighbouring domains cannot set it.
SECURE_KEY = f"__Host-{KEY}"
THEME = "roomlore_theme"
THEMES = ("auto", "light", "dark")
SIGN_IN = "/signin"
STATIC = "/static/"
#: Names of entries in the request state: the accepted key, and whether a key was rejected.
AUTHENTICATED, REJECTED = "let_in", "guessed"
FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 * 1024
#: The maximum number of bytes of the address to return to after sign-in.
LONGEST_WAY = 4096
SAFE = frozenset({"GET", "HEAD"})
#: The local names of this machine.
LOCAL_HOST = lazy_pattern(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")
#: Prefixes of headers that proxies add. A request with one of these headers does not come directly from this machine.
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded", "x-real-ip", "x-original")
#: Values of `Sec-Fetch-Site` for requests from these pages, and for addresses that the user typed.
OWN_SITES = frozenset({"same-origin", "none"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # With no-referrer, browsers would send no Origin with forms.
    "referrer-policy": "same-origin",
}


@dataclass(slots=True)
class PageAuthenticationMiddleware:
    """Admits signed-in users. Redirects everybody else to the sign-in page."""

    app: ASGIApp
    served: App
    #: Whether only the operator at this machine is admitted, without a key.
    local: bool
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            with translate_connection_errors():
                response = await self._authenticate(request)
        except HTTPException as error:
            response = await handle_error(request, error)
        except Exception as error:  # noqa: BLE001  the user gets a page without details
            response = handle_fault(scope, error)
        await (response or self.app)(scope, receive, with_page_headers(send))
        if "route" in scope:
            # The route's pattern is recorded for metrics, because the address itself may contain a question.
            scope["state"]["route"] = scope["route"].path

    async def _authenticate(self, request: Request) -> Response | None:
        """Return a redirect to the sign-in page, or None for a signed-in user.

        The user is recorded in the request state.
        """
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
        app = self.served if self.local else await authenticate_request(request, self.served, key or "")
        # This is recorded for the metrics of the org.
        request.scope["state"]["app"] = app
        by_operator = app.access.principal.is_operator
        query = QueryParams(request.url.query)
        viewing_as = clean_word(VIEW_AS, query.get(VIEW_AS))
        if viewing_as is not None:
            app = app.impersonate(await app.viewer(viewing_as))
        theme = _cookies(request, THEME)
        return RequestContext(
            app=app,
            path=request.url.path,
            query=query,
            token=self._token if self.local else form_token(key or ""),
            by_operator=by_operator,
            viewing_as=viewing_as,
            is_local=self.local,
            theme=theme[0] if theme and theme[0] in THEMES else THEMES[0],
        )


def form_token(key: str) -> str:
    """Return the token of a key holder's forms. Other sites cannot know it."""
    return hmac.digest(key.encode(), b"roomlore forms", "sha256").hex()


def key_of_request(request: Request) -> str | None:
    """Return the key in the header or a cookie.

    Raises:
        BadInput: there are several keys; another site might have set one of the cookies.
    """
    if len(request.headers.getlist("authorization")) > 1:
        raise BadInput("authorization", "is there more than once")
    in_header = key_of(request.headers)
    keys = {in_header} if in_header is not None else set[str]()
    # A neighbouring site can set the plain cookie, so it is ignored over TLS.
    for name in (SECURE_KEY,) if is_over_tls(request) else (SECURE_KEY, KEY):
        keys.update(_cookies(request, name))
    if len(keys) > 1:
        raise BadInput("keys", "there are several; remove this site's cookies")
    return next(iter(keys), None)


async def authenticate_request(request: Request, served: App, key: str) -> App:
    """Return the App on behalf of a key's holder. Record in the request state whether the key was accepted.

    Raises:
        KeyRefused: the key does not exist, has expired or was revoked.
    """
    try:
        app = await authenticate(served, key, viewer=None)
    except KeyRefused:
        request.scope["state"][REJECTED] = True
        raise
    request.scope["state"][AUTHENTICATED] = key
    return app


def is_over_tls(request: Request) -> bool:
    """Return whether the browser used TLS, to this server or to a proxy.

    A caller that sends a false header only locks itself out.
    """
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def has_fit_length(request: Request) -> bool:
    """Return whether a form states its length and is not too long."""
    length = request.headers.get("content-length", "")
    is_number = length.isascii() and length.isdigit() and len(length) <= len(str(MAX_FORM_BYTES))
    return is_number and int(length) <= MAX_FORM_BYTES


def local_path(address: str | None) -> str:
    """Return the address if it is a path of these pages, otherwise the path of the start page."""
    path = address or "/"
    # Browsers drop some characters, and read other characters as a slash.
    is_local = path.startswith("/") and _is_path(path) and path.isascii() and " " not in path
    return path if is_local and len(path) <= LONGEST_WAY else "/"


def _check_local_request(request: Request) -> None:
    """Raise NotAllowed unless a request comes directly from this machine and is for a local name."""
    names = request.headers.getlist("host")
    is_named = len(names) == 1 and LOCAL_HOST.fullmatch(names[0].lower()) is not None
    is_forwarded = any(name.startswith(FORWARDING_HEADERS) for name in request.headers)
    if request.client is None or not is_loopback(request.client.host) or not is_named or is_forwarded:
        raise NotAllowed("local pages are for this machine only: open localhost, without a proxy")


def _is_path(path: str) -> bool:
    """Return whether a link to a path leads to this site.

    Browsers drop some characters, and a link that begins with two slashes leads to another site.
    """
    return path.isprintable() and not path.startswith("//") and "\\" not in path


def _check_site(request: Request, *, local: bool) -> None:
    """Raise NotAllowed if another site loads a page.

    If the user follows a link on another site, this is allowed. In local mode, such a link may not call a language
    model, because the other site would cause the call.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "none") in OWN_SITES:
        return
    is_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    if not is_link or "sec-purpose" in headers:
        raise NotAllowed("another site loads this page; open it here")
    actions = QueryParams(request.url.query).getlist("do")
    if local and any(action.strip() == "ask" for action in actions):
        raise NotAllowed("another site asks this question; ask it here yourself")


def _check_origin(request: Request) -> None:
    """Check that a form comes from these pages.

    Raises:
        NotAllowed: another site sends it.
        BadInput: it is too long, declares no length, or has another encoding.
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
        # Multipart forms are expensive to parse, so they are refused.
        raise BadInput("form", f"must be {FORM}")


def _to_sign_in(request: Request) -> Response:
    if request.url.path.endswith(JSON_SUFFIX):
        raise KeyRefused
    query = f"?{request.url.query}" if request.url.query else ""
    back = local_path(request.url.path + query) if request.method in SAFE else "/"
    return RedirectResponse(f"{SIGN_IN}?next={quote(back, safe='/')}", HTTPStatus.SEE_OTHER)


def _cookies(request: Request, name: str) -> list[str]:
    """Return the non-empty values of all cookies with a name."""
    pairs = [cookie_parser(part) for line in request.headers.getlist("cookie") for part in line.split(";")]
    return [pair[name] for pair in pairs if pair.get(name)]


def with_page_headers(send: Send) -> Send:
    """Return a `send` that adds the security headers of pages."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
