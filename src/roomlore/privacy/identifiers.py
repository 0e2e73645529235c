"""Finds identifying values in a text: numbers, codes, addresses, quotations, names.

Values are compared token by token, so `415-555-0142` equals `(415) 555 0142`, and are stored as digests.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

from roomlore.domain.patterns import lazy_pattern

TOKEN = lazy_pattern(r"[^\W_]+")
#: The maximum number of tokens of a quotation or a name.
MAX_TOKENS = 8

_QUOTED = lazy_pattern(
    r"[\"\u201c]([^\"\u201c\u201d\n]{2,80})[\"\u201d]|(?<!\w)[\u2018']([^'\u2018\u2019\n]{3,80}?)[\u2019'](?!\w)"
)
_ADDRESS = lazy_pattern(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+){1,4}|https?://\S{4,200}")
#: A telephone number, or a code: letters and digits with separators.
_CODE = lazy_pattern(
    r"(?<![\w.-])(?:\+?(?:\(\d{2,4}\)[ ]?)?\d+(?:[-./ ]\d{2,})+(?![\w])|[^\W_]+(?:[-_./][^\W_]+)*)"
)
_NUMBERED = lazy_pattern(r"\b([A-Za-z]{3,12})\s+#?(\d{1,6})\b(?![-.:/ ]\d)")
_NAME = lazy_pattern(
    r"(?<![\w'\u2019])(?:[A-Z][a-z]+|[A-Z]{2,})(?:[ -](?:[A-Z][a-z]+|[A-Z]{2,}|of|the(?=\s[A-Z])))*(?![a-z])"
)
_TIME = lazy_pattern(
    r"^\d{1,2}[:.]\d\d$|^(?:19|20)\d\d$|^\d{1,2}(?:st|nd|rd|th|am|pm|h|mg|ml|kg|gb|mb|k)?$|^\d{4}-\d\d-\d\d$",
    re.IGNORECASE,
)
_DATED = frozenset({
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov",
    "dec", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "am", "pm",
})  # fmt: skip
_PLAIN = frozenset({
    "i", "a", "an", "the", "and", "or", "but", "not", "no", "yes", "ok", "okay", "please", "thanks",
    "thank", "also", "all", "any", "now", "then", "this", "that", "these", "those", "my", "your", "our",
    "his", "her", "their", "its", "it", "he", "she", "we", "they", "you", "delete", "remove", "erase",
    "forget", "clear", "purge", "scrub", "wipe", "redact", "do", "don", "never", "keep", "use", "mr",
    "mrs", "ms", "dr", "new", "old", "only", "if", "when", "after", "before", "from", "to", "in", "on",
    "at", "of", "for", "with",
})  # fmt: skip
#: Words that introduce a name, even one that is also a month.
_NAMING = lazy_pattern(
    r"(?:name|alias|called|nickname|codename|ask(?:ing)? for|ask)\s+$", re.IGNORECASE, most=200
)
#: Phrases that introduce an alias: `the alias is Nia`, `Falcon = Harbour Foods`.
_NAMED = lazy_pattern(
    r"(?:\b(?:alias|nick ?name|code ?name|name|label"
    r"|call(?:ed|s)?|known as|goes by|ask(?:ing)? for)\b\W+(?:\w+\W+){0,3}|=\s*|\bis (?:\w+ ){0,2})$",
    re.IGNORECASE,
    most=200,
)
_QUOTED_OPEN = lazy_pattern(r"[\"\u201c][^\"\u201c\u201d\n]{0,40}$", most=200)
#: Prefixes that vendors give to their keys.
_MADE_AS_KEY = lazy_pattern(r"(?:(?:[prst]k|gh[oprsu]|glpat|xox[abeprs])[-_]|github_pat_|AKIA|eyJ)")
_KEY = r"(?:tokens?|passwords?|passwd|pwd|credentials?|secrets?|(?:api|access|private|secret|auth|ssh)[ _-]?keys?)"
#: Ambiguous words: a key may also open a door or identify a row of a table.
_ALSO_KEY = r"(?:keys?|logins?|pin)"
_IS = r"\s+(?:is|was|remains)(?:\s+now)?"
_GIVES = rf"(?:,?\s+(?:btw|by the way|again|here))?(?:[*_\"'`\s]*(?:[:=]|[-=]+>)|{_IS})"
#: A phrase before a value that calls the value a credential: `the API key: VALUE`.
_CALLED_KEY = lazy_pattern(
    rf"(?<![^\W_])(?:{_KEY}(?:{_GIVES})?|{_ALSO_KEY}(?:\s+for(?:\s+[\w'-]+){{1,3}}?)?{_GIVES}"
    rf"|{_KEY}(?:\s+(?:currently|now|we use|used|in use))*(?:\s+(?:for|in|on|of|at|to)(?:\s+[\w'-]+){{1,6}}?)?{_GIVES})"
    r"[*_\"'`\u201c(\s]*$",
    re.IGNORECASE,
    most=120,
)
#: A phrase after a value that calls the value a credential: `VALUE is the token for staging`.
_IS_KEY = lazy_pattern(
    rf"[*_\"'`\u201d)]*{_IS}\s+(?:the|a|an|my|our|your|his|her|their)\s+"
    rf"(?:(?:[\w-]+\s+){{0,2}}?{_KEY}|key)(?=\s*(?:[.,;!)]|$)|\s+(?:for|in|on|we)\b)",
    re.IGNORECASE,
    most=120,
)
#: The maximum number of characters between one of these phrases and the value.
_CALLING = 120
#: The number of characters before a name that are read as its context.
_LOOKED_BACK = 200
#: A value that occurs more often than this in one message is not treated as a secret.
_MOST_PLACES = 200


def with_straight_apostrophes(text: str) -> str:
    """Return the text with straight apostrophes."""
    return text.replace("\u2019", "'")


def distinctive_values(text: str) -> list[str]:
    """Return the values in a text that are distinctive and are no names.

    Nobody repeats such a value by chance.
    """
    values = [_quoted_value(each) for each in _quotations(text)]
    values += [match[0].rstrip(".,;:!?)") for match in _ADDRESS.finditer(text)]
    values += [match[0] for match in _CODE.finditer(text) if _is_code(match[0])]
    values += [match[0] for match in _NUMBERED.finditer(text) if _is_numbered(match)]
    return [each for each in dict.fromkeys(values) if each]


def proper_names(text: str) -> list[str]:
    """Return the capitalised names in a text, without words that only begin a sentence, days and months."""
    found: list[str] = []
    for match in _NAME.finditer(text):
        before = text[max(match.start() - _LOOKED_BACK, 0) : match.start()]
        words = match[0].split()
        if _begins_sentence(before):
            # The first word of a sentence is capitalised in any case.
            words = words[1:]
        is_named = bool(_NAMING.search(before))
        while words and _is_plain(words[0], is_named=is_named):
            words = words[1:]
        while words and _is_plain(words[-1], is_named=is_named):
            words = words[:-1]
        if words and len(words) <= MAX_TOKENS and len("".join(words)) > 2:  # noqa: PLR2004
            found.append(" ".join(words))
    return list(dict.fromkeys(found))


def digest_of(value: str) -> str | None:
    """Return the digest of a value (head, size, hash); None if the value has no tokens."""
    tokens = TOKEN.findall(value)
    if not tokens or len(tokens) > 2 * MAX_TOKENS:
        return None
    return f"{_head(tokens[0]):08x}.{len(tokens)}.{_digest(tokens)}"


def revealing_parts(value: str) -> list[str]:
    """Return the parts of a long code that reveal it.

    These are its last number, and tokens that have both letters and digits.
    """
    tokens = TOKEN.findall(value)
    if len(tokens) < 3 or not any(map(_has_digit, tokens)):  # noqa: PLR2004
        return []
    long = [token for token in tokens if len(token) >= 4 and not _TIME.match(token)]  # noqa: PLR2004
    return [token for token in long if _is_mixed(token) or (token.isdigit() and token is tokens[-1])]


def is_distinctive(value: str) -> bool:
    """Return whether a value is an address, a long number or a code. Nobody repeats such a value by chance.

    Names are not distinctive, even with a number: `Postgres`, `Windows 11`, `python3`, `room 218`.
    """
    if _ADDRESS.fullmatch(value):
        return True
    tokens = TOKEN.findall(value)
    digits = sum(char.isdigit() for char in value)
    if " " in value and any(token.isalpha() for token in tokens):
        return digits >= 5  # noqa: PLR2004
    return digits >= 5 or (digits >= 3 and sum(map(len, tokens)) >= 6)  # noqa: PLR2004


def tokens_of(value: str) -> list[str]:
    """Return the tokens of a value in lower case."""
    return [token.lower() for token in TOKEN.findall(value)]


def contains_any(text: str, digests: Collection[str]) -> bool:
    """Return whether a text contains one of the values."""
    return any(True for _ in matching_digests(text, digests))


def matching_digests(text: str, digests: Collection[str]) -> Iterator[str]:
    """Yield the given digests whose value the text contains."""
    if not digests:
        return
    sizes: dict[int, set[int]] = {}
    for each in digests:
        head, size, _ = each.split(".")
        sizes.setdefault(int(head, 16), set()).add(int(size))
    tokens, places = _token_positions(text)
    for head in sizes.keys() & places.keys():
        for run in {tuple(tokens[place : place + size]) for place in places[head] for size in sizes[head]}:
            digest = f"{head:08x}.{len(run)}.{_digest(run)}"
            if digest in digests:
                yield digest


# Many requests are matched against the same message, one after another.
@lru_cache(maxsize=1)
def _token_positions(text: str) -> tuple[list[str], dict[int, list[int]]]:
    """Return the tokens of a text, and the positions of the tokens by their head."""
    tokens: list[str] = TOKEN.findall(text)
    places: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        places.setdefault(_head(token), []).append(place)
    return tokens, places


def is_credential(value: str, text: str) -> bool:
    """Return whether a value looks like a credential and the text calls it a credential.

    If a value has a vendor's prefix, the text need not call it a credential.
    """
    looks_like_one = (
        sum(map(len, TOKEN.findall(value))) >= 10  # noqa: PLR2004
        and any(map(_is_mixed, TOKEN.findall(value)))
        and not _ADDRESS.match(value)
        and " " not in value
    )
    if not looks_like_one or _MADE_AS_KEY.match(value):
        return looks_like_one
    return any(
        _CALLED_KEY.search(text, max(position - _CALLING, 0), position)
        or _IS_KEY.match(text, position + len(value), position + len(value) + _CALLING)
        for position in _places(value, text)
    )


def is_alias(value: str, text: str) -> bool:
    """Return whether the text introduces a value as an alias or code name."""
    return any(
        _NAMED.search(text, max(position - _LOOKED_BACK, 0), position)
        or _QUOTED_OPEN.search(text, max(position - _LOOKED_BACK, 0), position)
        for position in _places(value, text)
    )


def _places(value: str, text: str) -> Iterator[int]:
    position = text.find(value)
    for _ in range(_MOST_PLACES):
        if position < 0:
            return
        yield position
        position = text.find(value, position + 1)


def digests_of(values: Iterable[str]) -> frozenset[str]:
    """Return the digests of values."""
    return frozenset(digest for value in values if (digest := digest_of(value)))


def _head(token: str) -> int:
    return crc32(token.casefold().encode())


def _digest(tokens: Sequence[str]) -> str:
    # A single capitalised token is case-sensitive: June differs from june, Hope from hope.
    text = tokens[0] if len(tokens) == 1 and tokens[0].istitle() else " ".join(tokens).casefold()
    return blake2b(text.encode(), digest_size=8).hexdigest()


def without_quotations(text: str) -> str:
    """Return the text without its quotations."""
    return _QUOTED.sub(" ", text)


def _quotations(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield (match[1] or match[2]).strip(" .,;:!?")


def _quoted_value(quotation: str) -> str:
    """Return the value in a quotation. If the quotation is an equation, the value is its right side."""
    value = quotation.rsplit("=", 1)[-1].strip()
    return value if 0 < len(TOKEN.findall(value)) <= 2 * MAX_TOKENS else ""


def _is_code(text: str) -> bool:
    tokens = TOKEN.findall(text)
    digits = sum(char.isdigit() for char in text)
    if (
        not digits
        or _TIME.match(text.strip("+"))
        or all(_TIME.match(token) and len(token) < 3 for token in tokens)  # noqa: PLR2004
    ):
        return False
    if len(tokens) > 1:
        return digits >= 2 or any(_has_digit(token) and not token.isdigit() for token in tokens)  # noqa: PLR2004
    return digits >= 5 or (digits >= 1 and len(text) >= 5 and not text.isdigit())  # noqa: PLR2004


def _is_numbered(match: re.Match[str]) -> bool:
    word = match[1].casefold()
    return word not in _DATED and word not in _PLAIN and not word.endswith("ly")


def _is_mixed(token: str) -> bool:
    return _has_digit(token) and not token.isdigit()


def _has_digit(token: str) -> bool:
    return any(char.isdigit() for char in token)


def _begins_sentence(before: str) -> bool:
    stripped = before.rstrip()
    return (
        not before.strip(" \t>*_-")
        or stripped[-1:] in {".", "!", "?", ":"}
        or "\n" in before[len(stripped) :]
    )


def _is_plain(word: str, *, is_named: bool) -> bool:
    low = word.casefold()
    return low in _PLAIN or (low in _DATED and not is_named)
