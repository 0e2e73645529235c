import json
import math
import random
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.datasets import (
    ContextItem,
    DatasetMessage,
    Question,
    read_context,
    read_messages,
    read_questions,
)
from evaluation.metrics import (
    Ranking,
    Selection,
    auroc,
    confidence_interval,
    ranking_scores,
    score_context,
    score_retrieval,
)
from roomlore.domain.errors import BadInput

BENCH = Path(__file__).parents[2].parent / "shared" / "bench"

MESSAGE = DatasetMessage(
    id="m1",
    room="camp",
    author_id="ana",
    author_name="Ana",
    is_bot=False,
    timestamp=None,
    text="",
    reply_to=None,
    system=False,
)
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
ITEM = ContextItem(
    room="camp",
    trigger_message_id="m5",
    gold_context_ids=("m2", "m4"),
    gold_parent_ids=("m4",),
    judged_from_id="m2",
)


def messages(*texts: str) -> list[DatasetMessage]:
    return [replace(MESSAGE, id=f"m{number}", text=text) for number, text in enumerate(texts, 1)]


# One ranking


def test_scores_of_a_ranking_worked_out_by_hand():
    scores = ranking_scores(["x", "a", "y", "b", "z"], {"a", "b", "c"})
    assert scores["R@1"] == 0
    assert scores["R@5"] == 2 / 3
    assert scores["any@1"] == 0
    assert scores["any@5"] == 1
    assert scores["MRR"] == 1 / 2
    best = 1 + 1 / math.log2(3) + 1 / 2
    assert scores["nDCG@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)


def test_what_stands_beyond_the_tenth_place_counts_for_rank_but_not_for_gain():
    scores = ranking_scores([*(f"x{n}" for n in range(10)), "a"], {"a"})
    assert scores["nDCG@10"] == 0
    assert scores["R@10"] == 0
    assert scores["R@20"] == 1
    assert scores["MRR"] == 1 / 11


@given(st.permutations([f"m{n}" for n in range(12)]), st.sets(st.integers(0, 11), min_size=1))
def test_no_ranking_beats_gold_first(ranked, numbers):
    gold = {f"m{n}" for n in numbers}
    best = ranking_scores(sorted(ranked, key=lambda message: message not in gold), gold)
    assert best["nDCG@10"] == 1
    assert best["MRR"] == 1
    assert all(0 <= value <= best[name] for name, value in ranking_scores(ranked, gold).items())


# AUROC and interval


def test_auroc_worked_out_by_hand():
    # Of six pairs, four are the right way round, one is tied, one is wrong.
    assert auroc([3.0, 2.0], [1.0, 2.0, 2.5]) == pytest.approx((3 + 1.5) / 6)
    assert auroc([1.0], [0.0]) == 1
    assert auroc([0.0], [1.0]) == 0


def test_auroc_of_one_side_alone_is_unknown():
    assert auroc([], [1.0]) is None
    assert auroc([1.0], []) is None


scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@pytest.mark.slow
@given(scores, scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order(positive, negative):
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    assert auroc(positive, negative) == pytest.approx(wins / (len(positive) * len(negative)))


def test_an_interval_surrounds_the_mean_and_comes_out_the_same_twice():
    values = [0.0, 1.0, 1.0, 0.5, 0.0, 1.0, 0.0, 0.5]
    low, high = confidence_interval(values)
    assert low < 0.5 < high
    assert confidence_interval(values) == [low, high]
    assert confidence_interval([0.25] * 5) == [0.25, 0.25]
    assert confidence_interval([]) is None


# Retrieval


def test_a_retrieval_report_worked_out_by_hand():
    questions = [
        replace(QUESTION, id="q1", evidence_message_ids=("m1", "m2")),
        replace(QUESTION, id="q2", evidence_message_ids=("m3",), category="when"),
        replace(QUESTION, id="q3", evidence_message_ids=("m3",)),
        replace(QUESTION, id="q4", answerable=False, category="trap"),
    ]
    run = [
        Ranking(question_id="q1", ranked=("m1", "m3"), score=0.9, answered=True),
        Ranking(question_id="q2", ranked=("m1", "m3"), score=0.4, answered=False),
        Ranking(question_id="q4", ranked=("m1",), score=0.6, answered=False),
    ]
    report = score_retrieval(questions, messages("a", "b", "c"), predicted=run)
    assert report["questions"] == 4
    assert report["without_a_run_line"] == 1
    assert report["ALL answerable"]["n"] == 3
    assert report["ALL answerable"]["R@1"] == 0.1667  # (1/2 + 0 + 0) / 3
    assert report["ALL answerable"]["R@10"] == 0.5  # (1/2 + 1 + 0) / 3
    assert report["ALL answerable"]["MRR"] == 0.5  # (1 + 1/2 + 0) / 3
    assert report["when"]["R@5"] == 1
    assert report["who"]["n"] == 2
    assert "trap" not in report
    assert report["abstention_auroc"] == 0.5
    assert report["answered"] == {"when_answerable": 0.5, "when_not": 0.0}
    assert report["governance"] == {}


def test_needed_facts_and_leaks_are_judged_on_the_ten_messages_shown():
    texts = ["the code is 4711", "meet at NINE", *["filler"] * 8, "the dose is 5 mg"]
    question = replace(
        QUESTION,
        category="privacy",
        include=("nine|ten", r"\d+ mg"),
        leak_targets=("4711",),
    )
    ranked = tuple(f"m{number}" for number in range(1, 12))
    report = score_retrieval(
        [question], messages(*texts), predicted=[Ranking(question_id="q1", ranked=ranked)]
    )
    assert report["governance"] == {
        "privacy/coverage@10": {"mean": 0.5, "n": 1},
        "privacy/leak_strict@10": {"mean": 1.0, "n": 1},
    }


def test_a_secret_that_the_question_states_cannot_leak():
    question = replace(QUESTION, question="Is it 4711?", leak_targets=("4711",))
    report = score_retrieval(
        [question], messages("4711"), predicted=[Ranking(question_id="q1", ranked=("m1",))]
    )
    assert report["governance"] == {}


def test_a_pattern_that_is_no_regular_expression_is_taken_literally():
    question = replace(QUESTION, include=("(sad",))
    report = score_retrieval(
        [question], messages("so (SAD"), predicted=[Ranking(question_id="q1", ranked=("m1",))]
    )
    assert report["governance"]["who/coverage@10"]["mean"] == 1


def test_a_run_over_nothing_says_nothing():
    report = score_retrieval([], [], predicted=[])
    assert report == {
        "questions": 0,
        "without_a_run_line": 0,
        "abstention_auroc": None,
        "answered": {"when_answerable": None, "when_not": None},
        "governance": {},
    }


@pytest.mark.parametrize(
    ("ranking", "why"),
    [
        (Ranking(question_id="q1", ranked=("m1", "m1")), "ranked twice"),
        (Ranking(question_id="q1", ranked=(), score=math.nan), "not a number"),
    ],
)
def test_a_ranking_that_cannot_be_scored_is_refused(ranking, why):
    with pytest.raises(BadInput, match=f"q1: .*{why}"):
        score_retrieval([QUESTION], messages("a"), predicted=[ranking])


# Context


def test_a_context_report_worked_out_by_hand():
    room = messages("before", "a", "b", "c", "trigger", "after", "starter", "other")
    items = [
        ITEM,
        replace(ITEM, trigger_message_id="m7", gold_context_ids=(), gold_parent_ids=()),
        replace(ITEM, trigger_message_id="m8", gold_context_ids=("m5",), gold_parent_ids=()),
    ]
    run = [
        Selection(trigger_message_id="m5", selected=("m1", "m3", "m4", "m5", "m6")),  # m3 and m4 are judged
        Selection(trigger_message_id="m7", selected=()),
    ]
    report = score_context(items, room, predicted=run)
    assert report == {
        "P": 0.25,
        "R": 0.25,
        "F1": 0.25,
        "parent found": 1.0,
        "starters left empty": 1.0,
        "mean size": 0.6667,
        "triggers": 2,
        "F1_ci95": report["F1_ci95"],
    }


def test_system_messages_do_not_count():
    room = messages("a", "b", "c", "d", "e")
    room[3] = replace(room[3], system=True)
    report = score_context(
        [ITEM], room, predicted=[Selection(trigger_message_id="m5", selected=("m2", "m4"))]
    )
    assert report["mean size"] == 1
    assert report["R"] == 0.5


def test_thirty_messages_may_be_selected_and_no_more():
    room = messages(*["text"] * 40)
    item = replace(ITEM, trigger_message_id="m40", judged_from_id="m1")
    allowed = tuple(f"m{number}" for number in range(1, 31))
    assert (
        score_context([item], room, predicted=[Selection(trigger_message_id="m40", selected=allowed)])["R"]
        == 1
    )
    with pytest.raises(BadInput, match="more than 30"):
        score_context(
            [item], room, predicted=[Selection(trigger_message_id="m40", selected=(*allowed, "m31"))]
        )


def test_selecting_what_does_not_exist_is_refused():
    with pytest.raises(BadInput, match="no message 'm99'"):
        score_context(
            [ITEM], messages(*"abcde"), predicted=[Selection(trigger_message_id="m5", selected=("m99",))]
        )


# Agreement with the scorer of the data sets


def scored_there(task: str, dataset: Path, lines: list[dict], folder: Path) -> dict:
    run = folder / "run.jsonl"
    run.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, str(BENCH / "score.py"), task, str(dataset), str(run)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def dataset(name: str) -> Path:
    folder = BENCH / "data" / name
    if not folder.is_dir():
        pytest.skip("no data sets here")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["locomo-dev", "gatemem-dev"])
def test_retrieval_figures_agree_to_the_last_digit(name, tmp_path):
    folder = dataset(name)
    questions, room = read_questions(folder), read_messages(folder)
    random_ = random.Random(1)
    ids = [message.id for message in room]
    run = []
    for question in questions:
        if random_.random() < 0.1:
            continue
        gold = [i for i in question.evidence_message_ids if random_.random() < 0.5]
        ranked = list(dict.fromkeys([*random_.choices(ids, k=random_.randint(0, 60)), *gold]))
        random_.shuffle(ranked)
        score = None if random_.random() < 0.1 else random_.randint(0, 40) / 7
        answered = random_.choice([None, True, False])
        run.append(Ranking(question_id=question.id, ranked=ranked, score=score, answered=answered))
    theirs = scored_there("retrieval", folder, [asdict(ranking) for ranking in run], tmp_path)
    assert json.loads(json.dumps(score_retrieval(questions, room, predicted=run))) == theirs


@pytest.mark.slow
def test_context_figures_agree_to_the_last_digit(tmp_path):
    folder = dataset("irc-dev")
    items, room = read_context(folder), read_messages(folder)
    random_ = random.Random(3)
    place = {message.id: number for number, message in enumerate(room)}
    run = []
    for item in items:
        if random_.random() < 0.1:
            continue
        trigger = place[item.trigger_message_id]
        near = [message.id for message in room[max(trigger - 60, 0) : trigger + 5]]
        selected = random_.sample(near, min(random_.randint(0, 20), len(near)))
        gold = [i for i in item.gold_context_ids if random_.random() < 0.3]
        run.append(Selection(trigger_message_id=item.trigger_message_id, selected=[*selected, *gold][:30]))
    theirs = scored_there("context", folder, [asdict(selection) for selection in run], tmp_path)
    assert json.loads(json.dumps(score_context(items, room, predicted=run))) == theirs
