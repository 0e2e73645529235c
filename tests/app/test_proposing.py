"""A server that fails is left alone for a while."""

from hypothesis import given
from hypothesis import strategies as st

from roomlore.app.proposing import REST_SECONDS, Breaker


class Clock:
    """Stands still until it is told otherwise."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_server_that_never_failed_is_asked_by_everybody():
    breaker = Breaker()
    assert [breaker.lets_pass() for _ in range(3)] == [True] * 3


def test_a_failure_keeps_questions_away_for_half_a_minute():
    clock = Clock()
    breaker = Breaker(clock=clock)
    breaker.failed()
    assert not breaker.lets_pass()
    clock.seconds += REST_SECONDS - 0.001
    assert not breaker.lets_pass()
    clock.seconds += 0.001
    assert breaker.lets_pass()


def test_after_its_rest_one_question_finds_out_for_all():
    clock = Clock()
    breaker = Breaker(clock=clock)
    breaker.failed()
    clock.seconds += REST_SECONDS
    assert [breaker.lets_pass() for _ in range(3)] == [True, False, False]
    breaker.answered()
    assert breaker.lets_pass()


@given(
    steps=st.lists(
        st.sampled_from(["fails", "answers"]) | st.floats(0, 2 * REST_SECONDS, allow_nan=False), max_size=20
    )
)
def test_between_a_failure_and_the_end_of_its_rest_nobody_asks(steps):
    clock = Clock()
    breaker = Breaker(clock=clock)
    failed_at: float | None = None
    for step in steps:
        if isinstance(step, float):
            clock.seconds += step
        elif step == "fails":
            breaker.failed()
            failed_at = clock.seconds
        else:
            breaker.answered()
            failed_at = None
        passes = breaker.lets_pass()
        if failed_at is None:
            assert passes
        elif passes:
            assert clock.seconds >= failed_at + REST_SECONDS
            # Whoever came through has asked, and may be waiting still.
            failed_at = clock.seconds
        else:
            assert clock.seconds < failed_at + REST_SECONDS
