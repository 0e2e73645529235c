"""search and ask on the command line: filters, how a question is understood, and earlier questions."""

import re

import pytest

from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, line

QUESTION = "what did bo say about the village?"


@pytest.fixture(scope="module")
def village(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """An org with an open room and a closed one."""
    village = CommandLine(cluster=cluster)
    closed = {"id": "attic", "visibility": "members", "members": ["ana", "dee"]}
    texts = [
        ("ana", "where is the lantern?", {}),
        ("bo", "the lantern is in the mill", {"reply_to": "1"}),
        ("pip", "the build is red", {}),
        ("dee", "the rope is ours", {"room": closed}),
        ("ana", "the ferry leaves at noon", {}),
    ]
    lines = [
        line(number, author, f"village {text}", sent_at=f"2026-01-1{number}T08:00:00Z", **fields)
        for number, (author, text, fields) in enumerate(texts, start=1)
    ]
    village.tell(tmp_path_factory.mktemp("export"), lines, "--no-embed", "--agent", "pip")
    # As the worker would, which reads them.
    village.execute("update messages set asks = true where org_id = (org) and external_id in ('1', '4')")
    return village


def found(village: CommandLine, *words: str) -> set[str]:
    """Return the external ids of the matches, without the rest of their threads."""
    hits = village.json(*words)["hits"]
    return {one["external_id"] for hit in hits for one in hit["messages"] if one["why"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "12345"),
        ("--room general", "1235"),
        ("--by bo --by dee", "24"),
        ("--kind agent", "3"),
        ("--kind human --since 2026-01-14", "45"),
        ("--until 2026-01-12", "12"),
        ("--since 2026-01-12T08:00 --until 2026-01-13T08:00", "2"),
        ("--answered", "1"),
        ("--since 2026-01-14 --until 9999-12-31", "45"),
        ("--unanswered", "4"),
    ],
)
def test_filters_narrow_alone_and_together(village: CommandLine, options: str, expected: str) -> None:
    assert found(village, "search", "village", *options.split()) == set(expected)


@pytest.mark.slow
def test_me_is_the_viewer(village: CommandLine) -> None:
    assert found(village, "--as", "ana", "search", "village", "--by", "me") == {"1", "5"}
    village.refused(1, "the operator is no participant", "search", "village", "--by", "me")


@pytest.mark.slow
def test_names_and_times_in_a_question_are_filters_unless_it_is_literal(village: CommandLine) -> None:
    assert found(village, "search", QUESTION) == {"2"}
    assert found(village, "search", QUESTION, "--literal") > {"2", "3"}
    assert village.text("search", QUESTION).splitlines()[0] == "searched: by bo"
    assert "searched:" not in village.text("search", "village")
    for verb in ("search", "ask"):
        shown = village.text(verb, "what did bots say before 2020 about the village?").splitlines()
        assert shown[:2] == [
            "searched: by agents, before 2020-01-01",
            "--literal searches for exactly these words",
        ]


@pytest.mark.slow
def test_an_unknown_name_is_reported_and_a_hidden_one_looks_the_same(village: CommandLine) -> None:
    shown = []
    for name in ("dee", "eve"):
        question = f"what did {name} say about the lantern in the mill?"
        texts = [village.text("--as", "bo", verb, question) for verb in ("search", "ask")]
        assert all(text.count(f"\u201c{name}\u201d") == 1 for text in texts)
        assert village.json("--as", "bo", "ask", question)["applied_filters"]["unknown"] == [name]
        shown.append([text.replace(f"\u201c{name}\u201d", "X") for text in texts])
    assert shown[0] == shown[1]
    hidden, missing = (village("--as", "bo", "search", "village", "--by", name) for name in ("dee", "eve"))
    assert (hidden.code, hidden.err.replace("dee", "eve")) == (1, missing.err)


@pytest.mark.slow
def test_everything_by_a_person_is_listed_and_quoted(village: CommandLine) -> None:
    assert found(village, "search", "what", "did", "ana", "say?") == {"1", "5"}
    answer = village.json("ask", "what did ana say?", "--until", "2026-01-12")
    assert answer["is_answered"]
    assert re.fullmatch(
        r"\S+, 2026-01-\d\d \d\d:\d\d \[ana\]: village where is the lantern\?", answer["answer"]
    )


@pytest.mark.slow
def test_similar_questions_come_with_their_answers(village: CommandLine) -> None:
    words = ("search", "--like-mine", "where did the lantern go")
    [hit] = village.json("--as", "ana", *words)["hits"]
    assert [one["external_id"] for one in hit["messages"]] == ["1", "2"]
    village.refused(2, "--like-mine goes only with", "--as", "ana", *words, "--by", "bo")
    village.refused(1, "the operator is no participant", *words)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ("--since soon", 1, "since: 'soon' is no"),
        ("--since 2026-01-12 --until 2026-01-11", 1, "until: must be after since"),
        ("--kind robot", 2, "'robot' is not one of"),
        ("--by nobody", 1, "no participant 'nobody'"),
        ("--in message:99", 1, "no message '99'"),
        ("--in ffff0000", 1, "no conversation 'ffff0000'"),
    ],
)
@pytest.mark.parametrize("verb", ["search", "ask"])
def test_a_wrong_filter_ends_in_one_readable_line(
    village: CommandLine, verb: str, options: str, *, code: int, reason: str
) -> None:
    village.refused(code, reason, verb, "village", *options.split())
