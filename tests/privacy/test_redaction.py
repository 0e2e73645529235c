"""What names somebody by the platform's structure goes; what others said in plain words stays."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roomlore.domain.redaction import ERASED, ERASED_MENTION, PersonAliases, Redactor

ANA = PersonAliases(
    accounts=frozenset({"U1", "12345"}), names=frozenset({"Ana", "Ana B.", "Al", "C++ (fan)"})
)


def scrubber(**fields) -> Redactor:
    return Redactor(aliases=ANA, **fields)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hi <@U1>!", f"hi {ERASED_MENTION}!"),
        ("hi <@!U1> and <@U1|ana>", f"hi {ERASED_MENTION} and {ERASED_MENTION}"),
        ("hi <@U12> and <@U2>", "hi <@U12> and <@U2>"),
        ("hi @Ana, said Ana to <U1>", "hi @Ana, said Ana to <U1>"),
    ],
)
def test_marks_go_from_every_text_and_nothing_else_does(text, left):
    assert scrubber().text(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("@Ana hi", f"{ERASED_MENTION} hi"),
        ("@ana B. hi @U1", f"{ERASED_MENTION} hi {ERASED_MENTION}"),
        ("@C++ (fan) hi", f"{ERASED_MENTION} hi"),
        ("@Anatol, bo@Ana.org and Ana", "@Anatol, bo@Ana.org and Ana"),
    ],
)
def test_mentions_go_where_the_message_mentions_them(text, left):
    assert scrubber(mentions_them=True).text(text) == left
    assert scrubber().text(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Ana joined", f"{ERASED} joined"),
        ("Ana B. (Ana) left", f"{ERASED} ({ERASED}) left"),
        ("Anatol and Al joined, ana too", "Anatol and Al joined, ana too"),
    ],
)
def test_names_go_from_notices_as_words(text, left):
    assert scrubber(is_notice=True).text(text) == left


def test_accounts_and_names_go_from_values_under_keys_that_bear_people():
    value = {
        "user": "U1",
        "by": ["Ana", "Bo", 12345, 1],
        "text": "Ana <@U1>",
        "users": {"U1": {"x": None}},
        "ok": True,
    }
    assert scrubber().value(value) == {
        "user": ERASED,
        "by": [ERASED, "Bo", ERASED, 1],
        "text": f"Ana {ERASED_MENTION}",
        "users": {ERASED: {"x": None}},
        "ok": True,
    }


@pytest.mark.parametrize(
    "key",
    [
        *("actor", "actor_id", "author", "authorId", "by", "display_name", "displayName", "edited_by"),
        *(
            "first_name",
            "forwarded_from",
            "from",
            "from_id",
            "global_name",
            "inviter",
            "last_name",
            "members",
        ),
        *("mentions", "nick", "nickname", "parent_user_id", "pinnedBy", "posted_by", "real_name"),
        *("reply_users", "seen_by", "signature", "to", "user", "user_id", "User-Id", "username", "users"),
    ],
)
def test_every_key_that_bears_people_loses_them_at_any_depth(key):
    for theirs in ("U1", "Ana", 12345):
        assert scrubber().value({key: theirs}) == {key: ERASED}
        assert scrubber().value([{"a": [{key: [theirs, "Bo"]}]}]) == [{"a": [{key: [ERASED, "Bo"]}]}]


def test_what_describes_an_account_goes_whole_and_the_message_itself_does_not():
    raw = {"id": "U1", "text": "mine", "from": {"id": "U1", "nick": "Annie", "age": 7, "type": "user"}}
    assert scrubber().value(raw) == {
        "id": "U1",
        "text": "mine",
        "from": {"id": ERASED, "nick": ERASED, "age": 7, "type": "user"},
    }


@pytest.mark.parametrize("key", ["user_id", "userId", "account_id", "author_id", "from_id", "user"])
def test_an_object_that_holds_the_account_goes_whole_wherever_it_stands(key):
    quote = {key: "U1", "text": "their words", "type": "quote"}
    assert scrubber().value([quote]) == [{key: ERASED, "text": ERASED, "type": "quote"}]
    assert scrubber().value(quote)["text"] == "their words"
    assert scrubber().value([quote | {key: "U2"}]) == [quote | {key: "U2"}]


def test_the_name_of_a_room_for_two_goes():
    room = {"kind": "dm", "id": "d7", "name": "Ana"}
    assert scrubber().value({"room": room}) == {"room": room | {"name": ERASED}}
    assert scrubber().value({"room": room | {"kind": "channel"}})["room"]["name"] == "Ana"


# Accounts and names that look like anything else

PLAIN = Redactor(
    aliases=PersonAliases(accounts=frozenset({"1", "text", "users"}), names=frozenset({"message", "map.png"}))
)


@pytest.mark.parametrize(
    "value",
    [
        [{"id": "1", "filename": "map.png", "url": "http://x/map.png", "name": "map.png"}],
        {"priority": "1", "level": 1, "text": "1", "count": 1},
        {"type": "message", "subtype": "message", "id": "1"},
        {"text": "words", "nested": {"text": {"text": "words"}}},
        {"files": [{"id": 1, "title": "message"}], "emoji": {"id": "1", "name": "message", "url": "u"}},
        {"embeds": [{"id": "1", "title": "message", "description": "text"}]},
        {"channel": {"id": "1", "name": "message", "topic": "t"}, "room": {"id": "1", "name": "message"}},
        {"author": {"id": "2", "roles": [{"id": "1", "name": "message", "color": "red"}]}},
        {"reactions": [{"id": "1", "emoji": {"id": "1", "name": "message"}, "text": 1, "count": 1}]},
        {"users": 1, "members": 1, "reply_users": 1, "reactions": {"message": 1, "+1": 1}},
        "message",
        ["1", 1, "message"],
    ],
)
def test_a_string_or_key_that_stands_for_nobody_stays(value):
    assert PLAIN.value(value) == value


def test_a_short_number_goes_where_it_names_somebody():
    value = {"user_id": 1, "by": [1, 2], "mentions": [{"id": 1, "nick": "Annie"}, {"id": 2, "nick": "Bo"}]}
    assert PLAIN.value(value) == {
        "user_id": ERASED,
        "by": [ERASED, 2],
        "mentions": [{"id": ERASED, "nick": ERASED}, {"id": 2, "nick": "Bo"}],
    }
    assert PLAIN.value({"from": {"id": "1", "name": "One"}, "author": {"id": "2", "name": "message"}}) == {
        "from": {"id": ERASED, "name": ERASED},
        "author": {"id": "2", "name": ERASED},
    }


def test_accounts_go_from_maps_of_people_and_reactions():
    value = {
        "users": {"U1": {"id": "U1", "name": "Annie"}, "U2": "Bo"},
        "reactions": {"+": ["U1", "U2"], "U1": "-"},
        "labels": {"U1": "kept"},
    }
    assert scrubber().value(value) == {
        "users": {ERASED: {"id": ERASED, "name": ERASED}, "U2": "Bo"},
        "reactions": {"+": [ERASED, "U2"], ERASED: "-"},
        "labels": {"U1": "kept"},
    }


def test_an_author_of_the_same_name_keeps_it():
    value = {"from": {"id": "U2", "name": "Ana"}, "username": "Ana", "nick": "Ana B."}
    assert scrubber(author_name="Ana").value(value) == value | {"nick": ERASED}
    assert scrubber(author_name="Ana").value({"name": "Ana", "nick": "Ana B."}) == {
        "name": "Ana",
        "nick": ERASED,
    }


def test_ids_and_reactions_lose_the_account_only():
    assert scrubber().ids(["U1", "U2", 7]) == ["U2", 7]
    assert scrubber().reactions([{"emoji": "+", "count": 2, "by": ["U1", "U2"]}, "odd"]) == [
        {"emoji": "+", "count": 2, "by": ["U2"]},
        "odd",
    ]
    assert scrubber().ids("U1") == ERASED
    assert scrubber().reactions(None) is None


def test_nobody_is_named_nowhere():
    nobody = Redactor(aliases=PersonAliases(), mentions_them=True, is_notice=True)
    for text in ("", "@ <@> <@|x> word"):
        assert nobody.text(text) == text
        assert nobody.value({"a": text}) == {"a": text}
    assert not PersonAliases().is_named_in("anything")


WORDS = st.sampled_from(
    ["Ana", "ana", "U1", "<@U1>", "<@!U1|x>", "@Ana", "@U1", "erased", "[", "]", " ", "x", "12345", "dm"]
)
TEXTS = st.lists(WORDS, max_size=6).map("".join)
KEYS = ["id", "name", "type", "kind", "U1", "x", "user", "by", "from", "users", "reactions"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)
TRACES = st.builds(
    PersonAliases,
    accounts=st.frozensets(st.sampled_from(["U1", "12345", "erased", "["]), max_size=3),
    names=st.frozensets(st.sampled_from(["Ana", "ana", "erased", "[erased]", "x", "@Ana"]), max_size=3),
)


@given(VALUES, TRACES, st.booleans(), st.booleans())
@example("Ana@U1", PersonAliases(accounts=frozenset({"U1"}), names=frozenset({"Ana"})), True, True)
def test_a_second_scrubbing_finds_nothing(value, trace, mentions_them, is_notice):
    scrub = Redactor(aliases=trace, mentions_them=mentions_them, is_notice=is_notice)
    once = scrub.value(value)
    assert scrub.value(once) == once
    json.dumps(once)


@given(VALUES)
def test_what_names_nobody_stays_as_it_is(value):
    stranger = Redactor(
        aliases=PersonAliases(accounts=frozenset({"Z9"}), names=frozenset({"Zoe"})),
        mentions_them=True,
        is_notice=True,
    )
    assert stranger.value(value) == value
