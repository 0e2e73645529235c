"""Whole measurements of small data sets, with their reports and predictions."""

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluation.__main__ import main
from evaluation.benchmark import BenchmarkRun, Options
from evaluation.clustering import Assignment, score_conversations, score_links
from evaluation.datasets import Link, read_gold, read_messages
from evaluation.metrics import Selection, score_context
from evaluation.runner import TASKS, evaluate, measure
from roomlore.domain.errors import BadInput
from roomlore.models.fake import FakeEmbedder
from roomlore.operations.embedding_models import ModelCache

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 20, tzinfo=UTC)

SAID = [
    ("m0", "bo", "good morning everybody", False),
    ("m1", "ana", "who has the key of the boat shed?", False),
    ("m2", "cy", "cy joined the room", True),
    ("m3", "cy", "when does the bakery open on Sunday?", False),
    ("m4", "bo", "the key of the boat shed hangs behind the door", False),
    ("m5", "dee", "the bakery opens at eight", False),
    ("m6", "ana", "thanks", False),
]
QUESTIONS = [
    ("q1", "Where is the key of the boat shed?", ["m4"], True),
    ("q2", "When does the bakery open?", ["m5"], True),
    ("q3", "Who won the race?", [], False),
]
FILES = {
    "rooms": [{"id": "camp", "dataset": "made-up", "split": "dev"}],
    "messages": [
        {
            "id": external_id,
            "room": "camp",
            "author_id": author,
            "author_name": author.title(),
            "is_bot": False,
            "timestamp": f"2026-01-12T08:0{minute}",
            "text": text,
            "system": system,
        }
        for minute, (external_id, author, text, system) in enumerate(SAID)
    ],
    "questions": [
        {
            "id": name,
            "room": "camp",
            "question": question,
            "evidence_message_ids": evidence,
            "answer": None,
            "category": "where and when",
            "answerable": answerable,
        }
        for name, question, evidence, answerable in QUESTIONS
    ],
    "context": [
        {
            "id": "c1",
            "room": "camp",
            "trigger_message_id": "m6",
            "gold_context_ids": ["m1", "m4"],
            "gold_parent_ids": ["m4"],
            "judged_from_id": "m1",
        }
    ],
    "links": [
        {"child": child, "parent": parent} for child, parent in (("m4", "m1"), ("m5", "m3"), ("m6", "m4"))
    ],
    "conversations": [
        {"room": "camp", "message_ids": ids} for ids in (["m1", "m4", "m6"], ["m2"], ["m3", "m5"])
    ],
}


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "made-up"
    made.mkdir()
    for name, records in FILES.items():
        (made / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return made


def benchmark(app, folder: Path, task: str, **more) -> BenchmarkRun:
    gold = read_gold(folder, TASKS[task].needs)
    return BenchmarkRun(app=app, messages=read_messages(folder), gold=gold, **more)


@pytest.mark.slow
async def test_search_is_measured_and_its_run_holds_what_was_scored(app, folder):
    outcome = await measure("retrieval", benchmark(app, folder, "retrieval"), now=NOW)
    assert outcome.report["questions"] == 3
    assert outcome.report["without_a_run_line"] == 0
    assert outcome.report["ALL answerable"]["R@5"] == 1
    assert [line["question_id"] for line in outcome.predictions] == ["q1", "q2", "q3"]
    assert outcome.predictions[0]["ranked"][0] == "m4"
    assert all(0 <= line["score"] <= 1 for line in outcome.predictions)


@pytest.mark.slow
async def test_search_is_held_against_plain_methods_in_the_same_run(app, folder, tmp_path):
    lexical = replace(app, settings=replace(app.settings, model=tmp_path / "none"), _embedder=None)
    made = benchmark(app, folder, "retrieval", lexical_app=lexical, embedder=FakeEmbedder())
    report = (await measure("retrieval", made, now=NOW)).report
    rows = {(row["questions"], row["figure"]): row for row in report["comparison"]}
    everything = rows["ALL answerable", "R@10"]
    assert everything["values"].keys() >= {"ours", "lexical only", "bm25", "dense", "rrf", "fusion"}
    assert everything["values"]["ours"] == report["ALL answerable"]["R@10"]
    assert everything["values"]["bm25"] == 1
    assert everything["values"]["lexical only"] == 1
    assert everything["values"]["lexical index"] == 1
    assert rows["refuse: all", "AUROC"]["n"] == 1
    # Of one room nothing can be asked elsewhere.
    assert ("refuse: another room", "AUROC") not in rows
    assert json.loads(json.dumps(report)) == report


@pytest.mark.slow
async def test_search_is_measured_before_and_after_a_switch_side_by_side(app, folder):
    several = replace(app, _model_cache=ModelCache(provided={"small": FakeEmbedder(64)}))
    made = benchmark(several, folder, "retrieval", options=Options(switch="small"), embedder=FakeEmbedder())
    report = (await measure("retrieval", made, now=NOW)).report
    [found] = [
        row
        for row in report["comparison"]
        if row["questions"] == "ALL answerable" and row["figure"] == "R@10"
    ]
    assert found["values"]["ours by small"] == found["values"]["ours"] == 1
    assert found["best_baseline"] != "ours by small"
    assert (await several.embedding_versions.status())[0].provider == "small"


@pytest.mark.slow
async def test_a_question_of_one_room_is_asked_in_another(app, folder):
    for name, key in (("messages", "id"), ("questions", "id")):
        moved = [
            record | {"room": "lake", key: f"lake {record[key]}", "evidence_message_ids": ["lake m4"]}
            for record in FILES[name][:6]
        ]
        with (folder / f"{name}.jsonl").open("a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in moved))
    report = (await measure("retrieval", benchmark(app, folder, "retrieval"), now=NOW)).report
    (row,) = [row for row in report["comparison"] if row["questions"] == "refuse: another room"]
    assert row["n"] == 4
    # Both rooms say the same, so nothing can tell them apart.
    assert row["values"]["bm25"] == 0.5


@pytest.mark.slow
async def test_questions_are_asked_for_whoever_asks_and_it_is_told(app, folder):
    asking = FILES["questions"][0] | {"id": "q4", "asker_id": "ana", "as_of_message_id": "m2"}
    with (folder / "questions.jsonl").open("a") as file:
        file.write(json.dumps(asking) + "\n")
    outcome = await measure("retrieval", benchmark(app, folder, "retrieval"), now=NOW)
    assert outcome.report["viewers"] == {
        "the asker": 1,
        "the operator, since no asker is given": 3,
    }
    assert set(outcome.predictions[3]["ranked"]) <= {"m0", "m1", "m2"}


@pytest.mark.slow
async def test_questions_are_answered_too_where_that_is_wanted(app, folder):
    outcome = await measure(
        "retrieval", benchmark(app, folder, "retrieval", options=Options(answers=True)), now=NOW
    )
    told = outcome.report["answers"]
    assert sum(told["stages"]["when answerable"].values()) == 2
    assert sum(told["stages"]["when not"].values()) == 1
    assert all(line["answered"] in {True, False} for line in outcome.predictions)
    assert told["answered"]["when answerable"] == outcome.report["answered"]["when_answerable"]


@pytest.mark.slow
async def test_an_answer_from_a_memory_cites_what_that_rests_on(app, folder):
    stated = FILES["messages"][0] | {"id": "m90", "room": "den", "text": "I live in Lisbon."}
    asked = FILES["questions"][0] | {
        "id": "q90",
        "question": "Who lives in Lisbon?",
        "evidence_message_ids": ["m90"],
    }
    with (folder / "messages.jsonl").open("a") as file:
        file.write(json.dumps(stated) + "\n")
    (folder / "questions.jsonl").write_text(json.dumps(asked) + "\n")
    report = (
        await measure(
            "retrieval", benchmark(app, folder, "retrieval", options=Options(answers=True)), now=NOW
        )
    ).report
    told = report["answers"]
    assert told["stages"]["when answerable"] == {"memories": 1}
    assert told["cites evidence"]["of answers to answerable questions"] == 1.0


@pytest.mark.slow
async def test_search_is_measured_without_each_of_its_stages_where_that_is_wanted(app, folder):
    report = (
        await measure(
            "retrieval",
            benchmark(app, folder, "retrieval", options=Options(ablations=True), embedder=FakeEmbedder()),
            now=NOW,
        )
    ).report
    for row in report["comparison"]:
        assert {"no neighbours", "no dense", "no late interaction", "no reading"} <= row["values"].keys()
        assert row["best_baseline"] not in {"no neighbours", "no dense", "no late interaction", "no reading"}


async def test_contexts_are_measured_and_their_run_holds_what_was_scored(app, folder):
    made = benchmark(app, folder, "context")
    outcome = await measure("context", made, now=NOW)
    (line,) = outcome.predictions
    assert line["trigger_message_id"] == "m6"
    assert "m6" not in line["selected"]
    assert "m2" not in line["selected"]
    again = score_context(made.gold.context, made.messages, predicted=[Selection(**line)])
    assert {name: outcome.report[name] for name in again} == again
    assert outcome.report["all lines"]["R"] == 1


async def test_links_are_measured_and_their_run_holds_what_was_scored(app, folder):
    made = benchmark(app, folder, "links")
    outcome = await measure("links", made, now=NOW)
    again = score_links(
        made.gold.links, made.gold.conversations, predicted=[Link(**line) for line in outcome.predictions]
    )
    assert outcome.report == again
    assert list(again["rooms"]) == ["camp"]
    assert "m2" not in {line["child"] for line in outcome.predictions}


async def test_conversations_are_measured_and_their_run_holds_what_was_scored(app, folder):
    made = benchmark(app, folder, "conversations")
    outcome = await measure("conversations", made, now=NOW)
    run = [Assignment(**line) for line in outcome.predictions]
    assert outcome.report == score_conversations(made.gold.conversations, predicted=run)
    assert {placement.message_id for placement in run} >= {"m0", "m1", "m3", "m4", "m5", "m6"}


async def test_what_the_platform_says_is_answered_is_in_the_run(app, folder):
    answering = FILES["messages"][5] | {"id": "m7", "reply_to": "m0", "timestamp": "2026-01-12T08:09"}
    with (folder / "messages.jsonl").open("a") as file:
        file.write(json.dumps(answering) + "\n")
    outcome = await measure("links", benchmark(app, folder, "links"), now=NOW)
    assert {"child": "m7", "parent": "m0"} in outcome.predictions


async def test_rooms_of_many_pages_are_read_whole(app, folder, monkeypatch):
    whole = await measure("conversations", benchmark(app, folder, "conversations"), now=NOW)
    monkeypatch.setattr("evaluation.conversations.PAGE", 2)
    paged = await measure("conversations", benchmark(app, folder, "conversations"), now=NOW)
    assert paged.predictions == whole.predictions


async def test_the_threshold_is_measured_and_has_no_predictions(app, folder):
    outcome = await measure("threshold", benchmark(app, folder, "threshold"), now=NOW)
    assert outcome.report["questions"] == 2
    assert outcome.report["unanswerable"] == 1
    assert 0 <= outcome.report["threshold"] <= 1
    assert outcome.predictions is None


async def test_the_evidence_in_memories_is_measured(app, folder):
    outcome = await measure("memories", benchmark(app, folder, "memories"), now=NOW)
    report = outcome.report
    assert report["questions"] == 2
    assert 0 <= report["evidence in a memory"] <= report["evidence in a memory, at 100 per 1,000"] <= 1
    assert sum(report["kinds"].values()) == report["memories"]
    assert outcome.predictions is None


@pytest.mark.slow
async def test_each_part_of_the_work_shows_how_far_it_is(app, folder):
    shown: dict[str, list[int | None]] = {}

    @contextmanager
    def bar(what, total):
        shown[what] = [total, 0]
        yield lambda done: shown[what].__setitem__(1, shown[what][1] + done)

    await measure("retrieval", benchmark(app, folder, "retrieval", progress=bar), now=NOW)
    assert shown["storing"] == [7, 7]
    assert shown["embedding"][1] > 0
    assert shown["asking"] == [3, 3]
    assert shown["asking negatives"] == [0, 0]
    assert shown["asking the baselines"] == [3, 3]


async def test_a_message_that_cannot_be_stored_ends_the_measurement(app, folder):
    with (folder / "messages.jsonl").open("a") as file:
        file.write(json.dumps(FILES["messages"][0] | {"id": "m7", "author_id": ""}) + "\n")
    with pytest.raises(BadInput, match="message m7: "):
        await measure("retrieval", benchmark(app, folder, "retrieval"), now=NOW)


# What is refused before a database is made


def refusal(task: str, folder: Path, out: Path | None = None) -> str:
    with pytest.raises(BadInput) as refused:
        asyncio.run(evaluate(task, folder, now=NOW, out=out))
    return str(refused.value)


def test_an_unknown_task_is_refused(folder):
    assert (
        "must be one of access, context, conversations, exchanges, links, memories, retrieval, threshold"
        in refusal("weather", folder)
    )


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_data_set_without_what_a_task_needs_is_refused_by_name(task, folder):
    missing = TASKS[task].needs[-1]
    (folder / f"{missing}.jsonl").unlink()
    assert f"neither {missing}.jsonl nor {missing}.jsonl.gz, which the task {task} needs" in refusal(
        task, folder
    )


def test_a_run_that_has_no_place_is_refused_first(folder, tmp_path):
    assert "there is no folder" in refusal("retrieval", folder, tmp_path / "nowhere" / "run.jsonl")


def test_the_threshold_has_no_predictions_to_write(folder, tmp_path):
    assert "the task threshold has no predictions" in refusal("threshold", folder, tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    ("task", "options", "reason"),
    [
        ("context", Options(answers=True), "--answers: is for the task retrieval; leave it out of context"),
        ("links", Options(ablations=True), "--ablations: is for the task retrieval; leave it out of links"),
        ("links", Options(switch="small"), "--switch: is for the task retrieval; leave it out of links"),
        ("retrieval", Options(switch="small"), "models are: none; see ROOMLORE_EMBEDDINGS"),
    ],
)
def test_options_of_another_task_and_unknown_models_are_refused(folder, task, options, reason):
    with pytest.raises(BadInput, match=reason):
        asyncio.run(evaluate(task, folder, now=NOW, options=options))


# As a command


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "evaluation", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("retrieval", "--out", "nowhere/run.jsonl"), 1, "evaluation: nowhere/run.jsonl: there is no folder"),
        (("weather",), 2, "'weather' is not one of"),
        (("links", "--markdown"), 1, "the task links compares nothing"),
    ],
)
def test_a_mistake_is_stated_and_ends_the_command(folder, arguments, code, reason):
    task, *options = arguments
    done = CliRunner().invoke(main, [task, str(folder), *options])
    assert (done.exit_code, done.stdout) == (code, "")
    assert reason in done.stderr
    assert code == 2 or done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_command_prints_a_table_where_it_is_wanted(folder):
    done = command("retrieval", folder, "--answers", "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| questions | figure | n | ours | lexical only | lexical index | bm25 |")
    assert all(
        line.count("|") == done.stdout.count("|") / done.stdout.count("\n")
        for line in done.stdout.splitlines()
    )


@pytest.mark.slow
def test_the_command_prints_figures_and_writes_predictions(folder, tmp_path):
    out = tmp_path / "run.jsonl"
    done = command("context", folder, "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["triggers"] == 1
    (line,) = map(json.loads, out.read_text().splitlines())
    assert line["trigger_message_id"] == "m6"
