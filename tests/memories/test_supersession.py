"""Which of two statements supersedes the other, whatever the message model says of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import UUID

import numpy as np
import pytest

from roomlore.db.memory_writes import MemoryStatement
from roomlore.domain.records import MemoryKind
from roomlore.domain.vectors import Vectors
from roomlore.memories.kinds import DEFAULT_IMPORTANCE
from roomlore.memories.supersession import BundledRelations, Comparison, superseding
from roomlore.models.message_model import RELATIONS, StatementPair

START = datetime(2026, 1, 1, tzinfo=UTC)
ANA, BO = UUID(int=100), UUID(int=101)


class Scripted:
    """A model that says the same of all pairs; texts are alike if they begin with the same letter."""

    def __init__(self, relation: str) -> None:
        self.row = [float(name == relation) for name in RELATIONS]
        self.read: list[StatementPair] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), 256), np.float32)
        for row, text in enumerate(texts):
            vectors[row, ord(text[0]) % 256] = 1
        return vectors

    def relations(self, pairs: Sequence[StatementPair]) -> object:
        self.read += pairs
        return np.array([self.row] * len(pairs))


def statement(number: int, words="a", *, day: int | None = None, by=ANA, standing=2) -> MemoryStatement:
    return MemoryStatement(
        id=UUID(int=number),
        words=words,
        author_ids=[by],
        said_at=START + timedelta(days=number if day is None else day),
        sequence=0,
        quote_start=0,
        standing=standing,
    )


def found(relation: str, *pairs: tuple[MemoryStatement, MemoryStatement]) -> list[tuple[int, int]]:
    compared = [[Comparison(earlier=earlier, later=later)] for earlier, later in pairs]
    return [(old.int, new.int) for old, new in superseding(compared, Scripted(relation))]


def test_the_later_statement_supersedes_what_it_replaces_or_repeats():
    pair = (statement(1), statement(2, by=BO))
    assert found("replaces", pair) == found("repeats", pair) == [(1, 2)]
    assert found("separate", pair) == []


def test_if_different_people_contradict_each_other_both_stand():
    assert found("contradicts", (statement(1), statement(2, by=BO))) == []
    assert found("contradicts", (statement(1), statement(2))) == [(1, 2)]


def test_the_person_concerned_knows_better_than_others_and_people_better_than_agents():
    own, others, agents = (statement(n, by=by, standing=n) for n, by in ((3, ANA), (2, BO), (1, UUID(int=9))))
    assert found("contradicts", (others, own), (agents, others)) == [(1, 2), (2, 3)]
    for relation in ("replaces", "repeats", "contradicts"):
        assert found(relation, (own, statement(4, by=BO, standing=2))) == []
        assert found(relation, (others, statement(5, by=UUID(int=9), standing=1))) == []


def test_only_the_nearest_statements_are_compared():
    model = Scripted("replaces")
    fresh = statement(99, "apple")
    others = [statement(n, f"{'ab'[n % 2]}{n}") for n in range(1, 25)]
    pairs = superseding([[Comparison(earlier=one, later=fresh) for one in others]], model)
    assert len(model.read) == len(pairs) == 8
    assert {pair.earlier[0] for pair in model.read} == {"a"}


def test_a_chain_is_in_the_order_in_which_it_was_said():
    a, b, c = (statement(n) for n in (1, 2, 3))
    assert found("replaces", (a, c), (b, c), (a, b)) == [(1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("earlier", "later", "supersedes"),
    [
        ("I live in Porto, above the bakery.", "I moved to Braga, I don't live in Porto any more.", True),
        ("We deploy on Fridays.", "We no longer deploy on Fridays, only on Mondays.", True),
        ("The standup is at 10:00.", "We moved the standup to 9:30.", True),
        ("I prefer tea to coffee.", "I work at the harbour.", False),
        ("The spring concert is in the church.", "The summer concert is in the park.", False),
    ],
)
def test_the_shipped_model_tells_a_change_from_another_subject(earlier, later, supersedes):
    pair = Comparison(earlier=statement(1, earlier), later=statement(2, later))
    assert bool(superseding([[pair]], BundledRelations())) == supersedes


def test_every_kind_has_an_importance():
    assert set(DEFAULT_IMPORTANCE) == set(get_args(MemoryKind))
    assert all(1 <= weight <= 5 for weight in DEFAULT_IMPORTANCE.values())
