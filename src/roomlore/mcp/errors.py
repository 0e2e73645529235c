"""Errors as a client may see them.

Errors of Roomlore keep their text, unless the text names servers, folders or versions. All other errors are bugs. The
client gets no details of a bug. Only its type and line are logged, because its text may quote messages.
"""

import logging
from collections.abc import Awaitable, Mapping
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import DatabaseError, DatabaseFull, ModelUnavailable, QueryTimeout, RoomloreError
from roomlore.domain.rendering import as_one_line

Result = TypeVar("Result")

LOG = logging.getLogger(__name__)
FAULT = "a bug in Roomlore; nothing was left half-written"
#: This replaces the text of errors that name servers, folders and versions.
PUBLIC_MESSAGES: Mapping[type[RoomloreError], str] = {
    QueryTimeout: "this took too long; ask for less, or later",
    DatabaseFull: "the disk of the database is full: nothing was written; the operator must free space",
    DatabaseError: "the database cannot be used now; try again later",
    ModelUnavailable: "the embedding model cannot be loaded",
}
MAX_MESSAGE_LENGTH = 500


class ToolError(Exception):
    """An error with a text for the client."""

    def __init__(self, why: str, *, is_fault: bool = False) -> None:
        super().__init__(why)
        self.why = why
        #: Whether the server, and not the request, is at fault.
        self.is_fault = is_fault


async def translate_errors(call: Awaitable[Result]) -> Result:
    """Return the result of a call. Raise ToolError for every error."""
    try:
        with translate_connection_errors():
            return await call
    except RoomloreError as error:
        instead = next((text for kind, text in PUBLIC_MESSAGES.items() if isinstance(error, kind)), None)
        # An error may list names that people chose. So its text is kept on one line.
        raise ToolError(instead or _shortened(str(error)), is_fault=instead is not None) from None
    except ToolError:
        raise
    except Exception as error:  # noqa: BLE001  a bug: its text is not shown
        place = extract_tb(error.__traceback__)[-1]
        LOG.error(  # noqa: TRY400  its traceback could quote messages
            "unexpected %s at %s:%s", type(error).__name__, Path(place.filename).name, place.lineno
        )
        raise ToolError(FAULT, is_fault=True) from None


def _shortened(text: str) -> str:
    line = as_one_line(text)
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"
