"""What tells one thing from everything else in a text: numbers, codes, addresses, quotations, names.

A value is compared token by token, so that `415-555-0142` and `(415) 555 0142` are the same, and is kept as a digest.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

from roomlore.domain.patterns import lazy_pattern

TOKEN = lazy_pattern(r"[^\W_]+")
#: Of a quotation or a name, no more tokens than these.
MAX_TOKENS = 8

_QUOTED = lazy_pattern(
    r"[\"\u201c]([^\"\u201c\u201d\n]{2,80})[\"\u201d]|(?<!\w)[\u2018']([^'\u2018\u2019\n]{3,80}?)[\u2019'](?!\w)"
)
_ADDRESS = lazy_pattern(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+){1,4}|https?://\S{4,200}")
#: A telephone number, or a run of letters and digits joined by what joins codes.
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
_DATED = frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "am",
        "pm",
    ]
)
_PLAIN = frozenset(
    [
        "i",
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "not",
        "no",
        "yes",
        "ok",
        "okay",
        "please",
        "thanks",
        "thank",
        "also",
        "all",
        "any",
        "now",
        "then",
        "this",
        "that",
        "these",
        "those",
        "my",
        "your",
        "our",
        "his",
        "her",
        "their",
        "its",
        "it",
        "he",
        "she",
        "we",
        "they",
        "you",
        "delete",
        "remove",
        "erase",
        "forget",
        "clear",
        "purge",
        "scrub",
        "wipe",
        "redact",
        "do",
        "don",
        "never",
        "keep",
        "use",
        "mr",
        "mrs",
        "ms",
        "dr",
        "new",
        "old",
        "only",
        "if",
        "when",
        "after",
        "before",
        "from",
        "to",
        "in",
        "on",
        "at",
        "of",
        "for",
        "with",
    ]
)
#: Words before a capitalised one that say that it is a name, even if it is also a month.
_NAMING = lazy_pattern(
    r"(?:name|alias|called|nickname|codename|ask(?:ing)? for|ask)\s+$", re.IGNORECASE, most=200
)
#: The same a few words ahead, and what is noted down: `the alias is Nia`, `Falcon = Harbour Foods`.
_NAMED = lazy_pattern(
    r"(?:\b(?:alias|nick ?name|code ?name|name|label"
    r"|call(?:ed|s)?|known as|goes by|ask(?:ing)? for)\b\W+(?:\w+\W+){0,3}|=\s*|\bis (?:\w+ ){0,2})$",
    re.IGNORECASE,
    most=200,
)
_QUOTED_OPEN = lazy_pattern(r"[\"\u201c][^\"\u201c\u201d\n]{0,40}$", most=200)
#: How keys begin whose makers mark them as such.
_MADE_AS_KEY = lazy_pattern(r"(?:(?:[prst]k|gh[oprsu]|glpat|xox[abeprs])[-_]|github_pat_|AKIA|eyJ)")
_KEY = r"(?:tokens?|passwords?|passwd|pwd|credentials?|secrets?|(?:api|access|private|secret|auth|ssh)[ _-]?keys?)"
#: Less sure: also what opens a door, what is important, and what a row is found by.
_ALSO_KEY = r"(?:keys?|logins?|pin)"
_IS = r"\s+(?:is|was|remains)(?:\s+now)?"
_GIVES = rf"(?:,?\s+(?:btw|by the way|again|here))?(?:[*_\"'`\s]*(?:[:=]|[-=]+>)|{_IS})"
#: What calls what stands just behind it a key: `the API key: VALUE`, `the token in use for the tests is VALUE`.
_CALLED_KEY = lazy_pattern(
    rf"(?<![^\W_])(?:{_KEY}(?:{_GIVES})?|{_ALSO_KEY}(?:\s+for(?:\s+[\w'-]+){{1,3}}?)?{_GIVES}"
    rf"|{_KEY}(?:\s+(?:currently|now|we use|used|in use))*(?:\s+(?:for|in|on|of|at|to)(?:\s+[\w'-]+){{1,6}}?)?{_GIVES})"
    r"[*_\"'`\u201c(\s]*$",
    re.IGNORECASE,
    most=120,
)
#: The same of what stands just before: `VALUE is the token for staging`.
_IS_KEY = lazy_pattern(
    rf"[*_\"'`\u201d)]*{_IS}\s+(?:the|a|an|my|our|your|his|her|their)\s+"
    rf"(?:(?:[\w-]+\s+){{0,2}}?{_KEY}|key)(?=\s*(?:[.,;!)]|$)|\s+(?:for|in|on|we)\b)",
    re.IGNORECASE,
    most=120,
)
#: No further back than this stands what calls it so.
_CALLING = 120
#: No further back than this stands what tells that a name is one.
_LOOKED_BACK = 200
#: What is said oftener in one message is no secret of it.
_MOST_PLACES = 200


def with_straight_apostrophes(text: str) -> str:
    """Return a text with straight apostrophes."""
    return text.replace("\u2019", "'")


def distinctive_values(text: str) -> list[str]:
    """Return the values that are no names: nobody says these by chance."""
    found = [_quoted_value(one) for one in _quotations(text)]
    found += [match[0].rstrip(".,;:!?)") for match in _ADDRESS.finditer(text)]
    found += [match[0] for match in _CODE.finditer(text) if _is_code(match[0])]
    found += [match[0] for match in _NUMBERED.finditer(text) if _is_numbered(match)]
    return [one for one in dict.fromkeys(found) if one]


def proper_names(text: str) -> list[str]:
    """Return the capitalised names of a text, without those that only begin a sentence, days and months."""
    found: list[str] = []
    for match in _NAME.finditer(text):
        before = text[max(match.start() - _LOOKED_BACK, 0) : match.start()]
        words = match[0].split()
        if _begins_sentence(before):
            # of a sentence's first word nothing tells whether it is a name
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
    """Return how a value is kept: head, size, digest; None where nothing is left of it."""
    tokens = TOKEN.findall(value)
    if not tokens or len(tokens) > 2 * MAX_TOKENS:
        return None
    return f"{_head(tokens[0]):08x}.{len(tokens)}.{_digest(tokens)}"


def revealing_parts(value: str) -> list[str]:
    """Return pieces of a long code or number that give it away by themselves: its end, and what mixes letters and digits."""
    tokens = TOKEN.findall(value)
    if len(tokens) < 3 or not any(map(_has_digit, tokens)):  # noqa: PLR2004
        return []
    long = [one for one in tokens if len(one) >= 4 and not _TIME.match(one)]  # noqa: PLR2004
    return [one for one in long if _is_mixed(one) or (one.isdigit() and one is tokens[-1])]


def is_distinctive(value: str) -> bool:
    """Return whether nobody says a value by chance: an address, a long number, a code.

    A name is none, nor is a name with a number: `Postgres`, `Windows 11`, `python3`, `room 218`.
    """
    if _ADDRESS.fullmatch(value):
        return True
    tokens = TOKEN.findall(value)
    digits = sum(sign.isdigit() for sign in value)
    if " " in value and any(one.isalpha() for one in tokens):
        return digits >= 5  # noqa: PLR2004
    return digits >= 5 or (digits >= 3 and sum(map(len, tokens)) >= 6)  # noqa: PLR2004


def tokens_of(value: str) -> list[str]:
    """Return the tokens of a value in small letters: whatever says the value has them all in this order."""
    return [token.lower() for token in TOKEN.findall(value)]


def contains_any(text: str, digests: Collection[str]) -> bool:
    """Return whether a text says one of the values that were marked."""
    return any(True for _ in matching_digests(text, digests))


def matching_digests(text: str, digests: Collection[str]) -> Iterator[str]:
    """Yield the marks of those values that a text says."""
    if not digests:
        return
    sizes: dict[int, set[int]] = {}
    for one in digests:
        head, size, _ = one.split(".")
        sizes.setdefault(int(head, 16), set()).add(int(size))
    tokens, places = _token_positions(text)
    for head in sizes.keys() & places.keys():
        for run in {tuple(tokens[place : place + size]) for place in places[head] for size in sizes[head]}:
            found = f"{head:08x}.{len(run)}.{_digest(run)}"
            if found in digests:
                yield found


# One wish after the other is asked whether it covers the same message.
@lru_cache(maxsize=1)
def _token_positions(text: str) -> tuple[list[str], dict[int, list[int]]]:
    """Return the tokens of a text, and where each stands by its digest."""
    tokens: list[str] = TOKEN.findall(text)
    places: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        places.setdefault(_head(token), []).append(place)
    return tokens, places


def is_credential(value: str, said: str) -> bool:
    """Return whether a value is made like a key, a token or a password and is called one right where it stands.

    One that says so by how it begins needs nobody to call it one.
    """
    is_like_one = (
        sum(map(len, TOKEN.findall(value))) >= 10  # noqa: PLR2004
        and any(map(_is_mixed, TOKEN.findall(value)))
        and not _ADDRESS.match(value)
        and " " not in value
    )
    if not is_like_one or _MADE_AS_KEY.match(value):
        return is_like_one
    return any(
        _CALLED_KEY.search(said, max(place - _CALLING, 0), place)
        or _IS_KEY.match(said, place + len(value), place + len(value) + _CALLING)
        for place in _places(value, said)
    )


def is_alias(value: str, said: str) -> bool:
    """Return whether what was said gives a value as what somebody or something is called, or noted as."""
    return any(
        _NAMED.search(said, max(place - _LOOKED_BACK, 0), place)
        or _QUOTED_OPEN.search(said, max(place - _LOOKED_BACK, 0), place)
        for place in _places(value, said)
    )


def _places(value: str, said: str) -> Iterator[int]:
    place = said.find(value)
    for _ in range(_MOST_PLACES):
        if place < 0:
            return
        yield place
        place = said.find(value, place + 1)


def digests_of(values: Iterable[str]) -> frozenset[str]:
    """Return the marks of values."""
    return frozenset(one for value in values if (one := digest_of(value)))


def _head(token: str) -> int:
    return crc32(token.casefold().encode())


def _digest(tokens: Sequence[str]) -> str:
    # A name of one word is told from a word by its capital: June from june, Hope from hope.
    text = tokens[0] if len(tokens) == 1 and tokens[0].istitle() else " ".join(tokens).casefold()
    return blake2b(text.encode(), digest_size=8).hexdigest()


def without_quotations(text: str) -> str:
    """Return a text without its quotations."""
    return _QUOTED.sub(" ", text)


def _quotations(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield (match[1] or match[2]).strip(" .,;:!?")


def _quoted_value(quotation: str) -> str:
    """Return what a quotation tells: of an equation what something is, else all of it."""
    told = quotation.rsplit("=", 1)[-1].strip()
    return told if 0 < len(TOKEN.findall(told)) <= 2 * MAX_TOKENS else ""


def _is_code(text: str) -> bool:
    tokens = TOKEN.findall(text)
    digits = sum(sign.isdigit() for sign in text)
    if not digits or _TIME.match(text.strip("+")) or all(_TIME.match(one) and len(one) < 3 for one in tokens):  # noqa: PLR2004
        return False
    if len(tokens) > 1:
        return digits >= 2 or any(_has_digit(one) and not one.isdigit() for one in tokens)  # noqa: PLR2004
    return digits >= 5 or (digits >= 1 and len(text) >= 5 and not text.isdigit())  # noqa: PLR2004


def _is_numbered(match: re.Match[str]) -> bool:
    word = match[1].casefold()
    return word not in _DATED and word not in _PLAIN and not word.endswith("ly")


def _is_mixed(token: str) -> bool:
    return _has_digit(token) and not token.isdigit()


def _has_digit(token: str) -> bool:
    return any(sign.isdigit() for sign in token)


def _begins_sentence(before: str) -> bool:
    said = before.rstrip()
    return not before.strip(" \t>*_-") or said[-1:] in {".", "!", "?", ":"} or "\n" in before[len(said) :]


def _is_plain(word: str, *, is_named: bool) -> bool:
    low = word.casefold()
    return low in _PLAIN or (low in _DATED and not is_named)
