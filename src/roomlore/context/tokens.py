"""Estimates the tokens of a text without a tokenizer. The estimate is high rather than low.

Other counters can be used.
"""

from collections.abc import Callable

from roomlore.domain.patterns import lazy_pattern

TokenCounter = Callable[[str], int]

#: Tokens that a chat format adds to each message for its role and separators.
MESSAGE_OVERHEAD = 4

_WIDE = lazy_pattern("[^\u0000-\u07ff]")


def estimate_tokens(text: str) -> int:
    """Return the approximate number of tokens.

    Four ASCII characters are one token. Two characters up to U+07FF (accents, Greek, Cyrillic, Hebrew, Arabic) are one
    token. Any other character (Chinese, Japanese, Korean, emoji) is 1.5 tokens, as in the least suited tokenizers.
    """
    plain = len(text.encode("ascii", "ignore"))
    wide = sum(1 for _ in _WIDE.finditer(text))
    narrow = len(text) - plain - wide
    return -(-(plain + 2 * narrow + 6 * wide) // 4)


def message_cost(text: str, counter: TokenCounter) -> int:
    """Return the tokens of a text as a chat message."""
    return counter(text) + MESSAGE_OVERHEAD


def largest_fitting(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number in the range for which `fits` is true (binary search); `low` if there is none."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
