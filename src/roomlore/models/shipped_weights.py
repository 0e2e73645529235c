"""Loads the models whose weights are part of this program."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from roomlore.domain.errors import ModelUnavailable
from roomlore.models.local_embedding import Session, open_session

Model = TypeVar("Model")

_CURE = "reinstall roomlore"


def load_weights(file: Path, *, version: str, build: Callable[[Session, Mapping[str, str]], Model]) -> Model:
    """Return the model that `build` makes of an ONNX file.

    Args:
        file: The weights.
        version: The version of the format that this program reads.
        build: Gets the opened file and its metadata.

    Raises:
        ModelUnavailable: The weights are missing, damaged or of another version.
    """
    if not file.is_file():
        raise ModelUnavailable(f"{file} is missing", cure=_CURE)
    try:
        session = open_session(file.read_bytes())
        metadata = cast("dict[str, str]", session.get_modelmeta().custom_metadata_map)
        model = build(session, metadata) if metadata.get("version") == version else None
    except ModelUnavailable:
        raise
    except Exception as error:  # onnxruntime raises nothing narrower for a bad file
        raise ModelUnavailable(f"{file} does not load ({error})", cure=_CURE) from error
    if model is None:
        raise ModelUnavailable(f"{file.name} is of another version than this program", cure=_CURE)
    return model
