"""Routes of pages and actions.

One view returns the record of a page. The record is served as HTML and, with `.json`, as JSON.
"""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeVar

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.http.responses import json_response
from roomlore.web.rendering import render
from roomlore.web.request_context import RequestContext, clean_word

#: Returns the record of a page. Called with (visit, **path parameters).
View = TypeVar("View", bound=Callable[..., Awaitable[object]])
#: Executes a form and returns the address of the next page. Called with (visit, form, **path parameters).
FormAction = Callable[..., Awaitable[str]]
MOST_FIELDS = 100
#: The suffix of the path of a page's preview.
PREVIEW_SUFFIX = "/look"
#: The field with the token.
TOKEN = "token"  # noqa: S105  a name, not a secret


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form."""

    data: FormData

    def word(self, name: str) -> str:
        """Return a field.

        Raises:
            BadInput: the field is missing or empty.
        """
        word = self.optional(name)
        if word is None:
            raise BadInput(name, "must not be empty")
        return word

    def optional(self, name: str) -> str | None:
        """Return a field; None if it is missing or empty."""
        value = self.data.get(name)
        return clean_word(name, value) if isinstance(value, str) else None

    def words(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [
            value for value in self.data.getlist(name) if isinstance(value, str) and clean_word(name, value)
        ]

    def is_checked(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return self.optional(name) is not None


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """The routes of related pages."""

    routes: list[Route] = field(default_factory=list[Route])

    def page(self, path: str, template: str) -> Callable[[View], View]:
        """Serve a view as a page, and as JSON at the same path with `.json`."""

        def register(view: View) -> View:
            async def as_page(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                record = await view(visit, **request.path_params)
                return render(template, visit, {"page": record})

            async def as_json(request: Request) -> Response:
                return json_response(await view(request.state.visit, **request.path_params))

            json_path = "/index.json" if path == "/" else f"{path}.json"
            self.routes.append(Route(json_path, as_json, methods=["GET"]))
            self.routes.append(Route(path, as_page, methods=["GET"]))
            return view

        return register

    def fragment(self, path: str, template: str) -> Callable[[View], View]:
        """Serve a view as a part of a page, for scripts."""

        def register(view: View) -> View:
            async def as_fragment(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                return render(template, visit, {"page": await view(visit, **request.path_params)})

            self.routes.append(Route(path, as_fragment, methods=["GET"]))
            return view

        return register

    def raw(self, path: str, serve: Callable[[Request], Awaitable[Response]]) -> None:
        """Serve a response other than a page, such as a stream."""
        self.routes.append(Route(path, serve, methods=["GET"]))

    def preview(self, path: str, template: str) -> Callable[[View], View]:
        """Serve an expensive view as the response to a form with a token. So no link can request the view."""

        def register(view: View) -> View:
            async def as_preview(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                async with request.form(max_files=0, max_fields=MOST_FIELDS) as data:
                    check_token(Form(data), visit)
                record = await view(visit, **request.path_params)
                # Links in the preview lead to the page itself, not to the preview.
                here = replace(visit, path=visit.path.removesuffix(PREVIEW_SUFFIX))
                return render(template, here, {"page": record})

            self.routes.append(Route(f"{path}{PREVIEW_SUFFIX}", as_preview, methods=["POST"]))
            return view

        return register

    def action(self, path: str) -> Callable[[FormAction], FormAction]:
        """Execute a form, and redirect to the address that the action returns."""

        def register(action: FormAction) -> FormAction:
            async def as_action(request: Request) -> Response:
                async with request.form(max_files=0, max_fields=MOST_FIELDS) as data:
                    check_token(Form(data), request.state.visit)
                    address = await action(request.state.visit, Form(data), **request.path_params)
                return RedirectResponse(address, HTTPStatus.SEE_OTHER)

            self.routes.append(Route(path, as_action, methods=["POST"]))
            return action

        return register


def check_token(form: Form, context: RequestContext) -> None:
    """Raise NotAllowed if a form does not have the token of its sender."""
    if not hmac.compare_digest((form.optional(TOKEN) or "").encode(), context.token.encode()):
        raise NotAllowed("this form is too old; reload its page")


def all_routes(*kinds: PageRoutes) -> list[Route]:
    """Return all routes.

    Routes of JSON come first, because `x.json` would otherwise be taken for the name of a room.
    """
    routes = [route for kind in kinds for route in kind.routes]
    return sorted(routes, key=lambda route: not route.path.endswith(".json"))
