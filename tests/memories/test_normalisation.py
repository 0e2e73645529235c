import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roomlore.memories.normalisation import digest_of, normalised

SAME = [
    ("Ana prefers dark mode.", "ana  really prefers the dark mode"),
    ("We don't deploy on Fridays!", "We do not deploy on Fridays"),
    ("Cy\u2019s laptop can\u2019t sleep", "Cy's laptop cannot sleep"),
    ("**Bo** uses `vim`", "Bo uses vim"),
    ("Dee's birthday is May 4", "Dee's birthday is May 4."),
    ("Ana: \u201cI prefer dark mode\u201d", "Ana prefers dark mode."),
    ('Ana: "I really prefer the dark mode."', "Ana prefers dark mode."),
    ("Ana: I prefer dark mode", "Ana prefers dark mode."),
    ("Ana: \u201cI'm allergic to nuts\u201d", "Ana is allergic to nuts."),
    ("Ana: \u201cI am allergic to nuts\u201d", "Ana: \u201cI\u2019m allergic to nuts!\u201d"),
    ("Ana: \u201cI've got two cats\u201d", "Ana has got two cats."),
    ("Ana: \u201cI have two cats\u201d", "Ana has two cats."),
    ("Ana: \u201cI don't eat meat\u201d", "Ana does not eat meat."),
    ("Ana: \u201cI can't stand opera\u201d", "Ana cannot stand opera."),
    ("Ana: \u201cI never work on Sundays\u201d", "Ana never works on Sundays."),
    ("Ana: \u201cI always carry a map\u201d", "Ana always carries a map."),
    ("Ana: \u201cI teach chess\u201d", "Ana teaches chess."),
    ("Ana: \u201cI go by Annie\u201d", "Ana goes by Annie."),
    ("Ana: \u201cI moved to Lyon\u201d", "Ana moved to Lyon."),
    ("Ana: \u201cI bought a boat\u201d", "Ana bought a boat."),
    ("Ana: \u201cI was born in Faro\u201d", "Ana was born in Faro."),
    ("Ana: \u201cI will send the draft on Friday\u201d", "Ana will send the draft on Friday."),
    ("Ana: \u201cI need two screens\u201d", "Ana needs two screens."),
    ("Ana: \u201cMy editor is vim\u201d", "Ana's editor is vim."),
    ("Ana Lopes: \u201cI live in Porto\u201d", "Ana Lopes lives in Porto."),
    ("Ana: \u201cI also play the cello\u201d", "Ana plays the cello."),
    ("Let's use Postgres", "Let us use Postgres."),
    ("Bo won't be there", "Bo will not be there"),
    ("The deploy is at 10:30.", "the deploy is at 10:30"),
    ("It's basically 3.5 GB", "It's 3.5 GB"),
]
#: Near, and something else: no two of these may ever be one.
DIFFERENT = [
    ("Ana is vegan.", "Ana is not vegan."),
    ("Ana: \u201cI eat meat\u201d", "Ana does not eat meat."),
    ("Only Bo has the key.", "Bo has the key."),
    ("Bo eats fish.", "Bo hardly eats fish."),
    ("Nobody reviews it.", "Somebody reviews it."),
    ("The port is 5432.", "The port is 5433."),
    ("Version 3.11 is needed.", "Version 3.1.1 is needed."),
    ("It is -5 outside.", "It is 5 outside."),
    ("Ana: \u201cI have two cats\u201d", "Ana has three cats."),
    ("We use C", "We use C++"),
    ("Ana prefers tabs over spaces.", "Ana prefers spaces over tabs."),
    ("Ana: \u201cI live in Porto\u201d", "Bo lives in Porto."),
    ("Ana trusts Bo.", "Bo trusts Ana."),
    ("Ana: \u201cmy editor is vim\u201d", "Bo's editor is vim."),
    ("Ana: \u201cI manage Bo\u201d", "Bo manages Ana."),
    ("Ana Lopes lives in Porto.", "Ana lives in Porto."),
    ("The release is on May 4.", "The release is on May 5."),
    ("The call is at 10:30.", "The call is at 10.30."),
    ("Deploy before the standup.", "Deploy after the standup."),
    ("At least two reviewers.", "At most two reviewers."),
    ("Ana earns more than Bo.", "Ana earns less than Bo."),
    ("Cy lives in Porto.", "Cy lived in Porto."),
    ("Ana: \u201cI lived in Porto\u201d", "Ana lives in Porto."),
    ("Ana: \u201cI was vegan\u201d", "Ana is vegan."),
    ("Ana: \u201cI will move to Lyon\u201d", "Ana moved to Lyon."),
    ("Ana: \u201cI can drive\u201d", "Ana drives."),
    ("Ana: \u201cI had two cats\u201d", "Ana has two cats."),
    ("Ana: \u201cI read the paper\u201d", "Ana reads the paper."),
    ("Ana: \u201cI used to smoke\u201d", "Ana smokes."),
    ("Ana: \u201cI want to move to Lyon\u201d", "Ana moved to Lyon."),
    ("Ana: \u201cI would like a dog\u201d", "Ana likes a dog."),
    ("Ana has a cat.", "Ana has cats."),
    ("Bo's new work sold.", "Bo's new works sold."),
    ("Bo said she prefers tea.", "Bo prefers tea."),
    ("Ana says Bo prefers tea.", "Ana prefers tea."),
    ("Ana said they are moving.", "Ana is moving."),
    ("I think the port is 5432.", "The port is 5432."),
    ("Ana: \u201cI think Bo lives in Porto\u201d", "Bo lives in Porto."),
    ("Ana thinks the port is 5432.", "The port is 5432."),
    ("Ana: \u201cmy sister lives in Porto\u201d", "Ana lives in Porto."),
    ("Ana: \u201cmy cat prefers fish\u201d", "Ana prefers fish."),
    ("Ana: \u201cBo prefers tea\u201d", "Ana prefers tea."),
    ("Ana likes tea.", "Ana likes green tea."),
    ("Ana likes her design.", "Ana likes his design."),
    ("Ana moved to Lyon.", "Ana moved from Lyon."),
    ("Ana: \u201cI work at Acme\u201d", "Ana works for Acme."),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_statements_have_one_digest(one, other):
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_statements_have_different_digests(one, other):
    assert digest_of(one) != digest_of(other)


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1) | st.text(alphabet="Ana:I my'\u201c \t", min_size=1))
def test_normalisation_is_idempotent_and_never_empty(content):
    assert normalised(normalised(content)) == normalised(content)
    assert normalised(content) or not content.split()


@settings(max_examples=30)
@given(st.sampled_from(SAME), st.sampled_from([" ", "\n", "  \t"]))
def test_blanks_and_case_do_not_change_the_digest(pair, blank):
    one, other = pair
    assert digest_of(one.upper().replace(" ", blank)) == digest_of(other)
