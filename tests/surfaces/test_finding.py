"""search and ask on the command line: filters, what is read out of a question, and questions asked before."""

import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def said(number: int, who: str, text: str, **fields) -> str:
    record = {
        "schema": "roomlore.message/1",
        "room": "general",
        "id": str(number),
        "author": who,
        "text": f"village {text}",
        "sent_at": f"2026-01-1{number}T08:00:00Z",
    }
    return json.dumps(record | fields)


@pytest.fixture(scope="module")
def roomlore(cluster, tmp_path_factory):
    """The command line, on an org with an open room and a closed one."""
    org, url = f"cli-{uuid4()}", f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"

    def run(*words) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", ["roomlore", "--json", "--database", url, "--org", org, *words])
            with pytest.raises(SystemExit) as end:
                main.run()
        return Done(code=end.value.code, out=out.getvalue(), err=err.getvalue())

    export = tmp_path_factory.mktemp("export") / "said.jsonl"
    closed = {"id": "attic", "visibility": "members", "members": ["ana", "dee"]}
    lines = [
        said(1, "ana", "where is the lantern?"),
        said(2, "bo", "the lantern is in the mill", reply_to="1"),
        said(3, "pip", "the build is red"),
        said(4, "dee", "the rope is ours", room=closed),
        said(5, "ana", "the ferry leaves at noon"),
    ]
    export.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = run("import", "--no-embed", "--agent", "pip", str(export))
    assert done.code == 0, done.err
    assert json.loads(done.out)["skipped"] == {}
    return run


def answer(done: Done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def found(done: Done) -> set[str]:
    """The external ids of what was found, without what came with it."""
    hits = answer(done)["hits"]
    return {one["external_id"] for hit in hits for one in hit["messages"] if one["why"]}


def refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], "12345"),
        (["--room", "general"], "1235"),
        (["--by", "bo"], "2"),
        (["--by", "bo", "--by", "dee"], "24"),
        (["--kind", "agent"], "3"),
        (["--kind", "human", "--since", "2026-01-14"], "45"),
        (["--until", "2026-01-12"], "12"),
        (["--since", "2026-01-12T08:00", "--until", "2026-01-13T08:00"], "2"),
        (["--answered"], "1"),
        (["--since", "9999-12-31"], ""),
        (["--since", "2026-01-14", "--until", "9999-12-31"], "45"),
        (["--unanswered", "--by", "ana"], "5"),
    ],
)
def test_filters_narrow_alone_and_together(options, wanted, roomlore):
    assert found(roomlore("search", "village", *options)) == set(wanted)


def test_me_is_whoever_reads(roomlore):
    assert found(roomlore("--as", "ana", "search", "village", "--by", "me")) == {"1", "5"}
    refused(roomlore("search", "village", "--by", "me"), 1, "the operator is none")


def test_what_a_question_says_is_told_and_can_be_left_alone(roomlore):
    asked = answer(roomlore("search", "what did bo say about the village?"))
    assert asked["read"]["by"] == ["bo"]
    assert asked["read"]["words"] == "the village"
    assert found(roomlore("search", "what did bo say about the village?")) == {"2"}
    assert found(roomlore("search", "what did bo say about the village?", "--literal")) > {"2", "3"}
    shown = roomlore("--text", "search", "what did bo say about the village?")
    assert shown.out.splitlines()[0] == "read as: by bo"
    plain = roomlore("--text", "search", "village")
    assert "read as" not in plain.out
    assert answer(roomlore("search", "village"))["read"] is None


def test_whoever_is_named_and_unknown_is_told_once_and_the_hidden_like_the_unknown(roomlore):
    told = []
    for name in ("dee", "eve"):
        question = f"what did {name} say about the lantern in the mill?"
        remark = f"Nobody called \u201c{name}\u201d is known here; it was searched whoever said it."
        searched = roomlore("--text", "--as", "bo", "search", question)
        assert searched.out.splitlines()[0] == remark
        asked = roomlore("--text", "--as", "bo", "ask", question)
        assert asked.out.count(remark) == 1
        assert "read as" not in asked.out + searched.out
        assert answer(roomlore("--as", "bo", "search", question))["read"]["unknown"] == [name]
        document = answer(roomlore("--as", "bo", "ask", question))
        assert document["read"]["unknown"] == [name]
        assert remark in document["answer"]
        told.append([shown.out.replace(f"\u201c{name}\u201d", "X") for shown in (searched, asked)])
    assert told[0] == told[1]


def test_where_nothing_is_left_the_way_out_is_told(roomlore):
    for verb in ("search", "ask"):
        shown = roomlore("--text", verb, "what did bots say before 2020 about the village?")
        assert shown.code == 0, shown.err
        assert shown.out.splitlines()[:2] == [
            "read as: by agents, before 2020-01-01",
            "--literal looks for the question as it stands",
        ]


def test_all_that_somebody_said_is_listed_and_recited(roomlore):
    assert found(roomlore("search", "what", "did", "ana", "say?")) == {"1", "5"}
    told = answer(roomlore("ask", "what did ana say?", "--until", "2026-01-12"))
    assert told["known"]
    assert re.fullmatch(
        r"\S+, 2026-01-\d\d \d\d:\d\d \[ana\]: village where is the lantern\?", told["answer"]
    )
    assert told["read"]["by"] == ["ana"]


def test_questions_like_ones_own_come_with_their_answers(roomlore):
    [hit] = answer(roomlore("--as", "ana", "search", "--like-mine", "where did the lantern go"))["hits"]
    assert [one["external_id"] for one in hit["messages"]] == ["1", "2"]
    refused(
        roomlore("--as", "ana", "search", "--like-mine", "lantern", "--by", "bo"), 2, "--like-mine goes with"
    )
    refused(roomlore("search", "--like-mine", "lantern"), 1, "the operator is none")


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--since", "soon"], 1, "since: 'soon' is no time; write 2024-03-05"),
        (["--until", "30 February"], 1, "until: '30 February' is no time"),
        (["--since", "2026-01-12", "--until", "2026-01-11"], 1, "until: must be after since"),
        (["--kind", "robot"], 2, "'robot' is not one of"),
        (["--by", "nobody"], 1, "no participant 'nobody'"),
        (["--in", "message:99"], 1, "no message '99'"),
        (["--in", "ffff0000"], 1, "no conversation 'ffff0000'"),
    ],
)
@pytest.mark.parametrize("verb", ["search", "ask"])
def test_a_wrong_filter_ends_in_one_readable_line(verb, options, *, code, reason, roomlore):
    refused(roomlore(verb, "village", *options), code, reason)


def test_whoever_is_hidden_is_refused_like_whoever_is_not_there(roomlore):
    hidden = roomlore("--as", "bo", "search", "village", "--by", "dee")
    missing = roomlore("--as", "bo", "search", "village", "--by", "eve")
    refused(hidden, 1, "no participant 'dee'")
    assert hidden.err.replace("dee", "eve") == missing.err
