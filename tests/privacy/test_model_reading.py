"""What the message model reads becomes a request with people, values and a place, or none."""

import pytest

from privacy.test_scope import PEOPLE, told
from roomlore.models.message_model import INTENTS, SCOPES, MessageReading
from roomlore.privacy.model_reading import to_request
from roomlore.privacy.records import PrivacyRequest, RequestMessage
from roomlore.privacy.review import BY_MODEL, NOT_PLAIN, UNCLEAR, review_reason


def reading(intent: str | None, scope: str = "previous", *, is_certain: bool = False) -> MessageReading:
    return MessageReading(
        acts={},
        does=(),
        keep=0.0,
        intents={name: float(name == (intent or "none")) for name in INTENTS},
        scopes={name: float(name == scope) for name in SCOPES},
        request=intent,
        is_certain_request=is_certain,
    )


@pytest.mark.parametrize(
    ("line", "read", "request_"),
    [
        ("Ana: weg damit", reading("forget"), PrivacyRequest(kind="forget", refers_back=True)),
        (
            "Ana: ich bin krank, bleibt unter uns",
            reading("confidential", "this"),
            PrivacyRequest(kind="confidential", is_about_itself=True),
        ),
        (
            "Ana: das muss Linda nicht wissen",
            reading("deny"),
            PrivacyRequest(kind="restrict", refers_back=True, restricted_ids=frozenset({"Linda"})),
        ),
        # Nobody has the name, so everybody who was not there is meant.
        ("Ana: das muss Otto nicht wissen", reading("deny"), PrivacyRequest(kind="confidential", refers_back=True)),
        ("Ana: nur Bo darf das wissen", reading("allow"), PrivacyRequest(kind="confidential", refers_back=True)),
        (
            "Ana: die 4412-9981 bitte vergessen",
            reading("forget", "value"),
            PrivacyRequest(kind="forget", identifiers=("4412-9981",)),
        ),
        (
            "Ana: vergesst den Umzug",
            reading("forget", "topic"),
            PrivacyRequest(kind="forget", subject="Umzug"),
        ),
        # Only what the place says can be certain.
        ("Ana: away with it", reading("forget", is_certain=True), PrivacyRequest(kind="forget", refers_back=True, is_certain=True)),
        (
            "Ana: away with the move",
            reading("forget", "topic", is_certain=True),
            PrivacyRequest(kind="forget", subject="move"),
        ),
        ("Ana: you may tell it now", reading("take_back"), None),
        ("Ana: good morning", reading(None), None),
    ],
)  # fmt: skip
def test_a_reading_becomes_a_request(line, read, request_):
    [message] = told(line)
    assert to_request(read, message, PEOPLE, ["Umzug im Mai", "and the move costs 900"]) == request_


def doubt(request: PrivacyRequest, *lines: str) -> str:
    *before, message = told(*lines)
    return review_reason(RequestMessage(message=message, request=request, detected_by="a model"), before)


CERTAIN = PrivacyRequest(kind="forget", refers_back=True, is_certain=True)


def test_only_a_certain_request_with_a_clear_reference_is_applied():
    said = ("Ana: I am ill", "Bo: oh")
    assert doubt(CERTAIN, *said, "Ana: away with it") == ""
    assert doubt(PrivacyRequest(kind="forget", refers_back=True), *said, "Ana: away with it") == BY_MODEL
    assert doubt(CERTAIN, "Bo: oh", "Ana: away with it") == UNCLEAR
    assert doubt(CERTAIN, *said, "Ana: away with it, " + "and so on " * 30) == NOT_PLAIN
