"""What a reply generator holds: a call without parameters, wherever the rooms are."""

from collections.abc import Awaitable, Callable

from roomlore.client.protocols import Rooms
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.context.records import Context
from roomlore.domain.records import Viewer
from roomlore.domain.words import LAST


def fetcher(
    rooms: Rooms,
    viewer: Viewer,
    room: str,
    trigger: str = LAST,
    *,
    budget: int = DEFAULT_BUDGET,
    articles: bool = False,
    private: bool = False,
) -> Callable[[], Awaitable[Context]]:
    """Return a call without parameters that reads the context of a message anew each time.

    Args:
        rooms: An App or a Client.
        viewer: For whom.
        room: Name, id or external id.
        trigger: The message to answer; by default whichever is the room's last at each call.
        budget: Tokens.
        articles: Also read what the messages link to, over the network.
        private: All that the viewer may read: then nothing of it may be posted.
    """

    async def fetch() -> Context:
        return await rooms.context(viewer, room, trigger, budget=budget, articles=articles, private=private)

    return fetch
