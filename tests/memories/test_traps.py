"""How precise the rules are on conversations written by hand, most of which are there to mislead them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from memories.chats import Case, cases, is_right
from roomlore.memories.rule_extractor import extract

PRECISION = 0.95
#: Of what is to be found, by whether the rules were written with an eye on it.
RECALL = {True: 0.93, False: 0.90}
#: Below this a category counts as forgotten; those named are hard on purpose or few.
RECALL_BY_CATEGORY = 0.6
HARDER = {"hard": 0.0, "correction": 0.5, "to_agents": 0.5, "pronouns": 0.5}


@dataclass(slots=True)
class Tally:
    found: int = 0
    right: int = 0
    expected: int = 0

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.expected if self.expected else 1.0


def tallied(some: Iterable[Case]) -> Mapping[str, Tally]:
    tallies: dict[str, Tally] = defaultdict(Tally)
    for case in some:
        left = list(case.expected)
        for statement in extract(case.said, case.people):
            right = next((one for one in left if is_right(statement, one, case)), None)
            if right is not None:
                left.remove(right)
            for tally in (tallies[case.category], tallies[""]):
                tally.found += 1
                tally.right += right is not None
        for tally in (tallies[case.category], tallies[""]):
            tally.expected += len(case.expected)
    return tallies


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "kept"])
def test_precision_and_recall_are_high(is_open):
    whole = tallied(case for case in cases() if case.is_open is is_open)[""]
    print(f"precision {whole.right}/{whole.found} = {whole.precision:.3f}")  # noqa: T201  shown with -s
    assert whole.precision >= PRECISION
    assert whole.recall >= RECALL[is_open]


def test_every_category_has_recall():
    forgotten = []
    for category, tally in sorted(tallied(cases()).items()):
        if tally.recall < HARDER.get(category, RECALL_BY_CATEGORY):
            forgotten.append(category)
    assert not forgotten


def test_misleading_cases_have_no_claims():
    misled = {
        case.id: [one.content for one in extract(case.said, case.people)]
        for case in cases()
        if not case.expected
    }
    wrong = {id_: found for id_, found in misled.items() if found}
    assert len(wrong) <= len(misled) * (1 - PRECISION), wrong
