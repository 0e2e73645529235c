"""What all on whose behalf one App acts have in common, each loaded and made when it is first asked for."""

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.agents.blocks import SectionCache
    from roomlore.app.embedding import ModelCache
    from roomlore.app.events import Notifier
    from roomlore.app.growth import AnalyzeTrigger
    from roomlore.app.proposing import ProjectionClients


class Shared:
    """Models, blocks, notices, counts and connections: one of each, whoever calls."""

    @cached_property
    def loading(self) -> "ModelCache":
        """Loads each embedding model once."""
        from roomlore.app.embedding import ModelCache

        return ModelCache()

    @cached_property
    def blocks(self) -> "SectionCache":
        """Memory blocks that are kept for a while."""
        from roomlore.agents.blocks import SectionCache

        return SectionCache()

    @cached_property
    def bell(self) -> "Notifier":
        """Wakes whoever waits for changes."""
        from roomlore.app.events import Notifier

        return Notifier()

    @cached_property
    def growth(self) -> "AnalyzeTrigger":
        """Counts what was stored."""
        from roomlore.app.growth import AnalyzeTrigger

        return AnalyzeTrigger()

    @cached_property
    def servers(self) -> "ProjectionClients":
        """Connections to servers that hold copies."""
        from roomlore.app.proposing import ProjectionClients

        return ProjectionClients()

    async def close(self) -> None:
        """Give up the connections, where there are any."""
        if "servers" in vars(self):
            await self.servers.close()
