"""The composition root: settings in, one App out, which owns start and stop.

The only package that knows which platforms and backends there are. Every surface uses what is here.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.app.application import App
    from roomlore.app.importing import READERS, preview
    from roomlore.app.opening import open, prepare  # noqa: A004  read as roomlore.open
else:
    from roomlore.domain.loading import loads

    __getattr__ = loads(
        __name__,
        {
            "roomlore.app.application": ["App"],
            "roomlore.app.importing": ["READERS", "preview"],
            "roomlore.app.opening": ["open", "prepare"],
        },
    )

__all__ = ["READERS", "App", "open", "prepare", "preview"]
