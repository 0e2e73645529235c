"""Names of a package that are loaded when they are first asked for, so that importing the package costs nothing."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def loads(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562): it imports a name's module the first time the name is used.

    Args:
        package: The name of the package.
        modules: The names of the package that each module defines.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(importlib.import_module(homes[name]), name)
        # From now on it is found without asking here.
        setattr(sys.modules[package], name, value)
        return value

    return load
