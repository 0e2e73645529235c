"""Receipts of erasures: what was removed, what was kept and why, and the verification."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roomlore.operations.responses import ReceiptResponse, receipt_response
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
SHOWN, MOST_SHOWN = 50, 1000
NOTICES: Mapping[str, str] = {
    "erased": "It is erased. Only this receipt is left.",
    "checked": "The erasure was verified again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsPage:
    """The newest receipts. An operator gets all receipts, other users get the receipts of their own erasures."""

    receipts: Sequence[ReceiptResponse]
    #: The limit for a page with more receipts; None if there are no more receipts.
    more: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptPage:
    """One receipt."""

    receipt: ReceiptResponse
    notice: str


@PAGES.page("/receipts", "receipts.html")
async def receipts(visit: RequestContext) -> ReceiptsPage:
    """Return the newest receipts."""
    limit = visit.number("limit", SHOWN, most=MOST_SHOWN)
    found = await visit.app.erasure.receipts(limit + 1)
    more = min(limit * 2, MOST_SHOWN) if len(found) > limit and limit < MOST_SHOWN else None
    return ReceiptsPage(receipts=[receipt_response(one) for one in found[:limit]], more=more)


@PAGES.page("/receipts/{receipt}", "receipt.html")
async def receipt(visit: RequestContext, receipt: str) -> ReceiptPage:
    """Return a receipt by its id."""
    found = receipt_response(await visit.app.erasure.receipt(receipt))
    return ReceiptPage(receipt=found, notice=NOTICES.get(visit.word("done") or "", ""))


@PAGES.action("/receipts/{receipt}/verify")
async def check(visit: RequestContext, form: Form, receipt: str) -> str:
    """Verify an erasure again."""
    del form
    found = await visit.app.erasure.verify(receipt)
    return visit.address(at_path("receipts", found.id), {"done": "checked"})
