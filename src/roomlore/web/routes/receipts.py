"""Receipts: what erasures removed, what they kept and why, what a second look found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roomlore.http.schemas import ReceiptGiven, receipt_given
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
#: The newest are shown at once.
SHOWN, MOST_SHOWN = 50, 1000
NOTICES: Mapping[str, str] = {
    "erased": "It is gone. This receipt is all that is left of it.",
    "checked": "Everything that this names was looked for once more.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsPage:
    """The newest receipts: an operator's all, everybody else's own."""

    receipts: Sequence[ReceiptGiven]
    #: How many to show to see more; None where there are no more.
    more: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptPage:
    """One receipt."""

    receipt: ReceiptGiven
    notice: str


@PAGES.page("/receipts", "receipts.html")
async def receipts(visit: RequestContext) -> ReceiptsPage:
    """Return the newest receipts."""
    limit = visit.number("limit", SHOWN, most=MOST_SHOWN)
    found = await visit.app.erasure.receipts(limit + 1)
    more = min(limit * 2, MOST_SHOWN) if len(found) > limit and limit < MOST_SHOWN else None
    return ReceiptsPage(receipts=[receipt_given(one) for one in found[:limit]], more=more)


@PAGES.page("/receipts/{receipt}", "receipt.html")
async def receipt(visit: RequestContext, receipt: str) -> ReceiptPage:
    """Return the receipt of an id."""
    found = receipt_given(await visit.app.erasure.receipt(receipt))
    return ReceiptPage(receipt=found, notice=NOTICES.get(visit.word("done") or "", ""))


@PAGES.action("/receipts/{receipt}/check")
async def check(visit: RequestContext, form: Form, receipt: str) -> str:
    """Look once more whether all that a receipt names is gone."""
    del form
    found = await visit.app.erasure.check(receipt)
    return visit.address(at_path("receipts", found.id), {"done": "checked"})
