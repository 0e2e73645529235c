"""Rooms told in short: who says what, and after how many seconds."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from roomlore.conversations.window import ConversationMessage
from roomlore.domain.ids import MessageId, ParticipantId

START = datetime(2024, 5, 6, 9, 0, tzinfo=UTC)
NAMES = ("anna", "bob_", "Carla Weiss", "dd", "the", "zoë|away")


def person(name: str) -> ParticipantId:
    return ParticipantId(UUID(int=sum(ord(letter) << 8 * place for place, letter in enumerate(name[:12]))))


def message(number: int) -> MessageId:
    return MessageId(UUID(int=1_000_000 + number))


def said(number: int, name: str, body: str, **more: object) -> ConversationMessage:
    seconds = more.pop("seconds", number * 20)
    assert isinstance(seconds, int | float)
    return ConversationMessage(
        id=message(number),
        author_id=person(name),
        author_name=name,
        sent_at=START + timedelta(seconds=seconds),
        body=body,
        **more,  # type: ignore[arg-type]
    )


def told(*lines: tuple[str, str]) -> list[ConversationMessage]:
    return [said(number, name, body) for number, (name, body) in enumerate(lines)]


_WORDS = """
    anna: bob @carla the dd, zoë how do i mount this drive ? thanks try sudo grub-install /dev/sda1 yes
    no kernel https://example.org/a xorg hello 日本
""".split()


@st.composite
def rooms(draw: st.DrawFn, *, longest: int = 260) -> list[ConversationMessage]:
    """Rooms of few people, often longer than the window, with given replies and threads among them."""
    chance = draw(st.randoms(use_true_random=False))
    size = draw(st.integers(1, longest))
    seconds, lines = 0.0, list[ConversationMessage]()
    for number in range(size):
        seconds += chance.choice((0, 0, 1, 7, 40, 60, 600, 90_000))
        body = " ".join(chance.choice(_WORDS) for _ in range(chance.randint(0, 9)))
        back = message(number - chance.randint(1, 130)) if chance.random() < 0.15 else None
        lines.append(
            said(
                number,
                chance.choice(NAMES),
                body,
                seconds=seconds,
                reply_to=back if chance.random() < 0.6 else None,
                thread_root=back if chance.random() < 0.5 else None,
                mentions=frozenset({person(chance.choice(NAMES))}) if chance.random() < 0.1 else frozenset(),
            )
        )
    return lines
