"""All patterns that read user text. They are compiled lazily, and their input is limited.

Compiling hundreds of patterns took a third of the start-up time of a command that uses none of them. User text is
hostile, and a pattern holds the interpreter until it is done. So every pattern takes time linear in its text, or limits
the length of the text. `tests/domain/test_patterns_grow.py` checks each of them.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

#: No sentence is longer.
MAX_SENTENCE_LENGTH = 600

_PATTERN_METHODS = (
    "findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match", "search", "split", "sub", "subn",
)  # fmt: skip


class LazyPattern:
    """A stand-in for a pattern that compiles it on first use."""

    def __init__(self, pattern: str, flags: int, most: int | None) -> None:
        self.pattern = pattern
        #: The maximum length of the input. None means no limit; this is for patterns that take linear time.
        self.most = most
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _PATTERN_METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__ |= {one: getattr(compiled, one) for one in _PATTERN_METHODS}
        if self.most is not None:
            self.__dict__ |= _bounded_methods(compiled, self.most)
        return self.__dict__[name]


def lazy_pattern(pattern: str, flags: int = 0, *, most: int | None = None) -> re.Pattern[str]:
    """Return a pattern that is compiled on first use. An invalid pattern fails only then.

    A pattern that does not take linear time needs `most`: it finds nothing in a text of more than so many characters.
    """
    return cast("re.Pattern[str]", LazyPattern(pattern, flags, most))


#: A pattern for single sentences.
sentence_pattern = partial(lazy_pattern, most=MAX_SENTENCE_LENGTH)


def _bounded_methods(compiled: re.Pattern[str], most: int) -> Mapping[str, Callable[..., Any]]:
    def bounded(name: str, nothing: Callable[[], Any]) -> Callable[..., Any]:
        method = getattr(compiled, name)

        def call(text: str, pos: int = 0, endpos: int = sys.maxsize) -> Any:
            return method(text, pos, endpos) if min(endpos, len(text)) - pos <= most else nothing()

        return call

    def subn(repl: Any, text: str, count: int = 0) -> tuple[str, int]:
        return compiled.subn(repl, text, count) if len(text) <= most else (text, 0)

    def sub(repl: Any, text: str, count: int = 0) -> str:
        return subn(repl, text, count)[0]

    def split(text: str, maxsplit: int = 0) -> list[str | Any]:
        return compiled.split(text, maxsplit) if len(text) <= most else [text]

    found_nothing = {"finditer": lambda: iter(()), "findall": list[Any]}
    searching = ("search", "match", "fullmatch", "finditer", "findall")
    methods = {name: bounded(name, found_nothing.get(name, lambda: None)) for name in searching}
    return {**methods, "subn": subn, "sub": sub, "split": split}
