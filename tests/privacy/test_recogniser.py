"""Sentences that are wishes, and more that only sound like one."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roomlore.db.privacy_requests import RoomParticipant
from roomlore.privacy.mentions import NameIndex
from roomlore.privacy.recogniser import (
    MAX_REQUEST_LENGTH,
    asks_to_forget,
    is_confidential,
    may_hold_request,
    recognise,
    restricts_unknown_person,
    states_restriction,
)
from roomlore.privacy.scope import states_replacement

NAMES = (
    "Ana",
    "Bo",
    "Linda Moss (mother)",
    "Cho (billing)",
    "Vera Lund (vendor)",
    "Sam Moss (brother)",
    "Dr. Fell",
)
PEOPLE = [
    RoomParticipant(room_id=0, id=name.split()[0] if name != "Dr. Fell" else "Fell", name=name, kind="human")
    for name in NAMES
]
ROOM = NameIndex.build(PEOPLE)

FORGET = [
    "forget that",
    "Please forget that.",
    "please forget that, everyone",
    "oops, forget that please",
    "Forget what I said.",
    "please forget what I just told you",
    "can you forget what I said about my salary?",
    "Please delete what I said about the divorce",
    "delete everything I said about my knee, thanks",
    "erase what I wrote about Berlin please",
    "pretend I never said that",
    "pretend you never saw that",
    "forget I said anything",
    "Forget I ever mentioned the baby",
    "delete my last message please",
    "remove my previous comment",
    "please scrub that message I just sent",
    "Forget everything about me",
    "forget that I live in Oslo",
    "Delete my old phone number 555-0142-77",
    "please delete the number 415-555-0142, the alias Nia and the note about the gate",
    "Remove 415-555-0142 from memory",
    "wipe the address 14 Mill Lane from your memory",
    "Remove the token tk_live_9Q4M2C8R77 from memory",
    "the value tk_live_9Q4M2C8R77 should be treated as deleted",
    'Do not retain the note "Falcon = Harbour Foods"',
    "Deletion request executed: 415-555-0142 is gone",
    "Backup number 415-555-0142 cleared from shared memory.",
]
CONFIDE = [
    "off the record: I am leaving in May",
    "This is off the record.",
    "Strictly off the record, the deal is dead",
    "between you and me, the budget is gone",
    "Just between us, I am pregnant",
    "keep this between us please",
    "let's keep that between us",
    "keep it to yourself, I got the job",
    "Please keep this confidential.",
    "keep that private, please",
    "don't tell anyone",
    "don't tell anybody, but I failed the exam",
    "do not share this with anyone",
    "Don't share this.",
    "please don't repeat that to anyone",
    "I'm telling you this in confidence",
    "Confidentially, we lost the client",
    "for your eyes only: the plan is attached",
    "nobody else needs to know",
]
WITHHOLD = [
    ("don't tell Linda", {"Linda"}),
    ("Please don't tell my mother about the test results", {"Linda"}),
    ("don't tell my mom!", {"Linda"}),
    ("do not tell Bo about the party", {"Bo"}),
    ("never show this to Cho", {"Cho"}),
    ("don't let Linda know", {"Linda"}),
    ("Don't let my brother see the diagnosis", {"Sam"}),
    ("please do not share my results with Linda", {"Linda"}),
    ("do not discuss my medication with my family", {"Linda", "Sam"}),
    ("keep this from Bo", {"Bo"}),
    ("hide the invoice from the vendor", {"Vera"}),
    ("I want my diagnosis kept private from family", {"Linda", "Sam"}),
    ("The vendor must not see the budget", {"Vera"}),
    ("Linda must not know about the scan", {"Linda"}),
    ("Vera should not receive the contract", {"Vera"}),
    ("Linda may receive scheduling only, not my results", {"Linda"}),
    ("Consent note: Linda may receive logistics only", {"Linda"}),
    ("my mother may hear appointment times only", {"Linda"}),
    ("Sam gets ride times only", {"Sam"}),
    ("I entered Sam as rides-and-scheduling only", {"Sam"}),
    ("Please revoke my mother's access now", {"Linda"}),
    ("Linda should no longer receive scheduling updates", {"Linda"}),
    ("Family access revoked: no more updates of any kind", {"Linda", "Sam"}),
    ("My access is scheduling-only, not budget or contract material", {"Ana"}),
    ("I should not receive the customer name, and not the budget", {"Ana"}),
]
NO_WISH = [
    "forget it, I found it",
    "forget it",
    "don't forget that we meet at nine",
    "Don't forget to delete the old number 555-0142-77",
    "never forget that day",
    "I forgot that",
    "I forgot what I said",
    "forget that, let's use postgres instead",
    "Forget Postgres, use SQLite",
    "did you forget that?",
    "you can forget about the weekend",
    "let me not forget that",
    "how do I delete my last message?",
    "can I delete what I said in Slack?",
    "please delete what I said in Discord as well",
    "delete the branch feature-4242",
    "remove that line from the config",
    "delete the file notes-2024.txt",
    "please remove line 42 from the script",
    "Delete row 14 in the table",
    "erase the disk sda1 and start again",
    "we deleted the container web-4242",
    "I deleted my account there",
    "remove the package libfoo-dev2",
    "clear the cache and reload",
    "clear your cookies",
    "wipe the partition first",
    "free the memory after use",
    "remove the object from memory when you are done",
    "drop the table users",
    "strike while the iron is hot",
    "Delete it if you like",
    "should I delete my number 555-0142-77?",
    "I would never delete 415-555-0142 from memory",
    "after Tuesday, please delete the number 415-555-0142",
    "if they ask, forget what I said",
    "he told me to forget what I said",
    "the message was deleted by a moderator",
    "you must remember that",
    "I don't remember",
    "I don't remember the P",
    "keep this between the lines",
    "read between the lines",
    "the difference between you and me is age",
    "there is nothing between us",
    "off the record player came a strange noise",
    "he said it was off the record",
    "what does off the record mean?",
    "is this off the record?",
    "make the field private",
    "keep it private in the class",
    "this is a private method",
    "my secret is good coffee",
    "the secret token is in the vault",
    "keep it up",
    "keep that in mind",
    "keep going, don't stop",
    "don't mention it",
    "don't tell me it's broken again",
    "don't tell me what to do",
    "I can't tell if Bo is here",
    "can't tell the difference",
    "I told Linda already",
    "did you tell Linda?",
    "why don't you tell Linda?",
    "Tell Linda I said hi",
    "Please share this with Linda",
    "Linda doesn't know anything",
    "Bo, I don't know",
    "Bo, you don't have to install that",
    "Linda can not come today",
    "Linda is not here",
    "Bo should not be late",
    "Bo must not smoke here",
    "Linda only likes tea",
    "Linda, I only have a minute",
    "only Bo knows how that works",
    "Bo only sees errors in the log",
    "not only Bo but also Linda came",
    "keep Bo from falling",
    "keep the cat from running away",
    "I got a private message from Bo",
    "Bo's access to the server was revoked",
    "revoke the ssh key of Bo",
    "I only have read access to the repo",
    "my access is read-only",
    "my role is not to judge",
    "The meeting is between Bo and Linda",
    "start in text-only mode, Bo",
    "Vera has approved access through Friday only",
    "we can keep talking without Linda",
    "no longer valid, Bo",
    "Bo no longer works here",
    "don't give up, Linda",
    "don't let Bo wait outside",
    "I never told Linda that I like her cooking",
    "never let the vendor down",
    "> forget that",
    "`delete my last message`",
    '"please forget that" is what she always says',
    "Linda said don't tell Bo",
    "stop talking to Bo",
    "the doctor may not see you today",
    "do not send the file to Bo yet?",
    "don't show up late, Sam",
    "hide the panel from the menu",
    "hide the errors from the log",
    "see you between nine and ten",
    "I am not for sale, Linda",
    "we no longer have access to parking",
    "good morning",
    "",
]
#: Heard, though nobody wishes anything, or not heard, though somebody does: known, and counted.
CASES = (
    [(text, "forget", None) for text in FORGET]
    + [(text, "confidential", None) for text in CONFIDE]
    + [(text, "restrict", who) for text, who in WITHHOLD]
    + [(text, None, None) for text in NO_WISH]
)


def judged() -> Counter[str]:
    counts: Counter[str] = Counter()
    for text, kind, who in CASES:
        wish = recognise(text, "Ana", ROOM)
        right = wish is not None and wish.kind == kind and (who is None or wish.restricted_ids == who)
        if wish is not None:
            counts["heard"] += 1
            counts["right"] += right
        counts["wanted"] += kind is not None
        counts["found"] += right
        if (wish is None) != (kind is None) or (kind and not right):
            print(f"{text!r}: wanted {kind} {who or ''}, heard {wish}")  # noqa: T201  of a failure all is wanted
    return counts


def test_there_are_enough_sentences_and_most_of_them_are_no_wishes():
    assert len(CASES) >= 120
    assert len(NO_WISH) > len(CASES) / 2
    assert len({text for text, *_ in CASES}) == len(CASES)


def test_nearly_everything_that_is_heard_was_wished():
    counts = judged()
    assert counts["right"] / counts["heard"] >= 0.95, counts


def test_most_of_what_is_wished_is_heard():
    counts = judged()
    assert counts["found"] / counts["wanted"] >= 0.9, counts


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("please delete the number 415-555-0142, the alias Nia and the gate", {"415-555-0142", "Nia"}),
        (
            "Delete room 218, the name June, and 415-555-0142 from memory",
            {"room 218", "June", "415-555-0142"},
        ),
        ('Do not retain the note "Falcon = Harbour Foods"', {"Harbour Foods"}),
        ("Delete 415-555-0142 from memory; keep only 415-555-0199", {"415-555-0142"}),
        ("Delete the number 415-555-0142 that Linda noted on May 4 at 9:30", {"415-555-0142"}),
    ],
)
def test_a_wish_names_what_it_is_about_and_neither_people_days_nor_what_is_kept(text, values):
    wish = recognise(text, "Ana", ROOM)
    assert wish is not None
    assert set(wish.identifiers) == values


def test_a_document_is_no_wish():
    assert recognise("please forget that. " * MAX_REQUEST_LENGTH, "Ana", ROOM) is None


#: Sentences of every kind that is looked for, and some of none.
LINES = [text for text, *_ in CASES if text.strip() and ">" not in text and "`" not in text] + [
    "this is confidential",
    "the number is confidential, please",
    "Sam is rides-only from now on",
    "the correct command is make release-all",
    "",
]
QUOTED_AS = ["> {}", ">{}", "  > {}", ">> {}", "> [forwarded from Bo] {}", ">\t{}"]
LINE_ENDS = ["\n", "\r\n", "\r", "\u2028"]


def told_by(body: str) -> list[object]:
    """Return everything that the words of a body tell of what their author wishes."""
    return [
        recognise(body, "Ana", ROOM),
        may_hold_request(body),
        restricts_unknown_person(body),
        asks_to_forget(body),
        states_restriction(body),
        is_confidential(body),
        states_replacement(body),
    ]


@example([("forget that", ""), ("Forget what I said.", "")], "\r")
@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["", *QUOTED_AS])), max_size=6),
    st.sampled_from(LINE_ENDS),
)
def test_quoted_lines_are_never_their_authors_words_and_everything_else_is(lines, end):
    written = end.join(how.format(text) if how else text for text, how in lines)
    assert told_by(written) == told_by("\n".join(text for text, how in lines if not how))


@pytest.mark.parametrize("how", QUOTED_AS)
def test_a_request_under_a_quotation_is_heard(how):
    wish = recognise(how.format("that was a lovely evening") + "\nplease forget that", "Ana", ROOM)
    assert wish is not None
    assert wish.kind == "forget"


def test_a_request_under_a_long_quotation_is_heard():
    wish = recognise("> a long mail\n" * MAX_REQUEST_LENGTH + "please forget that", "Ana", ROOM)
    assert wish is not None


@given(st.text(max_size=MAX_REQUEST_LENGTH))
def test_any_text_is_heard_or_not_without_a_fault(text):
    recognise(text, "Ana", ROOM)


@pytest.mark.parametrize(
    "piece", ["delete a ", "don't share ", "forget ", "keep this ", "only ", "'", '"a ', "1-", "A b "]
)
def test_hostile_repetition_takes_no_time(piece):
    recognise((piece * MAX_REQUEST_LENGTH)[:MAX_REQUEST_LENGTH], "Ana", ROOM)


def test_whatever_is_heard_is_put_like_a_wish_before_it_is_known_who_takes_part():
    assert [text for text, *_ in CASES if recognise(text, "Ana", ROOM) and not may_hold_request(text)] == []
