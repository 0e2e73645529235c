"""A message stands where what it answers stands; each stream of recipients is told apart; a person's word stays."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from roomlore.conversations.disentangler import (
    LONGEST_SILENCE,
    SHORTEST_SILENCE,
    Assignment,
    Disentangler,
    ReplyLink,
    WhisperAudience,
    conversation_id_for,
)
from roomlore.conversations.window import WINDOW, ConversationMessage
from roomlore.domain.ids import ConversationId, MessageId, ParticipantId

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
SPACE = UUID(int=7)


def message_id(name: str) -> MessageId:
    return MessageId(uuid5(SPACE, name))


def person(name: str) -> ParticipantId:
    return ParticipantId(uuid5(SPACE, f"person {name}"))


def said(
    name: str, minutes: float = 0, *, by: str = "ana", answers: str | None = None
) -> ConversationMessage:
    return ConversationMessage(
        id=message_id(name),
        author_id=person(by),
        author_name=by,
        sent_at=START + timedelta(minutes=minutes),
        body=name,
        reply_to=message_id(answers) if answers else None,
    )


class Told:
    """A linker that answers as it was told, and remembers what it was asked."""

    def __init__(self, answers: dict[str, tuple[str | None, float]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.remembered: list[str] = []

    def remember(self, said: ConversationMessage, _: MessageId | None) -> None:
        self.remembered.append(said.body)

    def link(self, said: ConversationMessage) -> ReplyLink:
        self.asked.append(said.body)
        if said.reply_to is not None:
            return ReplyLink(id=said.id, parent_id=said.reply_to, method="explicit", confidence=1.0)
        parent, confidence = self.answers.get(said.body, (None, 1.0))
        found = message_id(parent) if parent else None
        return ReplyLink(
            id=said.id, parent_id=found, method="inferred" if found else None, confidence=confidence
        )


def went(
    lines: list[ConversationMessage], answers: dict[str, tuple[str | None, float]] | None = None
) -> dict[str, Assignment]:
    untangler = Disentangler(Told(answers or {}))  # type: ignore[arg-type]
    return {one.body: untangler.assign(one, None, pinned_id=None) for one in lines}


def test_an_answer_is_in_the_conversation_of_its_parent():
    found = went(
        [said("a", by="ana"), said("b", 1, by="bo"), said("c", 2, by="cy"), said("d", 3, by="bo")],
        {"d": ("a", 0.8)},
    )
    assert found["d"].conversation_id == found["a"].conversation_id != found["c"].conversation_id
    assert found["d"].split_reason is None


def test_a_message_without_a_parent_opens_a_conversation_with_a_reason():
    found = went(
        [said("a"), said("b", 1, by="bo"), said("c", 2, by="cy"), said("d", 200, by="cy")], {"b": (None, 0.5)}
    )
    assert [found[name].split_reason for name in "abcd"] == ["first", None, "topic", "idle"]


def test_two_people_stay_in_one_conversation_until_a_clear_new_topic():
    lines = [said(f"{n}", n, by="ana" if n % 2 else "bo") for n in range(10)]
    unsure = went(lines, {f"{n}": (None, 0.6) for n in range(10)})
    assert len({one.conversation_id for one in unsure.values()}) == 1
    sure = went(lines, {"6": (None, 0.99), **{f"{n}": (None, 0.6) for n in range(6)}})
    assert sure["6"].split_reason == "topic"
    assert sure["5"].conversation_id != sure["6"].conversation_id


def test_a_predicted_parent_does_not_cross_a_long_silence():
    linker = Told({"b": ("a", 0.9)})
    untangler = Disentangler(linker)  # type: ignore[arg-type]
    first = untangler.assign(said("a"), None, pinned_id=None)
    second = untangler.assign(said("b", 200, by="bo"), None, pinned_id=None)
    assert (second.link.parent_id, second.split_reason) == (None, "idle")
    assert second.conversation_id != first.conversation_id
    assert linker.remembered == ["b"]


def test_a_stated_parent_crosses_any_silence():
    found = went([said("a"), said("b", 5_000, by="bo", answers="a")])
    assert found["b"].conversation_id == found["a"].conversation_id


def test_an_old_parent_is_known_once_it_is_set():
    untangler = Disentangler(Told({}))  # type: ignore[arg-type]
    elsewhere = ConversationId(UUID(int=5))
    untangler.set_conversation(message_id("old"), elsewhere)
    assert untangler.assign(said("b", answers="old"), None, pinned_id=None).conversation_id == elsewhere


def test_a_manual_assignment_stays_and_its_answers_follow():
    untangler = Disentangler(Told({"c": ("b", 0.9)}))  # type: ignore[arg-type]
    is_manual = ConversationId(UUID(int=6))
    untangler.assign(said("a", by="cy"), None, pinned_id=None)
    moved = untangler.assign(said("b", 1, by="bo", answers="a"), None, pinned_id=is_manual)
    assert (moved.conversation_id, moved.split_reason) == (is_manual, None)
    assert untangler.assign(said("c", 2), None, pinned_id=None).conversation_id == is_manual


def test_a_single_conversation_ignores_manual_assignments():
    untangler = Disentangler(Told(dict.fromkeys("abc", (None, 0.5))))  # type: ignore[arg-type]
    first = untangler.assign(said("a"), None, pinned_id=None)
    untangler.assign(said("b", 1, by="bo"), None, pinned_id=ConversationId(UUID(int=6)))
    assert untangler.assign(said("c", 2), None, pinned_id=None).conversation_id == first.conversation_id


def whispered(names: str) -> WhisperAudience:
    return frozenset(person(name) for name in names.split())


def test_whispers_are_grouped_by_audience_without_prediction():
    linker = Told({})
    untangler = Disentangler(linker)  # type: ignore[arg-type]
    aloud = untangler.assign(said("a"), None, pinned_id=None)
    one = untangler.assign(said("b", 1), whispered("ana bo"), pinned_id=None)
    other = untangler.assign(said("c", 2), whispered("ana cy"), pinned_id=None)
    again = untangler.assign(said("d", 3, by="bo"), whispered("ana bo"), pinned_id=None)
    later = untangler.assign(said("e", 500, by="bo"), whispered("ana bo"), pinned_id=None)
    assert again.conversation_id == one.conversation_id
    assert len({found.conversation_id for found in (aloud, one, other, later)}) == 4
    assert linker.asked == ["a"]


def test_other_peoples_whispers_change_nothing():
    untangler = Disentangler(Told({}))  # type: ignore[arg-type]
    one = untangler.assign(said("a"), whispered("ana bo"), pinned_id=None)
    for number in range(3 * WINDOW):
        untangler.assign(said(f"x{number}", 1, by="cy"), whispered("cy dee"), pinned_id=None)
    answer = untangler.assign(said("b", 5, by="bo"), whispered("ana bo"), pinned_id=None)
    assert answer.conversation_id == one.conversation_id


def test_the_long_silence_depends_on_the_pace_of_the_room():
    def silence(pause: float) -> timedelta:
        untangler = Disentangler(Told({}))  # type: ignore[arg-type]
        for number in range(20):
            found = untangler.assign(said(f"{number}", pause * number), None, pinned_id=None)
        return found.idle_timeout

    assert silence(0.1) == SHORTEST_SILENCE
    assert silence(5) == timedelta(minutes=150)
    assert silence(600) == LONGEST_SILENCE


def test_authors_outside_the_window_do_not_count():
    lines = [
        said("old", by="cy"),
        *(said(f"{n}", n, by="ana" if n % 2 else "bo") for n in range(1, WINDOW + 1)),
    ]
    found = went([*lines, said("last", WINDOW + 1)], {"last": (None, 0.5)})
    assert found["last"].split_reason is None, "cy is forgotten, and two people are left"


def test_conversation_ids_are_stable_and_differ_from_message_ids():
    assert conversation_id_for(message_id("a")) == conversation_id_for(message_id("a"))
    assert conversation_id_for(message_id("a")) != message_id("a")
