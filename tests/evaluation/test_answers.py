from dataclasses import replace

from evaluation.answers import Answered, score_answers
from evaluation.datasets import Question

QUESTION = Question(
    id="q1",
    room="camp",
    question="Who brings the tent?",
    evidence_message_ids=("m1",),
    category="who",
    answerable=True,
    as_of_message_id=None,
    asker_id=None,
    include=(),
    leak_targets=(),
)
TRAP = replace(QUESTION, id="q4", answerable=False)


def test_answers_are_judged_by_what_they_cite():
    questions = [
        QUESTION,
        replace(QUESTION, id="q2"),
        replace(QUESTION, id="q3"),
        TRAP,
        replace(TRAP, id="q5"),
    ]
    run = [
        Answered(question_id="q1", answered=True, stage="room", cited=("m7", "m1")),
        Answered(question_id="q2", answered=True, stage="history", cited=("m8",)),
        Answered(question_id="q3", answered=False, stage="none", cited=()),
        # What misleads is no evidence.
        Answered(question_id="q4", answered=True, stage="room", cited=("m1",)),
        Answered(question_id="q5", answered=False, stage="none", cited=()),
    ]
    assert score_answers(questions, run) == {
        "answered": {"when answerable": 0.6667, "when not": 0.5},
        "cites evidence": {
            "of answers to answerable questions": 0.5,
            "of all answers": 0.3333,
            "messages cited": 1.3333,
        },
        "stages": {
            "when answerable": {"room": 1, "history": 1, "none": 1},
            "when not": {"room": 1, "none": 1},
        },
    }


def test_answerable_questions_without_known_evidence_judge_nothing():
    question = replace(QUESTION, evidence_message_ids=())
    report = score_answers(
        [question], [Answered(question_id="q1", answered=True, stage="room", cited=("m1",))]
    )
    assert report["cites evidence"]["of answers to answerable questions"] is None
    assert report["answered"] == {"when answerable": 1.0, "when not": None}


def test_no_answers_at_all_cite_nothing():
    report = score_answers([TRAP], [Answered(question_id="q4", answered=False, stage="none", cited=())])
    assert set(report["cites evidence"].values()) == {None}
