"""Sign-in, sign-out, and the theme of the pages."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed
from roomlore.web.authentication import (
    KEY,
    SECURE_KEY,
    SIGN_IN,
    THEME,
    THEMES,
    authenticate_request,
    is_over_tls,
    local_path,
)
from roomlore.web.pages import MOST_FIELDS, Form, PageRoutes, check_token
from roomlore.web.rendering import render

PAGES = PageRoutes()
#: Seconds for which a browser keeps the theme.
YEAR = 365 * 24 * 3600


async def _sign_in_page(request: Request) -> Response:
    return render("signin.html", None, {"next": local_path(request.query_params.get("next")), "refused": ""})


async def _sign_in(request: Request) -> Response:
    async with request.form(max_files=0, max_fields=MOST_FIELDS) as data:
        form = Form(data)
        key, where = form.optional("key") or "", local_path(form.optional("next"))
    try:
        await authenticate_request(request, request.app.state.served, key)
    except (BadInput, KeyRefused, NotAllowed) as error:
        refused = {"next": where, "refused": str(error)}
        return render("signin.html", None, refused, status=HTTPStatus.UNAUTHORIZED)
    response = RedirectResponse(where, HTTPStatus.SEE_OTHER)
    secure = is_over_tls(request)
    response.set_cookie(SECURE_KEY if secure else KEY, key, httponly=True, samesite="lax", secure=secure)
    return response


async def _sign_out(request: Request) -> Response:
    async with request.form(max_files=0, max_fields=MOST_FIELDS) as data:
        check_token(Form(data), request.state.visit)
    response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    response.delete_cookie(KEY, httponly=True, samesite="lax")
    response.delete_cookie(SECURE_KEY, httponly=True, samesite="lax", secure=True)
    return response


async def _theme(request: Request) -> Response:
    async with request.form(max_files=0, max_fields=MOST_FIELDS) as data:
        form = Form(data)
        check_token(form, request.state.visit)
        theme, where = form.word("theme"), local_path(form.optional("next"))
    if theme not in THEMES:
        raise BadInput("theme", f"must be one of {', '.join(THEMES)}")
    response = RedirectResponse(where, HTTPStatus.SEE_OTHER)
    response.set_cookie(THEME, theme, max_age=YEAR, httponly=True, samesite="lax")
    return response


PAGES.routes.extend(
    [
        Route(SIGN_IN, _sign_in_page, methods=["GET"]),
        Route(SIGN_IN, _sign_in, methods=["POST"]),
        Route("/signout", _sign_out, methods=["POST"]),
        Route("/theme", _theme, methods=["POST"]),
    ]
)
