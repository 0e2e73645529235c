"""Writes the trained answer model as an ONNX file: `python -m training.answer_export PACK FIRST SECOND OUT`.

The weights are a mean of those before and after the second part of the training, which keeps more of what the first part
learnt (Wortsman et al. 2022). PACK has the weights of the encoder, of which the table of places stays as it is.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from training.encoder_layers import LAYERS, WIDTH, Array, read_weights
from training.message_export import Graph, constants, layer_of, padding, save

_VERSION = "1"
#: The longest text is far shorter than the table of places.
PLACES = 128
#: The share of the second part in the mean.
SECOND_SHARE = 0.6


def mean(first: Mapping[str, Array], second: Mapping[str, Array]) -> dict[str, Array]:
    """Return the mean of two sets of weights."""
    return {
        name: (1 - SECOND_SHARE) * np.asarray(value, np.float32)
        + SECOND_SHARE * np.asarray(second[name], np.float32)
        for name, value in first.items()
    }


def write(weights: Mapping[str, Array], start: Mapping[str, Array], path: Path) -> None:
    """Write the model; `start` has the weights that were not trained."""
    graph = Graph()
    sizes = constants(graph)

    def norm(of: str) -> str:
        parts = (graph.keep(f"embedded/{part}", start[f"embedded/{part}"]) for part in ("scale", "bias"))
        return graph.add("LayerNormalization", of, *parts, axis=-1, epsilon=1e-12)

    places = graph.keep("place", (start["place"][:PLACES] + start["kind"]).astype(np.float32))
    rows = norm(graph.add("Add", "words", graph.add("Gather", places, "places")))
    segments = graph.keep("segments/weight", weights["segments"].astype(np.float32))
    rows = graph.add("Add", rows, graph.add("Gather", segments, "segments"))
    hidden = padding(graph, sizes)
    for layer in range(LAYERS - 1):
        rows = layer_of(graph, weights, layer, asking=rows, rows=rows, hidden=hidden, sizes=sizes)
    first = graph.add("Slice", rows, sizes["start"], sizes["end"], sizes["second"])
    asking = graph.add("Add", first, graph.keep("query", weights["query"].astype(np.float32)))
    read_out = layer_of(graph, weights, LAYERS - 1, asking=asking, rows=rows, hidden=hidden, sizes=sizes)
    weighed = graph.add("Mul", read_out, graph.keep("head/weight", weights["head/weight"].astype(np.float32)))
    last = graph.keep("last", np.array([1, 2], np.int64))
    summed = graph.add("ReduceSum", weighed, last, keepdims=0)
    graph.add("Add", summed, graph.keep("head/bias", weights["head/bias"].astype(np.float32)), name="scores")
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info("words", TensorProto.FLOAT, [*shape, WIDTH]),
        helper.make_tensor_value_info("places", TensorProto.INT64, shape),
        helper.make_tensor_value_info("segments", TensorProto.INT64, shape),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, shape),
    ]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["texts"])]
    save(graph, path, inputs=inputs, outputs=outputs, told={"version": _VERSION})


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    weights = mean(read_weights(options.first), read_weights(options.second))
    write(weights, read_weights(options.pack / "encoder.npz"), options.out)


if __name__ == "__main__":
    main()
