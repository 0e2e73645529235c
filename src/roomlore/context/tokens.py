"""What a text costs a language model, and what fits into a budget.

Any callable from text to a number of tokens will do; the estimator here needs no tokenizer and would
rather count too many than too few.
"""

from collections.abc import Callable
from typing import TypeVar

from roomlore.domain.patterns import lazy_pattern

TokenCounter = Callable[[str], int]
Item = TypeVar("Item")

#: What a chat format adds to each message for its role and separators.
MESSAGE_OVERHEAD = 4

_WIDE = lazy_pattern("[^\u0000-\u07ff]")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is, without a tokenizer.

    Four ASCII characters make a token. Other alphabets up to U+07FF (accents, Greek, Cyrillic, Hebrew,
    Arabic) count two characters to a token. Everything beyond (Chinese, Japanese, Korean, emoji) counts
    one and a half tokens per character, which is what an unkind tokenizer makes of it.
    """
    plain = len(text.encode("ascii", "ignore"))
    wide = sum(1 for _ in _WIDE.finditer(text))
    narrow = len(text) - plain - wide
    return -(-(plain + 2 * narrow + 6 * wide) // 4)


def message_cost(text: str, counter: TokenCounter) -> int:
    """Return what a text costs as a message of its own."""
    return counter(text) + MESSAGE_OVERHEAD
