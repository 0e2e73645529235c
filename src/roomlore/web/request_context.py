"""The request context of a page: who views the page, and its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from roomlore.domain.errors import BadInput
from roomlore.domain.records import Viewer
from roomlore.operations import App

#: The name of the query parameter with which an operator views a page as another participant.
VIEW_AS = "as"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The request of a page, with its viewer and address."""

    app: App
    path: str
    query: QueryParams
    #: The token of forms. Without it, other sites cannot send forms.
    token: str
    #: Whether the signed-in user is an operator, even while viewing as somebody else.
    by_operator: bool
    #: The name of the participant as whom an operator views the page; None if the operator does not do this.
    viewing_as: str | None
    #: Whether the pages are only for the operator at this machine, without sign-in.
    is_local: bool
    theme: str

    @property
    def viewer(self) -> Viewer:
        """The viewer of the page."""
        return self.app.access.principal

    def address(self, path: str, query: Mapping[str, object] | None = None, /, *, at: str = "") -> str:
        """Return the address of another page for the same viewer.

        `at` is the fragment. Query parameters with empty values are left out.
        """
        values = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        if self.viewing_as is not None:
            values[VIEW_AS] = self.viewing_as
        query_string = f"?{urlencode(values, doseq=True)}" if values else ""
        return f"{path}{query_string}{'#' + quote(at) if at else ''}"

    def twin(self) -> str:
        """Return the address of this page as JSON."""
        path = "/index" if self.path == "/" else self.path
        query_string = urlencode(list(self.query.multi_items()))
        return f"{path}.json{'?' + query_string if query_string else ''}"

    def word(self, name: str) -> str | None:
        """Return a query parameter; None if it is missing or empty."""
        return clean_word(name, self.query.get(name))

    def number(self, name: str, default: int, *, most: int) -> int:
        """Return a number of the query, or the default. Raise BadInput unless the number is from 1 to `most`."""
        word = self.word(name)
        if word is None:
            return default
        is_number = word.isascii() and word.isdigit() and len(word) <= len(str(most))
        if not (is_number and 1 <= int(word) <= most):
            raise BadInput(name, f"must be a number from 1 to {most:,}")
        return int(word)


def clean_word(name: str, text: str | None) -> str | None:
    """Return a stripped text; None if it is missing or empty. Raise BadInput if it contains a NUL."""
    if text is not None and "\0" in text:
        raise BadInput(name, "holds a character that no text has")
    return None if text is None else text.strip() or None


def at_path(*parts: object) -> str:
    """Return the path that consists of these parts. Each part is percent-encoded."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)
