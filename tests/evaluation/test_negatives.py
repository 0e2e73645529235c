from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evaluation.datasets import Question, negatives

QUESTION = Question(
    id="q",
    room="camp",
    question="Who brings the tent?",
    evidence_message_ids=("m1",),
    category="who",
    answerable=True,
    as_of_message_id="m5",
    asker_id="ana",
    include=(),
    leak_targets=(),
)

asked = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12).map(
    lambda drawn: [
        replace(QUESTION, id=f"q{number}", room=room, answerable=answerable)
        for number, (room, answerable) in enumerate(drawn)
    ]
)


@given(asked, st.none() | st.integers(1, 5))
def test_answerable_questions_go_to_another_room_the_same_each_time(questions, most):
    moved = negatives(questions, most=most)
    before = {question.id: question for question in questions}
    assert moved == negatives(questions, most=most)
    assert len({question.id for question in moved}) == len(moved)
    for question in moved:
        assert before[question.id].answerable
        assert question.room != before[question.id].room
        assert question.room in {other.room for other in questions}
        assert question.as_of_message_id is None
    answerable = sum(question.answerable for question in questions)
    several = len({question.room for question in questions}) > 1
    assert len(moved) == (min(answerable, most or answerable) if several else 0)
