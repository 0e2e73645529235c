"""Lazy package attributes. So importing the package costs nothing."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def loads(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) that imports the defining module of a name on first use."""
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(importlib.import_module(homes[name]), name)
        # Later lookups find it without this function.
        setattr(sys.modules[package], name, value)
        return value

    return load
