"""The operations of Roomlore: services, and the `App` that combines them.

Only this package knows every platform and backend. All interfaces use it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.operations.application import App
    from roomlore.operations.imports import READERS, preview
    from roomlore.operations.startup import open, prepare  # noqa: A004  read as roomlore.open
else:
    from roomlore.domain.lazy_loading import loads

    __getattr__ = loads(
        __name__,
        {
            "roomlore.operations.application": ["App"],
            "roomlore.operations.imports": ["READERS", "preview"],
            "roomlore.operations.startup": ["open", "prepare"],
        },
    )

__all__ = ["READERS", "App", "open", "prepare", "preview"]
