"""The composition root: settings in, one App out, which owns start and stop.

The only package that knows which platforms and backends there are. Every surface uses what is here.
"""

from roomlore.app.application import App
from roomlore.app.importing import READERS, preview
from roomlore.app.opening import open, prepare  # noqa: A004  read as roomlore.open

__all__ = ["READERS", "App", "open", "prepare", "preview"]
