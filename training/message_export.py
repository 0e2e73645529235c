"""Writes the top layers and heads of the message model as an ONNX file with 8-bit weights."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from training.encoder_layers import ATTENTION_HEADS, WIDTH, Array, small
from training.message_network import LAYERS, QUERY_OF

_VERSION = "1"


class Graph:
    """Nodes and weights that are collected."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._count = 0

    def add(self, kind: str, *inputs: str, name: str | None = None, **settings: Any) -> str:
        """Add a node; return the name of its output."""
        self._count += 1
        out = name or f"v{self._count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **settings))
        return out

    def keep(self, name: str, value: Array) -> str:
        """Keep weights under a name; return the name."""
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def small(self, name: str, value: Array) -> str:
        """Keep a matrix with 8 bits, and a scale for each column; the runtime makes floats of it when it loads."""
        quantised, scale = small(value)
        parts = self.keep(f"{name}/8", quantised), self.keep(f"{name}/scale", scale)
        return self.add("DequantizeLinear", *parts, axis=1)


def write(weights: Mapping[str, Array], path: Path, *, told: Mapping[str, str]) -> None:
    """Write the model; `told` is what the runtime reads about it."""
    graph = Graph()
    sizes = constants(graph)
    segments = graph.keep("segments/weight", weights["segments"])
    rows = graph.add("Add", "states", graph.add("Gather", segments, "segments"))
    hidden = padding(graph, sizes)
    for layer in LAYERS[:-1]:
        rows = layer_of(graph, weights, layer, asking=rows, rows=rows, hidden=hidden, sizes=sizes)
    first = graph.add("Slice", rows, sizes["start"], sizes["end"], sizes["second"])
    asking = graph.add("Add", first, graph.keep("queries", weights["queries"]))
    read = layer_of(graph, weights, LAYERS[-1], asking=asking, rows=rows, hidden=hidden, sizes=sizes)
    chosen = graph.add("Gather", read, graph.keep("query_of", QUERY_OF.astype(np.int64)), axis=1)
    weighed = graph.add("Mul", chosen, graph.keep("heads/weight", weights["heads/weight"]))
    last = graph.keep("last", np.array([2], np.int64))
    summed = graph.add("ReduceSum", weighed, last, keepdims=0)
    graph.add("Add", summed, graph.keep("heads/bias", weights["heads/bias"]), name="outputs")
    inputs = [
        helper.make_tensor_value_info("states", TensorProto.FLOAT, ["texts", "tokens", WIDTH]),
        helper.make_tensor_value_info("segments", TensorProto.INT64, ["texts", "tokens"]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["texts", "tokens"]),
    ]
    outputs = [helper.make_tensor_value_info("outputs", TensorProto.FLOAT, ["texts", len(QUERY_OF)])]
    save(graph, path, inputs=inputs, outputs=outputs, told={"version": _VERSION, **told})


def save(
    graph: Graph, path: Path, *, inputs: Sequence[Any], outputs: Sequence[Any], told: Mapping[str, str]
) -> None:
    """Write a graph as a model; `told` and a digest become its metadata."""
    model = helper.make_model(
        helper.make_graph(graph.nodes, path.stem, inputs, outputs, graph.weights),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    checker.check_model(model)
    digest = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:16]
    helper.set_model_props(model, {"digest": digest, **told})
    path.write_bytes(model.SerializeToString(deterministic=True))


def constants(graph: Graph) -> dict[str, str]:
    """Keep the shapes that layers need; return their names."""
    return {
        name: graph.keep(name, np.array(value, np.int64))
        for name, value in {
            "split": [0, 0, ATTENTION_HEADS, -1],
            "join": [0, 0, WIDTH],
            "start": [0],
            "end": [1],
            "second": [1],
            "near": [1, 2],
        }.items()
    }


def padding(graph: Graph, sizes: Mapping[str, str]) -> str:
    """Return what is added to the attention, so that no token attends to padding."""
    one, far = graph.keep("one", np.float32(1).reshape(1)), graph.keep("far", np.float32(1e9).reshape(1))
    hidden = graph.add("Mul", graph.add("Sub", "mask", one), far)
    return graph.add("Unsqueeze", hidden, sizes["near"])


def layer_of(
    graph: Graph,
    weights: Mapping[str, Array],
    layer: int,
    *,
    asking: str,
    rows: str,
    hidden: str,
    sizes: Mapping[str, str],
) -> str:
    """Add one layer of the encoder; return the name of its output."""

    def linear(part: str, of: str, factor: float = 1.0) -> str:
        name = f"{layer}/{part}"
        weight = graph.small(name, weights[f"{name}/weight"] * np.float32(factor))
        bias = graph.keep(f"{name}/bias", weights[f"{name}/bias"] * np.float32(factor))
        return graph.add("Add", graph.add("MatMul", of, weight), bias)

    def heads(of: str, order: Sequence[int]) -> str:
        return graph.add("Transpose", graph.add("Reshape", of, sizes["split"]), perm=order)

    def norm(part: str, of: str) -> str:
        parts = (
            graph.keep(f"{layer}/{part}/{name}", weights[f"{layer}/{part}/{name}"])
            for name in ("scale", "bias")
        )
        return graph.add("LayerNormalization", of, *parts, axis=-1, epsilon=1e-12)

    query = heads(linear("query", asking, (ATTENTION_HEADS / WIDTH) ** 0.5), (0, 2, 1, 3))
    key = heads(linear("key", rows), (0, 2, 3, 1))
    value = heads(linear("value", rows), (0, 2, 1, 3))
    shares = graph.add("Softmax", graph.add("Add", graph.add("MatMul", query, key), hidden), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, value), perm=(0, 2, 1, 3))
    mixed = linear("out", graph.add("Reshape", mixed, sizes["join"]))
    asking = norm("norm_1", graph.add("Add", asking, mixed))
    inner = linear("down", graph.add("Gelu", linear("up", asking)))
    return norm("norm_2", graph.add("Add", asking, inner))
