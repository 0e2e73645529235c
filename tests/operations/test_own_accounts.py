"""What is somebody's own is theirs by the accounts of now, and not by those of when they came in."""

from collections.abc import Awaitable, Callable

import pytest

from conftest import TellOnce
from ingest.stories import author
from operations.village import SQUARE, error_of, say, whole_village
from roomlore.domain.errors import NotAllowed
from roomlore.operations import App

PAL = author("pal", kind="agent")


@pytest.fixture
async def parted(app: App, tell_once: TellOnce) -> tuple[App, App]:
    """The operator, and Pip, who came in while Pal was another account of the same person."""
    await tell_once(app, whole_village)
    await app.ingest(say(20, PAL, SQUARE, body="Pal's own."))
    await app.memories.remember("Pal handles billing", about=["pal"])
    await app.people.merge("pip", "pal")
    pip = app.impersonate(await app.viewer("pip"))
    assert len(pip.principal.accounts) == 1
    await app.people.split("pal")
    return app, pip


async def billing(app: App) -> str:
    [held] = [one for one in await app.memories.all(app.operator) if "billing" in one.content]
    return str(held.id)


Change = Callable[[App, str], Awaitable[object]]
CHANGES: dict[str, Change] = {
    "edit": lambda pip, _: pip.intake.edit("m20", "Pip's words"),
    "redact": lambda pip, _: pip.erasure.redact("m20"),
    "erase": lambda pip, _: pip.erasure.message("m20"),
    "correct": lambda pip, memory: pip.memories.correct(memory, "Pip approves refunds"),
    "forget": lambda pip, memory: pip.memories.archive(memory),
    "supersede": lambda pip, memory: pip.memories.remember("Pip approves refunds", supersedes=memory),
    "state as": lambda pip, _: pip.memories.remember("Pal is away", by="pal"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
async def test_an_account_that_was_split_off_is_somebody_else_at_once(
    parted: tuple[App, App], change: Change
) -> None:
    operator, pip = parted
    assert (await error_of(change(pip, await billing(operator))))[0] is NotAllowed
    assert "Pal's own." in {one.body for one in await operator.messages(operator.operator, "square")}
