"""What search and context reached on conversations with known answers must not be lost again."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roomlore.evaluation.run import evaluate

DATA = Path(__file__).parents[2].parent / "shared" / "bench" / "data"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def scores(task: str, name: str) -> dict:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip("the data sets are not here")
    return asyncio.run(evaluate(task, folder, progress=lambda _: None, now=datetime.now(UTC)))


def test_search_finds_what_it_found():
    # Plain BM25 finds 0.524 and MiniLM alone 0.487 of the evidence here.
    assert scores("retrieval", "friendsqa-episode-dev")["ALL answerable"]["R@10"] >= 0.57


def test_a_context_holds_what_it_held():
    # The last 30 messages reach 0.346: where nobody states replies, the walk can do no more yet.
    found = scores("context", "irc-dev")
    assert found["F1"] >= 0.345
    assert found["parent found"] >= 0.95
