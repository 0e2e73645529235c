"""Wishes as people put them in chats, written before they were tried, and talk that is none."""

import pytest

from privacy.test_recogniser import ROOM
from roomlore.privacy.recogniser import recognise

FORGET = [
    "ugh wrong chat, forget I said that",
    "pls delete that last message of mine from memory",
    "can we all just forget what I said about Marco yesterday",
    "could you please forget my address?",
    "hey bot, forget everything I told you about my ex",
    "scratch that, please delete what I wrote about the salary",
    "I shouldn't have posted that, please forget it was said",
    "please don't remember that",
    "don't keep that in memory please",
    "please remove my phone number from your memory",
    "forget my birthday please",
    "you can forget what I told you earlier",
    "let's pretend I never mentioned it",
    "Delete my number, it's 0151 2233445",
    "everyone please forget I said anything about the layoffs",
    "strike what I said about Tom",
]
CONFIDE = [
    "this stays between us ok?",
    "keep it between us",
    "don't repeat this to anyone pls",
    "not for sharing: we're being acquired",
    "please keep this to yourselves for now",
    "ok this is confidential but we lost the Berlin account",
    "between you and me I can't stand the new office",
    "off the record, I already signed with them",
    "this doesn't leave this room",
    "what I just said stays in this room",
    "mum's the word",
    "keep this on the down low please",
    "don't tell a soul",
]
WITHHOLD = [
    ("pls dont tell Linda", {"Linda"}),
    ("Don't mention this to Bo, ok", {"Bo"}),
    ("Bo can't know about this", {"Bo"}),
    ("I don't want Linda to know", {"Linda"}),
    ("Linda doesn't need to know about any of this", {"Linda"}),
    ("whatever you do, don't let Bo find out", {"Bo"}),
    ("not a word to Cho about the invoice", {"Cho"}),
    ("please keep the surgery from my mom", {"Linda"}),
    ("nobody tell Sam about the surprise party!", {"Sam"}),
    ("I'd rather Vera didn't hear about the budget", {"Vera"}),
    ("make sure my brother doesn't find out about the loan", {"Sam"}),
    ("don't forward this to Dr. Fell please", {"Fell"}),
]
NO_WISH = [
    "don't forget to tell Linda about the dinner",
    "forget about it, not worth the hassle",
    "you guys forgot me again lol",
    "I can't tell Bo apart from his twin",
    "can someone delete the old staging bucket",
    "just between the two of them there's 20 years of experience",
    "keep it simple",
    "it's no secret that the build is slow",
    "I'll never forget what she said",
    "delete node_modules and retry",
    "we keep the keys behind the counter",
    "don't tell me you deleted the branch",
    "Bo didn't get the memo",
    "Linda hasn't heard from them either",
    "please share the doc with Vera only if she asks",
    "only Linda has the key to the shed",
    "the record shows otherwise",
    "who can I tell about this bug?",
    "she asked me to keep it between us, weird",
    "do not share needles, folks",
    "can you remind Bo not to forget his laptop",
    "if it's only a warning then you shouldn't have a problem",
    "tell Bo not to worry",
    "I don't want Bo to wait",
    "don't let the cat out, Sam",
    "eruin, don't bother, I'll do it myself",
    "but I do not hear a thing",
    "Cho doesn't know how to reset it, do you?",
    "we don't talk about Bruno",
    "remove the space between the two words",
]
CASES = (
    [(text, "forget", None) for text in FORGET]
    + [(text, "confidential", None) for text in CONFIDE]
    + [(text, "restrict", who) for text, who in WITHHOLD]
)


def is_heard(text: str, kind: str, who: set[str] | None) -> bool:
    wish = recognise(text, "Ana", ROOM)
    return wish is not None and wish.kind == kind and (who is None or wish.restricted_ids == who)


@pytest.mark.parametrize("text", NO_WISH)
def test_what_only_sounds_like_a_wish_is_none(text):
    assert recognise(text, "Ana", ROOM) is None


@pytest.mark.parametrize(("text", "kind", "who"), CASES)
def test_a_wish_is_heard_as_it_is_put_in_talk(text, kind, who):
    assert is_heard(text, kind, who)
