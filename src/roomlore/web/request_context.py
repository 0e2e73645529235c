"""A visit: one request of a page, on behalf of whoever is signed in."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from roomlore.domain.errors import BadInput
from roomlore.domain.records import Viewer
from roomlore.operations import App

#: Of whom a page is shown, in its address: an operator may look at it as another.
VIEW_AS = "as"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks for which page."""

    #: Acts for the viewer.
    app: App
    path: str
    query: QueryParams
    #: What every form sends back, so that no other site can send it.
    token: str
    #: Whether whoever is signed in is an operator, whomever the page is viewed as.
    by_operator: bool
    #: The word by which another is meant, as whom an operator looks.
    viewing_as: str | None
    #: Whether there is no signing in: the page is this machine's own.
    is_local: bool
    theme: str

    @property
    def viewer(self) -> Viewer:
        """For whom the page is."""
        return self.app.access.principal

    def address(self, path: str, query: Mapping[str, object] | None = None, /, *, at: str = "") -> str:
        """Return the address of another page as the same viewer; what is None or empty is left out.

        Args:
            path: With its parts quoted, as by `at_path`.
            query: What the page is asked.
            at: The part of the page to jump to.
        """
        asked = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        if self.viewing_as is not None:
            asked[VIEW_AS] = self.viewing_as
        worded = f"?{urlencode(asked, doseq=True)}" if asked else ""
        return f"{path}{worded}{'#' + quote(at) if at else ''}"

    def twin(self) -> str:
        """Return the address of this page as JSON."""
        path = "/index" if self.path == "/" else self.path
        asked = urlencode(list(self.query.multi_items()))
        return f"{path}.json{'?' + asked if asked else ''}"

    def word(self, name: str) -> str | None:
        """Return what the address says under a name, if anything.

        Raises:
            BadInput: nobody could have typed it.
        """
        return clean_word(name, self.query.get(name))

    def number(self, name: str, default: int, *, most: int) -> int:
        """Return a number of the address.

        Raises:
            BadInput: it is no number from 1 to `most`.
        """
        word = self.word(name)
        if word is None:
            return default
        is_number = word.isascii() and word.isdigit() and len(word) <= len(str(most))
        if not (is_number and 1 <= int(word) <= most):
            raise BadInput(name, f"must be a number from 1 to {most:,}")
        return int(word)


def clean_word(name: str, text: str | None) -> str | None:
    """Return what is said under a name, if anything.

    Raises:
        BadInput: nobody could have typed it.
    """
    if text is not None and "\0" in text:
        raise BadInput(name, "holds a character that no text has")
    return None if text is None else text.strip() or None


def at_path(*parts: object) -> str:
    """Return a path of parts, each quoted."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)
