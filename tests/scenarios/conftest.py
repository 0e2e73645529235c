"""Places in which stories happen."""

import pytest

from conftest import TellOnce
from roomlore.operations import App
from scenarios.kilnhouse import TOLD, tell


async def kiln_house(app: App) -> None:
    """Tell all that was said there."""
    await tell(app, *TOLD)


@pytest.fixture
async def house(app: App, tell_once: TellOnce) -> App:
    """Kiln House after all that was said there."""
    await tell_once(app, kiln_house)
    return app
