"""Which requests are put so plainly that they are carried out; of the others a person is asked first."""

from datetime import UTC, datetime, timedelta

import pytest

from privacy.test_recogniser import ROOM
from roomlore.db.privacy_requests import RoomMessage
from roomlore.privacy import review
from roomlore.privacy.recogniser import recognise
from roomlore.privacy.records import PrivacyRequest, RequestMessage
from roomlore.privacy.review import review_reason
from roomlore.privacy.scope import states_replacement

NOON = datetime(2024, 5, 4, 12, tzinfo=UTC)


def said(number: int, author: str, body: str, **fields) -> RoomMessage:
    return RoomMessage(
        id=number,
        room_id=0,
        author_id=author,
        author_name=author,
        author_kind="human",
        body=body,
        sent_at=NOON + timedelta(minutes=number),
        sequence=number,
        **fields,
    )


BEFORE = [said(1, "Bo", "how is it?"), said(2, "Ana", "I broke my arm on the move, on my birthday")]


PANELS = """What if each panel keeps its own state? Forget what I said about a shared store, the filter only needs the ids of
its panel, and the panels should not know about each other."""
AXES = """New idea for the chart library: the axis never tells the legend about the scale, they only share the theme. Keep
this between us until the review: draw() takes the layers and nobody else may know the pixels."""


def doubt_of(body: str, before=BEFORE, **fields) -> str:
    voice = said(50, "Ana", body, **fields)
    wish = recognise(body, "Ana", ROOM)
    assert wish is not None, "it is not heard at all"
    return review_reason(RequestMessage(message=voice, request=wish), before)


@pytest.mark.parametrize(
    "body",
    [
        "please forget that",
        "Forget what I said about the move.",
        "pls delete what I wrote earlier",
        "forget I said that",
        "please don't remember that",
        "please delete the number 415-555-0142 and the alias Nia from memory",
        "forget my birthday please",
        "keep this to yourself please",
        "just between us",
        "don't tell anyone",
        "Off the record, Bo: I am leaving in May",
        "off the record, I already signed with them",
        "don't tell Linda",
        "please don't tell Linda about my diagnosis",
        "Please keep this from Linda",
        "not a word to Cho about the invoice",
    ],
)
def test_a_plain_request_that_stands_alone_is_carried_out(body):
    assert doubt_of(body) == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("forget what I wrote above, the correct command is `make release-all`", review.QUOTED),
        ("forget what I wrote above, the correct command is make release-all", review.NOT_PLAIN),
        ("Staff only: the budget is 600 euro, don't tell the others", review.NOT_PLAIN),
        ("I am allergic to peanuts. Don't tell Linda.", review.NOT_PLAIN),
        ("please forget what I said about the move, maybe", review.HEDGED),
        ("keep it between us ;)", review.HEDGED),
        ("Linda may receive scheduling only", review.ONGOING),
        ("Revoke my mother's access", review.ONGOING),
        # design proposals that only sound like a request, as one was hidden of a real room
        (PANELS, review.HEDGED),
        (AXES, review.NOT_PLAIN),
    ],
)
def test_of_everything_else_a_person_is_asked_and_told_why(body, why):
    assert doubt_of(body) == why


def test_a_request_that_refers_to_nothing_or_to_long_ago_is_doubtful():
    chatter = [said(number, "Bo", "tea") for number in range(3, 12)]
    assert doubt_of("please forget that", before=[]) == review.UNCLEAR
    assert doubt_of("please forget that", before=[*BEFORE, *chatter]) == review.UNCLEAR
    assert doubt_of("please forget that", before=[*BEFORE, *chatter], reply_to=2) == ""
    assert doubt_of("forget what I said about the weather") == review.UNCLEAR


def test_what_no_rule_heard_is_doubtful():
    voice = RequestMessage(
        message=said(50, "Ana", "please forget that"), request=PrivacyRequest(kind="forget", refers_back=True)
    )
    assert review_reason(voice, BEFORE) == ""
    named = RequestMessage(message=voice.message, request=voice.request, detected_by="a language model")
    assert review_reason(named, BEFORE) == review.BY_MODEL


@pytest.mark.parametrize(
    ("body", "is_news"),
    [
        ("forget what I wrote above, the correct command is `make release-all`", True),
        ("Please forget what I said. We meet at noon instead, it is in the calendar.", True),
        ("Forget what I said before, the meeting starts at ten", True),
        ("Forget my last message, the port is 8443", True),
        ("Please delete what I wrote above; use branch stable instead", True),
        ("Forget what I said about Tuesday. We meet on Wednesday.", True),
        ("Scrub what I said earlier: the train goes from platform 4", True),
        ("Forget my previous message, the link is http://a.example/b", True),
        ("Please forget what I told you, it should be three boxes", True),
        ("Delete my earlier comment - Bo has the keys now", True),
        ("please forget that", False),
        ("Sorry, wrong chat, please forget what I said about the move", False),
        ("forget that I told you I am ill, it was only a cold", False),
        ("Delete my number from memory", False),
    ],
)
def test_a_message_that_also_says_what_holds_now_is_known(body, is_news):
    assert states_replacement(body) is is_news


#: What people say of other things, or in another language; and requests that nobody may take for plain ones.
NOT_PLAIN = [
    "Forget that movie, it was awful",
    "Delete my heart, it hurts",
    "Don't tell me about it",
    "Let's keep the old layout between releases",
    "Never tell a lie",
    "forget my birthday, everybody does",
    "You can forget about your promotion",
    "Remove everything between the tags",
    "just between us girls shoes cost too much",
    "Don't let the cat out",
    "Don't share your screen with Bo, it is too small",
    "Don't mention it",
    "Delete that, and the build turns green",
    "please remove the salt from my memory foam",
    "Don't tell the kids there is no Santa, says the poster",
    "Vergiss den Regenschirm nicht",
    "Das bleibt spannend",
    "Bitte behaltet das für euch",
    "Vergiss, was ich gesagt habe, das Treffen ist um zehn",
    "menus don't show in Cho's browser",
    "hehe don't tell others ;]",
    "forget what I said, don't use the old kernel, it is not good to do so",
]


@pytest.mark.parametrize("body", NOT_PLAIN)
def test_talk_that_only_sounds_like_a_request_hides_nothing(body):
    wish = recognise(body, "Ana", ROOM)
    assert wish is None or review_reason(RequestMessage(message=said(50, "Ana", body), request=wish), BEFORE)
