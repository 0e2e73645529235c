"""Counts agree with their nouns, and large numbers survive readers that know doubles alone."""

import json
import re
from pathlib import Path

import pytest

from roomlore.domain.phrases import count_phrase, pluralise
from roomlore.http.json_values import MAX_SAFE_INTEGER, safe_numbers
from roomlore.http.responses import json_response

SOURCES = Path(__file__).parents[2] / "src" / "roomlore"
NOUNS = "messages|rooms|memories|conversations|threads|texts|candidates|tokens|secrets|pieces|others|answers"
#: A value set in front of a plural, in a text of Python or a template.
BARE = re.compile(rf"\}}\}}? (?:more |newest |older )?(?:{NOUNS})\b(?! for )")
#: Where the number is a bound above one, or stands in a column.
FINE = ("MOST_", "{candidate.tokens:>5}", "side.given.tokens", "limits.window")


def test_a_count_agrees_with_its_noun():
    assert [count_phrase(number, "memory", "memories") for number in (0, 1, 2, 1234)] == [
        "0 memories",
        "1 memory",
        "2 memories",
        "1,234 memories",
    ]
    assert (pluralise(1, "message"), pluralise(2, "message")) == ("message", "messages")


def test_no_text_sets_a_number_before_a_plural_by_itself():
    files = [
        *[file for part in ("cli", "http", "mcp", "web") for file in SOURCES.glob(f"{part}/**/*.py")],
        *SOURCES.glob("web/**/*.html"),
        *SOURCES.glob("agents/*.py"),
    ]
    bare = [
        f"{file.name}:{number}: {line.strip()[:120]}"
        for file in [*files, SOURCES / "doctor.py"]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if BARE.search(line) and not any(word in line for word in FINE)
    ]
    assert bare == []


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 2**63])
def test_what_a_double_cannot_hold_is_a_string(number):
    value = {"metadata": {"id": number, "small": MAX_SAFE_INTEGER, "deep": [[number], True, 0.5, "1" * 20]}}
    told = json.loads(bytes(json_response(value).body))
    assert told == safe_numbers(value)
    assert told["metadata"]["id"] == str(number)
    assert told["metadata"]["small"] == MAX_SAFE_INTEGER
    assert told["metadata"]["deep"] == [[str(number)], True, 0.5, "1" * 20]
