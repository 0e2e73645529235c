import json
import random
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.clustering import Assignment, score_conversations, score_links
from evaluation.datasets import (
    GoldConversation,
    Link,
    read_conversations,
    read_links,
    read_messages,
)
from evaluation.runner import write_predictions
from roomlore.domain.errors import BadInput

BENCH = Path(__file__).parents[2].parent / "shared" / "bench"


def gold(*groups: str, room: str = "camp") -> list[GoldConversation]:
    """Return conversations of messages that are called by one letter each."""
    return [GoldConversation(room=room, message_ids=tuple(group)) for group in groups]


def links(*pairs: str) -> list[Link]:
    return [Link(child=child, parent=parent) for child, parent in pairs]


def placed(*groups: str) -> list[Assignment]:
    return [
        Assignment(message_id=message, conversation=f"c{number}")
        for number, group in enumerate(groups)
        for message in group
    ]


def without_rooms(report: dict) -> dict:
    return {name: value for name, value in report.items() if name != "rooms"}


# Conversations


def test_conversations_worked_out_by_hand():
    report = score_conversations(gold("abc", "de"), predicted=placed("ab", "c", "de"))
    assert without_rooms(report) == {
        # H(found) 1.5219 - H(gold) 0.9710 = 0.5510 of at most log2(5) = 2.3219
        "1-VI": 0.7627,
        # 2 pairs together, 2 found, 4 gold; by chance 2 * 4 / 10; (2 - 0.8) / (3 - 0.8)
        "ARI": 0.5455,
        # ab with abc, de with de
        "1-1": 0.8,
        # of ab and de, and of abc and de, it is de
        "exact P": 0.5,
        "exact R": 0.5,
        "exact F": 0.5,
    }


def test_conversations_that_cross_worked_out_by_hand():
    report = score_conversations(gold("abc", "d"), predicted=placed("ab", "cd"))
    # H 1.5, mutual information 0.5 log(4/3) + 0.25 log(2/3) + 0.25 = 0.3113; of at most 2 bits
    assert report["1-VI"] == 0.4056
    # 1 pair together is what chance gives: 2 * 3 / 6
    assert report["ARI"] == 0
    # ab with abc, cd with d
    assert report["1-1"] == 0.75
    assert report["exact F"] == 0


def test_the_best_pairs_are_not_the_greedy_ones():
    # abc and ade share the most with the first, but only one of them can have it.
    report = score_conversations(gold("abcde", "fg"), predicted=placed("abcfg", "de"))
    assert report["1-1"] == round(4 / 7, 4)


def test_what_is_the_same_is_perfect():
    report = score_conversations(gold("abc", "de", "f"), predicted=placed("f", "ed", "cab"))
    assert without_rooms(report) == dict.fromkeys(("1-VI", "ARI", "1-1", "exact P", "exact R", "exact F"), 1)


def test_a_message_without_an_assignment_is_alone():
    whole = score_conversations(gold("abc", "d"), predicted=placed("ab", "c", "d"))
    assert score_conversations(gold("abc", "d"), predicted=placed("ab")) == whole


def test_messages_that_nobody_judged_do_not_count():
    assert score_conversations(gold("abc"), predicted=placed("abcxyz", "w")) == score_conversations(
        gold("abc"), predicted=placed("abc")
    )


def test_single_messages_are_no_exact_finds():
    report = score_conversations(gold("ab", "c", "d"), predicted=placed("a", "b", "c", "d"))
    assert (report["exact P"], report["exact R"], report["exact F"]) == (0, 0, 0)
    report = score_conversations(gold("a", "b"), predicted=placed("a", "b"))
    assert (report["exact P"], report["exact R"], report["exact F"]) == (0, None, None)


def test_what_could_not_be_otherwise_has_no_figure():
    alone = score_conversations(gold("a"), predicted=placed("a"))
    assert (alone["1-VI"], alone["ARI"], alone["1-1"]) == (None, None, 1)
    one = score_conversations(gold("ab"), predicted=placed("ab"))
    assert (one["1-VI"], one["ARI"], one["exact F"]) == (1, None, 1)
    assert without_rooms(score_conversations([], predicted=[])) == {
        **dict.fromkeys(("1-VI", "ARI", "1-1", "exact R", "exact F")),
        "exact P": 0,
    }


def test_the_same_name_in_two_rooms_is_two_conversations():
    two = [*gold("ab", room="camp"), *gold("cd", room="harbour")]
    report = score_conversations(two, predicted=placed("abcd"))
    assert report["exact F"] == 1
    assert report["1-VI"] == 1


def test_each_room_has_its_own_figures():
    two = [*gold("abc", "de", room="camp"), *gold("fg", "h", room="harbour")]
    run = [*placed("ab", "c", "de"), *placed("fg", "h")]
    rooms = score_conversations(two, predicted=run)["rooms"]
    assert list(rooms) == ["camp", "harbour"]
    assert rooms["camp"] == without_rooms(score_conversations(gold("abc", "de"), predicted=run))
    assert rooms["harbour"]["exact F"] == 1


def test_a_message_in_two_conversations_is_refused():
    with pytest.raises(BadInput, match="message a: is assigned to two conversations"):
        score_conversations(gold("ab"), predicted=placed("a", "ab"))
    twice = [*placed("ab"), *placed("ab")]
    assert score_conversations(gold("ab"), predicted=twice)["exact F"] == 1


supersession_overrides = st.lists(st.integers(0, 4), min_size=2, max_size=14)


def groups_of(labels: list[int]) -> list[str]:
    names = "abcdefghijklmn"
    return [
        "".join(names[i] for i, own in enumerate(labels) if own == label) for label in sorted(set(labels))
    ]


@given(supersession_overrides, st.randoms(use_true_random=False))
def test_figures_stay_within_bounds_and_do_not_depend_on_names_or_order(labels, chance):
    found = groups_of(labels)
    shuffled = chance.sample(labels, len(labels))
    report = score_conversations(gold(*groups_of(shuffled)), predicted=placed(*found))
    again = placed(*chance.sample(found, len(found)))
    assert (
        score_conversations(gold(*groups_of(shuffled)), predicted=chance.sample(again, len(again))) == report
    )
    assert 0 <= report["1-VI"] <= 1
    assert 0 < report["1-1"] <= 1
    assert report["ARI"] is None or -1 <= report["ARI"] <= 1
    mirrored = score_conversations(gold(*found), predicted=placed(*groups_of(shuffled)))
    for name in ("1-VI", "ARI", "1-1"):
        assert mirrored[name] == report[name]


# Links


def test_links_worked_out_by_hand():
    # People: b and c answer a and b, e answers d; a and d start. The run has c answer x, which nobody judged.
    report = score_links(links("ba", "cb", "ed"), gold("abc", "de"), predicted=links("ba", "ed", "cx"))
    assert report["link P"] == report["link R"] == report["link F"] == 0.8
    assert report["exact F"] == 0.5
    assert report["1-VI"] == 0.7627


def test_precision_and_recall_part_where_a_message_answers_two():
    # Gold: aa, ba, ca, cb; found: aa, ba, cb, da with d not judged.
    report = score_links(links("ba", "ca", "cb"), gold("abc"), predicted=links("ba", "cb", "da"))
    assert (report["link P"], report["link R"]) == (1, 0.75)
    assert report["link F"] == 0.8571


def test_a_message_without_a_link_starts_a_conversation():
    report = score_links(links("ba"), gold("ab", "c"), predicted=[])
    # Found: aa, bb, cc; gold: aa, ba, cc.
    assert report["link F"] == round(2 / 3, 4)
    assert score_links(links("ba"), gold("ab", "c"), predicted=links("aa", "bb", "cc")) == report


def test_conversations_hang_together_through_messages_that_nobody_judged():
    report = score_links(links("ba"), gold("ab"), predicted=links("ax", "xy", "by"))
    assert report["link F"] == 0
    assert report["exact F"] == 1


def test_links_of_each_room_have_their_own_figures():
    two = [*gold("abc", "de", room="camp"), *gold("fg", "h", room="harbour")]
    run = links("ba", "ed", "cx", "gf")
    report = score_links(links("ba", "cb", "ed", "gf"), two, predicted=run)
    assert report["rooms"]["camp"] == without_rooms(
        score_links(links("ba", "cb", "ed"), gold("abc", "de"), predicted=links("ba", "ed", "cx"))
    )
    assert report["rooms"]["harbour"]["link F"] == 1
    assert report["link F"] == round(7 / 8, 4)


def test_links_of_nothing_have_no_figures():
    report = score_links([], [], predicted=links("ba"))
    assert (report["link P"], report["link R"], report["link F"], report["rooms"]) == (None, None, None, {})


@pytest.mark.slow
def test_a_very_long_chain_is_followed():
    ids = [f"m{number}" for number in range(50_000)]
    chain = [Link(child=child, parent=parent) for parent, child in pairwise(ids)]
    one = [GoldConversation(room="camp", message_ids=ids)]
    assert score_links(chain, one, predicted=reversed(chain))["exact F"] == 1


# Agreement with the scorer of the data sets


COMPARED = pytest.mark.parametrize(("name", "seed"), [("irc-dev", 1), ("irc-train", 3)])


def dataset(name: str) -> Path:
    folder = BENCH / "data" / name
    if not folder.is_dir():
        pytest.skip("no data sets here")
    return folder


def scored_there(task: str, folder: Path, run: Path) -> dict:
    command = [sys.executable, str(BENCH / "score.py"), task, str(folder), str(run)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def invented_links(folder: Path, chance: random.Random) -> list[Link]:
    """Return gold links that are partly forgotten, partly wrong, and links of what nobody judged."""
    rooms: dict[str, list[str]] = {}
    for message in read_messages(folder):
        rooms.setdefault(message.room, []).append(message.id)
    run = [link for link in read_links(folder) if chance.random() < 0.6]
    for ids in rooms.values():
        run += [
            Link(child=child, parent=ids[max(place - chance.randint(0, 40), 0)])
            for place, child in enumerate(ids)
            if place and chance.random() < 0.3
        ]
    return run


@pytest.mark.slow
@COMPARED
def test_link_figures_agree_to_the_last_digit(name, seed, tmp_path):
    folder = dataset(name)
    run = invented_links(folder, random.Random(seed))
    write_predictions(tmp_path / "run.jsonl", [asdict(link) for link in run])
    ours = score_links(read_links(folder), read_conversations(folder), predicted=run)
    theirs = scored_there("links", folder, tmp_path / "run.jsonl")
    assert json.loads(json.dumps(without_rooms(ours))) == theirs
    assert list(without_rooms(ours)) == list(theirs)
    assert 0.2 < ours["link F"] < 0.9


@pytest.mark.slow
@COMPARED
def test_conversation_figures_agree_to_the_last_digit(name, seed, tmp_path):
    folder = dataset(name)
    chance = random.Random(seed)
    run = []
    for number, one in enumerate(read_conversations(folder)):
        for message in one.message_ids:
            if chance.random() < 0.9:
                stays = chance.random() < 0.8
                label = number if stays else chance.randint(0, 400)
                run.append(Assignment(message_id=message, conversation=f"c{label}"))
    run.append(Assignment(message_id="nobody judged this", conversation="c1"))
    write_predictions(tmp_path / "run.jsonl.gz", [asdict(placement) for placement in run])
    ours = score_conversations(read_conversations(folder), predicted=run)
    theirs = scored_there("conversations", folder, tmp_path / "run.jsonl.gz")
    assert json.loads(json.dumps(without_rooms(ours))) == theirs
    assert list(without_rooms(ours)) == list(theirs)
    assert 0.1 < ours["1-1"] < 0.95
