"""Patterns that are compiled when they are first looked for.

Roomlore knows hundreds of forms of speech, and most of its commands look for none of them: compiling them all took
a third of the time in which a command started.
"""

import re
from typing import Any, cast

#: What is asked of a pattern.
_ASKED = (
    "findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match", "search", "split", "sub", "subn",
)  # fmt: skip


class _Later:
    """What stands for a pattern; from the first question on it answers with the pattern's own methods."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _ASKED:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__ |= {one: getattr(compiled, one) for one in _ASKED}
        return self.__dict__[name]


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first looked for; one that makes no sense fails only then."""
    return cast("re.Pattern[str]", _Later(pattern, flags))
