"""Grows the text of every pattern of the code: who writes a message chooses what a pattern has to go through."""

import ast
import importlib
import pkgutil
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from re import _constants as of
from re import _parser as parser

import pytest

import roomlore
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, LazyPattern, lazy_pattern
from roomlore.search import query_parser, time_phrases

ROOT = Path(roomlore.__path__[0])
#: Where patterns meet nothing that somebody wrote, or bytes, or make patterns themselves.
APART = {
    "domain/patterns.py",
    "text/recognisers.py",  # patterns of patterns
    "evaluation/metrics.py",  # what the operator's own files expect
    "articles/extraction.py",  # bytes
    "projections/qdrant_connection.py",  # a server's version
    "search/time_phrases.py",  # patterns of patterns
    "db/data_dir.py",  # settings of our own server
    "http/idempotency.py",  # patterns of routes
    "operations/registry.py",  # our own docstrings
}
#: Where a pattern may be given any text, four times the text may take so many times as long at most: four, and noise.
MOST_GROWTH = 8.0
#: What is faster is not judged by how it grows.
NOTHING = 0.002
#: What takes so long is too slow, however it grows.
FAR_TOO_LONG = 0.5
#: A pattern that is quick for so many characters is quick for any number.
SURE = 4096
#: Seconds that a pattern may take for the longest text it reads.
LONGEST = 0.05
SEED = 7


@pytest.mark.slow
def test_every_pattern_goes_through_the_one_door():
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: use roomlore.domain.patterns.lazy_pattern"
        for path in ROOT.rglob("*.py")
        if str(path.relative_to(ROOT)) not in APART
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and re.match(r"re\.(?!escape)\w", ast.unparse(node.func))
    ] == []


@pytest.mark.slow
def test_a_pattern_that_grows_is_seen():
    assert grows(lazy_pattern(r"\bfrom\b.*\bto\b"), "search")
    assert grows(lazy_pattern(r"(?:a|aa)+$", most=600), "search")
    assert grows(lazy_pattern(r"(?:a|aa)+$"), "search")
    assert not grows(lazy_pattern(r"\bfrom\b.{0,20}\bto\b"), "search")
    assert not grows(lazy_pattern(r"\bfrom\b.*\bto\b", most=100), "search")


@cache
def every_pattern() -> dict[str, LazyPattern]:
    """Return the patterns that modules hold, in whatever they hold them, by name."""
    for module in pkgutil.walk_packages(roomlore.__path__, "roomlore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[int, tuple[str, LazyPattern]] = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("roomlore."):
            for held, value in list(vars(module).items()):
                for one, pattern in _patterns_in(f"{name.removeprefix('roomlore.')}.{held}", value, 3):
                    found.setdefault(id(pattern), (one, pattern))
    forms = (
        *query_parser._FORMS,
        query_parser._WHO_SAID,
        query_parser._FIRST,
        query_parser._SOON,
        query_parser._LATE,
    )
    rules = (
        *time_phrases._BOUND_RULES,
        *time_phrases._FREE_RULES,
        *time_phrases._NAMED_RULES,
        *time_phrases._SHORT_RULES,
    )
    return dict(
        [
            *sorted(found.values(), key=itemgetter(0)),
            *(
                (f"retrieval.asked.form {place}", query_parser._compiled(form))
                for place, form in enumerate(forms)
            ),
            *(
                (f"retrieval.when.rule {place}", lazy_pattern(form, most=MAX_SENTENCE_LENGTH))
                for place, (form, _) in enumerate(rules)
            ),
        ]
    )


def _patterns_in(name: str, held: object, depth: int) -> Iterator[tuple[str, LazyPattern]]:
    if isinstance(held, LazyPattern):
        yield name, held
    elif depth:
        for key, value in _parts(held):
            yield from _patterns_in(f"{name}{key}", value, depth - 1)


def _parts(held: object) -> Iterator[tuple[str, object]]:
    if isinstance(held, dict):
        yield from ((f"[{str(key)[:30]}]", value) for key, value in list(held.items()))
        yield from ((f".key{place}", key) for place, key in enumerate(list(held)))
    elif isinstance(held, list | tuple | set | frozenset):
        yield from ((f"[{place}]", value) for place, value in enumerate(held))
    elif is_dataclass(held) and not isinstance(held, type):
        yield from ((f".{field.name}", getattr(held, field.name, None)) for field in fields(held))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_no_pattern_takes_more_than_linear_time(part):
    patterns = every_pattern()
    assert len(patterns) > 300

    bad = {
        name: found
        for place, (name, pattern) in enumerate(patterns.items())
        if place % 16 == part
        for how in asked_how(name)
        if (found := grows(pattern, how))
    }
    assert bad == {}


@cache
def source() -> str:
    return "\n".join(path.read_text() for path in ROOT.rglob("*.py"))


def asked_how(name: str) -> list[str]:
    """Return how the code asks a pattern; one that is only matched at a place need not be quick to search for."""
    if name.startswith(("retrieval.asked.form", "retrieval.when.rule")):
        return ["fullmatch"]
    bare = name.rsplit(".", 1)[1].split("[", maxsplit=1)[0]
    asked = set(
        re.findall(
            rf"\b{re.escape(bare)}\)?\.(search|match|fullmatch|finditer|findall|subn?|split)\b", source()
        )
    )
    only = asked & {"match", "fullmatch"}
    return sorted(only) if asked and asked == only else sorted({*only, "search"})


def grows(pattern: LazyPattern, how: str) -> str | None:
    """Return what text a pattern takes too long for, or None."""
    # Questions and times are asked about with one blank between words.
    is_tidy = how == "fullmatch" and pattern.most is not None
    for pump in pumps(pattern.pattern, pattern._flags):
        for shape in ("{}\x01", "{}", "x\x01{}!?"):

            def text(size: int, pump: str = pump, shape: str = shape) -> str:
                whole = shape.format(pump * (size // len(pump) + 1))
                return " ".join(whole.split()) if is_tidy else whole

            if told := _grows(pattern, how, text):
                return f"{how} in {pump!r}: {told}"
    return None


def _grows(pattern: LazyPattern, how: str, text) -> str | None:
    # One that doubles with each letter would never come back from more.
    for size in range(16, 64, 4):
        if (took := seconds(pattern, how, text(size))) > LONGEST:
            return f"{took:.3f} s for {size} characters"
    if pattern.most is not None:
        whole = text(pattern.most)[-pattern.most :]
        took = seconds(pattern, how, whole)
        if took > LONGEST:
            took = min(seconds(pattern, how, whole) for _ in range(3))
        return f"{took:.3f} s for {pattern.most} characters" if took > LONGEST else None
    return _grows_on(pattern, how, text)


def _grows_on(pattern: LazyPattern, how: str, text) -> str | None:
    before, is_suspect = 1.0, False
    for size in (16, 64, 256, 1024, 4096, 16384):
        took = seconds(pattern, how, text(size))
        if took > NOTHING and took / before > MOST_GROWTH:
            before = min(before, *(seconds(pattern, how, text(size // 4)) for _ in range(5)))
            took = min(took, *(seconds(pattern, how, text(size)) for _ in range(3)))
        is_bad = took > NOTHING and took / before > MOST_GROWTH
        # Repeated at most 400 times looks like repeated without end, up to 400: twice in a row it does not.
        if (is_bad and is_suspect) or took > FAR_TOO_LONG:
            return f"{took:.4f} s for {size} characters, {took / before:.0f} times as long as for a fourth"
        if size >= SURE and not is_bad and took < NOTHING * size / SURE:
            return None
        before, is_suspect = took, is_bad
    return None


def seconds(pattern: LazyPattern, how: str, text: str) -> float:
    """Return the time of this thread alone: neither what else the machine does nor making the pattern is counted."""
    assert pattern.flags is not None  # makes it
    began = time.thread_time()
    if how == "search":
        pattern.search(text)
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, how)(text)
    return max(time.thread_time() - began, 1e-7)


# What a pattern may have to go through


def pumps(pattern: str, flags: int) -> list[str]:
    """Return what a hostile text may repeat: the pattern's own letters, and how what it looks for begins."""
    tree = parser.parse(pattern, flags)
    choose = random.Random(SEED)
    single = {*" a-.1\n\"'>`A_/@,", *_letters(tree)}
    words = set()
    for alternative in _alternatives(list(tree)):
        for times in (0, 1, 0, 1):
            whole = ""
            for part in alternative:
                whole += _sample([part], choose, times)
                if len(whole) < 60:
                    words.add(whole)
    words = {word for word in words if len(word) > 1}
    letters, begun = sorted(single), sorted(words)
    letters = letters if len(letters) <= 60 else choose.sample(letters, 60)
    begun = begun if len(begun) <= 80 else choose.sample(begun, 80)
    return [*letters, *begun, *(f"{word} " for word in begun)]


def _letters(tree) -> Iterator[str]:
    for op, value in tree:
        if op is of.LITERAL:
            yield chr(value)
        elif op is of.IN:
            yield _one_of(value)
            yield from (chr(part) for kind, part in value if kind is of.LITERAL)
        elif op is of.BRANCH:
            for branch in value[1]:
                yield from _letters(branch)
        elif inner := _inner(op, value):
            yield from _letters(inner)


def _inner(op, value):
    if op in {of.MAX_REPEAT, of.MIN_REPEAT, of.POSSESSIVE_REPEAT}:
        return value[2]
    if op is of.SUBPATTERN:
        return value[3]
    if op in {of.ASSERT, of.ASSERT_NOT}:
        return value[1]
    return value if op is of.ATOMIC_GROUP else None


def _alternatives(tree) -> list:
    if len(tree) == 1:
        [(op, value)] = tree
        if op is of.BRANCH:
            return [one for branch in value[1] for one in _alternatives(list(branch))]
        if op is of.SUBPATTERN:
            return _alternatives(list(value[3]))
    return [tree]


def _sample(tree, choose: random.Random, times: int) -> str:
    """Return something that a part of a pattern fits, with what may be repeated so many times more."""
    said = ""
    for op, value in tree:
        if op is of.LITERAL:
            said += chr(value)
        elif op in {of.ANY, of.NOT_LITERAL}:
            said += "a" if value != ord("a") else "b"
        elif op is of.IN:
            said += _one_of(value)
        elif op is of.BRANCH:
            said += _sample(choose.choice(value[1]), choose, times)
        elif op in {of.MAX_REPEAT, of.MIN_REPEAT, of.POSSESSIVE_REPEAT}:
            least, most, inner = value
            said += _sample(inner, choose, 0) * max(least, min(times, most))
        elif op in {of.SUBPATTERN, of.ATOMIC_GROUP}:
            said += _sample(_inner(op, value), choose, times)
    return said


_EXAMPLES = {
    of.CATEGORY_WORD: "a",
    of.CATEGORY_SPACE: " ",
    of.CATEGORY_DIGIT: "1",
    of.CATEGORY_NOT_WORD: "-",
    of.CATEGORY_NOT_SPACE: "a",
    of.CATEGORY_NOT_DIGIT: "a",
}


def _one_of(items) -> str:
    if items[0][0] is of.NEGATE:
        return next(
            (letter for letter in "a x-.1\"'>\n," if not any(_admits(item, letter) for item in items[1:])),
            "\u00e4",
        )
    kind, value = items[0]
    if kind is of.RANGE:
        return chr(value[0])
    return chr(value) if kind is of.LITERAL else _EXAMPLES[value]


def _admits(item, letter: str) -> bool:
    kind, value = item
    if kind is of.LITERAL:
        return ord(letter) == value
    if kind is of.RANGE:
        return value[0] <= ord(letter) <= value[1]
    is_so = {
        of.CATEGORY_WORD: letter.isalnum() or letter == "_",
        of.CATEGORY_SPACE: letter.isspace(),
        of.CATEGORY_DIGIT: letter.isdigit(),
    }
    negated = {
        of.CATEGORY_NOT_WORD: of.CATEGORY_WORD,
        of.CATEGORY_NOT_SPACE: of.CATEGORY_SPACE,
        of.CATEGORY_NOT_DIGIT: of.CATEGORY_DIGIT,
    }
    return not is_so[negated[value]] if value in negated else is_so[value]
