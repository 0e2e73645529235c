"""The answer model: what it reads, and that candidates do not touch each other."""

from types import SimpleNamespace

import pytest

from roomlore.domain.errors import ModelUnavailable
from roomlore.models.answer_model import AnswerModel, CandidateAnswer
from roomlore.models.local_embedding import LocalEmbedder

QUESTION = "when does the ferry to Lund leave?"
CANDIDATES = [
    CandidateAnswer(text="Ana: at noon", before=("Bo: when does the ferry to Lund leave?",)),
    CandidateAnswer(text="Bo: when does the ferry to Lund leave?"),
    CandidateAnswer(text="Ana: the ferry to Lund was cold and full of children " + "and wind " * 80),
    CandidateAnswer(text="", before=("", "", "never read")),
]


@pytest.fixture(scope="module")
def model(local: LocalEmbedder) -> AnswerModel:
    return AnswerModel.load(local)


def test_a_score_depends_on_its_own_texts_alone(model: AnswerModel, monkeypatch):
    together = model.scores(QUESTION, CANDIDATES)
    monkeypatch.setattr(model, "_recent", SimpleNamespace(of=model._scores))
    alone = [float(model.scores(QUESTION, [one])[0]) for one in CANDIDATES]
    assert together == pytest.approx(alone, abs=1e-3)


def test_no_candidates_have_no_scores(model: AnswerModel):
    assert len(model.scores(QUESTION, [])) == 0


def test_what_answers_beats_what_asks_the_same(model: AnswerModel):
    answer, same, *_ = model.scores(QUESTION, CANDIDATES)
    assert answer > same


def test_the_author_of_a_message_is_read(model: AnswerModel):
    said = [CandidateAnswer(text=f"{name}: I voted for the blue one") for name in ("Ana", "Bo")]
    ana, bo = model.scores("what did Ana vote for?", said)
    assert ana > bo
    ana, bo = model.scores("what did Bo vote for?", said)
    assert bo > ana


def test_another_embedding_model_is_refused(local: LocalEmbedder, monkeypatch):
    monkeypatch.setattr(local, "_has_states", False)
    with pytest.raises(ModelUnavailable, match="cannot read the words"):
        AnswerModel.load(local).scores(QUESTION, CANDIDATES)
