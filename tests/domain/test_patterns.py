import gc
import re

import pytest

from roomlore.domain import patterns
from roomlore.domain.patterns import lazy_pattern
from roomlore.memories import llm_answer
from roomlore.privacy import recogniser


def test_it_is_compiled_when_it_is_first_asked_and_never_again(monkeypatch):
    compiled, compile_ = [], re.compile
    monkeypatch.setattr(patterns.re, "compile", lambda *args: compiled.append(args) or compile_(*args))

    form = lazy_pattern("a(b)?", re.IGNORECASE)

    assert (form.pattern, compiled) == ("a(b)?", [])
    assert form.search("xAB")[1] == "B"
    assert form.sub("-", "ab a") == "- -"
    assert compiled == [("a(b)?", re.IGNORECASE)]


def test_it_answers_as_a_pattern_does():
    form, pattern = lazy_pattern("(?P<one>[ab])c", re.IGNORECASE), re.compile("(?P<one>[ab])c", re.IGNORECASE)
    text = "acBC bc"

    assert form.match(text).span() == pattern.match(text).span()
    assert form.fullmatch("AC")["one"] == pattern.fullmatch("AC")["one"]
    assert form.findall(text) == pattern.findall(text)
    assert [one.span() for one in form.finditer(text)] == [one.span() for one in pattern.finditer(text)]
    assert form.split(text) == pattern.split(text)
    assert form.subn("-", text) == pattern.subn("-", text)
    assert (form.flags, form.groups, form.groupindex) == (pattern.flags, pattern.groups, pattern.groupindex)
    with pytest.raises(AttributeError):
        _ = form.nothing


@pytest.mark.slow
def test_every_form_of_speech_makes_sense():
    assert llm_answer
    assert recogniser
    forms = [one for one in gc.get_objects() if isinstance(one, patterns.LazyPattern)]

    assert len(forms) > 100
    for one in forms:
        re.compile(one.pattern, one._flags)


def test_a_pattern_finds_nothing_in_what_is_too_long_for_it():
    form = lazy_pattern("b", most=3)

    assert form.search("aab").span() == (2, 3)
    assert form.search("aaab") is None
    assert form.search("aaab", 1).span() == (3, 4)
    assert form.search("baaa", 0, 3).span() == (0, 1)
    assert form.match("baaa") is form.fullmatch("baaa") is None
    assert form.findall("baaa") == list(form.finditer("baaa")) == []
    assert (form.sub("-", "abb"), form.sub("-", "abba")) == ("a--", "abba")
    assert (form.subn("-", "abba"), form.split("abba"), form.split("aba")) == (
        ("abba", 0),
        ["abba"],
        ["a", "a"],
    )
