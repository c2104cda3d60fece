"""Saved model: a fitted model as a folder of two files, safetensors and JSON, checked when it is read.

DIR/model.json          settings, ids, history, and the SHA-256 of both files
DIR/model.safetensors   vectors, weights, frame, and what new nodes need of the known ones
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.config import Config
from l2g2g.errors import InputError
from l2g2g.fitted import Fitted, make_autoencoder
from l2g2g.graphs.node_ids import as_node_ids
from l2g2g.graphs.write import write_text, write_whole
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.known_rows import KnownRows
from l2g2g.models.structure import StructureMap
from l2g2g.training.state import History, read_history

FORMAT, _WITHOUT_INPUTS = "l2g2g model 3", "l2g2g model 1"
_MANIFEST, _TENSORS = "model.json", "model.safetensors"
ESTIMATORS = {
    "gae": "GAE",
    "vgae": "VGAE",
    "fastgae": "FastGAE",
    "gae+l2g": "GAEL2G",
    "l2g2g": "L2G2G",
    "vl2g2g": "VL2G2G",
}
_KNOWN = ("nodes", "offsets", "degrees", "node_degrees")
_PLACES = ("known.nodes", "known.offsets")
_FRAME = ("rotations", "translations", "scales")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a folder holds.

    Attributes:
        estimator, parameters: Name of the class and how it was made; None where the config says it all.
        config: The settings as they were used.
        embedding: (num_nodes, dim) the published vectors.
        node_ids: (num_nodes,) ids of the rows, or None.
        history: How training went.
        fitted: What new nodes need; None in folders of the first format, which did not hold it.
    """

    estimator: str
    parameters: dict[str, Any] | None
    config: Config
    embedding: np.ndarray
    node_ids: np.ndarray | None
    history: History
    fitted: Fitted | None

    def for_new_nodes(self) -> Fitted:
        """What new nodes need, which must be there."""
        if self.fitted is None:
            raise InputError("the model was saved by an older version, without what new nodes need; fit it anew")
        return self.fitted


def write_model(folder: Path, saved: SavedModel) -> None:
    """Write a model that can embed new nodes."""
    if saved.fitted is None:
        raise InputError(f"{folder}: a model of '{_WITHOUT_INPUTS}' cannot be saved again; fit it anew")
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"embedding": torch.from_numpy(saved.embedding), **_fitted_tensors(saved.fitted)}
    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def write(file: Path) -> None:
        save_file(held, file)
        file.chmod(0o644)  # for whom a run is for, its JSON is readable too

    write_whole(folder / _TENSORS, write)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "estimator": saved.estimator,
        "parameters": saved.parameters,
        "config": saved.config.to_dict(),
        "inputs": _input_values(saved.fitted.inputs),
        "node_ids": None if saved.node_ids is None else saved.node_ids.tolist(),
        "history": asdict(saved.history),
        "files": {_TENSORS: _digest_file(folder / _TENSORS)},
    }
    manifest["sha256"] = _digest(manifest)
    write_text(folder / _MANIFEST, json.dumps(manifest))


def read_model(folder: Path) -> SavedModel:
    """Read what `write_model` wrote; also the first format, without what new nodes need."""
    manifest, tensors = _read_files(folder)
    try:
        config, ids = Config(**manifest["config"]), manifest["node_ids"]
        vectors = tensors["embedding"].float().numpy()
        node_ids = None if ids is None else as_node_ids(list(ids), str(folder))
        fitted = _read_fitted(config, manifest["inputs"], tensors) if manifest["format"] == FORMAT else None
        saved = SavedModel(
            str(manifest["estimator"]),
            None if manifest["parameters"] is None else dict(manifest["parameters"]),
            config,
            vectors,
            node_ids,
            read_history(manifest["history"]),
            fitted,
        )
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).splitlines()[0] if str(error) else ""
        raise InputError(f"{folder}: is not a model that was saved here ({type(error).__name__}: {reason})") from error
    num_nodes = len(vectors) if ids is None else len(ids)
    fits = vectors.ndim == 2 and len(vectors) == num_nodes == (num_nodes if fitted is None else fitted.known.num_nodes)
    if not fits or not np.isfinite(vectors).all():
        raise InputError(f"{folder}: its vectors do not fit its nodes; fetch or save it again")
    return saved


def _read_files(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest and the tensors of a folder, both as they were written."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict):
            raise InputError(f"{folder}: {_MANIFEST} holds no JSON object; fetch or save it again")
        if manifest.get("format") not in (FORMAT, _WITHOUT_INPUTS):
            raise InputError(f"{folder}: saved as '{manifest.get('format')}', this version reads '{FORMAT}'")
        if manifest["format"] == FORMAT:
            if manifest.pop("sha256", None) != _digest(manifest):
                raise InputError(f"{folder}: {_MANIFEST} is damaged (its checksum differs); fetch or save it again")
            if manifest["files"][_TENSORS] != _digest_file(folder / _TENSORS):
                raise InputError(f"{folder}: {_TENSORS} is damaged (its checksum differs); fetch or save it again")
        return manifest, load_file(folder / _TENSORS)
    except (FileNotFoundError, NotADirectoryError) as error:
        name = Path(str(error.filename)).name
        raise InputError(f"{folder}: no saved model here (no {name}); embed with --run-dir, or save a model") from error
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: the saved model is damaged ({error}); fetch or save it again") from error


def _fitted_tensors(fitted: Fitted) -> dict[str, Tensor]:
    known, inputs = fitted.known, fitted.inputs
    tensors = {f"model.{name}": value for name, value in fitted.model.state_dict().items()}
    tensors |= {f"frame.{name}": getattr(fitted.frame, name) for name in _FRAME}
    tensors |= {f"known.{name}": torch.from_numpy(getattr(known, name)) for name in _KNOWN}
    tensors |= {f"known.layers.{place}": layer for place, layer in enumerate(known.layers)}
    arrays: dict[str, np.ndarray | None] = {"inputs.centre": inputs.centre, "inputs.projection": inputs.projection}
    if inputs.structure is not None:
        arrays |= {"inputs.columns": inputs.structure.columns, "inputs.eigenvalues": inputs.structure.eigenvalues}
    return tensors | {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}


def _input_values(inputs: InputMap) -> dict[str, Any]:
    structure = inputs.structure
    return {
        "num_features": inputs.num_features,
        "scaling": inputs.scaling,
        "structure_factor": inputs.structure_factor,
        "structure_only": inputs.structure_only,
        "row_power": inputs.row_power,
        "degree_mean": None if structure is None else structure.degree_mean,
        "degree_spread": None if structure is None else structure.degree_spread,
    }


def _read_fitted(config: Config, values: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    """Put a model together; KeyError, TypeError, ValueError or RuntimeError where a part is missing or does not fit."""
    tensors = {name: value if name in _PLACES else value.float() for name, value in tensors.items()}
    arrays = {name: value.numpy() for name, value in tensors.items() if name.startswith(("inputs.", "known."))}
    structure = None
    if "inputs.columns" in arrays:
        numbers = float(values["degree_mean"]), float(values["degree_spread"])
        structure = StructureMap(arrays["inputs.columns"], arrays["inputs.eigenvalues"], *numbers)
    inputs = InputMap(
        int(values["num_features"]),
        values["scaling"],
        arrays.get("inputs.centre"),
        arrays.get("inputs.projection"),
        structure,
        float(values["structure_factor"]),
        bool(values["structure_only"]),
        float(values["row_power"]),
    )
    model = _read_weights(config, inputs.num_columns, tensors)
    layers = [tensors[f"known.layers.{place}"] for place in range(config.layers)]
    known = KnownRows(**{name: arrays[f"known.{name}"] for name in _KNOWN}, layers=layers)
    frame = Frame(*(tensors[f"frame.{name}"] for name in _FRAME))
    _check_parts(config, model, inputs, known, frame)
    return Fitted(config, model.eval(), inputs, known, frame)


def _read_weights(config: Config, num_columns: int, tensors: dict[str, Tensor]) -> Autoencoder:
    """The model of some settings with the weights of a file; nothing is made that the file does not hold."""
    state = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    if "bias" in state:  # where the inner product had its bias before it was a decoder like the others
        state["decoder.bias"] = state.pop("bias")
    encoders = {int(name.split(".")[1]) for name in state if name.startswith("encoders.")}
    if encoders != set(range(len(encoders))) or config.layers > len(state):
        raise ValueError(f"{len(state)} weights of {len(encoders)} encoders with {config.layers} layers")
    mean = state.get("encoders.0.feature_mean")
    if mean is not None and mean.shape != (num_columns,):
        raise ValueError(f"a mean of shape {tuple(mean.shape)} for {num_columns} columns")
    with torch.device("meta"):  # shapes only
        model = make_autoencoder(config, num_columns, len(encoders), mean)
    model.load_state_dict(state, assign=True)
    return model


def _check_parts(config: Config, model: Autoencoder, inputs: InputMap, known: KnownRows, frame: Frame) -> None:
    """Parts that belong together have shapes that fit, and numbers that are places are places that exist."""
    dim, nodes, offsets = config.dim, known.nodes, known.offsets
    rows, patches, structure = len(nodes), known.num_patches, inputs.structure
    columns = np.zeros((known.num_nodes, 1)) if structure is None else structure.columns
    weights = list(model.encoder_of(0).weights)
    widths = [weights[min(place, len(weights) - 1)].shape[1] for place in range(config.layers)]
    for fits, what in (
        (frame.rotations.shape == (patches, dim, dim), "rotations"),
        (frame.translations.shape == (patches, dim) and frame.scales.shape == (patches,), "translations or scales"),
        (model.shares_encoder or len(model.encoders) == patches, "encoders"),
        (nodes.dtype == offsets.dtype == np.int64, "places"),
        (offsets.ndim == 1 and offsets[0] == 0 and offsets[-1] == rows and (np.diff(offsets) > 0).all(), "patches"),
        (nodes.ndim == 1 and rows > 0 and nodes.min() >= 0 and nodes.max() < known.num_nodes, "nodes of patches"),
        (known.degrees.shape == (rows,) and known.node_degrees.ndim == 1, "degrees"),
        (all((part >= 1).all() for part in (known.degrees, known.node_degrees)), "degrees"),  # a node counts itself
        ([layer.shape for layer in known.layers] == [(rows, width) for width in widths], "states of known nodes"),
        (columns.ndim == 2 and len(columns) == known.num_nodes, "structural columns"),
        (structure is None or structure.eigenvalues.shape == (columns.shape[1] - 1,), "eigenvalues"),
        (inputs.centre is None or inputs.centre.shape == (inputs.num_features,), "centre"),
        (inputs.projection is None or inputs.projection.shape[0] == inputs.num_features, "projection"),
    ):
        if not fits:
            raise ValueError(f"{what} that do not fit")


def _digest(manifest: dict[str, Any]) -> str:
    """The same before writing and after reading."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _digest_file(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}
