"""Pages and actions: a view returns a record, which is shown as a page and, at `….json`, as its twin.

One view makes both, so that neither can show what the other would not.
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

#: Makes the record of a page: (visit, **parts of the path).
View = TypeVar("View", bound=Callable[..., Awaitable[object]])
#: Does what a form asks for and returns where to go: (visit, form, **parts of the path).
FormAction = Callable[..., Awaitable[str]]
MOST_FIELDS = 100
#: Below a page, where it looks closer.
PREVIEW_SUFFIX = "/look"
#: What a form sends back under this name.
TOKEN = "token"  # noqa: S105  a name, not a secret


@dataclass(frozen=True, slots=True)
class Form:
    """What a form says."""

    data: FormData

    def word(self, name: str) -> str:
        """Return what is said under a name.

        Raises:
            BadInput: nothing is.
        """
        word = self.optional(name)
        if word is None:
            raise BadInput(name, "must say something")
        return word

    def optional(self, name: str) -> str | None:
        """Return what is said under a name, if anything.

        Raises:
            BadInput: nobody could have typed it.
        """
        words = self.data.get(name)
        return clean_word(name, words) if isinstance(words, str) else None

    def words(self, name: str) -> list[str]:
        """Return all that is said under a name."""
        return [one for one in self.data.getlist(name) if isinstance(one, str) and clean_word(name, one)]

    def is_checked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.optional(name) is not None


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """Pages of one kind of thing, as routes."""

    routes: list[Route] = field(default_factory=list[Route])

    def page(self, path: str, template: str) -> Callable[[View], View]:
        """Show what a view returns by a template, and as JSON at the same path and `.json`."""

        def kept(view: View) -> View:
            async def as_page(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                record = await view(visit, **request.path_params)
                return render(template, visit, {"page": record})

            async def as_twin(request: Request) -> Response:
                return json_response(await view(request.state.visit, **request.path_params))

            twin = "/index.json" if path == "/" else f"{path}.json"
            self.routes.append(Route(twin, as_twin, methods=["GET"]))
            self.routes.append(Route(path, as_page, methods=["GET"]))
            return view

        return kept

    def fragment(self, path: str, template: str) -> Callable[[View], View]:
        """Show what a view returns as a part of a page, for scripts; it has no twin, its page has."""

        def kept(view: View) -> View:
            async def as_fragment(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                return render(template, visit, {"page": await view(visit, **request.path_params)})

            self.routes.append(Route(path, as_fragment, methods=["GET"]))
            return view

        return kept

    def raw(self, path: str, serve: Callable[[Request], Awaitable[Response]]) -> None:
        """Serve what is neither page nor record, such as a stream."""
        self.routes.append(Route(path, serve, methods=["GET"]))

    def preview(self, path: str, template: str) -> Callable[[View], View]:
        """Show what a view returns on a page to whoever sends a form below it: what costs too much for a link."""

        def kept(view: View) -> View:
            async def as_look(request: Request) -> Response:
                visit: RequestContext = request.state.visit
                async with request.form(max_files=0, max_fields=MOST_FIELDS) as sent:
                    check_token(Form(sent), visit)
                record = await view(visit, **request.path_params)
                # The page it is on has a twin, and can be gone back to.
                here = replace(visit, path=visit.path.removesuffix(PREVIEW_SUFFIX))
                return render(template, here, {"page": record})

            self.routes.append(Route(f"{path}{PREVIEW_SUFFIX}", as_look, methods=["POST"]))
            return view

        return kept

    def action(self, path: str) -> Callable[[FormAction], FormAction]:
        """Do what a form sent to a path asks for, and go where the deed says."""

        def kept(deed: FormAction) -> FormAction:
            async def as_deed(request: Request) -> Response:
                async with request.form(max_files=0, max_fields=MOST_FIELDS) as said:
                    check_token(Form(said), request.state.visit)
                    where = await deed(request.state.visit, Form(said), **request.path_params)
                return RedirectResponse(where, HTTPStatus.SEE_OTHER)

            self.routes.append(Route(path, as_deed, methods=["POST"]))
            return deed

        return kept


def check_token(form: Form, context: RequestContext) -> None:
    """Do nothing if a form is one that was shown to whoever sends it.

    Raises:
        NotAllowed: it is not.
    """
    if not hmac.compare_digest((form.optional(TOKEN) or "").encode(), context.token.encode()):
        raise NotAllowed("this form is too old; load its page again")


def all_routes(*kinds: PageRoutes) -> list[Route]:
    """Return the routes of all, twins first: a name that ends in .json is no room's."""
    routes = [route for kind in kinds for route in kind.routes]
    return sorted(routes, key=lambda route: not route.path.endswith(".json"))
