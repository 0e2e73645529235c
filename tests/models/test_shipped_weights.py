"""Files with weights that are refused, for each model that the program ships."""

from pathlib import Path

import pytest

import roomlore.models
from roomlore.domain.errors import ModelUnavailable
from roomlore.models.answer_model import AnswerModel
from roomlore.models.local_embedding import LocalEmbedder
from roomlore.models.message_model import MessageModel

WEIGHTS = Path(roomlore.models.__file__).parent
MODELS = [(MessageModel, "message_model.onnx"), (AnswerModel, "answer_model.onnx")]
pytestmark = pytest.mark.parametrize(("kind", "name"), MODELS, ids=[name for _, name in MODELS])

Kind = type[MessageModel] | type[AnswerModel]


def test_a_broken_file_is_reported(kind: Kind, name: str, local: LocalEmbedder, tmp_path: Path):
    path = tmp_path / "weights.onnx"
    for content in (b"", b"junk", (WEIGHTS / name).read_bytes()[:4_000]):
        path.write_bytes(content)
        with pytest.raises(ModelUnavailable, match=r"weights\.onnx"):
            kind.load(local, file=path)


def test_a_file_of_another_version_is_refused(kind: Kind, name: str, local: LocalEmbedder, tmp_path: Path):
    path = tmp_path / "weights.onnx"
    # The properties of a model follow each other; the last of a name counts.
    path.write_bytes((WEIGHTS / name).read_bytes() + b"\x72\x0c\x0a\x07version\x12\x019")
    with pytest.raises(ModelUnavailable, match="version") as caught:
        kind.load(local, file=path)
    assert "reinstall" in caught.value.cure


def test_a_missing_file_is_reported(kind: Kind, name: str, local: LocalEmbedder, tmp_path: Path):
    with pytest.raises(ModelUnavailable, match=f"{name} is missing"):
        kind.load(local, file=tmp_path / name)
