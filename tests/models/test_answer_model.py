"""The answer model: what it reads, that candidates do not touch each other, and files that it refuses."""

from pathlib import Path

import onnxruntime
import pytest

import roomlore.models
from roomlore.domain.errors import ModelUnavailable
from roomlore.models.answer_model import AnswerModel, CandidateAnswer
from roomlore.models.local_embedding import LocalEmbedder

WEIGHTS = Path(roomlore.models.__file__).parent / "answer_model.onnx"
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


def test_a_score_depends_on_its_own_texts_alone(model: AnswerModel):
    together = model.scores(QUESTION, CANDIDATES)
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


def test_a_broken_or_missing_file_is_reported(local: LocalEmbedder, tmp_path: Path):
    file = tmp_path / "weights.onnx"
    with pytest.raises(ModelUnavailable, match="is missing"):
        AnswerModel.load(local, file=file)
    file.write_bytes(b"junk")
    with pytest.raises(ModelUnavailable, match="does not load"):
        AnswerModel.load(local, file=file)


def test_weights_of_another_version_are_refused(local: LocalEmbedder, tmp_path: Path):
    file = tmp_path / "weights.onnx"
    content = WEIGHTS.read_bytes()
    version = onnxruntime.InferenceSession(content).get_modelmeta().custom_metadata_map["version"]
    mark = b"\x0a\x07version\x12\x01"
    assert content.count(mark + version.encode()) == 1
    file.write_bytes(content.replace(mark + version.encode(), mark + b"9"))
    with pytest.raises(ModelUnavailable, match="another version"):
        AnswerModel.load(local, file=file)
