"""What all on whose behalf one App acts have in common, each loaded and made when it is first asked for."""

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.agents.blocks import Blocks
    from roomlore.app.embedding import Loading
    from roomlore.app.events import Bell
    from roomlore.app.growth import Growth
    from roomlore.app.proposing import Servers


class Shared:
    """Models, blocks, notices, counts and connections: one of each, whoever calls."""

    @cached_property
    def loading(self) -> "Loading":
        """Loads each embedding model once."""
        from roomlore.app.embedding import Loading

        return Loading()

    @cached_property
    def blocks(self) -> "Blocks":
        """Memory blocks that are kept for a while."""
        from roomlore.agents.blocks import Blocks

        return Blocks()

    @cached_property
    def bell(self) -> "Bell":
        """Wakes whoever waits for changes."""
        from roomlore.app.events import Bell

        return Bell()

    @cached_property
    def growth(self) -> "Growth":
        """Counts what was stored."""
        from roomlore.app.growth import Growth

        return Growth()

    @cached_property
    def servers(self) -> "Servers":
        """Connections to servers that hold copies."""
        from roomlore.app.proposing import Servers

        return Servers()

    async def close(self) -> None:
        """Give up the connections, where there are any."""
        if "servers" in vars(self):
            await self.servers.close()
