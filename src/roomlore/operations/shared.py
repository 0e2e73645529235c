"""What all on whose behalf one App acts have in common, each loaded and made when it is first asked for."""

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.agents.section_cache import SectionCache
    from roomlore.operations.candidates import ProjectionClients
    from roomlore.operations.embedding_models import ModelCache
    from roomlore.operations.events import Notifier
    from roomlore.operations.intake import AnalyzeTrigger


class Shared:
    """Models, blocks, notices, counts and connections: one of each, whoever calls."""

    @cached_property
    def loading(self) -> "ModelCache":
        """Loads each embedding model once."""
        from roomlore.operations.embedding_models import ModelCache

        return ModelCache()

    @cached_property
    def blocks(self) -> "SectionCache":
        """Memory blocks that are kept for a while."""
        from roomlore.agents.section_cache import SectionCache

        return SectionCache()

    @cached_property
    def bell(self) -> "Notifier":
        """Wakes whoever waits for changes."""
        from roomlore.operations.events import Notifier

        return Notifier()

    @cached_property
    def growth(self) -> "AnalyzeTrigger":
        """Counts what was stored."""
        from roomlore.operations.intake import AnalyzeTrigger

        return AnalyzeTrigger()

    @cached_property
    def servers(self) -> "ProjectionClients":
        """Connections to servers that hold copies."""
        from roomlore.operations.candidates import ProjectionClients

        return ProjectionClients()

    async def close(self) -> None:
        """Give up the connections, where there are any."""
        if "servers" in vars(self):
            await self.servers.close()
