"""What goes wrong, as somebody at the other end may know it: our own errors in their words, all else without details.

A fault of ours is logged by its kind and place alone: its text may quote what somebody said.
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
FAULT = "a fault in Roomlore; nothing was left half-written"
#: Told instead of what the error says: that names servers, folders and versions.
PUBLIC_MESSAGES: Mapping[type[RoomloreError], str] = {
    QueryTimeout: "this took too long; ask for less, or later",
    DatabaseFull: "the disk of the database is full: nothing was written; whoever runs this server must make room",
    DatabaseError: "the database cannot be used now; try again later",
    ModelUnavailable: "the embedding model cannot be loaded",
}
#: Of what went wrong, in words; more is somebody's input.
MAX_MESSAGE_LENGTH = 500


class ToolError(Exception):
    """Why something was not done, in words for whoever asked."""

    def __init__(self, why: str, *, is_fault: bool = False) -> None:
        super().__init__(why)
        self.why = why
        #: Whether it is no matter of what was asked.
        self.is_fault = is_fault


async def translate_errors(call: Awaitable[Result]) -> Result:
    """Return what a call returns.

    Raises:
        Refused: it ended in an error, of whatever kind.
    """
    try:
        with translate_connection_errors():
            return await call
    except RoomloreError as error:
        instead = next((text for kind, text in PUBLIC_MESSAGES.items() if isinstance(error, kind)), None)
        # Where several are meant the error names them, and names are people's words: in brackets, on one line.
        raise ToolError(instead or _shortened(str(error)), is_fault=instead is not None) from None
    except ToolError:
        raise
    except Exception as error:  # noqa: BLE001  the last resort: nobody is told what it says
        place = extract_tb(error.__traceback__)[-1]
        LOG.error(  # noqa: TRY400  its traceback would quote what was said
            "unexpected %s at %s:%s", type(error).__name__, Path(place.filename).name, place.lineno
        )
        raise ToolError(FAULT, is_fault=True) from None


def _shortened(text: str) -> str:
    line = as_one_line(text)
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"
