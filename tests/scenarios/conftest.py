"""Places in which stories happen."""

import pytest

from roomlore.app import App
from scenarios.kilnhouse import TOLD, tell


@pytest.fixture
async def house(app: App) -> App:
    """Kiln House after all that was said there."""
    return await tell(app, *TOLD)
