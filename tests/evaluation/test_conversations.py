from datetime import UTC, datetime

from evaluation.conversations import assignments, reply_links
from evaluation.datasets import Link
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId, RoomId, uuid7
from roomlore.domain.records import AssignedMessage, Message, Reply

ROOM, ANA, TENTS = RoomId(uuid7()), ParticipantId(uuid7()), ConversationId(uuid7())


def said(
    external_id: str, *, kind: str = "message", answers: AssignedMessage | None = None, conversation=None
) -> AssignedMessage:
    message = Message(
        id=MessageId(uuid7()),
        room_id=ROOM,
        external_id=external_id,
        kind=kind,
        author_id=ANA,
        author_name="Ana",
        author_kind="human",
        body="",
        sent_at=datetime(2024, 5, 1, 9, tzinfo=UTC),
        precision="min",
        sequence=0,
        edited_at=None,
        redacted_at=None,
        reply_to=None,
    )
    edge = answers and Reply(
        child_id=message.id, parent_id=answers.message.id, method="inferred", confidence=0.7
    )
    return AssignedMessage(message=message, answers=edge, conversation_id=conversation)


def test_every_message_that_answers_is_linked():
    first = said("m1")
    second = said("m2", answers=first)
    assert reply_links([first, second, said("m3", answers=second)]) == [
        Link(child="m2", parent="m1"),
        Link(child="m3", parent="m2"),
    ]


def test_notices_of_the_platform_answer_nobody():
    first = said("m1")
    assert reply_links([first, said("m2", kind="system", answers=first)]) == []


def test_every_message_in_a_conversation_is_assigned():
    run = assignments([said("m1", conversation=TENTS), said("m2"), said("m3", conversation=TENTS)])
    assert [(one.message_id, one.conversation) for one in run] == [("m1", str(TENTS)), ("m3", str(TENTS))]
