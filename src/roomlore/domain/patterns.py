"""The one door for patterns that meet what somebody wrote: they are compiled late, and what they may read is bounded.

Roomlore knows hundreds of forms of speech, and most of its commands look for none of them: compiling them all took
a third of the time in which a command started.

Whoever writes a message chooses what a pattern has to go through, and a pattern holds the interpreter until it is
done. So every pattern takes time linear in its text, or says how long its text may be; `tests/domain/test_patterns_grow.py`
grows each of them.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

#: What is longer is no sentence that anybody says.
MAX_SENTENCE_LENGTH = 600

#: What is asked of a pattern.
_PATTERN_METHODS = (
    "findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match", "search", "split", "sub", "subn",
)  # fmt: skip


class LazyPattern:
    """What stands for a pattern; from the first question on it answers with the pattern's own methods."""

    def __init__(self, pattern: str, flags: int, most: int | None) -> None:
        self.pattern = pattern
        #: So many characters it reads at once; None: any number, in linear time.
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
    """Return a pattern that is compiled when it is first looked for; one that makes no sense fails only then.

    Args:
        pattern: As in `re`.
        flags: As in `re`.
        most: How many characters it may be given at once; in a longer text it finds nothing. For patterns that take
            more than linear time.
    """
    return cast("re.Pattern[str]", LazyPattern(pattern, flags, most))


#: A pattern that is only asked about one sentence.
sentence_pattern = partial(lazy_pattern, most=MAX_SENTENCE_LENGTH)


def _bounded_methods(compiled: re.Pattern[str], most: int) -> Mapping[str, Callable[..., Any]]:
    """Return the methods of a pattern that find nothing in a text that is too long for it."""

    def is_short(text: str, pos: int, endpos: int) -> bool:
        return min(endpos, len(text)) - pos <= most

    def search(text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return compiled.search(text, pos, endpos) if is_short(text, pos, endpos) else None

    def match(text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return compiled.match(text, pos, endpos) if is_short(text, pos, endpos) else None

    def fullmatch(text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return compiled.fullmatch(text, pos, endpos) if is_short(text, pos, endpos) else None

    def finditer(text: str, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return compiled.finditer(text, pos, endpos) if is_short(text, pos, endpos) else iter(())

    def findall(text: str, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]:
        return compiled.findall(text, pos, endpos) if is_short(text, pos, endpos) else []

    def subn(repl: Any, text: str, count: int = 0) -> tuple[str, int]:
        return compiled.subn(repl, text, count) if len(text) <= most else (text, 0)

    def sub(repl: Any, text: str, count: int = 0) -> str:
        return subn(repl, text, count)[0]

    def split(text: str, maxsplit: int = 0) -> list[str | Any]:
        return compiled.split(text, maxsplit) if len(text) <= most else [text]

    return {one.__name__: one for one in (search, match, fullmatch, finditer, findall, subn, sub, split)}
